"""What a target says of every cell of a grid, and where rounding may decide about it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gbce.base import Array, Outputs, Target
from gbce.predictors import Predictor
from gbce.trees._cells import CellTrees
from gbce.trees._grid import Axis, Grid

__all__ = ["Verdicts", "outputs_of", "read_verdicts", "why_not_by_sums"]

_AT_ONCE = 500_000  # cells whose outputs are read together: some ten arrays of 4 MB; results do not hang on it
_LINKS = ("identity", "exp", "logistic", "softmax")  # what makes outputs of scores
_SINGLE = 1e-10  # relative rounding error of a model's sums above which it computes in single precision


class Verdicts(NamedTuple):
    """Outputs as a target shows them, losses, verdicts, and where rounding may decide about these, each ``(n,)``."""

    output: Array
    loss: Array
    reached: Array
    unsure: Array


def why_not_by_sums(trees: CellTrees, predictor: Predictor, target: Target) -> str:
    """Return why verdicts about a model do not follow from its trees' sums; empty if they do."""
    if trees.inside.link not in _LINKS:
        return f"what {predictor.name} makes of its trees' sums is not known"
    if target.reads_classes and (predictor.decide_always or predictor.classes != trees.inside.classes):
        return f"{predictor.name} decides by more than its trees' probabilities"
    return ""


def read_verdicts(grid: Grid, axes: Sequence[Axis], predictor: Predictor, target: Target) -> Iterator[Verdicts]:
    """Yield what a target says of a model's outputs in the cells of a grid, some after the other, in their order.

    Parameters
    ----------
    grid : Grid
        Of the model's trees.
    axes : sequence of Axis
        Its cells.
    predictor : Predictor
        The model, for the form in which it says its outputs; it is not asked.
    target : Target
        With its numbers filled in.
    """
    wide = grid.rounding
    for scores in grid.scores(axes, _AT_ONCE):
        flat = scores.reshape(-1, scores.shape[-1])
        reading = target.read(outputs_of(grid.trees, predictor, flat))
        reached, unsure = np.asarray(reading.reached), np.zeros(len(flat), dtype=bool)
        for shift in _shifts(flat.shape[1], wide):
            unsure |= reached != target.read(outputs_of(grid.trees, predictor, flat + shift)).reached
        yield Verdicts(np.asarray(reading.output), np.asarray(reading.loss, dtype=float), reached, unsure)


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


def _shifts(n: int, size: float) -> list[Array]:
    """Return directions ``(n,)`` in which rounding may move scores: one of them up or down against the others."""
    if n == 1:
        return [np.array([size]), np.array([-size])]
    return [sign * size * (2.0 * (np.arange(n) == k) - 1.0) for k in range(n) for sign in (1.0, -1.0)]
