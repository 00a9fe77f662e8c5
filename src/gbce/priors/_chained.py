"""Numbers that depend on each other: correlated, or bound together by linear conditions."""

from dataclasses import dataclass

import numpy as np

from gbce.base import Array
from gbce.priors._laws import Law, log_mass, truncate, untruncate
from gbce.priors._parts import standardise

__all__ = ["Chained"]

_INSIDE = 1e-12  # relative: how far inside a condition a value stays, so that rounding does not break it
_WHOLE_ROUNDING = 1e-9  # of a step: a limit that rounding puts just short of a whole number is that number


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
        x, log_q, _ = self._go_through(z, None)
        return x, log_q

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        return self._go_through(np.zeros_like(x), x)[2]

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.law.cost(standardise(x - self.origin, self.factor)).sum(axis=1)

    def _go_through(self, z: Array, given: Array | None) -> tuple[Array, Array, Array]:
        """Go through the features; values are drawn, or those nearest to ``given`` are taken and their noise found."""
        (n, k), lower, alone = z.shape, self._lower, self.factor.ndim == 1
        x, e, noise = np.empty((n, k)), np.empty((n, k)), np.array(z)
        log_q, used = np.zeros(n), np.zeros((len(self.room), n))
        least = np.minimum(_times(self.sides, self.low), _times(self.sides, self.high))
        for j in range(k):
            shift = self.origin[j] if alone else self.origin[j] + e[:, :j] @ lower[j, :j]
            scale = lower[j, j]
            low, high = self._limits(j, used, least[:, j + 1 :].sum(axis=1))
            empty = ~(low <= high)
            low, high = np.where(empty, self.origin[j], low), np.where(empty, self.origin[j], high)
            half = 0.5 * self.whole[j]
            edges = (low - half - shift) / scale, (high + half - shift) / scale
            if given is not None:
                value = np.clip(given[:, j], low, high)
                noise[:, j] = untruncate(self.law, (value - shift) / scale, *edges)
            else:
                value = shift + scale * truncate(self.law, z[:, j], *edges)
                value = self.origin[j] + np.round(value - self.origin[j]) if self.whole[j] else value
                value = np.clip(value, low, high)
            x[:, j], e[:, j] = value, (value - shift) / scale
            for i in np.flatnonzero(self.sides[:, j]):
                used[i] += self.sides[i, j] * value
            drawn = (
                log_mass(self.law, e[:, j] - half / scale, e[:, j] + half / scale)
                if self.whole[j]
                else self.law.log_pdf(e[:, j])
            )
            log_q += np.where(empty, np.inf, drawn - log_mass(self.law, *edges))
        return x, np.where(np.isnan(log_q), np.inf, log_q), noise

    def _limits(self, j: int, used: Array, later: Array) -> tuple[Array, Array]:
        """Limits ``(n,)`` of one feature, given what is used of the conditions' room and what later ones can give."""
        n = used.shape[1]
        low, high = np.full(n, self.low[j]), np.full(n, self.high[j])
        for i in np.flatnonzero(self.sides[:, j]):
            bound = (self.room[i] - used[i] - later[i]) / self.sides[i, j]
            margin = _INSIDE * np.maximum(1.0, np.abs(np.where(np.isfinite(bound), bound, 0.0)))
            if self.sides[i, j] > 0:
                high = np.minimum(high, bound - margin)
            else:
                low = np.maximum(low, bound + margin)
        if self.whole[j]:
            low = self.origin[j] + np.ceil(low - self.origin[j] - _WHOLE_ROUNDING)
            high = self.origin[j] + np.floor(high - self.origin[j] + _WHOLE_ROUNDING)
        return low, high


def _times(sides: Array, limit: Array) -> Array:
    """Product of coefficients and limits, zero where a feature has no part in a condition."""
    with np.errstate(invalid="ignore"):
        return np.where(sides == 0, 0.0, sides * limit)
