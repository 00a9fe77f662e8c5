"""How much cheaper than a point anything can be that reaches a target: for tree ensembles, in their own arithmetic."""

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
from gbce.trees._question import price_cells
from gbce.trees._structure import agrees
from gbce.trees._unattainable import Outcome, say_unattainable, sum_margin

__all__ = [
    "MOST_CELLS",
    "Looked",
    "Optimum",
    "Task",
    "bound_grid",
    "count_cells",
    "count_least",
    "make_task",
    "prove_cheapest",
    "prove_over_all_cells",
]

# --- sums over trees at every cell of a few features at once, and whether these can do at all ------------------------

MOST_CELLS = 10_000_000  # of one grid: 80 MB for each condition
_MOST_IN_ALL = 60_000_000  # cells of all pairs together; by hand: about a second
_MOST_COUNTED = 2  # features that are changed together: all sets of three are too many


def bound_grid(leaves: Leaves, axes: list[Axis], least: Array) -> tuple[bool, Array] | None:
    """Return whether any cell of all features could meet conditions, and the largest sums; None for too many cells.

    Parameters
    ----------
    leaves : Leaves
        Of all trees.
    axes : list of Axis
        Over these leaves: all features that can move.
    least : array of shape (q,)
        What the sums of worths must come to, all of them.

    Returns
    -------
    bool
        False only where no cell does.
    array of shape (q,)
        What no cell's sum is above.
    """
    return _look(leaves, axes, np.arange(len(leaves.tree)), least)


def count_cells(axes: list[Axis]) -> float:
    """Return how many cells all features have together, as a number that may be large."""
    return prod((float(_width(axis)) for axis in axes), start=1.0)


def count_least(leaves: Leaves, axes: list[Axis], least: Array) -> int:
    """Return how many features have to be changed at least, of a row that does not reach: by all singles and all pairs.

    At most 3 is returned, and less where there are too many cells to look at.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce import Space
    >>> from gbce.predictors import read_structure
    >>> from gbce.trees._bound import make_axes
    >>> from gbce.trees._question import price_cells
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> model, space = DecisionTreeRegressor(random_state=0).fit(x, [0.0, 1.0, 1.0, 5.0]), Space.real(2)
    >>> trees = read_cells(read_structure(model, space), space, x)
    >>> own, axes = make_axes(trees, price_cells(trees, space, x[0], "l1"))
    >>> count_least(Leaves(trees.tree[own], trees.value[own], 1), axes, np.array([3.0]))
    2
    """
    here = np.arange(len(leaves.tree))
    outside = (
        np.stack([~axis.holds(here, axis.priced.own) for axis in axes], axis=1) if axes else np.zeros((len(here), 0))
    )
    count = outside.sum(axis=1)
    near = np.flatnonzero(count <= _MOST_COUNTED)
    count, outside = count[near], np.ascontiguousarray(outside[near].T)
    spent = 0
    for n in range(1, _MOST_COUNTED + 1):  # the row itself does not reach
        for free in combinations(range(len(axes)), n):
            spent += prod(len(axes[a].priced.cells) for a in free)
            if spent > _MOST_IN_ALL:
                return n
            some = near[count == sum(outside[a].astype(int) for a in free)]
            if not _could_meet(leaves, some, least):
                continue
            looked = _look(leaves, [axes[a] for a in free], some, least)
            if looked is None or looked[0]:
                return n
    return _MOST_COUNTED + 1


def _could_meet(leaves: Leaves, some: Array, least: Array) -> bool:
    """Whether the best of leaves ``(m,)`` in each tree would meet the conditions: without this, no grid is needed."""
    tree = leaves.tree[some]
    starts = np.flatnonzero(np.diff(tree, prepend=-1))
    for worth, wanted in zip(leaves.worth[some].T, least.tolist(), strict=True):
        best = np.maximum.reduceat(worth, starts)
        room = len(best) * float(np.finfo(float).eps) * np.abs(best).sum()
        if best.sum() < wanted - room:
            return False
    return True


