"""Files: what a space takes they keep, and nothing is lost or left behind."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.files import _archive as _durable
from gbce.files._archive import clear_leftovers, whole_file
from gbce.space import space_fields, space_of
from support.saved import DATA, QUICK, RNG, explained, same, score


@pytest.fixture(scope="module")
def good():
    return explained()


# --- what a space takes, a file takes --------------------------------------------------------------------------------


LEVELS = {
    "tuples": [("a", 1), ("a", 2), ("b", None)],
    "tuples in tuples": [("a", (1, 2.5)), ("a", (1, Decimal("0.1")))],
    "intervals": pd.cut([1.0, 5.0, 9.0], [0, 3, 6, 10.5]).tolist(),
    "intervals closed on the left": pd.cut([1, 5, 9], [0, 3, 6, 10], right=False).tolist(),
    "intervals of days": pd.cut(pd.date_range("2024-01-01", periods=9), 3).unique().tolist(),
    "decimals": [Decimal("0.10"), Decimal("1e-30"), Decimal("12345678901234567890.5")],
    "bytes": [b"", b"\x00\xff", b"abc"],
    "days": [date(2024, 1, 2), date(2025, 1, 2)],
    "moments": pd.date_range("2024-01-01", periods=3, tz="Europe/Rome").tolist(),
    "spans": [timedelta(days=1), pd.Timedelta(5, "ns"), pd.Timedelta(days=-3, seconds=7)],
    "periods": pd.period_range("2024-01", periods=3, freq="M").tolist(),
    "times of day": [pd.Timestamp("2024-01-01 08:30").time(), pd.Timestamp("2024-01-01 17:00:00.25").time()],
    "numbers of numpy": [np.int8(1), np.int8(2)],
    "texts and numbers": ["1", 1, 2.5, float("inf")],
}


def leveled(levels, ordered):
    return pd.Categorical.from_codes(
        np.arange(60) % len(levels), pd.Index(levels, tupleize_cols=False), ordered=ordered
    )


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_levels_of_every_sort_are_written_and_read(levels, ordered):
    data = DATA.assign(level=leveled(levels, ordered))
    space = gbce.Space.infer(data)
    again = space_of(json.loads(json.dumps(space_fields(space))))
    assert again == space
    x = space.encode(data)
    pd.testing.assert_frame_equal(again.decode(x), space.decode(x))
    pairs = zip(again.features[-1].levels, space.features[-1].levels, strict=True)
    assert all(type(one) is type(other) or isinstance(other, (np.generic, timedelta)) for one, other in pairs)


def test_levels_of_every_sort_come_back_from_a_file(tmp_path):
    first = explained(DATA.assign(**{name: leveled(levels, False) for name, levels in LEVELS.items()}))
    same(gbce.load(first.save(tmp_path / "e.gbce")), first)


def test_objects_and_cut_columns_come_back(tmp_path):
    objects = np.empty(60, dtype=object)
    objects[:] = [[("p", 1), ("q", 2)][i % 2] for i in range(60)]
    data = DATA.assign(pair=objects, size=pd.cut(DATA["a"], 4), price=[Decimal(i % 3) / 10 for i in range(60)])
    first = explained(data)
    again = gbce.load(first.save(tmp_path / "e.gbce"))
    same(again, first)
    assert (again.counterfactuals.dtypes == data.dtypes).all()


@pytest.mark.parametrize("label", [pd.Timestamp("2024-01-01"), ("a", 1), Decimal("0.5"), b"raw", 7])
def test_column_labels_of_every_sort_come_back(tmp_path, label):
    data = pd.DataFrame(RNG.normal(size=(50, 2)))
    data.columns = pd.Index([label, "other"], dtype=object, tupleize_cols=False)
    explainer = gbce.Explainer(lambda frame: frame.to_numpy().sum(axis=1), data, sampler=QUICK)
    first = explainer.explain(data.iloc[0], gbce.AtLeast(2.0), rules=[gbce.MAP()], seed=0)
    same(gbce.load(first.save(tmp_path / "e.gbce")), first)


@pytest.mark.parametrize("label", [("a", 1), Decimal(1), b"yes", np.int64(1), "yes", True])
def test_class_labels_of_every_sort_come_back(tmp_path, label):
    model = gbce.classifier(lambda frame: 1 / (1 + np.exp(-frame["a"])), ["no", label])
    explainer = gbce.Explainer(model, DATA, sampler=QUICK)
    first = explainer.explain(DATA.iloc[0], gbce.Class(label), rules=[gbce.MAP()], seed=0)
    again = gbce.load(first.save(tmp_path / "e.gbce"))
    assert again.target == first.target
    pd.testing.assert_frame_equal(again.pointwise, first.pointwise, check_exact=True)


class Odd:
    """A value that no file knows."""


@pytest.mark.parametrize(
    "level", [Fraction(1, 3), UUID(int=5), frozenset("ab"), Odd(), 1j, (1, Odd()), np.datetime64("2024-01-01", "ns")]
)
def test_levels_that_no_file_keeps_are_refused_before_anything_is_asked(level):
    column = np.empty(60, dtype=object)
    column[:] = [[level, "other"][i % 2] for i in range(60)]
    with pytest.raises(
        ValueError, match=r"feature 'odd': the level .* of type \w+ cannot be stored in a file: use strings"
    ):
        gbce.Space.infer(DATA.assign(odd=column))
    with pytest.raises(ValueError, match="cannot be stored in a file"):
        gbce.Feature("odd", "categorical", levels=[level, "other"])
    with pytest.raises(ValueError, match=r"Class: the label .* cannot be stored in a file"):
        gbce.Class(level)
    labelled = DATA.rename(columns={"a": level})
    with pytest.raises(ValueError, match=r"the column label .* cannot be stored in a file"):
        gbce.Space.infer(labelled)


# --- nothing is lost, nothing is left behind -------------------------------------------------------------------------


def test_a_file_is_on_the_disk_before_its_name_is(good, tmp_path, monkeypatch):
    done = []
    fsync, replace, link = os.fsync, os.replace, os.link

    def synced(number):
        done.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        fsync(number)

    def renamed(one, other, **options):
        done.append("name")
        replace(one, other, **options)

    def linked(one, other, **options):
        done.append("name")
        link(one, other, **options)

    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr("pathlib.Path.replace", lambda self, other: renamed(self, other))
    good.save(tmp_path / "e.gbce")
    assert done == ["file", "name", "folder"]
    done.clear()
    explainer = gbce.Explainer(score, DATA, sampler=QUICK)
    explainer.explain_many(DATA.iloc[:1], gbce.AtLeast(4.0), rules=[], seed=0, store=tmp_path / "run", progress=False)
    assert done == ["file", "name", "folder"] * 2  # the note of the run, and the partition


WRITER = """
import runpy, sys, time
from pathlib import Path
with runpy.run_path(sys.argv[2])["whole_file"](Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def partials(folder):
    return [path for path in folder.iterdir() if path.suffix == ".part"]


def test_what_a_killed_process_left_is_cleared_and_what_a_live_one_writes_is_not(good, tmp_path):
    path = tmp_path / "row-000000.gbce"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path, _durable.__file__], stdout=subprocess.PIPE)
    try:
        assert writer.stdout.readline() == b"writing\n"
        good.save(path)  # the same file, by two at once
        assert len(partials(tmp_path)) == 1
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert len(partials(tmp_path)) == 1
        good.save(path)
        assert not partials(tmp_path)
        same(gbce.load(path), good)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


