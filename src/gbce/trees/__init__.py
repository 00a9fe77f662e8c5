"""Fitted tree ensembles (and linear models) read from inside: nearest points, modes, exact sums, proofs and safe boxes.

A feature is cut into cells, the intervals between the thresholds of all trees, within which the model is constant.
Every leaf is a box of cells, so that scores after a move, or at every point of a grid, follow from the leaves without
calling the model.
"""

from gbce.trees._cells import CellTrees, nearest_values, outputs_of, why_unreadable
from gbce.trees._gibbs import GibbsTrees, draw_if_many
from gbce.trees._grid import Axis, CellReadings, Grid, read_cell_outputs
from gbce.trees._mode import mode_on_cells, path_on_cells
from gbce.trees._nearest import find_nearest_cells
from gbce.trees._optimum import Optimum, prove_cheapest
from gbce.trees._proofs import Proof, describe_answer, describe_cheapest, prove_unattainable, seems_attainable
from gbce.trees._question import (
    Price,
    ReachableCells,
    ScoreConstraints,
    price_units,
    reachable_cells,
    score_constraints,
)
from gbce.trees._read import read_cells
from gbce.trees._reader import CellReader, read_models
from gbce.trees._safe import Ranges, find_safe_ranges
from gbce.trees._scores import LinearScores, TreeScores
from gbce.trees._structure import MORE_TERMS, ModelStructure, agrees, n_terms, read_structure, same_output
from gbce.trees._sums import ExactTrees, NotExactError, sum_if_few
