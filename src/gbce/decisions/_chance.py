"""Decisions for a recommendation that is carried out only approximately (Section 2.5.1 c of the paper)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gbce._numerics import SHARE_ROUNDING, first_of_least
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._trials import Trials
from gbce.draws import Scene
from gbce.metrics import Noise, evaluate_under_noise, offsets, require_noise
from gbce.posterior import GibbsPosterior
from gbce.space import Space

__all__ = ["CVaR", "ChanceConstrained"]

# How ChanceConstrained spends model rows. All four were chosen by hand; the trials keep the promise, whatever
# these are.
_FIRST_BLOCK = 50  # candidates in the first call; each later call takes as many as all before it and this many more
_PROMISING_AT_ONCE = 16  # promising ones that are looked at more closely in one call
_N_FALLBACKS = 20  # that are compared under n_confirm copies if none holds
_TRIAL_COPIES = 4  # times n_confirm: with fewer copies a candidate must exceed the promise by more to pass


@dataclass(frozen=True)
class CVaR(Rule):
    """The draw whose loss under execution noise is least in its worst cases.

    For each candidate the mean of the losses at or above their ``tau``-quantile is taken over perturbed copies, the
    same perturbations for every candidate. With several models the loss is the one their combination stands for,
    ``potential / eta``, or every model's own.

    Parameters
    ----------
    tau : float
        The upper ``1 - tau`` share counts.
    noise : number, sequence, mapping or function, optional
        Execution noise D_r, see :class:`gbce.Evaluation`, whose noise is used when left open.
    n_perturb : int
        Perturbed copies of each candidate.
    max_candidates : int
        Distinct draws that are tried, picked at random.
    across : {"combined", "models"}
        Over what the worst cases are taken: over perturbed copies, with the models combined to one loss; or over
        perturbed copies and models jointly, each model with its weight.

    Examples
    --------
    >>> CVaR(tau=0.95).label
    'CVaR(tau=0.95)'
    """

    asks_model: ClassVar[bool] = True

    tau: float = 0.9
    noise: Noise | None = None
    n_perturb: int = 64
    max_candidates: int = 800
    across: Literal["combined", "models"] = "combined"

    def __post_init__(self) -> None:
        _require_across(self, "combined")
        require_finite(self, "tau")
        if not 0 <= self.tau < 1:
            raise ValueError(f"CVaR: tau must be at least 0 and below 1, not {self.tau!r}")
        require_counts(self, "n_perturb", "max_candidates")

    def check_space(self, space: Space) -> None:
        """Refuse noise that does not fit the features."""
        require_noise(self.noise, space)

    def choose(self, scene: Scene) -> Choice:
        """Choose; ties go to the smaller distance from the row."""
        posterior = scene.model(self)
        candidates = pick_draws(scene, _count_affordable(posterior, self.max_candidates, self.n_perturb))
        x = scene.draws.pool.x[candidates]
        shifts = offsets(scene.noise if self.noise is None else self.noise, scene.space, scene.rng, self.n_perturb)
        loss = evaluate_under_noise(posterior, scene.space, x, shifts).loss
        if self.across == "models":
            weights = np.tile(scene.mixture.weights, self.n_perturb)
            risk = tail_mean(loss.reshape(len(x), -1), self.tau, weights / weights.sum())
        else:
            combined = scene.mixture.effective_loss(loss.reshape(-1, loss.shape[2])).reshape(loss.shape[:2])
            risk = tail_mean(combined, self.tau)
        return scene.pick(candidates[first_of_least(risk, scene.distance(x))])


@dataclass(frozen=True)
class ChanceConstrained(Rule):
    """The draw nearest to the row that reaches the target and still does so with the given probability under noise.

    Candidates are draws that reach the target as they are, by the first model's own decision. They are gone through
    from the nearest outwards. One that looks promising under a few perturbations and under many is tested under fresh
    ones, because the best of several noisy estimates is too good to be true: the lower confidence bound of its
    success must be the given probability or more.

    Parameters
    ----------
    probability : float
        Of reaching the target under noise.
    noise : number, sequence, mapping or function, optional
        Execution noise, as in :class:`CVaR`.
    n_perturb : int
        Perturbed copies of each candidate for a first look.
    n_confirm : int
        Further copies of each promising one; each trial draws four times as many fresh ones.
    max_candidates : int
        Distinct draws that are tried, picked at random.
    across : {"first", "models"}
        Whose verdicts count: the first model's; or those of all models on every copy, each with its weight.
    confidence : float
        That the chosen point keeps the promise, over all trials together.

    Notes
    -----
    If no candidate holds, the one that succeeds most often is chosen, and a note says so and how often it succeeds
    under noise that had no part in choosing it. Where no draw reaches the target as it is, other evaluated points that
    do are the candidates; where there are none of these either, all draws are, and the note says that, too.

    A probability of 1, or one so near to it that not even all copies of a trial could show it, is taken to hold if all
    of them succeed, and a note says what that shows.

    Examples
    --------
    >>> ChanceConstrained(0.8).label
    'ChanceConstrained(probability=0.8)'
    """

    asks_model: ClassVar[bool] = True

    probability: float = 0.9
    noise: Noise | None = None
    n_perturb: int = 64
    n_confirm: int = 512
    max_candidates: int = 800
    across: Literal["first", "models"] = "first"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        _require_across(self, "first")
        require_finite(self, "probability", "confidence")
        if not 0 < self.probability <= 1:
            raise ValueError(f"ChanceConstrained: probability must be above 0, at most 1, not {self.probability!r}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"ChanceConstrained: confidence must lie between 0 and 1, not {self.confidence!r}")
        require_counts(self, "n_perturb", "n_confirm", "max_candidates")

    def check_space(self, space: Space) -> None:
        """Refuse noise that does not fit the features."""
        require_noise(self.noise, space)

    def choose(self, scene: Scene) -> Choice:
        """Choose the nearest candidate that holds."""
        posterior = scene.model(self)
        where, weight, reaching = _find_candidates(scene)
        # each is looked at once; as much again is left for confirming
        most = _count_affordable(posterior, self.max_candidates, 2 * self.n_perturb)
        candidates = pick_draws(scene, most, where, weight)
        candidates = candidates[np.argsort(scene.distance(scene.draws.pool.x[candidates]), kind="stable")]
        noise = scene.noise if self.noise is None else self.noise
        noisy = _NoisyCandidates(scene, posterior, noise, first_only=self.across == "first")
        few, many = np.split(noisy.draw_offsets(self.n_perturb + self.n_confirm), [self.n_perturb])
        copies = _TRIAL_COPIES * self.n_confirm
        risk = 1.0 - self.confidence
        trials = Trials(lambda which: noisy.fresh_success(which, copies), self.probability, risk, copies)
        looks = np.zeros(0)
        while len(looks) < len(candidates):
            block = candidates[len(looks) : 2 * len(looks) + _FIRST_BLOCK]
            share = noisy.success(block, few)
            looks = np.concatenate([looks, share])
            worth = trials.worth
            hopeful = block[share >= worth - np.sqrt(worth * (1 - worth) / self.n_perturb)]
            held = _find_holding(noisy, trials, hopeful, many) if reaching else None
            if held is not None:
                return scene.pick(np.array(held), self._proof_note(trials.enough))
        most = _count_affordable(posterior, _N_FALLBACKS + 1, self.n_confirm)
        best_few = candidates[np.sort(np.argsort(-looks, kind="stable")[: min(most, _N_FALLBACKS)])]
        accepted = noisy.keep_accepted(best_few) if reaching else best_few[:0]
        best_few = accepted if len(accepted) else best_few
        winner = int(best_few[np.argmax(noisy.success(best_few, many))])  # the first of equals is the nearest
        fresh, _ = noisy.fresh_success(winner, copies)
        return scene.pick(np.array(winner), self._shortfall_note(len(candidates), len(accepted) > 0, fresh))

    def _proof_note(self, shown: float) -> str:
        """Say so where a trial without a failure shows less than what is promised."""
        if shown >= self.probability:
            return ""
        return (
            f"{self.label}: {_TRIAL_COPIES * self.n_confirm:,} copies without a failure show a probability of "
            f"{shown:.4f}; a larger n_confirm would show more."
        )

    def _shortfall_note(self, n: int, reaching: bool, share: float) -> str:
        """Say that no candidate kept the promise, and what the chosen one does."""
        where = "" if self.across == "first" else " and across models"
        if not reaching:
            return (
                f"{self.label}: none of {n} draws reaches the target as it is; the one that does so most often under "
                f"noise{where} was taken, with probability {share:.2f}."
            )
        return (
            f"{self.label}: none of {n} draws that reach the target still does so under noise{where} with probability "
            f"{self.probability:g}, at {100 * self.confidence:g}% confidence; the best one was taken, with {share:.2f}."
        )


@dataclass(frozen=True)
class _NoisyCandidates:
    """Candidates, by their positions in the pool, under execution noise."""

    scene: Scene
    posterior: GibbsPosterior
    noise: Noise
    first_only: bool

    def draw_offsets(self, n: int) -> Array:
        """Draw ``n`` offsets."""
        return offsets(self.noise, self.scene.space, self.scene.rng, n)

    def success(self, which: Array, shifts: Array) -> Array:
        """Return the share of successes of each candidate ``(k,)`` under the same offsets."""
        x = self.scene.draws.pool.x[which]
        reached = evaluate_under_noise(self.posterior, self.scene.space, x, shifts, first_only=self.first_only).reached
        return reached[:, :, 0].mean(axis=1) if self.first_only else reached.mean(axis=1) @ self.scene.mixture.weights

    def fresh_success(self, which: int, copies: int) -> tuple[float, int]:
        """Return one candidate's share under offsets of its own, and how many there were within the budget."""
        n = _count_affordable(self.posterior, copies, 1)
        return float(self.success(np.array([which]), self.draw_offsets(n))[0]), n

    def keep_accepted(self, which: Array) -> Array:
        """Return those that the first model accepts by its own decision, which is asked for where it may differ."""
        first = self.posterior.predictors[0]
        if len(which) == 0 or first.questions(use_predict=True) == first.questions():
            return which
        said = self.posterior.ask(self.scene.draws.pool.x[which], use_predict=True, models=1)
        return which[self.posterior.read(said).reached[:, 0]]


