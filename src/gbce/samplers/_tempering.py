"""Tempered SMC: the bridge from the initial distribution to the posterior, its levels, and the moves on each rung.

Along the bridge a point's density against ``N(0, I)`` is ``exp(-u)``. Levels -1 to 0 bring in the ``log_correction`` of
a map that is not the prior itself (zero for an exact map); above 0, a level is the ``beta`` of the posterior at that
smaller eta. The points of all rungs are recycled as one weighted pool.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import MATRIX_UP_TO, TINY, effective_sample_size, log_mean_exp, normalise, resample_systematically
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points
from gbce.eta import STEEPEST, GoalProgress
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._moves import Kernel, Learned, StepSizes, correlate_with_start
from gbce.samplers._proposals import MixtureProposal, NormalComponent, ProductOfMarginals

_HALVINGS = 200  # at most; near the prior a level may be tiny, and bisection stops at the precision below
_LEVEL_PRECISION = 1e-3  # relative, of a step: the effective size need not be met exactly
_LEAST_STEP = 1e-12  # relative, of a level: a shorter step is rounding
_FIRST_BETA = 1e-6  # from which doubling starts where eta is unbounded

# Tempering pass.
ENOUGH = 0.5  # of the points that are moved: the effective sample size kept on every rung (a convention)
_FORGOTTEN = 0.25  # correlation with its start at which a population counts as moved; by hand
_LAST_RUNG = 4  # times as many points are kept of the last rung: the posterior rests on it most
_MAX_RUNGS = 500  # against a pass without end
_MOST_CELLS = 10_000_000  # numbers in the states kept of one rung: 80 MB; up to 100 coordinates that is all states
_POWER_ITERATIONS = 15  # enough for a dominant direction; otherwise any direction will do
_LEAST_WORTH = 10.0  # least effective sample size assumed for a fit
# A pass towards a target that no point reaches ends when the mean loss is at most this share above the lowest one, and
# that one fell by less than this share on the last rungs. Chosen by hand: a larger eta can gain no more, and the rungs
# up to it take hundreds of thousands of rows on a forest.
_NEAR_LOWEST, _FELL = 0.05, 0.01
STALLED = "no point reached the target and the loss no longer fell"

# --- bridge and levels ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bridge:
    """Densities between the initial distribution and the posterior."""

    mixture: Mixture  # turns losses into a potential; its own eta is not used
    proposal: MixtureProposal | None = None  # source of a part of the first population; its share falls with beta
    fade: float = 1.0  # the beta at which that share becomes zero

    def u(self, points: Points, level: float) -> Array:
        """Return the negative log density ``(n,)`` of evaluated points at a level, against ``N(0, I)``."""
        return self.along(points)(level)

    def along(self, points: Points) -> Callable[[float], Array]:
        """Return ``u`` of the points as a function of the level; the proposal's density is computed once."""
        log_ratio: Array | None = None

        def u(level: float) -> Array:
            nonlocal log_ratio
            part = 1.0 + min(level, 0.0)
            u = part * points.log_correction if part > 0 else np.zeros(len(points.log_correction))  # it may be infinite
            if level > 0:
                u = u + replace(self.mixture, eta=level).potential(points.loss)
            share = 1.0 - max(level, 0.0) / self.fade if self.fade > 0 else 0.0
            if self.proposal is not None and share > 0:
                log_ratio = self.proposal.log_density(points.z) if log_ratio is None else log_ratio
                u = u - share * log_ratio
            return u

        return u


