"""Local refinement of the posterior mode, and the near corners of boxes on which a model is constant.

A piecewise constant model, such as a tree, has one output in a whole box. Points with identical outputs mostly lie in
one box, and so does all that lies between them; the nearest such point to the row is one candidate row, where undoing
single changes would take many. If its output differs, the group spans several boxes and is split.
"""

from collections.abc import Callable

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points, Scene
from gbce.posterior import GibbsPosterior
from gbce.search._descents import Search, coordinates, has_gained, levels, nelder_mead, newton
from gbce.space import Space

__all__ = ["polish_mode", "try_near_corners"]

# Near corners; chosen by hand: they decide how many rows are evaluated.
_MOST_GROUPS = 60  # evaluated at a time, the most promising
_SPLIT, _MEMBERS = 6, 40  # groups that are split in a round, and points of each that take part
_ROUNDS = 4  # of splitting
_ROUNDING = 1e-9  # relative, of predicted figures

# Refinement.
_N_STARTS = 4  # from the pool and from points that a search evaluated, beside the row
_N_LATE_STARTS = 4  # from scattered points, for the last round
_BEST_OF_POOL = 2_000  # points from which starts are picked
_APART, _LEAST_APART = 0.5, 1e-3  # distance between starts over the root of m, halved down to the second
_SAME = 0.05  # distance within which two end points count as one, in the same units
_LEAST_STARTS = 2  # kept in every round, though it drops the worse half
_MAX_ROUNDS = 10  # of all descents
_MOST_ROWS, _MOST_ROWS_PER_FEATURE = 10_000, 200  # evaluated in all: the sum of both

_FEW_FEATURES = 8  # with more, the simplex and scattered points gain nothing
_SIMPLEX_STEPS = (40, 600)  # at most: the others follow if the first ones gain; each is a model call
_SCATTERED = 240  # points
_NEAREST = 0.01  # least share of the way from the best point to a scattered one
_LONGEST_RAY = 2.0  # times a prior draw: beyond, the region of low cost is not followed
_RAY_HALVINGS = 20  # to find where a ray leaves the region, to two millionths of it

# --- near corners of boxes --------------------------------------------------------------------------------------------


def try_near_corners(
    space: Space,
    x0: Array,
    x: Array,
    outputs: Array,
    predict: Callable[[Array, Array], Array],
    evaluate: Callable[[Array], Array],
    least: float,
) -> None:
    """Evaluate the near corners of groups of points with identical outputs, as long as they may improve.

    ``x`` ``(n, d)`` are points, the best first, with ``outputs`` ``(n, K)``. ``predict`` takes corners ``(g, d)`` and
    positions ``(g,)`` in ``x`` and returns the figure ``(g,)`` of the corners if their outputs are those at the
    positions; ``evaluate`` takes corners and returns their actual figure. ``least`` is the lowest figure so far.
    """
    groups = _group_by_outputs(outputs)
    for number in range(_ROUNDS + 1):
        groups = [own for own in groups if len(own) > 1]
        corner, good = _find_corners(space, x0, x, groups)
        predicted = np.where(good, predict(corner, np.array([own[0] for own in groups], dtype=int)), np.inf)
        order = np.argsort(predicted, kind="stable")
        order = order[predicted[order] < least][:_MOST_GROUPS]
        if len(order) == 0:
            return
        found = evaluate(corner[order])
        least = min(least, float(found.min()))
        failed = (found > predicted[order] + _ROUNDING * np.abs(predicted[order])) & (predicted[order] < least)
        split = [groups[i][_spread(len(groups[i]), _MEMBERS)] for i in order[failed][:_SPLIT].tolist()]
        if not split or number == _ROUNDS:
            return
        groups = _split_groups(space, x0, x, split, predict, evaluate)


def _split_groups(
    space: Space,
    x0: Array,
    x: Array,
    groups: list[Array],
    predict: Callable[[Array, Array], Array],
    evaluate: Callable[[Array], Array],
) -> list[Array]:
    """Split groups into the points that share a box with the first of their group, and the others."""
    pairs = [np.array([own[0], other]) for own in groups for other in own[1:]]
    corner, good = _find_corners(space, x0, x, pairs)
    predicted = predict(corner, np.array([pair[0] for pair in pairs]))
    alike = np.zeros(len(pairs), dtype=bool)
    alike[good] = evaluate(corner[good]) <= predicted[good] + _ROUNDING * np.abs(predicted[good])
    found, end = [], 0
    for own in groups:
        same, end = alike[end : end + len(own) - 1], end + len(own) - 1
        found += [np.append(own[0], own[1:][same]), own[1:][~same]]
    return found


