"""Boxes of cells around a point in which a tree ensemble is guaranteed to satisfy bounds on its scores.

For one or two features all cells are summed, which gives every maximal box. For more, a box grows while the worst
leaves of all trees still sum to enough, by the run of cells that adds most to the widths, as shares of the allowed
range, per lost slack.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from gbce._numerics import WIDE_ROUNDING
from gbce.base import Array
from gbce.trees._cells import CellTrees
from gbce.trees._grid import Axis, Grid

_MOST_CELLS = 500_000  # cells of two features, summed in some hundredths of a second; with more, those near the point
_MOST_STOPS = 400  # ends of a box on either side of the first feature; with more, a subset is tried
_MOST_STEPS = 5_000  # cells or runs of cells added, a fraction of a second; hand-tuned


class AllowedCells(NamedTuple):
    """Cells that one feature may have: the first and the last, and where each begins ``(n_cells + 1,)``."""

    first: int
    last: int
    places: Array
    least: float  # minimum width, of a single cell
    empty: Array = np.zeros(0, dtype=bool)  # cells without an attainable value, if any

    def none_in(self, first: int, last: int) -> Array:
        """Return which of the cells from ``first`` to ``last`` hold no attainable value."""
        return self.empty[first : last + 1] if len(self.empty) else np.zeros(last + 1 - first, dtype=bool)

    def width(self, first: int, last: int) -> float:
        """Return the total width of cells."""
        return max(float(self.places[last + 1] - self.places[first]), self.least)


def find_boxes(
    trees: CellTrees, cells: Array, which: Array, weights: Array, least: Array, allowed: list[AllowedCells]
) -> tuple[Array, Array] | None:
    """Return the first and last cells ``(k, c)`` of the maximal safe boxes of one or two features around a point.

    None if the point's own cells ``(d,)`` are not safe. With too many cells, only those near the point are considered.
    ``weights`` ``(q, K)`` are those of each sum of scores, ``least`` ``(q,)`` its lower bound.
    """
    here, ends = cells[which], np.array([[axis.first, axis.last] for axis in allowed])
    for i, axis in enumerate(allowed):  # no box extends beyond what is safe if this feature alone varies
        good = _check_cells(trees, cells, which[[i]], weights, least, ends[[i]]) | axis.none_in(*ends[i])
        at = int(here[i] - ends[i, 0])
        if not (0 <= at < len(good) and good[at]):
            return None
        ends[i] = here[i] - _count_run(good[at::-1]), here[i] + _count_run(good[at:])
    if len(which) == 1:
        return ends[None, :, 0], ends[None, :, 1]
    ends = _narrow(ends, here)
    good = _check_cells(trees, cells, which, weights, least, ends)
    good |= allowed[0].none_in(*ends[0])[:, None] | allowed[1].none_in(*ends[1])
    low, high = _largest_boxes(good, *(here - ends[:, 0]).tolist())
    return low + ends[:, 0], high + ends[:, 0]


def _check_cells(trees: CellTrees, cells: Array, which: Array, weights: Array, least: Array, ends: Array) -> Array:
    """Return where sums meet their bounds on the grid of cells of some features between ends ``(c, 2)``."""
    tops = [np.append(trees.edges[j], np.inf)[first : last + 1] for j, (first, last) in zip(which, ends, strict=True)]
    axes = [Axis(int(j), top) for j, top in zip(which, tops, strict=True)]
    met = [(scores @ weights.T >= least).all(axis=-1) for scores in Grid(trees, cells, which).scores(axes)]
    return np.concatenate(met)


def _count_run(good: Array) -> int:
    """Return how many cells after the first are good until one is not."""
    return int(np.argmin(np.append(good[1:], False)))


def _narrow(ends: Array, cells: Array) -> Array:
    """Move ends ``(2, 2)`` closer to a point's cells if there are too many cells between them."""
    share = np.sqrt(_MOST_CELLS / np.prod(ends[:, 1] + 1.0 - ends[:, 0]))
    return ends if share >= 1 else cells[:, None] + (share * (ends - cells[:, None])).astype(int)


def _largest_boxes(good: Array, a: int, b: int) -> tuple[Array, Array]:
    """Return the first and last cells ``(k, 2)`` of all maximal boxes of good cells ``(n, m)`` around a cell."""
    right, left = good[:, b:], good[:, b::-1]
    stop = b + np.argmin(np.column_stack([right, np.zeros(len(good), dtype=bool)]), axis=1) - 1
    begin = b + 1 - np.argmin(np.column_stack([left, np.zeros(len(good), dtype=bool)]), axis=1)
    sides = []
    for rows in (np.arange(a, -1, -1), np.arange(a, len(good))):
        low, high = np.maximum.accumulate(begin[rows]), np.minimum.accumulate(stop[rows])
        at = np.flatnonzero(np.append((low[1:] != low[:-1]) | (high[1:] != high[:-1]), True))
        if len(at) > _MOST_STOPS:
            at = at[np.linspace(0, len(at) - 1, _MOST_STOPS).astype(int)]
        sides.append((rows[at], low[at], high[at]))
    (above, low, high), (below, other_low, other_high) = sides
    first = np.column_stack([np.repeat(above, len(below)), np.maximum.outer(low, other_low).ravel()])
    last = np.column_stack([np.tile(below, len(above)), np.minimum.outer(high, other_high).ravel()])
    return first, last


