"""Parts of a prior: maps of Gaussian noise to the values of one or several features.

With ``q`` the density of a part's draws and ``cost`` minus the log density of the prior, ``log q + cost`` is constant
wherever a part is exact.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from gbce.base import Array
from gbce.priors._distributions import Distribution, Truncation, untruncate

_BELOW_ONE = 1 - 1e-16  # the largest double below one: at one the noise would be infinite
# Least noise of a value beside the middle of the axis, which the row's own value or a missing one takes: the noise of
# a median is zero, and without this it would be that of the edge.
_BESIDE = 1e-9
_DEEP = -30.0  # noise below which tails are computed as logarithms: as doubles they underflow at -37.6, after division

# --- numbers and levels ----------------------------------------------------------------------------------------------


class Part(Protocol):
    """A map of noise ``(n, k)`` to the values of ``k`` features."""

    @property
    def where(self) -> Array:
        """Positions ``(k,)`` of the features."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the values are distributed exactly as the prior."""
        ...

    @property
    def covariance(self) -> Array:
        """Approximate covariance ``(k, k)``: units for a search."""
        ...

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Map noise to values ``(n, k)`` and their log density ``(n,)``, up to a constant."""
        ...

    def draw_values(self, z: Array) -> Array:
        """Map noise to values ``(n, k)``."""
        ...

    def invert(self, x: Array) -> Array:
        """Return noise ``(n, k)`` whose values are as close to ``x`` as the limits allow."""
        ...

    def cost(self, x: Array) -> Array:
        """Return minus the log prior density ``(n,)``, up to a constant, zero at the row."""
        ...


@dataclass(frozen=True)
class Reals:
    """Real features ``x = origin + L e``, each ``e_j`` from a truncated standard distribution mapped from ``z_j``."""

    where: Array  # positions (k,) of the features
    distribution: Distribution  # of each e_j
    origin: Array  # the row's values (k,)
    factor: Array  # L: scales (k,), or a lower triangular matrix (k, k) for correlated, unbounded features
    low: Array  # limits (k,)
    high: Array

    exact = True

    @property
    def covariance(self) -> Array:
        """Covariance without limits."""
        return np.diag(np.square(self.factor)) if self.factor.ndim == 1 else self.factor @ self.factor.T

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Map noise to values and their log density."""
        values, e = self._map(z)
        return values, self.distribution.log_pdf(e).sum(axis=1)

    def draw_values(self, z: Array) -> Array:
        """Map noise to values."""
        return self._map(z)[0]

    def _map(self, z: Array) -> tuple[Array, Array]:
        """Map noise to values and to their standardised form ``e``."""
        e = self.distribution.from_normal(z)
        if self.factor.ndim == 2:
            return self.origin + e @ self.factor.T, e
        bounded, truncation = self._truncation
        if len(bounded):
            e = np.array(e)
            e[:, bounded] = truncation.truncate(z[:, bounded])
        return (self.origin + self.factor * e).clip(self.low, self.high), e

    def draw_singly(self, z: Array, which: Array) -> Array:
        """Map single noise values ``(m,)`` of the uncorrelated features ``which`` ``(m,)``, bitwise as :meth:`draw`."""
        e = np.array(self.distribution.from_normal(z))
        bounded, truncation = self._is_bounded[which], self._truncation[1]
        if bounded.any():
            own = np.searchsorted(self._truncation[0], which[bounded])
            e[bounded] = truncation.take(own).truncate(z[bounded])
        return (self.origin[which] + self.factor[which] * e).clip(self.low[which], self.high[which])

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        if self.factor.ndim == 2:
            e = standardise(x - self.origin, self.factor)
            return untruncate(self.distribution, e, np.full(1, -np.inf), np.full(1, np.inf))
        e = (np.clip(x, self.low, self.high) - self.origin) / self.factor
        return untruncate(self.distribution, e, *self._standardise_limits(np.arange(len(self.where))))

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.distribution.cost(standardise(x - self.origin, self.factor)).sum(axis=1)

    @cached_property
    def _is_bounded(self) -> Array:
        """Whether each feature has a limit, ``(k,)``."""
        return np.isfinite(self.low) | np.isfinite(self.high)

    @cached_property
    def _truncation(self) -> tuple[Array, Truncation]:
        """Positions of the features with a limit, and their truncation."""
        bounded = self._is_bounded.nonzero()[0]
        return bounded, Truncation.of(self.distribution, *self._standardise_limits(bounded))

    def _standardise_limits(self, which: Array) -> tuple[Array, Array]:
        return tuple((side - self.origin)[which] / self.factor[which] for side in (self.low, self.high))  # type: ignore[return-value]


