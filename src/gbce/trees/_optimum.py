"""Lower bounds on the cost of reaching a target under a tree ensemble, valid in the model's own arithmetic.

Costs are bounded by branch and bound over boxes of cells (:mod:`gbce.trees._bound`); what that leaves open in many
columns goes to mixed-integer programming (HiGHS).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from gbce._numerics import ROUNDING, WIDE_ROUNDING
from gbce.base import Array, Target
from gbce.space import Space
from gbce.trees._bound import MOST_WORK, Axis, CandidateStatus, Intervals, Leaves, Lowest, find_lowest, make_axes
from gbce.trees._cells import CellTrees
from gbce.trees._pairs import count_least_changes
from gbce.trees._question import ReachableCells, ScoreConstraints, price_units, reachable_cells, score_constraints

Distance = Literal["l1", "l2", "changes"]


class Task(NamedTuple):
    """A question in cells: leaves with their worth, the axes, and lower bounds on the sums ``(q,)``."""

    reachable: ReachableCells
    leaves: Leaves
    axes: list[Axis]
    least: Array


def make_task(
    trees: CellTrees, space: Space, x0: Array, constraints: ScoreConstraints, distance: Distance
) -> Task | None:
    """Express a question in cells; None if cells or prices are not known for all rows that ``x0`` may become.

    Rules between columns are ignored and computed columns are free: both only enlarge the set of rows, so that a bound
    over it holds for all rows. Lower bounds are relaxed by the rounding error of the model's own summation.
    """
    low, high = space.limits(x0)
    used = np.isin(np.arange(len(x0)), trees.used)
    unknown = ((low < trees.low) | (high > trees.high)) & used  # false where the value stays missing
    fractions = space.discrete & (x0 != np.round(x0)) & ~np.isnan(x0)
    reachable = reachable_cells(trees, space, x0, price_units(space, x0, distance))
    if unknown.any() or fractions.any() or reachable is None:
        return None
    computed = ~reachable.paid
    becomes_known = np.isnan(x0[reachable.moving]) & (computed if distance != "l2" else True)
    made = None if becomes_known.any() else make_axes(trees, reachable)  # their prices depend on more than the cell
    if made is None:
        return None
    own, axes = made
    least = constraints.least - constraints.weights @ trees.base - constraints.margins(trees)
    return Task(
        reachable, Leaves(trees.tree[own], trees.value[own] @ constraints.weights.T, trees.n_trees), axes, least
    )


class Optimum(NamedTuple):
    """What is known about the cheapest point that reaches a target.

    No point costs less than ``lower``, in units of the distance, or has fewer changes than ``least_changes``; ``x``
    ``(d,)`` is one that is cheaper than the known one, if any; ``boxes`` counts the boxes of cells that were bounded.
    """

    lower: float
    x: Array | None
    least_changes: int
    boxes: int


def prove_cheapest(
    trees: CellTrees,
    space: Space,
    x0: Array,
    target: Target,
    known: Array,
    accepts: Callable[[Array], Array],
    *,
    distance: Distance = "l1",
    margin: float = 0.0,
    most_changes: int | None = None,
    most_work: int = MOST_WORK,
    late: Callable[[], bool] = lambda: False,
    solver: bool = True,
) -> Optimum | None:
    """Bound the cost of all points that reach a target; None if that is impossible.

    ``known`` ``(d,)`` is a point that reaches it, and ``accepts`` takes points ``(n, d)`` and returns whether the model
    itself accepts them, by the ``margin`` that outputs have to be inside the target. ``late`` is whether time is up;
    ``solver`` whether HiGHS, which cannot be interrupted, may close the gap that the search leaves open.
    """
    constraints = score_constraints(trees.inside, target, margin, ROUNDING)
    task = None if constraints is None else make_task(trees, space, x0, constraints, distance)
    if constraints is None or task is None:
        return None
    check = _CandidateCheck(trees, task, accepts)
    cells = check.cells_of(known)
    if cells is None:
        return None
    best = check.point(cells) if check(cells) is CandidateStatus.ACCEPTED else None  # nearest in the same cells
    price = _sum_prices(task.axes, cells) if best is not None else _price_point(space, x0, known, distance)
    wanted = price * (1.0 - WIDE_ROUNDING)
    fewest = count_least_changes(trees, task.reachable, constraints)
    found = find_lowest(
        task.leaves, task.axes, task.least, wanted, check, most_changes=most_changes, most_work=most_work, late=late
    )
    if solver and found.lower < found.price * (1.0 - WIDE_ROUNDING):
        found = _close_gap(task, found, check, most_changes)
    lower = max(0.0, min(found.lower, wanted))
    x = best if found.cells is None else check.point(found.cells)
    return Optimum(float(np.sqrt(lower) if distance == "l2" else lower), x, fewest, found.boxes)


def _close_gap(task: Task, found: Lowest, check: "_CandidateCheck", most_changes: int | None) -> Lowest:
    """Improve a bound and a point by mixed-integer programming, where the program is not too large."""
    solved = solve_cheapest(task.leaves, task.axes, task.least, found.price, most_changes)
    if solved is None:
        return found
    cells, price = found.cells, found.price
    if solved.cells is not None and check(solved.cells) is CandidateStatus.ACCEPTED:
        cost = _sum_prices(task.axes, solved.cells)
        cells, price = (solved.cells, cost) if cost < price else (cells, price)
    lower = max(found.lower, solved.lower)
    return found._replace(lower=lower if cells is None else min(lower, price), cells=cells, price=price)


def _sum_prices(axes: list[Axis], cells: Array) -> float:
    """Return the price of cells ``(a,)``, given by their positions on the axes."""
    return float(sum(axis.priced.price[c] for axis, c in zip(axes, cells, strict=True)))


def _price_point(space: Space, x0: Array, x: Array, distance: Distance) -> float:
    """Return the price of a point ``(d,)``, as prices of features add up."""
    price = price_units(space, x0, distance)
    return float(sum(price(j, x[[j]])[0] for j in np.flatnonzero(~space.is_computed).tolist()))


class _CandidateCheck:
    """Evaluates candidate cells by the model itself, at their point nearest to the row."""

    def __init__(self, trees: CellTrees, task: Task, accepts: Callable[[Array], Array]) -> None:
        self.trees, self.reachable, self.axes, self.accepts = trees, task.reachable, task.axes, accepts
        self.which = np.searchsorted(task.reachable.moving, [axis.priced.feature for axis in task.axes])

    def point(self, cells: Array) -> Array:
        """Return the point of cells ``(a,)`` that is nearest to the row."""
        slots = self.reachable.here.copy()
        for i, axis, cell in zip(self.which.tolist(), self.axes, cells.tolist(), strict=True):
            slots[i] = self.reachable.starts[i] + axis.priced.cells[cell]
        return self.reachable.points(slots[None, :])[0]

    def cells_of(self, x: Array) -> Array | None:
        """Return the cells of a point as positions on the axes; None if one is not reachable."""
        seen, places = self.trees.cells(x[None, :])[0], []
        for axis in self.axes:
            at = np.flatnonzero(axis.priced.cells == seen[axis.priced.feature])
            if len(at) == 0:
                return None
            places.append(int(at[0]))
        return np.array(places, dtype=int)

    def __call__(self, cells: Array) -> CandidateStatus:
        x, space = self.point(cells), self.reachable.space
        same = self.cells_of(x)
        if same is None or (same != cells).any() or not space.admissible(x[None, :], self.reachable.x0)[0]:
            return CandidateStatus.UNKNOWN
        return CandidateStatus.ACCEPTED if self.accepts(x[None, :])[0] else CandidateStatus.REJECTED


# --- an integer program ------------------------------------------------------------------------------------------


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
