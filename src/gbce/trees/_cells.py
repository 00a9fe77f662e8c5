"""What a model makes of the sums of its trees, in the form in which it says it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gbce.base import Array, Outputs, Target
from gbce.predictors import Predictor
from gbce.space import Space
from gbce.trees._structure import ModelStructure

__all__ = ["CellTrees", "Nodes", "nearest_values", "outputs_of", "why_unreadable"]

# --- leaves as boxes of cells, and nodes that ask about cells --------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, for going down: a cell of at most the cut goes left, or one of a set.

    Parameters
    ----------
    feature : int array of shape (N,)
        That each node asks about; -1 for a leaf.
    cut : int array of shape (N,)
        Last cell that goes left, of features whose cells have an order.
    group : int array of shape (N,)
        Of other features, which row of ``sets`` says what goes left; -1 for those with an order.
    missing_left : bool array of shape (N,)
        Whether the missing cell goes left.
    left, right : int arrays of shape (N,)
        The nodes that follow.
    value : array of shape (N, K)
        What a leaf adds to the sum of each score.
    divisor : float
        Of the sums.
    roots : int array of shape (T,)
        Where each tree begins.
    sets : bool array of shape (S, m)
        Which cells go left, the missing one included.
    """

    feature: Array
    cut: Array
    group: Array
    missing_left: Array
    left: Array
    right: Array
    value: Array
    divisor: float
    roots: Array
    sets: Array

    @cached_property
    def children(self) -> Array:
        """The nodes that follow each node on the right and on the left ``(2N,)``, which are looked up at once."""
        return np.column_stack([self.right, self.left]).ravel()


