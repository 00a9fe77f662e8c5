"""Lower bounds on the cost of reaching a target under a tree ensemble, valid in the model's own arithmetic.

Costs are bounded by branch and bound over boxes of cells (:mod:`gbce.trees._bound`). Where cells are few, all of them
are summed on a grid instead, which proves that a target is unattainable or how many features must change.
"""

from collections.abc import Callable
from itertools import combinations, product
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.space import Space
from gbce.targets import Class
from gbce.trees._bound import MOST_WORK, Axis, CandidateStatus, Leaves, Lowest, Sets, find_lowest, make_axes
from gbce.trees._cells import CellTrees
from gbce.trees._constraints import Proof, score_bounds_of
from gbce.trees._milp import solve_cheapest
from gbce.trees._question import price_cells
from gbce.trees._structure import agrees
from gbce.trees._unattainable import Outcome, describe_unattainable, sum_margin

__all__ = ["MOST_CELLS", "Optimum", "prove_cheapest", "prove_over_all_cells"]

MOST_CELLS = 10_000_000  # cells of one grid: 80 MB per constraint
_MOST_IN_ALL = 60_000_000  # cells of all pairs together, about a second; hand-tuned
_MOST_COUNTED = 2  # features changed together: all triples are too many
_CLOSER = 1e-9  # relative: a smaller saving is rounding

# --- sums over all cells of a few features ---------------------------------------------------------------------------


def bound_grid(leaves: Leaves, axes: list[Axis], least: Array) -> tuple[bool, Array] | None:
    """Return whether any cell can meet the bounds ``(q,)``, and upper bounds of the sums; None for too many cells."""
    return _sum_grid(leaves, axes, np.arange(len(leaves.tree)), least)


def count_cells(axes: list[Axis]) -> float:
    """Return the number of cells of all features together, as a float since it may be huge."""
    return prod((float(_grid_size(axis)) for axis in axes), start=1.0)


def count_least_changes(leaves: Leaves, axes: list[Axis], least: Array) -> int:
    """Return the minimum number of changed features, at most 3, by all singles and pairs; less for too many cells."""
    here = np.arange(len(leaves.tree))
    outside = (
        np.stack([~axis.holds(here, axis.priced.own) for axis in axes], axis=1) if axes else np.zeros((len(here), 0))
    )
    count = outside.sum(axis=1)
    near = np.flatnonzero(count <= _MOST_COUNTED)
    count, outside = count[near], np.ascontiguousarray(outside[near].T)
    work = 0
    for n in range(1, _MOST_COUNTED + 1):  # the row itself does not reach
        for free in combinations(range(len(axes)), n):
            work += prod(len(axes[a].priced.cells) for a in free)
            if work > _MOST_IN_ALL:
                return n
            some = near[count == sum(outside[a].astype(int) for a in free)]
            if not _could_meet(leaves, some, least):
                continue
            summed = _sum_grid(leaves, [axes[a] for a in free], some, least)
            if summed is None or summed[0]:
                return n
    return _MOST_COUNTED + 1


def _could_meet(leaves: Leaves, some: Array, least: Array) -> bool:
    """Whether the best of leaves ``(m,)`` in each tree would meet the bounds; if not, no grid is needed."""
    tree = leaves.tree[some]
    starts = np.flatnonzero(np.diff(tree, prepend=-1))
    for worth, wanted in zip(leaves.worth[some].T, least.tolist(), strict=True):
        best = np.maximum.reduceat(worth, starts)
        rounding_error = len(best) * float(np.finfo(float).eps) * np.abs(best).sum()
        if best.sum() < wanted - rounding_error:
            return False
    return True


def _sum_grid(leaves: Leaves, axes: list[Axis], some: Array, least: Array) -> tuple[bool, Array] | None:
    """Return whether any cell of leaves ``(m,)`` that hold fixed features meets the bounds, and the largest sums."""
    shape = tuple(_grid_size(axis) for axis in axes)
    if count_cells(axes) > MOST_CELLS:
        return None
    enough: Array | None = None
    largest = []
    # every cell is a sum of all earlier additions and subtractions
    rounding = 2 ** len(axes) * (len(some) + len(axes)) * float(np.finfo(float).eps)
    for worth, wanted in zip(leaves.worth[some].T, least, strict=True):
        grid = np.zeros(prod(shape))
        for corner in product(*(_list_corners(axis, some) for axis in axes)):
            sign = prod((one[1] for one in corner), start=1.0)
            place = np.ravel_multi_index(tuple(one[0] for one in corner), shape) if axes else np.zeros(len(some), int)
            grid += sign * np.bincount(place, worth, len(grid))
        grid = grid.reshape(shape)
        for dimension, axis in enumerate(axes):
            grid = _accumulate(axis, grid, dimension)
        rounding_error = rounding * np.abs(worth).sum()
        largest.append(float(grid.max()) + rounding_error)
        good = grid >= wanted - rounding_error
        enough = good if enough is None else enough & good
    return bool(enough is None or enough.any()), np.array(largest)


