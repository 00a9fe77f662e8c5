"""A space as plain data for a file, and back."""

from dataclasses import asdict
from datetime import date, datetime
from typing import Any

import pandas as pd

from gbce._frames import Layout
from gbce.space._codecs import Codec, OneHotCodec
from gbce.space._constraints import Computed, Constraint
from gbce.space._feature import Feature
from gbce.space._space import Space

__all__ = ["space_fields", "space_of"]


def space_fields(space: Space) -> dict[str, Any]:
    """Return a space as JSON has it; functions are not kept, only their names."""
    return {
        "features": [_feature_fields(feature) for feature in space.features],
        "columns": space.columns,
        "codecs": [_codec_fields(codec) for codec in space.codecs],
        "constraints": [_text_and_kept(one) for one in space.constraints],
        "computed": [{"name": one.name, **_text_and_kept(one)} for one in space.computed],
        "layout": None if space.layout is None else space.layout.to_json(),
    }


def _feature_fields(feature: Feature) -> dict[str, Any]:
    return asdict(feature) | {"levels": _levels_written(feature.levels)}


def _codec_fields(codec: Codec | OneHotCodec) -> dict[str, Any]:
    if isinstance(codec, OneHotCodec):
        return asdict(codec) | {"type": "one-hot"}
    return asdict(codec) | {"type": "column", "levels": _levels_written(codec.levels)}


def _levels_written(levels: tuple[Any, ...] | None) -> list[Any] | None:
    """Levels as JSON has them; a moment is spelled out."""
    if levels is None:
        return None
    return [_level_written(level) for level in levels]


def _level_written(level: Any) -> Any:
    if isinstance(level, datetime):
        moment = pd.Timestamp(level)
        return {"moment": moment.isoformat(), "unit": moment.unit, "zone": moment.tz and str(moment.tz)}
    return {"day": level.isoformat()} if isinstance(level, date) else level


def _level_read(written: Any) -> Any:
    if not isinstance(written, dict):
        return written
    if "day" in written:
        return date.fromisoformat(written["day"])
    moment = pd.Timestamp(written["moment"])
    moment = moment.as_unit(written.get("unit") or moment.unit)
    return moment.tz_convert(written["zone"]) if written.get("zone") else moment


def _text_and_kept(one: Constraint | Computed) -> dict[str, Any]:
    return {"text": one.text, "kept": one.kept and one.function is None}


def space_of(written: dict[str, Any]) -> Space:
    """Rebuild a space from what was written."""
    columns, layout = written["columns"], written.get("layout")
    return Space(
        tuple(Feature(**_levels_read(feature)) for feature in written["features"]),
        None if columns is None else tuple(map(_label, columns)),
        tuple(map(_codec, written["codecs"])),
        tuple(Constraint(**one) for one in written["constraints"]),
        tuple(Computed(**one) for one in written["computed"]),
        None if layout is None else Layout.from_json(layout),
    )


def _levels_read(fields_: dict[str, Any]) -> dict[str, Any]:
    levels = fields_["levels"]
    if levels is None:
        return fields_
    return fields_ | {"levels": tuple(map(_level_read, levels))}


def _codec(fields_: dict[str, Any]) -> Codec | OneHotCodec:
    options = {name: value for name, value in fields_.items() if name != "type"}
    if fields_["type"] == "one-hot":
        return OneHotCodec(tuple(map(_label, options["labels"])), tuple(options["dtypes"]), options["base"])
    return Codec(**_levels_read(options) | {"label": _label(options["label"])})


def _label(label: Any) -> Any:
    return tuple(label) if isinstance(label, list) else label
