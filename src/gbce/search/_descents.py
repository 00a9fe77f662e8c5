"""Derivative-free descents from many starts in lockstep: quasi-Newton, coordinate and level moves, Nelder-Mead.

*Newton* steps use finite differences, for smooth models. *Coordinate* steps move single features, above all back to
the row, for piecewise constant models such as trees, where the best point of a piece is the one nearest to the row.
*Levels* are moves of categories. Coordinates ``v`` are the free features' changes from the row in units of the prior's
spread; only the potential costs model rows. ``may`` ``(s, m)`` says which features each start may move.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from gbce._numerics import WIDEST
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points, Scene
from gbce.posterior import GibbsPosterior
from gbce.search._objective import SMOOTH_SHARE, curvature_of

__all__ = ["Search", "coordinates", "has_gained", "levels", "nelder_mead", "newton"]

_LEAST_ROUND_GAIN = 1e-4  # of a round of descents, relative above one: less counts as none (by hand)
_BLOCK_CELLS = 2_000_000  # numbers in points that are evaluated together: 16 MB

_NEWTON_STEPS = 8  # at most; starts that stall end earlier, and those worth it go on in the next round (by hand)
_LEAST_STEP_GAIN = 1e-5  # of a Newton step: a tenth of what counts in a round
_MOST_FAILURES = 2  # Newton steps in a row that gain nothing, the second one with the curvature forgotten
_GRADIENT_STEP, _COST_GRADIENT_STEP = 1e-4, 1e-6  # many models round to single precision, the cost does not
_ROUNDING = 1e-14  # relative, of a sum: some hundred times the last bit
_LENGTHS = np.array([4.0, 2.0, 1.0, 0.5, 0.2, 0.05, 0.005])[:, None]  # of a Newton step, tried in one call; by hand

_SIZES = 0.5 ** np.arange(3)  # of moves, and of parts of the way to the row, tried in one call
_SHRINK, _GROWTH = 0.5 * _SIZES[-1], 4.0  # of the largest size where none gains, and of the one that does
_COORDINATE_STEPS = 8  # at most: three take the first move below the last one, the others are for moves that gain
_FIRST_MOVE, _LAST_MOVE = 0.5, 1e-3  # in units of the prior's spread; shorter moves are not worth a row (by hand)
_LEAST_MOVE_GAIN = 1e-6  # of the objective: a move that gains less is ignored, and costs no further call
_SHORTEST_MOVE = 0.5 * _LAST_MOVE  # moves shorter than this are ignored
# Nelder and Mead (1965): steps from the centroid away from the worst vertex, and towards the best one.
_REFLECT, _EXPAND, _OUTSIDE, _INSIDE = 1.0, 2.0, 0.5, -0.5
_SHRINK_SIMPLEX = 0.5
_RELATIVE_STEP, _ABSOLUTE_STEP = 0.05, 0.00025  # of the first simplex, as in scipy
_TOLERANCE = 1e-4  # of points and values, as in scipy

# --- objective of a scene ---------------------------------------------------------------------------------------------


@dataclass
class Search:
    """The objective, ``(..., m)`` to ``(...)`` in one model call; keeps the best points that were evaluated.

    ``precision`` ``(m, m)`` is the curvature of the prior's cost, or of the nearest Gaussian's; ``floor`` bounds the
    potential from below; ``smooth`` ``(m,)`` marks real features, ``ordered`` all but categories, which move by codes;
    ``settled`` are the values at which Newton descents ended. A model without any gradient is piecewise constant.
    """

    scene: Scene
    posterior: GibbsPosterior
    unit: Array
    low: Array
    high: Array
    precision: Array
    smooth: Array
    ordered: Array
    floor: float
    rows_left: int
    best: Points | None = None
    best_reached: Points | None = None
    least: float = np.inf
    least_reached: float = np.inf
    sloped: bool = False
    settled: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, scene: Scene, posterior: GibbsPosterior, max_rows: int) -> Self:
        """Set up the search of a scene."""
        x0, own = scene.x0[scene.free], np.searchsorted(posterior.prior.free, scene.free)
        spread = posterior.prior.covariance[np.ix_(own, own)]
        unit = np.sqrt(np.diag(spread))
        low, high = ((limit[scene.free] - x0) / unit for limit in scene.space.limits(scene.x0))
        floor = 0.0 if scene.draws.pool.loss.min() >= 0 else -np.inf
        precision = np.linalg.inv(spread / np.outer(unit, unit))
        features = [scene.space.features[j] for j in scene.free]
        smooth = np.array([not feature.discrete for feature in features])
        ordered = np.array([not feature.unordered for feature in features])
        return cls(scene, posterior, unit, low, high, precision, smooth, ordered, floor, max_rows)

    def __call__(self, v: Array) -> Array:
        return self.with_cost(v)[..., 0]

    def with_cost(self, v: Array) -> Array:
        """Return objective and cost ``(..., 2)`` of ``(..., m)``."""
        return self.where_hopeful(v, np.inf)

    def where_hopeful(self, v: Array, most: Array | float) -> Array:
        """Return objective and cost ``(..., 2)``; infinite, without a call, where cost plus floor reach ``most``."""
        x = self.place(v)
        cost = self.posterior.prior.cost(x)
        hopeful = np.flatnonzero(cost + self.floor < np.broadcast_to(most, v.shape[:-1]).ravel())
        value = np.full(len(x), np.inf)
        if len(hopeful):
            value[hopeful] = self.evaluate(x[hopeful], cost[hopeful])
        return np.column_stack([value, cost]).reshape(*v.shape[:-1], 2)

    def evaluate(self, x: Array, cost: Array) -> Array:
        """Return the objective of rows ``(n, d)`` of known cost, see :meth:`evaluate_points`."""
        return self.evaluate_points(x, cost)[1]

    def evaluate_points(self, x: Array, cost: Array) -> tuple[Points, Array]:
        """Evaluate rows ``(n, d)`` of known cost within the row limit, and remember the best; with the objective."""
        self.require_rows(len(x))
        self.rows_left -= len(x)
        evaluated = self.posterior.evaluate(x)
        # latent coordinates and the correction of a decision are never read
        unread = np.zeros((len(x), len(self.unit)))
        points = Points(unread, x, *evaluated, cost=cost, log_correction=unread[:, 0])
        value = self.scene.objective(points)
        self.remember(points, value)
        return points, value

    def remember(self, points: Points, value: Array) -> None:
        """Keep the best of evaluated points, and of those that reach the target."""
        if self.best is None or value.min() < self.least:
            self.best = points.take(np.array([value.argmin()]))
            self.least = float(self.scene.objective(self.best)[0])
        reached = np.where(points.reached[:, 0], value, np.inf)
        if reached.min() < self.least_reached:
            self.best_reached = points.take(np.array([reached.argmin()]))
            self.least_reached = float(self.scene.objective(self.best_reached)[0])

    def has_settled(self, f: Array) -> Array:
        """Whether a Newton descent ended at these values ``(s,)``, or so little above that none need restart."""
        gained = self.settled[:, None] - f
        settled: Array = np.any((gained >= 0) & (gained <= _LEAST_STEP_GAIN), axis=0)
        return settled

    def cost(self, v: Array) -> Array:
        """Return the cost ``(...)`` of ``(..., m)``, without a model call."""
        return self.posterior.prior.cost(self.place(v)).reshape(v.shape[:-1])

    def in_blocks(self, evaluate: Callable[..., Array], *given: Array) -> Array:
        """Return ``evaluate(*given)``, in blocks that fit into memory."""
        n, size = len(given[0]), max(1, _BLOCK_CELLS // len(self.unit))
        return np.concatenate([evaluate(*(one[i : i + size] for one in given)) for i in range(0, max(n, 1), size)])

    def require_rows(self, n: int) -> None:
        """Raise if more rows are needed than are left, before any point is built."""
        if n > self.rows_left:
            raise BudgetSpentError(f"{n:,} more model rows exceed the limit of a mode search")

    def place(self, v: Array) -> Array:
        """Project coordinates ``(..., m)`` to admissible rows ``(n, d)``."""
        flat = v.reshape(-1, v.shape[-1])
        x = np.tile(self.scene.x0, (len(flat), 1))
        x[:, self.scene.free] += flat * self.unit
        return self.scene.space.project(x, self.scene.x0)


def _change_one(here: Array, start: Array, feature: Array, to: Array) -> Array:
    """Return copies ``(n, m)`` of ``here[start]``, each with one ``feature`` set ``to`` a value."""
    trial = here[start]
    trial[np.arange(len(trial)), feature] = to
    return trial


def has_gained(before: Array, now: Array) -> Array:
    """Whether a round of descents lowered the objective enough to go on, ``(s,)`` or a scalar."""
    return before - now > _LEAST_ROUND_GAIN * np.maximum(1.0, np.abs(now))


# --- smooth models ----------------------------------------------------------------------------------------------------


def newton(search: Search, v: Array, f: Array, may: Array | None = None) -> tuple[Array, Array]:
    """Descend from ``v`` ``(s, m)`` with objective ``f`` ``(s,)`` by quasi-Newton steps, until they gain nothing.

    Gradients of the potential are finite differences, and its curvature is learned from their changes (symmetric
    rank-one updates); those of the cost are known. A start whose step fails forgets its curvature and gets one more
    try.
    """
    v, f = v.copy(), f.copy()
    s, m = v.shape
    may = np.ones(v.shape, dtype=bool) if may is None else may
    active = np.flatnonzero((may & search.smooth).any(axis=1) & ~search.has_settled(f))
    curvature = curvature_of(s, search.precision, _NEWTON_STEPS)
    gradient, known = np.zeros((s, m)), np.zeros(s, dtype=bool)  # here, and whether it is up to date
    before, last = np.zeros((s, m)), np.full((s, m), np.nan)  # gradient where the last step began, and that point
    failures = np.zeros(s, dtype=int)
    for _ in range(_NEWTON_STEPS if len(active) else 0):
        new = active[~known[active]]
        if len(new):
            gradient[new] = _find_gradients(search, v[new], f[new] - search.cost(v[new]), may[new])
        if not search.sloped:  # where the model is piecewise constant, single features lead further
            active = active[(gradient[active] != 0).any(axis=1)]
            if len(active) == 0:
                break
        here, now = v[active], gradient[active]
        learns: Array = ~np.isnan(last[active, 0])
        curvature.learn(active, here - last[active], now - before[active], now, f[active] - search.cost(here))
        before[active], last[active] = now, here
        uphill = np.where(may[active], _objective_gradient(search, here, now), 0.0)
        trial = _points_along(search, here, uphill, curvature.step(active, uphill))
        value = search(trial)
        pick = (np.arange(len(active)), value.argmin(axis=1))
        gain: Array = f[active] - value[pick]
        won: Array = gain > 0
        v[active[won]], f[active[won]] = trial[pick][won], value[pick][won]
        last[active[~won]] = np.nan
        known[active] = ~won
        failures[active] = np.where(gain > _LEAST_STEP_GAIN, 0, failures[active] + 1)
        failures[active[~won & ~learns]] = _MOST_FAILURES  # there is no curvature to forget
        search.settled = np.append(search.settled, f[active[failures[active] >= _MOST_FAILURES]])
        active = active[failures[active] < _MOST_FAILURES]
        if len(active) == 0:
            break
    return v, f


def _find_gradients(search: Search, here: Array, potential: Array, may: Array) -> Array:
    """Return the gradient of the potential at ``here`` ``(s, m)``; zero where it is infinite or flat."""
    start, feature = np.nonzero(may & search.smooth)
    h = np.where(here + _GRADIENT_STEP > search.high, -_GRADIENT_STEP, _GRADIENT_STEP)[start, feature]
    to = here[start, feature] + h
    gradient = np.zeros(here.shape)
    search.require_rows(len(start))
    both = search.in_blocks(lambda *those: search.with_cost(_change_one(here, *those)), start, feature, to)
    value, cost = both.T
    with np.errstate(invalid="ignore", over="ignore"):  # infinite here or there, or as good as that
        found = (value - cost - potential[start]) / h
    # the rounding error of potential plus cost is no gradient
    noise = _ROUNDING * (1 + np.abs(value)) / _GRADIENT_STEP
    gradient[start, feature] = np.where(np.isfinite(found) & (np.abs(found) > noise), found, 0.0)
    # a forest has a step near some coordinate now and then: that is no gradient
    search.sloped |= bool(((gradient[:, search.smooth] != 0).mean(axis=1) > SMOOTH_SHARE).any())
    return gradient


def _objective_gradient(search: Search, here: Array, gradient: Array) -> Array:
    """Return the gradient of the objective, zero at a bound or in a kink of the cost."""
    cost, (start, feature) = search.cost(here)[:, None], np.indices(here.shape).reshape(2, -1)

    def aside(h: float) -> Array:
        there = search.in_blocks(
            lambda *those: search.cost(_change_one(here, *those)), start, feature, here.ravel() + h
        )
        return there.reshape(here.shape)

    to_right = gradient + (aside(_COST_GRADIENT_STEP) - cost) / _COST_GRADIENT_STEP
    to_left = gradient + (cost - aside(-_COST_GRADIENT_STEP)) / _COST_GRADIENT_STEP
    right = np.where((to_right < 0) & (here < search.high), to_right, 0.0)
    return np.where((to_left > 0) & (here > search.low), to_left, right)


def _points_along(search: Search, here: Array, uphill: Array, step: Array) -> Array:
    """Return points ``(s, t, m)`` along a step, which stops at the row, where a cost may have a kink."""
    with np.errstate(over="ignore", invalid="ignore"):  # at an extreme eta a gradient may overflow
        trial = here[:, None, :] + _LENGTHS * step[:, None, :]
    # steps beyond WIDEST are skipped: the row would be lost to rounding
    trial = np.clip(np.where(np.abs(trial) < WIDEST, trial, here[:, None, :]), search.low, search.high)
    side = np.where(here != 0, np.sign(here), -np.sign(uphill))
    return np.where(trial * side[:, None, :] < 0, 0.0, trial)


# --- piecewise constant models ----------------------------------------------------------------------------------------


def coordinates(search: Search, v: Array, f: Array, may: Array | None = None) -> tuple[Array, Array]:
    """Descend from ``v`` ``(s, m)`` with objective ``f`` ``(s,)`` by moves of single features.

    For each feature it tries the row's value, a part of the way there, and moves up and down, each in several sizes at
    once. Sizes shrink where none gains (bisection) and grow where one does. Moves that gain are combined.
    """
    v, f = v.copy(), f.copy()
    move, part = np.full(v.shape, _FIRST_MOVE), np.full(v.shape, _FIRST_MOVE)
    active, sizes = np.arange(len(v)), _SIZES[:, None]
    for _ in range(_COORDINATE_STEPS):
        here = v[active][:, None, :]
        size = _lengthen(search, sizes * move[active][:, None, :])
        shorter = here * (1 - sizes * part[active][:, None, :])
        to = np.concatenate([np.zeros_like(here), shorter, here + size, here - size], axis=1)
        to = np.clip(_round_to_steps(search, to), search.low, search.high)
        to[:, 1:] = np.where(search.ordered, to[:, 1:], here)
        if may is not None:
            to = np.where(may[active][:, None, :], to, here)
        value = _try_moves(search, here[:, 0], f[active], to)
        kind, least = value.argmin(axis=1), value.min(axis=1)
        better = least < f[active][:, None] - _LEAST_MOVE_GAIN
        which = (kind - 1) % len(_SIZES)
        moved = better & (kind > len(_SIZES))
        shrunk = better & (kind > 0) & ~moved
        part[active] *= np.where(shrunk, np.minimum(_GROWTH * _SIZES[which], 1.0 / part[active]), _SHRINK)
        move[active] *= np.where(moved, _GROWTH * _SIZES[which], _SHRINK)
        to = np.take_along_axis(to, kind[:, None, :], axis=1)[:, 0]
        v[active], f[active] = _join_moves(search, here[:, 0], f[active], to, least)
        rough = np.maximum(move, part * np.abs(v)).max(axis=1) > _LAST_MOVE
        active = active[rough[active]]
        if len(active) == 0:
            break
    return v, f


def _lengthen(search: Search, size: Array) -> Array:
    """Lengthen moves of integers and ordinals to at least one step."""
    return np.where(search.smooth, size, np.maximum(size, 1.0 / search.unit))


def _round_to_steps(search: Search, to: Array) -> Array:
    """Round coordinates of integers and ordinals to whole steps."""
    return np.where(search.smooth, to, np.round(to * search.unit) / search.unit)


def _try_moves(search: Search, here: Array, f: Array, to: Array) -> Array:
    """Return the objective ``(s, t, m)`` after each move; infinite if it is none or its cost alone exceeds ``f``."""
    moves = np.abs(to - here[:, None, :]) > _SHORTEST_MOVE
    moves[:, 1:] &= (to[:, 1:] != 0) & (to[:, 1:] != to[:, :-1])  # the row itself, and duplicates after rounding
    start, kind, feature = np.nonzero(moves)
    goal = to[start, kind, feature]

    def evaluate(start: Array, feature: Array, goal: Array) -> Array:
        return search.where_hopeful(_change_one(here, start, feature, goal), f[start])[:, 0]

    value = np.full(to.shape, np.inf)
    value[start, kind, feature] = search.in_blocks(evaluate, start, feature, goal)
    return value


def _join_moves(search: Search, here: Array, f: Array, to: Array, least: Array) -> tuple[Array, Array]:
    """Combine the best moves of each start: as many, from the most gainful down, as pay."""
    s, m = here.shape
    better, count = least < f[:, None] - _LEAST_MOVE_GAIN, np.arange(m)
    rank = np.argsort(np.argsort(least, axis=1, kind="stable"), axis=1)

    def take_best(start: Array, last: Array) -> Array:
        return np.where(better[start] & (rank[start] <= last[:, None]), to[start], here[start])

    value = np.full((s, m), np.inf)
    value[:, 0] = least.min(axis=1)
    several = np.nonzero((count > 0) & (count < better.sum(axis=1)[:, None]))
    search.require_rows(len(several[0]))
    value[several] = search.in_blocks(lambda *those: search(take_best(*those)), *several)
    pick = (np.arange(s), value.argmin(axis=1))
    won = value[pick] < f
    return np.where(won[:, None], take_best(*pick), here), np.where(won, value[pick], f)


# --- categories -------------------------------------------------------------------------------------------------------


def levels(search: Search, v: Array, f: Array, may: Array | None = None) -> tuple[Array, Array]:
    """Descend from ``v`` ``(s, m)`` by changing single categories, the best level of all at a time."""
    v, f = v.copy(), f.copy()
    categories = np.flatnonzero(~search.ordered)
    active = np.arange(len(v))
    for _ in range(len(categories)):
        options = [(j, code) for j in categories for code in np.arange(search.low[j], search.high[j] + 0.5)]
        trial = np.repeat(v[active][:, None, :], len(options), axis=1)
        for i, (j, code) in enumerate(options):
            trial[:, i, j] = code
        moves = (trial != v[active][:, None, :]).any(axis=2)
        if may is not None:
            moves &= may[active][:, [j for j, _ in options]]
        value = np.full(moves.shape, np.inf)
        value[moves] = search.where_hopeful(trial[moves], f[active[np.nonzero(moves)[0]]])[:, 0]
        pick = value.argmin(axis=1)
        least = value[np.arange(len(active)), pick]
        won: Array = least < f[active]
        v[active[won]], f[active[won]] = trial[np.arange(len(active)), pick][won], least[won]
        active = active[won]
        if len(active) == 0:
            break
    return v, f


# --- Nelder-Mead simplex ----------------------------------------------------------------------------------------------


class Minima(NamedTuple):
    """End points of all starts: ``x`` ``(s, m)``, and ``value``, ``iterations``, ``converged``, each ``(s,)``."""

    x: Array
    value: Array
    iterations: Array
    converged: Array


def nelder_mead(
    objective: Callable[[Array], Array],
    starts: Array,
    low: Array,
    high: Array,
    *,
    max_iterations: int,
    x_tolerance: float = _TOLERANCE,
    f_tolerance: float = _TOLERANCE,
) -> Minima:
    """Minimise ``objective``, ``(n, m)`` to ``(n,)``, from each of ``starts`` ``(s, m)`` within ``[low, high]``."""
    s, m = starts.shape
    simplex = _make_simplex(starts, low, high)
    value = objective(simplex.reshape(-1, m)).reshape(s, m + 1)
    _sort_vertices(simplex, value, np.arange(s))
    iterations = np.ones(s, dtype=int)
    running = np.ones(s, dtype=bool)
    while True:
        width = np.abs(simplex[:, 1:] - simplex[:, :1]).max(axis=(1, 2))
        with np.errstate(invalid="ignore"):  # all vertices infinite: no spread, and not converged
            spread = np.abs(value[:, 1:] - value[:, :1]).max(axis=1)
        running &= ~((width <= x_tolerance) & (spread <= f_tolerance)) & (iterations < max_iterations)
        active = np.flatnonzero(running)
        if len(active) == 0:
            break
        _update_simplex(objective, simplex, value, active, low, high)
        iterations[active] += 1
        _sort_vertices(simplex, value, active)
    converged = (width <= x_tolerance) & (spread <= f_tolerance)
    return Minima(simplex[:, 0], value[:, 0], iterations, converged)


def _make_simplex(starts: Array, low: Array, high: Array) -> Array:
    """Return each start, and the start with one coordinate moved a little, for each coordinate."""
    m = starts.shape[1]
    simplex = np.repeat(np.clip(starts, low, high)[:, None, :], m + 1, axis=1)
    each = np.arange(m)
    here = simplex[:, 1 + each, each]
    simplex[:, 1 + each, each] = np.where(here != 0, (1 + _RELATIVE_STEP) * here, _ABSOLUTE_STEP)
    beyond = simplex > high
    with np.errstate(invalid="ignore"):
        mirrored = 2 * high - simplex  # a step over the upper bound turns back, or the simplex would be flat
    return np.clip(np.where(beyond, mirrored, simplex), low, high)


def _update_simplex(
    objective: Callable[[Array], Array], simplex: Array, value: Array, active: Array, low: Array, high: Array
) -> None:
    """Reflect, expand, contract or shrink the ``active`` simplices, in place."""
    m = simplex.shape[2]
    vertices, f = simplex[active], value[active]
    worst = vertices[:, -1]
    centre = vertices[:, :-1].sum(axis=1) / m
    trial = np.stack(
        [np.clip((1 + step) * centre - step * worst, low, high) for step in (_REFLECT, _EXPAND, _OUTSIDE, _INSIDE)],
        axis=1,
    )
    at = objective(trial.reshape(-1, m)).reshape(len(active), 4)
    reflected, expanded, outside, inside = at.T
    improves_best = reflected < f[:, 0]
    improves_some = ~improves_best & (reflected < f[:, -2])
    improves_worst = ~improves_best & ~improves_some & (reflected < f[:, -1])
    none = ~improves_best & ~improves_some & ~improves_worst
    pick = np.full(len(active), -1)
    pick[improves_best | improves_some] = 0
    pick[improves_best & (expanded < reflected)] = 1
    pick[improves_worst & (outside <= reflected)] = 2
    pick[none & (inside < f[:, -1])] = 3
    moves = np.flatnonzero(pick >= 0)
    simplex[active[moves], -1] = trial[moves, pick[moves]]
    value[active[moves], -1] = at[moves, pick[moves]]
    shrinks = active[pick < 0]
    if len(shrinks):
        first = simplex[shrinks, :1]
        smaller = np.clip(first + _SHRINK_SIMPLEX * (simplex[shrinks, 1:] - first), low, high)
        simplex[shrinks, 1:] = smaller
        value[shrinks, 1:] = objective(smaller.reshape(-1, m)).reshape(len(shrinks), m)


def _sort_vertices(simplex: Array, value: Array, which: Array) -> None:
    """Sort the vertices of simplices ``which`` by their values, in place."""
    order = np.argsort(value[which], axis=1)  # the kind that scipy uses, so that ties fall the same way
    simplex[which] = np.take_along_axis(simplex[which], order[:, :, None], axis=1)
    value[which] = np.take_along_axis(value[which], order, axis=1)
