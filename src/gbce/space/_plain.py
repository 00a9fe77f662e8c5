"""Values and tables as a reader of JSON wants them: plain, and in words; a file that is read back has its own way."""

import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["plain_records", "plain_value"]


def plain_value(value: Any) -> Any:
    """Return a value as strict JSON has it: texts, finite numbers, booleans, ``None``, lists and mappings of them.

    What is missing or not finite is ``None``. Moments, days and times of day are texts in ISO 8601, and so are spans;
    intervals, periods and decimals are as they print, bytes are hexadecimal. A tuple, set or array is a list.

    Examples
    --------
    >>> plain_value({"when": pd.Timestamp("2024-05-01"), "how": (np.float64("nan"), np.int8(3))})
    {'when': '2024-05-01T00:00:00', 'how': [None, 3]}
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.generic) and value.dtype.kind in "biufSU":
        value = float(value) if value.dtype.kind == "f" else value.item()  # the item of a long double is one again
    if value is None or value is pd.NaT or value is pd.NA or isinstance(value, bool):
        return value if isinstance(value, bool) else None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, (pd.Series, pd.Index, np.ndarray)) and value.ndim:
        return [plain_value(one) for one in value]
    if isinstance(value, (list, tuple)):
        return [plain_value(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain_value(one) for one in value), key=str)
    return _in_words(value)


def _in_words(value: Any) -> Any:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        value = pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value)
        return None if value is pd.NaT else value.isoformat()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return pd.Timedelta(value).isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    return str(value)


def plain_records(frame: pd.DataFrame, *, values: str | None = None) -> list[dict[str, Any]]:
    """Return a table as a list of mappings, one for each line, plain: names of the index come first.

    Parameters
    ----------
    frame : DataFrame
        A level of its index without a name is left out; names of columns are taken as texts.
    values : str, optional
        Under which key the columns stand as a mapping of their own, so that no name of a user's column can be taken
        for another; beside the names of the index when left out.

    Returns
    -------
    list of dict
        As :func:`plain_value` has them.

    Examples
    --------
    >>> plain_records(pd.DataFrame({"rule": [1.5]}, index=pd.Index(["MAP"], name="rule")), values="values")
    [{'rule': 'MAP', 'values': {'rule': 1.5}}]
    """
    names = [str(label) for label in frame.columns]
    columns = [_cells(frame.iloc[:, j]) for j in range(len(names))]
    levels = {
        str(name): _cells(frame.index.get_level_values(level))
        for level, name in enumerate(frame.index.names)
        if name is not None
    }
    lines = []
    for i in range(len(frame)):
        own = {name: column[i] for name, column in zip(names, columns, strict=True)}
        lines.append({name: level[i] for name, level in levels.items()} | (own if values is None else {values: own}))
    return lines


def _cells(column: Iterable[Any]) -> list[Any]:
    return [plain_value(value) for value in column]
