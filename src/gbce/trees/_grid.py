"""Every cell of a few features at once: the scores of an ensemble on a grid, the other features as they are.

A leaf is a box of the grid, and what it adds is written to the corners of the box only; sums along every axis then
spread it over the cells inside. Values are whole multiples of a tiny unit, so that these sums are exact, in any order.
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

__all__ = ["Axis", "CellReadings", "Grid", "read_cell_outputs"]

# --- every cell of a few features at once ----------------------------------------------------------------------------

_DIGITS = 60  # binary digits of sums of values: of 63, so that no sum of them overflows
_STEPS = 8  # that going down a tree takes as long as, against adding one number at a corner; measured, roughly


class Axis(NamedTuple):
    """One feature's cells on a grid.

    Parameters
    ----------
    feature : int
        Its position.
    tops : array of shape (n,)
        A value of each cell from its upper end, as the row may take it; NaN for the missing cell, which is last.
    """

    feature: int
    tops: Array


@dataclass(frozen=True, eq=False)
class Grid:
    """An ensemble of which some features move and the others stay as they are in a row.

    Parameters
    ----------
    trees : CellTrees
        The ensemble.
    cells : int array of shape (d,)
        Of the row.
    free : int array of shape (m,)
        Features that move.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce import Space
    >>> from gbce.trees import read_structure
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 5.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 1.0, 4.0, 9.0])
    >>> trees = read_cells(read_structure(model, Space.real(2)), Space.real(2), x)
    >>> grid = Grid(trees, trees.cells(x[:1])[0], np.array([0, 1]))
    >>> cuts = [grid.cuts(j, -np.inf, np.inf) for j in (0, 1)]
    >>> axes = [Axis(j, np.append(cuts[j], np.inf)) for j in (0, 1)]
    >>> next(grid.scores(axes))[..., 0]
    array([[1., 9.],
           [4., 9.]])
    """

    trees: CellTrees
    cells: Array
    free: Array

    @cached_property
    def _leaves(self) -> Array:
        """Positions of the leaves that hold the row's cells of all features that stay."""
        trees, held = self.trees, np.ones(len(self.trees.tree), dtype=bool)
        moving = set(self.free.tolist())
        for j in trees.used.tolist():
            if j not in moving:
                held &= trees.holds(j, int(self.cells[j]))
        return np.flatnonzero(held)

    def cuts(self, j: int, low: float, high: float) -> Array:
        """Return the edges of feature ``j`` between two limits that some leaf tells apart, rising."""
        trees, edges, leaves = self.trees, self.trees.edges[j], self._leaves
        if (trees.set_features == j).any():
            found = edges
        else:
            first, last = trees.first[leaves, j].astype(int), trees.last[leaves, j].astype(int)
            known = first <= last
            told_apart = np.zeros(
                len(edges) + 1, dtype=bool
            )  # the last for what lies before the first and after the last
            told_apart[first[known] - 1] = told_apart[last[known]] = True
            found = edges[told_apart[:-1]]
        return np.asarray(found[(found >= low) & (found < high)])

    def covers(self, j: int, low: float, high: float) -> bool:
        """Whether the cells of feature ``j`` are known between two limits."""
        return bool(low >= self.trees.low[j] and high <= self.trees.high[j])

    def scores(self, axes: Sequence[Axis], most: int = 1_000_000) -> Iterator[Array]:
        """Yield scores ``(n, n_2, ..., n_m, K)``, some ``n`` cells of the first axis after the other.

        The axes are those of ``free``, in this order, with edges between their cells wherever :meth:`cuts` has some.
        At most ``most`` cells come at once, or those of one cell of the first axis.
        """
        boxes, others = self._boxes(axes), tuple(len(axis.tops) for axis in axes[1:])
        n_trees, n_scores = self.trees.n_trees, len(self.trees.base)
        for start, stop in _portions(len(axes[0].tops), others, most):
            shape = (stop - start, *others)
            some = boxes.within(start, stop)
            if len(some.value) << sum(n > 1 for n in shape) > _STEPS * n_trees * int(np.prod(shape)):
                yield self._go_down(axes, start, stop).reshape(*shape, n_scores)
            else:
                yield self._add_up(some, shape)

    def _add_up(self, boxes: "_Boxes", shape: tuple[int, ...]) -> Array:
        """Sum boxes over the cells they hold."""
        boxes, whole = boxes.along([i for i, n in enumerate(shape) if n > 1]), shape
        shape, unit = tuple(n for n in whole if n > 1), self._unit
        units = np.round(boxes.value / unit).astype(np.int64)
        wide = tuple(n + 1 for n in shape)
        strides = [int(np.prod(wide[i + 1 :])) for i in range(len(wide))]
        sums = np.empty((*whole, units.shape[1]))
        corners = [(boxes.places(ends, strides), sign) for ends, sign in _corners(boxes)]
        for k in range(units.shape[1]):
            table = np.zeros(int(np.prod(wide)), dtype=np.int64)  # of one cell, where no axis has more
            for place, sign in corners:
                np.add.at(table, place, sign * units[:, k])
            table = table.reshape(wide)[tuple(slice(n) for n in shape)]
            for axis in range(len(shape)):
                table = np.cumsum(table, axis=axis)
            sums[..., k] = (table * unit + self.trees.base[k]).reshape(whole)
        return sums

    @cached_property
    def _unit(self) -> float:
        """What values are whole multiples of: a power of two, so small that it does not matter."""
        trees = self.trees
        largest = np.zeros(trees.n_trees)
        np.maximum.at(largest, trees.tree, np.abs(trees.value).max(axis=1))
        size = max(float(largest.sum()), float(np.finfo(float).tiny) * 2.0**_DIGITS)  # of leaves that all say zero
        return float(2.0 ** (np.ceil(np.log2(size)) - _DIGITS))

    @property
    def rounding(self) -> float:
        """By how much the model's own sums may differ from exact ones."""
        trees = self.trees
        largest = np.zeros(trees.n_trees)
        np.maximum.at(largest, trees.tree, np.abs(trees.value).max(axis=1))
        return float(trees.epsilon * (trees.n_trees + 1) * (largest.sum() + np.abs(trees.base).max()))

    def _boxes(self, axes: Sequence[Axis]) -> "_Boxes":
        """Return the leaves as boxes of the grid; a leaf whose cells have gaps is several of them."""
        leaf = self._leaves
        ends: list[Array] = []
        for axis in axes:
            which, first, last = self._runs(axis, leaf)
            leaf = leaf[which]
            ends = [end[which] for end in ends]
            ends += [first, last]
        return _Boxes(np.array(ends[::2]).reshape(len(axes), -1), np.array(ends[1::2]).reshape(len(axes), -1),
                      self.trees.value[leaf])  # fmt: skip

    def _runs(self, axis: Axis, leaf: Array) -> tuple[Array, Array, Array]:
        """Return runs of cells on one axis: whose they are, of leaves ``(L,)``, the first cell and the last."""
        trees, j = self.trees, axis.feature
        own = np.searchsorted(trees.edges[j], axis.tops, side="left")
        blank = np.isnan(axis.tops)
        own[blank] = len(trees.edges[j]) + 1
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
        known = own[~blank]
        first = np.searchsorted(known, trees.first[leaf, j], side="left")
        last = np.searchsorted(known, trees.last[leaf, j], side="right") - 1
        which = np.flatnonzero(first <= last)
        first, last = first[which], last[which]
        if blank.any():
            gone = np.flatnonzero(trees.missing[leaf, j])
            at = np.full(len(gone), len(known))
            which, first, last = np.append(which, gone), np.append(first, at), np.append(last, at)
        return which, first, last

    def _go_down(self, axes: Sequence[Axis], start: int, stop: int) -> Array:
        """Ask every tree about every cell: where there are many axes with few cells each."""
        tops = [axes[0].tops[start:stop], *(axis.tops for axis in axes[1:])]
        own = []
        for axis, values in zip(axes, tops, strict=True):
            cells = np.searchsorted(self.trees.edges[axis.feature], values, side="left")
            own.append(np.where(np.isnan(values), len(self.trees.edges[axis.feature]) + 1, cells))
        grid = np.stack([one.ravel() for one in np.meshgrid(*own, indexing="ij")], axis=1)
        cells = np.tile(self.cells, (len(grid), 1))
        cells[:, self.free] = grid
        return self.trees.scores(cells)


