"""Leaves along one feature, in the cells that a row can get to: intervals of them, or any sets."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.search._proofs._box_loops import CUT, HOLD, PRICE
from gbce.search._proofs._offers import Offer
from gbce.trees import CellTrees

__all__ = ["Axis", "Cutter", "Intervals", "Part", "Sets", "make_axes", "pick_leaves"]

_MOST_TABLE = 20_000_000  # truth values of sets of cells: 20 MB
_LEAST_STEP = 1e-3  # of the best price known, that a step counts as where it costs less, or nothing; by hand

Part = Any  # of a feature's cells: two ends, the first and the one after the last, or an array of which are left


@dataclass(frozen=True, eq=False)
class Intervals:
    """Leaves that hold cells from ``low`` up to but without ``high``, both ``(L,)``."""

    offer: Offer
    low: Array
    high: Array

    def whole(self) -> Part:
        """Return all cells."""
        return 0, len(self.offer.cells)

    def cheapest(self, part: Part) -> int:
        """Return the cheapest cell of a part, by its position in the offer."""
        first, end = part
        return int(min(max(self.offer.own, first), end - 1))

    def price(self, part: Part, leaves: Array) -> Array:
        """Return the least price ``(m,)`` of what leaves ``(m,)`` have in a part; infinite where that is nothing."""
        loop = PRICE.after(len(leaves))
        if loop is not None:
            return np.asarray(loop(self.low, self.high, leaves, self.offer.price, self.offer.own, *part))
        first = np.maximum(self.low[leaves], part[0])
        end = np.minimum(self.high[leaves], part[1]) - 1
        # prices rise on both sides of the row's own cell: the cheapest is the nearest
        found = self.offer.price[np.minimum(np.maximum(self.offer.own, first), end)]
        return np.where(first <= end, found, np.inf)

    def holds(self, leaves: Array, cell: int) -> Array:
        """Return which leaves ``(m,)`` have a cell."""
        return np.asarray((self.low[leaves] <= cell) & (cell < self.high[leaves]))


@dataclass(frozen=True, eq=False)
class Sets:
    """Leaves that hold sets of cells: ``member`` ``(S, k)``, and which of these is a leaf's, ``which`` ``(L,)``."""

    offer: Offer
    member: Array
    which: Array

    def whole(self) -> Part:
        """Return all cells."""
        return np.ones(len(self.offer.cells), dtype=bool)

    def cheapest(self, part: Part) -> int:
        """Return the cheapest cell of a part, by its position in the offer."""
        if part[self.offer.own]:
            return self.offer.own
        return int(np.argmin(np.where(part, self.offer.price, np.inf)))

    def price(self, part: Part, leaves: Array) -> Array:
        """Return the least price ``(m,)`` of what leaves ``(m,)`` have in a part; infinite where that is nothing."""
        least = np.where(self.member & part, self.offer.price, np.inf).min(axis=1)
        return np.asarray(least[self.which[leaves]])

    def holds(self, leaves: Array, cell: int) -> Array:
        """Return which leaves ``(m,)`` have a cell."""
        return np.asarray(self.member[self.which[leaves], cell])


Axis = Intervals | Sets


