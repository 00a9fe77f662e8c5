"""A model behind a function of encoded rows that checks, counts and batches its calls, and classes for bare numbers.

Scores without probabilities become shares: the logistic function of one score per row, or the softmax of one score per
class. For a model trained on the log-likelihood (logistic regression, boosting, most networks) shares are its
probabilities. For a support vector machine or a perceptron they increase with the score but are not calibrated.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, softmax

from gbce.base import Array, Outputs
from gbce.budget import Budget, BudgetSpentError
from gbce.space import unmasked

if TYPE_CHECKING:
    from gbce.predictors._memory import Memory

MAX_BATCH = 100_000  # rows of one call; by hand: beyond it the cost of a call no longer counts, only memory grows
_ABOVE_ONE = 1e-6  # by how much a probability may exceed one: single precision rounds at 6e-8, a sum of a few at more
_PACKAGE = f"{__name__.split('.')[0]}."  # prefix of the names of our modules
OUTPUT, DECISION = "output", "decision"  # what is remembered of a row
_REBUILT = ("ask", "decide", "own_ask", "own_decide")  # the functions that hold the model

# --- one model as a function of rows ---------------------------------------------------------------------------------


class PredictionError(RuntimeError):
    """A model raised or returned something unusable; the message names the model, the batch and the row."""


def _skip_own_frames(error: Exception) -> Exception:
    """Return an error with a traceback that begins in the model, if any of it is there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        trace = trace.tb_next
    return error if trace is None else error.with_traceback(trace)


