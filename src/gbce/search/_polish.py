"""Refinement of the posterior mode: descents, and the nearest point whose potential is no higher.

Descents lead to the bottom of a basin. Among all points with at most its potential, the mode is the one of least cost:
the search for the nearest point finds it, with the potential as the target, across the borders of basins.
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points, Scene
from gbce.posterior import GibbsPosterior
from gbce.search._candidates import CandidateMoves
from gbce.search._descents import Search, coordinates, has_gained, levels, nelder_mead, newton
from gbce.search._nearest import Judged, find_nearest
from gbce.search._steps import values_to_try

__all__ = ["polish_mode"]

_ROUNDING = 1e-9  # relative, of potentials
# Refinement.
_N_STARTS = 4  # from the pool and from points that a search evaluated, beside the row
_STARTS_AS_GOOD = 8  # known points from which nearer ones as good are searched
_DRAWING_ROWS, _DRAWING_ROWS_PER_FEATURE = 600, 60  # of that search: the sum of both
_SQUARED = (
    0.4  # share of a cost that half the change has, if it grows with the square: a quarter, and room for rounding
)
_BEST_OF_POOL = 2_000  # points from which starts are picked
_APART, _LEAST_APART = 0.5, 1e-3  # distance between starts over the root of m, halved down to the second
_SAME = 0.05  # distance within which two end points count as one, in the same units
_LEAST_STARTS = 2  # kept in every round, though it drops the worse half
_MAX_ROUNDS = 10  # of all descents
_SLOW = 0.01  # gain of a round, relative above one, from which on nearer points are searched
_MOST_ROWS, _MOST_ROWS_PER_FEATURE = 10_000, 200  # evaluated in all: the sum of both

_FEW_FEATURES = 8  # with more, the simplex and scattered points gain nothing
_SIMPLEX_STEPS = (40, 600)  # at most: the others follow if the first ones gain; each is a model call
_SCATTERED = 240  # points
_NEAREST = 0.01  # least share of the way from the best point to a scattered one
_LONGEST_RAY = 2.0  # times a prior draw: beyond, the region of low cost is not followed
_RAY_HALVINGS = 20  # to find where a ray leaves the region, to two millionths of it

# --- refinement of the mode -------------------------------------------------------------------------------------------


def polish_mode(scene: Scene, posterior: GibbsPosterior) -> list[Points]:
    """Descend from good points, and return the best point evaluated on the way and the best that reaches the target.

    Every round drops the worse half of the starts. Once descents gain little, nearer points of the same potential are
    searched; with few features it then scatters points. It ends with a round without gain, or at the row limit, or at
    that of the explanation.
    """
    if any(scene.space.features[j].missing in ("leave", "any") for j in scene.free):
        return []  # a missing value has no coordinate
    search = Search.of(scene, posterior, _MOST_ROWS + _MOST_ROWS_PER_FEATURE * len(scene.free))
    v, f = _find_starts(scene, search)
    if len(f) == 0 or f.min() <= search.floor:  # no start, or nothing to gain, as no cost is below zero
        return []
    least, drawn, thorough = f.min(), False, len(scene.free) <= _FEW_FEATURES
    with suppress(BudgetSpentError):
        for _ in range(_MAX_ROUNDS):
            v, f = _drop_duplicates(*levels(search, v, f))
            v, f = _drop_duplicates(*newton(search, v, f))
            v, f = _drop_duplicates(*coordinates(search, v, f))
            half = max(len(f) // 2, _LEAST_STARTS)
            v, f = v[:half], f[:half]
            if least - f[0] <= _SLOW * max(1.0, abs(f[0])) and not drawn:
                drawn = True
                v, f = _draw_nearer(search, v, f)
            if not has_gained(least, f[0]) and thorough and search.sloped and search.smooth.all():
                v[:1], f[:1] = _try_simplex(search, v[:1], f[:1])
            if not has_gained(least, f[0]):
                if not thorough:
                    break
                v, f = _pick_starts(*_add_scattered(search, v, f), _N_STARTS)
                thorough = False
            least = f[0]
    return [point for point in (search.best, search.best_reached) if point is not None]


def _try_simplex(search: Search, v: Array, f: Array) -> tuple[Array, Array]:
    """Descend from ``v`` ``(1, m)`` with objective ``f`` ``(1,)`` by Nelder-Mead; continue if the first steps gain."""
    for steps in _SIMPLEX_STEPS:
        before = f
        v, f, *_ = nelder_mead(search, v, search.low, search.high, max_iterations=steps)
        if not has_gained(before, f)[0]:
            break
    return v, f


def _draw_nearer(search: Search, v: Array, f: Array) -> tuple[Array, Array]:
    """Add cheaper points than the best one whose potential is no higher: the mode is the nearest of these."""
    scene, posterior, prior = search.scene, search.posterior, search.posterior.prior
    best = search.place(v[f.argmin()][None, :])
    level = float(f.min() - prior.cost(best)[0])
    if not has_gained(f.min(), np.array(level)):  # no cheaper point could gain enough
        return v, f
    miss = _find_miss(search)
    allowed = float(miss(search.evaluate_points(best, prior.cost(best))[0].outputs)[0]) if miss and level > 0 else 0.0
    level += _ROUNDING * abs(level)
    power = _power_of_cost(search)

    def judge(x: Array) -> Judged:
        cost = prior.cost(x)
        points, value = search.evaluate_points(x, cost)
        potential = value - np.where(np.isfinite(cost), cost, 0.0)
        gap = (
            _signed_root(potential) - _signed_root(np.array(level)) if miss is None else miss(points.outputs) - allowed
        )
        return Judged(gap, potential <= level)

    data = scene.draws.known.x if posterior.landmarks is None else posterior.landmarks
    values = values_to_try(scene.space, scene.x0, data)
    moves = CandidateMoves(scene.space, scene.x0, values, lambda x: prior.cost(x) ** (1.0 / power))
    x, outputs, usable = _collect_as_good(search, level)
    starts = np.vstack([best, x[usable][:_STARTS_AS_GOOD]])
    rows = min(search.rows_left, _DRAWING_ROWS + _DRAWING_ROWS_PER_FEATURE * len(scene.free))
    found = find_nearest(moves, judge, starts, known=(x, outputs), power=power, max_rows=rows)
    x, value = found.x[:_N_STARTS], level + prior.cost(found.x[:_N_STARTS])
    if search.best is not None:
        x, value = np.vstack([x, search.best.x]), np.append(value, search.least)
    nearer = (x[:, scene.free] - scene.x0[scene.free]) / search.unit
    return _drop_duplicates(np.vstack([nearer, v]), np.append(value, f))


def _find_miss(search: Search) -> Callable[[Array], Array] | None:
    """Return how far outputs ``(n, 1)`` are from the target's range, below zero within it, where losses are all zero.

    None for several models, and for targets without a range of one output.
    """
    posterior = search.posterior
    try:
        low, high = posterior.target.accepted()
    except TypeError:
        return None
    if len(posterior.predictors) > 1 or posterior.target.reads_classes:
        return None

    def miss(outputs: Array) -> Array:
        with np.errstate(over="ignore"):  # outputs near the limits of floats
            return np.asarray(np.maximum(low - outputs[:, 0], outputs[:, 0] - high))

    return miss


def _signed_root(potential: Array) -> Array:
    """Return square roots: where a loss is a square, they add up over columns as the model's output does."""
    return np.sign(potential) * np.sqrt(np.abs(potential))


