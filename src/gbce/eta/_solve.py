"""Solve for eta: the smallest one at which weighted draws achieve a goal, or the one that comes closest."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from gbce._numerics import ENOUGH_ESS, effective_sample_size, normalise
from gbce.base import Array
from gbce.draws import Draws
from gbce.posterior import EtaGoal, Mixture

__all__ = ["STEEPEST", "Solved", "solve_eta", "solve_eta_among"]

STEEPEST = 1e12  # the largest eta considered; chosen by hand, far beyond any use
_HALVINGS = 60  # of an interval: more than the 53 bits of a double
_PRECISION = 1e-4  # relative, of eta; chosen by hand, well below its Monte Carlo error
_STEP = 0.1  # total variation between neighbours on the path: an upper bound on the change of any probability
_SMALL_STEP = 0.25 * _STEP  # below it the next step is longer
_FIRST_RATIO = 2.0  # of the first two etas on the path; it adapts quickly
_STRIDE, _SHORTEST = 16.0, 1.05  # largest and smallest ratio of neighbouring etas: they bound the steps of a path
_AS_GOOD = 0.01  # of the shortfall, or of its range: a smaller gain does not justify a larger eta
_ROUNDING = 1e-9  # relative difference of shortfalls that is rounding
_TIE = 1e-9  # relative difference of losses: points at the limit of the target may be rounded to either side


class Solved(NamedTuple):
    """An eta, and whether it achieves the goal; if not, it is the one that comes closest."""

    eta: float
    met: bool


def solve_eta(draws: Draws, mixture: Mixture, goal: EtaGoal, top: float | None = None) -> Solved:
    """Search from zero to ``top``, or as far as the effective sample size allows.

    Every eta up to there is a reweighting of the same points, so the whole path costs no model call. If the shortfall
    decreases along it, eta is found by bisection; otherwise the path is walked from the prior.
    """
    pool = draws.pool

    def weights(eta: float) -> Array:
        return normalise(draws.log_base_weights - replace(mixture, eta=eta).potential(pool.loss) - pool.log_correction)

    return solve_eta_among(weights, pool.loss[:, 0], pool.reached[:, 0], mixture, goal, top)


def solve_eta_among(
    weights: Callable[[float], Array], loss: Array, reached: Array, mixture: Mixture, goal: EtaGoal, top: float | None
) -> Solved:
    """Search given weights ``(n,)`` as a function of eta, and losses and verdicts ``(n,)`` of the first model."""

    def shortfall(weights: Array) -> float:
        return goal.shortfall(loss, reached, weights)

    def shortfall_at(eta: float) -> float:
        return shortfall(weights(eta))

    if shortfall_at(0.0) <= 0:
        return Solved(0.0, True)
    if top is None:
        top = _find_largest_supported(lambda eta: effective_sample_size(weights(eta)) >= ENOUGH_ESS)
    if _is_monotone(loss, reached, mixture):
        return Solved(top, False) if shortfall_at(top) > 0 else Solved(_bisect(shortfall_at, 0.0, top), True)
    etas, shortfalls = [0.0], [shortfall_at(0.0)]
    for eta, there in _walk_path(weights, top):
        etas.append(eta)
        shortfalls.append(shortfall(there))
        if shortfalls[-1] <= 0:
            return Solved(_bisect(shortfall_at, etas[-2], eta), True)
    return _find_closest(shortfall_at, etas, shortfalls)


def _is_monotone(loss: Array, reached: Array, mixture: Mixture) -> bool:
    """Whether the shortfall can only decrease as eta grows.

    With one model, a larger eta moves weight from points of higher loss to points of lower loss. That raises the
    success probability if points that reach the target have lower losses than all others, as with a target on one
    number or on one of two classes. A sum of losses, several classes, or several models guarantee nothing of the kind.
    """
    counted = mixture.weights > 0
    if not counted[0] or counted.sum() > 1:
        return False
    worst, best = loss[reached].max(initial=-np.inf), loss[~reached].min(initial=np.inf)
    return bool(worst <= best + _TIE * abs(best)) if np.isfinite(best) else True


def _walk_path(weights: Callable[[float], Array], top: float) -> Iterator[tuple[float, Array]]:
    """Yield etas from near zero to ``top`` in small steps, each with its weights.

    Probabilities differ by at most the total variation between two distributions, so steps bounded by it miss nothing
    large in between, whatever the dimension.
    """
    before, eta = weights(0.0), top
    now = weights(eta)
    while eta > 0 and _compute_total_variation(before, now) > _STEP:
        eta /= _STRIDE
        now = weights(eta)
    yield eta, now
    ratio = _FIRST_RATIO
    while eta < top:
        further = min(ratio * eta, top)
        there = weights(further)
        moved = _compute_total_variation(now, there)
        if moved > _STEP and ratio > _SHORTEST:
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
    if most - least <= _ROUNDING * most:  # eta has no effect on the goal
        return Solved(etas[-1], False)
    slack = _AS_GOOD * min(most - least, least)
    i = next(i for i, value in enumerate(shortfalls) if value <= least + slack)
    low, high = etas[max(i - 1, 0)], etas[min(i + 1, len(etas) - 1)]
    found = minimize_scalar(shortfall_at, bounds=(low, high), method="bounded", options={"xatol": _PRECISION * high})
    if found.fun <= 0:
        return Solved(_bisect(shortfall_at, low, float(found.x)), True)
    return Solved(float(found.x) if found.fun < shortfalls[i] - slack else etas[i], False)


def _bisect(shortfall_at: Callable[[float], float], low: float, high: float) -> float:
    """Return the smallest eta without a shortfall between ``low``, which has one, and ``high``, which has none."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if shortfall_at(middle) > 0 else (low, middle)
        if high - low <= _PRECISION * high:
            break
    return high


def _find_largest_supported(enough: Callable[[float], bool]) -> float:
    """Return the largest eta with enough effective draws."""
    low, high = 0.0, 1.0
    while high < STEEPEST and enough(high):
        low, high = high, 2.0 * high
    if high >= STEEPEST and enough(high):
        return high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
