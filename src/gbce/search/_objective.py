"""Descents along slopes, for potentials that have any: from the lowest points, from wide ones, from unexplained ones.

Points that were taken back towards the row lie in the valleys that are widest there, and so do most candidates. A well
that is narrower, or behind another, is found from points of wide laws, and from candidates that lie lower than all
wells known so far explain. Slopes are differences, and cost a row for each coordinate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

import numpy as np

from gbce._numerics import HUGE, MATRIX_UP_TO, TINY
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points
from gbce.posterior import GibbsPosterior

__all__ = [
    "LEAST_GAIN",
    "SLOPED_SHARE",
    "Basins",
    "BudgetedObjective",
    "Curvature",
    "Descent",
    "Memory",
    "Slopes",
    "curvature_of",
    "find_gradients_and_curvatures",
    "find_slopes",
    "join",
    "keep_apart",
    "neg_log_density_of",
    "potential_of",
    "take_lower",
]

# --- asking about latent points within a limit of rows, and keeping the lowest of them -------------------------------

# Of height in a round of a search: less is not worth another one, because laws around a site are wider than that.
LEAST_GAIN = 0.02
_REMEMBERED = 32  # points of each kind that are kept: of low objective, and cheap ones that reach the target
_APART = 0.5  # distance within which two ends are one site: about the width of the laws that are put there


@dataclass
class Memory:
    """What a search has seen that rules must not fall behind: points of low objective, and cheap ones that reach.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose objective and cost order the points.
    """

    posterior: GibbsPosterior
    kept: Points | None = field(default=None, init=False)
    _dearest: tuple[float, float] = field(default=(np.inf, np.inf), init=False)  # of each kind, if there are enough

    def add(self, points: Points) -> None:
        """Look at evaluated points and keep the best."""
        if max(self._dearest) < np.inf:
            points = points.take(self._find_hopeful(points))
            if len(points) == 0:
                return
        both = points if self.kept is None else Points.join([self.kept, points])
        objective = self.posterior.mixture.objective(both.loss, both.cost)
        price = np.where(both.reached[:, 0], both.cost, np.inf)
        usable = np.isfinite(both.log_correction)
        first = np.argsort(np.where(usable, objective, np.inf), kind="stable")[:_REMEMBERED]
        cheap = np.argsort(np.where(usable, price, np.inf), kind="stable")[:_REMEMBERED]
        cheap = cheap[usable[cheap] & both.reached[cheap, 0]]
        self.kept = both.take(np.unique(np.concatenate([first[usable[first]], cheap])))
        if len(cheap) == _REMEMBERED:  # then there are as many that are usable at all
            self._dearest = float(objective[first[-1]]), float(price[cheap[-1]])

    def _find_hopeful(self, points: Points) -> Array:
        """Return the positions of points that are not behind all that are kept, of which there are enough."""
        objective = self.posterior.mixture.objective(points.loss, points.cost)
        cheap = points.reached[:, 0] & (points.cost < self._dearest[1])
        return np.flatnonzero(np.isfinite(points.log_correction) & ((objective < self._dearest[0]) | cheap))


def neg_log_density_of(posterior: GibbsPosterior, points: Points) -> Array:
    """Minus the log density ``(n,)`` of evaluated points in the latent space, up to a constant."""
    return potential_of(posterior, points) + 0.5 * np.square(points.z).sum(axis=1)


def potential_of(posterior: GibbsPosterior, points: Points) -> Array:
    """Minus the log density ``(n,)`` against the latent law; equal losses give equal potentials to the last bit."""
    return posterior.mixture.potential(points.loss) + points.log_correction


@dataclass
class BudgetedObjective:
    """Asks about latent points within a limit of rows, remembers the best and the heights."""

    posterior: GibbsPosterior
    memory: Memory
    rows_left: int
    asked: list[tuple[Array, Array]] = field(default_factory=list, init=False)  # latent points and their potentials

    def __call__(self, z: Array) -> tuple[Points, Array]:
        self.require(len(z))
        self.rows_left -= len(z)
        points = Points.evaluate(self.posterior, z)
        self.memory.add(points)
        self.asked.append((points.z, potential_of(self.posterior, points)))
        return points, neg_log_density_of(self.posterior, points)

    def require(self, n: int) -> None:
        """Refuse more rows than are left, before points are made of them."""
        if n > self.rows_left or self.posterior.affords(n) < n:
            raise BudgetSpentError(f"{n:,} more model rows are not within the limit of a search")


def join(now: Points, neg_log_density: Array, more: Points, neg_log_densities: Array) -> tuple[Points, Array]:
    return Points.join([now, more]), np.append(neg_log_density, neg_log_densities)


def take_lower(now: Points, neg_log_density: Array, tried: Points, neg_log_densities: Array) -> tuple[Points, Array]:
    """Replace points ``k`` by the lowest of the trials ``(t, k)``, where that is lower."""
    k = len(neg_log_density)
    winner = neg_log_densities.argmin(axis=0)
    least = neg_log_densities[winner, np.arange(k)]
    lower = least < neg_log_density
    return now.replace_where(tried.take(winner * k + np.arange(k)), lower), np.where(lower, least, neg_log_density)


def keep_apart(points: Points, neg_log_density: Array, margin: float, most: int) -> tuple[Points, Array]:
    """Return the lowest points, within a margin of the lowest of all, that lie apart from each other, in order."""
    order = np.argsort(neg_log_density, kind="stable")
    order = order[np.isfinite(neg_log_density[order])]
    order = order[neg_log_density[order] <= neg_log_density[order[:1]].min(initial=np.inf) + margin]
    kept: list[int] = []
    while len(order) and len(kept) < most:
        kept.append(int(order[0]))
        order = order[_distances(points.z[order], points.z[order[0]]) > _APART]
    where = np.array(kept, dtype=int)
    return points.take(where), neg_log_density[where]


def _distances(z: Array, to: Array) -> Array:
    return np.linalg.norm(z - to, axis=1)


# --- what Newton steps know of a potential's curvature, learnt from slopes -------------------------------------------

_FLATTEST = 0.05  # least curvature, that of the prior being about one: no step is longer than 20 slopes; by hand
_LEAST_DOUBLE = 1e-12  # floor of twice a potential, so that nothing is divided by zero
_UPDATE_GUARD = 1e-8  # cosine below which a rank one update is skipped (Nocedal and Wright, 2006, section 6.2)


class Curvature(Protocol):
    """The curvature of ``s`` potentials in ``m`` coordinates each."""

    def learn(self, which: Array, move: Array, change: Array, slope: Array, potential: Array) -> None:
        """Explain the change ``(k, m)`` of slopes over the last move ``(k, m)`` of the starts ``which`` ``(k,)``.

        Without a last move (NaN) it is that of a squared error, whose slope ``g`` and value ``P`` give ``g g' / 2P``.
        """
        ...

    def step(self, which: Array, uphill: Array) -> Array:
        """Return Newton's step ``(k, m)`` against slopes ``(k, m)`` of the objective, in coordinates where they are."""
        ...


