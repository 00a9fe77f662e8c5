"""Exports of Google Trends in every form they come in, joined, lagged, and refused with a sentence."""

import io
import math
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gbce
from experiments import standin
from experiments.trends import read_trends
from experiments.trends._calendar import count, frequency_of, later
from experiments.trends._cells import BELOW_ONE, read_dates, read_number

MONTHS = [f"2020-{m:02d}" for m in range(1, 13)]
SALES = list(range(10, 22))  # the target: 10 in January, 21 in December
TEA = list(range(50, 62))
EN = {"head": "Category: All categories\n\n", "period": "Month", "geo": ": (Japan)"}
JA = {"head": "カテゴリ: すべてのカテゴリ\n\n", "period": "月", "geo": ": (日本)"}
NEVER_SEEN = {"head": "Κατ: Όλες\n\n", "period": "Μην", "geo": ": (Χ (Ψ))"}
KO = {"head": "카테고리: 모든 카테고리\n\n", "period": "월", "geo": ": (대한민국)"}


def old(columns, dates=MONTHS, style=EN):
    """A multiTimeline.csv."""
    head = ",".join([style["period"], *(f"{term}{style['geo']}" for term in columns)])
    lines = [",".join(map(str, row)) for row in zip(dates, *columns.values(), strict=True)]
    return "\n".join([style["head"] + head, *lines, ""])


def new(columns, dates=MONTHS):
    """A time_series_*.csv: quoted strings, full dates, no preamble, no last newline."""
    head = ",".join(f'"{cell}"' for cell in ["Time", *columns])
    return "\n".join(
        [head, *(f'"{d}-01",' + ",".join(map(str, v)) for d, *v in zip(dates, *columns.values(), strict=True))]
    )


def frame(columns, dates=MONTHS, index="date", partial=None):
    """What pytrends (index ``date``) or trendspy (``time [UTC]``) return."""
    table = pd.DataFrame(columns, index=pd.DatetimeIndex(dates, name=index))
    return table if partial is None else table.assign(isPartial=partial)


def read(*sources, target="sales", **options):
    sources = [io.StringIO(source) if isinstance(source, str) else source for source in sources]
    return read_trends(sources if len(sources) > 1 else sources[0], target=target, **options)


BOTH = {"sales": SALES, "tea": TEA}


def assert_lagged(trends, n=11):
    assert trends.X.columns.tolist() == ["tea_lag1"]
    assert trends.X["tea_lag1"].tolist() == TEA[:n]
    assert trends.y.tolist() == SALES[1 : n + 1]
    assert trends.y.name == "sales"
    assert trends.y.index.equals(trends.X.index)
    assert trends.y.index[0] == pd.Timestamp("2020-02-01")
    assert trends.frequency == "monthly"
    assert trends.X.dtypes.eq(float).all()
    assert trends.y.dtype == float


# --- formats ------------------------------------------------------------------------------------------------

