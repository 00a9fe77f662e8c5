"""Values of a table as plain JSON data, and back: levels, column labels and class labels.

What cannot be written and read back as an equal value is refused where it comes in, not when a file is saved.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import distinguish, show
from gbce.base import Array

__all__ = [
    "Codec",
    "OneHotCodec",
    "counts_of",
    "read_value",
    "require_writable",
    "ticks_of",
    "too_fine",
    "unit_and_zone",
    "write_value",
]

# --- moments as whole numbers ----------------------------------------------------------------------------------------

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


# --- columns in and out ----------------------------------------------------------------------------------------------

_LARGEST_EXACT = 2**53  # below it every whole number is a double of its own (IEEE 754)
_MOST_LEVELS_LISTED = 12  # in one sentence; by hand


@dataclass(frozen=True)
class Codec:
    """One column: its label, its dtype, and how its values are numbers.

    Parameters
    ----------
    label : object
        Of the column.
    dtype : str
        As pandas spells it; ``category`` is spelled out by ``levels`` and ``ordered``.
    levels : tuple, optional
        Values by their codes.
    ordered : bool
        Of a category dtype.
    blank : {"", "none", "nan", "na"}
        What stands in an object column where a value is missing.
    origin, tick : int
        Of a datetime: the moment that is zero, and the steps of the dtype's resolution that are one.
    """

    label: Any
    dtype: str = "float64"
    levels: tuple[Any, ...] | None = None
    ordered: bool = False
    blank: str = ""
    origin: int = 0
    tick: int = 0

    @property
    def labels(self) -> tuple[Any, ...]:
        """Columns of the table that it reads and writes."""
        return (self.label,)

    @property
    def precise(self) -> bool:
        """Whether any float fits the column as it is."""
        return self.levels is None and not self.tick and self.dtype in ("float64", "Float64")

    def encode(self, table: pd.DataFrame, what: str) -> Array:
        """Return the column as numbers ``(n,)``, NaN where a value is missing."""
        column = table[self.label]
        if self.tick:
            return self._from_times(column, what)
        if self.levels is not None:
            return self._from_levels(column, what)
        values = numbers(column, what)
        self._require_held(values, column, what)
        return values

    def decode(self, x: Array) -> dict[Any, Any]:
        """Return the column, by its label, of numbers ``(n,)``."""
        if self.tick:
            return {self.label: self._as_times(x)}
        if self.levels is not None:
            return {self.label: self._as_levels(x)}
        if self.dtype == "float64":
            return {self.label: x}
        if self.dtype == "object":
            values = np.asarray(x, dtype=object)
            return {self.label: pd.Series(np.where(np.isnan(x), self._blank, values), dtype=object)}
        kind = self._kind
        if not isinstance(kind, np.dtype):
            gone = np.isnan(x)
            whole = pd.array(np.where(gone, 0.0, x).astype(kind.numpy_dtype), dtype=kind)
            whole[gone] = pd.NA
            return {self.label: whole}
        return {self.label: x.astype(kind)}

    @cached_property
    def _kind(self) -> Any:
        return pd.api.types.pandas_dtype(self.dtype)

    # --- numbers --------------------------------------------------------------------------------------------

    def _require_held(self, x: Array, column: pd.Series, what: str) -> None:
        held = holds(x, self.dtype)
        if not held.all():
            i = int(np.flatnonzero(~held)[0])
            value, _ = distinguish(x[i], np.round(x[i]))
            raise ValueError(
                f"{what}: {str(self.label)!r} = {value} does not fit its column of {self.dtype} in the data, "
                "which would change it. Correct the value, or give the data that column as a float."
            )
        if column.dtype.kind in "iu" and len(x) and np.nanmax(np.abs(x), initial=0.0) >= _LARGEST_EXACT:
            raise ValueError(
                f"{what}: column {str(self.label)!r} holds whole numbers beyond 2**53, too large to be told apart. "
                "Drop it if it is an identifier, or make it a category."
            )

    # --- levels ---------------------------------------------------------------------------------------------

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {level: code for code, level in enumerate(self.levels or ())}

    @property
    def _blank(self) -> Any:
        return {"none": None, "na": pd.NA}.get(self.blank, np.nan)

    def _from_levels(self, column: pd.Series, what: str) -> Array:
        missing = column.isna().to_numpy()
        if isinstance(column.dtype, pd.CategoricalDtype):
            by_category = np.array([self._codes.get(level, -1) for level in column.cat.categories], dtype=float)
            codes = np.where(missing, np.nan, 0.0)
            codes[~missing] = by_category[column.cat.codes.to_numpy()[~missing]]
        else:
            values = column.to_numpy(dtype=object)
            codes = np.array(
                [np.nan if gone else self._code(value) for value, gone in zip(values, missing, strict=True)]
            )
        unseen = codes < 0
        if unseen.any():
            i = int(np.flatnonzero(unseen)[0])
            levels = self.levels or ()
            known = ", ".join(map(repr, levels[:_MOST_LEVELS_LISTED]))
            known += ", ..." if len(levels) > _MOST_LEVELS_LISTED else ""
            raise ValueError(
                f"{what}: column {str(self.label)!r} holds {show(column.iloc[i])} in row {show(column.index[i])}, a "
                f"level that the data do not have; its levels are {known}. Correct it, or name all levels with "
                f"Space.infer(data, levels={{{str(self.label)!r}: [...]}})."
            )
        return codes

    def _code(self, value: Any) -> float:
        try:
            return float(self._codes.get(value, -1))
        except TypeError:  # a list is no level
            return -1.0

    @cached_property
    def _level_array(self) -> Any:
        levels = list(self.levels or ())
        if self.dtype == "category":
            return pd.CategoricalDtype(levels, ordered=self.ordered)
        if self.dtype == "object":
            values = np.empty(len(levels) + 1, dtype=object)
            values[:-1] = levels
            values[-1] = self._blank
            return values
        return pd.array(levels, dtype=pd.api.types.pandas_dtype(self.dtype))

    def _as_levels(self, x: Array) -> Any:
        codes = np.where(np.isnan(x), -1, np.round(x)).astype(np.intp)
        known = self._level_array
        if self.dtype == "category":
            return pd.Categorical.from_codes(codes, dtype=known)
        if self.dtype == "object":
            return pd.Series(known[codes], dtype=object)
        return known.take(codes, allow_fill=bool((codes < 0).any()))

    # --- times ----------------------------------------------------------------------------------------------

    def _from_times(self, column: pd.Series, what: str) -> Array:
        missing = column.isna().to_numpy()
        known, x = column[~missing], np.full(len(column), np.nan)
        counts = counts_of(known, self.dtype, f"{what}: column {str(self.label)!r} holds")
        whole, part = np.divmod(counts - self.origin, self.tick)
        x[~missing] = whole + part / self.tick  # divided in two: in nanoseconds a century is no float64 any more
        off = self._counts(x[~missing]) != counts
        if off.any():
            raise too_fine(f"{what}: column {str(self.label)!r} holds", known, int(np.flatnonzero(off)[0]))
        return x

    def _counts(self, x: Array) -> Array:
        whole = np.floor(x)
        part = np.round((x - whole) * self.tick).astype(np.int64)
        return np.asarray(self.origin + whole.astype(np.int64) * self.tick + part)

    def _as_times(self, x: Array) -> Any:
        known = ~np.isnan(x)
        counts = np.full(len(x), np.iinfo(np.int64).min)  # not a time
        counts[known] = self._counts(x[known])
        unit, zone = unit_and_zone(self.dtype)
        times = pd.Series(counts.view(f"datetime64[{unit}]"))
        return times if zone is None else times.dt.tz_localize("UTC").dt.tz_convert(zone)


@dataclass(frozen=True)
class OneHotCodec:
    """Columns of zeros and ones that spell one category; all zeros are a level of their own if ``base`` is set."""

    labels: tuple[Any, ...]
    dtypes: tuple[str, ...]
    base: bool = False

    precise = False

    def encode(self, table: pd.DataFrame, what: str) -> Array:
        """Return the position of the one ``(n,)``."""
        ones = np.column_stack([numbers(table[label], what) for label in self.labels])
        total = ones.sum(axis=1)
        good = np.isin(ones, (0.0, 1.0)).all(axis=1) & ((total == 1) | ((total == 0) & self.base))
        if not good.all():
            i = int(np.flatnonzero(~good)[0])
            raise ValueError(
                f"{what}: the columns {list(map(str, self.labels))} are said to spell one category, but in row "
                f"{show(table.index[i])} they hold {ones[i].tolist()}: exactly one of them must be 1"
            )
        return np.where(total == 0, len(self.labels), ones.argmax(axis=1)).astype(float)

    def decode(self, x: Array) -> dict[Any, Any]:
        """Return the columns by their labels."""
        return {
            label: (x == code).astype(pd.api.types.pandas_dtype(dtype))
            if isinstance(pd.api.types.pandas_dtype(dtype), np.dtype)
            else pd.array((x == code).astype(int)).astype(dtype)
            for code, (label, dtype) in enumerate(zip(self.labels, self.dtypes, strict=True))
        }


def numbers(column: pd.Series, what: str) -> Array:
    """Return a column as float64 ``(n,)``, NaN where it is missing; a text is named with its place."""
    if column.dtype.kind in "fiub":
        x = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        for label, value in column.items():
            if value is None or value is pd.NA:
                continue
            if not isinstance(value, (int, float, np.number, np.bool_)):
                raise ValueError(
                    f"{what}: column {str(column.name)!r} holds {show(value)} in row {show(label)} where a number "
                    "belongs. Correct it, or make the column a category in the data as well."
                )
        x = pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)
    infinite = np.isinf(x)
    if infinite.any():
        i = int(np.flatnonzero(infinite)[0])
        raise ValueError(
            f"{what}: column {str(column.name)!r} is {x[i]} in row {show(column.index[i])}. "
            "Fill in or drop infinite values first."
        )
    return x


def holds(x: Array, dtype: str) -> Array:
    """Whether a column of this dtype holds each value as it is; every float column does, up to its precision."""
    kind = pd.api.types.pandas_dtype(dtype)
    if kind.kind not in "iub":
        return np.ones(len(x), dtype=bool)
    whole = np.iinfo(getattr(kind, "numpy_dtype", kind)) if kind.kind in "iu" else None
    low, high = (whole.min, whole.max) if whole else (0, 1)
    masked = not isinstance(kind, np.dtype)
    return ((x == np.round(x)) & (x >= low) & (x <= high)) | (np.isnan(x) & masked)


# --- values of a table as plain JSON data, and back ------------------------------------------------------------------


def write_value(value: Any) -> Any:
    """Return a value as plain JSON data: texts, numbers, booleans and None as they are, others by type."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"{show(value)} of type {type(value).__name__} cannot be written to a file")


