"""Convert frames of polars and pyarrow to pandas, and pandas frames back to the library and types of the data."""

import base64
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

INTEGERS = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
FLOATS = ("Float32", "Float64")
CATEGORIES = ("Categorical", "Enum")
KNOWN = (*INTEGERS, *FLOATS, *CATEGORIES, "Boolean", "String", "Date", "Datetime")
_HAS_STR = int(pd.__version__.split(".")[0]) >= 3  # pandas 3 has a string dtype with missing values
SECONDS_PER_DAY = 86_400  # without leap seconds, as in all frame libraries
_MS_PER_SECOND = 1_000  # by definition

# --- to pandas -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """The schema of one column."""

    name: str
    dtype: str  # narwhals' name of the type: "Int8", "Float64", "Enum", "Datetime", ...
    unit: str | None = None  # of a "Datetime": "ms"
    zone: str | None = None  # of a "Datetime": "Europe/Berlin"
    categories: tuple[str, ...] | None = None  # in order; None for strings merely stored as categories
    nan: bool = False  # whether missing floats are NaN and not null; where both occur they become null


def as_pandas(native: Any) -> pd.DataFrame | None:
    """Convert a frame of pandas, polars or pyarrow to a dense pandas frame; ``None`` for anything else.

    Integers and booleans with nulls become nullable dtypes, dates ``datetime64[s]``; other numbers keep their width,
    times their unit and zone, and categories their order, as unordered categories.
    """
    if isinstance(native, pd.DataFrame):
        return _densify(native)
    frame = eager(native)
    if frame is None:
        return None
    library = str(frame.implementation)
    return pd.DataFrame(
        {series.name: _as_pandas_column(series, column_of(series, library)) for series in frame.iter_columns()}
    )


def sparse_columns(frame: pd.DataFrame) -> list[int]:
    """Return the positions of the sparse columns of a pandas frame."""
    return [i for i, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.SparseDtype)]


def _densify(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the sparse columns of a pandas frame to dense ones."""
    where = sparse_columns(frame)
    if where:
        frame = frame.copy()
    for i in where:
        frame.isetitem(i, frame.iloc[:, i].sparse.to_dense())
    return frame


def eager(native: Any) -> "nw.DataFrame[Any] | None":
    """Wrap a frame with narwhals; ``None`` if it is not a frame, an error if it is lazy or unsupported."""
    try:
        frame = nw.from_native(native, pass_through=True)
    except Exception as error:  # narwhals does not export the class of this one
        if type(error).__name__ != "DuplicateError":
            raise
        raise ValueError("two columns of the frame have the same name; rename one of them") from None
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"{type(native).__name__} is lazy and has no rows yet: call .collect() first")
    if not isinstance(frame, nw.DataFrame):
        return None
    if str(frame.implementation) not in ("pandas", "polars", "pyarrow"):
        raise TypeError(f"frames of {frame.implementation} are not supported: call .to_pandas() first")
    return frame


def column_of(series: Any, library: str) -> Column:
    """Return the schema of a column; reject unsupported types."""
    dtype = series.dtype
    kind = str(dtype.base_type().__name__)
    name = series.name
    if kind not in KNOWN:
        raise TypeError(
            f"column {name!r} has the type {dtype}, which is not a number, boolean, string, category, date or time: "
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
    """Convert one column to what pandas stores."""
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


# --- back from pandas ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The library, schema and column order of a frame, so that results can be returned in the same form."""

    library: str  # "pandas", "polars" or "pyarrow"
    columns: tuple[Column, ...] = ()  # in order; empty for pandas
    schema: str | None = (
        None  # pyarrow: its schema in base64; pandas: positions and fill values of sparse columns, JSON
    )

    @classmethod
    def of(cls, native: Any) -> "Layout":
        """Record the layout of a frame."""
        if isinstance(native, pd.DataFrame):
            return cls("pandas", schema=_fill_values(native))
        frame = eager(native)
        if frame is None:
            raise TypeError(f"expected a frame of pandas, polars or pyarrow, not {type(native).__name__}")
        library = str(frame.implementation)
        columns = tuple(column_of(series, library) for series in frame.iter_columns())
        schema = base64.b64encode(native.schema.serialize()).decode() if library == "pyarrow" else None
        return cls(library, columns, schema)

    def restore(self, frame: pd.DataFrame) -> Any:
        """Convert a pandas frame with these columns, in any order, to this library and its types."""
        if self.library == "pandas":
            return frame if self.schema is None else _as_sparse(frame, json.loads(self.schema))
        names = [column.name for column in self.columns]
        if sorted(map(str, frame.columns)) != sorted(names):
            raise ValueError(f"the frame must have the columns {names}, not {list(frame.columns)}")
        values = [_as_canonical(frame[column.name], column) for column in self.columns]
        return self._to_arrow(values) if self.library == "pyarrow" else self._to_polars(values)

    def with_floats(self, names: Collection[str]) -> "Layout":
        """Return the layout with these columns as floats where they are integers or booleans."""
        integral = (*INTEGERS, "Boolean")
        changed = [i for i, column in enumerate(self.columns) if column.name in names and column.dtype in integral]
        if not changed:
            return self
        columns = [replace(c, dtype="Float64") if i in changed else c for i, c in enumerate(self.columns)]
        schema = self.schema
        if schema is not None:
            import pyarrow as pa

            own = self._read_arrow_schema()
            for i in changed:
                own = own.set(i, own.field(i).with_type(pa.float64()))
            schema = base64.b64encode(own.serialize()).decode()
        return replace(self, columns=tuple(columns), schema=schema)

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> "Layout":
        """Rebuild a layout from JSON data."""
        if written["library"] not in ("pandas", "polars", "pyarrow"):
            raise ValueError(f"unknown frame library {written['library']!r}")
        columns = []
        for options in written["columns"]:
            if options["dtype"] not in KNOWN:
                raise ValueError(f"column {options['name']!r} has the unknown type {options['dtype']!r}")
            listed = options["categories"]
            columns.append(Column(**{**options, "categories": None if listed is None else tuple(listed)}))
        return cls(written["library"], tuple(columns), written["schema"])

    def _to_polars(self, values: Sequence[pd.Series]) -> Any:
        # native polars columns: narwhals converts its own through Arrow, which fails for categories in polars 1.20
        built = {c.name: _as_polars(s, c).to_native() for c, s in zip(self.columns, values, strict=True)}
        return nw.from_dict(built, backend="polars").to_native()

    def _read_arrow_schema(self) -> Any:
        import pyarrow as pa

        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema or "")))

    def _to_arrow(self, values: Sequence[pd.Series]) -> Any:
        import pyarrow as pa  # installed, since the data were a pyarrow table

        schema = self._read_arrow_schema()
        arrays = []
        for column, series, field in zip(self.columns, values, schema, strict=True):
            if column.dtype == "Categorical":
                series = pd.Categorical(series, column.categories, ordered=field.type.ordered)
            elif column.nan:
                series = series.to_numpy()
            arrays.append(pa.array(series, field.type, from_pandas=not column.nan))
        return pa.table(arrays, schema=schema)


