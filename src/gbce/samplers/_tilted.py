"""Tilted laws: for priors that leave most of many columns alone, where no normal law fits the few that change.

With hundreds of columns a posterior is spread over more sets of changed columns than laws can be put around. Where
columns act by themselves, as in a linear model, it is nearly a product: each column is more likely to change in a
direction that lowers the potential. That is exponential tilting (Siegmund, 1976): the latent law of each coordinate is
multiplied by ``exp(-power * price)``, ``price`` being what the potential gains by that coordinate alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from gbce._numerics import TINY
from gbce.base import Array
from gbce.draws import Points, log_target
from gbce.posterior import GibbsPosterior
from gbce.priors import LocatedPrior
from gbce.search import Sites

__all__ = ["MANY", "ProductLaw", "TiltedLaw", "tilt"]

# Chosen by hand, as is every law that draws are weighed against.
MANY = 40  # coordinates from which on a search and the laws around what it found are not enough
_STEPS, _DEPTH = (
    16,
    0.5,
)  # to either side: each has exp(-_DEPTH) of the mass beyond the one before, the last has the rest
_ASKED = 2  # the step that models are asked about: a change that is about as large as most
_SHARES = (0.25, 0.35, 0.5, 0.7, 1.0)  # of the lowest site's height: divergences from the latent law that laws have
_HALVINGS = 60  # of an interval: to the last digits
_WIDEST_SPIKE = 8.0  # latent deviations, beyond which a column changes with a chance of 1e-15
_FARTHEST = 40.0  # log odds that a tilt may change for one coordinate: beyond it, only overflow matters
_LEAST, _MOST = 1e-300, 1 - 1e-16  # probabilities that have finite quantiles
# Edges of a histogram's bins, in latent deviations: some fit into the spike of a column that seldom changes.
_EDGES = np.linspace(-4.2, 4.2, 29)
_KEPT_LATENT = 1 / 6  # of each coordinate's law, at least: the latent law, since a bin without points may have mass


@dataclass(frozen=True)
class TiltedLaw:
    """A product law on the latent space, whose density against the standard normal one is a step function.

    Parameters
    ----------
    tail : array of shape (m,)
        Mass of the latent law on either side of each coordinate's middle step, on which its column stays as it is.
    price : array of shape (2 * steps + 1, m)
        What the potential changes by on each step, from the lowest values to the highest.
    power : float
        How strongly steps that lower it are favoured.
    """

    tail: Array
    price: Array
    power: float

    @property
    def dimension(self) -> int:
        """Number of latent coordinates."""
        return len(self.tail)

    @cached_property
    def _chance(self) -> Array:
        """Mass of the latent law on each step, ``(2 * steps + 1, m)``."""
        side = -np.diff(np.append(_beyond(), 0.0))[:, None] * self.tail
        return np.concatenate([side[::-1], 1.0 - 2.0 * self.tail[None, :], side])

    @cached_property
    def _log_ratio(self) -> Array:
        """Log density of each step against the latent law, ``(2 * steps + 1, m)``."""
        tilt = np.clip(-self.power * self.price, -_FARTHEST, _FARTHEST)
        return tilt - np.log((self._chance * np.exp(tilt)).sum(axis=0))

    def place(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into draws."""
        ratio, column = np.exp(self._log_ratio), np.arange(self.dimension)
        start, below = (np.cumsum(mass, axis=0) - mass for mass in (self._chance, self._chance * ratio))
        u = ndtr(e)
        step = np.zeros(e.shape, dtype=np.intp)
        for one in below[1:]:
            step += u > one
        latent = start[step, column] + (u - below[step, column]) / ratio[step, column]
        return np.asarray(ndtri(np.clip(latent, _LEAST, _MOST)))

    def log_density(self, z: Array) -> Array:
        """Log density ``(n,)`` against the latent law."""
        return self.log_density_on(self.find_steps(z))

    def log_density_on(self, steps: "Steps") -> Array:
        """Return the log density ``(n,)`` of points whose steps are known: laws of one ``tail`` share them."""
        return _add_up(steps, self._log_ratio)

    def refit(self, z: Array, weights: Array) -> "TiltedLaw":
        """Return the law under which prices add up to what they do for weighted points ``(n, m)``, on average.

        That is the one of largest likelihood, as for every exponential family.
        """
        gain = float(weights @ _add_up(self.find_steps(z), self.price))
        return self._raise_while(lambda law: law._mean(law.price) > gain)

    def diverge(self, divergence: float) -> "TiltedLaw":
        """Return the law with so large a divergence from the latent law, or as large a one as it can have."""
        return self._raise_while(lambda law: law._mean(law._log_ratio) < divergence)

    def _raise_while(self, short: Callable[["TiltedLaw"], bool]) -> "TiltedLaw":
        """Return the law with the power up to which it falls short."""
        law, low, high = self, 0.0, _FARTHEST / max(float(np.abs(self.price).max()), _LEAST)
        for _ in range(_HALVINGS):
            law = replace(self, power=0.5 * (low + high))
            low, high = (law.power, high) if short(law) else (low, law.power)
        return law

    def _mean(self, values: Array) -> float:
        """Return what values ``(2 * steps + 1, m)`` of the steps add up to on average."""
        return float((self._chance * np.exp(self._log_ratio) * values).sum())

    def find_steps(self, z: Array) -> "Steps":
        """Return the steps that points ``(n, m)`` lie on."""
        row, column = np.nonzero(np.abs(z) > -ndtri(self.tail))  # most coordinates lie on their middle step
        there = z[row, column]
        depth = np.log(self.tail[column]) - log_ndtr(-np.abs(there))
        out = 1 + np.minimum(np.maximum(depth / _DEPTH, 0.0), _STEPS - 1).astype(np.intp)
        return Steps(len(z), row, column, _STEPS + np.where(there < 0, -out, out))


