"""Numerical helpers: log weights, effective sample size, Pareto k, quantiles, resampling, random streams.

Everything here works on plain arrays and knows nothing of rows, models or priors. ``log_weights`` are unnormalised
logarithms, ``weights`` sum to one. There is one seed per explanation and one independent random stream per purpose,
without global state.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gbce._validation import is_count
from gbce.base import Array

ENOUGH_ESS = 100.0  # effective draws: with fewer, the standard error of a share of one half is above 5%
MAX_PARETO_K = 0.7  # Vehtari et al. (2024): beyond it, weighted averages are unreliable
WORST_R_HAT = 1e3  # stands for that of chains that do not move at all, which is infinite or NaN
PRINTED_Z_95 = 1.96  # standard errors on either side of intervals in text and plots: the number in the documentation
ROUNDS_TO_ZERO = 0.005  # shares below it would be printed as 0%
NORMAL_975 = 1.959964  # 97.5% quantile of N(0, 1): so many standard errors on either side cover 95%
TINY, HUGE = 1e-300, 1e300  # floor of divisors and logarithms, ceiling of sums; doubles end at 1e-308 and 1e308
# Relative differences that are rounding: of numbers computed here in another order (thousands of roundings of 1e-16),
# and with a margin, of a number that came from the user, a file or a model, or that ends a longer sum.
ROUNDING, WIDE_ROUNDING = 1e-12, 1e-9
WIDEST = 1e15  # moves in units of scale: a double has some 16 digits, so the row is lost beside a larger one
# Numbers handled together, results do not depend on it: 2 MB stay in a processor's cache, 32 MB bound memory; by hand.
CACHE_CELLS, MEMORY_CELLS = 250_000, 4_000_000
MATRIX_UP_TO = 128  # dimensions: handling a matrix takes about as long as handling the vectors of forty steps
# Purposes of random streams; changing one changes the results of every seed.
SAMPLING, DECIDING, JUDGING, REWEIGHTING, ANSWERING, DOUBTING, LISTING, PLANNING, FORESEEING = range(9)

_FORK_WORDS = 4  # of 63 bits each to seed a forked generator: as much entropy as numpy uses for a fresh one
_FEWEST_WEIGHTS = 25  # a fifth of them are five, the fewest to which a Pareto tail is fitted
_TAIL_SHARE, _TAIL_ROOTS = 0.2, 3.0  # the tail is min(0.2 n, 3 sqrt(n)) of n weights (Vehtari et al., 2024)


# --- log weights -----------------------------------------------------------------------------------------------------


def log_sum_exp(log_values: Array, axis: int) -> Array:
    """Compute ``log(sum(exp(log_values)))`` along an axis, for values below infinity; faster than scipy's."""
    most = log_values.max(axis=axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    shares = log_values - most
    np.exp(shares, out=shares)
    with np.errstate(divide="ignore"):
        return np.log(shares.sum(axis=axis)) + most.squeeze(axis)


def log_total(log_values: Array) -> float:
    """Compute ``log(sum(exp(log_values)))`` of ``(n,)``, bitwise as scipy 1.17 but without its dispatch overhead."""
    most = log_values.max(initial=-math.inf)
    if not np.isfinite(most):
        return float(logsumexp(log_values))
    largest = log_values == most  # counted, not summed, so that small values beside them keep their digits
    others = np.exp(log_values - most)
    others[largest] = 0.0
    n = np.count_nonzero(largest)
    return float(np.log1p(others.sum() / n) + np.log(float(n)) + most)


def log_mean_exp(log_values: Array) -> float:
    """Compute ``log(mean(exp(log_values)))`` without overflow."""
    return log_total(log_values) - math.log(len(log_values))


def normalise(log_weights: Array) -> Array:
    """Normalise log weights ``(n,)`` to weights that sum to one; raise ``ValueError`` if all are zero."""
    total = log_total(log_weights)
    if not np.isfinite(total):
        raise ValueError("every point has weight zero: the loss or the distance is infinite everywhere")
    weights = np.exp(log_weights - total)
    return weights / weights.sum()


def effective_sample_size(weights: Array) -> float:
    """Compute Kish's effective sample size ``1 / sum(w**2)`` of normalised weights."""
    return float(1.0 / np.sum(np.square(weights)))


def pareto_k(log_weights: Array) -> float:
    """Estimate the shape of a generalised Pareto tail of the weights (Vehtari et al., 2024).

    Above ``MAX_PARETO_K`` a weighted average is unreliable at this sample size. It is ``-inf`` if the largest weights
    are all equal, so that there is no tail to fit, and ``inf`` if one point has all the weight or there are too few.
    """
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < _FEWEST_WEIGHTS:
        return math.inf
    if effective_sample_size(normalise(finite)) < 1.0 + WIDE_ROUNDING:
        return math.inf
    n_tail = math.floor(min(_TAIL_SHARE * len(finite), _TAIL_ROOTS * math.sqrt(len(finite))))
    if np.ptp(np.partition(finite, len(finite) - n_tail)[-n_tail:]) < ROUNDING:
        return -math.inf
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    # psislw expects leave-one-out log likelihoods, and negates its argument.
    with np.errstate(all="ignore"):
        return float(array_stats.psislw(-finite)[1])


# --- quantiles and resampling ----------------------------------------------------------------------------------------


def weighted_quantile(values: Array, weights: Array, q: float) -> float:
    """Return the smallest value ``t`` with ``P(value <= t) >= q`` under the weights (inverse CDF, no interpolation)."""
    return float(weighted_quantiles(values, weights, np.array([q]))[0])


def weighted_quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Return the quantiles ``(q,)`` of :func:`weighted_quantile` at several levels ``(q,)``, sorted once."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    position = np.searchsorted(cumulative, levels * cumulative[-1] - ROUNDING, side="left")
    return np.asarray(values[order[np.minimum(position, len(values) - 1)]])


def resample(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices with replacement, each with probability ``weights`` (multinomial resampling)."""
    cumulative = np.cumsum(weights)
    picks = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
    return np.minimum(picks, len(weights) - 1)


def resample_systematically(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices by systematic resampling: counts differ from their expectation by less than one."""
    cumulative = np.cumsum(weights)
    picks = np.searchsorted(cumulative, (rng.random() + np.arange(n)) / n * cumulative[-1], side="right")
    return np.minimum(picks, len(weights) - 1)


def resample_evenly(rng: np.random.Generator, weights: Array, n: int) -> Array:
    """Draw ``n`` indices by systematic resampling in random order.

    Points are often ordered in a pattern, such as the states of many chains step by step, with which the regular
    spacing could coincide.
    """
    order = rng.permutation(len(weights))
    return order[resample_systematically(rng, weights[order], n)]


# --- binomial shares -------------------------------------------------------------------------------------------------


def share_and_error(share: Array, n: float) -> tuple[Array, Array]:
    """Return a share of ``n`` trials and its standard error; at 0 and 1 that of Agresti and Coull (1998), not zero."""
    adjusted = np.where((share == 0) | (share == 1), (share * n + 2) / (n + 4), share)
    size = np.where((share == 0) | (share == 1), n + 4, n)
    return share, np.sqrt(adjusted * (1 - adjusted) / size)


def wilson(share: Array, n: float | Array, z: float = NORMAL_975) -> tuple[Array, Array]:
    """Compute Wilson's (1927) interval for shares of ``n`` trials; it has positive width at 0 and 1 too.

    For a mean of values between zero and one it is conservative: none varies more than a binary outcome.
    """
    share = np.asarray(share, dtype=float)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # at shares of 0 and 1 one end is the share itself, up to rounding
    return np.clip(middle - half, 0.0, share), np.clip(middle + half, share, 1.0)


# --- rows and ties ---------------------------------------------------------------------------------------------------


def row_keys(rows: Array) -> list[bytes]:
    """Return the bytes of each row of an array ``(n, d)``, which are faster to compare than its numbers."""
    whole, size = rows.tobytes(), rows.itemsize * rows.shape[1]
    return [whole[i * size : (i + 1) * size] for i in range(len(rows))]


def first_of_each(rows: Array) -> Array:
    """Return the ascending positions of rows ``(n, d)`` that differ bitwise from all rows before them."""
    first: dict[bytes, int] = {}
    for i, key in enumerate(row_keys(rows)):
        first.setdefault(key, i)
    return np.array(list(first.values()), dtype=int)


def first_of_least(values: Array, *tie_breakers: Array) -> int:
    """Return the position of the smallest value; ties go to the smallest tie breaker, then to the first."""
    return int(np.lexsort((*reversed(tie_breakers), values))[0])


# --- random streams --------------------------------------------------------------------------------------------------


def seed_number(seed: Any) -> int:
    """Convert a user's seed to an integer; ``None`` takes entropy from the operating system."""
    if seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if isinstance(seed, np.random.SeedSequence):
        return int.from_bytes(seed.generate_state(4).tobytes(), "little")
    if is_count(seed, least=0):
        return int(seed)
    raise ValueError(f"seed must be an integer of at least 0, a Generator, a SeedSequence or None, not {seed!r}")


def seed_numbers(seed: Any, n: int) -> list[int]:
    """Convert one seed for each of ``n`` rows, or one for all of them, to ``n`` integers; ``None`` draws each anew."""
    if seed is None:
        seed = np.random.SeedSequence().spawn(n)
    if not isinstance(seed, (list, tuple, np.ndarray)):
        return [seed_number(seed)] * n
    if len(seed) != n:
        raise ValueError(f"seed has {len(seed)} seeds for {n} rows: give one for all of them, or one for each")
    return [seed_number(one) for one in seed]


def stream(seed: int, purpose: int, key: tuple[int, ...] = ()) -> np.random.Generator:
    """Return the random generator for one purpose, and optionally the ``key`` of a row, independent of all others."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *key)))


def fork(rng: np.random.Generator) -> np.random.Generator:
    """Return an independent generator for a task, so that its numbers do not depend on what others draw meanwhile."""
    return np.random.default_rng(rng.integers(2**63, size=_FORK_WORDS))


# --- compiled loops --------------------------------------------------------------------------------------------------


def compile_loop(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop by numba, cached on disk where some directory can be written."""
    import numba

    try:
        return numba.njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # numba finds no directory for its cache
        return numba.njit(nogil=True)(loop)
