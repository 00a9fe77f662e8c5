"""A SYNTHETIC stand-in for the Google Trends data of the paper, which is not public.

Eleven invented monthly series, January 2016 to December 2025. After the lag of one month their 119 rows have the
mean, SD, minimum, median and maximum of the paper's table ``desc_stats``, to its two decimals. The holidays come at
their time of the year; trends, events, the relations between terms and the link to the target are made up. Results
on it say nothing about One Piece, and need not resemble the paper's.

How a series is made: a curve (season, trend, events, noise) ranks the months; whole numbers that meet the table are
found without looking at the calendar; the lowest number goes to the lowest month, and so on up.

``python -m experiments.standin --check`` prints the table beside the paper's, ``--write FOLDER`` writes export files.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array

__all__ = ["FEATURES", "PAPER", "TARGET", "Statistics", "standin", "statistics", "write_exports"]

TARGET = "One Piece"
SEED = 2016
LABEL = "SYNTHETIC"


class Statistics(NamedTuple):
    """One row of the paper's table of descriptive statistics."""

    mean: float
    sd: float
    low: int
    median: int
    high: int


PAPER: dict[str, Statistics] = {
    "One Piece": Statistics(30.46, 10.27, 18, 28, 100),
    "Golden Week": Statistics(6.94, 14.28, 0, 1, 100),
    "Summer vacation": Statistics(24.50, 29.85, 4, 9, 100),
    "Winter vacation": Statistics(14.39, 20.13, 2, 6, 100),
    "New Year": Statistics(8.75, 19.40, 0, 1, 98),
    "Jump": Statistics(67.29, 14.98, 38, 66, 100),
    "LINE Manga": Statistics(66.41, 15.30, 36, 66, 100),
    "Free manga": Statistics(66.05, 16.97, 40, 66, 100),
    "Recommended manga": Statistics(59.03, 16.81, 30, 57, 100),
    "Anime": Statistics(64.37, 12.73, 46, 61, 100),
    "Netflix": Statistics(51.76, 22.85, 14, 59, 89),
}
FEATURES = tuple(term for term in PAPER if term != TARGET)

_N = 120
_MONTH = np.arange(_N) % 12  # 0 is January
_YEAR = 2016 + np.arange(_N) / 12.0

# --- curves -------------------------------------------------------------------------------------------------

# Interest by month of the year, January first. Only the order of the months and their rough distances matter.
_HOLIDAYS: dict[str, tuple[float, ...]] = {
    "Golden Week": (1.0, 1.9, 11.0, 42.0, 39.0, 1.7, 1.3, 1.2, 0.9, 0.8, 0.9, 1.1),
    "Summer vacation": (5.0, 5.4, 7.5, 8.8, 13.0, 33.0, 88.0, 85.0, 18.0, 6.2, 5.6, 6.0),
    "Winter vacation": (27.0, 4.6, 3.8, 4.1, 4.9, 6.1, 8.6, 7.3, 5.5, 8.0, 22.0, 78.0),
    "New Year": (26.0, 1.3, 0.8, 0.7, 0.7, 0.6, 0.8, 0.9, 1.0, 2.3, 9.0, 70.0),
}
_HOLIDAY_EVENTS: dict[str, dict[tuple[int, int], float]] = {
    "Golden Week": {(2019, 4): 2.6, (2019, 5): 1.5, (2020, 4): 0.6, (2020, 5): 0.6},  # ten days in 2019; 2020
    "Summer vacation": {(2020, 7): 0.8, (2020, 8): 0.9},  # cut short
    "Winter vacation": {},
    "New Year": {},
}


class _Slow(NamedTuple):
    """A term without a holiday: a trend through knots, a pull by the time of the year, and noise that lingers."""

    years: tuple[float, ...]
    levels: tuple[float, ...]
    season: tuple[float, ...]
    noise: float


