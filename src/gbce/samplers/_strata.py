"""Strata of the latent space: the leaves of a regression tree fitted to evaluated points, as a proposal distribution.

A search sees what its starts lead to. A regression tree fitted to every point that a model was asked about, rows of the
data among them, divides the whole latent space into boxes, each with an estimate of its posterior mass: the box's
probability under ``N(0, I)`` times ``exp(-potential)``. Draws from these boxes, truncated normals weighed by their
density, come wherever the model was seen to be good, whether or not a search ended there (recursive stratified
sampling, Press and Farrar, 1990, with the strata of a fitted tree).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from gbce._numerics import normalise
from gbce.base import Array
from gbce.predictors import Partition

__all__ = ["Strata"]

# What is wrong with an estimate shows in the weights; these numbers decide what a draw costs.
_MOST_STRATA = 512
_MOST_POINTS = 3_000  # that a tree is fitted to
_IRRELEVANT = 25.0  # potential above the lowest height: less than exp(-25) of the density at the mode
_FLATTER = 0.5  # power of the estimated masses that half of the draws follow, because estimates may be far off
_LARGEST = 1.0 - 1e-16  # below one, where the inverse of the normal distribution function is finite


@dataclass(frozen=True, eq=False)
class Strata:
    """Boxes that partition the latent space, and the probability of drawing from each.

    Parameters
    ----------
    boxes : Partition
        The leaves of a regression tree.
    log_mass : array of shape (L,)
        Log probability of each under the latent law.
    weights : array of shape (L,)
        Probability of drawing from each.
    """

    boxes: Partition
    log_mass: Array
    weights: Array

    @classmethod
    def fit(cls, rng: np.random.Generator, z: Array, potential: Array) -> "Strata | None":
        """Fit to latent points ``(n, m)`` and minus their log density ``(n,)`` against the latent law.

        Nothing where all of them are as good as each other, or worse than irrelevant.
        """
        height = potential + 0.5 * np.square(z).sum(axis=1)
        most = height.min() + _IRRELEVANT
        value = np.minimum(potential, most)
        if not np.isfinite(most) or np.ptp(value) == 0:
            return None
        if len(z) > _MOST_POINTS:  # the better a point, the rather it is kept
            order = np.argsort(height, kind="stable")
            kept = np.append(
                order[: _MOST_POINTS // 2], rng.permutation(order[_MOST_POINTS // 2 :])[: _MOST_POINTS // 2]
            )
            z, value = z[kept], value[kept]
        boxes = Partition.fit(z, value, _MOST_STRATA, int(rng.integers(2**31)))
        log_mass, n = _log_probability(boxes.low, boxes.high).sum(axis=1), len(boxes.low)
        leaf, least = boxes.find(z), value.min()
        mean = np.bincount(leaf, np.exp(least - value), n) / np.bincount(leaf, minlength=n)
        found = log_mass + np.log(mean)
        flat = normalise(_FLATTER * found)
        return cls(boxes, log_mass, 0.5 * normalise(found) + 0.5 * flat)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points ``(n, m)``."""
        which = rng.choice(len(self.weights), size=n, p=self.weights)
        z = rng.standard_normal((n, self.boxes.low.shape[1]))
        low, high = self.boxes.low[which], self.boxes.high[which]
        at = np.nonzero(np.isfinite(low) | np.isfinite(high))
        z[at] = _draw_between(rng, low[at], high[at])
        return z

    def log_density(self, z: Array) -> Array:
        """Log density ``(n,)`` against the latent law."""
        which = self.boxes.find(z)
        weights = self.weights[which]
        with np.errstate(divide="ignore", invalid="ignore"):  # a box too thin to have a mass is never drawn from
            return np.where(weights > 0, np.log(weights) - self.log_mass[which], -np.inf)


def _log_probability(low: Array, high: Array) -> Array:
    """Log of the probability of ``low < z <= high`` under ``N(0, 1)``, of arrays of any shape."""
    flip = low > 0  # work in the lower tail
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = log_ndtr(b)
    with np.errstate(divide="ignore"):
        return upper + np.log(-np.expm1(np.minimum(log_ndtr(a) - upper, 0.0)))


def _draw_between(rng: np.random.Generator, low: Array, high: Array) -> Array:
    """Draw from ``N(0, 1)`` between limits ``(n,)``."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below, up_to = ndtr(a), ndtr(b)
    z = ndtri(np.clip(below + rng.random(len(low)) * (up_to - below), np.nextafter(0, 1), _LARGEST))
    z = np.clip(z, a, b)
    return np.where(flip, -z, z)
