"""Posterior modes on the cells of a tree ensemble, found without model calls and then confirmed by the model.

:func:`mode_on_cells` returns the best points, :func:`path_on_cells` the best for each number of changes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gbce._numerics import first_of_each
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points, Scene
from gbce.posterior import GibbsPosterior
from gbce.trees._descent import CellDescent, CellObjective, objective_on_cells

__all__ = ["mode_on_cells", "path_on_cells"]

# Hand-tuned.
_BEST_OF_POOL = 2_000  # evaluated points from which starts are picked, and as many that reach the target
_STARTS = 4  # starts at evaluated points
_SUPPORTS = 3  # starts per number of changes, with distinct sets of changed features
_LANDMARKS, _BEST_LANDMARKS = 200, 2  # cheap known rows that are scored, and how many of them are starts
_SAME = 1e-6  # relative above one: tolerated difference between the model's potential and that of its leaves
_SAME_SINGLE, _SINGLE = 1e-2, 1e-10  # the same in single precision, and the rounding error that indicates it


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
    starts = [*_pick_spread(known.slots, _STARTS), *_pick_landmarks(posterior, objective)]
    # a better point costs less than the best known objective; starts may cost more
    dearest = max((float(objective.reachable.cost(start)) for start in starts), default=0.0)
    descent = CellDescent(objective, max(least - _bound_potential(scene), dearest))
    descent.descend_from_row()
    for start in starts:
        descent.descend_from(start)
    descent.try_pairs()
    return _confirm(scene, posterior, objective, descent.places().slots)


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
    descent = CellDescent(objective, np.inf, most, surely=surely)
    known = _pick_by_support(_place_known_points(scene, objective), descent.is_change, most)
    known[most] += _pick_landmarks(posterior, objective)
    for k in range(most, 0, -1):
        descent.most_changes = k
        descent.descend_from_row()
        for start in [*known[k], *descent.places(k + 1).slots[:1]]:
            descent.descend_from(start)
        _refine_at_count(descent, k)
    descent.most_changes = most
    fewest = next((k for k in range(1, most + 1) if descent.places(k, reached=True).slots), 1)
    for start in [objective.reachable.here, *descent.places(fewest, reached=True).slots[:1]]:
        descent.try_pairs_from(start)
    for k in range(2, most + 1):  # where fewer changes are better, extend these by one
        _refine_at_count(descent, k)
    kinds = [(k, reached) for reached in (True, False) for k in range(1, most + 1)]
    found = {place.tobytes(): (place, r) for k, r in kinds for place in descent.places(k, reached=r).slots[:1]}
    return [place for place, _ in found.values()], [expected for _, expected in found.values()]


def _refine_at_count(descent: CellDescent, k: int) -> None:
    """Improve the best places with ``k`` changes, and those that reach, by moves that keep this number."""
    most, descent.fewest_changes, descent.most_changes = descent.most_changes, k, k
    for reached in (False, True):
        for start in descent.places(k, reached=reached).slots[:1]:
            descent.descend_from(start, within_target=reached)
            descent.exchange_changes(start, within_target=reached)
    descent.fewest_changes, descent.most_changes = 0, most


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
    order = np.unique(np.append(order[:_BEST_OF_POOL], order[pool.reached[order, 0]][:_BEST_OF_POOL]))
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
        chosen = dict.fromkeys([*first[:_SUPPORTS].tolist(), *np.flatnonzero(places.reached[own])[:1].tolist()])
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
    cheap = np.argsort(cost, kind="stable")[:_LANDMARKS]
    slots, cost = slots[cheap][np.isfinite(cost[cheap])], cost[cheap][np.isfinite(cost[cheap])]
    if len(slots) == 0:
        return []
    value = objective.read(objective.scores(slots))[0] + cost
    return list(slots[np.argsort(value, kind="stable")[:_BEST_LANDMARKS]])


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
    expected = objective.read(objective.scores(np.array(slots)))[0]
    if (np.abs(potential - expected) > tolerance * np.maximum(1.0, np.abs(expected))).any():
        return None
    unread = np.zeros((len(x), scene.draws.pool.z.shape[1]))  # not used in decisions
    points = Points(unread, x, *evaluated, cost=posterior.prior.cost(x), log_correction=unread[:, 0])
    return [points.take(np.array([i])) for i in range(len(x))]
