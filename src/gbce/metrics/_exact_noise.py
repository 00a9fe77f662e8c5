"""Exact success probability and expected output of a point under Gaussian noise, for tree ensembles.

Under noise the point falls into each cell of the trees with a probability that is a product over columns. Where the
output is a sum of leaves, its expectation is a sum over leaves, for any number of columns. The success probability is a
sum over all cells that noise reaches, where these are few.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gbce._numerics import WIDE_ROUNDING
from gbce.base import Array
from gbce.metrics._pointwise import NoiseDistribution
from gbce.posterior import GibbsPosterior
from gbce.targets import Class, Numeric
from gbce.trees import Axis, CellTrees, Grid, read_cell_outputs, same_output, why_unreadable

# Cells that are summed, without and with a deadline: a microsecond each, so that an answer takes at most 0.25 s longer.
_MOST_CELLS, _HASTY_CELLS = 250_000, 25_000
_LEFT_OUT = 1e-7  # total probability of cells in the tails that are left out
_EXACT = 1e-6  # width of a probability that counts as exact: far below what is printed
_COMPARED = 8  # most likely cells in which the model is called as a check; chosen by hand: it was checked when read
_MOST_UNSURE = 100  # cells at the limit of the target in which it is called; chosen by hand: a tenth of the trials


class Bounded(NamedTuple):
    """A number with certain lower and upper bounds."""

    value: float
    low: float
    high: float


class ExactNoise(NamedTuple):
    """Success probability and expected output under noise (None if unknown), and the cells summed."""

    success: Bounded | None
    output: Bounded | None
    cells: int


def sum_under_noise(posterior: GibbsPosterior, distribution: NoiseDistribution, trees: CellTrees) -> ExactNoise:
    """Return success probability and expected output of a point under noise, where they can be computed exactly.

    The first model is called in a few cells as a check, which may exceed the budget (``BudgetSpentError``).

    >>> import gbce
    >>> from gbce.metrics import noise_distribution
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> x = np.array([[0.0], [2.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [0.0, 1.0])
    >>> explainer = gbce.Explainer(model, x, space=gbce.Space.real(1))
    >>> found = explainer.explain(x[0], gbce.AtLeast(0.5), rules=[], seed=0)
    >>> posterior = explainer._session.own_posterior(found, gbce.budget.Budget())
    >>> distribution = noise_distribution(1.0, explainer.space, x[0], np.array([2.0]))
    >>> exact = sum_under_noise(posterior, distribution, posterior.read_trees())
    >>> round(exact.success.value, 4), round(exact.output.value, 4), exact.cells
    (0.8413, 0.8413, 2)
    """
    if why_unreadable(trees, posterior.predictors[0], posterior.target):
        return ExactNoise(None, None, 0)
    cells = _NoisyCells(trees, distribution)
    if not cells.unknown <= _EXACT:
        return ExactNoise(None, None, 0)
    output = _expect_score(cells, posterior)
    hasty = posterior.budget.deadline is not None
    if cells.count > (_HASTY_CELLS if hasty else _MOST_CELLS):
        return ExactNoise(None, output, 0)
    return _sum_over_cells(cells, posterior, output)


class _Window(NamedTuple):
    """First and last cell of a feature that noise reaches, and the probabilities ``(n_cells,)`` of all its cells."""

    first: int
    last: int
    masses: Array


@dataclass(frozen=True, eq=False)
class _NoisyCells:
    """The cells that a point may fall into under noise."""

    trees: CellTrees
    distribution: NoiseDistribution

    @property
    def unknown(self) -> float:
        """Upper bound on the probability of values whose cells are not known."""
        trees = self.trees
        if not trees.covers(self.distribution.base[None, :])[0]:
            return 1.0
        return sum(
            column.beyond(float(trees.low[column.feature]), float(trees.high[column.feature]))
            for column in self.distribution.columns
        )

    @cached_property
    def windows(self) -> tuple[_Window, ...]:
        """The cells of each column with probabilities that count."""
        tail = _LEFT_OUT / (2 * max(len(self.distribution.columns), 1))
        found = []
        for column in self.distribution.columns:
            upto = column.upto(self.trees.edges[column.feature])
            masses = np.diff(np.concatenate([[0.0], upto, [1.0]]))
            first = int(np.searchsorted(upto, tail, side="right"))
            last = int(np.searchsorted(upto, 1.0 - tail, side="left"))
            found.append(_Window(first, max(first, last), masses))
        return tuple(found)

    @cached_property
    def grid(self) -> Grid:
        """The ensemble restricted to leaves that meet these cells; all columns under noise are free."""
        trees, own = self.trees, self.trees.cells(self.distribution.base[None, :])[0]
        windows = dict(zip(self.features, self.windows, strict=True))
        ends = [windows[j][:2] if j in windows else (int(own[j]), int(own[j])) for j in trees.used.tolist()]
        some = trees.leaves_between(trees.used, *np.array(ends, dtype=int).reshape(-1, 2).T)
        for j, window in windows.items():
            own[j] = window.first
        met = replace(
            trees, first=trees.first[some], last=trees.last[some], missing=trees.missing[some],
            set_of=trees.set_of[some], tree=trees.tree[some], value=trees.value[some],
        )  # fmt: skip
        return Grid(met, own, np.array(self.features, dtype=int))

    @property
    def features(self) -> list[int]:
        """Positions of the columns that move."""
        return [column.feature for column in self.distribution.columns]

    @property
    def kept(self) -> float:
        """The total probability of these cells."""
        return float(np.prod([one.masses[one.first : one.last + 1].sum() for one in self.windows]))

    @property
    def left_out(self) -> float:
        """Upper bound on the probability of all others, plus rounding."""
        return max(1.0 - self.kept, 0.0) + self.unknown + WIDE_ROUNDING

    @cached_property
    def ends(self) -> tuple[Array, ...]:
        """Upper ends of the grid cells of each column, as positions among all its cells."""
        found = []
        for column, window in zip(self.distribution.columns, self.windows, strict=True):
            edges = self.trees.edges[column.feature]
            low, high = (edges[end] if end < len(edges) else np.inf for end in (window.first, window.last))
            cuts = np.searchsorted(edges, self.grid.cuts(column.feature, low, high))
            found.append(np.append(cuts, window.last))
        return tuple(found)

    @property
    def count(self) -> int:
        """The number of grid cells."""
        n = 1
        for ends in self.ends:  # in Python integers, which do not overflow
            n *= len(ends)
        return n

    def masses(self, axis: int) -> Array:
        """Return probabilities ``(n,)`` of the grid cells of one column."""
        window, ends = self.windows[axis], self.ends[axis]
        starts = np.concatenate([[window.first], ends[:-1] + 1])
        return np.add.reduceat(window.masses[: window.last + 1], starts)

    def medians(self, axis: int) -> Array:
        """Return the median ``(n,)`` of the normal within each grid cell of one column."""
        window = self.windows[axis]
        upto = np.concatenate([[0.0], np.cumsum(window.masses)])
        ends = self.ends[axis] + 1
        starts = np.concatenate([[window.first], ends[:-1]])
        return self.distribution.columns[axis].quantile((upto[starts] + upto[ends]) / 2.0)

    def lay_out(self) -> tuple[Grid, list[Axis], list[int]]:
        """Return the grid of columns with more than one cell, its axes, and which columns these are."""
        several = [i for i, ends in enumerate(self.ends) if len(ends) > 1] or [0][: len(self.ends)]
        grid, features = self.grid, self.features
        if not several:  # nothing moves: use any column
            return replace(grid, free=np.array([0])), [Axis(0, self.distribution.base[:1])], []
        axes = []
        for i in several:
            edges = self.trees.edges[features[i]]
            axes.append(Axis(features[i], np.append(edges, np.inf)[self.ends[i]]))
        return replace(grid, free=np.array([features[i] for i in several])), axes, several


def _sum_over_cells(cells: _NoisyCells, posterior: GibbsPosterior, output: Bounded | None) -> ExactNoise:
    """Sum over all grid cells, calling the model where the verdict is unsure."""
    grid, axes, which = cells.lay_out()
    masses = np.ones(1)
    for i in which:
        masses = np.multiply.outer(masses, cells.masses(i)).ravel()
    masses = masses / masses.sum()
    parts = read_cell_outputs(grid, axes, posterior.predictors[0], posterior.target)
    outputs, _, reached, unsure = (np.concatenate(values) for values in zip(*parts, strict=True))
    likely = np.argsort(-masses, kind="stable")
    doubtful, sure = likely[unsure[likely]], likely[~unsure[likely]][:_COMPARED]
    wide = cells.left_out + float(masses[doubtful[_MOST_UNSURE:]].sum())
    if wide > _EXACT:
        return ExactNoise(None, output, 0)
    doubtful = doubtful[:_MOST_UNSURE]
    evaluated_at = np.concatenate([sure, doubtful])
    points, there = _place_points(cells, which, evaluated_at)
    evaluated = posterior.evaluate_first(points)
    own, shown = evaluated.reached[:, 0], evaluated.outputs[:, 0]
    right = there.all() and np.array_equal(own[: len(sure)], reached[sure])
    if isinstance(posterior.target, (Class, Numeric)):
        right = right and (np.abs(outputs[evaluated_at] - shown) <= same_output(cells.trees.inside, shown)).all()
    if not right:
        return ExactNoise(None, None, 0)
    reached[doubtful] = own[len(sure) :]
    share = 1.0 if reached.all() else min(float(masses[reached].sum()), 1.0)
    if output is None:
        output = _expect_output(cells, posterior, float(masses @ outputs))
    return ExactNoise(Bounded(share, max(share - wide, 0.0), min(share + wide, 1.0)), output, len(masses))


def _place_points(cells: _NoisyCells, which: list[int], evaluated_at: Array) -> tuple[Array, Array]:
    """Return a row in each of some grid cells ``(n, d)``, and whether it indeed lies there ``(n,)``."""
    distribution, trees = cells.distribution, cells.trees
    places = np.unravel_index(evaluated_at, [len(cells.ends[i]) for i in which]) if which else ()
    at = np.zeros((len(evaluated_at), len(distribution.columns)), dtype=int)
    for i, place in zip(which, places, strict=True):
        at[:, i] = place
    medians = [cells.medians(i)[at[:, i]] for i in range(len(distribution.columns))]
    values = np.stack(medians, axis=1) if medians else np.zeros((len(evaluated_at), 0))
    points = distribution.points(values)
    found, there = trees.cells(points), np.ones(len(evaluated_at), dtype=bool)
    for i, column in enumerate(distribution.columns):
        there &= np.searchsorted(cells.ends[i], found[:, column.feature], side="left") == at[:, i]
    return points, there


def _expect_score(cells: _NoisyCells, posterior: GibbsPosterior) -> Bounded | None:
    """Return the expected output by a sum over leaves, if outputs are sums of leaves."""
    trees, target = cells.grid.trees, posterior.target
    classes = trees.inside.classes
    if trees.inside.link != "identity":
        return None
    if isinstance(target, Class) and classes is not None and target.label in classes:
        score = classes.index(target.label)
    elif isinstance(target, Numeric) and classes is None and len(trees.base) == 1:
        score = 0
    else:
        return None
    held = np.full(len(trees.tree), 1.0 / cells.kept)
    for j, window in zip(cells.features, cells.windows, strict=True):
        held *= _compute_leaf_probability(trees, j, window)
    if np.abs(np.bincount(trees.tree, held, trees.n_trees) - 1.0).max(initial=0.0) > WIDE_ROUNDING:
        return None
    value = float(trees.base[score] + held @ trees.value[:, score])
    return _widen(value, float(np.ptp(cells.trees.score_ends[score])), cells)


def _expect_output(cells: _NoisyCells, posterior: GibbsPosterior, value: float) -> Bounded | None:
    """Return an expected output that was summed over cells, with its error bounds."""
    inside, span = cells.trees.inside, 1.0
    if not isinstance(posterior.target, (Class, Numeric)):
        return None
    if inside.link not in ("logistic", "softmax"):  # their outputs lie between zero and one
        span = float(np.ptp(inside.link_scores(np.array(cells.trees.score_ends[0])[:, None])))
    return _widen(value, span, cells)


def _widen(value: float, span: float, cells: _NoisyCells) -> Bounded | None:
    """Return an expected output with its error bounds, for outputs of range ``span``; None if unbounded."""
    room = cells.left_out * span + same_output(cells.trees.inside, np.array([value]))
    return Bounded(value, value - room, value + room) if np.isfinite(room) else None


def _compute_leaf_probability(trees: CellTrees, j: int, window: _Window) -> Array:
    """Return the probability, within a window, that feature ``j`` falls into each leaf ``(L,)``."""
    masses = np.zeros(len(window.masses))
    masses[window.first : window.last + 1] = window.masses[window.first : window.last + 1]
    listed = np.flatnonzero(trees.set_features == j)
    if len(listed):
        return np.asarray((trees.allowed[listed[0]][:, :-1] @ masses)[trees.set_of[:, listed[0]]])
    upto = np.concatenate([[0.0], np.cumsum(masses)])
    first, last = trees.first[:, j].astype(int), trees.last[:, j].astype(int)
    return np.asarray(upto[last + 1] - upto[first])
