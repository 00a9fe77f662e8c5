"""From a pandas frame back to the library and the types that the data came in."""

import base64
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from gbce.space._frames._reading import (
    FLOATS,
    INTEGERS,
    KNOWN,
    SECONDS_PER_DAY,
    Column,
    column_of,
    eager,
    sparse_columns,
)

__all__ = ["Layout"]


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
