"""Parts of a prior: maps of Gaussian noise to the values of one feature or of several, each with its own law.

With ``q`` the density of what a part draws and ``cost`` minus the log density that is wanted, ``log q + cost`` is zero,
up to a constant, wherever a part is exact.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from gbce.base import Array
from gbce.priors._distributions import Distribution, Ends, untruncate

__all__ = ["IntegerSteps", "MaybeMissing", "Part", "Reals", "Spiked", "standardise"]

# --- parts of a prior ------------------------------------------------------------------------------------------------


class Part(Protocol):
    """A map of noise ``(n, k)`` to the values of ``k`` features."""

    @property
    def where(self) -> Array:
        """Positions ``(k,)`` of the features."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the map's law is the one that is wanted."""
        ...

    @property
    def covariance(self) -> Array:
        """Spread of the law, roughly, ``(k, k)``: units for a search."""
        ...

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values ``(n, k)`` and their log density ``(n,)``, up to a constant."""
        ...

    def draw_values(self, z: Array) -> Array:
        """Return the values alone."""
        ...

    def invert(self, x: Array) -> Array:
        """Return noise ``(n, k)`` whose values come as near to ``x`` as the limits allow."""
        ...

    def cost(self, x: Array) -> Array:
        """Return minus the log density that is wanted ``(n,)``, up to a constant, zero at the row."""
        ...


@dataclass(frozen=True)
class Reals:
    """Real features: ``x = origin + L e``, each ``e_j`` a truncated standard law pushed from ``z_j``.

    Parameters
    ----------
    where : int array of shape (k,)
        Positions of the features.
    law : Law
        Of each ``e_j``.
    origin : array of shape (k,)
        The row's values.
    factor : array of shape (k,) or (k, k)
        ``L``: one scale per feature, or a lower triangular matrix for correlated moves without limits.
    low, high : array of shape (k,)
        Limits.
    """

    where: Array
    distribution: Distribution
    origin: Array
    factor: Array
    low: Array
    high: Array

    exact = True

    @property
    def covariance(self) -> Array:
        """Spread of the law."""
        return np.diag(np.square(self.factor)) if self.factor.ndim == 1 else self.factor @ self.factor.T

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values and their log density."""
        values, e = self._map(z)
        return values, self.distribution.log_pdf(e).sum(axis=1)

    def draw_values(self, z: Array) -> Array:
        """Return the values alone."""
        return self._map(z)[0]

    def _map(self, z: Array) -> tuple[Array, Array]:
        """Return values, and what they are in units of the law."""
        e = self.distribution.from_normal(z)
        if self.factor.ndim == 2:
            return self.origin + e @ self.factor.T, e
        cut, ends = self._cut
        if len(cut):
            e = np.array(e)
            e[:, cut] = ends.truncate(z[:, cut])
        return (self.origin + self.factor * e).clip(self.low, self.high), e

    def draw_singly(self, z: Array, which: Array) -> Array:
        """Return the values ``(m,)`` that single numbers of noise ``(m,)`` have for the features ``which`` ``(m,)``.

        The same as :meth:`draw` gives, to the last bit, where only some of them are needed and features do not move
        together.
        """
        e = np.array(self.distribution.from_normal(z))
        is_cut, ends = self._is_cut[which], self._cut[1]
        if is_cut.any():
            own = np.searchsorted(self._cut[0], which[is_cut])
            e[is_cut] = ends.take(own).truncate(z[is_cut])
        return (self.origin[which] + self.factor[which] * e).clip(self.low[which], self.high[which])

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        if self.factor.ndim == 2:
            e = standardise(x - self.origin, self.factor)
            return untruncate(self.distribution, e, np.full(1, -np.inf), np.full(1, np.inf))
        e = (np.clip(x, self.low, self.high) - self.origin) / self.factor
        return untruncate(self.distribution, e, *self._standard_limits(np.arange(len(self.where))))

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.distribution.cost(standardise(x - self.origin, self.factor)).sum(axis=1)

    @cached_property
    def _is_cut(self) -> Array:
        """Whether each feature has a limit, ``(k,)``."""
        return np.isfinite(self.low) | np.isfinite(self.high)

    @cached_property
    def _cut(self) -> tuple[Array, Ends]:
        """Positions of the features that have a limit, and what their laws are between the limits."""
        cut = self._is_cut.nonzero()[0]
        return cut, Ends.of(self.distribution, *self._standard_limits(cut))

    def _standard_limits(self, which: Array) -> tuple[Array, Array]:
        return tuple((side - self.origin)[which] / self.factor[which] for side in (self.low, self.high))  # type: ignore[return-value]


