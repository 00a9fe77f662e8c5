"""What a model makes of the sums of its trees, in the form in which it says it."""

import numpy as np

from gbce.base import Array, Outputs, Target
from gbce.predictors import Predictor
from gbce.trees._cells import CellTrees

__all__ = ["outputs_of", "why_unreadable"]

_LINKS = ("identity", "exp", "logistic", "softmax")  # what makes outputs of scores
_SINGLE = 1e-10  # relative rounding error of a model's sums above which it computes in single precision


def why_unreadable(trees: CellTrees, predictor: Predictor, target: Target) -> str:
    """Say why sums of leaves do not tell what a target reads of a model; empty where they do."""
    if trees.inside.link not in _LINKS:
        return f"what {predictor.name} makes of its trees' sums is not known"
    if target.reads_classes and (predictor.decide_always or predictor.classes != trees.inside.classes):
        return f"{predictor.name} decides by more than its trees' probabilities"
    return ""


def outputs_of(trees: CellTrees, predictor: Predictor, scores: Array) -> Outputs:
    """Return what a model makes of scores ``(n, K)``, in the form and precision in which it says it."""
    values = trees.inside.link_scores(scores)
    if trees.inside.link == "logistic" and trees.epsilon > _SINGLE:
        positive = values[:, 1].astype(np.float32).astype(float)
        values = np.column_stack([1.0 - positive, positive])
    if predictor.classes is None and values.ndim == 2 and values.shape[1] == 2:  # a function that says one of the two
        values = values[:, 1]
    if predictor.classes is None:
        return Outputs(values, model=predictor.name)
    return Outputs(values, predictor.classes, values.argmax(axis=1), predictor.name)
