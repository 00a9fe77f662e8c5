"""Where points with the very same output meet: every column as near to the row as they have it.

A model that is constant on boxes, such as a tree, says the same in all of a box. Points to which it said the very same
mostly lie in one box, and with them all that lies between them. The nearest of that to the row is made without asking,
and one row confirms it: what points do not need is gone at once, where giving back change after change takes many rows.
Where it is denied, they lie in several boxes, and are parted by whether they meet the cheapest of them in its own.
"""

from collections.abc import Callable

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points, Scene
from gbce.posterior import GibbsPosterior
from gbce.search._descents import Search, coordinates, has_gained, levels, nelder_mead, newton
from gbce.space import Space

__all__ = ["meet_alike", "polish_mode"]

# --- where points with the very same output meet ---------------------------------------------------------------------

# By hand: they decide how many rows are asked about.
_MOST_GROUPS = 60  # that are asked about at a time, the most promising
_PARTED, _MEMBERS = 6, 40  # groups that are parted in a round, and points of each that take part
_ROUNDS = 4  # of parting
_KEPT = 1e-9  # relative: what a point is worth is what was promised, but for rounding


def meet_alike(
    space: Space,
    x0: Array,
    x: Array,
    outputs: Array,
    promise: Callable[[Array, Array], Array],
    ask: Callable[[Array], Array],
    least: float,
) -> None:
    """Ask about points where others meet to which models said the very same, as long as they promise to be better.

    Parameters
    ----------
    space : Space
        Places points.
    x0 : array of shape (d,)
        The row.
    x : array of shape (n, d)
        Points, the best first.
    outputs : array of shape (n, K)
        What models said there.
    promise : callable
        Takes points ``(g, d)`` and positions ``(g,)`` among ``x``; returns the figure ``(g,)`` that points have if
        models say there what they said at these. It is the least that any of the others between them can have.
    ask : callable
        Takes points ``(g, d)``, asks about them, returns the figure that they have, ``(g,)``.
    least : float
        The least figure that is known.
    """
    groups = _part_by_outputs(outputs)
    for number in range(_ROUNDS + 1):
        groups = [own for own in groups if len(own) > 1]
        met, good = _meet(space, x0, x, groups)
        promised = np.where(good, promise(met, np.array([own[0] for own in groups], dtype=int)), np.inf)
        order = np.argsort(promised, kind="stable")
        order = order[promised[order] < least][:_MOST_GROUPS]
        if len(order) == 0:
            return
        found = ask(met[order])
        least = min(least, float(found.min()))
        denied = (found > promised[order] + _KEPT * np.abs(promised[order])) & (promised[order] < least)
        parted = [groups[i][_spread(len(groups[i]), _MEMBERS)] for i in order[denied][:_PARTED].tolist()]
        if not parted or number == _ROUNDS:
            return
        groups = _part(space, x0, x, parted, promise, ask)


def _part(
    space: Space,
    x0: Array,
    x: Array,
    groups: list[Array],
    promise: Callable[[Array, Array], Array],
    ask: Callable[[Array], Array],
) -> list[Array]:
    """Return groups of those that meet the first one of their group where models say the same, and of the others."""
    pairs = [np.array([own[0], other]) for own in groups for other in own[1:]]
    met, good = _meet(space, x0, x, pairs)
    promised = promise(met, np.array([pair[0] for pair in pairs]))
    alike = np.zeros(len(pairs), dtype=bool)
    alike[good] = ask(met[good]) <= promised[good] + _KEPT * np.abs(promised[good])
    found, end = [], 0
    for own in groups:
        same, end = alike[end : end + len(own) - 1], end + len(own) - 1
        found += [np.append(own[0], own[1:][same]), own[1:][~same]]
    return found


def _part_by_outputs(outputs: Array) -> list[Array]:
    """Return positions of points with the same outputs ``(n, K)``, in their order."""
    if len(outputs) == 0:
        return []
    order = np.lexsort((np.arange(len(outputs)), *outputs.T))
    same = (outputs[order[1:]] == outputs[order[:-1]]).all(axis=1)
    return np.split(order, np.flatnonzero(~same) + 1)