@dataclass(frozen=True)
class Population:
    """Evaluated points of several islands at one level, of equal weight within each island."""

    points: Points  # all of them
    island: Array  # (n,): the island of each
    level: float  # on the bridge
    log_z: Array  # (J,): each island's own estimate of the level's log normalising constant

    def increments(self, bridge: Bridge, level: float, other: Bridge | None = None) -> Array:
        """Return the log weights ``(n,)`` that carry the points to another level, possibly of another bridge."""
        return bridge.u(self.points, self.level) - (other or bridge).u(self.points, level)

    def log_z_after(self, increments: Array) -> Array:
        """Return each island's log normalising constant at the level the increments lead to."""
        return self.log_z + np.array([log_mean_exp(increments[self.island == j]) for j in range(len(self.log_z))])

    def weights(self, bridge: Bridge) -> Array:
        """Return weights ``(n,)`` under the posterior at the level's beta, islands counting by their evidence."""
        plain = replace(bridge, proposal=None)
        return normalise(self.log_z[self.island] + self.increments(bridge, self.level, plain))

    def join(self, other: "Population") -> "Population":
        """Return both populations of one level as one, each with its own islands."""
        island = np.concatenate([self.island, other.island + len(self.log_z)])
        points = Points.join([self.points, other.points])
        return Population(points, island, self.level, np.concatenate([self.log_z, other.log_z]))

    def thin(self, most: int) -> "Population":
        """Return at most ``most`` of the points, evenly spaced, the same number from each island."""
        if len(self.points) <= most:
            return self
        each = most // len(self.log_z)
        own = [np.flatnonzero(self.island == j) for j in range(len(self.log_z))]
        chosen = np.concatenate([members[np.linspace(0, len(members) - 1, each).astype(int)] for members in own])
        return replace(self, points=self.points.take(chosen), island=self.island[chosen])


def find_next_level(population: Population, bridge: Bridge, least: float, end: float) -> tuple[float, Array]:
    """Return the farthest level up to ``end`` with an effective size of ``least``, and the log weights to it."""
    u = bridge.along(population.points)
    here = u(population.level)

    def counts(level: float) -> bool:
        return _effective_points(population, here - u(level)) >= least

    low, high = population.level, end
    if low < 0 and counts(0.0):
        low = 0.0
    elif low < 0:
        high = 0.0
    if not np.isfinite(high):
        high = 2.0 * max(low, _FIRST_BETA)
        while high < STEEPEST and counts(high):
            low, high = high, 2.0 * high
    if counts(high):
        return high, here - u(high)
    start = low
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if counts(middle) else (low, middle)
        if high - low <= _LEVEL_PRECISION * (high - start) or high - start <= _LEAST_STEP * abs(high):
            break
    level = low if low > start else high  # the least step, even if it loses too many points
    return level, here - u(level)


def _effective_points(population: Population, increments: Array) -> float:
    """Return the effective sample size, summed over islands."""
    total = 0.0
    for j in range(len(population.log_z)):
        own = increments[population.island == j]
        if np.isfinite(own).any():
            total += effective_sample_size(normalise(own))
    return total


def recycle(rungs: Sequence[Population], bridge: Bridge) -> tuple[Points, Array, Array]:
    """Return the points of all rungs together, the base log weight of each, and its island.

    All points are weighted as draws from the mixture of all rungs (the deterministic mixture of Veach and Guibas, 1995;
    for tempering, Nguyen, Septier, Peters and Delignon, 2016), so that the posterior at any eta up to the last one, and
    the prior itself, are reweightings of one pool.
    """
    pool = Points.join([rung.points for rung in rungs])
    share = np.concatenate([(rung.log_z - log_mean_exp(rung.log_z))[rung.island] for rung in rungs])
    island = np.concatenate([rung.island for rung in rungs])
    return pool, share - log_density(rungs, bridge, pool), island


def log_density(rungs: Sequence[Population], bridge: Bridge, points: Points) -> Array:
    """Return the log expected number of points of all rungs at evaluated points ``(n,)``, against ``N(0, I)``."""
    u = bridge.along(points)
    return logsumexp([np.log(len(rung.points)) - u(rung.level) - log_mean_exp(rung.log_z) for rung in rungs], axis=0)


# --- tempering pass ---------------------------------------------------------------------------------------------------


