"""Pool the means of groups by a normal hierarchy: population, group, row (Gelman et al., Bayesian Data Analysis, 5.4).

Rows scatter around the mean of their group, and the means of groups around that of the population. Given how far the
groups scatter, all posteriors are normal; that spread is integrated out on a grid.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr, stdtrit

from gbce.base import Array

__all__ = ["PooledMeans", "moderate", "pool_means"]

# The spread between groups has a half-Cauchy prior (Gelman, 2006) with the spread of the rows as its scale, which
# allows any number of groups, two included. The grid covers its quantiles from 0.1% to 99.9%.
_GRID, _ENDS = 400, (0.001, 0.999)
_MODERATION = 4.0  # rows that the common spread counts for in that of a group (Smyth, 2004, finds 3 to 5); by hand
_QUANTILE_STEPS = 60  # halvings of an interval of a mixture: to the last bit


@dataclass(frozen=True, eq=False)
class PooledMeans:
    """The posterior of the means of ``g`` groups: a mixture of normals over ``t`` spreads between groups."""

    weights: Array  # (t,) probability of each spread
    spreads: Array  # (t,)
    means: Array  # (t, g) given each spread
    covariances: Array  # (t, g, g) given each spread
    population: tuple[float, float]  # mean and standard deviation of the population's mean

    def mean(self, contrast: Array) -> float:
        """Return the posterior mean of a linear function ``(g,)`` of the means."""
        return float(self.weights @ (self.means @ contrast))

    def interval(self, contrast: Array, mass: float) -> tuple[float, float]:
        """Return the central interval of a linear function ``(g,)`` of the means."""
        return self._quantile(contrast, (1.0 - mass) / 2.0), self._quantile(contrast, (1.0 + mass) / 2.0)

    def probability_above(self, contrast: Array, value: float = 0.0) -> float:
        """Return the probability that a linear function ``(g,)`` of the means exceeds a value."""
        centre, sd = self._parts(contrast)
        return float(1.0 - self.weights @ _normal_below(value, centre, sd))

    def _parts(self, contrast: Array) -> tuple[Array, Array]:
        variance = np.einsum("tij,i,j->t", self.covariances, contrast, contrast)
        return self.means @ contrast, np.sqrt(np.maximum(variance, 0.0))

    def _quantile(self, contrast: Array, level: float) -> float:
        """Return a quantile of the mixture by bisection."""
        centre, sd = self._parts(contrast)
        low, high = float((centre - 12.0 * sd).min()), float((centre + 12.0 * sd).max())
        for _ in range(_QUANTILE_STEPS):
            middle = 0.5 * (low + high)
            below = float(self.weights @ _normal_below(middle, centre, sd)) < level
            low, high = (middle, high) if below else (low, middle)
        return 0.5 * (low + high)


def _normal_below(value: float, centre: Array, sd: Array) -> Array:
    """Return the probability below a value; a step where there is no spread."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sd > 0, ndtr((value - centre) / np.where(sd > 0, sd, 1.0)), value >= centre)


def pool_means(means: Array, errors: Array, scale: float) -> PooledMeans:
    """Return the posterior of the means ``(g,)`` of groups; one without rows has the standard error infinity."""
    known = np.isfinite(errors) & np.isfinite(means)
    y, variance = np.where(known, means, 0.0), np.where(known, np.square(errors), np.inf)
    levels = np.linspace(*_ENDS, _GRID)
    spreads = scale * np.tan(0.5 * np.pi * levels)  # equal probabilities of the half-Cauchy distribution
    total = np.square(spreads)[:, None] + variance  # (t, g)
    precision = np.where(known, 1.0 / np.maximum(total, np.finfo(float).tiny), 0.0)
    mass = precision.sum(axis=1)
    centre = (precision @ y) / mass
    fit = np.where(known, precision * np.square(y - centre[:, None]) - np.log(np.where(known, precision, 1.0)), 0.0)
    log_weights = -0.5 * fit.sum(axis=1) - 0.5 * np.log(mass)
    weights = np.exp(log_weights - logsumexp(log_weights))
    # given the spread: each mean is drawn to the population's, whose own uncertainty they share
    own = np.where(known, np.square(spreads)[:, None] * precision, 0.0)  # the weight of a group's own rows
    pooled = own * y + (1.0 - own) * centre[:, None]
    alone = np.where(known, own * np.where(known, variance, 0.0), np.square(spreads)[:, None])
    shared = (1.0 - own)[:, :, None] * (1.0 - own)[:, None, :] / mass[:, None, None]
    covariances = shared + alone[:, :, None] * np.eye(len(means))
    of_all = float(weights @ centre)
    spread_of_all = float(np.sqrt(weights @ (1.0 / mass + np.square(centre - of_all))))
    return PooledMeans(weights, spreads, pooled, covariances, (of_all, spread_of_all))


def moderate(values: list[Array]) -> tuple[Array, Array, float]:
    """Return the mean of the values of each group, its standard error, and the spread of the rows."""
    # the variance of a group is drawn to the common one, which counts for a few rows; the error is widened by the ratio
    # of Student's to normal quantiles, so that groups of few rows are not taken for certain
    n = np.array([len(one) for one in values], dtype=float)
    means = np.array([one.mean() if len(one) else np.nan for one in values])
    squares = np.array([np.square(one - one.mean()).sum() if len(one) else 0.0 for one in values])
    freedom = max(float((n - 1.0)[n > 0].sum()), 1.0)
    common = float(squares.sum()) / freedom
    own = np.maximum(n - 1.0, 0.0)
    variance = (squares + _MODERATION * common) / (own + _MODERATION)
    wider = stdtrit(np.minimum(own + _MODERATION, freedom + own.min() + 1.0), 0.975) / 1.959963984540054
    with np.errstate(divide="ignore"):
        errors = np.where(n > 0, wider * np.sqrt(variance / np.maximum(n, 1.0)), np.inf)
    return means, errors, float(np.sqrt(common))
