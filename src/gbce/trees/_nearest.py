"""Cheapest points that reach a target under a tree ensemble, found by local search on its cells without model calls.

From the row, moves are chosen by progress per price at several exponents, and unneeded changes are then shrunk or
undone; known points that reach the target are further starts. The best point is improved by exchanging changes, by
searching all pairs of changes that leaves do not exclude and, where changing at all is a large part of the price, by
undoing single changes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gbce.base import Array
from gbce.search import NearestPoints
from gbce.trees._cells import CellTrees
from gbce.trees._local_search import TUNING, LocalSearch, Scan
from gbce.trees._pairs import find_pairs
from gbce.trees._question import ReachableCells, ScoreConstraints

_Attempt = TypeVar("_Attempt")


@dataclass(frozen=True)
class NearestTuning:
    """Constants of the search by price, hand-tuned like :class:`gbce.trees._local_search.Tuning`."""

    powers: tuple[float, ...] = (1.5, 2.5, 1.0)  # exponents of a move's progress, which is divided by its price
    powers_few: tuple[float, ...] = (1.0, 2.5, 6.0)  # with few changes: larger exponents favour large moves
    starts: int = 3  # cheap known points that reach the target and are moved towards
    repair_power: float = 1.5  # when moving towards a known point and when repairing an undone change
    shrunk: int = 6  # slots to which one change is shrunk while another compensates
    exchange_rounds: int = 10
    undone: int = 3  # changes undone, one at a time, to get by with fewer
    fixed_share: float = 0.25  # of the best price that the cheapest moves make up, from which undoing changes is tried
    alike: float = 1.02  # relative price of alternatives that are kept in case the model rejects the cheapest point
    noise: float = 0.1  # share of the rounding error of sums below which a gain does not count
    # Slots, times the square of the number of features, that attempts of one kind may scan: 0.01 s for two features.
    # More features make paths longer and allow more exchanges.
    work: int = 250_000


_NEAREST = NearestTuning()
_PAIR = 2  # changes for which all pairs are searched


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
    """Find cheap points that reach a target by the leaves of a tree ensemble, the cheapest first; perhaps none.

    ``starts`` ``(s, d)`` are points that may reach the target, such as training rows. The cost is the sum of prices to
    the power ``1 / power``. Up to ``path`` changes, the best point for each number that costs more with fewer changes
    is returned as well. Sums of leaves differ from the model's own in rounding.
    """
    search = _NearestSearch(trees, reachable, constraints)
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


class _NearestSearch(LocalSearch):
    """One local search, with the cheapest point found for each number of changes and its close competitors."""

    def __init__(self, trees: CellTrees, reachable: ReachableCells, constraints: ScoreConstraints) -> None:
        def read(scores: Array) -> tuple[Array, Array]:
            shortfall = constraints.shortfall(scores @ constraints.weights.T)
            return shortfall, shortfall <= 0

        super().__init__(trees, reachable, read, by_price=True, noise=_NEAREST.noise * constraints.rounding(trees))
        self.constraints = constraints
        self.least: dict[int, tuple[float, Array]] = {}  # by the number of changes
        self.alternatives: dict[bytes, tuple[float, Array]] = {}  # by the set of changed features

    def run(self, starts: Array, most_changes: int | None, path: int) -> None:
        """Search with the maximum number of changes, then with fewer."""
        m = len(self.reachable.moving)
        self.most_changes = m if most_changes is None else min(most_changes, m)
        starts = self._filter_reaching(starts)
        for start in starts:
            self._keep(start)
        if self.constrained:  # a path from the row may be blocked if moves are only admissible together
            for start in starts[: _NEAREST.starts]:
                self.descend_from(start)
        few = () if self.most_changes == m else _NEAREST.powers_few[1:]
        for power in self._limit_work((*_NEAREST.powers, *few)):
            self._move_from_row(power)
        for start in self._limit_work(starts[: _NEAREST.starts]):
            self._move_from_row(_NEAREST.repair_power, start)
        if self.lowest() < np.inf:
            self._exchange_changes()
            self._search_pairs()
            self._drop_and_repair()
        fewest = min(((price, n) for n, (price, _) in self.least.items()), default=(np.inf, 0))[1]
        for k in self._limit_work(range(min(fewest - 1, path), 0, -1)):
            self._search_fewer(k)

    def _limit_work(self, attempts: Iterable[_Attempt]) -> Iterator[_Attempt]:
        """Yield attempts of one kind until their work exceeds the limit; the first is always made."""
        most = _NEAREST.work * len(self.reachable.moving) ** 2 / len(self.price)
        before = self.n_scans
        for one in attempts:
            yield one
            if self.n_scans - before > most:
                return

    def _search_fewer(self, k: int) -> None:
        """Search with at most ``k`` changes: from the row, and from the best point with one more."""
        self.most_changes = k
        if k == 1 and not self.constrained:  # one scan at the row covers them all
            self.slots = self.reachable.here.copy()
            self.scan()
            return
        for power in self._limit_work(_NEAREST.powers_few):
            self._move_from_row(power)
        more = min((n for n in self.least if n > k), default=None)
        if more == k + 1:
            self._undo_single_changes(self.least[more][1], _NEAREST.undone)
        if self.lowest() < np.inf:
            self._exchange_changes()

    # --- recorded points ----------------------------------------------------------------------------------------

    def lowest(self) -> float:
        """Return the lowest price within the allowed number of changes."""
        return min((price for n, (price, _) in self.least.items() if n <= self.most_changes), default=np.inf)

    def record(self, scan: Scan, changes: Array) -> None:
        """Record the cheapest point that reaches the target in one move from here, if any."""
        slots = self.pick(scan.to, -self.total(scan, True), reaching=True)
        if slots is not None:
            self._keep(slots)

    def _keep(self, slots: Array) -> None:
        """Keep slots ``(m,)`` that reach the target if they are cheap for their number of changes."""
        changed = self.is_change[slots]
        n, price = int(changed.sum()), float(self.reachable.cost(slots))
        if n > self.most_changes or n == 0:
            return
        if n not in self.least or price < self.least[n][0]:
            self.least[n] = (price, slots.copy())
        elif price > _NEAREST.alike * self.least[n][0]:
            return
        key = changed.tobytes()
        if key not in self.alternatives or price < self.alternatives[key][0]:
            self.alternatives[key] = (price, slots.copy())

    def _cheapest_slots(self) -> Array:
        """Return the slots ``(m,)`` of the cheapest point within the allowed number of changes."""
        least = self.lowest()
        return next(slots for n, (price, slots) in self.least.items() if n <= self.most_changes and price == least)

    def _filter_reaching(self, slots: Array) -> Array:
        """Return those of slots ``(n, m)`` that are admissible and reach the target."""
        slots, good = self.complete(slots)
        slots = slots[good]
        return slots[self.read_slots(slots)[1]] if len(slots) else slots

    def collect_points(self, power: int) -> NearestPoints:
        """Return the recorded points, the cheapest first."""
        found = {slots.tobytes(): slots for _, slots in (*self.least.values(), *self.alternatives.values())}
        slots = np.array(list(found.values()), dtype=int).reshape(len(found), len(self.reachable.moving))
        cost, changes = self.reachable.cost(slots) ** (1.0 / power), self.is_change[slots].sum(axis=1)
        order = np.lexsort((changes, cost))
        return NearestPoints(self.reachable.points(slots[order]), cost[order], changes[order])

    # --- attempts -----------------------------------------------------------------------------------------------

    def _move_from_row(self, power: float, towards: Array | None = None) -> None:
        """Move from the row until the target is reached, then shrink changes that are not needed."""
        reachable, within = self.reachable, None
        if towards is not None:
            low, high = np.minimum(reachable.here, towards), np.maximum(reachable.here, towards)
            slot = np.arange(len(reachable.price))
            within = (low[reachable.feature] <= slot) & (slot <= high[reachable.feature])
        self.slots = reachable.here.copy()
        if self.advance(power, within):
            self.descend()

    def _exchange_changes(self) -> None:
        """Shrink one change of the best point while another move compensates, as long as that saves."""
        for _ in range(_NEAREST.exchange_rounds):
            best = self._cheapest_slots()
            if not self.try_first_moves(best, self._limit_work(self.list_cheaper(best, _NEAREST.shrunk))):
                return

    def _search_pairs(self) -> None:
        """Search pairs of changes cheaper than the best point; two may reach the target only together."""
        if self.most_changes < _PAIR or not self.reachable.all_paid or self.constraints.reads is not None:
            return
        before = self.lowest()

        def accept(slots: Array) -> float | None:
            slots = self._filter_reaching(slots)
            if len(slots) == 0:
                return None
            self._keep(slots[0])
            return float(self.reachable.cost(slots[0]))

        shown = TUNING.checked if self.constrained else 1
        find_pairs(self.trees, self.reachable, self.constraints, before - self.min_gain(before), accept, shown)
        if self.lowest() < before:
            self._exchange_changes()

    def _drop_and_repair(self) -> None:
        """Undo single changes of the best point and repair it, while that saves, if changing at all is expensive."""
        for _ in range(_NEAREST.exchange_rounds):
            before, best = self.lowest(), self._cheapest_slots()
            changed, cheapest = self.is_change[best], self.reachable.cheapest_moves()
            if changed.sum() <= _PAIR or cheapest[changed].sum() < _NEAREST.fixed_share * before:
                return
            self._undo_single_changes(best, len(best))
            if self.lowest() >= before - self.min_gain(before):
                return

    def _undo_single_changes(self, slots: Array, most: int) -> None:
        """Undo up to ``most`` single changes of a point, one at a time, and let other moves compensate."""
        undone = self.reachable.here[np.flatnonzero(self.is_change[slots])]
        fewer = self.complete(np.array([self.moved(slots, slot) for slot in undone.tolist()]))[0]
        for start in fewer[np.argsort(self.read_slots(fewer)[0], kind="stable")[:most]]:
            self.slots = start.copy()
            if self.advance(_NEAREST.repair_power):
                self.descend()
