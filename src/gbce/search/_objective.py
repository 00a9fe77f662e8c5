"""The negative log density as an objective with a row budget, and gradient descents on it.

Gradients are finite differences and cost one model row per coordinate. Points that were shrunk towards the row end in
the basins that are widest there, and so do most prior draws. Narrower basins are found from overdispersed starts, and
from prior draws that lie below the quadratic basins fitted so far.
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
    "SMOOTH_SHARE",
    "Basins",
    "BudgetedObjective",
    "Curvature",
    "Descent",
    "Gradients",
    "Memory",
    "curvature_of",
    "find_gradients",
    "find_gradients_and_curvatures",
    "join",
    "keep_apart",
    "neg_log_density_of",
    "potential_of",
    "take_lower",
]

LEAST_GAIN = 0.02  # of the negative log density in a round: less is within the width of a proposal component
_REMEMBERED = 32  # points of each kind that are kept: low objective, and low cost among those that reach the target
_APART = 0.5  # distance within which two points are one mode: about the width of a proposal component

# Newton steps.
_FLATTEST = 0.05  # least curvature, the prior's being about one: no step is longer than 20 gradients; by hand
_LEAST_DOUBLE = 1e-12  # floor of twice a potential, against division by zero
_UPDATE_GUARD = 1e-8  # cosine below which a rank-one update is skipped (Nocedal and Wright, 2006, section 6.2)

# Basins; chosen by hand.
_FLATTEST_BASIN = 0.1  # curvature in any direction, that of N(0, I) being one
_LEAST_RISE = 1.0  # above the minimum of a basin: nearer, the gradient only shows how well the minimum is known
_LARGEST_MISFIT = 0.1  # of a gradient and a rise, beyond which a point belongs to no known basin
_SAME = 1e-6  # of the largest: smaller singular values of the offsets are rounding
SMOOTH_SHARE = 0.5  # of the coordinates with a gradient, beyond which a point is not just beside a step (by hand)

# Descents; chosen by hand on bumps drawn with seeds that benchmarks/trust.py does not use, and judged by it.
_WIDE_STARTS, _LOWEST_SHARE = 28, 0.25  # starts for smooth models; the share that are the lowest points so far
_WIDTHS = (1.0, 2.0)  # of the distributions that the other starts are drawn from: N(0, I), up to twice as wide
_UNEXPLAINED = 3  # starts in a round, the least explained points; most of them lie in the same basin
_UNEXPLAINED_ROUNDS, _UNEXPLAINED_STEPS = 4, 6  # at most
_EXPLAINED = 0.9  # share of a quadratic beyond which a point counts as explained
_NEW = 0.2  # share below which an end lies in another basin: on the wall of a known one it is about one
_ROWS_FOR_FIRST_STEP, _LEAST_STARTS = 600, 24  # for the first gradients of starts beside steps, and starts at least
_FORESEEN_STEPS = 5  # Newton steps that all starts can take within the row limit
_LENGTHS = np.array([2.0, 1.0, 0.5, 0.2, 0.05])  # of a Newton step, tried in one call
_ROUND_LENGTHS = np.array([1.0, 0.5])  # of one for an isotropic basin, in the same call
_GRADIENT_STEP = 1e-4  # finite-difference step: many models round to single precision
_CURVATURE_STEP = 0.5  # finite-difference step of a mode's curvature, in standard deviations
_FARTHEST = 100.0  # latent standard deviations that a step may reach: beyond, the density is zero in floating point
_LEAST_POTENTIAL = 1e-6  # against division by zero

# --- evaluation within a row budget -----------------------------------------------------------------------------------


@dataclass
class Memory:
    """The best points that a search evaluated, for decision rules: of low objective, and cheap ones that reach."""

    posterior: GibbsPosterior  # its objective and cost order the points
    kept: Points | None = field(default=None, init=False)
    _dearest: tuple[float, float] = field(default=(np.inf, np.inf), init=False)  # worst kept of each kind

    def add(self, points: Points) -> None:
        """Keep the best of what is known and of these evaluated points."""
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
        """Return positions of points that improve on the worst kept one of either kind."""
        objective = self.posterior.mixture.objective(points.loss, points.cost)
        cheap = points.reached[:, 0] & (points.cost < self._dearest[1])
        return np.flatnonzero(np.isfinite(points.log_correction) & ((objective < self._dearest[0]) | cheap))


def neg_log_density_of(posterior: GibbsPosterior, points: Points) -> Array:
    """Negative log density ``(n,)`` of evaluated points in the latent space, up to a constant."""
    return potential_of(posterior, points) + 0.5 * np.square(points.z).sum(axis=1)


def potential_of(posterior: GibbsPosterior, points: Points) -> Array:
    """Negative log density ``(n,)`` against ``N(0, I)``; equal losses give equal potentials to the last bit."""
    return posterior.mixture.potential(points.loss) + points.log_correction


@dataclass
class BudgetedObjective:
    """Evaluates latent points within a row limit, and records the best and all potentials."""

    posterior: GibbsPosterior
    memory: Memory
    rows_left: int
    evaluated: list[tuple[Array, Array]] = field(default_factory=list, init=False)  # latent points and their potentials

    def __call__(self, z: Array) -> tuple[Points, Array]:
        self.require(len(z))
        self.rows_left -= len(z)
        points = Points.evaluate(self.posterior, z)
        self.memory.add(points)
        self.evaluated.append((points.z, potential_of(self.posterior, points)))
        return points, neg_log_density_of(self.posterior, points)

    def require(self, n: int) -> None:
        """Raise if more rows are needed than are left, before any point is built."""
        if n > self.rows_left or self.posterior.affords(n) < n:
            raise BudgetSpentError(f"{n:,} more model rows exceed the limit of a search")


def join(now: Points, f: Array, more: Points, trial_f: Array) -> tuple[Points, Array]:
    """Append points and their values."""
    return Points.join([now, more]), np.append(f, trial_f)


def take_lower(now: Points, f: Array, tried: Points, trial_f: Array) -> tuple[Points, Array]:
    """Replace each of ``k`` points by the lowest of its trials ``(t, k)``, where that is lower."""
    k = len(f)
    winner = trial_f.argmin(axis=0)
    least = trial_f[winner, np.arange(k)]
    lower = least < f
    return now.replace_where(tried.take(winner * k + np.arange(k)), lower), np.where(lower, least, f)


def keep_apart(points: Points, f: Array, margin: float, most: int) -> tuple[Points, Array]:
    """Return the lowest points within a margin of the lowest that are apart from each other, in order."""
    order = np.argsort(f, kind="stable")
    order = order[np.isfinite(f[order])]
    order = order[f[order] <= f[order[:1]].min(initial=np.inf) + margin]
    kept: list[int] = []
    while len(order) and len(kept) < most:
        kept.append(int(order[0]))
        order = order[_distances(points.z[order], points.z[order[0]]) > _APART]
    where = np.array(kept, dtype=int)
    return points.take(where), f[where]


def _distances(z: Array, to: Array) -> Array:
    return np.linalg.norm(z - to, axis=1)


# --- curvature learned from gradients ---------------------------------------------------------------------------------


class Curvature(Protocol):
    """Curvature of ``s`` potentials in ``m`` coordinates each."""

    def learn(self, which: Array, move: Array, change: Array, gradient: Array, potential: Array) -> None:
        """Update from the change ``(k, m)`` of gradients over the last move ``(k, m)``; restart where that is NaN."""
        ...

    def step(self, which: Array, uphill: Array) -> Array:
        """Return the Newton step ``(k, m)`` for gradients of the objective ``(k, m)``; zero where these are zero."""
        ...


def curvature_of(n_starts: int, precision: Array, max_steps: int) -> Curvature:
    """Return a curvature that holds only the prior's own, ``precision`` ``(m, m)``."""
    m = len(precision)
    alone = np.count_nonzero(precision - np.diag(np.diag(precision))) == 0
    return _Vectors(n_starts, m, max_steps) if alone and m > MATRIX_UP_TO else _Matrix(n_starts, precision)


