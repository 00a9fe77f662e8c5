"""Standard laws between two limits: how probable a stretch is, the moments within it, and draws from it.

Everything is computed in the tail on which a stretch lies and with logarithms of probabilities, so that stretches far
out, and very narrow ones, keep their digits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp, stdtr

from gbce._numerics import TINY
from gbce.base import Array

__all__ = [
    "KNOWN_DISTRIBUTIONS",
    "LAPLACE",
    "NORMAL",
    "STUDENT",
    "Distribution",
    "Ends",
    "IntervalMoments",
    "draw_within",
    "log_mass",
    "measure",
    "truncate",
    "truncate_and_weigh",
    "untruncate",
]

# --- standard symmetric laws in one dimension, and their truncation as a map of Gaussian noise -----------------------


@dataclass(frozen=True)
class Distribution:
    """A law symmetric about zero: ``cdf`` must be accurate in the lower tail; the upper one follows by symmetry.

    ``from_normal`` maps standard normal noise to the law when there are no bounds. ``cost`` is minus the log density,
    zero at zero; ``reach`` is how far out it is not yet negligible: there the cost is 40 or a little more, and the
    density some 1e-18 of its peak. ``farthest`` is where probabilities come to the end of double precision, at a cost
    of about 600: what lies beyond does not occur, however much a model asks for it.
    """

    name: str
    cdf: Callable[[Array], Array]
    quantile: Callable[[Array], Array]
    log_pdf: Callable[[Array], Array]
    from_normal: Callable[[Array], Array]
    cost: Callable[[Array], Array]
    reach: float
    farthest: float


def _half_square(t: Array) -> Array:
    with np.errstate(over="ignore"):  # a move beyond any number has an infinite cost
        return 0.5 * np.square(t)


def _laplace_cdf(t: Array) -> Array:
    return np.where(t < 0, 0.5 * np.exp(np.minimum(t, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(t, 0.0)))


def _laplace_quantile(u: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))


def _laplace_from_normal(z: Array) -> Array:
    return np.sign(z) * -(math.log(2.0) + log_ndtr(-np.abs(z)))


# Of a heavy tail, at twelve deviations of the noise: what is less likely would be as far out as 1e75, which models that
# compute in single precision do not take.
_LEAST_TAIL = float(ndtr(-12.0))


def _student_quantile(u: Array) -> Array:
    """Quantile of Student's law with four degrees of freedom, in closed form."""
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
# four degrees of freedom: heavy tails, a finite variance, and a quantile in closed form
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


def truncate(distribution: Distribution, z: Array, low: Array, high: Array) -> Array:
    """Map standard normal noise ``z`` to the law restricted to ``[low, high]`` by its inverse CDF.

    Works from whichever tail is nearer, so that nothing is lost where the other CDF is close to one. In a tail without
    an end, noise so far out that its probability is zero in floating point is mapped to a finite value all the same.
    """
    return _truncate(distribution, z, low, high, distribution.cdf(low), distribution.cdf(high))