def read_value(written: Any) -> Any:
    """Return the value that was written."""
    if isinstance(written, list):  # how tuples were written before format 5
        return tuple(map(read_value, written))
    if not isinstance(written, dict):
        return written
    for word, read in _READERS.items():
        if word in written:
            return read(written)
    raise ValueError(f"a value of an unknown kind: {written!r:.80}")


def require_writable(values: Iterable[Any], what: str) -> None:
    """Refuse values that do not come back from a file as they went in; ``what`` they are goes before the sentence."""
    for value in values:
        if not _comes_back(value):
            raise ValueError(
                f"{what} {show(value):.80} of type {type(value).__name__} cannot be kept in a file: use texts, "
                "numbers, booleans, times, intervals or tuples of them, e.g. by .astype(str)"
            )


def _comes_back(value: Any) -> bool:
    if type(value) in (str, int, bool):  # most of them
        return True
    try:
        again = read_value(write_value(value))
        return bool(again == value) and hash(again) == hash(value)
    except Exception:  # a value of a user's own class may fail in any way
        return False


def _write_moment(value: datetime) -> dict[str, Any]:
    moment = pd.Timestamp(value)
    return {"moment": moment.isoformat(), "unit": moment.unit, "zone": moment.tz and str(moment.tz)}


def _read_moment(written: dict[str, Any]) -> pd.Timestamp:
    moment = pd.Timestamp(written["moment"])
    moment = moment.as_unit(written.get("unit") or moment.unit)
    return moment.tz_convert(written["zone"]) if written.get("zone") else moment