@dataclass
class Meter:
    """Count of the calls of a model and of the rows in them."""

    calls: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Predictor:
    """One model as a function of encoded rows."""

    name: str  # for messages and tables
    ask: Callable[[Array], Any]  # rows (n, d) to raw outputs
    classes: tuple[Any, ...] | None = None  # labels of the output columns of a classifier
    decide: Callable[[Array], Any] | None = None  # rows (n, d) to the labels that a classifier's own predict gives
    decide_always: bool = False  # whether predict was found to differ from the most probable class
    plain: bool = False  # whether it is a bare function, of which it is unknown whether it classifies
    identity: str = ""  # identifies the model without calling it; empty where its outputs do
    batch_rows: int = MAX_BATCH  # largest number of rows in one call
    meter: Meter = field(default_factory=Meter)
    # Rebuilds it from the model itself. Copies, here or in another process, are made by it: what was learned about the
    # model in use (compiled preprocessing, fast predictions) relies on the identity of its parts, which copies lose.
    remake: Callable[[], "Predictor"] | None = field(default=None, repr=False, compare=False)
    own_ask: Callable[[Array], Any] | None = None  # the calls that a user would make, where ask and decide are faster
    own_decide: Callable[[Array], Any] | None = None
    # Whether every call is paid for, as with a remote model: independent tasks then share calls, and the model is not
    # called with one row at a time.
    cost_per_call: bool = False
    in_step: bool = False  # whether calls wait to be merged with those of other tasks; who merges them minds the time
    memory: "Memory | None" = field(default=None, repr=False, compare=False)  # outputs that are not asked again

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.remake is None:
            return super().__reduce_ex__(protocol)
        known = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _REBUILT}
        return _rebuild, (known,)

    def with_fresh_meter(self) -> "Predictor":
        """Return the same predictor with a meter of its own that starts at zero."""
        return replace(self, meter=Meter())

    def questions(self, use_predict: bool = False) -> int:
        """Return the number of model rows per row: two where ``predict`` is called as well."""
        return 1 + (self.decide is not None and self.classes is not None and (use_predict or self.decide_always))

    def rows_to_pay(self, x: Array, use_predict: bool = False) -> Array:
        """Return how many model rows each of ``x`` ``(n, d)`` takes, ``(n,)``; none where outputs are known."""
        twice = self.questions(use_predict) > 1
        if self.memory is None:
            return np.full(len(x), 1 + twice)
        rows = self.memory.are_new(OUTPUT, x).astype(int)
        return rows + self.memory.are_new(DECISION, x) if twice else rows

    def __call__(
        self, x: Array, *, use_predict: bool = False, alone: bool = False, budget: Budget | None = None
    ) -> Outputs:
        """Evaluate the model at ``x`` of shape ``(n, d)``.

        A classifier's decision is its most probable class, the first one on a tie, as in scikit-learn's ``predict``.
        With ``use_predict`` its own ``predict`` is called instead. With ``alone`` the model is called as a user would
        call it, without rows of other tasks. The budget, if any, limits the time of a call; its owner counts the rows.
        """
        budget = Budget() if budget is None or self.in_step else budget
        ask, decide = self.ask, self.decide
        if alone:
            ask, decide = self.own_ask or ask, self.own_decide or decide
        values = self._recall(OUTPUT, x, lambda rows: self._in_batches(ask, rows, self._check_values, budget))
        if self.classes is None:
            return Outputs(values, model=self.name)
        if self.plain:
            self._require_probabilities(values)
        if values.ndim == 1:
            values = np.column_stack([1.0 - values, values])
        if decide is not None and self.questions(use_predict) > 1:
            own, classes = decide, self.classes

            def find(rows: Array) -> Array:
                return _find_positions(self._in_batches(own, rows, self._check_labels, budget), classes)

            decided = self._recall(DECISION, x, find).astype(int)
        else:
            decided = values.argmax(axis=1)
        return Outputs(values, self.classes, decided, self.name)

    def _recall(self, kind: str, x: Array, compute: Callable[[Array], Array]) -> Array:
        """Return what is remembered of rows ``(n, d)``, and compute the rest."""
        return compute(x) if self.memory is None or len(x) == 0 else self.memory.recall(kind, x, compute)

    def _in_batches(self, ask: Callable[[Array], Any], x: Array, check: Callable[..., Array], budget: Budget) -> Array:
        n = len(x)
        starts = range(0, n, self.batch_rows)
        parts = []
        for number, start in enumerate(starts, start=1):
            rows = x[start : start + self.batch_rows]
            place = f"{self.name}, batch {number} of {len(starts)} (rows {start} to {start + len(rows) - 1})"
            try:
                raw = budget.call(ask, rows, id(self.ask))
            except BudgetSpentError:
                raise
            except PredictionError as error:
                raise PredictionError(f"{place}: {error}") from error
            except Exception as error:
                raised = f"{place}: the model raised {type(error).__name__}: {error}"
                raise PredictionError(raised) from _skip_own_frames(error)
            self.meter.calls += 1
            self.meter.rows += len(rows)
            parts.append(check(raw, rows, start, place))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def check_values(self, raw: Any, rows: Array) -> Array:
        """Return outputs of rows ``(n, d)`` that the model gave elsewhere, after the checks of a call."""
        return self._check_values(raw, rows, 0, f"{self.name}, outputs")

    def _check_values(self, raw: Any, rows: Array, start: int, place: str) -> Array:
        try:
            array = np.array(unmasked(raw))  # a copy: a runtime may write its next output into the same memory
            if array.dtype.kind not in "fiubO" or (array.dtype.kind == "O" and _has_strings(array)):
                raise TypeError("strings that look like numbers, and complex numbers, would be converted")
            values = array.astype(float, copy=False)
        except (TypeError, ValueError, OverflowError):
            shown = f"{type(raw).__name__} {' '.join(repr(raw).split()):.80}"
            raise PredictionError(
                f"{place}: the model must return numbers, but returned {shown}. Of labels: return probabilities, or "
                "codes 0, 1, ..., and name them with gbce.classifier(model, classes=[...])"
            ) from None
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
        if self.classes is not None and values.ndim == 1 and len(self.classes) != 2:
            raise PredictionError(f"{place}: one number per row for the classes {list(self.classes)}")
        if self.classes is not None and values.ndim == 2 and values.shape[1] != len(self.classes):
            raise PredictionError(f"{place}: {values.shape[1]} columns for the classes {list(self.classes)}")
        return values

    def _check_labels(self, raw: Any, rows: Array, start: int, place: str) -> Array:
        """Return labels as a copied array ``(n,)``; raise if their shape is wrong."""
        labels = np.array(raw)
        if labels.shape == (len(rows), 1):
            labels = labels[:, 0]
        if labels.shape != (len(rows),):
            raise PredictionError(f"{place}: predict returned shape {labels.shape} for {len(rows)} rows")
        return labels

    def _require_probabilities(self, p: Array) -> None:
        bad = (p < 0) | (p > 1 + _ABOVE_ONE)
        if bad.any():
            needed = "p(label 1)" if p.ndim == 1 else "one probability per class"
            raise PredictionError(f"{self.name}: {p[bad][0]} is not a probability; a Class target needs {needed}")


def _rebuild(known: dict[str, Any]) -> Predictor:
    """Rebuild a predictor from its model, with the other fields of the one it is a copy of."""
    return replace(known["remake"](), **known)


def _has_strings(array: Array) -> bool:
    return any(isinstance(value, (str, bytes)) for value in array.flat)


def _find_positions(labels: Array, classes: tuple[Any, ...]) -> Array:
    """Return the positions of labels among classes, -1 for an unknown label."""
    index = {label: i for i, label in enumerate(classes)}
    return np.array([index.get(label, -1) for label in labels.tolist()])


# --- shares of scores ------------------------------------------------------------------------------------------------


def unfitted_error(name: str) -> ValueError:
    """Return scikit-learn's error for a model that is not fitted."""
    from sklearn.exceptions import NotFittedError

    return NotFittedError(
        f"{name} is not fitted: call fit(X, y) before it can be explained, or give its predict function"
    )


