"""Nelder and Mead's simplex search from many starts in lock-step: one call of the objective per iteration for all.

Every start follows the path it would follow alone under ``scipy.optimize.minimize(method="Nelder-Mead")``. The four
points a step may need (reflection, expansion, contraction outside and inside) are asked for at once, which costs a
few rows and saves a call; only a shrink asks a second time.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gbce.base import Array

__all__ = ["Minima", "nelder_mead"]

# Coefficients of Nelder and Mead (1965): steps from the centroid, away from the worst vertex, and towards the best one.
_REFLECT, _EXPAND, _OUTSIDE, _INSIDE = 1.0, 2.0, 0.5, -0.5
_SHRINK = 0.5
_RELATIVE_STEP, _ABSOLUTE_STEP = 0.05, 0.00025  # of the first simplex, as in scipy
_TOLERANCE = 1e-4  # of places and values, as in scipy


class Minima(NamedTuple):
    """Where each start ended: ``x`` ``(s, m)``, ``value`` ``(s,)``, ``iterations`` ``(s,)``, ``converged`` ``(s,)``."""

    x: Array
    value: Array
    iterations: Array
    converged: Array


def nelder_mead(
    objective: Callable[[Array], Array],
    starts: Array,
    low: Array,
    high: Array,
    *,
    max_iterations: int,
    x_tolerance: float = _TOLERANCE,
    f_tolerance: float = _TOLERANCE,
) -> Minima:
    """Minimise ``objective``, ``(n, m)`` to ``(n,)``, from each of ``starts`` ``(s, m)`` within ``[low, high]``."""
    s, m = starts.shape
    simplex = _first_simplex(starts, low, high)
    value = objective(simplex.reshape(-1, m)).reshape(s, m + 1)
    _sort(simplex, value, np.arange(s))
    iterations = np.ones(s, dtype=int)
    running = np.ones(s, dtype=bool)
    while True:
        width = np.abs(simplex[:, 1:] - simplex[:, :1]).max(axis=(1, 2))
        with np.errstate(invalid="ignore"):  # all corners infinite: no height, and not at its end
            height = np.abs(value[:, 1:] - value[:, :1]).max(axis=1)
        running &= ~((width <= x_tolerance) & (height <= f_tolerance)) & (iterations < max_iterations)
        active = np.flatnonzero(running)
        if len(active) == 0:
            break
        _step(objective, simplex, value, active, low, high)
        iterations[active] += 1
        _sort(simplex, value, active)
    converged = (width <= x_tolerance) & (height <= f_tolerance)
    return Minima(simplex[:, 0], value[:, 0], iterations, converged)


def _first_simplex(starts: Array, low: Array, high: Array) -> Array:
    """Return the start, and the start with one coordinate moved a little, for each coordinate."""
    m = starts.shape[1]
    simplex = np.repeat(np.clip(starts, low, high)[:, None, :], m + 1, axis=1)
    each = np.arange(m)
    here = simplex[:, 1 + each, each]
    simplex[:, 1 + each, each] = np.where(here != 0, (1 + _RELATIVE_STEP) * here, _ABSOLUTE_STEP)
    beyond = simplex > high
    with np.errstate(invalid="ignore"):
        mirrored = 2 * high - simplex  # a step over the upper bound turns back, or the simplex would be flat
    return np.clip(np.where(beyond, mirrored, simplex), low, high)


def _step(
    objective: Callable[[Array], Array], simplex: Array, value: Array, active: Array, low: Array, high: Array
) -> None:
    m = simplex.shape[2]
    vertices, f = simplex[active], value[active]
    worst = vertices[:, -1]
    centre = vertices[:, :-1].sum(axis=1) / m
    trial = np.stack(
        [np.clip((1 + step) * centre - step * worst, low, high) for step in (_REFLECT, _EXPAND, _OUTSIDE, _INSIDE)],
        axis=1,
    )
    at = objective(trial.reshape(-1, m)).reshape(len(active), 4)
    reflected, expanded, outside, inside = at.T
    improves_best = reflected < f[:, 0]
    improves_some = ~improves_best & (reflected < f[:, -2])
    improves_worst = ~improves_best & ~improves_some & (reflected < f[:, -1])
    none = ~improves_best & ~improves_some & ~improves_worst
    pick = np.full(len(active), -1)
    pick[improves_best | improves_some] = 0
    pick[improves_best & (expanded < reflected)] = 1
    pick[improves_worst & (outside <= reflected)] = 2
    pick[none & (inside < f[:, -1])] = 3
    moves = np.flatnonzero(pick >= 0)
    simplex[active[moves], -1] = trial[moves, pick[moves]]
    value[active[moves], -1] = at[moves, pick[moves]]
    shrinks = active[pick < 0]
    if len(shrinks):
        first = simplex[shrinks, :1]
        smaller = np.clip(first + _SHRINK * (simplex[shrinks, 1:] - first), low, high)
        simplex[shrinks, 1:] = smaller
        value[shrinks, 1:] = objective(smaller.reshape(-1, m)).reshape(len(shrinks), m)


def _sort(simplex: Array, value: Array, which: Array) -> None:
    order = np.argsort(value[which], axis=1)  # the kind that scipy uses, so that ties fall the same way
    simplex[which] = np.take_along_axis(simplex[which], order[:, :, None], axis=1)
    value[which] = np.take_along_axis(value[which], order, axis=1)
