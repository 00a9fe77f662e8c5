"""Tree ensembles as boxes of cells: a column's cells are the intervals that no tree tells apart.

Within a cell of every feature an ensemble says one and the same. Each leaf is a box of cells, so that what a model says
when one feature moves, or at every point of a grid, follows from its leaves without asking it.
"""

from gbce.trees._cells import CellTrees, nearest_values, outputs_of, why_unreadable
from gbce.trees._constraints import Proof, say_answer, say_cheapest
from gbce.trees._grid import Axis, Grid, Verdicts, read_verdicts
from gbce.trees._mode import mode_on_cells, path_on_cells
from gbce.trees._nearest import find_nearest_cells
from gbce.trees._optimum import Optimum, look_at_cells, prove_cheapest
from gbce.trees._question import CellOffers, CellWish, Price, offer_cells, price_units, wish_for
from gbce.trees._read import read_cells
from gbce.trees._reader import CellReader
from gbce.trees._safe import Ranges, find_safe_ranges
from gbce.trees._scores import LinearScores, TreeScores
from gbce.trees._structure import MORE_TERMS, Inside, agrees, look_inside, n_terms, same_output
from gbce.trees._sums import ExactTrees, NotExactError, sum_if_few
from gbce.trees._unattainable import prove_unattainable

__all__ = [
    "MORE_TERMS",
    "Axis",
    "CellOffers",
    "CellReader",
    "CellTrees",
    "CellWish",
    "ExactTrees",
    "Grid",
    "Inside",
    "LinearScores",
    "NotExactError",
    "Optimum",
    "Price",
    "Proof",
    "Ranges",
    "TreeScores",
    "Verdicts",
    "agrees",
    "find_nearest_cells",
    "find_safe_ranges",
    "look_at_cells",
    "look_inside",
    "mode_on_cells",
    "n_terms",
    "nearest_values",
    "offer_cells",
    "outputs_of",
    "path_on_cells",
    "price_units",
    "prove_cheapest",
    "prove_unattainable",
    "read_cells",
    "read_verdicts",
    "same_output",
    "say_answer",
    "say_cheapest",
    "sum_if_few",
    "why_unreadable",
    "wish_for",
]