def _grid_size(axis: Axis) -> int:
    """Return the size of an axis in the grid of differences."""
    return len(axis.member) if isinstance(axis, Sets) else len(axis.priced.cells) + 1


def _list_corners(axis: Axis, some: Array) -> list[tuple[Array, int]]:
    """Return where leaves are added and where they are subtracted along an axis."""
    if isinstance(axis, Sets):
        return [(axis.which[some], 1)]
    return [(axis.low[some], 1), (axis.high[some], -1)]


def _accumulate(axis: Axis, grid: Array, dimension: int) -> Array:
    """Turn differences along an axis into sums at its cells."""
    if isinstance(axis, Sets):
        return np.moveaxis(np.tensordot(axis.member.T.astype(float), grid, axes=(1, dimension)), 0, dimension)
    sums = np.cumsum(grid, axis=dimension)
    return np.take(sums, np.arange(grid.shape[dimension] - 1), axis=dimension)


# --- the lowest cost -------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """A question in cells: leaves with their worth, the axes, and lower bounds on the sums ``(q,)``."""

    leaves: Leaves
    axes: list[Axis]
    least: Array


class Optimum(NamedTuple):
    """What is known about the cheapest point that reaches a target.

    Parameters
    ----------
    lower : float
        Lower bound on the cost of every such point, in units of the distance.
    x : array of shape (d,), optional
        A point that reaches and is cheaper than the known one.
    least_changes : int
        Minimum number of changed features.
    boxes : int
        Number of boxes of cells that were bounded.
    """

    lower: float
    x: Array | None
    least_changes: int
    boxes: int


def make_task(
    trees: CellTrees, space: Space, x0: Array, target: Target, distance: str, margin: float = 0.0
) -> Task | None:
    """Express a question in cells; None if features, prices or the target's score bounds are not known.

    The bounds are relaxed by the rounding error of the model's own summation, so that no row it accepts is missed.
    """
    bounds = score_bounds_of(trees.inside, target, margin)
    reachable = price_cells(trees, space, x0, distance)
    made = None if bounds is None or reachable is None else make_axes(trees, reachable)
    if bounds is None or made is None:
        return None
    own, axes = made
    rounding_error = sum_margin(trees.tree, trees.value, trees.base, trees.epsilon, trees.n_trees, bounds.weights)
    least = bounds.least - bounds.weights @ trees.base - rounding_error
    return Task(Leaves(trees.tree[own], trees.value[own] @ bounds.weights.T, trees.n_trees), axes, least)


def prove_cheapest(
    trees: CellTrees,
    space: Space,
    x0: Array,
    target: Target,
    known: Array,
    accepts: Callable[[Array], Array],
    *,
    distance: Literal["l1", "l2", "changes"] = "l1",
    margin: float = 0.0,
    most_changes: int | None = None,
    most_work: int = MOST_WORK,
    late: Callable[[], bool] = lambda: False,
    solver: bool = True,
) -> Optimum | None:
    """Bound the cost of all points that reach a target; None if that is impossible.

    Parameters
    ----------
    trees : CellTrees
        The first model, verified against its predictions.
    space : Space
        The features and their limits.
    x0 : array of shape (d,)
        The row, encoded.
    target : Target
        The resolved target.
    known : array of shape (d,)
        A point that reaches it.
    accepts : callable
        Takes points ``(n, d)`` and returns whether the model itself accepts them ``(n,)``, with the margin.
    distance : {"l1", "l2", "changes"}
        Cost of a point, see :class:`gbce.Nearest`.
    margin : float
        How far inside the target an output has to be.
    most_changes : int, optional
        Maximum number of changed features.
    most_work : int
        Maximum number of leaves processed.
    late : callable
        Whether time is up.
    solver : bool
        Whether HiGHS may close the gap that the search leaves open; it cannot be interrupted.
    """
    task = make_task(trees, space, x0, target, distance, margin)
    if task is None:
        return None
    check = _CandidateCheck(trees, space, x0, task.axes, accepts)
    cells = check.cells_of(known)
    if cells is None:
        return None
    price = sum(axis.priced.price[c] for axis, c in zip(task.axes, cells, strict=True))
    start = check.point(cells)
    best = start if check(cells) is CandidateStatus.ACCEPTED else None  # nearest in the same cells
    if best is None:
        price = _price_point(space, x0, known, distance)
    wanted = price * (1.0 - _CLOSER)
    if any(space.is_computed[axis.priced.feature] for axis in task.axes):
        fewest = 0
    else:
        fewest = count_least_changes(task.leaves, task.axes, task.least)
    found = find_lowest(
        task.leaves, task.axes, task.least, wanted, check, most_changes=most_changes, most_work=most_work, late=late
    )
    if solver and found.lower < found.price * (1.0 - _CLOSER):
        found = _close_gap(task, found, check, most_changes)
    return _as_optimum(found, wanted, check, best, distance, fewest)


