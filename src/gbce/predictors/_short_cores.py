"""The quickest right way to ask a model about rows of a matrix: without frames, names and checks that cost more.

Each is for a class of a library's own, never for a subclass. A way answers None where it is not for these rows, and the
model itself is asked. The estimator is never touched.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._boosted import FEW_LIGHTGBM_ROWS, hist_stack
from gbce.predictors._forests import forest_jobs, matrix_walker
from gbce.predictors._prepared import Prepared

__all__ = ["Way", "as_lightgbm_matrix", "is_stock", "way_of"]

Way = Callable[[Array], Any]
_LIBRARIES = ("sklearn.", "lightgbm.sklearn", "xgboost.sklearn")


def is_stock(model: Any, method: str) -> bool:
    """Whether a model is of a library's own class, with that class's own method."""
    return type(model).__module__.startswith(_LIBRARIES) and method not in vars(model)


def way_of(core: Any, method: str, prepared: Prepared, steps: int) -> Way | None:
    """Return how to ask the last step about a matrix ``(n, C)``, or None if no way is shorter.

    Parameters
    ----------
    core : estimator
        The last step.
    method : str
        Of the estimator, such as ``predict``.
    prepared : Prepared
        What gives the matrix.
    steps : int
        How many steps come before.
    """
    if not is_stock(core, method):
        return None
    name, module = type(core).__name__, type(core).__module__
    if module == "lightgbm.sklearn":
        return _lightgbm(core, method) if name in ("LGBMClassifier", "LGBMRegressor") else None
    if module == "xgboost.sklearn":
        return None if prepared.sparse else _xgboost(core, method)
    way = _linear(core, method, prepared.sparse)
    if way is None and not steps and prepared.plain:  # rows of an array are what trees are asked about as it is
        return None
    way = way or matrix_walker(core, method) or _hist(core, method)
    if way is None and steps and prepared.plain and forest_jobs(core) is None:
        return lambda matrix: getattr(core, method)(matrix)
    return way


def _hist(core: Any, method: str) -> Way | None:
    stacked = hist_stack(core, method)
    if stacked is None:
        return None
    trees, quick = core._predictors, stacked[1]

    def ask(matrix: Array) -> Any:
        if core._predictors is not trees or not len(matrix) or np.isinf(matrix).any():
            return None
        return quick(matrix)

    return ask


def _linear(core: Any, method: str, sparse: bool) -> Way | None:
    """Return the method of a shallow copy whose scores are a product without checks."""
    from sklearn.linear_model._base import LinearClassifierMixin, LinearModel

    kind, twin = type(core), copy.copy(core)

    def scores(matrix: Array) -> Array:
        weights = core.coef_.T if core.coef_.ndim == 2 else core.coef_
        return np.asarray((_summed(matrix, weights) if sparse else matrix @ weights) + core.intercept_)

    def flat_scores(matrix: Array) -> Array:
        said = scores(matrix)
        return said.reshape(-1) if said.ndim == 2 and said.shape[1] == 1 else said

    if getattr(kind, "decision_function", None) is LinearClassifierMixin.decision_function:
        twin.decision_function = flat_scores
    elif getattr(kind, "_decision_function", None) is LinearModel._decision_function:
        twin._decision_function = scores
    else:
        return None
    quick = flat_scores if method == "decision_function" else getattr(twin, method)
    classes = getattr(core, "classes_", None)

    def ask(matrix: Array) -> Any:
        known = matrix.shape[1] == core.coef_.shape[-1] and np.isfinite(matrix).all()
        return quick(matrix) if len(matrix) and known and getattr(core, "classes_", None) is classes else None

    return ask


def _summed(matrix: Array, weights: Array) -> Array:
    """Return the product column by column, as one with a sparse matrix is added up: zeros change no bit."""
    total = np.zeros((len(matrix), *weights.shape[1:]))
    for column, weight in zip(matrix.T, weights, strict=True):
        total += np.multiply.outer(column, weight)
    return total


def _lightgbm(core: Any, method: str) -> Way | None:
    # LightGBM's options of predictions, such as pred_early_stop, are read with each call
    if callable(core.objective_) or any("pred" in option for option in core.get_params()):
        return None
    booster, classes, n_jobs = core.booster_, getattr(core, "classes_", None), core._process_n_jobs(core.n_jobs)
    if method not in ("predict", "predict_proba"):
        return None

    def ask(matrix: Array) -> Any:
        if core.booster_ is not booster or not len(matrix) or matrix.shape[1] != core.n_features_in_:
            return None
        # in one thread: more of them take longer to start than a few rows take
        said = booster.predict(matrix, num_threads=1 if len(matrix) <= FEW_LIGHTGBM_ROWS else n_jobs)
        if classes is None:
            return said
        shares = said if said.ndim == 2 else np.vstack((1.0 - said, said)).T
        return shares if method == "predict_proba" else classes.take(shares.argmax(axis=1))

    return ask


def as_lightgbm_matrix(core: Any) -> Callable[[Any], Array]:
    """Return a function of frames that gives LightGBM's own numbers: levels by their positions when it was fitted."""
    known = core.booster_.pandas_categorical or []

    def matrix(frame: Any) -> Array:
        if not isinstance(frame, pd.DataFrame):
            return np.ascontiguousarray(frame, dtype=float)
        frame = frame.copy(deep=False)
        levels = [label for label, kind in frame.dtypes.items() if isinstance(kind, pd.CategoricalDtype)]
        for label, categories in zip(levels, known, strict=True):
            codes = frame[label].cat.set_categories(categories).cat.codes.to_numpy(dtype=float)
            frame[label] = np.where(codes < 0, np.nan, codes)
        return frame.to_numpy(dtype=float, na_value=np.nan)

    return matrix


def _xgboost(core: Any, method: str) -> Way | None:
    if not type(core).__name__.startswith("XGB") or "c" in (core.get_booster().feature_types or ()):
        return None
    return lambda matrix: getattr(core, method)(matrix, validate_features=False)