class Steps(NamedTuple):
    """Steps of ``n`` points, other than middle ones ``(k,)``: the points, their coordinates, and the steps."""

    n: int
    row: Array
    column: Array
    step: Array


def _add_up(steps: Steps, values: Array) -> Array:
    """Add up the values ``(2 * steps + 1, m)`` of the steps that points lie on: ``(n,)``."""
    middle = values[_STEPS]
    more = values[steps.step, steps.column] - middle[steps.column]
    return middle.sum() + np.bincount(steps.row, weights=more, minlength=steps.n)


@dataclass(frozen=True, eq=False)
class ProductLaw:
    """A product of histograms on the latent space, one of each coordinate.

    A posterior that is spread over dozens of sets of changed columns has no shape that a few normal laws could have;
    fitted to some hundred points, these leave gaps between them, and draws that fall there carry most of the weight.
    Its marginals are known well from as many points, and their product has no gaps.

    Parameters
    ----------
    log_ratio : array of shape (m, bins)
        Log density in each bin, against the latent law.
    """

    log_ratio: Array

    @property
    def dimension(self) -> int:
        """Number of latent coordinates."""
        return len(self.log_ratio)

    @classmethod
    def fit(cls, z: Array, weights: Array, n: float) -> "ProductLaw":
        """Fit to weighted points ``(N, m)`` that are worth ``n`` independent ones.

        A coordinate whose histogram diverges from the latent law by no more than chance explains stays as it is.
        """
        chance, bins = _bin_chances(), len(_EDGES) + 1
        where = np.searchsorted(_EDGES, z)
        found = np.array([np.bincount(own, weights, bins) for own in where.T])
        ratio = np.pad(found / chance, ((0, 0), (1, 1)), mode="edge")
        found = (0.25 * ratio[:, :-2] + 0.5 * ratio[:, 1:-1] + 0.25 * ratio[:, 2:]) * chance
        found /= found.sum(axis=1, keepdims=True)
        divergence = np.sum(found * np.log(np.maximum(found / chance, TINY)), axis=1)
        by_chance = 0.5 * np.sum(found > 0, axis=1) / n  # expected of a histogram of the latent law itself
        learned = np.clip(1.0 - by_chance / np.maximum(divergence, TINY), 0.0, 1.0 - _KEPT_LATENT)[:, None]
        return cls(np.log(learned * found / chance + (1.0 - learned)))

    def place(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into draws."""
        chance, z = _bin_chances(), np.empty(e.shape)
        start = np.cumsum(chance) - chance
        for j, ratio in enumerate(np.exp(self.log_ratio)):
            below, u = np.cumsum(chance * ratio) - chance * ratio, ndtr(e[:, j])
            where = np.searchsorted(below[1:], u)
            z[:, j] = ndtri(np.clip(start[where] + (u - below[where]) / ratio[where], _LEAST, _MOST))
        return z

    def log_density(self, z: Array) -> Array:
        """Log density ``(n,)`` against the latent law."""
        return self.log_ratio[np.arange(z.shape[1]), np.searchsorted(_EDGES, z)].sum(axis=1)


def _bin_chances() -> Array:
    """Mass of the latent law in each bin of a histogram."""
    return np.diff(ndtr(_EDGES), prepend=0.0, append=1.0)


def _beyond() -> Array:
    """Share of a side's mass ``(steps,)`` that lies beyond the beginning of each of its steps."""
    return np.exp(-_DEPTH * np.arange(_STEPS))


def tilt(posterior: GibbsPosterior, sites: Sites) -> list[TiltedLaw]:
    """Return laws that diverge from the latent law about as far as a posterior with these sites can.

    There are none where columns are few, or the prior moves all of them. What each coordinate does by itself is asked
    at the row, two rows for each.
    """
    prior, m = posterior.prior, posterior.prior.dimension
    if not prior.spikes or m < MANY or len(sites.height) == 0:
        return []
    tail = ndtr(-_edge_of_spikes(prior))
    middle = -ndtri(_beyond()[:, None] * np.exp(-0.5 * _DEPTH) * tail)
    price = np.concatenate([_prices(posterior, -middle)[::-1], np.zeros((1, m)), _prices(posterior, middle)])
    law = TiltedLaw(tail, price, 0.0)
    return [law.diverge(share * float(sites.height[0])) for share in _SHARES] if price.any() else []


def _prices(posterior: GibbsPosterior, z: Array) -> Array:
    """Return what the potential changes by where single coordinates are moved to the steps ``(steps, m)`` of one side.

    One step of each is asked about; on the others the price is taken to be in proportion to the change.
    """
    prior = posterior.prior
    points = Points.evaluate(posterior, np.vstack([np.zeros((1, z.shape[1])), np.diag(z[_ASKED])]))
    potential = -log_target(posterior.mixture, points)
    with np.errstate(invalid="ignore"):
        price = np.nan_to_num(potential[1:] - potential[0], nan=0.0, posinf=_FARTHEST, neginf=0.0)
    change = np.abs(np.nan_to_num(prior.place(z).x - prior.x0))[:, prior.free]
    return price * change / np.where(change[_ASKED] > 0, change[_ASKED], 1.0)


def _edge_of_spikes(prior: LocatedPrior) -> Array:
    """Return how far each latent coordinate goes without changing its column, ``(m,)``: found by halving."""
    low, high = np.zeros(prior.dimension), np.full(prior.dimension, _WIDEST_SPIKE)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        stays = np.isclose(prior.place(middle[None, :]).x[0], prior.x0, rtol=0, atol=0, equal_nan=True)[prior.free]
        low, high = np.where(stays, middle, low), np.where(stays, high, middle)
    return low
