"""What the cells of a tree ensemble offer around one row: in each the value nearest to the row's, and its price."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gbce.base import Array
from gbce.space import Space
from gbce.trees import CellTrees, nearest_values

__all__ = ["CellOffers", "Price", "offer_cells", "price_units"]

Price = Callable[[int, Array], Array]  # of a feature, by position, and values it may take instead of the row's


@dataclass(frozen=True, eq=False)
class CellOffers:
    """Cells of the features that can move, one feature after the other: ``m`` features, ``N`` slots.

    The last slot of every feature stands for a missing value.

    Parameters
    ----------
    space : Space
        The features.
    x0 : array of shape (d,)
        The row, encoded.
    moving : int array of shape (m,)
        Positions of the features that can move and that some tree asks about, those that follow from others included.
    paid : bool array of shape (m,)
        Which of them move by themselves, and cost something.
    starts : int array of shape (m + 1,)
        The first slot of each feature, and the number of all.
    feature : int array of shape (N,)
        Whose slot it is, as a position in ``moving``.
    value : array of shape (N,)
        The value offered.
    price : array of shape (N,)
        What it costs; infinite where the row cannot get there. Prices of several features add up.
    here : int array of shape (m,)
        The slots of the row.
    cells : int array of shape (d,)
        All cells of the row.
    """

    space: Space
    x0: Array
    moving: Array
    paid: Array
    starts: Array
    feature: Array
    value: Array
    price: Array
    here: Array
    cells: Array

    def cost(self, slots: Array) -> Array:
        """Return what points at slots ``(..., m)`` cost ``(...,)``."""
        price = self.price[slots]
        return np.asarray((price if self.all_paid else np.where(self.paid, price, 0.0)).sum(axis=-1))

    @cached_property
    def all_paid(self) -> bool:
        """Whether no feature follows from others."""
        return bool(self.paid.all())

    def cheapest_moves(self) -> Array:
        """Return the least price of a move of each feature ``(m,)``: what changing it costs, however little."""
        away = np.where(self.here[self.feature] == np.arange(len(self.price)), np.inf, self.price)
        return np.minimum.reduceat(away, self.starts[:-1])

    def slots_of(self, cells: Array) -> Array:
        """Return the slots ``(n, m)`` of cells ``(n, d)``."""
        return np.asarray(self.starts[:-1] + cells[:, self.moving])

    def cells_at(self, slots: Array) -> Array:
        """Return the cells ``(n, d)`` of slots ``(n, m)``."""
        cells = np.repeat(self.cells[None, :], len(slots), axis=0)
        cells[:, self.moving] = slots - self.starts[:-1]
        return cells

    def points(self, slots: Array) -> Array:
        """Return encoded rows ``(n, d)`` at slots ``(n, m)``, with what follows from the features that moved."""
        x = np.repeat(self.x0[None, :], len(slots), axis=0)
        x[:, self.moving] = self.value[slots]
        return self.space.completed(x, self.x0)


def price_units(space: Space, x0: Array, power: int = 1) -> Price:
    """Return prices in units of each feature's scale, any change of a category being one.

    Parameters
    ----------
    space : Space
        With the scales.
    x0 : array of shape (d,)
        The row.
    power : {1, 2}
        Of a change: with 2, prices add up to the squared distance.

    Examples
    --------
    >>> price_units(Space.real(2, scale=[1.0, 4.0]), np.zeros(2))(1, np.array([2.0, 0.0, -8.0]))
    array([0.5, 0. , 2. ])
    """

    def price(j: int, values: Array) -> Array:
        gone, was_gone = np.isnan(values), bool(np.isnan(x0[j]))
        unordered = bool(space.unordered[j])
        size = (values != x0[j]) / space.scale[j] if unordered else np.abs(values - x0[j]) / space.scale[j]
        size = np.where(gone != was_gone, 1.0 / space.scale[j] if unordered else 1.0, size)
        return np.asarray(np.where(gone & was_gone, 0.0, size) ** power)

    return price


def offer_cells(
    trees: CellTrees, space: Space, x0: Array, price: Price, likely: Callable[[int], Array] | None = None
) -> CellOffers | None:
    """Return what cells offer around a row; None if the row lies where no cells are known.

    Parameters
    ----------
    trees : CellTrees
        With the cells.
    space : Space
        With bounds, directions, steps and levels.
    x0 : array of shape (d,)
        The row, encoded.
    price : callable
        Takes the position of a feature and values, returns what changing to them costs; see :func:`price_units`.
    likely : callable, optional
        Takes the position of a feature, returns a value in each of its cells ``(n_cells + 1,)`` that is offered where
        it costs less than the one nearest to the row's; NaN where there is none.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce.predictors import look_inside
    >>> from gbce.trees import read_cells
    >>> x, space = np.array([[0.0], [1.0], [2.0], [3.0]]), Space.real(1)
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 3.0, 4.0, 9.0])
    >>> trees = read_cells(look_inside(model, space), space, x)
    >>> offer_cells(trees, space, np.array([1.0]), price_units(space, np.array([1.0]))).price.round(6)
    array([0.5, 0. , 0.5, 1.5, inf])
    """
    if not trees.covers(x0[None, :])[0]:
        return None
    free, used = set(space.free(x0).tolist()), trees.used.tolist()
    moving = np.array([j for j in used if j in free or space.is_computed[j]], dtype=int)
    cells = trees.cells(x0[None, :])[0]
    starts = np.concatenate([[0], np.cumsum(trees.n_cells[moving] + 1)]).astype(int)
    here = starts[:-1] + cells[moving]
    value, cost = np.full(starts[-1], np.nan), np.full(starts[-1], np.inf)
    limits = space.limits(x0)
    for i, j in enumerate(moving.tolist()):
        own = slice(starts[i], starts[i + 1])
        if not space.is_computed[j]:
            offered = nearest_values(trees, space, x0, j, limits)
            can = ~np.isnan(offered)
            can[-1] = space.may_become_missing[j]
            value[own] = offered
            cost[own] = np.where(can, price(j, offered), np.inf)
            if likely is not None:
                other = likely(j)
                dearness = np.where(np.isnan(other) | ~can, np.inf, price(j, other))
                value[own] = np.where(dearness < cost[own], other, value[own])
                cost[own] = np.minimum(cost[own], dearness)
        value[here[i]], cost[here[i]] = x0[j], 0.0
    feature = np.repeat(np.arange(len(moving)), np.diff(starts))
    paid = ~space.is_computed[moving] if len(moving) else np.zeros(0, dtype=bool)
    return CellOffers(space, x0, moving, paid, starts, feature, value, cost, here, cells)
