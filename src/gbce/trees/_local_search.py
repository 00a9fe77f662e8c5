"""Local search on the cells of a tree ensemble, without model calls, for the cheapest point or the best objective.

All single-feature moves from a place are scored at once. Paths make the move of most gain per price; descents make the
best move until none gains; and first moves that may lose are tried together with the best second move, to exchange
changes and to find pairs that pay only together.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.trees._cells import CellTrees
from gbce.trees._question import ReachableCells


@dataclass(frozen=True)
class Tuning:
    """Constants of the search, hand-tuned on breast cancer, diabetes and California housing: time against cost."""

    most_moves: int = 100  # of one path: more than features, so that some move several times
    most_scans: int = 2_000  # scans of all single moves in one search of a mode
    remembered: int = 8_000_000  # slots of remembered scans: 72 MB
    price_slack: float = 1.3  # a path may cost this many times the best total
    fewest_joined: int = 4  # gaining moves that are made together; with fewer, only the best
    least_gain: float = 1e-9  # relative: a smaller gain is rounding
    checked: int = 48  # best moves that are checked against constraints between columns


TUNING = Tuning()
_FINITE = float(np.finfo(float).max)  # any price that can be paid


class Scan(NamedTuple):
    """Potential, verdict and cost after single moves to slots ``to``, each ``(k,)``, and at the place itself.

    The potential is what a path lowers; a cost is infinite for moves that are not allowed. By price, moves that neither
    reach the target nor lower the potential are left out.
    """

    to: Array
    potential: Array
    reached: Array
    cost: Array
    potential_here: float
    reached_here: bool
    cost_here: float


class LocalSearch:
    """Search on the cells around one row; subclasses record the places that it passes.

    ``read`` takes scores ``(n, K)`` and returns potentials and whether they reach the target, each ``(n,)``. Totals are
    prices of places that reach it if ``by_price``, else potentials plus prices of any. ``noise`` is the smallest gain
    in potential that is not rounding, relative above one unless by price. Places of a higher price than ``dearest`` are
    ignored.
    """

    def __init__(
        self,
        trees: CellTrees,
        reachable: ReachableCells,
        read: Callable[[Array], tuple[Array, Array]],
        *,
        by_price: bool,
        noise: float,
        dearest: float = np.inf,
    ) -> None:
        self.trees, self.reachable, self.read = trees, reachable, read
        self.by_price, self.noise, self.dearest = by_price, noise, dearest
        self.constrained = bool(reachable.space.constraints) or not reachable.all_paid
        self.is_change = reachable.is_change
        self.price = np.where(reachable.paid[reachable.feature], reachable.price, 0.0)
        self.attainable = np.flatnonzero(np.isfinite(reachable.price))
        self.slots = reachable.here.copy()  # the current place
        self.fewest_changes, self.most_changes = 0, len(reachable.moving)
        self.n_scans, self.most_scans = 0, np.inf if by_price else TUNING.most_scans
        self._scans: dict[bytes, tuple[float, Array, Array, Array, float, bool]] = {}
        self._recorded: dict[bytes, int] = {}  # number of changes for which a place was recorded last
        self._descended: set[tuple[bytes, int, int, bool]] = set()
        self._admissible: dict[bytes, bool] = {}

    # --- for subclasses -----------------------------------------------------------------------------------------

    def record(self, scan: Scan, changes: Array) -> None:
        """Record the best of the single moves, which have ``changes`` ``(k,)``, including the current place."""

    def end_descent(self, total: float) -> None:
        """Note that a descent ended at the current place."""

    def lowest(self) -> float:
        """Return the lowest total so far."""
        return np.inf

    # --- scoring moves ------------------------------------------------------------------------------------------

    def scan(self, dearest: float | None = None) -> Scan:
        """Return all single moves from the current place, and record the best of them.

        By price, moves to places that cost more than ``dearest``, at first the most that a path may cost, are left out.
        """
        reachable, key = self.reachable, self.slots.tobytes()
        dearest = TUNING.price_slack * self.lowest() if dearest is None else dearest
        dearest = dearest if self.by_price and not self.constrained else np.inf
        if key not in self._scans or self._scans[key][0] < dearest:
            self._scans[key] = self._read_moves(dearest)
        _, to, potential, reached, potential_here, reached_here = self._scans[key]
        own, changed, feature = self.price[self.slots], self.is_change[self.slots], reachable.feature[to]
        n, here = int(changed.sum()), float(own.sum())
        cost = here - own[feature] + self.price[to]
        changes = n - changed[feature] + self.is_change[to]
        cost[(changes > max(self.most_changes, n - 1)) | (cost > self.dearest)] = np.inf
        scan = Scan(to, potential, reached, cost, potential_here, reached_here, here)
        if self._recorded.get(key) != self.most_changes:
            self._recorded[key] = self.most_changes
            self.record(scan, changes)
        if n >= self.fewest_changes > 0:
            cost[changes < self.fewest_changes] = np.inf
        return scan

    def _read_moves(self, dearest: float) -> tuple[float, Array, Array, Array, float, bool]:
        """Return slots ``(k,)`` up to a price of all with potentials and verdicts, and those of the current place."""
        self.n_scans += 1
        if len(self._scans) * len(self.price) > TUNING.remembered:
            self._scans.clear()
        reachable, trees = self.reachable, self.trees
        cells, to = reachable.cells_at(self.slots[None, :])[0], self.attainable
        where = reachable.moving, reachable.starts
        if self.by_price and not self.constrained:  # of equal scores, only the nearest cells can be the best
            own = self.price[self.slots]
            room = np.full(len(own), _FINITE) if dearest == np.inf else dearest - own.sum() + own
            to, scores = trees.score_steps(cells, *where, reachable.here, self.slots, reachable.price, room)
        elif not self.constrained:  # of equal scores, only the cheapest cells can be
            to, scores = trees.score_runs(cells, *where, self.slots, reachable.price, self.is_change)
        else:
            scores = trees.score_moves(cells, *where)[np.append(to, -1)]
        potential, reached = self.read(scores)
        potential_here, reached_here = float(potential[-1]), bool(reached[-1])
        potential, reached = potential[:-1], reached[:-1]
        if self.by_price:
            useful = reached | (potential < potential_here)
            to, potential, reached = to[useful], potential[useful], reached[useful]
        return dearest, to, potential, reached, potential_here, reached_here

    def read_slots(self, slots: Array) -> tuple[Array, Array]:
        """Return potentials and verdicts of slots ``(n, m)``."""
        return self.read(self.trees.scores(self.reachable.cells_at(slots)))

    def total(self, scan: Scan, within_target: bool) -> Array:
        """Return the totals ``(k,)`` of moves; infinite outside the target if they must stay within it."""
        total = scan.cost if self.by_price else scan.potential + scan.cost
        return np.where(scan.reached, total, np.inf) if within_target or self.by_price else total

    def total_here(self, scan: Scan) -> float:
        """Return the total of the current place."""
        return scan.cost_here if self.by_price else scan.potential_here + scan.cost_here

    def min_gain(self, total: float) -> float:
        """Return the smallest decrease of a total that is not rounding."""
        return TUNING.least_gain * (abs(total) if self.by_price else max(1.0, abs(total)))

    # --- constraints between columns ----------------------------------------------------------------------------

    def complete(self, slots: Array) -> tuple[Array, Array]:
        """Return slots ``(n, m)`` with computed features filled in, and which are admissible ``(n,)``."""
        if not self.constrained or len(slots) == 0:
            return slots, np.ones(len(slots), dtype=bool)
        x, reachable = self.reachable.points(slots), self.reachable
        if not reachable.all_paid:
            slots = np.where(reachable.paid, slots, reachable.slots_of(self.trees.cells(x)))
        return slots, reachable.space.admissible(x, reachable.x0)

    def is_admissible(self, slots: Array) -> bool:
        """Whether slots ``(m,)`` satisfy the constraints; a path may pass through some that do not."""
        if not self.constrained:
            return True
        key = slots.tobytes()
        if key not in self._admissible:
            self._admissible[key] = bool(self.complete(slots[None, :])[1][0])
        return self._admissible[key]

    def pick(self, to: Array, worth: Array, *, reaching: bool = False) -> Array | None:
        """Return the slots ``(m,)`` after the admissible move to one of ``to`` of largest ``worth`` ``(k,)``.

        None if there is none, or all are minus infinity.
        """
        reachable = self.reachable
        if worth.max(initial=-np.inf) == -np.inf:
            return None
        if reachable.all_paid:  # no computed feature moves along
            slots = self.moved(self.slots, int(to[worth.argmax()]))
            if self.is_admissible(slots):
                return slots
        order = np.argsort(-worth, kind="stable")[: TUNING.checked]
        top = to[order[worth[order] > -np.inf]]
        tried = np.repeat(self.slots[None, :], len(top), axis=0)
        tried[np.arange(len(top)), reachable.feature[top]] = top
        tried, good = self.complete(tried)
        if reaching and not reachable.all_paid and good.any():  # computed features have moved, too
            good[good] = self.read_slots(tried[good])[1]
        first = int(good.argmax())
        return tried[first] if good[first] else None

    def moved(self, slots: Array, slot: int) -> Array:
        """Return slots ``(m,)`` with one feature moved."""
        after = slots.copy()
        after[self.reachable.feature[slot]] = slot
        return after

    # --- paths and descents -------------------------------------------------------------------------------------

    def advance(self, power: float, within: Array | None = None) -> bool:
        """Make the move of most gain, to a power, per price, until the potential is as low as it gets.

        Returns whether the target is reached, at which a search by price stops; ``within`` ``(N,)`` are slots to use.
        """
        for _ in range(TUNING.most_moves):
            scan = self.scan()
            if scan.cost_here >= TUNING.price_slack * self.lowest() or self.n_scans >= self.most_scans:
                return False
            if self.by_price and scan.reached_here:
                return True
            gain = scan.potential_here - scan.potential
            least = self.noise if self.by_price else self.noise * max(1.0, abs(scan.potential_here))
            can = (gain > least) & np.isfinite(scan.cost) & np.isfinite(scan.potential)
            can = can if within is None else can & within[scan.to]
            price = np.maximum(scan.cost - scan.cost_here, TUNING.least_gain)
            with np.errstate(over="ignore", invalid="ignore"):
                slots = self.pick(scan.to, np.where(can, np.maximum(gain, 0.0) ** power / price, -np.inf))
            if slots is None:
                return scan.reached_here
            self.slots = slots
        return False

    def descend(self, *, within_target: bool = False) -> None:
        """Make the best move until none gains; with too many changes, undo one first."""
        passed = []
        for _ in range(TUNING.most_moves):
            place = self.slots.tobytes(), self.fewest_changes, self.most_changes, within_target
            if place in self._descended or self.n_scans >= self.most_scans:
                return
            passed.append(place)
            scan = self.scan(float(self.reachable.cost(self.slots)))
            if self.by_price and not (scan.reached_here and self.is_admissible(self.slots)):
                return  # computed features may spoil a move
            crowded = int(self.is_change[self.slots].sum()) > self.most_changes
            total, here = self.total(scan, within_target and not crowded), self.total_here(scan)
            gains = total.min(initial=np.inf) < here - self.min_gain(here)
            slots = self.pick(scan.to, -total, reaching=self.by_price) if gains or crowded else None
            if slots is None:
                if not crowded and not within_target:
                    self.end_descent(here)
                self._descended.update(passed)
                return
            joined = None if crowded or within_target or self.by_price else self._join_moves(scan.to, total, here)
            self.slots = slots if joined is None else joined

    def descend_from(self, slots: Array, *, within_target: bool = False) -> None:
        """Descend from slots ``(m,)``; with ``within_target``, without leaving the target."""
        if self.reachable.cost(slots) <= self.dearest:
            self.slots = slots.copy()
            self.descend(within_target=within_target)

    def _join_moves(self, to: Array, some: Array, here: float) -> Array | None:
        """Return slots ``(m,)`` after the best moves of several features at once, if better than one move."""
        reachable, total = self.reachable, np.full(len(self.price), np.inf)
        total[to] = some
        least = np.minimum.reduceat(total, reachable.starts[:-1])
        n = int((least < here - self.min_gain(here)).sum())
        if n < TUNING.fewest_joined:
            return None
        order = np.argsort(least, kind="stable")
        which = np.flatnonzero(total == least[reachable.feature])
        goal = np.empty(len(least), dtype=int)
        goal[reachable.feature[which[::-1]]] = which[::-1]  # the first of ties
        sizes = list(dict.fromkeys([n, -(-n // 2), -(-n // 4)]))
        tried = np.tile(self.slots, (len(sizes), 1))
        for line, size in zip(tried, sizes, strict=True):
            line[order[:size]] = goal[order[:size]]
        cost, changes = reachable.cost(tried), self.is_change[tried].sum(axis=1)
        value = self.read_slots(tried)[0] + cost
        value[(cost > self.dearest) | (changes > self.most_changes) | (changes < self.fewest_changes)] = np.inf
        best = int(value.argmin())
        return tried[best] if value[best] < float(total.min()) else None

    # --- two moves at once --------------------------------------------------------------------------------------

    def try_first_moves(self, start: Array, firsts: Iterable[int], *, within_target: bool = False) -> bool:
        """Try each first move from slots ``(m,)`` with the best second one; descend from the best pair if it gains."""
        self.slots = start.copy()
        before = least = self.total_here(self.scan(float(self.reachable.cost(start))))
        after = None
        for slot in firsts:
            self.slots = self.complete(self.moved(start, slot)[None, :])[0][0]
            scan = self.scan(before)
            total = self.total(scan, within_target)
            if total.min(initial=np.inf) < least - self.min_gain(before):
                second = self.pick(scan.to, -total, reaching=self.by_price)
                if second is not None:
                    least, after = float(total.min()), second
        if after is None:
            return False
        self.descend_from(after, within_target=within_target)
        return True

    def list_cheaper(self, slots: Array, most: int) -> Sequence[int]:
        """Return, for each change of slots ``(m,)``, at most so many slots that are cheaper, the cheapest first."""
        found: list[int] = []
        for i in np.flatnonzero(self.is_change[slots]).tolist():
            own = np.arange(self.reachable.starts[i], self.reachable.starts[i + 1])
            own = own[self.reachable.price[own] < self.reachable.price[slots[i]]]
            own = own[np.argsort(self.reachable.price[own], kind="stable")]
            if len(own) > most:
                own = own[np.linspace(0, len(own) - 1, most).astype(int)]
            found += own.tolist()
        return found
