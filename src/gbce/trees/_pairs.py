"""Two features of a row moved at once, on the cells of a tree ensemble: every pair of features, every pair of cells.

A leaf that lies outside in at most two features says what moves of these two come to. The best leaf of each tree among
those that two features can enter bounds what they can gain, which rules most pairs out; the cells of the others are
counted on a grid, the most promising pairs first. What one move alone does not hint at, because trees ask about both
features, is found this way, unless there are so many cells that looking at them would take longer than all the rest.
"""

from collections.abc import Callable, Iterator

import numpy as np

from gbce.base import Array
from gbce.trees._cells import CellTrees
from gbce.trees._move_table import Entries, pick_ends
from gbce.trees._question import ReachableCells, ScoreConstraints

__all__ = ["find_pairs"]

_MOST_CELLS = 1_000_000  # of all grids together, with the leaves that are counted on them: some milliseconds
_MOST_LEAVES = 100_000  # that two changes can enter: with more, the grids are larger than that anyway
_PAIR = 2  # features that move


def find_pairs(
    trees: CellTrees,
    reachable: ReachableCells,
    constraints: ScoreConstraints,
    entries: Entries,
    below: float,
    accept: Callable[[Array], float | None],
    shown: int = 1,
) -> None:
    """Show points with two changes that reach a target for less than a price: of each pair of features the cheapest.

    Parameters
    ----------
    trees : CellTrees
        The ensemble.
    offers : ReachableCells
        What its cells offer around the row, each feature moving by itself. Between the row and a cell nothing that can
        be had costs more than it.
    wish : ScoreConstraints
        What is wanted of weighted sums of its scores.
    entries : Entries
        Leaves that the row can enter; all that cost less than ``below`` with two changes at most.
    below : float
        What a point has to be cheaper than.
    accept : callable
        Takes slots ``(k, m)``, the cheapest first, returns the price of the first that is right, which others have to
        be cheaper than from then on; None if all are wrong.
    shown : int
        How many points of one pair are shown at most.
    """
    kept = entries.within(below, _PAIR)
    if len(kept.leaf) > _MOST_LEAVES:
        return
    pairs = _Pairs(trees, reachable, constraints, kept)
    left = _MOST_CELLS
    for i, j in pairs.promising(below):
        slots, looked_at = pairs.scan(i, j, below, shown, left)
        accepted = accept(slots) if len(slots) else None
        if accepted is not None:
            below = min(below, accepted)
        left -= looked_at
        if left <= 0:
            return


