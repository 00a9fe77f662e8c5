"""Proofs by looking at every cell of all that can change, where cells are few: what boxes leave open, these decide."""

from typing import NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.predictors import agrees
from gbce.search._proofs._branching import Outcome
from gbce.search._proofs._conditions import conditions_of
from gbce.search._proofs._grids import MOST_CELLS, bound_grid, count_cells
from gbce.search._proofs._optimum import make_task
from gbce.search._proofs._proof import Proof
from gbce.search._proofs._prove import say_unattainable
from gbce.space import Space
from gbce.targets import Class
from gbce.trees import CellTrees

__all__ = ["Looked", "look_at_cells"]


class Looked(NamedTuple):
    """What came of a look at every cell: a proof, or none since some cell may do."""

    proof: Proof | None


def look_at_cells(
    trees: CellTrees, space: Space, x0: Array, target: Target, x: Array, outputs: Array, most_cells: float = MOST_CELLS
) -> Looked | None:
    """Prove that no row that ``x0`` may become reaches the target, cell by cell; None where cells are too many.

    Parameters
    ----------
    trees : CellTrees
        The first model, seen to be right.
    space : Space
        What may change, and how far.
    x0 : array of shape (d,)
        The row, encoded.
    target : Target
        With its numbers filled in.
    x : array of shape (n, d)
        Known rows, none of which reaches the target.
    outputs : array of shape (n,)
        What the model itself said of them, as the target reads it. What was read of the model must say the same.
    most_cells : float
        Most cells that are looked at.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> import gbce
    >>> from gbce.predictors import look_inside
    >>> from gbce.trees import read_cells
    >>> x = np.arange(4.0)[:, None]
    >>> model, space = DecisionTreeRegressor(random_state=0).fit(x, x[:, 0]), gbce.Space.real(1)
    >>> trees = read_cells(look_inside(model, space), space, x)
    >>> wish = gbce.AtLeast(3.5, scale=1).resolve(1.0)
    >>> print(look_at_cells(trees, space, x[0], wish, x, x[:, 0]).proof.sentence)
    Unattainable within these bounds: no row can get above 3.01 (proved from the leaves of the tree, in 4 cells).
    """
    if not agrees(trees.inside, x, outputs, target.label if isinstance(target, Class) else None):
        return None
    conditions, task = conditions_of(trees.inside, target), make_task(trees, space, x0, target, "changes")
    if conditions is None or task is None or count_cells(task.axes) > most_cells:
        return None
    looked = bound_grid(task.leaves, task.axes, task.least)
    if looked is None:
        return None
    may_do, largest = looked
    if may_do:
        return Looked(None)
    sums = np.where(largest < task.least, largest + (conditions.least - task.least), np.nan)
    cells = int(np.prod([len(axis.offer.cells) for axis in task.axes]))
    how = f", in {cells:,} cells" if cells > 1 else ""
    return Looked(say_unattainable(trees.inside.parts, conditions, Outcome(True, sums, cells), target, how))
