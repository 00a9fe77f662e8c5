"""Saved results: the same to the last bit when loaded, whole or not at all, and a file cannot run code."""

import contextlib
import dataclasses
import io
import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.policy import actions, allocate, fairness, load, review
from support.policies import approve, lending, lending_rows, simulated_answers

LABELS = {
    "numbers": lambda n: pd.RangeIndex(n, name="row"),
    "texts": lambda n: pd.Index([f"row <{i}> é" for i in range(n)], name="row"),
    "days": lambda n: pd.DatetimeIndex(list(pd.date_range("2026-01-01", periods=n)), name="row"),
    "both": lambda n: pd.Index([i if i % 2 else f"r{i}" for i in range(n)], name="row", dtype=object),
}


@pytest.fixture(scope="module", params=list(LABELS))
def results(request):
    explainer = lending()
    rows = simulated_answers(explainer, lending_rows(40, 7), 7)
    failed = np.arange(40) == 3
    rows = dataclasses.replace(
        rows, labels=LABELS[request.param](40), failed=failed, answered=~failed,
        target=gbce.AtLeast(60.0, scale=1.0, tolerance=0.0),
    )  # fmt: skip
    return [
        actions(rows, 2, explainer=explainer, seed=0, max_candidates=20),
        actions(rows, 1, explainer=explainer, seed=0, max_candidates=20, groups="job"),
        allocate(rows, 5.0, at_least=3),
        fairness(rows, "job", refits=[approve, lambda x: approve(x) - 3], n_permutations=100),
        review(rows, lambda x: approve(x) - 1, groups="job"),
    ]


def require_same(one, other):
    """Compare two values of any kind, to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    elif isinstance(one, pd.Index):
        pd.testing.assert_index_equal(one, other, exact=True)
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    elif isinstance(one, gbce.Space):
        assert one.names == other.names
    else:
        np.testing.assert_equal(other, one)


def test_what_is_loaded_is_what_was_saved(results, tmp_path):
    for number, result in enumerate(results):
        again = load(result.save(tmp_path / f"{number}.gbce"))
        assert type(again) is type(result)
        for one in dataclasses.fields(result):
            require_same(getattr(result, one.name), getattr(again, one.name))
        assert again.to_json() == result.to_json()
        assert str(again) == str(result)


def test_actions_from_a_file_are_applied_and_shortened(results, tmp_path):
    found, rows = results[0], lending_rows(12, 9)
    again = load(found.save(tmp_path / "few.gbce"))
    pd.testing.assert_frame_equal(again.apply(rows, 1), found.apply(rows, 1))
    assert str(again.first(1)) == str(found.first(1))


@pytest.fixture
def saved(tmp_path):
    rows = simulated_answers(lending(), lending_rows(6, 7), 7)
    return allocate(rows, 3.0).save(tmp_path / "help.gbce")


def rewrite(path, change):
    """Rewrite a file with its manifest and its members changed, checksums of the archive made anew."""
    with zipfile.ZipFile(path) as box:
        members = {name: box.read(name) for name in box.namelist()}
    manifest = json.loads(members.pop("explanation.json"))
    change(manifest, members)
    with zipfile.ZipFile(path, "w") as box:
        for name, content in members.items():
            box.writestr(name, content)
        manifest["checksums"] = {info.filename: info.CRC for info in box.infolist()}
        box.writestr("explanation.json", json.dumps(manifest))


def test_a_damaged_file_is_refused_whatever_is_missing(saved):
    whole = saved.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:size])
        with pytest.raises(gbce.FileError, match="not a result"):
            load(saved)
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(whole), 40):
        broken = bytearray(whole)
        broken[at] ^= 1 << int(rng.integers(8))
        saved.write_bytes(bytes(broken))
        with contextlib.suppress(gbce.FileError):  # no other error
            assert load(saved).sentences  # a bit that nothing reads, such as a date


class Trap:
    """Would set ``sprung`` if it were unpickled."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_no_code_from_a_file_is_run(saved):
    whole = saved.read_bytes()

    def put_pickle(manifest, members):
        file = io.BytesIO()
        np.save(file, np.array([Trap()], dtype=object), allow_pickle=True)
        members["a0.npy"] = file.getvalue()

    def name_a_class(manifest, members):
        manifest["policy"] = "os:system"

    def name_another_kind(manifest, members):
        manifest["fields"]["labels"] = {"pickle": pickle.dumps(Trap()).hex()}

    for change in (put_pickle, name_a_class, name_another_kind):
        saved.write_bytes(whole)
        rewrite(saved, change)
        with pytest.raises(gbce.FileError, match="is damaged"):
            load(saved)
    assert not Trap.sprung


def test_fields_that_do_not_fit_together_are_refused(saved):
    whole = saved.read_bytes()

    def drop_a_field(manifest, members):
        del manifest["fields"]["budget"]

    def exchange_arrays(manifest, members):
        held = manifest["fields"]
        held["helped"], held["reliability"] = held["reliability"], held["helped"]

    def shorten_the_words(manifest, members):
        manifest["fields"]["words"]["parts"].pop()

    for change in (drop_a_field, exchange_arrays, shorten_the_words):
        saved.write_bytes(whole)
        rewrite(saved, change)
        with pytest.raises(gbce.FileError, match="is damaged"):
            load(saved)


def test_a_file_is_replaced_whole_or_not_at_all(saved):
    before = saved.read_bytes()
    result = dataclasses.replace(load(saved), words=(object(),))
    with pytest.raises(TypeError, match="cannot be written to a file"):
        result.save(saved)
    assert saved.read_bytes() == before
    assert [one.name for one in saved.parent.iterdir()] == [saved.name]


def test_each_kind_of_file_has_its_own_load(saved, tmp_path):
    with pytest.raises(gbce.FileError, match=r"gbce\.policy\.load reads it"):
        gbce.load(saved)
    with pytest.raises(gbce.FileError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.gbce")
    with pytest.raises(ValueError, match="max_bytes must be a positive number"):
        load(saved, max_bytes=0)
    with pytest.raises(gbce.FileError, match="too large"):
        load(saved, max_bytes=100)
    rewrite(saved, lambda manifest, members: manifest.update(format=99))
    with pytest.raises(gbce.FileError, match="has format 99"):
        load(saved)
