"""Fast predictions of estimators and pipelines without data frames, where they equal the model's own to the last bit.

A call of a pipeline takes ten milliseconds or more, however few the rows: a frame, its checks, a copy for each block.
Here the preprocessing is compiled once, and the last step gets its matrix by the fastest call that skips checks.
Steps that cannot be compiled make the matrix themselves.
"""

import copy
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._columns import column_names
from gbce.predictors._forests import FEW_ROWS, METHODS, OwnMethod, asking, forest_jobs, hist_walker, matrix_walker
from gbce.predictors._preprocessing import CompiledPreprocessing, OwnPreprocessing, probe_rows
from gbce.space import Space

FastPredict = Callable[[Array], Any]
Preprocessing = CompiledPreprocessing | OwnPreprocessing
_LIBRARIES = ("sklearn.", "lightgbm.sklearn", "xgboost.sklearn")
_PROBES = (1, 7, 100, 150)  # sizes of batches of random rows on which both calls must agree to the last bit; by hand
_FIRST_ROWS = 200  # of the first call, mostly rows of the data, on which they must agree as well; by hand
_FIRST_ALONE = 5  # single rows on which they must agree before the fast call confirms answers; by hand

# --- fast calls of the last step -------------------------------------------------------------------------------------


def is_stock(model: Any, method: str) -> bool:
    """Whether a model is of an unmodified class of a known library."""
    return type(model).__module__.startswith(_LIBRARIES) and method not in vars(model)


def fast_predict(core: Any, method: str, prepared: Preprocessing, steps: int) -> FastPredict | None:
    """Return a fast ``method`` of the last step (after ``steps`` others) for a matrix ``(n, C)``; None without one."""
    if not is_stock(core, method):
        return None
    name, module = type(core).__name__, type(core).__module__
    if module == "lightgbm.sklearn":
        return _fast_lightgbm(core, method) if name in ("LGBMClassifier", "LGBMRegressor") else None
    if module == "xgboost.sklearn":
        return None if prepared.sparse else _fast_xgboost(core, method)
    fast = _fast_linear(core, method, prepared.sparse) or matrix_walker(core, method) or hist_walker(core, method)
    if fast is None and steps and prepared.plain and forest_jobs(core) is None:
        return lambda matrix: getattr(core, method)(matrix)
    return fast


def _fast_linear(core: Any, method: str, sparse: bool) -> FastPredict | None:
    """Return the method of a shallow copy that computes scores as a product without checks."""
    from sklearn.linear_model._base import LinearClassifierMixin, LinearModel

    kind, twin = type(core), copy.copy(core)

    def scores(matrix: Array) -> Array:
        weights = core.coef_.T if core.coef_.ndim == 2 else core.coef_
        return np.asarray((_multiply_by_columns(matrix, weights) if sparse else matrix @ weights) + core.intercept_)

    def flat_scores(matrix: Array) -> Array:
        values = scores(matrix)
        return values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values

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


def _multiply_by_columns(matrix: Array, weights: Array) -> Array:
    """Compute a product column by column, in the order of summation of a sparse matrix: zeros change no bit."""
    total = np.zeros((len(matrix), *weights.shape[1:]))
    for column, weight in zip(matrix.T, weights, strict=True):
        total += np.multiply.outer(column, weight)
    return total


def _fast_lightgbm(core: Any, method: str) -> FastPredict | None:
    # LightGBM reads options of predictions, such as pred_early_stop, with each call
    if callable(core.objective_) or any("pred" in option for option in core.get_params()):
        return None
    booster, classes, n_jobs = core.booster_, getattr(core, "classes_", None), core._process_n_jobs(core.n_jobs)
    if method not in ("predict", "predict_proba"):
        return None

    def ask(matrix: Array) -> Any:
        if core.booster_ is not booster or not len(matrix) or matrix.shape[1] != core.n_features_in_:
            return None
        # one thread for few rows: starting more takes longer than predicting
        values = booster.predict(matrix, num_threads=1 if len(matrix) <= FEW_ROWS else n_jobs)
        if classes is None:
            return values
        shares = values if values.ndim == 2 else np.vstack((1.0 - values, values)).T
        return shares if method == "predict_proba" else classes.take(shares.argmax(axis=1))

    return ask


def as_lightgbm_matrix(core: Any) -> Callable[[Any], Array]:
    """Return a function from frames to LightGBM's matrix: levels become their positions at the time of fitting."""
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


def _fast_xgboost(core: Any, method: str) -> FastPredict | None:
    if not type(core).__name__.startswith("XGB") or "c" in (core.get_booster().feature_types or ()):
        return None
    return lambda matrix: getattr(core, method)(matrix, validate_features=False)


# --- estimators and pipelines ----------------------------------------------------------------------------------------


