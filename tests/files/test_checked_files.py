"""Files: no more is unpacked than is allowed, and what they hold is checked."""

import contextlib
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import gbce
from support.files import MANIFEST, altered, as_npy, boxed, from_npy, manifest, members, restated, summed
from support.saved import explained, same


@pytest.fixture(scope="module")
def good():
    return explained()


@pytest.fixture
def saved(good, tmp_path):
    return good.save(tmp_path / "good.gbce")


# --- how much is unpacked --------------------------------------------------------------------------------------------


def npy_head(shape, kind="<f8"):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


def understated(path):
    """Say in the file's list of members that its largest one is small."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as box:
        largest = max(box.infolist(), key=lambda info: info.file_size)
    for place, mark, at in ((largest.header_offset, b"PK\x03\x04", 22), (None, b"PK\x01\x02", 24)):
        start = place if place is not None else content.rindex(largest.filename.encode()) - 46
        assert content[start : start + 4] == mark
        content[start + at : start + at + 4] = struct.pack("<I", 4_000)
    path.write_bytes(content)
    return path


BOMBS = {
    "many zeros": lambda box: {**box, "pool.x.npy": npy_head((10**7,)) + bytes(8 * 10**7)},
    "a long manifest": lambda box: {**box, MANIFEST: b" " * 40_000_000 + box[MANIFEST]},
    "lists in the manifest": lambda box: {**box, MANIFEST: b"[" + b"[]," * 9_000_000 + b"[]]"},
    "a huge shape": lambda box: {**box, "pool.x.npy": npy_head((10**12, 4)) + bytes(64)},
    "a shape beyond all numbers": lambda box: {**box, "pool.x.npy": npy_head((10**30, 4)) + bytes(64)},
    "a negative shape": lambda box: {**box, "pool.x.npy": npy_head((-2, -4)) + bytes(64)},
    "huge cells": lambda box: {**box, "pool.x.npy": npy_head((1,), "<U1000000000") + bytes(64)},
    "a deep head": lambda box: {**box, "pool.x.npy": npy_head("(" * 4000)},
    "a member of its own": lambda box: {**box, "pool.y.npy": npy_head((10**7,)) + bytes(8 * 10**7)},
    "a deep manifest": lambda box: {**box, MANIFEST: b"[" * 100_000},
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_bombs_are_not_unpacked(saved, bomb):
    before = members(saved)
    made = bomb(before)
    made = summed(made) if made[MANIFEST] == before[MANIFEST] else made
    path = boxed(saved.with_name("bomb.gbce"), made, zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    try:
        with pytest.raises(gbce.FileError, match=r"bomb\.gbce is (too large|damaged|not an explanation)"):
            gbce.load(path, max_bytes=20_000_000)
        assert tracemalloc.get_traced_memory()[1] < 25_000_000
    finally:
        tracemalloc.stop()


def test_a_member_that_is_larger_than_it_says_is_not_unpacked(saved):
    box = {**members(saved), "pool.x.npy": npy_head((10**7, 1)) + bytes(8 * 10**7)}
    path = understated(boxed(saved.with_name("liar.gbce"), summed(box), zipfile.ZIP_DEFLATED))
    tracemalloc.start()
    try:
        with pytest.raises(gbce.FileError, match=r"liar\.gbce is"):
            gbce.load(path)
        assert tracemalloc.get_traced_memory()[1] < 25_000_000
    finally:
        tracemalloc.stop()


def test_the_limit_is_for_all_members_together_and_can_be_raised(saved, good):
    takes = sum(len(content) * (20 if name == MANIFEST else 1) for name, content in members(saved).items())
    with pytest.raises(gbce.FileError, match=rf"too large: .*up to {takes:,} bytes .* max_bytes={takes}$"):
        gbce.load(saved, max_bytes=takes - 1)
    same(gbce.load(saved, max_bytes=takes), good)
    for bad in (0, "1 GB", float("nan")):
        with pytest.raises(ValueError, match="max_bytes must be a positive number"):
            gbce.load(saved, max_bytes=bad)


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(saved, how):
    with pytest.raises(gbce.FileError, match="has an unknown compression"):
        gbce.load(boxed(saved.with_name("other.gbce"), members(saved), how))


def test_members_twice_unknown_or_missing_are_refused(saved):
    box = members(saved)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(saved, "a") as file:
        file.writestr("pool.x.npy", box["pool.x.npy"])
    with pytest.raises(gbce.FileError, match="a member occurs twice"):
        gbce.load(saved)
    boxed(saved, box)
    with pytest.raises(gbce.FileError, match=r"lacks pool\.x\.npy"):
        gbce.load(altered(saved, pool__x__npy=None))
    with pytest.raises(gbce.FileError, match=r"unknown member: notes\.txt"):
        gbce.load(altered(saved, notes__txt=b"hello"))


# --- what is read is checked -----------------------------------------------------------------------------------------


def changed(name, value, at=0):
    """Return what puts a value into an array of a file."""

    def change(box):
        array = from_npy(box[f"{name}.npy"]).copy()
        array.flat[at] = value
        return {f"{name}.npy": as_npy(array)}

    return change


def reshaped(name, change):
    return lambda box: {f"{name}.npy": as_npy(change(from_npy(box[f"{name}.npy"])))}


NAN, INF = float("nan"), float("inf")
UNSOUND = {
    "weight NaN": changed("draws.weights", NAN),
    "weight negative": changed("draws.weights", -1.0),
    "weight infinite": changed("draws.weights", INF),
    "weights below zero that sum to one": reshaped("draws.weights", lambda array: 2 * array - np.eye(len(array))[0]),
    "weights that sum to two": reshaped("draws.weights", lambda array: 2 * array),
    "pool weight NaN": changed("draws.pool_weights", NAN),
    "pool weight negative": changed("draws.pool_weights", -0.5),
    "model weight NaN": changed("mixture.weights", NAN),
    "model weight negative": changed("mixture.weights", -1.0),
    "index outside": changed("draws.index", 10**6),
    "index negative": changed("draws.index", -1),
    "index of floats": reshaped("draws.index", lambda array: array.astype(float)),
    "row NaN": changed("row.x", NAN),
    "point NaN": changed("pool.x", NAN, 4),
    "point infinite": changed("pool.x", INF),
    "latent NaN": changed("pool.z", NAN),
    "level beyond the last": changed("pool.x", 7.0, 2),
    "level below the first": changed("pool.x", -1.0, 2),
    "level in between": changed("pool.x", 0.5, 2),
    "loss NaN": changed("pool.loss", NAN),
    "output NaN": changed("pool.outputs", NAN),
    "cost NaN": changed("pool.cost", NAN),
    "extra NaN": changed("pool.log_correction", NAN),
    "base NaN": changed("draws.log_base_weights", NAN),
    "change NaN": changed("draws.prior_change", NAN),
    "decision NaN": changed("decisions.x", NAN),
    "decision of no level": changed("decisions.x", 17.0, 2),
    "one column less": reshaped("pool.x", lambda array: array[:, 1:]),
    "one point less": reshaped("pool.loss", lambda array: array[1:]),
    "two models": reshaped("pool.outputs", lambda array: np.hstack([array, array])),
    "two rows": reshaped("row.x", lambda array: np.vstack([array, array])),
    "one decision less": reshaped("decisions.cost", lambda array: array[1:]),
    "flat": reshaped("pool.z", np.ravel),
    "reached of numbers": reshaped("pool.reached", lambda array: array.astype(float)),
    "text": reshaped("pool.cost", lambda array: array.astype(str)),
}


@pytest.mark.parametrize("change", UNSOUND.values(), ids=UNSOUND)
def test_numbers_that_cannot_be_are_refused(saved, change):
    path = boxed(saved.with_name("forged.gbce"), summed({**members(saved), **change(members(saved))}))
    with pytest.raises(gbce.FileError, match=r"forged\.gbce is damaged"):
        gbce.load(path)


def test_groups_outside_the_pool_are_refused(saved):
    n = len(from_npy(members(saved)["pool.cost.npy"]))
    fine = np.arange(n) % 2
    gbce.load(altered(saved, draws__groups__npy=as_npy(fine)))
    for bad in (fine - 1, fine * 10**9, fine.astype(float), fine[1:]):
        with pytest.raises(gbce.FileError, match=r"draws\.groups"):
            gbce.load(altered(saved, draws__groups__npy=as_npy(bad)))


def draws_with(**changes):
    return lambda text: {"draws": text["draws"] | changes}


WORDS = {
    "no models": lambda text: {"models": []},
    "a number for a model": lambda text: {"models": [5]},
    "models as one text": lambda text: {"models": "ab"},
    "notes": lambda text: {"notes": [None]},
    "labels": lambda text: {"decisions": text["decisions"] | {"labels": [1, 2]}},
    "a seed of text": lambda text: {"seed": "0"},
    "rows below zero": lambda text: {"n_model_rows": -1},
    "calls as text": lambda text: {"n_model_calls": "3"},
    "no rungs": draws_with(rungs=[]),
    "rungs of text": draws_with(rungs=["1"]),
    "evidence NaN": draws_with(log_evidence=NAN),
    "evidence null": draws_with(log_evidence=None),
    "error negative": draws_with(log_evidence_se=-1.0),
    "resampled": draws_with(resampled="no"),
    "a list for draws": lambda text: {"draws": []},
    "a level twice": lambda text: {"space": {**text["space"], "features": [text["space"]["features"][0]] * 4}},
    "a dtype": lambda text: {"space": {**text["space"], "codecs": [text["space"]["codecs"][0] | {"dtype": "f9"}] * 4}},
    "no checksums": lambda text: {"checksums": {}},
}  # fmt: skip


@pytest.mark.parametrize("change", WORDS.values(), ids=WORDS)
def test_words_that_cannot_be_are_refused(saved, change):
    path = restated(saved, **change(manifest(saved)))
    if "checksums" in change(manifest(saved)):
        boxed(path, members(path) | {MANIFEST: members(path)[MANIFEST].replace(b'"pool.x.npy"', b'"pool.q.npy"')})
    with pytest.raises(gbce.FileError, match=r"altered\.gbce is damaged"):
        gbce.load(path)


# --- damage at random ------------------------------------------------------------------------------------------------


def refused_or_the_same(path, good):
    """Whether a file is refused in the one way, or read as it was written."""
    try:
        again = gbce.load(path)
    except gbce.FileError:
        return "refused"
    same(again, good)
    return "read"


def test_flipped_bits_and_cuts_give_no_wrong_answer(saved, good):
    rng = np.random.default_rng(0)
    content = saved.read_bytes()
    with zipfile.ZipFile(saved) as box:
        directory = box.start_dir  # what lists the members is where damage is not found by a checksum
    outcomes = []
    for i in range(150):
        damaged = bytearray(content)
        low = directory if i % 2 else 0
        for place in rng.integers(low, len(content), 1 + i % 3):
            damaged[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        outcomes.append(refused_or_the_same(saved, good))
    assert outcomes.count("refused") > 75  # of 150; what is left flipped a time stamp or the like
    for end in rng.integers(0, len(content), 30):
        saved.write_bytes(content[:end])
        assert refused_or_the_same(saved, good) == "refused"


def test_members_that_changed_places_are_refused(saved):
    box = members(saved)
    names = sorted(set(box) - {MANIFEST})
    for one, other in zip(names, names[1:] + names[:1], strict=True):
        if box[one] != box[other]:
            boxed(saved, {**box, one: box[other], other: box[one]})
            with pytest.raises(gbce.FileError, match="do not match its checksums"):
                gbce.load(saved)


def test_members_of_another_explanation_are_refused(saved, tmp_path):
    other = members(explained(seed=1).save(tmp_path / "other.gbce"))
    for name in ("pool.loss.npy", "pool.x.npy", "draws.pool_weights.npy", "draws.index.npy"):
        boxed(saved.with_name("mixed.gbce"), {**members(saved), name: other[name]})
        with pytest.raises(gbce.FileError, match="do not match its checksums"):
            gbce.load(saved.with_name("mixed.gbce"))


def test_files_with_rubbish_members_are_refused_in_one_way(saved):
    rng = np.random.default_rng(1)
    box = members(saved)
    for i in range(60):
        name = sorted(box)[int(rng.integers(len(box)))]
        content = bytearray(box[name])
        for place in rng.integers(0, min(len(content), 128 if i % 2 else len(content)), 4):
            content[place] = int(rng.integers(256))
        boxed(saved, summed({**box, name: bytes(content)}))
        with contextlib.suppress(gbce.FileError):  # any other error fails the test
            gbce.load(saved).summary()