def _look(leaves: Leaves, axes: list[Axis], some: Array, least: Array) -> tuple[bool, Array] | None:
    """Whether any cell meets the conditions, of leaves ``(m,)`` that hold what does not move, and the largest sums."""
    shape = tuple(_width(axis) for axis in axes)
    if count_cells(axes) > MOST_CELLS:
        return None
    enough: Array | None = None
    largest = []
    # every cell is a sum of all that was added and taken away before it
    rounding = 2 ** len(axes) * (len(some) + len(axes)) * float(np.finfo(float).eps)
    for worth, wanted in zip(leaves.worth[some].T, least, strict=True):
        grid = np.zeros(prod(shape))
        for corner in product(*(_corners(axis, some) for axis in axes)):
            sign = prod((one[1] for one in corner), start=1.0)
            place = np.ravel_multi_index(tuple(one[0] for one in corner), shape) if axes else np.zeros(len(some), int)
            grid += sign * np.bincount(place, worth, len(grid))
        grid = grid.reshape(shape)
        for dimension, axis in enumerate(axes):
            grid = _finish(axis, grid, dimension)
        room = rounding * np.abs(worth).sum()
        largest.append(float(grid.max()) + room)
        good = grid >= wanted - room
        enough = good if enough is None else enough & good
    return bool(enough is None or enough.any()), np.array(largest)


def _width(axis: Axis) -> int:
    return len(axis.member) if isinstance(axis, Sets) else len(axis.priced.cells) + 1


def _corners(axis: Axis, some: Array) -> list[tuple[Array, int]]:
    """Return where leaves are added and where they are taken away again along an axis."""
    if isinstance(axis, Sets):
        return [(axis.which[some], 1)]
    return [(axis.low[some], 1), (axis.high[some], -1)]


def _finish(axis: Axis, grid: Array, dimension: int) -> Array:
    """Make sums at cells of what was added and taken away."""
    if isinstance(axis, Sets):
        return np.moveaxis(np.tensordot(axis.member.T.astype(float), grid, axes=(1, dimension)), 0, dimension)
    sums = np.cumsum(grid, axis=dimension)
    return np.take(sums, np.arange(grid.shape[dimension] - 1), axis=dimension)


# --- how much cheaper than a point anything can be that reaches a target ---------------------------------------------

_CLOSER = 1e-9  # relative: what is cheaper by less is no cheaper, whatever the order of a sum


class Task(NamedTuple):
    """A question in cells: leaves with their worth, what features offer, and what sums must come to ``(q,)``."""

    leaves: Leaves
    axes: list[Axis]
    least: Array


class Optimum(NamedTuple):
    """What is known of the cheapest point that reaches.

    Parameters
    ----------
    lower : float
        What every point costs at least that reaches, in units of the distance.
    x : array of shape (d,), optional
        A point that reaches, cheaper than what was known.
    least_changes : int
        How many features have to be changed at least.
    boxes : int
        How many boxes of cells were told apart.
    """

    lower: float
    x: Array | None
    least_changes: int
    boxes: int


