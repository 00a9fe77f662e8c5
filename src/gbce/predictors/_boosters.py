"""Boosters without an estimator around them: LightGBM's and XGBoost's own, and every model of CatBoost."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._columns import Rows, as_numbers, in_order, table_decoder
from gbce.predictors._predictor import Predictor
from gbce.predictors._scores import shares
from gbce.space import Space

__all__ = ["catboost_rows", "from_catboost", "from_lightgbm", "from_xgboost"]

_USUAL_THRESHOLD = 0.5  # between two classes, where the more probable one is decided for


def from_xgboost(booster: Any, space: Space, name: str) -> Predictor:
    """Wrap an ``xgboost.Booster``: its objective says whether it classifies.

    Classes are numbers from zero, as XGBoost has them. Where the objective returns labels or margins, the margins are
    read as shares: of ``multi:softmax`` and ``binary:logitraw`` these are the probabilities.
    """
    learner = json.loads(booster.save_config())["learner"]
    objective = str(learner["objective"]["name"])
    n_classes = max(2, int(learner["learner_model_param"]["num_class"]))
    rows = _xgboost_rows(booster, space, name)

    def ask(x: Array, margin: bool = False) -> Any:
        return booster.predict(rows(x), output_margin=margin)

    if objective in ("binary:logistic", "multi:softprob"):
        return Predictor(name, ask, classes=tuple(range(n_classes)))
    if objective in ("binary:logitraw", "binary:hinge", "multi:softmax"):
        return Predictor(name, lambda x: shares(ask(x, margin=True), n_classes), classes=tuple(range(n_classes)))
    return Predictor(name, ask, plain=objective == "reg:logistic")


def _xgboost_rows(booster: Any, space: Space, name: str) -> Rows:
    from xgboost import DMatrix

    wanted = booster.feature_names
    if wanted is None:
        if booster.num_features() != space.n_columns:
            raise ValueError(f"{name} was trained on {booster.num_features()} columns, the data have {space.n_columns}")
        numbers = as_numbers(space, name)
        return lambda x: DMatrix(numbers(x))
    as_input = in_order(wanted, space, name, frame=False, own=False)
    types = booster.feature_types

    def rows(x: Array) -> Any:
        table = as_input(x)
        if isinstance(table, pd.DataFrame):
            return DMatrix(table, feature_names=list(wanted), enable_categorical=True)
        return DMatrix(table, feature_names=list(wanted), feature_types=types, enable_categorical=True)

    return rows


def from_lightgbm(booster: Any, space: Space, name: str) -> Predictor:
    """Wrap a ``lightgbm.Booster``: its objective says whether it classifies; classes are numbers from zero."""
    said = str(booster.dump_model(num_iteration=1).get("objective", "")).split()
    objective, options = (said[0] if said else ""), dict(part.split(":", 1) for part in said[1:] if ":" in part)
    names = booster.feature_name()
    unnamed = names == [f"Column_{j}" for j in range(len(names))]
    if unnamed and space.columns is not None and list(map(str, space.columns)) != names:
        if len(names) != space.n_columns:
            raise ValueError(f"{name} was trained on {len(names)} columns, the data have {space.n_columns}")
        as_input: Rows = as_numbers(space, name)
    else:
        as_input = in_order(names, space, name, frame=False, own=False)
    classes: tuple[int, ...] | None = None
    if objective == "binary":
        classes = (0, 1)
    elif objective in ("multiclass", "multiclassova"):
        classes = tuple(range(int(options["num_class"])))
    return Predictor(
        name, lambda x: booster.predict(as_input(x)), classes=classes, plain=objective.startswith("cross_entropy")
    )


def from_catboost(model: Any, space: Space, name: str) -> Predictor:
    """Wrap any CatBoost model, core or estimator; columns of categories go in as words or whole numbers."""
    if not model.is_fitted():
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"{name} is not fitted: call fit(X, y) before it can be explained")
    as_input = catboost_rows(model, space, name)
    classes = tuple(np.asarray(model.classes_).tolist())
    if not classes:
        return Predictor(name, lambda x: model.predict(as_input(x)))
    if len(classes) < 2:
        raise ValueError(f"{name} knows a single class, {classes[0]!r}: there is nothing to decide otherwise")
    return Predictor(
        name,
        lambda x: model.predict(as_input(x), prediction_type="Probability"),
        classes=classes,
        decide=lambda x: model.predict(as_input(x), prediction_type="Class"),
        decide_always=_threshold(model) != _USUAL_THRESHOLD,
    )


def _threshold(model: Any) -> float:
    return float(model.get_probability_threshold()) if hasattr(model, "get_probability_threshold") else _USUAL_THRESHOLD


def catboost_rows(model: Any, space: Space, name: str) -> Callable[[Array], pd.DataFrame]:
    """Return encoded rows as a frame that a CatBoost model takes: categories are words or whole numbers."""
    names = model.feature_names_
    if names == [str(j) for j in range(len(names))]:  # fitted on an array
        if len(names) != space.n_columns:
            raise ValueError(f"{name} was fitted on {len(names)} columns, the data have {space.n_columns}")
        make: Rows = table_decoder(space)
    else:
        make = in_order(names, space, name, own=False)
    categories = model.get_cat_feature_indices()

    def rows(x: Array) -> pd.DataFrame:
        table = make(x).set_axis(names, axis=1)
        whole = [names[j] for j in categories if pd.api.types.is_float_dtype(table.dtypes.iloc[j])]
        return table.astype(dict.fromkeys(whole, "int64"))

    return rows
