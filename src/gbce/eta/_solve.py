"""Finding eta: the smallest one at which weighted draws achieve what was asked for, or the one that comes closest."""

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

STEEPEST = 1e12  # the largest eta that is sought; chosen by hand, far beyond what is of use
_HALVINGS = 60  # of an interval: more than the 53 binary digits of a double
_PRECISION = 1e-4  # relative, of eta; chosen by hand, well below its Monte Carlo error
_STEP = 0.1  # total variation between neighbours on the path: no probability can change by more between them
_SMALL_STEP = 0.25 * _STEP  # below it the next step may be longer
_FIRST_RATIO = 2.0  # of the first two etas on the path; it adapts at once
_STRIDE, _SHORTEST = 16.0, 1.05  # largest and smallest ratio of neighbouring etas: they bound the steps of a path
_AS_GOOD = 0.01  # of what is missing, or of what eta changes about it: a smaller gain is no reason for a larger eta
_NOTHING = 1e-9  # relative, of what is missing: a difference that is rounding
_TIE = 1e-9  # relative, of a loss: points at the very limit of the target may be rounded to either side


class Solved(NamedTuple):
    """An eta, and whether it achieves the goal; if not, it is the one that comes closest."""

    eta: float
    met: bool


def solve_eta(draws: Draws, mixture: Mixture, goal: EtaGoal, top: float | None = None) -> Solved:
    """Search from zero to ``top``, or without it as far as the draws carry.

    Every eta up to there is a reweighting of the same points, so the whole path can be looked at for nothing. Where
    what is missing can only shrink along it, the path is halved; elsewhere it is walked from the prior on.
    """
    pool = draws.pool

    def weights(eta: float) -> Array:
        return normalise(draws.log_base_weights - replace(mixture, eta=eta).potential(pool.loss) - pool.log_correction)

    return solve_eta_among(weights, pool.loss[:, 0], pool.reached[:, 0], mixture, goal, top)


def solve_eta_among(
    weights: Callable[[float], Array], loss: Array, reached: Array, mixture: Mixture, goal: EtaGoal, top: float | None
) -> Solved:
    """Search among anything that has weights ``(n,)`` at every eta: losses and verdicts ``(n,)`` of the first model."""

    def short(weights: Array) -> float:
        return goal.shortfall(loss, reached, weights)

    def missing(eta: float) -> float:
        return short(weights(eta))

    if missing(0.0) <= 0:
        return Solved(0.0, True)
    if top is None:
        top = _largest_carried(lambda eta: effective_sample_size(weights(eta)) >= ENOUGH_ESS)
    if _shrinks(loss, reached, mixture):
        return Solved(top, False) if missing(top) > 0 else Solved(_bisect(missing, 0.0, top), True)
    etas, seen = [0.0], [missing(0.0)]
    for eta, there in _walk_path(weights, top):
        etas.append(eta)
        seen.append(short(there))
        if seen[-1] <= 0:
            return Solved(_bisect(missing, etas[-2], eta), True)
    return _find_closest(missing, etas, seen)


def _shrinks(loss: Array, reached: Array, mixture: Mixture) -> bool:
    """Whether what is missing can only shrink as eta grows.

    With one model, a larger eta moves weight from points of higher loss to points of lower loss. Success gains by that
    if points that reach the target have lower losses than all others, as with a wish for one number or for one of two
    classes. A sum of losses, one of several classes, or several models promise nothing of the kind.
    """
    counted = mixture.weights > 0
    if not counted[0] or counted.sum() > 1:
        return False
    worst, best = loss[reached].max(initial=-np.inf), loss[~reached].min(initial=np.inf)
    return bool(worst <= best + _TIE * abs(best)) if np.isfinite(best) else True


def _walk_path(weights: Callable[[float], Array], top: float) -> Iterator[tuple[float, Array]]:
    """Go from zero to ``top`` in small steps: each eta with its weights.

    No probability differs by more between two laws than the laws do (in total variation): steps of that size leave
    nothing large unseen between them, whatever the dimension.
    """
    before, eta = weights(0.0), top
    now = weights(eta)
    while eta > 0 and _total_variation(before, now) > _STEP:
        eta /= _STRIDE
        now = weights(eta)
    yield eta, now
    ratio = _FIRST_RATIO
    while eta < top:
        further = min(ratio * eta, top)
        there = weights(further)
        moved = _total_variation(now, there)
        if moved > _STEP and ratio > _SHORTEST:
            ratio = max(np.sqrt(ratio), _SHORTEST)
            continue
        eta, now = further, there
        yield eta, now
        ratio = min(ratio**2, _STRIDE) if moved < _SMALL_STEP else ratio


def _total_variation(a: Array, b: Array) -> float:
    """Total variation between two laws on the same points."""
    return 0.5 * float(np.abs(a - b).sum())


def _find_closest(missing: Callable[[float], float], etas: list[float], seen: list[float]) -> Solved:
    """Return the smallest eta at which as little is missing as anywhere, looking between those that were ``seen``."""
    least, most = min(seen), max(seen)
    if most - least <= _NOTHING * most:  # nothing that eta does brings the goal nearer
        return Solved(etas[-1], False)
    slack = _AS_GOOD * min(most - least, least)
    i = next(i for i, value in enumerate(seen) if value <= least + slack)
    low, high = etas[max(i - 1, 0)], etas[min(i + 1, len(etas) - 1)]
    found = minimize_scalar(missing, bounds=(low, high), method="bounded", options={"xatol": _PRECISION * high})
    if found.fun <= 0:
        return Solved(_bisect(missing, low, float(found.x)), True)
    return Solved(float(found.x) if found.fun < seen[i] - slack else etas[i], False)


def _bisect(missing: Callable[[float], float], low: float, high: float) -> float:
    """Return the smallest eta between ``low``, where something is missing, and ``high``, at which nothing is."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if missing(middle) > 0 else (low, middle)
        if high - low <= _PRECISION * high:
            break
    return high


def _largest_carried(enough: Callable[[float], bool]) -> float:
    """Return the largest eta at which there are enough effective draws."""
    low, high = 0.0, 1.0
    while high < STEEPEST and enough(high):
        low, high = high, 2.0 * high
    if high >= STEEPEST and enough(high):
        return high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
