"""Scores as shares: what stands for a probability where a model has none.

The logistic function of one score per row, or the softmax of one score per class. Where a model was trained on the
log-likelihood, as logistic regression, boosting and most networks are, that is its probability. The margin of a support
vector machine or a perceptron is none: the share rises with the score and is one half on the border between two
classes, but it is not calibrated: how often a share of 0.8 is right is unknown.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from gbce.base import Array, Outputs
from gbce.budget import Budget, BudgetSpentError
from gbce.space import unmasked

__all__ = [
    "MAX_BATCH",
    "Classifier",
    "Meter",
    "PredictionError",
    "Predictor",
    "classifier",
    "decides_by_score",
    "name_classes",
    "shares",
    "shares_of_scores",
]

# --- one model as a function of float rows ---------------------------------------------------------------------------

MAX_BATCH = 100_000  # rows of one call; by hand: beyond it the cost of a call no longer counts, only memory grows
_ABOVE_ONE = 1e-6  # by how much a probability may exceed one: single precision rounds at 6e-8, a sum of a few at more


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
    identity : str
        What tells the model from others without asking it; empty where it is known by its answers.
    batch_rows : int
        Largest number of rows in one call.
    meter : Meter
        What was asked so far.
    remake : callable, optional
        Makes the predictor anew from the model itself. A copy, here or in another process, is made by it: what was
        learned of the model in use (tables of its steps, short ways to ask it) rests on the identity of its parts,
        which no copy keeps, so that it is learned again there.
    own_ask, own_decide : callable, optional
        The same by the way that a user takes, where ``ask`` and ``decide`` take a shorter one.
    by_row : bool
        Whether it may be asked about one row at a time; not where every call is paid for.
    in_step : bool
        Whether asking waits for others who ask, so that whoever calls the model for all of them minds the time.
    """

    name: str
    ask: Callable[[Array], Any]
    classes: tuple[Any, ...] | None = None
    decide: Callable[[Array], Any] | None = None
    decide_always: bool = False
    plain: bool = False
    identity: str = ""
    batch_rows: int = MAX_BATCH
    meter: Meter = field(default_factory=Meter)
    remake: Callable[[], "Predictor"] | None = field(default=None, repr=False, compare=False)
    own_ask: Callable[[Array], Any] | None = None
    own_decide: Callable[[Array], Any] | None = None
    by_row: bool = True
    in_step: bool = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.remake is None:
            return super().__reduce_ex__(protocol)
        known = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _MADE_ANEW}
        return _remade, (known,)

    def with_fresh_meter(self) -> "Predictor":
        """Return the same predictor with a count of its own, starting at zero."""
        return replace(self, meter=Meter())

    def questions(self, use_predict: bool = False) -> int:
        """Return how often each row is put to the model: twice where its ``predict`` is asked as well."""
        return 1 + (self.decide is not None and self.classes is not None and (use_predict or self.decide_always))

    def __call__(
        self, x: Array, *, use_predict: bool = False, alone: bool = False, budget: Budget | None = None
    ) -> Outputs:
        """Ask the model about ``x`` of shape ``(n, d)``.

        A classifier's decision is its most probable class, the first one on a tie, as scikit-learn's own
        ``predict`` has it. With ``use_predict`` its ``predict`` is called and believed instead. With ``alone`` it is
        asked by the user's own way, together with nobody else's rows. The budget, if there is one, minds the time of a
        call; rows are counted by who hands it in.
        """
        budget = Budget() if budget is None or self.in_step else budget
        ask, decide = self.ask, self.decide
        if alone:
            ask, decide = self.own_ask or ask, self.own_decide or decide
        values = self._in_batches(ask, x, self._check_values, budget)
        if self.classes is None:
            return Outputs(values, model=self.name)
        if self.plain:
            self._require_probabilities(values)
        if values.ndim == 1:
            values = np.column_stack([1.0 - values, values])
        if decide is not None and self.questions(use_predict) > 1:
            labels = self._in_batches(decide, x, self._check_labels, budget)
            decided = _positions(labels, self.classes)
        else:
            decided = values.argmax(axis=1)
        return Outputs(values, self.classes, decided, self.name)

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
                raise PredictionError(f"{place}: the model raised {type(error).__name__}: {error}") from error
            self.meter.calls += 1
            self.meter.rows += len(rows)
            parts.append(check(raw, rows, start, place))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _check_values(self, raw: Any, rows: Array, start: int, place: str) -> Array:
        try:
            array = np.array(unmasked(raw))  # a copy: a runtime may write its next answer into the same memory
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
        if self.classes is not None and values.ndim == 1 and len(self.classes) != 2:
            raise PredictionError(f"{place}: one number per row for the classes {list(self.classes)}")
        if self.classes is not None and values.ndim == 2 and values.shape[1] != len(self.classes):
            raise PredictionError(f"{place}: {values.shape[1]} columns for the classes {list(self.classes)}")
        return values

    def _check_labels(self, raw: Any, rows: Array, start: int, place: str) -> Array:
        labels = np.array(raw)  # a copy, as of values
        if labels.shape == (len(rows), 1):
            labels = labels[:, 0]
        if labels.shape != (len(rows),):
            raise PredictionError(f"{place}: predict returned shape {labels.shape} for {len(rows)} rows")
        return labels

    def _require_probabilities(self, p: Array) -> None:
        bad = (p < 0) | (p > 1 + _ABOVE_ONE)
        if bad.any():
            wish = "p(label 1)" if p.ndim == 1 else "one probability per class"
            raise PredictionError(f"{self.name}: {p[bad][0]} is not a probability; a Class target needs {wish}")


