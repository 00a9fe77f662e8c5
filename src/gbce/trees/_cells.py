"""Leaves as boxes of cells, and nodes that ask about cells."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gbce.base import Array
from gbce.predictors import Inside

__all__ = ["CellTrees", "Nodes"]


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
    >>> from gbce.predictors import look_inside
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 5.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 1.0, 4.0, 9.0])
    >>> trees = read_cells(look_inside(model, Space.real(2)), Space.real(2), x)
    >>> trees.cells(x).tolist(), trees.scores(trees.cells(x))[:, 0].tolist()
    ([[0, 0], [0, 0], [1, 0], [1, 1]], [1.0, 1.0, 4.0, 9.0])
    """

    inside: Inside
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
