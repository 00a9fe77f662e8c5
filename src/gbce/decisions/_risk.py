"""Shared tools of rules under execution noise: success rates, sequential tests under fresh noise, and proposals."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from gbce._numerics import ROUNDING, WIDE_ROUNDING
from gbce.base import Array, Rule
from gbce.budget import BudgetSpentError
from gbce.draws import Scene
from gbce.metrics import Noise, evaluate_under_noise, offsets
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.search import StepsFromRow

# All of these were chosen by hand.
_MAX_TRIALS = 8  # failures after which the required probability is considered unattainable
# Interim analyses of a trial: the share of its copies and the share of its risk spent at each. A candidate well above
# the required probability passes early; one that would have to gain more than _FUTILITY_SE standard errors is dropped.
_STAGES = ((0.25, 0.05), (0.5, 0.15), (1.0, 0.8))
_LAST_RISK = _STAGES[-1][1]
_FUTILITY_SE = 2.5
# Proposals. On the cases of benchmarks/races.py, moving all features at once, or a single one half of the time, gained
# about as much.
_EVERY_BACK = 3  # every third proposal goes towards the row
_LENGTHS = np.array([0.25, 0.5, 1.0])  # of the difference of two good candidates, or of the way to the row
_MOVING = 0.5  # share of the free features that move in a proposal, at least one
_PARTS = np.array([0.5, 0.7, 0.8, 0.9, 0.95])  # factors by which all changes together are shrunk

# --- success under execution noise -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnderNoise:
    """Points evaluated under execution noise, by the first model only or by all of them."""

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
        """Return success rates ``(k,)`` of points under the same offsets, models weighted."""
        return self.successes(x, shifts).mean(axis=1)

    def successes(self, x: Array, shifts: Array) -> Array:
        """Return successes ``(k, n)`` of points under the same offsets; with several models, their weighted share."""
        reached = self.evaluate(x, shifts).reached
        return reached[:, :, 0].astype(float) if self.first_only else reached @ self.scene.mixture.weights


def count_affordable(posterior: GibbsPosterior, most: int, rows_each: int) -> int:
    """Return how many candidates of ``rows_each`` model rows the budget allows, up to ``most``."""
    n = posterior.affords(most * rows_each) // rows_each
    if n == 0:
        raise BudgetSpentError(f"one candidate takes {rows_each} model rows: raise max_model_rows or time_budget")
    return n


def tail_mean(loss: Array, tau: float, weights: Array | None = None) -> Array:
    """Return the mean of losses ``(k, n)`` from their tau-quantile on, weighted by ``(n,)``: ``(k,)``."""
    weights = np.ones(loss.shape[1]) if weights is None else weights
    loss, weights = loss[:, weights > 0], weights[weights > 0]
    if (weights == weights[:1]).all():  # equal weights need no reordering
        ordered, weight = np.sort(np.ascontiguousarray(loss), axis=1, kind="stable"), weights[None, :]
    else:
        order = np.argsort(loss, axis=1, kind="stable")
        ordered, weight = np.take_along_axis(loss, order, axis=1), weights[order]
    place = (np.cumsum(weight, axis=1) < tau * weights.sum() - WIDE_ROUNDING).sum(axis=1)
    var = np.take_along_axis(ordered, np.minimum(place, loss.shape[1] - 1)[:, None], axis=1)
    weight = np.where(ordered >= var, weight, 0.0)
    return (np.where(weight > 0, ordered, 0.0) * weight).sum(axis=1) / weight.sum(axis=1)


def pick_draws(scene: Scene, most: int, where: Array | None = None, weight: Array | None = None) -> Array:
    """Sample positions of at most ``most`` distinct draws, or of ``where``, in proportion to their weights."""
    if where is None or weight is None:
        where, weight = scene.draws.distinct
    if len(where) <= most:
        return where
    # weighted sampling without replacement (Efraimidis and Spirakis, 2006)
    keys = np.log(scene.rng.random(len(where))) / weight
    return np.sort(where[np.argsort(-keys, kind="stable")[:most]])


def require_across(rule: Rule, default: str) -> None:
    """Refuse a value of ``across`` other than the default and ``'models'``."""
    across = getattr(rule, "across", None)
    if across not in (default, "models"):
        raise ValueError(f"{type(rule).__name__}: across must be {default!r} or 'models', not {across!r}")


def require_switch(rule: Rule, *names: str) -> None:
    """Refuse options that are not Boolean."""
    for name in names:
        value = getattr(rule, name)
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{type(rule).__name__}: {name} must be True or False, not {value!r}")


# --- trials under fresh noise ----------------------------------------------------------------------------------------


@dataclass
class Trials:
    """Sequential tests of candidates, each under fresh noise.

    Any candidate that falls short is accepted with probability ``risk`` at most: the first trial spends half of it, the
    next half of the rest. ``success(candidate, n)`` returns the share of successes, and how many the budget allowed.
    """

    success: Callable[[int, int], tuple[float, int]]
    probability: float
    risk: float
    copies: int
    done: int = 0
    lift: float = 0.0

    @property
    def enough(self) -> float:
        """The lower bound that a trial must show: the required probability, or the most that the first one can show."""
        return min(self.probability, lower_bound(1.0, self.copies, _LAST_RISK * 0.5 * self.risk))

    @property
    def possible(self) -> bool:
        """Whether another trial is left that could pass if every copy succeeded."""
        return self.done < _MAX_TRIALS and (
            lower_bound(1.0, self.copies, _LAST_RISK * self.risk / 2 ** (self.done + 1)) >= self.enough
        )

    @property
    def worth(self) -> float:
        """The success rate in screening from which a candidate is worth a trial."""
        p = self.probability
        error = float(np.sqrt(p * (1 - p) / self.copies))
        return min(p - float(ndtri(self.risk / 2 ** (self.done + 1))) * error + self.lift, 1.0) - ROUNDING

    def find_holding(self, candidates: Array, shares: Array) -> int | None:
        """Run trials of candidates in order, skipping those whose screening ``shares`` are too low."""
        for candidate, share in zip(candidates.tolist(), shares.tolist(), strict=True):
            if self.done == _MAX_TRIALS:
                break
            if share < self.worth:
                continue
            self.done += 1
            holds, fresh = self._run_trial(candidate, self.risk / 2**self.done)
            if holds:
                return int(candidate)
            self.lift = max(self.lift, share - fresh)
        return None

    def _run_trial(self, candidate: int, risk: float) -> tuple[bool, float]:
        """Return whether a candidate passes one trial, and its success rate there."""
        share, n = 0.0, 0
        for part, spent in _STAGES:
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
            at_best = min(share + _FUTILITY_SE * float(np.sqrt(max(share * (1 - share), 1 / n) / n)), 1.0)
            if last or lower_bound(at_best, self.copies, risk) < self.enough:
                break
        return False, share


def lower_bound(share: float, n: float, risk: float) -> float:
    """Return the lower confidence bound of a probability after a ``share`` of ``n`` successes, at level ``risk``."""
    k = n if share > 1.0 - ROUNDING else share * n  # a sum of weights may miss one by rounding
    return float(betaincinv(k, n - k + 1, risk)) if k > 0 else 0.0


# --- proposals -------------------------------------------------------------------------------------------------------


def propose_around(scene: Scene, posterior: GibbsPosterior, x: Array, population: Array, n: int, size: float) -> Array:
    """Propose at most ``n`` admissible points ``(k, d)`` around ``x`` ``(d,)``, none dearer than the ``population``."""
    # fractions of the difference of two members (differential evolution; Storn and Price, 1997) have the lengths and
    # directions of the region of good candidates; a category takes the level of one of them
    rng, space, free, x0 = scene.rng, scene.space, scene.free, scene.x0
    if len(free) == 0 or len(population) == 0:
        return np.zeros((0, len(x)))
    one, other = population[rng.integers(len(population), size=(2, n))][:, :, free]
    back = np.arange(n)[:, None] % _EVERY_BACK == 0
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
    return rows[posterior.prior.cost(rows) <= posterior.prior.cost(population).max()] if len(rows) else rows


def propose_nearer(
    scene: Scene, x: Array, n: int, cost: Callable[[Array], Array], tidy: Callable[[Array], Array]
) -> Array:
    """Propose at most ``n`` admissible ``tidy`` points ``(k, d)`` cheaper than ``x`` ``(d,)``, the cheapest first."""
    space, x0 = scene.space, scene.x0
    limits = np.column_stack(space.limits(x0))
    steps = StepsFromRow(space, x0, {int(j): limits[j] for j in scene.free})
    with np.errstate(invalid="ignore"):
        shrunk = x0 + _PARTS[:, None] * (x - x0)
    shrunk = space.project(np.where(space.unordered | np.isnan(shrunk), x, shrunk), x0)
    shrunk = shrunk[space.admissible(shrunk, x0)]
    rows = tidy(np.vstack([steps.draw_back(x[None, :]).x, steps.exchange(x[None, :]), shrunk]))
    rows = np.unique(rows, axis=0)
    price = cost(rows)
    nearer = np.flatnonzero(price < cost(x[None, :]))
    nearer = nearer[np.argsort(price[nearer], kind="stable")]
    return rows[thin_out(nearer, n)]


def thin_out(which: Array, n: int) -> Array:
    """Return at most ``n`` of ``which``, evenly spaced, including the first."""
    return which if len(which) <= n else which[np.arange(n) * len(which) // n]
