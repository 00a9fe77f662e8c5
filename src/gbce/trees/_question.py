"""The question put to a tree ensemble: score constraints equivalent to the target, and reachable cells with prices.

:class:`ScoreConstraints` says exactly where the target is reached, up to rounding. :class:`ReachableCells` lists the
cells that the row can move to for a local search, :class:`CellPrices` those of one feature for proofs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gbce.base import Array, Target
from gbce.space import Space
from gbce.targets import Class
from gbce.trees._cells import CellTrees, nearest_values
from gbce.trees._constraints import score_of
from gbce.trees._structure import MORE_TERMS
from gbce.trees._unattainable import sum_margin

__all__ = [
    "CellPrices",
    "Price",
    "ReachableCells",
    "ScoreConstraints",
    "price_cells",
    "price_units",
    "reachable_cells",
    "score_constraints",
]

_OWN_DECISION = 0.5  # probability of a Class target at which the model's own decision counts
_LEAST_ROUNDING = 1e-12  # relative to the scores: running sums over thousands of cells round more than the model's

# --- score constraints -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreConstraints:
    """Constraints on scores that hold exactly where the target is reached, up to rounding.

    Parameters
    ----------
    weights : array of shape (q, K)
        Score weights of each sum.
    least : array of shape (q,)
        Lower bound of each sum; ignored if ``reads`` is given.
    reads : callable, optional
        Takes sums ``(n, q)`` and returns the shortfall ``(n,)``, zero where the target is reached.
    """

    weights: Array
    least: Array
    reads: Callable[[Array], Array] | None = None

    def shortfall(self, sums: Array) -> Array:
        """Return the shortfall ``(n,)`` of sums ``(n, q)``: zero where the target is reached."""
        if self.reads is not None:
            return self.reads(sums)
        if len(self.least) == 1:
            return np.maximum(self.least[0] - sums[:, 0], 0.0)
        by_sum = (np.maximum(least - sums[:, k], 0.0) for k, least in enumerate(self.least.tolist()))
        return np.asarray(sum(by_sum))  # many times faster than a sum along short rows

    def beyond(self, room: float) -> "ScoreConstraints":
        """Return the constraints tightened by ``room``, or relaxed if it is negative."""
        return replace(self, least=self.least + room)

    def rounding(self, trees: CellTrees) -> float:
        """Return by how much sums may differ from the model's own, which adds in a different order."""
        epsilon = max(trees.epsilon, _LEAST_ROUNDING / (MORE_TERMS + trees.n_trees))
        margin = sum_margin(trees.tree, trees.value, trees.base, epsilon, trees.n_trees, self.weights)
        return float(margin.max(initial=0.0))


def score_constraints(trees: CellTrees, target: Target, margin: float = 0.0) -> ScoreConstraints | None:
    """Return the constraints of a target, by ``margin`` of its output; None if weighted sums cannot express it."""
    structure, n_scores = trees.inside, len(trees.base)
    if isinstance(target, Class):
        classes = list(structure.classes or ())
        if target.label not in classes:
            return None
        wanted = classes.index(target.label)
        low, high = target.accepted()
        if target.probability == _OWN_DECISION and margin == 0:
            return _constrain_decision(structure.link, wanted, n_scores)
        if structure.link == "logistic":
            return _constrain_output(
                low + margin, min(high - margin, np.inf), "logistic", np.array([1.0 if wanted else -1.0])
            )
        if structure.link == "identity" and n_scores == len(classes):
            return _constrain_output(low + margin, high - margin, "identity", np.eye(n_scores)[wanted])
        return None
    if structure.classes is not None or n_scores != 1:
        return None
    try:
        low, high = target.accepted()
    except TypeError:
        return None
    return _constrain_output(low + margin, high - margin, structure.link, np.ones(1))


def _constrain_decision(link: str, wanted: int, n_scores: int) -> ScoreConstraints | None:
    """Return the constraints for the model's own decision for one class."""
    if link == "logistic":
        return ScoreConstraints(np.array([[1.0 if wanted else -1.0]]), np.zeros(1))
    unit = np.eye(n_scores)
    rows = np.array([unit[wanted] - unit[k] for k in range(n_scores) if k != wanted])
    return ScoreConstraints(rows, np.zeros(len(rows))) if len(rows) else None