def curvature_of(n_starts: int, precision: Array, max_steps: int) -> Curvature:
    """Return a curvature that knows nothing yet beside the prior's own, ``precision`` ``(m, m)``."""
    m = len(precision)
    alone = np.count_nonzero(precision - np.diag(np.diag(precision))) == 0
    return _Vectors(n_starts, m, max_steps) if alone and m > MATRIX_UP_TO else _Matrix(n_starts, precision)


class _Matrix:
    """The curvature as matrices ``(s, m, m)``."""

    def __init__(self, n_starts: int, precision: Array) -> None:
        self.precision = precision
        self.learnt = np.zeros((n_starts, *precision.shape))

    def learn(self, which: Array, move: Array, change: Array, slope: Array, potential: Array) -> None:
        """Add what explains the change of the slopes."""
        fresh, curvature = np.isnan(move[:, 0]), self.learnt[which]
        move = np.where(fresh[:, None], 0.0, move)
        with np.errstate(over="ignore", invalid="ignore"):  # at an extreme eta; what is no number is not learnt
            first = slope[:, :, None] * slope[:, None, :] / _divisor_at_first(potential)[:, None, None]
            rest = change - np.einsum("ijk,ik->ij", curvature, move)
            update = rest[:, :, None] * rest[:, None, :] / _divisor(rest, move)[:, None, None]
            learnt = np.where(fresh[:, None, None], first, curvature + update)
        self.learnt[which] = np.where(np.isfinite(learnt).all(axis=(1, 2), keepdims=True), learnt, 0.0)

    def step(self, which: Array, uphill: Array) -> Array:
        """Solve in the eigenvectors of each matrix."""
        moving = uphill != 0
        both = moving[:, :, None] & moving[:, None, :]
        curvature = self.learnt[which] + self.precision
        size, axes = np.linalg.eigh(np.where(both, curvature, np.eye(uphill.shape[1])))
        size = np.maximum(np.abs(size), _FLATTEST)  # down, not to a saddle
        return np.where(moving, -np.einsum("ijk,ilk,il->ij", axes / size[:, None, :], axes, uphill), 0.0)


