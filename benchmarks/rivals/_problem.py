"""A table, a model, and what is wanted of it: one cell of the comparison."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks._answer_judge import Columns
from benchmarks._real_tables import TABLES, Case
from benchmarks.rivals._data import Data
from benchmarks.rivals._learners import LEARNERS, Learn, learner_of
from benchmarks.rivals._wish import Wish

__all__ = ["OwnTable", "Problem", "problem_of"]

MOST_ROWS = 4_000  # that a model is fitted on, picked at random: dozens of refits are to take a minute at most
_HELD_OUT = 0.25  # of a table: rows that are asked about, which no model was fitted on
_SEED = 0


@dataclass(frozen=True)
class OwnTable:
    """A user's own model and table, from files.

    Parameters
    ----------
    model : str
        Path of an estimator that joblib wrote. Loading one runs code from it.
    data : str
        Path of a CSV file with a header.
    outcome : str
        The column that the model predicts.
    label : str, optional
        The class that is wanted.
    change : float, optional
        The relative change of the number that is wanted, such as 0.1.
    """

    model: str
    data: str
    outcome: str
    label: str | None = None
    change: float | None = None

    def case(self) -> Case:
        """Read both files.

        Raises
        ------
        ValueError
            If the outcome is no column, or the label no class of the model.
        """
        import joblib

        frame = pd.read_csv(self.data)
        if self.outcome not in frame.columns:
            raise ValueError(
                f"{self.data} has no column {self.outcome!r}; it has {', '.join(map(repr, frame.columns))}"
            )
        X, y = frame.drop(columns=self.outcome), frame[self.outcome]
        model = joblib.load(self.model)
        wish: Any = self.change
        if self.label is not None:
            wish = self._class_of(model)
        elif not self.change:
            raise ValueError("say what is wanted: --label for a class, or --change for a number, such as 0.1")
        return Case(X, y, model, gbce.Space.infer(X), (), lambda answers, row: {}, wish, {})

    def _class_of(self, model: Any) -> Any:
        known = {str(label): label for label in getattr(model, "classes_", ())}
        if self.label not in known:
            said = f"its classes are {', '.join(known)}" if known else "it has no classes: use --change"
            raise ValueError(f"the model in {self.model} does not know the class {self.label!r}; {said}")
        return known[self.label]

    @property
    def names(self) -> tuple[str, str]:
        """How the table and the model are called."""
        return Path(self.data).stem, Path(self.model).stem


@dataclass(frozen=True)
class Problem:
    """Everything about one table and one model.

    Parameters
    ----------
    case : Case
        The rows that the model was fitted on, the model, and the rules.
    data : Data
        What methods are shown of it.
    rows : DataFrame
        The rows that are asked about.
    learn : callable, optional
        Fits the model anew.
    others : mapping
        Fit other kinds of models.
    columns : Columns
        What the columns of the whole table can be.
    """

    case: Case
    data: Data
    rows: pd.DataFrame
    learn: Learn | None
    others: Mapping[str, Learn]
    columns: Columns

    def wish(self, row: pd.DataFrame) -> Wish:
        """Return what is wanted for a frame of one row."""
        if self.case.classification:
            return Wish(label=self.case.wish)
        unit, edge = float(self.case.y.std()), self.case.threshold(row)
        return Wish(low=edge, unit=unit) if self.case.wish > 0 else Wish(high=edge, unit=unit)

    def broken(self, answer: pd.DataFrame, row: pd.DataFrame) -> int:
        """Count what an answer of one line breaks: rules, columns that may not change, values a column cannot have."""
        now = row.iloc[0]
        rules = sum(bool(np.asarray(one).any()) for one in self.case.broken(answer, now).values())
        changed = [name for name, size in self.columns.sizes(answer.iloc[0], now).items() if size > 0]
        fixed = sum(name in self.case.immutable for name in changed)
        followed = {one.name for one in self.case.space.computed}
        free = [name for name in changed if name not in followed]
        beyond, _ = self.columns.misfits(answer.iloc[0], [name for name in free if name not in self.case.ranges])
        _, fractions = self.columns.misfits(answer.iloc[0], free)
        return rules + fixed + beyond + fractions


def problem_of(table: str, model: str, n: int, own: OwnTable | None = None) -> Problem:
    """Fit a model on a part of a table, and pick rows of the rest that it refuses."""
    if own is not None:
        return _own_problem(own, n)
    case = _with_numbers(TABLES[table]())
    order = np.random.default_rng(_SEED).permutation(len(case.X))
    n_fit = min(MOST_ROWS, len(order) - int(_HELD_OUT * len(order)))
    learn = LEARNERS[model](case.wish)
    X, y = case.X.iloc[order[:n_fit]], case.y.iloc[order[:n_fit]]
    fitted = replace(case, X=X, y=y, model=learn(X, y, _SEED))
    asked = replace(fitted, X=case.X.iloc[order[n_fit:]])
    others = {name: make(case.wish) for name, make in LEARNERS.items() if name != model}
    return Problem(fitted, Data(X, y, learn), asked.rows(n), learn, others, Columns.of(case.X))


def _own_problem(own: OwnTable, n: int) -> Problem:
    """Take a model as it is, and rows of its table that it refuses."""
    case = _with_numbers(own.case())
    try:
        learn: Callable[..., Any] | None = learner_of(case.model)
    except TypeError:  # the message of the missing survival says it
        learn = None
    others = {name: make(case.wish) for name, make in LEARNERS.items()}
    return Problem(case, Data(case.X, case.y, learn), case.rows(n), learn, others, Columns.of(case.X))


def _with_numbers(case: Case) -> Case:
    """Return a case whose outcome is a float if it is a number: whole ones would pass for classes."""
    return case if case.classification else replace(case, y=case.y.astype(float))
