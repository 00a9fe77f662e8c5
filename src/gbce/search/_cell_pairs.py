"""Two features of a row moved at once, on the cells of a tree ensemble: every pair of features, every pair of cells.

A leaf that lies outside in at most two features says what moves of these two come to. The best leaf of each tree among
those that two features can enter bounds what they can gain, which rules most pairs out; the cells of the others are
counted on a grid. What one move alone does not hint at, because trees ask about both features, is found this way.
"""

from collections.abc import Callable, Iterator

import numpy as np

from gbce.base import Array
from gbce.search._cell_lines import Entries
from gbce.search._cell_offers import CellOffers
from gbce.search._cell_wish import CellWish
from gbce.trees import CellTrees

__all__ = ["find_pairs"]

_MOST_CELLS = 400_000  # of all grids together: a few milliseconds; the most promising pairs come first
_PAIR = 2  # features that move


def find_pairs(
    trees: CellTrees,
    offers: CellOffers,
    wish: CellWish,
    entries: Entries,
    below: float,
    accept: Callable[[Array], float | None],
    shown: int,
) -> None:
    """Show all points with two changes that reach a target for less than a price, cheapest first for each pair.

    Parameters
    ----------
    trees : CellTrees
        The ensemble.
    offers : CellOffers
        What its cells offer around the row, each feature moving by itself.
    wish : CellWish
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
    pairs = _Pairs(trees, offers, wish, entries.within(below, _PAIR).leaf)
    cells = 0
    for i, j in pairs.promising():
        if pairs.cheapest[i] + pairs.cheapest[j] >= below:
            continue
        to_i, to_j = pairs.stops(i, j, below - pairs.cheapest[j]), pairs.stops(j, i, below - pairs.cheapest[i])
        cells += len(to_i) * len(to_j)
        if cells > _MOST_CELLS:
            return
        if len(to_i) == 0 or len(to_j) == 0:
            continue
        price = offers.price[to_i][:, None] + offers.price[to_j]
        cheap = np.flatnonzero((price < below) & pairs.reaches(i, j, to_i, to_j))
        if len(cheap) == 0:
            continue
        cheap = cheap[np.argsort(price.ravel()[cheap], kind="stable")[:shown]]
        slots = np.tile(offers.here, (len(cheap), 1))
        slots[:, i], slots[:, j] = to_i[cheap // len(to_j)], to_j[cheap % len(to_j)]
        accepted = accept(slots)
        if accepted is not None:
            below = min(below, accepted)


class _Pairs:
    """Leaves that the row enters with two changes at most."""

    def __init__(self, trees: CellTrees, offers: CellOffers, wish: CellWish, kept: Array) -> None:
        self.offers, self.wish = offers, wish
        self.value = np.take(trees.value, kept, axis=0) @ wish.weights.T
        self.base = wish.weights @ trees.base
        self.tree, self.n_trees = trees.tree[kept], trees.n_trees
        self.m = len(offers.moving)
        of_set = {int(j): s for s, j in enumerate(trees.set_features)}
        self.sets = {
            i: (trees.set_of[kept, of_set[int(j)]], trees.allowed[of_set[int(j)]])
            for i, j in enumerate(offers.moving)
            if int(j) in of_set
        }
        own = (slice(None), offers.moving)
        self.first, self.end = np.take(trees.first, kept, axis=0)[own], np.take(trees.last, kept, axis=0)[own] + 1
        here = offers.here - offers.starts[:-1]
        outside = (self.first > here) | (here >= self.end)
        for i in np.flatnonzero(offers.here == offers.starts[1:] - 1).tolist():
            outside[:, i] = ~trees.missing[kept, offers.moving[i]]
        for i, (member, allowed) in self.sets.items():
            outside[:, i] = ~allowed[:, here[i]][member]
        count = outside.sum(axis=1)
        one, other = outside.argmax(axis=1), self.m - 1 - outside[:, ::-1].argmax(axis=1)
        self.inside = np.flatnonzero(count == 0)
        self.single = _Groups(np.flatnonzero(count == 1), one, self.m)
        self.double = _Groups(np.flatnonzero(count == _PAIR), one * self.m + other, self.m**2)
        away = np.where(offers.here[offers.feature] == np.arange(len(offers.price)), np.inf, offers.price)
        self.cheapest = np.minimum.reduceat(away, offers.starts[:-1])  # of each feature's moves

    def promising(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs whose best leaves would reach, those with most to spare first."""
        left, right = np.triu_indices(self.m, 1)
        spare = np.full(len(left), np.inf)
        place = np.zeros(self.m**2, dtype=int)
        place[left * self.m + right] = np.arange(len(left))
        for k, least in enumerate(self.wish.least.tolist()):
            worth = self.value[:, k]
            alone = np.full((self.n_trees, 1), -np.inf)
            np.maximum.at(alone, (self.tree[self.inside], 0), worth[self.inside])
            alone = np.repeat(alone, self.m, axis=1)
            leaves, group = self.single.leaves, self.single.group
            np.maximum.at(alone, (self.tree[leaves], group), worth[leaves])
            both = np.maximum(alone[:, left], alone[:, right])
            leaves, group = self.double.leaves, self.double.group
            np.maximum.at(both, (self.tree[leaves], place[group]), worth[leaves])
            spare = np.minimum(spare, both.sum(axis=0) + self.base[k] - least)
        order = np.argsort(-spare, kind="stable")
        for pair in order[spare[order] >= 0].tolist():
            yield int(left[pair]), int(right[pair])

    def stops(self, i: int, j: int, room: float) -> Array:
        """Return slots for less than ``room``, in order, where a feature enters a leaf that it can enter with another.

        Farther inside a leaf nothing is gained, and every other slot costs more than the one before it.
        """
        begin, end = int(self.offers.starts[i]), int(self.offers.starts[i + 1])
        own = self.offers.price[begin:end]
        if i in self.sets:
            return begin + np.flatnonzero((own < room) & (own > 0))
        here = int(self.offers.here[i]) - begin
        leaves = np.concatenate([self.single.of(i), self.double.of(min(i, j) * self.m + max(i, j))])
        first, last = self.first[leaves, i], self.end[leaves, i] - 1
        had = np.flatnonzero(np.isfinite(own[:-1]))  # cells may hold no value that can be had
        stop = np.zeros(len(had) + 1, dtype=bool)
        stop[np.searchsorted(had, first[first > here])] = True
        stop[np.searchsorted(had, last[last < here], side="right") - 1] = True
        cells = had[stop[:-1]]
        return np.asarray(begin + cells[own[cells] < room])

    def reaches(self, i: int, j: int, to_i: Array, to_j: Array) -> Array:
        """Return where two features that move to slots ``(a,)`` and ``(b,)`` reach ``(a, b)``."""
        leaves = np.concatenate([self.inside, self.single.of(i), self.single.of(j), self.double.of(i * self.m + j)])
        rows, n_rows = self._ends(i, leaves, to_i)
        columns, n_columns = self._ends(j, leaves, to_j)
        at = np.concatenate([n_columns * row + column for row in rows for column in columns])
        good = np.ones((len(to_i), len(to_j)), dtype=bool)
        for k, least in enumerate(self.wish.least.tolist()):
            worth = self.value[leaves, k]
            signed = np.concatenate([worth * (-1.0) ** (a + b) for a in range(len(rows)) for b in range(len(columns))])
            rise = np.bincount(at, signed, n_rows * n_columns).reshape(n_rows, n_columns)
            sums = self._add_up(self._add_up(rise, i, to_i).T, j, to_j).T
            good &= sums + self.base[k] >= least
        return good

    def _ends(self, i: int, leaves: Array, to: Array) -> tuple[list[Array], int]:
        """Return between which of slots ``(a,)`` leaves lie; of a feature with sets, which set they have."""
        if i in self.sets:
            member, allowed = self.sets[i]
            return [member[leaves]], len(allowed)
        cells = to - self.offers.starts[i]
        begin = np.searchsorted(cells, self.first[leaves, i])
        return [begin, np.maximum(begin, np.searchsorted(cells, self.end[leaves, i]))], len(to) + 1

    def _add_up(self, rise: Array, i: int, to: Array) -> Array:
        """Return sums along the first axis, at slots ``(a,)``."""
        if i in self.sets:
            held = self.sets[i][1][:, to - self.offers.starts[i]]
            return np.asarray(held.T.astype(float) @ rise)
        return np.asarray(rise[:-1].cumsum(axis=0))


class _Groups:
    """Leaves by the features that they lie outside in."""

    def __init__(self, leaves: Array, group: Array, n_groups: int) -> None:
        order = np.argsort(group[leaves], kind="stable")
        self.leaves, self.group = leaves[order], group[leaves[order]]
        self.bounds = np.searchsorted(self.group, np.arange(n_groups + 1))

    def of(self, group: int) -> Array:
        """Return the leaves of one group."""
        return np.asarray(self.leaves[self.bounds[group] : self.bounds[group + 1]])
