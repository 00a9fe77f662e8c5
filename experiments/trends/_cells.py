"""Cells: dates in the order they were written in, numbers, and "below one" in any language."""

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.trends._calendar import frequency_of
from gbce._validation import is_number

__all__ = ["BELOW_ONE", "CellError", "Dates", "looks_like_date", "read_dates", "read_flag", "read_number", "shown"]

BELOW_ONE = -1.0  # what read_number returns for it: no value of an export is negative

_YEAR_FIRST = re.compile(
    r"(\d{4})[-/](\d{1,2})"  # 2016-02 is a month
    r"(?:[-/](\d{1,2})(?:[T ](\d{1,2})(?::(\d{2})(?::(\d{2})(?:\.\d+)?)?)?(?:Z|[+-]\d{2}:?\d{2})?)?)?"
)
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?:[T ]0?0:00(?::00)?)?")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_BELOW = re.compile(r"[<＜]|&lt;|[^\W\d_a-zA-Z]|[a-zA-Z]\s|\s[a-zA-Z]")  # a sign, a letter that is not Latin, a word


class CellError(ValueError):
    """A cell that cannot be read: its position among the cells given, and why."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position


class Dates(NamedTuple):
    """Dates of one column, whether they are months by the way they are written, and a remark on how they were read."""

    values: list[datetime]
    are_months: bool
    note: str | None


def shown(cell: Any) -> str:
    """Write a cell for a message, cut short when it is long."""
    text = repr(cell)
    return text if len(text) <= 40 else f"{text[:36]}...{text[-1]}"


def looks_like_date(cell: Any) -> bool:
    """Whether a cell is a date, or text in the form of one."""
    if isinstance(cell, str):
        text = cell.strip()
        return bool(_YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text))
    return isinstance(cell, (date, np.datetime64))


def read_dates(cells: Sequence[Any]) -> Dates:
    """Read a column of dates, all written in the form of the first."""
    if not isinstance(cells[0], str):
        return Dates([_from_object(i, cell) for i, cell in enumerate(cells)], False, None)
    if _YEAR_LAST.fullmatch(cells[0].strip()):
        return _year_last(cells)
    parts = [_match(_YEAR_FIRST, i, cell, "a date such as 2016-02 or 2016-02-07") for i, cell in enumerate(cells)]
    are_months = all(len(part) == 2 for part in parts)
    values = []
    for i, part in enumerate(parts):
        try:
            values.append(datetime(*part, *[1] * (len(part) == 2)))  # type: ignore[arg-type]  # year, month, ...
        except ValueError:
            raise CellError(i, f"{cells[i]!r} is no date of the calendar") from None
    return Dates(values, are_months, None)


def _from_object(i: int, cell: Any) -> datetime:
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if not isinstance(cell, date) or cell != cell:  # NaT is a date that does not equal itself
        raise CellError(i, f"{shown(cell)} is not a date")
    if not isinstance(cell, datetime):
        return datetime(cell.year, cell.month, cell.day)
    return datetime(cell.year, cell.month, cell.day, cell.hour, cell.minute, cell.second)


def _match(form: re.Pattern[str], i: int, cell: Any, wanted: str) -> list[int]:
    found = form.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if found is None:
        raise CellError(i, f"{shown(cell)} is not {wanted}")
    return [int(group) for group in found.groups() if group is not None]


def _year_last(cells: Sequence[Any]) -> Dates:
    """Read dates such as 01-12-2024, for whose first two numbers only the whole column tells which is the day.

    Where both readings are dates, the one that gives months is taken: days would pass the twelfth sooner or later.
    """
    parts = [_match(_YEAR_LAST, i, cell, f"a date written like {cells[0]!r}") for i, cell in enumerate(cells)]
    day_first = [_date_or_none(year, month, day) for day, month, year in parts]
    month_first = [_date_or_none(year, month, day) for month, day, year in parts]
    readings = {"day": day_first, "month": month_first}
    whole = {order: [d for d in dates if d is not None] for order, dates in readings.items() if None not in dates}
    if not whole:
        i = day_first.index(None)
        raise CellError(i, f"{cells[i]!r} is no date, read day first as other dates of the column have to be")
    order = next((order for order, dates in whole.items() if frequency_of(dates) == "monthly"), next(iter(whole)))
    dates, note = whole[order], None
    if len(whole) == 2 and day_first != month_first and len({d.year for d in dates}) == 1:
        note = (
            f"dates such as {cells[0]} can be read with the day or the month first; they were read {order} first, from "
            f"{dates[0]:%Y-%m-%d} to {dates[-1]:%Y-%m-%d}. Write them as year-month-day if that is wrong."
        )
    return Dates(dates, False, note)


def _date_or_none(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime(year, month, day)
    except ValueError:
        return None


def read_number(cell: Any) -> float:
    """Read one value: a number, or :data:`BELOW_ONE`; a :class:`ValueError` says in half a sentence why it is neither.

    Below one is a lone digit 1 beside a mark: ``<1``, ``1 未満``, ``less than 1``. Latin letters need a space, so that
    a slip such as ``1O`` is not taken for it.
    """
    if isinstance(cell, str):
        cell = cell.strip()
        if not cell:
            raise ValueError("is empty")
        digits = [c for c in cell if c.isdecimal()]
        if len(digits) == 1 and int(digits[0]) == 1 and _BELOW.search(cell):
            return BELOW_ONE
        if not _NUMBER.fullmatch(cell):
            raise ValueError("is not a number")
    elif pd.isna(cell):
        raise ValueError("is missing")
    elif not is_number(cell):
        raise ValueError("is not a number")
    number = float(cell)
    if number < 0 or math.isinf(number):
        raise ValueError("is not a search interest, which is a finite number from 0 up")
    return number


def read_flag(cell: Any) -> bool:
    """Read one value of an ``isPartial`` column; an empty or missing one is false."""
    text = "" if not isinstance(cell, str) and pd.isna(cell) else str(cell).strip().lower()
    if text in ("true", "1", "1.0"):
        return True
    if text in ("false", "0", "0.0", ""):
        return False
    raise ValueError("is neither True nor False")
