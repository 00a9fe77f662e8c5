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

        Rows without an outcome are left out, and columns that the model says it was not fitted on.

        Raises
        ------
        ValueError
            If the model does not take the rows, the outcome is no column, or what is wanted does not go with them.
        """
        import joblib

        frame = pd.read_csv(self.data)
        if self.outcome not in frame.columns:
            raise ValueError(
                f"{self.data} has no column {self.outcome!r}; it has {', '.join(map(repr, frame.columns))}"
            )
        frame = frame.dropna(subset=self.outcome, ignore_index=True)
        model = joblib.load(self.model)
        X, y = self._columns_of(model, frame), frame[self.outcome]
        try:
            model.predict(X.iloc[:1])
        except Exception as error:  # anything can be in a file
            raise ValueError(f"the model in {self.model} does not take the rows of {self.data}: {error}") from error
        if self.label is not None:
            wish, y = self._class_of(model), self._classes_of(model, y)
        else:
            wish = self._change_of(model, y)
        return Case(X, y, model, gbce.Space.infer(X), (), lambda answers, row: {}, wish, {})

    def _columns_of(self, model: Any, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the columns that a model was fitted on, if it knows; otherwise all but the outcome."""
        names = list(getattr(model, "feature_names_in_", ())) or [name for name in frame if name != self.outcome]
        missing = [name for name in names if name not in frame or name == self.outcome]
        if missing:
            raise ValueError(
                f"the model in {self.model} was fitted on columns that {self.data} does not have beside the outcome: "
                f"{', '.join(map(repr, missing))}"
            )
        return frame[names]

    def _class_of(self, model: Any) -> Any:
        known = {str(label): label for label in getattr(model, "classes_", ())}
        if self.label not in known:
            said = f"its classes are {', '.join(known)}" if known else "it has no classes: use --change"
            raise ValueError(f"the model in {self.model} does not know the class {self.label!r}; {said}")
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"the model in {self.model} has no predict_proba, which nearly all methods ask: "
                "put it into scikit-learn's CalibratedClassifierCV"
            )
        return _plain(known[self.label])

    def _classes_of(self, model: Any, y: pd.Series) -> pd.Series:
        """Return outcomes as the model spells its classes: a file does not know whether 1 is a number or a text."""
        known = {str(label): label for label in model.classes_} | {label: label for label in model.classes_}
        spelled = {value: known.get(value, known.get(str(_plain(value)))) for value in y.unique()}
        others = [value for value, label in spelled.items() if label is None]
        if others:
            raise ValueError(
                f"{self.outcome} in {self.data} has {', '.join(map(str, others[:5]))}, which the model in {self.model} "
                f"does not know; its classes are {', '.join(map(str, model.classes_))}"
            )
        return pd.Series([_plain(spelled[value]) for value in y], y.index)

    def _change_of(self, model: Any, y: pd.Series) -> float:
        if not self.change:
            raise ValueError("say what is wanted: --label for a class, or --change for a number, such as 0.1")
        if hasattr(model, "classes_"):
            raise ValueError(f"the model in {self.model} gives classes, so name one by --label instead of --change")
        if not pd.api.types.is_numeric_dtype(y):
            raise ValueError(f"{self.outcome} in {self.data} is not a number, so it cannot change by {self.change:g}")
        return float(self.change)

    @property
    def names(self) -> tuple[str, str]:
        """How the table and the model are called."""
        return Path(self.data).stem, Path(self.model).stem


def _plain(label: Any) -> Any:
    """Return a class that is not a float, which here stands for a change that is wanted: 1 is as good as 1.0."""
    return int(label) if isinstance(label, float) and label == int(label) else label


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
        # a column of floats may hold whole ones only, but nobody is told so
        whole = {feature.name for feature in self.case.space.features if feature.discrete}
        _, fractions = self.columns.misfits(answer.iloc[0], [name for name in free if name in whole])
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
    """Return a case in which a number that is wanted is a float, and numbers that are always whole are whole.

    Whole outcomes would pass for classes; and that a column's numbers are whole is a rule that all methods are told.
    """
    whole, space = Columns.of(case.X).whole, case.space
    features = [
        replace(one, kind="integer") if one.kind == "real" and one.name in whole else one for one in space.features
    ]
    case = replace(case, space=replace(space, features=tuple(features)))
    return case if case.classification else replace(case, y=case.y.astype(float))
