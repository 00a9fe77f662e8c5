"""Standard symmetric distributions, their truncation as a map of Gaussian noise, and their moments in intervals.

Everything is computed in the nearer tail and with log probabilities, so that intervals far out, and very narrow ones,
stay accurate.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp, stdtr

from gbce._numerics import TINY
from gbce.base import Array

# Least tail probability of Student's t, at twelve deviations of the noise: beyond it quantiles would reach 1e75, which
# models in single precision cannot represent.
_LEAST_TAIL = float(ndtr(-12.0))
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)  # by definition of the normal density
# Width times slope of an interval up to which five Gauss-Legendre nodes integrate the density to rounding: the rule is
# exact up to degree nine, and 0.1**10 / 10! is below 1e-16. Differences of tail probabilities lose digits there.
_NARROW = 0.1
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(5)
_FARTHEST = 1e150  # stands for infinity, so that its square is finite; no distribution has mass there

# --- distributions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distribution:
    """A distribution symmetric about zero."""

    name: str
    cdf: Callable[[Array], Array]  # accurate in the lower tail; the upper one follows by symmetry
    quantile: Callable[[Array], Array]
    log_pdf: Callable[[Array], Array]
    from_normal: Callable[[Array], Array]  # maps standard normal noise to the untruncated distribution
    cost: Callable[[Array], Array]  # minus the log density, zero at zero
    reach: float  # where it becomes negligible: a cost of 40 or a little more, a density of some 1e-18 of its peak
    farthest: float  # where probabilities underflow double precision, at a cost of about 600: nothing occurs beyond


def _half_square(t: Array) -> Array:
    with np.errstate(over="ignore"):  # the cost of an enormous move is infinite
        return 0.5 * np.square(t)


def _laplace_cdf(t: Array) -> Array:
    return np.where(t < 0, 0.5 * np.exp(np.minimum(t, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(t, 0.0)))


def _laplace_quantile(u: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))


def _laplace_from_normal(z: Array) -> Array:
    return np.sign(z) * -(math.log(2.0) + log_ndtr(-np.abs(z)))


def _student_quantile(u: Array) -> Array:
    """Compute the quantile of Student's t with four degrees of freedom, in closed form."""
    tail = np.maximum(np.minimum(u, 1.0 - u), _LEAST_TAIL)
    root = np.sqrt(4.0 * tail * (1.0 - tail))
    size = 2.0 * np.sqrt(np.maximum(np.cos(np.arccos(np.minimum(root, 1.0)) / 3.0) / root - 1.0, 0.0))
    return np.where(u < 0.5, -size, size)


NORMAL = Distribution(
    "normal",
    ndtr,
    ndtri,
    lambda t: -0.5 * np.square(t) - 0.5 * math.log(2.0 * math.pi),
    lambda z: z,
    cost=_half_square,
    reach=9.0,
    farthest=35.0,
)
LAPLACE = Distribution(
    "laplace",
    _laplace_cdf,
    _laplace_quantile,
    lambda t: -np.abs(t) - math.log(2.0),
    _laplace_from_normal,
    cost=np.abs,
    reach=40.0,
    farthest=600.0,
)
# Four degrees of freedom: heavy tails, a finite variance, and a quantile in closed form.
STUDENT = Distribution(
    "student",
    lambda t: stdtr(4.0, t),
    _student_quantile,
    lambda t: math.log(0.375) - 2.5 * np.log1p(0.25 * np.square(t)),
    lambda z: np.sign(z) * -_student_quantile(ndtr(-np.abs(z))),
    cost=lambda t: 2.5 * np.log1p(0.25 * np.square(t)),
    reach=1e4,
    farthest=1e4,
)


KNOWN_DISTRIBUTIONS = (NORMAL, LAPLACE)  # those whose interval moments have closed forms

# --- truncation ------------------------------------------------------------------------------------------------------


