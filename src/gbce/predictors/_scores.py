"""Scores as shares: what stands for a probability where a model has none.

The logistic function of one score per row, or the softmax of one score per class. Where a model was trained on the
log-likelihood, as logistic regression, boosting and most networks are, that is its probability. The margin of a support
vector machine or a perceptron is none: the share rises with the score and is one half on the border between two
classes, but it is not calibrated: how often a share of 0.8 is right is unknown.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from gbce.base import Array

__all__ = ["decides_by_score", "shares", "shares_of_scores"]


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