class _Matrix:
    """Curvature as matrices ``(s, m, m)``."""

    def __init__(self, n_starts: int, precision: Array) -> None:
        self.precision = precision
        self.learned = np.zeros((n_starts, *precision.shape))

    def learn(self, which: Array, move: Array, change: Array, gradient: Array, potential: Array) -> None:
        """Apply a symmetric rank-one update."""
        fresh, curvature = np.isnan(move[:, 0]), self.learned[which]
        move = np.where(fresh[:, None], 0.0, move)
        with np.errstate(over="ignore", invalid="ignore"):  # at an extreme eta; NaN is not learned
            first = gradient[:, :, None] * gradient[:, None, :] / _divisor_at_first(potential)[:, None, None]
            rest = change - np.einsum("ijk,ik->ij", curvature, move)
            update = rest[:, :, None] * rest[:, None, :] / _divisor(rest, move)[:, None, None]
            learned = np.where(fresh[:, None, None], first, curvature + update)
        self.learned[which] = np.where(np.isfinite(learned).all(axis=(1, 2), keepdims=True), learned, 0.0)

    def step(self, which: Array, uphill: Array) -> Array:
        """Solve in the eigenbasis of each matrix."""
        moving = uphill != 0
        both = moving[:, :, None] & moving[:, None, :]
        curvature = self.learned[which] + self.precision
        size, axes = np.linalg.eigh(np.where(both, curvature, np.eye(uphill.shape[1])))
        size = np.maximum(np.abs(size), _FLATTEST)  # down, not to a saddle
        return np.where(moving, -np.einsum("ijk,ilk,il->ij", axes / size[:, None, :], axes, uphill), 0.0)


