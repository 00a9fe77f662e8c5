"""Classes for models that return bare numbers: functions, networks, sessions, boosters of unknown objective."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.predictors._predictor import Predictor
from gbce.predictors._scores import shares

__all__ = ["Classifier", "classifier", "name_classes"]


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
