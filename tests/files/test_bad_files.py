"""Files that are damaged, cut off or forged are refused, and saving never loses what was there."""

import io
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.eta import Calibration
from support.files import altered, as_npy, manifest, restated
from support.three_columns import explain


@pytest.fixture(scope="module")
def good():
    return explain(rules=[gbce.MAP(), gbce.Mean()])


@pytest.fixture
def saved(good, tmp_path):
    return good.save(tmp_path / "good.gbce")


@pytest.mark.parametrize("content", [b"", b"row,feature\n1,2\n", b"PK\x03\x04 almost"])
def test_file_that_is_no_explanation_is_refused(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"notes\.txt is not an explanation written by gbce"):
        gbce.load(path)


def test_archive_that_is_no_explanation_is_refused(tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match=r"arrays\.npz is not an explanation written by gbce"):
        gbce.load(tmp_path / "arrays.npz")


def test_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.gbce"):
        gbce.load(tmp_path / "nothing.gbce")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.999])
def test_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"good\.gbce is not an explanation written by gbce"):
        gbce.load(saved)


def test_file_damaged_anywhere_is_refused(saved):
    content = saved.read_bytes()
    for start in range(100, len(content) - 4_000, 1_501):
        saved.write_bytes(content[:start] + bytes(40) + content[start + 40 :])
        with pytest.raises(ValueError, match=r"good\.gbce is (not an explanation|damaged)"):
            gbce.load(saved)


class Trap:
    """Creates a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("member", ["pool__x__npy", "another__npy"])
def test_pickle_in_a_file_is_refused_and_not_run(saved, tmp_path, member):
    sprung = tmp_path / "sprung"
    pickled = as_npy(np.array([Trap(sprung)], dtype=object), allow_pickle=True)
    path = altered(saved, **{member: pickled})
    words = "holds object instead of numbers" if member == "pool__x__npy" else "an unknown member"
    with pytest.raises(gbce.FileError, match=rf"altered\.gbce is damaged: .*{words}"):
        gbce.load(path)
    assert not sprung.exists()
    np.load(io.BytesIO(pickled), allow_pickle=True)
    assert sprung.exists(), "the trap must be one that would have gone off"


DAMAGED = {
    "no array": {"pool__x__npy": None},
    "no weights": {"mixture__weights__npy": None},
    "short arrays": {"pool__loss__npy": as_npy(np.zeros((5, 1)))},
    "no decisions": {"decisions__x__npy": as_npy(np.zeros((0, 3)))},
}


@pytest.mark.parametrize("members", DAMAGED.values(), ids=DAMAGED)
def test_file_with_arrays_missing_or_short_is_refused(saved, members):
    with pytest.raises(ValueError, match=r"altered\.gbce is damaged"):
        gbce.load(altered(saved, **members))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 99}, r"has format 99; this version of gbce reads format 7 only"),
        ({"target": {"type": "gbce:Path", "label": "", "options": {}}}, r"damaged.*there is no target 'Path'"),
        ({"rules": [{"type": "gbce:Path", "label": "", "options": {}}]}, r"damaged.*there is no rule 'Path'"),
        ({"rules": [{"type": "gbce:MAP", "label": "MAP", "options": {"method": "best"}}]}, r"damaged.*method must be"),
        ({"rules": [{"type": 5, "label": "MAP", "options": {}}]}, r"damaged.*has no type or no label"),
        ({"mixture": {"eta": -1, "combine": "any"}}, r"damaged.*eta must be"),
        ({"space": 5}, r"damaged"),
    ],
)
def test_file_that_says_nonsense_is_refused(saved, change, sentence):
    with pytest.raises(gbce.FileError, match=rf"altered\.gbce .*{sentence}"):
        gbce.load(restated(saved, **change))


def test_altering_nothing_leaves_a_file_that_loads(saved, good):
    again = gbce.load(altered(saved, explanation__json=json.dumps(manifest(saved)).encode()))
    pd.testing.assert_frame_equal(again.pointwise, good.pointwise)


def test_saving_what_cannot_be_written_keeps_the_previous_file(saved):
    before = saved.read_bytes()
    odd = replace(gbce.load(saved), calibration=Calibration("odd", errors={"found": Fraction(1, 3)}))
    with pytest.raises(TypeError, match=r"Fraction\(1, 3\) of type Fraction cannot be written to a file"):
        odd.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["good.gbce"]


def test_saving_that_breaks_off_half_way_keeps_the_previous_file(saved, good, monkeypatch):
    before, written = saved.read_bytes(), []
    write = np.lib.format.write_array

    def full_disk(file, array, **options):
        written.append(array)
        if len(written) == 3:
            raise OSError("no space left on device")
        write(file, array, **options)

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="no space left on device"):
        good.save(saved)
    assert len(written) == 3
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["good.gbce"]


def test_a_saved_file_is_as_readable_as_any_other(tmp_path):
    explanation = explain()
    saved, plain = explanation.save(tmp_path / "e.gbce"), tmp_path / "plain"
    plain.write_text("")
    assert saved.stat().st_mode == plain.stat().st_mode
