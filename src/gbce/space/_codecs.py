"""Encode table columns as float64 and decode them: numbers, levels, times and one-hot groups.

Also writes single values (levels, column labels, class labels) as JSON and reads them back. A value that would not
survive the round trip is rejected on input, not when a file is saved.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import distinguish, show
from gbce.base import Array

_TICKS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}  # in seconds, the longest first
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # counts of each pandas resolution
LARGEST_EXACT = 2**53  # below it every integer has its own double (IEEE 754)
_MOST_LEVELS_LISTED = 12  # in one message; by hand

# --- times as integers -----------------------------------------------------------------------------------------------


def unit_and_zone(dtype: str) -> tuple[str, Any]:
    """Return the resolution and the time zone (or ``None``) of a datetime dtype."""
    kind = pd.api.types.pandas_dtype(dtype)
    return (np.datetime_data(kind)[0], None) if isinstance(kind, np.dtype) else (kind.unit, kind.tz)


def ticks_of(times: Sequence[int], dtype: str) -> tuple[int, int, str]:
    """Choose origin, tick and tick name for times given as integers in the resolution of ``dtype``."""
    resolution, _ = unit_and_zone(dtype)
    per_second = _PER_SECOND[resolution]
    origin = int(min(times))
    step = math.gcd(*(int(instant) - origin for instant in times))
    for name, seconds in _TICKS.items():
        if step and step % (seconds * per_second) == 0:
            return origin, seconds * per_second, name
    micro = _PER_SECOND["us"]
    return origin, max(per_second // micro, 1), "microsecond" if per_second >= micro else resolution


def counts_of(known: pd.Series, dtype: str, what: str) -> Array:
    """Convert times, or strings that denote them, ``(n,)`` to int64 in the resolution of ``dtype``."""
    unit, zone = unit_and_zone(dtype)
    times = known if known.dtype.kind == "M" else _parse_times(known, dtype, zone, what)
    if len(times):
        _require_zone(times.iloc[0], zone, known, 0, dtype, what)
    whole = times.dt.tz_convert("UTC").dt.tz_localize(None) if times.dt.tz is not None else times
    with_unit = whole.dt.as_unit(unit)
    lost = (with_unit != whole).to_numpy()
    if lost.any():
        raise too_fine(what, known, int(np.flatnonzero(lost)[0]))
    return with_unit.astype("int64").to_numpy()


def too_fine(what: str, known: pd.Series, i: int) -> ValueError:
    """Build the error for a time whose resolution is too fine to be represented with the others."""
    return ValueError(
        f"{what} {show(known.iloc[i])} in row {show(known.index[i])}, a time that is too fine to be represented "
        "together with the others; round them, e.g. with .dt.floor('s')"
    )


def _parse_times(known: pd.Series, dtype: str, zone: Any, what: str) -> pd.Series:
    """Parse times one by one, so that an error can name the first invalid one."""
    parsed = []
    for i, value in enumerate(known):
        try:
            instant = pd.Timestamp(value) if isinstance(value, (str, date, np.datetime64)) else None
        except ValueError:
            instant = None
        if instant is None:
            raise ValueError(
                f"{what} {show(value)} in row {show(known.index[i])} where a time is expected ({dtype})"
            ) from None
        _require_zone(instant, zone, known, i, dtype, what)
        parsed.append(instant if zone is None else instant.tz_convert("UTC"))
    finest = max((instant.unit for instant in parsed), key=_PER_SECOND.__getitem__, default="s")
    return pd.Series(pd.DatetimeIndex([instant.as_unit(finest) for instant in parsed], tz=zone and "UTC"), known.index)


def _require_zone(instant: pd.Timestamp, zone: Any, known: pd.Series, i: int, dtype: str, what: str) -> None:
    """Require a time zone exactly where the data have one."""
    if (zone is None) == (instant.tz is None):
        return
    advice = "drop it" if zone is None else f"give it one, e.g. with .tz_localize({str(zone)!r})"
    raise ValueError(
        f"{what} {show(known.iloc[i])} in row {show(known.index[i])} {'with' if zone is None else 'without'} a time "
        f"zone, unlike the data ({dtype}): {advice}"
    )


# --- columns ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Codec:
    """Encode and decode one table column."""

    label: Any
    dtype: str = "float64"  # as pandas spells it; "category" is completed by levels and ordered
    levels: tuple[Any, ...] | None = None  # the value of each code
    ordered: bool = False  # whether a category dtype is ordered
    blank: str = ""  # how an object column marks a missing value: "none", "nan" or "na"; "" if none is missing
    origin: int = 0  # for times: the instant encoded as zero, in the resolution of the dtype
    tick: int = 0  # for times: the number of resolution steps encoded as one; zero for other columns
    decimal: bool = False  # whether an object column holds numbers of the type Decimal

    @property
    def labels(self) -> tuple[Any, ...]:
        """Labels of the table columns that the codec covers."""
        return (self.label,)

    @property
    def precise(self) -> bool:
        """Whether the column stores every float64 exactly."""
        return self.levels is None and not self.tick and self.dtype in ("float64", "Float64")

    @property
    def has_zone(self) -> bool:
        """Whether its times have a time zone."""
        return unit_and_zone(self.dtype)[1] is not None

    @property
    def step(self) -> Fraction:
        """For times: the seconds that are encoded as one."""
        return Fraction(self.tick, _PER_SECOND[unit_and_zone(self.dtype)[0]])

    @property
    def start(self) -> int:
        """For times: the last full second, since 1970, before the instant that is encoded as zero."""
        return self.origin // _PER_SECOND[unit_and_zone(self.dtype)[0]]

    def counted_from(self, start: int) -> "Codec":
        """Return the codec of times with another :attr:`start` as zero."""
        return replace(self, origin=start * _PER_SECOND[unit_and_zone(self.dtype)[0]])

    def encode(self, table: pd.DataFrame, what: str) -> Array:
        """Encode the column as float64 ``(n,)``, NaN where a value is missing."""
        column = table[self.label]
        if self.tick:
            return self._encode_times(column, what)
        if self.levels is not None:
            return self._encode_levels(column, what)
        values = read_numbers(column, what)
        self._require_storable(values, column, what)
        return values

    def decode(self, x: Array) -> dict[Any, Any]:
        """Decode numbers ``(n,)`` into the column, keyed by its label."""
        if self.tick:
            return {self.label: self._decode_times(x)}
        if self.levels is not None:
            return {self.label: self._decode_levels(x)}
        if self.dtype == "float64":
            return {self.label: x}
        if self.dtype == "object":
            values = np.asarray(x, dtype=object)
            if self.decimal:
                values = np.array([Decimal(repr(number)) for number in x.tolist()], dtype=object)
            return {self.label: pd.Series(np.where(np.isnan(x), self._missing_marker, values), dtype=object)}
        dtype = self._pandas_dtype
        if not isinstance(dtype, np.dtype):
            missing = np.isnan(x)
            nullable = pd.array(np.where(missing, 0.0, x).astype(dtype.numpy_dtype), dtype=dtype)
            nullable[missing] = pd.NA
            return {self.label: nullable}
        return {self.label: x.astype(dtype)}

    @cached_property
    def _pandas_dtype(self) -> Any:
        return pd.api.types.pandas_dtype(self.dtype)

    def _require_storable(self, x: Array, column: pd.Series, what: str) -> None:
        """Reject values that the column's dtype cannot store exactly."""
        storable = can_store(x, self.dtype)
        if not storable.all():
            i = int(np.flatnonzero(~storable)[0])
            if np.isnan(x[i]):
                raise ValueError(
                    f"{what}: {str(self.label)!r} is missing, but no training row has a missing {str(self.label)!r}."
                )
            value, _ = distinguish(x[i], np.round(x[i]))
            raise ValueError(
                f"{what}: {str(self.label)!r} = {value} cannot be stored in a column of type {self.dtype}, its type in "
                "the data. Correct the value, or make the column a float in the data."
            )
        if column.dtype.kind in "iu" and len(x) and np.nanmax(np.abs(x), initial=0.0) >= LARGEST_EXACT:
            raise ValueError(f"{what}: {too_large(self.label)}")

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {level: code for code, level in enumerate(self.levels or ())}

    @property
    def _missing_marker(self) -> Any:
        return {"none": None, "na": pd.NA}.get(self.blank, np.nan)

    def _encode_levels(self, column: pd.Series, what: str) -> Array:
        """Encode levels as codes ``(n,)``; reject levels that the data do not have."""
        missing = column.isna().to_numpy()
        if isinstance(column.dtype, pd.CategoricalDtype):
            by_category = np.array([self._codes.get(level, -1) for level in column.cat.categories], dtype=float)
            codes = np.where(missing, np.nan, 0.0)
            codes[~missing] = by_category[column.cat.codes.to_numpy()[~missing]]
        else:
            values = column.to_numpy(dtype=object)
            codes = np.array(
                [np.nan if absent else self._find_code(value) for value, absent in zip(values, missing, strict=True)]
            )
        unseen = codes < 0
        if unseen.any():
            i = int(np.flatnonzero(unseen)[0])
            levels = self.levels or ()
            known = ", ".join(map(repr, levels[:_MOST_LEVELS_LISTED]))
            known += ", ..." if len(levels) > _MOST_LEVELS_LISTED else ""
            raise ValueError(
                f"{what}: column {str(self.label)!r} holds {show(column.iloc[i])} in row {show(column.index[i])}, a "
                f"level that the data do not have; its levels are {known}. Correct it, or list all levels with "
                f"Space.infer(data, levels={{{str(self.label)!r}: [...]}})."
            )
        return codes

    def _find_code(self, value: Any) -> float:
        """Return the code of a level, -1 for an unknown one."""
        try:
            return float(self._codes.get(value, -1))
        except TypeError:  # unhashable, such as a list
            return -1.0

    @cached_property
    def _level_array(self) -> Any:
        levels = list(self.levels or ())
        if self.dtype == "category":
            return pd.CategoricalDtype(levels, ordered=self.ordered)
        if self.dtype == "object":
            values = np.empty(len(levels) + 1, dtype=object)
            values[:-1] = levels
            values[-1] = self._missing_marker
            return values
        return pd.array(levels, dtype=pd.api.types.pandas_dtype(self.dtype))

    def _decode_levels(self, x: Array) -> Any:
        """Decode codes ``(n,)`` into a column of levels."""
        codes = np.where(np.isnan(x), -1, np.round(x)).astype(np.intp)
        known = self._level_array
        if self.dtype == "category":
            return pd.Categorical.from_codes(codes, dtype=known)
        if self.dtype == "object":
            return pd.Series(known[codes], dtype=object)
        return known.take(codes, allow_fill=bool((codes < 0).any()))

    def _encode_times(self, column: pd.Series, what: str) -> Array:
        """Encode times as numbers of ticks since the origin ``(n,)``."""
        missing = column.isna().to_numpy()
        known, x = column[~missing], np.full(len(column), np.nan)
        counts = counts_of(known, self.dtype, f"{what}: column {str(self.label)!r} holds")
        whole, part = np.divmod(counts - self.origin, self.tick)
        x[~missing] = whole + part / self.tick  # in two parts: a century in nanoseconds exceeds the digits of a float64
        inexact = self._restore_counts(x[~missing]) != counts
        if inexact.any():
            raise too_fine(f"{what}: column {str(self.label)!r} holds", known, int(np.flatnonzero(inexact)[0]))
        return x

    def _restore_counts(self, x: Array) -> Array:
        """Convert ticks ``(n,)`` back to int64 in the resolution of the dtype."""
        whole = np.floor(x)
        part = np.round((x - whole) * self.tick).astype(np.int64)
        return np.asarray(self.origin + whole.astype(np.int64) * self.tick + part)

    def _decode_times(self, x: Array) -> pd.Series:
        """Decode ticks since the origin ``(n,)``, NaN for missing, into a column of times."""
        known = ~np.isnan(x)
        counts = np.full(len(x), np.iinfo(np.int64).min)  # NaT
        counts[known] = self._restore_counts(x[known])
        unit, zone = unit_and_zone(self.dtype)
        times = pd.Series(counts.view(f"datetime64[{unit}]"))
        return times if zone is None else times.dt.tz_localize("UTC").dt.tz_convert(zone)


