"""The four kinds of models that are explained, each as a function that fits it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks._answer_tables import Table, boosting, forest, linear

__all__ = ["LEARNERS", "Learn", "learner_of"]

Learn = Callable[[pd.DataFrame, pd.Series, int], Any]
_UNITS = 16  # of the one layer
_PENALTY = 1.0  # on weights: enough that logits stay of one digit on tables of a thousand rows
_PASSES = 200


def net(table: Table) -> BaseEstimator:
    """Return a network of one small layer, behind a scaler and an encoder."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    steps = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (levels, make_column_selector(dtype_exclude="number")),
    )
    settings: dict[str, Any] = {"hidden_layer_sizes": (_UNITS,), "alpha": _PENALTY, "max_iter": _PASSES}
    if table.classes:
        return make_pipeline(steps, MLPClassifier(**settings, early_stopping=True, random_state=0))
    fitted = MLPRegressor(**settings, early_stopping=True, random_state=0)
    return make_pipeline(steps, TransformedTargetRegressor(fitted, transformer=StandardScaler()))


def seeded(estimator: Any, seed: int) -> Any:
    """Return a copy, not fitted, whose every ``random_state`` is a seed."""
    copy = clone(estimator)
    states = [name for name in copy.get_params() if name == "random_state" or name.endswith("__random_state")]
    return copy.set_params(**dict.fromkeys(states, seed % 2**32))


def _learn(make: Callable[[Table], BaseEstimator], wish: Any, X: pd.DataFrame, y: pd.Series, seed: int) -> Any:
    return seeded(make(Table(X, y, wish)), seed).fit(X, y)


def learner_of(estimator: Any) -> Learn:
    """Return the function that fits an estimator like one that somebody has fitted.

    Raises
    ------
    TypeError
        If it is not one of scikit-learn's kind, which can be copied.
    """
    clone(estimator)

    def learn(X: pd.DataFrame, y: pd.Series, seed: int) -> Any:
        return seeded(estimator, seed).fit(X, y)

    return learn


LEARNERS: dict[str, Callable[[Any], Learn]] = {
    "forest": lambda wish: partial(_learn, forest, wish),
    "boosting": lambda wish: partial(_learn, boosting, wish),
    "logistic": lambda wish: partial(_learn, linear, wish),
    "small net": lambda wish: partial(_learn, net, wish),
}
"""By name, a function of the wish (a float where numbers are wanted) to the one that fits."""
