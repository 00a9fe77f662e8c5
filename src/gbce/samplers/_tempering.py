"""Tempering: the bridge from the latent law to the posterior, how far to go in one step, and what all steps give.

Along the bridge a point's density against the latent law is ``exp(-u)``. Its first stretch, levels -1 to 0, brings in
the ``log_correction`` of a map that is not the prior itself (nothing, where the map is exact); after it, a level is the
``beta`` of the posterior at that smaller eta.
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
from gbce.eta import STEEPEST
from gbce.posterior import EtaGoal, GibbsPosterior, Mixture
from gbce.samplers._moves import Kernel, Learned, NormalComponent, StepSizes, memory
from gbce.samplers._proposals import MixtureProposal

__all__ = [
    "ENOUGH",
    "STALLED",
    "Bridge",
    "Climb",
    "Population",
    "StallDetector",
    "climb",
    "log_density",
    "next_level",
    "recycle",
]

# --- tempering -------------------------------------------------------------------------------------------------------

_HALVINGS = 200  # at most; near the prior a level may be tiny, and halving stops at the precision below
_LEVEL_PRECISION = 1e-3  # relative, of a step: how many points count need not be met exactly
_LEAST_STEP = 1e-12  # relative, of a level: a shorter step is rounding
_FIRST_BETA = 1e-6  # from which doubling starts where eta has no end


@dataclass(frozen=True)
class Bridge:
    """Densities between the starting law and the posterior.

    Parameters
    ----------
    mixture : Mixture
        How losses become a potential; its own eta is not used.
    guide : Guide, optional
        From which a part of the first population was drawn. Its share of the starting law shrinks as beta grows.
    fade : float
        The beta at which it has no share any more.
    """

    mixture: Mixture
    proposal: MixtureProposal | None = None
    fade: float = 1.0

    def u(self, points: Points, level: float) -> Array:
        """Minus the log density ``(n,)`` of evaluated points at a level, against the latent law."""
        return self.along(points)(level)

    def along(self, points: Points) -> Callable[[float], Array]:
        """Return ``u`` of the points as a function of the level: the density of the guide is computed once."""
        excess: Array | None = None

        def u(level: float) -> Array:
            nonlocal excess
            u = (1.0 + min(level, 0.0)) * points.log_correction
            if level > 0:
                u = u + replace(self.mixture, eta=level).potential(points.loss)
            lift = 1.0 - max(level, 0.0) / self.fade if self.fade > 0 else 0.0
            if self.proposal is not None and lift > 0:
                excess = self.proposal.excess(points.z) if excess is None else excess
                u = u - lift * excess
            return u

        return u


@dataclass(frozen=True)
class Population:
    """Evaluated points of several islands at one level, of equal weight within each island.

    Parameters
    ----------
    points : Points
        All of them.
    island : int array of shape (n,)
        Whose each is.
    level : float
        On the bridge.
    log_z : array of shape (J,)
        Each island's own estimate of the log normaliser of the level.
    """

    points: Points
    island: Array
    level: float
    log_z: Array

    def increments(self, bridge: Bridge, level: float, other: Bridge | None = None) -> Array:
        """Log weights ``(n,)`` that carry the points to another level, of another bridge if there is one."""
        return bridge.u(self.points, self.level) - (other or bridge).u(self.points, level)

    def log_z_after(self, increments: Array) -> Array:
        """Return each island's log normaliser at the level the increments lead to."""
        return self.log_z + np.array([log_mean_exp(increments[self.island == j]) for j in range(len(self.log_z))])

    def weights(self, bridge: Bridge) -> Array:
        """Weights ``(n,)`` under the posterior at the level's beta: an island that found more mass counts for more."""
        plain = replace(bridge, proposal=None)
        return normalise(self.log_z[self.island] + self.increments(bridge, self.level, plain))

    def join(self, other: "Population") -> "Population":
        """Return both populations of one level as one, each with its own islands."""
        island = np.concatenate([self.island, other.island + len(self.log_z)])
        points = Points.join([self.points, other.points])
        return Population(points, island, self.level, np.concatenate([self.log_z, other.log_z]))

    def thin(self, most: int) -> "Population":
        """Return at most ``most`` of the points, as many of each island, evenly spread over its own."""
        if len(self.points) <= most:
            return self
        each = most // len(self.log_z)
        own = [np.flatnonzero(self.island == j) for j in range(len(self.log_z))]
        chosen = np.concatenate([members[np.linspace(0, len(members) - 1, each).astype(int)] for members in own])
        return replace(self, points=self.points.take(chosen), island=self.island[chosen])


