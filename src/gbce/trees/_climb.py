"""Tempering on cells: islands of points climb from the prior to eta, or until a goal for eta is met.

Rungs (temperatures) are shared by all islands, as far apart as half of the points stay effective; on each, points are
resampled within their island and every column is drawn from its full conditional distribution.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import normalise, resample_systematically
from gbce.base import Array
from gbce.eta import STEEPEST, GoalProgress
from gbce.posterior import GibbsPosterior
from gbce.trees._coordinate_draws import CellPoints, CellProblem
from gbce.trees._neighbourhoods import SHARE, Places, find_places, is_covered, measure_missed


@dataclass(frozen=True)
class Tuning:
    """What only tunes a run."""

    enough: float = 0.5  # of the points: the effective sample size kept on every rung (a convention)
    # Points of the prior for each that climbs: scoring one takes a fortieth of the time of drawing all of its columns
    # (a forest on california), and where so many have enough weight, no column has to be drawn at all.
    first: int = 8
    halvings: int = 60
    # The last rung lies this much above the eta that seems to meet a goal, so as to include it. At 1.05 every second
    # run had to go on and begin its last rung anew.
    beyond: float = 1.2
    close: float = 1.05  # the same with draws around places, which may hold much at that eta and little above it
    most_rungs: int = 500
    first_level: float = 1e-6
    prior_points: int = 500  # points of the prior and of the other rungs that are kept, so that other etas can be had
    rung_points: int = 800
    # Variance of the evidence relative to that between independent islands, because they share their rungs.
    inflation: float = 1.1
    # Islands agree if the effective draws, over all figures and for the worst, are at least these shares of n_draws,
    # and the log evidence is this certain: a little better than what a good verdict needs.
    agreed: float = 0.22
    agreed_worst: float = 0.055
    agreed_evidence: float = 0.4
    more: int = 3  # times as many points where they do not


TUNING = Tuning()

# --- populations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rung:
    """Points of all islands, the same number of each in turn, at one level, and each island's log evidence ``(J,)``.

    ``variance`` is that of the log evidence if all points were independent, which is the least that it can be.
    """

    points: CellPoints
    level: float
    log_z: Array
    variance: float = 0.0

    @property
    def island(self) -> Array:
        """The island of each point."""
        return np.repeat(np.arange(len(self.log_z)), len(self.points) // len(self.log_z))

    def by_island(self, values: Array) -> Array:
        """Arrange values ``(n,)`` by island ``(J, n / J)``."""
        return values.reshape(len(self.log_z), -1)

    def weights(self, log_weights: Array) -> Array:
        """Return weights ``(n,)`` with log weights inside islands, islands counting by their evidence."""
        return normalise(log_weights + np.repeat(self.log_z, len(self.points) // len(self.log_z)))

    def thin(self, n: int) -> "Rung":
        """Return about ``n`` of the points, evenly spaced, the same number of each island."""
        n_islands = len(self.log_z)
        each = len(self.points) // n_islands
        kept = min(max(n // n_islands, 1), each)
        inside = np.linspace(0, each - 1, kept).astype(int)
        return replace(self, points=self.points.take((np.arange(n_islands)[:, None] * each + inside).ravel()))


class _Weighed(NamedTuple):
    """Points of all islands in turn, with log weights under the prior ``(n,)``, on the scale of the evidence.

    ``source`` ``(n,)`` says which points were drawn from the same distribution.
    """

    points: CellPoints
    base: Array
    source: Array
    n_islands: int


def log_mean(values: Array) -> Array:
    """Return the log of the mean of exponentials along the last axis; minus infinity if all are."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(values, axis=-1) - np.log(values.shape[-1]))


# --- tempering -------------------------------------------------------------------------------------------------------


