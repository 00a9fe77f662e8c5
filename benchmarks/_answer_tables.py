"""Ten real tables with nothing said about their columns, and the models that are fitted on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce
from benchmarks._real_tables import Case
from benchmarks._wheels import adult, apartments, bank, bikes, california, german_credit, give_me_some_credit, staff

__all__ = ["MODELS", "TABLES", "Table", "case_of", "rows_of"]

MOST_ROWS = 10_000  # of a table, picked at random: so that models are fitted and neighbours found in seconds
_SEED = 0


@dataclass(frozen=True)
class Table:
    """A table and a wish.

    Parameters
    ----------
    X, y : DataFrame, Series
        The table without its outcome, and the outcome.
    wish : label or float
        The class that is wanted, or the relative change of the output.
    balanced : bool
        Whether classes count alike, however rare: otherwise hardly any row of such a table is refused.
    """

    X: pd.DataFrame
    y: pd.Series
    wish: Any
    balanced: bool = False

    @classmethod
    def of(cls, frame: pd.DataFrame, outcome: str, wish: Any, *, balanced: bool = False) -> "Table":
        """Take a frame apart, and no more rows of it than are needed."""
        if len(frame) > MOST_ROWS:
            frame = frame.sample(MOST_ROWS, random_state=_SEED)
        frame = frame.reset_index(drop=True)
        return cls(frame.drop(columns=outcome), frame[outcome], wish, balanced)

    @property
    def classes(self) -> bool:
        """Whether the wish is a class."""
        return not isinstance(self.wish, float)

    @property
    def texts(self) -> bool:
        """Whether some columns are neither numbers nor of pandas' own categories."""
        return any(not _is_number(kind) and not isinstance(kind, pd.CategoricalDtype) for kind in self.X.dtypes)

    @property
    def numbers(self) -> bool:
        """Whether all columns are numbers."""
        return all(map(_is_number, self.X.dtypes))


def _is_number(kind: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(kind))


# --- models -----------------------------------------------------------------------------------------------------


def forest(table: Table) -> BaseEstimator:
    """Return a forest of 100 trees, behind an encoder where there are levels."""
    settings: dict[str, Any] = {"n_estimators": 100, "min_samples_leaf": 3, "random_state": _SEED}
    if not table.classes:
        return _encoded(table, RandomForestRegressor(**settings))
    return _encoded(table, RandomForestClassifier(**settings, class_weight=_weight(table)))


def boosting(table: Table) -> BaseEstimator:
    """Return LightGBM where it reads the columns itself, scikit-learn's histogram boosting behind an encoder else."""
    if table.texts:
        if not table.classes:
            return _encoded(table, HistGradientBoostingRegressor(max_iter=60, random_state=_SEED))
        boosted = HistGradientBoostingClassifier(max_iter=60, random_state=_SEED, class_weight=_weight(table))
        return _encoded(table, boosted)
    settings: dict[str, Any] = {"n_estimators": 100, "num_leaves": 31, "random_state": _SEED, "verbose": -1}
    if not table.classes:
        return LGBMRegressor(**settings, n_jobs=1)
    return LGBMClassifier(**settings, n_jobs=1, class_weight=_weight(table))


def linear(table: Table) -> BaseEstimator:
    """Return a pipeline with logistic regression, or ridge regression where numbers are wanted."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    steps = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (_levels(), make_column_selector(dtype_exclude="number")),
    )
    if not table.classes:
        return make_pipeline(steps, Ridge())
    return make_pipeline(steps, LogisticRegression(max_iter=2_000, class_weight=_weight(table)))


def _levels() -> OneHotEncoder:
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def _encoded(table: Table, model: BaseEstimator) -> BaseEstimator:
    """Put the step before a model that spells levels out and passes numbers on, if there are levels."""
    if table.numbers:
        return model
    steps = make_column_transformer((_levels(), make_column_selector(dtype_exclude="number")), remainder="passthrough")
    return make_pipeline(steps, model)


def _weight(table: Table) -> str | None:
    return "balanced" if table.balanced else None


MODELS: dict[str, Callable[[Table], BaseEstimator]] = {"forest": forest, "boosting": boosting, "linear": linear}


# --- tables -----------------------------------------------------------------------------------------------------


def _adult() -> Table:
    return Table.of(adult().drop(columns="education-num"), "class", ">50K")  # the number repeats the education


def _bikes() -> Table:
    frame = bikes()
    frame[["season", "weather"]] = frame[["season", "weather"]].astype("category")
    return Table.of(frame, "count", 0.1)


def _cancer() -> Table:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return Table(X, y.map({0: "malignant", 1: "benign"}), "benign")


def _diabetes() -> Table:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return Table(X, y, -0.15)


TABLES: dict[str, Callable[[], Table]] = {
    "german credit": lambda: Table.of(german_credit(), "class", "good"),
    "adult": _adult,
    "california": lambda: Table.of(california(), "MedHouseVal", 0.15),
    "bikes": _bikes,
    "breast cancer": _cancer,
    "diabetes": _diabetes,
    "give me credit": lambda: Table.of(give_me_some_credit(), "SeriousDlqin2yrs", 0, balanced=True),
    "bank": lambda: Table.of(bank(), "y", "yes", balanced=True),
    "apartments": lambda: Table.of(apartments(), "m2_price", 0.1),
    "staff": lambda: Table.of(staff(), "status", "promoted"),
}


def case_of(table: Table, model: str) -> Case:
    """Fit a model on a table and say nothing about its columns but what can be read off them."""
    fitted = MODELS[model](table).fit(table.X, table.y)
    space = gbce.Space.infer(table.X)
    return Case(table.X, table.y, fitted, space, (), lambda answers, row: {}, table.wish, {})


def rows_of(case: Case, n: int) -> pd.DataFrame:
    """Return up to ``n`` rows in an order picked at random that have not got the wish; more of them begin alike."""
    order = np.random.default_rng(_SEED).permutation(len(case.X))
    rows = case.X.iloc[order]
    return rows[case.model.predict(rows) != case.wish].iloc[:n] if case.classification else rows.iloc[:n]
