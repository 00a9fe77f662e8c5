"""Build predictors from models of any framework, and check learners with their training data before they are fitted."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array, Outputs
from gbce.predictors._columns import Rows, as_numbers, in_order, made_by
from gbce.predictors._fast import Shortcut
from gbce.predictors._frameworks import from_catboost, from_lightgbm, from_onnx, from_torch, from_xgboost
from gbce.predictors._predictor import (
    MAX_BATCH,
    Classifier,
    Predictor,
    decides_by_score,
    name_classes,
    shares_of_scores,
    unfitted_error,
)
from gbce.predictors._remote import Remote, from_remote
from gbce.space import Space, unmasked

# Size of one batch, by hand: memory is bounded, and the cost of a call is small against that of its rows.
_MAX_CELLS = 20_000_000  # numbers: 160 MB of floats
_MIN_BATCH = 1_000  # rows, however many columns there are
_SEEDS = 2**32  # number of seeds that scikit-learn accepts: numpy's RandomState has no others
_FRAMEWORKS: tuple[tuple[str, str, Callable[[Any, Space, str], Predictor]], ...] = (
    ("xgboost", "Booster", from_xgboost),
    ("lightgbm", "Booster", from_lightgbm),
    ("catboost", "CatBoost", from_catboost),
    ("torch", "Module", from_torch),
    ("onnxruntime", "InferenceSession", from_onnx),
)

# --- fitted models as predictors -------------------------------------------------------------------------------------


def as_predictor(model: Any, space: Space, *, name: str | None = None, batch_rows: int | None = None) -> Predictor:
    """Wrap a fitted model of any framework, see :class:`gbce.Explainer`; no framework is imported to find out which."""
    if batch_rows is None:
        batch_rows = max(_MIN_BATCH, min(MAX_BATCH, _MAX_CELLS // space.n_columns))
    if isinstance(model, type):
        raise TypeError(f"model is the class {model.__name__}; pass a fitted instance of it")
    predictor = _wrap(model, space, name)
    return replace(
        predictor,
        batch_rows=batch_rows,
        remake=partial(_wrap, model, space, name),
        cost_per_call=predictor.cost_per_call or _declares_cost(model),
    )


def _declares_cost(model: Any) -> bool:
    """Whether a model says that every call is paid for."""
    inner = model.model if isinstance(model, Classifier) else model
    return getattr(inner, "cost_per_call", False) is True


def _wrap(model: Any, space: Space, name: str | None) -> Predictor:
    if isinstance(model, Classifier):
        inner = model.model
        if made_by(inner, "onnxruntime", "InferenceSession"):
            return name_classes(from_onnx(inner, space, name or type(inner).__name__, model.classes), model)
        return name_classes(_wrap(inner, space, name), model)
    if isinstance(model, Remote):
        return from_remote(model, space, name)
    for package, kind, wrap in _FRAMEWORKS:
        if made_by(model, package, kind):
            return wrap(model, space, name or type(model).__name__)
    if hasattr(model, "predict"):
        return _from_estimator(model, space, name or type(model).__name__)
    if callable(model):
        label = str(name or getattr(model, "__name__", type(model).__name__))
        label = "model" if label == "<lambda>" else label
        return Predictor(label, lambda x: model(space.decode(x)), plain=True)
    hint = "; gbce.predictors.load_model reads a model file" if isinstance(model, (str, Path)) else ""
    raise TypeError(f"model must have a predict method or be callable, not {type(model).__name__}{hint}")


def as_classifier(predictor: Predictor, outputs: Outputs) -> Predictor:
    """Treat a bare function as a classifier with labels 0, 1, ...: columns are classes, one column is p(1)."""
    values = outputs.values
    return replace(predictor, classes=(0, 1) if values.ndim == 1 else tuple(range(values.shape[1])))


def follow_predict(predictor: Predictor, outputs: Outputs) -> Predictor:
    """Mark a predictor whose ``predict`` differs from the most probable class at some evaluated row.

    Examples are classifiers with a tuned threshold and SVMs with fitted probabilities.
    """
    if outputs.decided is not None and (outputs.decided < 0).all():
        raise ValueError(
            f"{predictor.name}: predict returns none of its classes {list(predictor.classes or ())}, but other labels, "
            "so that no class could be reached: make predict return them, or explain a function that returns "
            "probabilities, by gbce.classifier(function, classes=[...])"
        )
    differs = outputs.decided != outputs.values.argmax(axis=1)
    return replace(predictor, decide_always=predictor.decide_always or bool(np.any(differs)))


def _from_estimator(model: Any, space: Space, name: str) -> Predictor:
    _require_fitted(model, name)
    as_input = input_maker(model, space, name)
    shortcut = Shortcut(model, space, as_input)
    if not _classifies(model):
        return Predictor(name, shortcut.asking("predict"), own_ask=shortcut.alone("predict"))
    if isinstance(model.classes_, list):
        raise TypeError(
            f"{name} predicts several outcomes at once: explain one of its estimators_, or a function of rows"
        )
    if len(model.classes_) < 2:
        raise ValueError(f"{name} has a single class, {model.classes_[0]!r}: no other decision is possible")
    by_score = not hasattr(model, "predict_proba")
    if by_score and not hasattr(model, "decision_function"):
        raise TypeError(
            f"{name} is a classifier with neither predict_proba nor decision_function, and the loss of a class is -log "
            "of its probability: fit it with probabilities or wrap it in sklearn.calibration.CalibratedClassifierCV"
        )

    return Predictor(
        name,
        shares_of_scores(model, name, shortcut.asking) if by_score else shortcut.asking("predict_proba"),
        classes=tuple(np.asarray(model.classes_).tolist()),
        decide=shortcut.asking("predict"),
        decide_always=not decides_by_score(model) if by_score else _has_threshold(model),
        own_ask=shares_of_scores(model, name, shortcut.alone) if by_score else shortcut.alone("predict_proba"),
        own_decide=shortcut.alone("predict"),
    )


def _classifies(model: Any) -> bool:
    from sklearn.base import BaseEstimator, is_classifier

    if made_by(model, "flaml"):  # a BaseEstimator without the tag of a classifier
        return getattr(model, "classes_", None) is not None
    if isinstance(model, BaseEstimator):
        return bool(is_classifier(model))
    # other libraries follow the conventions without scikit-learn's tags
    return hasattr(model, "predict_proba") and hasattr(model, "classes_")


def _has_threshold(model: Any) -> bool:
    """Whether ``predict`` is known to use a threshold of its own, whatever it returns for the data."""
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
    from sklearn.pipeline import Pipeline

    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return isinstance(last, (FixedThresholdClassifier, TunedThresholdClassifierCV))


def _require_fitted(model: Any, name: str) -> None:
    """Refuse an estimator of scikit-learn that is not fitted; one without ``fit`` is as it should be."""
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, BaseEstimator) or not hasattr(model, "fit"):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of scikit-learn about how estimators tag themselves
            check_is_fitted(model)
    except NotFittedError:
        raise unfitted_error(name) from None


def input_maker(model: Any, space: Space, name: str) -> Rows:
    """Return a function from encoded rows to what the estimator saw in ``fit``: a frame in its order, or an array."""
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None:
        count = getattr(model, "n_features_in_", space.n_columns)
        if count != space.n_columns:
            raise ValueError(
                f"{name} was fitted on {count} columns, but the data have {space.n_columns}: {list(space.names)}"
            )
        # an estimator fitted on an array warns about frames, a pipeline or duck type may need its frame
        if space.columns is None or not hasattr(model, "n_features_in_"):
            return space.decode
        return as_numbers(space, name)
    if made_by(model, "flaml") and space.columns is not None and set(map(str, wanted)) <= set(map(str, space.columns)):
        return space.decode  # it selects its columns by name, and may have dropped constant ones
    # LightGBM reads categories from pandas frames only
    return in_order(wanted, space, name, own=not made_by(model, "lightgbm"))


# --- learners and training data --------------------------------------------------------------------------------------


def classifies(learner: Any) -> bool:
    """Whether a learner predicts classes, according to scikit-learn's tags or to its methods."""
    from sklearn.base import BaseEstimator, is_classifier

    return bool(is_classifier(learner)) if isinstance(learner, BaseEstimator) else hasattr(learner, "predict_proba")