class _Vectors:
    """Curvature as ``I + sum_r factor_r v_r v_r'``, the identity being the prior's."""

    def __init__(self, n_starts: int, m: int, max_steps: int) -> None:
        self.vectors = np.zeros((n_starts, max_steps, m))
        self.factors = np.zeros((n_starts, max_steps))
        self.used = 0

    def learn(self, which: Array, move: Array, change: Array, gradient: Array, potential: Array) -> None:
        """Append the vector of a rank-one update, or restart with one."""
        fresh, now = np.isnan(move[:, 0]), slice(0, self.used)
        move = np.where(fresh[:, None], 0.0, move)
        vectors, factors = self.vectors[which, now], self.factors[which, now]
        along = factors * (vectors @ move[:, :, None])[:, :, 0]
        rest = change - (along[:, None, :] @ vectors)[:, 0]
        self.factors[which[fresh]] = 0.0
        self.vectors[which, self.used] = np.where(fresh[:, None], gradient, rest)
        self.factors[which, self.used] = 1.0 / np.where(fresh, _divisor_at_first(potential), _divisor(rest, move))
        self.used += 1

    def step(self, which: Array, uphill: Array) -> Array:
        """Solve in the span of the vectors; orthogonal to it there is only the prior's curvature."""
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
    """Return ``2P`` ``(k,)``, the divisor of the first update."""
    return np.maximum(2 * potential, _LEAST_DOUBLE)


def _divisor(rest: Array, move: Array) -> Array:
    """Return the divisor of an update ``(k,)``, infinite where the update would be unstable."""
    product = (rest * move).sum(axis=1)
    safe = np.abs(product) > _UPDATE_GUARD * np.linalg.norm(rest, axis=1) * np.linalg.norm(move, axis=1)
    return np.where(safe, product, np.inf)


# --- quadratic basins -------------------------------------------------------------------------------------------------