@dataclass(frozen=True, eq=False)
class CellTrees:
    """A tree ensemble on cells of encoded features: ``d`` features, ``L`` leaves, ``K`` scores.

    Parameters
    ----------
    inside : Inside
        What was read of the model.
    edges : tuple of d arrays
        Largest value of every cell but the last: a value lies in the first cell whose edge is not below it.
    low, high : arrays of shape (d,)
        Within these the cells are known; infinite where they are known everywhere.
    first, last : int arrays of shape (L, d)
        A leaf holds these cells and those between them; none where first is above last.
    missing : bool array of shape (L, d)
        Whether a leaf holds the missing cell.
    set_features : int array of shape (s,)
        Features whose cells have no order in some leaf; a leaf holds a set of their cells.
    set_of : int array of shape (L, s)
        Which row of ``allowed`` is a leaf's set.
    allowed : tuple of s bool arrays of shape (n_sets, n_cells + 1)
        Cells in each set, the missing one last.
    tree : int array of shape (L,)
        Of each leaf, rising.
    value : array of shape (L, K)
        What a leaf adds to each score.
    base : array of shape (K,)
        What leaves are added to.
    epsilon : float
        Relative rounding error of the model's own sums.
    nodes : Nodes
        The same trees, for going down.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce import Space
    >>> from gbce.trees import read_structure
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 5.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 1.0, 4.0, 9.0])
    >>> trees = read_cells(read_structure(model, Space.real(2)), Space.real(2), x)
    >>> trees.cells(x).tolist(), trees.scores(trees.cells(x))[:, 0].tolist()
    ([[0, 0], [0, 0], [1, 0], [1, 1]], [1.0, 1.0, 4.0, 9.0])
    """

    inside: ModelStructure
    edges: tuple[Array, ...]
    low: Array
    high: Array
    first: Array
    last: Array
    missing: Array
    set_features: Array
    set_of: Array
    allowed: tuple[Array, ...]
    tree: Array
    value: Array
    base: Array
    epsilon: float
    nodes: Nodes

    @cached_property
    def n_cells(self) -> Array:
        """Number of cells of each feature ``(d,)``, without the missing one, whose index this is."""
        return np.array([len(edges) + 1 for edges in self.edges])

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.nodes.roots)

    @cached_property
    def used(self) -> Array:
        """Positions of the features that some tree asks about."""
        asked = self.nodes.feature
        return np.unique(asked[asked >= 0])

    @cached_property
    def all_hold_values(self) -> Array:
        """Whether every leaf holds some cell of a feature other than the missing one ``(d,)``."""
        return np.asarray((self.first <= self.last).all(axis=0))

    @cached_property
    def spans(self) -> tuple[tuple[Array, Array], ...]:
        """The lowest and the highest number in each cell ``(n_cells,)``, for every feature."""
        with np.errstate(over="ignore"):
            return tuple(
                (np.concatenate([[-np.inf], np.nextafter(edges, np.inf)]), np.concatenate([edges, [np.inf]]))
                for edges in self.edges
            )

    def cells(self, x: Array) -> Array:
        """Return the cells ``(n, d)`` of encoded rows ``(n, d)``; the number of cells where a value is missing."""
        found = np.zeros(x.shape, dtype=int)
        for j in self._split:
            found[:, j] = np.searchsorted(self.edges[j], x[:, j], side="left")
        gone = np.isnan(x)
        return np.where(gone, self.n_cells, found) if gone.any() else found

    @cached_property
    def _split(self) -> list[int]:
        """Features with more than one cell."""
        return [j for j, edges in enumerate(self.edges) if len(edges)]

    def covers(self, x: Array) -> Array:
        """Return for each encoded row ``(n, d)`` whether its cells are known ``(n,)``."""
        with np.errstate(invalid="ignore"):
            return np.asarray(~((x < self.low) | (x > self.high)).any(axis=1))

    def scores(self, cells: Array) -> Array:
        """Return scores ``(n, K)`` of cells ``(n, d)``."""
        nodes, n_cells, (n, d) = self.nodes, self.n_cells, cells.shape
        leaf = np.tile(nodes.roots, n)  # of every row in every tree, the trees of a row beside each other
        row_at = np.repeat(np.arange(n) * d, len(nodes.roots))
        flat = cells.ravel()
        some_missing = bool((cells == n_cells).any())
        going, node = np.arange(len(leaf)), leaf  # those that are not known to be at a leaf, and where they are
        while len(going):
            asked = nodes.feature[node]
            inner = (asked >= 0).nonzero()[0]
            if len(inner) < len(going):
                leaf[going] = node
                going, node, asked = going[inner], node[inner], asked[inner]
            seen = flat[row_at[going] + asked]
            goes_left = seen <= nodes.cut[node]
            if some_missing:
                goes_left = np.where(seen == n_cells[asked], nodes.missing_left[node], goes_left)
            if len(nodes.sets):
                group = nodes.group[node]
                listed = np.flatnonzero(group >= 0)
                goes_left[listed] = nodes.sets[group[listed], seen[listed]]
            node = nodes.children[2 * node + goes_left]
        return np.asarray(self.base + nodes.value[leaf.reshape(n, len(nodes.roots))].sum(axis=1) / nodes.divisor)

    def outputs(self, cells: Array) -> Array:
        """Return the model's outputs, ``(n,)`` or one column per class, of cells ``(n, d)``."""
        return self.inside.link_scores(self.scores(cells))

    def holds(self, j: int, cell: int) -> Array:
        """Return which leaves ``(L,)`` hold a cell of feature ``j``."""
        own = np.flatnonzero(self.set_features == j)
        if len(own):
            return np.asarray(self.allowed[own[0]][self.set_of[:, own[0]], cell])
        if cell == len(self.edges[j]) + 1:
            return self.missing[:, j]
        return np.asarray((self.first[:, j] <= cell) & (cell <= self.last[:, j]))


# --- what a model makes of the sums of its trees, in the form in which it says it ------------------------------------

_LINKS = ("identity", "exp", "logistic", "softmax")  # what makes outputs of scores
_SINGLE = 1e-10  # relative rounding error of a model's sums above which it computes in single precision