@dataclass
class TemperingPass:
    """Result of a pass: its rungs, the last level, and statistics of the moves."""

    rungs: list[Population]
    top: float = -1.0
    complete: bool = True
    sweeps: list[int] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    rounds: int = 1
    ended: str | None = None

    def join(self, other: "TemperingPass") -> "TemperingPass":
        """Return this pass with the islands of another one up the same levels beside its own."""

        def larger(mine: list[Any], theirs: list[Any]) -> list[Any]:
            return [max(pair) for pair in zip(mine, theirs, strict=True)]

        return TemperingPass(
            [mine.join(theirs) for mine, theirs in zip(self.rungs, other.rungs, strict=True)],
            self.top,
            self.complete,
            larger(self.sweeps, other.sweeps),
            [0.5 * (a + b) for a, b in zip(self.acceptance, other.acceptance, strict=True)],
            larger(self.memory, other.memory),
            self.rounds + 1,
        )


def run_tempering(
    posterior: GibbsPosterior,
    rng: np.random.Generator,
    bridge: Bridge,
    start: Population,
    n: int,
    max_sweeps: int,
    levels: Sequence[float] = (),
    unreached: "StallDetector | None" = None,
) -> TemperingPass:
    """Temper ``n`` points up to eta, or until the goal is met or given up, or until the budget ends.

    With ``levels`` the rungs are those of an earlier pass. With ``unreached`` it also ends when further rungs promise
    nothing while no point reaches the target.
    """
    end = np.inf if posterior.goal is not None else posterior.mixture.eta
    end = levels[-1] if levels else end
    now, steps, history = start, StepSizes(), GoalProgress(None if levels else posterior.goal)
    done = TemperingPass([start])
    while now.level < end and not history.finished:
        states = 1.0 if now is start else len(now.points) / n
        if levels:
            level = levels[len(done.rungs) - 1]
            increments = now.increments(bridge, level)
        else:
            level, increments = find_next_level(now, bridge, ENOUGH * states * min(n, len(now.points)), end)
        done.top = level
        moving = _resample(now, rng, increments, level, n)
        kernel = _make_kernel(posterior, bridge, now, moving, increments, states)
        moves = _move_until_forgotten(rng, kernel, moving, steps, max_sweeps)
        if moves.sweeps:
            now, steps = moves.population, moves.steps
            done.rungs.append(now.thin(n))
            done.sweeps.append(moves.sweeps)
            done.acceptance.append(moves.acceptance)
            done.memory.append(moves.memory)
        if moves.out_of_budget or len(done.rungs) > _MAX_RUNGS:
            done.complete = level == end and moves.sweeps > 0
            break
        if history.goal is not None:
            history.add(now.level, now.points.loss[:, 0], now.points.reached[:, 0], now.weights(bridge))
        if unreached is not None and level < end and unreached.stalls(now, bridge):
            done.complete, done.ended = False, STALLED
            break
    if len(done.rungs) > 1:
        done.rungs[-1] = now.thin(_LAST_RUNG * n)
    return done