def _group_by_outputs(outputs: Array) -> list[Array]:
    """Return the positions of points with identical outputs ``(n, K)``, in order."""
    if len(outputs) == 0:
        return []
    order = np.lexsort((np.arange(len(outputs)), *outputs.T))
    same = (outputs[order[1:]] == outputs[order[:-1]]).all(axis=1)
    return np.split(order, np.flatnonzero(~same) + 1)


def _find_corners(space: Space, x0: Array, x: Array, groups: list[Array]) -> tuple[Array, Array]:
    """Return the near corner of each group ``(g, d)``, with the first point's levels, and whether it is admissible."""
    if not groups:
        return x[:0], np.zeros(0, dtype=bool)
    rows, first = x[np.concatenate(groups)], x[[own[0] for own in groups]]
    start = np.cumsum([0, *(len(own) for own in groups)])[:-1]
    between = np.clip(x0, np.fmin.reduceat(rows, start), np.fmax.reduceat(rows, start))
    with_row = np.logical_or.reduceat((rows == x0) | (np.isnan(rows) & np.isnan(x0)), start)
    on_axis = ~space.unordered & ~np.isnan(x0)
    return space.place(np.where(with_row, x0, np.where(on_axis, between, first)), x0)


def _spread(n: int, most: int) -> Array:
    """Return at most ``most`` of ``n`` positions: half of them the first ones, the others evenly spaced."""
    if n <= most:
        return np.arange(n)
    half = most // 2
    return np.append(np.arange(half), np.linspace(half, n - 1, most - half).astype(int))


# --- refinement of the mode -------------------------------------------------------------------------------------------


