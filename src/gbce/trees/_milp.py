"""The cheapest cells that meet score constraints, as a mixed-integer linear program that HiGHS solves.

Branch and bound of our own (``_bound.py``) proves optima of few columns in milliseconds; what it leaves open in many
columns goes to :func:`scipy.optimize.milp`. The features' cells are binary variables and the leaves continuous ones: in
every tree the leaves on either side of a threshold have no more weight than the feature has there, so that with whole
cells each tree has one leaf. Sums may fall short by what the solver's tolerances allow, and the bound is lowered by as
much: it holds for the model's own arithmetic, with the margin that the task has already.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from gbce.base import Array
from gbce.trees._bound import Axis, Intervals, Leaves

_MOST_VARIABLES = 20_000  # cells and leaves; beyond, the first relaxation alone takes longer than people wait
_MOST_NODES = 2_000  # that are solved, a count and no time, so that proofs are the same on every machine
_TOLERANCE = 1e-6  # of HiGHS, for integrality and for constraints
_SLACK = 10 * _TOLERANCE  # of the sizes of all trees' scores, that sums may fall short by


class Solved(NamedTuple):
    """A price ``lower`` that nothing is below, and the cheapest cells ``(a,)`` that were found, by their positions."""

    lower: float
    cells: Array | None


class _Rows:
    """Rows of a sparse constraint matrix, collected as triplets."""

    def __init__(self) -> None:
        self.row: list[Array] = []
        self.column: list[Array] = []
        self.value: list[Array] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, column: Array, value: Array | float, low: float, high: float) -> None:
        """Require ``low <= value @ variables[column] <= high``."""
        self.row.append(np.full(len(column), len(self.low)))
        self.column.append(column)
        self.value.append(np.broadcast_to(np.asarray(value, dtype=float), len(column)))
        self.low.append(low)
        self.high.append(high)

    def constraint(self, n: int) -> LinearConstraint:
        """Return all rows over ``n`` variables."""
        # HiGHS takes indices of 32 bits, and scipy before 1.15 does not convert them
        where = np.concatenate(self.row).astype(np.int32), np.concatenate(self.column).astype(np.int32)
        matrix = coo_array((np.concatenate(self.value), where), shape=(len(self.low), n))
        return LinearConstraint(matrix.tocsr(), self.low, self.high)


def solve_cheapest(
    leaves: Leaves, axes: list[Axis], least: Array, known: float, most_changes: int | None = None
) -> Solved | None:
    """Return a lower bound on the price of cells that meet score constraints; None where the program is too large.

    Arguments are those of :func:`gbce.trees._bound.find_lowest`: ``least`` ``(q,)`` are the sums that leaves' worths
    must reach, and cells are sought below the price ``known``.
    """
    sizes = np.array([len(axis.priced.cells) for axis in axes])
    first = np.concatenate([[0], np.cumsum(sizes)])
    n_cells, n = int(first[-1]), int(first[-1]) + len(leaves.tree)
    if n > _MOST_VARIABLES:
        return None
    rows, leaf = _Rows(), np.arange(n_cells, n)
    price = np.zeros(n)
    for start, axis in zip(first, axes, strict=False):
        own = start + np.arange(len(axis.priced.cells))
        rows.add(own, 1.0, 1.0, 1.0)
        price[own] = axis.priced.price
    scale = np.abs(leaves.worth).max(axis=0) * leaves.n_trees
    for worth, bound, size in zip(leaves.worth.T, least, scale, strict=True):
        rows.add(leaf, worth, bound - _SLACK * max(size, 1.0), np.inf)
    for tree in range(leaves.n_trees):
        members = np.flatnonzero(leaves.tree == tree)
        rows.add(leaf[members], 1.0, 1.0, 1.0)
        for start, axis in zip(first, axes, strict=False):
            _tie_leaves_to_cells(rows, axis, members, int(start), leaf)
    paid = np.flatnonzero(price)
    if np.isfinite(known):
        rows.add(paid, price[paid], -np.inf, known * (1.0 + _TOLERANCE))
    if most_changes is not None:
        rows.add(paid, 1.0, -np.inf, float(most_changes))
    kind = np.concatenate([np.ones(n_cells), np.zeros(len(leaves.tree))])
    options = {"node_limit": _MOST_NODES, "mip_rel_gap": _TOLERANCE}
    found = milp(price, integrality=kind, bounds=Bounds(0, 1), constraints=rows.constraint(n), options=options)
    if found.status == 2:  # nothing below the price that is known
        return Solved(np.inf, None)
    lower = 0.0 if found.mip_dual_bound is None else float(found.mip_dual_bound)
    cells = None
    if found.x is not None:
        parts = np.split(found.x[:n_cells], first[1:-1])
        cells = np.array([int(part.argmax()) for part in parts])
    return Solved(max(0.0, lower - _SLACK * max(1.0, lower)), cells)


def _tie_leaves_to_cells(rows: _Rows, axis: Axis, members: Array, start: int, leaf: Array) -> None:
    """Require that leaves of one tree have no weight where the cells of a feature rule them out."""
    k = len(axis.priced.cells)
    if isinstance(axis, Intervals):
        low, high = axis.low[members], axis.high[members]
        for edge in np.unique(np.concatenate([low, high])).tolist():
            if not 0 < edge < k:
                continue
            below, above = leaf[members[high <= edge]], leaf[members[low >= edge]]
            cells = start + np.arange(edge), start + np.arange(edge, k)
            for own, there in ((below, cells[0]), (above, cells[1])):
                if len(own):
                    rows.add(np.concatenate([own, there]), np.repeat([1.0, -1.0], [len(own), len(there)]), -np.inf, 0.0)
        return
    for cell in range(k):
        without = leaf[members[~axis.holds(members, cell)]]
        if len(without):
            rows.add(np.append(without, start + cell), 1.0, -np.inf, 1.0)
