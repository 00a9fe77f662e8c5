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
from functools import cache
from itertools import pairwise
from typing import Any

import joblib
import numpy as np

from gbce._numerics import compile_loop
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
    takes_missing, walk = _takes_missing(forest), _walk_together(trees, leaves)

    def add_up(x: Array) -> Array:
        total = np.zeros((len(x), 1 if classes is None else len(classes)))
        if walk is not None and len(x) <= FEW_ROWS:
            walk(x, total)
        else:
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


def _walk_together(trees: list[Any], leaves: list[Array]) -> Callable[[Array, Array], None] | None:
    """Return a function that adds the leaves of rows ``(n, C)`` to sums ``(n, K)``; None where numba is missing.

    A call of each tree, which checks its rows, takes a hundred times as long as following a row.
    """
    loop = _compile_walk()
    if loop is None:
        return None
    starts = np.cumsum([0, *(tree.node_count for tree in trees)])
    children = [np.column_stack([tree.children_left, tree.children_right]) for tree in trees]
    children = [own + start for own, start in zip(children, starts[:-1], strict=True)]
    nodes = np.column_stack([np.concatenate([tree.feature for tree in trees]), np.concatenate(children)])
    threshold = np.concatenate([tree.threshold for tree in trees])
    missing_left = np.concatenate([tree.missing_go_to_left for tree in trees]).astype(bool)
    value = np.concatenate(leaves)

    def walk(x: Array, total: Array) -> None:
        loop(x, starts[:-1], nodes, threshold, missing_left, value, total)

    return walk


@cache
def _compile_walk() -> Callable[..., None] | None:
    try:
        return compile_loop(_follow_rows)
    except ImportError:
        return None


def _follow_rows(
    x: Array, roots: Array, nodes: Array, threshold: Array, missing_left: Array, value: Array, total: Array
) -> None:
    """Add the leaves of rows to their sums, one tree after another; nodes are column, left and right child."""
    for t in range(len(roots)):
        for i in range(len(x)):
            node = roots[t]
            while nodes[node, 0] >= 0:
                number = x[i, nodes[node, 0]]
                left = missing_left[node] if np.isnan(number) else number <= threshold[node]
                node = nodes[node, 1 if left else 2]
            for k in range(value.shape[1]):
                total[i, k] += value[node, k]


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
