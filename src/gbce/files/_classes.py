"""Convert targets, rules and sampler reports, built-in or the user's own, to plain data and back.

A class is found by its name among those defined when a file is read: no file causes an import. An object that cannot be
rebuilt is kept as plain data with its label and the reason.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn, TypeVar

import numpy as np

from gbce import decisions, samplers, targets
from gbce.base import Choice, Outputs, Reading, Rule, Target
from gbce.draws import SamplerInfo, Scene
from gbce.space import read_value, write_value

Written = dict[str, Any]
_OURS = "gbce"  # built-in classes are identified by their public names, whatever their module
_BUILT_IN = (decisions, samplers, targets)  # imported so that their classes are defined when a file is read
_REPORTED = ("advice", "runs", "kind_of_run", "tempered")  # used by the sentence about the sampling
T = TypeVar("T")


@dataclass(frozen=True)
class KeptTarget(Target):
    """A target from a file whose class is not defined, or with options that a file cannot keep."""

    written: Mapping[str, Any]
    reason: str

    @property
    def readable(self) -> bool:
        """False: it cannot judge outputs."""
        return False

    def read(self, outputs: Outputs) -> Reading:
        """Raise, with the reason."""
        _refuse(self)

    def describe(self) -> str:
        """Return the description of the target."""
        return str(self.written["label"])


@dataclass(frozen=True)
class KeptRule(Rule):
    """A rule from a file whose class is not defined, or with options that a file cannot keep."""

    asks_model = True  # it cannot choose among draws

    written: Mapping[str, Any]
    reason: str

    @property
    def kind(self) -> str:
        """Name of its original class."""
        return str(self.written["type"]).partition(":")[2].split(".")[-1]

    @property
    def label(self) -> str:
        """The label of the original rule."""
        return str(self.written["label"])

    def choose(self, scene: Scene) -> Choice:
        """Raise, with the reason."""
        _refuse(self)


@dataclass(frozen=True)
class KeptInfo(SamplerInfo):
    """The report of a user's own sampler, as plain data because its class is not defined."""

    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def entries(self) -> dict[str, Any]:
        """Return the entries of the report as plain data."""
        own = {name: value for name, value in super().entries().items() if name != "written"}
        return own | {name: _read(value) for name, value in self.written["options"].items() if value is not None}

    @property
    def advice(self) -> str:
        """As reported by the sampler."""
        return str(self.written["says"]["advice"])

    @property
    def runs(self) -> str:
        """As reported by the sampler."""
        return str(self.written["says"]["runs"])

    @property
    def kind_of_run(self) -> str:
        """As reported by the sampler."""
        return str(self.written["says"]["kind_of_run"])

    @property
    def tempered(self) -> bool:
        """As reported by the sampler."""
        return bool(self.written["says"]["tempered"])


_KEPT = (KeptTarget, KeptRule, KeptInfo)


def _refuse(kept: "KeptTarget | KeptRule") -> NoReturn:
    raise ValueError(f"{kept.written['label']} came from a file, and {kept.reason}")


def write_object(thing: Target | Rule | SamplerInfo) -> Written:
    """Convert a target, a rule or a report to plain data."""
    if isinstance(thing, _KEPT):
        return dict(thing.written)
    written: Written = {"type": _name_of(type(thing)), "label": _label_of(thing), "options": {}}
    if isinstance(thing, SamplerInfo):
        written["says"] = {name: getattr(thing, name) for name in _REPORTED}
    if not dataclasses.is_dataclass(thing):
        return written | {"lost": "its class is not a dataclass, so its options are unknown"}
    for f in dataclasses.fields(thing):
        if "file" in f.metadata:  # the field defines its own replacement
            continue
        try:
            written["options"][f.name] = _write(getattr(thing, f.name))
        except TypeError:
            if f.init:  # other fields follow from these
                written["lost"] = f"a file does not keep its {f.name}: create the rule or target again"
    return written


def read_target(written: Written) -> Target:
    """Rebuild a target, or keep it as plain data with its label."""
    return _read_object(written, Target, KeptTarget)  # type: ignore[type-abstract]


def read_rule(written: Written) -> Rule:
    """Rebuild a rule, or keep it as plain data with its label."""
    return _read_object(written, Rule, KeptRule)  # type: ignore[type-abstract]