class _Pairs:
    """Leaves that the row enters with two changes at most."""

    def __init__(
        self, trees: CellTrees, reachable: ReachableCells, constraints: ScoreConstraints, entries: Entries
    ) -> None:
        self.reachable, self.constraints = reachable, constraints
        kept, changes = entries.leaf, entries.changes
        self.value = np.take(trees.value, kept, axis=0) @ constraints.weights.T
        self.base = constraints.weights @ trees.base
        self.tree, self.n_trees, self.m = trees.tree[kept], trees.n_trees, len(reachable.moving)
        of_set = {int(j): s for s, j in enumerate(trees.set_features)}
        self.sets = {
            i: (trees.set_of[kept, of_set[int(j)]], trees.allowed[of_set[int(j)]])
            for i, j in enumerate(reachable.moving)
            if int(j) in of_set
        }
        here = reachable.here - reachable.starts[:-1]
        first, last = (pick_ends(ends, kept, reachable.moving) for ends in (trees.first, trees.last))
        outside = (first > here) | (last < here)
        for i in np.flatnonzero(reachable.here == reachable.starts[1:] - 1).tolist():
            outside[:, i] = ~trees.missing[kept, reachable.moving[i]]
        for i, (member, allowed) in self.sets.items():
            outside[:, i] = ~allowed[:, here[i]][member]
        self.first, self.end = first, np.maximum(first, last + 1)
        # a number that may become missing has one more cell, which lies on no line with the others
        ends = reachable.starts[1:] - 1
        may_go = np.flatnonzero(np.isfinite(reachable.price[ends]) & (reachable.here != ends)).tolist()
        self.missing = {i: trees.missing[kept, reachable.moving[i]] for i in may_go if i not in self.sets}
        one, other = outside.argmax(axis=1), self.m - 1 - outside[:, ::-1].argmax(axis=1)
        self.inside = np.flatnonzero(changes == 0)
        self.single = _Groups(np.flatnonzero(changes == 1), one, self.m)
        self.double = _Groups(np.flatnonzero(changes == _PAIR), one * self.m + other, self.m**2)
        self.cheapest = reachable.cheapest_moves()

    # --- which pairs --------------------------------------------------------------------------------------------

    def promising(self, below: float) -> Iterator[tuple[int, int]]:
        """Yield the pairs for less than a price whose best leaves would reach, those with most to spare first."""
        left, right = np.triu_indices(self.m, 1)
        price = self.cheapest[left] + self.cheapest[right]
        able = np.flatnonzero(price < below)
        if len(able) * self.n_trees > _MOST_CELLS:  # of a wide table the cheapest
            able = np.sort(able[np.argsort(price[able], kind="stable")[: _MOST_CELLS // self.n_trees]])
        left, right = left[able], right[able]
        if len(left) == 0:
            return
        spare = self._spare(left, right)
        order = np.argsort(-spare, kind="stable")
        order = order[spare[order] >= 0]
        yield from zip(left[order].tolist(), right[order].tolist(), strict=True)

    def _spare(self, left: Array, right: Array) -> Array:
        """Return by how much the best leaves of all trees exceed what is wanted, for pairs of features ``(p,)``."""
        place = np.full(self.m**2, -1)
        place[left * self.m + right] = np.arange(len(left))
        known = place[self.double.group] >= 0
        ones, feature = self.single.leaves, self.single.group
        twos, pair = self.double.leaves[known], place[self.double.group[known]]
        spare = np.full(len(left), np.inf)
        for k, least in enumerate(self.constraints.least.tolist()):
            worth = self.value[:, k]
            here = np.zeros(self.n_trees)
            here[self.tree[self.inside]] = worth[self.inside]
            alone = np.tile(here, (self.m, 1))
            np.maximum.at(alone, (feature, self.tree[ones]), worth[ones])
            both = np.maximum(alone[left], alone[right])
            np.maximum.at(both, (pair, self.tree[twos]), worth[twos])
            spare = np.minimum(spare, both.sum(axis=1) + self.base[k] - least)
        return spare

    # --- one pair -----------------------------------------------------------------------------------------------

    def scan(self, i: int, j: int, below: float, shown: int, most: int) -> tuple[Array, int]:
        """Return slots ``(k, m)`` of the cheapest points that reach with two moves, and how much was looked at.

        None where the grid has more than ``most`` cells.
        """
        reachable, two = self.reachable, self.double.of(i * self.m + j)
        rooms = below - self.cheapest[j], below - self.cheapest[i]
        alone = self.single.of(i), self.single.of(j)
        to_i, to_j = (
            self._stops(f, np.concatenate([one, two]), room) for f, one, room in zip((i, j), alone, rooms, strict=True)
        )
        leaves = np.concatenate([self.inside, *alone, two])
        if not 0 < len(to_i) * len(to_j) <= most:
            return reachable.here[None, :][:0], len(leaves)
        price = reachable.price[to_i][:, None] + reachable.price[to_j]
        cheap = np.flatnonzero((price < below) & self._reaches(i, j, to_i, to_j, leaves))
        cheap = cheap[np.argsort(price.ravel()[cheap], kind="stable")[:shown]]
        slots = np.tile(reachable.here, (len(cheap), 1))
        slots[:, i], slots[:, j] = to_i[cheap // len(to_j)], to_j[cheap % len(to_j)]
        return slots, len(leaves) + price.size

    def _stops(self, i: int, leaves: Array, room: float) -> Array:
        """Return slots for less than ``room``, in order, where a feature enters leaves: farther in gains nothing."""
        begin, end = int(self.reachable.starts[i]), int(self.reachable.starts[i + 1])
        own, here = self.reachable.price[begin:end], int(self.reachable.here[i]) - begin
        if i in self.sets:
            return begin + np.flatnonzero((own < room) & (np.arange(len(own)) != here))
        first, last = self.first[leaves, i], self.end[leaves, i] - 1
        had = np.flatnonzero(np.isfinite(own[:-1]))  # cells may hold no value that can be had
        stop = np.zeros(len(had) + 1, dtype=bool)
        stop[np.searchsorted(had, first[first > here])] = True
        stop[np.searchsorted(had, last[last < here], side="right") - 1] = True
        cells = had[stop[:-1]]
        cells = np.append(cells, len(own) - 1) if i in self.missing else cells
        return np.asarray(begin + cells[(own[cells] < room) & (cells != here)])

    def _reaches(self, i: int, j: int, to_i: Array, to_j: Array, leaves: Array) -> Array:
        """Return where two features that move to slots ``(a,)`` and ``(b,)`` reach ``(a, b)``."""
        rows, n_rows = self._ends(i, leaves, to_i)
        columns, n_columns = self._ends(j, leaves, to_j)
        at = np.concatenate([n_columns * row + column for row in rows for column in columns])
        good = np.ones((len(to_i), len(to_j)), dtype=bool)
        for k, least in enumerate(self.constraints.least.tolist()):
            worth = self.value[leaves, k]
            signed = [worth if (a + b) % 2 == 0 else -worth for a in range(len(rows)) for b in range(len(columns))]
            rise = np.bincount(at, np.concatenate(signed), n_rows * n_columns).reshape(n_rows, n_columns)
            good &= self._add_up(self._add_up(rise, i, to_i).T, j, to_j).T + self.base[k] >= least
        return good

    def _ends(self, i: int, leaves: Array, to: Array) -> tuple[list[Array], int]:
        """Return between which of slots ``(a,)`` leaves lie; of a feature with sets, which set they have."""
        if i in self.sets:
            member, allowed = self.sets[i]
            return [member[leaves].astype(int)], len(allowed)
        cells = to[: len(to) - self._goes(i, to)] - self.reachable.starts[i]
        places = [np.searchsorted(cells, ends[leaves, i]) for ends in (self.first, self.end)]
        if self._goes(i, to):  # the last place is that of missing values, the one before it is not read
            places.append(np.where(self.missing[i][leaves], len(to), len(cells)))
        return places, len(to) + 1

    def _add_up(self, rise: Array, i: int, to: Array) -> Array:
        """Return sums along the first axis, at slots ``(a,)``."""
        if i in self.sets:
            held = self.sets[i][1][:, to - self.reachable.starts[i]]
            return np.asarray(held.T.astype(float) @ rise)
        sums = rise[: len(to) - self._goes(i, to)].cumsum(axis=0)
        return np.vstack([sums, rise[-1:]]) if self._goes(i, to) else np.asarray(sums)

    def _goes(self, i: int, to: Array) -> bool:
        """Whether the last of slots ``(a,)`` is that of missing values, of a number that may become missing."""
        return i in self.missing and len(to) > 0 and bool(to[-1] == self.reachable.starts[i + 1] - 1)


class _Groups:
    """Leaves by the features that they lie outside in."""

    def __init__(self, leaves: Array, group: Array, n_groups: int) -> None:
        order = np.argsort(group[leaves], kind="stable")
        self.leaves, self.group = leaves[order], group[leaves[order]]
        self._bounds = np.searchsorted(self.group, np.arange(n_groups + 1))

    def of(self, group: int) -> Array:
        """Return the leaves of one group."""
        return np.asarray(self.leaves[self._bounds[group] : self._bounds[group + 1]])