def _meet(space: Space, x0: Array, x: Array, groups: list[Array]) -> tuple[Array, Array]:
    """Return where groups of points meet, ``(g, d)``, and whether that can be had; of levels the first one's stays."""
    if not groups:
        return x[:0], np.zeros(0, dtype=bool)
    rows, first = x[np.concatenate(groups)], x[[own[0] for own in groups]]
    start = np.cumsum([0, *(len(own) for own in groups)])[:-1]
    between = np.clip(x0, np.fmin.reduceat(rows, start), np.fmax.reduceat(rows, start))
    with_row = np.logical_or.reduceat((rows == x0) | (np.isnan(rows) & np.isnan(x0)), start)
    on_axis = ~space.unordered & ~np.isnan(x0)
    return space.place(np.where(with_row, x0, np.where(on_axis, between, first)), x0)


def _spread(n: int, most: int) -> Array:
    """Return at most so many of ``n`` positions: the first half of them, and others evenly."""
    if n <= most:
        return np.arange(n)
    half = most // 2
    return np.append(np.arange(half), np.linspace(half, n - 1, most - half).astype(int))


# --- refining good points towards the mode, all of them together -----------------------------------------------------

_N_STARTS = 4  # out of the pool and of what a search has seen, and the row
_N_LATE_STARTS = 4  # out of scattered points, for the last round
_BEST_OF_POOL = 2_000  # points that starts are picked from
_APART, _LEAST_APART = 0.5, 1e-3  # distance between starts over the root of m: first tried, halved at most down to
_SAME = 0.05  # the same distance between ends of a descent: nearer ones count as one
_LEAST_STARTS = 2  # that every round keeps, though it drops the worse half
_MAX_ROUNDS = 10  # of all descents
_MOST_ROWS, _MOST_ROWS_PER_FEATURE = 10_000, 200  # asked in all: the sum of both

_FEW_FEATURES = 8  # in more, the simplex and scattered points lead nowhere
_SIMPLEX_STEPS = (40, 600)  # at most: if the first ones gain, the others; each is a model call
_SCATTERED = 240  # points
_NEAREST = 0.01  # scattered points end from this part to all of the way out from the best one
_LONGEST_RAY = 2.0  # times a draw of the prior: beyond it the region of low cost is not followed
_RAY_HALVINGS = 20  # that find where a ray leaves the region, to two millionths of it


def polish_mode(scene: Scene, posterior: GibbsPosterior) -> list[Points]:
    """Return the best of all points asked about on the way down from good points, and the best that reaches the target.

    Every round drops the worse half of the starts. The end is a round that gains nothing, or the row limit, or that of
    the explanation. In few features the search looks around before it begins and once more before it gives up.
    """
    if any(scene.space.features[j].missing in ("leave", "any") for j in scene.free):
        return []  # a value that may be missing has no place on an axis
    search = Search.of(scene, posterior, _MOST_ROWS + _MOST_ROWS_PER_FEATURE * len(scene.free))
    v, f = _starts(scene, search)
    if len(f) == 0 or f.min() <= search.floor:  # nothing to start from, or nothing to gain: no cost is below zero
        return []
    thorough = len(scene.free) <= _FEW_FEATURES
    least, last_round = f.min(), not thorough
    try:
        v, f = _add_meetings(search, v, f)
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
                if search.sloped and search.smooth.all():  # a simplex cannot stand on levels
                    v[:1], f[:1] = _try_simplex(search, v[:1], f[:1])
                if not has_gained(least, f[0]):
                    v, f = _pick_starts(*_add_scattered(search, v, f, nearest=_NEAREST), _N_LATE_STARTS)
                    last_round = True
    except BudgetSpentError:
        pass
    return [point for point in (search.best, search.best_reached) if point is not None]


