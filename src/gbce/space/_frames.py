"""From a pandas frame back to the library and the types that the data came in."""

import base64
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
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
    "Layout",
    "as_pandas",
    "column_of",
    "eager",
    "sparse_columns",
]

# --- from a frame of another library to a pandas frame, column by column ---------------------------------------------

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


# --- from a pandas frame back to the library and the types that the data came in -------------------------------------


@dataclass(frozen=True)
class Layout:
    """The library, schema and column order of a frame, to give results in the form that the data came in.

    Parameters
    ----------
    library : {"pandas", "polars", "pyarrow"}
        Where the frame comes from.
    columns : tuple of Column
        In their order; empty for pandas, whose frames need no change but for sparse columns.
    schema : str, optional
        Of pyarrow: its own schema, in base64. Of pandas: positions and fill values of sparse columns, in JSON.

    Examples
    --------
    >>> from gbce.space._frames import as_pandas
    >>> data = pd.DataFrame({"age": [40, 50]})
    >>> Layout.of(data).restore(as_pandas(data)).equals(data)
    True
    """

    library: str
    columns: tuple[Column, ...] = ()
    schema: str | None = None

    @classmethod
    def of(cls, native: Any) -> "Layout":
        """Read the layout off a frame."""
        if isinstance(native, pd.DataFrame):
            return cls("pandas", schema=_fill_values(native))
        frame = eager(native)
        if frame is None:
            raise TypeError(f"a frame of pandas, polars or pyarrow is needed, not {type(native).__name__}")
        library = str(frame.implementation)
        columns = tuple(column_of(series, library) for series in frame.iter_columns())
        schema = base64.b64encode(native.schema.serialize()).decode() if library == "pyarrow" else None
        return cls(library, columns, schema)

    def restore(self, frame: pd.DataFrame) -> Any:
        """Return a pandas frame with these columns, in any order, as a frame of the library and with its types."""
        if self.library == "pandas":
            return frame if self.schema is None else _as_sparse(frame, json.loads(self.schema))
        names = [column.name for column in self.columns]
        if sorted(map(str, frame.columns)) != sorted(names):
            raise ValueError(f"the frame must have the columns {names}, not {list(frame.columns)}")
        values = [_as_canonical(frame[column.name], column) for column in self.columns]
        return self._arrow(values) if self.library == "pyarrow" else self._polars(values)

    def with_floats(self, names: Collection[str]) -> "Layout":
        """Return the layout with these columns as floats where they are whole numbers or booleans."""
        whole = (*INTEGERS, "Boolean")
        changed = [i for i, column in enumerate(self.columns) if column.name in names and column.dtype in whole]
        if not changed:
            return self
        columns = [replace(c, dtype="Float64") if i in changed else c for i, c in enumerate(self.columns)]
        schema = self.schema
        if schema is not None:
            import pyarrow as pa

            own = self._arrow_schema()
            for i in changed:
                own = own.set(i, own.field(i).with_type(pa.float64()))
            schema = base64.b64encode(own.serialize()).decode()
        return replace(self, columns=tuple(columns), schema=schema)

    def to_json(self) -> dict[str, Any]:
        """Return what :func:`json.dumps` can write."""
        return asdict(self)

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> "Layout":
        """Rebuild a layout from what was written."""
        if written["library"] not in ("pandas", "polars", "pyarrow"):
            raise ValueError(f"unknown library of frames {written['library']!r}")
        columns = []
        for options in written["columns"]:
            if options["dtype"] not in KNOWN:
                raise ValueError(f"column {options['name']!r} has the unknown type {options['dtype']!r}")
            listed = options["categories"]
            columns.append(Column(**{**options, "categories": None if listed is None else tuple(listed)}))
        return cls(written["library"], tuple(columns), written["schema"])

    def _polars(self, values: Sequence[pd.Series]) -> Any:
        # polars' own columns: those of narwhals are read through Arrow, which fails for categories in polars 1.20
        built = {c.name: _as_polars(s, c).to_native() for c, s in zip(self.columns, values, strict=True)}
        return nw.from_dict(built, backend="polars").to_native()

    def _arrow_schema(self) -> Any:
        import pyarrow as pa

        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema or "")))

    def _arrow(self, values: Sequence[pd.Series]) -> Any:
        import pyarrow as pa  # only where a frame of its came in

        schema = self._arrow_schema()
        arrays = []
        for column, series, field in zip(self.columns, values, schema, strict=True):
            if column.dtype == "Categorical":
                series = pd.Categorical(series, column.categories, ordered=field.type.ordered)
            elif column.nan:
                series = series.to_numpy()
            arrays.append(pa.array(series, field.type, from_pandas=not column.nan))
        return pa.table(arrays, schema=schema)


