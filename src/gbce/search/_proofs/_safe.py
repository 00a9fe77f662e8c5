"""The ranges around a point within which a tree ensemble certainly stays in a target.

They are a box of cells that is safe, since the worst leaf of each tree that it meets still adds up to enough, and as
wide as it grows.
"""

from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.search._proofs._conditions import Conditions, conditions_of
from gbce.search._proofs._prove import sum_margin
from gbce.search._proofs._safe_box import AllowedCells, GrowingBox, grow_box
from gbce.space import Space
from gbce.targets import Class
from gbce.trees import CellTrees

__all__ = ["Ranges", "find_safe_ranges"]

_TIGHTER = 1e-9  # relative: by so much more than it has to a sum must do, for links and the target's own comparisons
_LEAST_WIDTH = 1e-3  # of a feature's scale, that a single cell counts as when it grows
_WIDEST = 10.0  # scales, that a cell without an end counts as
_DIGITS = 4  # of the widths of ranges, that their ends are given with


class Ranges(NamedTuple):
    """Features by position ``(c,)`` with the lowest and the highest value of each ``(c,)``, as encoded."""

    features: Array
    low: Array
    high: Array


def find_safe_ranges(
    trees: CellTrees, space: Space, x0: Array, x: Array, target: Target, which: Array
) -> Ranges | None:
    """Return ranges of some features, all others as they are, within which every row reaches the target.

    Parameters
    ----------
    trees : CellTrees
        The first model, seen to be right.
    space : Space
        With limits, steps and units.
    x0 : array of shape (d,)
        The row, for its limits.
    x : array of shape (d,)
        A point that reaches the target.
    target : Target
        With its numbers filled in.
    which : int array of shape (c,)
        Features that may vary.

    Returns
    -------
    Ranges or None
        Each holds the point's own value, with ends of few digits. Of categories, booleans and missing values there is
        none. None where the target's conditions on scores do not say it all, where other columns are computed from
        these, or where no range is more than a point.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> import gbce
    >>> from gbce.predictors import look_inside
    >>> from gbce.trees import read_cells
    >>> x = np.arange(10.0)[:, None]
    >>> space = gbce.Space.infer(x, bounds="data")
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, x[:, 0])
    >>> trees, wish = read_cells(look_inside(model, space), space, x), gbce.Range(3.9, 6.1, scale=1).resolve(1.0)
    >>> find_safe_ranges(trees, space, x[0], x[5], wish, np.array([0]))
    Ranges(features=array([0]), low=array([3.501]), high=array([6.5]))
    """
    conditions = conditions_of(trees.inside, target)
    if conditions is None or not _say_it_all(trees, target) or space.is_computed.any():
        return None
    if not trees.covers(x[None, :])[0]:
        return None
    which = np.array([j for j in which.tolist() if not space.features[j].unordered and not np.isnan(x[j])], dtype=int)
    cells = trees.cells(x[None, :])[0]
    grown = _grow(trees, space, x0, cells, conditions, which)
    if grown is None:
        return None
    low, high = _ends(trees, space, x0, which, *grown)
    low, high = _shorten(space, which, x[which], low, high)
    some = high > low
    return Ranges(which[some], low[some], high[some]) if some.any() else None


def _say_it_all(trees: CellTrees, target: Target) -> bool:
    """Whether every row that meets the conditions reaches the target: not for a probability among many classes."""
    return not isinstance(target, Class) or trees.inside.link != "softmax" or target.probability == 0.5


def _grow(
    trees: CellTrees, space: Space, x0: Array, cells: Array, conditions: Conditions, which: Array
) -> tuple[Array, Array] | None:
    """Return the first and the last cell ``(c,)`` of a safe box; None if not even the point's own cells are safe."""
    room = sum_margin(trees.tree, trees.value, trees.base, trees.epsilon, trees.n_trees, conditions.weights)
    least = conditions.least + room + _TIGHTER * np.maximum(1.0, np.abs(conditions.least))
    least = least - conditions.weights @ trees.base
    some = np.arange(len(trees.tree))
    for j in trees.used.tolist():
        if j not in which:
            some = some[trees.holds(j, int(cells[j]))[some]]
    box = GrowingBox(trees, some, which, cells[which], conditions.weights, least)
    if not box.slack >= 0:
        return None
    limits = space.limits(x0)
    return grow_box(box, [_allow_cells(trees, space, x0, j, limits) for j in which.tolist()])


def _allow_cells(trees: CellTrees, space: Space, x0: Array, j: int, limits: tuple[Array, Array]) -> AllowedCells:
    """Return the cells that the limits leave and that are known, with widths in units of the feature's scale."""
    low, high = (float(end[j]) for end in limits)
    edges, scale = trees.edges[j], float(space.scale[j])
    far = _WIDEST * scale
    begin = edges[0] - far if len(edges) else x0[j] - far
    end = edges[-1] + far if len(edges) else x0[j] + far
    places = np.concatenate([[max(low, begin)], np.clip(edges, low, high), [min(high, end)]]) / scale
    known = [max(low, float(trees.low[j])), min(high, float(trees.high[j]))]
    first, last = np.searchsorted(edges, known, side="left").tolist()
    return AllowedCells(first, last, places, _LEAST_WIDTH)


def _ends(trees: CellTrees, space: Space, x0: Array, which: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """Return the lowest and the highest values ``(c,)`` of ranges of cells, within limits and whole steps."""
    lows, highs = (np.asarray(end[which], dtype=float) for end in space.limits(x0))
    for i, j in enumerate(which.tolist()):
        edges = trees.edges[j]
        bottom = np.nextafter(edges[first[i] - 1], np.inf) if first[i] > 0 else -np.inf
        top = edges[last[i]] if last[i] < len(edges) else np.inf
        if space.features[j].discrete:
            bottom, top = np.ceil(bottom), np.floor(top)
        lows[i] = max(lows[i], bottom, float(trees.low[j]))
        highs[i] = min(highs[i], top, float(trees.high[j]))
    return lows, highs


def _shorten(space: Space, which: Array, x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return ends with few digits, inside of what they were, with the point between them."""
    low, high = low.copy(), high.copy()
    for i, j in enumerate(which.tolist()):
        if space.features[j].kind != "real":
            continue
        ends = [end for end in (low[i], high[i]) if np.isfinite(end)]
        size = (
            high[i] - low[i] if len(ends) == 2 else max(float(space.scale[j]), *(abs(end - x[i]) for end in ends), 0.0)
        )
        if not ends or size <= 0:
            continue
        digits = _DIGITS - 1 - int(np.floor(np.log10(size)))
        step = 10.0**-digits
        for ends_of, turn in ((low, np.ceil), (high, np.floor)):
            if not np.isfinite(ends_of[i]):
                continue
            rounded = float(round(float(turn(ends_of[i] / step)) * step, max(digits, 0)))
            inside = low[i] <= rounded <= x[i] if ends_of is low else x[i] <= rounded <= high[i]
            ends_of[i] = rounded if inside else x[i]
    return low, high
