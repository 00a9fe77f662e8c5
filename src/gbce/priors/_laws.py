"""Standard symmetric laws in one dimension, and their truncation as a map of Gaussian noise."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, stdtr

from gbce._numerics import TINY
from gbce.base import Array

__all__ = ["LAPLACE", "NORMAL", "STUDENT", "Ends", "Law", "log_mass", "truncate", "truncate_and_weigh", "untruncate"]


@dataclass(frozen=True)
class Law:
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


NORMAL = Law(
    "normal",
    ndtr,
    ndtri,
    lambda t: -0.5 * np.square(t) - 0.5 * math.log(2.0 * math.pi),
    lambda z: z,
    cost=_half_square,
    reach=9.0,
    farthest=35.0,
)
LAPLACE = Law(
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
STUDENT = Law(
    "student",
    lambda t: stdtr(4.0, t),
    _student_quantile,
    lambda t: math.log(0.375) - 2.5 * np.log1p(0.25 * np.square(t)),
    lambda z: np.sign(z) * -_student_quantile(ndtr(-np.abs(z))),
    cost=lambda t: 2.5 * np.log1p(0.25 * np.square(t)),
    reach=1e4,
    farthest=1e4,
)


def truncate(law: Law, z: Array, low: Array, high: Array) -> Array:
    """Map standard normal noise ``z`` to the law restricted to ``[low, high]`` by its inverse CDF.

    Works from whichever tail is nearer, so that nothing is lost where the other CDF is close to one. In a tail without
    an end, noise so far out that its probability is zero in floating point is mapped to a finite value all the same.
    """
    return _truncate(law, z, low, high, law.cdf(low), law.cdf(high))


def truncate_and_weigh(law: Law, z: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return what :func:`truncate` and :func:`log_mass` do, which have most of their work in common."""
    at_low, at_high = law.cdf(low), law.cdf(high)
    mass, upper = at_high - at_low, low > 0
    if upper.any():  # mirrored, where that is the nearer tail
        upper, least, most = np.broadcast_arrays(upper, low, high)
        mass[upper] = law.cdf(-least[upper]) - law.cdf(-most[upper])
    with np.errstate(divide="ignore", invalid="ignore"):
        return _truncate(law, z, low, high, at_low, at_high), np.log(mass)


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

    law: Law
    low: Array
    high: Array
    at_low: Array
    at_high: Array
    beyond_high: Array
    beyond_low: Array

    @classmethod
    def of(cls, law: Law, low: Array, high: Array) -> "Ends":
        """Work the CDF out."""
        return cls(law, low, high, law.cdf(low), law.cdf(high), law.cdf(-high), law.cdf(-low))

    def take(self, which: Array) -> "Ends":
        """Return the limits at ``which`` ``(m,)``."""
        ends = (self.low, self.high, self.at_low, self.at_high, self.beyond_high, self.beyond_low)
        return Ends(self.law, *(end[which] for end in ends))

    def truncate(self, z: Array) -> Array:
        """Map noise ``(k,)`` or ``(n, k)`` as :func:`truncate` does."""
        mirrored = self.beyond_high, self.beyond_low
        return _truncate(self.law, z, self.low, self.high, self.at_low, self.at_high, mirrored)


def _truncate(
    law: Law,
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
    value[lower] = law.quantile(np.maximum(from_below[lower], TINY))
    if mirrored is None and low.shape == high.shape == above.shape:
        at_low, at_high = law.cdf(-high[above]), law.cdf(-low[above])
    else:  # limits that many values share are worked out once
        ends = (law.cdf(-high), law.cdf(-low)) if mirrored is None else mirrored
        at_low, at_high = (_spread(end, above.shape)[above] for end in ends)
    tail = ndtr(-_spread(z, above.shape)[above])
    value[above] = -law.quantile(np.maximum(at_low + tail * (at_high - at_low), TINY))
    return value.clip(low, high)


def _spread(values: Array, shape: tuple[int, ...]) -> Array:
    return values if values.shape == shape else np.broadcast_to(values, shape)


def untruncate(law: Law, value: Array, low: Array, high: Array) -> Array:
    """Return the noise that :func:`truncate` maps to ``value``; infinite at the limits."""
    with np.errstate(invalid="ignore", divide="ignore"):  # no room between the limits has no noise: NaN
        at_low, at_high = law.cdf(low), law.cdf(high)
        below = (law.cdf(value) - at_low) / (at_high - at_low)
        at_low, at_high = law.cdf(-high), law.cdf(-low)
        above = (law.cdf(-value) - at_low) / (at_high - at_low)
    return np.where(below <= 0.5, ndtri(np.clip(below, 0.0, 1.0)), -ndtri(np.clip(above, 0.0, 1.0)))


def log_mass(law: Law, low: Array, high: Array) -> Array:
    """Log probability of ``[low, high]``, from the tail in which it can be computed accurately."""
    low, high = np.broadcast_arrays(low, high)
    upper = low > 0
    one, other = np.where(upper, -high, low), np.where(upper, -low, high)  # mirrored, where that is the nearer tail
    mass = law.cdf(other) - law.cdf(one)
    with np.errstate(divide="ignore", invalid="ignore"):  # a mass that rounding makes negative has no logarithm: NaN
        return np.log(mass)