def _portions(n: int, others: tuple[int, ...], most: int) -> Iterator[tuple[int, int]]:
    """Yield the first and one beyond the last of some cells of an axis with ``n``, at most ``most`` with the others."""
    size = max(1, most // max(int(np.prod(others)), 1))
    for start in range(0, n, size):
        yield start, min(start + size, n)


class _Boxes(NamedTuple):
    """Boxes of a grid: first and last cell on each axis ``(m, B)``, and what is added inside ``(B, K)``."""

    first: Array
    last: Array
    value: Array

    def along(self, axes: list[int]) -> "_Boxes":
        """Return them on some axes only."""
        return _Boxes(self.first[axes], self.last[axes], self.value)

    def places(self, ends: list[Array], strides: list[int]) -> Array:
        """Return the positions ``(B,)`` of corners in a table whose axes have these strides."""
        total = np.zeros(len(self.value), dtype=np.int64)
        for end, stride in zip(ends, strides, strict=True):
            total += end * stride
        return total

    def within(self, start: int, stop: int) -> "_Boxes":
        """Return what lies between two cells of the first axis, counted from the first of them."""
        some = np.flatnonzero((self.first[0] < stop) & (self.last[0] >= start))
        first, last = self.first[:, some], self.last[:, some]
        first[0], last[0] = np.maximum(first[0], start) - start, np.minimum(last[0], stop - 1) - start
        return _Boxes(first, last, self.value[some])


def _corners(boxes: _Boxes) -> "list[tuple[list[Array], int]]":
    """Return all corners of boxes: their places on each axis, and the sign with which a value counts there."""
    found = []
    for choice in product((False, True), repeat=len(boxes.first)):
        ends = [boxes.last[i] + 1 if upper else boxes.first[i] for i, upper in enumerate(choice)]
        found.append((ends, -1 if sum(choice) % 2 else 1))
    return found


# --- what a target says of every cell of a grid, and where rounding may decide about it ------------------------------

_AT_ONCE = 500_000  # cells whose outputs are read together: some ten arrays of 4 MB; results do not hang on it


class CellReadings(NamedTuple):
    """Outputs as a target shows them, losses, verdicts, and where rounding may decide about these, each ``(n,)``."""

    output: Array
    loss: Array
    reached: Array
    unsure: Array


def read_cell_outputs(grid: Grid, axes: Sequence[Axis], predictor: Predictor, target: Target) -> Iterator[CellReadings]:
    """Yield what a target says of a model's outputs in the cells of a grid, some after the other, in their order.

    Parameters
    ----------
    grid : Grid
        Of the model's trees.
    axes : sequence of Axis
        Its cells.
    predictor : Predictor
        The model, for the form in which it says its outputs; it is not asked.
    target : Target
        With its numbers filled in.
    """
    wide = grid.rounding
    for scores in grid.scores(axes, _AT_ONCE):
        flat = scores.reshape(-1, scores.shape[-1])
        reading = target.read(outputs_of(grid.trees, predictor, flat))
        reached, unsure = np.asarray(reading.reached), np.zeros(len(flat), dtype=bool)
        for shift in _shifts(flat.shape[1], wide):
            unsure |= reached != target.read(outputs_of(grid.trees, predictor, flat + shift)).reached
        yield CellReadings(np.asarray(reading.output), np.asarray(reading.loss, dtype=float), reached, unsure)


def _shifts(n: int, size: float) -> list[Array]:
    """Return directions ``(n,)`` in which rounding may move scores: one of them up or down against the others."""
    if n == 1:
        return [np.array([size]), np.array([-size])]
    return [sign * size * (2.0 * (np.arange(n) == k) - 1.0) for k in range(n) for sign in (1.0, -1.0)]