def _fill_values(frame: pd.DataFrame) -> str | None:
    """Return positions and fill values of sparse columns as JSON; ``None`` if there are none."""
    where = sparse_columns(frame)
    fills = [frame.dtypes.iloc[i].fill_value for i in where]
    for i, fill in zip(where, fills, strict=True):
        if not isinstance(fill, (bool, int, float, str, np.bool_, np.number)):
            raise TypeError(
                f"column {str(frame.columns[i])!r} of {frame.dtypes.iloc[i]} is sparse, but only numbers, booleans "
                "and strings may be: convert it with .sparse.to_dense()"
            )
    plain = [fill.item() if isinstance(fill, np.generic) else fill for fill in fills]
    return json.dumps(list(zip(where, plain, strict=True))) if where else None


def _as_sparse(frame: pd.DataFrame, fills: Sequence[tuple[int, Any]]) -> pd.DataFrame:
    """Make columns of a pandas frame sparse, by position and fill value."""
    frame = frame.copy(deep=False)
    for i, fill in fills:
        column = frame.iloc[:, i]
        frame.isetitem(i, pd.arrays.SparseArray(column.to_numpy(), fill_value=fill, dtype=column.dtype))
    return frame


def _as_canonical(series: pd.Series, column: Column) -> pd.Series:
    """Convert a pandas column to the canonical form from which its original type is restored."""
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
                raise ValueError(f"times with and without a time zone cannot be mixed, and it had {column.zone}")
            return (series.dt.tz_convert("UTC") if column.zone else series).astype(
                f"datetime64[{column.unit or 's'}{', UTC' if column.zone else ''}]"
            )
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"column {column.name!r} cannot be converted back to {kind}: {error}") from None
    objects = series.astype(object)
    if objects.isna().any():
        objects = objects.where(objects.notna(), None)
    if column.categories is not None:
        new = [value for value in objects.unique() if value is not None and value not in column.categories]
        if new:
            raise ValueError(f"column {column.name!r} holds {new[0]!r}, which is not one of {list(column.categories)}")
    return objects


def _as_polars(series: pd.Series, column: Column) -> Any:
    """Convert a canonical column to a polars column."""
    kind, new_series = column.dtype, nw.new_series
    if kind in ("Date", "Datetime"):
        plain = series.dt.tz_localize(None) if column.zone else series
        counts = plain.to_numpy().astype("int64")
        counts = counts // SECONDS_PER_DAY if kind == "Date" else counts
        missing = series.isna().to_numpy()
        values: Any = counts
        if missing.any():
            values = [None if absent else count for count, absent in zip(counts.tolist(), missing, strict=True)]
        time = nw.Date() if kind == "Date" else nw.Datetime(column.unit, column.zone)  # type: ignore[arg-type]
        counted = new_series(column.name, values, nw.Int64, backend="polars")
        return (counted.cast(nw.Int32) if kind == "Date" else counted).cast(time)
    integral = kind in INTEGERS or kind == "Boolean"
    if (kind in FLOATS and column.nan) or ((kind in FLOATS or integral) and not series.isna().any()):
        values = series.to_numpy(dtype="bool" if kind == "Boolean" else kind.lower())
        return new_series(column.name, values, getattr(nw, kind), backend="polars")
    dtype = nw.Enum(column.categories or ()) if kind == "Enum" else getattr(nw, kind)()
    values = series.tolist()
    if integral or kind in FLOATS:
        values = [None if absent else value for value, absent in zip(values, series.isna(), strict=True)]
    return new_series(column.name, values, dtype, backend="polars")
