"""The ranges around a point within which a tree ensemble certainly stays in a target, and rules between columns hold.

They are a box of cells that is safe: of one or two features the largest there is, of more one that grows. Where rules
between columns cut into it, its ends are drawn back.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.space import Constraint, Space
from gbce.targets import Class
from gbce.trees._cells import CellTrees
from gbce.trees._constraints import ScoreBounds, score_bounds_of
from gbce.trees._safe_box import AllowedCells, GrowingBox, find_boxes, grow_box
from gbce.trees._unattainable import sum_margin

__all__ = ["Ranges", "find_safe_ranges"]

_MOST_EXACT = 2  # features of which all cells are summed up
_RUNNING = 1e-11  # of the largest scores: what sums that run over a million cells may round
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
    trees: CellTrees,
    space: Space,
    x0: Array,
    x: Array,
    target: Target,
    which: Array,
    rules: Sequence[Constraint] | None = None,
) -> Ranges | None:
    """Return ranges of some features, all others as they are, within which every row reaches the target.

    Of one or two features they are as wide as they can be, by the product of their widths, but for their digits.

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
    rules : sequence of Constraint, optional
        What every row in the ranges keeps, as the point does; the space's own when left out. A column has no range
        where a rule about it does not come to linear inequalities once the columns that do not vary are filled in.

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
    >>> from gbce.trees import read_structure
    >>> from gbce.trees import read_cells
    >>> x = np.arange(10.0)[:, None]
    >>> space = gbce.Space.infer(x, bounds="data")
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, x[:, 0])
    >>> trees, wish = read_cells(read_structure(model, space), space, x), gbce.Range(3.9, 6.1, scale=1).resolve(1.0)
    >>> find_safe_ranges(trees, space, x[0], x[5], wish, np.array([0]))
    Ranges(features=array([0]), low=array([3.501]), high=array([6.5]))
    """
    conditions = score_bounds_of(trees.inside, target)
    if conditions is None or not _say_it_all(trees, target) or space.is_computed.any():
        return None
    if not trees.covers(x[None, :])[0]:
        return None
    which = np.array([j for j in which.tolist() if not space.features[j].unordered and not np.isnan(x[j])], dtype=int)
    which, halves = _read_rules(space, x, which, space.constraints if rules is None else rules)
    if not len(which):
        return None
    allowed = [_allow_cells(trees, space, x0, j, space.limits(x0)) for j in which.tolist()]
    grown = _find_boxes(trees, trees.cells(x[None, :])[0], conditions, which, allowed)
    if grown is None:
        return None
    low, high = _keep_rules(halves, x[which], *_ends(trees, space, x0, which, *grown))
    low, high = _pick_widest(space, which, allowed, low, high)
    low, high = _shorten(space, which, x[which], low, high)
    some = high > low
    return Ranges(which[some], low[some], high[some]) if some.any() else None


def _say_it_all(trees: CellTrees, target: Target) -> bool:
    """Whether every row that meets the conditions reaches the target: not for a probability among many classes."""
    return not isinstance(target, Class) or trees.inside.link != "softmax" or target.probability == 0.5


def _read_rules(space: Space, x: Array, which: Array, rules: Sequence[Constraint]) -> tuple[Array, list["_Half"]]:
    """Return the features that may vary, and what rules ask of these ``(c,)``: weights ``(c,)`` and a bound."""
    while True:
        names, halves = [space.names[j] for j in which.tolist()], []
        for rule in rules:
            about = set(names) & set(names if (known := rule.names()) is None else known)
            found = rule.among(space, x, about) if about else []
            if found is None:  # it cannot be kept with these
                which = which[[name not in about for name in names]]
                break
            halves += [_Half(np.array([weights.get(name, 0.0) for name in names]), bound) for weights, bound in found]
        else:
            return which, [half for half in halves if half.weights.any()]


class _Half(NamedTuple):
    """An inequality ``weights @ x <= bound`` of the features that vary."""

    weights: Array
    bound: float


def _find_boxes(
    trees: CellTrees, cells: Array, conditions: ScoreBounds, which: Array, allowed: list[AllowedCells]
) -> tuple[Array, Array] | None:
    """Return the first and the last cells ``(k, c)`` of safe boxes; None if not even the point's own cells are safe."""
    room = sum_margin(trees.tree, trees.value, trees.base, trees.epsilon, trees.n_trees, conditions.weights)
    least = conditions.least + room + _TIGHTER * np.maximum(1.0, np.abs(conditions.least))
    least = least - conditions.weights @ trees.base
    some = np.arange(len(trees.tree))
    for j in trees.used.tolist():
        if j not in which:
            some = some[trees.holds(j, int(cells[j]))[some]]
    if len(which) <= _MOST_EXACT:
        running = _RUNNING * np.abs(trees.value[some] @ conditions.weights.T).max(axis=0) * trees.n_trees
        return find_boxes(trees, some, which, cells[which], conditions.weights, least + running, allowed)
    box = GrowingBox(trees, some, which, cells[which], conditions.weights, least)
    if not box.slack >= 0:
        return None
    first, last = grow_box(box, allowed)
    return first[None, :], last[None, :]


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
    empty = np.zeros(0, dtype=bool)
    if space.features[j].discrete and len(edges):
        whole = np.floor(edges)
        empty = np.concatenate([[False], whole[1:] == whole[:-1], [False]])
    return AllowedCells(first, last, places, _LEAST_WIDTH, empty)