_AT_LEISURE = (1.0, -0.5, 0.8, -0.3, 0.6, -1.2, 0.4, 1.3, -0.5, -1.2, -0.7, 0.3)
_NEW_SEASON = (1.3, -0.4, -0.5, 1.4, -0.6, -1.1, 1.0, 0.1, -1.0, 1.1, -0.7, -0.6)  # new series start each quarter
_SLOW: dict[str, _Slow] = {
    "Jump": _Slow((2016, 2018, 2020.4, 2022.6, 2026), (74, 62, 74, 72, 58), _AT_LEISURE, 9.0),
    "LINE Manga": _Slow((2016, 2019, 2020.5, 2023, 2026), (45, 72, 84, 66, 58), _AT_LEISURE, 7.0),
    "Free manga": _Slow((2016, 2018, 2020.4, 2022, 2026), (68, 78, 90, 62, 46), _AT_LEISURE, 7.0),
    "Recommended manga": _Slow((2016, 2018, 2020.7, 2022, 2026), (38, 50, 82, 64, 52), _AT_LEISURE, 7.0),
    "Anime": _Slow((2016, 2019, 2020.7, 2022, 2026), (55, 58, 74, 66, 60), _NEW_SEASON, 5.0),
    "Netflix": _Slow((2016, 2018, 2019, 2020.4, 2026), (15, 22, 45, 72, 70), _AT_LEISURE, 5.0),
}
_PULL = {"Jump": 4.0, "Anime": 6.0}  # strength of the season, 3 where nothing is said
_PERSISTENCE = 0.7

# Films in July 2016 and August 2019 and 2022, a series with actors in September 2023: added to the target.
_RELEASES = {
    (2016, 7): 5.0, (2016, 8): 6.0, (2019, 8): 9.0, (2022, 8): 55.0, (2022, 9): 25.0, (2022, 10): 9.0, (2023, 9): 14.0,
}  # fmt: skip


def _at(year: int, month: int) -> int:
    return 12 * (year - 2016) + month - 1


