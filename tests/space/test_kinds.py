"""Every kind of column goes in and comes out as it was, and every encoded point stands for exactly one row."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gbce
from gbce.files import _files
from gbce.space import space_fields, space_of
from support.columns import KINDS, frames, one_hot_frames

EXACT = {"check_exact": True, "check_freq": False}


def as_it_was(space, frame):
    again = space.decode(space.encode(frame))
    pd.testing.assert_frame_equal(again, frame.reset_index(drop=True), **EXACT)
    for label in frame.columns:  # None and NaN pass for equal in a comparison of frames
        if frame[label].dtype == object:
            pairs = zip(again[label], frame[label], strict=True)
            assert all((one is None) == (other is None) for one, other in pairs)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_column_comes_back_as_it_was(kind, data):
    frame = data.draw(frames((kind,), most=1))
    as_it_was(gbce.Space.infer(frame), frame)


@settings(max_examples=50, deadline=None)
@given(frames())
def test_mixed_frames_come_back_as_they_were(frame):
    space = gbce.Space.infer(frame)
    as_it_was(space, frame)
    as_it_was(space, frame.iloc[[-1, 0]])
    shuffled = space.encode(frame[frame.columns[::-1]])
    np.testing.assert_array_equal(shuffled, space.encode(frame))
    assert space.check(frame).empty
    for i in range(len(frame)):  # one row at a time, and as a Series of objects
        np.testing.assert_array_equal(space.encode_row(frame.iloc[[i]])[None, :], space.encode(frame)[[i]])
        np.testing.assert_array_equal(space.encode_row(frame.iloc[i])[None, :], space.encode(frame)[[i]])


@settings(max_examples=40, deadline=None)
@given(one_hot_frames())
def test_one_hot_groups_come_back_as_they_were(drawn):
    frame, _ = drawn
    space = gbce.Space.infer(frame, one_hot={"city": "city_"})
    as_it_was(space, frame)
    group = space.features[space.names.index("city")]
    empty = bool((frame.filter(like="city_").astype(int).sum(axis=1) == 0).any())
    assert len(group.levels) == frame.shape[1] - 1 + empty


@settings(max_examples=50, deadline=None)
@given(frames(), st.integers(0, 2**32 - 1), st.sampled_from(["keep", "leave", "any"]))
def test_an_encoded_point_is_the_code_of_its_row(frame, seed, may):
    gaps = {str(label): may for label in frame.columns if frame[label].isna().any()}
    space = gbce.Space.infer(frame, missing=gaps)
    rng = np.random.default_rng(seed)
    encoded = space.encode(frame)
    x0 = encoded[rng.integers(len(encoded))]
    for x in (encoded, encoded + 2 * space.scale * rng.normal(size=encoded.shape)):
        x = space.project(np.where(np.isnan(x) & ~np.isnan(x0) & (may != "any"), x0, x), x0)
        fits = (np.isnan(x) | (np.abs(x) < 2**53)).all(axis=1)  # a float64 has no more integers
        np.testing.assert_array_equal(space.encode(space.decode(x[fits])) if fits.any() else x[fits], x[fits])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_a_century_apart_come_back_to_the_second(unit):
    """Counted in nanoseconds, 150 years are beyond the whole numbers that a float64 has."""
    times = pd.DatetimeIndex(["1980-01-01 00:00:00", "1980-01-01 00:00:00", "2059-12-11 23:57:12"]).as_unit(unit)
    frame = pd.DataFrame({"a": [False, False, True], "t": times})
    space = gbce.Space.infer(frame)
    seconds = np.random.default_rng(0).integers(4_650_000_000, 8_800_000_000, size=200).astype(float)
    x = np.column_stack([np.zeros(200), seconds])
    np.testing.assert_array_equal(space.encode(space.decode(x)), x)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "UInt8", "uint64", "float16"])
@pytest.mark.parametrize("options", [{}, {"bounds": "none"}, {"bounds": {"a": (-1e6, 1e6)}}])
def test_no_point_is_beyond_the_numbers_of_its_column(dtype, options):
    """They would wrap around: the model would be given 0 where the answer says 256."""
    top = 60_000 if dtype == "float16" else 120
    frame = pd.DataFrame({"a": pd.Series(np.linspace(0, top, 50).round()).astype(dtype), "b": np.arange(50.0)})
    space, model = gbce.Space.infer(frame, **options), lambda rows: rows["a"].to_numpy(dtype=float)
    x = space.project(np.array([[-700.0, 0.0], [700.0, 0.0], [90_000.0, 0.0]]), space.encode(frame)[20])
    np.testing.assert_array_equal(model(space.decode(x)), x[:, 0])


def test_a_space_adopts_the_range_of_a_column():
    space = gbce.Space((gbce.Feature("a", "integer"), gbce.Feature("b")))
    adopted = space.adopt(pd.DataFrame({"a": np.array([3, 100], "int8"), "b": [0.5, 1.0]}))
    assert (adopted.features[0].low, adopted.features[0].high) == (-128.0, 127.0)


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float[pyarrow]"])
def test_single_precision_is_written_as_such(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    space = gbce.Space.infer(pd.DataFrame({"a": pd.Series([0.1, 0.2, 0.35] * 5).astype(dtype), "b": np.arange(15)}))
    assert space.features[0].digits == 2
    assert space.format(0, float(np.float32(0.1)), exact=True) == "0.1"


def test_two_strings_may_be_declared_boolean():
    frame = pd.DataFrame({"a": ["yes", "no"] * 3, "b": np.arange(6.0)})
    space = gbce.Space.infer(frame, kinds={"a": "boolean"})
    assert space.features[0].levels == ("no", "yes")
    as_it_was(space, frame)


@settings(max_examples=50, deadline=None)
@given(frames())
def test_a_space_read_from_a_file_writes_the_same_frames(frame):
    space = gbce.Space.infer(frame)
    again = space_of(json.loads(json.dumps(space_fields(space), default=_files._to_plain)))
    assert again == space
    x = space.encode(frame)
    np.testing.assert_array_equal(again.encode(frame), x)
    pd.testing.assert_frame_equal(again.decode(x), space.decode(x), **EXACT)


def test_days_among_objects_are_read_as_days():
    frame = pd.DataFrame({"day": [dt.date(2020, 1, 1), dt.date(2021, 1, 1)]})
    space = gbce.Space.infer(frame)
    again = space_of(json.loads(json.dumps(space_fields(space), default=_files._to_plain)))
    assert again == space
    assert type(again.decode(space.encode(frame))["day"][0]) is dt.date


def test_levels_that_do_not_occur_and_their_order_are_kept():
    frame = pd.DataFrame({"c": pd.Categorical(["b", "a"], categories=["z", "b", "a", "y"], ordered=True)})
    again = gbce.Space.infer(frame).decode([[0.0], [3.0]])
    assert again["c"].tolist() == ["z", "y"]
    assert again["c"].dtype == frame["c"].dtype


@pytest.mark.parametrize("missing", [[], [None], [Decimal("NaN")]], ids=["complete", "None", "NaN"])
def test_decimals_are_real_numbers_and_come_back_as_decimals(missing):
    values = [*(Decimal(text) for text in ("0.10", "12.5", "-3", "1e-7")), *missing]
    frame = pd.DataFrame({"price": pd.Series(values, dtype=object)})
    space = gbce.Space.infer(frame)
    again = space_of(json.loads(json.dumps(space_fields(space), default=_files._to_plain)))
    assert again == space
    assert space.features[0].kind == "real"
    np.testing.assert_array_equal(space.encode(frame)[:, 0], [0.1, 12.5, -3.0, 1e-7] + [np.nan] * len(missing))
    back = again.decode(space.encode(frame))["price"]
    assert back[:4].tolist() == values[:4]
    assert all(type(value) is Decimal for value in back[:4])
    assert back.isna().sum() == len(missing)
    assert again.decode([[0.3]])["price"][0] == Decimal("0.3")  # not the binary digits of the float


def test_decimals_mixed_with_strings_are_refused_by_row():
    frame = pd.DataFrame({"price": pd.Series([Decimal("0.1"), "cheap", Decimal(2)], dtype=object)})
    with pytest.raises(ValueError, match="column 'price' holds 'cheap' in row 1 where a number is expected"):
        gbce.Space.infer(frame)
