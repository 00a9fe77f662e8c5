"""Scikit-learn forests, alone or inside other estimators, without their own thread pool.

The pool costs milliseconds per call however few the rows, and adds the trees up in the order in which threads finish,
so that the last bits differ from call to call. Run on slices of rows, each slice in one thread, a forest is as fast for
many rows, fast for few, and gives the same bits each time. The user's estimator is never touched.
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

__all__ = [
    "FEW_ROWS",
    "MANY_ROWS",
    "METHODS",
    "OwnWay",
    "asking",
    "forest_jobs",
    "hist_walker",
    "matrix_walker",
    "split",
    "without_thread_pool",
]

# --- scikit-learn forests, alone or inside other estimators, without their own thread pool ---------------------------

METHODS = ("predict", "predict_proba", "decision_function", "transform")  # that somebody may have put in
MANY_ROWS = 1_000  # below this a thread pool costs more than it saves; by hand, answers are the same either way
_HOLES = 0.2  # share of missing values in some of them; by hand
_N_PROBES = 50  # points at which the sum over trees must equal the forest's own answer to the last bit; by hand


def without_thread_pool(model: Any, method: str, as_input: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Return ``model.method`` as a function of float rows ``(n, d)``, steady and fast if there is a forest in it."""
    prepare, core = split(model, lambda last: isinstance(last, _forests()))
    n_jobs = forest_jobs(core)
    if n_jobs is None:
        return lambda x: getattr(model, method)(as_input(x))
    ask = _tree_walker(core, method) if isinstance(core, _forests()) else _in_one_thread(getattr(core, method))
    return lambda x: _in_slices(ask, prepare(as_input(x)), n_jobs)


@dataclass(frozen=True, eq=False)
class OwnWay:
    """``model.method`` of rows as the model takes them, as a user calls it; in one thread, which keeps its bits."""

    model: Any
    method: str
    as_input: Callable[[Array], Any]

    def __call__(self, x: Array) -> Any:
        """Ask about encoded rows ``(n, d)``."""
        with joblib.parallel_config(backend="sequential"):
            return getattr(self.model, self.method)(self.as_input(x))


def matrix_walker(forest: Any, method: str) -> Callable[[Array], Any] | None:
    """Return a forest's method as a function of floats ``(n, C)``, None for infinite ones; None if it is no forest."""
    adder = _adder(forest, method) if type(forest) in _forests() else None
    n_jobs, trees = forest_jobs(forest), getattr(forest, "estimators_", None)
    if adder is None or n_jobs is None:
        return None

    def run(matrix: Array) -> Any:
        if forest.estimators_ is not trees or method in vars(forest) or matrix.shape[1] != forest.n_features_in_:
            return None
        with np.errstate(over="ignore"):
            x = matrix.astype(np.float32)
        known = np.isfinite(x) if not adder.takes_missing else ~np.isinf(x)
        return _in_slices(adder.add_up, x, n_jobs) if known.all() else None

    return run


def _in_slices(ask: Callable[[Any], Any], rows: Any, n_jobs: int) -> Any:
    n = rows.shape[0]
    if n_jobs == 1 or n < MANY_ROWS:
        return ask(rows)
    edges = np.linspace(0, n, n_jobs + 1).astype(int)
    slices = [slice(a, b) for a, b in pairwise(edges) if b > a]
    parts = [rows.iloc[s] if hasattr(rows, "iloc") else rows[s] for s in slices]
    with ThreadPoolExecutor(n_jobs) as pool:
        return np.concatenate(list(pool.map(ask, parts)))


def _forests() -> tuple[type[Any], ...]:
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )

    return ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor


def split(model: Any, wanted: Callable[[Any], bool]) -> tuple[Callable[[Any], Any], Any]:
    """Return what comes before the last step of a pipeline, and that step; the model itself if it is not wanted."""
    from sklearn.pipeline import Pipeline

    # a subclass, or a method that was put in, may do something else with the steps
    stock = type(model) is Pipeline and not any(method in vars(model) for method in METHODS)
    if stock and len(model.steps) > 1 and wanted(model.steps[-1][1]):
        return model[:-1].transform, model.steps[-1][1]
    return (lambda rows: rows), model


def forest_jobs(model: Any) -> int | None:
    """Return how many threads the forests in a scikit-learn estimator would use, or None if it has no forest."""
    if not type(model).__module__.startswith("sklearn.") and not isinstance(model, _forests()):
        return None
    parts: list[Any] = [model, *model.get_params(deep=True).values()]
    jobs = [joblib.effective_n_jobs(part.n_jobs) for part in parts if isinstance(part, _forests())]
    return max(jobs) if jobs else None