_MADE_ANEW = ("ask", "decide", "own_ask", "own_decide")  # the functions that hold the model


def _remade(known: dict[str, Any]) -> Predictor:
    """Return a predictor made anew, with what is known of the one that it is a copy of."""
    return replace(known["remake"](), **known)


def _has_text(array: Array) -> bool:
    return any(isinstance(value, (str, bytes)) for value in array.flat)


def _positions(labels: Array, classes: tuple[Any, ...]) -> Array:
    index = {label: i for i, label in enumerate(classes)}
    return np.array([index.get(label, -1) for label in labels.tolist()])


# --- scores as shares ------------------------------------------------------------------------------------------------


def shares(scores: Any, width: int | None = None) -> Array:
    """Turn scores into shares of the same shape: ``(n,)`` is the score of the second class, ``(n, c)`` of each.

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
    """Return a classifier's ``decision_function`` as shares of its classes."""
    classes = len(model.classes_)
    if classes > 2 and getattr(_core(model), "decision_function_shape", "ovr") == "ovo":
        raise ValueError(
            f"{name} has a score for each pair of classes: set its decision_function_shape to 'ovr', which needs no "
            "new fit, to have one for each class"
        )
    ask = asking("decision_function")
    return lambda x: shares(ask(x), classes)


def decides_by_score(model: Any) -> bool:
    """Whether ``predict`` is known to be the class of the largest score, so that it need not be asked as well."""
    from sklearn.linear_model._base import LinearClassifierMixin

    return isinstance(_core(model), LinearClassifierMixin)


def _core(model: Any) -> Any:
    """Return the estimator at the end of pipelines and searches."""
    while True:
        if hasattr(model, "steps"):
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model


# --- classes for models that return bare numbers ---------------------------------------------------------------------


@dataclass(frozen=True)
class Classifier:
    """A model together with the names of its classes; made by :func:`classifier`."""

    model: Any
    classes: tuple[Any, ...]
    logits: bool = False


def classifier(model: Any, classes: Iterable[Any], *, logits: bool = False) -> Classifier:
    """Say that a model classifies, and what its classes are called.

    A function of rows, a torch module, an ONNX session or a booster with an objective of its own returns numbers and
    does not say what they mean. Explained as ``classifier(model, classes=[...])`` its outputs are probabilities, or
    scores with ``logits=True``.

    Parameters
    ----------
    model : callable, torch module, session, booster or estimator
        Returns one number per class, ``(n, c)``, or that of the second of two classes, ``(n,)`` or ``(n, 1)``. A model
        that knows its classes already is given other names for them, in the same order.
    classes : sequence
        Labels in the order of the outputs, at least two and all different.
    logits : bool
        Whether outputs are scores, of which the softmax (of one column the logistic function) is taken.

    Returns
    -------
    Classifier
        To be given to :class:`gbce.Explainer` in the model's place.

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
        raise ValueError(f"classifier: classes must differ, but {list(labels)} has one twice")
    if not isinstance(logits, (bool, np.bool_)):
        raise TypeError(f"classifier: logits must be True or False, not {logits!r}")
    return Classifier(model, labels, bool(logits))


def name_classes(inner: Predictor, wish: Classifier) -> Predictor:
    """Return a predictor of the wrapped model as the classifier it is said to be."""
    classes = wish.classes
    if inner.classes is None:
        if not wish.logits:
            return replace(inner, classes=classes, plain=True)
        own = inner.own_ask or inner.ask
        return replace(
            inner,
            classes=classes,
            ask=lambda x: shares(inner.ask(x), len(classes)),
            plain=True,
            own_ask=lambda x: shares(own(x), len(classes)),
        )
    if wish.logits:
        raise ValueError(
            f"{inner.name} gives probabilities of its classes {list(inner.classes)}: leave out logits=True"
        )
    if len(inner.classes) != len(classes):
        raise ValueError(f"{inner.name} has the classes {list(inner.classes)}, which {list(classes)} cannot rename")
    if inner.decide is None:
        return replace(inner, classes=classes)
    names = dict(zip(inner.classes, classes, strict=True))

    def renamed(decide: Callable[[Array], Any]) -> Callable[[Array], Array]:
        def decide_renamed(x: Array) -> Array:
            labels = np.empty(len(x), dtype=object)
            labels[:] = [names[label] for label in np.asarray(decide(x)).ravel().tolist()]
            return labels

        return decide_renamed

    own_decide = None if inner.own_decide is None else renamed(inner.own_decide)
    return replace(inner, classes=classes, decide=renamed(inner.decide), own_decide=own_decide)
