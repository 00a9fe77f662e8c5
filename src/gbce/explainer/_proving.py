"""Before a target is said to be out of reach of a search: whether it can be proved to be."""

from typing import Any

import numpy as np

from gbce.base import Array, Query
from gbce.budget import BudgetSpentError
from gbce.draws import Points
from gbce.posterior import GibbsPosterior
from gbce.predictors import Inside, TreeScores
from gbce.search import Proof, look_at_cells, prove_unattainable
from gbce.trees import CellReader, CellTrees

__all__ = ["Prover"]

_CHECKED = 256  # known points that what was read of a model must agree with, the lowest and others; by hand
# Under a deadline: boxes into which rows are parted, a tenth of a second, and cells of a grid, some milliseconds.
_BOXES_IN_TIME: dict[str, Any] = {"most_boxes": 100}
_CELLS_IN_TIME: dict[str, Any] = {"most_cells": 200_000}


class Prover:
    """Looks into an explainer's first model when there is something to prove, and not before.

    Parameters
    ----------
    reader : CellReader
        Of that model.
    """

    def __init__(self, reader: CellReader) -> None:
        self._reader = reader

    @property
    def inside(self) -> Inside | None:
        """What the model is made of, looked up once."""
        return self._reader.inside

    def prove(self, query: Query, posterior: GibbsPosterior, known: Points) -> Proof | None:
        """Return a proof that no row can reach the target, if none is known to and there is one.

        By the box of all rows, else cell by cell, else, where cells are too many, in parts of the box.
        """
        decides = query.target.reads_classes and posterior.predictors[0].decide_always  # by a threshold of its own
        if query.row.reached[0, 0] or known.reached[:, 0].any() or decides or self.inside is None:
            return None
        seen = known.take(_some_of(known))
        x, outputs = np.vstack([query.row.x, seen.x]), np.append(query.row.outputs[:, 0], seen.outputs[:, 0])
        asked = query.space, query.x0, query.target, x, outputs
        hurried = posterior.budget.deadline is not None
        proof = prove_unattainable(self.inside, *asked, most_boxes=1)
        if proof is not None:
            return proof
        trees = _trees_of(posterior) if isinstance(self.inside.parts, TreeScores) else None
        looked = None if trees is None else look_at_cells(trees, *asked, **_CELLS_IN_TIME if hurried else {})
        if looked is not None:  # every cell was looked at
            return looked.proof
        return prove_unattainable(self.inside, *asked, **_BOXES_IN_TIME if hurried else {})


def _trees_of(posterior: GibbsPosterior) -> CellTrees | None:
    """Return the first model as cells; None where it has none, or where rows are counted that it is checked with."""
    if posterior.budget.max_rows is not None:
        return None
    try:
        return posterior.read_trees()
    except BudgetSpentError:
        return None


def _some_of(known: Points) -> Array:
    """Return positions of some points: those of the lowest loss, and others evenly spread."""
    lowest = np.argsort(known.loss[:, 0], kind="stable")[: _CHECKED // 2]
    spread = np.linspace(0, len(known) - 1, min(len(known), _CHECKED // 2)).astype(int)
    return np.union1d(lowest, spread)
