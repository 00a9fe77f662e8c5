"""A folder of finished rows: a run that is killed goes on where it stopped."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gbce._durable import clear_leftovers, is_partial, whole_file
from gbce._seeds import seed_number
from gbce._weights import Array
from gbce.explanation import Explanation
from gbce.io import load, save

__all__ = ["Store", "described_run"]

_RUN = "run.json"


@dataclass(frozen=True)
class Store:
    """One file per explained row, and a note of the run they belong to.

    Parameters
    ----------
    folder : Path
        Where they are.
    seed : int
        Of the run.
    """

    folder: Path
    seed: int

    @classmethod
    def open(cls, folder: str | Path, run: dict[str, Any], seed: Any) -> "Store":
        """Begin a store, or go on with one that holds the same run, with the seed it began with."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder, lambda name: re.fullmatch(r"run\.json|row-\d+\.gbce", name) is not None)
        note = folder / _RUN
        if not note.exists():
            if not all(is_partial(entry.name) for entry in folder.iterdir()):
                raise ValueError(f"the store {folder} is not empty and holds no run; use an empty folder")
            store = cls(folder, seed_number(seed))
            with whole_file(note) as file:
                file.write(json.dumps({**run, "seed": store.seed}, indent=1).encode())
            return store
        try:
            before = json.loads(note.read_text())
            store = cls(folder, int(before["seed"]))
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{note} is damaged; use another folder, or delete this one") from None
        differs = [name for name, value in run.items() if before.get(name) != value]
        if seed is not None and seed_number(seed) != store.seed:
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

    def load(self, position: int) -> Explanation:
        """Read a finished row."""
        return load(self.path(position))

    def save(self, position: int, explanation: Explanation) -> None:
        """Write a finished row, whole or not at all."""
        save(explanation, self.path(position))


def described_run(
    explainer: Any, x: Array, target: Any, rules: Sequence[Any], max_model_rows: int | None
) -> dict[str, Any]:
    """Return what tells one run from another, as text; functions count by their names."""
    return {
        "rows": hashlib.sha256(x.tobytes()).hexdigest(),
        "data": hashlib.sha256(explainer.data.tobytes()).hexdigest(),
        "target": _text(target),
        "rules": [rule.label for rule in rules],
        "space": hashlib.sha256(repr(explainer.space).encode()).hexdigest(),
        "prior": _text(explainer.prior),
        "sampler": _text(explainer.sampler),
        "evaluation": _text(explainer.evaluation),
        "models": [predictor.name for predictor in explainer.predictors],
        "mixture": f"{explainer.mixture.eta!r} {explainer.mixture.weights.tolist()} {explainer.mixture.combine}",
        "eta": None if explainer.eta_rule is None else _text(explainer.eta_rule),
        "max_model_rows": max_model_rows,
    }


def _text(thing: Any) -> str:
    """Return the options of an object, without the addresses that differ from run to run."""
    options = {name: getattr(value, "__qualname__", repr(value)) for name, value in vars(thing).items()}
    return f"{type(thing).__name__} {options}"