def _fill_values(frame: pd.DataFrame) -> str | None:
    """Return what is left out in each sparse column, by position, as JSON; none if there are no such columns."""
    where = sparse_columns(frame)
    fills = [frame.dtypes.iloc[i].fill_value for i in where]
    for i, fill in zip(where, fills, strict=True):
        if not isinstance(fill, (bool, int, float, str, np.bool_, np.number)):
            raise TypeError(
                f"column {str(frame.columns[i])!r} of {frame.dtypes.iloc[i]} is sparse, which only numbers, booleans "
                "and texts can be: write it out with .sparse.to_dense()"
            )
    plain = [fill.item() if isinstance(fill, np.generic) else fill for fill in fills]
    return json.dumps(list(zip(where, plain, strict=True))) if where else None


def _as_sparse(frame: pd.DataFrame, fills: Sequence[tuple[int, Any]]) -> pd.DataFrame:
    """Return a pandas frame with some columns sparse."""
    frame = frame.copy(deep=False)
    for i, fill in fills:
        column = frame.iloc[:, i]
        frame.isetitem(i, pd.arrays.SparseArray(column.to_numpy(), fill_value=fill, dtype=column.dtype))
    return frame


def _as_canonical(series: pd.Series, column: Column) -> pd.Series:
    """Return a pandas column in the one form its type is restored from, or say what does not fit."""
    kind = column.dtype
    try:
        if kind in INTEGERS:
            return series.astype(kind)
        if kind == "Boolean":
            return series.astype("boolean")
        if kind in FLOATS:
            return pd.Series(series.to_numpy(dtype=kind.lower(), na_value=np.nan))
        if kind in ("Date", "Datetime"):
            if (column.zone is None) != (getattr(series.dtype, "tz", None) is None):
                raise ValueError(f"times with a zone and times without do not compare, and it had {column.zone}")
            return (series.dt.tz_convert("UTC") if column.zone else series).astype(
                f"datetime64[{column.unit or 's'}{', UTC' if column.zone else ''}]"
            )
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"column {column.name!r} cannot be made {kind} again: {error}") from None
    text = series.astype(object)
    if text.isna().any():
        text = text.where(text.notna(), None)
    if column.categories is not None:
        new = [value for value in text.unique() if value is not None and value not in column.categories]
        if new:
            raise ValueError(f"column {column.name!r} holds {new[0]!r}, which is none of {list(column.categories)}")
    return text


def _as_polars(series: pd.Series, column: Column) -> Any:
    """Return a canonical column as a column of polars."""
    kind, make = column.dtype, nw.new_series
    if kind in ("Date", "Datetime"):
        plain = series.dt.tz_localize(None) if column.zone else series
        counts = plain.to_numpy().astype("int64")
        counts = counts // SECONDS_PER_DAY if kind == "Date" else counts
        gone = series.isna().to_numpy()
        listed: Any = counts
        if gone.any():
            listed = [None if lost else count for count, lost in zip(counts.tolist(), gone, strict=True)]
        time = nw.Date() if kind == "Date" else nw.Datetime(column.unit, column.zone)  # type: ignore[arg-type]
        counted = make(column.name, listed, nw.Int64, backend="polars")
        return (counted.cast(nw.Int32) if kind == "Date" else counted).cast(time)
    whole = kind in INTEGERS or kind == "Boolean"
    if (kind in FLOATS and column.nan) or ((kind in FLOATS or whole) and not series.isna().any()):
        values = series.to_numpy(dtype="bool" if kind == "Boolean" else kind.lower())
        return make(column.name, values, getattr(nw, kind), backend="polars")
    dtype = nw.Enum(column.categories or ()) if kind == "Enum" else getattr(nw, kind)()
    listed = series.tolist()
    if whole or kind in FLOATS:
        listed = [None if gone else value for value, gone in zip(listed, series.isna(), strict=True)]
    return make(column.name, listed, dtype, backend="polars")
