"""Values that single features are given in a search for the nearest point that reaches: of the data and the limits."""

import numpy as np

from gbce.base import Array
from gbce.space import Space

__all__ = ["values_to_try"]

_MOST_VALUES = 41  # of one feature; by hand: quantiles of the data 2.5% apart, and what lies between is closed in on
_FEWEST_VALUES = 6  # of one feature where there are many: three on each side of the row
_VALUES_IN_ALL = 2_000  # of all features together: each is one model row, so that a first look stays affordable
_BEYOND = np.array([0.25, 1.0])  # of the data's range, beyond either end of it where there is no limit
_MOST_LEVELS = 60  # of a category; of more, the most frequent ones


def values_to_try(space: Space, x0: Array, data: Array) -> dict[int, Array]:
    """Return for each feature that can move, by position, the values it is given when it changes alone.

    Parameters
    ----------
    space : Space
        With limits and levels.
    x0 : array of shape (d,)
        The row.
    data : array of shape (n, d)
        Rows whose values count as usual, such as training rows.

    Returns
    -------
    dict
        Numbers in rising order, or codes of levels; NaN comes last where a value may become missing. The row's own
        value is not among them.
    """
    low, high = space.limits(x0)
    free = space.free(x0)
    most = int(np.clip(_VALUES_IN_ALL // max(len(free), 1), _FEWEST_VALUES, _MOST_VALUES))
    tried: dict[int, Array] = {}
    for j in free.tolist():
        column = data[~np.isnan(data[:, j]), j]
        if space.features[j].unordered:
            values = _levels(len(space.features[j].levels or ()), column)
        else:
            values = _numbers(column, float(low[j]), float(high[j]), float(x0[j]), most, bool(space.discrete[j]))
        values = values[values != x0[j]]
        if space.may_become_missing[j] and not np.isnan(x0[j]):
            values = np.append(values, np.nan)
        if len(values):
            tried[j] = values
    return tried


def _levels(n: int, column: Array) -> Array:
    """Return codes of ``n`` levels: all of them, or the most frequent in a column."""
    if n <= _MOST_LEVELS:
        return np.arange(float(n))
    codes, count = np.unique(column, return_counts=True)
    return np.sort(codes[np.argsort(-count, kind="stable")[:_MOST_LEVELS]])


def _numbers(column: Array, low: float, high: float, here: float, most: int, whole: bool) -> Array:
    """Return numbers within the limits: every whole one if they are few, or those of the data, and finite limits."""
    if whole and high - low < most:
        return np.arange(low, high + 1.0)
    inside = np.unique(np.clip(column, low, high)) if len(column) else np.array([] if np.isnan(here) else [here])
    span = float(np.ptp(inside)) if len(inside) else 0.0
    below, above = (inside.min() - _BEYOND * span, inside.max() + _BEYOND * span) if len(inside) else (0.0, 0.0)
    ends = np.append(below if low == -np.inf else low, above if high == np.inf else high)
    if len(inside) > most:
        # as many on each side of the row: a row at the edge of the data is to be drawn back finely as well
        below, above = inside[inside < here], inside[inside > here]
        sides = (below, above) if len(below) and len(above) else (inside,)
        inside = np.concatenate([_thin(side, most // len(sides)) for side in sides])
    return np.unique(np.concatenate([inside, ends]))


def _thin(values: Array, most: int) -> Array:
    """Return at most ``most`` of sorted values, evenly along their ranks, both ends among them."""
    if len(values) <= most:
        return values
    return values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))]
