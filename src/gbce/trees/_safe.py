"""Ranges around a point within which a tree ensemble is guaranteed to stay in the target and constraints hold.

They come from a safe box of cells: for one or two features the largest there is, for more a box that grows greedily.
Where constraints between columns cut into it, its ends are shrunk.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.space import Constraint, Space
from gbce.trees._cells import CellTrees
from gbce.trees._question import ScoreConstraints, score_constraints
from gbce.trees._safe_box import AllowedCells, GrowingBox, find_boxes, grow_box

_MOST_EXACT = 2  # features for which all cells are summed
_TIGHTER = 1e-9  # relative safety margin for links and the target's own comparisons
_LEAST_WIDTH = 1e-3  # width of a single cell for growing, in units of the feature's scale
_WIDEST = 10.0  # width of an unbounded cell, in units of the feature's scale


class Ranges(NamedTuple):
    """Features ``(c,)`` by position, with the lowest and highest encoded value of each ``(c,)``."""

    features: Array
    low: Array
    high: Array


def find_safe_ranges(
    trees: CellTrees,
    space: Space,
    x0: Array,
    x: Array,
    target: Target,
    which: Array,
    constraints: Sequence[Constraint] | None = None,
) -> Ranges | None:
    """Return ranges of the features ``which``, all others fixed, within which every row reaches the target.

    ``x`` ``(d,)`` is a point that reaches it. Each range contains the point's own value; those of one or two features
    have the largest product of widths. A range has no end where it reaches a bound that was only assumed, and the
    model's last cell with it. Every row in them satisfies ``constraints``, by
    default the space's own: a column has no range if a constraint on it does not reduce to linear inequalities once the
    fixed columns are filled in. Categories, booleans and missing values have none. None if score bounds are not
    sufficient for the target, if there are computed columns, or if no range is more than a point.
    """
    bounds = score_constraints(trees.inside, target)
    if bounds is None or not bounds.sufficient or space.is_computed.any():
        return None
    if not trees.covers(x[None, :])[0]:
        return None
    which = np.array([j for j in which.tolist() if not space.features[j].unordered and not np.isnan(x[j])], dtype=int)
    which, half_spaces = _linearise_constraints(
        space, x, which, space.constraints if constraints is None else constraints
    )
    if not len(which):
        return None
    allowed = [_allow_cells(trees, space, x0, j, space.limits(x0)) for j in which.tolist()]
    grown = _find_boxes(trees, trees.cells(x[None, :])[0], bounds, which, allowed)
    if grown is None:
        return None
    low, high = _apply_half_spaces(half_spaces, x[which], *_find_ends(trees, space, x0, which, *grown))
    low, high = _pick_widest(space, which, allowed, low, high)
    some = high > low
    return Ranges(which[some], low[some], high[some]) if some.any() else None


def _linearise_constraints(
    space: Space, x: Array, which: Array, constraints: Sequence[Constraint]
) -> tuple[Array, list["_HalfSpace"]]:
    """Return the features that may vary and the linear inequalities that constraints impose on them."""
    while True:
        names, half_spaces = [space.names[j] for j in which.tolist()], []
        for constraint in constraints:
            about = set(names) & set(names if (known := constraint.names()) is None else known)
            found = constraint.among(space, x, about) if about else []
            if found is None:  # not linear in these
                which = which[[name not in about for name in names]]
                break
            half_spaces += [
                _HalfSpace(np.array([weights.get(name, 0.0) for name in names]), bound) for weights, bound in found
            ]
        else:
            return which, [half_space for half_space in half_spaces if half_space.weights.any()]


class _HalfSpace(NamedTuple):
    """An inequality ``weights @ x <= bound`` on the features that vary."""

    weights: Array
    bound: float


def _find_boxes(
    trees: CellTrees, cells: Array, bounds: ScoreConstraints, which: Array, allowed: list[AllowedCells]
) -> tuple[Array, Array] | None:
    """Return the first and last cells ``(k, c)`` of safe boxes; None if the point's own cells are not safe."""
    least = bounds.least + bounds.margins(trees) + _TIGHTER * np.maximum(1.0, np.abs(bounds.least))
    if len(which) <= _MOST_EXACT:
        return find_boxes(trees, cells, which, bounds.weights, least, allowed)
    some = np.arange(len(trees.tree))
    for j in trees.used.tolist():
        if j not in which:
            some = some[trees.holds(j, int(cells[j]))[some]]
    box = GrowingBox(trees, some, which, cells[which], bounds.weights, least - bounds.weights @ trees.base)
    if not box.slack >= 0:
        return None
    first, last = grow_box(box, allowed)
    return first[None, :], last[None, :]