def next_level(population: Population, bridge: Bridge, least: float, end: float) -> tuple[float, Array]:
    """Return the farthest level up to ``end`` at which ``least`` points still count, and the log weights to it."""
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
    level = low if low > start else high  # the least step, where even that loses too many points
    return level, here - u(level)


def _effective_points(population: Population, increments: Array) -> float:
    """Effective number of points, summed over islands."""
    total = 0.0
    for j in range(len(population.log_z)):
        own = increments[population.island == j]
        if np.isfinite(own).any():
            total += effective_sample_size(normalise(own))
    return total


def recycle(rungs: Sequence[Population], bridge: Bridge) -> tuple[Points, Array, Array]:
    """Return the points of all rungs together, the log weight ``base`` of each, and whose island it is.

    Every rung's points are seen as draws from the mixture of all rungs (the deterministic mixture of Veach and Guibas,
    1995; for tempering, Nguyen, Septier, Peters and Delignon, 2016), so that the posterior at any eta up to the last
    one, and the prior itself, are reweightings of one pool.
    """
    pool = Points.join([rung.points for rung in rungs])
    share = np.concatenate([(rung.log_z - log_mean_exp(rung.log_z))[rung.island] for rung in rungs])
    island = np.concatenate([rung.island for rung in rungs])
    return pool, share - log_density(rungs, bridge, pool), island


def log_density(rungs: Sequence[Population], bridge: Bridge, points: Points) -> Array:
    """Log of the expected number of points of all rungs at evaluated points ``(n,)``, against the latent law."""
    u = bridge.along(points)
    return logsumexp([np.log(len(rung.points)) - u(rung.level) - log_mean_exp(rung.log_z) for rung in rungs], axis=0)


# --- the climb from the first population to the posterior ------------------------------------------------------------

ENOUGH = 0.5  # of the points that are moved: the effective sample size that every rung keeps (a convention)
_FORGOTTEN = 0.25  # correlation with its start at which a population has moved on; chosen by hand
_LAST_RUNG = 4  # times as many points of the last rung are kept as of the others: the posterior rests on it most
_MAX_RUNGS = 500  # against a climb without end
_MOST_CELLS = 10_000_000  # numbers in the places of one rung that are kept: 80 MB; up to 100 coordinates that is all
_POWERS = 15  # of a matrix: a direction that stands out is found by then, and any direction would do
_LEAST_WORTH = 10.0  # independent points that a fitted law is said to rest on, however few there are
# A goal is given up after so many rungs that came no closer by this share of what was missing at first, and on which
# the loss did not fall to this share of what it was. Chosen by hand.
_PATIENCE, _CLOSER, _LOWER = 6, 0.01, 0.9
# A climb towards a target that no point reaches ends when the mean loss is so little above the lowest one seen, and
# that one fell so little on the last rungs: as relative shares. Chosen by hand: a larger eta can gain no more, and
# the rungs up to it take hundreds of thousands of rows on a forest.
_NEAR_LOWEST, _FELL = 0.05, 0.01
STALLED = "no point reached the target and the loss no longer fell"


