"""Fast and reproducible predictions of scikit-learn's forests and histogram boosting for a matrix of floats.

A forest's thread pool costs milliseconds per call however few the rows, and sums trees in the order in which threads
finish, so that the last bits vary. Here trees are summed in order, in one thread per slice of rows. Boosted trees skip
the checks of their estimator. The user's estimator is never modified.
"""

import copy
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import joblib
import numpy as np

from gbce.base import Array

METHODS = ("predict", "predict_proba", "decision_function", "transform")  # that may be replaced on an instance
MANY_ROWS = 1_000  # below this a thread pool costs more than it saves; by hand, predictions are the same either way
FEW_ROWS = 100  # rows up to which one thread will do; measured with LightGBM: faster than the estimator up to 200
_NO_CATEGORIES = np.zeros((0, 8), dtype=np.uint32)  # empty category bitsets of histogram boosting

# --- forests without their thread pool -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OwnMethod:
    """``model.method`` as a user calls it, but in one thread, so that its bits are reproducible."""

    model: Any
    method: str
    as_input: Callable[[Array], Any]

    def __call__(self, x: Array) -> Any:
        """Evaluate encoded rows ``(n, d)``."""
        return self.predict(self.as_input(x))

    def predict(self, rows: Any) -> Any:
        """Evaluate rows in the form that the model takes."""
        with joblib.parallel_config(backend="sequential"):
            return getattr(self.model, self.method)(rows)


def asking(model: Any, method: str, as_input: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Return ``model.method`` as a function of encoded rows ``(n, d)``, reproducible if it contains a forest."""
    n_jobs, own = forest_jobs(model), OwnMethod(model, method, as_input)
    if n_jobs is None:
        return lambda x: getattr(model, method)(as_input(x))
    return lambda x: _predict_in_slices(own.predict, as_input(x), n_jobs)


def matrix_walker(forest: Any, method: str) -> Callable[[Array], Any] | None:
    """Return a forest's method as a function of floats ``(n, C)`` (None for infinite ones); None for other models."""
    if type(forest) not in _forest_classes() or method not in ("predict", "predict_proba") or forest.n_outputs_ > 1:
        return None
    classes, estimators, n_jobs = getattr(forest, "classes_", None), forest.estimators_, forest_jobs(forest) or 1
    trees = [estimator.tree_ for estimator in estimators]
    leaves = [np.ascontiguousarray(tree.value[:, 0, :]) for tree in trees]
    takes_missing = _takes_missing(forest)

    def add_up(x: Array) -> Array:
        total = np.zeros((len(x), 1 if classes is None else len(classes)))
        for tree, values in zip(trees, leaves, strict=True):
            total += values.take(tree.apply(x), axis=0)
        total /= len(trees)
        if classes is None:
            return total[:, 0]
        return total if method == "predict_proba" else classes.take(total.argmax(axis=1))

    def run(matrix: Array) -> Any:
        if forest.estimators_ is not estimators or method in vars(forest) or matrix.shape[1] != forest.n_features_in_:
            return None
        with np.errstate(over="ignore"):
            x = matrix.astype(np.float32)
        known = ~np.isinf(x) if takes_missing else np.isfinite(x)
        return _predict_in_slices(add_up, x, n_jobs) if known.all() else None

    return run


def _takes_missing(forest: Any) -> bool:
    """Whether a forest predicts for rows with missing values, as one that was fitted on some does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about missing feature names, if fitted on a frame
        try:
            OwnMethod(forest, "predict", np.asarray)(np.full((1, forest.n_features_in_), np.nan))
        except ValueError:
            return False
    return True


def _predict_in_slices(predict: Callable[[Any], Any], rows: Any, n_jobs: int) -> Any:
    n = rows.shape[0]
    if n_jobs == 1 or n < MANY_ROWS:
        return predict(rows)
    edges = np.linspace(0, n, n_jobs + 1).astype(int)
    slices = [slice(a, b) for a, b in pairwise(edges) if b > a]
    parts = [rows.iloc[s] if hasattr(rows, "iloc") else rows[s] for s in slices]
    with ThreadPoolExecutor(n_jobs) as pool:
        return np.concatenate(list(pool.map(predict, parts)))


def _forest_classes() -> tuple[type[Any], ...]:
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )

    return ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor


def forest_jobs(model: Any) -> int | None:
    """Return the number of threads of the forests in a scikit-learn estimator, None if it has no forest."""
    if not type(model).__module__.startswith("sklearn.") and not isinstance(model, _forest_classes()):
        return None
    parts: list[Any] = [model, *model.get_params(deep=True).values()]
    jobs = [joblib.effective_n_jobs(part.n_jobs) for part in parts if isinstance(part, _forest_classes())]
    return max(jobs) if jobs else None


# --- boosted trees without checks ------------------------------------------------------------------------------------


def hist_walker(model: Any, method: str) -> Callable[[Array], Any] | None:
    """Return the method of a shallow copy that sums trees without checking float rows; None for other models."""
    known = type(model).__module__.startswith("sklearn.ensemble._hist_gradient_boosting.")
    if not known or getattr(model, "is_categorical_", None) is not None:
        return None
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    twin, predictors, baseline = copy.copy(model), model._predictors, model._baseline_prediction
    trees = [tree for one in predictors for tree in one]
    columns = np.zeros(model.n_features_in_, dtype=np.uint32)  # positions of categorical columns

    def walk(x: Array) -> Array:
        n_outputs = baseline.size
        # one thread for few rows: starting more takes longer than predicting
        n_threads = 1 if len(x) <= FEW_ROWS else _openmp_effective_n_threads()
        total = np.empty((n_outputs, len(x)))
        total[:] = baseline.reshape(-1, 1)
        for number, tree in enumerate(trees):
            total[number % n_outputs] += tree.predict(x, _NO_CATEGORIES, columns, n_threads)
        return total.T

    twin._raw_predict = walk
    quick = getattr(twin, method)

    def run(matrix: Array) -> Any:
        if model._predictors is not predictors or matrix.shape[1] != model.n_features_in_ or np.isinf(matrix).any():
            return None
        return quick(matrix)

    return run
