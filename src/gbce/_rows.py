"""Whatever a user calls rows, as a table of floats: the checks every row passes on its way in."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gbce._weights import Array

__all__ = ["as_float_columns", "as_table", "holds"]


def as_table(rows: Any, what: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return ``rows`` as a DataFrame, unconverted.

    A frame, a Series or a mapping keeps its names; an array gets ``names``, or x1, x2, ... where there are none.
    """
    if isinstance(rows, pd.DataFrame):
        table = rows
    elif isinstance(rows, pd.Series):
        by_position = names is not None and isinstance(rows.index, pd.RangeIndex) and len(rows) == len(names)
        values = rows.to_list()
        table = pd.DataFrame([values], columns=list(names) if by_position and names else list(rows.index))
    elif isinstance(rows, Mapping):
        table = pd.DataFrame([dict(rows)])
    else:
        table = _from_array(rows, what, names)
    if table.shape[1] == 0:
        raise ValueError(f"{what} has no columns")
    if len(table) == 0:
        raise ValueError(f"{what} has no rows")
    return table


def _from_array(rows: Any, what: str, names: Sequence[str] | None) -> pd.DataFrame:
    try:
        array = np.asarray(rows)
    except ValueError as error:
        raise ValueError(f"{what} is not a rectangular table: {error}") from None
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim == 0:
        raise ValueError(f"{what} must be a table with rows and columns, not {rows!r}")
    if array.ndim != 2:
        raise ValueError(f"{what} must be a table with rows and columns, not an array of shape {array.shape}")
    if names is None:
        names = [f"x{j + 1}" for j in range(array.shape[1])]
    if array.shape[1] != len(names):
        raise ValueError(f"{what} has {array.shape[1]} columns, but the model's rows have {len(names)}: {list(names)}")
    if array.dtype.kind in "OUS":
        array = np.asarray(rows, dtype=object).reshape(array.shape)
    return pd.DataFrame(array, columns=list(names))


def as_float_columns(table: pd.DataFrame, what: str) -> Array:
    """Return the table as float64 ``(n, d)``; a text, a missing or an infinite value is named with its place."""
    if all(dtype.kind in "fiu" and isinstance(dtype, np.dtype) for dtype in table.dtypes):
        x = np.array(table, dtype=float)
    else:
        x = np.column_stack([_as_float(table.iloc[:, j], what) for j in range(table.shape[1])])
    bad = ~np.isfinite(x)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        more = f" ({int(bad.sum())} such values in all)" if bad.sum() > 1 else ""
        raise ValueError(
            f"{what}: column {str(table.columns[j])!r} is {x[i, j]} in row {table.index[i]!r}{more}. "
            "Fill in or drop missing and infinite values first."
        )
    return x


def _as_float(column: pd.Series, what: str) -> Array:
    if column.dtype.kind in "fiub":
        return column.to_numpy(dtype=float, na_value=np.nan)
    for label, value in column.items():
        if value is None or value is pd.NA:
            continue  # reported as missing by the caller
        if not isinstance(value, (int, float, np.number, np.bool_)):
            raise ValueError(
                f"{what}: column {str(column.name)!r} holds {value!r} in row {label!r} where a number belongs. "
                "Encode it as a number before the model, or drop the column."
            )
    return pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)


def holds(x: Array, dtype: str) -> Array:
    """Whether a column of this dtype holds each value as it is; every float column does, up to its precision."""
    kind = pd.api.types.pandas_dtype(dtype)
    if kind.kind not in "iub":
        return np.ones(len(x), dtype=bool)
    whole = np.iinfo(getattr(kind, "numpy_dtype", kind)) if kind.kind in "iu" else None
    low, high = (whole.min, whole.max) if whole else (0, 1)
    return (x == np.round(x)) & (x >= low) & (x <= high)