class Shortcut:
    """Fast calls of one fitted model, compiled at the first; ``as_input`` maps encoded rows ``(n, d)`` to its input."""

    def __init__(self, model: Any, space: Space, as_input: Callable[[Array], Any]) -> None:
        self._model, self._space, self._as_input = model, space, as_input
        self._steps, self._core = _split_pipeline(model)
        self._list = getattr(model, "steps", None)
        self._asked: dict[str, Callable[[Array], Any]] = {}

    def asking(self, method: str) -> Callable[[Array], Any]:
        """Return ``model.method`` as a function of encoded rows ``(n, d)``: reproducible, and fast for few rows."""
        if method not in self._asked:
            ordinary = asking(self._model, method, self._as_input)
            self._asked[method] = ordinary if self._core is None else _Checked(self, method, ordinary)
        return self._asked[method]

    def alone(self, method: str) -> Callable[[Array], Any]:
        """Return ``model.method`` for single rows as a user calls it, or as fast where that was found to be equal."""
        own = OwnMethod(self._model, method, self._as_input)
        return own if self._core is None else Alone(own, self.asking(method))

    def compile(self, method: str) -> FastPredict | None:
        """Return a fast function of encoded rows ``(n, d)``, None if there is none; it returns None where unfit."""
        prepared = self._prepared
        predict = fast_predict(self._core, method, prepared, len(self._steps))
        if predict is None:
            return None

        def run(x: Array) -> Any:
            changed = getattr(self._model, "steps", None) is not self._list or method in vars(self._model)
            matrix = None if changed or not len(x) or not prepared.fresh else prepared.matrix(x)
            return None if matrix is None else predict(matrix)

        return run

    @property
    def probes(self) -> Array:
        """Random rows of the space."""
        return probe_rows(self._space, max(_PROBES))

    @cached_property
    def _prepared(self) -> Preprocessing:
        """The preprocessing, compiled where that is possible."""
        order, run = _find_features(self._model, self._space), self._preprocessing_function()
        compiled = None if order is None else CompiledPreprocessing.of(self._steps, run, order, self._space)
        return compiled or OwnPreprocessing.of(run, self._space)

    def _preprocessing_function(self) -> Callable[[Array], Any]:
        if not self._steps:
            if type(self._core).__module__ == "lightgbm.sklearn":
                read = as_lightgbm_matrix(self._core)
                return lambda x: read(self._as_input(x))
            return self._as_input

        def transform(x: Array) -> Any:
            rows = self._as_input(x)
            for step in self._steps:
                rows = step.transform(rows)
            return rows

        return transform


class _Checked:
    """A fast call that replaces the ordinary one once both were found to agree."""

    def __init__(self, shortcut: Shortcut, method: str, ordinary: Callable[[Array], Any]) -> None:
        self._shortcut, self._method, self._ordinary = shortcut, method, ordinary
        self._fast: FastPredict | None = None
        self._checked = False

    def __call__(self, x: Array) -> Any:
        if not self._checked:
            outputs = self._ordinary(x)
            self._check(x)
            return outputs
        outputs = None if self._fast is None else self._fast(x)
        return self._ordinary(x) if outputs is None else outputs

    @property
    def short(self) -> bool:
        """Whether the fast call is used; never before the first call of the model."""
        return self._fast is not None

    def _check(self, x: Array) -> None:
        """Compile the fast call and keep it if it agrees with the ordinary one on random rows and on ``x``."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # random rows may cause warnings that the user's own do not
            try:
                fast = self._shortcut.compile(self._method)
                rows = self._shortcut.probes
                batches = [rows[:n] for n in _PROBES] + [x[:_FIRST_ROWS]]
                outputs = [] if fast is None else [fast(batch) for batch in batches]
                pairs = [
                    (one, self._ordinary(batch))
                    for one, batch in zip(outputs, batches, strict=False)
                    if one is not None
                ]
                self._fast = fast if pairs and all(_agree(one, own) for one, own in pairs) else None
            except Exception:  # the model rejects such rows, or its private parts have changed
                self._fast = None
        self._checked = True


class Alone:
    """A user's own call of one row at a time, made by the fast call once both agreed on single rows.

    The fast call also gets each row by itself, so that outputs that depend on the batch are seen as such.
    """

    def __init__(self, own: Callable[[Array], Any], fast: Callable[[Array], Any]) -> None:
        self._own, self._fast = own, fast
        self._left: float = _FIRST_ALONE  # agreements still wanted; infinite once they differed

    def __call__(self, x: Array) -> Any:
        if not self._left:
            return self._fast(x)
        outputs = self._own(x)
        self._left = self._left - 1 if _agree(self._fast(x), outputs) else np.inf
        return outputs


def _agree(fast: Any, own: Any) -> bool:
    """Whether two outputs are identical to the last bit and in their type."""
    a, b = np.asarray(fast), np.asarray(own)
    return a.dtype == b.dtype and np.array_equal(a, b)


def _split_pipeline(model: Any) -> tuple[list[Any], Any]:
    """Return the preprocessing steps and the last one, which is None where the model is not of a stock class."""
    steps: list[Any] = []
    while type(model).__name__ == "Pipeline" and type(model).__module__ == "sklearn.pipeline":
        if any(name in vars(model) for name in METHODS):
            return [], None
        steps += [step for _, step in model.steps[:-1] if step is not None and not isinstance(step, str)]
        model = model.steps[-1][1]
    return steps, model if is_stock(model, "predict") else None


def _find_features(model: Any, space: Space) -> Array | None:
    """Return the feature of each input column of the model, -1 for features with several columns."""
    owner = {str(label): j for j, codec in enumerate(space.codecs) for label in codec.labels if len(codec.labels) == 1}
    names = getattr(model, "feature_names_in_", None)
    have = column_names(space)
    wanted = have if names is None or space.columns is None else [str(name) for name in names]
    if space.columns is None and len(space) != space.n_columns:
        return None
    if space.columns is None:
        return np.arange(len(wanted))
    if not set(wanted) <= set(have):
        wanted = have if len(wanted) == len(have) else []  # LightGBM replaces blanks in names
    return np.array([owner.get(name, -1) for name in wanted]) if wanted else None