def why_unreadable(trees: CellTrees, predictor: Predictor, target: Target) -> str:
    """Say why sums of leaves do not tell what a target reads of a model; empty where they do."""
    if trees.inside.link not in _LINKS:
        return f"what {predictor.name} makes of its trees' sums is not known"
    if target.reads_classes and (predictor.decide_always or predictor.classes != trees.inside.classes):
        return f"{predictor.name} decides by more than its trees' probabilities"
    return ""


def outputs_of(trees: CellTrees, predictor: Predictor, scores: Array) -> Outputs:
    """Return what a model makes of scores ``(n, K)``, in the form and precision in which it says it."""
    values = trees.inside.link_scores(scores)
    if trees.inside.link == "logistic" and trees.epsilon > _SINGLE:
        positive = values[:, 1].astype(np.float32).astype(float)
        values = np.column_stack([1.0 - positive, positive])
    if predictor.classes is None and values.ndim == 2 and values.shape[1] == 2:  # a function that says one of the two
        values = values[:, 1]
    if predictor.classes is None:
        return Outputs(values, model=predictor.name)
    return Outputs(values, predictor.classes, values.argmax(axis=1), predictor.name)


# --- what a feature can be within each of its cells ------------------------------------------------------------------


def nearest_values(
    trees: CellTrees, space: Space, x0: Array, j: int, limits: tuple[Array, Array] | None = None
) -> Array:
    """Return the value in each cell of a feature that is nearest to a row's, of those that the row may take.

    Parameters
    ----------
    trees : CellTrees
        With the cells.
    space : Space
        With bounds, directions and steps.
    x0 : array of shape (d,)
        The row, encoded.
    j : int
        Which feature.
    limits : tuple of two arrays of shape (d,), optional
        ``space.limits(x0)``, where several features are asked about.

    Returns
    -------
    array of shape (n_cells + 1,)
        As encoded, with as many digits as the column has. NaN for cells that the row cannot get to. The last, the
        missing cell, is NaN always: whether a value may be missing is said by ``space.may_become_missing`` and by the
        row.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce.trees import read_structure
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 3.0, 4.0, 9.0])
    >>> trees = read_cells(read_structure(model, Space.real(1)), Space.real(1), x)
    >>> nearest_values(trees, Space.real(1), np.array([1.2]), 0).round(3)
    array([0.5, 1.2, 1.5, 2.5, nan])
    """
    edges = trees.edges[j]
    low, high = (float(end[j]) for end in (space.limits(x0) if limits is None else limits))
    now = float(x0[j])
    found = np.full(len(edges) + 2, np.nan)
    if np.isnan(low):  # the value is missing and stays so
        return found
    low, high = max(low, float(trees.low[j])), min(high, float(trees.high[j]))
    bottom, top = trees.spans[j]
    if space.features[j].discrete:
        bottom, top = np.ceil(bottom), np.floor(top)
    bottom, top = np.maximum(bottom, low), np.minimum(top, high)
    if np.isnan(now):  # what it starts from when it becomes known
        centre = space.features[j].centre
        now = float(np.clip(0.0 if centre is None else centre, low, high))
        now = float(np.round(now)) if space.features[j].discrete else now
    found[:-1] = np.where(bottom <= top, np.clip(now, bottom, np.maximum(bottom, top)), np.nan)
    kind = dict(space.low_precision).get(j)
    return found if kind is None else _keep_digits(edges, found, float(x0[j]), low, high, kind)


def _keep_digits(edges: Array, values: Array, now: float, low: float, high: float, kind: np.dtype[Any]) -> Array:
    """Return values that a column of fewer digits can hold, in the same cells; NaN where there is none."""
    cell = np.arange(len(values))
    found = np.full(len(values), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(kind)
        tried = [np.nextafter(near, kind.type(end)) for end in (-np.inf, np.inf)]
    for one in (*tried, near):  # the last that fits is taken
        wide = one.astype(float)
        fits = (np.searchsorted(edges, wide, side="left") == cell) & (wide >= low) & (wide <= high)
        found = np.where(fits & ~np.isnan(wide), wide, found)
    return np.where(values == now, now, found)