@dataclass(frozen=True)
class IntegerSteps:
    """One feature with finitely many values, laid out along the noise's axis in proportion to their probability.

    Parameters
    ----------
    where : int array of shape (1,)
        Position of the feature.
    values : array of shape (k,)
        In the order in which they lie along the axis.
    price : array of shape (k,)
        Minus the log probability of each, up to a constant.
    spread : float
        Of the law, roughly.
    """

    where: Array
    values: Array
    price: Array
    spread: float

    exact = True

    @cached_property
    def _layout(self) -> "_Layout":
        share = np.exp(-(self.price - self.price.min()))
        share /= share.sum()
        below, above = np.cumsum(share), np.cumsum(share[::-1])[::-1]
        lower, upper = np.append(0.0, below[:-1]), np.append(above[1:], 0.0)  # what lies beyond each value
        cuts = np.where(below[:-1] <= 0.5, ndtri(np.minimum(below[:-1], 1.0)), -ndtri(np.minimum(above[1:], 1.0)))
        middle = np.where(lower <= upper, ndtri(lower + 0.5 * share), -ndtri(upper + 0.5 * share))
        order = np.argsort(self.values, kind="stable")
        values = self.values[order]
        return _Layout(cuts, 0.5 * (values[1:] + values[:-1]), middle[order], self.price[order])

    @property
    def covariance(self) -> Array:
        """Spread of the law."""
        return np.array([[self.spread**2]])

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values and their log probability."""
        which = self._layout.cuts.searchsorted(z[:, 0], side="right")
        return self.values[which][:, None], -self.price[which]

    def draw_values(self, z: Array) -> Array:
        """Return the values alone."""
        return self.values[self._layout.cuts.searchsorted(z[:, 0], side="right")][:, None]

    def invert(self, x: Array) -> Array:
        """Return the middle of each value's stretch of the axis."""
        return self._layout.middle[self._layout.position(x[:, 0])][:, None]

    def cost(self, x: Array) -> Array:
        """Return minus the log probability."""
        return self._layout.price[self._layout.position(x[:, 0])]


class _Layout(NamedTuple):
    """Cuts along the axis ``(k - 1,)``; by rising value, what lies between, the middles of stretches, and prices."""

    cuts: Array
    between: Array
    middle: Array
    price: Array

    def position(self, x: Array) -> Array:
        """Position of the value nearest to each of ``(n,)``."""
        return self.between.searchsorted(x, side="left")


def standardise(offset: Array, factor: Array) -> Array:
    """Return ``e`` ``(n, k)`` with ``offset = L e``; by one small inverse: solving for many rows waits for threads."""
    return offset / factor if factor.ndim == 1 else offset @ np.linalg.inv(factor).T


# --- parts with an atom ----------------------------------------------------------------------------------------------

_BELOW_ONE = 1 - 1e-16  # the largest double below one: at one itself the noise would be infinite
_DEEP = -30.0  # noise below which tails are worked out as logarithms: they end as doubles at -37.6, when divided


def _shrink_tail(z: Array, share: float) -> Array:
    """Return the noise whose lower tail is ``share`` of the lower tail of ``z``."""
    return _in_logs(ndtri(ndtr(z) * share), z, np.log(share))


def _widen_tail(z: Array, share: float, most: float) -> Array:
    """Return the noise of whose lower tail that of ``z`` is ``share``; a tail of ``most`` where it would be more."""
    return _in_logs(ndtri(np.minimum(ndtr(z) / share, most)), z, -np.log(share))


def _in_logs(value: Array, z: Array, log_factor: float) -> Array:
    """Return noise as it is, but by logarithms where ``z`` is so far out that its tail is no number any more."""
    deep = z < _DEEP
    if deep.any():
        value[deep] = ndtri_exp(log_ndtr(z[deep]) + log_factor)
    return value


