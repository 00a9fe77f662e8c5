"""Targets, rules and samplers' reports as plain data, and back: users' own classes as well as the built-in ones.

A class is known by its name among those that are defined when a file is read: nothing is imported because a file says
so. What cannot be built again is kept as the plain data it was written as, under its label, and says why.
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

__all__ = ["KeptInfo", "KeptRule", "KeptTarget", "read_info", "read_rule", "read_target", "write_object"]

Written = dict[str, Any]
_OURS = "gbce"  # built-in classes are known by their public names, wherever they live
_BUILT_IN = (decisions, samplers, targets)  # imported so that their classes are defined when a file is read
_SAID = ("advice", "runs", "kind_of_run", "tempered")  # what the verdict's sentence reads off a report
T = TypeVar("T")


@dataclass(frozen=True)
class KeptTarget(Target):
    """A target of a file whose class is not there, or that held something a file does not keep."""

    written: Mapping[str, Any]
    reason: str

    @property
    def readable(self) -> bool:
        """False: what it does with outputs was lost."""
        return False

    def read(self, outputs: Outputs) -> Reading:
        """Say why it cannot."""
        _refuse(self)

    def describe(self) -> str:
        """Return the wish as it was described."""
        return str(self.written["label"])


@dataclass(frozen=True)
class KeptRule(Rule):
    """A rule of a file whose class is not there, or that held something a file does not keep."""

    asks_model = True  # nothing it might choose is known

    written: Mapping[str, Any]
    reason: str

    @property
    def kind(self) -> str:
        """Name of the class that it was of."""
        return str(self.written["type"]).partition(":")[2].split(".")[-1]

    @property
    def label(self) -> str:
        """The rule's own."""
        return str(self.written["label"])

    def choose(self, scene: Scene) -> Choice:
        """Say why it cannot."""
        _refuse(self)


@dataclass(frozen=True)
class KeptInfo(SamplerInfo):
    """What a user's own sampler reported, kept as plain data because its class is not there."""

    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def entries(self) -> dict[str, Any]:
        """Return what was reported, as plain data by name."""
        own = {name: value for name, value in super().entries().items() if name != "written"}
        return own | {name: _read(value) for name, value in self.written["options"].items() if value is not None}

    @property
    def advice(self) -> str:
        """As the sampler said it."""
        return str(self.written["says"]["advice"])

    @property
    def runs(self) -> str:
        """As the sampler said it."""
        return str(self.written["says"]["runs"])

    @property
    def kind_of_run(self) -> str:
        """As the sampler said it."""
        return str(self.written["says"]["kind_of_run"])

    @property
    def tempered(self) -> bool:
        """As the sampler said it."""
        return bool(self.written["says"]["tempered"])


_KEPT = (KeptTarget, KeptRule, KeptInfo)


def _refuse(kept: "KeptTarget | KeptRule") -> NoReturn:
    raise ValueError(f"{kept.written['label']} came from a file, and {kept.reason}")


def write_object(thing: Target | Rule | SamplerInfo) -> Written:
    """Return a target, a rule or a report as plain data."""
    if isinstance(thing, _KEPT):
        return dict(thing.written)
    written: Written = {"type": _name_of(type(thing)), "label": _label_of(thing), "options": {}}
    if isinstance(thing, SamplerInfo):
        written["says"] = {name: getattr(thing, name) for name in _SAID}
    if not dataclasses.is_dataclass(thing):
        return written | {"lost": "its class is no dataclass, so that its options are not known"}
    for f in dataclasses.fields(thing):
        if "file" in f.metadata:  # an option that says itself what becomes of it
            continue
        try:
            written["options"][f.name] = _write(getattr(thing, f.name))
        except TypeError:
            if f.init:  # others follow from these
                written["lost"] = f"a file does not keep its {f.name}: give the rule or target anew"
    return written


def read_target(written: Written) -> Target:
    """Return a target as it was, or as plain data with its label."""
    return _read_object(written, Target, KeptTarget)  # type: ignore[type-abstract]


def read_rule(written: Written) -> Rule:
    """Return a rule as it was, or as plain data with its label."""
    return _read_object(written, Rule, KeptRule)  # type: ignore[type-abstract]


def read_info(written: Written) -> SamplerInfo:
    """Return a sampler's report as it was, or the part that every sampler has with the rest as plain data."""
    usual = {f.name for f in dataclasses.fields(SamplerInfo)}

    def kept(written: Written, reason: str) -> SamplerInfo:
        options = {name: _read(value) for name, value in written["options"].items() if name in usual}
        info = KeptInfo(**options, written=written)
        _ = info.entries(), *(getattr(info, name) for name in _SAID)  # what is damaged fails here
        return info

    return _read_object(written, SamplerInfo, kept)


def _read_object(written: Written, base: type[T], kept: Callable[[Written, str], T]) -> T:
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
        return kept(written, f"its class {name} is not known here: {known} and load the file again")
    options = {key: _read(value) for key, value in written["options"].items()}
    try:
        return _rebuilt(found[-1], options)
    except Exception as error:
        if module == _OURS:
            raise
        return kept(written, f"its class {name} does not take the options that it had: {error}")


def _rebuilt(cls: type[T], options: dict[str, Any]) -> T:
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
    """Return an option as JSON has it; lists, mappings, arrays, targets and rules under a word for them."""
    if isinstance(value, np.ndarray):
        _require_plain(value.dtype)
        return {"array": value.ravel().tolist(), "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, Enum) or (isinstance(value, tuple) and type(value) is not tuple):
        raise TypeError(f"{value!r:.80} would come back as a plain value")
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
    """Refuse arrays of what JSON has no numbers for, and of texts as long as a file says they are."""
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise TypeError(f"an array of {dtype} cannot be kept in a file")
