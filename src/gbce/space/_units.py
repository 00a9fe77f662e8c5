"""Units of change: how much of a column counts as one, read off its spread in the data."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.space._tolerances import ROUNDING

__all__ = ["deviations", "units_of"]

# Up to here, and down to one over it, squares and their sums are finite and not zero: a double ends at 1e308.
_SAFE_SQUARES = 1e100
_MAD_TO_SD = 1.4826  # 1 / Phi^-1(3/4): the standard deviation of a normal law over its median absolute deviation
_SMALLEST_SIZE = 1e-300  # of a column of zeros, so that what counts as no spread is above zero; any tiny number does


def deviations(values: Array, measure: Callable[..., Array] = np.nanstd) -> Array:
    """Return the standard deviation of each column of ``(n, ...)``, missing values left out.

    Columns whose squares would overflow, or vanish, are first divided by their largest value.
    """
    peak = np.nanmax(np.abs(values), axis=0)
    unit = np.where((peak == 0) | ((peak > 1.0 / _SAFE_SQUARES) & (peak < _SAFE_SQUARES)), 1.0, peak)
    return unit * measure(values / unit, axis=0)


def _median_deviations(values: Array) -> Array:
    return np.nanmedian(np.abs(values - np.nanmedian(values, axis=0)), axis=0)


def units_of(values: Array, names: Sequence[str], scale: Any, fixed: Set[str]) -> list[float]:
    """One unit of change per column; a column that does not vary has none, unless it is held fixed."""
    if isinstance(scale, Mapping):
        how, given = "sd", dict(scale)
    elif scale in ("sd", "mad", "raw"):
        how, given = scale, {}
    else:
        raise ValueError(f"scale must be 'sd', 'mad', 'raw' or a mapping of names to numbers, not {scale!r}")
    if how == "raw" or not names:
        return [1.0] * len(names)
    spread = deviations(values) if how == "sd" else _MAD_TO_SD * _median_deviations(values)
    units = {name: given.get(name, float(spread[j])) for j, name in enumerate(names)}
    tiny = ROUNDING * np.maximum(np.nanmax(np.abs(values), axis=0), _SMALLEST_SIZE)
    flat = [n for j, n in enumerate(names) if n not in given and spread[j] <= tiny[j]]
    stuck = [name for name in flat if name not in fixed]
    if stuck:
        word = "standard deviation" if how == "sd" else "median absolute deviation"
        raise ValueError(
            f"columns {stuck} have a {word} of zero in the data, so they have no unit of change. Hold them fixed "
            f"with Space.infer(data, immutable={stuck}) or give their units with scale={{name: number}}."
        )
    return [1.0 if name in flat else units[name] for name in names]
