"""Draws: evaluated points with weights, the waist that every rule, metric and plot reads.

A sampler evaluates a *pool* of points and weighs them; the draws are a selection out of it. Nothing below this
room needs the model: outputs, losses and verdicts of every point are kept, per model.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from gbce._weights import Array, effective_sample_size, log_mean_exp, normalise, resample
from gbce.posterior import Mixture

__all__ = ["Draws", "Points"]


@dataclass(frozen=True, eq=False)
class Points:
    """Evaluated points; ``n`` points, ``m`` latent coordinates, ``d`` features, ``K`` models.

    Parameters
    ----------
    z : array of shape (n, m)
        Latent coordinates.
    x : array of shape (n, d)
        Rows, encoded.
    outputs, loss : array of shape (n, K)
        Each model's output and loss.
    reached : bool array of shape (n, K)
        Whether each model's output counts as reached.
    cost : array of shape (n,)
        The prior's distance d(row, x).
    extra : array of shape (n,)
        Correction for a map that is not the prior itself.
    """

    z: Array
    x: Array
    outputs: Array
    loss: Array
    reached: Array
    cost: Array
    extra: Array

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Array) -> "Points":
        """Return the points at ``index``."""
        return Points(*(getattr(self, f.name)[index] for f in fields(self)))


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from the posterior.

    Parameters
    ----------
    pool : Points
        Every point the sampler evaluated and weighed.
    pool_weights : array of shape (N,)
        Posterior weight of each pool point; they sum to one.
    index : int array of shape (n,)
        Position of each draw in the pool.
    weights : array of shape (n,)
        Weight of each draw; they sum to one.
    resampled : bool
        Whether the draws were picked from the pool at random, which adds error of its own.
    prior_change : array of shape (d,)
        Mean absolute change of each feature under the prior.
    log_evidence, log_evidence_se : float
        ``log E_prior[exp(-potential)]`` and its Monte Carlo error.
    rungs : tuple of float
        Temperatures the sampler went through, the last one being eta.

    Examples
    --------
    ``draws.x`` is ``(n, d)``, ``draws.weights`` is ``(n,)``, ``draws.loss`` is ``(n, K)``.
    """

    pool: Points
    pool_weights: Array
    index: Array
    weights: Array
    resampled: bool
    prior_change: Array
    log_evidence: float
    log_evidence_se: float
    rungs: tuple[float, ...]

    @classmethod
    def weighed(cls, pool: Points, mixture: Mixture, x0: Array) -> "Draws":
        """Weigh a pool of points that came from the prior's map; the draws are then the whole pool.

        The evidence is a ratio of two means over the map's law: ``E[exp(-potential - extra)] / E[exp(-extra)]``.
        """
        log_weights = -mixture.potential(pool.loss) - pool.extra
        weights, prior_weights = normalise(log_weights), normalise(-pool.extra)
        return cls(
            pool=pool,
            pool_weights=weights,
            index=np.arange(len(pool)),
            weights=weights,
            resampled=False,
            prior_change=prior_weights @ np.abs(pool.x - x0),
            log_evidence=log_mean_exp(log_weights) - log_mean_exp(-pool.extra),
            # delta method: log(a / b) has the influence w_i - v_i of the two sets of weights
            log_evidence_se=float(np.sqrt(np.square(weights - prior_weights).sum())),
            rungs=(float(mixture.eta),),
        )

    def resample(self, rng: np.random.Generator, n: int) -> "Draws":
        """Pick ``n`` draws of equal weight from the pool, with replacement."""
        picks = resample(rng, self.pool_weights, n)
        return replace(self, index=picks, weights=np.full(n, 1.0 / n), resampled=True)

    @cached_property
    def points(self) -> Points:
        """The drawn points, ``n`` of them."""
        return self.pool.take(self.index)

    @property
    def z(self) -> Array:
        """Latent coordinates ``(n, m)``."""
        return self.points.z

    @property
    def x(self) -> Array:
        """Encoded rows ``(n, d)``."""
        return self.points.x

    @property
    def outputs(self) -> Array:
        """Each model's output ``(n, K)``."""
        return self.points.outputs

    @property
    def loss(self) -> Array:
        """Each model's loss ``(n, K)``."""
        return self.points.loss

    @property
    def reached(self) -> Array:
        """Each model's verdict ``(n, K)``."""
        return self.points.reached

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def ess(self) -> float:
        """Effective sample size of the pool's weights."""
        return effective_sample_size(self.pool_weights)

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """Positions in the pool of the distinct draws ``(u,)`` and the total weight of each ``(u,)``."""
        where, inverse = np.unique(self.index, return_inverse=True)
        return where, np.bincount(inverse, weights=self.weights)

    def mean(self, values: Array) -> Array:
        """Weighted mean over the draws of ``values`` given for the pool, ``(N, ...)``."""
        return np.tensordot(self.weights, values[self.index], axes=1)

    def standard_error(self, influence: Array) -> Array:
        """Monte Carlo error of a figure from its influence values on the pool, ``(N, ...)``.

        The influence of a mean is value minus mean. The first term is the error of the weighted pool, the second
        that of picking the draws out of it.
        """
        squared = np.square(influence)
        variance = np.tensordot(np.square(self.pool_weights), squared, axes=1)
        if self.resampled:
            variance = variance + np.tensordot(self.pool_weights, squared, axes=1) / len(self)
        return np.sqrt(variance)
