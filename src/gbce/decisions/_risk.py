"""Trials under fresh noise: a promise about a point must hold under noise that had no part in choosing it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from gbce._numerics import SHARE_ROUNDING, WEIGHT_ROUNDING
from gbce.base import Array, Rule
from gbce.budget import BudgetSpentError
from gbce.draws import Scene
from gbce.metrics import Noise, evaluate_under_noise, offsets
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.search import StepsFromRow

__all__ = [
    "Trials",
    "UnderNoise",
    "count_affordable",
    "lower_bound",
    "pick_draws",
    "propose_around",
    "propose_nearer",
    "require_across",
    "require_switch",
    "tail_mean",
    "thin_out",
]

# --- what rules under execution noise share --------------------------------------------------------------------------


@dataclass(frozen=True)
class UnderNoise:
    """Points under execution noise.

    Parameters
    ----------
    scene : Scene
        What was asked; its stream of randomness gives the offsets.
    posterior : GibbsPosterior
        With the models.
    noise : number, sequence, mapping or function, optional
        Of a rule; the evaluation's where it is left open.
    first_only : bool
        Whether only the first model is asked.
    """

    scene: Scene
    posterior: GibbsPosterior
    noise: Noise | None
    first_only: bool = False

    def draw_offsets(self, n: int) -> Array:
        """Draw ``n`` offsets ``(n, d)``."""
        noise = self.scene.noise if self.noise is None else self.noise
        return offsets(noise, self.scene.space, self.scene.rng, n)

    def evaluate(self, x: Array, shifts: Array) -> Evaluated:
        """Evaluate points ``(k, d)`` under the same offsets ``(n, d)``: arrays ``(k, n, K)``, in few model calls."""
        return evaluate_under_noise(self.posterior, self.scene.space, x, shifts, first_only=self.first_only)

    def success(self, x: Array, shifts: Array) -> Array:
        """Return the share of successes ``(k,)`` of points under the same offsets, models with their weights."""
        return self.successes(x, shifts).mean(axis=1)

    def successes(self, x: Array, shifts: Array) -> Array:
        """Return the success ``(k, n)`` of points under the same offsets: of several models, the share of them."""
        reached = self.evaluate(x, shifts).reached
        return reached[:, :, 0].astype(float) if self.first_only else reached @ self.scene.mixture.weights


def count_affordable(posterior: GibbsPosterior, most: int, rows_each: int) -> int:
    """Return how many candidates the budget allows, up to ``most``."""
    n = posterior.affords(most * rows_each) // rows_each
    if n == 0:
        raise BudgetSpentError(f"one candidate takes {rows_each} model rows: raise max_model_rows or time_budget")
    return n


def tail_mean(loss: Array, tau: float, weights: Array | None = None) -> Array:
    """Mean of the losses ``(k, n)`` at or above their tau-quantile, with weights ``(n,)`` if they differ: ``(k,)``.

    The quantile is the smallest loss with at least a share ``tau`` of the weights at or below it.
    """
    weights = np.ones(loss.shape[1]) if weights is None else weights
    loss, weights = loss[:, weights > 0], weights[weights > 0]
    if (weights == weights[:1]).all():  # in any order they are the same
        ordered, weight = np.sort(np.ascontiguousarray(loss), axis=1, kind="stable"), weights[None, :]
    else:
        order = np.argsort(loss, axis=1, kind="stable")
        ordered, weight = np.take_along_axis(loss, order, axis=1), weights[order]
    place = (np.cumsum(weight, axis=1) < tau * weights.sum() - SHARE_ROUNDING).sum(axis=1)
    var = np.take_along_axis(ordered, np.minimum(place, loss.shape[1] - 1)[:, None], axis=1)
    weight = np.where(ordered >= var, weight, 0.0)
    return (np.where(weight > 0, ordered, 0.0) * weight).sum(axis=1) / weight.sum(axis=1)


def pick_draws(scene: Scene, most: int, where: Array | None = None, weight: Array | None = None) -> Array:
    """Pool positions of at most ``most`` distinct draws, or of ``where``, at random in proportion to their weights."""
    if where is None or weight is None:
        where, weight = scene.draws.distinct
    if len(where) <= most:
        return where
    # Efraimidis and Spirakis (2006): sampling without replacement in proportion to the weights
    keys = np.log(scene.rng.random(len(where))) / weight
    return np.sort(where[np.argsort(-keys, kind="stable")[:most]])


def require_across(rule: Rule, default: str) -> None:
    """Refuse anything but the two ways in which a rule may look at several models."""
    across = getattr(rule, "across", None)
    if across not in (default, "models"):
        raise ValueError(f"{type(rule).__name__}: across must be {default!r} or 'models', not {across!r}")


def require_switch(rule: Rule, *names: str) -> None:
    """Refuse anything but true and false as the value of an option."""
    for name in names:
        value = getattr(rule, name)
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{type(rule).__name__}: {name} must be True or False, not {value!r}")


# --- trials under fresh noise ----------------------------------------------------------------------------------------

_MAX_TRIALS = 8  # chosen by hand: where so many failed, what is asked for is as good as unattainable
# A trial looks three times: after so many of its copies, each time for so much of its risk. One that is far above what
# is promised passes early; one that would have to gain more than so many standard errors in the rest is given up.
_LOOKS = ((0.25, 0.05), (0.5, 0.15), (1.0, 0.8))
_LAST_RISK = _LOOKS[-1][1]
_HOPELESS = 2.5


@dataclass
class Trials:
    """Tests of one candidate after another, each under noise of its own.

    All of them together accept a candidate that falls short with a probability of at most ``risk``: the first may err
    with half of that, the next with half of the rest, and so on.

    Parameters
    ----------
    success : function of one candidate and a number of copies
        Draws fresh noise and returns the share of successes under it, and of how many copies: fewer where a budget
        does not allow all.
    probability : float
        What is promised.
    risk : float
        Of accepting a candidate that falls short.
    copies : int
        Of a candidate in one trial, as far as a budget allows.
    """

    success: Callable[[int, int], tuple[float, int]]
    probability: float
    risk: float
    copies: int
    done: int = 0
    lift: float = 0.0

    @property
    def enough(self) -> float:
        """What a trial has to show: the probability that is promised, or as much as the first one can show at best."""
        return min(self.probability, lower_bound(1.0, self.copies, _LAST_RISK * 0.5 * self.risk))

    @property
    def possible(self) -> bool:
        """Whether another trial is left, and could show enough if every copy succeeded."""
        return self.done < _MAX_TRIALS and (
            lower_bound(1.0, self.copies, _LAST_RISK * self.risk / 2 ** (self.done + 1)) >= self.enough
        )

    @property
    def worth(self) -> float:
        """The least share in an earlier look that makes a candidate worth a trial."""
        p = self.probability
        error = float(np.sqrt(p * (1 - p) / self.copies))
        return min(p - float(ndtri(self.risk / 2 ** (self.done + 1))) * error + self.lift, 1.0) - WEIGHT_ROUNDING

    def first_to_hold(self, candidates: Array, shares: Array) -> int | None:
        """Try candidates in their order, if their ``shares`` in an earlier look are high enough.

        That look was under the same noise for all of them, so what a trial shows to be too high about one of its
        shares is too high about the next ones as well.
        """
        for candidate, share in zip(candidates.tolist(), shares.tolist(), strict=True):
            if self.done == _MAX_TRIALS:
                break
            if share < self.worth:
                continue
            self.done += 1
            holds, fresh = self._try(candidate, self.risk / 2**self.done)
            if holds:
                return int(candidate)
            self.lift = max(self.lift, share - fresh)
        return None

    def _try(self, candidate: int, risk: float) -> tuple[bool, float]:
        """Return whether a candidate passes one trial, and its share of successes there."""
        share, n = 0.0, 0
        for part, spent in _LOOKS:
            wanted = max(int(part * self.copies), 1) - n
            if wanted == 0:
                continue
            try:
                more, m = self.success(candidate, wanted)
            except BudgetSpentError:
                if n == 0:
                    raise
                more, m = 0.0, 0
            share, n = (share * n + more * m) / (n + m), n + m
            last = m < wanted or n == self.copies
            if lower_bound(share, n, (_LAST_RISK if last else spent) * risk) >= self.enough:
                return True, share
            at_best = min(share + _HOPELESS * float(np.sqrt(max(share * (1 - share), 1 / n) / n)), 1.0)
            if last or lower_bound(at_best, self.copies, risk) < self.enough:
                break
        return False, share


def lower_bound(share: float, n: int, risk: float) -> float:
    """Return what a probability exceeds, up to a ``risk``, if this share of ``n`` trials succeeded.

    Exact for yes and no (Clopper and Pearson, 1934); a share of successes in each trial varies less than that.
    """
    k = n if share > 1.0 - WEIGHT_ROUNDING else share * n  # a sum of weights may miss one by rounding
    return float(betaincinv(k, n - k + 1, risk)) if k > 0 else 0.0


# --- points beyond the draws -----------------------------------------------------------------------------------------

# Chosen by hand. On the cases of benchmarks/races.py, moving all features at once, or a single one half of the time,
# gained about as much.
_BACK = 3  # one of so many proposals goes towards the row
_LENGTHS = np.array([0.25, 0.5, 1.0])  # of a difference of two good candidates, or of the way to the row
_MOVING = 0.5  # of the free features, in each proposal, and at least one
_PARTS = np.array([0.5, 0.7, 0.8, 0.9, 0.95])  # of the way from the row that all changes together are drawn back to


def propose_around(scene: Scene, posterior: GibbsPosterior, x: Array, field: Array, n: int, size: float) -> Array:
    """Return at most ``n`` admissible points ``(k, d)`` around ``x`` ``(d,)``.

    Most differ from it by a part of what two good candidates differ by (differential evolution; Storn and Price,
    1997), so that steps have the lengths and the directions of the region where candidates are good; a category takes
    the level of one of them. The others are on the way to the row. None costs more than every one of the ``field``
    ``(m, d)``: what is better is sought among points as probable under the prior as the draws.
    """
    rng, space, free, x0 = scene.rng, scene.space, scene.free, scene.x0
    if len(free) == 0 or len(field) == 0:
        return np.zeros((0, len(x)))
    one, other = field[rng.integers(len(field), size=(2, n))][:, :, free]
    back = np.arange(n)[:, None] % _BACK == 0
    step = np.where(back, (x0 - x)[free], one - other) * rng.choice(_LENGTHS, size=(n, 1)) * size
    level = np.where(back, x0[free], one)
    moving = rng.random((n, len(free))) < _MOVING
    moving[np.arange(n), rng.integers(len(free), size=n)] = True
    to = np.where(space.unordered[free], level, x[free] + step)
    rows = np.tile(x, (n, 1))
    rows[:, free] = np.where(moving & ~np.isnan(to), to, x[free])
    rows = space.project(rows, x0)
    good = space.admissible(rows, x0) & space.changed(rows, x).any(axis=1)
    rows = np.unique(rows[good], axis=0)
    return rows[posterior.prior.cost(rows) <= posterior.prior.cost(field).max()] if len(rows) else rows


def propose_nearer(
    scene: Scene, x: Array, n: int, cost: Callable[[Array], Array], tidy: Callable[[Array], Array]
) -> Array:
    """Return at most ``n`` admissible points ``(k, d)`` that cost less than ``x`` ``(d,)``, the cheapest first.

    One change is drawn back, in part or altogether; or one is given up for going further with another; or all are drawn
    back in part. Of more than ``n`` such points some are taken that are much cheaper and some that are a little.
    Each is made ``tidy`` before its ``cost`` is compared.
    """
    space, x0 = scene.space, scene.x0
    limits = np.column_stack(space.limits(x0))
    steps = StepsFromRow(space, x0, {int(j): limits[j] for j in scene.free})
    with np.errstate(invalid="ignore"):
        drawn = x0 + _PARTS[:, None] * (x - x0)
    drawn = space.project(np.where(space.unordered | np.isnan(drawn), x, drawn), x0)
    drawn = drawn[space.admissible(drawn, x0)]
    rows = tidy(np.vstack([steps.draw_back(x[None, :]).x, steps.exchange(x[None, :]), drawn]))
    rows = np.unique(rows, axis=0)
    price = cost(rows)
    nearer = np.flatnonzero(price < cost(x[None, :]))
    nearer = nearer[np.argsort(price[nearer], kind="stable")]
    return rows[thin_out(nearer, n)]


def thin_out(which: Array, n: int) -> Array:
    """Return at most ``n`` of ``which``, evenly along their order, the first among them."""
    return which if len(which) <= n else which[np.arange(n) * len(which) // n]
