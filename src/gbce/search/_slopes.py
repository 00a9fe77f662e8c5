"""Descents along slopes, for potentials that have any: from the lowest points, from wide ones, from unexplained ones.

Points that were taken back towards the row lie in the valleys that are widest there, and so do most candidates. A well
that is narrower, or behind another, is found from points of wide laws, and from candidates that lie lower than all
wells known so far explain. Slopes are differences, and cost a row for each coordinate.
"""

from dataclasses import dataclass, field

import numpy as np

from gbce._numerics import HUGE, MATRIX_UP_TO, TINY
from gbce.base import Array
from gbce.draws import Points
from gbce.search._asking import LEAST_GAIN, Asking, height_of, join, keep_apart, potential_of, take_lower
from gbce.search._wells import Slopes, Wells

__all__ = ["SLOPED_SHARE", "Descent", "find_slopes", "find_slopes_and_bends"]

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

    ask: Asking
    smooth: bool
    _seen: list[Slopes] = field(init=False, default_factory=list)

    def choose(self, rng: np.random.Generator, now: Points, height: Array) -> tuple[Points, Array]:
        """Choose where to begin: the lowest points, and points of higher ground, of wide laws if it is smooth."""
        m = now.z.shape[1]
        affordable = self.ask.rows_left // (_FORESEEN_STEPS * m)
        if not self.smooth:
            most = int(np.clip(_ROWS_FOR_FIRST_STEP / m, _LEAST_SLOPED, len(now)))
            most = max(min(most, affordable), 2)
            lowest, others = np.split(np.arange(len(now)), [most // 2])
            chosen = np.append(lowest, rng.permutation(others)[: most // 2])
            return now.take(chosen), height[chosen]
        most = max(min(_WIDE_STARTS, affordable), 2)
        low = min(max(int(_LOWEST_SHARE * most), 1), len(now))
        width = rng.uniform(*_WIDTHS, size=(most - low, 1))
        wide, heights = self.ask(width * rng.standard_normal((most - low, m)))
        finite = np.isfinite(heights)
        return join(now.take(np.arange(low)), height[:low], wide.take(finite), heights[finite])

    def descend(self, now: Points, height: Array, steps: int) -> tuple[Points, Array]:
        """Take Newton steps from the points at which the potential has a slope, its curvature that of a squared loss.

        With slope ``g`` and potential ``P`` that curvature is ``g g' / 2P`` (Gauss and Newton), beside the prior's own.
        Where it is smooth, a round well of that curvature in every direction is tried as well.
        """
        active: Array = np.arange(len(height))
        for _ in range(steps):
            if len(active) == 0:
                break
            here = now.take(active)
            slope = find_slopes(self.ask, here)
            sloped = (slope != 0).any(axis=1)
            active, here, slope = active[sloped], here.take(sloped), slope[sloped]
            if len(active) == 0:  # piecewise constant
                break
            self._seen.append(Slopes(here.z, height[active], here.z + slope))
            steep, round_ = _newton_steps(here.z, slope, potential_of(self.ask.posterior, here))
            trial = here.z + _LENGTHS[:, None, None] * steep
            if self.smooth:
                trial = np.concatenate([trial, here.z + _ROUND_LENGTHS[:, None, None] * round_])
            trial = np.clip(trial, -_FARTHEST, _FARTHEST)
            tried, heights = self.ask(trial.reshape(-1, here.z.shape[1]))
            after, lower = take_lower(here, height[active], tried, heights.reshape(len(trial), -1))
            gain = height[active] - lower
            now, height = _put(now, active, after), _put_values(height, active, lower)
            active = active[gain > LEAST_GAIN]
        return now, height

    def descend_unexplained(
        self, others: Points, now: Points, height: Array, margin: float, most: int
    ) -> tuple[Points, Array]:
        """Descend from evaluated points that lie lower than known wells explain, as long as that leads to new ones.

        ``margin`` and ``most`` say which ends are kept, as in :func:`keep_apart`.
        """
        heights = height_of(self.ask.posterior, others)
        finite = np.isfinite(heights)
        others, heights, m = others.take(finite), heights[finite], others.z.shape[1]
        if not self.smooth or m > MATRIX_UP_TO or not self._seen or not len(others):
            return now, height
        for _ in range(_UNEXPLAINED_ROUNDS):
            wells = Wells.fit(now.z, height, Slopes.join(self._seen))
            explained = wells.explain(others.z, heights)
            least = np.argsort(explained, kind="stable")[:_UNEXPLAINED]
            least = least[explained[least] < _EXPLAINED]
            rows = len(least) * (m + len(_LENGTHS) + len(_ROUND_LENGTHS))  # of a step
            if len(least) == 0 or self.ask.rows_left < rows:
                break
            ends, depths = self.descend(
                others.take(least), heights[least], min(self.ask.rows_left // rows, _UNEXPLAINED_STEPS)
            )
            new = wells.explain(ends.z, depths) < _NEW
            now, height = keep_apart(*join(now, height, ends, depths), margin, most)
            if not new.any():
                break
        return now, height


def find_slopes(ask: Asking, points: Points) -> Array:
    """Slope of the potential ``(k, m)`` at points, by differences; zero where it is infinite or has none."""
    if len(points) == 0:
        return np.zeros(points.z.shape)
    return _slope_of(*_rises(ask, points, _SLOPE))


def find_slopes_and_bends(ask: Asking, points: Points) -> tuple[Array, Array]:
    """Slope of the potential ``(k, m)``, and its curvature over half a deviation, zero where one side does not rise."""
    if len(points) == 0:
        return np.zeros(points.z.shape), np.zeros(points.z.shape)
    near, up, down = _rises(ask, points, _SLOPE, _BEND, -_BEND)
    up, down = (np.nan_to_num(one, posinf=HUGE) for one in (up, down))
    with np.errstate(over="ignore"):
        bend = np.where((up > 0) & (down > 0), np.minimum(up + down, HUGE) / _BEND**2, 0.0)
    return _slope_of(near), bend


def _slope_of(rise: Array) -> Array:
    with np.errstate(over="ignore"):
        slope = rise / _SLOPE
    return np.where(np.isfinite(slope), slope, 0.0)


def _rises(ask: Asking, points: Points, *steps: float) -> Array:
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
        bend = steepness * (steepness / np.maximum(2 * potential, _LEAST_POTENTIAL)[:, None])
    along = (direction * uphill).sum(axis=1, keepdims=True) / (1 + 1 / np.maximum(bend, TINY))
    return along * direction - uphill, -uphill / (1 + bend)


def _put(points: Points, where: Array, those: Points) -> Points:
    """Return points with ``those`` in the places ``where``."""
    order = np.arange(len(points))
    order[where] = len(points) + np.arange(len(where))
    return Points.join([points, those]).take(order)


def _put_values(values: Array, where: Array, those: Array) -> Array:
    values = values.copy()
    values[where] = those
    return values
