"""Values and tables as a reader of JSON wants them: plain, and in words; a file that is read back has its own way."""

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

__all__ = ["plain_records", "plain_value", "space_fields", "space_of"]

# --- a space as plain data for a file, and back ----------------------------------------------------------------------


def space_fields(space: Space) -> dict[str, Any]:
    """Return a space as plain JSON data; functions are not kept, only their names."""
    return {
        "features": [_feature_fields(feature) for feature in space.features],
        "columns": None if space.columns is None else _write_values(space.columns),
        "codecs": [_codec_fields(codec) for codec in space.codecs],
        "constraints": [one.to_json() for one in space.constraints],
        "computed": [_computed_fields(one) for one in space.computed],
        "layout": None if space.layout is None else space.layout.to_json(),
    }


def _feature_fields(feature: Feature) -> dict[str, Any]:
    return asdict(feature) | {"levels": _level_fields(feature)}


def _codec_fields(codec: Codec | OneHotCodec) -> dict[str, Any]:
    if isinstance(codec, OneHotCodec):
        return asdict(codec) | {"type": "one-hot", "labels": _write_values(codec.labels)}
    own = {"type": "column", "label": write_value(codec.label), "levels": _level_fields(codec)}
    return asdict(codec) | own


def _level_fields(one: Feature | Codec) -> list[Any] | None:
    return None if one.levels is None else _write_values(one.levels)


def _write_values(values: tuple[Any, ...]) -> list[Any]:
    return [write_value(value) for value in values]


def _computed_fields(one: Computed) -> dict[str, Any]:
    return {"name": one.name, "text": one.text, "kept": one.kept and one.function is None}


def space_of(written: dict[str, Any]) -> Space:
    """Rebuild a space from what was written."""
    columns, layout = written["columns"], written.get("layout")
    return Space(
        tuple(Feature(**_read_levels(feature)) for feature in written["features"]),
        None if columns is None else tuple(map(read_value, columns)),
        tuple(map(_codec_of, written["codecs"])),
        tuple(map(constraint_of, written["constraints"])),
        tuple(Computed(**one) for one in written["computed"]),
        None if layout is None else Layout.from_json(layout),
    )


def _read_levels(fields_: dict[str, Any]) -> dict[str, Any]:
    levels = fields_["levels"]
    if levels is None:
        return fields_
    return fields_ | {"levels": tuple(map(read_value, levels))}


def _codec_of(fields_: dict[str, Any]) -> Codec | OneHotCodec:
    options = {name: value for name, value in fields_.items() if name != "type"}
    if fields_["type"] == "one-hot":
        return OneHotCodec(tuple(map(read_value, options["labels"])), tuple(options["dtypes"]), options["base"])
    return Codec(**_read_levels(options) | {"label": read_value(options["label"])})


# --- values and tables as a reader of JSON wants them ----------------------------------------------------------------


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
