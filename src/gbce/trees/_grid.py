"""Exact scores of a tree ensemble on the full grid of cells of a few features, the others fixed.

A leaf is a box of the grid: its value is added at the corners of the box, and cumulative sums along every axis spread
it over the cells inside. Values are rounded to multiples of a tiny unit, so that these sums are exact in any order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.predictors import Predictor
from gbce.trees._cells import CellTrees, outputs_of

_DIGITS = 60  # binary digits of sums, out of 63 so that none overflows
_STEPS = 8  # time to traverse a tree, in additions at a corner; measured roughly
_AT_ONCE = 500_000  # cells read together: about ten arrays of 4 MB; results do not depend on it

# --- scores on a grid ------------------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """Cells of one feature on a grid, by values at their upper ends ``(n,)``; NaN for the missing cell, the last."""

    feature: int
    tops: Array


@dataclass(frozen=True, eq=False)
class Grid:
    """An ensemble with the features ``free`` ``(m,)`` varying and the others fixed at the row's ``cells`` ``(d,)``."""

    trees: CellTrees
    cells: Array
    free: Array

    @cached_property
    def _leaves(self) -> Array:
        """Positions of the leaves that hold the row's cells of all fixed features."""
        fixed = np.setdiff1d(self.trees.used, self.free)
        return self.trees.leaves_between(fixed, self.cells[fixed], self.cells[fixed])

    def cuts(self, j: int, low: float, high: float) -> Array:
        """Return the edges of feature ``j`` between two limits at which some leaf begins or ends, ascending."""
        trees, edges, leaves = self.trees, self.trees.edges[j], self._leaves
        if (trees.set_features == j).any():
            found = edges
        else:
            first, last = trees.first[leaves, j].astype(int), trees.last[leaves, j].astype(int)
            known = first <= last
            is_edge = np.zeros(len(edges) + 1, dtype=bool)  # the last entry is for both outer ends
            is_edge[first[known] - 1] = is_edge[last[known]] = True
            found = edges[is_edge[:-1]]
        return np.asarray(found[(found >= low) & (found < high)])

    def covers(self, j: int, low: float, high: float) -> bool:
        """Whether the cells of feature ``j`` are known between two limits."""
        return bool(low >= self.trees.low[j] and high <= self.trees.high[j])

    def scores(self, axes: Sequence[Axis], most: int = 1_000_000) -> Iterator[Array]:
        """Yield scores ``(n, n_2, ..., n_m, K)`` for blocks of ``n`` cells of the first axis.

        The axes are those of ``free``, in this order, split wherever :meth:`cuts` has an edge. A block has at most
        ``most`` cells, or one cell of the first axis.
        """
        boxes, others = self._make_boxes(axes), tuple(len(axis.tops) for axis in axes[1:])
        n_trees, n_scores = self.trees.n_trees, len(self.trees.base)
        for start, stop in _iterate_blocks(len(axes[0].tops), others, most):
            shape = (stop - start, *others)
            some = boxes.within(start, stop)
            if len(some.value) << sum(n > 1 for n in shape) > _STEPS * n_trees * int(np.prod(shape)):
                yield self._traverse(axes, start, stop).reshape(*shape, n_scores)
            else:
                yield self._sum_boxes(some, shape)

    def _sum_boxes(self, boxes: "_Boxes", shape: tuple[int, ...]) -> Array:
        """Sum boxes over the cells they hold."""
        boxes, whole = boxes.restrict_to([i for i, n in enumerate(shape) if n > 1]), shape
        shape, unit = tuple(n for n in whole if n > 1), self._unit
        units = np.round(boxes.value / unit).astype(np.int64)
        padded = tuple(n + 1 for n in shape)
        strides = [int(np.prod(padded[i + 1 :])) for i in range(len(padded))]
        sums = np.empty((*whole, units.shape[1]))
        corners = [(boxes.flat_positions(ends, strides), sign) for ends, sign in _list_corners(boxes)]
        for k in range(units.shape[1]):
            table = np.zeros(int(np.prod(padded)), dtype=np.int64)  # a single cell if no axis has more
            for place, sign in corners:
                np.add.at(table, place, sign * units[:, k])
            table = table.reshape(padded)[tuple(slice(n) for n in shape)]
            for axis in range(len(shape)):
                table = np.cumsum(table, axis=axis)
            sums[..., k] = (table * unit + self.trees.base[k]).reshape(whole)
        return sums

    @cached_property
    def _unit(self) -> float:
        """Unit that values are rounded to multiples of: a negligibly small power of two."""
        size = max(self.trees.largest_total, float(np.finfo(float).tiny) * 2.0**_DIGITS)  # for leaves that are all zero
        return float(2.0 ** (np.ceil(np.log2(size)) - _DIGITS))

    @property
    def rounding(self) -> float:
        """Bound on the difference between the model's own sums and exact ones."""
        trees = self.trees
        return float(trees.epsilon * (trees.n_trees + 1) * (trees.largest_total + np.abs(trees.base).max()))

    def _make_boxes(self, axes: Sequence[Axis]) -> "_Boxes":
        """Return the leaves as boxes of the grid; a leaf with several runs of cells becomes several boxes."""
        leaf = self._leaves
        ends: list[Array] = []
        for axis in axes:
            which, first, last = self._find_runs(axis, leaf)
            leaf = leaf[which]
            ends = [end[which] for end in ends]
            ends += [first, last]
        return _Boxes(np.array(ends[::2]).reshape(len(axes), -1), np.array(ends[1::2]).reshape(len(axes), -1),
                      self.trees.value[leaf])  # fmt: skip

    def _find_runs(self, axis: Axis, leaf: Array) -> tuple[Array, Array, Array]:
        """Return runs of cells on one axis: the position of their leaf in ``leaf`` ``(L,)``, first and last cell."""
        trees, j = self.trees, axis.feature
        own = np.searchsorted(trees.edges[j], axis.tops, side="left")
        is_missing = np.isnan(axis.tops)
        own[is_missing] = len(trees.edges[j]) + 1
        listed = np.flatnonzero(trees.set_features == j)
        if len(listed):
            held = trees.allowed[listed[0]][:, own]
            edge = np.diff(held.astype(np.int8), axis=1, prepend=0, append=0)
            of_set, first = np.nonzero(edge == 1)
            last = np.nonzero(edge == -1)[1] - 1
            count = np.bincount(of_set, minlength=len(held))
            start = np.cumsum(count) - count
            sets = trees.set_of[leaf, listed[0]]
            which = np.repeat(np.arange(len(leaf)), count[sets])
            rank = np.arange(len(which)) - np.repeat(np.cumsum(count[sets]) - count[sets], count[sets])
            run = start[sets[which]] + rank
            return which, first[run], last[run]
        known = own[~is_missing]
        first = np.searchsorted(known, trees.first[leaf, j], side="left")
        last = np.searchsorted(known, trees.last[leaf, j], side="right") - 1
        which = np.flatnonzero(first <= last)
        first, last = first[which], last[which]
        if is_missing.any():
            missing_leaves = np.flatnonzero(trees.missing[leaf, j])
            at = np.full(len(missing_leaves), len(known))
            which, first, last = np.append(which, missing_leaves), np.append(first, at), np.append(last, at)
        return which, first, last

    def _traverse(self, axes: Sequence[Axis], start: int, stop: int) -> Array:
        """Traverse every tree for every cell: faster for many axes with few cells each."""
        tops = [axes[0].tops[start:stop], *(axis.tops for axis in axes[1:])]
        own = []
        for axis, values in zip(axes, tops, strict=True):
            cells = np.searchsorted(self.trees.edges[axis.feature], values, side="left")
            own.append(np.where(np.isnan(values), len(self.trees.edges[axis.feature]) + 1, cells))
        grid = np.stack([one.ravel() for one in np.meshgrid(*own, indexing="ij")], axis=1)
        cells = np.tile(self.cells, (len(grid), 1))
        cells[:, self.free] = grid
        return self.trees.scores(cells)