@dataclass(frozen=True)
class _Around:
    """A part around another one, on the same features."""

    inner: Part

    @property
    def where(self) -> Array:
        """Positions of the features."""
        return self.inner.where

    @property
    def exact(self) -> bool:
        """Whether the inner part is."""
        return self.inner.exact

    @property
    def covariance(self) -> Array:
        """Spread of the inner part."""
        return self.inner.covariance


@dataclass(frozen=True)
class Spiked(_Around):
    """Features that stay exactly where they are with probability ``1 - change``, and follow ``inner`` otherwise."""

    origin: Array
    change: float

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values, and minus their cost."""
        values = self.draw_values(z)
        return values, -self.cost(values)

    def draw_values(self, z: Array) -> Array:
        """Return the values alone."""
        stays = np.abs(z) <= self._cut
        if isinstance(self.inner, Reals) and self.inner.factor.ndim == 1:  # most of them stay: only others are mapped
            values = np.repeat(self.origin[None, :], len(z), axis=0)
            moved = np.nonzero(~stays)
            values[moved] = self.inner.draw_singly(self._spread(z[moved]), moved[1])
            return values
        return np.where(stays, self.origin, self.inner.draw_values(self._spread(z)))

    def _spread(self, z: Array) -> Array:
        """Return what lies beyond the cut on either side, spread over that side of the axis."""
        return np.sign(z) * -_widen_tail(-np.abs(z), self.change, 0.5)

    def invert(self, x: Array) -> Array:
        """Return noise for values; none where they are the row's."""
        stays = x == self.origin
        further = self.inner.invert(np.where(stays, self.origin, x))
        side = np.where(further < 0, -1.0, 1.0)
        return np.where(stays, 0.0, side * -_shrink_tail(-np.abs(further), self.change))

    def cost(self, x: Array) -> Array:
        """Return the slab's cost, and the odds against every change."""
        return self.inner.cost(x) + self.odds * (x != self.origin).sum(axis=1)

    @property
    def odds(self) -> float:
        """Log odds against a change."""
        return float(np.log1p(-self.change) - np.log(self.change))

    @property
    def _cut(self) -> float:
        return float(-ndtri(0.5 * self.change))


@dataclass(frozen=True)
class MaybeMissing(_Around):
    """One feature that may be missing: known values follow ``inner``, and missing has a probability of its own.

    Parameters
    ----------
    inner : Part
        Of one feature.
    missing_now : bool
        Whether the row's value is missing. Then that is the middle of the axis, and known values lie on both sides;
        otherwise missing lies at its upper end.
    move : float
        Probability of a change from known to missing, or from missing to known.
    """

    missing_now: bool
    move: float

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values, NaN where they are missing, and minus their cost."""
        values = self.draw_values(z)
        return values, -self.cost(values)

    def draw_values(self, z: Array) -> Array:
        """Return the values alone."""
        if self.missing_now:
            gone = np.abs(z) <= -ndtri(0.5 * self.move)
            further = np.sign(z) * -_widen_tail(-np.abs(z), self.move, 0.5)
        else:
            gone = ndtr(-z) < self.move
            further = _widen_tail(z, 1 - self.move, _BELOW_ONE)
        return np.where(gone, np.nan, self.inner.draw_values(further))

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        gone = np.isnan(x)
        z = self.inner.invert(np.where(gone, 0.0, x))
        if self.missing_now:
            side = np.where(z < 0, -1.0, 1.0)
            return np.where(gone, 0.0, side * -_shrink_tail(-np.abs(z), self.move))
        return np.where(gone, -ndtri(0.5 * self.move), _shrink_tail(z, 1 - self.move))

    def cost(self, x: Array) -> Array:
        """Return the inner cost of known values, and the odds against a move from or to missing."""
        gone = np.isnan(x[:, 0])
        inner = self.inner.cost(np.where(np.isnan(x), 0.0, x))
        moved = gone != self.missing_now
        return np.where(gone, 0.0, inner) + moved * float(np.log1p(-self.move) - np.log(self.move))
