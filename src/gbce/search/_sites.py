"""The one search: places of low objective, found from known points and drawn back towards the row in lock-step.

It works in the latent space, where every prior is ``N(0, I)`` and the *height* of a point is its potential plus half
its squared length: minus the log density of the posterior there. A known row that reaches the target is far too high
as it is, because it differs from the row in every feature. What it does not need is taken back, first many coordinates
at a time, then one by one, and what it needs is drawn back as far as that pays. Where this ends is a *site*.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gbce._numerics import HUGE, TINY
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points
from gbce.posterior import GibbsPosterior

__all__ = ["Memory", "Sites", "find_sites", "height_of", "rows_for_search", "walk_out"]

# The numbers of this file decide where sampling begins, never what is drawn: proposals around sites are weighed by
# their density. They were chosen by hand on single trees in 10 and 29 columns, and are judged by benchmarks/trust.py.
_ROUNDS, _TRIALS = 4, 4  # of taking back random sets of coordinates, and attempts for each point in a round
_MOST_AFTER = 16  # starts that are left after these rounds
_SINGLE_ROUNDS = 4  # of taking back and drawing back single coordinates, at most
_COARSE = np.array([0.0, 0.3, 0.6, 0.8, 0.92, 1.04, 1.15])  # parts of a coordinate that are tried, zero being the row
_FINE = np.array([0.0, 0.9, 0.96, 0.985, 0.995, 1.01])  # and from the second round on, in turn with the coarse ones
_LEAST_GAIN = (
    0.02  # of height in a round: less is not worth another one, because laws around a site are wider than that
)
_MOST_ROWS, _MOST_ROWS_PER_COORDINATE = 2_500, 80  # asked about by one search: the sum of both
_MOST_CELLS = 4_000_000  # numbers in all points that one search asks about: it bounds memory where columns are many
_BUDGET_PARTS = 4  # one part in so many of a budget may go into a search
_PROBED = 4  # starts whose slopes are looked at first: where none has any, the model is piecewise constant
_APART = 0.5  # distance within which two ends are one site: about the width of the laws that are put there
_HOPELESS = 40.0  # height above the lowest at which a start is given up after the first stage
_MARGIN = 16.0  # height above the lowest at which an end is no site: e**-16 of its density; width can make up for some
_MOST_SITES = 16
_OUTWARD = np.array([-3.0, -1.5, -0.75, 0.75, 1.5, 3.0])  # steps of the walk from the row, in latent deviations
_WALK_STEPS = 6  # at most
_EXCHANGED, _EXCHANGES, _BEST_EXCHANGES = 6, 40, 3  # ends that are given values of known rows, trials, and best of them
_NEWTON_STEPS = (1, 2, 5)  # at most; in between, ends that are the same are joined
# Starts that Newton steps are taken from: as many as so many rows allow for their first slopes, and this many at least.
_ROWS_FOR_FIRST_STEP, _LEAST_SLOPED = 600, 24
_FORESEEN_STEPS = 5  # Newton steps that all of these starts can take within the limit of rows
_LENGTHS = np.array([2.0, 1.0, 0.5, 0.2, 0.05])  # of a Newton step, tried in one call
_SLOPE = 1e-4  # a difference that tells a slope: many models round to single precision
_BEND = 0.5  # deviations aside, to see how wide a site is
_FARTHEST = 100.0  # latent deviations that a step may lead to: nothing beyond has a density that can be told from zero
_LEAST_POTENTIAL = 1e-6  # so that nothing is divided by zero
_REMEMBERED = 32  # points of each kind that are kept: of low objective, and cheap ones that reach the target


class Sites(NamedTuple):
    """Distinct places of low objective: ``k`` points, the lowest first, in ``m`` latent coordinates.

    ``height`` ``(k,)`` is minus the log density there. ``slope`` and ``bend`` ``(k, m)`` say how the potential changes
    around each: its slope, zero for a model that is piecewise constant, and its curvature over half a deviation.
    """

    points: Points
    height: Array
    slope: Array
    bend: Array


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

    def add(self, points: Points) -> None:
        """Look at evaluated points and keep the best."""
        both = points if self.kept is None else Points.join([self.kept, points])
        objective = self.posterior.mixture.objective(both.loss, both.cost)
        price = np.where(both.reached[:, 0], both.cost, np.inf)
        usable = np.isfinite(both.log_correction)
        first = np.argsort(np.where(usable, objective, np.inf), kind="stable")[:_REMEMBERED]
        cheap = np.argsort(np.where(usable, price, np.inf), kind="stable")[:_REMEMBERED]
        cheap = cheap[usable[cheap] & both.reached[cheap, 0]]
        self.kept = both.take(np.unique(np.concatenate([first[usable[first]], cheap])))


def height_of(posterior: GibbsPosterior, points: Points) -> Array:
    """Minus the log density ``(n,)`` of evaluated points in the latent space, up to a constant."""
    return _potential(posterior, points) + 0.5 * np.square(points.z).sum(axis=1)


def _potential(posterior: GibbsPosterior, points: Points) -> Array:
    """Minus the log density ``(n,)`` against the latent law; equal losses give equal potentials to the last bit."""
    return posterior.mixture.potential(points.loss) + points.log_correction


@dataclass
class _Asking:
    """Asks about latent points within a limit of rows, remembers the best and the heights."""

    posterior: GibbsPosterior
    memory: Memory
    rows_left: int

    def __call__(self, z: Array) -> tuple[Points, Array]:
        self.require(len(z))
        self.rows_left -= len(z)
        points = Points.evaluate(self.posterior, z)
        self.memory.add(points)
        return points, height_of(self.posterior, points)

    def require(self, n: int) -> None:
        """Refuse more rows than are left, before points are made of them."""
        if n > self.rows_left or self.posterior.affords(n) < n:
            raise BudgetSpentError(f"{n:,} more model rows are not within the limit of a search")


def rows_for_search(m: int) -> int:
    """Return how many rows a budget must still allow, in ``m`` coordinates, for a search to get all that it may ask."""
    return _BUDGET_PARTS * min(_MOST_ROWS + _MOST_ROWS_PER_COORDINATE * m, _MOST_CELLS // m)


def find_sites(
    posterior: GibbsPosterior, rng: np.random.Generator, starts: Points, memory: Memory, donors: Array | None = None
) -> Sites:
    """Draw evaluated points back towards the row, all of them together, and return where they end.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked, within its budget and a limit of 2,500 rows and 80 for each coordinate.
    rng : Generator
        For sets of coordinates that are taken back together.
    starts : Points
        Evaluated points; those of infinite height are left out.
    memory : Memory
        Gets every point that is asked about.
    donors : array of shape (n, m), optional
        Latent points of known rows, whose values single coordinates of the ends may be given.
    """
    height = height_of(posterior, starts)
    usable = np.isfinite(height)
    now, height = starts.take(usable), height[usable]
    m = starts.z.shape[1]
    ask = _Asking(posterior, memory, posterior.affords(rows_for_search(m)) // _BUDGET_PARTS)
    try:
        now, height = _take_back_sets(ask, rng, now, height)
        now, height = _keep_apart(now, height, np.inf, len(height))
        if _slopes(ask, now.take(np.arange(min(_PROBED, len(now))))).any():
            most = int(np.clip(_ROWS_FOR_FIRST_STEP / m, _LEAST_SLOPED, len(now)))
            most = max(min(most, ask.rows_left // (_FORESEEN_STEPS * m)), 2)
            lowest, others = np.split(np.arange(len(now)), [most // 2])  # others: valleys of higher ground
            chosen = np.append(lowest, rng.permutation(others)[: most // 2])
            now, height = now.take(chosen), height[chosen]
            for steps in _NEWTON_STEPS:  # no start is hopeless before its first step
                now, height = _descend_slopes(ask, now, height, steps)
                now, height = _keep_apart(now, height, _HOPELESS, _MOST_AFTER)
        now, height = _keep_apart(now, height, _HOPELESS, _MOST_AFTER)
        now, height = _draw_back(ask, now, height)
        if donors is not None and len(donors):
            exchanged = _exchange(ask, rng, now, height, donors)
            now, height = _keep_apart(*_both(now, height, *_draw_back(ask, *exchanged)), _HOPELESS, _MOST_AFTER)
    except BudgetSpentError:  # what there is by then are sites as well, only less low
        pass
    now, height = _keep_apart(now, height, _MARGIN, _MOST_SITES)
    ask.rows_left = max(ask.rows_left, 3 * now.z.size)  # for a last look around, whatever was spent before
    flat = np.zeros(now.z.shape)
    try:
        return Sites(now, height, *_slopes_and_bends(ask, now))
    except BudgetSpentError:
        return Sites(now, height, flat, flat)


def walk_out(posterior: GibbsPosterior, row: Points, memory: Memory) -> Points:
    """Walk from the row ``(1, m)`` by changes of single coordinates, those that gain most, and return where it ends."""
    now, height = row, height_of(posterior, row)
    m = row.z.shape[1]
    ask = _Asking(posterior, memory, _MOST_ROWS + _MOST_ROWS_PER_COORDINATE * m)
    try:
        for _ in range(_WALK_STEPS):
            to = now.z[:, :, None] + _OUTWARD
            now, height, gained = _try_singly(ask, now, height, to.transpose(0, 2, 1))
            if not gained:
                break
    except BudgetSpentError:
        pass
    return now


# --- stages -----------------------------------------------------------------------------------------------------------


def _take_back_sets(ask: _Asking, rng: np.random.Generator, now: Points, height: Array) -> tuple[Points, Array]:
    """Take random sets of coordinates back to the centre wherever that lowers a point: many at once, or about one."""
    k, m = now.z.shape
    for _ in range(_ROUNDS if k else 0):
        part = m ** -rng.uniform(0.0, 1.0, size=(_TRIALS * k, 1))
        trial = np.where(rng.random((_TRIALS * k, m)) < part, 0.0, np.tile(now.z, (_TRIALS, 1)))
        tried, heights = ask(trial)
        now, height = _take_lower(now, height, tried, heights.reshape(_TRIALS, k))
    return now, height


def _descend_slopes(ask: _Asking, now: Points, height: Array, steps: int) -> tuple[Points, Array]:
    """Take Newton steps from the points at which the potential has a slope, its curvature that of a squared loss.

    With slope ``g`` and potential ``P`` that curvature is ``g g' / 2P`` (Gauss and Newton), beside the prior's own.
    """
    active: Array = np.arange(len(height))
    for _ in range(steps):
        if len(active) == 0:
            break
        here = now.take(active)
        slope = _slopes(ask, here)
        sloped = (slope != 0).any(axis=1)
        active, here, slope = active[sloped], here.take(sloped), slope[sloped]
        if len(active) == 0:  # piecewise constant
            break
        potential = _potential(ask.posterior, here)
        trial = here.z + _LENGTHS[:, None, None] * _newton_step(here.z, slope, potential)
        trial = np.clip(trial, -_FARTHEST, _FARTHEST)
        tried, heights = ask(trial.reshape(-1, here.z.shape[1]))
        after, lower = _take_lower(here, height[active], tried, heights.reshape(len(_LENGTHS), -1))
        gain = height[active] - lower
        now, height = _put(now, active, after), _put_values(height, active, lower)
        active = active[gain > _LEAST_GAIN]
    return now, height


def _newton_step(z: Array, slope: Array, potential: Array) -> Array:
    """Solve ``(I + g g' / 2P) step = -(z + g)`` for each point ``(k, m)``."""
    steepness = np.hypot.reduce(slope, axis=1)[:, None]  # which does not overflow
    direction, uphill = slope / steepness, z + slope
    with np.errstate(over="ignore"):  # a potential of extreme strength
        bend = steepness * (steepness / np.maximum(2 * potential, _LEAST_POTENTIAL)[:, None])
    along = (direction * uphill).sum(axis=1, keepdims=True) / (1 + 1 / np.maximum(bend, TINY))
    return along * direction - uphill


def _slopes(ask: _Asking, points: Points) -> Array:
    """Slope of the potential ``(k, m)`` at points, by differences; zero where it is infinite or has none."""
    if len(points) == 0:
        return np.zeros(points.z.shape)
    return _slope_of(*_rises(ask, points, _SLOPE))


def _slopes_and_bends(ask: _Asking, points: Points) -> tuple[Array, Array]:
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


def _rises(ask: _Asking, points: Points, *steps: float) -> Array:
    """By how much the potential rises ``(steps, k, m)`` a step aside of points, in each coordinate: one call."""
    (k, m), n = points.z.shape, len(steps)
    ask.require(n * k * m)
    trial = np.tile(np.repeat(points.z, m, axis=0), (n, 1))
    trial[np.arange(n * k * m), np.tile(np.arange(m), n * k)] += np.repeat(steps, k * m)
    aside, _ = ask(trial)
    with np.errstate(invalid="ignore", over="ignore"):
        return _potential(ask.posterior, aside).reshape(n, k, m) - _potential(ask.posterior, points)[:, None]


def _put(points: Points, where: Array, those: Points) -> Points:
    """Return points with ``those`` in the places ``where``."""
    order = np.arange(len(points))
    order[where] = len(points) + np.arange(len(where))
    return Points.join([points, those]).take(order)


def _put_values(values: Array, where: Array, those: Array) -> Array:
    values = values.copy()
    values[where] = those
    return values


def _draw_back(ask: _Asking, now: Points, height: Array) -> tuple[Points, Array]:
    """Draw single coordinates back until nothing is gained; ends that are the same are joined on the way."""
    for number in range(_SINGLE_ROUNDS):
        now, height, gained = _draw_back_singly(ask, now, height, _FINE if number % 2 else _COARSE)
        if number and not gained:
            break
        now, height = _keep_apart(now, height, _HOPELESS, _MOST_AFTER)
    return now, height


def _exchange(
    ask: _Asking, rng: np.random.Generator, now: Points, height: Array, donors: Array
) -> tuple[Points, Array]:
    """Give the lowest points one or two coordinates of known points, or take one back: the best such changes."""
    now, height = now.take(np.arange(min(_EXCHANGED, len(now)))), height[:_EXCHANGED]
    k, m = now.z.shape
    trial = np.tile(now.z, (_EXCHANGES, 1))
    line = np.arange(len(trial))
    donor = donors[rng.integers(len(donors), size=len(trial))]
    for share in (1.0, 0.3):
        j = np.where(rng.random(len(trial)) < share, rng.integers(m, size=len(trial)), -1)
        trial[line[j >= 0], j[j >= 0]] = donor[line[j >= 0], j[j >= 0]]
    back = rng.integers(m, size=len(trial))
    kept = rng.random(len(trial)) < 0.5
    trial[line[~kept], back[~kept]] = 0.0
    tried, heights = ask(trial)
    order = np.argsort(heights.reshape(_EXCHANGES, k), axis=0, kind="stable")[:_BEST_EXCHANGES]
    best = (order * k + np.arange(k)).ravel()
    return tried.take(best), heights[best]


def _both(now: Points, height: Array, more: Points, heights: Array) -> tuple[Points, Array]:
    return Points.join([now, more]), np.append(height, heights)


def _draw_back_singly(ask: _Asking, now: Points, height: Array, parts: Array) -> tuple[Points, Array, bool]:
    """Draw single coordinates back, all the way or a part of it, or a little out, and join what gains."""
    return _try_singly(ask, now, height, now.z[:, None, :] * parts[:, None])


def _try_singly(ask: _Asking, now: Points, height: Array, to: Array) -> tuple[Points, Array, bool]:
    """Try values ``to`` ``(k, t, m)`` of single coordinates, then the best ones of each point together."""
    k, m = now.z.shape
    start, kind, coordinate = np.nonzero(to != now.z[:, None, :])
    if len(start) == 0:
        return now, height, False
    ask.require(len(start))
    trial = now.z[start]
    trial[np.arange(len(start)), coordinate] = to[start, kind, coordinate]
    _, heights = ask(trial)
    table = np.full(to.shape, np.inf)
    table[start, kind, coordinate] = heights
    best, least = table.argmin(axis=1), table.min(axis=1)  # (k, m): for each coordinate by itself
    gains = least < height[:, None] - _LEAST_GAIN / m
    if not gains.any():
        return now, height, False
    goal = np.take_along_axis(to, best[:, None, :], axis=1)[:, 0]
    # all that gain together, the better half of them, and the best one alone, which is known already
    rank = np.argsort(np.argsort(np.where(gains, least, np.inf), axis=1, kind="stable"), axis=1, kind="stable")
    count = gains.sum(axis=1)
    shares = [count, np.ceil(count / 2), np.minimum(count, 2), np.minimum(count, 1)]
    together = np.concatenate([np.where(rank < n[:, None], goal, now.z) for n in shares])
    joined, joint_heights = ask(together)
    after, height_after = _take_lower(now, height, joined, joint_heights.reshape(len(shares), k))
    return after, height_after, bool((height - height_after > _LEAST_GAIN).any())


def _take_lower(now: Points, height: Array, tried: Points, heights: Array) -> tuple[Points, Array]:
    """Replace points ``k`` by the lowest of the trials ``(t, k)``, where that is lower."""
    k = len(height)
    winner = heights.argmin(axis=0)
    least = heights[winner, np.arange(k)]
    lower = least < height
    return now.replace_where(tried.take(winner * k + np.arange(k)), lower), np.where(lower, least, height)


def _keep_apart(points: Points, height: Array, margin: float, most: int) -> tuple[Points, Array]:
    """Return the lowest points, within a margin of the lowest of all, that lie apart from each other, in order."""
    order = np.argsort(height, kind="stable")
    order = order[np.isfinite(height[order])]
    order = order[height[order] <= height[order[:1]].min(initial=np.inf) + margin]
    kept: list[int] = []
    for i in order:
        if len(kept) < most and (not kept or _distances(points.z[kept], points.z[i]).min() > _APART):
            kept.append(int(i))
    where = np.array(kept, dtype=int)
    return points.take(where), height[where]


def _distances(z: Array, to: Array) -> Array:
    return np.linalg.norm(z - to, axis=1)
