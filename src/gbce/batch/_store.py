"""What options hold, as plain data to compare: values as they are, functions as what they return."""

import contextlib
import dataclasses
import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import JUDGING, seed_numbers, stream
from gbce.base import Array, Rule, Target
from gbce.budget import Budget
from gbce.explainer import Explainer
from gbce.explanation import Explanation
from gbce.files import clear_leftovers, is_partial, load_part, save, whole_file
from gbce.predictors import Panel, Predictor, pick_rows, same_answers
from gbce.space import Computed, Constraint, Space
from gbce.targets import Loss

__all__ = ["Probe", "Store", "content", "describe_run", "outputs_content", "rows_to_describe", "same_content"]

# --- what options hold, as plain data to compare ---------------------------------------------------------------------

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


# --- a folder of finished rows ---------------------------------------------------------------------------------------

_RUN = "run.json"
_FORMAT = 4  # of its note; 4 since files of rows say which question they answer


@dataclass(frozen=True)
class Store:
    """One file per explained row, and a note of the run they belong to.

    Parameters
    ----------
    folder : Path
        Where they are.
    seeds : list of int
        Of the rows.
    question : str
        Digest of all that was asked, seed included, as the run was begun: every row's file has it.
    pool : bool
        Whether to keep every evaluated point of a row, or the draws alone.
    """

    folder: Path
    seeds: list[int]
    question: str
    pool: bool = False

    @classmethod
    def open(
        cls, folder: str | Path, run: dict[str, Any], seeds: list[int] | None, n: int, pool: bool = False
    ) -> "Store":
        """Begin a store, or go on with one that holds the same run, with the seeds of ``n`` rows it began with."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder, lambda name: re.fullmatch(r"run\.json|row-\d+\.gbce", name) is not None)
        note = folder / _RUN
        strangers = [entry.name for entry in folder.iterdir() if not is_partial(entry.name)]
        if not note.exists():
            if strangers:
                raise ValueError(f"the store {folder} is not empty and holds no run; use an empty folder")
            given = seed_numbers(None, n) if seeds is None else seeds
            begun = {**run, "seed": given[0] if len(set(given)) == 1 else given}
            begun["question"] = hashlib.sha256(json.dumps(begun, sort_keys=True).encode()).hexdigest()
            # whoever else begins here at the same time is told, and reads the note of the one who was first
            with contextlib.suppress(FileExistsError), whole_file(note, new=True) as file:
                file.write(json.dumps(begun, indent=1).encode())
        before = _read_note(note)
        if before.get("format") != run["format"]:
            raise ValueError(
                f"the store {folder} was begun by another version of gbce, which told runs apart otherwise. Use "
                "another folder."
            )
        kept = before["seed"]
        store = cls(folder, kept if isinstance(kept, list) else [kept] * n, before["question"], pool)
        differs = [name for name, value in run.items() if not same_content(before.get(name), value)]
        if seeds is not None and seeds != store.seeds:
            differs.append("seed")
        if differs:
            raise ValueError(
                f"the store {folder} holds another run: {', '.join(differs)} differ. Use another folder, or delete "
                "this one."
            )
        return store

    def path(self, position: int) -> Path:
        """Return the file of the row at ``position``."""
        return self.folder / f"row-{position:06d}.gbce"

    def has(self, position: int) -> bool:
        """Whether the row at ``position`` is finished."""
        return self.path(position).exists()

    def load(self, position: int, row: Array, seed: int) -> Explanation:
        """Read a finished row, which must be the one ``(d,)`` at ``position``, explained with its seed."""
        explanation, question = load_part(self.path(position))
        if explanation.seed != seed or not np.array_equal(explanation.x0, row, equal_nan=True):
            wrong = f"holds another row, or another seed, than row {position} of this run has"
        elif question != self.question:
            wrong = "answers another question than this run asks: it was written into another store"
        else:
            return explanation
        raise ValueError(f"{self.path(position)} {wrong}. Delete it to have the row explained again.")

    def save(self, position: int, explanation: Explanation) -> None:
        """Write a finished row, whole or not at all."""
        save(explanation, self.path(position), pool=self.pool, run=self.question)


def _read_note(note: Path) -> dict[str, Any]:
    """Read the note of a run, or refuse one that is damaged, or no file."""
    try:
        before = json.loads(note.read_text()) if note.is_file() else None
        seeds = before["seed"] if isinstance(before["seed"], list) else [before["seed"]]  # type: ignore[index]
        if all(isinstance(one, int) for one in seeds) and isinstance(before, dict):
            return before
    except (ValueError, KeyError, TypeError):
        pass
    raise ValueError(f"{note} is damaged; use another folder, or delete this one")


def rows_to_describe(explainer: Explainer) -> int:
    """Return how many model rows :func:`describe_run` takes."""
    asked = [predictor.questions(use_predict=True) for predictor in explainer.predictors if not predictor.identity]
    return len(pick_rows(len(explainer.data))) * sum(asked)


def describe_run(
    explainer: Explainer,
    predictors: Sequence[Predictor],
    refits: Sequence[Predictor],
    x: Array,
    target: Target,
    rules: Sequence[Rule],
    max_model_rows: int | None,
    budget: Budget,
) -> dict[str, Any]:
    """Return what tells one run from another, as JSON has it.

    Models and functions count by what they return for a few dozen rows of the data, so that one that was fitted again
    is another; a model with an identity of its own, such as a remote one, is not asked.
    """
    rows = explainer.data[pick_rows(len(explainer.data))]
    models, outputs = zip(*(_describe_model(predictor, rows, budget) for predictor in predictors), strict=True)
    probe = Probe(explainer.space, rows, outputs[0])
    return {
        "format": _FORMAT,
        "rows": hashlib.sha256(x.tobytes()).hexdigest(),
        "data": hashlib.sha256(explainer.data.tobytes()).hexdigest(),
        "target": content(target, probe),
        "rules": content(rules, probe),
        "space": content(explainer.space, probe),
        "prior": content(explainer.prior, probe),
        "sampler": _describe_sampler(content(explainer.sampler, probe), explainer.sums_if_few),
        "evaluation": content(explainer.evaluation, probe),
        "models": list(models),
        "mixture": content(explainer.mixture, probe),
        "eta": content(explainer.eta_rule, probe),
        "policy": content(explainer.policy, probe),
        "refits": [_describe_model(predictor, rows, budget)[0] for predictor in refits],
        "joint": explainer.jointly,
        "max_model_rows": max_model_rows,
    }


def _describe_sampler(sampler: Any, sums_if_few: bool) -> Any:
    """Return a sampler's content; one that nobody chose gives way to exact sums where they apply."""
    return {"unless few cells": sampler} if sums_if_few else sampler


def _describe_model(predictor: Predictor, rows: Array, budget: Budget) -> tuple[dict[str, Any], Array | None]:
    """Return what tells a model from others, and what it said about rows ``(n, d)`` if it was asked."""
    known: dict[str, Any] = {"name": predictor.name, "classes": list(map(repr, predictor.classes or ()))}
    if predictor.identity:
        return known | {"identity": predictor.identity}, None
    (said,) = Panel((predictor,), budget, use_predict=True).ask(rows)
    decided = np.zeros(0) if said.decided is None else said.decided
    return known | {"outputs": outputs_content(said.values), "decided": outputs_content(decided)}, said.values
