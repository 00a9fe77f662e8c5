"""A folder of finished rows: a run that is killed goes on where it stopped."""

import contextlib
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gbce._numerics import seed_numbers
from gbce.base import Array, Rule, Target
from gbce.batch._content import Probe, content, outputs_content, same_content
from gbce.budget import Budget
from gbce.explainer import Explainer
from gbce.explanation import Explanation
from gbce.files import clear_leftovers, is_partial, load_part, save, whole_file
from gbce.predictors import Panel, Predictor, pick_rows

__all__ = ["Store", "describe_run", "rows_to_describe"]

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
