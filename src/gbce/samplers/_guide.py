"""A guide: normal laws fitted to what earlier runs found, so that every island of a later run starts in every mode."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import effective_sample_size, normalise, resample_evenly
from gbce.base import Array
from gbce.draws import Draws
from gbce.posterior import Mixture
from gbce.samplers._moves import NormalLaw

__all__ = ["Guide", "guide_of"]

_SHARE = 0.5  # of the points that a run starts from
_FITTED_TO = 4_000  # points
_MOST = 24  # laws
_LEAST_POINTS = 40  # of a law
_WIDER = 1.5  # variances, because a mode that was met by chance is wider than what was seen of it
_ITERATIONS = 30
_AT_ONCE = 4_096  # points
_TRIMMED = 0.5  # power of an island's evidence: how much mass a mode has is not known yet where islands disagree


@dataclass(frozen=True)
class Guide:
    """A share of the starting law: a mixture of normal laws in the latent space.

    Parameters
    ----------
    laws : tuple of NormalLaw
        Each counts the same.
    share : float
        Of the starting law; the rest is the latent law ``N(0, I)`` itself.
    """

    laws: tuple[NormalLaw, ...]
    share: float

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points from the laws, ``(n, m)``."""
        which = rng.integers(len(self.laws), size=n)
        z = rng.standard_normal((n, len(self.laws[0].mean)))
        for k, law in enumerate(self.laws):
            own = which == k
            z[own] = law.mean + law.noise(z[own])
        return z

    def near(self, z: Array) -> Array:
        """Log density ``(n,)`` of the laws against the latent law."""
        return logsumexp(_log_densities(self.laws, z), axis=1) - np.log(len(self.laws))

    def excess(self, z: Array) -> Array:
        """Log density ``(n,)`` of the starting law against the latent law: never below ``log(1 - share)``."""
        return np.logaddexp(np.log1p(-self.share), np.log(self.share) + self.near(z))


def guide_of(runs: Sequence[Draws], rng: np.random.Generator, mixture: Mixture, mass: float = 1.0) -> Guide:
    """Fit normal laws to the points of all islands of some runs; ``mass`` of the latent law meets the constraints.

    Each is looked at twice, at its eta and half-way up to it, where islands still have modes that most lose later. The
    fit need not be good: what is drawn from it is weighed by its density.
    """
    long = [run for run in runs if len(run.rungs) > 1]
    half = [run.reweigh(replace(mixture, eta=run.rungs[len(run.rungs) // 2 - 1])) for run in long]
    laws = [law.widened(_WIDER) for run in (*runs, *half) for law in _fitted(run, rng)]
    return Guide(tuple(laws), mass * _SHARE / (mass * _SHARE + 1 - _SHARE))


def _fitted(run: Draws, rng: np.random.Generator) -> list[NormalLaw]:
    """Cluster a run's points, and refine the clusters by expectation and maximisation."""
    weights = _evened(run)
    z = run.pool.z[resample_evenly(rng, weights, _FITTED_TO)]
    each = min(effective_sample_size(weights), _FITTED_TO) / _FITTED_TO  # independent points that one stands for
    part = _clustered(rng, z, int(np.clip(each * len(z) / _LEAST_POINTS, 1, _MOST)))
    for _ in range(_ITERATIONS):
        large = each * part.sum(axis=0) >= _LEAST_POINTS
        part = part[:, large] if large.any() else np.ones((len(z), 1))
        size = part.sum(axis=0)
        laws = [NormalLaw.fitted(z, column / total, each * total) for column, total in zip(part.T, size, strict=True)]
        log_part = _log_densities(laws, z) + np.log(size)
        before, part = part, np.exp(log_part - logsumexp(log_part, axis=1, keepdims=True))
        if np.array_equal(before, part):  # every further round would be the same
            break
    return laws


def _evened(draws: Draws) -> Array:
    """Weights ``(N,)`` of the pool's points with islands nearer to each other than their evidence is."""
    groups = np.zeros(len(draws.pool), dtype=int) if draws.groups is None else draws.groups
    island = np.bincount(groups, weights=draws.pool_weights)[groups]
    with np.errstate(divide="ignore"):
        return normalise(np.log(draws.pool_weights) - _TRIMMED * np.log(np.maximum(island, 1e-300)))


def _log_densities(laws: Sequence[NormalLaw], z: Array) -> Array:
    """Log density of each law against the latent law, ``(n, K)``."""
    mean = np.column_stack([law.mean for law in laws])
    level = -0.5 * np.square(mean).sum(axis=0) - 0.5 * np.array([np.log(law.variance).sum() for law in laws])
    directions = np.column_stack([law.directions for law in laws])
    centre = np.concatenate([law.mean @ law.directions for law in laws])
    whose = np.repeat(np.arange(len(laws)), [len(law.variance) for law in laws])
    narrower = np.zeros((len(whose), len(laws)))
    narrower[np.arange(len(whose)), whose] = np.concatenate([1 / law.variance - 1 for law in laws])
    densities = z @ mean + level
    for start in range(0, len(z), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        densities[some] -= 0.5 * np.square(z[some] @ directions - centre) @ narrower
    return densities


def _clustered(rng: np.random.Generator, z: Array, k: int) -> Array:
    """Whose of ``k`` clusters each point ``(n, m)`` is, as a table ``(n, k)`` of zeros and ones.

    Centres are points far from each other (Arthur and Vassilvitskii, 2007), clusters what lies nearest to each.
    """
    nearest = np.full(len(z), np.inf)
    part = np.zeros(len(z), dtype=int)
    for number in range(k):
        chance = np.ones(len(z)) if number == 0 else nearest
        if chance.sum() <= 0:
            break
        centre = z[rng.choice(len(z), p=chance / chance.sum())]
        distance = np.square(z - centre).sum(axis=1)
        part[distance < nearest] = number
        nearest = np.minimum(nearest, distance)
    return np.equal(part[:, None], np.arange(k)).astype(float)
