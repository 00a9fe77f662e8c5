"""Units of change: how much of a column counts as one, read off its spread in the data.

The standard deviation is the unit, as in the paper, unless a few values far out make it mean nothing: then it is the
spread of the middle half of the column.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from gbce.base import Array
from gbce.space._tolerances import ROUNDING

__all__ = ["Units", "deviations", "robust_spread", "units_of"]

# Up to here, and down to one over it, squares and their sums are finite and not zero: a double ends at 1e308.
_SAFE_SQUARES = 1e100
_MAD_TO_SD = 1.4826  # 1 / Phi^-1(3/4): the standard deviation of a normal law over its median absolute deviation
_QUARTILES_TO_SD = 1.349  # 2 Phi^-1(3/4): the distance between a normal law's quartiles over its standard deviation
_SMALLEST_SIZE = 1e-300  # of a column of zeros, so that what counts as no spread is above zero; any tiny number does
# Standard deviation over robust spread from where tails are called heavy. An exponential law has 1.2, Student's with
# three degrees 1.5, a lognormal one with a deviation of one 2.0: ordinary columns keep their standard deviation.
_HEAVY = 3.0
_FREQUENT = 0.25  # share of one value from where a quartile may lie on it: the column is inflated there
_SCALES = ("auto", "sd", "mad", "raw")


class Units(NamedTuple):
    """The unit of each column.

    ``robust`` has the columns whose tails are heavy, with their standard deviation over their unit; ``inflated`` those
    that have no median absolute deviation, because one value makes up most of them.
    """

    units: list[float]
    robust: tuple[tuple[str, float], ...] = ()
    inflated: tuple[str, ...] = ()


def deviations(values: Array, measure: Callable[..., Array] = np.nanstd) -> Array:
    """Return the standard deviation of each column of ``(n, ...)``, missing values left out.

    Columns whose squares would overflow, or vanish, are first divided by their largest value.
    """
    peak = np.nanmax(np.abs(values), axis=0)
    unit = np.where((peak == 0) | ((peak > 1.0 / _SAFE_SQUARES) & (peak < _SAFE_SQUARES)), 1.0, peak)
    return unit * measure(values / unit, axis=0)


def robust_spread(values: Array) -> float:
    """Return the spread of a column ``(n,)`` that a few values far out do not change, zero for a constant one.

    The distance between its quartiles, as a normal law's standard deviation. Where one value is frequent (a quarter
    of the column or more, such as zero), at least the median distance of the others to it.

    Examples
    --------
    >>> float(round(robust_spread(np.append(np.zeros(90), np.arange(10.0, 20.0))), 2))
    21.5
    """
    known = np.sort(values[~np.isnan(values)])
    low, high = np.quantile(known, [0.25, 0.75])
    spread = high / _QUARTILES_TO_SD - low / _QUARTILES_TO_SD
    return float(max(spread, _spread_about_mode(known)))


def _spread_about_mode(known: Array) -> float:
    """Return the median distance to the most frequent value of those that differ from it, if it is frequent."""
    found, counts = np.unique(known, return_counts=True)
    if counts.max() < _FREQUENT * len(known) or len(found) == 1:
        return 0.0
    mode = found[int(np.argmax(counts))]
    others = known[known != mode]
    return float(np.median(np.abs(_MAD_TO_SD * others - _MAD_TO_SD * mode)))


def _median_deviations(values: Array) -> Array:
    return np.nanmedian(np.abs(values - np.nanmedian(values, axis=0)), axis=0)


def units_of(values: Array, names: Sequence[str], scale: Any, fixed: Set[str], *, table: bool = False) -> Units:
    """One unit of change per column; a column that does not vary has none, unless it is held fixed.

    ``table`` is whether ``"auto"`` looks for heavy tails; otherwise it is the standard deviation.
    """
    if isinstance(scale, Mapping):
        how, given = "auto", dict(scale)
    elif isinstance(scale, str) and scale in _SCALES:
        how, given = scale, {}
    else:
        raise ValueError(f"scale must be 'auto', 'sd', 'mad', 'raw' or a mapping of names to numbers, not {scale!r}")
    if how == "raw" or not names:
        return Units([1.0] * len(names))
    spread = _MAD_TO_SD * _median_deviations(values) if how == "mad" else deviations(values)
    tiny = ROUNDING * np.maximum(np.nanmax(np.abs(values), axis=0), _SMALLEST_SIZE)
    robust, inflated = [], []
    for j in [j for j, name in enumerate(names) if name not in given]:
        if how == "mad" and spread[j] <= tiny[j]:
            spread[j] = _spread_about_mode(values[~np.isnan(values[:, j]), j])
            inflated += [names[j]] if spread[j] > tiny[j] else []
        elif how == "auto" and table:
            found = robust_spread(values[:, j])
            if tiny[j] < found < spread[j] / _HEAVY:
                robust.append((names[j], float(spread[j] / found)))
                spread[j] = found
    units = {name: given.get(name, float(spread[j])) for j, name in enumerate(names)}
    flat = [n for j, n in enumerate(names) if n not in given and spread[j] <= tiny[j]]
    stuck = [name for name in flat if name not in fixed]
    if stuck:
        word = "median absolute deviation" if how == "mad" else "standard deviation"
        raise ValueError(
            f"columns {stuck} have a {word} of zero in the data, so they have no unit of change. Hold them fixed "
            f"with Space.infer(data, immutable={stuck}) or give their units with scale={{name: number}}."
        )
    return Units([1.0 if name in flat else units[name] for name in names], tuple(robust), tuple(inflated))
