"""The law of a point under Gaussian execution noise: one column at a time, cut and rounded as the space does it.

Where no rule stands between the columns that noise moves, each is moved by itself: a normal number, cut at the limits,
which then hold all that lies beyond them, and rounded to whole steps or to the digits of the column.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from gbce.base import Array
from gbce.metrics._noise import Noise, deviations
from gbce.space import Space

__all__ = ["ColumnNoise", "NoiseLaw", "noise_law"]

# Steps between neighbouring numbers at a point that a standard deviation is at least: below, offsets are lost in
# rounding, and at it a probability is off by less than 1e-6.
_FINE = 1e6


class ColumnNoise(NamedTuple):
    """Where noise takes one feature.

    Parameters
    ----------
    feature : int
        Its position.
    centre, sd : float
        Of the normal law, in the feature's own units.
    low, high : float
        The least and the largest value it comes to.
    start : float, optional
        Of a feature that moves in whole steps, a value from which these are counted.
    digits : dtype, optional
        Of a column that is kept with fewer digits than are computed with.
    """

    feature: int
    centre: float
    sd: float
    low: float
    high: float
    start: float | None
    digits: np.dtype[Any] | None

    def upto(self, ends: Array) -> Array:
        """Return the probabilities ``(n,)`` of values that are at most ``ends`` ``(n,)``, finite numbers.

        Examples
        --------
        >>> whole = ColumnNoise(0, 3.0, 1.0, 2.0, 9.0, 0.0, None)
        >>> whole.upto(np.array([1.5, 2.5, 3.5, 9.5])).round(4)
        array([0.    , 0.3085, 0.6915, 1.    ])
        """
        before = ndtr((self._crossings(ends) - self.centre) / self.sd)
        return np.where(ends < self.low, 0.0, np.where(ends >= self.high, 1.0, before))

    def beyond(self, low: float, high: float) -> float:
        """Return at most what probability lies outside of two numbers."""
        below = 0.0 if self.low >= low else float(ndtr((low - self.centre) / self.sd))
        above = 0.0 if self.high <= high else float(ndtr((self.centre - high) / self.sd))
        return below + above

    def quantile(self, level: Array) -> Array:
        """Return where the normal law has levels ``(n,)``, before it is cut and rounded."""
        return np.asarray(self.centre + self.sd * ndtri(level))

    def _crossings(self, ends: Array) -> Array:
        """Return below what number of the normal law values are at most ``ends`` ``(n,)``."""
        if self.start is not None:
            steps = np.floor(ends - self.start)
            steps += np.where(self.start + (steps + 1.0) <= ends, 1.0, np.where(self.start + steps > ends, -1.0, 0.0))
            return np.asarray(self.start + steps + 0.5)
        if self.digits is None:
            return ends
        with np.errstate(over="ignore"):
            last = ends.astype(self.digits)  # the largest number of so few digits that is not beyond the end
            last = np.where(last > ends, np.nextafter(last, self.digits.type(-np.inf)), last)
            following = np.nextafter(last, self.digits.type(np.inf))
            return np.asarray((last.astype(float) + following.astype(float)) / 2.0)


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """A point under noise.

    Parameters
    ----------
    space : Space
        The features.
    x0 : array of shape (d,)
        The row, for its limits.
    base : array of shape (d,)
        The point where nothing is moved, as the space lets it be.
    columns : tuple of ColumnNoise
        What moves, each by itself.
    """

    space: Space
    x0: Array
    base: Array
    columns: tuple[ColumnNoise, ...]

    def points(self, values: Array) -> Array:
        """Return the rows ``(n, d)`` that normal numbers ``(n, m)`` of the columns come to, as the space lets them."""
        x = np.tile(self.base, (len(values), 1))
        x[:, [column.feature for column in self.columns]] = values
        return self.space.move_each(np.tile(self.base, (len(values), 1)), x, self.x0)


def noise_law(noise: Noise, space: Space, x0: Array, x: Array) -> NoiseLaw | None:
    """Return the law of a point ``(d,)`` under noise; None where it is not known column by column.

    That is so for a function, where a rule binds what noise moves, and where it is lost in rounding.

    Examples
    --------
    >>> law = noise_law(0.1, Space.real(2, scale=[1.0, 20.0]), np.zeros(2), np.array([0.0, 5.0]))
    >>> [(column.centre, column.sd) for column in law.columns]
    [(0.0, 0.1), (5.0, 2.0)]
    """
    sd = deviations(noise, space)
    if sd is None:
        return None
    low, high = space.limits(x0)
    moves = (sd > 0) & (high > low) & ~np.isnan(x)
    if (moves & space.is_bound).any() or (sd[moves] < _FINE * np.spacing(np.abs(x[moves]))).any():
        return None
    base = space.move_each(x[None, :], x[None, :], x0)
    if not space.admissible(base, x0)[0]:
        return None
    ends = np.tile(base, (2, 1))
    ends[0, moves], ends[1, moves] = low[moves], high[moves]
    with np.errstate(invalid="ignore"):
        ends = space.move_each(np.tile(base, (2, 1)), ends, x0)
    digits = dict(space.low_precision)
    start = np.where(np.isnan(x0), 0.0, x0)
    columns = tuple(
        ColumnNoise(
            int(j), float(x[j]), float(sd[j]), float(ends[0, j]), float(ends[1, j]),
            float(start[j]) if space.discrete[j] else None, digits.get(int(j)),
        )
        for j in np.flatnonzero(moves)
    )  # fmt: skip
    return NoiseLaw(space, x0, base[0], columns)
