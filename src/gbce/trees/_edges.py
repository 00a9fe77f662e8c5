"""Where a feature crosses the thresholds of a model: exact to the last bit, through whatever comes before the trees.

What comes before them treats every column by itself and is a rising or falling function of each number, so the crossing
of every threshold is found by halving, in the order of floating-point numbers, all of them at once.
"""

from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.predictors import Inside

__all__ = ["Crossings", "find_crossings"]

_MOST_HALVINGS = 66  # of the 2^64 floating-point numbers
_LOW_BITS = np.int64(0x7FFFFFFFFFFFFFFF)


class Crossings(NamedTuple):
    """For thresholds ``(P,)`` of columns: the largest value of the feature that comes before the crossing.

    ``edge`` ``(P,)`` is infinite where no crossing is known: minus where all values lie behind it, plus where they lie
    before it. ``rising`` ``(P,)``: whether what comes before it is at most the threshold; otherwise what comes behind.
    """

    edge: Array
    rising: Array


def find_crossings(
    inside: Inside, base: Array, low: Array, high: Array, whole: Array, feature: Array, column: Array, threshold: Array
) -> Crossings | None:
    """Find where features cross thresholds.

    Parameters
    ----------
    inside : Inside
        With the way from rows to columns.
    base : array of shape (d,)
        A row without missing values in these features.
    low, high : arrays of shape (d,)
        Between these is searched.
    whole : bool array of shape (d,)
        Features that take whole numbers only.
    feature, column : int arrays of shape (P,)
        Which feature decides which column.
    threshold : array of shape (P,)
        In the column.

    Returns
    -------
    Crossings or None
        None if a column is neither rising nor falling nor constant, or is not a number.
    """
    if len(feature) == 0:
        return Crossings(np.zeros(0), np.zeros(0, dtype=bool))
    rank = _rank(feature)

    def image(value: Array) -> Array:
        rows = np.repeat(base[None, :], int(rank.max()) + 1, axis=0)
        rows[rank, feature] = value
        return np.asarray(inside.parts.rounded(inside.columns(rows))[rank, column])

    left, right = low[feature], high[feature]
    at_left, at_right = image(left), image(right)
    if np.isnan(at_left).any() or np.isnan(at_right).any():
        return None
    rising = at_left <= at_right
    before_left = (at_left <= threshold) == rising  # whether the lower end comes before the crossing
    before_right = (at_right <= threshold) == rising
    edge = np.where(before_left & before_right, np.inf, -np.inf)
    crossed = before_left & ~before_right
    if not crossed.any():
        return Crossings(edge, rising)
    guess = _guess(threshold, bool(inside.parts.single), whole[feature], left, right)
    guess = np.where(crossed, guess, left)
    above = np.where(whole[feature], np.minimum(guess + 1.0, right), np.nextafter(guess, np.inf))
    fits = ((image(guess) <= threshold) == rising) & ~((image(np.where(crossed, above, left)) <= threshold) == rising)
    if (fits | ~crossed).all():  # the columns are the features themselves
        return Crossings(np.where(crossed, guess, edge), rising)
    whole_ones = whole[feature]
    a, b = _as_integers(left, whole_ones), _as_integers(right, whole_ones)
    for _ in range(_MOST_HALVINGS):
        if not (crossed & (b - 1 > a)).any():
            break
        middle = (a & b) + ((a ^ b) >> np.int64(1))
        value = np.where(crossed, _as_floats(middle, whole_ones), left)
        seen = image(value)
        if np.isnan(seen).any():
            return None
        before = (seen <= threshold) == rising
        a, b = np.where(before, middle, a), np.where(before, b, middle)
    return Crossings(np.where(crossed, _as_floats(a, whole_ones), edge), rising)


def _rank(feature: Array) -> Array:
    """Return for each entry how many before it are of the same feature ``(P,)``."""
    order = np.argsort(feature, kind="stable")
    of_sorted = feature[order]
    start = np.searchsorted(of_sorted, of_sorted, side="left")
    rank = np.empty(len(feature), dtype=int)
    rank[order] = np.arange(len(feature)) - start
    return rank


def _guess(threshold: Array, is_single: bool, whole: Array, low: Array, high: Array) -> Array:
    """Return the crossings ``(P,)`` if columns are the features themselves, rounded to single precision or not."""
    if not is_single:
        return np.clip(np.where(whole, np.floor(threshold), threshold), low, high)
    with np.errstate(over="ignore"):
        single = threshold.astype(np.float32)
        single = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
        middle = (single.astype(float) + np.nextafter(single, np.float32(np.inf)).astype(float)) / 2.0
        edge = np.where(middle.astype(np.float32) <= threshold, middle, np.nextafter(middle, -np.inf))
    return np.clip(np.where(whole, np.floor(threshold), edge), low, high)


def _as_integers(x: Array, whole: Array) -> Array:
    """Return numbers as integers of the same order; those of whole numbers are themselves."""
    bits = np.ascontiguousarray(x, dtype=float).view(np.int64)
    ordered = np.where(bits >= 0, bits, bits ^ _LOW_BITS)
    return np.where(whole, np.where(whole, x, 0.0).astype(np.int64), ordered)


def _as_floats(keys: Array, whole: Array) -> Array:
    """Return the numbers of :func:`_as_integers`."""
    bits = np.where(keys >= 0, keys, keys ^ _LOW_BITS)
    return np.where(whole, keys.astype(float), np.ascontiguousarray(bits).view(float))
