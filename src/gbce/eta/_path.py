"""The path over eta: the eta that meets a goal on weighted points, and when a tempered run is to give a goal up."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from gbce._numerics import ENOUGH_ESS, WIDE_ROUNDING, effective_sample_size, normalise
from gbce.base import Array
from gbce.draws import Draws
from gbce.posterior import EtaGoal, Mixture

# --- search along the path -------------------------------------------------------------------------------------------

STEEPEST = 1e12  # the largest eta considered; chosen by hand, far beyond any use


@dataclass(frozen=True)
class _Tuning:
    """How the path of eta is followed; by hand."""

    halvings: int = 60  # of an interval: more than the 53 bits of a double
    precision: float = 1e-4  # relative, of eta; chosen by hand, well below its Monte Carlo error
    step: float = 0.1  # total variation between neighbours on the path: an upper bound on the change of any probability
    first_ratio: float = 2.0  # of the first two etas on the path; it adapts quickly
    as_good: float = 0.01  # of the shortfall, or of its range: a smaller gain does not justify a larger eta
    # A tempered run gives a goal up after so many rungs on which the shortfall fell by less than this share of the
    # first one, and the loss did not fall to this share of its value before.
    patience: int = 6
    closer: float = 0.01
    lower: float = 0.9


_TUNING = _Tuning()
_SMALL_STEP = 0.25 * _TUNING.step  # below it the next step is longer
_STRIDE, _SHORTEST = 16.0, 1.05  # largest and smallest ratio of neighbouring etas: they bound the steps of a path


class Solved(NamedTuple):
    """An eta, and whether it achieves the goal; if not, it is the one that comes closest."""

    eta: float
    met: bool


def solve_eta(
    draws: Draws, mixture: Mixture, goal: EtaGoal, top: float | None = None, least_ess: float = ENOUGH_ESS
) -> Solved:
    """Search from the goal's least eta to ``top``, or as far as the effective sample size is ``least_ess``.

    Every eta up to there is a reweighting of the same points, so the whole path costs no model call. If the shortfall
    decreases along it, eta is found by bisection; otherwise the path is walked from the prior.
    """
    pool = draws.pool

    def weights(eta: float) -> Array:
        return normalise(draws.log_base_weights - replace(mixture, eta=eta).potential(pool.loss) - pool.log_correction)

    reading = pool.loss[:, 0], pool.reached[:, 0]
    return solve_eta_among(weights, *reading, mixture, goal, top, least_ess=least_ess)


def solve_eta_nearby(draws: Draws, mixture: Mixture, goal: EtaGoal) -> Solved:
    """Search only the etas that draws made at the mixture's own eta carry; it is not met if a smaller one may do."""
    pool = draws.pool

    def weights(eta: float) -> Array:
        return normalise(draws.log_base_weights - replace(mixture, eta=eta).potential(pool.loss) - pool.log_correction)

    def enough(eta: float) -> bool:
        return effective_sample_size(weights(eta)) >= ENOUGH_ESS

    if not enough(mixture.eta):
        return Solved(mixture.eta, False)
    least = _find_smallest_supported(enough, goal.least, mixture.eta)
    top = _find_largest_supported(enough, mixture.eta)
    reading = pool.loss[:, 0], pool.reached[:, 0]
    found = solve_eta_among(weights, *reading, mixture, goal, top, least)
    return Solved(found.eta, found.met and (found.eta > least or least <= goal.least))


def solve_eta_among(
    weights: Callable[[float], Array],
    loss: Array,
    reached: Array,
    mixture: Mixture,
    goal: EtaGoal,
    top: float | None,
    least: float | None = None,
    least_ess: float = ENOUGH_ESS,
) -> Solved:
    """Search given weights ``(n,)`` as a function of eta, and losses and verdicts ``(n,)`` of the first model.

    It begins at ``least``, by default the goal's own.
    """

    def shortfall(weights: Array) -> float:
        return goal.shortfall(loss, reached, weights)

    def shortfall_at(eta: float) -> float:
        return shortfall(weights(eta))

    least = goal.least if least is None else least
    if top is not None and top < least:  # the points were not carried as far
        return Solved(top, False)
    if shortfall_at(least) <= 0:
        return Solved(least, True)
    if top is None:
        top = _find_largest_supported(lambda eta: effective_sample_size(weights(eta)) >= least_ess)
    if top < least:
        return Solved(top, False)
    if _is_monotone(loss, reached, mixture):
        return Solved(top, False) if shortfall_at(top) > 0 else Solved(_bisect(shortfall_at, least, top), True)
    etas, shortfalls = [least], [shortfall_at(least)]
    for eta, there in _walk_path(weights, top):
        if eta <= least:
            continue
        etas.append(eta)
        shortfalls.append(shortfall(there))
        if shortfalls[-1] <= 0:
            return Solved(_bisect(shortfall_at, etas[-2], eta), True)
    return _find_closest(shortfall_at, etas, shortfalls)


