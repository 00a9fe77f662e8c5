"""Google Trends exports as a regression table: terms of some periods ago against a target."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd

from experiments.trends._calendar import UNIT, Frequency, count, later, several
from experiments.trends._cells import BELOW_ONE, looks_like_date, read_dates
from experiments.trends._exports import Export
from experiments.trends._notes import listed, notes_on_partial, notes_on_reading, notes_on_rows, notes_on_values
from experiments.trends._tables import tables
from gbce._validation import is_number

__all__ = ["Trends", "read_trends"]

Series = dict[datetime, float]


@dataclass(frozen=True, eq=False)
class Trends:
    r"""Search interest as a regression table.

    Attributes
    ----------
    X : DataFrame of shape (n, d)
        One float column per term, named ``Jump_lag1`` for a lag of one period and ``Jump`` for none.
    y : Series of shape (n,)
        The target, under its term.
    geo : str or None
        The place, in the words of the exports; ``None`` where none of them says.
    frequency : {"hourly", "daily", "weekly", "monthly"}
        How often the exports report.
    notes : tuple of str
        What a reader of results should know of the data: periods dropped or missing, values below one, scales.

    Both are indexed by the period of the target, a date: the first of the month, the first day of the week.

    Examples
    --------
    >>> import io
    >>> csv = "Month,One Piece: (Japan),Jump: (Japan)\n2016-01,20,60\n2016-02,25,70\n2016-03,22,65\n"
    >>> trends = read_trends(io.StringIO(csv), target="One Piece")
    >>> trends.geo, trends.frequency, trends.X.shape
    ('Japan', 'monthly', (2, 1))
    """

    X: pd.DataFrame
    y: pd.Series
    geo: str | None
    frequency: Frequency
    notes: tuple[str, ...]


def read_trends(
    paths: Any,
    *,
    target: str,
    features: Iterable[str] | None = None,
    lag: int = 1,
    below_one: float = 0.0,
    geo: str | None = None,
    drop_partial: bool | str | date | None = None,
) -> Trends:
    r"""Read Google Trends exports, join them on their dates and set features of an earlier period beside the target.

    Understood are the site's downloads, ``multiTimeline.csv`` in any language and ``time_series_*.csv``; frames as
    pytrends and trendspy return them; and tables that were saved from either, with the day or the year first. Headings
    are found by their place and frequencies by the dates, never by words, and ``: (Japan)`` is taken off a heading.

    Parameters
    ----------
    paths : str, path, open file, bytes, DataFrame, or an iterable of these
        What to read. A text is a path or a pattern such as ``"trends/*.csv"``; for the text of an export itself give
        ``io.StringIO(text)``.
    target : str
        The term to explain.
    features : iterable of str, optional
        The terms to explain it with, in this order; every other term when left out. The target is not one of them.
    lag : int
        How many periods the features are older than the target. They are matched by date: a period that is missing
        costs rows, but shifts none.
    below_one : float
        What ``<1`` and its translations become: a number from 0 to 1, or NaN.
    geo : str, optional
        The name of the place. Exports must agree on it unless it is given here, as is needed for files in two
        languages.
    drop_partial : bool or date, optional
        What to do about a last period that was not over at the download. Left out, it is dropped where an
        ``isPartial`` column or the end in a file's name tells, and kept, with a note, where nothing does. There,
        True drops the last period, and a date, the day of the download, drops it if it was not over by then.
        False keeps every period.

    Returns
    -------
    Trends
        ``X``, ``y`` and what is known about them.

    Raises
    ------
    ValueError
        In a sentence that names the file: no such file, an empty export, different frequencies or places, a term that
        is not there or is there twice, unreadable dates and numbers, a period twice, no row left by the lag.

    Examples
    --------
    >>> import io
    >>> one = "Category: All categories\n\nMonth,One Piece: (Japan)\n2016-01,20\n2016-02,25\n2016-03,22\n"
    >>> two = "Category: All categories\n\nMonth,Jump: (Japan)\n2016-01,60\n2016-02,<1\n2016-03,65\n"
    >>> trends = read_trends([io.StringIO(one), io.StringIO(two)], target="One Piece", lag=1)
    >>> trends.X.join(trends.y)
                Jump_lag1  One Piece
    date
    2016-02-01       60.0       25.0
    2016-03-01        0.0       22.0
    """
    _check_options(lag, below_one, geo)
    lag = int(lag)
    partial = _checked_partial(drop_partial)
    found = [Export.of(table) for table in tables(paths)]
    exports = [export.finished(partial) for export in found]
    frequency = _common_frequency(exports)
    place = _common_geo(exports) if geo is None else geo
    home = _homes(exports)
    chosen = _chosen(home, target, features)
    read = {term: home[term].values(term) for term in (target, *chosen)}
    series = {
        term: {t: below_one if v == BELOW_ONE else v for t, v in zip(home[term].periods, values, strict=True)}
        for term, values in read.items()
    }
    rows = _rows(series, target, frequency, lag, home)
    index = pd.DatetimeIndex(rows, name="date")
    names = [f"{term}_lag{lag}" if lag else term for term in chosen]
    columns = {
        name: [series[term][later(t, frequency, -lag)] for t in rows] for name, term in zip(names, chosen, strict=True)
    }
    X = pd.DataFrame(columns, index=index, columns=names, dtype=float)
    y = pd.Series([series[target][t] for t in rows], index=index, name=target, dtype=float)
    notes = [
        *notes_on_reading(found, None if geo is not None else place),
        *notes_on_partial(found, exports, partial),
        *notes_on_values(read, below_one),
        *notes_on_rows(exports, home[target], rows, lag),
    ]
    return Trends(X, y, place, frequency, tuple(notes))


# --- options ------------------------------------------------------------------------------------------------


def _check_options(lag: Any, below_one: Any, geo: Any) -> None:
    if not isinstance(lag, (int, np.integer)) or isinstance(lag, bool) or lag < 0:
        raise ValueError(f"lag must be a whole number of periods, 0 or more, not {lag!r}")
    if not is_number(below_one) or not (math.isnan(below_one) or 0 <= below_one <= 1):
        raise ValueError(f"below_one must be a number from 0 to 1, or NaN, not {below_one!r}")
    if geo is not None and not isinstance(geo, str):
        raise ValueError(f"geo must be the name of a place, not {geo!r}")


def _checked_partial(drop_partial: Any) -> bool | datetime | None:
    if drop_partial is None or isinstance(drop_partial, (bool, np.bool_)):
        return drop_partial if drop_partial is None else bool(drop_partial)
    try:
        if not looks_like_date(drop_partial):
            raise ValueError
        dates = read_dates([drop_partial])
        if dates.are_months:
            raise ValueError
    except ValueError:
        raise ValueError(
            "drop_partial must be True, False, None or the day of the download such as '2026-01-05', "
            f"not {drop_partial!r}"
        ) from None
    return dates.values[0]


# --- several exports as one ---------------------------------------------------------------------------------


def _common_frequency(exports: Sequence[Export]) -> Frequency:
    first = exports[0]
    for other in exports[1:]:
        if other.frequency != first.frequency:
            raise ValueError(
                f"{first.name} is {first.frequency}, but {other.name} is {other.frequency}: exports of different "
                "frequencies are not joined. Download both for the same time."
            )
    return first.frequency


def _common_geo(exports: Sequence[Export]) -> str | None:
    told = [export for export in exports if export.geo is not None]
    for other in told[1:]:
        if other.geo != told[0].geo:
            raise ValueError(
                f"{told[0].name} is for {told[0].geo!r}, but {other.name} is for {other.geo!r}: exports of different "
                f"places are not joined. If both names mean the same place, say so with geo={told[0].geo!r}."
            )
    return told[0].geo if told else None


def _homes(exports: Sequence[Export]) -> dict[str, Export]:
    home: dict[str, Export] = {}
    for export in exports:
        for term in export.cells:
            if term in home:
                raise ValueError(
                    f"{term!r} is both in {home[term].name} and in {export.name}. Each download has a scale of its "
                    "own, so one cannot continue the other: leave one of them out."
                )
            home[term] = export
    return home


def _chosen(home: dict[str, Export], target: Any, features: Any) -> list[str]:
    there = f"The terms are {', '.join(map(repr, home))}."
    if not isinstance(target, str):
        raise ValueError(f"target must be a term, not {target!r}. {there}")
    if target not in home:
        raise ValueError(f"there is no column for the target {target!r} in {listed(home.values())}. {there}")
    if features is None:
        chosen = [term for term in home if term != target]
        if not chosen:
            raise ValueError(
                f"{listed(home.values())} holds nothing beside the target {target!r}: add exports of the terms that "
                "are to explain it, or give features=[] for the target alone"
            )
        return chosen
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise ValueError(f"features must be a list of terms, not {features!r}")
    chosen = list(features)
    if not all(isinstance(term, str) for term in chosen):
        raise ValueError(f"features must be a list of terms, not {chosen!r}")
    unknown = [term for term in chosen if term not in home]
    if unknown:
        raise ValueError(f"features names {unknown}, for which {listed(home.values())} has no column. {there}")
    if target in chosen:
        raise ValueError(f"features names the target {target!r}: its own past is not a feature, leave it out")
    twice = [term for term, times in Counter(chosen).items() if times > 1]
    if twice:
        raise ValueError(f"features names {twice} more than once")
    return chosen


def _rows(
    series: dict[str, Series], target: str, frequency: Frequency, lag: int, home: dict[str, Export]
) -> list[datetime]:
    """Return the periods of the target for which every feature has a value ``lag`` periods before."""
    features = [periods for term, periods in series.items() if term != target]
    if not features:
        return sorted(series[target])
    start = max(min(periods) for periods in features)
    if lag >= count(start, max(series[target]), frequency):  # also keeps dates within the calendar
        rows = []
    else:
        known = [t for t in sorted(series[target]) if t >= later(start, frequency, lag)]
        rows = [t for t in known if all(later(t, frequency, -lag) in periods for periods in features)]
    if rows:
        return rows
    used = list({id(home[term]): home[term] for term in series}.values())
    covers = "; ".join(export.span for export in used)
    if max(len(export.periods) for export in used) <= lag:
        raise ValueError(
            f"a lag of {several(lag, frequency)} leaves no row: {covers}. Give a longer time or a smaller lag."
        )
    raise ValueError(
        f"no {UNIT[frequency]} of the target has values of every feature {several(lag, frequency)} before: {covers}. "
        "Download all terms for the same time."
    )
