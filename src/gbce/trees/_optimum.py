"""Lower bounds on the cost of reaching a target under a tree ensemble, valid in the model's own arithmetic.

Costs are bounded by branch and bound over boxes of cells (:mod:`gbce.trees._bound`); what that leaves open in many
columns goes to mixed-integer programming (:mod:`gbce.trees._milp`).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from gbce._numerics import ROUNDING, WIDE_ROUNDING
from gbce.base import Array, Target
from gbce.space import Space
from gbce.trees._bound import MOST_WORK, Axis, CandidateStatus, Leaves, Lowest, find_lowest, make_axes
from gbce.trees._cells import CellTrees
from gbce.trees._milp import solve_cheapest
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
