"""Fast and reproducible predictions of forests and boosted trees, alone or at the end of a pipeline.

A forest's thread pool costs milliseconds per call however few the rows, and sums trees in the order in which threads
finish, so that the last bits vary. Here trees are summed in order, in one thread per slice of rows. Boosted trees skip
the checks of their estimator for few rows. The user's estimator is never modified.
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
import pandas as pd

from gbce.base import Array

METHODS = ("predict", "predict_proba", "decision_function", "transform")  # that may be replaced on an instance
MANY_ROWS = 1_000  # below this a thread pool costs more than it saves; by hand, predictions are the same either way
FEW_ROWS = 100  # rows up to which one thread will do; measured with LightGBM: faster than the estimator up to 200
_N_PROBES = 50  # points at which the sum over trees must equal the forest's prediction to the last bit; by hand
_MISSING_SHARE = 0.2  # of the values in some of these points; by hand
_PROBES = (1, 7, FEW_ROWS)  # sizes of batches on which a fast call must agree with the estimator to the last bit
_NO_CATEGORIES = np.zeros((0, 8), dtype=np.uint32)  # empty category bitsets of histogram boosting

# --- forests without their thread pool -------------------------------------------------------------------------------


def without_thread_pool(model: Any, method: str, as_input: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Return ``model.method`` as a function of encoded rows ``(n, d)``, reproducible if it contains a forest."""
    prepare, core = split(model, lambda last: isinstance(last, _forest_classes()))
    n_jobs = forest_jobs(core)
    if n_jobs is None:
        return lambda x: getattr(model, method)(as_input(x))
    predict = (
        _tree_walker(core, method) if isinstance(core, _forest_classes()) else _in_one_thread(getattr(core, method))
    )
    return lambda x: _predict_in_slices(predict, prepare(as_input(x)), n_jobs)


@dataclass(frozen=True, eq=False)
class OwnMethod:
    """``model.method`` as a user calls it, but in one thread, so that its bits are reproducible."""

    model: Any
    method: str
    as_input: Callable[[Array], Any]

    def __call__(self, x: Array) -> Any:
        """Evaluate encoded rows ``(n, d)``."""
        with joblib.parallel_config(backend="sequential"):
            return getattr(self.model, self.method)(self.as_input(x))


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


def split(model: Any, wanted: Callable[[Any], bool]) -> tuple[Callable[[Any], Any], Any]:
    """Return the preprocessing of a pipeline and its last step if that is ``wanted``, else the model itself."""
    from sklearn.pipeline import Pipeline

    # a subclass or a replaced method may use the steps otherwise
    stock = type(model) is Pipeline and not any(method in vars(model) for method in METHODS)
    if stock and len(model.steps) > 1 and wanted(model.steps[-1][1]):
        return model[:-1].transform, model.steps[-1][1]
    return (lambda rows: rows), model


def forest_jobs(model: Any) -> int | None:
    """Return the number of threads of the forests in a scikit-learn estimator, None if it has no forest."""
    if not type(model).__module__.startswith("sklearn.") and not isinstance(model, _forest_classes()):
        return None
    parts: list[Any] = [model, *model.get_params(deep=True).values()]
    jobs = [joblib.effective_n_jobs(part.n_jobs) for part in parts if isinstance(part, _forest_classes())]
    return max(jobs) if jobs else None


