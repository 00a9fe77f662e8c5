"""Refining good points towards the mode, all of them together: one model call per step, from predictions alone.

Three searches take turns: Newton steps for smooth models, coordinate steps for models that are flat in cells, and, in
few features where both stand still (a curved valley with a sharp bottom), Nelder and Mead's simplex.
"""

import numpy as np

from gbce._weights import Array
from gbce.decisions._descents import Search, coordinates, newton
from gbce.decisions._nelder_mead import nelder_mead
from gbce.decisions._rule import Scene
from gbce.draws import Points
from gbce.posterior import BudgetSpentError, GibbsPosterior

__all__ = ["polished"]

_N_STARTS = 8  # out of the pool, and the row
_AMONG = 2_000  # best points of the pool to pick them from
_APART, _SAME = 0.5, 0.05  # least distance of starts, and of ends that count as two, over the root of m
_LEAST_APART = 1e-3
_MAX_ROUNDS = 10
_ROWS, _ROWS_PER_FEATURE = 10_000, 200  # the most that is asked
_GAIN = 1e-4  # of a round, relative above one: less is the end
_SIMPLEX_STEPS = 100
_SCATTERED = 100
NEAREST = 0.01
ONCE = True
_FEW = 8


def polished(scene: Scene, posterior: GibbsPosterior) -> Points | None:
    """Return the best of all points asked about on the way down from good points, or ``None`` if none was.

    Every round drops the worse half of the starts. The end is a round that gains nothing, or the row limit, or that of
    the explanation. In few features the search looks around once more before it gives up.
    """
    search = Search.of(scene, posterior, _ROWS + _ROWS_PER_FEATURE * len(scene.free))
    v, f = _starts(scene, search)
    if len(f) == 0 or f.min() <= search.floor:  # nothing to start from, or nothing to gain: no cost is below zero
        return None
    few, stood, least = len(scene.free) <= _FEW, False, f.min()
    try:
        if few:
            v, f = _joined(v, f, *_scattered(search, v[:1], f.min(), 1.0), _N_STARTS)
        for _ in range(_MAX_ROUNDS):
            v, f = _distinct(*newton(search, v, f))
            v, f = _distinct(*coordinates(search, v, f))
            half = max(len(f) // 2, 2)
            v, f = v[:half], f[:half]
            if least - f[0] > _GAIN * max(1.0, abs(f[0])):
                least, stood = f[0], stood and ONCE
            elif few and not stood:
                end, stood = nelder_mead(search, v[:1], search.low, search.high, max_iterations=_SIMPLEX_STEPS), True
                v, f = _joined(end.x, end.value, *_scattered(search, end.x, end.value[0], NEAREST), _N_STARTS // 2)
            else:
                break
    except BudgetSpentError:
        pass
    return search.best


def _scattered(search: Search, best, f: float, nearest) -> tuple[Array, Array]:
    """Points ``(n, m)`` all over the region in which something better than ``f`` can lie, where the cost is less."""
    n, m = _SCATTERED * len(search.unit), len(search.unit)
    scene = search.scene
    x = search.posterior.prior.place(scene.rng.standard_normal((n, m))).x
    ray = (x[:, scene.free] - scene.x0[scene.free]) / search.unit
    inside, outside = np.zeros((n, 1)), np.full((n, 1), 2.0)
    for _ in range(20):
        middle = 0.5 * (inside + outside)
        less = search.cost(middle * ray)[:, None] + search.floor < f
        inside, outside = np.where(less, middle, inside), np.where(less, outside, middle)
    v = np.clip(ray * inside * scene.rng.random((n, 1)) ** (1.0 / m), search.low, search.high)
    v = best + nearest ** scene.rng.random((n, 1)) * (v - best)
    return v, search(v)


def _joined(v: Array, f: Array, more: Array, g: Array, most: int) -> tuple[Array, Array]:
    v, f = np.vstack([v, more]), np.append(f, g)
    order = np.argsort(f, kind="stable")
    order = order[np.isfinite(f[order])]
    chosen = order[_apart_enough(v[order], most)]
    return v[chosen], f[chosen]


def _apart_enough(v: Array, most: int) -> Array:
    chosen, radius = np.arange(0), _APART
    # in a narrow posterior nearer ones will do
    while len(chosen) < min(most, len(v)) and radius > _LEAST_APART:
        chosen, radius = _apart(v, radius, most), 0.5 * radius
    return chosen


def _starts(scene: Scene, search: Search) -> tuple[Array, Array]:
    """Return the row and good points of the pool that lie apart, ``(s, m)``, and their objective ``(s,)``."""
    pool, x0 = scene.draws.pool, scene.x0[scene.free]
    f = scene.objective(pool)
    order = np.argsort(f, kind="stable")[:_AMONG]
    order = order[np.isfinite(f[order])]
    v = (pool.x[order][:, scene.free] - x0) / search.unit
    chosen = _apart_enough(v, _N_STARTS)
    v, f = np.vstack([np.zeros((1, len(x0))), v[chosen]]), np.append(scene.objective(scene.row), f[order[chosen]])
    return v[np.isfinite(f)], f[np.isfinite(f)]


def _apart(v: Array, radius: float, most: int) -> Array:
    """Return positions of the first point and of those next in line that keep their distance from all before."""
    chosen, near = [0], np.linalg.norm(v - v[0], axis=1)
    far = radius * np.sqrt(v.shape[1])
    while len(chosen) < most and (near > far).any():
        chosen.append(int(np.argmax(near > far)))
        near = np.minimum(near, np.linalg.norm(v - v[chosen[-1]], axis=1))
    return np.array(chosen)


def _distinct(v: Array, f: Array) -> tuple[Array, Array]:
    """Sort by the objective, and drop points that have come to the same place as a better one."""
    order = np.argsort(f, kind="stable")
    keep = order[_apart(v[order], _SAME, len(f))]
    return v[keep], f[keep]
