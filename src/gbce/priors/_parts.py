"""Parts of a prior: maps of Gaussian noise to the values of one feature or of several, each with its own law.

With ``q`` the density of what a part draws and ``cost`` minus the log density that is wanted, ``log q + cost`` is zero,
up to a constant, wherever a part is exact.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from gbce._weights import Array
from gbce.priors._laws import Law, log_mass, truncated, untruncated

__all__ = ["Blank", "Chained", "Part", "Reals", "Spiked", "Steps"]

_INSIDE = 1e-12  # relative: how far inside a condition a chained value stays, so that rounding does not break it


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
    law: Law
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
        e = self.law.from_normal(z)
        if self.factor.ndim == 2:
            return self.origin + e @ self.factor.T, self.law.log_pdf(e).sum(axis=1)
        cut = np.flatnonzero(np.isfinite(self.low) | np.isfinite(self.high))
        if len(cut):
            low, high = self._standard_limits(cut)
            e = np.array(e)
            e[:, cut] = truncated(self.law, z[:, cut], low, high)
        values = np.clip(self.origin + self.factor * e, self.low, self.high)
        return values, self.law.log_pdf(e).sum(axis=1)

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        if self.factor.ndim == 2:
            e = standardised(x - self.origin, self.factor)
            return untruncated(self.law, e, np.full(1, -np.inf), np.full(1, np.inf))
        e = (np.clip(x, self.low, self.high) - self.origin) / self.factor
        return untruncated(self.law, e, *self._standard_limits(np.arange(len(self.where))))

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.law.cost(standardised(x - self.origin, self.factor)).sum(axis=1)

    def _standard_limits(self, which: Array) -> tuple[Array, Array]:
        return tuple((side - self.origin)[which] / self.factor[which] for side in (self.low, self.high))  # type: ignore[return-value]


@dataclass(frozen=True)
class Steps:
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
        return _Layout(cuts, self.values[order], middle[order], self.price[order])

    @property
    def covariance(self) -> Array:
        """Spread of the law."""
        return np.array([[self.spread**2]])

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values and their log probability."""
        which = np.searchsorted(self._layout.cuts, z[:, 0], side="right")
        return self.values[which][:, None], -self.price[which]

    def invert(self, x: Array) -> Array:
        """Return the middle of each value's stretch of the axis."""
        return self._layout.middle[self._layout.position(x[:, 0])][:, None]

    def cost(self, x: Array) -> Array:
        """Return minus the log probability."""
        return self._layout.price[self._layout.position(x[:, 0])]


class _Layout(NamedTuple):
    """Cuts along the axis ``(k - 1,)``; and, by rising value, the middle of each value's stretch and its price."""

    cuts: Array
    values: Array
    middle: Array
    price: Array

    def position(self, x: Array) -> Array:
        """Position of the value nearest to each of ``(n,)``."""
        return np.searchsorted(0.5 * (self.values[1:] + self.values[:-1]), x, side="left")


@dataclass(frozen=True)
class Spiked:
    """Features that stay exactly where they are with probability ``1 - change``, and follow ``slab`` otherwise."""

    slab: Part
    origin: Array
    change: float

    @property
    def where(self) -> Array:
        """Positions of the features."""
        return self.slab.where

    @property
    def exact(self) -> bool:
        """Whether the slab is."""
        return self.slab.exact

    @property
    def covariance(self) -> Array:
        """Spread of the slab."""
        return self.slab.covariance

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values, and minus their cost."""
        stays = np.abs(z) <= self._cut
        # what lies beyond the cut on either side, spread over that side of the axis
        further = np.sign(z) * -ndtri(np.minimum(ndtr(-np.abs(z)) / self.change, 0.5))
        values = np.where(stays, self.origin, self.slab.draw(further)[0])
        return values, -self.cost(values)

    def invert(self, x: Array) -> Array:
        """Return noise for values; none where they are the row's."""
        stays = x == self.origin
        further = self.slab.invert(np.where(stays, self.origin, x))
        side = np.where(further < 0, -1.0, 1.0)
        return np.where(stays, 0.0, side * -ndtri(ndtr(-np.abs(further)) * self.change))

    def cost(self, x: Array) -> Array:
        """Return the slab's cost, and the odds against every change."""
        return self.slab.cost(x) + self.odds * (x != self.origin).sum(axis=1)

    @property
    def odds(self) -> float:
        """Log odds against a change."""
        return float(np.log1p(-self.change) - np.log(self.change))

    @property
    def _cut(self) -> float:
        return float(-ndtri(0.5 * self.change))