FORMATS = {
    "English": (old(BOTH), "Japan"),
    "Japanese": (old(BOTH, style=JA), "日本"),
    "Korean": (old(BOTH, style=KO), "대한민국"),
    "in words nobody has seen": (old(BOTH, style=NEVER_SEEN), "Χ (Ψ)"),
    "new": (new(BOTH), None),
    "CRLF": (old(BOTH).replace("\n", "\r\n"), "Japan"),
    "CR": (old(BOTH).replace("\n", "\r"), "Japan"),
    "byte order mark": ("\ufeff" + old(BOTH), "Japan"),
    "byte order mark before row numbers": ("\ufeff" + frame(BOTH).reset_index().to_csv(), None),
    "an empty line after each": (old(BOTH).replace("\n", "\n\n"), "Japan"),
    "a comma in the category": (old(BOTH).replace("All categories", "Food, Drink"), "Japan"),
    "padded by a spreadsheet": (old(BOTH).replace("ies\n\n", "ies,,\n,,\n").replace("0\n", "0,,\n"), "Japan"),
    "semicolons": (old(BOTH).replace(",", ";"), "Japan"),
    "tabs": (old(BOTH).replace(",", "\t"), "Japan"),
    "newest first": ("\n".join([*old(BOTH).split("\n")[:3], *old(BOTH).split("\n")[-2:2:-1]]), "Japan"),
    "pytrends": (frame(BOTH, partial=False), None),
    "pytrends, objects": (frame(BOTH, partial=False).astype(object), None),
    "trendspy": (frame(BOTH, index="time [UTC]"), None),
    "time zone": (frame(BOTH).tz_localize("Asia/Tokyo"), None),
    "periods": (frame(BOTH).to_period("M"), None),
    "index of texts": (frame(BOTH).set_axis(MONTHS), None),
    "index of days": (frame(BOTH).set_axis([date(2020, m, 1) for m in range(1, 13)]), None),
    "dates in a column": (frame(BOTH).reset_index(), None),
    "datetime64": (frame(BOTH).set_axis(pd.Index([np.datetime64(m) for m in MONTHS], dtype=object)), None),
    "nullable": (frame(BOTH).astype("Int64"), None),
    "frame to CSV": (frame(BOTH).to_csv(), None),
    "frame to CSV, flags": (frame(BOTH, partial=False).to_csv(), None),
    "frame to CSV, row numbers": (frame(BOTH, partial=False).reset_index().to_csv(), None),
    "frame to CSV, no name": (frame(BOTH, index=None).to_csv(), None),
    "with a clock": (frame(BOTH).to_csv(date_format="%Y-%m-%d %H:%M:%S"), None),
    "with a zone": (frame(BOTH).to_csv(date_format="%Y-%m-%dT%H:%M:%S+00:00"), None),
    "day first": (frame(BOTH).to_csv(date_format="%d-%m-%Y"), None),
    "day first, dots": (frame(BOTH).to_csv(date_format="%d.%m.%Y"), None),
    "month first": (frame(BOTH).to_csv(date_format="%m/%d/%Y"), None),
    "year first, slashes": (frame(BOTH).to_csv(date_format="%Y/%m/%d"), None),
    "ends of months": (frame(BOTH, dates=pd.date_range("2020-01-31", periods=12, freq="ME")).to_csv(), None),
    "ends of months, day first": (
        frame(BOTH, dates=pd.date_range("2020-01-31", periods=12, freq="ME")).to_csv(date_format="%d/%m/%Y"), None
    ),
    "decimals": (frame(BOTH).astype(float).to_csv(), None),
}  # fmt: skip


@pytest.mark.parametrize(("source", "geo"), FORMATS.values(), ids=FORMATS)
def test_every_form_gives_the_same_table(source, geo):
    trends = read(source)
    assert_lagged(trends)
    assert trends.geo == geo