def check_data(learner: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Return rows as given (lists as an array) and outcomes ``(n,)`` after checks."""
    X, y = unmasked(X), unmasked(y)
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2 or X.shape[0] < 2:
        raise ValueError(f"X must be a table with at least two rows, not of shape {tuple(X.shape)}")
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(
            f"y must be one outcome per row, shape (n,), not of shape {y.shape}: fit one outcome at a time"
        )
    if len(y) != X.shape[0]:
        raise ValueError(f"y has {len(y)} outcomes, but X has {X.shape[0]} rows")
    missing = np.asarray(pd.isna(y))
    if missing.any():
        raise ValueError(
            f"y is missing in {int(missing.sum())} of {len(y)} rows, first in row {int(missing.argmax())}: drop them"
        )
    name = type(learner).__name__
    if classifies(learner):
        if y.dtype.kind == "f" and np.any(y != np.round(y)):
            raise TypeError(
                f"{name} is a classifier, but y holds numbers such as {y[y != np.round(y)][0]}: use a regressor"
            )
        if len(set(y.tolist())) < 2:
            raise ValueError(f"y holds the single class {y.tolist()[0]!r}: there is nothing for {name} to learn")
    else:
        try:
            y = y.astype(float)
        except (TypeError, ValueError):
            raise TypeError(f"{name} is a regressor, but y holds {y.tolist()[0]!r}: use a classifier") from None
        if not np.isfinite(y).all():
            raise ValueError(f"y is infinite in row {int((~np.isfinite(y)).argmax())}: drop or replace it")
    return X, y


def rows_of(X: Any, index: Array) -> Any:
    """Return the rows ``index`` of a frame or an array."""
    return X.iloc[index] if hasattr(X, "iloc") else X[index]


def folds_of(y: Array, classes: bool, cv: int, seed: int) -> list[tuple[Array, Array]]:
    """Return the training rows and the held-out rows of each fold."""
    from sklearn.model_selection import KFold, StratifiedKFold

    if not isinstance(cv, (int, np.integer)) or isinstance(cv, bool) or not 2 <= cv <= len(y):
        raise ValueError(
            f"cv must be an integer number of folds between 2 and the number of rows, {len(y)}, not {cv!r}"
        )
    if classes:
        rarest, count = min(zip(*np.unique(y, return_counts=True), strict=True), key=lambda pair: pair[1])
        if count < cv:
            raise ValueError(
                f"class {rarest!r} has {count} rows, fewer than cv={cv} folds: use fewer folds or drop the class"
            )
    kind = StratifiedKFold if classes else KFold
    return list(kind(cv, shuffle=True, random_state=seed % _SEEDS).split(np.zeros(len(y)), y))
