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
from typing import Any, NamedTuple

import joblib
import numpy as np

from gbce.base import Array

METHODS = ("predict", "predict_proba", "decision_function", "transform")  # that may be replaced on an instance
MANY_ROWS = 1_000  # below this a thread pool costs more than it saves; by hand, predictions are the same either way
FEW_ROWS = 100  # rows up to which one thread will do; measured with LightGBM: faster than the estimator up to 200
_N_PROBES = 50  # points at which the sum over trees must equal the forest's prediction to the last bit; by hand
_MISSING_SHARE = 0.2  # of the values in some of these points; by hand
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
    adder = _sum_trees(forest, method) if type(forest) in _forest_classes() else None
    n_jobs, trees = forest_jobs(forest), getattr(forest, "estimators_", None)
    if adder is None or n_jobs is None:
        return None

    def run(matrix: Array) -> Any:
        if forest.estimators_ is not trees or method in vars(forest) or matrix.shape[1] != forest.n_features_in_:
            return None
        with np.errstate(over="ignore"):
            x = matrix.astype(np.float32)
        known = np.isfinite(x) if not adder.takes_missing else ~np.isinf(x)
        return _predict_in_slices(adder.add_up, x, n_jobs) if known.all() else None

    return run


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


class _Adder(NamedTuple):
    """A forest's method as a function of float32 rows ``(n, C)``: finite, or missing if ``takes_missing``."""

    add_up: Callable[[Array], Array]
    takes_missing: bool


def _sum_trees(forest: Any, method: str) -> _Adder | None:
    """Return a forest's method as a sum over trees; None where the forest may predict otherwise."""
    classes = getattr(forest, "classes_", None)
    stock = type(forest).__module__.startswith("sklearn.ensemble.") and method not in vars(forest)
    if not stock or forest.n_outputs_ > 1 or method not in ("predict", "predict_proba"):
        return None
    trees = [estimator.tree_ for estimator in forest.estimators_]
    leaves = [np.ascontiguousarray(tree.value[:, 0, :]) for tree in trees]

    def average(x: Array) -> Array:
        total = np.zeros((len(x), 1 if classes is None else len(classes)))
        for tree, values in zip(trees, leaves, strict=True):
            total += values.take(tree.apply(x), axis=0)
        total /= len(trees)
        return total if classes is not None else total[:, 0]

    def add_up(x: Array) -> Array:
        values = average(x)
        return values if classes is None or method == "predict_proba" else classes.take(values.argmax(axis=1))

    thresholds = np.concatenate([tree.threshold for tree in trees])
    thresholds = thresholds[np.isfinite(thresholds)]  # a split on missing values alone has an infinite threshold
    probe = np.random.default_rng(0).choice(thresholds, (_N_PROBES, forest.n_features_in_)).astype(np.float32)
    own = OwnMethod(forest, "predict" if classes is None else "predict_proba", lambda rows: rows)

    def agrees(rows: Array) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about missing feature names, if fitted on a frame
            try:
                return np.array_equal(average(rows), own(rows))
            except ValueError:  # the forest does not accept missing values
                return False

    missing = np.random.default_rng(1).random(probe.shape) < _MISSING_SHARE
    return _Adder(add_up, agrees(np.where(missing, np.float32(np.nan), probe))) if agrees(probe) else None


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