@dataclass(frozen=True)
class OneHotCodec:
    """Encode and decode a group of one-hot columns as one category; with ``base``, all zeros are one more level."""

    labels: tuple[Any, ...]
    dtypes: tuple[str, ...]
    base: bool = False

    precise = False

    def encode(self, table: pd.DataFrame, what: str) -> Array:
        """Encode each row as the position of its one ``(n,)``."""
        ones = np.column_stack([read_numbers(table[label], what) for label in self.labels])
        total = ones.sum(axis=1)
        good = np.isin(ones, (0.0, 1.0)).all(axis=1) & ((total == 1) | ((total == 0) & self.base))
        if not good.all():
            i = int(np.flatnonzero(~good)[0])
            raise ValueError(
                f"{what}: the columns {list(map(str, self.labels))} are declared as one-hot, but in row "
                f"{show(table.index[i])} they hold {ones[i].tolist()}: exactly one of them must be 1"
            )
        return np.where(total == 0, len(self.labels), ones.argmax(axis=1)).astype(float)

    def decode(self, x: Array) -> dict[Any, Any]:
        """Decode positions ``(n,)`` into the columns, keyed by label."""
        return {
            label: (x == code).astype(pd.api.types.pandas_dtype(dtype))
            if isinstance(pd.api.types.pandas_dtype(dtype), np.dtype)
            else pd.array((x == code).astype(int)).astype(dtype)
            for code, (label, dtype) in enumerate(zip(self.labels, self.dtypes, strict=True))
        }