class Gradients(NamedTuple):
    """Latent points ``(n, m)`` with known negative log density ``(n,)`` and its gradient ``uphill`` ``(n, m)``."""

    z: Array
    neg_log_density: Array
    uphill: Array

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Concatenate several sets."""
        return cls(*(np.concatenate(side) for side in zip(*parts, strict=True)))


class Basins(NamedTuple):
    """Quadratics around modes ``(k, m)`` with minima ``lowest`` ``(k,)`` and roots ``(k, m, m)`` of their curvature."""

    place: Array
    lowest: Array
    root: Array

    @classmethod
    def fit(cls, place: Array, lowest: Array, gradients: Gradients) -> Self:
        """Fit the curvature of each basin to the gradients that agree with it.

        In a quadratic, the gradient times the offset from the minimum is twice the rise. A point belongs to the basin
        for which this fits best, if it fits at all.
        """
        offset, rise = gradients.z[:, None, :] - place, gradients.neg_log_density[:, None] - lowest
        with np.errstate(invalid="ignore", over="ignore"):
            along = (offset * gradients.uphill[:, None, :]).sum(axis=2)
            misfit = np.abs(along - 2 * rise) / np.maximum(rise, TINY)
        misfit = np.where(np.isfinite(misfit) & (rise > _LEAST_RISE), misfit, np.inf)
        owner = np.where(misfit.min(axis=1) < _LARGEST_MISFIT, misfit.argmin(axis=1), -1)
        roots = [_root_of_curvature(offset[owner == k, k], gradients.uphill[owner == k]) for k in range(len(place))]
        return cls(place, lowest, np.array(roots))

    def explain(self, z: Array, f: Array) -> Array:
        """Return the share of the rise of points ``(n,)`` that basins explain: 1 on a quadratic, less below all.

        A basin whose quadratic lies below some point is scaled up to it, so that a poor fit does not explain
        everything.
        """
        parts = []
        for place, lowest, root in zip(self.place, self.lowest, self.root, strict=True):
            quadratic = 0.5 * np.square((z - place) @ root).sum(axis=1)
            with np.errstate(invalid="ignore", over="ignore"):
                part = (f - lowest) / np.maximum(quadratic, TINY)
            part = np.where(np.isfinite(part), part, 1.0)
            parts.append(part / max(float(part.max(initial=1.0)), 1.0))
        return np.asarray(np.max(parts, axis=0))


def _root_of_curvature(offset: Array, uphill: Array) -> Array:
    """Root ``(m, m)`` of the least eccentric curvature with gradients ``(n, m)`` at offsets ``(n, m)``."""
    n, m = offset.shape
    squared = float(np.square(offset).sum())
    if n == 0 or squared == 0:
        return np.eye(m)
    same = max(float((offset * uphill).sum()) / squared, _FLATTEST_BASIN)
    rest = np.linalg.lstsq(offset, uphill - same * offset, rcond=_SAME)[0]
    size, axes = np.linalg.eigh(same * np.eye(m) + 0.5 * (rest + rest.T))
    return np.asarray(axes * np.sqrt(np.maximum(size, _FLATTEST_BASIN)))


# --- gradient descents ------------------------------------------------------------------------------------------------


@dataclass
class Descent:
    """Gradient descents that keep every gradient they compute."""

    objective: BudgetedObjective  # evaluates points
    smooth: bool  # whether points have a gradient in most coordinates, not just beside the step of a tree
    _seen: list[Gradients] = field(init=False, default_factory=list)

    def choose(self, rng: np.random.Generator, now: Points, f: Array) -> tuple[Points, Array]:
        """Choose starts: the lowest points, and others at random, overdispersed ones for smooth models."""
        m = now.z.shape[1]
        affordable = self.objective.rows_left // (_FORESEEN_STEPS * m)
        if not self.smooth:
            most = int(np.clip(_ROWS_FOR_FIRST_STEP / m, _LEAST_STARTS, len(now)))
            most = max(min(most, affordable), 2)
            lowest, others = np.split(np.arange(len(now)), [most // 2])
            chosen = np.append(lowest, rng.permutation(others)[: most // 2])
            return now.take(chosen), f[chosen]
        most = max(min(_WIDE_STARTS, affordable), 2)
        low = min(max(int(_LOWEST_SHARE * most), 1), len(now))
        width = rng.uniform(*_WIDTHS, size=(most - low, 1))
        wide, trial_f = self.objective(width * rng.standard_normal((most - low, m)))
        finite = np.isfinite(trial_f)
        return join(now.take(np.arange(low)), f[:low], wide.take(finite), trial_f[finite])

    def descend(self, now: Points, f: Array, steps: int) -> tuple[Points, Array]:
        """Take Gauss-Newton steps from the points at which the potential has a gradient.

        With gradient ``g`` and potential ``P`` the curvature of a squared loss is ``g g' / 2P``, beside the prior's
        own. For smooth models an isotropic basin of that curvature is tried as well.
        """
        active: Array = np.arange(len(f))
        for _ in range(steps):
            if len(active) == 0:
                break
            here = now.take(active)
            gradient = find_gradients(self.objective, here)
            moving = (gradient != 0).any(axis=1)
            active, here, gradient = active[moving], here.take(moving), gradient[moving]
            if len(active) == 0:  # piecewise constant
                break
            self._seen.append(Gradients(here.z, f[active], here.z + gradient))
            steep, round_ = _newton_steps(here.z, gradient, potential_of(self.objective.posterior, here))
            trial = here.z + _LENGTHS[:, None, None] * steep
            if self.smooth:
                trial = np.concatenate([trial, here.z + _ROUND_LENGTHS[:, None, None] * round_])
            trial = np.clip(trial, -_FARTHEST, _FARTHEST)
            tried, trial_f = self.objective(trial.reshape(-1, here.z.shape[1]))
            after, lower = take_lower(here, f[active], tried, trial_f.reshape(len(trial), -1))
            gain = f[active] - lower
            now, f = _put(now, active, after), _put_values(f, active, lower)
            active = active[gain > LEAST_GAIN]
        return now, f

    def descend_unexplained(
        self, others: Points, now: Points, f: Array, margin: float, most: int
    ) -> tuple[Points, Array]:
        """Descend from points below all known basins while that finds new ones; for the rest see :func:`keep_apart`."""
        trial_f = neg_log_density_of(self.objective.posterior, others)
        finite = np.isfinite(trial_f)
        others, trial_f, m = others.take(finite), trial_f[finite], others.z.shape[1]
        if not self.smooth or m > MATRIX_UP_TO or not self._seen or not len(others):
            return now, f
        for _ in range(_UNEXPLAINED_ROUNDS):
            basins = Basins.fit(now.z, f, Gradients.join(self._seen))
            explained = basins.explain(others.z, trial_f)
            least = np.argsort(explained, kind="stable")[:_UNEXPLAINED]
            least = least[explained[least] < _EXPLAINED]
            rows = len(least) * (m + len(_LENGTHS) + len(_ROUND_LENGTHS))  # of one step
            if len(least) == 0 or self.objective.rows_left < rows:
                break
            ends, depths = self.descend(
                others.take(least), trial_f[least], min(self.objective.rows_left // rows, _UNEXPLAINED_STEPS)
            )
            new = basins.explain(ends.z, depths) < _NEW
            now, f = keep_apart(*join(now, f, ends, depths), margin, most)
            if not new.any():
                break
        return now, f


def find_gradients(objective: BudgetedObjective, points: Points) -> Array:
    """Gradient of the potential ``(k, m)`` by differences; zero where it is infinite or flat."""
    if len(points) == 0:
        return np.zeros(points.z.shape)
    return _gradient_of(*_rises(objective, points, _GRADIENT_STEP))


def find_gradients_and_curvatures(objective: BudgetedObjective, points: Points) -> tuple[Array, Array]:
    """Gradient ``(k, m)`` and curvature of the potential, the latter zero unless both sides rise."""
    if len(points) == 0:
        return np.zeros(points.z.shape), np.zeros(points.z.shape)
    near, up, down = _rises(objective, points, _GRADIENT_STEP, _CURVATURE_STEP, -_CURVATURE_STEP)
    up, down = (np.nan_to_num(one, posinf=HUGE) for one in (up, down))
    with np.errstate(over="ignore"):
        curvature = np.where((up > 0) & (down > 0), np.minimum(up + down, HUGE) / _CURVATURE_STEP**2, 0.0)
    return _gradient_of(near), curvature


def _gradient_of(rise: Array) -> Array:
    """Divide rises by the step; zero where that is not finite."""
    with np.errstate(over="ignore"):
        gradient = rise / _GRADIENT_STEP
    return np.where(np.isfinite(gradient), gradient, 0.0)


def _rises(objective: BudgetedObjective, points: Points, *steps: float) -> Array:
    """Return the rise of the potential ``(s, k, m)`` after ``s`` steps along each coordinate: one call."""
    (k, m), n = points.z.shape, len(steps)
    objective.require(n * k * m)
    trial = np.tile(np.repeat(points.z, m, axis=0), (n, 1))
    trial[np.arange(n * k * m), np.tile(np.arange(m), n * k)] += np.repeat(steps, k * m)
    shifted, _ = objective(trial)
    with np.errstate(invalid="ignore", over="ignore"):
        return (
            potential_of(objective.posterior, shifted).reshape(n, k, m)
            - potential_of(objective.posterior, points)[:, None]
        )


def _newton_steps(z: Array, gradient: Array, potential: Array) -> tuple[Array, Array]:
    """Solve ``(I + g g' / 2P) step = -(z + g)`` for each point ``(k, m)``, and with ``g'g I / 2P`` in its place.

    The first is exact for a squared distance from a plane, the second for one from a point.
    """
    steepness = np.hypot.reduce(gradient, axis=1)[:, None]  # which does not overflow
    direction, uphill = gradient / steepness, z + gradient
    with np.errstate(over="ignore"):  # a potential of extreme strength
        curvature = steepness * (steepness / np.maximum(2 * potential, _LEAST_POTENTIAL)[:, None])
    along = (direction * uphill).sum(axis=1, keepdims=True) / (1 + 1 / np.maximum(curvature, TINY))
    return along * direction - uphill, -uphill / (1 + curvature)


def _put(points: Points, where: Array, those: Points) -> Points:
    """Return points with ``those`` at the positions ``where``."""
    order = np.arange(len(points))
    order[where] = len(points) + np.arange(len(where))
    return Points.join([points, those]).take(order)


def _put_values(values: Array, where: Array, those: Array) -> Array:
    """Return values with ``those`` at the positions ``where``."""
    values = values.copy()
    values[where] = those
    return values
