"""Weights: log-space sums, effective sample size, Pareto k, weighted quantiles, resampling.

Everything here works on plain arrays and knows nothing of rows, models or priors. Weights come in two forms:
``log_weights`` are unnormalised logarithms, ``weights`` are normalised to sum to one.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[Any]

__all__ = [
    "Array",
    "effective_sample_size",
    "evenly",
    "log_mean_exp",
    "normalise",
    "pareto_k",
    "resample",
    "systematic",
    "weighted_quantile",
]


def log_mean_exp(log_values: Array) -> float:
    """Return ``log(mean(exp(log_values)))`` without overflow."""
    return float(logsumexp(log_values)) - math.log(len(log_values))


def normalise(log_weights: Array) -> Array:
    """Turn unnormalised log weights ``(n,)`` into weights that sum to one.

    Raises
    ------
    ValueError
        If every weight is zero: then there is no distribution to normalise.
    """
    total = logsumexp(log_weights)
    if not np.isfinite(total):
        raise ValueError("every point has weight zero: the loss or the distance is infinite everywhere")
    weights = np.exp(log_weights - total)
    return weights / weights.sum()


def effective_sample_size(weights: Array) -> float:
    """Kish's effective sample size ``1 / sum(w**2)`` of normalised weights."""
    return float(1.0 / np.sum(np.square(weights)))


def pareto_k(log_weights: Array) -> float:
    """Shape of a generalised Pareto law fitted to the largest weights (Vehtari et al., 2024).

    Above 0.7 a weighted average cannot be trusted at this sample size. Where the largest weights are all
    equal there is no tail to fit and the answer is ``-inf``: such an average behaves like a plain mean. One
    point that carries everything has an infinite tail, ``inf``.
    """
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < 25:
        return math.inf
    if effective_sample_size(normalise(finite)) < 1.0 + 1e-9:
        return math.inf
    n_tail = math.floor(min(0.2 * len(finite), 3.0 * math.sqrt(len(finite))))
    if np.ptp(np.partition(finite, len(finite) - n_tail)[-n_tail:]) < 1e-12:
        return -math.inf
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    # psislw is written for log likelihoods of leave-one-out: it negates its argument.
    with np.errstate(all="ignore"):
        return float(array_stats.psislw(-finite)[1])


def weighted_quantile(values: Array, weights: Array, q: float) -> float:
    """Smallest value ``t`` with ``P(value <= t) >= q`` under the weights (an inverse CDF, no interpolation)."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    # the tolerance keeps q = 0.9 of ten equal weights at the ninth value in spite of rounding
    position = np.searchsorted(cumulative, q * cumulative[-1] - 1e-12, side="left")
    return float(values[order[min(position, len(values) - 1)]])


def resample(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices with replacement, each with probability ``weights`` (multinomial resampling)."""
    cumulative = np.cumsum(weights)
    picks = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
    return np.minimum(picks, len(weights) - 1)


def systematic(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices on a comb with one random offset: each point comes as often as its weight says, within one."""
    cumulative = np.cumsum(weights)
    picks = np.searchsorted(cumulative, (rng.random() + np.arange(n)) / n * cumulative[-1], side="right")
    return np.minimum(picks, len(weights) - 1)


def evenly(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices on such a comb, the points in a random order.

    Points that lie in a pattern, as the places that many chains pass through in turn, could else meet the comb's teeth
    in the same few chains again and again.
    """
    order = rng.permutation(len(weights))
    return order[systematic(rng, weights[order], n)]
