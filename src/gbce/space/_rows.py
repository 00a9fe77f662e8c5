"""Whatever a user calls rows, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gbce.space._frames import as_pandas

__all__ = ["as_table", "unmasked"]


def as_table(rows: Any, what: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return ``rows`` as a DataFrame, unconverted.

    A frame (of pandas, polars or pyarrow), a Series or a mapping keeps its names; an array gets ``names``, or x1, x2,
    ... where there are none.
    """
    frame = as_pandas(rows)
    if frame is not None:
        table = frame
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


def unmasked(values: Any) -> Any:
    """Return values as they are, but a masked array as a plain one with NaN, or None among objects, for what is masked.

    Examples
    --------
    >>> unmasked(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain, hidden = np.asarray(values), np.ma.getmaskarray(values)
    if not hidden.any():
        return plain
    blank: Any = np.nan if plain.dtype.kind in "fiub" else None
    return np.where(hidden, blank, plain)


def _from_array(rows: Any, what: str, names: Sequence[str] | None) -> pd.DataFrame:
    if isinstance(rows, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in rows):
        rows = np.ma.array(rows)
    rows = unmasked(rows)
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
