"""How much cheaper than a point anything can be that reaches a target: for tree ensembles, in their own arithmetic."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from gbce.base import Array, Target
from gbce.search._proofs._axes import Axis, make_axes
from gbce.search._proofs._cheapest import MOST_WORK, Leaves, Lowest, Verdict, find_lowest
from gbce.search._proofs._conditions import conditions_of
from gbce.search._proofs._grids import count_least
from gbce.search._proofs._offers import make_offers
from gbce.search._proofs._prove import sum_margin
from gbce.space import Space
from gbce.trees import CellTrees

__all__ = ["Optimum", "Task", "make_task", "prove_cheapest"]

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
    conditions = conditions_of(trees.inside, target, margin)
    offers = make_offers(trees, space, x0, distance)
    made = None if conditions is None or offers is None else make_axes(trees, offers)
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
    >>> from gbce.predictors import look_inside
    >>> from gbce.trees import read_cells
    >>> x = np.arange(4.0)[:, None]
    >>> model, space = DecisionTreeRegressor(random_state=0).fit(x, x[:, 0]), gbce.Space.real(1)
    >>> trees = read_cells(look_inside(model, space), space, x)
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
    price = sum(axis.offer.price[c] for axis, c in zip(task.axes, cells, strict=True))
    start = judged.point(cells)
    best = start if judged(cells) is Verdict.GOOD else None  # the same cells, as near to the row as they allow
    if best is None:
        price = _price(space, x0, known, distance)
    wanted = price * (1.0 - _CLOSER)
    if any(space.is_computed[axis.offer.feature] for axis in task.axes):
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
        self.moved = np.array([axis.offer.feature for axis in axes], dtype=int)

    def point(self, cells: Array) -> Array:
        """Return the point of cells ``(a,)`` that is nearest to the row."""
        x = self.x0.copy()
        for axis, cell in zip(self.axes, cells.tolist(), strict=True):
            if not self.space.is_computed[axis.offer.feature]:
                x[axis.offer.feature] = axis.offer.values[cell]
        return self.space.completed(x[None, :], self.x0)[0]

    def cells_of(self, x: Array) -> Array | None:
        """Return the cells of a point by their positions in offers; None for one that is not on offer."""
        seen = self.trees.cells(x[None, :])[0]
        places = []
        for axis in self.axes:
            at = np.flatnonzero(axis.offer.cells == seen[axis.offer.feature])
            if len(at) == 0:
                return None
            places.append(int(at[0]))
        return np.array(places, dtype=int)

    def __call__(self, cells: Array) -> Verdict:
        x = self.point(cells)
        same = self.cells_of(x)
        if same is None or (same != cells).any() or not self.space.admissible(x[None, :], self.x0)[0]:
            return Verdict.UNKNOWN
        return Verdict.GOOD if self.accepts(x[None, :])[0] else Verdict.BAD