def make_task(
    trees: CellTrees, space: Space, x0: Array, target: Target, distance: str, margin: float = 0.0
) -> Task | None:
    """Put a question in cells; None where features, prices or the target's conditions are not known.

    What sums must come to is lowered by what a model's own summation may round, so that no row that it accepts is
    missed.
    """
    conditions = score_bounds_of(trees.inside, target, margin)
    reachable = price_cells(trees, space, x0, distance)
    made = None if conditions is None or reachable is None else make_axes(trees, reachable)
    if conditions is None or made is None:
        return None
    own, axes = made
    room = sum_margin(trees.tree, trees.value, trees.base, trees.epsilon, trees.n_trees, conditions.weights)
    least = conditions.least - conditions.weights @ trees.base - room
    return Task(Leaves(trees.tree[own], trees.value[own] @ conditions.weights.T, trees.n_trees), axes, least)


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
) -> Optimum | None:
    """Bound the cost of all points that reach a target; None where that cannot be known.

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
    known : array of shape (d,)
        A point that reaches.
    accepts : callable
        Takes points ``(n, d)``, returns whether the model itself accepts them ``(n,)``, with the margin.
    distance : {"l1", "l2", "changes"}
        What points cost, see :class:`gbce.Nearest`.
    margin : float
        How far inside the target an output has to be.
    most_changes : int, optional
        Features that may change.
    most_work : int
        Leaves that may be looked at.
    late : callable
        Whether time is up.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> import gbce
    >>> from gbce.predictors import read_structure
    >>> from gbce.trees import read_cells
    >>> x = np.arange(4.0)[:, None]
    >>> model, space = DecisionTreeRegressor(random_state=0).fit(x, x[:, 0]), gbce.Space.real(1)
    >>> trees = read_cells(read_structure(model, space), space, x)
    >>> wish, here = gbce.AtLeast(2, scale=1).resolve(1.0), np.array([0.0])
    >>> found = prove_cheapest(trees, space, here, wish, np.array([2.0]), lambda rows: model.predict(rows) >= 2)
    >>> round(float(found.lower), 6), found.x.round(6), found.least_changes
    (1.5, array([1.5]), 1)
    """
    task = make_task(trees, space, x0, target, distance, margin)
    if task is None:
        return None
    judged = _Judge(trees, space, x0, task.axes, accepts)
    cells = judged.cells_of(known)
    if cells is None:
        return None
    price = sum(axis.priced.price[c] for axis, c in zip(task.axes, cells, strict=True))
    start = judged.point(cells)
    best = start if judged(cells) is CandidateStatus.ACCEPTED else None  # nearest in the same cells
    if best is None:
        price = _price(space, x0, known, distance)
    wanted = price * (1.0 - _CLOSER)
    if any(space.is_computed[axis.priced.feature] for axis in task.axes):
        fewest = 0
    else:
        fewest = count_least(task.leaves, task.axes, task.least)
    found = find_lowest(
        task.leaves, task.axes, task.least, wanted, judged, most_changes=most_changes, most_work=most_work, late=late
    )
    return _read(found, wanted, judged, best, distance, fewest)


def _read(found: Lowest, wanted: float, judged: "_Judge", best: Array | None, distance: str, fewest: int) -> Optimum:
    lower = max(0.0, min(found.lower, wanted))
    x = best if found.cells is None else judged.point(found.cells)
    return Optimum(float(np.sqrt(lower) if distance == "l2" else lower), x, fewest, found.boxes)


def _price(space: Space, x0: Array, x: Array, distance: str) -> float:
    """Return what a point costs, as features' prices add up."""
    if distance == "l2":
        return float(space.distance(x[None, :], x0)[0] ** 2)
    own = ~space.is_computed
    if distance == "changes":
        return float(space.changed(x[None, :], x0)[0, own].sum())
    return float((space.change(x[None, :], x0) / space.scale)[0, own].sum())


class _Judge:
    """Says what the model itself makes of cells, by their point that is nearest to the row."""

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
        """Return the cells of a point by their positions in offers; None for one that is not on offer."""
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


# --- proofs by looking at every cell of all that can change, where cells are few -------------------------------------


class Looked(NamedTuple):
    """What came of a look at every cell: a proof, or none since some cell may do."""

    proof: Proof | None


def prove_over_all_cells(
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
    >>> from gbce.predictors import read_structure
    >>> from gbce.trees import read_cells
    >>> x = np.arange(4.0)[:, None]
    >>> model, space = DecisionTreeRegressor(random_state=0).fit(x, x[:, 0]), gbce.Space.real(1)
    >>> trees = read_cells(read_structure(model, space), space, x)
    >>> wish = gbce.AtLeast(3.5, scale=1).resolve(1.0)
    >>> print(prove_over_all_cells(trees, space, x[0], wish, x, x[:, 0]).proof.sentence)
    Unattainable within these bounds: no row can get above 3.01 (proved from the leaves of the tree, in 4 cells).
    """
    if not agrees(trees.inside, x, outputs, target.label if isinstance(target, Class) else None):
        return None
    conditions, task = score_bounds_of(trees.inside, target), make_task(trees, space, x0, target, "changes")
    if conditions is None or task is None or count_cells(task.axes) > most_cells:
        return None
    looked = bound_grid(task.leaves, task.axes, task.least)
    if looked is None:
        return None
    may_do, largest = looked
    if may_do:
        return Looked(None)
    sums = np.where(largest < task.least, largest + (conditions.least - task.least), np.nan)
    cells = int(np.prod([len(axis.priced.cells) for axis in task.axes]))
    how = f", in {cells:,} cells" if cells > 1 else ""
    return Looked(say_unattainable(trees.inside.parts, conditions, Outcome(True, sums, cells), target, how))