def _find_candidates(scene: Scene) -> tuple[Array, Array, bool]:
    """Return where to look in the pool, the weights, and whether the target is reached there as it is.

    That is among the draws; if none of them reaches it, among all evaluated points; and if none does, anywhere.
    """
    where, weight = scene.draws.distinct
    reached = scene.draws.pool.reached[:, 0]
    if reached[where].any():
        return where[reached[where]], weight[reached[where]], True
    if reached.any():
        return np.flatnonzero(reached), np.full(int(reached.sum()), 1.0), True
    return where, weight, False


def _find_holding(noisy: _NoisyCandidates, trials: Trials, hopeful: Array, many: Array) -> int | None:
    """Return the first of the hopeful candidates, the nearest first, that holds under many copies and in a trial."""
    for start in range(0, len(hopeful), _PROMISING_AT_ONCE):
        near = hopeful[start : start + _PROMISING_AT_ONCE]
        near = near[: _count_affordable(noisy.posterior, len(near) + 1, len(many))]  # one more, for the trial
        share = noisy.success(near, many)
        accepted = noisy.keep_accepted(near[share >= trials.worth])
        held = trials.first_to_hold(accepted, share[np.isin(near, accepted)])
        if held is not None:
            return held
    return None


def _count_affordable(posterior: GibbsPosterior, most: int, rows_each: int) -> int:
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
    order = np.argsort(loss, axis=1, kind="stable")
    ordered, weight = np.take_along_axis(loss, order, axis=1), weights[order]
    place = (np.cumsum(weight, axis=1) < tau * weights.sum() - SHARE_ROUNDING).sum(axis=1)
    var = np.take_along_axis(ordered, np.minimum(place, loss.shape[1] - 1)[:, None], axis=1)
    weight = np.where(ordered >= var, weight, 0.0)
    return (np.where(weight > 0, ordered, 0.0) * weight).sum(axis=1) / weight.sum(axis=1)


def _require_across(rule: "CVaR | ChanceConstrained", default: str) -> None:
    if rule.across not in (default, "models"):
        raise ValueError(f"{type(rule).__name__}: across must be {default!r} or 'models', not {rule.across!r}")


def pick_draws(scene: Scene, most: int, where: Array | None = None, weight: Array | None = None) -> Array:
    """Pool positions of at most ``most`` distinct draws, or of ``where``, at random in proportion to their weights."""
    if where is None or weight is None:
        where, weight = scene.draws.distinct
    if len(where) <= most:
        return where
    # Efraimidis and Spirakis (2006): sampling without replacement in proportion to the weights
    keys = np.log(scene.rng.random(len(where))) / weight
    return np.sort(where[np.argsort(-keys, kind="stable")[:most]])
