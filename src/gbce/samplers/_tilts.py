"""Exponentially tilted products: proposals for posteriors that are spread over many sets of changed columns.

A model that is about additive in the columns turns a product prior into about such a product, whatever the number of
columns. A tilt takes two model rows for each column; refitted to weighted points it has two parameters for each.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from gbce._numerics import TINY
from gbce.base import Array
from gbce.draws import Points, log_target
from gbce.posterior import GibbsPosterior
from gbce.priors import LocatedPrior

# Chosen by hand, as draws are weighted by their density.
_STEPS, _DEPTH = 28, 0.6  # on either side: each begins where exp(-_DEPTH) of the mass beyond the one before is left
_EVALUATED = 2  # the step at which models are evaluated: a change of about the typical size
_HALVINGS = 24  # of an interval: to seven digits, more than a proposal needs
_WIDEST_SPIKE = 8.0  # latent standard deviations, beyond which a column changes with probability 1e-15
_FARTHEST = 40.0  # log odds that a tilt may change for one coordinate: beyond, only overflow matters
_LEAST, _MOST = 1e-300, 1 - 1e-16  # probabilities with finite quantiles
_KEPT_LATENT = 0.02  # weight of N(0, 1) in each marginal, since few points may show no change that has mass
_NEWTON_STEPS, _LONGEST, _CLOSE = 30, 1.0, 1e-3  # of a refit: most steps, the longest one, and one that ends it


@dataclass(frozen=True, eq=False)
class TiltedProduct:
    """An exponentially tilted product distribution, whose density against ``N(0, I)`` is a step function."""

    tail: Array  # (m,): mass of N(0, 1) on either side of the middle step, on which a column stays unchanged
    base_mass: Array  # (2 * steps + 1, m): mass of N(0, 1) on each step, from the lowest values to the highest
    size: Array  # (2 * steps + 1, m): change on each step, that on the evaluated one being 1
    slope: Array  # (2, m): log density per unit of change, below and above the middle step
    recent: list[tuple[Array, "Steps"]] = field(default_factory=list, repr=False)

    @property
    def dimension(self) -> int:
        """Number of latent coordinates."""
        return len(self.tail)

    @cached_property
    def _log_ratio(self) -> Array:
        """Log density of each step against ``N(0, 1)``, ``(2 * steps + 1, m)``."""
        tilt = np.clip(np.repeat(self.slope, [_STEPS + 1, _STEPS], axis=0) * self.size, -_FARTHEST, _FARTHEST)
        ratio = np.exp(tilt - np.log((self.base_mass * np.exp(tilt)).sum(axis=0)))
        return np.asarray(np.log((1.0 - _KEPT_LATENT) * ratio + _KEPT_LATENT))

    @cached_property
    def _mass(self) -> Array:
        """Mass of each step, ``(2 * steps + 1, m)``."""
        return np.asarray(self.base_mass * np.exp(self._log_ratio))

    def transform(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into draws."""
        ratio, column = np.exp(self._log_ratio), np.arange(self.dimension)
        start, below = (np.cumsum(mass, axis=0) - mass for mass in (self.base_mass, self._mass))
        u = ndtr(e)
        step = np.zeros(e.shape, dtype=np.intp)
        for one in below[1:]:
            step += u > one
        latent = start[step, column] + (u - below[step, column]) / ratio[step, column]
        return np.asarray(ndtri(np.clip(latent, _LEAST, _MOST)))

    def log_density(self, z: Array) -> Array:
        """Return the log density ``(n,)`` against ``N(0, I)``."""
        steps = self.find_steps(z)
        middle = self._log_ratio[_STEPS]
        more = self._log_ratio[steps.step, steps.column] - middle[steps.column]
        return middle.sum() + np.bincount(steps.row, weights=more, minlength=steps.n)

    def refit(self, z: Array, weights: Array, n: float) -> "TiltedProduct":
        """Return the maximum-likelihood tilt for weighted points ``(N, m)`` of effective size ``n``.

        It matches the mean change of each column on either side. The tilt before, as strong as these points say, counts
        as one more point for each of these parameters.
        """
        steps, m = self.find_steps(z), self.dimension
        above = steps.step > _STEPS
        there = weights[steps.row] * self.size[steps.step, steps.column]
        seen = np.bincount(steps.column + m * above, there, 2 * m).reshape(2, m)
        tilted = self._scale_until(lambda one: float((self.slope * (one._moments()[0] - seen)).sum()) >= 0)
        wanted = (n * seen + 2 * m * tilted._moments()[0]) / (n + 2 * m)
        for _ in range(_NEWTON_STEPS):
            mean, square = tilted._moments()
            short = wanted - mean
            # Newton's step: the covariance is diag(square) - mean mean', inverted by Sherman and Morrison
            scaled, onto = short / np.maximum(square, TINY), mean / np.maximum(square, TINY)
            left = np.maximum(1.0 - (mean * onto).sum(axis=0), TINY)
            step = np.clip(scaled + onto * (mean * scaled).sum(axis=0) / left, -_LONGEST, _LONGEST)
            tilted = replace(tilted, slope=tilted.slope + np.where(square > TINY, step, 0.0))
            if np.abs(step).max(initial=0.0) < _CLOSE:
                break
        return tilted

    def _moments(self) -> tuple[Array, Array]:
        """Return the mean change of each column below and above ``(2, m)``, and that of its square."""
        sides = (slice(None, _STEPS), slice(_STEPS + 1, None))
        mean, square = (
            np.array([(self._mass[side] * self.size[side] ** power).sum(axis=0) for side in sides]) for power in (1, 2)
        )
        return mean, square

    def with_divergence(self, divergence: float) -> "TiltedProduct":
        """Return the tilt in this direction with this Kullback-Leibler divergence, or the largest it can have."""
        return self._scale_until(lambda one: float((one._mass * one._log_ratio).sum()) >= divergence)

    def _scale_until(self, enough: Callable[["TiltedProduct"], bool]) -> "TiltedProduct":
        """Return the weakest tilt in this direction that is enough, or the strongest."""
        largest = float(np.abs(np.repeat(self.slope, [_STEPS + 1, _STEPS], axis=0) * self.size).max())
        tilted, low, high = self, 0.0, _FARTHEST / max(largest, _LEAST)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            tilted = replace(self, slope=middle * self.slope)
            low, high = (low, middle) if enough(tilted) else (middle, high)
        return tilted

    def find_steps(self, z: Array) -> "Steps":
        """Return the steps of points ``(n, m)``; those of the last points are kept, for tilts that share ``recent``."""
        if not self.recent or self.recent[0][0] is not z:
            self.recent[:] = [(z, self._find_steps(z))]
        return self.recent[0][1]

    def _find_steps(self, z: Array) -> "Steps":
        """Return the steps of points ``(n, m)``."""
        row, column = np.nonzero(np.abs(z) > -ndtri(self.tail))  # most coordinates lie on their middle step
        there = z[row, column]
        depth = np.log(self.tail[column]) - log_ndtr(-np.abs(there))
        out = 1 + np.minimum(np.maximum(depth / _DEPTH, 0.0), _STEPS - 1).astype(np.intp)
        return Steps(len(z), row, column, _STEPS + np.where(there < 0, -out, out))


