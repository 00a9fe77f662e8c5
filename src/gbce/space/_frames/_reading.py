"""From a frame of another library to a pandas frame, column by column."""

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

__all__ = [
    "CATEGORIES",
    "FLOATS",
    "INTEGERS",
    "KNOWN",
    "SECONDS_PER_DAY",
    "Column",
    "as_pandas",
    "column_of",
    "eager",
    "sparse_columns",
]

INTEGERS = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
FLOATS = ("Float32", "Float64")
CATEGORIES = ("Categorical", "Enum")
KNOWN = (*INTEGERS, *FLOATS, *CATEGORIES, "Boolean", "String", "Date", "Datetime")
_HAS_STR = int(pd.__version__.split(".")[0]) >= 3  # pandas 3 has a string type that knows missing values
SECONDS_PER_DAY = 86_400  # of a calendar without leap seconds, as all frames count
_MS_PER_SECOND = 1_000  # by definition


@dataclass(frozen=True)
class Column:
    """What a column was: plain data.

    Parameters
    ----------
    name : str
        Its name.
    dtype : str
        One of the names narwhals has for types: ``"Int8"``, ``"Float64"``, ``"Enum"``, ``"Datetime"``, ...
    unit, zone : str, optional
        Of a ``"Datetime"``: ``"ms"``, ``"Europe/Berlin"``.
    categories : tuple of str, optional
        In their order; none for strings that are only stored as categories.
    nan : bool
        Whether what is missing in a float column is NaN and not null; where both occur it becomes null.
    """

    name: str
    dtype: str
    unit: str | None = None
    zone: str | None = None
    categories: tuple[str, ...] | None = None
    nan: bool = False


def as_pandas(native: Any) -> pd.DataFrame | None:
    """Return a frame as a pandas frame, or ``None`` if it is no frame.

    Parameters
    ----------
    native : object
        A frame of pandas, which comes back as it is but for sparse columns, of polars or of pyarrow. Integers and
        booleans with nulls become pandas' nullable types, other numbers keep their width; dates become
        ``datetime64[s]``, times keep their unit and zone, categories their order, without a rank.

    Examples
    --------
    >>> as_pandas([1, 2]) is None
    True
    """
    if isinstance(native, pd.DataFrame):
        return _dense(native)
    frame = eager(native)
    if frame is None:
        return None
    library = str(frame.implementation)
    return pd.DataFrame(
        {series.name: _as_pandas_column(series, column_of(series, library)) for series in frame.iter_columns()}
    )


def sparse_columns(frame: pd.DataFrame) -> list[int]:
    """Return the positions of the columns of a pandas frame that are stored sparsely."""
    return [i for i, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.SparseDtype)]


def _dense(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a pandas frame with its sparse columns written out."""
    where = sparse_columns(frame)
    if where:
        frame = frame.copy()
    for i in where:
        frame.isetitem(i, frame.iloc[:, i].sparse.to_dense())
    return frame


def eager(native: Any) -> "nw.DataFrame[Any] | None":
    """Return the frame as narwhals sees it, none if it is not one; refuse those that cannot be read."""
    try:
        frame = nw.from_native(native, pass_through=True)
    except Exception as error:  # narwhals does not export the class of this one
        if type(error).__name__ != "DuplicateError":
            raise
        raise ValueError("two columns of the frame have the same name; rename one of them") from None
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"{type(native).__name__} is lazy, and its rows are not there yet: call .collect() first")
    if not isinstance(frame, nw.DataFrame):
        return None
    if str(frame.implementation) not in ("pandas", "polars", "pyarrow"):
        raise TypeError(f"frames of {frame.implementation} are not read: call .to_pandas() first")
    return frame


def column_of(series: Any, library: str) -> Column:
    """Return what a column is, or say that it cannot be read."""
    dtype = series.dtype
    kind = str(dtype.base_type().__name__)
    name = series.name
    if kind not in KNOWN:
        raise TypeError(
            f"column {name!r} has the type {dtype}, which is no number, boolean, string, category, date or time: "
            "convert or drop it"
        )
    if isinstance(dtype, nw.Datetime):
        return Column(name, kind, dtype.time_unit, dtype.time_zone)
    if isinstance(dtype, nw.Enum):
        return Column(name, kind, categories=tuple(dtype.categories))
    if kind == "Categorical" and library == "pyarrow":
        value_type = series.to_native().type.value_type
        if "string" not in str(value_type):
            raise TypeError(f"column {name!r} has categories of type {value_type}; only strings can be categories")
        return Column(name, kind, categories=tuple(series.cat.get_categories().to_list()))
    return Column(name, kind, nan=kind in FLOATS and bool(series.is_nan().any()) and not series.is_null().any())


def _as_pandas_column(series: Any, column: Column) -> Any:
    """Return a column as pandas stores it."""
    kind = column.dtype
    missing = series.is_null().to_numpy()
    if kind in CATEGORIES:
        categories = series.cat.get_categories().to_list() if column.categories is None else column.categories
        return pd.Categorical(series.to_list(), categories=list(categories))
    if kind == "String":
        return pd.array(series.to_list(), dtype="str") if _HAS_STR else np.array(series.to_list(), object)
    if kind in FLOATS:
        return np.where(missing, np.nan, series.fill_null(0.0).to_numpy()).astype(kind.lower())
    if kind in ("Date", "Datetime"):
        counts = series.dt.timestamp("ms") // _MS_PER_SECOND if kind == "Date" else series.cast(nw.Int64)
        times = counts.fill_null(0).to_numpy().astype("int64").view(f"datetime64[{column.unit or 's'}]")
        times = pd.Series(np.where(missing, np.array("NaT", times.dtype), times))
        return times if column.zone is None else times.dt.tz_localize("UTC").dt.tz_convert(column.zone)
    if kind == "Boolean":
        known = series.fill_null(False).to_numpy().astype(bool)
        return pd.arrays.BooleanArray(known, missing.copy()) if missing.any() else known
    whole = series.fill_null(0).to_numpy().astype(kind.lower())
    return pd.arrays.IntegerArray(whole, missing.copy()) if missing.any() else whole