def truncate_and_weigh(distribution: Distribution, z: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return what :func:`truncate` and :func:`log_mass` do, which have most of their work in common."""
    at_low, at_high = distribution.cdf(low), distribution.cdf(high)
    mass, upper = at_high - at_low, low > 0
    if upper.any():  # mirrored, where that is the nearer tail
        upper, least, most = np.broadcast_arrays(upper, low, high)
        mass[upper] = distribution.cdf(-least[upper]) - distribution.cdf(-most[upper])
    with np.errstate(divide="ignore", invalid="ignore"):
        return _truncate(distribution, z, low, high, at_low, at_high), np.log(mass)


@dataclass(frozen=True, eq=False)
class Ends:
    """Limits of a law ``(k,)`` with its CDF there, for noise that comes again and again.

    Parameters
    ----------
    law : Law
        The law.
    low, high : array of shape (k,)
        The limits.
    at_low, at_high : array of shape (k,)
        Its CDF there.
    beyond_high, beyond_low : array of shape (k,)
        The same from the other side: its CDF at the mirrored limits.
    """

    distribution: Distribution
    low: Array
    high: Array
    at_low: Array
    at_high: Array
    beyond_high: Array
    beyond_low: Array

    @classmethod
    def of(cls, distribution: Distribution, low: Array, high: Array) -> "Ends":
        """Work the CDF out."""
        return cls(
            distribution,
            low,
            high,
            distribution.cdf(low),
            distribution.cdf(high),
            distribution.cdf(-high),
            distribution.cdf(-low),
        )

    def take(self, which: Array) -> "Ends":
        """Return the limits at ``which`` ``(m,)``."""
        ends = (self.low, self.high, self.at_low, self.at_high, self.beyond_high, self.beyond_low)
        return Ends(self.distribution, *(end[which] for end in ends))

    def truncate(self, z: Array) -> Array:
        """Map noise ``(k,)`` or ``(n, k)`` as :func:`truncate` does."""
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
    """Map noise, where the CDF at the limits is known, and perhaps at the ``mirrored`` ones: at the upper one first."""
    from_below = at_low + ndtr(z) * (at_high - at_low)
    lower = from_below <= 0.5
    above = ~lower
    value = np.empty(from_below.shape)
    value[lower] = distribution.quantile(np.maximum(from_below[lower], TINY))
    if mirrored is None and low.shape == high.shape == above.shape:
        at_low, at_high = distribution.cdf(-high[above]), distribution.cdf(-low[above])
    else:  # limits that many values share are worked out once
        ends = (distribution.cdf(-high), distribution.cdf(-low)) if mirrored is None else mirrored
        at_low, at_high = (_spread(end, above.shape)[above] for end in ends)
    tail = ndtr(-_spread(z, above.shape)[above])
    value[above] = -distribution.quantile(np.maximum(at_low + tail * (at_high - at_low), TINY))
    return value.clip(low, high)


def _spread(values: Array, shape: tuple[int, ...]) -> Array:
    return values if values.shape == shape else np.broadcast_to(values, shape)


def untruncate(distribution: Distribution, value: Array, low: Array, high: Array) -> Array:
    """Return the noise that :func:`truncate` maps to ``value``; infinite at the limits."""
    with np.errstate(invalid="ignore", divide="ignore"):  # no room between the limits has no noise: NaN
        at_low, at_high = distribution.cdf(low), distribution.cdf(high)
        below = (distribution.cdf(value) - at_low) / (at_high - at_low)
        at_low, at_high = distribution.cdf(-high), distribution.cdf(-low)
        above = (distribution.cdf(-value) - at_low) / (at_high - at_low)
    return np.where(below <= 0.5, ndtri(np.clip(below, 0.0, 1.0)), -ndtri(np.clip(above, 0.0, 1.0)))


def log_mass(distribution: Distribution, low: Array, high: Array) -> Array:
    """Log probability of ``[low, high]``, from the tail in which it can be computed accurately."""
    low, high = np.broadcast_arrays(low, high)
    upper = low > 0
    one, other = np.where(upper, -high, low), np.where(upper, -low, high)  # mirrored, where that is the nearer tail
    mass = distribution.cdf(other) - distribution.cdf(one)
    with np.errstate(divide="ignore", invalid="ignore"):  # a mass that rounding makes negative has no logarithm: NaN
        return np.log(mass)


# --- standard laws between two limits --------------------------------------------------------------------------------

KNOWN_DISTRIBUTIONS = (NORMAL, LAPLACE)  # laws whose stretches have closed forms
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)  # by definition of the normal density
# Width times slope of a stretch up to which the density is a polynomial for five Gauss-Legendre nodes, to rounding: the
# rule is exact up to degree nine, and 0.1**10 / 10! is below 1e-16. Differences of tails lose digits there.
_NARROW = 0.1
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(5)
_FARTHEST = 1e150  # stands for infinity, so that its square is finite; no law has anything there


class IntervalMoments(NamedTuple):
    """Of each stretch: its log probability, and given it the means of ``t``, of its square and of its size."""

    log_mass: Array
    mean: Array
    square: Array
    size: Array


def measure(distribution: Distribution, low: Array, high: Array) -> IntervalMoments:
    """Measure stretches ``low < t <= high`` of a standard law, arrays ``(n,)``; empty ones have no mass.

    Examples
    --------
    >>> found = measure(LAPLACE, np.array([-np.inf, 0.0]), np.array([np.inf, np.inf]))
    >>> np.exp(found.log_mass), found.size, found.square
    (array([1. , 0.5]), array([1., 1.]), array([2., 2.]))
    """
    low, high = _finite(low), _finite(high)
    right = _one_side(distribution, np.maximum(low, 0.0), np.maximum(high, 0.0))
    left = _one_side(distribution, np.maximum(-high, 0.0), np.maximum(-low, 0.0))
    log_mass = np.logaddexp(right.log_mass, left.log_mass)
    with np.errstate(invalid="ignore"):
        on_right = np.where(np.isfinite(log_mass), np.exp(right.log_mass - log_mass), 0.0)
        on_left = np.where(np.isfinite(log_mass), np.exp(left.log_mass - log_mass), 0.0)
    size = on_right * right.mean + on_left * left.mean
    return IntervalMoments(log_mass, on_right * right.mean - on_left * left.mean,
                     on_right * right.square + on_left * left.square, size)  # fmt: skip


def draw_within(distribution: Distribution, low: Array, high: Array, u: Array, side: Array) -> Array:
    """Draw ``(n,)`` from a standard law within stretches that have mass; ``u`` and ``side`` are uniform numbers."""
    low, high = _finite(low), _finite(high)
    right = _one_side(distribution, np.maximum(low, 0.0), np.maximum(high, 0.0)).log_mass
    left = _one_side(distribution, np.maximum(-high, 0.0), np.maximum(-low, 0.0)).log_mass
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


class _Side(NamedTuple):
    """Stretches on the positive side: log probability, and given it the means of ``t`` and of its square."""

    log_mass: Array
    mean: Array
    square: Array


def _one_side(distribution: Distribution, near: Array, far: Array) -> _Side:
    found = _laplace_side(near, far) if distribution is LAPLACE else _normal_side(near, far)
    some = (far > near) & np.isfinite(found.log_mass)
    return _Side(np.where(some, found.log_mass, -np.inf), np.where(some, found.mean, 0.0),
                 np.where(some, found.square, 0.0))  # fmt: skip


def _laplace_side(near: Array, far: Array) -> _Side:
    width = np.minimum(far - near, 700.0)  # beyond it nothing is left
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mass = -near - math.log(2.0) + np.log(-np.expm1(-width))
        lost = width / np.expm1(width)
        beyond = np.clip(1.0 - lost, 0.0, width)
        square = np.clip(2.0 - lost * (width + 2.0), 0.0, np.square(width))
    return _Side(log_mass, near + beyond, np.square(near) + 2.0 * near * beyond + square)


def _normal_side(near: Array, far: Array) -> _Side:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        start = log_ndtr(-near)
        log_mass = start + np.log(-np.expm1(log_ndtr(-far) - start))
        at_near, at_far = (np.exp(-0.5 * np.square(t) - _LOG_ROOT_TWO_PI - log_mass) for t in (near, far))
        mean = np.clip(at_near - at_far, near, far)
        ends = near * at_near - np.where(at_far > 0, far * at_far, 0.0)
        square = np.clip(1.0 + ends, np.square(near), np.square(far))
    narrow = (far - near) * (1.0 + far) < _NARROW
    if narrow.any():
        few = _normal_narrow(near[narrow], far[narrow])
        for whole, part in zip((log_mass, mean, square), few, strict=True):
            whole[narrow] = part
    return _Side(log_mass, mean, square)


def _normal_narrow(near: Array, far: Array) -> _Side:
    """Integrate by five nodes, against the density at the near end."""
    half = 0.5 * (far - near)
    t = near[:, None] + half[:, None] * (1.0 + _NODES)
    weight = _NODE_WEIGHTS * np.exp(-0.5 * (t - near[:, None]) * (t + near[:, None]))
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mass = np.log(half * total) - 0.5 * np.square(near) - _LOG_ROOT_TWO_PI
    return _Side(log_mass, (weight * t).sum(axis=1) / total, (weight * np.square(t)).sum(axis=1) / total)


def _finite(t: Array) -> Array:
    return np.clip(np.asarray(t, dtype=float), -_FARTHEST, _FARTHEST)
