"""Cheapest points that reach a target under a tree ensemble, found by local search on its cells without model calls.

From the row, moves are chosen by progress per price at several exponents, and unneeded changes are then shrunk or
undone; known points that reach the target are further starts. The best point is improved by exchanging changes, by
searching all pairs of changes that leaves do not exclude and, where changing at all is a large part of the price, by
undoing single changes. Leaves that cost more to enter than the best point are dropped on the way, which is exact.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from gbce.base import Array
from gbce.search import NearestPoints
from gbce.trees._cells import CellTrees
from gbce.trees._move_table import Entries, MoveTable, enter_leaves
from gbce.trees._pairs import find_pairs
from gbce.trees._question import ReachableCells, ScoreConstraints

__all__ = ["find_nearest_cells"]

_Attempt = TypeVar("_Attempt")

# Hand-tuned on breast cancer, diabetes and California housing: they trade time for cost.
_POWERS = (1.5, 2.5, 1.0)  # exponents of a move's progress, which is divided by its price
_POWERS_FEW = (1.0, 2.5, 6.0)  # with a limited number of changes: larger exponents favour large moves
_STARTS = 3  # cheap known points that reach the target and are moved towards
_REPAIR_POWER = 1.5  # exponent when moving towards a known point and when repairing an undone change
_PRICE_SLACK = 1.3  # a path may cost this many times the best price
_REBUILD_BELOW = 0.5  # share of leaves left below which rebuilding the move table saves time
_MOST_MOVES = 100  # moves of one path
_MOST_SHRUNK = 6  # slots to which one change is shrunk while another compensates
_EXCHANGE_ROUNDS = 10
_MOST_UNDONE = 3  # changes undone, one at a time, to get by with fewer
_PAIR = 2  # changes for which all pairs are searched
_FIXED_SHARE = 0.25  # if the cheapest moves make up this share of the best price, undoing changes is tried
_CHECKED = 48  # best moves that are checked against the constraints
_ALIKE = 1.02  # relative price of alternatives that are kept in case the model rejects the cheapest point
_LEAST_SAVING = 1e-9  # relative: a smaller saving is rounding
_NOISE = 0.1  # share of the rounding error of sums below which a gain does not count
# Leaves and slots, times the square of the number of features, that attempts of one kind may process: 0.01 s for two
# features. More features make paths longer and allow more exchanges: on a forest of 380,000 leaves and eight features
# a quarter of this limit makes one answer in eight 6% more expensive, this limit none.
_MOST_WORK = 250_000
_TINY = 1e-12  # relative to the shortfall, and in place of a zero price


def find_nearest_cells(
    trees: CellTrees,
    reachable: ReachableCells,
    constraints: ScoreConstraints,
    starts: Array | None = None,
    *,
    power: int = 1,
    most_changes: int | None = None,
    path: int = 0,
) -> NearestPoints:
    """Find cheap points that reach a target, by the leaves of a tree ensemble.

    Parameters
    ----------
    trees : CellTrees
        The ensemble.
    reachable : ReachableCells
        Slots of the features that can move, with their prices.
    constraints : ScoreConstraints
        Constraints on the scores.
    starts : array of shape (s, d), optional
        Encoded points that may reach the target, such as training rows; the cheap ones that do serve as starts.
    power : {1, 2}
        The cost is the sum of prices to the power ``1 / power``.
    most_changes : int, optional
        Maximum number of changed features.
    path : int
        Up to this number of changes, also return the best point for each number that costs more with fewer changes.

    Returns
    -------
    NearestPoints
        Points that reach the target by these sums, which differ from the model's own in rounding, the cheapest first.
        Empty if none was found, which does not prove that there is none.
    """
    search = _NearestCellSearch(trees, reachable, constraints)
    if len(reachable.moving):
        search.run(_slots_of_starts(trees, reachable, starts), most_changes, path)
    return search.collect_points(power)


def _slots_of_starts(trees: CellTrees, reachable: ReachableCells, starts: Array | None) -> Array:
    """Return the slots ``(n, m)`` of attainable starts, the cheapest first."""
    if starts is None or len(starts) == 0:
        return np.zeros((0, len(reachable.moving)), dtype=int)
    slots = reachable.slots_of(trees.cells(starts))
    slots = slots[np.lexsort(slots.T[::-1])]
    slots = slots[np.r_[True, (slots[1:] != slots[:-1]).any(axis=1)]]
    cost = reachable.cost(slots)
    slots, cost = slots[np.isfinite(cost)], cost[np.isfinite(cost)]
    return slots[np.argsort(cost, kind="stable")]


class _NearestCellSearch:
    """One local search, with the cheapest point found for each number of changes and its close competitors."""

    def __init__(self, trees: CellTrees, reachable: ReachableCells, constraints: ScoreConstraints) -> None:
        self.trees, self.reachable, self.constraints = trees, reachable, constraints
        self.constrained = bool(reachable.space.constraints) or not reachable.all_paid
        self.noise = _NOISE * constraints.rounding(trees)
        self.attainable = np.isfinite(reachable.price)  # per slot
        self.most = len(reachable.moving)  # maximum number of changes
        self.limit = np.inf  # price up to which the move table is complete
        self.n_leaves = 0
        self.work = 0  # leaves and slots processed
        self.scanned: dict[bytes, tuple[Array, float]] = {}  # shortfalls by slots
        self.least: dict[int, tuple[float, Array]] = {}  # by the number of changes
        self.alternatives: dict[bytes, tuple[float, Array]] = {}  # by the set of changed features
        self.admissible: dict[bytes, bool] = {}  # by slots

    def run(self, starts: Array, most_changes: int | None, path: int) -> None:
        """Search with the maximum number of changes, then with fewer."""
        m = len(self.reachable.moving)
        self.most = m if most_changes is None else min(most_changes, m)
        starts = self._filter_reaching(starts)
        for start in starts:
            self._record(start)
        first = _PRICE_SLACK * self._lowest_price()
        entries = enter_leaves(self.trees, self.reachable, first, self.most)
        self._rebuild_table(entries, first)
        if self.constrained:  # a path from the row may be blocked if moves are only admissible together
            self._shrink_starts(starts[:_STARTS])
        for power in self._limit_work(_POWERS if self.most == m else (*_POWERS, *_POWERS_FEW[1:])):
            self._move_from_row(power)
            if _PRICE_SLACK * self._lowest_price() < self.limit:
                self._rebuild_table(entries, _PRICE_SLACK * self._lowest_price())
        for start in self._limit_work(starts[:_STARTS]):
            self._move_from_row(_REPAIR_POWER, start)
        if self._lowest_price() < np.inf:
            self._rebuild_table(entries, self._lowest_price())
            self._exchange_changes()
            self._search_pairs(entries)
            self._drop_and_repair()
        fewest = min(((price, n) for n, (price, _) in self.least.items()), default=(np.inf, 0))[1]
        if min(fewest - 1, path) > 0:
            few = enter_leaves(self.trees, self.reachable, most_changes=min(fewest - 1, path))
            for k in self._limit_work(range(min(fewest - 1, path), 0, -1)):
                self._search_fewer(k, few)

    def _limit_work(self, attempts: Iterable[_Attempt]) -> Iterator[_Attempt]:
        """Yield attempts of one kind until their work exceeds the limit; the first is always made."""
        before = self.work
        for one in attempts:
            yield one
            if self.work - before > _MOST_WORK * len(self.reachable.moving) ** 2:
                return

    def _search_fewer(self, k: int, entries: Entries) -> None:
        """Search with at most ``k`` changes: from the row, and from the best point with one more."""
        self.most = k
        self.scanned = {}
        self._rebuild_table(entries, _PRICE_SLACK * self._lowest_price())
        if k == 1 and not self.constrained:  # one scan at the row covers them all
            self.table.move_to(self.reachable.here)
            self._scan_moves()
            return
        for power in self._limit_work(_POWERS_FEW):
            self._move_from_row(power)
        more = min((n for n in self.least if n > k), default=None)
        if more == k + 1:
            self._undo_single_changes(self.least[more][1], _MOST_UNDONE)
        if self._lowest_price() < np.inf:
            self._exchange_changes()

    # --- recorded points ----------------------------------------------------------------------------------------

    def _lowest_price(self) -> float:
        """Return the lowest price within the allowed number of changes."""
        return min((price for n, (price, _) in self.least.items() if n <= self.most), default=np.inf)

    def _cheapest_slots(self) -> Array:
        """Return the slots ``(m,)`` of the cheapest point within the allowed number of changes."""
        least = self._lowest_price()
        return next(slots for n, (price, slots) in self.least.items() if n <= self.most and price == least)

    def _find_changed(self, slots: Array) -> Array:
        """Return which features of slots ``(..., m)`` are changed, not counting computed ones."""
        return np.asarray((slots != self.reachable.here) & self.reachable.paid)

    def _current_prices(self) -> Array:
        """Return the current price of each feature ``(m,)``."""
        prices = self.reachable.price[self.table.slots]
        return prices if self.reachable.all_paid else np.where(self.reachable.paid, prices, 0.0)

    def _filter_reaching(self, slots: Array) -> Array:
        """Return those of slots ``(n, m)`` that are admissible and reach the target."""
        slots, good = self._complete(slots)
        slots = slots[good]
        return slots[self._check_reached(slots)]

    def _complete(self, slots: Array) -> tuple[Array, Array]:
        """Return slots ``(n, m)`` with computed features filled in, and which are admissible ``(n,)``."""
        if not self.constrained or len(slots) == 0:
            return slots, np.ones(len(slots), dtype=bool)
        x = self.reachable.points(slots)
        return self._fill_computed(slots, x), self.reachable.space.admissible(x, self.reachable.x0)

    def _fill_computed(self, slots: Array, x: Array) -> Array:
        """Fill in the computed features of slots ``(n, m)`` from their points ``(n, d)``."""
        if self.reachable.all_paid:
            return slots
        return np.where(self.reachable.paid, slots, self.reachable.slots_of(self.trees.cells(x)))

    def _fill_computed_of(self, slots: Array) -> Array:
        """Fill in the computed features of slots ``(m,)``."""
        if self.reachable.all_paid:
            return slots
        return self._fill_computed(slots[None, :], self.reachable.points(slots[None, :]))[0]

    def _is_admissible(self, slots: Array) -> bool:
        """Whether slots ``(m,)`` satisfy the constraints; a path may pass through some that do not."""
        if not self.constrained:
            return True
        key = slots.tobytes()
        if key not in self.admissible:
            self.admissible[key] = bool(self._complete(slots[None, :])[1][0])
        return self.admissible[key]

    def _check_reached(self, slots: Array) -> Array:
        """Return which of slots ``(n, m)`` reach the target ``(n,)``."""
        if len(slots) == 0:
            return np.zeros(0, dtype=bool)
        return (
            self.constraints.shortfall(self.trees.scores(self.reachable.cells_at(slots)) @ self.constraints.weights.T)
            <= 0
        )

    def _record(self, slots: Array) -> None:
        """Record slots ``(m,)`` that reach the target if they are cheap for their number of changes."""
        changed = self._find_changed(slots)
        n, price = int(changed.sum()), float(self.reachable.cost(slots))
        if n > self.most or n == 0:
            return
        if n not in self.least or price < self.least[n][0]:
            self.least[n] = (price, slots.copy())
        elif price > _ALIKE * self.least[n][0]:
            return
        key = changed.tobytes()
        if key not in self.alternatives or price < self.alternatives[key][0]:
            self.alternatives[key] = (price, slots.copy())

    def collect_points(self, power: int) -> NearestPoints:
        """Return the recorded points, the cheapest first."""
        found = {slots.tobytes(): slots for _, slots in (*self.least.values(), *self.alternatives.values())}
        slots = np.array(list(found.values()), dtype=int).reshape(len(found), len(self.reachable.moving))
        cost, changes = self.reachable.cost(slots) ** (1.0 / power), self._find_changed(slots).sum(axis=1)
        order = np.lexsort((changes, cost))
        return NearestPoints(self.reachable.points(slots[order]), cost[order], changes[order])

    # --- scoring moves ------------------------------------------------------------------------------------------

    def _rebuild_table(self, entries: Entries, limit: float) -> None:
        """Rebuild the move table with the leaves below a price, unless too few would be dropped."""
        kept = entries.within(limit, self.most)
        if self.scanned and len(kept.leaf) > _REBUILD_BELOW * self.n_leaves:
            return
        self.n_leaves = len(kept.leaf)
        self.table = MoveTable(self.trees, self.reachable, self.constraints.weights, kept.leaf)
        self.limit = limit
        self.scanned = {}

    def _scan_moves(self) -> tuple[Array, float]:
        """Return the shortfall after each single move ``(N,)`` and at the point; record the best that reaches."""
        key = self.table.slots.tobytes()
        if key not in self.scanned:
            steps, here = self.table.score_moves()
            self.work += self.n_leaves + len(steps)
            shortfall = self.constraints.shortfall(steps)
            self.scanned[key] = shortfall, float(self.constraints.shortfall(here[None, :])[0])
            self._record_best_move(shortfall)
        return self.scanned[key]

    def _record_best_move(self, shortfall: Array) -> None:
        """Record the cheapest point that reaches the target in one move from here, if any."""
        to = self._limit_changes(((shortfall <= 0) & self.attainable).nonzero()[0])
        if len(to) == 0:
            return
        prices = self._current_prices()
        price = prices.sum() - prices[self.reachable.feature[to]] + self.reachable.price[to]
        cheap = price <= self.limit
        slots = self._pick_move(to[cheap], -price[cheap], reaching=True)
        if slots is not None:
            self._record(slots)

    def _limit_changes(self, to: Array) -> Array:
        """Return those of slots ``(k,)`` to which a feature can move within the allowed number of changes."""
        reachable = self.reachable
        if self.most == len(reachable.moving):
            return to
        changed = self._find_changed(self.table.slots)
        n = int(changed.sum())
        if n < self.most:
            return to
        feature = reachable.feature[to]
        back = reachable.here[feature] == to
        return to[back | changed[feature]] if n == self.most else to[back]

    def _pick_move(self, to: Array, worth: Array, *, reaching: bool = False) -> Array | None:
        """Return slots ``(m,)`` after the admissible move to one of ``to`` ``(k,)`` with the largest ``worth``."""
        reachable, here = self.reachable, self.table.slots
        if len(to) == 0:
            return None
        if reachable.all_paid:  # no computed feature moves along
            best = int(to[worth.argmax()])
            slots = here.copy()
            slots[reachable.feature[best]] = best
            if self._is_admissible(slots):
                return slots
        top = to[np.argsort(-worth, kind="stable")[:_CHECKED]]
        moved = np.repeat(here[None, :], len(top), axis=0)
        moved[np.arange(len(top)), reachable.feature[top]] = top
        moved, good = self._complete(moved)
        if reaching and not reachable.all_paid:  # computed features have moved, too
            good[good] = self._check_reached(moved[good])
        first = int(good.argmax())
        return moved[first] if good[first] else None

    # --- paths --------------------------------------------------------------------------------------------------

    def _move_from_row(self, power: float, towards: Array | None = None) -> None:
        """Move from the row until the target is reached, then shrink changes that are not needed."""
        reachable, within = self.reachable, self.attainable
        if towards is not None:
            low, high = np.minimum(reachable.here, towards), np.maximum(reachable.here, towards)
            slot = np.arange(len(reachable.price))
            within = (low[reachable.feature] <= slot) & (slot <= high[reachable.feature]) & self.attainable
        self.table.move_to(reachable.here)
        if self._advance(power, within):
            self._shrink_changes()

    def _advance(self, power: float, within: Array) -> bool:
        """Make the move of most progress per price within a mask until the target is reached; return success."""
        reachable = self.reachable
        for _ in range(_MOST_MOVES):
            shortfall, shortfall_here = self._scan_moves()
            prices = self._current_prices()
            if prices.sum() >= min(self.limit, _PRICE_SLACK * self._lowest_price()):
                return False
            if shortfall_here <= 0:
                return True
            gains = (shortfall_here - shortfall > max(_TINY * shortfall_here, self.noise)) & within
            to = self._limit_changes(gains.nonzero()[0])
            price = reachable.price[to] - prices[reachable.feature[to]]
            worth = (1.0 - shortfall[to] / shortfall_here) ** power / np.maximum(price, _LEAST_SAVING)
            slots = self._pick_move(to, worth)
            if slots is None:
                return False
            self.table.move_to(slots)
        return False

    def _shrink_changes(self) -> None:
        """Shrink changes of a point that reaches the target, the largest saving first, while it still does."""
        reachable = self.reachable
        for _ in range(_MOST_MOVES):
            shortfall, shortfall_here = self._scan_moves()
            prices = self._current_prices()
            if shortfall_here > 0 or not self._is_admissible(self.table.slots):  # computed features may spoil a move
                return
            self._record(self.table.slots)
            to = (shortfall <= 0).nonzero()[0]
            saved = prices[reachable.feature[to]] - reachable.price[to]
            enough = saved > _LEAST_SAVING * max(float(prices.sum()), _TINY)
            slots = self._pick_move(to[enough], saved[enough], reaching=True)
            if slots is None:
                return
            self.table.move_to(slots)

    def _shrink_starts(self, starts: Sequence[Array] | Array) -> None:
        """Shrink the changes of starts that reach the target."""
        for start in starts:
            if self.reachable.cost(start) <= self.limit:
                self.table.move_to(start)
                self._shrink_changes()

    def _exchange_changes(self) -> None:
        """Shrink one change of the best point while another move compensates, as long as that saves."""
        for _ in range(_EXCHANGE_ROUNDS):
            before, best = self._lowest_price(), self._cheapest_slots()
            for i in np.flatnonzero(self._find_changed(best)).tolist():
                for slot in self._limit_work(self._cheaper_slots(i, int(best[i]))):
                    moved = best.copy()
                    moved[i] = slot
                    self.table.move_to(self._fill_computed_of(moved))
                    self._scan_moves()
            if self._lowest_price() >= before * (1.0 - _LEAST_SAVING):
                return
            self.table.move_to(self._cheapest_slots())
            self._shrink_changes()

    def _search_pairs(self, entries: Entries) -> None:
        """Search pairs of changes cheaper than the best point; two may reach the target only together."""
        if self.most < _PAIR or not self.reachable.all_paid or self.constraints.reads is not None:
            return
        before = self._lowest_price()

        def accept(slots: Array) -> float | None:
            slots = self._filter_reaching(slots)
            if len(slots) == 0:
                return None
            self._record(slots[0])
            return float(self.reachable.cost(slots[0]))

        below, shown = before * (1.0 - _LEAST_SAVING), _CHECKED if self.constrained else 1
        find_pairs(self.trees, self.reachable, self.constraints, entries, below, accept, shown)
        if self._lowest_price() < before:
            self._exchange_changes()

    def _drop_and_repair(self) -> None:
        """Undo single changes of the best point and repair it, while that saves, if changing at all is expensive."""
        for _ in range(_EXCHANGE_ROUNDS):
            before, best = self._lowest_price(), self._cheapest_slots()
            changed = self._find_changed(best)
            if changed.sum() <= _PAIR or self.reachable.cheapest_moves()[changed].sum() < _FIXED_SHARE * before:
                return
            self._undo_single_changes(best, len(best))
            if self._lowest_price() >= before * (1.0 - _LEAST_SAVING):
                return

    def _cheaper_slots(self, i: int, slot: int) -> list[int]:
        """Return at most a few slots of a feature that are cheaper than this one, the cheapest first."""
        slots = np.arange(self.reachable.starts[i], self.reachable.starts[i + 1])
        slots = slots[self.reachable.price[slots] < self.reachable.price[slot]]
        slots = slots[np.argsort(self.reachable.price[slots], kind="stable")]
        if len(slots) > _MOST_SHRUNK:
            slots = slots[np.linspace(0, len(slots) - 1, _MOST_SHRUNK).astype(int)]
        return [int(one) for one in slots]

    def _undo_single_changes(self, slots: Array, most: int) -> None:
        """Undo up to ``most`` single changes of a point, one at a time, and let other moves compensate."""
        if self.reachable.cost(slots) > self.limit:
            return
        self.table.move_to(slots)
        shortfall, _ = self._scan_moves()
        changed = np.flatnonzero(self._find_changed(slots))
        order = np.argsort(shortfall[self.reachable.here[changed]], kind="stable")[:most]
        for i in changed[order].tolist():
            fewer = slots.copy()
            fewer[i] = self.reachable.here[i]
            self.table.move_to(self._fill_computed_of(fewer))
            if self._advance(_REPAIR_POWER, self.attainable):
                self._shrink_changes()