def grow_box(box: "GrowingBox", allowed: list[AllowedCells]) -> tuple[Array, Array]:
    """Return the first and last cells ``(c,)`` after growing a box by runs of cells while some fit."""
    closed: set[tuple[int, int]] = set()
    for _ in range(_MOST_STEPS):
        best: tuple[float, int, int, int] | None = None
        for i, axis in enumerate(allowed):
            for side, end in ((-1, axis.first), (1, axis.last)):
                if (i, side) in closed:
                    continue
                slack_then = box.slacks_towards(i, side, end)
                slack_then = slack_then[: int(np.count_nonzero(slack_then >= 0))]
                if not len(slack_then):  # a larger box loses more, so this side is closed
                    closed.add((i, side))
                    continue
                gain = _compute_gains(axis, int(box.first[i]), int(box.last[i]), side, len(slack_then))
                score = gain / (box.slack - slack_then + WIDE_ROUNDING * (1.0 + box.slack))
                most = int(np.argmax(score))
                if best is None or score[most] > best[0]:
                    best = float(score[most]), i, side, most + 1
        if best is None:
            break
        _, i, side, n = best
        for _ in range(n):
            box.add(i, side)
    return box.first, box.last


def _compute_gains(axis: AllowedCells, first: int, last: int, side: int, n: int) -> Array:
    """Return the width added by one to ``n`` more cells on a side ``(n,)``, as shares of the allowed range."""
    if side > 0:
        wider = axis.places[last + 2 : last + 2 + n] - axis.places[first]
    else:
        wider = axis.places[last + 1] - axis.places[first - n : first][::-1]
    gain = np.maximum(wider, axis.least) - axis.width(first, last)
    return np.asarray(gain / axis.width(axis.first, axis.last))


class GrowingBox:
    """A box of cells, and the slack by which the worst leaves that intersect it exceed the bounds.

    It counts for each of the leaves ``some`` ``(m,)``, in the order of their trees, the features ``which`` ``(c,)`` in
    which it lies outside: a new cell of one feature brings in only leaves that lie outside in that feature alone. It
    begins at ``cells`` ``(c,)``; ``weights`` ``(q, K)`` are those of each sum of scores, ``least`` ``(q,)`` its lower
    bound.
    """

    def __init__(self, trees: CellTrees, some: Array, which: Array, cells: Array, weights: Array, least: Array) -> None:
        self.first, self.last = cells.copy(), cells.copy()
        tree = trees.tree[some]
        begins = np.concatenate([[True], tree[1:] != tree[:-1]])
        self._tree = np.cumsum(begins) - 1
        self._worth, self._least = trees.value[some] @ weights.T, least
        self._feature_leaves = [_FeatureLeaves(trees, int(j), some) for j in which.tolist()]
        inside = [leaves.meets(cell) for leaves, cell in zip(self._feature_leaves, cells.tolist(), strict=True)]
        self._outside = ~np.array(inside).reshape(len(inside), len(some))
        self._n_outside = self._outside.sum(axis=0)
        meets = (self._n_outside == 0)[:, None]
        self._worst = np.minimum.reduceat(np.where(meets, self._worth, np.inf), np.flatnonzero(begins), axis=0)
        self.slack = self._compute_slack(self._worst)

    def next_cell(self, i: int, side: int) -> int:
        """Return the next cell of the ``i``-th feature below (-1) or above (1) the box."""
        return int(self.first[i] - 1 if side < 0 else self.last[i] + 1)

    def slacks_towards(self, i: int, side: int, end: int) -> Array:
        """Return the slacks ``(n,)`` after adding one, two, ... cells of the ``i``-th feature, up to an end."""
        begin = int(self.last[i] if side > 0 else self.first[i])
        n = (end - begin) * side
        if n <= 0:
            return np.zeros(0)
        leaves = np.flatnonzero(self._outside[i] & (self._n_outside == 1))
        when = self._feature_leaves[i].steps_to(leaves, begin, side)  # the first step that brings in each leaf
        leaves, when = leaves[when <= n], when[when <= n]
        lost = np.array([self._compute_losses(leaves, when, k, n) for k in range(self._worth.shape[1])])
        now = self._worst.sum(axis=0) - self._least
        return np.asarray((now[:, None] - np.cumsum(lost, axis=1)).min(axis=0))

    def _compute_losses(self, leaves: Array, when: Array, k: int, n: int) -> Array:
        """Return how much each of ``n`` steps takes from the ``k``-th sum ``(n,)`` by bringing in leaves."""
        worse = self._worth[leaves, k] < self._worst[self._tree[leaves], k]
        leaves, when = leaves[worse], when[worse]
        order = np.lexsort((when, self._tree[leaves]))
        leaves, when = leaves[order], when[order]
        tree, worth = self._tree[leaves], self._worth[leaves, k]
        lowest = _running_minimum(tree, worth)
        begins = np.diff(tree, prepend=-1) > 0
        before = np.where(begins, self._worst[tree, k], np.concatenate([worth[:1], lowest[:-1]]))
        return np.asarray(np.bincount(when - 1, weights=before - lowest, minlength=n))

    def add(self, i: int, side: int) -> None:
        """Add the next cell of the ``i``-th feature below (-1) or above (1)."""
        new = self._find_new_leaves(i, self.next_cell(i, side))
        (self.first if side < 0 else self.last)[i] += side
        self._outside[i][new] = False
        self._n_outside[new] -= 1
        met = new[self._n_outside[new] == 0]
        if len(met):
            self._worst = self._update_worst(met)
            self.slack = self._compute_slack(self._worst)

    def _find_new_leaves(self, i: int, cell: int) -> Array:
        """Return the leaves that a cell of the ``i``-th feature brings in."""
        begins = self._feature_leaves[i].next_to(cell, above=cell > self.last[i])
        return np.flatnonzero(self._outside[i] & self._feature_leaves[i].meets(cell)) if begins is None else begins

    def _update_worst(self, leaves: Array) -> Array:
        """Return the worst leaf of each tree after adding leaves."""
        worst, tree = self._worst.copy(), self._tree[leaves]
        for k in range(worst.shape[1]):  # numpy is faster one column at a time
            np.minimum.at(worst[:, k], tree, self._worth[leaves, k])
        return worst

    def _compute_slack(self, worst: Array) -> float:
        """Return the slack of the worst leaves."""
        return float((worst.sum(axis=0) - self._least).min())


