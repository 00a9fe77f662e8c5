"""Rows as JSON, and JSON as predictions: what goes over the wire and how it is checked."""

import datetime
import hashlib
import json
import math
import reprlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import is_number
from gbce.predictors._predictor import PredictionError

__all__ = ["Answer", "as_body", "brief", "json_rows", "parse", "predictions", "row_keys"]

Answer = float | tuple[float, ...]

_LARGEST_FLOAT = sys.float_info.max
# Characters of an answer that a sentence shows, by hand: of one value in it, and in all.
_SHOWN_OF_VALUE, _SHOWN = 60, 80
_KEY_BYTES = 16  # of a row's digest: at 128 bits two rows in a cache never meet by chance
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _SHOWN_OF_VALUE


def json_rows(table: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of a frame as values of JSON: numbers, text, booleans, null for what is missing."""
    columns = [_json_column(table.iloc[:, j]) for j in range(table.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)]


def _json_column(column: pd.Series) -> list[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        return list(column.tolist())
    return [_json_value(value, str(column.name)) for value in column.tolist()]


def _json_value(value: Any, column: str) -> Any:
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"column {column!r} holds {value}, which is not representable in JSON")
        return None if math.isnan(value) else value + 0.0  # minus zero is zero, in whatever is remembered
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(
        f"column {column!r} holds {type(value).__name__} {value!r:.40}, which is not representable in JSON: hold "
        "numbers, text, booleans or dates in it"
    )


def row_keys(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return a short key of the content of each row."""
    start = hashlib.blake2b(json.dumps(columns).encode(), digest_size=_KEY_BYTES)
    keys = []
    for row in rows:
        one = start.copy()
        one.update(json.dumps(row).encode())
        keys.append(one.digest())
    return keys


def as_body(payload: Any) -> bytes:
    """Return what is sent: text and bytes as they are, anything else as JSON."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    return json.dumps(payload, allow_nan=False).encode()


def parse(content: bytes) -> Any:
    """Return the JSON of an answer, or say that it is none."""
    try:
        return json.loads(content)
    except RecursionError:
        raise PredictionError(f"it answered JSON that is nested too deep: {_beginning(content)!r}") from None
    except ValueError:
        raise PredictionError(f"it answered something that is not JSON: {_beginning(content)!r}") from None


def _beginning(content: bytes) -> str:
    return content[:_SHOWN].decode("utf-8", "replace")


def predictions(answer: Any, rows: int) -> list[Answer]:
    """Return one number, or one tuple of numbers, per row of a decoded answer; or say what is wrong with it."""
    if isinstance(answer, dict) and "predictions" in answer:
        answer = answer["predictions"]
    if isinstance(answer, (np.ndarray, pd.Series)):
        answer = answer.tolist()
    if not isinstance(answer, (list, tuple)):
        raise PredictionError(f'a list or {{"predictions": [...]}} was expected, but it returned {_short(answer)}')
    if len(answer) != rows:
        raise PredictionError(f"{len(answer):,} predictions for {rows:,} rows")
    result = [_prediction(value, i) for i, value in enumerate(answer)]
    if len({len(one) if isinstance(one, tuple) else 0 for one in result}) > 1:
        raise PredictionError("predictions must all be numbers or all be lists of one length")
    return result


def _prediction(value: Any, i: int) -> Answer:
    if isinstance(value, (list, tuple)) and value:
        return tuple(_number(part, i) for part in value)
    return _number(value, i)


def _number(value: Any, i: int) -> float:
    if not is_number(value) or not abs(value) <= _LARGEST_FLOAT:  # a whole number may be too large for a float
        raise PredictionError(f"prediction {i} is {_short(value)}, where a finite number belongs")
    return float(value)


def _short(value: Any) -> str:
    return "null" if value is None else f"{type(value).__name__} {brief(value)}"


def brief(value: Any) -> str:
    """Return a value as a sentence shows it, however large or deep it is."""
    return _BRIEF.repr(value)[:_SHOWN]
