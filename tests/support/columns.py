"""Columns of every kind, for hypothesis: pandas frames as users have them."""

import datetime as dt

import numpy as np
import pandas as pd
from hypothesis import strategies as st

WORDS = ("", "a", "b b", "Ü", "0")
MOMENTS = tuple(pd.to_datetime(["2020-01-01", "2019-03-04"]).as_unit("ms"))
ZONED = tuple(pd.to_datetime(["2020-01-01", "2019-03-04"]).tz_localize("Europe/Berlin"))
UNITS = ("s", "ms", "us", "ns")
_NUMBERS = st.just(0.0) | st.floats(1e-6, 1e9) | st.floats(-1e9, -1e-6)


def _cells(element, n, gap):
    """``n`` cells, two of which differ, and gaps where allowed."""
    inner = st.lists(element, min_size=n, max_size=n)
    if gap is not ...:
        inner = st.tuples(inner, st.lists(st.booleans(), min_size=n, max_size=n)).map(
            lambda pair: [gap if gone else cell for cell, gone in zip(*pair, strict=True)]
        )

    def spread(cells):
        known = [c for c in cells if c is not gap and not pd.isna(c)]
        return len(set(known)) > 1

    return inner.filter(spread)


@st.composite
def floats(draw, n):
    dtype = draw(st.sampled_from(["float64", "float32", "Float64", "Float32"]))
    element = _NUMBERS if dtype.endswith("64") else st.integers(-(2**20), 2**20).map(lambda k: k / 1024)
    gap = draw(st.sampled_from([..., pd.NA if dtype[0] == "F" else np.nan]))
    return pd.array(draw(_cells(element, n, gap)), dtype=dtype)


@st.composite
def integers(draw, n):
    bits = draw(st.sampled_from([8, 16, 32, 64]))
    sign = draw(st.sampled_from(["int", "uint"]))
    most = 2**53 - 1 if bits == 64 else np.iinfo(f"{sign}{bits}").max
    least = 0 if sign == "uint" else -most
    gap = draw(st.sampled_from([..., pd.NA]))
    dtype = f"{sign}{bits}"
    if gap is pd.NA or draw(st.booleans()):
        dtype = {"i": "Int", "u": "UInt"}[dtype[0]] + str(bits)
    return pd.array(draw(_cells(st.integers(least, most), n, gap)), dtype=dtype)


@st.composite
def booleans(draw, n):
    gap = draw(st.sampled_from([..., pd.NA]))
    dtype = "boolean" if gap is pd.NA else draw(st.sampled_from(["bool", "boolean"]))
    return pd.array(draw(_cells(st.booleans(), n, gap)), dtype=dtype)


@st.composite
def texts(draw, n):
    dtype = draw(st.sampled_from(["str", "object", "string"]))
    gaps = {"str": [..., np.nan], "object": [..., None, np.nan], "string": [..., pd.NA]}[dtype]
    cells = draw(_cells(st.sampled_from(WORDS), n, draw(st.sampled_from(gaps))))
    return pd.Series(cells, dtype=dtype).array


@st.composite
def categories(draw, n):
    levels = draw(st.sampled_from([WORDS, (3, 1, 2), (0.5, -1.0), (True, False), MOMENTS, ZONED]))
    levels = draw(st.permutations(levels))
    gap = draw(st.sampled_from([..., np.nan]))
    cells = draw(_cells(st.sampled_from(levels), n, gap))
    return pd.Categorical(cells, categories=levels, ordered=draw(st.booleans()))


@st.composite
def times(draw, n):
    unit, zone = draw(st.sampled_from(UNITS)), draw(st.sampled_from([None, "UTC", "Europe/Berlin", "Asia/Kolkata"]))
    step = draw(st.sampled_from([86_400, 3_600, 60, 1]))
    start = dt.datetime(1980, 1, 1)
    element = st.integers(0, 80 * 365 * 86_400 // step).map(lambda k: start + dt.timedelta(seconds=k * step))
    cells = draw(_cells(element, n, draw(st.sampled_from([..., pd.NaT]))))
    column = pd.Series(pd.DatetimeIndex(cells).as_unit(unit))
    return column.array if zone is None else column.dt.tz_localize("UTC").dt.tz_convert(zone).array


KINDS = {
    "floats": floats, "integers": integers, "booleans": booleans, "texts": texts, "categories": categories,
    "times": times,
}  # fmt: skip
LABELS = ["a", "b c", 0, 7, "Ü%", "x1", "", "if"]


def indices(n):
    return st.sampled_from(
        [
            pd.RangeIndex(n),
            pd.Index(["same"] * n),
            pd.date_range("2020-01-01", periods=n),
            pd.MultiIndex.from_product([["m"], range(n)]),
            pd.Index(range(n, 0, -1), name="id"),
        ]
    )


@st.composite
def frames(draw, kinds=tuple(KINDS), most=5):
    """A frame of columns of these kinds, under odd labels and any index."""
    n = draw(st.integers(3, 7))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=most))
    labels = draw(st.permutations(LABELS))[: len(chosen)]
    columns = {label: draw(KINDS[kind](n)) for label, kind in zip(labels, chosen, strict=True)}
    return pd.DataFrame(columns).set_axis(draw(indices(n)), axis=0)


@st.composite
def one_hot_frames(draw):
    """Columns of zeros and ones that spell one category, beside a number: frame and whether all may be zero."""
    k, base = draw(st.integers(2, 4)), draw(st.booleans())
    codes = draw(st.lists(st.integers(0, k - 1 + base), min_size=3, max_size=6).filter(lambda c: len(set(c)) > 1))
    dtype = draw(st.sampled_from(["int64", "uint8", "bool", "float64", "float32", "Int64", "boolean"]))
    frame = pd.DataFrame({f"city_{j}": pd.Series([int(c == j) for c in codes]).astype(dtype) for j in range(k)})
    frame.insert(draw(st.integers(0, k)), "x", np.arange(float(len(codes))))
    return frame, base
