"""All pairs of single-feature changes of a row on the cells of a tree ensemble.

Leaves that hold the row in all but at most two features determine the scores after moving these two. The best such leaf
of each tree bounds what a pair can gain, which excludes most pairs; the others are summed on a grid of cells, the most
promising pairs first, until the work limit. This finds interactions that no single move hints at.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gbce.base import Array
from gbce.trees._cells import CellTrees, compiled_loops
from gbce.trees._question import ReachableCells, ScoreConstraints

_MOST_CELLS = 1_000_000  # cells of all grids and leaves summed on them: some milliseconds
_MOST_LEAVES = 100_000  # leaves within two changes: with more, the grids exceed the limit anyway
_MOST_COUNTED = 60_000_000  # the same in a proof, about a second
_PAIR = 2  # features that move


def find_pairs(
    trees: CellTrees,
    reachable: ReachableCells,
    constraints: ScoreConstraints,
    below: float,
    accept: Callable[[Array], float | None],
    shown: int = 1,
) -> None:
    """Pass points with two changes that reach the target below a price to ``accept``, the cheapest per pair.

    It takes slots ``(k, m)``, at most ``shown`` and the cheapest first, and returns the price of the first valid one,
    which becomes the new limit; None if none is valid. Prices are monotone away from the row, and no feature is
    computed.
    """
    leaves, changes = enter_leaves(trees, reachable, below, _PAIR)
    if len(leaves) > _MOST_LEAVES:
        return
    pairs = _Pairs(trees, reachable, constraints, leaves, changes)
    left = _MOST_CELLS
    for i, j in pairs.list_promising(below, _MOST_CELLS // trees.n_trees):
        slots, work = pairs.scan(i, j, below, shown, left)
        accepted = accept(slots) if slots is not None and len(slots) else None
        if accepted is not None:
            below = min(below, accepted)
        left -= work
        if left <= 0:
            return


def count_least_changes(trees: CellTrees, reachable: ReachableCells, constraints: ScoreConstraints) -> int:
    """Return the minimum number of changed features that constraints take, 1 to 3, or fewer if cells are too many.

    It holds in the model's own arithmetic; 0 with computed features, which change along.
    """
    if not reachable.all_paid:
        return 0
    leaves, changes = enter_leaves(trees, reachable, np.inf, _PAIR)
    sizes = np.abs(trees.value[leaves] @ constraints.weights.T).sum(axis=0)
    rounding = 2**_PAIR * (len(leaves) + _PAIR) * float(np.finfo(float).eps) * sizes  # every cell is a sum of all
    relaxed = replace(constraints, least=constraints.least - constraints.margins(trees) - rounding)
    alone = trees.score_moves(reachable.cells, reachable.moving, reachable.starts)[:-1] @ constraints.weights.T
    if (relaxed.shortfall(alone)[np.isfinite(reachable.price)] <= 0).any():
        return 1
    pairs, left = _Pairs(trees, reachable, relaxed, leaves, changes), _MOST_COUNTED
    for i, j in pairs.list_promising(np.inf, _MOST_COUNTED // trees.n_trees):
        slots, work = pairs.scan(i, j, np.inf, 1, left)
        left -= work
        if slots is None or len(slots) or left <= 0:
            return _PAIR
    return _PAIR + (len(reachable.moving) ** 2 * trees.n_trees <= _MOST_COUNTED)


class _Pairs:
    """Leaves that the row enters with at most two changes."""

    def __init__(
        self,
        trees: CellTrees,
        reachable: ReachableCells,
        constraints: ScoreConstraints,
        kept: Array,
        changes: Array,
    ) -> None:
        self.reachable, self.constraints = reachable, constraints
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
        # a number that may become missing has one more cell, outside the order of the others
        ends = reachable.starts[1:] - 1
        may_go = np.flatnonzero(np.isfinite(reachable.price[ends]) & (reachable.here != ends)).tolist()
        self.missing = {i: trees.missing[kept, reachable.moving[i]] for i in may_go if i not in self.sets}
        one, other = outside.argmax(axis=1), self.m - 1 - outside[:, ::-1].argmax(axis=1)
        self.inside = np.flatnonzero(changes == 0)
        self.single = _Groups(np.flatnonzero(changes == 1), one, self.m)
        self.double = _Groups(np.flatnonzero(changes == _PAIR), one * self.m + other, self.m**2)
        self.cheapest = reachable.cheapest_moves()

    # --- bounds on pairs ----------------------------------------------------------------------------------------

    def list_promising(self, below: float, most: int) -> list[tuple[int, int]]:
        """Return pairs of features below a price whose best leaves would reach the target, largest margin first.

        Of more than ``most`` pairs, only the cheapest are considered.
        """
        left, right = np.triu_indices(self.m, 1)
        price = self.cheapest[left] + self.cheapest[right]
        able = np.flatnonzero(price < below)
        able = np.sort(able[np.argsort(price[able], kind="stable")[:most]])
        left, right = left[able], right[able]
        spare = self._compute_margins(left, right)
        order = np.argsort(-spare, kind="stable")
        order = order[spare[order] >= 0]
        return list(zip(left[order].tolist(), right[order].tolist(), strict=True))

    def _compute_margins(self, left: Array, right: Array) -> Array:
        """Return the margin by which the best leaves of all trees meet the constraints, per pair ``(p,)``."""
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

    def scan(self, i: int, j: int, below: float, shown: int, most: int) -> tuple[Array | None, int]:
        """Return slots ``(k, m)`` of the cheapest points that reach in two moves, and the work; None above ``most``."""
        reachable, two = self.reachable, self.double.of(i * self.m + j)
        rooms = below - self.cheapest[j], below - self.cheapest[i]
        alone = self.single.of(i), self.single.of(j)
        to_i, to_j = (
            self._list_stops(f, np.concatenate([one, two]), room)
            for f, one, room in zip((i, j), alone, rooms, strict=True)
        )
        leaves = np.concatenate([self.inside, *alone, two])
        if len(to_i) * len(to_j) > most:
            return None, len(leaves)
        price = reachable.price[to_i][:, None] + reachable.price[to_j]
        cheap = np.flatnonzero((price < below) & self._check_reached(i, j, to_i, to_j, leaves))
        cheap = cheap[np.argsort(price.ravel()[cheap], kind="stable")[:shown]]
        slots = np.tile(reachable.here, (len(cheap), 1))
        slots[:, i], slots[:, j] = to_i[cheap // len(to_j)], to_j[cheap % len(to_j)]
        return slots, len(leaves) + price.size

    def _list_stops(self, i: int, leaves: Array, room: float) -> Array:
        """Return slots below price ``room`` at which a feature enters leaves, in order; farther slots gain nothing."""
        begin, end = int(self.reachable.starts[i]), int(self.reachable.starts[i + 1])
        own, here = self.reachable.price[begin:end], int(self.reachable.here[i]) - begin
        if i in self.sets:
            return begin + np.flatnonzero((own < room) & (np.arange(len(own)) != here))
        first, last = self.first[leaves, i], self.end[leaves, i] - 1
        attainable = np.flatnonzero(np.isfinite(own[:-1]))  # some cells hold no attainable value
        stop = np.zeros(len(attainable) + 1, dtype=bool)
        stop[np.searchsorted(attainable, first[first > here])] = True
        stop[np.searchsorted(attainable, last[last < here], side="right") - 1] = True
        cells = attainable[stop[:-1]]
        cells = np.append(cells, len(own) - 1) if i in self.missing else cells
        return np.asarray(begin + cells[(own[cells] < room) & (cells != here)])

    def _check_reached(self, i: int, j: int, to_i: Array, to_j: Array, leaves: Array) -> Array:
        """Return where moving two features to slots ``(a,)`` and ``(b,)`` reaches the target ``(a, b)``."""
        rows, n_rows = self._locate_ends(i, leaves, to_i)
        columns, n_columns = self._locate_ends(j, leaves, to_j)
        at = np.concatenate([n_columns * row + column for row in rows for column in columns])
        good = np.ones((len(to_i), len(to_j)), dtype=bool)
        for k, least in enumerate(self.constraints.least.tolist()):
            worth = self.value[leaves, k]
            signed = [worth if (a + b) % 2 == 0 else -worth for a in range(len(rows)) for b in range(len(columns))]
            rise = np.bincount(at, np.concatenate(signed), n_rows * n_columns).reshape(n_rows, n_columns)
            good &= self._accumulate(self._accumulate(rise, i, to_i).T, j, to_j).T + self.base[k] >= least
        return good

    def _locate_ends(self, i: int, leaves: Array, to: Array) -> tuple[list[Array], int]:
        """Return the positions of leaves among slots ``(a,)``, or their set for an unordered feature, and the width."""
        if i in self.sets:
            member, allowed = self.sets[i]
            return [member[leaves].astype(int)], len(allowed)
        cells = to[: len(to) - self._ends_missing(i, to)] - self.reachable.starts[i]
        places = [np.searchsorted(cells, ends[leaves, i]) for ends in (self.first, self.end)]
        if self._ends_missing(i, to):  # the last place is for missing values; the one before it is not read
            places.append(np.where(self.missing[i][leaves], len(to), len(cells)))
        return places, len(to) + 1

    def _accumulate(self, rise: Array, i: int, to: Array) -> Array:
        """Return sums along the first axis at slots ``(a,)``."""
        if i in self.sets:
            held = self.sets[i][1][:, to - self.reachable.starts[i]]
            return np.asarray(held.T.astype(float) @ rise)
        sums = rise[: len(to) - self._ends_missing(i, to)].cumsum(axis=0)
        return np.vstack([sums, rise[-1:]]) if self._ends_missing(i, to) else np.asarray(sums)

    def _ends_missing(self, i: int, to: Array) -> bool:
        """Whether the last of slots ``(a,)`` is the missing value of a number that may become missing."""
        return i in self.missing and len(to) > 0 and bool(to[-1] == self.reachable.starts[i + 1] - 1)


class _Groups:
    """Leaves grouped by the features in which they do not hold the row."""

    def __init__(self, leaves: Array, group: Array, n_groups: int) -> None:
        order = np.argsort(group[leaves], kind="stable")
        self.leaves, self.group = leaves[order], group[leaves[order]]
        self._bounds = np.searchsorted(self.group, np.arange(n_groups + 1))

    def of(self, group: int) -> Array:
        """Return the leaves of one group."""
        return np.asarray(self.leaves[self._bounds[group] : self._bounds[group + 1]])


# --- leaves within reach ---------------------------------------------------------------------------------------------


def pick_ends(ends: Array, leaves: Array, features: Array) -> Array:
    """Select rows and (sorted) columns of an array ``(L, d)``; faster than indexing by both at once."""
    picked = np.take(ends, leaves, axis=0)
    return picked if len(features) == ends.shape[1] else np.take(picked, features, axis=1)


def enter_leaves(trees: CellTrees, reachable: ReachableCells, most: float, most_changes: int) -> tuple[Array, Array]:
    """Return the leaves that a row can enter at a price of at most ``most``, and their numbers of changes."""
    staying = np.setdiff1d(trees.used, reachable.moving)
    leaf = trees.leaves_between(staying, reachable.cells[staying], reachable.cells[staying])
    price, changes = np.zeros(len(leaf)), np.zeros(len(leaf), dtype=np.int32)
    of_set, loops = {int(j): s for s, j in enumerate(trees.set_features)}, compiled_loops()
    assert loops is not None
    for i in np.flatnonzero(reachable.paid).tolist():
        j, own = int(reachable.moving[i]), slice(reachable.starts[i], reachable.starts[i + 1])
        here, prices = int(reachable.here[i] - reachable.starts[i]), reachable.price[own]
        if j in of_set:
            allowed = trees.allowed[of_set[j]]
            member = trees.set_of[leaf, of_set[j]]
            price += np.where(allowed, prices, np.inf).min(axis=1)[member]
            changes += ~allowed[:, here][member]
            kept = (price <= most if most < np.inf else price < most) & (changes <= most_changes)
            leaf, price, changes = leaf[kept], price[kept], changes[kept]
            continue
        # prices are monotone away from the row, except for cells without an attainable value
        bound, away = prices[:-1].copy(), float(prices[:-1].min(initial=np.inf))
        if here < len(bound):
            bound[here:] = np.minimum.accumulate(bound[here:][::-1])[::-1]
            bound[: here + 1] = np.minimum.accumulate(bound[: here + 1])
            bound[here] = 0.0
        ends, limits = (trees.first, trees.last, trees.missing), (most, most_changes)
        n = loops.enter_leaves(j, *ends, here, bound, float(prices[-1]), away, *limits, leaf, price, changes)
        leaf, price, changes = leaf[:n], price[:n], changes[:n]
    return leaf, changes