@dataclass
class Climb:
    """What a climb leaves: its rungs, the level it came to, and how the moves went."""

    rungs: list[Population]
    top: float = -1.0
    complete: bool = True
    sweeps: list[int] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    rounds: int = 1
    ended: str | None = None

    def join(self, other: "Climb") -> "Climb":
        """Return this climb with the islands of another one up the same levels beside its own."""

        def larger(mine: list[Any], theirs: list[Any]) -> list[Any]:
            return [max(pair) for pair in zip(mine, theirs, strict=True)]

        return Climb(
            [mine.join(theirs) for mine, theirs in zip(self.rungs, other.rungs, strict=True)],
            self.top,
            self.complete,
            larger(self.sweeps, other.sweeps),
            [0.5 * (a + b) for a, b in zip(self.acceptance, other.acceptance, strict=True)],
            larger(self.memory, other.memory),
            self.rounds + 1,
        )


def climb(
    posterior: GibbsPosterior,
    rng: np.random.Generator,
    bridge: Bridge,
    start: Population,
    n: int,
    max_sweeps: int,
    levels: Sequence[float] = (),
    unreached: "StallDetector | None" = None,
) -> Climb:
    """Go up to eta, to where the goal is met or cannot be, or as far as the budget goes, with ``n`` points.

    With ``levels`` the rungs are those of an earlier climb. With ``unreached`` it also ends where going on promises
    nothing, as long as no point reaches the target.
    """
    end = np.inf if posterior.goal is not None else posterior.mixture.eta
    end = levels[-1] if levels else end
    now, steps, history = start, StepSizes(), _History(None if levels else posterior.goal)
    done = Climb([start])
    while now.level < end and not history.over:
        states = 1.0 if now is start else len(now.points) / n
        if levels:
            level = levels[len(done.rungs) - 1]
            increments = now.increments(bridge, level)
        else:
            level, increments = next_level(now, bridge, ENOUGH * states * min(n, len(now.points)), end)
        done.top = level
        moving = _resample(now, rng, increments, level, n)
        kernel = _kernel(posterior, bridge, now, moving, increments, states)
        moves = _move(rng, kernel, moving, steps, max_sweeps)
        if moves.sweeps:
            now, steps = moves.population, moves.steps
            done.rungs.append(now.thin(n))
            done.sweeps.append(moves.sweeps)
            done.acceptance.append(moves.acceptance)
            done.memory.append(moves.memory)
        if moves.broke or len(done.rungs) > _MAX_RUNGS:
            done.complete = level == end and moves.sweeps > 0
            break
        history.add(now, bridge)
        if unreached is not None and level < end and unreached.stalls(now, bridge):
            done.complete, done.ended = False, STALLED
            break
    if len(done.rungs) > 1:
        done.rungs[-1] = now.thin(_LAST_RUNG * n)
    return done


