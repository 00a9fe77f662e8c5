"""The mode on the cells of a tree ensemble: found without asking the model, which confirms it in the end."""

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

# Chosen by hand.
_BEST_OF_POOL = 2_000  # points that starts are picked from, and as many that reach the target
_STARTS = 4  # places of known points to begin at
_SUPPORTS = 3  # the same for each number of changes, of different sets of changed features
_LANDMARKS, _BEST_LANDMARKS = 200, 2  # cheap known rows that are looked at, and how many of these are begun at
_SAME = 1e-6  # relative above one: by how much what the model says may differ from what its leaves say
_SAME_SINGLE, _SINGLE = 1e-2, 1e-10  # the same in single precision, and the rounding error that tells it


def mode_on_cells(scene: Scene, posterior: GibbsPosterior) -> list[Points] | None:
    """Return the best points by the leaves of the one model, as it says itself; nothing to add if the list is empty.

    None where the model cannot be read, where columns are tied together, or where it says something else than its
    leaves: then it has to be asked.
    """
    objective = objective_on_cells(posterior, scene.mixture)
    if objective is None:
        return None
    if len(objective.reachable.moving) == 0:
        return []
    known = _known_places(scene, objective)
    least = min(float(known.objective.min(initial=np.inf)), float(scene.objective(scene.row)[0]))
    starts = [*_spread_out(known.slots, _STARTS), *_landmarks(posterior, objective)]
    # what is better than the best known point costs less than it; starts may cost more
    dearest = max((float(objective.reachable.cost(start)) for start in starts), default=0.0)
    descent = CellDescent(objective, max(least - _floor(scene), dearest))
    descent.go_from_row()
    for start in starts:
        descent.go_from(start)
    descent.try_pairs()
    return _confirm(scene, posterior, objective, descent.places().slots)


def path_on_cells(scene: Scene, posterior: GibbsPosterior, most: int) -> list[Points] | None:
    """Return the best points with each number of changes up to ``most``, and the best of those that reach the target.

    None where :func:`mode_on_cells` has none.
    """
    objective = objective_on_cells(posterior, scene.mixture)
    if objective is None:
        return None
    if len(objective.reachable.moving) == 0:
        return []
    slots, claimed = _search_path(scene, posterior, objective, most)
    points = _confirm(scene, posterior, objective, slots)
    if points and any(claim and not point.reached[0, 0] for claim, point in zip(claimed, points, strict=True)):
        # rounding decides about some, and the model denies them: what stands clear of it is looked for as well
        more = _confirm(scene, posterior, objective, _search_path(scene, posterior, objective, most, surely=True)[0])
        return None if more is None else [*points, *more]
    return points


def _search_path(
    scene: Scene, posterior: GibbsPosterior, objective: CellObjective, most: int, *, surely: bool = False
) -> tuple[list[Array], list[bool]]:
    """Return slots of the best places with each number of changes, and whether they are the best that reach."""
    most = min(most, len(objective.reachable.moving))
    descent = CellDescent(objective, np.inf, most, surely=surely)
    known = _pick_by_support(_known_places(scene, objective), descent.is_change, most)
    known[most] += _landmarks(posterior, objective)
    for k in range(most, 0, -1):
        descent.most_changes = k
        descent.go_from_row()
        for start in [*known[k], *descent.places(k + 1).slots[:1]]:
            descent.go_from(start)
        _keep_number(descent, k)
    descent.most_changes = most
    fewest = next((k for k in range(1, most + 1) if descent.places(k, reached=True).slots), 1)
    for start in [objective.reachable.here, *descent.places(fewest, reached=True).slots[:1]]:
        descent.try_pairs_from(start)
    for k in range(2, most + 1):  # where fewer are better, one more is added to these
        _keep_number(descent, k)
    kinds = [(k, reached) for reached in (True, False) for k in range(1, most + 1)]
    found = {place.tobytes(): (place, r) for k, r in kinds for place in descent.places(k, reached=r).slots[:1]}
    return [place for place, _ in found.values()], [claim for _, claim in found.values()]


def _keep_number(descent: CellDescent, k: int) -> None:
    """Improve the best places with ``k`` changes, and those that reach the target, by moves that keep this number."""
    most, descent.fewest_changes, descent.most_changes = descent.most_changes, k, k
    for reached in (False, True):
        for start in descent.places(k, reached=reached).slots[:1]:
            descent.go_from(start, within_target=reached)
            descent.exchange(start, within_target=reached)
    descent.fewest_changes, descent.most_changes = 0, most


# --- where to begin ---------------------------------------------------------------------------------------------


class _Places(NamedTuple):
    """Slots ``(n, m)`` with their objective ``(n,)``, the lowest first, and whether they reach the target."""

    slots: Array
    objective: Array
    reached: Array


def _known_places(scene: Scene, objective: CellObjective) -> _Places:
    """Return the cells of the best known points: what the model said holds in all of a cell."""
    pool, reachable = scene.draws.known, objective.reachable
    height = scene.objective(pool)
    order = np.argsort(height, kind="stable")
    order = order[np.isfinite(height[order]) & np.isfinite(pool.log_correction[order])]
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
    """Return for each number of changes the best places that change different features, and the best that reaches."""
    changed = is_change[places.slots]
    count = changed.sum(axis=1)
    found: dict[int, list[Array]] = {}
    for k in range(1, most + 1):
        own = np.flatnonzero(count == k)
        first = first_of_each(changed[own])
        chosen = dict.fromkeys([*first[:_SUPPORTS].tolist(), *np.flatnonzero(places.reached[own])[:1].tolist()])
        found[k] = [places.slots[own[i]] for i in chosen]
    return found


def _spread_out(slots: Array, n: int) -> list[Array]:
    """Return some of the places, in order: the first ones lie near each other, so that gaps widen down the list."""
    if len(slots) <= n:
        return list(slots)
    ranks = np.geomspace(1.0, len(slots), n).astype(int) - 1
    return [slots[i] for i in dict.fromkeys(ranks.tolist())]


def _landmarks(posterior: GibbsPosterior, objective: CellObjective) -> list[Array]:
    """Return the cells of the best known rows, such as training data, as far as the row can get there."""
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


def _floor(scene: Scene) -> float:
    """Return what no potential falls below, as far as losses are known."""
    return 0.0 if scene.draws.pool.loss.min() >= 0 else -np.inf


# --- what the model says ----------------------------------------------------------------------------------------


def _confirm(
    scene: Scene, posterior: GibbsPosterior, objective: CellObjective, slots: Sequence[Array]
) -> list[Points] | None:
    """Ask the model about slots ``(m,)``, one after the other in the result; None if it says something else."""
    if not slots:
        return []
    x = objective.reachable.points(np.array(slots))
    try:
        said = posterior.evaluate(x)
    except BudgetSpentError:
        return []
    potential = scene.mixture.potential(said.loss)
    room = _SAME_SINGLE if objective.trees.epsilon > _SINGLE else _SAME
    promised = objective.read(objective.scores(np.array(slots)))[0]
    if (np.abs(potential - promised) > room * np.maximum(1.0, np.abs(promised))).any():
        return None
    unread = np.zeros((len(x), scene.draws.pool.z.shape[1]))  # nobody reads these of a decision
    points = Points(unread, x, *said, cost=posterior.prior.cost(x), log_correction=unread[:, 0])
    return [points.take(np.array([i])) for i in range(len(x))]
