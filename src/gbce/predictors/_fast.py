"""Estimators and pipelines asked without frames, where that was seen to give their own answers to the last bit.

A call of a pipeline takes ten milliseconds and more, however few the rows: a frame, its checks, a copy for each block.
What its steps do to a column is worked out once, and the last step is asked in the quickest right way.
"""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._columns import column_names
from gbce.predictors._forests import FEW_ROWS, METHODS, asking, forest_jobs, hist_walker, matrix_walker
from gbce.predictors._preprocessing import CompiledPreprocessing, probe_rows
from gbce.space import Space

__all__ = ["FastPredict", "Shortcut", "as_lightgbm_matrix", "fast_predict", "is_stock"]

# --- the quickest right way to ask a model about rows of a matrix ----------------------------------------------------

FastPredict = Callable[[Array], Any]
_LIBRARIES = ("sklearn.", "lightgbm.sklearn", "xgboost.sklearn")


def is_stock(model: Any, method: str) -> bool:
    """Whether a model is of a library's own class, with that class's own method."""
    return type(model).__module__.startswith(_LIBRARIES) and method not in vars(model)


def fast_predict(core: Any, method: str, prepared: CompiledPreprocessing, steps: int) -> FastPredict | None:
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


def _hist(core: Any, method: str) -> FastPredict | None:
    quick = hist_walker(core, method)
    if quick is None:
        return None
    trees = core._predictors

    def ask(matrix: Array) -> Any:
        if core._predictors is not trees or not len(matrix) or np.isinf(matrix).any():
            return None
        return quick(matrix)

    return ask


def _linear(core: Any, method: str, sparse: bool) -> FastPredict | None:
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


def _lightgbm(core: Any, method: str) -> FastPredict | None:
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
        said = booster.predict(matrix, num_threads=1 if len(matrix) <= FEW_ROWS else n_jobs)
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


def _xgboost(core: Any, method: str) -> FastPredict | None:
    if not type(core).__name__.startswith("XGB") or "c" in (core.get_booster().feature_types or ()):
        return None
    return lambda matrix: getattr(core, method)(matrix, validate_features=False)


# --- estimators and pipelines asked without frames, where that was seen to give their own answers to the -------------

_PROBES = (1, 7, 100, 150)  # random rows of batches on which both ways must give the same bits: few and many; by hand
_FIRST_ROWS = 200  # of those that are asked first, mostly the data: the same is required of them; by hand


class Shortcut:
    """How to ask one estimator or pipeline; worked out when it is first asked.

    Parameters
    ----------
    model : estimator
        Fitted.
    space : Space
        How rows look.
    as_input : callable
        Encoded rows ``(n, d)`` to what the model takes.
    """

    def __init__(self, model: Any, space: Space, as_input: Callable[[Array], Any]) -> None:
        self._model, self._space, self._as_input = model, space, as_input
        self._steps, self._core = _taken_apart(model)
        self._list = getattr(model, "steps", None)
        self._known: tuple[CompiledPreprocessing | None] | None = None

    def asking(self, method: str) -> Callable[[Array], Any]:
        """Return ``model.method`` as a function of encoded rows ``(n, d)``: steady, and quick about a few rows."""
        ordinary = asking(self._model, method, self._as_input)
        return ordinary if self._core is None else _Checked(self, method, ordinary)

    def way(self, method: str) -> FastPredict | None:
        """Return the short way for encoded rows ``(n, d)``, which answers None where it is not for them, if any."""
        prepared = self._prepared
        core = None if prepared is None else fast_predict(self._core, method, prepared, len(self._steps))
        if prepared is None or core is None:
            return None
        ready, ask = prepared, core

        def run(x: Array) -> Any:
            changed = getattr(self._model, "steps", None) is not self._list or method in vars(self._model)
            matrix = None if changed or not len(x) or not ready.fresh else ready.matrix(x)
            return None if matrix is None else ask(matrix)

        return run

    @property
    def probes(self) -> Array:
        """Random rows of the space."""
        return probe_rows(self._space, max(_PROBES))

    @property
    def _prepared(self) -> CompiledPreprocessing | None:
        if self._known is None:
            order = _features_of_columns(self._model, self._space)
            made = None if order is None else CompiledPreprocessing.of(self._steps, self._as_rows(), order, self._space)
            self._known = (made,)
        return self._known[0]

    def _as_rows(self) -> Callable[[Array], Any]:
        if not self._steps:
            if type(self._core).__module__ == "lightgbm.sklearn":
                read = as_lightgbm_matrix(self._core)
                return lambda x: read(self._as_input(x))
            return self._as_input

        def rows(x: Array) -> Any:
            made = self._as_input(x)
            for step in self._steps:
                made = step.transform(made)
            return made

        return rows


class _Checked:
    """A short way beside the ordinary one, which is asked until both were seen to say the same."""

    def __init__(self, shortcut: Shortcut, method: str, ordinary: Callable[[Array], Any]) -> None:
        self._shortcut, self._method, self._ordinary = shortcut, method, ordinary
        self._way: FastPredict | None = None
        self._settled = False

    def __call__(self, x: Array) -> Any:
        if not self._settled:
            said = self._ordinary(x)
            self._settle(x)
            return said
        said = None if self._way is None else self._way(x)
        return self._ordinary(x) if said is None else said

    @property
    def short(self) -> bool:
        """Whether the short way is taken; before the model was asked it is not."""
        return self._way is not None

    def _settle(self, x: Array) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what these rows bring up, the user's own may not
            try:
                way = self._shortcut.way(self._method)
                rows = self._shortcut.probes
                batches = [rows[:n] for n in _PROBES] + [x[:_FIRST_ROWS]]
                said = [] if way is None else [way(batch) for batch in batches]
                taken = [(a, self._ordinary(batch)) for a, batch in zip(said, batches, strict=False) if a is not None]
                self._way = way if taken and all(_agree(short, own) for short, own in taken) else None
            except Exception:  # the model takes no such rows, or has other insides: it is asked itself
                self._way = None
        self._settled = True


def _agree(short: Any, own: Any) -> bool:
    """Whether two answers are the same to the last bit, type and all."""
    a, b = np.asarray(short), np.asarray(own)
    return a.dtype == b.dtype and np.array_equal(a, b)


def _taken_apart(model: Any) -> tuple[list[Any], Any]:
    """Return what comes before the last step, and that step; None for it where the model may do something else."""
    steps: list[Any] = []
    while type(model).__name__ == "Pipeline" and type(model).__module__ == "sklearn.pipeline":
        if any(name in vars(model) for name in METHODS):
            return [], None
        steps += [step for _, step in model.steps[:-1] if step is not None and not isinstance(step, str)]
        model = model.steps[-1][1]
    return steps, model if is_stock(model, "predict") else None


def _features_of_columns(model: Any, space: Space) -> Array | None:
    """Return the feature of each column that the model takes, -1 for one of several columns of a feature."""
    owner = {str(label): j for j, codec in enumerate(space.codecs) for label in codec.labels if len(codec.labels) == 1}
    names = getattr(model, "feature_names_in_", None)
    have = column_names(space)
    wanted = have if names is None or space.columns is None else [str(name) for name in names]
    if space.columns is None and len(space) != space.n_columns:
        return None
    if space.columns is None:
        return np.arange(len(wanted))
    if not set(wanted) <= set(have):
        wanted = have if len(wanted) == len(have) else []  # LightGBM keeps its names without blanks
    return np.array([owner.get(name, -1) for name in wanted]) if wanted else None
