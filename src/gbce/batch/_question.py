"""The content of a run as plain data, by which a later run is recognised as the same.

Values are kept as they are, functions and models by what they return for a few rows.
"""

import dataclasses
import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import JUDGING, stream
from gbce.base import Array, Rule, Target
from gbce.budget import Budget
from gbce.explainer import Session
from gbce.predictors import Panel, Predictor, pick_rows, same_answers
from gbce.space import Computed, Constraint, Space
from gbce.targets import Loss

_DIGITS = 9  # of a number: the last bits of estimates from the data differ between processors
_MAX_WRITTEN_OUT = 64  # numbers of an array; a longer one is kept as a digest. Chosen by hand, for readable files
# Rows on which functions are called, all chosen by hand: enough to tell functions apart, few enough to cost little.
_N_SPREAD = 512  # beside those of the data, for constraints
_SPREAD = 2.0  # standard deviation of numbers in these around the data, in units of scale
_N_DISTANCES_FROM = 3  # rows from which a distance is computed
_TRIED_OUTPUTS = (-3.0, 3.0)  # range of outputs for a loss if no model was evaluated
_OUTPUTS = "said"  # key of numbers that are compared up to rounding, as written in run files
_ROLES = ((Constraint, "constraint"), (Computed, "computed"), (Loss, "loss"))  # of the functions of these classes

# --- options as plain data -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Probe:
    """Arguments to call functions with: encoded rows ``(n, d)`` and outputs ``(n,)`` or ``(n, c)``."""

    space: Space
    rows: Array
    outputs: Array | None = None

    def call(self, name: str, function: Callable[..., Any]) -> Any:
        """Call a function by the name of its option and return the numbers, or a name if no call succeeds."""
        known = getattr(function, "__qualname__", type(function).__qualname__)
        for attempt in self._list_attempts(name, function):
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")  # of no interest to the user
                    return outputs_content(attempt())
            except Exception as error:  # not defined for such rows: the error identifies it
                known = type(error).__name__
        return known

    def _list_attempts(self, name: str, function: Callable[..., Any]) -> list[Callable[[], Any]]:
        """Return possible calls of a function, the most informative one first."""
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
        """Return rows of the data and rows of independently resampled values, with noise on numbers.

        Constraints differ by where they fail, and most of them never fail on the data.
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
    """Return the content of an option as JSON values that are the same in every process.

    ``name`` is that of the option, ``inside`` has the ids of the objects it is a part of.
    """
    if thing is None or isinstance(thing, (bool, str)):
        return thing
    if isinstance(thing, (int, np.integer, np.bool_)):
        return int(thing)
    if isinstance(thing, (float, np.floating)):
        return float(f"{thing:.{_DIGITS}g}")
    if isinstance(thing, (np.ndarray, pd.Series, pd.DataFrame, pd.Index)):
        return _fingerprint_array(np.asarray(thing))
    if isinstance(thing, Mapping):
        return {str(key): content(value, probe, name, inside) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [content(value, probe, name, inside) for value in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(repr(value) for value in thing)
    options = _list_options(thing)
    if options is None:
        return probe.call(name, thing) if callable(thing) else re.sub(r" at 0x[0-9a-f]+", "", repr(thing))
    kind = type(thing).__name__
    if id(thing) in inside:  # it contains itself
        return kind
    held = {key: content(value, probe, _call_role(thing, key), (*inside, id(thing))) for key, value in options}
    if callable(thing):  # its results may depend on more than its options
        held["returns"] = probe.call(name, thing)
    return {"type": kind, **held}


def outputs_content(values: Any) -> dict[str, Any]:
    """Return numbers from a function or a model as content that :func:`same_content` compares up to rounding."""
    return {_OUTPUTS: np.asarray(values, dtype=float).ravel().tolist()}


def same_content(before: Any, now: Any) -> bool:
    """Whether two contents are equal, up to rounding of numbers from functions and models."""
    if isinstance(before, dict) and isinstance(now, dict):
        if before.keys() != now.keys():
            return False
        if _OUTPUTS in now:
            return same_answers(before[_OUTPUTS], now[_OUTPUTS])
        return all(same_content(before[key], now[key]) for key in now)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(same_content, before, now))
    return bool(before == now) or (before != before and now != now)  # NaN in both


def _list_options(thing: Any) -> Iterable[tuple[str, Any]] | None:
    """Return the options of an object by name; None for a plain function or an object without options."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return [(f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing)]
    if isinstance(thing, type) or hasattr(thing, "__code__") or not hasattr(thing, "__dict__"):
        return None
    return sorted(vars(thing).items())