def polish_mode(scene: Scene, posterior: GibbsPosterior) -> list[Points]:
    """Descend from good points, and return the best point evaluated on the way and the best that reaches the target.

    Every round drops the worse half of the starts. It ends with a round without gain, or at the row limit, or at that
    of the explanation. With few features it scatters points before the first round and before giving up.
    """
    if any(scene.space.features[j].missing in ("leave", "any") for j in scene.free):
        return []  # a missing value has no coordinate
    search = Search.of(scene, posterior, _MOST_ROWS + _MOST_ROWS_PER_FEATURE * len(scene.free))
    v, f = _find_starts(scene, search)
    if len(f) == 0 or f.min() <= search.floor:  # no start, or nothing to gain, as no cost is below zero
        return []
    thorough = len(scene.free) <= _FEW_FEATURES
    least, last_round = f.min(), not thorough
    try:
        v, f = _add_corners(search, v, f)
        if thorough:
            v, f = _pick_starts(*_add_scattered(search, v, f, nearest=1.0), _N_STARTS)
        for _ in range(_MAX_ROUNDS):
            v, f = _drop_duplicates(*levels(search, v, f))
            v, f = _drop_duplicates(*newton(search, v, f))
            v, f = _drop_duplicates(*coordinates(search, v, f))
            half = max(len(f) // 2, _LEAST_STARTS)
            v, f = v[:half], f[:half]
            if has_gained(least, f[0]):
                least = f[0]
            elif last_round:
                break
            else:
                if search.sloped and search.smooth.all():  # a simplex needs continuous coordinates
                    v[:1], f[:1] = _try_simplex(search, v[:1], f[:1])
                if not has_gained(least, f[0]):
                    v, f = _pick_starts(*_add_scattered(search, v, f, nearest=_NEAREST), _N_LATE_STARTS)
                    last_round = True
    except BudgetSpentError:
        pass
    return [point for point in (search.best, search.best_reached) if point is not None]


def _try_simplex(search: Search, v: Array, f: Array) -> tuple[Array, Array]:
    """Descend from ``v`` ``(1, m)`` with objective ``f`` ``(1,)`` by Nelder-Mead; continue if the first steps gain."""
    for steps in _SIMPLEX_STEPS:
        before = f
        v, f, *_ = nelder_mead(search, v, search.low, search.high, max_iterations=steps)
        if not has_gained(before, f)[0]:
            break
    return v, f


def _find_starts(scene: Scene, search: Search) -> tuple[Array, Array]:
    """Return the row and good, separated points of the pool ``(s, m)``, and their objective ``(s,)``."""
    x0 = scene.x0[scene.free]
    f = scene.objective(scene.draws.known)
    order = np.argsort(f, kind="stable")[:_BEST_OF_POOL]
    v, f = _pick_starts((scene.draws.known.x[order][:, scene.free] - x0) / search.unit, f[order], _N_STARTS)
    v, f = np.vstack([np.zeros((1, len(x0))), v]), np.append(scene.objective(scene.row), f)
    return v[np.isfinite(f)], f[np.isfinite(f)]


def _add_corners(search: Search, v: Array, f: Array) -> tuple[Array, Array]:
    """Add the near corners of known points and training rows with identical outputs."""
    scene, posterior = search.scene, search.posterior
    known = scene.draws.known
    pool = known.take(np.isfinite(scene.objective(known)) & np.isfinite(known.log_correction))
    x, outputs, potential = pool.x, pool.outputs, scene.mixture.potential(pool.loss)
    rows, landmark_values = posterior.landmarks, posterior.landmark_evaluated
    if rows is not None and landmark_values is not None:
        x, outputs = np.vstack([x, rows]), np.vstack([outputs, landmark_values.outputs])
        potential = np.append(potential, scene.mixture.potential(landmark_values.loss))
    order = np.argsort(potential + posterior.prior.cost(x), kind="stable")
    x, outputs, potential = x[order], outputs[order], potential[order]
    found: list[tuple[Array, Array]] = [(v, f)]

    def evaluate(corner: Array) -> Array:
        v_corner = (corner[:, scene.free] - scene.x0[scene.free]) / search.unit
        found.append((v_corner, search(v_corner)))
        return found[-1][1]

    try_near_corners(
        scene.space,
        scene.x0,
        x,
        outputs,
        lambda corner, whose: potential[whose] + posterior.prior.cost(corner),
        evaluate,
        f.min(),
    )
    return np.vstack([some for some, _ in found]), np.concatenate([value for _, value in found])


def _add_scattered(search: Search, v: Array, f: Array, *, nearest: float) -> tuple[Array, Array]:
    """Add points between the best one and the border of the region whose cost is below the best objective."""
    scene, (n, m) = search.scene, (_SCATTERED, v.shape[1])
    best, least = v[f.argmin()], f.min()
    placed = search.posterior.prior.place(scene.rng.standard_normal((n, search.posterior.prior.dimension)))
    rays = placed.x[:, scene.free] - scene.x0[scene.free]
    rays /= search.unit
    inside, outside = np.zeros((n, 1)), np.full((n, 1), _LONGEST_RAY)
    for _ in range(_RAY_HALVINGS):  # where each ray leaves the region
        middle = 0.5 * (inside + outside)
        less = (search.cost(middle * rays) + search.floor < least)[:, None]
        inside, outside = np.where(less, middle, inside), np.where(less, outside, middle)
    share = inside * scene.rng.random((n, 1)) ** (1.0 / m)  # evenly over the region
    more = best + nearest ** scene.rng.random((n, 1)) * (share * rays - best)
    more = np.clip(more, search.low, search.high)
    return np.vstack([v, more]), np.append(f, search(more))


def _pick_starts(v: Array, f: Array, most: int) -> tuple[Array, Array]:
    """Return the best points that are separated; the distance shrinks for a narrow posterior."""
    order = np.argsort(f, kind="stable")
    order = order[np.isfinite(f[order])]
    chosen, radius = np.arange(0), _APART
    while len(chosen) < min(most, len(order)) and radius > _LEAST_APART:
        chosen, radius = _pick_apart(v[order], radius, most), 0.5 * radius
    return v[order[chosen]], f[order[chosen]]


def _pick_apart(v: Array, radius: float, most: int) -> Array:
    """Return positions of the first point and of later ones that keep their distance from all before."""
    chosen, near = [0], np.linalg.norm(v - v[0], axis=1)
    far = radius * np.sqrt(v.shape[1])
    while len(chosen) < most and (near > far).any():
        chosen.append(int(np.argmax(near > far)))
        near = np.minimum(near, np.linalg.norm(v - v[chosen[-1]], axis=1))
    return np.array(chosen)


def _drop_duplicates(v: Array, f: Array) -> tuple[Array, Array]:
    """Sort by the objective, and drop points that coincide with a better one."""
    order = np.argsort(f, kind="stable")
    keep = order[_pick_apart(v[order], _SAME, len(f))]
    return v[keep], f[keep]