@dataclass
class Climb:
    """One run of all islands from the prior to eta, or until a goal is met or given up."""

    problem: CellProblem
    rng: np.random.Generator
    n_points: int
    n_islands: int
    n_sweeps: int
    n_draws: int  # points of the last rung
    places: Places | None = None  # around which some points are drawn anew on every rung
    rungs: list[Rung] = field(default_factory=list)
    complete: bool = True

    @cached_property
    def progress(self) -> GoalProgress:
        """Progress towards the goal."""
        return GoalProgress(self.posterior.goal)

    @property
    def posterior(self) -> GibbsPosterior:
        """The posterior that is climbed to."""
        return self.problem.posterior

    def potential(self, loss: Array, level: float) -> Array:
        """Return the potential ``(n,)`` of losses ``(n, K)`` at a level."""
        return replace(self.posterior.mixture, eta=level).potential(loss)

    def run(self) -> None:
        """Climb, and keep the points of every rung."""
        self.rungs.append(self._start())
        self._record(self.rungs[0])
        self._climb()
        self._extend()
        while self.can_go_on and self._misses_goal():
            self.go_on()

    def _record(self, now: Rung) -> None:
        """Record how far a rung is from the goal."""
        weights = now.weights(np.zeros(len(now.points)))
        self.progress.add(now.level, now.points.loss[:, 0], now.points.reached[:, 0], weights)

    def _misses_goal(self) -> bool:
        """Whether the draws of the last rung do not meet the goal."""
        last, goal = self.rungs[-1], self.posterior.goal
        weights = last.weights(np.zeros(len(last.points)))
        shortfall = 0.0 if goal is None else goal.shortfall(last.points.loss[:, 0], last.points.reached[:, 0], weights)
        return shortfall > 0

    @property
    def can_go_on(self) -> bool:
        """Whether the goal was met, and a higher level can be had."""
        below = self.rungs[-1].level < STEEPEST and len(self.rungs) <= TUNING.most_rungs
        return self.complete and self.progress.met and below

    def go_on(self) -> None:
        """Climb further where the goal was met by chance only."""
        self.rungs[-1] = self.rungs[-1].thin(self.n_points)
        self._move_up(np.inf)
        self._climb()
        self._extend()

    def _climb(self) -> None:
        """Climb to eta, or until the goal is met or given up, or until time is up."""
        end = np.inf if self.posterior.goal is not None else self.posterior.mixture.eta
        while self.rungs[-1].level < end and not self.progress.finished:
            if self.posterior.budget.time_left <= 0 or len(self.rungs) > TUNING.most_rungs:
                self.complete = False
                break
            self._move_up(end)

    def _move_up(self, end: float) -> None:
        """Add the next rung."""
        now = self.rungs[-1]
        pool = self._weigh(now)
        level = self._find_level(now, pool, end)
        if now.level == 0 and self._count_effective(pool, level) >= TUNING.enough * self.n_draws:
            rung = self._resample(pool, level, self.n_draws)  # independent draws, up to some that repeat
        else:
            rung = self._move(self._resample(pool, level, self.n_points))
        self.rungs.append(replace(rung, variance=now.variance + self._compute_variance(pool, level)))
        self._record(self.rungs[-1])

    def _start(self) -> Rung:
        """Return points of the prior."""
        points = self.problem.draw_prior(self.rng, TUNING.first * self.n_points)
        return Rung(points, 0.0, np.zeros(self.n_islands))

    def _weigh(self, now: Rung) -> "_Weighed":
        """Return the points of a rung, and draws around places, with weights under the prior."""
        own = self.potential(now.points.loss, now.level) + np.repeat(now.log_z, len(now.points) // self.n_islands)
        if self.places is None:
            return _Weighed(now.points, own, np.zeros(len(now.points), dtype=int), self.n_islands)
        points, ratio, source = self.places.surround(self.rng, self.problem, now.points, self.n_islands)
        log_z = np.repeat(now.log_z, len(points) // self.n_islands)
        with np.errstate(invalid="ignore"):
            own = np.log1p(-SHARE) - self.potential(points.loss, now.level) - log_z
        base = -np.logaddexp(np.nan_to_num(own, nan=np.inf), np.log(SHARE) + ratio)
        return _Weighed(points, base, source, self.n_islands)

    def _find_level(self, now: Rung, pool: "_Weighed", end: float) -> float:
        """Return the next level: as far as enough points stay effective, or just beyond where the goal is met."""

        def lasts(level: float) -> bool:
            return self._count_effective(pool, level) >= TUNING.enough * self.n_points

        high = end if np.isfinite(end) else 2.0 * max(now.level, TUNING.first_level)
        while not np.isfinite(end) and high < STEEPEST and lasts(high):
            high *= 2.0
        level = high if lasts(high) else _bisect(lambda level: not lasts(level), now.level, high)
        goal = self.posterior.goal
        if goal is None:
            return level

        def meets(level: float) -> bool:
            weights = normalise(self._log_weights(pool, level).ravel())
            return goal.shortfall(pool.points.loss[:, 0], pool.points.reached[:, 0], weights) <= 0

        if not meets(level):
            return level
        beyond = TUNING.beyond if self.places is None else TUNING.close
        return min(level, max(beyond * _bisect(meets, now.level, level), goal.least))

    def _log_weights(self, pool: "_Weighed", level: float) -> Array:
        """Return log weights at a level, by island ``(J, n / J)``; their means are the islands' evidences."""
        return np.asarray(pool.base - self.potential(pool.points.loss, level)).reshape(pool.n_islands, -1)

    def _count_effective(self, pool: "_Weighed", level: float) -> float:
        """Return the effective number of points at a level, summed over islands."""
        weights = self._log_weights(pool, level)
        top = weights.max(axis=1, keepdims=True)
        weights = np.exp(weights - np.where(np.isfinite(top), top, 0.0))
        squares = np.square(weights).sum(axis=1)
        return float((np.square(weights.sum(axis=1)) / np.where(squares > 0, squares, 1.0)).sum())

    def _compute_variance(self, pool: "_Weighed", level: float) -> float:
        """Return the variance of the log evidence from the step to a level: of independent points of every source."""
        weights = normalise(self._log_weights(pool, level).ravel())
        stratum = np.repeat(np.arange(pool.n_islands), len(weights) // pool.n_islands) + pool.n_islands * pool.source
        n, total, squares = (np.bincount(stratum, values) for values in (weights**0, weights, np.square(weights)))
        some = n > 1
        return float(((squares - np.square(total) / np.maximum(n, 1)) * n / np.maximum(n - 1, 1))[some].sum())

    def _resample(self, pool: "_Weighed", level: float, n: int) -> Rung:
        """Resample every island systematically for the next level, to ``n`` points in all."""
        weights, each = self._log_weights(pool, level), n // pool.n_islands
        log_z, picks = log_mean(weights), []
        for j, own in enumerate(weights):
            if np.isfinite(log_z[j]):
                picks.append(j * len(own) + resample_systematically(self.rng, normalise(own), each))
            else:  # an island without mass has no weight, but goes on
                picks.append(j * len(own) + np.arange(each))
        return Rung(pool.points.take(np.concatenate(picks)), level, log_z)

    def _move(self, now: Rung) -> Rung:
        """Sweep over all columns of every point, ``n_sweeps`` times, at the points' level."""
        mixture, points = replace(self.posterior.mixture, eta=now.level), now.points
        for _ in range(self.n_sweeps):
            points = self.problem.sweep(self.rng, points, mixture)
        return replace(now, points=points)

    def find_missed(self, eta: float) -> tuple[Places | None, float]:
        """Return places to which chains come from elsewhere, and the share of the posterior that draws miss there.

        The posterior is that at ``eta``, and the draws are the last ones, weighted.
        """
        last, mixture = self.rungs[-1], replace(self.posterior.mixture, eta=eta)
        with np.errstate(invalid="ignore"):
            more = self.potential(last.points.loss, last.level) - mixture.potential(last.points.loss)
        more = last.by_island(np.nan_to_num(more, nan=-np.inf, posinf=np.inf, neginf=-np.inf))
        log_z = last.log_z + log_mean(more)
        if is_covered(len(self.rungs[0].points), float(log_mean(log_z))):
            return None, 0.0
        places = find_places(self.rng, self.problem, self.rungs[0].points, mixture)
        if places is None:
            return None, 0.0
        weights = np.array([normalise(own) for own in more])
        return places, measure_missed(self.rng, self.problem, places, mixture, last.points, weights, log_z)

    def _extend(self) -> None:
        """Sweep on at the last level until it has all draws, states of the same chains."""
        last, n = self.rungs[-1], self.n_draws
        states, now = [last.points], last
        while len(states) * len(last.points) < n:
            if last.level == 0:
                now = replace(now, points=self.problem.draw_prior(self.rng, len(last.points)))
            else:
                now = self._move(now)
            states.append(now.points)
        n_islands, each = len(last.log_z), len(last.points) // len(last.log_z)
        order = np.arange(len(states) * len(last.points)).reshape(len(states), n_islands, each)
        joined = CellPoints.join(states).take(order.transpose(1, 0, 2).ravel())
        self.rungs[-1] = replace(last, points=joined).thin(n)


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least level between two at which a condition holds that holds at ``high``."""
    for _ in range(TUNING.halvings):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
        if high - low <= 1e-4 * high:
            break
    return high