def _is_monotone(loss: Array, reached: Array, mixture: Mixture) -> bool:
    """Whether the shortfall can only decrease as eta grows: one model, with lower losses wherever it reaches."""
    counted = mixture.weights > 0
    if not counted[0] or counted.sum() > 1:
        return False
    worst, best = loss[reached].max(initial=-np.inf), loss[~reached].min(initial=np.inf)
    return bool(worst <= best + WIDE_ROUNDING * abs(best)) if np.isfinite(best) else True


def _walk_path(weights: Callable[[float], Array], top: float) -> Iterator[tuple[float, Array]]:
    """Yield etas from near zero to ``top`` in steps bounded in total variation, each with its weights."""
    before, eta = weights(0.0), top
    now = weights(eta)
    while eta > 0 and _compute_total_variation(before, now) > _TUNING.step:
        eta /= _STRIDE
        now = weights(eta)
    yield eta, now
    ratio = _TUNING.first_ratio
    while eta < top:
        further = min(ratio * eta, top)
        there = weights(further)
        moved = _compute_total_variation(now, there)
        if moved > _TUNING.step and ratio > _SHORTEST:
            ratio = max(np.sqrt(ratio), _SHORTEST)
            continue
        eta, now = further, there
        yield eta, now
        ratio = min(ratio**2, _STRIDE) if moved < _SMALL_STEP else ratio


def _compute_total_variation(a: Array, b: Array) -> float:
    """Return the total variation between two distributions on the same points."""
    return 0.5 * float(np.abs(a - b).sum())


def _find_closest(shortfall_at: Callable[[float], float], etas: list[float], shortfalls: list[float]) -> Solved:
    """Return the smallest eta with about the least shortfall, searching between those evaluated."""
    least, most = min(shortfalls), max(shortfalls)
    if most - least <= WIDE_ROUNDING * most:  # eta has no effect on the goal
        return Solved(etas[-1], False)
    slack = _TUNING.as_good * min(most - least, least)
    i = next(i for i, value in enumerate(shortfalls) if value <= least + slack)
    low, high = etas[max(i - 1, 0)], etas[min(i + 1, len(etas) - 1)]
    found = minimize_scalar(
        shortfall_at, bounds=(low, high), method="bounded", options={"xatol": _TUNING.precision * high}
    )
    if found.fun <= 0:
        return Solved(_bisect(shortfall_at, low, float(found.x)), True)
    return Solved(float(found.x) if found.fun < shortfalls[i] - slack else etas[i], False)


def _bisect(shortfall_at: Callable[[float], float], low: float, high: float) -> float:
    """Return the smallest eta without a shortfall between ``low``, which has one, and ``high``, which has none."""
    for _ in range(_TUNING.halvings):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if shortfall_at(middle) > 0 else (low, middle)
        if high - low <= _TUNING.precision * high:
            break
    return high


def _find_smallest_supported(enough: Callable[[float], bool], least: float, eta: float) -> float:
    """Return the smallest eta between ``least`` and one with enough effective draws that has enough as well."""
    if least >= eta or enough(least):
        return least
    low, high = least, eta
    for _ in range(_TUNING.halvings):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
        if high - low <= _TUNING.precision * high:
            break
    return high


def _find_largest_supported(enough: Callable[[float], bool], start: float = 0.0) -> float:
    """Return the largest eta with enough effective draws, from ``start`` on."""
    low, high = start, max(2.0 * start, 1.0)
    while high < STEEPEST and enough(high):
        low, high = high, 2.0 * high
    if high >= STEEPEST and enough(high):
        return high
    for _ in range(_TUNING.halvings):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


# --- progress of a tempered run --------------------------------------------------------------------------------------


@dataclass
class GoalProgress:
    """Whether the rungs of a tempered run meet a goal, or it is to be given up: neither it nor the loss improves."""

    goal: EtaGoal | None
    shortfall: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    level: float = 0.0

    def add(self, level: float, loss: Array, reached: Array, weights: Array) -> None:
        """Record losses and verdicts ``(n,)`` of the first model at the weighted points of a rung."""
        if self.goal is None or level < 0:  # below the prior's level the shortfall means nothing
            return
        self.shortfall.append(self.goal.shortfall(loss, reached, weights))
        self.loss.append(float(weights @ loss))
        self.level = level

    @property
    def met(self) -> bool:
        """Whether the last rung met the goal, at an eta that is large enough for it."""
        return self.goal is not None and self.shortfall[-1] <= 0 and self.level >= self.goal.least

    @property
    def finished(self) -> bool:
        """Whether the goal is met, or given up."""
        if self.goal is None or not self.shortfall:
            return False
        if self.met or self.level >= STEEPEST:
            return True
        if len(self.shortfall) <= _TUNING.patience:
            return False
        before = -1 - _TUNING.patience
        closer = self.shortfall[before] - self.shortfall[-1] > _TUNING.closer * abs(self.shortfall[0])
        return not (closer or self.loss[-1] < _TUNING.lower * self.loss[before])
