"""Near corners of boxes on which a model is constant.

A piecewise constant model, such as a tree, has one output in a whole box. Points with identical outputs mostly lie in
one box, and so does all that lies between them; the nearest such point to the row is one candidate row, where undoing
single changes would take many. If its output differs, the group spans several boxes and is split.
"""

from collections.abc import Callable

import numpy as np

from gbce.base import Array
from gbce.space import Space

__all__ = ["try_near_corners"]

# Chosen by hand: they decide how many rows are evaluated.
_MOST_GROUPS = 60  # evaluated at a time, the most promising
_SPLIT, _MEMBERS = 6, 40  # groups that are split in a round, and points of each that take part
_ROUNDS = 4  # of splitting
_ROUNDING = 1e-9  # relative, of predicted figures


def try_near_corners(
    space: Space,
    x0: Array,
    x: Array,
    outputs: Array,
    predict: Callable[[Array, Array], Array],
    evaluate: Callable[[Array], Array],
    least: float,
) -> None:
    """Evaluate the near corners of groups of points with identical outputs, as long as they may improve.

    ``x`` ``(n, d)`` are points, the best first, with ``outputs`` ``(n, K)``. ``predict`` takes corners ``(g, d)`` and
    positions ``(g,)`` in ``x`` and returns the figure ``(g,)`` of the corners if their outputs are those at the
    positions; ``evaluate`` takes corners and returns their actual figure. ``least`` is the lowest figure so far.
    """
    groups = _group_by_outputs(outputs)
    for number in range(_ROUNDS + 1):
        groups = [own for own in groups if len(own) > 1]
        corner, good = _find_corners(space, x0, x, groups)
        predicted = np.where(good, predict(corner, np.array([own[0] for own in groups], dtype=int)), np.inf)
        order = np.argsort(predicted, kind="stable")
        order = order[predicted[order] < least][:_MOST_GROUPS]
        if len(order) == 0:
            return
        found = evaluate(corner[order])
        least = min(least, float(found.min()))
        failed = (found > predicted[order] + _ROUNDING * np.abs(predicted[order])) & (predicted[order] < least)
        split = [groups[i][_spread(len(groups[i]), _MEMBERS)] for i in order[failed][:_SPLIT].tolist()]
        if not split or number == _ROUNDS:
            return
        groups = _split_groups(space, x0, x, split, predict, evaluate)


def _split_groups(
    space: Space,
    x0: Array,
    x: Array,
    groups: list[Array],
    predict: Callable[[Array, Array], Array],
    evaluate: Callable[[Array], Array],
) -> list[Array]:
    """Split groups into the points that share a box with the first of their group, and the others."""
    pairs = [np.array([own[0], other]) for own in groups for other in own[1:]]
    corner, good = _find_corners(space, x0, x, pairs)
    predicted = predict(corner, np.array([pair[0] for pair in pairs]))
    alike = np.zeros(len(pairs), dtype=bool)
    alike[good] = evaluate(corner[good]) <= predicted[good] + _ROUNDING * np.abs(predicted[good])
    found, end = [], 0
    for own in groups:
        same, end = alike[end : end + len(own) - 1], end + len(own) - 1
        found += [np.append(own[0], own[1:][same]), own[1:][~same]]
    return found


def _group_by_outputs(outputs: Array) -> list[Array]:
    """Return the positions of points with identical outputs ``(n, K)``, in order."""
    if len(outputs) == 0:
        return []
    order = np.lexsort((np.arange(len(outputs)), *outputs.T))
    same = (outputs[order[1:]] == outputs[order[:-1]]).all(axis=1)
    return np.split(order, np.flatnonzero(~same) + 1)


def _find_corners(space: Space, x0: Array, x: Array, groups: list[Array]) -> tuple[Array, Array]:
    """Return the near corner of each group ``(g, d)``, with the first point's levels, and whether it is admissible."""
    if not groups:
        return x[:0], np.zeros(0, dtype=bool)
    rows, first = x[np.concatenate(groups)], x[[own[0] for own in groups]]
    start = np.cumsum([0, *(len(own) for own in groups)])[:-1]
    between = np.clip(x0, np.fmin.reduceat(rows, start), np.fmax.reduceat(rows, start))
    with_row = np.logical_or.reduceat((rows == x0) | (np.isnan(rows) & np.isnan(x0)), start)
    on_axis = ~space.unordered & ~np.isnan(x0)
    return space.place(np.where(with_row, x0, np.where(on_axis, between, first)), x0)


def _spread(n: int, most: int) -> Array:
    """Return at most ``most`` of ``n`` positions: half of them the first ones, the others evenly spaced."""
    if n <= most:
        return np.arange(n)
    half = most // 2
    return np.append(np.arange(half), np.linspace(half, n - 1, most - half).astype(int))
