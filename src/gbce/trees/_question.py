"""A target as conditions on the scores of a tree ensemble that say exactly where it is reached, but for rounding."""

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

# --- a target as conditions on the scores of a tree ensemble that say exactly where it is reached, but ---------------

_OWN_DECISION = 0.5  # of a Class: the model's own decision counts
_LEAST_ROUNDING = 1e-12  # of the size of the scores: running sums over thousands of cells round more than the model's


@dataclass(frozen=True, eq=False)
class ScoreConstraints:
    """What is wanted of scores: ``q`` weighted sums of them, each at least some number, or anything else.

    Parameters
    ----------
    weights : array of shape (q, K)
        Of the scores in each sum.
    least : array of shape (q,)
        What each sum must come to; it is not looked at where ``reads`` is given.
    reads : callable, optional
        Takes sums ``(n, q)``, returns what is missing ``(n,)``, zero where the target is reached.
    """

    weights: Array
    least: Array
    reads: Callable[[Array], Array] | None = None

    def shortfall(self, sums: Array) -> Array:
        """Return what is missing ``(n,)`` where the sums are ``(n, q)``: zero where the target is reached."""
        if self.reads is not None:
            return self.reads(sums)
        if len(self.least) == 1:
            return np.maximum(self.least[0] - sums[:, 0], 0.0)
        by_sum = (np.maximum(least - sums[:, k], 0.0) for k, least in enumerate(self.least.tolist()))
        return np.asarray(sum(by_sum))  # many times quicker than along short rows

    def beyond(self, room: float) -> "ScoreConstraints":
        """Return the wish for ``room`` more, or less if it is negative."""
        return replace(self, least=self.least + room)

    def rounding(self, trees: CellTrees) -> float:
        """Return by how much sums may differ from the model's own, whose terms are added in another order."""
        epsilon = max(trees.epsilon, _LEAST_ROUNDING / (MORE_TERMS + trees.n_trees))
        margin = sum_margin(trees.tree, trees.value, trees.base, epsilon, trees.n_trees, self.weights)
        return float(margin.max(initial=0.0))


def score_constraints(trees: CellTrees, target: Target, margin: float = 0.0) -> ScoreConstraints | None:
    """Return what a target wants of scores; None where weighted sums cannot say it.

    Parameters
    ----------
    trees : CellTrees
        With link and classes of the model.
    target : Target
        With its numbers filled in.
    margin : float
        How far beyond the boundary, in units of the output.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from gbce import Space
    >>> from gbce.predictors import read_structure
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = DecisionTreeClassifier(random_state=0).fit(x, ["no", "no", "yes", "no"])
    >>> trees = read_cells(read_structure(model, Space.real(1)), Space.real(1), x)
    >>> score_constraints(trees, Class("yes")).weights
    array([[-1.,  1.]])
    """
    inside, n_scores = trees.inside, len(trees.base)
    if isinstance(target, Class):
        classes = list(inside.classes or ())
        if target.label not in classes:
            return None
        wanted = classes.index(target.label)
        low, high = target.accepted()
        if target.probability == _OWN_DECISION and margin == 0:
            return _for_decision(inside.link, wanted, n_scores)
        if inside.link == "logistic":
            return _between(low + margin, min(high - margin, np.inf), "logistic", np.array([1.0 if wanted else -1.0]))
        if inside.link == "identity" and n_scores == len(classes):
            return _between(low + margin, high - margin, "identity", np.eye(n_scores)[wanted])
        return None
    if inside.classes is not None or n_scores != 1:
        return None
    try:
        low, high = target.accepted()
    except TypeError:
        return None
    return _between(low + margin, high - margin, inside.link, np.ones(1))


def _for_decision(link: str, wanted: int, n_scores: int) -> ScoreConstraints | None:
    if link == "logistic":
        return ScoreConstraints(np.array([[1.0 if wanted else -1.0]]), np.zeros(1))
    unit = np.eye(n_scores)
    rows = np.array([unit[wanted] - unit[k] for k in range(n_scores) if k != wanted])
    return ScoreConstraints(rows, np.zeros(len(rows))) if len(rows) else None