def _try_simplex(search: Search, v: Array, f: Array) -> tuple[Array, Array]:
    """Descend from ``v`` ``(1, m)`` with objective ``f`` ``(1,)`` by the simplex; on and on if its first steps gain."""
    for steps in _SIMPLEX_STEPS:
        before = f
        v, f, *_ = nelder_mead(search, v, search.low, search.high, max_iterations=steps)
        if not has_gained(before, f)[0]:
            break
    return v, f


def _starts(scene: Scene, search: Search) -> tuple[Array, Array]:
    """Return the row and good points of the pool that lie apart, ``(s, m)``, and their objective ``(s,)``."""
    x0 = scene.x0[scene.free]
    f = scene.objective(scene.draws.known)
    order = np.argsort(f, kind="stable")[:_BEST_OF_POOL]
    v, f = _pick_starts((scene.draws.known.x[order][:, scene.free] - x0) / search.unit, f[order], _N_STARTS)
    v, f = np.vstack([np.zeros((1, len(x0))), v]), np.append(scene.objective(scene.row), f)
    return v[np.isfinite(f)], f[np.isfinite(f)]


def _add_meetings(search: Search, v: Array, f: Array) -> tuple[Array, Array]:
    """Add points where known ones and training rows meet to which the models said the very same."""
    scene, posterior = search.scene, search.posterior
    known = scene.draws.known
    pool = known.take(np.isfinite(scene.objective(known)) & np.isfinite(known.log_correction))
    x, outputs, potential = pool.x, pool.outputs, scene.mixture.potential(pool.loss)
    rows, said = posterior.landmarks, posterior.landmark_said
    if rows is not None and said is not None:
        x, outputs = np.vstack([x, rows]), np.vstack([outputs, said.outputs])
        potential = np.append(potential, scene.mixture.potential(said.loss))
    order = np.argsort(potential + posterior.prior.cost(x), kind="stable")
    x, outputs, potential = x[order], outputs[order], potential[order]
    found: list[tuple[Array, Array]] = [(v, f)]

    def ask(met: Array) -> Array:
        there = (met[:, scene.free] - scene.x0[scene.free]) / search.unit
        found.append((there, search(there)))
        return found[-1][1]

    meet_alike(
        scene.space, scene.x0, x, outputs, lambda met, whose: potential[whose] + posterior.prior.cost(met), ask, f.min()
    )
    return np.vstack([some for some, _ in found]), np.concatenate([value for _, value in found])


def _add_scattered(search: Search, v: Array, f: Array, *, nearest: float) -> tuple[Array, Array]:
    """Add points from all over the region that can hold something better than the best: where the cost alone is less.

    A part of the way, from ``nearest`` to all of it, leads from the best point to them.
    """
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
    """Return the best points that lie apart; in a narrow posterior they lie nearer to each other."""
    order = np.argsort(f, kind="stable")
    order = order[np.isfinite(f[order])]
    chosen, radius = np.arange(0), _APART
    while len(chosen) < min(most, len(order)) and radius > _LEAST_APART:
        chosen, radius = _pick_apart(v[order], radius, most), 0.5 * radius
    return v[order[chosen]], f[order[chosen]]


def _pick_apart(v: Array, radius: float, most: int) -> Array:
    """Return positions of the first point and of those next in line that keep their distance from all before."""
    chosen, near = [0], np.linalg.norm(v - v[0], axis=1)
    far = radius * np.sqrt(v.shape[1])
    while len(chosen) < most and (near > far).any():
        chosen.append(int(np.argmax(near > far)))
        near = np.minimum(near, np.linalg.norm(v - v[chosen[-1]], axis=1))
    return np.array(chosen)


def _drop_duplicates(v: Array, f: Array) -> tuple[Array, Array]:
    """Sort by the objective, and drop points that have come to the same place as a better one."""
    order = np.argsort(f, kind="stable")
    keep = order[_pick_apart(v[order], _SAME, len(f))]
    return v[keep], f[keep]
