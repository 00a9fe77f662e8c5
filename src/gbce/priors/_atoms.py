"""Parts with an atom: a value, or missing, that has a probability of its own beside a law."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from gbce.base import Array
from gbce.priors._parts import Part, Reals

__all__ = ["Blank", "Spiked"]

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
class Blank(_Around):
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