def _call_role(owner: Any, name: str) -> str:
    """Return the role that decides how a function is called: that of its owner, else the name of the option."""
    return next((role for kind, role in _ROLES if isinstance(owner, kind)), name)


def _fingerprint_array(array: Array) -> Any:
    """Return the shape with the values of a short array, or with a digest."""
    if array.dtype.kind not in "fiub":
        return hashlib.sha256(repr(array.tolist()).encode()).hexdigest()
    if array.size <= _MAX_WRITTEN_OUT:
        return [list(array.shape), [float(f"{value:.{_DIGITS}g}") for value in array.ravel().tolist()]]
    # in single precision, to ignore the last bits; without the sign of zero
    return [list(array.shape), hashlib.sha256((array.astype("float32") + 0.0).tobytes()).hexdigest()]


# --- a run -----------------------------------------------------------------------------------------------------------


def rows_to_fingerprint(session: Session) -> int:
    """Return the number of model rows that :func:`fingerprint_run` takes."""
    predictors = [*session.predictors, *(() if session.refits is None else session.refits.predictors)]
    asked = [predictor.questions(use_predict=True) for predictor in predictors if not predictor.identity]
    return len(pick_rows(len(session.data))) * sum(asked)


def fingerprint_run(
    session: Session,
    predictors: Sequence[Predictor],
    refits: Sequence[Predictor],
    target: Target,
    rules: Sequence[Rule],
    max_model_rows: int | None,
    budget: Budget,
) -> dict[str, Any]:
    """Return what decides the result of a run, beside its rows and seeds, as JSON values.

    Models and functions are identified by what they return for a few dozen rows of the data, so that a refitted model
    is another one; a model with an identity of its own, such as a remote one, is not called.
    """
    rows = session.data[pick_rows(len(session.data))]
    models, outputs = zip(*(_fingerprint_model(predictor, rows, budget) for predictor in predictors), strict=True)
    probe = Probe(session.space, rows, outputs[0])
    return {
        "data": hashlib.sha256(session.data.tobytes()).hexdigest(),
        "target": content(target, probe),
        "rules": content(rules, probe),
        "space": content(session.space, probe),
        "prior": content(session.prior, probe),
        "sampler": _describe_sampler(content(session.sampler, probe), session.sums_if_few),
        "evaluation": content(session.evaluation, probe),
        "models": list(models),
        "mixture": content(session.mixture, probe),
        "eta": content(session.eta_rule, probe),
        "policy": content(session.policy, probe),
        "refits": [_fingerprint_model(predictor, rows, budget)[0] for predictor in refits],
        "joint": session.jointly,
        "max_model_rows": max_model_rows,
    }


def _describe_sampler(sampler: Any, sums_if_few: bool) -> Any:
    """Return a sampler's content, marked if it is the default, which exact sums replace where they apply."""
    return {"unless few cells": sampler} if sums_if_few else sampler


def _fingerprint_model(predictor: Predictor, rows: Array, budget: Budget) -> tuple[dict[str, Any], Array | None]:
    """Return what identifies a model, its declared identity or its outputs for rows ``(n, d)``, and the latter."""
    known: dict[str, Any] = {"name": predictor.name, "classes": list(map(repr, predictor.classes or ()))}
    if predictor.identity:
        return known | {"identity": predictor.identity}, None
    (outputs,) = Panel((predictor,), budget, use_predict=True).ask(rows)
    decided = np.zeros(0) if outputs.decided is None else outputs.decided
    return known | {"outputs": outputs_content(outputs.values), "decided": outputs_content(decided)}, outputs.values
