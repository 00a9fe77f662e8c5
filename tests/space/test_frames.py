"""Frames of polars and pyarrow become pandas frames and come back as they were."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbce.space import Layout, as_pandas

pl = pytest.importorskip("polars")

LEVELS = ("low", "high", "mid")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)
TIMES = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))


def whole(bits, signed=True):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def rounded(unit):
    step = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[unit]
    return TIMES.map(lambda t: t.replace(microsecond=t.microsecond // step * step))


CELLS = {
    **{f"Int{bits}": whole(bits) for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": whole(bits, False) for bits in (8, 16, 32, 64)},
    "Float32": st.floats(width=32, allow_nan=False),
    "Float64": st.floats(allow_nan=False),
    "Boolean": st.booleans(),
    "String": TEXT,
    "Categorical": st.sampled_from(LEVELS),
    "Enum": st.sampled_from(LEVELS),
    "Date": st.dates(),
    **{f"Datetime {unit}": rounded(unit) for unit in ("ms", "us", "ns")},
    **{f"Datetime {unit} zone": rounded(unit) for unit in ("ms", "us", "ns")},
}
NUMPY = {name: name.lower() for name in CELLS if name.startswith(("Int", "UInt", "Float"))} | {"Boolean": "bool"}


def polars_type(kind):
    name, *options = kind.split()
    if name == "Enum":
        return pl.Enum(LEVELS)
    if name == "Datetime":
        return pl.Datetime(options[0], "Europe/Berlin" if len(options) > 1 else None)
    return getattr(pl, name)


@st.composite
def columns(draw, kinds=tuple(CELLS)):
    """Draw named columns: name to kind and cells, some of them null."""
    n = draw(st.integers(0, 6))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5))
    return {
        f"{kind} {i}": (kind, draw(st.lists(st.none() | CELLS[kind], min_size=n, max_size=n)))
        for i, kind in enumerate(chosen)
    }


def as_polars(drawn):
    made = {}
    for name, (kind, cells) in drawn.items():
        zone = kind.endswith("zone")
        cells = [c.replace(tzinfo=dt.UTC) if zone and c is not None else c for c in cells]
        made[name] = pl.Series(name, cells, dtype=pl.Datetime(kind.split()[1], "UTC") if zone else polars_type(kind))
    frame = pl.DataFrame(made)
    return frame.with_columns(
        pl.col(name).dt.convert_time_zone("Europe/Berlin") for name, (kind, _) in drawn.items() if kind.endswith("zone")
    )


def through_json(layout):
    again = Layout.from_json(json.loads(json.dumps(layout.to_json())))
    assert again == layout
    return again


@settings(max_examples=150, deadline=None)
@given(columns(), st.randoms(use_true_random=False))
def test_polars_frames_come_back_as_they_were(drawn, random):
    frame = as_polars(drawn)
    pandas = as_pandas(frame)
    assert list(pandas.columns) == frame.columns
    for name, (kind, cells) in drawn.items():
        assert pandas[name].isna().tolist() == [cell is None for cell in cells]
        if kind in NUMPY and (None not in cells or "Float" in kind):
            assert pandas[name].dtype == NUMPY[kind]
        elif kind in NUMPY:
            assert str(pandas[name].dtype) == ("boolean" if kind == "Boolean" else kind)
    shuffled = list(pandas.columns)
    random.shuffle(shuffled)
    again = through_json(Layout.of(frame)).restore(pandas[shuffled])
    assert again.schema == frame.schema
    assert again.equals(frame)


@settings(max_examples=60, deadline=None)
@given(columns(kinds=tuple(kind for kind in CELLS if kind != "Enum")), st.sampled_from(["string", "large_string"]))
def test_pyarrow_tables_come_back_as_they_were(drawn, text):
    pa = pytest.importorskip("pyarrow")
    types = {"Boolean": pa.bool_(), "String": getattr(pa, text)(), "Date": pa.date32(),
             "Float32": pa.float32(), "Float64": pa.float64(),
             "Categorical": pa.dictionary(pa.int16(), pa.string())}  # fmt: skip
    arrays = {}
    for name, (kind, cells) in drawn.items():
        head, *options = kind.split()
        if head == "Datetime":
            type_ = pa.timestamp(options[0], "Europe/Berlin" if len(options) > 1 else None)
            cells = [None if c is None else c.replace(tzinfo=dt.UTC) if len(options) > 1 else c for c in cells]
        else:
            type_ = types.get(kind) or getattr(pa, kind.lower())()
        arrays[name] = pa.array(cells, type_)
    table = pa.table(arrays)
    pandas = as_pandas(table)
    assert [pandas[name].isna().tolist() for name in drawn] == [
        [cell is None for cell in cells] for _, cells in drawn.values()
    ]
    again = through_json(Layout.of(table)).restore(pandas)
    assert again.schema.equals(table.schema)
    assert again.equals(table)


def test_values_and_types_are_those_of_the_frame():
    frame = pl.DataFrame(
        {
            "n": pl.Series([1, None], dtype=pl.Int16),
            "level": pl.Series(["mid", "low"], dtype=pl.Enum(LEVELS)),
            "seen": pl.Series(["b", "a"], dtype=pl.Categorical),
            "day": [dt.date(1969, 12, 31), None],
            "time": pl.Series([dt.datetime(2020, 1, 1), None], dtype=pl.Datetime("ms")),
            "name": ["x", None],
        }
    )
    pandas = as_pandas(frame)
    assert [str(dtype) for dtype in pandas.dtypes][:1] == ["Int16"]
    assert pandas["level"].tolist() == ["mid", "low"]
    assert list(pandas["level"].cat.categories) == list(LEVELS)
    assert not pandas["level"].cat.ordered
    assert list(pandas["seen"].cat.categories) == ["b", "a"]
    assert pandas["day"].dtype == "datetime64[s]"
    assert pandas["day"][0] == pd.Timestamp(1969, 12, 31)
    assert pandas["time"].dtype == "datetime64[ms]"
    assert pandas["name"][0] == "x"


def test_nan_stays_nan_and_null_stays_null():
    frame = pl.DataFrame({"nan": [1.0, float("nan")], "null": [1.0, None], "none": [1.0, 2.0]})
    again = Layout.of(frame).restore(as_pandas(frame))
    assert again.equals(frame)
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"nan": pa.array([1.0, float("nan")]), "null": pa.array([1.0, None])})
    again = Layout.of(table).restore(as_pandas(table))
    assert again["nan"].null_count == 0
    assert np.isnan(again["nan"][1].as_py())
    assert again["null"].to_pylist() == [1.0, None]


def test_other_rows_come_back_in_the_layout_of_the_data():
    layout = Layout.of(
        pl.DataFrame({"n": pl.Series([1], dtype=pl.Int8), "level": pl.Series(["low"], dtype=pl.Enum(LEVELS))})
    )
    rows = pd.DataFrame({"level": ["mid", "high"], "n": [3.0, 4.0]})
    again = layout.restore(rows)
    assert again.to_dict(as_series=False) == {"n": [3, 4], "level": ["mid", "high"]}
    assert again.schema == {"n": pl.Int8, "level": pl.Enum(LEVELS)}


def test_pandas_passes_through_untouched():
    frame = pd.DataFrame({"a": [1]})
    assert as_pandas(frame) is frame
    assert through_json(Layout.of(frame)).restore(frame) is frame


@pytest.mark.parametrize(
    "thing", [3, None, "text", [1, 2], np.zeros((2, 2)), {"a": [1]}, pd.Series([1]), pl.Series([1])]
)
def test_what_is_no_frame_is_none(thing):
    assert as_pandas(thing) is None
    with pytest.raises(TypeError, match="expected a frame of pandas, polars or pyarrow, not"):
        Layout.of(thing)


@pytest.mark.parametrize("read", [as_pandas, Layout.of])
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: pl.DataFrame({"a": [1]}).lazy(), r"LazyFrame is lazy.*call \.collect\(\) first"),
        (lambda: pl.DataFrame({"b": [1], "a": [[1, 2]]}), r"column 'a' has the type List.*convert or drop it"),
        (lambda: pl.DataFrame({"a": [{"x": 1}]}), r"column 'a' has the type Struct"),
        (lambda: pl.DataFrame({"a": pl.Series([1], dtype=pl.Decimal(5, 1))}), r"column 'a' has the type Decimal"),
        (lambda: pl.DataFrame({"a": [dt.timedelta(1)]}), r"column 'a' has the type Duration"),
        (lambda: pl.DataFrame({"a": [None]}), r"column 'a' has the type Unknown"),
    ],
)
def test_what_cannot_be_read_is_named(read, make, sentence):
    with pytest.raises(TypeError, match=sentence):
        read(make())


def test_odd_tables_of_pyarrow_are_refused():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match="column 'a' has categories of type int64; only strings"):
        as_pandas(pa.table({"a": pa.array([5, 7]).dictionary_encode()}))
    with pytest.raises(ValueError, match="two columns of the frame have the same name"):
        as_pandas(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))


@pytest.mark.parametrize(
    ("column", "cells", "sentence"),
    [
        (pl.Series("a", [1], dtype=pl.Int8), [1.5], r"column 'a' cannot be converted back to Int8"),
        (pl.Series("a", [1], dtype=pl.Int8), [300], r"column 'a' cannot be converted back to Int8"),
        (pl.Series("a", [1.0]), ["x"], r"column 'a' cannot be converted back to Float64"),
        (
            pl.Series("a", ["low"], dtype=pl.Enum(LEVELS)),
            ["huge"],
            r"holds 'huge', which is not one of \['low', 'high', 'mid'\]",
        ),
        (pl.Series("a", [dt.date(2020, 1, 1)]), ["x"], r"column 'a' cannot be converted back to Date"),
        (
            pl.Series("a", [dt.datetime(2020, 1, 1)]),
            pd.to_datetime(["2020-01-01"]).tz_localize("UTC"),
            r"converted back to Datetime",
        ),
        (pl.Series("b", [1]), [1], r"must have the columns \['b'\], not \['a'\]"),
    ],
)
def test_what_cannot_be_restored_is_refused(column, cells, sentence):
    with pytest.raises(ValueError, match=sentence):
        Layout.of(pl.DataFrame([column])).restore(pd.DataFrame({"a": cells}))


def test_a_written_layout_is_checked():
    written = Layout.of(pl.DataFrame({"a": [1]})).to_json()
    with pytest.raises(ValueError, match="unknown frame library 'os'"):
        Layout.from_json({**written, "library": "os"})
    with pytest.raises(ValueError, match="column 'a' has the unknown type 'from_native'"):
        Layout.from_json({**written, "columns": [{**written["columns"][0], "dtype": "from_native"}]})
