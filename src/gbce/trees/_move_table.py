"""Ensemble scores after every single-feature move from a point, updated incrementally.

A leaf that holds the point in all features but one contributes exactly to the moves of that feature, so one pass over
these leaves scores all moves at once. Leaves that cost too much to enter are dropped beforehand, which is exact.
"""

import numpy as np

from gbce.base import Array
from gbce.trees._cells import CellTrees
from gbce.trees._question import ReachableCells

__all__ = ["Entries", "MoveTable", "enter_leaves", "pick_ends"]


class MoveTable:
    """Weighted ensemble scores at a point and after all of its single-feature moves; it starts at the row.

    Parameters
    ----------
    trees : CellTrees
        The ensemble.
    reachable : ReachableCells
        Slots of the features that can move.
    weights : array of shape (q, K)
        Score weights of each sum.
    kept : int array of shape (n,)
        Leaves that count.
    """

    def __init__(self, trees: CellTrees, reachable: ReachableCells, weights: Array, kept: Array) -> None:
        self._starts, self._n_slots = reachable.starts, int(reachable.starts[-1])
        self._value = np.take(trees.value, kept, axis=0) @ weights.T
        self._base = weights @ trees.base
        self._mirrored = len(weights) == 2 and np.array_equal(weights[0], -weights[1])  # for a range of outputs
        of_set = {int(j): s for s, j in enumerate(trees.set_features)}
        listed = np.array([int(j) in of_set for j in reachable.moving], dtype=bool)
        self._row = np.cumsum(~listed) - 1  # row of an ordered feature in low and high
        self._is_ordered = ~listed
        own = reachable.moving[self._is_ordered]
        begin = reachable.starts[:-1][self._is_ordered].astype(np.int32)
        first, last = (pick_ends(ends, kept, own) for ends in (trees.first, trees.last))
        # by leaf for gathering, by feature for moving
        self._low, self._high = first + begin, np.maximum(first, last + 1) + begin
        self._lows, self._highs = np.ascontiguousarray(self._low.T), np.ascontiguousarray(self._high.T)
        self._sets = {
            i: (trees.set_of[kept, of_set[int(j)]], trees.allowed[of_set[int(j)]])
            for i, j in enumerate(reachable.moving)
            if int(j) in of_set
        }
        last_slot = reachable.starts[1:] - 1
        may_miss = (
            np.isfinite(reachable.price[last_slot]) | ~reachable.paid if len(last_slot) else np.zeros(0, dtype=bool)
        )
        self._missing = {
            int(i): np.ascontiguousarray(trees.missing[kept, reachable.moving[i]])
            for i in np.flatnonzero(may_miss & ~listed)
        }
        self._outside = np.zeros((len(reachable.moving), len(kept)), dtype=bool)
        self._count: Array = np.zeros(len(kept), dtype=np.uint8 if len(reachable.moving) < 255 else np.int32)
        self.slots = reachable.here.copy()
        for i, slot in enumerate(self.slots.tolist()):
            self._outside[i] = ~self._holds(i, slot)
        self._count += np.add.reduce(self._outside, axis=0, dtype=self._count.dtype)
        # sum of the indices of the violated features: for a leaf with a single one, that feature
        self._which: Array = np.arange(len(reachable.moving), dtype=np.int32) @ self._outside

    def _holds(self, i: int, slot: int) -> Array:
        """Return which leaves ``(n,)`` hold a slot of feature ``i``."""
        if i in self._sets:
            member, allowed = self._sets[i]
            return np.asarray(allowed[:, slot - self._starts[i]][member])
        if i in self._missing and slot == self._starts[i + 1] - 1:
            return self._missing[i]
        row = self._row[i]
        return np.asarray((self._lows[row] <= slot) & (slot < self._highs[row]))

    def move(self, i: int, slot: int) -> None:
        """Move one feature to a slot."""
        if self.slots[i] == slot:
            return
        self.slots[i] = slot
        outside = ~self._holds(i, slot)
        self._count += outside  # unsigned, so add before subtracting
        self._count -= self._outside[i]
        turned = outside.view(np.int8) - self._outside[i].view(np.int8)
        self._which += np.int32(i) * turned  # int8 cannot hold an index above 127
        self._outside[i] = outside

    def move_to(self, slots: Array) -> None:
        """Move to slots ``(m,)``."""
        for i in (slots != self.slots).nonzero()[0].tolist():
            self.move(i, int(slots[i]))

    def score_moves(self) -> tuple[Array, Array]:
        """Return the weighted sums after moving one feature to each slot ``(N, q)``, and at the point ``(q,)``."""
        near = (self._count <= 1).nonzero()[0]
        inside = self._count[near] == 0
        here, one = near[inside], near[~inside]
        beside = self._which[one]
        q, m = self._value.shape[1], self._low.shape[1]
        mine, row = one, self._row[beside]
        if self._sets:
            in_order = self._is_ordered[beside]
            mine, row = one[in_order], row[in_order]
        place = mine * m + row
        low = np.concatenate([self._low[here].ravel(), self._low.ravel()[place]])
        high = np.concatenate([self._high[here].ravel(), self._high.ravel()[place]])
        sums = np.empty((q, self._n_slots)).T  # column-major, for the cumulative sums below
        for k in range(q):
            if k == 1 and self._mirrored:
                np.negative(sums[:, 0], out=sums[:, 1])
                continue
            weight = np.concatenate([np.repeat(self._value[here, k], m), self._value[mine, k]])
            rise = np.bincount(low, weight, self._n_slots + 1) - np.bincount(high, weight, self._n_slots + 1)
            np.cumsum(rise[:-1], out=sums[:, k])
        for i, is_missing in self._missing.items():
            own = np.concatenate([here, one[beside == i]])
            sums[self._starts[i + 1] - 1] = self._value[own[is_missing[own]]].sum(axis=0)
        for i, (member, allowed) in self._sets.items():
            own = np.concatenate([here, one[beside == i]])
            for k in range(q):
                by_set = np.bincount(member[own], self._value[own, k], len(allowed))
                sums[self._starts[i] : self._starts[i + 1], k] = by_set @ allowed
        sums += self._base
        return sums, np.asarray(self._base + self._value[here].sum(axis=0))