def _between(low: float, high: float, link: str, score: Array) -> ScoreConstraints | None:
    """Return the wish for an output of one score that lies between two numbers."""
    rows, least = [], []
    for sign, end in ((1.0, low), (-1.0, high)):
        place = score_of(end, link, sign) if np.isfinite(end) else None
        if place is None:  # every score is on its right side
            continue
        rows.append(sign * score)
        least.append(sign * place)
    return ScoreConstraints(np.array(rows), np.array(least)) if rows and np.isfinite(least).all() else None


# --- what the cells of a tree ensemble offer around one row ----------------------------------------------------------

Price = Callable[[int, Array], Array]  # of a feature, by position, and values it may take instead of the row's


@dataclass(frozen=True, eq=False)
class ReachableCells:
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


def reachable_cells(
    trees: CellTrees, space: Space, x0: Array, price: Price, likely: Callable[[int], Array] | None = None
) -> ReachableCells | None:
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
    >>> from gbce.predictors import read_structure
    >>> from gbce.trees import read_cells
    >>> x, space = np.array([[0.0], [1.0], [2.0], [3.0]]), Space.real(1)
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 3.0, 4.0, 9.0])
    >>> trees = read_cells(read_structure(model, space), space, x)
    >>> reachable_cells(trees, space, np.array([1.0]), price_units(space, np.array([1.0]))).price.round(6)
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
    return ReachableCells(space, x0, moving, paid, starts, feature, value, cost, here, cells)


# --- what a row can become, cell by cell, and what each cell costs at least ------------------------------------------


@dataclass(frozen=True, eq=False)
class CellPrices:
    """The cells of one feature that a row can get to: ``k`` of them, in rising order, the missing one last.

    Parameters
    ----------
    feature : int
        Its position.
    cells : int array of shape (k,)
        As :class:`gbce.trees.CellTrees` counts them.
    values : array of shape (k,)
        What of each cell is nearest to the row; NaN for the missing one.
    price : array of shape (k,)
        Of that value, or less. Zero for the row's own cell.
    changed : bool array of shape (k,)
        Whether that value counts as a change.
    own : int
        Position of the row's own cell among them.
    gap : bool
        Whether the last of them is the missing cell, and not the only one.
    """

    feature: int
    cells: Array
    values: Array
    price: Array
    changed: Array
    own: int
    has_missing: bool


def price_cells(trees: CellTrees, space: Space, x0: Array, distance: str) -> list[CellPrices] | None:
    """Return what every feature offers; None where that, or its price, is not known.

    Parameters
    ----------
    trees : CellTrees
        With the cells.
    space : Space
        With limits, steps and units.
    x0 : array of shape (d,)
        The row, encoded.
    distance : {"l1", "l2", "changes"}
        What is added up over features: changes in units of scales, their squares, or how many there are.

    Notes
    -----
    Rules between columns are left out, and what is computed from others may be anything at no price: both only make
    more rows possible than there are, so that a bound for these holds for all rows.
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
        priced = _free(trees, own_cells, j) if space.is_computed[j] else _priced(trees, space, x0, j, distance)
        if priced is None:
            return None
        reachable.append(priced)
    return reachable


def _free(trees: CellTrees, own: Array, j: int) -> CellPrices | None:
    """Return any known cell at no price; None where the row's own is missing."""
    cells = np.arange(trees.n_cells[j])
    zero = np.zeros(len(cells))
    if own[j] == len(cells):
        return None
    return CellPrices(j, cells, np.full(len(cells), np.nan), zero, zero > 0, int(own[j]), False)


def _priced(trees: CellTrees, space: Space, x0: Array, j: int, distance: str) -> CellPrices | None:
    values = nearest_values(trees, space, x0, j)
    cells = np.flatnonzero(~np.isnan(values))
    has_missing = bool(np.isnan(x0[j]) or space.may_become_missing[j])
    if np.isnan(x0[j]) and len(cells) and distance == "l2":  # the price then hangs on more than the cell
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
    price = np.where(changed, price, 0.0)  # what is no change but for rounding costs nothing
    own = np.flatnonzero(price == 0)
    mine = int(trees.cells(x0[None, :])[0, j])
    at = np.flatnonzero(cells == mine)
    if len(own) == 0 or len(at) == 0 or price[at[0]] != 0:
        return None
    return CellPrices(j, cells, values[cells], price, changed, int(at[0]), has_missing and len(cells) > 1)