def test_what_can_hold_an_export(tmp_path, monkeypatch):
    text = old(BOTH, style=JA)
    path = tmp_path / "multiTimeline (1).csv"
    path.write_text(text, encoding="utf-8")
    odd = tmp_path / "tea [2020].csv"  # a pattern, unless there is such a file
    odd.write_text(text, encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    content = text.encode()
    sources = [path, str(path), str(odd), str(tmp_path / "multi*.csv"), "~/multi*.csv", content, bytearray(content)]
    sources += [b"\xef\xbb\xbf" + content, io.StringIO(text), io.BytesIO(content), frame(BOTH)]
    for source in sources:
        assert_lagged(read_trends(source, target="sales"))
        if not hasattr(source, "read"):
            assert_lagged(read_trends([source], target="sales"))
    assert_lagged(read_trends([io.StringIO(text)], target="sales"))
    with open(path, encoding="utf-8") as file:
        assert_lagged(read_trends(file, target="sales"))
    assert_lagged(read_trends(iter([path, str(path), str(tmp_path / "multi*.csv")]), target="sales"))  # read once


def test_hours_days_and_weeks():
    def lagged(start, freq, form):
        dates = [f"{d:{form}}" for d in pd.date_range(start, periods=12, freq=freq)]
        trends = read(old(BOTH, dates=dates, style=JA))
        assert trends.X["tea_lag1"].tolist() == TEA[:-1]
        assert trends.y.tolist() == SALES[1:]
        assert trends.y.index[0] == pd.Timestamp(dates[1])
        return trends.frequency

    assert lagged("2020-03-01", "h", "%Y-%m-%dT%H") == "hourly"
    assert lagged("2020-02-25", "D", "%Y-%m-%d") == "daily"
    assert lagged("2020-01-05", "W-SUN", "%Y-%m-%d") == "weekly"
    assert lagged("2019-11-01", "MS", "%Y-%m-%d") == "monthly"


@given(
    values=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=3, max_size=40),
    start=st.dates(date(2004, 1, 1), date(2024, 1, 1)),
    lag=st.integers(0, 2),
    form=st.sampled_from(["en", "ja", "new", "frame", "CSV", "day first"]),
)
def test_what_was_written_is_read(values, start, lag, form):
    dates = pd.date_range(start.replace(day=1), periods=len(values), freq="MS")
    columns = dict(zip(["sales", "tea"], zip(*values, strict=True), strict=True))
    months = [f"{d:%Y-%m}" for d in dates]
    source = {
        "en": lambda: old(columns, months),
        "ja": lambda: old(columns, months, JA),
        "new": lambda: new(columns, months),
        "frame": lambda: frame(columns, dates),
        "CSV": lambda: frame(columns, dates).to_csv(),
        "day first": lambda: frame(columns, dates).to_csv(date_format="%d-%m-%Y"),
    }[form]()
    trends = read(source, lag=lag)
    assert trends.y.to_dict() == dict(zip(dates[lag:], columns["sales"][lag:], strict=True))
    assert trends.X.iloc[:, 0].tolist() == list(columns["tea"][: len(values) - lag])


# --- cells --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell", ["<1", "< 1", " <1 ", "＜1", "＜１", "&lt;1", "1 未満", "1未満", "1 미만", "менше 1", "less than 1"]
)
def test_below_one_in_any_language(cell):
    assert read_number(cell) == BELOW_ONE


@pytest.mark.parametrize(
    ("cell", "value"), [("1", 1), (" 7 ", 7), ("0", 0), ("45.5", 45.5), ("1e1", 10), ("１", 1), (3, 3)]
)
def test_numbers(cell, value):
    assert read_number(cell) == value


@pytest.mark.parametrize(
    "cell", ["1O", "x1", "<10", "<0.1", "1%", "1,5", "-1", "-3", "+-1", "--", "inf", "nan", "1_0", "²"]
)
def test_neither_a_number_nor_below_one(cell):
    with pytest.raises(ValueError, match="is not a"):
        read_number(cell)


def test_below_one_is_zero_unless_told_and_counted_in_the_notes():
    text = old(BOTH).replace("2020-02,11,51", "2020-02,11,<1").replace("2020-03,12,52", "2020-03,1 未満,52")
    trends = read(text)
    assert trends.X["tea_lag1"].iloc[1] == 0.0
    assert trends.y.iloc[1] == 0.0
    assert "values below one, read as 0: 1 of sales, 1 of tea." in trends.notes
    assert read(text, below_one=0.5).y.iloc[1] == 0.5
    missing = read(text, below_one=math.nan)
    assert missing.X["tea_lag1"].isna().tolist() == [False, True] + [False] * 9
    assert "read as nan" in " ".join(missing.notes)