class _Vectors:
    """The curvature as ``sum_r factor_r v_r v_r'`` beside the prior's own, which is one in every coordinate."""

    def __init__(self, n_starts: int, m: int, max_steps: int) -> None:
        self.vectors = np.zeros((n_starts, max_steps, m))
        self.factors = np.zeros((n_starts, max_steps))
        self.used = 0

    def learn(self, which: Array, move: Array, change: Array, slope: Array, potential: Array) -> None:
        """Add a vector, or begin anew with one."""
        fresh, now = np.isnan(move[:, 0]), slice(0, self.used)
        move = np.where(fresh[:, None], 0.0, move)
        vectors, factors = self.vectors[which, now], self.factors[which, now]
        along = factors * (vectors @ move[:, :, None])[:, :, 0]
        rest = change - (along[:, None, :] @ vectors)[:, 0]
        self.factors[which[fresh]] = 0.0
        self.vectors[which, self.used] = np.where(fresh[:, None], slope, rest)
        self.factors[which, self.used] = 1.0 / np.where(fresh, _divisor_at_first(potential), _divisor(rest, move))
        self.used += 1

    def step(self, which: Array, uphill: Array) -> Array:
        """Solve in the space that the vectors span; across it the prior's curvature is all there is."""
        moving = uphill != 0
        vectors = np.where(moving[:, None, :], self.vectors[which, : self.used], 0.0)
        basis, part = np.linalg.qr(vectors.transpose(0, 2, 1))
        inner = (part * self.factors[which, None, : self.used]) @ part.transpose(0, 2, 1)
        size, axes = np.linalg.eigh(np.eye(inner.shape[1]) + inner)
        size = np.maximum(np.abs(size), _FLATTEST)  # down, not to a saddle
        directions = basis @ axes
        along = (directions.transpose(0, 2, 1) @ uphill[:, :, None])[:, :, 0]
        return np.where(moving, (directions @ (along * (1.0 - 1.0 / size))[:, :, None])[:, :, 0] - uphill, 0.0)


def _divisor_at_first(potential: Array) -> Array:
    """Return ``2P`` ``(k,)``, by which the first update is divided."""
    return np.maximum(2 * potential, _LEAST_DOUBLE)


def _divisor(rest: Array, move: Array) -> Array:
    """Return what an update is divided by ``(k,)``: infinite where it would be far too large."""
    product = (rest * move).sum(axis=1)
    safe = np.abs(product) > _UPDATE_GUARD * np.linalg.norm(rest, axis=1) * np.linalg.norm(move, axis=1)
    return np.where(safe, product, np.inf)


# --- wells around places of low height, and which points lie lower than any of them explains -------------------------

# Chosen by hand.
_FLATTEST_BASIN = 0.1  # curvature in any direction, that of the latent law being one
_LEAST_RISE = 1.0  # above the place of a well: nearer, its slope tells how well the place is known
_LARGEST_MISFIT = 0.1  # of a slope and a rise, beyond which a point belongs to no known well
_SAME = 1e-6  # of the largest: smaller singular values of the ways from a place are rounding


