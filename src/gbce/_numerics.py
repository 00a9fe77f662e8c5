"""Numbers of any kind: log weights, effective sample size, Pareto k, quantiles, resampling; streams of randomness.

Everything here works on plain arrays and knows nothing of rows, models or priors. Weights come in two forms:
``log_weights`` are unnormalised logarithms, ``weights`` are normalised to sum to one. Randomness is one number per
explanation and one independent stream per purpose, without global state.
"""

import math
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gbce._validation import is_count
from gbce.base import Array

__all__ = [
    "ANSWERING",
    "DECIDING",
    "DOUBTING",
    "ENOUGH_ESS",
    "HUGE",
    "JUDGING",
    "MATRIX_UP_TO",
    "MAX_PARETO_K",
    "NORMAL_975",
    "PRINTED_Z_95",
    "REWEIGHTING",
    "ROUNDS_TO_ZERO",
    "SAMPLING",
    "SHARE_ROUNDING",
    "TINY",
    "WEIGHT_ROUNDING",
    "WIDEST",
    "WORST_R_HAT",
    "effective_sample_size",
    "first_of_each",
    "first_of_least",
    "fork",
    "log_mean_exp",
    "log_sum_exp",
    "log_total",
    "normalise",
    "pareto_k",
    "resample",
    "resample_evenly",
    "resample_systematically",
    "row_keys",
    "seed_number",
    "seed_numbers",
    "share_and_error",
    "stream",
    "weighted_quantile",
    "wilson",
]


ENOUGH_ESS = 100.0  # effective draws: with fewer, the error of a share of one half is above 5%
MAX_PARETO_K = 0.7  # Vehtari et al. (2024): beyond it, weighted averages are unreliable
WORST_R_HAT = 1e3  # stands for that of chains that do not move at all, which is infinite or not a number
PRINTED_Z_95 = 1.96  # errors on either side of intervals in texts and pictures: the figure that the documents name
ROUNDS_TO_ZERO = 0.005  # shares below it would be printed as 0%
NORMAL_975 = 1.959964  # 97.5% quantile of N(0, 1): so many standard errors on either side cover 95%
TINY, HUGE = 1e-300, 1e300  # floor of divisors and logarithms, ceiling of sums; doubles end at 1e-308 and 1e308
WIDEST = 1e15  # moves in units of scale: a double has some 16 digits, so the row is lost beside a wider one
_FORK_WORDS = 4  # of 63 bits each that a generator of its own is seeded with: as much as numpy seeds one with
MATRIX_UP_TO = 128  # coordinates: a matrix of them takes about as long to handle as the vectors of forty steps

_FEWEST_WEIGHTS = 25  # a fifth of them are five, the fewest that a Pareto tail is fitted to
_TAIL_SHARE, _TAIL_ROOTS = 0.2, 3.0  # the tail is min(0.2 n, 3 sqrt(n)) of n weights (Vehtari et al., 2024)
_ONE_POINT = 1.0 + 1e-9  # effective sample size of a single point, up to rounding
_SAME_LOG_WEIGHT = 1e-12  # range of log weights that differ by rounding only
_CUMULATIVE_ROUNDING = 1e-12  # keeps q = 0.9 of ten equal weights at the ninth value
WEIGHT_ROUNDING = 1e-12  # sums of normalised weights that differ by less are equal: thousands of roundings of 1e-16
SHARE_ROUNDING = 1e-9  # the same with room to spare, where a share is compared with one that a user wrote down