@dataclass(frozen=True)
class FiniteValues:
    """One feature with finitely many values, each an interval of the noise axis of its probability."""

    where: Array  # position (1,) of the feature
    values: Array  # (k,), in their order along the noise axis
    price: Array  # (k,), minus the log probabilities, up to a constant
    spread: float  # approximate standard deviation

    exact = True

    @cached_property
    def _layout(self) -> "_AxisLayout":
        """The intervals of the noise axis."""
        share = np.exp(-(self.price - self.price.min()))
        share /= share.sum()
        below, above = np.cumsum(share), np.cumsum(share[::-1])[::-1]
        lower, upper = np.append(0.0, below[:-1]), np.append(above[1:], 0.0)  # tail probabilities beyond each value
        cuts = np.where(below[:-1] <= 0.5, ndtri(np.minimum(below[:-1], 1.0)), -ndtri(np.minimum(above[1:], 1.0)))
        middle = np.where(lower <= upper, ndtri(lower + 0.5 * share), -ndtri(upper + 0.5 * share))
        order = np.argsort(self.values, kind="stable")
        values = self.values[order]
        return _AxisLayout(cuts, 0.5 * (values[1:] + values[:-1]), middle[order], self.price[order])

    @property
    def covariance(self) -> Array:
        """Approximate variance ``(1, 1)``."""
        return np.array([[self.spread**2]])

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Map noise to values and their log probability."""
        which = self._layout.cuts.searchsorted(z[:, 0], side="right")
        return self.values[which][:, None], -self.price[which]

    def draw_values(self, z: Array) -> Array:
        """Map noise to values."""
        return self.values[self._layout.cuts.searchsorted(z[:, 0], side="right")][:, None]

    def invert(self, x: Array) -> Array:
        """Return the (probability) midpoint of each value's interval of the noise axis."""
        return self._layout.middle[self._layout.find_nearest(x[:, 0])][:, None]

    def cost(self, x: Array) -> Array:
        """Return minus the log probability."""
        return self._layout.price[self._layout.find_nearest(x[:, 0])]


class _AxisLayout(NamedTuple):
    """Intervals of the noise axis and, in ascending order of values, where each value lies."""

    cuts: Array  # between intervals (k - 1,)
    between: Array  # midpoints of neighbouring values (k - 1,)
    middle: Array  # midpoint of each value's interval (k,)
    price: Array  # (k,)

    def find_nearest(self, x: Array) -> Array:
        """Return the rank of the value nearest to each of ``(n,)``."""
        return self.between.searchsorted(x, side="left")


def standardise(offset: Array, factor: Array) -> Array:
    """Solve ``offset = L e`` for ``e`` ``(n, k)``; by a small inverse, since a solve of many rows waits for threads."""
    return offset / factor if factor.ndim == 1 else offset @ np.linalg.inv(factor).T


# --- parts with an atom ----------------------------------------------------------------------------------------------


def _shrink_tail(z: Array, share: float) -> Array:
    """Return noise whose lower tail probability is ``share`` times that of ``z``."""
    return _correct_deep_tail(ndtri(ndtr(z) * share), z, np.log(share))


def _widen_tail(z: Array, share: float, most: float) -> Array:
    """Return noise whose lower tail probability is that of ``z`` divided by ``share``, at most ``most``."""
    return _correct_deep_tail(ndtri(np.minimum(ndtr(z) / share, most)), z, -np.log(share))


def _correct_deep_tail(value: Array, z: Array, log_factor: float) -> Array:
    """Recompute noise in logarithms where ``z`` is so far out that its tail probability underflows."""
    deep = z < _DEEP
    if deep.any():
        value[deep] = ndtri_exp(log_ndtr(z[deep]) + log_factor)
    return value


