"""Sums over trees at every cell of a few features at once, and whether these can do at all."""

from itertools import combinations, product
from math import prod

import numpy as np

from gbce.base import Array
from gbce.search._proofs._axes import Axis, Sets
from gbce.search._proofs._cheapest import Leaves

__all__ = ["MOST_CELLS", "bound_grid", "count_cells", "count_least"]

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
    >>> from gbce.predictors import look_inside
    >>> from gbce.search._proofs._axes import make_axes
    >>> from gbce.search._proofs._offers import make_offers
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> model, space = DecisionTreeRegressor(random_state=0).fit(x, [0.0, 1.0, 1.0, 5.0]), Space.real(2)
    >>> trees = read_cells(look_inside(model, space), space, x)
    >>> own, axes = make_axes(trees, make_offers(trees, space, x[0], "l1"))
    >>> count_least(Leaves(trees.tree[own], trees.value[own], 1), axes, np.array([3.0]))
    2
    """
    here = np.arange(len(leaves.tree))
    outside = (
        np.stack([~axis.holds(here, axis.offer.own) for axis in axes], axis=1) if axes else np.zeros((len(here), 0))
    )
    count = outside.sum(axis=1)
    near = np.flatnonzero(count <= _MOST_COUNTED)
    count, outside = count[near], np.ascontiguousarray(outside[near].T)
    spent = 0
    for n in range(1, _MOST_COUNTED + 1):  # the row itself does not reach
        for free in combinations(range(len(axes)), n):
            spent += prod(len(axes[a].offer.cells) for a in free)
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
    return len(axis.member) if isinstance(axis, Sets) else len(axis.offer.cells) + 1


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