def _holiday(term: str, rng: np.random.Generator) -> Array:
    by_year = np.exp(0.08 * rng.standard_normal(_N // 12))
    curve = np.array(_HOLIDAYS[term])[_MONTH] * np.repeat(by_year, 12) * np.exp(0.14 * rng.standard_normal(_N))
    for when, factor in _HOLIDAY_EVENTS[term].items():
        curve[_at(*when)] *= factor
    return curve


def _slow(term: str, rng: np.random.Generator) -> Array:
    shape = _SLOW[term]
    shocks = rng.standard_normal(_N)
    noise = shocks.copy()
    for t in range(1, _N):
        noise[t] = _PERSISTENCE * noise[t - 1] + np.sqrt(1.0 - _PERSISTENCE**2) * shocks[t]
    season = np.array(shape.season)[_MONTH]
    return np.interp(_YEAR, shape.years, shape.levels) + _PULL.get(term, 3.0) * season + shape.noise * noise


def _response(x: Mapping[str, Array], rng: np.random.Generator) -> Array:
    """Return the curve of the target from the terms of the month before: steps that level off, and a product."""

    def step(term: str, middle: float, width: float) -> Array:
        return 1.0 / (1.0 + np.exp(-(x[term] - middle) / width))

    curve = 12.0 * step("Jump", 70, 6) + 6.0 * step("Free manga", 75, 6) + 3.0 * step("Recommended manga", 62, 6)
    curve += 5.0 * step("Summer vacation", 50, 10) * (0.5 + step("Jump", 70, 6)) + 2.0 * step("Anime", 68, 5)
    curve += 1.8 * rng.standard_normal(len(curve))
    for when, size in _RELEASES.items():
        curve[_at(*when) - 1] += size  # the first entry is February 2016
    return curve


# --- whole numbers that meet a row of the table -------------------------------------------------------------


def _values(curve: Array, wanted: Statistics) -> Array:
    """Return whole numbers in the order of ``curve`` that have the statistics wanted."""
    order = np.argsort(curve)
    values = np.empty(len(curve))
    values[order] = _adjusted(_bent(curve[order], wanted), wanted)
    return values


def _bent(ascending: Array, wanted: Statistics) -> Array:
    """Bend a curve through minimum, median and maximum so that mean and SD come as near as two bends allow.

    Each half is scaled to [0, 1] and bent by u -> u / (u + k (1 - u)), which keeps order and ends.
    """
    middle = len(ascending) // 2
    low, median, high = ascending[0], ascending[middle], ascending[-1]
    below = (ascending[:middle] - low) / (median - low)
    above = (ascending[middle:] - median) / (high - median)
    k = np.geomspace(1e-2, 1e2, 161)[:, None]
    lower = wanted.low + (wanted.median - wanted.low) * below / (below + k * (1.0 - below))
    upper = wanted.median + (wanted.high - wanted.median) * above / (above + k * (1.0 - above))
    n = len(ascending)
    mean = (lower.sum(axis=1)[:, None] + upper.sum(axis=1)) / n
    square = ((lower**2).sum(axis=1)[:, None] + (upper**2).sum(axis=1)) / n
    sd = np.sqrt((square - mean**2) * n / (n - 1))
    i, j = np.unravel_index(np.argmin(np.abs(mean - wanted.mean) + np.abs(sd - wanted.sd)), mean.shape)
    return np.concatenate([lower[i], upper[j]])


def _adjusted(ideal: Array, wanted: Statistics) -> Array:
    """Round ascending numbers, then move single ones by one until sum and sum of squares give mean and SD."""
    n, middle = len(ideal), len(ideal) // 2
    floor = np.repeat([wanted.low, wanted.median], [middle, n - middle])
    ceiling = np.repeat([wanted.median, wanted.high - 1], [middle + 1, n - middle - 1])  # one peak only
    floor[[0, middle, -1]] = ceiling[[0, middle, -1]] = wanted.low, wanted.median, wanted.high
    v = np.clip(np.rint(ideal).astype(int), floor, ceiling)
    total = round(n * wanted.mean)
    squares = (n - 1) * wanted.sd**2 + total**2 / n
    slack = 2 * (n - 1) * wanted.sd * 0.004  # an SD within 0.004 rounds to the one wanted
    while v.sum() != total:
        step = np.sign(total - v.sum())
        free = (v + step >= floor) & (v + step <= ceiling)
        v[np.argmin(np.where(free, np.abs(v + step - ideal), np.inf))] += step
        v.sort()
    while abs(missing := squares - (v**2).sum()) > slack:
        gain = 2 * (v[:, None] - v[None, :]) + 2  # one up, another down by one
        free = (v < ceiling)[:, None] & (v > floor)[None, :] & ~np.eye(n, dtype=bool)
        after = np.where(free, np.abs(missing - gain), np.abs(missing))
        up, down = np.unravel_index(np.argmin(after), after.shape)
        if after[up, down] >= abs(missing):
            raise RuntimeError(f"no whole numbers with {wanted} were found near the curve")
        v[up] += 1
        v[down] -= 1
        v.sort()
    return v


# --- the series, their table, their files -------------------------------------------------------------------


def standin(seed: int = SEED) -> pd.DataFrame:
    """Return the 120 months of the SYNTHETIC stand-in.

    Parameters
    ----------
    seed : int
        Of the curves. Every seed meets the table.

    Returns
    -------
    DataFrame of shape (120, 11)
        Whole numbers from 0 to 100, the target first; the index has the first day of each month. The first month of
        the target and the last of the other terms are no part of the paper's 119 rows.

    Examples
    --------
    >>> from experiments.trends import read_trends
    >>> trends = read_trends(standin(), target="One Piece", lag=1)
    >>> trends.X.shape, round(float(trends.y.mean()), 2)
    ((119, 10), 30.46)
    """
    rng = np.random.default_rng(seed)
    series: dict[str, Array] = {}
    for term in FEATURES:
        curve = _holiday(term, rng) if term in _HOLIDAYS else _slow(term, rng)
        known = _values(curve[:-1], PAPER[term])
        last = 100.0  # the peak of a term whose lagged column has none
        if PAPER[term].high == 100:
            last = min(99.0, np.rint(np.interp(curve[-1], np.sort(curve[:-1]), np.sort(known))))
        series[term] = np.append(known, last)
    y = _values(_response({term: values[:-1] for term, values in series.items()}, rng), PAPER[TARGET])
    first = np.rint(y[11::12].mean())  # like the other Januaries
    table = {TARGET: np.append(first, y), **series}
    return pd.DataFrame(table, index=pd.date_range("2016-01-01", periods=_N, freq="MS", name="date")).astype(int)


def statistics(months: pd.DataFrame) -> pd.DataFrame:
    """Return mean, SD (of a sample), minimum, median and maximum of the 119 rows that a lag of one month leaves.

    Parameters
    ----------
    months : DataFrame of shape (120, 11)
        As :func:`standin` returns them.

    Returns
    -------
    DataFrame of shape (11, 5)
        Rows and columns as in the paper's table.
    """
    table = {}
    for term in PAPER:
        name, rows = (term, months[term].iloc[1:]) if term == TARGET else (f"{term}_lag1", months[term].iloc[:-1])
        table[name] = (rows.mean(), rows.std(ddof=1), rows.min(), rows.median(), rows.max())
    return pd.DataFrame.from_dict(table, orient="index", columns=["Mean", "SD", "Min", "Median", "Max"]).astype(float)


def write_exports(folder: str | Path, months: pd.DataFrame | None = None) -> dict[str, list[Path]]:
    """Write the stand-in in the three forms a download can have, one file per term, every file called SYNTHETIC.

    Parameters
    ----------
    folder : str or path
        Where to; made if need be. Each form gets a folder of its own in it.
    months : DataFrame, optional
        What to write; :func:`standin` when left out.

    Returns
    -------
    dict of str to list of Path
        The files of "en" and "ja", ``multiTimeline.csv`` with English and Japanese headings, and of "new",
        ``time_series_*.csv``. Terms keep their English names in all of them.
    """
    months = standin() if months is None else months
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    note = f"{LABEL}: invented numbers in the form of Google Trends exports, for trying programs out. Not data.\n"
    (folder / f"{LABEL}.txt").write_text(note, encoding="utf-8")
    written: dict[str, list[Path]] = {"en": [], "ja": [], "new": []}
    for term in months:
        name = f"{LABEL}_{str(term).replace(' ', '_')}"
        dates = [f"{date:%Y-%m}" for date in months.index]
        values = months[term].tolist()
        texts = {
            ("en", f"{name}_multiTimeline.csv"): "\n".join([
                f"Category: All categories ({LABEL})", "", f"Month,{term}: (Japan)",
                *(f"{date},{value or '<1'}" for date, value in zip(dates, values, strict=True)), "",
            ]),
            ("ja", f"{name}_multiTimeline.csv"): "\n".join([
                f"カテゴリ: すべてのカテゴリ ({LABEL})", "", f"月,{term}: (日本)",
                *(f"{date},{value or '1 未満'}" for date, value in zip(dates, values, strict=True)), "",
            ]),
            ("new", f"{name}_time_series_JP_20151231-1500_20260115-0000.csv"): "\n".join([
                f'"Time","{term}"', *(f'"{date}-01",{value}' for date, value in zip(dates, values, strict=True)),
            ]),
        }  # fmt: skip
        for (form, file), text in texts.items():
            path = folder / form / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            written[form].append(path)
    return written


def main(arguments: list[str] | None = None) -> int:
    """Check the stand-in against the paper's table, or write it; return 1 when a figure differs."""
    parser = argparse.ArgumentParser(prog="python -m experiments.standin", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="print the table of statistics beside the paper's")
    parser.add_argument("--write", metavar="FOLDER", help="write the series there as export files")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the curves, {SEED} unless given")
    options = parser.parse_args(arguments)
    if not (options.check or options.write):
        parser.error("give --check, --write FOLDER or both")
    months = standin(options.seed)
    if options.write:
        files = write_exports(options.write, months)
        print(f"{LABEL}: {sum(map(len, files.values()))} files in {options.write}")
    return _check(months) if options.check else 0


def _check(months: pd.DataFrame) -> int:
    table = statistics(months).round(2)
    paper = pd.DataFrame(list(PAPER.values()), index=table.index, columns=table.columns)
    print(f"{LABEL} stand-in | paper, the 119 rows after a lag of one month")
    print(f"{'':24}" + "".join(f"{column:^17}" for column in table.columns))
    for name in table.index:
        pairs = zip(table.loc[name], paper.loc[name], strict=True)
        print(f"{name:24}" + "".join(f"{ours:7.2f} |{theirs:7.2f} " for ours, theirs in pairs))
    differ = int((table != paper).to_numpy().sum())
    print(f"{table.size - differ} of {table.size} figures agree to two decimals")
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())