def _in_one_thread(predict: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(rows: Any) -> Any:
        with joblib.parallel_config(backend="sequential"):
            return predict(rows)

    return run


def _tree_walker(forest: Any, method: str) -> Callable[[Any], Any]:
    """Return a forest's method without scikit-learn's overhead of a tenth of a millisecond per tree per call."""
    # the forest itself predicts unless the sum over its trees agrees to the bit, and for rows that need its validation
    plain, adder = _in_one_thread(lambda rows: getattr(forest, method)(rows)), _sum_trees(forest, method)
    if adder is None:
        return plain
    trees = forest.estimators_

    def walk(rows: Any) -> Any:
        if hasattr(rows, "toarray") or forest.estimators_ is not trees or method in vars(forest):
            return plain(rows)
        try:
            with np.errstate(over="ignore"):
                x = np.ascontiguousarray(rows, dtype=np.float32)
        except (TypeError, ValueError):  # pd.NA or strings: the forest raises its own error
            return plain(rows)
        if x.ndim != 2 or x.shape[1] != forest.n_features_in_ or not np.isfinite(x).all():
            return plain(rows)
        return adder.add_up(x)

    return walk


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
    own = _in_one_thread(forest.predict if classes is None else forest.predict_proba)

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


def asking(model: Any, method: str, as_input: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Return ``model.method`` as a function of encoded rows ``(n, d)``: reproducible, and fast for few rows."""
    prepare, core = split(model, lambda last: _find_wrapper(last) is not None)
    wrap = _find_wrapper(core)
    fast = None if wrap is None else wrap(core, method)
    if fast is None:
        return without_thread_pool(model, method, as_input)
    predict = fast
    return lambda x: predict(prepare(as_input(x)))


def _find_wrapper(model: Any) -> Callable[[Any, str], Callable[[Any], Any] | None] | None:
    """Return the function that builds fast calls for this very class; a subclass may predict otherwise."""
    name = type(model).__name__
    module = type(model).__module__
    if name.startswith("HistGradientBoosting") and module.startswith("sklearn.ensemble._hist_gradient_boosting."):
        return _fast_hist
    return _fast_lightgbm if name in ("LGBMClassifier", "LGBMRegressor") and module == "lightgbm.sklearn" else None


def hist_walker(model: Any, method: str) -> Callable[[Array], Any] | None:
    """Return the method of a shallow copy that sums trees without checking float rows; None for other models."""
    if _find_wrapper(model) is not _fast_hist or getattr(model, "is_categorical_", None) is not None:
        return None
    try:
        from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

        twin = copy.copy(model)
        trees, baseline = [tree for one in model._predictors for tree in one], model._baseline_prediction
        columns = np.zeros(model.n_features_in_, dtype=np.uint32)  # positions of categorical columns
    except Exception:  # private parts of scikit-learn may change with any release
        return None

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
    return getattr(twin, method)


def _fast_hist(model: Any, method: str) -> Callable[[Any], Any] | None:
    """Return a method of histogram boosting that skips checks for few rows; None where it disagrees."""
    quick = hist_walker(model, method)
    if quick is None:
        return None
    ask, trees = getattr(model, method), model._predictors
    thresholds = np.concatenate([tree.nodes["num_threshold"] for one in trees for tree in one])

    def run(rows: Any) -> Any:
        if hasattr(rows, "toarray") or not 0 < len(rows) <= FEW_ROWS or model._predictors is not trees:
            return ask(rows)
        try:
            x = np.ascontiguousarray(rows, dtype=float)
        except (TypeError, ValueError):  # pd.NA or strings: the estimator raises its own error
            return ask(rows)
        fits = x.ndim == 2 and x.shape[1] == model.n_features_in_ and not np.isinf(x).any()
        return quick(x) if fits else ask(rows)

    return run if _agree(run, ask, thresholds, model.n_features_in_) else None


def _fast_lightgbm(model: Any, method: str) -> Callable[[Any], Any] | None:
    """Return the estimator's method by its booster in one thread; None where it may disagree."""
    # LightGBM reads options of predictions, such as pred_early_stop, with each call
    if callable(model.objective_) or any("pred" in option for option in model.get_params()):
        return None
    ask, booster, classes = getattr(model, method), model.booster_, getattr(model, "classes_", None)

    def run(rows: Any) -> Any:
        known = isinstance(rows, pd.DataFrame) or (isinstance(rows, np.ndarray) and rows.dtype == float)
        if not known or not 0 < len(rows) <= FEW_ROWS or model.booster_ is not booster:
            return ask(rows)
        if rows.ndim != 2 or rows.shape[1] != model.n_features_in_:
            return ask(rows)  # raises its own error
        values = booster.predict(rows, num_threads=1)
        if classes is None:
            return values
        shares = values if values.ndim == 2 else np.vstack((1.0 - values, values)).T
        return shares if method == "predict_proba" else classes.take(shares.argmax(axis=1))

    values = np.concatenate([[0.0, np.nan], np.random.default_rng(0).normal(size=100)])
    return run if _agree(run, ask, values, model.n_features_in_) else None


def _agree(fast: Callable[[Any], Any], own: Callable[[Any], Any], values: Array, n_features: int) -> bool:
    """Whether two functions agree to the last bit on batches of rows drawn from these values."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about missing feature names, if fitted on a frame
        for n in _PROBES:
            rows = rng.choice(values, (n, n_features))
            try:
                if not np.array_equal(fast(rows), own(rows)):
                    return False
            except Exception:  # it takes frames only, or its private parts have changed
                return False
    return True
