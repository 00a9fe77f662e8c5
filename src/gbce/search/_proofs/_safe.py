"""The ranges around a point within which a tree ensemble certainly stays in a target, grown cell by cell.

A box of cells is safe if the worst leaf of each tree that it meets still adds up to enough. It grows by the cell that
adds most to the logarithms of its widths for what it takes from the slack, until nothing more fits.
"""

from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.search._proofs._conditions import Conditions, conditions_of
from gbce.search._proofs._prove import sum_margin
from gbce.space import Space
from gbce.targets import Class
from gbce.trees import CellTrees

__all__ = ["Ranges", "find_safe_ranges"]

_MOST_STEPS = 5_000  # cells that are added; by hand: a fraction of a second
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
    bounds = [_cells_within(trees, space, x0, j) for j in which.tolist()]
    width = [_Widths(trees, space, x0, int(j)) for j in which.tolist()]
    first, last = cells[which].copy(), cells[which].copy()
    box = _Box(trees, some, which, first, conditions.weights, least)
    if not box.slack >= 0:
        return None
    stuck: set[tuple[int, int]] = set()
    for _ in range(_MOST_STEPS):
        best: tuple[float, int, int] | None = None
        for i in range(len(which)):
            for side in (-1, 1):
                cell = int(first[i] - 1 if side < 0 else last[i] + 1)
                if (i, side) in stuck or not bounds[i][0] <= cell <= bounds[i][1]:
                    continue
                then = box.slack_with(i, cell)
                if not then >= 0:  # a larger box loses more: never again
                    stuck.add((i, side))
                    continue
                wider = width[i].of(min(cell, int(first[i])), max(cell, int(last[i])))
                gain = np.log(wider / width[i].of(first[i], last[i]))
                score = gain / (box.slack - then + _TIGHTER * (1.0 + box.slack))
                if best is None or score > best[0]:
                    best = score, i, side
        if best is None:
            break
        _, i, side = best
        (first if side < 0 else last)[i] += side
        box.add(i, int(first[i] if side < 0 else last[i]))
    return first, last


class _Box:
    """Cells of some features, and how much the worst leaves of all trees that it meets add up to beyond what is needed.

    It knows for each leaf in how many features it lies outside: a cell more of one feature brings in only leaves that
    lie outside in that feature alone.
    """

    def __init__(self, trees: CellTrees, some: Array, which: Array, cells: Array, weights: Array, least: Array) -> None:
        tree = trees.tree[some]
        begins = np.concatenate([[True], tree[1:] != tree[:-1]])
        self._tree = np.cumsum(begins) - 1
        self._worth, self._least = trees.value[some] @ weights.T, least
        self._reach = [_CellsOf(trees, int(j), some) for j in which.tolist()]
        inside = [reach.meets(cell) for reach, cell in zip(self._reach, cells.tolist(), strict=True)]
        self._outside = [~met for met in inside]
        self._n_outside = np.sum(self._outside, axis=0, initial=0) + np.zeros(len(some), dtype=int)
        meets = (self._n_outside == 0)[:, None]
        self._worst = np.minimum.reduceat(np.where(meets, self._worth, np.inf), np.flatnonzero(begins), axis=0)
        self.slack = self._beyond(self._worst)

    def slack_with(self, i: int, cell: int) -> float:
        """Return the slack if a cell of the ``i``-th feature were added."""
        new = self._new(i, cell)
        new = new[self._n_outside[new] == 1]
        return self._beyond(self._worst_with(new)) if len(new) else self.slack

    def add(self, i: int, cell: int) -> None:
        """Add a cell of the ``i``-th feature."""
        new = self._new(i, cell)
        self._outside[i][new] = False
        self._n_outside[new] -= 1
        self._worst = self._worst_with(new[self._n_outside[new] == 0])
        self.slack = self._beyond(self._worst)

    def _new(self, i: int, cell: int) -> Array:
        return np.flatnonzero(self._outside[i] & self._reach[i].meets(cell))

    def _worst_with(self, leaves: Array) -> Array:
        worst = self._worst.copy()
        np.minimum.at(worst, self._tree[leaves], self._worth[leaves])
        return worst

    def _beyond(self, worst: Array) -> float:
        return float((worst.sum(axis=0) - self._least).min())


class _CellsOf:
    """Which leaves ``(m,)`` meet a cell of one feature."""

    def __init__(self, trees: CellTrees, j: int, some: Array) -> None:
        own = np.flatnonzero(trees.set_features == j)
        self._allowed: Array | None = None
        if len(own):
            self._allowed = trees.allowed[own[0]][trees.set_of[some, own[0]]]
        else:
            self._first, self._last = trees.first[some, j], trees.last[some, j]

    def meets(self, cell: int) -> Array:
        if self._allowed is not None:
            return np.asarray(self._allowed[:, cell], dtype=bool)
        return np.asarray((self._first <= cell) & (self._last >= cell))


class _Widths:
    """How wide ranges of cells are, in units of the feature's scale."""

    def __init__(self, trees: CellTrees, space: Space, x0: Array, j: int) -> None:
        low, high = (float(end[j]) for end in space.limits(x0))
        edges, scale = trees.edges[j], float(space.scale[j])
        far = _WIDEST * scale
        begin = edges[0] - far if len(edges) else x0[j] - far
        end = edges[-1] + far if len(edges) else x0[j] + far
        self._places = np.concatenate([[max(low, begin)], np.clip(edges, low, high), [min(high, end)]]) / scale

    def of(self, first: int, last: int) -> float:
        return max(float(self._places[last + 1] - self._places[first]), _LEAST_WIDTH)


def _cells_within(trees: CellTrees, space: Space, x0: Array, j: int) -> tuple[int, int]:
    """Return the first and the last cell of a feature that the limits leave and that are known."""
    low, high = (float(end[j]) for end in space.limits(x0))
    low, high = max(low, float(trees.low[j])), min(high, float(trees.high[j]))
    ends = np.searchsorted(trees.edges[j], [low, high], side="left")
    return int(ends[0]), int(ends[1])


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
