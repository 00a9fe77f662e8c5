"""What a target says of every cell of a grid, and where rounding may decide about it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.predictors import Predictor
from gbce.trees._grid import Axis, Grid
from gbce.trees._outputs import outputs_of

__all__ = ["Verdicts", "read_verdicts"]

_AT_ONCE = 500_000  # cells whose outputs are read together: some ten arrays of 4 MB; results do not hang on it


class Verdicts(NamedTuple):
    """Outputs as a target shows them, losses, verdicts, and where rounding may decide about these, each ``(n,)``."""

    output: Array
    loss: Array
    reached: Array
    unsure: Array


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


def _shifts(n: int, size: float) -> list[Array]:
    """Return directions ``(n,)`` in which rounding may move scores: one of them up or down against the others."""
    if n == 1:
        return [np.array([size]), np.array([-size])]
    return [sign * size * (2.0 * (np.arange(n) == k) - 1.0) for k in range(n) for sign in (1.0, -1.0)]
