"""Places of low objective under a tree ensemble, found on its cells: no model is asked.

Around any point the leaves say what every single move of a feature would come to. The best of all moves is made until
none gains; then two moves at once are tried, of which the first alone may lose. Descents begin at known points and at
the row, from which the loss is first lowered by moves that are worth their price, so that several which pay only
together are made. Where points with different numbers of changes do not compare, each number has places of its own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import Predictor
from gbce.priors import ColumnDistribution, column_distributions
from gbce.trees._cells import CellTrees, outputs_of, why_unreadable
from gbce.trees._move_table import MoveTable, enter_leaves
from gbce.trees._question import ReachableCells, ScoreConstraints, reachable_cells

__all__ = ["CellDescent", "CellObjective", "Found", "objective_on_cells"]

# --- the posterior on cells of a tree ensemble -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellObjective:
    """What a mode minimises, cell by cell: eta times the loss at the sums of leaves, plus what values cost.

    Parameters
    ----------
    trees : CellTrees
        The one model.
    predictor : Predictor
        The same, as it is asked.
    target : Target
        With its numbers filled in.
    mixture : Mixture
        With eta.
    offers : ReachableCells
        In each cell of each feature the value that costs least under the prior, and this cost.
    """

    trees: CellTrees
    predictor: Predictor
    target: Target
    mixture: Mixture
    reachable: ReachableCells

    def read(self, scores: Array, *, surely: bool = False) -> tuple[Array, Array]:
        """Return eta times the loss of scores ``(n, K)``, and which reach the target, each ``(n,)``.

        ``surely`` if rounding must not change what reaches.
        """
        said = self.target.read(outputs_of(self.trees, self.predictor, scores))
        loss, reached = np.asarray(said.loss, dtype=float), np.asarray(said.reached, dtype=bool)
        if surely:
            for shift in self._shifts:
                reached = reached & self.target.read(outputs_of(self.trees, self.predictor, scores + shift)).reached
        potential = self.mixture.potential(np.where(np.isnan(loss), np.inf, loss)[:, None])
        return np.asarray(potential), reached

    @property
    def _shifts(self) -> list[Array]:
        """By what rounding may move scores: one of them up or down, against the others."""
        n = len(self.trees.base)
        room = ScoreConstraints(np.eye(n), np.zeros(n)).rounding(self.trees)
        if n == 1:
            return [np.array([room]), np.array([-room])]
        return [sign * room * (2.0 * (np.arange(n) == k) - 1.0) for k in range(n) for sign in (1.0, -1.0)]

    def scores(self, slots: Array) -> Array:
        """Return scores ``(n, K)`` at slots ``(n, m)``."""
        return self.trees.scores(self.reachable.cells_at(slots))


def objective_on_cells(posterior: GibbsPosterior, mixture: Mixture) -> CellObjective | None:
    """Return the objective on cells; None where leaves do not tell it, or the prior is no product over columns.

    Parameters
    ----------
    posterior : GibbsPosterior
        With one model, which is asked about some hundred rows the first time, to check what was read of it.
    mixture : Mixture
        With the eta that counts.
    """
    prior = posterior.prior
    if len(posterior.predictors) != 1:
        return None
    try:
        distributions = {distribution.where: distribution for distribution in column_distributions(prior)}
    except ValueError:  # columns are tied together
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
        trees, prior.space, prior.x0, price, lambda j: _likeliest(distributions[j], trees.edges[j])
    )
    if reachable is None or (reachable.price < 0).any():  # where a change is likelier than none, no price is a bound
        return None
    return CellObjective(trees, predictor, posterior.target, mixture, reachable)


def _likeliest(distribution: ColumnDistribution, edges: Array) -> Array:
    """Return in each cell the likeliest value that has a probability of its own; NaN for missing and where none has."""
    found = np.full(len(edges) + 2, np.nan)
    order = np.argsort(distribution.log_values, kind="stable")  # the likeliest last, which stays
    order = order[np.isfinite(distribution.log_values[order])]
    found[np.searchsorted(edges, distribution.values[order], side="left")] = distribution.values[order]
    return found


# --- places of low objective under a tree ensemble, found on its cells -----------------------------------------------

# Chosen by hand, on diabetes, breast cancer and California housing: they trade time for the objective.
_POWERS = (1.5,)  # of what a move takes off the loss, which is then divided by its price
_ROOM = 1.3  # times the lowest objective: a way from the row that costs more is left
_MOST_MOVES = 100  # of one way
_MOST_LOOKS = 2_000  # at all single moves of a point, in one search
_REMEMBERED = 8_000_000  # numbers in looks that are remembered: 64 MB
_FIRST_MOVES, _OF_FEATURE = 12, 3  # first ones of two moves that are tried: in all, and of one feature
_PAIR_ROUNDS = 2
_FEWEST_JOINED = 4  # moves that gain: of fewer, the best one is made, and the others after it
_LEAST_GAIN = 1e-9  # relative above one: less is rounding
_LEAST_PRICE = 1e-9  # what is cheaper is had for nothing
_KEPT = 3  # places of each kind: the model may deny the first ones


class Found:
    """The best few places of one kind: slots ``(m,)`` by their objective.

    Examples
    --------
    >>> found = Found()
    >>> for objective, slot in [(3.0, 0), (1.0, 1), (1.0, 1), (2.0, 2), (4.0, 3)]:
    ...     found.add(objective, np.array([slot]))
    >>> found.least, [int(slots[0]) for slots in found.slots]
    (1.0, [1, 2, 0])
    """

    def __init__(self) -> None:
        self._places: list[tuple[float, bytes, Array]] = []

    @property
    def least(self) -> float:
        """The lowest objective."""
        return self._places[0][0] if self._places else np.inf

    @property
    def slots(self) -> list[Array]:
        """Slots of all places, the lowest first."""
        return [slots for _, _, slots in self._places]

    def wants(self, objective: float) -> bool:
        """Whether a place of this objective would be one of the best."""
        return objective < np.inf and (len(self._places) < _KEPT or objective < self._places[-1][0])

    def add(self, objective: float, slots: Array) -> None:
        """Enter a place, if it is one of the best and new."""
        key = slots.tobytes()
        if self.wants(objective) and not any(key == own for _, own, _ in self._places):
            self._places = sorted([*self._places, (objective, key, slots.copy())], key=lambda place: place[0])[:_KEPT]


def _least_gain(objective: float) -> float:
    """Return by how much an objective must fall for that to be no rounding."""
    return _LEAST_GAIN * max(1.0, abs(objective))


class _View(NamedTuple):
    """What every single move from a place would come to, each ``(N,)``, and what is here.

    ``potential`` is eta times the loss; ``cost`` is the prior's, infinite where a move is none.
    """

    potential: Array
    cost: Array
    reached: Array
    potential_here: float
    cost_here: float


class CellDescent:
    """Descents on the cells around one row, with the best places they met.

    Parameters
    ----------
    objective : CellObjective
        What is minimised.
    most : float
        Places that cost more under the prior are not looked at.
    most_changes : int, optional
        Largest number of changed features. If given, each number up to it has places of its own, and so have those
        that reach the target.
    surely : bool
        Whether rounding must not change what reaches the target.
    """

    def __init__(
        self, objective: CellObjective, most: float, most_changes: int | None = None, *, surely: bool = False
    ) -> None:
        reachable = objective.reachable
        self.objective, self.reachable, self.most, self.surely = objective, reachable, most, surely
        self.by_changes = most_changes is not None
        self.fewest_changes = 0
        self.most_changes = len(reachable.moving) if most_changes is None else most_changes
        kept = enter_leaves(objective.trees, reachable, most).leaf  # whatever costs less lies in these
        self._table = MoveTable(objective.trees, reachable, np.eye(len(objective.trees.base)), kept)
        x = np.tile(reachable.x0, (len(reachable.value), 1))
        own = np.arange(len(x)), reachable.moving[reachable.feature]
        x[own] = reachable.value
        self.is_change = reachable.space.changed(x, reachable.x0)[own]
        self.slots = reachable.here.copy()  # where it is
        self.ends = Found()
        self.looks = 0
        self._found: dict[tuple[int, bool], Found] = {}
        self._seen: dict[bytes, tuple[Array, Array]] = {}
        self._noted: dict[bytes, int] = {}  # the most changes up to which the moves of a place were noted
        self._left: set[tuple[bytes, int, int, bool]] = set()  # places from which a descent has gone to its end
        self._exchanged: set[tuple[bytes, int, int, bool]] = set()  # places whose changes were exchanged
        self._all_remembered = True

    def places(self, changes: int = 0, *, reached: bool = False) -> Found:
        """Return the best places with a number of changes, if these are told apart, or those that reach."""
        kind = changes if self.by_changes else 0, reached
        if kind not in self._found:
            self._found[kind] = Found()
        return self._found[kind]

    # --- ways ---------------------------------------------------------------------------------------------------

    def go_from_row(self) -> None:
        """Go from the row as far as the loss falls, at several exchange rates, and descend from there."""
        self.go_from(self.reachable.here)
        for power in _POWERS:
            self.slots = self.reachable.here.copy()
            self._advance(power)
            self._descend()

    def go_from(self, slots: Array, *, within_target: bool = False) -> None:
        """Descend from slots ``(m,)``; ``within_target`` if no move may leave it again."""
        if self.reachable.cost(slots) <= self.most:
            self.slots = slots.copy()
            self._descend(within_target=within_target)

    def try_pairs(self) -> None:
        """Try two moves at once from the best places where descents have ended, while that gains."""
        for number in range(_PAIR_ROUNDS):
            before = self.ends.least
            for start in self.ends.slots[: 1 if number else None]:
                self.try_pairs_from(start)
            if self.ends.least > before - _least_gain(before):
                return

    def exchange(self, slots: Array, *, within_target: bool = False) -> None:
        """Take each change of slots ``(m,)`` back for another one, and descend from there."""
        place = self._place(slots, within_target)
        if self._repeats(place, self._exchanged):
            return
        self._exchanged.add(place)
        for i in np.flatnonzero(self.is_change[slots]).tolist():
            self.slots = slots.copy()
            self.slots[i] = self.reachable.here[i]
            view = self._look()
            total = view.potential + view.cost
            total[(self.reachable.feature == i) | (within_target & ~view.reached)] = np.inf
            to = int(total.argmin())
            if np.isfinite(total[to]):
                self._move(to)
                self._descend(within_target=within_target)

    def try_pairs_from(self, start: Array) -> None:
        """Try two moves at once from slots ``(m,)``, and descend from the best of them if it gains."""
        self.slots = start.copy()
        view = self._look()
        before = view.potential_here + view.cost_here
        least, after = before, start
        for slot in self._first_moves(view):
            self.slots = start.copy()
            self._move(slot)
            second = self._look()
            total = second.potential + second.cost
            to = int(total.argmin())
            if total[to] < least:
                self._move(to)
                least, after = float(total[to]), self.slots.copy()
        if least < before - _least_gain(before):
            self.go_from(after)

    def _first_moves(self, view: _View) -> list[int]:
        """Return slots that are worth a look as the first of two moves: of each feature those cheap for their loss."""
        reachable, found = self.reachable, []
        total = view.potential + view.cost
        for i in range(len(reachable.moving)):
            mine = np.arange(reachable.starts[i], reachable.starts[i + 1])
            mine = mine[np.isfinite(total[mine]) & (mine != self.slots[i])]
            mine = mine[np.argsort(reachable.price[mine], kind="stable")]
            lower = np.minimum.accumulate(view.potential[mine])
            mine = mine[np.append(True, lower[1:] < lower[:-1])] if len(mine) else mine
            if len(mine) > _OF_FEATURE:
                mine = mine[np.linspace(0, len(mine) - 1, _OF_FEATURE).astype(int)]
            found += mine.tolist()
        return sorted(found, key=lambda slot: float(total[slot]))[:_FIRST_MOVES]

    def _advance(self, power: float) -> None:
        """Make moves that lower the loss by what they are worth for their price, until none does."""
        for _ in range(_MOST_MOVES):
            view = self._look()
            can = np.flatnonzero(np.isfinite(view.potential) & np.isfinite(view.cost))
            gain = view.potential_here - view.potential[can]
            enough = gain > _least_gain(view.potential_here)
            far = not self.by_changes and view.cost_here > _ROOM * self.places().least
            if far or not enough.any() or self.looks >= _MOST_LOOKS:
                return
            price = np.maximum(view.cost[can] - view.cost_here, _LEAST_PRICE)
            with np.errstate(over="ignore"):
                worth = np.where(enough, np.maximum(gain, 0.0) ** power / price, 0.0)
            self._move(int(can[worth.argmax()]))

    def _descend(self, *, within_target: bool = False) -> None:
        """Make the best move until none gains; where there are too many changes, one is taken back first."""
        passed = []
        for _ in range(_MOST_MOVES):
            place = self._place(self.slots, within_target)
            if self._repeats(place, self._left):
                return
            passed.append(place)
            view = self._look()
            total, here = view.potential + view.cost, view.potential_here + view.cost_here
            crowded = int(self.is_change[self.slots].sum()) > self.most_changes
            if within_target and not crowded:
                total[~view.reached] = np.inf
            to = int(total.argmin())
            gains = total[to] < here - _least_gain(here)
            if not (gains or (crowded and np.isfinite(total[to]))) or self.looks >= _MOST_LOOKS:
                if not crowded and not within_target:
                    self.ends.add(here, self.slots)
                if self.looks < _MOST_LOOKS:
                    self._left.update(passed)
                return
            joined = None if crowded or within_target else self._join_moves(total, here)
            if joined is None:
                self._move(to)
            else:
                self.slots = joined

    def _place(self, slots: Array, within_target: bool) -> tuple[bytes, int, int, bool]:
        """Return what decides where a descent from slots ``(m,)`` leads."""
        return slots.tobytes(), self.fewest_changes, self.most_changes, within_target

    def _repeats(self, place: tuple[bytes, int, int, bool], done: set[tuple[bytes, int, int, bool]]) -> bool:
        """Whether the same was done before and would find nothing new: all looks of it are remembered."""
        return place in done and self._all_remembered and self.looks < _MOST_LOOKS

    def _join_moves(self, total: Array, here: float) -> Array | None:
        """Return slots ``(m,)`` after the best moves of several features at once, if that gains more than the best."""
        reachable = self.reachable
        least = np.minimum.reduceat(total, reachable.starts[:-1])
        n = int((least < here - _least_gain(here)).sum())
        if n < _FEWEST_JOINED:
            return None
        order = np.argsort(least, kind="stable")
        which = np.flatnonzero(total == least[reachable.feature])
        goal = np.empty(len(least), dtype=int)
        goal[reachable.feature[which[::-1]]] = which[::-1]  # of equal ones the first
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
        self.slots[self.reachable.feature[slot]] = slot

    # --- looking around -----------------------------------------------------------------------------------------

    def _look(self) -> _View:
        """Return what every single move would come to; the best of them are noted."""
        reachable, key = self.reachable, self.slots.tobytes()
        known = self._seen.get(key)
        if known is None:
            self.looks += 1
            self._table.move_to(self.slots)
            steps, here = self._table.score_moves()
            known = self._read(np.vstack([steps, here]))
            self._all_remembered &= (len(self._seen) + 1) * len(steps) <= _REMEMBERED
            if self._all_remembered:
                self._seen[key] = known
        potential, reached = known
        own, changed = reachable.price[self.slots], self.is_change[self.slots]
        cost = own.sum() - own[reachable.feature] + reachable.price
        changes = changed.sum() - changed[reachable.feature] + self.is_change
        n = int(changed.sum())
        cost[(changes > max(self.most_changes, n - 1)) | (cost > self.most)] = np.inf
        view = _View(potential[:-1], cost, reached[:-1], float(potential[-1]), float(own.sum()))
        if self._noted.get(key, -1) < self.most_changes:
            self._noted[key] = self.most_changes
            self._note(view, changes, n)
        if n >= self.fewest_changes > 0:
            cost[changes < self.fewest_changes] = np.inf
        return view

    def _read(self, sums: Array) -> tuple[Array, Array]:
        """Read sums ``(N + 1, K)``, each run of equal ones once: cells are many more than steps around one point."""
        begins = np.ones(len(sums), dtype=bool)
        begins[1:] = (sums[1:] != sums[:-1]).any(axis=1)
        potential, reached = self.objective.read(sums[begins], surely=self.surely)
        run = np.cumsum(begins) - 1
        return potential[run], reached[run]

    def _note(self, view: _View, changes: Array, changes_here: int) -> None:
        """Note the best places among all single moves, the one that leads back to here included."""
        total = view.potential + view.cost
        if not self.by_changes:
            self._enter(total, int(total.argmin()), self.places())
            return
        missed = ~view.reached
        for n in range(max(changes_here - 1, 0), min(changes_here + 1, self.most_changes) + 1):
            own = np.where(changes == n, total, np.inf)
            self._enter(own, int(own.argmin()), self.places(n))
            own[missed] = np.inf
            self._enter(own, int(own.argmin()), self.places(n, reached=True))

    def _enter(self, total: Array, to: int, kind: Found) -> None:
        if kind.wants(float(total[to])):
            slots = self.slots.copy()
            slots[self.reachable.feature[to]] = to
            kind.add(float(total[to]), slots)
