"""Units of change: how much of a column counts as one, read off its spread in the data."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from gbce._weights import Array

__all__ = ["FLAT", "units_of"]

FLAT = 1e-12  # relative: what varies by less than rounding would make it does not vary

_MAD_TO_SD = 1.4826  # the median absolute deviation of a normal law is its standard deviation over this


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
    spread = (
        np.nanstd(values, axis=0)
        if how == "sd"
        else _MAD_TO_SD * np.nanmedian(np.abs(values - np.nanmedian(values, axis=0)), axis=0)
    )
    units = {name: given.get(name, float(spread[j])) for j, name in enumerate(names)}
    tiny = FLAT * np.maximum(np.nanmax(np.abs(values), axis=0), 1e-300)
    flat = [n for j, n in enumerate(names) if n not in given and spread[j] <= tiny[j]]
    stuck = [name for name in flat if name not in fixed]
    if stuck:
        word = "standard deviation" if how == "sd" else "median absolute deviation"
        raise ValueError(
            f"columns {stuck} have a {word} of zero in the data, so they have no unit of change. Hold them fixed "
            f"with Space.infer(data, immutable={stuck}) or give their units with scale={{name: number}}."
        )
    return [1.0 if name in flat else units[name] for name in names]