def too_large(label: Any) -> str:
    """Return the sentence about a column of integers that floats do not tell apart."""
    return (
        f"column {str(label)!r} holds integers beyond 2**53, too large to be distinguished as floats. Drop the column "
        "if it is an identifier, or make it a category."
    )


def read_numbers(column: pd.Series, what: str) -> Array:
    """Convert a column to float64 ``(n,)``, NaN where missing; an error names the first value that is no number."""
    if column.dtype.kind in "fiub":
        x = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        for label, value in column.items():
            if value is None or value is pd.NA:
                continue
            if not isinstance(value, (int, float, Decimal, np.number, np.bool_)):
                raise ValueError(
                    f"{what}: column {str(column.name)!r} holds {show(value)} in row {show(label)} where a number "
                    "is expected. Correct it, or make the column a category in the data as well."
                )
            if isinstance(value, int) and abs(value) > sys.float_info.max:
                raise ValueError(
                    f"{what}: column {str(column.name)!r} holds an integer above 1e308 in row {show(label)}"
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


def can_store(x: Array, dtype: str) -> Array:
    """Whether a column of this dtype can store each value ``(n,)``; float columns can, up to their precision."""
    kind = pd.api.types.pandas_dtype(dtype)
    if kind.kind not in "iub":
        return np.ones(len(x), dtype=bool)
    low, high = ends_of(dtype)
    nullable = not isinstance(kind, np.dtype)
    return ((x == np.round(x)) & (x >= low) & (x <= high)) | (np.isnan(x) & nullable)


def ends_of(dtype: str) -> tuple[float, float]:
    """Return the least and the largest number that a column of this dtype holds."""
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        return np.iinfo(kind).min, np.iinfo(kind).max
    if kind.kind == "f":
        return float(np.finfo(kind).min), float(np.finfo(kind).max)
    return (0, 1) if kind.kind == "b" else (-math.inf, math.inf)


def numpy_dtype(dtype: str) -> "np.dtype[Any]":
    """Return the dtype of numpy by which a column of this dtype, nullable or not, stores its known values."""
    kind = pd.api.types.pandas_dtype(dtype)
    own = getattr(kind, "numpy_dtype", kind)
    return own if isinstance(own, np.dtype) else np.dtype(object)


# --- values as JSON --------------------------------------------------------------------------------------------------


def write_value(value: Any) -> Any:
    """Convert a value to JSON data: strings, numbers, booleans and None as they are, others tagged by type."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"{show(value)} of type {type(value).__name__} cannot be written to a file")


def read_value(written: Any) -> Any:
    """Rebuild a value from what :func:`write_value` returned."""
    if isinstance(written, list):  # how tuples were written before format 5
        return tuple(map(read_value, written))
    if not isinstance(written, dict):
        return written
    for word, read in _READERS.items():
        if word in written:
            return read(written)
    raise ValueError(f"unknown kind of value: {written!r:.80}")


def require_writable(values: Iterable[Any], what: str) -> None:
    """Reject values that do not survive being written and read; the error message begins with ``what``."""
    for value in values:
        if not _round_trips(value):
            raise ValueError(
                f"{what} {show(value):.80} of type {type(value).__name__} cannot be stored in a file: use strings, "
                "numbers, booleans, times, intervals or tuples of them, e.g. by .astype(str)"
            )


def _round_trips(value: Any) -> bool:
    """Whether a value is equal, with the same hash, after being written and read."""
    if type(value) in (str, int, bool):  # the usual case
        return True
    try:
        restored = read_value(write_value(value))
        return bool(restored == value) and hash(restored) == hash(value)
    except Exception:  # a user-defined class may fail in any way
        return False


def _write_timestamp(value: datetime) -> dict[str, Any]:
    stamp = pd.Timestamp(value)
    return {"moment": stamp.isoformat(), "unit": stamp.unit, "zone": stamp.tz and str(stamp.tz)}


def _read_timestamp(written: dict[str, Any]) -> pd.Timestamp:
    stamp = pd.Timestamp(written["moment"])
    stamp = stamp.as_unit(written.get("unit") or stamp.unit)
    return stamp.tz_convert(written["zone"]) if written.get("zone") else stamp


def _write_timedelta(value: timedelta) -> dict[str, Any]:
    span = pd.Timedelta(value)
    return {"span": [span.days, span.seconds, span.microseconds, span.nanoseconds], "unit": span.unit}


def _read_timedelta(written: dict[str, Any]) -> pd.Timedelta:
    days, seconds, microseconds, nanoseconds = written["span"]
    span = pd.Timedelta(days=days, seconds=seconds, microseconds=microseconds, nanoseconds=nanoseconds)
    return span.as_unit(written["unit"])


def _write_interval(value: pd.Interval) -> dict[str, Any]:
    return {"interval": [write_value(value.left), write_value(value.right)], "closed": value.closed}


def _read_interval(written: dict[str, Any]) -> pd.Interval:
    left, right = map(read_value, written["interval"])
    return pd.Interval(left, right, closed=written["closed"])


_WRITERS: tuple[tuple[type, Callable[[Any], dict[str, Any]]], ...] = (
    (datetime, _write_timestamp),  # before date, its base class
    (date, lambda value: {"day": value.isoformat()}),
    (time, lambda value: {"time": value.isoformat()}),
    (timedelta, _write_timedelta),
    (pd.Period, lambda value: {"period": value.ordinal, "frequency": value.freqstr}),
    (pd.Interval, _write_interval),
    (tuple, lambda value: {"tuple": [write_value(part) for part in value]}),
    (Decimal, lambda value: {"decimal": str(value)}),
    (bytes, lambda value: {"bytes": value.hex()}),
)
_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "moment": _read_timestamp,
    "day": lambda written: date.fromisoformat(written["day"]),
    "time": lambda written: time.fromisoformat(written["time"]),
    "span": _read_timedelta,
    "period": lambda written: pd.Period(ordinal=written["period"], freq=written["frequency"]),
    "interval": _read_interval,
    "tuple": lambda written: tuple(map(read_value, written["tuple"])),
    "decimal": lambda written: Decimal(written["decimal"]),
    "bytes": lambda written: bytes.fromhex(written["bytes"]),
}