def pick_ends(ends: Array, leaves: Array, features: Array) -> Array:
    """Select rows and (sorted) columns of an array ``(L, d)``; faster than indexing by both at once."""
    picked = np.take(ends, leaves, axis=0)
    return picked if len(features) == ends.shape[1] else np.take(picked, features, axis=1)


class Entries:
    """Leaves that a row can enter: their indices, lowest prices and numbers of changes, each ``(n,)``."""

    def __init__(self, leaf: Array, price: Array, changes: Array) -> None:
        self.leaf, self.price, self.changes = leaf, price, changes

    def within(self, price: float, changes: int) -> "Entries":
        """Return the leaves of at most this price and number of changes."""
        kept = (self.price <= price) & (self.changes <= changes)
        return Entries(self.leaf[kept], self.price[kept], self.changes[kept])


def enter_leaves(
    trees: CellTrees, reachable: ReachableCells, most: float = np.inf, most_changes: int | None = None
) -> Entries:
    """Return the leaves that a row can enter at a price of at most ``most``; cheaper points lie in no others."""
    leaf = np.arange(len(trees.value))
    staying = np.setdiff1d(trees.used, reachable.moving)
    for j in staying.tolist():
        leaf = leaf[trees.holds(j, int(reachable.cells[j]))[leaf]]
    price, changes = np.zeros(len(leaf)), np.zeros(len(leaf), dtype=np.int32)
    limit = len(reachable.moving) if most_changes is None else most_changes
    of_set = {int(j): s for s, j in enumerate(trees.set_features)}
    for i in np.flatnonzero(reachable.paid).tolist():
        j, own = int(reachable.moving[i]), slice(reachable.starts[i], reachable.starts[i + 1])
        here, prices = int(reachable.here[i] - reachable.starts[i]), reachable.price[own]
        if j in of_set:
            allowed = trees.allowed[of_set[j]]
            member = trees.set_of[leaf, of_set[j]]
            least = np.where(allowed, prices, np.inf).min(axis=1)[member]
            moves = ~allowed[:, here][member]
        else:
            first, last = trees.first[leaf, j], trees.last[leaf, j]
            if here == len(prices) - 1:  # from a missing value, every value is a change
                is_missing = trees.missing[leaf, j]
                least, moves = np.where(is_missing, 0.0, prices[:-1].min(initial=np.inf)), ~is_missing
            else:
                # prices are monotone away from the row, except for cells without an attainable value
                bound = prices[:-1].copy()
                bound[here:] = np.minimum.accumulate(bound[here:][::-1])[::-1]
                bound[: here + 1] = np.minimum.accumulate(bound[: here + 1])
                bound[here] = 0.0
                if trees.all_hold_values[j]:
                    least = bound[np.minimum(np.maximum(first, here), last)]
                else:
                    nearest = np.minimum(np.clip(here, first, np.maximum(first, last)), len(bound) - 1)
                    least = np.where(first <= last, bound[nearest], np.inf)
                if prices[-1] < np.inf:
                    least = np.where(trees.missing[leaf, j], np.minimum(least, prices[-1]), least)
                moves = (first > here) | (last < here)
        price += least
        changes += moves
        kept = price <= most if most < np.inf else price < most
        if limit < len(reachable.moving):
            kept &= changes <= limit
        if not kept.all():
            leaf, price, changes = leaf[kept], price[kept], changes[kept]
    return Entries(leaf, price, changes)
