"""Tempering: the bridge from the latent law to the posterior, how far to go in one step, and what all steps give.

Along the bridge a point's density against the latent law is ``exp(-u)``. Its first stretch, levels -1 to 0, brings in
the ``log_correction`` of a map that is not the prior itself (nothing, where the map is exact); after it, a level is the
``beta`` of the posterior at that smaller eta.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import effective_sample_size, log_mean_exp, normalise
from gbce.base import Array
from gbce.draws import Points
from gbce.eta import STEEPEST
from gbce.posterior import Mixture
from gbce.samplers._guide import Guide

__all__ = ["Bridge", "Population", "log_density", "next_level", "recycle"]

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
    guide: Guide | None = None
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
            if self.guide is not None and lift > 0:
                excess = self.guide.excess(points.z) if excess is None else excess
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
        plain = replace(bridge, guide=None)
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
