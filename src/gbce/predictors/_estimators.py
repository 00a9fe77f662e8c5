"""Estimators and functions as predictors: what a framework's model needs to be asked."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gbce._weights import Array
from gbce.predictors._forests import steady
from gbce.predictors._predictor import MAX_BATCH, Predictor
from gbce.space import Space

__all__ = ["as_classifier", "as_predictor", "follow_predict"]

_MAX_CELLS = 20_000_000  # of one batch: 160 MB of floats


def as_predictor(model: Any, space: Space, *, name: str | None = None, batch_rows: int | None = None) -> Predictor:
    """Wrap a fitted estimator or pipeline, or a callable on rows.

    Parameters
    ----------
    model : estimator with ``predict``, or callable
        A scikit-learn, LightGBM or XGBoost estimator or a scikit-learn pipeline, fitted; or any function of rows
        (a frame if the data were a frame, an array otherwise) that returns ``(n,)`` or ``(n, c)``.
    space : Space
        How rows look.
    name : str, optional
        For messages; the class or function name by default.
    batch_rows : int, optional
        Largest number of rows in one call; bounded by memory when left out.

    Examples
    --------
    >>> ask = as_predictor(lambda x: x.sum(axis=1), Space.real(2))
    >>> ask(np.array([[1.0, 2.0]])).values
    array([3.])
    """
    if batch_rows is None:
        batch_rows = max(1_000, min(MAX_BATCH, _MAX_CELLS // len(space)))
    if isinstance(model, type):
        raise TypeError(f"model is the class {model.__name__}; pass a fitted instance of it")
    if hasattr(model, "predict"):
        predictor = _from_estimator(model, space, name or type(model).__name__)
    elif callable(model):
        label = str(name or getattr(model, "__name__", type(model).__name__))
        label = "model" if label == "<lambda>" else label
        predictor = Predictor(label, lambda x: model(space.decode(x)), plain=True)
    else:
        raise TypeError(f"model must have a predict method or be callable, not {type(model).__name__}")
    return replace(predictor, batch_rows=batch_rows)


def as_classifier(predictor: Predictor, x: Array) -> Predictor:
    """Read a bare function as a classifier with labels 0, 1, ...: columns are classes, one column is p(1)."""
    if predictor.classes is not None or not predictor.plain:
        return predictor
    values = predictor(x[:1]).values
    return replace(predictor, classes=(0, 1) if values.ndim == 1 else tuple(range(values.shape[1])))


def follow_predict(predictor: Predictor, x: Array) -> Predictor:
    """Check on rows ``x`` whether the most probable class is what ``predict`` gives, and remember if it is not.

    A classifier with a tuned threshold, or an SVM with fitted probabilities, decides otherwise.
    """
    if predictor.classes is None or predictor.decide is None:
        return predictor
    said = predictor(x, own_decision=True)
    differs = said.decided != said.values.argmax(axis=1)
    return replace(predictor, decide_always=predictor.decide_always or bool(np.any(differs)))


def _from_estimator(model: Any, space: Space, name: str) -> Predictor:
    _require_fitted(model, name)
    as_input = _input_maker(model, space, name)
    if not _classifies(model):
        return Predictor(name, steady(model, "predict", as_input))
    if len(model.classes_) < 2:
        raise ValueError(f"{name} knows a single class, {model.classes_[0]!r}: there is nothing to decide otherwise")
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"{name} is a classifier without predict_proba, and the loss of a class is -log of its probability: "
            "fit it with probabilities, or wrap it in sklearn.calibration.CalibratedClassifierCV"
        )
    return Predictor(
        name,
        steady(model, "predict_proba", as_input),
        classes=tuple(np.asarray(model.classes_).tolist()),
        decide=steady(model, "predict", as_input),
        decide_always=_has_threshold(model),
    )


def _classifies(model: Any) -> bool:
    from sklearn.base import BaseEstimator, is_classifier

    if isinstance(model, BaseEstimator):
        return bool(is_classifier(model))
    # other makes follow the conventions without scikit-learn's tags
    return hasattr(model, "predict_proba") and hasattr(model, "classes_")


def _has_threshold(model: Any) -> bool:
    """Whether ``predict`` is known to cut at a threshold of its own, whatever the data show."""
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
    from sklearn.pipeline import Pipeline

    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return isinstance(last, (FixedThresholdClassifier, TunedThresholdClassifierCV))


def _require_fitted(model: Any, name: str) -> None:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, BaseEstimator):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(f"{name} is not fitted: call fit(X, y) before it can be explained") from None


def _input_maker(model: Any, space: Space, name: str) -> Callable[[Array], Any]:
    """Rows as the estimator saw them in ``fit``: a frame in its own column order, or an array."""
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None:
        count = getattr(model, "n_features_in_", len(space))
        if count != len(space):
            raise ValueError(f"{name} was fitted on {count} columns, the data have {len(space)}: {list(space.names)}")
        # an estimator fitted on an array warns about frames, a pipeline or duck type may need its frame
        return space.decode if space.columns is None or not hasattr(model, "n_features_in_") else _as_array
    wanted = [str(label) for label in wanted]
    if space.columns is None:
        if len(wanted) != len(space):
            raise ValueError(f"{name} was fitted on {len(wanted)} columns, the data have {len(space)}")
        return lambda x: pd.DataFrame(x, columns=wanted)
    have = list(map(str, space.columns))
    if wanted in (have, [label.replace(" ", "_") for label in have]):  # LightGBM keeps its names without blanks
        return space.decode
    if sorted(wanted) != sorted(have):
        raise ValueError(f"{name} was fitted on the columns {wanted}, the data have {have}")
    return lambda x: space.decode(x)[wanted]


def _as_array(x: Array) -> Array:
    return x