def shares(scores: Any, width: int | None = None) -> Array:
    """Convert scores to shares of the same shape: ``(n,)`` for the second of two classes, ``(n, c)`` for every class.

    Examples
    --------
    >>> shares([0.0, 2.0]).round(2)
    array([0.5 , 0.88])
    >>> shares([[0.0, 0.0, 0.0]]).round(2)
    array([[0.33, 0.33, 0.33]])
    """
    values = np.asarray(scores, dtype=float)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if width is not None and values.ndim == 2 and values.shape[1] != width:
        raise ValueError(f"{values.shape[1]} columns of scores for {width} classes")
    return np.asarray(expit(values) if values.ndim == 1 else softmax(values, axis=1))


def shares_of_scores(
    model: Any, name: str, asking: Callable[[str], Callable[[Array], Any]]
) -> Callable[[Array], Array]:
    """Return a function from encoded rows to shares, by a classifier's ``decision_function``."""
    n_classes = len(model.classes_)
    if n_classes > 2 and getattr(_final_estimator(model), "decision_function_shape", "ovr") == "ovo":
        raise ValueError(
            f"{name} has a score for each pair of classes: set its decision_function_shape to 'ovr' to have one for "
            "each class, without refitting"
        )
    ask = asking("decision_function")
    return lambda x: shares(ask(x), n_classes)


def decides_by_score(model: Any) -> bool:
    """Whether ``predict`` is known to return the class of the largest score, so that it need not be called as well."""
    from sklearn.linear_model._base import LinearClassifierMixin

    return isinstance(_final_estimator(model), LinearClassifierMixin)


def _final_estimator(model: Any) -> Any:
    """Return the last estimator inside pipelines and hyperparameter searches."""
    while True:
        if hasattr(model, "steps"):
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model


# --- named classes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Classifier:
    """A model with names of its classes; created by :func:`classifier`."""

    model: Any
    classes: tuple[Any, ...]
    logits: bool = False


def classifier(model: Any, classes: Iterable[Any], *, logits: bool = False) -> Classifier:
    """Declare that a model classifies, and name its classes.

    A function of rows, a torch module, an ONNX session or a booster with a custom objective returns numbers without
    saying what they mean. In ``classifier(model, classes=[...])`` they are probabilities, or scores with
    ``logits=True``.

    Parameters
    ----------
    model : callable, torch module, session, booster or estimator
        Returns one number per class, ``(n, c)``, or that of the second of two classes, ``(n,)`` or ``(n, 1)``. The
        classes of a model that has some already are renamed, in the same order.
    classes : sequence
        Labels in the order of the outputs, at least two and all different.
    logits : bool
        Whether outputs are scores, to be mapped by the softmax, or by the logistic function if there is one column.

    Returns
    -------
    Classifier
        To be passed to :class:`gbce.Explainer` in place of the model.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> data = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = gbce.classifier(lambda rows: rows.sum(axis=1), classes=["refused", "granted"], logits=True)
    >>> explainer = gbce.Explainer(model, data)
    >>> explainer.explain([-1.0, -1.0], gbce.Class("granted"), rules=[], seed=0).status
    'attainable'
    """
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise TypeError(f"classifier: classes must be a list of labels, not {classes!r}")
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in classes)
    if len(labels) < 2:
        raise ValueError(f"classifier: at least two classes are needed, not {list(labels)}")
    if len(set(labels)) < len(labels):
        raise ValueError(f"classifier: classes must differ, but {list(labels)} contains a duplicate")
    if not isinstance(logits, (bool, np.bool_)):
        raise TypeError(f"classifier: logits must be True or False, not {logits!r}")
    return Classifier(model, labels, bool(logits))


def name_classes(inner: Predictor, declared: Classifier) -> Predictor:
    """Return the predictor of a wrapped model with the declared classes."""
    classes = declared.classes
    if inner.classes is None:
        if not declared.logits:
            return replace(inner, classes=classes, plain=True)
        own = inner.own_ask or inner.ask
        return replace(
            inner,
            classes=classes,
            ask=lambda x: shares(inner.ask(x), len(classes)),
            plain=True,
            own_ask=lambda x: shares(own(x), len(classes)),
        )
    if declared.logits:
        raise ValueError(
            f"{inner.name} returns probabilities of its classes {list(inner.classes)}: leave out logits=True"
        )
    if len(inner.classes) != len(classes):
        raise ValueError(f"{inner.name} has the classes {list(inner.classes)}, which {list(classes)} cannot rename")
    if inner.decide is None:
        return replace(inner, classes=classes)
    names = dict(zip(inner.classes, classes, strict=True))

    def rename(decide: Callable[[Array], Any]) -> Callable[[Array], Array]:
        def decide_renamed(x: Array) -> Array:
            labels = np.empty(len(x), dtype=object)
            labels[:] = [names[label] for label in np.asarray(decide(x)).ravel().tolist()]
            return labels

        return decide_renamed

    own_decide = None if inner.own_decide is None else rename(inner.own_decide)
    return replace(inner, classes=classes, decide=rename(inner.decide), own_decide=own_decide)
