"""Tree ensembles as boxes of cells: a column's cells are the intervals that no tree tells apart.

Within a cell of every feature an ensemble says one and the same. Each leaf is a box of cells, so that what a model says
when one feature moves, or at every point of a grid, follows from its leaves without asking it.
"""

from gbce.trees._cells import CellTrees
from gbce.trees._grid import Axis, Grid
from gbce.trees._outputs import outputs_of, why_unreadable
from gbce.trees._read import read_cells
from gbce.trees._reader import CellReader
from gbce.trees._values import nearest_values
from gbce.trees._verdicts import Verdicts, read_verdicts

__all__ = [
    "Axis",
    "CellReader",
    "CellTrees",
    "Grid",
    "Verdicts",
    "nearest_values",
    "outputs_of",
    "read_cells",
    "read_verdicts",
    "why_unreadable",
]
