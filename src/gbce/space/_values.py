"""Values of a table as plain JSON data, and back: levels, column labels and class labels.

What cannot be written and read back as an equal value is refused where it comes in, not when a file is saved.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import show

__all__ = ["read_value", "require_writable", "write_value"]


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