def test_dates_that_can_be_read_two_ways_are_taken_as_months_with_a_note():
    few = {"sales": SALES[:3], "tea": TEA[:3]}
    months = ["2020-01-10", "2020-01-11", "2020-01-12"]
    trends = read(frame(few, dates=months).to_csv(date_format="%m-%d-%Y"))  # 01-10-2020: also October to December
    assert trends.frequency == "monthly"
    assert trends.y.index[-1] == pd.Timestamp("2020-12-01")
    assert "can be read with the day or the month first; they were read day first" in trends.notes[0]
    days = read(frame(BOTH, dates=pd.date_range("2020-01-05", periods=12)).to_csv(date_format="%m-%d-%Y"))
    assert days.frequency == "daily"  # the thirteenth tells
    assert not any("two ways" in note or "can be read" in note for note in days.notes)
    years = [datetime(2019 + m // 12, m % 12 + 1, 1) for m in range(14)]
    for form in ("%d-%m-%Y", "%m-%d-%Y"):
        dates = read_dates([f"{d:{form}}" for d in years])  # the turn of the year tells
        assert dates.values == years
        assert dates.note is None


@given(st.datetimes(datetime(2004, 1, 1), datetime(2030, 1, 1)), st.integers(-100, 100))
def test_the_calendar_counts_as_it_steps(start, periods):
    for frequency in ("hourly", "daily", "weekly", "monthly"):
        first = start.replace(day=1)
        last = later(first, frequency, periods)
        assert count(first, last, frequency) == periods + 1
        assert later(last, frequency, -periods) == first
        if periods > 1:
            assert frequency_of(later(first, frequency, i) for i in range(periods + 1)) == frequency


# --- rules of the join --------------------------------------------------------------------------------------


def test_lags_and_the_names_they_give():
    assert read(old(BOTH), lag=0).X["tea"].tolist() == TEA
    assert read(old(BOTH), lag=0).y.tolist() == SALES
    third = read(old(BOTH), lag=np.int64(3))
    weeks = pd.date_range("2020-01-05", periods=12, freq="W")
    assert read(frame(BOTH, dates=weeks), lag=np.int64(2)).y.index[0] == weeks[2]
    assert third.X["tea_lag3"].tolist() == TEA[:-3]
    assert third.y.tolist() == SALES[3:]
    assert third.y.index[0] == pd.Timestamp("2020-04-01")


def test_features_are_matched_by_date_not_by_position():
    text = old(BOTH).replace("2020-05,14,54\n", "")
    trends = read(text)
    assert trends.y.index.month.tolist() == [2, 3, 4, 7, 8, 9, 10, 11, 12]  # neither May nor June
    assert (trends.y - 10 == trends.y.index.month - 1).all()
    assert (trends.X["tea_lag1"] - 50 == trends.X.index.month - 2).all()
    assert any("lacks 1 month between its first and its last" in note for note in trends.notes)


def test_several_exports_are_joined_on_the_months_they_share():
    sales = old({"sales": SALES})
    early = old({"tea": [1, 2, 3], "milk": [4, 5, 6]}, dates=["2019-12", "2020-01", "2020-02"])
    trends = read(sales, early)
    assert trends.X.to_dict("list") == {"tea_lag1": [1, 2, 3], "milk_lag1": [4, 5, 6]}
    assert trends.y.tolist() == SALES[:3]
    assert any("have 3 months in common, 2020-01 to 2020-03; 8 more" in note for note in trends.notes)
    months_apart = read(sales, old({"tea": [1, 2]}, dates=["2019-01", "2019-02"]), lag=12)
    assert months_apart.y.tolist() == SALES[:2]


def test_features_are_chosen_and_ordered_and_others_are_not_read():
    text = old({"milk": ["many"] * 12, "sales": SALES, "tea": TEA, "rice": SALES})
    trends = read(text, features=["rice", "tea"])
    assert trends.X.columns.tolist() == ["rice_lag1", "tea_lag1"]
    alone = read(text, features=[])
    assert alone.X.shape == (12, 0)
    assert alone.y.tolist() == SALES


def test_terms_keep_what_is_theirs():
    heads = ['"tea, green: (Japan)"', "re: zero: (Japan)", "LINEマンガ:(Japan)", "/m/0gg8z", "50%: ok"]
    text = "\n".join(["Month,sales: (Japan)," + ",".join(heads), *(f"{m},1,2,3,4,5,6" for m in MONTHS)])
    trends = read(text, lag=0)
    assert trends.X.columns.tolist() == ["tea, green", "re: zero", "LINEマンガ", "/m/0gg8z", "50%: ok"]
    assert trends.geo == "Japan"


def test_places_may_be_silent_or_given():
    trends = read(old({"sales": SALES}), frame({"tea": TEA}))
    assert trends.geo == "Japan"
    assert "taken to be for Japan, though it does not say so: frame 2." in trends.notes
    assert read(old({"sales": SALES}), old({"tea": TEA}, style=JA), geo="JP").geo == "JP"
    assert read(frame(BOTH)).geo is None


def test_the_name_of_a_file_tells_place_and_end(tmp_path):
    def named(geo, end, **options):
        path = tmp_path / f"time_series_{geo}_20191231-1500_{end} (1).csv"
        path.write_text(new(BOTH), encoding="utf-8")
        return read_trends(path, target="sales", **options)

    for end in ("20210105-0000", "20260401-2321"):
        over = named("US-CA", end)
        assert over.geo == "US-CA"
        assert_lagged(over)
        assert over.notes == ()
    for end in ("20201220-1000", "20201230-2321"):
        cut = named("JP", end)
        assert_lagged(cut, n=10)
        assert [note for note in cut.notes if note.startswith("not over at the download, and dropped: 2020-12 in ")]
        assert_lagged(named("JP", end, drop_partial=False))
    for end in ("20201231-1500", "20210101-0900", "20209999-0000"):  # the zone decides, or the name is no date
        unsure = named("JP", end)
        assert_lagged(unsure)
        assert [note for note in unsure.notes if note.startswith("nothing says whether the last month was over")]


@pytest.mark.parametrize("flag", [True, "True", "true", 1, "1"])
def test_flagged_periods_are_dropped_unless_they_are_kept(flag):
    flags = [False] * 11 + [flag]
    for source in (frame(BOTH, partial=flags), frame(BOTH, partial=flags).to_csv()):
        trends = read(source)
        assert_lagged(trends, n=10)
        assert any("dropped: 2020-12 in" in note for note in trends.notes)
        again = read(io.StringIO(source) if isinstance(source, str) else source, drop_partial=False)
        assert_lagged(again)
        assert_lagged(read(source, drop_partial=True), n=10)  # the flag tells: not one more


def test_exports_that_say_nothing_are_kept_with_a_note_or_cut_as_told():
    assert "nothing says whether the last month was over" in read(old(BOTH)).notes[0]
    assert not read(old(BOTH), drop_partial=False).notes
    assert_lagged(read(old(BOTH), drop_partial=True), n=10)
    for day in ("2020-12-31", date(2020, 12, 31), datetime(2020, 12, 31, 23), pd.Timestamp("2020-12-01"), "31.12.2020"):
        assert_lagged(read(old(BOTH), drop_partial=day), n=10)
    for day in ("2021-01-01", date(2021, 1, 1), np.datetime64("2022-01-01")):
        assert_lagged(read(old(BOTH), drop_partial=day))
    flagged = frame(BOTH, partial=[False] * 12)
    assert_lagged(read(flagged, drop_partial=True))  # it says that all were over
    assert_lagged(read(frame(BOTH, partial=pd.array([False] * 11 + [pd.NA], dtype="boolean"))))


def test_scales_of_their_own_are_noted_not_warned_of():
    separate = read(old({"sales": [100, *SALES[1:]]}), old({"tea": [*TEA[:-1], 100]}), drop_partial=False)
    assert separate.notes[0].startswith("each on a scale of its own, with a peak of 100: sales, tea.")
    assert read(old({"sales": [100, *SALES[1:]], "tea": TEA}), drop_partial=False).notes == ()


def test_the_table_goes_straight_into_a_space():
    trends = read(old(BOTH))
    assert gbce.Space.infer(trends.X).names == ("tea_lag1",)  # floats: no warning
    with pytest.raises(AttributeError):
        trends.geo = "elsewhere"


@pytest.mark.parametrize("form", ["en", "ja", "new"])
def test_the_stand_in_survives_each_form_of_export(form, tmp_path):
    months = standin.standin()
    files = standin.write_exports(tmp_path, months)[form]
    assert len(files) == 11
    assert all("SYNTHETIC" in path.name for path in files)
    trends = read_trends(str(tmp_path / form / "*.csv"), target="One Piece", features=standin.FEATURES)
    assert trends.X.shape == (119, 10)
    assert (trends.X.to_numpy() == months[list(standin.FEATURES)].to_numpy()[:-1]).all()
    assert (trends.y == months["One Piece"].iloc[1:]).all()
    assert trends.geo == {"en": "Japan", "ja": "日本", "new": "JP"}[form]
    assert trends.frequency == "monthly"
    assert any("each on a scale of its own" in note for note in trends.notes)
    assert any("nothing says" in note for note in trends.notes) == (form != "new")
    assert any("values below one" in note for note in trends.notes) == (form != "new")


# --- bad input ----------------------------------------------------------------------------------------------

TWICE = old(BOTH).replace("2020-04", "2020-03")
WEEKLY = old({"milk": TEA}, dates=[f"{d:%Y-%m-%d}" for d in pd.date_range("2020-01-05", periods=12, freq="W")])
BAD = {
    "no text": ([""], {}, r"buffer 1 is empty, or has been read to its end before"),
    "no bytes": ([b""], {}, r"bytes 1 is empty.*longer time or a wider region"),
    "only a category": (["Category: All categories\n\n\n"], {}, r"buffer 1 is empty"),
    "a heading and no rows": (["Category: All categories\n\nMonth,sales: (Japan)\n"], {}, r"buffer 1 is empty"),
    "one of two empty": ([old(BOTH), "\n"], {}, r"buffer 2 is empty.*leave the file out"),
    "an empty frame": ([frame(BOTH).iloc[:0]], {}, r"frame 1 is empty"),
    "a frame of dates": ([frame(BOTH)[[]]], {}, r"frame 1 is empty"),
    "not an export": (["<!DOCTYPE html>\n<p>Too many requests</p>\n"], {}, r"buffer 1 is empty: it has no heading"),
    "two frequencies": ([old(BOTH), WEEKLY], {}, r"buffer 1 is monthly, but buffer 2 is weekly.*Download both"),
    "strange frequency": ([old(BOTH, [f"{y}-06-01" for y in range(2001, 2013)])], {}, r"reports neither hourly"),
    "one date": ([old({"sales": [1], "tea": [2]}, ["2020-01-01"])], {}, r"buffer 1 has a single date"),
    "two places": ([old(BOTH), old({"milk": TEA}, style=JA)], {}, r"1 is for 'Japan', but .*'日本'.*geo='Japan'"),
    "places compared": ([old(BOTH).replace("tea: (Japan)", "sales: (Korea)")], {}, r"compares places \(Japan, Korea\)"),
    "no target": ([old({"tea": TEA, "milk": TEA})], {}, r"target 'sales' in buffer 1. The terms are 'tea', 'milk'"),
    "target with a place": ([old(BOTH)], {"target": "sales: (Japan)"}, r"The terms are 'sales', 'tea'"),
    "target is no text": ([old(BOTH)], {"target": ["sales"]}, r"target must be a term"),
    "nothing beside it": ([old({"sales": SALES})], {}, r"buffer 1 holds nothing beside the target 'sales': add"),
    "no such feature": ([old(BOTH)], {"features": ["milk"]}, r"\['milk'\], for which buffer 1 has no column"),
    "a feature as text": ([old(BOTH)], {"features": "tea"}, r"features must be a list of terms, not 'tea'"),
    "a feature as number": ([old(BOTH)], {"features": [["tea"]]}, r"features must be a list of terms"),
    "features a number": ([old(BOTH)], {"features": 3}, r"features must be a list of terms, not 3"),
    "the target as feature": ([old(BOTH)], {"features": ["tea", "sales"]}, r"its own past is not a feature"),
    "a feature twice": ([old(BOTH)], {"features": ["tea", "tea"]}, r"\['tea'\] more than once"),
    "a term twice": ([old(BOTH), old({"tea": TEA})], {}, r"'tea' is both in buffer 1 and in buffer 2.*a scale"),
    "a column twice": ([old(BOTH).replace("tea:", "sales:")], {}, r"buffer 1 has two columns for 'sales'"),
    "unreadable number": ([old(BOTH).replace(",53", ",5E")], {}, r"1, line 7: the value '5E' of 'tea' is not a num"),
    "no number": ([old(BOTH).replace(",53", ",")], {}, r"buffer 1, line 7: the value '' of 'tea' is empty"),
    "negative": ([old(BOTH).replace(",53", ",-3")], {}, r"line 7: the value '-3' .* from 0 up"),
    "missing in a frame": ([frame(BOTH).astype(float).replace(53.0, np.nan)], {}, r"row 2020-04-01.*is missing"),
    "missing, nullable": ([frame(BOTH).astype("Int64").replace(53, pd.NA)], {}, r"row 2020-04-01.*is missing"),
    "truth in a frame": ([frame({"sales": SALES, "tea": [True] * 12})], {}, r"the value True of 'tea' is not a number"),
    "infinite": ([frame(BOTH).astype(float).replace(53.0, np.inf)], {}, r"the value inf of 'tea'"),
    "unreadable date": ([old(BOTH).replace("2020-04", "Apr-20")], {}, r"line 7: 'Apr-20' is not a date.*spreadsheet"),
    "no date at all": ([old(BOTH, [f"{m:02d}.20" for m in range(1, 13)])], {}, r"line 4: '01.20' is not a date"),
    "no such day": ([old(BOTH).replace("2020-04", "2020-14")], {}, r"line 7: '2020-14' is no date of the calendar"),
    "neither order": (["date,sales,tea\n13-01-2020,1,2\n01-13-2020,3,4\n"], {}, r"line 3: '01-13-2020' is no date"),
    "order changes": (["date,sales,tea\n13-01-2020,1,2\n2020-01-14,3,4\n"], {}, r"not a date written like '13-"),
    "a frame without a date": ([frame(BOTH).reset_index(drop=True)], {}, r"frame 1, row 0: 10 is not a date"),
    "no date in a frame": ([frame(BOTH).set_axis(pd.DatetimeIndex([*MONTHS[:-1], pd.NaT]))], {}, r"frame 1, row NaT"),
    "months twice": ([TWICE], {}, r"buffer 1 has the month 2020-03 twice, in lines 6 and 7: leave one of them out"),
    "months twice by days": ([new(BOTH).replace("2020-04-01", "2020-03-15")], {}, r"has the month 2020-03 twice"),
    "months twice in a frame": ([frame(BOTH, [*MONTHS[:-1], "2020-11"])], {}, r"frame 1 has the month 2020-11 twice"),
    "short line": ([old(BOTH).replace(",53", "")], {}, r"buffer 1, line 7 has 2 cells where its heading has 3"),
    "long line": ([old(BOTH).replace(",53", ",53,9")], {}, r"buffer 1, line 7 has 4 cells where its heading has 3"),
    "bad flag": (["date,sales,tea,isPartial\n2020-01-01,1,2,maybe\n2020-02-01,1,2,False\n"], {}, r"line 2: 'maybe'"),
    "only dates": (["date,isPartial\n2020-01-01,False\n2020-02-01,False\n"], {}, r"buffer 1 has dates but no column"),
    "all partial": ([frame(BOTH, partial=True)], {}, r"frame 1 has no period that was over"),
    "levels": ([pd.concat({"a": frame(BOTH)}, axis=1)], {}, r"frame 1 has 2 levels of column names"),
    "fewer rows than the lag": ([old(BOTH)], {"lag": 12}, r"a lag of 12 months leaves no row: buffer 1 covers"),
    "a lag beyond time": ([old(BOTH)], {"lag": 10**12}, r"leaves no row"),
    "a lag beyond time, in weeks": ([WEEKLY], {"target": "milk", "lag": 10**12, "features": []}, None),
    "nothing in common": (
        [old({"sales": SALES}), old({"tea": [1, 2]}, dates=["2010-01", "2010-02"])], {},
        r"no month of the target has .*1 month before: buffer 1 covers 2020-01 to 2020-12; buffer 2 covers 2010-",
    ),
    "features to come": (
        [old({"sales": SALES}), old({"tea": [1, 2]}, dates=["2030-01", "2030-02"])], {}, r"no month of the target"
    ),
    "a lag below zero": ([old(BOTH)], {"lag": -1}, r"lag must be a whole number of periods, 0 or more, not -1"),
    "half a lag": ([old(BOTH)], {"lag": 1.5}, r"lag must be a whole number"),
    "a lag of truth": ([old(BOTH)], {"lag": True}, r"lag must be a whole number"),
    "below one above it": ([old(BOTH)], {"below_one": 2}, r"below_one must be a number from 0 to 1, or NaN, not 2"),
    "below one in words": ([old(BOTH)], {"below_one": "0"}, r"below_one must be"),
    "a place in numbers": ([old(BOTH)], {"geo": 81}, r"geo must be the name of a place, not 81"),
    "a month of download": ([old(BOTH)], {"drop_partial": "2021-01"}, r"drop_partial must be True, False, None or"),
    "a day that is none": ([old(BOTH)], {"drop_partial": "2021-02-30"}, r"drop_partial must be"),
    "a word for a day": ([old(BOTH)], {"drop_partial": "yes"}, r"drop_partial must be .* not 'yes'"),
    "a number for a day": ([old(BOTH)], {"drop_partial": 3}, r"drop_partial must be"),
    "no day": ([old(BOTH)], {"drop_partial": pd.NaT}, r"drop_partial must be"),
    "a mapping": ([{"sales": SALES}], {}, r"cannot read exports from a dict: give a path, a pattern"),
    "a number": ([3], {}, r"cannot read exports from a int"),
    "a mapping in a list": ([old(BOTH), {"milk": TEA}], {}, r"cannot read an export from a dict: give a path"),
    "another code": ([old(BOTH, style=JA).encode("cp932")], {}, r"bytes 1 is not UTF-8 text.*CSV UTF-8"),
    "a quote left open": ([old(BOTH).replace(",53", ',"53')], {}, r"line 7: the value '53\\n2020-05.{,40}\.\.\.' of"),
}  # fmt: skip


@pytest.mark.parametrize(("sources", "options", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_a_sentence(sources, options, message):
    if message is None:  # looks odd, but is fine
        assert len(read(*sources, **options).y) == 12
        return
    with pytest.raises(ValueError, match=message):
        read(*sources, **options)


def test_bad_paths_are_refused_with_a_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for paths, message in [
        ("folder/*.csv", r"no files match folder/\*\.csv: check the pattern"),
        ("absent.csv", r"there is no file absent\.csv: check the path"),
        (Path("folder"), r"folder is a folder: give a pattern of the files in it, such as folder/\*\.csv"),
        ([], r"the list is empty: give a path"),
        (old(BOTH), r"'Category: All categories'\.\.\. is the text of an export, not a path: give io\.StringIO"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_trends(paths, target="sales")


def test_errors_name_the_file_at_fault(tmp_path):
    good, bad = tmp_path / "sales.csv", tmp_path / "tea.csv"
    good.write_text(old({"sales": SALES}), encoding="utf-8")
    bad.write_text(old({"tea": TEA}).replace(",53", ",many"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"tea\.csv, line 7: the value 'many' of 'tea' is not a number"):
        read_trends(str(tmp_path / "*.csv"), target="sales")