def read_info(written: Written) -> SamplerInfo:
    """Rebuild a sampler's report, or keep the usual entries with the rest as plain data."""
    usual = {f.name for f in dataclasses.fields(SamplerInfo)}

    def kept(written: Written, reason: str) -> SamplerInfo:
        options = {name: _read(value) for name, value in written["options"].items() if name in usual}
        info = KeptInfo(**options, written=written)
        _ = info.entries(), *(getattr(info, name) for name in _REPORTED)  # fails here if damaged
        return info

    return _read_object(written, SamplerInfo, kept)


def _read_object(written: Written, base: type[T], kept: Callable[[Written, str], T]) -> T:
    """Rebuild a target, rule or report from its record, or keep the record if its class is not known."""
    if not (isinstance(written["type"], str) and isinstance(written["label"], str)):
        raise ValueError(f"{written!r:.80} has no type or no label")
    if not isinstance(written["options"], dict):
        raise ValueError(f"{written!r:.80} has no options")
    if "lost" in written:
        return kept(written, str(written["lost"]))
    module, _, name = written["type"].partition(":")
    found = [cls for cls in _subclasses(base) if _name_of(cls) == written["type"] and cls not in _KEPT]
    if not found and module == _OURS:
        raise ValueError(f"there is no {base.__name__.lower()} {name!r}")
    if not found:
        known = "define it" if module == "__main__" or "<locals>" in name else f"import {module}"
        return kept(written, f"its class {name} is not defined: {known} and load the file again")
    options = {key: _read(value) for key, value in written["options"].items()}
    try:
        return _rebuild(found[-1], options)
    except Exception as error:
        if module == _OURS:
            raise
        return kept(written, f"its class {name} does not accept its options: {error}")


def _rebuild(cls: type[T], options: dict[str, Any]) -> T:
    declared = dataclasses.fields(cls)  # type: ignore[arg-type]
    lost = {f.name: f.metadata["file"] for f in declared if "file" in f.metadata}
    follow = {f.name for f in declared if not f.init}
    return cls(**lost, **{name: value for name, value in options.items() if name not in follow})


def _subclasses(base: type[T]) -> Iterator[type[T]]:
    yield base
    for cls in base.__subclasses__():
        yield from _subclasses(cls)


def _name_of(cls: type) -> str:
    module = cls.__module__.split(".")[0]
    return f"{_OURS}:{cls.__name__}" if module == _OURS else f"{cls.__module__}:{cls.__qualname__}"


def _label_of(thing: Target | Rule | SamplerInfo) -> str:
    if isinstance(thing, Target):
        return thing.describe()
    return thing.label if isinstance(thing, Rule) else thing.sampler


def _write(value: Any) -> Any:
    """Convert an option to JSON values; lists, mappings, arrays, targets and rules are tagged by a word."""
    if isinstance(value, np.ndarray):
        _require_plain(value.dtype)
        return {"array": value.ravel().tolist(), "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, Enum) or (isinstance(value, tuple) and type(value) is not tuple):
        raise TypeError(f"{value!r:.80} would be loaded as a plain value")
    if isinstance(value, list):
        return {"list": [_write(part) for part in value]}
    if isinstance(value, tuple):
        return {"parts": [_write(part) for part in value]}
    if isinstance(value, Mapping):
        return {"map": [[_write(key), _write(part)] for key, part in value.items()]}
    for word, base in (("target", Target), ("rule", Rule)):
        if isinstance(value, base):
            written = write_object(value)
            if "lost" in written:
                raise TypeError(written["lost"])
            return {word: written}
    return write_value(value)


def _read(written: Any) -> Any:
    if not isinstance(written, dict):
        return read_value(written)
    if "array" in written:
        dtype = np.dtype(written["dtype"])
        _require_plain(dtype)
        return np.array(written["array"], dtype=dtype).reshape(written["shape"])
    if "list" in written:
        return [_read(part) for part in written["list"]]
    if "parts" in written:
        return tuple(_read(part) for part in written["parts"])
    if "map" in written:
        return {_read(key): _read(part) for key, part in written["map"]}
    if "target" in written:
        return read_target(written["target"])
    return read_rule(written["rule"]) if "rule" in written else read_value(written)


def _require_plain(dtype: "np.dtype[Any]") -> None:
    """Raise for arrays of values that JSON cannot represent as numbers, and of strings of declared length."""
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise TypeError(f"an array of {dtype} cannot be kept in a file")