class Cutter:
    """Finds where to cut a box, and looks at leaves over all axes at once."""

    def __init__(self, axes: list[Axis]) -> None:
        self._ordered = [a for a, axis in enumerate(axes) if isinstance(axis, Intervals)]
        self._sets = [(a, axis) for a, axis in enumerate(axes) if isinstance(axis, Sets)]
        ordered = [axis for axis in axes if isinstance(axis, Intervals)]
        n_leaves = len(next((axis.low if isinstance(axis, Intervals) else axis.which for axis in axes), []))
        self._ends = np.zeros((n_leaves, 2 * len(ordered)), dtype=np.int32)  # first cells, then those after the last
        for a, axis in enumerate(ordered):
            self._ends[:, a], self._ends[:, a + len(ordered)] = axis.low, axis.high
        # places to cut: before each cell of an axis, and after its last one
        self._starts = np.concatenate([[0], np.cumsum([len(axis.offer.cells) + 1 for axis in ordered])]).astype(int)
        self._price = np.concatenate([np.zeros(0), *(np.append(axis.offer.price, np.inf) for axis in ordered)])
        self._newest = np.full(len(self._price), -1, dtype=np.int32)  # for the loop alone

    def hold(self, leaves: Array, cells: Array) -> Array:
        """Return which leaves ``(m,)`` have cells ``(a,)``, one of each axis."""
        n, here, loop = len(self._ordered), cells[self._ordered], HOLD.after(len(leaves))
        if loop is not None:
            good = np.asarray(loop(self._ends, leaves, here))
        else:
            ends = self._ends[leaves]
            good = np.asarray(((ends[:, :n] <= here) & (ends[:, n:] > here)).all(axis=1))
        for a, axis in self._sets:
            good &= axis.holds(leaves, int(cells[a]))
        return good

    def cut(
        self, parts: tuple[Part, ...], leaves: Array, gain: Array, cells: Array, best: float
    ) -> tuple[int, list[Part]] | None:
        """Return the axis, and its part in two, where most is lost on the side of the cells and most is paid beyond.

        On the side of the cheapest cells ``(a,)`` of a box the leaves ``(m,)`` beyond a cut are out of reach, with
        their gains; on the other side every row pays the step up to the cut. The product of both is largest there.

        None if every leaf holds the cells.
        """
        least = _LEAST_STEP * best
        most, which, place = self._cut_ordered(leaves, gain, cells, least)
        halves: list[Part] = [] if which < 0 else [(parts[which][0], place), (place, parts[which][1])]
        for a, axis in self._sets:
            away = ~axis.holds(leaves, int(cells[a]))
            if not away.any():
                continue
            sums = np.bincount(axis.which[leaves[away]], gain[away])
            tried = np.flatnonzero(sums)
            step = np.where(axis.member[tried] & parts[a], axis.offer.price, np.inf).min(axis=1)
            worth = sums[tried] * np.maximum(step - axis.offer.price[int(cells[a])], least)
            at = int(np.argmax(worth))
            if worth[at] > most:
                most, which, member = float(worth[at]), a, axis.member[tried[at]]
                halves = [parts[a] & member, parts[a] & ~member]
        return None if which < 0 else (which, halves)

    def _cut_ordered(self, leaves: Array, gain: Array, cells: Array, least: float) -> tuple[float, int, int]:
        """Return how good the best cut of an axis in order is, the axis, and the cell before which it lies."""
        n, here = len(self._ordered), cells[self._ordered]
        loop = CUT.after(len(leaves))
        if loop is not None:
            most, at, place = loop(self._ends, leaves, gain, here, self._starts, self._price, self._newest, least)
            return most, -1 if at < 0 else self._ordered[at], place
        ends = self._ends[leaves]
        above, below = np.nonzero(ends[:, :n] > here), np.nonzero(ends[:, n:] <= here)
        starts = self._starts[:-1]
        best = 0.0, -1, -1
        for (leaf, axis), far, cell in ((above, 0, 0), (below, n, -1)):
            if len(leaf) == 0:
                continue
            places = ends[leaf, axis + far] + starts[axis]
            order = np.argsort(places, kind="stable")
            if far == 0:  # from the far end towards the cells, on either side
                order = order[::-1]
            places, axis = places[order], axis[order]
            sums = np.cumsum(gain[leaf[order]])
            first = np.flatnonzero(np.concatenate([[True], axis[1:] != axis[:-1]]))
            before = np.concatenate([[0.0], sums[first[1:] - 1]])
            lost = sums - np.repeat(before, np.diff(np.append(first, len(axis))))
            step = self._price[places + cell] - self._price[here[axis] + starts[axis]]
            worth = lost * np.maximum(step, least)
            at = int(np.argmax(worth))
            if worth[at] > best[0]:
                best = float(worth[at]), self._ordered[int(axis[at])], int(places[at] - starts[axis[at]])
        return best


def make_axes(trees: CellTrees, offers: list[Offer]) -> tuple[Array, list[Axis]] | None:
    """Return the leaves that a row can get to, and an axis for each feature with a choice; None if they are too many.

    Returns
    -------
    leaves : int array of shape (L',)
        Positions among the leaves of the trees, in their order; axes count these.
    axes : list of Axis
        One for each feature that has more than one cell on offer and that some tree asks about.
    """
    asked = set(trees.used.tolist())
    alive = np.ones(len(trees.tree), dtype=bool)
    free: list[Offer] = []
    for offer in offers:
        if offer.feature not in asked:
            continue
        if len(offer.cells) == 1:
            alive &= trees.holds(offer.feature, int(offer.cells[0]))
        else:
            free.append(offer)
    leaves = np.flatnonzero(alive)
    axes: list[Axis] = []
    sets = {int(j): s for s, j in enumerate(trees.set_features.tolist())}
    for offer in free:
        j = offer.feature
        if j in sets:
            member = trees.allowed[sets[j]][:, offer.cells]
            axes.append(Sets(offer, member, trees.set_of[leaves, sets[j]]))
            continue
        known = offer.cells[:-1] if offer.gap else offer.cells
        cells = np.arange(-1, trees.n_cells[j] + 2)  # once for every cell is less than once for every leaf
        low = np.take(np.searchsorted(known, cells, side="left"), trees.first[leaves, j] + 1)
        high = np.take(np.searchsorted(known, cells, side="right"), trees.last[leaves, j] + 1)
        if not offer.gap:
            axes.append(Intervals(offer, low, high))
            continue
        different, which = np.unique(
            np.column_stack([low, np.maximum(low, high), trees.missing[leaves, j]]), axis=0, return_inverse=True
        )
        if len(different) * len(offer.cells) > _MOST_TABLE:
            return None
        place = np.arange(len(known))
        inner = (different[:, :1] <= place) & (place < different[:, 1:2])
        axes.append(Sets(offer, np.column_stack([inner, different[:, 2] > 0]), which.ravel()))
    possible = np.ones(len(leaves), dtype=bool)
    everything = np.arange(len(leaves))
    for axis in axes:
        possible &= np.isfinite(axis.price(axis.whole(), everything))
    kept = np.flatnonzero(possible)
    return leaves[kept], [pick_leaves(axis, kept) for axis in axes]


def pick_leaves(axis: Axis, kept: Array) -> Axis:
    """Return an axis over some of its leaves ``(m,)``, in their order."""
    if isinstance(axis, Intervals):
        return Intervals(axis.offer, axis.low[kept], axis.high[kept])
    return Sets(axis.offer, axis.member, axis.which[kept])