@dataclass(frozen=True)
class Blank:
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

    inner: Part
    missing_now: bool
    move: float

    @property
    def where(self) -> Array:
        """Position of the feature."""
        return self.inner.where

    @property
    def exact(self) -> bool:
        """Whether the inner part is."""
        return self.inner.exact

    @property
    def covariance(self) -> Array:
        """Spread of the inner part."""
        return self.inner.covariance

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values, NaN where they are missing, and minus their cost."""
        if self.missing_now:
            gone = np.abs(z) <= -ndtri(0.5 * self.move)
            further = np.sign(z) * -ndtri(np.minimum(ndtr(-np.abs(z)) / self.move, 0.5))
        else:
            gone = ndtr(-z) < self.move
            further = ndtri(np.minimum(ndtr(z) / (1 - self.move), 1 - 1e-16))
        values = np.where(gone, np.nan, self.inner.draw(further)[0])
        return values, -self.cost(values)

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        gone = np.isnan(x)
        z = self.inner.invert(np.where(gone, 0.0, x))
        if self.missing_now:
            side = np.where(z < 0, -1.0, 1.0)
            return np.where(gone, 0.0, side * -ndtri(ndtr(-np.abs(z)) * self.move))
        return np.where(gone, -ndtri(0.5 * self.move), ndtri(ndtr(z) * (1 - self.move)))

    def cost(self, x: Array) -> Array:
        """Return the inner cost of known values, and the odds against a move from or to missing."""
        gone = np.isnan(x[:, 0])
        inner = self.inner.cost(np.where(np.isnan(x), 0.0, x))
        moved = gone != self.missing_now
        return np.where(gone, 0.0, inner) + moved * float(np.log1p(-self.move) - np.log(self.move))


@dataclass(frozen=True)
class Chained:
    """Numbers that depend on each other, drawn one after another, each within what the ones before it leave.

    They are correlated (``factor``), or bound together by linear conditions ``sides @ x <= room``, or both (for limits
    alone this is the map of Geweke, Hajivassiliou and Keane). Whole numbers are cells of the continuous law.

    Parameters
    ----------
    where, law, origin, factor, low, high
        As in :class:`Reals`.
    whole : bool array of shape (k,)
        Which of them move in whole steps.
    sides, room : arrays of shape (c, k) and (c,)
        The conditions.
    """

    where: Array
    law: Law
    origin: Array
    factor: Array
    low: Array
    high: Array
    whole: Array
    sides: Array
    room: Array

    exact = False

    @property
    def covariance(self) -> Array:
        """Spread of the law."""
        lower = self._lower
        return lower @ lower.T

    @property
    def _lower(self) -> Array:
        return np.diag(self.factor) if self.factor.ndim == 1 else self.factor

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values and their log density; minus infinity where there is no room left."""
        x, log_q, _ = self._walked(z, None)
        return x, log_q

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        return self._walked(np.zeros_like(x), x)[2]

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.law.cost(standardised(x - self.origin, self.factor)).sum(axis=1)

    def _walked(self, z: Array, given: Array | None) -> tuple[Array, Array, Array]:
        """Go through the features; values are drawn, or those nearest to ``given`` are taken and their noise found."""
        (n, k), lower = z.shape, self._lower
        x, e, noise = np.empty((n, k)), np.empty((n, k)), np.array(z)
        log_q, used = np.zeros(n), np.zeros((n, len(self.room)))
        least = np.minimum(_times(self.sides, self.low), _times(self.sides, self.high))
        for j in range(k):
            shift, scale = self.origin[j] + e[:, :j] @ lower[j, :j], lower[j, j]
            low, high = self._limits(j, used, least[:, j + 1 :].sum(axis=1))
            empty = ~(low <= high)
            low, high = np.where(empty, self.origin[j], low), np.where(empty, self.origin[j], high)
            half = 0.5 * self.whole[j]
            edges = (low - half - shift) / scale, (high + half - shift) / scale
            if given is not None:
                value = np.clip(given[:, j], low, high)
                noise[:, j] = untruncated(self.law, (value - shift) / scale, *edges)
            else:
                value = shift + scale * truncated(self.law, z[:, j], *edges)
                value = self.origin[j] + np.round(value - self.origin[j]) if self.whole[j] else value
                value = np.clip(value, low, high)
            x[:, j], e[:, j] = value, (value - shift) / scale
            used += self.sides[:, j] * value[:, None]
            drawn = (
                log_mass(self.law, e[:, j] - half / scale, e[:, j] + half / scale)
                if self.whole[j]
                else self.law.log_pdf(e[:, j])
            )
            log_q += np.where(empty, np.inf, drawn - log_mass(self.law, *edges))
        return x, np.where(np.isnan(log_q), np.inf, log_q), noise

    def _limits(self, j: int, used: Array, later: Array) -> tuple[Array, Array]:
        """Limits ``(n,)`` of one feature, given what is used of the conditions' room and what later ones can give."""
        n = len(used)
        low, high = np.full(n, self.low[j]), np.full(n, self.high[j])
        for i in np.flatnonzero(self.sides[:, j]):
            bound = (self.room[i] - used[:, i] - later[i]) / self.sides[i, j]
            margin = _INSIDE * np.maximum(1.0, np.abs(np.where(np.isfinite(bound), bound, 0.0)))
            if self.sides[i, j] > 0:
                high = np.minimum(high, bound - margin)
            else:
                low = np.maximum(low, bound + margin)
        if self.whole[j]:
            low = self.origin[j] + np.ceil(low - self.origin[j] - 1e-9)
            high = self.origin[j] + np.floor(high - self.origin[j] + 1e-9)
        return low, high


def standardised(offset: Array, factor: Array) -> Array:
    """Return ``e`` ``(n, k)`` with ``offset = L e``; by one small inverse: solving for many rows waits for threads."""
    return offset / factor if factor.ndim == 1 else offset @ np.linalg.inv(factor).T


def _times(sides: Array, limit: Array) -> Array:
    """Product of coefficients and limits, zero where a feature has no part in a condition."""
    with np.errstate(invalid="ignore"):
        return np.where(sides == 0, 0.0, sides * limit)