def _allow_cells(trees: CellTrees, space: Space, x0: Array, j: int, limits: tuple[Array, Array]) -> AllowedCells:
    """Return the known cells within the limits, with widths in units of the feature's scale."""
    low, high = (float(end[j]) for end in limits)
    edges, scale = trees.edges[j], float(space.scale[j])
    far = _WIDEST * scale
    begin = edges[0] - far if len(edges) else x0[j] - far
    end = edges[-1] + far if len(edges) else x0[j] + far
    places = np.concatenate([[max(low, begin)], np.clip(edges, low, high), [min(high, end)]]) / scale
    known = [max(low, float(trees.low[j])), min(high, float(trees.high[j]))]
    first, last = np.searchsorted(edges, known, side="left").tolist()
    empty = np.zeros(0, dtype=bool)
    if space.features[j].discrete and len(edges):
        whole = np.floor(edges)
        empty = np.concatenate([[False], whole[1:] == whole[:-1], [False]])
    return AllowedCells(first, last, places, _LEAST_WIDTH, empty)


def _find_ends(
    trees: CellTrees, space: Space, x0: Array, which: Array, first: Array, last: Array
) -> tuple[Array, Array]:
    """Return the lowest and highest values ``(k, c)`` of ranges of cells ``(k, c)``, within the limits."""
    low, high = np.empty(first.shape), np.empty(first.shape)
    limits = space.limits(x0)
    for i, j in enumerate(which.tolist()):
        bottom = np.concatenate([[-np.inf], np.nextafter(trees.edges[j], np.inf)])[first[:, i]]
        top = np.append(trees.edges[j], np.inf)[last[:, i]]
        least, most = _find_limits(space, j, float(limits[0][j]), float(limits[1][j]), bottom, top)
        low[:, i] = np.maximum(np.maximum(bottom, least), float(trees.low[j]))
        high[:, i] = np.minimum(np.minimum(top, most), float(trees.high[j]))
    return low, high


def _find_limits(space: Space, j: int, low: float, high: float, bottom: Array, top: Array) -> tuple[Array, Array]:
    """Return the limits of ranges ``(k,)``; a bound that was assumed does not limit the model's outermost cells."""
    feature = space.features[j]
    below = feature.stretch and feature.direction != "increase"
    above = feature.stretch and feature.direction != "decrease"
    return np.where(below & np.isinf(bottom), -np.inf, low), np.where(above & np.isinf(top), np.inf, high)


def _apply_half_spaces(half_spaces: list[_HalfSpace], x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Shrink ranges ``(k, c)`` around a point ``(c,)`` until they satisfy the inequalities; returns ranges ``(n, c)``.

    The slack of an inequality is divided among features in proportion and, for two features, also given to either
    first.
    """
    orders = [None, *permutations(range(len(x)))] if 1 < len(x) <= _MOST_EXACT and half_spaces else [None]
    found = []
    for order in orders:
        ends = low, high
        for half_space in half_spaces:
            ends = _shrink_ranges(half_space, x, *ends, order)
        found.append(ends)
    return np.vstack([ends[0] for ends in found]), np.vstack([ends[1] for ends in found])


def _shrink_ranges(
    half_space: _HalfSpace, x: Array, low: Array, high: Array, order: tuple[int, ...] | None
) -> tuple[Array, Array]:
    """Shrink ranges ``(k, c)`` until they satisfy one inequality; features in ``order`` extend as far as possible."""
    weights, left = half_space.weights, max(half_space.bound - float(half_space.weights @ x), 0.0)
    wanted = np.zeros(low.shape)
    for i in np.flatnonzero(weights).tolist():
        wanted[:, i] = weights[i] * ((high if weights[i] > 0 else low)[:, i] - x[i])
    granted = np.minimum(wanted, left)
    if order is None:
        total = granted.sum(axis=1, keepdims=True)
        granted = granted * (left / np.maximum(total, max(left, np.finfo(float).tiny)))
    else:
        spent = np.cumsum(granted[:, order], axis=1) - granted[:, order]
        granted[:, order] = np.clip(left - spent, 0.0, granted[:, order])
    low, high = low.copy(), high.copy()
    for i in np.flatnonzero(weights).tolist():
        ends, less = (high if weights[i] > 0 else low)[:, i], granted[:, i] < wanted[:, i]
        ends[less] = x[i] + granted[less, i] / weights[i]
    return low, high


def _pick_widest(
    space: Space, which: Array, allowed: list[AllowedCells], low: Array, high: Array
) -> tuple[Array, Array]:
    """Return the ends ``(c,)`` of the ranges ``(k, c)`` with the largest product of widths, in integer steps."""
    log_widths = np.zeros(len(low))
    for i, (j, axis) in enumerate(zip(which.tolist(), allowed, strict=True)):
        if space.features[j].discrete:
            low[:, i], high[:, i] = np.ceil(low[:, i]), np.floor(high[:, i])
        ends = [np.clip(end[:, i] / space.scale[j], axis.places[0], axis.places[-1]) for end in (low, high)]
        log_widths += np.log(np.maximum(ends[1] - ends[0], axis.least))
    best = int(np.argmax(log_widths))
    return low[best], high[best]
