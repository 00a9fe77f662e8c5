"""A space as plain data for a file, and back."""

from dataclasses import asdict
from typing import Any

from gbce.space._codecs import Codec, OneHotCodec
from gbce.space._computed import Computed
from gbce.space._constraints import constraint_of
from gbce.space._feature import Feature
from gbce.space._frames import Layout
from gbce.space._space import Space
from gbce.space._values import read_value, write_value

__all__ = ["space_fields", "space_of"]


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
