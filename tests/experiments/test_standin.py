"""The SYNTHETIC stand-in has the paper's table of statistics and seasons where they belong, and says what it is."""

import numpy as np
import pandas as pd
import pytest

from experiments import standin
from experiments.trends import read_trends

# Table desc_stats of the paper: mean, SD, minimum, median, maximum
TABLE = {
    "One Piece": ("30.46", "10.27", "18.00", "28.00", "100.00"),
    "Golden Week_lag1": ("6.94", "14.28", "0.00", "1.00", "100.00"),
    "Summer vacation_lag1": ("24.50", "29.85", "4.00", "9.00", "100.00"),
    "Winter vacation_lag1": ("14.39", "20.13", "2.00", "6.00", "100.00"),
    "New Year_lag1": ("8.75", "19.40", "0.00", "1.00", "98.00"),
    "Jump_lag1": ("67.29", "14.98", "38.00", "66.00", "100.00"),
    "LINE Manga_lag1": ("66.41", "15.30", "36.00", "66.00", "100.00"),
    "Free manga_lag1": ("66.05", "16.97", "40.00", "66.00", "100.00"),
    "Recommended manga_lag1": ("59.03", "16.81", "30.00", "57.00", "100.00"),
    "Anime_lag1": ("64.37", "12.73", "46.00", "61.00", "100.00"),
    "Netflix_lag1": ("51.76", "22.85", "14.00", "59.00", "89.00"),
}


@pytest.fixture(scope="module")
def months():
    return standin.standin()


@pytest.fixture(scope="module")
def trends(months):
    return read_trends(months, target="One Piece", lag=1)


@pytest.mark.parametrize("name", TABLE)
def test_each_row_of_the_table_is_met_to_two_decimals(trends, name):
    column = trends.y if name == "One Piece" else trends.X[name]
    assert len(column) == 119
    v = column.to_numpy()
    figures = (v.mean(), v.std(ddof=1), v.min(), np.median(v), v.max())
    assert tuple(f"{figure:.2f}" for figure in figures) == TABLE[name]


def test_the_columns_are_the_papers_in_its_order(trends):
    assert [trends.y.name, *trends.X.columns] == list(TABLE)
    assert trends.y.index[0] == pd.Timestamp("2016-02-01")
    assert trends.y.index[-1] == pd.Timestamp("2025-12-01")


def test_there_are_120_months_of_whole_numbers_with_one_peak_each(months):
    assert months.index.equals(pd.date_range("2016-01-01", "2025-12-01", freq="MS"))
    assert all(dtype.kind == "i" for dtype in months.dtypes)
    assert months.min().min() >= 0
    assert ((months == 100).sum() == 1).all()
    assert months["New Year"].idxmax() == months["Netflix"].idxmax() == pd.Timestamp("2025-12-01")


@pytest.mark.parametrize(
    ("term", "season"),
    [("Golden Week", {4, 5}), ("Summer vacation", {7, 8}), ("Winter vacation", {12, 1}), ("New Year", {12, 1})],
)
def test_holidays_come_at_their_time_of_the_year(months, term, season):
    by_month = months[term].groupby(months.index.month).mean()
    assert set(by_month.nlargest(2).index) == season
    assert by_month.nlargest(2).min() > 5 * by_month.median() or term == "Winter vacation"
    for _, year in months[term].groupby(months.index.year):
        assert year.idxmax().month in season


def test_december_is_the_peak_of_winter_and_new_year(months):
    for term in ("Winter vacation", "New Year"):
        assert months[term].groupby(months.index.month).mean().idxmax() == 12


def test_the_same_seed_gives_the_same_series_and_every_seed_meets_the_table(months):
    pd.testing.assert_frame_equal(standin.standin(), months)
    wanted = [list(map(float, row)) for row in TABLE.values()]
    for seed in range(12):
        other = standin.standin(seed)
        assert standin.statistics(other).round(2).to_numpy().tolist() == wanted
        assert not other.equals(months)


def test_the_check_prints_both_tables_and_fails_on_a_difference(capsys, monkeypatch):
    assert standin.main(["--check"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("SYNTHETIC")
    assert "55 of 55 figures agree" in printed
    lines = [line for line in printed.splitlines() if line.startswith(tuple(TABLE))]
    for line, (name, row) in zip(lines, TABLE.items(), strict=True):
        assert line.removeprefix(name).replace("|", " ").split() == [figure for figure in row for _ in (1, 2)]
    off = standin.standin()
    off.loc["2018-03", "Jump"] += 1
    monkeypatch.setattr(standin, "standin", lambda seed: off)
    assert standin.main(["--check"]) == 1


def test_what_is_written_says_that_it_is_synthetic(tmp_path, capsys):
    assert standin.main(["--write", str(tmp_path / "made" / "here")]) == 0
    assert "33 files" in capsys.readouterr().out
    files = [path for path in (tmp_path / "made" / "here").rglob("*") if path.is_file()]
    assert len(files) == 34
    assert all("SYNTHETIC" in path.name for path in files)
    old = [path for path in files if path.name.endswith("multiTimeline.csv")]
    assert len(old) == 22
    assert all("SYNTHETIC" in path.read_text(encoding="utf-8").splitlines()[0] for path in old)
    with pytest.raises(SystemExit):
        standin.main([])
