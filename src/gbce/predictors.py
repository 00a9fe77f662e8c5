"""Models of any make as one kind of function: float rows ``(n, d)`` in, checked :class:`Outputs` out.

This is the only room that knows a framework. Every answer is checked (it came, it has one line per row, it is
finite), every call and row is counted, and large batches are split so that memory stays bounded.
"""

import copy
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import joblib
import numpy as np
import pandas as pd

from gbce._weights import Array
from gbce.space import Space
from gbce.targets import Outputs

__all__ = ["Meter", "PredictionError", "Predictor", "as_classifier", "as_predictor", "follow_predict"]

MANY_ROWS = 1_000  # below this a thread pool costs more than it saves
_MAX_CELLS = 20_000_000  # of one batch: 160 MB of floats
_MAX_BATCH = 100_000


class PredictionError(RuntimeError):
    """A model raised, or returned something that cannot be used; the message names model, batch and row."""


@dataclass
class Meter:
    """Counts what a model was asked."""

    calls: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Predictor:
    """One model, ready to be asked.

    Parameters
    ----------
    name : str
        For messages and tables.
    ask : callable
        Rows ``(n, d)`` to raw outputs.
    classes : tuple, optional
        Labels of the output columns of a classifier.
    decide : callable, optional
        Rows ``(n, d)`` to the labels a classifier's own ``predict`` gives.
    decide_always : bool
        Whether ``predict`` was seen to differ from the most probable class, so that it must be asked each time.
    plain : bool
        Whether it is a bare function, which does not say whether it classifies.
    batch_rows : int
        Largest number of rows in one call.
    meter : Meter
        What was asked so far.
    """

    name: str
    ask: Callable[[Array], Any]
    classes: tuple[Any, ...] | None = None
    decide: Callable[[Array], Any] | None = None
    decide_always: bool = False
    plain: bool = False
    batch_rows: int = _MAX_BATCH
    meter: Meter = field(default_factory=Meter)

    def metered(self) -> "Predictor":
        """Return the same predictor with a count of its own, starting at zero."""
        return replace(self, meter=Meter())

    def __call__(self, x: Array, *, own_decision: bool = False) -> Outputs:
        """Ask the model about ``x`` of shape ``(n, d)``.

        A classifier's decision is its most probable class, the first one on a tie, as scikit-learn's own
        ``predict`` has it. With ``own_decision`` its ``predict`` is called and believed instead.
        """
        values = self._in_batches(self.ask, x, self._checked)
        if self.classes is None:
            return Outputs(values, model=self.name)
        if self.plain:
            self._require_probabilities(values)
        if values.ndim == 1:
            values = np.column_stack([1.0 - values, values])
        if self.decide is not None and (own_decision or self.decide_always):
            labels = self._in_batches(self.decide, x, self._labels)
            decided = _positions(labels, self.classes)
        else:
            decided = values.argmax(axis=1)
        return Outputs(values, self.classes, decided, self.name)

    def _in_batches(self, ask: Callable[[Array], Any], x: Array, check: Callable[..., Array]) -> Array:
        n = len(x)
        starts = range(0, n, self.batch_rows)
        parts = []
        for number, start in enumerate(starts, start=1):
            rows = x[start : start + self.batch_rows]
            place = f"{self.name}, batch {number} of {len(starts)} (rows {start} to {start + len(rows) - 1})"
            try:
                raw = ask(rows)
            except Exception as error:
                raise PredictionError(f"{place}: the model raised {type(error).__name__}: {error}") from error
            self.meter.calls += 1
            self.meter.rows += len(rows)
            parts.append(check(raw, rows, start, place))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _checked(self, raw: Any, rows: Array, start: int, place: str) -> Array:
        try:
            array = np.asarray(raw)
            if array.dtype.kind not in "fiubO" or (array.dtype.kind == "O" and _has_text(array)):
                raise TypeError("text that looks like a number, or a complex one, would be converted")
            values = array.astype(float, copy=False)
        except (TypeError, ValueError):
            kind = type(raw).__name__
            raise PredictionError(f"{place}: the model must return numbers, but returned {kind} {raw!r:.80}") from None
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim not in (1, 2) or len(values) != len(rows):
            raise PredictionError(
                f"{place}: the model must return one line per row, ({len(rows)},) or ({len(rows)}, c), but returned "
                f"shape {values.shape}"
            )
        bad = ~np.isfinite(values)
        if bad.any():
            i = int(np.argwhere(bad)[0][0])
            raise PredictionError(
                f"{place}: the model returned {values[i]} for row {start + i}, "
                f"x = {np.array2string(rows[i], precision=4, threshold=12)}"
            )
        if self.classes is not None and values.ndim == 2 and values.shape[1] != len(self.classes):
            raise PredictionError(f"{place}: {values.shape[1]} columns for the classes {list(self.classes)}")
        return values

    def _labels(self, raw: Any, rows: Array, start: int, place: str) -> Array:
        labels = np.asarray(raw)
        if labels.shape != (len(rows),):
            raise PredictionError(f"{place}: predict returned shape {labels.shape} for {len(rows)} rows")
        return labels

    def _require_probabilities(self, p: Array) -> None:
        bad = (p < 0) | (p > 1 + 1e-6)  # room for rounding in float32
        if bad.any():
            wish = "p(label 1)" if p.ndim == 1 else "one probability per class"
            raise PredictionError(f"{self.name}: {p[bad][0]} is not a probability; a Class target needs {wish}")


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
        batch_rows = max(1_000, min(_MAX_BATCH, _MAX_CELLS // len(space)))
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


# --- estimators ---------------------------------------------------------------------------------------------


def _from_estimator(model: Any, space: Space, name: str) -> Predictor:
    _require_fitted(model, name)
    as_input = _input_maker(model, space, name)
    if not _classifies(model):
        return Predictor(name, _runner(model, "predict", as_input))
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"{name} is a classifier without predict_proba, and the loss of a class is -log of its probability: "
            "fit it with probabilities, or wrap it in sklearn.calibration.CalibratedClassifierCV"
        )
    return Predictor(
        name,
        _runner(model, "predict_proba", as_input),
        classes=tuple(np.asarray(model.classes_).tolist()),
        decide=_runner(model, "predict", as_input),
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
    if sorted(wanted) != sorted(map(str, space.columns)):
        raise ValueError(f"{name} was fitted on the columns {wanted}, the data have {list(map(str, space.columns))}")
    if wanted == list(map(str, space.columns)):
        return space.decode
    return lambda x: space.decode(x)[wanted]


def _as_array(x: Array) -> Array:
    return x


def _runner(model: Any, method: str, as_input: Callable[[Array], Any]) -> Callable[[Array], Any]:
    prepare, forest = _split_forest(model)
    if forest is None:
        ask = getattr(model, method)
        return lambda x: ask(as_input(x))
    return _forest_runner(forest, method, lambda x: prepare(as_input(x)))


def _split_forest(model: Any) -> tuple[Callable[[Any], Any], Any]:
    """Return (what comes before, the forest) for a forest or a pipeline that ends in one, else a None."""
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.pipeline import Pipeline

    forests = (ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor)
    if isinstance(model, forests):
        return (lambda rows: rows), model
    if isinstance(model, Pipeline) and len(model.steps) > 1 and isinstance(model.steps[-1][1], forests):
        return model[:-1].transform, model.steps[-1][1]
    return (lambda rows: rows), None


def _forest_runner(forest: Any, method: str, prepare: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Ask a scikit-learn forest without its own thread pool.

    The pool costs milliseconds per call however few the rows, and adds the trees up in the order in which threads
    finish, so that the last bits differ from call to call. A single-threaded shallow copy (the user's forest is
    not touched) run on slices of rows is as fast for many rows, fast for few, and gives the same bits each time.
    """
    single = copy.copy(forest)
    single.n_jobs = 1
    ask = _tree_walker(single, method)
    n_jobs = joblib.effective_n_jobs(forest.n_jobs)

    def run(x: Array) -> Any:
        rows = prepare(x)
        if n_jobs == 1 or len(x) < MANY_ROWS:
            return ask(rows)
        edges = np.linspace(0, len(x), n_jobs + 1).astype(int)
        slices = [slice(a, b) for a, b in pairwise(edges) if b > a]
        parts = [rows.iloc[s] if hasattr(rows, "iloc") else rows[s] for s in slices]
        with ThreadPoolExecutor(n_jobs) as pool:
            return np.concatenate(list(pool.map(ask, parts)))

    return run


def _tree_walker(forest: Any, method: str) -> Callable[[Any], Any]:
    """Add up the trees as scikit-learn does, without its bookkeeping of a tenth of a millisecond per tree and call.

    Where the sum was not seen to equal the forest's own answer to the last bit, and for rows that need the forest's
    checks, the forest itself is asked.
    """
    plain = getattr(forest, method)
    proba = method == "predict_proba"
    stock = type(forest).__module__.startswith("sklearn.ensemble.")  # a subclass may answer otherwise
    if not stock or forest.n_outputs_ > 1 or (hasattr(forest, "classes_") and not proba):
        return plain
    trees = [estimator.tree_ for estimator in forest.estimators_]

    def walk(rows: Any) -> Any:
        if hasattr(rows, "toarray"):
            return plain(rows)
        with np.errstate(over="ignore"):
            x = np.ascontiguousarray(rows, dtype=np.float32)
        if x.ndim != 2 or x.shape[1] != forest.n_features_in_ or not np.isfinite(x).all():
            return plain(rows)
        total = np.zeros((len(x), forest.n_classes_ if proba else 1))
        for tree in trees:
            total += tree.predict(x)
        total /= len(trees)
        return total if proba else total[:, 0]

    thresholds = np.concatenate([tree.threshold for tree in trees])
    probe = np.random.default_rng(0).choice(thresholds, (50, forest.n_features_in_)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a forest fitted on a frame misses its names
        return walk if np.array_equal(walk(probe), plain(probe)) else plain


def _has_text(array: Array) -> bool:
    return any(isinstance(value, (str, bytes)) for value in array.flat)


def _positions(labels: Array, classes: tuple[Any, ...]) -> Array:
    index = {label: i for i, label in enumerate(classes)}
    return np.array([index.get(label, -1) for label in labels.tolist()])