def _ends(trees: CellTrees, space: Space, x0: Array, which: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """Return the lowest and the highest values ``(k, c)`` of ranges of cells ``(k, c)``, within the limits."""
    low, high = np.empty(first.shape), np.empty(first.shape)
    limits = space.limits(x0)
    for i, j in enumerate(which.tolist()):
        bottom = np.concatenate([[-np.inf], np.nextafter(trees.edges[j], np.inf)])[first[:, i]]
        top = np.append(trees.edges[j], np.inf)[last[:, i]]
        low[:, i] = np.maximum(bottom, max(float(limits[0][j]), float(trees.low[j])))
        high[:, i] = np.minimum(top, min(float(limits[1][j]), float(trees.high[j])))
    return low, high


def _keep_rules(halves: list[_Half], x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return ranges ``(n, c)`` that keep inequalities, out of ranges ``(k, c)`` around a point ``(c,)`` that does.

    Where several features share what an inequality leaves, it is shared in proportion and, of two features, also given
    to one of them first.
    """
    orders = [None, *permutations(range(len(x)))] if 1 < len(x) <= _MOST_EXACT and halves else [None]
    found = []
    for order in orders:
        ends = low, high
        for half in halves:
            ends = _draw_back(half, x, *ends, order)
        found.append(ends)
    return np.vstack([ends[0] for ends in found]), np.vstack([ends[1] for ends in found])


def _draw_back(half: _Half, x: Array, low: Array, high: Array, order: tuple[int, ...] | None) -> tuple[Array, Array]:
    """Return ranges ``(k, c)`` that keep one inequality; features in ``order`` go as far as they can."""
    weights, left = half.weights, max(half.bound - float(half.weights @ x), 0.0)
    asked = np.zeros(low.shape)
    for i in np.flatnonzero(weights).tolist():
        asked[:, i] = weights[i] * ((high if weights[i] > 0 else low)[:, i] - x[i])
    given = np.minimum(asked, left)
    if order is None:
        total = given.sum(axis=1, keepdims=True)
        given = given * (left / np.maximum(total, max(left, np.finfo(float).tiny)))
    else:
        spent = np.cumsum(given[:, order], axis=1) - given[:, order]
        given[:, order] = np.clip(left - spent, 0.0, given[:, order])
    low, high = low.copy(), high.copy()
    for i in np.flatnonzero(weights).tolist():
        ends, less = (high if weights[i] > 0 else low)[:, i], given[:, i] < asked[:, i]
        ends[less] = x[i] + given[less, i] / weights[i]
    return low, high


def _pick_widest(
    space: Space, which: Array, allowed: list[AllowedCells], low: Array, high: Array
) -> tuple[Array, Array]:
    """Return the ends ``(c,)`` of those ranges ``(k, c)`` with the largest product of widths, in whole steps."""
    log_widths = np.zeros(len(low))
    for i, (j, axis) in enumerate(zip(which.tolist(), allowed, strict=True)):
        if space.features[j].discrete:
            low[:, i], high[:, i] = np.ceil(low[:, i]), np.floor(high[:, i])
        ends = [np.clip(end[:, i] / space.scale[j], axis.places[0], axis.places[-1]) for end in (low, high)]
        log_widths += np.log(np.maximum(ends[1] - ends[0], axis.least))
    best = int(np.argmax(log_widths))
    return low[best], high[best]


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