def _iterate_blocks(n: int, others: tuple[int, ...], most: int) -> Iterator[tuple[int, int]]:
    """Yield blocks ``(start, stop)`` of an axis with ``n`` cells, of at most ``most`` cells of the grid."""
    size = max(1, most // max(int(np.prod(others)), 1))
    for start in range(0, n, size):
        yield start, min(start + size, n)


class _Boxes(NamedTuple):
    """Boxes of a grid: first and last cell on each axis ``(m, B)``, and the value inside ``(B, K)``."""

    first: Array
    last: Array
    value: Array

    def restrict_to(self, axes: list[int]) -> "_Boxes":
        """Restrict the boxes to some axes."""
        return _Boxes(self.first[axes], self.last[axes], self.value)

    def flat_positions(self, ends: list[Array], strides: list[int]) -> Array:
        """Return the flat positions ``(B,)`` of corners in a table with these strides."""
        total = np.zeros(len(self.value), dtype=np.int64)
        for end, stride in zip(ends, strides, strict=True):
            total += end * stride
        return total

    def within(self, start: int, stop: int) -> "_Boxes":
        """Return the boxes between two cells of the first axis, relative to the first of them."""
        some = np.flatnonzero((self.first[0] < stop) & (self.last[0] >= start))
        first, last = self.first[:, some], self.last[:, some]
        first[0], last[0] = np.maximum(first[0], start) - start, np.minimum(last[0], stop - 1) - start
        return _Boxes(first, last, self.value[some])


def _list_corners(boxes: _Boxes) -> "list[tuple[list[Array], int]]":
    """Return all corners of boxes: their cells on each axis, and the sign of the value there."""
    found = []
    for choice in product((False, True), repeat=len(boxes.first)):
        ends = [boxes.last[i] + 1 if upper else boxes.first[i] for i, upper in enumerate(choice)]
        found.append((ends, -1 if sum(choice) % 2 else 1))
    return found


# --- target readings on a grid ---------------------------------------------------------------------------------------


class CellReadings(NamedTuple):
    """Outputs as a target shows them, losses, whether it is reached, and whether rounding decides, each ``(n,)``."""

    output: Array
    loss: Array
    reached: Array
    unsure: Array


def read_cell_outputs(grid: Grid, axes: Sequence[Axis], predictor: Predictor, target: Target) -> Iterator[CellReadings]:
    """Yield the target's readings of a model's outputs on a grid in blocks, in order; the model is not called."""
    rounding_error = grid.rounding
    for scores in grid.scores(axes, _AT_ONCE):
        flat = scores.reshape(-1, scores.shape[-1])
        reading = target.read(outputs_of(grid.trees, predictor, flat))
        reached, unsure = np.asarray(reading.reached), np.zeros(len(flat), dtype=bool)
        for shift in rounding_shifts(flat.shape[1], rounding_error):
            unsure |= reached != target.read(outputs_of(grid.trees, predictor, flat + shift)).reached
        yield CellReadings(np.asarray(reading.output), np.asarray(reading.loss, dtype=float), reached, unsure)


def rounding_shifts(n: int, size: float) -> list[Array]:
    """Return shifts ``(n,)`` by which rounding may move scores: one of them up or down against the others."""
    if n == 1:
        return [np.array([size]), np.array([-size])]
    return [sign * size * (2.0 * (np.arange(n) == k) - 1.0) for k in range(n) for sign in (1.0, -1.0)]