@dataclass(frozen=True)
class _Wrapper:
    """A part that modifies another one on the same features."""

    inner: Part

    @property
    def where(self) -> Array:
        """Positions of the features."""
        return self.inner.where

    @property
    def exact(self) -> bool:
        """Whether the inner part is exact."""
        return self.inner.exact

    @property
    def covariance(self) -> Array:
        """Covariance of the inner part."""
        return self.inner.covariance


@dataclass(frozen=True)
class Spiked(_Wrapper):
    """Spike and slab: features keep the row's value with probability ``1 - change``, and follow ``inner`` otherwise."""

    origin: Array
    change: float

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Map noise to values and minus their cost."""
        values = self.draw_values(z)
        return values, -self.cost(values)

    def draw_values(self, z: Array) -> Array:
        """Map noise to values."""
        stays = np.abs(z) <= self._spike_edge
        if isinstance(self.inner, Reals) and self.inner.factor.ndim == 1:  # most values stay: map only the others
            values = np.repeat(self.origin[None, :], len(z), axis=0)
            moved = np.nonzero(~stays)
            values[moved] = self.inner.draw_singly(self._map_to_slab(z[moved]), moved[1])
            return values
        return np.where(stays, self.origin, self.inner.draw_values(self._map_to_slab(z)))

    def _map_to_slab(self, z: Array) -> Array:
        """Map noise beyond the spike to standard normal noise for the slab, side by side."""
        return np.sign(z) * -_widen_tail(-np.abs(z), self.change, 0.5)

    def invert(self, x: Array) -> Array:
        """Return noise for values; zero where they are the row's."""
        stays = x == self.origin
        inner = self.inner.invert(np.where(stays, self.origin, x))
        side = np.where(inner < 0, -1.0, 1.0)
        return np.where(stays, 0.0, side * -_shrink_tail(-np.maximum(np.abs(inner), _BESIDE), self.change))

    def cost(self, x: Array) -> Array:
        """Return the cost of the slab plus the log odds against each change."""
        return self.inner.cost(x) + self.odds * (x != self.origin).sum(axis=1)

    @property
    def odds(self) -> float:
        """Log odds against a change."""
        return float(np.log1p(-self.change) - np.log(self.change))

    @property
    def _spike_edge(self) -> float:
        return float(-ndtri(0.5 * self.change))


@dataclass(frozen=True)
class MaybeMissing(_Wrapper):
    """One feature that may be missing: known values follow ``inner``, and missing has a probability of its own.

    A missing value occupies the middle of the noise axis if the row's value is missing, else its upper end.
    """

    missing_now: bool  # whether the row's value is missing
    move: float  # probability of a change from known to missing, or from missing to known

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Map noise to values, NaN for missing, and minus their cost."""
        values = self.draw_values(z)
        return values, -self.cost(values)

    def draw_values(self, z: Array) -> Array:
        """Map noise to values, NaN for missing."""
        if self.missing_now:
            missing = np.abs(z) <= -ndtri(0.5 * self.move)
            inner = np.sign(z) * -_widen_tail(-np.abs(z), self.move, 0.5)
        else:
            missing = ndtr(-z) < self.move
            inner = _widen_tail(z, 1 - self.move, _BELOW_ONE)
        return np.where(missing, np.nan, self.inner.draw_values(inner))

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        missing = np.isnan(x)
        z = self.inner.invert(np.where(missing, 0.0, x))
        if self.missing_now:
            side = np.where(z < 0, -1.0, 1.0)
            return np.where(missing, 0.0, side * -_shrink_tail(-np.maximum(np.abs(z), _BESIDE), self.move))
        return np.where(missing, -ndtri(0.5 * self.move), _shrink_tail(z, 1 - self.move))

    def cost(self, x: Array) -> Array:
        """Return the inner cost of known values plus the log odds against a change from or to missing."""
        missing = np.isnan(x[:, 0])
        inner = self.inner.cost(np.where(np.isnan(x), 0.0, x))
        moved = missing != self.missing_now
        return np.where(missing, 0.0, inner) + moved * float(np.log1p(-self.move) - np.log(self.move))