def truncate_and_weigh(distribution: Distribution, z: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return :meth:`Truncation.truncate` and :func:`log_mass` of limits used once, sharing most of their work."""
    at_low, at_high = distribution.cdf(low), distribution.cdf(high)
    mass, upper = at_high - at_low, low > 0
    if upper.any():  # mirrored where the upper tail is nearer
        upper, least, most = np.broadcast_arrays(upper, low, high)
        mass[upper] = distribution.cdf(-least[upper]) - distribution.cdf(-most[upper])
    with np.errstate(divide="ignore", invalid="ignore"):
        return _truncate(distribution, z, low, high, at_low, at_high), np.log(mass)


@dataclass(frozen=True, eq=False)
class Truncation:
    """Truncation limits ``(k,)`` with the CDF there, computed once for repeated use."""

    distribution: Distribution
    low: Array
    high: Array
    at_low: Array  # CDF at the limits
    at_high: Array
    beyond_high: Array  # CDF at the mirrored limits: the upper tail probabilities
    beyond_low: Array

    @classmethod
    def of(cls, distribution: Distribution, low: Array, high: Array) -> "Truncation":
        """Compute the CDF at the limits."""
        return cls(
            distribution,
            low,
            high,
            distribution.cdf(low),
            distribution.cdf(high),
            distribution.cdf(-high),
            distribution.cdf(-low),
        )

    def take(self, which: Array) -> "Truncation":
        """Return the limits at ``which`` ``(m,)``."""
        ends = (self.low, self.high, self.at_low, self.at_high, self.beyond_high, self.beyond_low)
        return Truncation(self.distribution, *(end[which] for end in ends))

    def truncate(self, z: Array) -> Array:
        """Map standard normal noise ``(k,)`` or ``(n, k)`` to the distribution within the limits by its inverse CDF.

        Computed from the nearer tail, so that no digits are lost where the other CDF is close to one. In an unbounded
        tail, noise whose tail probability underflows is still mapped to a finite value.
        """
        mirrored = self.beyond_high, self.beyond_low
        return _truncate(self.distribution, z, self.low, self.high, self.at_low, self.at_high, mirrored)


def _truncate(
    distribution: Distribution,
    z: Array,
    low: Array,
    high: Array,
    at_low: Array,
    at_high: Array,
    mirrored: tuple[Array, Array] | None = None,
) -> Array:
    """Map noise given the CDF at the limits, and optionally at the ``mirrored`` limits (upper, lower)."""
    from_below = at_low + ndtr(z) * (at_high - at_low)
    lower = from_below <= 0.5
    above = ~lower
    value = np.empty(from_below.shape)
    value[lower] = distribution.quantile(np.maximum(from_below[lower], TINY))
    if mirrored is None and low.shape == high.shape == above.shape:
        at_low, at_high = distribution.cdf(-high[above]), distribution.cdf(-low[above])
    else:  # limits shared by many values are evaluated once
        ends = (distribution.cdf(-high), distribution.cdf(-low)) if mirrored is None else mirrored
        at_low, at_high = (_broadcast(end, above.shape)[above] for end in ends)
    tail = ndtr(-_broadcast(z, above.shape)[above])
    value[above] = -distribution.quantile(np.maximum(at_low + tail * (at_high - at_low), TINY))
    return value.clip(low, high)


def _broadcast(values: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast values to a shape, without a call if they already have it."""
    return values if values.shape == shape else np.broadcast_to(values, shape)


def untruncate(distribution: Distribution, value: Array, low: Array, high: Array) -> Array:
    """Invert :meth:`Truncation.truncate`; noise is infinite at the limits, NaN between equal limits."""
    with np.errstate(invalid="ignore", divide="ignore"):
        at_low, at_high = distribution.cdf(low), distribution.cdf(high)
        below = (distribution.cdf(value) - at_low) / (at_high - at_low)
        at_low, at_high = distribution.cdf(-high), distribution.cdf(-low)
        above = (distribution.cdf(-value) - at_low) / (at_high - at_low)
    return np.where(below <= 0.5, ndtri(np.clip(below, 0.0, 1.0)), -ndtri(np.clip(above, 0.0, 1.0)))


def log_mass(distribution: Distribution, low: Array, high: Array) -> Array:
    """Return the log probability of ``[low, high]``, computed in the nearer tail."""
    low, high = np.broadcast_arrays(low, high)
    upper = low > 0
    one, other = np.where(upper, -high, low), np.where(upper, -low, high)  # mirrored where the upper tail is nearer
    mass = distribution.cdf(other) - distribution.cdf(one)
    with np.errstate(divide="ignore", invalid="ignore"):  # NaN where rounding makes the mass negative
        return np.log(mass)


# --- moments and draws within intervals ------------------------------------------------------------------------------


class IntervalMoments(NamedTuple):
    """Log probability of each interval, and the conditional means of ``t``, ``t**2`` and ``|t|`` within it."""

    log_mass: Array
    mean: Array
    square: Array
    size: Array


def interval_moments(distribution: Distribution, low: Array, high: Array) -> IntervalMoments:
    """Compute moments of a standard distribution in intervals ``low < t <= high`` ``(n,)``; empty ones have no mass."""
    low, high = _clip_infinite(low), _clip_infinite(high)
    right = _side_moments(distribution, np.maximum(low, 0.0), np.maximum(high, 0.0))
    left = _side_moments(distribution, np.maximum(-high, 0.0), np.maximum(-low, 0.0))
    log_mass = np.logaddexp(right.log_mass, left.log_mass)
    with np.errstate(invalid="ignore"):
        on_right = np.where(np.isfinite(log_mass), np.exp(right.log_mass - log_mass), 0.0)
        on_left = np.where(np.isfinite(log_mass), np.exp(left.log_mass - log_mass), 0.0)
    size = on_right * right.mean + on_left * left.mean
    mean = on_right * right.mean - on_left * left.mean
    return IntervalMoments(log_mass, mean, on_right * right.square + on_left * left.square, size)


def draw_within(distribution: Distribution, low: Array, high: Array, u: Array, side: Array) -> Array:
    """Draw ``(n,)`` from a standard distribution within intervals that have mass, given uniform ``u`` and ``side``."""
    low, high = _clip_infinite(low), _clip_infinite(high)
    right = _side_moments(distribution, np.maximum(low, 0.0), np.maximum(high, 0.0)).log_mass
    left = _side_moments(distribution, np.maximum(-high, 0.0), np.maximum(-low, 0.0)).log_mass
    upper = np.log(np.maximum(side, np.finfo(float).tiny)) < right - np.logaddexp(right, left)
    near = np.where(upper, np.maximum(low, 0.0), np.maximum(-high, 0.0))
    far = np.where(upper, np.maximum(high, 0.0), np.maximum(-low, 0.0))
    if distribution is LAPLACE:
        size = near - np.log1p(u * np.expm1(near - far))
    else:
        start = log_ndtr(-near)
        size = -ndtri_exp(start + np.log1p(u * np.expm1(log_ndtr(-far) - start)))
    size = np.clip(size, near, far)
    return np.where(upper, size, -size)


class _SideMoments(NamedTuple):
    """Log probability of intervals on the positive side, and the conditional means of ``t`` and ``t**2``."""

    log_mass: Array
    mean: Array
    square: Array


def _side_moments(distribution: Distribution, near: Array, far: Array) -> _SideMoments:
    """Compute moments in intervals ``0 <= near < t <= far``; zero for empty ones."""
    found = _truncated_laplace_moments(near, far) if distribution is LAPLACE else _truncated_normal_moments(near, far)
    has_mass = (far > near) & np.isfinite(found.log_mass)
    log_mass = np.where(has_mass, found.log_mass, -np.inf)
    return _SideMoments(log_mass, np.where(has_mass, found.mean, 0.0), np.where(has_mass, found.square, 0.0))


def _truncated_laplace_moments(near: Array, far: Array) -> _SideMoments:
    """Compute moments of the Laplace distribution in closed form."""
    width = np.minimum(far - near, 700.0)  # exp(-700) is zero beside one, and exp(710) overflows
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mass = -near - math.log(2.0) + np.log(-np.expm1(-width))
        lost = width / np.expm1(width)
        beyond = np.clip(1.0 - lost, 0.0, width)
        square = np.clip(2.0 - lost * (width + 2.0), 0.0, np.square(width))
    return _SideMoments(log_mass, near + beyond, np.square(near) + 2.0 * near * beyond + square)


def _truncated_normal_moments(near: Array, far: Array) -> _SideMoments:
    """Compute moments of the normal distribution from Mills ratios, by quadrature in narrow intervals."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        start = log_ndtr(-near)
        log_mass = start + np.log(-np.expm1(log_ndtr(-far) - start))
        at_near, at_far = (np.exp(-0.5 * np.square(t) - _LOG_ROOT_TWO_PI - log_mass) for t in (near, far))
        mean = np.clip(at_near - at_far, near, far)
        ends = near * at_near - np.where(at_far > 0, far * at_far, 0.0)
        square = np.clip(1.0 + ends, np.square(near), np.square(far))
    narrow = (far - near) * (1.0 + far) < _NARROW
    if narrow.any():
        few = _integrate_narrow_normal(near[narrow], far[narrow])
        for whole, part in zip((log_mass, mean, square), few, strict=True):
            whole[narrow] = part
    return _SideMoments(log_mass, mean, square)


def _integrate_narrow_normal(near: Array, far: Array) -> _SideMoments:
    """Compute log mass and moments of N(0, 1) on narrow intervals by five-point Gauss-Legendre quadrature."""
    half = 0.5 * (far - near)
    t = near[:, None] + half[:, None] * (1.0 + _NODES)
    weight = _NODE_WEIGHTS * np.exp(-0.5 * (t - near[:, None]) * (t + near[:, None]))
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mass = np.log(half * total) - 0.5 * np.square(near) - _LOG_ROOT_TWO_PI
    return _SideMoments(log_mass, (weight * t).sum(axis=1) / total, (weight * np.square(t)).sum(axis=1) / total)


def _clip_infinite(t: Array) -> Array:
    return np.clip(np.asarray(t, dtype=float), -_FARTHEST, _FARTHEST)