def _running_minimum(group: Array, values: Array) -> Array:
    """Return the running minimum within groups ``(n,)``, which are sorted ascending."""
    if not len(values):
        return values
    upwards = np.argsort(values, kind="stable")
    rank = np.empty(len(values), dtype=int)
    rank[upwards] = np.arange(len(values))
    shift = (group[-1] - group) * len(values)  # each group ranks below all earlier ones, so the minimum restarts
    return np.asarray(values[upwards[np.minimum.accumulate(rank + shift) - shift]])


class _FeatureLeaves:
    """Which leaves ``(m,)`` hold a cell of one feature."""

    def __init__(self, trees: CellTrees, j: int, some: Array) -> None:
        own = np.flatnonzero(trees.set_features == j)
        self._allowed: Array | None = None
        if len(own):
            self._allowed = trees.allowed[own[0]][trees.set_of[some, own[0]]]
        else:
            self._first, self._last = trees.first[some, j], trees.last[some, j]

    @cached_property
    def _by_end(self) -> dict[bool, tuple[Array, Array]]:
        """Leaves that hold some cell, sorted by their first and by their last cell, with that cell."""
        some = np.flatnonzero(self._first <= self._last)
        found = {}
        for above, ends in ((True, self._first[some]), (False, self._last[some])):
            order = np.argsort(ends, kind="stable")
            found[above] = some[order], ends[order]
        return found

    def next_to(self, cell: int, *, above: bool) -> Array | None:
        """Return the leaves that a growing box meets first at a cell above or below it; None for unordered cells."""
        if self._allowed is not None:
            return None
        leaves, ends = self._by_end[above]
        begin, end = np.searchsorted(ends, [cell, cell + 1])
        return np.asarray(leaves[begin:end])

    def meets(self, cell: int) -> Array:
        """Return which leaves hold a cell."""
        if self._allowed is not None:
            return np.asarray(self._allowed[:, cell], dtype=bool)
        return np.asarray((self._first <= cell) & (self._last >= cell))

    def steps_to(self, leaves: Array, begin: int, side: int) -> Array:
        """Return the distance in cells to leaves on a side; a huge number for leaves on the other side."""
        if self._allowed is not None:
            ahead = self._allowed[leaves][:, begin + 1 :] if side > 0 else self._allowed[leaves][:, :begin][:, ::-1]
            never = np.ones((len(leaves), 1), dtype=bool)
            away = np.argmax(np.hstack([ahead, never]), axis=1) + 1
            return np.where(away > ahead.shape[1], np.iinfo(int).max, away)
        away = self._first[leaves].astype(int) - begin if side > 0 else begin - self._last[leaves].astype(int)
        return np.where(away > 0, away, np.iinfo(int).max)