def _resample(before: Population, rng: np.random.Generator, increments: Array, level: float, n: int) -> Population:
    """Resample each island, systematically along its principal direction: modes apart along it keep their shares."""
    n_islands = len(before.log_z)
    each = -(-n // n_islands)
    picks = []
    for j in range(n_islands):
        own = np.flatnonzero(before.island == j)
        if not np.isfinite(increments[own]).any():  # an island without mass has no weight, but goes on
            own = np.arange(len(increments))
        weights = normalise(increments[own])
        order = np.argsort(_principal_coordinates(before.points.z[own], weights), kind="stable")
        picks.append(own[order[resample_systematically(rng, weights[order], each)]])
    points = before.points.take(np.concatenate(picks))
    return Population(points, np.repeat(np.arange(n_islands), each), level, before.log_z_after(increments))


def _principal_coordinates(z: Array, weights: Array) -> Array:
    """Return coordinates ``(n,)`` of weighted points ``(n, m)`` along (about) their first principal direction."""
    offset = z - weights @ z
    if z.shape[1] <= MATRIX_UP_TO:
        return offset @ np.linalg.eigh((offset * weights[:, None]).T @ offset)[1][:, -1]
    direction = np.eye(z.shape[1])[np.argmax(weights @ np.square(offset))]
    for _ in range(_POWER_ITERATIONS):
        direction = (weights * (offset @ direction)) @ offset
        direction /= max(float(np.linalg.norm(direction)), TINY)
    return offset @ direction


def _make_kernel(
    posterior: GibbsPosterior, bridge: Bridge, before: Population, moving: Population, increments: Array, states: float
) -> Kernel:
    """Return moves in which each half of the islands adapts to the other half only, so that weights stay unbiased."""
    learned = []
    for half in (0, 1):
        other = before.island % 2 != half
        if not np.isfinite(increments[other]).any():  # that half has no mass: adapt to all points
            other = np.ones(len(increments), dtype=bool)
        weights = normalise(increments[other])
        worth = max(1.0 / float(np.square(weights).sum()) / states, _LEAST_WORTH)
        component = NormalComponent.fit(before.points.z[other], weights, worth)
        marginals = ProductOfMarginals.fit(before.points.z[other], weights, worth) if posterior.prior.spikes else None
        learned.append(Learned(component, moving.points.z[moving.island % 2 != half], marginals))
    jumps = bridge.proposal
    return Kernel(posterior, lambda points: bridge.u(points, moving.level), learned, moving.island % 2, jumps)


class _Moves(NamedTuple):
    """Result of the moves on one rung."""

    population: Population
    steps: StepSizes
    sweeps: int
    acceptance: float
    memory: float
    out_of_budget: bool


def _move_until_forgotten(
    rng: np.random.Generator, kernel: Kernel, start: Population, steps: StepSizes, max_sweeps: int
) -> _Moves:
    """Move until the points have decorrelated from their start, and keep all states (Dau and Chopin, 2022)."""
    now, correlation, out_of_budget = start.points, 1.0, False
    passed: list[Points] = []
    accepted: list[float] = []
    every = 1  # keep one sweep in this many: with many coordinates successive ones are alike, and memory matters
    while correlation > _FORGOTTEN and len(accepted) < max_sweeps:
        out_of_budget = kernel.posterior.affords(len(now)) < len(now)
        if out_of_budget:
            break
        try:
            now, steps = kernel.sweep(rng, now, steps)
        except BudgetSpentError:  # time ran out earlier than foreseen
            out_of_budget = True
            break
        accepted.append(steps.acceptance)
        if len(accepted) % every == 0:
            passed.append(now)
        if len(passed) > 1 and len(passed) * now.z.size > _MOST_CELLS:
            passed, every = passed[1::2], 2 * every
        correlation = correlate_with_start(start.points, now, kernel.u)
    if not accepted:
        return _Moves(start, steps, 0, float("nan"), correlation, out_of_budget)
    visited = Population(Points.join(passed), np.tile(start.island, len(passed)), start.level, start.log_z)
    return _Moves(visited, steps, len(accepted), float(np.mean(accepted)), correlation, out_of_budget)


@dataclass
class StallDetector:
    """Detects that a target which no point has reached stays out of reach."""

    lowest: float  # the lowest loss so far, of all models together
    patience: int  # rungs without progress: one after independent searches, which sought a lower loss before, else two
    rungs: int = 0

    def stalls(self, now: Population, bridge: Bridge) -> bool:
        """Update from a rung; return whether to give up: nothing reaches, and the loss can hardly fall further."""
        if now.level <= 0 or now.points.reached.any():
            self.rungs = 0
            return False
        loss = bridge.mixture.effective_loss(now.points.loss)
        weights = now.weights(bridge)
        mean, least = float(weights[weights > 0] @ loss[weights > 0]), float(loss.min())
        fell = least < (1 - _FELL) * self.lowest
        self.lowest = min(self.lowest, least)
        near = mean <= (1 + _NEAR_LOWEST) * self.lowest
        self.rungs = 0 if fell or not near else self.rungs + 1
        return self.rungs >= self.patience
