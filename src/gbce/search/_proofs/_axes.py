"""Leaves along one feature, in the cells that a row can get to: intervals of them, or any sets."""

from dataclasses import dataclass

import numpy as np

from gbce.base import Array
from gbce.search._proofs._offers import Offer
from gbce.trees import CellTrees

__all__ = ["Axis", "Cutter", "Intervals", "Part", "Sets", "make_axes"]

_MOST_TABLE = 20_000_000  # truth values of sets of cells: 20 MB

Part = Array  # of a feature's cells: two ends, the first and the one after the last, or which are left


@dataclass(frozen=True, eq=False)
class Intervals:
    """Leaves that hold cells from ``low`` up to but without ``high``, both ``(L,)``."""

    offer: Offer
    low: Array
    high: Array

    def whole(self) -> Part:
        """Return all cells."""
        return np.array([0, len(self.offer.cells)])

    def cheapest(self, part: Part) -> int:
        """Return the cheapest cell of a part, by its position in the offer."""
        return int(min(max(self.offer.own, part[0]), part[1] - 1))

    def price(self, part: Part, leaves: Array) -> Array:
        """Return the least price ``(m,)`` of what leaves ``(m,)`` have in a part; infinite where that is nothing."""
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
    """Finds where to cut between cells and leaves, over all axes at once."""

    def __init__(self, axes: list[Axis]) -> None:
        self._axes = axes
        self._ordered = [a for a, axis in enumerate(axes) if isinstance(axis, Intervals)]
        ordered = [axis for axis in axes if isinstance(axis, Intervals)]
        self._low = np.stack([axis.low for axis in ordered], axis=1) if ordered else None
        self._high = np.stack([axis.high for axis in ordered], axis=1) if ordered else None
        self._starts = np.concatenate([[0], np.cumsum([len(axis.offer.cells) + 1 for axis in ordered])]).astype(int)

    def cut(self, parts: tuple[Part, ...], leaves: Array, gain: Array, cells: Array) -> tuple[int, list[Part]] | None:
        """Return the axis, and its part in two, where most leaves ``(m,)``, by gain, are cut off from cells ``(a,)``.

        None if every leaf holds the cells.
        """
        most, which, halves = 0.0, -1, [parts[0]] if parts else []
        if self._low is not None and self._high is not None:
            low, high, here = self._low[leaves], self._high[leaves], cells[self._ordered]
            above, below = low > here, high <= here
            gains = np.broadcast_to(gain[:, None], low.shape)
            places = np.concatenate([(low + self._starts[:-1])[above], (high + self._starts[:-1])[below]])
            sums = np.bincount(places, np.concatenate([gains[above], gains[below]]), 1)
            at = int(np.argmax(sums))
            if sums[at] > most:
                n = int(np.searchsorted(self._starts, at, side="right")) - 1
                most, which, place = float(sums[at]), self._ordered[n], at - int(self._starts[n])
                halves = [np.array([parts[which][0], place]), np.array([place, parts[which][1]])]
        for a, axis in enumerate(self._axes):
            if not isinstance(axis, Sets):
                continue
            away = ~axis.holds(leaves, int(cells[a]))
            if not away.any():
                continue
            sums = np.bincount(axis.which[leaves[away]], gain[away])
            at = int(np.argmax(sums))
            if sums[at] > most:
                most, which = float(sums[at]), a
                halves = [parts[a] & axis.member[at], parts[a] & ~axis.member[at]]
        return None if which < 0 else (which, halves)


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
        low = np.searchsorted(known, trees.first[leaves, j], side="left")
        high = np.searchsorted(known, trees.last[leaves, j], side="right")
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
    return leaves[kept], [_pick(axis, kept) for axis in axes]


def _pick(axis: Axis, kept: Array) -> Axis:
    if isinstance(axis, Intervals):
        return Intervals(axis.offer, axis.low[kept], axis.high[kept])
    return Sets(axis.offer, axis.member, axis.which[kept])
