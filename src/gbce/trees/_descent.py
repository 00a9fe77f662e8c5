"""Local minimisation of the posterior objective on the cells of a tree ensemble, without model calls.

The move table gives the objective after every single-feature move. The best move is made until none gains; then pairs
of moves are tried, of which the first alone may lose. Descents start at known points and at the row, from which the
loss is first lowered by moves of most gain per price, so that several moves that pay only together are made. With
``most_changes``, the best places are kept separately for each number of changes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import Predictor
from gbce.priors import ColumnDistribution, column_distributions
from gbce.trees._cells import CellTrees, outputs_of, why_unreadable
from gbce.trees._grid import rounding_shifts
from gbce.trees._move_table import MoveTable, enter_leaves
from gbce.trees._question import ReachableCells, ScoreConstraints, reachable_cells

__all__ = ["CellDescent", "CellObjective", "objective_on_cells"]

# Hand-tuned on diabetes, breast cancer and California housing: they trade time for the objective.
_POWERS = (1.5,)  # exponents of a move's loss decrease, which is divided by its price
_COST_SLACK = 1.3  # a path from the row may cost this many times the lowest objective
_MOST_MOVES = 100  # moves of one path
_MOST_SCANS = 2_000  # scans of all single moves in one search
_REMEMBERED = 8_000_000  # numbers in remembered scans: 64 MB
_FIRST_MOVES, _OF_FEATURE = 12, 3  # first moves of pairs that are tried: in total, and per feature
_PAIR_ROUNDS = 2
_FEWEST_JOINED = 4  # gaining moves; with fewer, only the best is made at a time
_LEAST_GAIN = 1e-9  # relative above one: a smaller gain is rounding
_LEAST_PRICE = 1e-9  # cheaper moves count as free
_KEPT = 3  # places of each kind, in case the model disagrees with the first

# --- the objective on cells ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellObjective:
    """The objective of a mode on cells: eta times the loss of the leaf sums, plus the prior cost of the values.

    Parameters
    ----------
    trees : CellTrees
        The one model.
    predictor : Predictor
        The same model as a predictor, for the form of its outputs.
    target : Target
        The resolved target.
    mixture : Mixture
        With eta.
    reachable : ReachableCells
        In each cell of each feature, the value of lowest prior cost and that cost.
    """

    trees: CellTrees
    predictor: Predictor
    target: Target
    mixture: Mixture
    reachable: ReachableCells

    def read(self, scores: Array, *, surely: bool = False) -> tuple[Array, Array]:
        """Return eta times the loss of scores ``(n, K)`` and which reach the target, each ``(n,)``.

        With ``surely``, only those that reach it under any rounding of the scores.
        """
        reading = self.target.read(outputs_of(self.trees, self.predictor, scores))
        loss, reached = np.asarray(reading.loss, dtype=float), np.asarray(reading.reached, dtype=bool)
        if surely:
            n = len(self.trees.base)
            for shift in rounding_shifts(n, ScoreConstraints(np.eye(n), np.zeros(n)).rounding(self.trees)):
                reached = reached & self.target.read(outputs_of(self.trees, self.predictor, scores + shift)).reached
        potential = self.mixture.potential(np.where(np.isnan(loss), np.inf, loss)[:, None])
        return np.asarray(potential), reached

    def scores(self, slots: Array) -> Array:
        """Return scores ``(n, K)`` at slots ``(n, m)``."""
        return self.trees.scores(self.reachable.cells_at(slots))


def objective_on_cells(posterior: GibbsPosterior, mixture: Mixture) -> CellObjective | None:
    """Return the objective on cells; None if leaves do not determine it or the prior is not a product over columns."""
    prior = posterior.prior
    if len(posterior.predictors) != 1:
        return None
    try:
        distributions = {distribution.where: distribution for distribution in column_distributions(prior)}
    except ValueError:  # columns are dependent
        return None
    predictor, trees = posterior.predictors[0], posterior.read_trees()
    if trees is None or why_unreadable(trees, predictor, posterior.target):
        return None
    at_row = float(prior.cost(prior.x0[None, :])[0])

    def price(j: int, values: Array) -> Array:
        x = np.tile(prior.x0, (len(values), 1))
        x[:, j] = values
        return prior.cost(x) - at_row

    reachable = reachable_cells(
        trees, prior.space, prior.x0, price, lambda j: _find_likeliest(distributions[j], trees.edges[j])
    )
    if reachable is None or (reachable.price < 0).any():  # if a change is likelier than none, prices are not bounds
        return None
    return CellObjective(trees, predictor, posterior.target, mixture, reachable)


def _find_likeliest(distribution: ColumnDistribution, edges: Array) -> Array:
    """Return the most probable atom of the prior in each cell; NaN where there is none and for missing."""
    found = np.full(len(edges) + 2, np.nan)
    order = np.argsort(distribution.log_values, kind="stable")  # the likeliest last, so that it wins
    order = order[np.isfinite(distribution.log_values[order])]
    found[np.searchsorted(edges, distribution.values[order], side="left")] = distribution.values[order]
    return found


# --- descents --------------------------------------------------------------------------------------------------------


class BestPlaces:
    """The best few places, as slots ``(m,)`` with their objective."""

    def __init__(self) -> None:
        self._places: list[tuple[float, bytes, Array]] = []

    @property
    def least(self) -> float:
        """The lowest objective."""
        return self._places[0][0] if self._places else np.inf

    @property
    def slots(self) -> list[Array]:
        """Slots of all places, the lowest objective first."""
        return [slots for _, _, slots in self._places]

    def wants(self, objective: float) -> bool:
        """Whether a place of this objective would be among the best."""
        return objective < np.inf and (len(self._places) < _KEPT or objective < self._places[-1][0])

    def add(self, objective: float, slots: Array) -> None:
        """Add a place if it is new and among the best."""
        key = slots.tobytes()
        if self.wants(objective) and not any(key == own for _, own, _ in self._places):
            self._places = sorted([*self._places, (objective, key, slots.copy())], key=lambda place: place[0])[:_KEPT]


def _min_gain(objective: float) -> float:
    """Return the smallest decrease of an objective that is not rounding."""
    return _LEAST_GAIN * max(1.0, abs(objective))


class _MoveScan(NamedTuple):
    """All single moves from a place, each ``(N,)``, and the place itself.

    ``potential`` is eta times the loss; ``cost`` is the prior's, infinite for moves that are not allowed.
    """

    potential: Array
    cost: Array
    reached: Array
    potential_here: float
    cost_here: float


class CellDescent:
    """Descents on the cells around one row, with the best places they visited.

    Parameters
    ----------
    objective : CellObjective
        What is minimised.
    most : float
        Places of a higher prior cost are ignored.
    most_changes : int, optional
        Maximum number of changed features. If given, the best places are kept for each number up to it, and separately
        those that reach the target.
    surely : bool
        Whether rounding must not change which places reach the target.
    """

    def __init__(
        self, objective: CellObjective, most: float, most_changes: int | None = None, *, surely: bool = False
    ) -> None:
        reachable = objective.reachable
        self.objective, self.reachable, self.most, self.surely = objective, reachable, most, surely
        self.by_changes = most_changes is not None
        self.fewest_changes = 0
        self.most_changes = len(reachable.moving) if most_changes is None else most_changes
        kept = enter_leaves(objective.trees, reachable, most).leaf  # cheaper points lie in no other leaves
        self._table = MoveTable(objective.trees, reachable, np.eye(len(objective.trees.base)), kept)
        x = np.tile(reachable.x0, (len(reachable.value), 1))
        own = np.arange(len(x)), reachable.moving[reachable.feature]
        x[own] = reachable.value
        self.is_change = reachable.space.changed(x, reachable.x0)[own]
        self.slots = reachable.here.copy()  # the current place
        self.ends = BestPlaces()
        self.n_scans = 0
        self._found: dict[tuple[int, bool], BestPlaces] = {}
        self._scans: dict[bytes, tuple[Array, Array]] = {}
        self._recorded: dict[bytes, int] = {}  # maximum number of changes for which a place was recorded
        self._descended: set[tuple[bytes, int, int, bool]] = set()  # completed descents
        self._exchanged: set[tuple[bytes, int, int, bool]] = set()  # completed exchanges
        self._all_remembered = True

    def places(self, changes: int = 0, *, reached: bool = False) -> BestPlaces:
        """Return the best places with a number of changes (if these are kept apart), or those that reach."""
        kind = changes if self.by_changes else 0, reached
        if kind not in self._found:
            self._found[kind] = BestPlaces()
        return self._found[kind]

    # --- paths --------------------------------------------------------------------------------------------------

    def descend_from_row(self) -> None:
        """Descend from the row, and from where the loss is lowest along paths of most gain per price."""
        self.descend_from(self.reachable.here)
        for power in _POWERS:
            self.slots = self.reachable.here.copy()
            self._advance(power)
            self._descend()

    def descend_from(self, slots: Array, *, within_target: bool = False) -> None:
        """Descend from slots ``(m,)``; with ``within_target``, without leaving the target."""
        if self.reachable.cost(slots) <= self.most:
            self.slots = slots.copy()
            self._descend(within_target=within_target)

    def try_pairs(self) -> None:
        """Try pairs of moves from the best local minima, while that gains."""
        for number in range(_PAIR_ROUNDS):
            before = self.ends.least
            for start in self.ends.slots[: 1 if number else None]:
                self.try_pairs_from(start)
            if self.ends.least > before - _min_gain(before):
                return

    def exchange_changes(self, slots: Array, *, within_target: bool = False) -> None:
        """Undo each change of slots ``(m,)`` in turn, replace it by the best other move, and descend."""
        place = self._descent_key(slots, within_target)
        if self._is_repeated(place, self._exchanged):
            return
        self._exchanged.add(place)
        for i in np.flatnonzero(self.is_change[slots]).tolist():
            self.slots = slots.copy()
            self.slots[i] = self.reachable.here[i]
            scan = self._scan_moves()
            total = scan.potential + scan.cost
            total[(self.reachable.feature == i) | (within_target & ~scan.reached)] = np.inf
            to = int(total.argmin())
            if np.isfinite(total[to]):
                self._move(to)
                self._descend(within_target=within_target)

    def try_pairs_from(self, start: Array) -> None:
        """Try pairs of moves from slots ``(m,)``, and descend from the best pair if it gains."""
        self.slots = start.copy()
        scan = self._scan_moves()
        before = scan.potential_here + scan.cost_here
        least, after = before, start
        for slot in self._pick_first_moves(scan):
            self.slots = start.copy()
            self._move(slot)
            second = self._scan_moves()
            total = second.potential + second.cost
            to = int(total.argmin())
            if total[to] < least:
                self._move(to)
                least, after = float(total[to]), self.slots.copy()
        if least < before - _min_gain(before):
            self.descend_from(after)

    def _pick_first_moves(self, scan: _MoveScan) -> list[int]:
        """Return slots to try as the first of two moves: per feature, those cheap for their loss."""
        reachable, found = self.reachable, []
        total = scan.potential + scan.cost
        for i in range(len(reachable.moving)):
            mine = np.arange(reachable.starts[i], reachable.starts[i + 1])
            mine = mine[np.isfinite(total[mine]) & (mine != self.slots[i])]
            mine = mine[np.argsort(reachable.price[mine], kind="stable")]
            lower = np.minimum.accumulate(scan.potential[mine])
            mine = mine[np.append(True, lower[1:] < lower[:-1])] if len(mine) else mine
            if len(mine) > _OF_FEATURE:
                mine = mine[np.linspace(0, len(mine) - 1, _OF_FEATURE).astype(int)]
            found += mine.tolist()
        return sorted(found, key=lambda slot: float(total[slot]))[:_FIRST_MOVES]

    def _advance(self, power: float) -> None:
        """Make the move of largest loss decrease (to a power) per price until none lowers the loss."""
        for _ in range(_MOST_MOVES):
            scan = self._scan_moves()
            can = np.flatnonzero(np.isfinite(scan.potential) & np.isfinite(scan.cost))
            gain = scan.potential_here - scan.potential[can]
            enough = gain > _min_gain(scan.potential_here)
            far = not self.by_changes and scan.cost_here > _COST_SLACK * self.places().least
            if far or not enough.any() or self.n_scans >= _MOST_SCANS:
                return
            price = np.maximum(scan.cost[can] - scan.cost_here, _LEAST_PRICE)
            with np.errstate(over="ignore"):
                worth = np.where(enough, np.maximum(gain, 0.0) ** power / price, 0.0)
            self._move(int(can[worth.argmax()]))

    def _descend(self, *, within_target: bool = False) -> None:
        """Make the best move until none gains; with too many changes, undo one first."""
        passed = []
        for _ in range(_MOST_MOVES):
            place = self._descent_key(self.slots, within_target)
            if self._is_repeated(place, self._descended):
                return
            passed.append(place)
            scan = self._scan_moves()
            total, here = scan.potential + scan.cost, scan.potential_here + scan.cost_here
            crowded = int(self.is_change[self.slots].sum()) > self.most_changes
            if within_target and not crowded:
                total[~scan.reached] = np.inf
            to = int(total.argmin())
            gains = total[to] < here - _min_gain(here)
            if not (gains or (crowded and np.isfinite(total[to]))) or self.n_scans >= _MOST_SCANS:
                if not crowded and not within_target:
                    self.ends.add(here, self.slots)
                if self.n_scans < _MOST_SCANS:
                    self._descended.update(passed)
                return
            joined = None if crowded or within_target else self._join_moves(total, here)
            if joined is None:
                self._move(to)
            else:
                self.slots = joined

    def _descent_key(self, slots: Array, within_target: bool) -> tuple[bytes, int, int, bool]:
        """Return the key of a descent: slots ``(m,)`` and the settings that determine where it leads."""
        return slots.tobytes(), self.fewest_changes, self.most_changes, within_target

    def _is_repeated(self, place: tuple[bytes, int, int, bool], done: set[tuple[bytes, int, int, bool]]) -> bool:
        """Whether a descent would only repeat remembered scans."""
        return place in done and self._all_remembered and self.n_scans < _MOST_SCANS

    def _join_moves(self, total: Array, here: float) -> Array | None:
        """Return slots ``(m,)`` after the best moves of several features at once, if better than one move."""
        reachable = self.reachable
        least = np.minimum.reduceat(total, reachable.starts[:-1])
        n = int((least < here - _min_gain(here)).sum())
        if n < _FEWEST_JOINED:
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
        value = self.objective.read(self.objective.scores(tried))[0] + cost
        value[(cost > self.most) | (changes > self.most_changes) | (changes < self.fewest_changes)] = np.inf
        best = int(value.argmin())
        return tried[best] if value[best] < float(total.min()) else None

    def _move(self, slot: int) -> None:
        """Move to a slot of its feature."""
        self.slots[self.reachable.feature[slot]] = slot

    # --- scoring moves ------------------------------------------------------------------------------------------

    def _scan_moves(self) -> _MoveScan:
        """Return all single moves from the current place, and record the best of them."""
        reachable, key = self.reachable, self.slots.tobytes()
        known = self._scans.get(key)
        if known is None:
            self.n_scans += 1
            self._table.move_to(self.slots)
            steps, here = self._table.score_moves()
            known = self._read(np.vstack([steps, here]))
            self._all_remembered &= (len(self._scans) + 1) * len(steps) <= _REMEMBERED
            if self._all_remembered:
                self._scans[key] = known
        potential, reached = known
        own, changed = reachable.price[self.slots], self.is_change[self.slots]
        cost = own.sum() - own[reachable.feature] + reachable.price
        changes = changed.sum() - changed[reachable.feature] + self.is_change
        n = int(changed.sum())
        cost[(changes > max(self.most_changes, n - 1)) | (cost > self.most)] = np.inf
        scan = _MoveScan(potential[:-1], cost, reached[:-1], float(potential[-1]), float(own.sum()))
        if self._recorded.get(key, -1) < self.most_changes:
            self._recorded[key] = self.most_changes
            self._record(scan, changes, n)
        if n >= self.fewest_changes > 0:
            cost[changes < self.fewest_changes] = np.inf
        return scan

    def _read(self, sums: Array) -> tuple[Array, Array]:
        """Read sums ``(N + 1, K)``, each run of equal ones once: there are many more cells than distinct sums."""
        begins = np.ones(len(sums), dtype=bool)
        begins[1:] = (sums[1:] != sums[:-1]).any(axis=1)
        potential, reached = self.objective.read(sums[begins], surely=self.surely)
        run = np.cumsum(begins) - 1
        return potential[run], reached[run]

    def _record(self, scan: _MoveScan, changes: Array, changes_here: int) -> None:
        """Record the best places among all single moves, including the current one."""
        total = scan.potential + scan.cost
        if not self.by_changes:
            self._record_move(total, int(total.argmin()), self.places())
            return
        missed = ~scan.reached
        for n in range(max(changes_here - 1, 0), min(changes_here + 1, self.most_changes) + 1):
            own = np.where(changes == n, total, np.inf)
            self._record_move(own, int(own.argmin()), self.places(n))
            own[missed] = np.inf
            self._record_move(own, int(own.argmin()), self.places(n, reached=True))

    def _record_move(self, total: Array, to: int, kind: BestPlaces) -> None:
        """Record a move if its place is among the best of its kind."""
        if kind.wants(float(total[to])):
            slots = self.slots.copy()
            slots[self.reachable.feature[to]] = to
            kind.add(float(total[to]), slots)
