"""Convert spaces to and from JSON for files, and values and tables to plain JSON for other programs."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

from gbce.space._codecs import Codec, OneHotCodec, read_value, write_value
from gbce.space._constraints import Computed, constraint_of
from gbce.space._feature import Feature
from gbce.space._frames import Layout
from gbce.space._space import Space

# --- spaces in files -------------------------------------------------------------------------------------------------


def space_fields(space: Space) -> dict[str, Any]:
    """Return a space as JSON data; of functions only the names."""
    return {
        "features": [_write_feature(feature) for feature in space.features],
        "columns": _write_values(space.columns),
        "codecs": [_write_codec(codec) for codec in space.codecs],
        "constraints": [one.to_json() for one in space.constraints],
        "computed": [_write_computed(one) for one in space.computed],
        "layout": None if space.layout is None else space.layout.to_json(),
    }


def _write_feature(feature: Feature) -> dict[str, Any]:
    written = asdict(feature) | {"levels": _write_values(feature.levels)}
    if not feature.forbidden:  # most files, and the identity of every earlier question, have no such entry
        del written["forbidden"]
    return written


def _write_codec(codec: Codec | OneHotCodec) -> dict[str, Any]:
    if isinstance(codec, OneHotCodec):
        return asdict(codec) | {"type": "one-hot", "labels": _write_values(codec.labels)}
    own = {"type": "column", "label": write_value(codec.label), "levels": _write_values(codec.levels)}
    written = asdict(codec) | own
    if not codec.decimal:  # most files, and the identity of every earlier question, have no such entry
        del written["decimal"]
    return written


def _write_values(values: tuple[Any, ...] | None) -> list[Any] | None:
    return None if values is None else [write_value(value) for value in values]


def _write_computed(one: Computed) -> dict[str, Any]:
    return {"name": one.name, "text": one.text, "kept": one.kept and one.function is None}


def space_of(written: dict[str, Any]) -> Space:
    """Rebuild a space from what :func:`space_fields` returned."""
    columns, layout = written["columns"], written.get("layout")
    return Space(
        tuple(Feature(**_read_levels(feature)) for feature in written["features"]),
        None if columns is None else tuple(map(read_value, columns)),
        tuple(map(_read_codec, written["codecs"])),
        tuple(map(constraint_of, written["constraints"])),
        tuple(Computed(**one) for one in written["computed"]),
        None if layout is None else Layout.from_json(layout),
    )


def _read_levels(written: dict[str, Any]) -> dict[str, Any]:
    levels = written["levels"]
    if levels is None:
        return written
    return written | {"levels": tuple(map(read_value, levels))}


def _read_codec(written: dict[str, Any]) -> Codec | OneHotCodec:
    options = {name: value for name, value in written.items() if name != "type"}
    if written["type"] == "one-hot":
        return OneHotCodec(tuple(map(read_value, options["labels"])), tuple(options["dtypes"]), options["base"])
    return Codec(**_read_levels(options) | {"label": read_value(options["label"])})


# --- values and tables as plain JSON ---------------------------------------------------------------------------------


def plain_value(value: Any) -> Any:
    """Convert a value to strict JSON data; missing and non-finite numbers become ``None``.

    Dates, times and durations become strings in ISO 8601, bytes are hexadecimal; intervals, periods and decimals are
    strings as they print. Tuples, sets and arrays become lists.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.generic) and value.dtype.kind in "biufSU":
        value = float(value) if value.dtype.kind == "f" else value.item()  # item() of a longdouble is a longdouble
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
    return _format_scalar(value)


def _format_scalar(value: Any) -> Any:
    """Format a scalar that JSON does not have as a string."""
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
    """Convert a table to a list of plain mappings, one per line, named index levels first.

    With ``values``, the columns are nested under that key, so that no user's column name can clash with an index name.
    """
    names = [str(label) for label in frame.columns]
    columns = [_convert_column(frame.iloc[:, j]) for j in range(len(names))]
    levels = {
        str(name): _convert_column(frame.index.get_level_values(level))
        for level, name in enumerate(frame.index.names)
        if name is not None
    }
    lines = []
    for i in range(len(frame)):
        own = {name: column[i] for name, column in zip(names, columns, strict=True)}
        lines.append({name: level[i] for name, level in levels.items()} | (own if values is None else {values: own}))
    return lines


def _convert_column(column: Iterable[Any]) -> list[Any]:
    return [plain_value(value) for value in column]
