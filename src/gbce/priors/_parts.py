"""Parts of a prior: maps of Gaussian noise to the values of one feature or of several, each with its own law.

With ``q`` the density of what a part draws and ``cost`` minus the log density that is wanted, ``log q + cost`` is zero,
up to a constant, wherever a part is exact.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

from gbce.base import Array
from gbce.priors._laws import Ends, Law, untruncate

__all__ = ["Part", "Reals", "WholeSteps", "standardise"]


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
        values, e = self._map(z)
        return values, self.law.log_pdf(e).sum(axis=1)

    def draw_values(self, z: Array) -> Array:
        """Return the values alone."""
        return self._map(z)[0]

    def _map(self, z: Array) -> tuple[Array, Array]:
        """Return values, and what they are in units of the law."""
        e = self.law.from_normal(z)
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
        e = np.array(self.law.from_normal(z))
        is_cut, ends = self._is_cut[which], self._cut[1]
        if is_cut.any():
            own = np.searchsorted(self._cut[0], which[is_cut])
            e[is_cut] = ends.take(own).truncate(z[is_cut])
        return (self.origin[which] + self.factor[which] * e).clip(self.low[which], self.high[which])

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        if self.factor.ndim == 2:
            e = standardise(x - self.origin, self.factor)
            return untruncate(self.law, e, np.full(1, -np.inf), np.full(1, np.inf))
        e = (np.clip(x, self.low, self.high) - self.origin) / self.factor
        return untruncate(self.law, e, *self._standard_limits(np.arange(len(self.where))))

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.law.cost(standardise(x - self.origin, self.factor)).sum(axis=1)

    @cached_property
    def _is_cut(self) -> Array:
        """Whether each feature has a limit, ``(k,)``."""
        return np.isfinite(self.low) | np.isfinite(self.high)

    @cached_property
    def _cut(self) -> tuple[Array, Ends]:
        """Positions of the features that have a limit, and what their laws are between the limits."""
        cut = self._is_cut.nonzero()[0]
        return cut, Ends.of(self.law, *self._standard_limits(cut))

    def _standard_limits(self, which: Array) -> tuple[Array, Array]:
        return tuple((side - self.origin)[which] / self.factor[which] for side in (self.low, self.high))  # type: ignore[return-value]


@dataclass(frozen=True)
class WholeSteps:
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