def _write_span(value: timedelta) -> dict[str, Any]:
    span = pd.Timedelta(value)
    return {"span": [span.days, span.seconds, span.microseconds, span.nanoseconds], "unit": span.unit}


def _read_span(written: dict[str, Any]) -> pd.Timedelta:
    days, seconds, microseconds, nanoseconds = written["span"]
    span = pd.Timedelta(days=days, seconds=seconds, microseconds=microseconds, nanoseconds=nanoseconds)
    return span.as_unit(written["unit"])


def _write_interval(value: pd.Interval) -> dict[str, Any]:
    return {"interval": [write_value(value.left), write_value(value.right)], "closed": value.closed}


def _read_interval(written: dict[str, Any]) -> pd.Interval:
    left, right = map(read_value, written["interval"])
    return pd.Interval(left, right, closed=written["closed"])


_WRITERS: tuple[tuple[type, Callable[[Any], dict[str, Any]]], ...] = (
    (datetime, _write_moment),  # before date, which it is too
    (date, lambda value: {"day": value.isoformat()}),
    (time, lambda value: {"time": value.isoformat()}),
    (timedelta, _write_span),
    (pd.Period, lambda value: {"period": value.ordinal, "frequency": value.freqstr}),
    (pd.Interval, _write_interval),
    (tuple, lambda value: {"tuple": [write_value(part) for part in value]}),
    (Decimal, lambda value: {"decimal": str(value)}),
    (bytes, lambda value: {"bytes": value.hex()}),
)
_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "moment": _read_moment,
    "day": lambda written: date.fromisoformat(written["day"]),
    "time": lambda written: time.fromisoformat(written["time"]),
    "span": _read_span,
    "period": lambda written: pd.Period(ordinal=written["period"], freq=written["frequency"]),
    "interval": _read_interval,
    "tuple": lambda written: tuple(map(read_value, written["tuple"])),
    "decimal": lambda written: Decimal(written["decimal"]),
    "bytes": lambda written: bytes.fromhex(written["bytes"]),
}