def _in_one_thread(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(rows: Any) -> Any:
        with joblib.parallel_config(backend="sequential"):
            return ask(rows)

    return run


def _tree_walker(forest: Any, method: str) -> Callable[[Any], Any]:
    """Add up the trees as scikit-learn does, without its bookkeeping of a tenth of a millisecond per tree and call.

    Where the sum (a classifier's probabilities) was not seen to equal the forest's own to the last bit, and for rows
    that need the forest's checks, the forest itself is asked.
    """
    plain, adder = _in_one_thread(lambda rows: getattr(forest, method)(rows)), _adder(forest, method)
    if adder is None:
        return plain
    trees = forest.estimators_

    def walk(rows: Any) -> Any:
        if hasattr(rows, "toarray") or forest.estimators_ is not trees or method in vars(forest):
            return plain(rows)
        try:
            with np.errstate(over="ignore"):
                x = np.ascontiguousarray(rows, dtype=np.float32)
        except (TypeError, ValueError):  # pandas' own missing value, or text: the forest knows what to say
            return plain(rows)
        if x.ndim != 2 or x.shape[1] != forest.n_features_in_ or not np.isfinite(x).all():
            return plain(rows)
        return adder.add_up(x)

    return walk


class _Adder(NamedTuple):
    """A forest's method as a function of float32 rows ``(n, C)`` that are finite, or missing if it takes such."""

    add_up: Callable[[Array], Array]
    takes_missing: bool


def _adder(forest: Any, method: str) -> _Adder | None:
    """Return the sum over trees in place of a forest's method; None where it may answer otherwise."""
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
        said = average(x)
        return said if classes is None or method == "predict_proba" else classes.take(said.argmax(axis=1))

    thresholds = np.concatenate([tree.threshold for tree in trees])
    thresholds = thresholds[np.isfinite(thresholds)]  # a split that only sends missing values aside has none
    probe = np.random.default_rng(0).choice(thresholds, (_N_PROBES, forest.n_features_in_)).astype(np.float32)
    own = _in_one_thread(forest.predict if classes is None else forest.predict_proba)

    def agrees(rows: Array) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a forest fitted on a frame misses its names
            try:
                return np.array_equal(average(rows), own(rows))
            except ValueError:  # it takes no missing values
                return False

    holes = np.where(np.random.default_rng(1).random(probe.shape) < _HOLES, np.float32(np.nan), probe)
    return _Adder(add_up, agrees(holes)) if agrees(probe) else None


# --- boosted trees of scikit-learn and LightGBM inside estimators, asked about a few rows without what a -------------

FEW_ROWS = 100  # rows up to which one thread will do; measured with LightGBM: faster than the estimator up to 200
_NO_CATEGORIES = np.zeros((0, 8), dtype=np.uint32)  # bitsets of them, as histogram boosting has them
_PROBES = (1, 7, FEW_ROWS)  # batches on which a short way must give the estimator's own bits; by hand


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


def hist_walker(model: Any, method: str) -> Callable[[Array], Any] | None:
    """Return the method of a shallow copy that adds up the trees without checks of float rows; None without one."""
    if _make(model) is not _hist or getattr(model, "is_categorical_", None) is not None:
        return None
    try:
        from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

        twin = copy.copy(model)
        trees, baseline = [tree for one in model._predictors for tree in one], model._baseline_prediction
        columns = np.zeros(model.n_features_in_, dtype=np.uint32)  # of categories
    except Exception:  # what a release of scikit-learn has inside is its own
        return None

    def walk(x: Array) -> Array:
        n_outputs = baseline.size
        # in one thread: more of them take longer to start than a few rows take
        n_threads = 1 if len(x) <= FEW_ROWS else _openmp_effective_n_threads()
        total = np.empty((n_outputs, len(x)))
        total[:] = baseline.reshape(-1, 1)
        for number, tree in enumerate(trees):
            total[number % n_outputs] += tree.predict(x, _NO_CATEGORIES, columns, n_threads)
        return total.T

    twin._raw_predict = walk
    return getattr(twin, method)


def _hist(model: Any, method: str) -> Callable[[Any], Any] | None:
    """Return the method with trees that are walked without checks of a few rows, or None where that is not the same."""
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
        if not known or not 0 < len(rows) <= FEW_ROWS or model.booster_ is not booster:
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
