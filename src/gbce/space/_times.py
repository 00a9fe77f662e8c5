"""Moments as whole numbers: counts of a column's resolution, and the largest step that all of them are made of."""

import math
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array

__all__ = ["counts_of", "ticks_of", "too_fine", "unit_and_zone"]

_TICKS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}  # in seconds, the longest first
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # counts of each resolution of pandas


def unit_and_zone(dtype: str) -> tuple[str, Any]:
    """Return the resolution of a dtype of times, and its zone or ``None``."""
    kind = pd.api.types.pandas_dtype(dtype)
    return (np.datetime_data(kind)[0], None) if isinstance(kind, np.dtype) else (kind.unit, kind.tz)


def ticks_of(times: Sequence[int], dtype: str) -> tuple[int, int, str]:
    """Return the origin, the tick and its name for moments counted in the resolution of a dtype."""
    resolution, _ = unit_and_zone(dtype)
    per_second = _PER_SECOND[resolution]
    origin = int(min(times))
    step = math.gcd(*(int(moment) - origin for moment in times))
    for name, seconds in _TICKS.items():
        if step and step % (seconds * per_second) == 0:
            return origin, seconds * per_second, name
    micro = _PER_SECOND["us"]
    return origin, max(per_second // micro, 1), "microsecond" if per_second >= micro else resolution


def counts_of(known: pd.Series, dtype: str, what: str) -> Array:
    """Return known moments ``(n,)``, or texts that name them, as int64 in the resolution of a dtype."""
    unit, zone = unit_and_zone(dtype)
    times = known if known.dtype.kind == "M" else _read_moments(known, dtype, zone, what)
    if len(times):
        _require_zone(times.iloc[0], zone, known, 0, dtype, what)
    whole = times.dt.tz_convert("UTC").dt.tz_localize(None) if times.dt.tz is not None else times
    with_unit = whole.dt.as_unit(unit)
    lost = (with_unit != whole).to_numpy()
    if lost.any():
        raise too_fine(what, known, int(np.flatnonzero(lost)[0]))
    return with_unit.astype("int64").to_numpy()


def too_fine(what: str, known: pd.Series, i: int) -> ValueError:
    """Say that a moment cannot be kept."""
    return ValueError(
        f"{what} {show(known.iloc[i])} in row {show(known.index[i])}, a time that is finer than can be kept beside "
        "the others; round them, e.g. with .dt.floor('s')"
    )


def _read_moments(known: pd.Series, dtype: str, zone: Any, what: str) -> pd.Series:
    """Read moments one by one, to name the first that is none."""
    read = []
    for i, value in enumerate(known):
        try:
            moment = pd.Timestamp(value) if isinstance(value, (str, date, np.datetime64)) else None
        except ValueError:
            moment = None
        if moment is None:
            raise ValueError(
                f"{what} {show(value)} in row {show(known.index[i])} where a time belongs ({dtype})"
            ) from None
        _require_zone(moment, zone, known, i, dtype, what)
        read.append(moment if zone is None else moment.tz_convert("UTC"))
    finest = max((moment.unit for moment in read), key=_PER_SECOND.__getitem__, default="s")
    return pd.Series(pd.DatetimeIndex([moment.as_unit(finest) for moment in read], tz=zone and "UTC"), known.index)


def _require_zone(moment: pd.Timestamp, zone: Any, known: pd.Series, i: int, dtype: str, what: str) -> None:
    if (zone is None) == (moment.tz is None):
        return
    advice = "drop it" if zone is None else f"give it one, e.g. with .tz_localize({str(zone)!r})"
    raise ValueError(
        f"{what} {show(known.iloc[i])} in row {show(known.index[i])} {'with' if zone is None else 'without'} a time "
        f"zone, unlike the data ({dtype}): {advice}"
    )
