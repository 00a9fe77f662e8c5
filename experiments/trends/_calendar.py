"""Periods: how often a series is reported, when a period is over, and which one comes so many later."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Literal

__all__ = ["UNIT", "Frequency", "count", "floor", "frequency_of", "later", "several", "written"]

Frequency = Literal["hourly", "daily", "weekly", "monthly"]

UNIT: dict[Frequency, str] = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}
_STEP: dict[Frequency, timedelta] = {
    "hourly": timedelta(hours=1),
    "daily": timedelta(days=1),
    "weekly": timedelta(weeks=1),
}
_MEDIAN_GAP: dict[Frequency, tuple[timedelta, timedelta]] = {  # a clock change takes or adds an hour
    "hourly": (timedelta(hours=1), timedelta(hours=1)),
    "daily": (timedelta(hours=23), timedelta(hours=25)),
    "weekly": (timedelta(days=7, hours=-1), timedelta(days=7, hours=1)),
    "monthly": (timedelta(days=28), timedelta(days=31)),
}


def frequency_of(dates: Iterable[datetime]) -> Frequency | None:
    """Read the frequency off the median gap between dates; ``None`` when it is no known one, or there is no gap."""
    gaps = [(after - before).total_seconds() for before, after in pairwise(sorted(set(dates)))]
    if not gaps:
        return None
    middle = timedelta(seconds=median(gaps))
    return next((name for name, (low, high) in _MEDIAN_GAP.items() if low <= middle <= high), None)


def floor(date: datetime, frequency: Frequency) -> datetime:
    """Return the moment that stands for the period of ``date``: the first of its month, or midnight, or the hour.

    A week keeps its day, because exports differ in the day on which they begin one.
    """
    if frequency == "hourly":
        return date.replace(minute=0, second=0, microsecond=0)
    day = date.replace(hour=0, minute=0, second=0, microsecond=0)
    return day.replace(day=1) if frequency == "monthly" else day


def later(date: datetime, frequency: Frequency, periods: int) -> datetime:
    """Return the period that comes ``periods`` after the one of ``date``; a negative number goes back."""
    if frequency != "monthly":
        return date + periods * _STEP[frequency]
    years, month = divmod(date.month - 1 + periods, 12)
    return date.replace(year=date.year + years, month=month + 1)


def count(first: datetime, last: datetime, frequency: Frequency) -> int:
    """Count the periods from ``first`` to ``last``, both included."""
    if frequency != "monthly":
        return (last - first) // _STEP[frequency] + 1
    return 12 * (last.year - first.year) + last.month - first.month + 1


def several(number: int, frequency: Frequency) -> str:
    """Write a number of periods: ``1 month``, ``3 months``."""
    return f"{number} {UNIT[frequency]}{'' if number == 1 else 's'}"


def written(date: datetime, frequency: Frequency) -> str:
    """Write a period as exports do: ``2016-02``, ``2016-02-07`` or ``2016-02-07T05``."""
    if frequency == "monthly":
        return f"{date:%Y-%m}"
    return f"{date:%Y-%m-%dT%H}" if frequency == "hourly" else f"{date:%Y-%m-%d}"