def _resample(before: Population, rng: np.random.Generator, increments: Array, level: float, n: int) -> Population:
    """Carry each island to a level and pick its points there, as many from each.

    They are picked in order along the direction in which they differ most: so a mode keeps its share.
    """
    n_islands = len(before.log_z)
    each = -(-n // n_islands)
    picks = []
    for j in range(n_islands):
        own = np.flatnonzero(before.island == j)
        if not np.isfinite(increments[own]).any():  # it found nothing and counts for nothing, but goes on
            own = np.arange(len(increments))
        weights = normalise(increments[own])
        order = np.argsort(_principal_coordinates(before.points.z[own], weights), kind="stable")
        picks.append(own[order[resample_systematically(rng, weights[order], each)]])
    points = before.points.take(np.concatenate(picks))
    return Population(points, np.repeat(np.arange(n_islands), each), level, before.log_z_after(increments))


def _principal_coordinates(z: Array, weights: Array) -> Array:
    """Coordinates ``(n,)`` of weighted points ``(n, m)`` along their first principal direction, or about along it."""
    offset = z - weights @ z
    if z.shape[1] <= MATRIX_UP_TO:
        return offset @ np.linalg.eigh((offset * weights[:, None]).T @ offset)[1][:, -1]
    direction = np.eye(z.shape[1])[np.argmax(weights @ np.square(offset))]
    for _ in range(_POWERS):
        direction = (weights * (offset @ direction)) @ offset
        direction /= max(float(np.linalg.norm(direction)), TINY)
    return offset @ direction


def _kernel(
    posterior: GibbsPosterior,
    bridge: Bridge,
    before: Population,
    moving: Population,
    increments: Array,
    states: float,
) -> Kernel:
    """Return moves in which each half of the islands knows only the other half: adapting does not bias its weights."""
    learned = []
    for half in (0, 1):
        other = before.island % 2 != half
        if not np.isfinite(increments[other]).any():  # that half found nothing: then all is known from this one
            other = np.ones(len(increments), dtype=bool)
        weights = normalise(increments[other])
        worth = max(1.0 / float(np.square(weights).sum()) / states, _LEAST_WORTH)
        component = NormalComponent.fit(before.points.z[other], weights, worth)
        learned.append(Learned(component, moving.points.z[moving.island % 2 != half]))
    jumps = bridge.proposal
    return Kernel(posterior, lambda points: bridge.u(points, moving.level), learned, moving.island % 2, jumps)


class _Moves(NamedTuple):
    population: Population
    steps: StepSizes
    sweeps: int
    acceptance: float
    memory: float
    broke: bool


def _move(rng: np.random.Generator, kernel: Kernel, start: Population, steps: StepSizes, max_sweeps: int) -> _Moves:
    """Move until the points have forgotten their start; every place they pass through is kept (Dau and Chopin, 2022).

    All places are draws from the rung's law, since the start was one; those that were paid for are not thrown away.
    """
    now, known, broke = start.points, 1.0, False
    passed: list[Points] = []
    accepted: list[float] = []
    every = 1  # of the sweeps: neighbouring ones are alike where there are so many coordinates that memory matters
    while known > _FORGOTTEN and len(accepted) < max_sweeps:
        broke = kernel.posterior.affords(len(now)) < len(now)
        if broke:
            break
        try:
            now, steps = kernel.sweep(rng, now, steps)
        except BudgetSpentError:  # time ran out earlier than was foreseen
            broke = True
            break
        accepted.append(steps.acceptance)
        if len(accepted) % every == 0:
            passed.append(now)
        if len(passed) > 1 and len(passed) * now.z.size > _MOST_CELLS:
            passed, every = passed[1::2], 2 * every
        known = memory(start.points, now, kernel.u)
    if not accepted:
        return _Moves(start, steps, 0, float("nan"), known, broke)
    everywhere = Population(Points.join(passed), np.tile(start.island, len(passed)), start.level, start.log_z)
    return _Moves(everywhere, steps, len(accepted), float(np.mean(accepted)), known, broke)


@dataclass
class StallDetector:
    """What is known of a target that no point has reached so far.

    Parameters
    ----------
    lowest : float
        The lowest loss that was seen, of all models together.
    patience : int
        Rungs on which it must not have fallen before a climb is given up: one after independent searches, which have
        looked for something lower before, else two.
    """

    lowest: float
    patience: int
    rungs: int = 0

    def stalls(self, now: Population, bridge: Bridge) -> bool:
        """Learn from a rung; whether to give up: nothing reaches, and the loss has nowhere left to fall."""
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


@dataclass
class _History:
    """Whether a goal is met, or has to be given up: neither it nor the loss comes closer any more."""

    goal: EtaGoal | None
    missing: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    level: float = 0.0

    def add(self, now: Population, bridge: Bridge) -> None:
        if self.goal is None or now.level < 0:  # before the prior is there, what is achieved says nothing
            return
        weights = now.weights(bridge)
        loss, reached = now.points.loss[:, 0], now.points.reached[:, 0]
        self.missing.append(self.goal.shortfall(loss, reached, weights))
        self.loss.append(float(weights @ loss))
        self.level = now.level

    @property
    def over(self) -> bool:
        if self.goal is None or not self.missing:
            return False
        if self.missing[-1] <= 0 or self.level >= STEEPEST:
            return True
        if len(self.missing) <= _PATIENCE:
            return False
        closer = self.missing[-1 - _PATIENCE] - self.missing[-1] > _CLOSER * abs(self.missing[0])
        lower = self.loss[-1] < _LOWER * self.loss[-1 - _PATIENCE]
        return not (closer or lower)