class Slopes(NamedTuple):
    """Latent points ``(n, m)`` at which the ``height`` ``(n,)`` and its slope ``uphill`` ``(n, m)`` are known."""

    z: Array
    neg_log_density: Array
    uphill: Array

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return all of them."""
        return cls(*(np.concatenate(side) for side in zip(*parts, strict=True)))


class Basins(NamedTuple):
    """Squares around places ``(k, m)`` of heights ``lowest`` ``(k,)``, with ``root`` ``(k, m, m)`` of the curvature."""

    place: Array
    lowest: Array
    root: Array

    @classmethod
    def fit(cls, place: Array, lowest: Array, slopes: Slopes) -> Self:
        """Fit the curvature of each well to the slopes that agree with it.

        In a square the slope times the way from its place is twice the rise. A point belongs to the well for which
        that comes closest, if it does come close.
        """
        way, rise = slopes.z[:, None, :] - place, slopes.neg_log_density[:, None] - lowest
        with np.errstate(invalid="ignore", over="ignore"):
            along = (way * slopes.uphill[:, None, :]).sum(axis=2)
            misfit = np.abs(along - 2 * rise) / np.maximum(rise, TINY)
        misfit = np.where(np.isfinite(misfit) & (rise > _LEAST_RISE), misfit, np.inf)
        owner = np.where(misfit.min(axis=1) < _LARGEST_MISFIT, misfit.argmin(axis=1), -1)
        roots = [_root_of_curvature(way[owner == k, k], slopes.uphill[owner == k]) for k in range(len(place))]
        return cls(place, lowest, np.array(roots))

    def explain(self, z: Array, neg_log_density: Array) -> Array:
        """Return how much of the height of points ``(n,)`` wells explain: one on a square, less below all of them.

        A well whose square lies below some point is scaled up to it, so that a poor fit does not explain everything.
        """
        parts = []
        for place, lowest, root in zip(self.place, self.lowest, self.root, strict=True):
            square = 0.5 * np.square((z - place) @ root).sum(axis=1)
            with np.errstate(invalid="ignore", over="ignore"):
                part = (neg_log_density - lowest) / np.maximum(square, TINY)
            part = np.where(np.isfinite(part), part, 1.0)
            parts.append(part / max(float(part.max(initial=1.0)), 1.0))
        return np.asarray(np.max(parts, axis=0))


def _root_of_curvature(way: Array, uphill: Array) -> Array:
    """Root ``(m, m)`` of the roundest curvature that has slopes ``(n, m)`` after ways ``(n, m)`` from a place."""
    n, m = way.shape
    squares = float(np.square(way).sum())
    if n == 0 or squares == 0:
        return np.eye(m)
    same = max(float((way * uphill).sum()) / squares, _FLATTEST_BASIN)
    rest = np.linalg.lstsq(way, uphill - same * way, rcond=_SAME)[0]
    size, axes = np.linalg.eigh(same * np.eye(m) + 0.5 * (rest + rest.T))
    return np.asarray(axes * np.sqrt(np.maximum(size, _FLATTEST_BASIN)))


# --- descents along slopes, for potentials that have any -------------------------------------------------------------

SLOPED_SHARE = 0.5  # of the coordinates, beyond which a point lies on a slope, not beside a step (chosen by hand)

# Chosen by hand on bumps drawn with seeds that benchmarks/trust.py does not use, and judged by it.
_WIDE_STARTS, _LOWEST_SHARE = 28, 0.25  # starts on a slope, and the share of them that are the lowest points so far
_WIDTHS = (1.0, 2.0)  # of the laws that the others are drawn from: the latent law, and one twice as wide
_UNEXPLAINED = 3  # candidates in a round, the least explained ones; most of them lie in the same well
_UNEXPLAINED_ROUNDS, _UNEXPLAINED_STEPS = 4, 6  # at most
_EXPLAINED = 0.9  # of the square of a well, beyond which a candidate is none that it does not explain
_NEW = 0.2  # of that square, below which an end lies in another well: on the wall of a known one it is about one
# Starts beside steps: as many as so many rows allow for their first slopes, and this many at least.
_ROWS_FOR_FIRST_STEP, _LEAST_SLOPED = 600, 24
_FORESEEN_STEPS = 5  # Newton steps that all of these starts can take within the limit of rows
_LENGTHS = np.array([2.0, 1.0, 0.5, 0.2, 0.05])  # of a Newton step, tried in one call
_ROUND_LENGTHS = np.array([1.0, 0.5])  # of one for a round well, in the same call
_SLOPE = 1e-4  # a difference that tells a slope: many models round to single precision
_BEND = 0.5  # deviations aside, to see how wide a site is
_FARTHEST = 100.0  # latent deviations that a step may lead to: nothing beyond has a density that can be told from zero
_LEAST_POTENTIAL = 1e-6  # so that nothing is divided by zero


@dataclass
class Descent:
    """Descends along slopes, and remembers where it saw which.

    Parameters
    ----------
    ask : Asking
        Asks about points.
    smooth : bool
        Whether points lie on a slope in most coordinates, and not just beside the step of a tree.
    """

    ask: BudgetedObjective
    smooth: bool
    _seen: list[Slopes] = field(init=False, default_factory=list)

    def choose(self, rng: np.random.Generator, now: Points, neg_log_density: Array) -> tuple[Points, Array]:
        """Choose where to begin: the lowest points, and points of higher ground, of wide laws if it is smooth."""
        m = now.z.shape[1]
        affordable = self.ask.rows_left // (_FORESEEN_STEPS * m)
        if not self.smooth:
            most = int(np.clip(_ROWS_FOR_FIRST_STEP / m, _LEAST_SLOPED, len(now)))
            most = max(min(most, affordable), 2)
            lowest, others = np.split(np.arange(len(now)), [most // 2])
            chosen = np.append(lowest, rng.permutation(others)[: most // 2])
            return now.take(chosen), neg_log_density[chosen]
        most = max(min(_WIDE_STARTS, affordable), 2)
        low = min(max(int(_LOWEST_SHARE * most), 1), len(now))
        width = rng.uniform(*_WIDTHS, size=(most - low, 1))
        wide, neg_log_densities = self.ask(width * rng.standard_normal((most - low, m)))
        finite = np.isfinite(neg_log_densities)
        return join(now.take(np.arange(low)), neg_log_density[:low], wide.take(finite), neg_log_densities[finite])

    def descend(self, now: Points, neg_log_density: Array, steps: int) -> tuple[Points, Array]:
        """Take Newton steps from the points at which the potential has a slope, its curvature that of a squared loss.

        With slope ``g`` and potential ``P`` that curvature is ``g g' / 2P`` (Gauss and Newton), beside the prior's own.
        Where it is smooth, a round well of that curvature in every direction is tried as well.
        """
        active: Array = np.arange(len(neg_log_density))
        for _ in range(steps):
            if len(active) == 0:
                break
            here = now.take(active)
            slope = find_slopes(self.ask, here)
            sloped = (slope != 0).any(axis=1)
            active, here, slope = active[sloped], here.take(sloped), slope[sloped]
            if len(active) == 0:  # piecewise constant
                break
            self._seen.append(Slopes(here.z, neg_log_density[active], here.z + slope))
            steep, round_ = _newton_steps(here.z, slope, potential_of(self.ask.posterior, here))
            trial = here.z + _LENGTHS[:, None, None] * steep
            if self.smooth:
                trial = np.concatenate([trial, here.z + _ROUND_LENGTHS[:, None, None] * round_])
            trial = np.clip(trial, -_FARTHEST, _FARTHEST)
            tried, neg_log_densities = self.ask(trial.reshape(-1, here.z.shape[1]))
            after, lower = take_lower(here, neg_log_density[active], tried, neg_log_densities.reshape(len(trial), -1))
            gain = neg_log_density[active] - lower
            now, neg_log_density = _put(now, active, after), _put_values(neg_log_density, active, lower)
            active = active[gain > LEAST_GAIN]
        return now, neg_log_density

    def descend_unexplained(
        self, others: Points, now: Points, neg_log_density: Array, margin: float, most: int
    ) -> tuple[Points, Array]:
        """Descend from evaluated points that lie lower than known wells explain, as long as that leads to new ones.

        ``margin`` and ``most`` say which ends are kept, as in :func:`keep_apart`.
        """
        neg_log_densities = neg_log_density_of(self.ask.posterior, others)
        finite = np.isfinite(neg_log_densities)
        others, neg_log_densities, m = others.take(finite), neg_log_densities[finite], others.z.shape[1]
        if not self.smooth or m > MATRIX_UP_TO or not self._seen or not len(others):
            return now, neg_log_density
        for _ in range(_UNEXPLAINED_ROUNDS):
            basins = Basins.fit(now.z, neg_log_density, Slopes.join(self._seen))
            explained = basins.explain(others.z, neg_log_densities)
            least = np.argsort(explained, kind="stable")[:_UNEXPLAINED]
            least = least[explained[least] < _EXPLAINED]
            rows = len(least) * (m + len(_LENGTHS) + len(_ROUND_LENGTHS))  # of a step
            if len(least) == 0 or self.ask.rows_left < rows:
                break
            ends, depths = self.descend(
                others.take(least), neg_log_densities[least], min(self.ask.rows_left // rows, _UNEXPLAINED_STEPS)
            )
            new = basins.explain(ends.z, depths) < _NEW
            now, neg_log_density = keep_apart(*join(now, neg_log_density, ends, depths), margin, most)
            if not new.any():
                break
        return now, neg_log_density


def find_slopes(ask: BudgetedObjective, points: Points) -> Array:
    """Slope of the potential ``(k, m)`` at points, by differences; zero where it is infinite or has none."""
    if len(points) == 0:
        return np.zeros(points.z.shape)
    return _slope_of(*_rises(ask, points, _SLOPE))


def find_gradients_and_curvatures(ask: BudgetedObjective, points: Points) -> tuple[Array, Array]:
    """Slope of the potential ``(k, m)``, and its curvature over half a deviation, zero where one side does not rise."""
    if len(points) == 0:
        return np.zeros(points.z.shape), np.zeros(points.z.shape)
    near, up, down = _rises(ask, points, _SLOPE, _BEND, -_BEND)
    up, down = (np.nan_to_num(one, posinf=HUGE) for one in (up, down))
    with np.errstate(over="ignore"):
        curvature = np.where((up > 0) & (down > 0), np.minimum(up + down, HUGE) / _BEND**2, 0.0)
    return _slope_of(near), curvature


def _slope_of(rise: Array) -> Array:
    with np.errstate(over="ignore"):
        slope = rise / _SLOPE
    return np.where(np.isfinite(slope), slope, 0.0)


def _rises(ask: BudgetedObjective, points: Points, *steps: float) -> Array:
    """By how much the potential rises ``(steps, k, m)`` a step aside of points, in each coordinate: one call."""
    (k, m), n = points.z.shape, len(steps)
    ask.require(n * k * m)
    trial = np.tile(np.repeat(points.z, m, axis=0), (n, 1))
    trial[np.arange(n * k * m), np.tile(np.arange(m), n * k)] += np.repeat(steps, k * m)
    aside, _ = ask(trial)
    with np.errstate(invalid="ignore", over="ignore"):
        return potential_of(ask.posterior, aside).reshape(n, k, m) - potential_of(ask.posterior, points)[:, None]


def _newton_steps(z: Array, slope: Array, potential: Array) -> tuple[Array, Array]:
    """Solve ``(I + g g' / 2P) step = -(z + g)`` for each point ``(k, m)``, and with ``g'g I / 2P`` in its place.

    The first is exact where the loss is a squared distance from a plane, the second where it is one from a point.
    """
    steepness = np.hypot.reduce(slope, axis=1)[:, None]  # which does not overflow
    direction, uphill = slope / steepness, z + slope
    with np.errstate(over="ignore"):  # a potential of extreme strength
        curvature = steepness * (steepness / np.maximum(2 * potential, _LEAST_POTENTIAL)[:, None])
    along = (direction * uphill).sum(axis=1, keepdims=True) / (1 + 1 / np.maximum(curvature, TINY))
    return along * direction - uphill, -uphill / (1 + curvature)


def _put(points: Points, where: Array, those: Points) -> Points:
    """Return points with ``those`` in the places ``where``."""
    order = np.arange(len(points))
    order[where] = len(points) + np.arange(len(where))
    return Points.join([points, those]).take(order)


def _put_values(values: Array, where: Array, those: Array) -> Array:
    values = values.copy()
    values[where] = those
    return values
