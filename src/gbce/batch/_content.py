"""What options hold, as plain data to compare: values as they are, functions as what they return."""

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

__all__ = ["Probe", "content", "outputs_content", "same_content"]

_DIGITS = 9  # of a number: the last bits of what was read off the data differ from processor to processor
_MAX_WRITTEN_OUT = 64  # numbers of an array; a longer one is kept as a digest. Chosen by hand, for readable notes
# Rows on which functions are tried, all chosen by hand: enough to tell functions apart, few enough to cost little.
_N_SPREAD = 512  # beside those of the data, for conditions
_SPREAD = 2.0  # in units of scale: how far numbers in these lie from the data
_N_DISTANCES_FROM = 3  # rows from which a distance is tried
_TRIED_OUTPUTS = (-3.0, 3.0)  # between which a loss is tried if no model was asked
_OUTPUTS = "said"  # key of numbers that are compared but for rounding; stores have it, so it stays
_ROLES = ((Constraint, "constraint"), (Computed, "computed"), (Loss, "loss"))  # of what their functions are called with


@dataclasses.dataclass(frozen=True)
class Probe:
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

    def call(self, name: str, function: Callable[..., Any]) -> Any:
        """Return what a function returns, as numbers, or its name where it is not known how to call it."""
        known = getattr(function, "__qualname__", type(function).__qualname__)
        for attempt in self._attempts(name, function):
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")  # nothing a user should be warned of
                    return outputs_content(attempt())
            except Exception as error:  # not meant for such rows: then the error is all that is known of it
                known = type(error).__name__
        return known

    def _attempts(self, name: str, function: Callable[..., Any]) -> list[Callable[[], Any]]:
        """Return ways to call a function, the most telling one first."""
        decode, rows = self.space.decode, self.rows
        outputs = np.linspace(*_TRIED_OUTPUTS, len(rows)) if self.outputs is None else self.outputs
        if name in ("constraint", "computed"):
            return [lambda: function(decode(self._spread_rows())), lambda: function(decode(rows))]
        if name == "distance":
            return [lambda: [function(rows.copy(), row.copy()) for row in rows[:_N_DISTANCES_FROM]]]
        if name == "loss":
            return [lambda: function(outputs.copy())]
        return [lambda: function(stream(0, JUDGING), len(rows))] if name == "noise" else []

    def _spread_rows(self) -> Array:
        """Return rows of the data, and rows with each value from another of them, numbers farther out.

        Conditions are told apart by where they fail, and most of them never fail on the data.
        """
        rng, shape = stream(0, JUDGING), (_N_SPREAD, self.rows.shape[1])
        mixed = np.take_along_axis(self.rows, rng.integers(len(self.rows), size=shape), axis=0)
        numbers = np.array([feature.kind in ("real", "integer") for feature in self.space.features])
        out = mixed + rng.normal(size=shape) * (_SPREAD * self.space.scale)
        out = np.where(self.space.discrete, np.round(out), out)
        low = [-np.inf if feature.low is None else feature.low for feature in self.space.features]
        high = [np.inf if feature.high is None else feature.high for feature in self.space.features]
        return np.vstack([self.rows, np.where(numbers, np.clip(out, low, high), mixed)])


def content(thing: Any, probe: Probe, name: str = "", inside: tuple[int, ...] = ()) -> Any:
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
        return _array_content(np.asarray(thing))
    if isinstance(thing, Mapping):
        return {str(key): content(value, probe, name, inside) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [content(value, probe, name, inside) for value in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(repr(value) for value in thing)
    options = _options(thing)
    if options is None:
        return probe.call(name, thing) if callable(thing) else re.sub(r" at 0x[0-9a-f]+", "", repr(thing))
    kind = type(thing).__name__
    if id(thing) in inside:  # it contains itself
        return kind
    held = {key: content(value, probe, _call_role(thing, key), (*inside, id(thing))) for key, value in options}
    if callable(thing):  # an object that is called: what it returns may depend on more than its options
        held["returns"] = probe.call(name, thing)
    return {"type": kind, **held}


def outputs_content(values: Any) -> dict[str, Any]:
    """Return numbers from a function or a model as content that :func:`same_content` compares but for rounding."""
    return {_OUTPUTS: np.asarray(values, dtype=float).ravel().tolist()}


def same_content(before: Any, now: Any) -> bool:
    """Whether two contents are the same; numbers that functions and models returned may differ by rounding."""
    if isinstance(before, dict) and isinstance(now, dict):
        if before.keys() != now.keys():
            return False
        if _OUTPUTS in now:
            return same_answers(before[_OUTPUTS], now[_OUTPUTS])
        return all(same_content(before[key], now[key]) for key in now)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(same_content, before, now))
    return bool(before == now) or (before != before and now != now)  # not a number, twice


def _options(thing: Any) -> Iterable[tuple[str, Any]] | None:
    """Return the options of an object by name, none for a plain function and what has no options."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return [(f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing)]
    if isinstance(thing, type) or hasattr(thing, "__code__") or not hasattr(thing, "__dict__"):
        return None
    return sorted(vars(thing).items())


def _call_role(owner: Any, name: str) -> str:
    """Return the role that tells how a function is called: a field called ``function`` is known by its owner."""
    return next((role for kind, role in _ROLES if isinstance(owner, kind)), name)


def _array_content(array: Array) -> Any:
    if array.dtype.kind not in "fiub":
        return hashlib.sha256(repr(array.tolist()).encode()).hexdigest()
    if array.size <= _MAX_WRITTEN_OUT:
        return [list(array.shape), [float(f"{value:.{_DIGITS}g}") for value in array.ravel().tolist()]]
    # as single precision, for the last bits; without the sign of zero
    return [list(array.shape), hashlib.sha256((array.astype("float32") + 0.0).tobytes()).hexdigest()]
