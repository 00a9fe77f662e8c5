"""What becomes of a point under Gaussian execution noise if the model is a tree ensemble: sums instead of trials.

Noise takes the point to each cell of the trees with a probability that is a product over columns. The expected output
of sums that are outputs is a sum over leaves, however many columns there are. Whether the target is reached is looked
up in every cell that noise gets to, where these are few.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.metrics._noise import NoiseDistribution
from gbce.posterior import GibbsPosterior
from gbce.targets import Class, Numeric
from gbce.trees import Axis, CellTrees, Grid, read_cell_outputs, same_output, why_unreadable

__all__ = ["Between", "UnderNoise", "sum_under_noise"]

# Cells that are summed, and under a deadline: a microsecond each, so that an answer takes at most 0.25 s longer.
_MOST_CELLS, _HASTY_CELLS = 250_000, 25_000
_LEFT_OUT = 1e-7  # probability of cells that are left out in all, far out in the tails
_EXACT = 1e-6  # how far apart the ends of an exact probability may be: far less than anybody prints
_COMPARED = 8  # likeliest cells that the model itself is asked about, to be believed; by hand: it was read and checked
_ASKED = 100  # cells at the very limit of the target that it is asked about at most; by hand: a tenth of the trials
_WHOLE = 1e-9  # by how much rounding may change sums of probabilities, such as those of a tree's leaves


class Between(NamedTuple):
    """A number, and two between which it certainly lies."""

    value: float
    low: float
    high: float


class UnderNoise(NamedTuple):
    """What a point comes to under noise, where that is known without trials.

    Parameters
    ----------
    success : Between or None
        The probability of reaching the target.
    output : Between or None
        The expected output, as the target shows it.
    cells : int
        How many cells were summed for the first; 0 if none were.
    """

    success: Between | None
    output: Between | None
    cells: int


def sum_under_noise(posterior: GibbsPosterior, distribution: NoiseDistribution, trees: CellTrees) -> UnderNoise:
    """Return success probability and expected output of a point under noise, each where it can be had exactly.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose first model is asked about a few of the cells: these must say the same.
    law : NoiseDistribution
        Of the point.
    trees : CellTrees
        The first model, read and checked.

    Raises
    ------
    BudgetSpentError
        Where the budget does not allow to ask about these.

    Examples
    --------
    >>> import gbce
    >>> from gbce.metrics import noise_distribution
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> x = np.array([[0.0], [2.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [0.0, 1.0])
    >>> explainer = gbce.Explainer(model, x, space=gbce.Space.real(1))
    >>> found = explainer.explain(x[0], gbce.AtLeast(0.5), rules=[], seed=0)
    >>> posterior = explainer.own_posterior(found, gbce.budget.Budget())
    >>> law = noise_distribution(1.0, explainer.space, x[0], np.array([2.0]))
    >>> exact = sum_under_noise(posterior, law, posterior.read_trees())
    >>> round(exact.success.value, 4), round(exact.output.value, 4), exact.cells
    (0.8413, 0.8413, 2)
    """
    if why_unreadable(trees, posterior.predictors[0], posterior.target):
        return UnderNoise(None, None, 0)
    cells = _NoisyCells(trees, distribution)
    if not cells.unknown <= _EXACT:
        return UnderNoise(None, None, 0)
    output = _expect_score(cells, posterior)
    hasty = posterior.budget.deadline is not None
    if cells.count > (_HASTY_CELLS if hasty else _MOST_CELLS):
        return UnderNoise(None, output, 0)
    return _look_up(cells, posterior, output)


class _Window(NamedTuple):
    """Cells of one feature that noise gets to.

    ``first`` and ``last`` of them, and the probabilities ``(n_cells,)`` of all cells of the feature.
    """

    first: int
    last: int
    masses: Array


@dataclass(frozen=True, eq=False)
class _NoisyCells:
    """The cells that noise takes a point to."""

    trees: CellTrees
    distribution: NoiseDistribution

    @property
    def unknown(self) -> float:
        """At most the probability of values whose cells are not known."""
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
        """The ensemble with those leaves only that these cells meet; all columns of the law move."""
        trees, own = self.trees, self.trees.cells(self.distribution.base[None, :])[0]
        windows = dict(zip(self.features, self.windows, strict=True))
        some = np.arange(len(trees.tree))
        for j in sorted(trees.used.tolist(), key=windows.__contains__):  # what stays as it is leaves few
            first, last = windows[j][:2] if j in windows else (int(own[j]), int(own[j]))
            some = some[_meets(trees, j, first, last, some)]
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
        """The probability of all these cells."""
        return float(np.prod([one.masses[one.first : one.last + 1].sum() for one in self.windows]))

    @property
    def left_out(self) -> float:
        """At most the probability of all others, and what rounding may do to sums."""
        return max(1.0 - self.kept, 0.0) + self.unknown + _WHOLE

    @cached_property
    def ends(self) -> tuple[Array, ...]:
        """Of each column the upper ends of its cells on the grid, by their positions among all cells."""
        found = []
        for column, window in zip(self.distribution.columns, self.windows, strict=True):
            edges = self.trees.edges[column.feature]
            low, high = (edges[end] if end < len(edges) else np.inf for end in (window.first, window.last))
            cuts = np.searchsorted(edges, self.grid.cuts(column.feature, low, high))
            found.append(np.append(cuts, window.last))
        return tuple(found)

    @property
    def count(self) -> int:
        """How many cells the grid has."""
        n = 1
        for ends in self.ends:  # in whole numbers of any size
            n *= len(ends)
        return n

    def masses(self, axis: int) -> Array:
        """Return probabilities ``(n,)`` of the cells of one column on the grid."""
        window, ends = self.windows[axis], self.ends[axis]
        starts = np.concatenate([[window.first], ends[:-1] + 1])
        return np.add.reduceat(window.masses[: window.last + 1], starts)

    def medians(self, axis: int) -> Array:
        """Return for each cell of one column on the grid the normal number ``(n,)`` that halves its probability."""
        window = self.windows[axis]
        upto = np.concatenate([[0.0], np.cumsum(window.masses)])
        ends = self.ends[axis] + 1
        starts = np.concatenate([[window.first], ends[:-1]])
        return self.distribution.columns[axis].quantile((upto[starts] + upto[ends]) / 2.0)

    def lay_out(self) -> tuple[Grid, list[Axis], list[int]]:
        """Return the grid of columns with more than one cell, its axes, and which columns these are."""
        several = [i for i, ends in enumerate(self.ends) if len(ends) > 1] or [0][: len(self.ends)]
        grid, features = self.grid, self.features
        if not several:  # nothing moves: any column, as it is
            return replace(grid, free=np.array([0])), [Axis(0, self.distribution.base[:1])], []
        axes = []
        for i in several:
            edges = self.trees.edges[features[i]]
            axes.append(Axis(features[i], np.append(edges, np.inf)[self.ends[i]]))
        return replace(grid, free=np.array([features[i] for i in several])), axes, several


def _look_up(cells: _NoisyCells, posterior: GibbsPosterior, output: Between | None) -> UnderNoise:
    """Sum over all cells of the grid, those aside that are asked about."""
    grid, axes, which = cells.lay_out()
    masses = np.ones(1)
    for i in which:
        masses = np.multiply.outer(masses, cells.masses(i)).ravel()
    masses = masses / masses.sum()
    parts = read_cell_outputs(grid, axes, posterior.predictors[0], posterior.target)
    outputs, _, reached, unsure = (np.concatenate(values) for values in zip(*parts, strict=True))
    likely = np.argsort(-masses, kind="stable")
    doubtful, sure = likely[unsure[likely]], likely[~unsure[likely]][:_COMPARED]
    wide = cells.left_out + float(masses[doubtful[_ASKED:]].sum())
    if wide > _EXACT:
        return UnderNoise(None, output, 0)
    doubtful = doubtful[:_ASKED]
    asked = np.concatenate([sure, doubtful])
    points, there = _points_in(cells, which, asked)
    said = posterior.evaluate_first(points)
    own, shown = said.reached[:, 0], said.outputs[:, 0]
    right = there.all() and np.array_equal(own[: len(sure)], reached[sure])
    if isinstance(posterior.target, (Class, Numeric)):
        right = right and (np.abs(outputs[asked] - shown) <= same_output(cells.trees.inside, shown)).all()
    if not right:
        return UnderNoise(None, None, 0)
    reached[doubtful] = own[len(sure) :]
    share = 1.0 if reached.all() else min(float(masses[reached].sum()), 1.0)
    if output is None:
        output = _expect_output(cells, posterior, float(masses @ outputs))
    return UnderNoise(Between(share, max(share - wide, 0.0), min(share + wide, 1.0)), output, len(masses))


def _points_in(cells: _NoisyCells, which: list[int], asked: Array) -> tuple[Array, Array]:
    """Return a row in each of some cells of the grid ``(n, d)``, and whether it lies there indeed ``(n,)``."""
    distribution, trees = cells.distribution, cells.trees
    places = np.unravel_index(asked, [len(cells.ends[i]) for i in which]) if which else ()
    at = np.zeros((len(asked), len(distribution.columns)), dtype=int)
    for i, place in zip(which, places, strict=True):
        at[:, i] = place
    medians = [cells.medians(i)[at[:, i]] for i in range(len(distribution.columns))]
    values = np.stack(medians, axis=1) if medians else np.zeros((len(asked), 0))
    points = distribution.points(values)
    found, there = trees.cells(points), np.ones(len(asked), dtype=bool)
    for i, column in enumerate(distribution.columns):
        there &= np.searchsorted(cells.ends[i], found[:, column.feature], side="left") == at[:, i]
    return points, there


def _expect_score(cells: _NoisyCells, posterior: GibbsPosterior) -> Between | None:
    """Return the expected output where outputs are sums of leaves, by a sum over leaves; else None."""
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
        held *= _probability(trees, j, window)
    if np.abs(np.bincount(trees.tree, held, trees.n_trees) - 1.0).max(initial=0.0) > _WHOLE:
        return None
    value = float(trees.base[score] + held @ trees.value[:, score])
    return _widen(value, float(np.ptp(_score_range(cells.trees, score))), cells)


def _expect_output(cells: _NoisyCells, posterior: GibbsPosterior, value: float) -> Between | None:
    """Return an expected output that was summed over cells, with the most that it can be off."""
    inside, span = cells.trees.inside, 1.0
    if not isinstance(posterior.target, (Class, Numeric)):
        return None
    if inside.link not in ("logistic", "softmax"):  # which are between zero and one
        span = float(np.ptp(inside.link_scores(np.array(_score_range(cells.trees, 0))[:, None])))
    return _widen(value, span, cells)


def _widen(value: float, span: float, cells: _NoisyCells) -> Between | None:
    """Return an expected output, of outputs that span so much, with the most that it can be off; None if any number."""
    room = cells.left_out * span + same_output(cells.trees.inside, np.array([value]))
    return Between(value, value - room, value + room) if np.isfinite(room) else None


def _score_range(trees: CellTrees, score: int) -> tuple[float, float]:
    """Return two numbers between which all sums of leaves lie."""
    least, most = np.full(trees.n_trees, np.inf), np.full(trees.n_trees, -np.inf)
    np.minimum.at(least, trees.tree, trees.value[:, score])
    np.maximum.at(most, trees.tree, trees.value[:, score])
    return float(trees.base[score] + least.sum()), float(trees.base[score] + most.sum())


def _meets(trees: CellTrees, j: int, first: int, last: int, some: Array) -> Array:
    """Whether leaves ``some`` ``(m,)`` hold any cell of feature ``j`` between two; the one after all is the missing."""
    listed = np.flatnonzero(trees.set_features == j)
    if len(listed):
        return np.asarray(trees.allowed[listed[0]][:, first : last + 1].any(axis=1)[trees.set_of[some, listed[0]]])
    if first > len(trees.edges[j]):
        return trees.missing[some, j]
    begin, end = trees.first[some, j], trees.last[some, j]
    return np.asarray((begin <= last) & (end >= first) & (begin <= end))  # some hold the missing cell only


def _probability(trees: CellTrees, j: int, window: _Window) -> Array:
    """Return with what probability, within a window, each leaf ``(L,)`` holds feature ``j``."""
    masses = np.zeros(len(window.masses))
    masses[window.first : window.last + 1] = window.masses[window.first : window.last + 1]
    listed = np.flatnonzero(trees.set_features == j)
    if len(listed):
        return np.asarray((trees.allowed[listed[0]][:, :-1] @ masses)[trees.set_of[:, listed[0]]])
    upto = np.concatenate([[0.0], np.cumsum(masses)])
    first, last = trees.first[:, j].astype(int), trees.last[:, j].astype(int)
    return np.asarray(upto[last + 1] - upto[first])