def test_a_store_that_holds_only_what_was_left_is_usable(tmp_path):
    for name in ("run.json", "part-000003.parquet"):
        (tmp_path / f".{name}.{'0' * 32}.part").write_bytes(b"half")
    explainer = gbce.Explainer(score, DATA, sampler=QUICK)
    table = explainer.explain_many(DATA.iloc[:2], gbce.AtLeast(4.0), rules=[], seed=0, store=tmp_path, progress=False)
    assert len(table.diagnostics) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "answers", "run.json"]


def test_only_what_is_ours_is_cleared(tmp_path):
    mine = tmp_path / f".row-000001.gbce.{'a' * 32}.part"
    others = [
        tmp_path / "movie.mkv.part",
        tmp_path / ".row-000001.gbce.part",
        tmp_path / f".thesis.tex.{'a' * 32}.part",
    ]
    for path in (mine, *others):
        path.write_bytes(b"")
    clear_leftovers(tmp_path, lambda name: name.startswith("row-"))
    assert not mine.exists()
    assert all(path.exists() for path in others)


def test_many_writers_and_clearers_lose_nothing(tmp_path):
    path, errors, end = tmp_path / "e.bin", [], time.monotonic() + 1.0

    def write(content):
        try:
            while time.monotonic() < end:
                with whole_file(path) as file:
                    file.write(content)
                assert path.read_bytes() in (b"1" * 5000, b"2" * 5000)
        except Exception as error:
            errors.append(error)

    def clear():
        while time.monotonic() < end:
            clear_leftovers(tmp_path, lambda name: True)

    threads = [threading.Thread(target=write, args=(content * 5000,)) for content in (b"1", b"2")]
    threads.append(threading.Thread(target=clear))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert not partials(tmp_path)
