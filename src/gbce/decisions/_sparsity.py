"""The sparsity path: the best point for each number of changed features, where densities do not compare across them."""

from dataclasses import replace

import numpy as np

from gbce._weights import Array
from gbce.decisions._polish import polished
from gbce.decisions._rule import Choice, Scene, best
from gbce.draws import Draws, Points
from gbce.posterior import BudgetSpentError

__all__ = ["has_spikes", "sparsity_path"]

_MOST = 6  # changes on the path, unless more are asked for
_SUPPORTS = 2  # sets of changed features that are refined for each number


def has_spikes(scene: Scene) -> bool:
    """Whether features stay exactly where they are with positive probability."""
    return bool(scene.draws.facts.get("spikes", False))


def sparsity_path(scene: Scene, polish: bool, asked: int | None) -> Choice:
    """Choose the best point for each number of changes; the one that was asked for, or the sparsest success, first."""
    if not has_spikes(scene):
        raise ValueError("MAP(changes=...) needs a prior under which features stay exactly: gbce.Sparse(...)")
    if asked is not None and asked > len(scene.free):
        raise ValueError(f"MAP(changes={asked}): only {len(scene.free)} features can change")
    most = min(max(_MOST, asked or 0), len(scene.free))
    found: dict[int, Points] = {}
    for k in range(most, 0, -1):
        point = _best_with(scene, k, found.get(k + 1), polish)
        if point is not None:
            found[k] = point
    if scene.row.reached[0, 0] and asked is None:
        return Choice(scene.row.x, scene.row, "The row already reaches the target: no change pays.")
    if not found:
        return Choice(scene.row.x, scene.row, "No evaluated point changes anything: the row itself was taken.")
    marked = _marked(scene, found, asked)
    order = [marked, *(k for k in sorted(found) if k != marked)]
    names = tuple("" if k == marked else f"with {k} change{'s' * (k > 1)}" for k in order)
    points = Points.joined([found[k] for k in order])
    reached = bool(found[marked].reached[0, 0])
    why = (
        "as was asked for"
        if asked == marked
        else "the fewest that reach the target"
        if reached
        else "nearest to the target"
    )
    note = f"MAP is the best point with {marked} change{'s' * (marked > 1)}, {why}."
    if asked is not None and marked != asked:
        note = f"MAP: no evaluated point has {asked} changes; the best one with {marked} was taken."
    return Choice(points.x, points, note, names)


def _marked(scene: Scene, found: dict[int, Points], asked: int | None) -> int:
    if asked is not None:
        return asked if asked in found else min(found, key=lambda k: abs(k - asked))
    reaching = [k for k in sorted(found) if found[k].reached[0, 0]]
    if reaching:
        return reaching[0]
    return min(found, key=lambda k: float(scene.mixture.effective_loss(found[k].loss)[0]))


def _best_with(scene: Scene, k: int, denser: Points | None, polish: bool) -> Points | None:
    """Return the best point that changes exactly ``k`` features.

    One that reaches the target comes before one that does not. It comes out of the pool, or from a denser point by
    taking one change back, or by moving what has changed.
    """
    pool = scene.draws.pool
    changed = scene.space.changed(pool.x, scene.x0)[:, scene.free]
    objective = scene.objective(pool)
    own = np.flatnonzero((changed.sum(axis=1) == k) & np.isfinite(objective) & np.isfinite(pool.extra))
    own = own[np.argsort(objective[own], kind="stable")]
    candidates = [pool.take(own[:1]), pool.take(own[pool.reached[own, 0]][:1])]
    if scene.posterior is not None and denser is not None:
        candidates += _with_one_taken_back(scene, denser)
    if polish and scene.posterior is not None:
        for support in _supports(changed[own]):
            members = own[(changed[own] == support).all(axis=1)]
            candidates += _refined(scene, k, support, pool.take(members))
    joined = Points.joined(candidates)
    if len(joined) == 0:
        return None
    misses = (~joined.reached[:, 0]).astype(float)
    return joined.take(np.array([best(misses, scene.objective(joined), scene.distance(joined.x))]))


def _supports(changed: Array) -> list[Array]:
    """First few different sets of changed features."""
    found: list[Array] = []
    for line in changed[:200]:
        if not any((line == other).all() for other in found):
            found.append(line)
        if len(found) == _SUPPORTS:
            break
    return found


def _with_one_taken_back(scene: Scene, point: Points) -> list[Points]:
    posterior = scene.posterior
    where = scene.free[scene.space.changed(point.x, scene.x0)[0, scene.free]]
    x = np.repeat(point.x, len(where), axis=0)
    x[np.arange(len(where)), where] = scene.x0[where]
    x = scene.space.project(x, scene.x0)
    x = x[scene.space.changed(x, scene.x0)[:, scene.free].sum(axis=1) == len(where) - 1]
    if posterior is None or len(x) == 0:
        return []
    try:
        said = posterior.evaluate(x)
    except BudgetSpentError:
        return []
    unread = np.zeros((len(x), point.z.shape[1]))
    return [Points(unread, x, *said, cost=posterior.prior.cost(x), extra=unread[:, 0])]


def _refined(scene: Scene, k: int, support: Array, members: Points) -> list[Points]:
    """Move what has changed and nothing else."""
    weights = np.full(len(members), 1.0 / len(members))
    draws: Draws = replace(
        scene.draws, pool=members, pool_weights=weights, index=np.arange(len(members)), weights=weights, groups=None
    )  # fmt: skip
    inner = replace(scene, draws=draws, free=scene.free[support])
    points = [] if scene.posterior is None else polished(inner, scene.posterior, thorough=False)
    return [
        replace(point, z=np.zeros((1, members.z.shape[1])))
        for point in points
        if scene.space.changed(point.x, scene.x0)[0, scene.free].sum() == k
    ]