class Steps(NamedTuple):
    """Steps of ``n`` points other than middle ones ``(k,)``: points, coordinates and steps."""

    n: int
    row: Array
    column: Array
    step: Array


def _tail_shares() -> Array:
    """Return the share of a side's mass ``(steps,)`` beyond the beginning of each of its steps."""
    return np.exp(-_DEPTH * np.arange(_STEPS))


def tilt(posterior: GibbsPosterior) -> TiltedProduct | None:
    """Return the tilt by single changes, as strong as the potential says; ``None`` where no column stays unchanged."""
    prior, m = posterior.prior, posterior.prior.dimension
    if not prior.spikes or m == 0:
        return None
    tail = ndtr(-_find_spike_edges(prior))
    middle = -ndtri(_tail_shares()[:, None] * np.exp(-0.5 * _DEPTH) * tail)
    size = np.concatenate([_measure_changes(prior, -middle)[::-1], np.zeros((1, m)), _measure_changes(prior, middle)])
    typical = middle[_EVALUATED]
    points = Points.evaluate(posterior, np.vstack([np.zeros((1, m)), np.diag(-typical), np.diag(typical)]))
    gain = log_target(posterior.mixture, points)
    with np.errstate(invalid="ignore"):
        slope = np.nan_to_num(gain[1:] - gain[0], nan=0.0, posinf=0.0, neginf=-_FARTHEST)
    side = -np.diff(np.append(_tail_shares(), 0.0))[:, None] * tail
    base_mass = np.concatenate([side[::-1], 1.0 - 2.0 * tail[None, :], side])
    return TiltedProduct(tail, base_mass, size, slope.reshape(2, m)) if slope.any() else None


def _measure_changes(prior: LocatedPrior, z: Array) -> Array:
    """Return the change of each column on the steps ``(steps, m)`` of one side, that of the evaluated one being 1."""
    change = np.abs(np.nan_to_num(prior.place(z).x - prior.x0))[:, prior.free]
    return change / np.where(change[_EVALUATED] > 0, change[_EVALUATED], 1.0)


def _find_spike_edges(prior: LocatedPrior) -> Array:
    """Return how far each latent coordinate goes without changing its column ``(m,)``, by bisection."""
    low, high = np.zeros(prior.dimension), np.full(prior.dimension, _WIDEST_SPIKE)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        stays = np.isclose(prior.place(middle[None, :]).x[0], prior.x0, rtol=0, atol=0, equal_nan=True)[prior.free]
        low, high = np.where(stays, middle, low), np.where(stays, high, middle)
    return low