def log_sum_exp(log_values: Array, axis: int) -> Array:
    """Return ``log(sum(exp(log_values)))`` along an axis, for numbers and minus infinity; quicker than scipy's."""
    most = log_values.max(axis=axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    shares = log_values - most
    np.exp(shares, out=shares)
    with np.errstate(divide="ignore"):
        return np.log(shares.sum(axis=axis)) + most.squeeze(axis)


def log_total(log_values: Array) -> float:
    """Return ``log(sum(exp(log_values)))`` of numbers ``(n,)``, to the last bit as scipy 1.17 has it.

    Its own function, which takes arrays of any kind, spends most of its time on finding out of which kind they are.

    Examples
    --------
    >>> round(log_total(np.log([1.0, 2.0, 3.0])), 6) == round(math.log(6.0), 6)
    True
    """
    most = log_values.max(initial=-math.inf)
    if not np.isfinite(most):
        return float(logsumexp(log_values))
    largest = log_values == most  # they are counted, not summed, so that small ones beside them keep their digits
    others = np.exp(log_values - most)
    others[largest] = 0.0
    n = np.count_nonzero(largest)
    return float(np.log1p(others.sum() / n) + np.log(float(n)) + most)


def log_mean_exp(log_values: Array) -> float:
    """Return ``log(mean(exp(log_values)))`` without overflow."""
    return log_total(log_values) - math.log(len(log_values))


def normalise(log_weights: Array) -> Array:
    """Turn unnormalised log weights ``(n,)`` into weights that sum to one.

    Raises
    ------
    ValueError
        If every weight is zero: then there is no distribution to normalise.
    """
    total = log_total(log_weights)
    if not np.isfinite(total):
        raise ValueError("every point has weight zero: the loss or the distance is infinite everywhere")
    weights = np.exp(log_weights - total)
    return weights / weights.sum()


def effective_sample_size(weights: Array) -> float:
    """Kish's effective sample size ``1 / sum(w**2)`` of normalised weights."""
    return float(1.0 / np.sum(np.square(weights)))


def pareto_k(log_weights: Array) -> float:
    """Shape of a generalised Pareto law fitted to the largest weights (Vehtari et al., 2024).

    Above ``MAX_PARETO_K`` a weighted average cannot be trusted at this sample size. Where the largest weights are all
    equal there is no tail to fit and the answer is ``-inf``: such an average behaves like a plain mean. One
    point that carries everything has an infinite tail, ``inf``.
    """
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < _FEWEST_WEIGHTS:
        return math.inf
    if effective_sample_size(normalise(finite)) < _ONE_POINT:
        return math.inf
    n_tail = math.floor(min(_TAIL_SHARE * len(finite), _TAIL_ROOTS * math.sqrt(len(finite))))
    if np.ptp(np.partition(finite, len(finite) - n_tail)[-n_tail:]) < _SAME_LOG_WEIGHT:
        return -math.inf
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    # psislw is written for log likelihoods of leave-one-out: it negates its argument.
    with np.errstate(all="ignore"):
        return float(array_stats.psislw(-finite)[1])


def weighted_quantile(values: Array, weights: Array, q: float) -> float:
    """Smallest value ``t`` with ``P(value <= t) >= q`` under the weights (an inverse CDF, no interpolation)."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    position = np.searchsorted(cumulative, q * cumulative[-1] - _CUMULATIVE_ROUNDING, side="left")
    return float(values[order[min(position, len(values) - 1)]])


def resample(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices with replacement, each with probability ``weights`` (multinomial resampling)."""
    cumulative = np.cumsum(weights)
    picks = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
    return np.minimum(picks, len(weights) - 1)


def resample_systematically(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices on a comb with one random offset: each point comes as often as its weight says, within one."""
    cumulative = np.cumsum(weights)
    picks = np.searchsorted(cumulative, (rng.random() + np.arange(n)) / n * cumulative[-1], side="right")
    return np.minimum(picks, len(weights) - 1)


def resample_evenly(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices systematically, the points in a random order.

    Points often lie in a pattern: the states of many chains, step by step, are one. In that order the comb's teeth
    could fall on the same few chains again and again.
    """
    order = rng.permutation(len(weights))
    return order[resample_systematically(rng, weights[order], n)]


def share_and_error(share: Array, n: float) -> tuple[Array, Array]:
    """Return a share of ``n`` trials and its standard error, which is not zero at shares of 0 and 1.

    There the two extra successes and failures of Agresti and Coull (1998) are counted: none in 200 trials is not
    "impossible".
    """
    adjusted = np.where((share == 0) | (share == 1), (share * n + 2) / (n + 4), share)
    size = np.where((share == 0) | (share == 1), n + 4, n)
    return share, np.sqrt(adjusted * (1 - adjusted) / size)


def wilson(share: Array, n: float | Array, z: float = NORMAL_975) -> tuple[Array, Array]:
    """Return Wilson's (1927) interval of shares of ``n`` trials; at shares of 0 and 1 it still has a width.

    For a mean of figures between zero and one it is at least as wide as necessary: none varies more than a yes or no.
    """
    share = np.asarray(share, dtype=float)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # at shares of 0 and 1 one end is the share itself, but for its last bit
    return np.clip(middle - half, 0.0, share), np.clip(middle + half, share, 1.0)


def row_keys(rows: Array) -> list[bytes]:
    """Return the bytes of each row of an array ``(n, d)``: quicker to tell rows apart by than their numbers."""
    whole, size = rows.tobytes(), rows.itemsize * rows.shape[1]
    return [whole[i * size : (i + 1) * size] for i in range(len(rows))]


def first_of_each(rows: Array) -> Array:
    """Positions, rising, of rows ``(n, d)`` that equal none before them to the last bit.

    Examples
    --------
    >>> first_of_each(np.array([[2, 1], [0, 5], [2, 1], [0, 4]]))
    array([0, 1, 3])
    """
    first: dict[bytes, int] = {}
    for i, key in enumerate(row_keys(rows)):
        first.setdefault(key, i)
    return np.array(list(first.values()), dtype=int)


def first_of_least(values: Array, *tie_breakers: Array) -> int:
    """Position of the smallest value; ties go to the smallest tie breaker, then to the first."""
    return int(np.lexsort((*reversed(tie_breakers), values))[0])


SAMPLING, DECIDING, JUDGING, REWEIGHTING, ANSWERING, DOUBTING = (
    0,
    1,
    2,
    3,
    4,
    5,
)  # purposes of streams; a seed means other bits if they change


def seed_number(seed: Any) -> int:
    """Turn what a user may give as a seed into one whole number; ``None`` asks the operating system."""
    if seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if isinstance(seed, np.random.SeedSequence):
        return int.from_bytes(seed.generate_state(4).tobytes(), "little")
    if is_count(seed, least=0):
        return int(seed)
    raise ValueError(f"seed must be a whole number of at least 0, a Generator, a SeedSequence or None, not {seed!r}")


def seed_numbers(seed: Any, n: int) -> list[int]:
    """Turn a seed for each of ``n`` rows, or one for all of them, into ``n`` numbers; ``None`` gives each its own.

    Examples
    --------
    >>> seed_numbers(7, 3), seed_numbers([1, 2, 3], 3)
    ([7, 7, 7], [1, 2, 3])
    """
    if seed is None:
        seed = np.random.SeedSequence().spawn(n)
    if not isinstance(seed, (list, tuple, np.ndarray)):
        return [seed_number(seed)] * n
    if len(seed) != n:
        raise ValueError(f"seed has {len(seed)} seeds for {n} rows: give one for all of them, or one for each")
    return [seed_number(one) for one in seed]


def stream(seed: int, purpose: int, key: tuple[int, ...] = ()) -> np.random.Generator:
    """Return the generator for one purpose; what one purpose consumes does not shift another.

    With a ``key``, such as that of a row, the same seed gives numbers that are independent of those without it.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *key)))


def fork(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator of its own for a task, so that it does not matter what others draw in the meantime."""
    return np.random.default_rng(rng.integers(2**63, size=_FORK_WORDS))
