"""Values of every kind as strict JSON has them."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from gbce.space import plain_records, plain_value


class Colour(Enum):
    RED = 1.5


class Word(StrEnum):
    YES = "yes"


VALUES = [
    (None, None),
    (True, True),
    (np.bool_(False), False),
    (3, 3),
    (np.int8(3), 3),
    (10**30, 10**30),
    (1.5, 1.5),
    (np.float32(0.5), 0.5),
    (np.longdouble(0.5), 0.5),
    (float("nan"), None),
    (float("inf"), None),
    (np.float64("-inf"), None),
    (pd.NA, None),
    (pd.NaT, None),
    (np.datetime64("NaT", "s"), None),
    (Decimal("NaN"), None),
    ("text", "text"),
    (np.str_("text"), "text"),
    ("\ud800 lone", "\ud800 lone"),
    (Word.YES, "yes"),
    (Colour.RED, 1.5),
    (pd.Timestamp("2024-05-01 12:30"), "2024-05-01T12:30:00"),
    (pd.Timestamp("2024-05-01", tz="Europe/Rome"), "2024-05-01T00:00:00+02:00"),
    (datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01T00:00:00+00:00"),
    (np.datetime64("2024-05-01"), "2024-05-01T00:00:00"),
    (date(2024, 5, 1), "2024-05-01"),
    (time(8, 30), "08:30:00"),
    (timedelta(days=1, seconds=2), "P1DT0H0M2S"),
    (np.timedelta64(90, "s"), "P0DT0H1M30S"),
    (pd.Period("2024-05", freq="M"), "2024-05"),
    (pd.Interval(0.0, 3.5), "(0.0, 3.5]"),
    (Decimal("0.10"), "0.10"),
    (Fraction(1, 3), "1/3"),
    (b"\x00\xff", "00ff"),
    (("a", (1, float("nan"))), ["a", [1, None]]),
    ({3, 1, 2}, [1, 2, 3]),
    (np.array([[1.0, np.nan], [2.0, 3.0]]), [[1.0, None], [2.0, 3.0]]),
    (pd.Series([1, pd.NA], dtype="Int64"), [1, None]),
    ({1: np.int64(2), ("a", 1): None}, {"1": 2, "('a', 1)": None}),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=[repr(value)[:40] for value, _ in VALUES])
def test_a_value_is_plain_and_comes_back_from_strict_json(value, expected):
    found = plain_value(value)
    assert found == expected
    assert type(found) is type(expected)
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


def test_records_have_the_index_first_and_missing_values_as_none():
    frame = pd.DataFrame(
        {"a": pd.Categorical(["x", None]), 7: pd.array([1, None], dtype="Int64")},
        index=pd.MultiIndex.from_arrays([["r", "s"], ["MAP", "Mean"]], names=["row", "rule"]),
    )
    assert plain_records(frame) == [
        {"row": "r", "rule": "MAP", "a": "x", "7": 1},
        {"row": "s", "rule": "Mean", "a": None, "7": None},
    ]
    assert plain_records(frame, values="values")[0] == {"row": "r", "rule": "MAP", "values": {"a": "x", "7": 1}}
    assert plain_records(frame.reset_index(drop=True).iloc[:0]) == []
    assert list(plain_records(frame)[0]) == ["row", "rule", "a", "7"]
