"""Exports: a table whose cells have a meaning. Periods, terms, the place, and which periods were over."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from experiments.trends._calendar import UNIT, Frequency, floor, frequency_of, later, written
from experiments.trends._cells import CellError, Dates, looks_like_date, read_dates, read_flag, read_number, shown
from experiments.trends._tables import Table

__all__ = ["Export"]

_TERM_AND_GEO = re.compile(r"(.*\S)\s*[:：]\s*\((.+)\)", flags=re.DOTALL)
_FILE_NAME = re.compile(r"time_series_(.+?)_\d{8}-\d{4}_(\d{8}-\d{4})")
_ZONES = timedelta(hours=14)  # the name and the rows may tell the time of different zones
_ROW_NUMBERS = ("", "index", "unnamed: 0")  # headings of a column that a frame's index left in the file


@dataclass(frozen=True)
class Export:
    """One export, its cells not yet numbers, because not every column may be wanted.

    Attributes
    ----------
    name : str
        What messages call it.
    unit : {"line", "row"}
        What its rows are called.
    places : list
        Line number or row label of each row.
    periods : list of datetime
        One per row, all different.
    frequency : str
        Of the periods.
    cells : dict of str to list
        The cells of each term.
    geo : str or None
        The place, where the headings or the file's name say it.
    over : list of bool or None
        Whether each period was over at the download; ``None`` where nothing says so.
    note : str or None
        A remark on how it was read.
    """

    name: str
    unit: str
    places: list[Any]
    periods: list[datetime]
    frequency: Frequency
    cells: dict[str, list[Any]]
    geo: str | None
    over: list[bool] | None
    note: str | None

    @classmethod
    def of(cls, table: Table) -> "Export":
        """Make sense of a table, or say why there is none."""
        places = [place for place, _ in table.rows]
        columns = list(zip(*(cells for _, cells in table.rows), strict=True))
        when = _date_column(table)
        dates = _dates(table, columns[when])
        frequency = _frequency(table.name, dates)
        periods = [floor(date, frequency) for date in dates.values]
        _require_different(table, periods, frequency)
        flags: list[bool] | None = None
        cells: dict[str, list[Any]] = {}
        geos: dict[str, str] = {}
        for j, head in enumerate(table.head):
            if j == when or (j < when and head.lower() in _ROW_NUMBERS):
                continue
            if head.lower().replace("_", "") == "ispartial":
                flags = _flags(table, columns[j])
                continue
            found = _TERM_AND_GEO.fullmatch(head)
            term = found[1] if found else head
            if found:
                geos[found[2].strip()] = term
            if term in cells and len(geos) < 2:
                raise ValueError(f"{table.name} has two columns for {term!r}: leave one of them out")
            cells[term] = list(columns[j])
        if len(geos) > 1:
            raise ValueError(
                f"{table.name} compares places ({', '.join(geos)}), but a table of terms is of one: download the terms "
                "for one region"
            )
        if not cells:
            raise ValueError(f"{table.name} has dates but no column of values: download it again")
        named = _FILE_NAME.search(Path(table.name).name)
        geo = next(iter(geos), named[1] if named else None)
        over = [not flag for flag in flags] if flags is not None else _over_by_name(named, periods, frequency)
        return cls(table.name, table.unit, places, periods, frequency, cells, geo, over, dates.note)

    def finished(self, partial: bool | datetime | None) -> "Export":
        """Return the export without periods that were not over.

        Where the export does not tell, ``partial`` does: True means the last one, a moment means those that end after
        it, ``None`` means that all were over. False keeps every period, whatever the export tells.
        """
        over, last = self.over, max(self.periods)
        if over is None:
            over = [
                period != last if partial is True
                else later(period, self.frequency, 1) <= partial if isinstance(partial, datetime)
                else True
                for period in self.periods
            ]  # fmt: skip
        if partial is False or all(over):
            return self
        if not any(over):
            raise ValueError(f"{self.name} has no period that was over at the download: give it a longer time")
        places, periods, *columns = (
            [value for value, keep in zip(values, over, strict=True) if keep]
            for values in (self.places, self.periods, *self.cells.values())
        )
        return replace(self, places=places, periods=periods, cells=dict(zip(self.cells, columns, strict=True)))

    def values(self, term: str) -> list[float]:
        """Return the numbers of a term, negative where a cell says that it is below one."""
        numbers = []
        for place, cell in zip(self.places, self.cells[term], strict=True):
            try:
                numbers.append(read_number(cell))
            except ValueError as error:
                raise ValueError(
                    f"{self.name}, {self.unit} {place}: the value {shown(cell)} of {term!r} {error}. Correct it, "
                    "download the file again, or leave the term out with features=[...]."
                ) from None
        return numbers

    @property
    def span(self) -> str:
        """What the export covers, in words."""
        first, last = (written(end, self.frequency) for end in (min(self.periods), max(self.periods)))
        return f"{self.name} covers {first} to {last}"


def _date_column(table: Table) -> int:
    """Return the first column that starts with a date."""
    place, first = table.rows[0]
    found = next((j for j, cell in enumerate(first) if looks_like_date(cell)), None)
    if found is None:
        raise _bad_date(table, place, f"{shown(first[0])} is not a date such as 2016-02, 2016-02-07 or 07-02-2016")
    return found


def _dates(table: Table, cells: Sequence[Any]) -> Dates:
    try:
        return read_dates(cells)
    except CellError as error:
        raise _bad_date(table, table.rows[error.position][0], str(error)) from None


def _bad_date(table: Table, place: Any, why: str) -> ValueError:
    return ValueError(
        f"{table.name}, {table.unit} {place}: {why}. Correct it, or download the file again if a spreadsheet program "
        "has rewritten the dates."
    )


def _frequency(name: str, dates: Dates) -> Frequency:
    if dates.are_months:
        return "monthly"
    frequency = frequency_of(dates.values)
    if frequency is None and len(set(dates.values)) < 2:
        raise ValueError(f"{name} has a single date, which does not tell how often it reports: give a longer time")
    if frequency is None:
        raise ValueError(
            f"{name} reports neither hourly, daily, weekly nor monthly, judging by the gaps between its dates: give it "
            "one frequency"
        )
    return frequency


def _require_different(table: Table, periods: list[datetime], frequency: Frequency) -> None:
    first: dict[datetime, Any] = {}
    for (place, _), period in zip(table.rows, periods, strict=True):
        if period in first:
            raise ValueError(
                f"{table.name} has the {UNIT[frequency]} {written(period, frequency)} twice, in {table.unit}s "
                f"{first[period]} and {place}: leave one of them out"
            )
        first[period] = place


def _flags(table: Table, cells: Sequence[Any]) -> list[bool]:
    flags = []
    for (place, _), cell in zip(table.rows, cells, strict=True):
        try:
            flags.append(read_flag(cell))
        except ValueError as error:
            raise ValueError(f"{table.name}, {table.unit} {place}: {shown(cell)} under isPartial {error}") from None
    return flags


def _over_by_name(named: re.Match[str] | None, periods: list[datetime], frequency: Frequency) -> list[bool] | None:
    """Compare the last period with the end that the file's name gives; ``None`` when that leaves it open."""
    if named is None:
        return None
    try:
        end = datetime.strptime(named[2], "%Y%m%d-%H%M")
    except ValueError:
        return None
    last = max(periods)
    over = later(last, frequency, 1)
    if abs(over - end) < _ZONES:
        return None
    return [period != last or over < end for period in periods]