def _constrain_output(low: float, high: float, link: str, score: Array) -> ScoreConstraints | None:
    """Return the constraints for an output of one score between two numbers."""
    rows, least = [], []
    for sign, end in ((1.0, low), (-1.0, high)):
        score_end = score_of(end, link, sign) if np.isfinite(end) else None
        if score_end is None:  # satisfied by every score
            continue
        rows.append(sign * score)
        least.append(sign * score_end)
    return ScoreConstraints(np.array(rows), np.array(least)) if rows and np.isfinite(least).all() else None


# --- reachable cells for a local search ------------------------------------------------------------------------------

Price = Callable[[int, Array], Array]  # prices of values of a feature, given by position


@dataclass(frozen=True, eq=False)
class ReachableCells:
    """Cells that the features of a row can move to, concatenated: ``m`` features, ``N`` slots.

    The last slot of every feature stands for a missing value.

    Parameters
    ----------
    space : Space
        The features.
    x0 : array of shape (d,)
        The row, encoded.
    moving : int array of shape (m,)
        Positions of the features that can move and that some tree splits on, including computed ones.
    paid : bool array of shape (m,)
        Which of them are not computed from others, and so have a price.
    starts : int array of shape (m + 1,)
        The first slot of each feature, and the number of all.
    feature : int array of shape (N,)
        Feature of each slot, as a position in ``moving``.
    value : array of shape (N,)
        Value of each slot.
    price : array of shape (N,)
        Price of that value; infinite if out of reach. Prices of several features add up.
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
        """Return the total price ``(...,)`` of slots ``(..., m)``."""
        price = self.price[slots]
        return np.asarray((price if self.all_paid else np.where(self.paid, price, 0.0)).sum(axis=-1))

    @cached_property
    def all_paid(self) -> bool:
        """Whether no feature is computed from others."""
        return bool(self.paid.all())

    def cheapest_moves(self) -> Array:
        """Return the lowest price of any move of each feature ``(m,)``."""
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
        """Return encoded rows ``(n, d)`` at slots ``(n, m)``, with computed features filled in."""
        x = np.repeat(self.x0[None, :], len(slots), axis=0)
        x[:, self.moving] = self.value[slots]
        return self.space.completed(x, self.x0)


def price_units(space: Space, x0: Array, power: int = 1) -> Price:
    """Return prices in units of each feature's scale, to a power; any change of a category is one unit of change."""

    def price(j: int, values: Array) -> Array:
        is_missing, was_missing = np.isnan(values), bool(np.isnan(x0[j]))
        unordered = bool(space.unordered[j])
        size = (values != x0[j]) / space.scale[j] if unordered else np.abs(values - x0[j]) / space.scale[j]
        size = np.where(is_missing != was_missing, 1.0 / space.scale[j] if unordered else 1.0, size)
        return np.asarray(np.where(is_missing & was_missing, 0.0, size) ** power)

    return price


