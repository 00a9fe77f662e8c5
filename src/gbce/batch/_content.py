"""What options hold, as plain data to compare: values as they are, functions by what they return."""

import dataclasses
import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import JUDGING, stream
from gbce.base import Array
from gbce.predictors import same_answers
from gbce.space import Computed, Constraint, Space
from gbce.targets import Loss

__all__ = ["Trial", "alike", "content", "returned"]

_DIGITS = 9  # of a number: the last bits of what was read off the data differ from processor to processor
_FEW = 64  # numbers that are written out; of more there is a digest
_N_BEYOND = 512  # rows, beside those of the data, that conditions are tried on
_SAID = "said"
_ROLES = ((Constraint, "constraint"), (Computed, "computed"), (Loss, "loss"))  # of what their functions are called with


@dataclasses.dataclass(frozen=True)
class Trial:
    """What functions are tried on, by the name of the option that holds them.

    Parameters
    ----------
    space : Space
        How rows look to a function.
    rows : array of shape (n, d)
        Rows of the data, encoded.
    outputs : array of shape (n,) or (n, c), optional
        What the first model said about them.
    """

    space: Space
    rows: Array
    outputs: Array | None = None

    def said(self, name: str, function: Callable[..., Any]) -> Any:
        """Return what a function returns, as numbers; its name where there is no telling how it is called."""
        known = getattr(function, "__qualname__", type(function).__qualname__)
        for attempt in self._attempts(name, function):
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")  # a trial is nothing to warn a user of
                    return returned(attempt())
            except Exception as error:  # it is not meant for such rows: then that is what is known of it
                known = type(error).__name__
        return known

    def _attempts(self, name: str, function: Callable[..., Any]) -> list[Callable[[], Any]]:
        """Return ways to call a function, the most telling one first."""
        decode, rows = self.space.decode, self.rows
        outputs = np.linspace(-3.0, 3.0, len(rows)) if self.outputs is None else self.outputs
        if name in ("constraint", "computed"):
            return [lambda: function(decode(self._beyond())), lambda: function(decode(rows))]
        if name == "distance":
            return [lambda: [function(rows.copy(), row.copy()) for row in rows[:3]]]
        if name == "loss":
            return [lambda: function(outputs.copy())]
        return [lambda: function(stream(0, JUDGING), len(rows))] if name == "noise" else []

    def _beyond(self) -> Array:
        """Return rows of the data, and rows with each value from another of them, numbers farther out.

        Conditions are told apart by where they fail, and in the data most of them never do.
        """
        rng, shape = stream(0, JUDGING), (_N_BEYOND, self.rows.shape[1])
        mixed = np.take_along_axis(self.rows, rng.integers(len(self.rows), size=shape), axis=0)
        numbers = np.array([feature.kind in ("real", "integer") for feature in self.space.features])
        out = mixed + rng.normal(size=shape) * (2.0 * self.space.scale)
        out = np.where(self.space.discrete, np.round(out), out)
        low = [-np.inf if feature.low is None else feature.low for feature in self.space.features]
        high = [np.inf if feature.high is None else feature.high for feature in self.space.features]
        return np.vstack([self.rows, np.where(numbers, np.clip(out, low, high), mixed)])


def content(thing: Any, trial: Trial, name: str = "", inside: tuple[int, ...] = ()) -> Any:
    """Return what an option holds as JSON has it, the same in every process.

    ``name`` is what the option is called, ``inside`` which objects it is a part of.
    """
    if thing is None or isinstance(thing, (bool, str)):
        return thing
    if isinstance(thing, (int, np.integer, np.bool_)):
        return int(thing)
    if isinstance(thing, (float, np.floating)):
        return float(f"{thing:.{_DIGITS}g}")
    if isinstance(thing, (np.ndarray, pd.Series, pd.DataFrame, pd.Index)):
        return _array(np.asarray(thing))
    if isinstance(thing, Mapping):
        return {str(key): content(value, trial, name, inside) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [content(value, trial, name, inside) for value in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(repr(value) for value in thing)
    options = _options(thing)
    if options is None:
        return trial.said(name, thing) if callable(thing) else re.sub(r" at 0x[0-9a-f]+", "", repr(thing))
    kind = type(thing).__name__
    if id(thing) in inside:  # it holds itself
        return kind
    held = {key: content(value, trial, _role(thing, key), (*inside, id(thing))) for key, value in options}
    if callable(thing):  # an object that is called: what it returns may hang on more than its options
        held["returns"] = trial.said(name, thing)
    return {"type": kind, **held}


def returned(values: Any) -> dict[str, Any]:
    """Return numbers that a function or a model returned, as a content that :func:`alike` compares but for rounding."""
    return {_SAID: np.asarray(values, dtype=float).ravel().tolist()}


def alike(before: Any, now: Any) -> bool:
    """Whether two contents are the same; numbers that functions and models returned may differ by rounding."""
    if isinstance(before, dict) and isinstance(now, dict):
        if before.keys() != now.keys():
            return False
        if _SAID in now:
            return same_answers(before[_SAID], now[_SAID])
        return all(alike(before[key], now[key]) for key in now)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(alike, before, now))
    return bool(before == now) or (before != before and now != now)  # not a number, twice


def _options(thing: Any) -> Iterable[tuple[str, Any]] | None:
    """Return the options of an object by name, none for a plain function and what has no options."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return [(f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing)]
    if isinstance(thing, type) or hasattr(thing, "__code__") or not hasattr(thing, "__dict__"):
        return None
    return sorted(vars(thing).items())


def _role(owner: Any, name: str) -> str:
    """Return how a function under this name is called: what is only called a function says it by its owner."""
    return next((role for kind, role in _ROLES if isinstance(owner, kind)), name)


def _array(array: Array) -> Any:
    if array.dtype.kind not in "fiub":
        return hashlib.sha256(repr(array.tolist()).encode()).hexdigest()
    if array.size <= _FEW:
        return [list(array.shape), [float(f"{value:.{_DIGITS}g}") for value in array.ravel().tolist()]]
    # as single precision, for the last bits; without the sign of zero
    return [list(array.shape), hashlib.sha256((array.astype("float32") + 0.0).tobytes()).hexdigest()]
