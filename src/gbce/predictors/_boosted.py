"""Boosted trees of scikit-learn and LightGBM inside estimators, asked about a few rows without what a call costs.

Histogram boosting walks its trees one after the other, and LightGBM's estimators read all their options again with each
call: half a millisecond and more, however few the rows. The user's estimator is never touched, and the short way is
only taken where it was seen to give the same bits.
"""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._forests import split, without_thread_pool
from gbce.predictors._stacked import FEW_HIST_ROWS, HistStack

__all__ = ["FEW_LIGHTGBM_ROWS", "asking", "hist_stack"]

FEW_LIGHTGBM_ROWS = 100  # rows up to which one thread will do; measured: faster than the estimator up to 200
_PROBES = (1, 7, FEW_HIST_ROWS)  # batches on which a short way must give the estimator's own bits; by hand


def asking(model: Any, method: str, as_input: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Return ``model.method`` as a function of float rows ``(n, d)``, steady, and quick about a few rows."""
    prepare, core = split(model, lambda last: _make(last) is not None)
    make = _make(core)
    ask = None if make is None else make(core, method)
    if ask is None:
        return without_thread_pool(model, method, as_input)
    quick = ask
    return lambda x: quick(prepare(as_input(x)))


def _make(model: Any) -> Callable[[Any, str], Callable[[Any], Any] | None] | None:
    """Return what knows a short way for models of this class; a subclass may answer otherwise."""
    name = type(model).__name__
    module = type(model).__module__
    if name.startswith("HistGradientBoosting") and module.startswith("sklearn.ensemble._hist_gradient_boosting."):
        return _hist
    return _lightgbm if name in ("LGBMClassifier", "LGBMRegressor") and module == "lightgbm.sklearn" else None


def hist_stack(model: Any, method: str) -> tuple[int, Callable[[Array], Any]] | None:
    """Return the method of a shallow copy whose trees are walked without checks, if there is one.

    Up to the number of rows that comes with it, they are stacked.
    """
    if _make(model) is not _hist or getattr(model, "is_categorical_", None) is not None:
        return None
    try:
        twin = copy.copy(model)
        stack = HistStack(model._predictors, model._baseline_prediction, model.n_features_in_)
    except Exception:  # what a release of scikit-learn has inside is its own
        return None
    twin._raw_predict = stack
    return stack.most_rows, getattr(twin, method)


def _hist(model: Any, method: str) -> Callable[[Any], Any] | None:
    """Return the method with trees that are stacked for a few rows, or None where that is not the same."""
    stacked = hist_stack(model, method)
    if stacked is None:
        return None
    few, quick = stacked
    ask, trees = getattr(model, method), model._predictors
    thresholds = np.concatenate([tree.nodes["num_threshold"] for one in trees for tree in one])

    def run(rows: Any) -> Any:
        if hasattr(rows, "toarray") or not 0 < len(rows) <= few or model._predictors is not trees:
            return ask(rows)
        try:
            x = np.ascontiguousarray(rows, dtype=float)
        except (TypeError, ValueError):  # pandas' own missing value, or text: the estimator knows what to say
            return ask(rows)
        fits = x.ndim == 2 and x.shape[1] == model.n_features_in_ and not np.isinf(x).any()
        return quick(x) if fits else ask(rows)

    return run if _agree(run, ask, thresholds, model.n_features_in_) else None


def _lightgbm(model: Any, method: str) -> Callable[[Any], Any] | None:
    """Return the booster's answer in one thread as the estimator's method gives it, or None where it may differ."""
    # LightGBM's options of predictions, such as pred_early_stop, are read with each call
    if callable(model.objective_) or any("pred" in option for option in model.get_params()):
        return None
    ask, booster, classes = getattr(model, method), model.booster_, getattr(model, "classes_", None)

    def run(rows: Any) -> Any:
        known = isinstance(rows, pd.DataFrame) or (isinstance(rows, np.ndarray) and rows.dtype == float)
        if not known or not 0 < len(rows) <= FEW_LIGHTGBM_ROWS or model.booster_ is not booster:
            return ask(rows)
        if rows.ndim != 2 or rows.shape[1] != model.n_features_in_:
            return ask(rows)  # which knows what to say
        said = booster.predict(rows, num_threads=1)
        if classes is None:
            return said
        shares = said if said.ndim == 2 else np.vstack((1.0 - said, said)).T
        return shares if method == "predict_proba" else classes.take(shares.argmax(axis=1))

    values = np.concatenate([[0.0, np.nan], np.random.default_rng(0).normal(size=100)])
    return run if _agree(run, ask, values, model.n_features_in_) else None


def _agree(short: Callable[[Any], Any], own: Callable[[Any], Any], values: Array, n_features: int) -> bool:
    """Whether two ways answer alike, to the last bit, on batches of rows made of these values."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an estimator fitted on a frame misses its names
        for n in _PROBES:
            rows = rng.choice(values, (n, n_features))
            try:
                if not np.array_equal(short(rows), own(rows)):
                    return False
            except Exception:  # it takes frames only, or has other insides
                return False
    return True