def reachable_cells(
    trees: CellTrees, space: Space, x0: Array, price: Price, likely: Callable[[int], Array] | None = None
) -> ReachableCells | None:
    """Return the cells that the features of a row can move to; None if the row lies where cells are not known.

    Parameters
    ----------
    trees : CellTrees
        The ensemble.
    space : Space
        The features, with bounds, directions, steps and levels.
    x0 : array of shape (d,)
        The row, encoded.
    price : callable
        Takes the position of a feature and values and returns their prices; see :func:`price_units`.
    likely : callable, optional
        Takes the position of a feature and returns an alternative value per cell ``(n_cells + 1,)``, or NaN; it is used
        where it is cheaper than the value nearest to the row's.
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
            nearest = nearest_values(trees, space, x0, j, limits)
            can = ~np.isnan(nearest)
            can[-1] = space.may_become_missing[j]
            value[own] = nearest
            cost[own] = np.where(can, price(j, nearest), np.inf)
            if likely is not None:
                other = likely(j)
                other_price = np.where(np.isnan(other) | ~can, np.inf, price(j, other))
                value[own] = np.where(other_price < cost[own], other, value[own])
                cost[own] = np.minimum(cost[own], other_price)
        value[here[i]], cost[here[i]] = x0[j], 0.0
    feature = np.repeat(np.arange(len(moving)), np.diff(starts))
    paid = ~space.is_computed[moving] if len(moving) else np.zeros(0, dtype=bool)
    return ReachableCells(space, x0, moving, paid, starts, feature, value, cost, here, cells)


# --- reachable cells for proofs --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellPrices:
    """Cells of one feature that a row can reach, ascending, the missing one last: ``k`` of them.

    Parameters
    ----------
    feature : int
        Its position.
    cells : int array of shape (k,)
        Indices as in :class:`CellTrees`.
    values : array of shape (k,)
        Value in each cell that is nearest to the row's; NaN for the missing one.
    price : array of shape (k,)
        Lower bound on the price of each cell; zero for the row's own.
    changed : bool array of shape (k,)
        Whether that value counts as a change.
    own : int
        Position of the row's own cell.
    has_missing : bool
        Whether the last of several cells is the missing one.
    """

    feature: int
    cells: Array
    values: Array
    price: Array
    changed: Array
    own: int
    has_missing: bool


def price_cells(trees: CellTrees, space: Space, x0: Array, distance: str) -> list[CellPrices] | None:
    """Return the reachable cells of every feature with lower bounds on their prices; None if these are not known.

    ``distance`` is what prices add up to: changes in units of scales ("l1"), their squares ("l2"), or their number
    ("changes"). Constraints between columns are ignored and computed columns are free: both only enlarge the set of
    rows, so that a bound over it holds for all rows.
    """
    low, high = space.limits(x0)
    known = ~np.isnan(low)
    if (known & ((low < trees.low) | (high > trees.high)) & np.isin(np.arange(len(x0)), trees.used)).any():
        return None
    if (space.discrete & (x0 != np.round(x0)) & ~np.isnan(x0)).any():
        return None
    reachable = []
    own_cells = trees.cells(x0[None, :])[0]
    for j in range(len(space)):
        priced = (
            _price_computed(trees, own_cells, j)
            if space.is_computed[j]
            else _price_feature(trees, space, x0, j, distance)
        )
        if priced is None:
            return None
        reachable.append(priced)
    return reachable


def _price_computed(trees: CellTrees, own: Array, j: int) -> CellPrices | None:
    """Return all known cells of a computed feature at no price; None if the row's own is missing."""
    cells = np.arange(trees.n_cells[j])
    zero = np.zeros(len(cells))
    if own[j] == len(cells):
        return None
    return CellPrices(j, cells, np.full(len(cells), np.nan), zero, zero > 0, int(own[j]), False)


def _price_feature(trees: CellTrees, space: Space, x0: Array, j: int, distance: str) -> CellPrices | None:
    """Return the reachable cells of one feature with their prices; None if these are not known."""
    values = nearest_values(trees, space, x0, j)
    cells = np.flatnonzero(~np.isnan(values))
    has_missing = bool(np.isnan(x0[j]) or space.may_become_missing[j])
    if np.isnan(x0[j]) and len(cells) and distance == "l2":  # the price then depends on more than the cell
        return None
    if has_missing:
        cells = np.append(cells, len(values) - 1)
    rows = np.repeat(x0[None, :], len(cells), axis=0)
    rows[:, j] = values[cells]
    changed = space.changed(rows, x0)[:, j]
    if distance == "changes":
        price = changed.astype(float)
    elif distance == "l2":
        price = space.distance(rows, x0) ** 2
    else:
        price = (space.change(rows, x0) / space.scale)[:, j]
    price = np.where(changed, price, 0.0)  # a change within rounding is free
    own = np.flatnonzero(price == 0)
    mine = int(trees.cells(x0[None, :])[0, j])
    at = np.flatnonzero(cells == mine)
    if len(own) == 0 or len(at) == 0 or price[at[0]] != 0:
        return None
    return CellPrices(j, cells, values[cells], price, changed, int(at[0]), has_missing and len(cells) > 1)
