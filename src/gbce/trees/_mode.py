"""Posterior modes on the cells of a tree ensemble, found by local search without model calls and then confirmed.

Searches start at known points and at the row, from which the loss is first lowered by moves of most gain per price, so
that several moves that pay only together are made. :func:`mode_on_cells` returns the best points,
:func:`path_on_cells` the best for each number of changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce._numerics import first_of_each
from gbce.base import Array, Target
from gbce.budget import BudgetSpentError
from gbce.draws import Points, Scene
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import Predictor
from gbce.priors import ColumnDistribution, column_distributions
from gbce.trees._cells import CellTrees, outputs_of, why_unreadable
from gbce.trees._grid import rounding_shifts
from gbce.trees._local_search import TUNING, LocalSearch, Scan
from gbce.trees._question import ReachableCells, ScoreConstraints, reachable_cells


@dataclass(frozen=True)
class ModeTuning:
    """Constants of the search for modes, hand-tuned like :class:`gbce.trees._local_search.Tuning`."""

    power: float = 1.5  # exponent of a move's loss decrease, which is divided by its price
    first_moves: int = 12  # of pairs that are tried, in total
    of_feature: int = 3  # and of each feature
    pair_rounds: int = 2
    kept: int = 3  # places of each kind, in case the model disagrees with the first
    best_of_pool: int = 2_000  # evaluated points from which starts are picked, and as many that reach the target
    starts: int = 4  # at evaluated points
    supports: int = 3  # starts per number of changes, with distinct sets of changed features
    landmarks: int = 200  # cheap known rows that are scored
    best_landmarks: int = 2  # of which are starts


_MODE = ModeTuning()
_SAME = 1e-6  # relative above one: tolerated difference between the model's potential and that of its leaves
_SAME_SINGLE, _SINGLE = 1e-2, 1e-10  # the same in single precision, and the rounding error that indicates it

# --- the objective on cells ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellObjective:
    """The objective of a mode on cells: eta times the loss of the leaf sums, plus the prior cost of the values."""

    trees: CellTrees
    predictor: Predictor
    target: Target
    mixture: Mixture
    reachable: ReachableCells

    def read(self, scores: Array, *, surely: bool = False) -> tuple[Array, Array]:
        """Return eta times the loss of scores ``(n, K)`` and which reach the target, each ``(n,)``.

        With ``surely``, only those that reach it under any rounding of the scores. Each run of equal scores is read
        once: there are many more cells than distinct sums.
        """
        begins = np.ones(len(scores), dtype=bool)
        begins[1:] = (scores[1:] != scores[:-1]).any(axis=1)
        run, scores = np.cumsum(begins) - 1, scores[begins]
        reading = self.target.read(outputs_of(self.trees, self.predictor, scores))
        loss, reached = np.asarray(reading.loss, dtype=float), np.asarray(reading.reached, dtype=bool)
        if surely:
            n = len(self.trees.base)
            for shift in rounding_shifts(n, ScoreConstraints(np.eye(n), np.zeros(n)).rounding(self.trees)):
                reached = reached & self.target.read(outputs_of(self.trees, self.predictor, scores + shift)).reached
        potential = np.asarray(self.mixture.potential(np.where(np.isnan(loss), np.inf, loss)[:, None]))
        return potential[run], reached[run]

    def value(self, slots: Array) -> Array:
        """Return the objective ``(n,)`` of slots ``(n, m)``."""
        return self.read(self.trees.scores(self.reachable.cells_at(slots)))[0] + self.reachable.cost(slots)


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


# --- search ----------------------------------------------------------------------------------------------------------


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
        return objective < np.inf and (len(self._places) < _MODE.kept or objective < self._places[-1][0])

    def add(self, objective: float, slots: Array) -> None:
        """Add a place if it is new and among the best."""
        key = slots.tobytes()
        if self.wants(objective) and not any(key == own for _, own, _ in self._places):
            self._places = sorted([*self._places, (objective, key, slots.copy())], key=lambda place: place[0])[
                : _MODE.kept
            ]


class ModeSearch(LocalSearch):
    """Descents on the cells around one row, with the best places they visited.

    With ``by_changes``, the best places are kept for each number of changes, and separately those that reach the
    target; with ``surely``, rounding must not change which do.
    """

    def __init__(
        self, objective: CellObjective, dearest: float = np.inf, *, by_changes: bool = False, surely: bool = False
    ) -> None:
        def read(scores: Array) -> tuple[Array, Array]:
            return objective.read(scores, surely=surely)

        reachable, noise = objective.reachable, TUNING.least_gain
        super().__init__(objective.trees, reachable, read, by_price=False, noise=noise, dearest=dearest)
        self.by_changes, self.ends = by_changes, BestPlaces()
        self._found: dict[tuple[int, bool], BestPlaces] = {}

    def places(self, changes: int = 0, *, reached: bool = False) -> BestPlaces:
        """Return the best places with a number of changes (if these are kept apart), or those that reach."""
        return self._found.setdefault((changes if self.by_changes else 0, reached), BestPlaces())

    def lowest(self) -> float:
        """Return the lowest objective; infinite if numbers of changes are kept apart."""
        return np.inf if self.by_changes else self.places().least

    def end_descent(self, total: float) -> None:
        """Keep a local minimum."""
        self.ends.add(total, self.slots)

    def record(self, scan: Scan, changes: Array) -> None:
        """Record the best places among all single moves, including the current one."""
        total = self.total(scan, False)
        if not self.by_changes:
            self._record_move(scan.to, total, self.places())
            return
        here = int(self.is_change[self.slots].sum())
        for n in range(max(here - 1, 0), min(here + 1, self.most_changes) + 1):
            own = np.where(changes == n, total, np.inf)
            self._record_move(scan.to, own, self.places(n))
            self._record_move(scan.to, np.where(scan.reached, own, np.inf), self.places(n, reached=True))

    def _record_move(self, to: Array, total: Array, kind: BestPlaces) -> None:
        """Record the best move if its place is among the best of its kind."""
        best = int(total.argmin())
        if kind.wants(float(total[best])):
            kind.add(float(total[best]), self.moved(self.slots, int(to[best])))

    def descend_from_row(self) -> None:
        """Descend from the row, and from where the loss is lowest along a path of most gain per price."""
        self.descend_from(self.reachable.here)
        self.slots = self.reachable.here.copy()
        self.advance(_MODE.power)
        self.descend()

    def try_pairs(self) -> None:
        """Try pairs of moves from the best local minima, while that gains."""
        for number in range(_MODE.pair_rounds):
            before = self.ends.least
            for start in self.ends.slots[: 1 if number else None]:
                self.try_pairs_from(start)
            if self.ends.least > before - self.min_gain(before):
                return

    def try_pairs_from(self, start: Array) -> None:
        """Try pairs of moves from slots ``(m,)``, of which the first are cheap for their loss."""
        self.slots = start.copy()
        scan, reachable, found = self.scan(), self.reachable, []
        total, feature = self.total(scan, False), reachable.feature[scan.to]
        for i in range(len(reachable.moving)):
            mine = np.flatnonzero((feature == i) & np.isfinite(total) & (scan.to != start[i]))
            mine = mine[np.argsort(reachable.price[scan.to[mine]], kind="stable")]
            lower = np.minimum.accumulate(scan.potential[mine])
            mine = mine[np.append(True, lower[1:] < lower[:-1])] if len(mine) else mine
            if len(mine) > _MODE.of_feature:
                mine = mine[np.linspace(0, len(mine) - 1, _MODE.of_feature).astype(int)]
            found += mine.tolist()
        firsts = sorted(found, key=lambda at: float(total[at]))[: _MODE.first_moves]
        self.try_first_moves(start, scan.to[firsts].tolist())

    def refine_at_count(self, k: int) -> None:
        """Improve the best places with ``k`` changes, and those that reach, by moves that keep this number."""
        most, self.fewest_changes, self.most_changes = self.most_changes, k, k
        for reached in (False, True):
            for start in self.places(k, reached=reached).slots[:1]:
                self.descend_from(start, within_target=reached)
                self.try_first_moves(start, self.list_cheaper(start, 1), within_target=reached)
        self.fewest_changes, self.most_changes = 0, most


# --- modes -----------------------------------------------------------------------------------------------------------


def mode_on_cells(scene: Scene, posterior: GibbsPosterior) -> list[Points] | None:
    """Return the best points by the leaves of the one model, evaluated by the model; empty if there is nothing to add.

    None if the model cannot be read, if columns are dependent, or if the model disagrees with its leaves: then the mode
    has to be found by calling the model.
    """
    objective = objective_on_cells(posterior, scene.mixture)
    if objective is None:
        return None
    if len(objective.reachable.moving) == 0:
        return []
    known = _place_known_points(scene, objective)
    least = min(float(known.objective.min(initial=np.inf)), float(scene.objective(scene.row)[0]))
    starts = [*_pick_spread(known.slots, _MODE.starts), *_pick_landmarks(posterior, objective)]
    # a better point costs less than the best known objective; starts may cost more
    dearest = max((float(objective.reachable.cost(start)) for start in starts), default=0.0)
    search = ModeSearch(objective, max(least - _bound_potential(scene), dearest))
    search.descend_from_row()
    for start in starts:
        search.descend_from(start)
    search.try_pairs()
    return _confirm(scene, posterior, objective, search.places().slots)


def path_on_cells(scene: Scene, posterior: GibbsPosterior, most: int) -> list[Points] | None:
    """Return the best points for each number of changes up to ``most``, and the best that reach; None as above."""
    objective = objective_on_cells(posterior, scene.mixture)
    if objective is None:
        return None
    if len(objective.reachable.moving) == 0:
        return []
    slots, expects_reached = _search_path(scene, posterior, objective, most)
    points = _confirm(scene, posterior, objective, slots)
    if points and any(
        expected and not point.reached[0, 0] for expected, point in zip(expects_reached, points, strict=True)
    ):
        # the model rejects places decided by rounding: also search for places clear of it
        more = _confirm(scene, posterior, objective, _search_path(scene, posterior, objective, most, surely=True)[0])
        return None if more is None else [*points, *more]
    return points


def _search_path(
    scene: Scene, posterior: GibbsPosterior, objective: CellObjective, most: int, *, surely: bool = False
) -> tuple[list[Array], list[bool]]:
    """Return slots of the best places for each number of changes, and whether they are the best that reach."""
    most = min(most, len(objective.reachable.moving))
    search = ModeSearch(objective, by_changes=True, surely=surely)
    search.most_changes = most
    known = _pick_by_support(_place_known_points(scene, objective), search.is_change, most)
    known[most] += _pick_landmarks(posterior, objective)
    for k in range(most, 0, -1):
        search.most_changes = k
        search.descend_from_row()
        for start in [*known[k], *search.places(k + 1).slots[:1]]:
            search.descend_from(start)
        search.refine_at_count(k)
    search.most_changes = most
    fewest = next((k for k in range(1, most + 1) if search.places(k, reached=True).slots), 1)
    for start in [objective.reachable.here, *search.places(fewest, reached=True).slots[:1]]:
        search.try_pairs_from(start)
    for k in range(2, most + 1):  # where fewer changes are better, extend these by one
        search.refine_at_count(k)
    kinds = [(k, reached) for reached in (True, False) for k in range(1, most + 1)]
    found = {place.tobytes(): (place, r) for k, r in kinds for place in search.places(k, reached=r).slots[:1]}
    return [place for place, _ in found.values()], [expected for _, expected in found.values()]


# --- starts -----------------------------------------------------------------------------------------------------


class _Places(NamedTuple):
    """Slots ``(n, m)`` with their objective ``(n,)``, the lowest first, and whether they reach the target."""

    slots: Array
    objective: Array
    reached: Array


def _place_known_points(scene: Scene, objective: CellObjective) -> _Places:
    """Return the cells of the best evaluated points; their losses hold in the whole cell."""
    pool, reachable = scene.draws.known, objective.reachable
    pool_objective = scene.objective(pool)
    order = np.argsort(pool_objective, kind="stable")
    order = order[np.isfinite(pool_objective[order]) & np.isfinite(pool.log_correction[order])]
    order = np.unique(np.append(order[: _MODE.best_of_pool], order[pool.reached[order, 0]][: _MODE.best_of_pool]))
    order = order[objective.trees.covers(pool.x[order])]
    slots = reachable.slots_of(objective.trees.cells(pool.x[order]))
    cost = reachable.cost(slots)
    value = scene.mixture.potential(pool.loss[order]) + cost
    some = np.flatnonzero(np.isfinite(value))
    some = some[np.argsort(value[some], kind="stable")]
    some = some[first_of_each(slots[some])]
    return _Places(slots[some], value[some], pool.reached[order[some], 0])


def _pick_by_support(places: _Places, is_change: Array, most: int) -> dict[int, list[Array]]:
    """Return per number of changes the best places with distinct changed features, and the best that reaches."""
    changed = is_change[places.slots]
    count = changed.sum(axis=1)
    found: dict[int, list[Array]] = {}
    for k in range(1, most + 1):
        own = np.flatnonzero(count == k)
        first = first_of_each(changed[own])
        chosen = dict.fromkeys([*first[: _MODE.supports].tolist(), *np.flatnonzero(places.reached[own])[:1].tolist()])
        found[k] = [places.slots[own[i]] for i in chosen]
    return found


def _pick_spread(slots: Array, n: int) -> list[Array]:
    """Return ``n`` places at geometrically increasing ranks, since the first ones lie close together."""
    if len(slots) <= n:
        return list(slots)
    ranks = np.geomspace(1.0, len(slots), n).astype(int) - 1
    return [slots[i] for i in dict.fromkeys(ranks.tolist())]


def _pick_landmarks(posterior: GibbsPosterior, objective: CellObjective) -> list[Array]:
    """Return the cells of the best known rows, such as training data, that the row can reach."""
    rows, reachable = posterior.landmarks, objective.reachable
    if rows is None or len(rows) == 0:
        return []
    rows = rows[objective.trees.covers(rows)]
    slots = np.unique(reachable.slots_of(objective.trees.cells(rows)), axis=0)
    cost = reachable.cost(slots)
    cheap = np.argsort(cost, kind="stable")[: _MODE.landmarks]
    slots = slots[cheap][np.isfinite(cost[cheap])]
    if len(slots) == 0:
        return []
    value = objective.value(slots)
    return list(slots[np.argsort(value, kind="stable")[: _MODE.best_landmarks]])


def _bound_potential(scene: Scene) -> float:
    """Return a lower bound of the potential, as far as losses are known."""
    return 0.0 if scene.draws.pool.loss.min() >= 0 else -np.inf


# --- confirmation by the model ----------------------------------------------------------------------------------


def _confirm(
    scene: Scene, posterior: GibbsPosterior, objective: CellObjective, slots: Sequence[Array]
) -> list[Points] | None:
    """Evaluate slots ``(m,)`` by the model, one result each; None if it disagrees with its leaves."""
    if not slots:
        return []
    x = objective.reachable.points(np.array(slots))
    try:
        evaluated = posterior.evaluate(x)
    except BudgetSpentError:
        return []
    potential = scene.mixture.potential(evaluated.loss)
    tolerance = _SAME_SINGLE if objective.trees.epsilon > _SINGLE else _SAME
    expected = objective.value(np.array(slots)) - objective.reachable.cost(np.array(slots))
    if (np.abs(potential - expected) > tolerance * np.maximum(1.0, np.abs(expected))).any():
        return None
    unread = np.zeros((len(x), scene.draws.pool.z.shape[1]))  # not used in decisions
    points = Points(unread, x, *evaluated, cost=posterior.prior.cost(x), log_correction=unread[:, 0])
    return [points.take(np.array([i])) for i in range(len(x))]