def _power_of_cost(search: Search) -> int:
    """Return 2 where the cost grows with the square of a change, as under a Gaussian prior, else 1."""
    whole = np.where(search.high >= 2.0, 2.0, np.where(search.low <= -2.0, -2.0, 0.0)) * search.ordered
    half, all_of_it = search.cost(np.vstack([0.5 * whole, whole]))
    return 2 if half < _SQUARED * all_of_it else 1


def _find_starts(scene: Scene, search: Search) -> tuple[Array, Array]:
    """Return the row and good, separated points of the pool ``(s, m)``, and their objective ``(s,)``."""
    x0 = scene.x0[scene.free]
    f = scene.objective(scene.draws.known)
    order = np.argsort(f, kind="stable")[:_BEST_OF_POOL]
    v, f = _pick_starts((scene.draws.known.x[order][:, scene.free] - x0) / search.unit, f[order], _N_STARTS)
    v, f = np.vstack([np.zeros((1, len(x0))), v]), np.append(scene.objective(scene.row), f)
    return v[np.isfinite(f)], f[np.isfinite(f)]


def _collect_as_good(search: Search, level: float) -> tuple[Array, Array, Array]:
    """Return known points ``(n, d)`` and training rows of at most this potential, the cheapest first.

    With their outputs ``(n, K)``, and whether they are admissible ``(n,)``.
    """
    scene, posterior = search.scene, search.posterior
    known = scene.draws.known
    pool = known.take(np.isfinite(scene.objective(known)) & np.isfinite(known.log_correction))
    x, outputs, potential = pool.x, pool.outputs, scene.mixture.potential(pool.loss)
    rows, landmark_values = posterior.landmarks, posterior.landmark_evaluated
    if rows is not None and landmark_values is not None:
        x, outputs = np.vstack([x, rows]), np.vstack([outputs, landmark_values.outputs])
        potential = np.append(potential, scene.mixture.potential(landmark_values.loss))
    good = np.flatnonzero(potential <= level)
    order = good[np.argsort(posterior.prior.cost(x[good]), kind="stable")]
    return x[order], outputs[order], order < len(pool)


def _add_scattered(search: Search, v: Array, f: Array) -> tuple[Array, Array]:
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
    more = best + _NEAREST ** scene.rng.random((n, 1)) * (share * rays - best)
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