def _close_gap(task: Task, found: Lowest, check: "_CandidateCheck", most_changes: int | None) -> Lowest:
    """Improve a bound and a point by mixed-integer programming, where the program is not too large."""
    solved = solve_cheapest(task.leaves, task.axes, task.least, found.price, most_changes)
    if solved is None:
        return found
    cells, price = found.cells, found.price
    if solved.cells is not None and check(solved.cells) is CandidateStatus.ACCEPTED:
        cost = float(sum(axis.priced.price[c] for axis, c in zip(task.axes, solved.cells, strict=True)))
        cells, price = (solved.cells, cost) if cost < price else (cells, price)
    lower = max(found.lower, solved.lower)
    return found._replace(lower=lower if cells is None else min(lower, price), cells=cells, price=price)


def _as_optimum(
    found: Lowest, wanted: float, check: "_CandidateCheck", best: Array | None, distance: str, fewest: int
) -> Optimum:
    """Convert the result of a search into an :class:`Optimum`."""
    lower = max(0.0, min(found.lower, wanted))
    x = best if found.cells is None else check.point(found.cells)
    return Optimum(float(np.sqrt(lower) if distance == "l2" else lower), x, fewest, found.boxes)


def _price_point(space: Space, x0: Array, x: Array, distance: str) -> float:
    """Return the price of a point, as prices of features add up."""
    if distance == "l2":
        return float(space.distance(x[None, :], x0)[0] ** 2)
    own = ~space.is_computed
    if distance == "changes":
        return float(space.changed(x[None, :], x0)[0, own].sum())
    return float((space.change(x[None, :], x0) / space.scale)[0, own].sum())


class _CandidateCheck:
    """Evaluates candidate cells by the model itself, at their point nearest to the row."""

    def __init__(
        self, trees: CellTrees, space: Space, x0: Array, axes: list[Axis], accepts: Callable[[Array], Array]
    ) -> None:
        self.trees, self.space, self.x0, self.axes, self.accepts = trees, space, x0, axes, accepts
        self.moved = np.array([axis.priced.feature for axis in axes], dtype=int)

    def point(self, cells: Array) -> Array:
        """Return the point of cells ``(a,)`` that is nearest to the row."""
        x = self.x0.copy()
        for axis, cell in zip(self.axes, cells.tolist(), strict=True):
            if not self.space.is_computed[axis.priced.feature]:
                x[axis.priced.feature] = axis.priced.values[cell]
        return self.space.completed(x[None, :], self.x0)[0]

    def cells_of(self, x: Array) -> Array | None:
        """Return the cells of a point as positions on the axes; None if one is not reachable."""
        seen = self.trees.cells(x[None, :])[0]
        places = []
        for axis in self.axes:
            at = np.flatnonzero(axis.priced.cells == seen[axis.priced.feature])
            if len(at) == 0:
                return None
            places.append(int(at[0]))
        return np.array(places, dtype=int)

    def __call__(self, cells: Array) -> CandidateStatus:
        x = self.point(cells)
        same = self.cells_of(x)
        if same is None or (same != cells).any() or not self.space.admissible(x[None, :], self.x0)[0]:
            return CandidateStatus.UNKNOWN
        return CandidateStatus.ACCEPTED if self.accepts(x[None, :])[0] else CandidateStatus.REJECTED


# --- unattainable targets, where cells are few -----------------------------------------------------------------------


class GridProof(NamedTuple):
    """Result of summing every cell: a proof, or None since some cell may reach the target."""

    proof: Proof | None


def prove_over_all_cells(
    trees: CellTrees, space: Space, x0: Array, target: Target, x: Array, outputs: Array, most_cells: float = MOST_CELLS
) -> GridProof | None:
    """Prove cell by cell that no row that ``x0`` may become reaches the target; None if cells are too many.

    Parameters
    ----------
    trees : CellTrees
        The first model, verified against its predictions.
    space : Space
        The features and their limits.
    x0 : array of shape (d,)
        The row, encoded.
    target : Target
        The resolved target.
    x : array of shape (n, d)
        Known rows, none of which reaches the target.
    outputs : array of shape (n,)
        The model's own outputs for them, as the target reads them; the structure read must reproduce them.
    most_cells : float
        Maximum number of cells.
    """
    if not agrees(trees.inside, x, outputs, target.label if isinstance(target, Class) else None):
        return None
    bounds, task = score_bounds_of(trees.inside, target), make_task(trees, space, x0, target, "changes")
    if bounds is None or task is None or count_cells(task.axes) > most_cells:
        return None
    summed = bound_grid(task.leaves, task.axes, task.least)
    if summed is None:
        return None
    may_reach, largest = summed
    if may_reach:
        return GridProof(None)
    sums = np.where(largest < task.least, largest + (bounds.least - task.least), np.nan)
    cells = int(np.prod([len(axis.priced.cells) for axis in task.axes]))
    return GridProof(describe_unattainable(trees.inside.parts, bounds, Outcome(True, sums, cells), target))
