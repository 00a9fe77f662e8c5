"""A point among leaves: what every feature's move alone would make of the scores, kept up to date by moves."""

import numpy as np

from gbce.base import Array
from gbce.trees import CellTrees

__all__ = ["Position"]


class Position:
    """A point, given by its cells, and for every leaf how many of its features lie outside.

    Leaves with none outside make up the scores. Those with one outside are what a move of that feature can bring in,
    so that both together give the scores along every feature at once.

    Parameters
    ----------
    trees : CellTrees
        The ensemble.
    cells : int array of shape (d,)
        Of the point.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gbce import Space
    >>> from gbce.trees import read_cells, read_structure
    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 5.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 1.0, 4.0, 9.0])
    >>> trees = read_cells(read_structure(model, Space.real(2)), Space.real(2), x)
    >>> from support.position import Position
    >>> here = Position(trees, trees.cells(x[:1])[0])
    >>> here.scores, here.step_scores(0)[:2, 0], here.step_scores(1)[:2, 0]
    (array([1.]), array([1., 4.]), array([1., 9.]))
    >>> here.move(0, 1)
    >>> here.scores, here.step_scores(1)[:2, 0]
    (array([4.]), array([4., 9.]))
    """

    def __init__(self, trees: CellTrees, cells: Array) -> None:
        self.trees = trees
        self.cells = np.array(cells, dtype=int)
        self._outside = np.zeros(trees.first.shape, dtype=bool)
        for j in trees.used.tolist():
            self._outside[:, j] = ~trees.holds(j, int(self.cells[j]))
        self._count = self._outside.sum(axis=1)
        self._starts = np.concatenate([[0], np.cumsum(trees.n_cells + 1)])

    def copy(self) -> "Position":
        """Return a position that moves by itself."""
        new = object.__new__(Position)
        new.trees, new._starts = self.trees, self._starts
        new.cells, new._outside, new._count = self.cells.copy(), self._outside.copy(), self._count.copy()
        return new

    def move(self, j: int, cell: int) -> None:
        """Move one feature to a cell; the number of its cells stands for a missing value."""
        outside = ~self.trees.holds(j, cell)
        self._count += outside.astype(int) - self._outside[:, j]
        self._outside[:, j] = outside
        self.cells[j] = cell

    @property
    def scores(self) -> Array:
        """Scores ``(K,)`` here."""
        return np.asarray(self.trees.base + self.trees.value[self._count == 0].sum(axis=0))

    def step_scores(self, j: int) -> Array:
        """Return scores ``(n_cells + 1, K)`` for every cell that feature ``j`` alone can move to, the missing one last.

        What a cell is worth here is summed in another order than the model does: it is right but for rounding.
        """
        trees = self.trees
        near = np.flatnonzero(self._count - self._outside[:, j] == 0)
        value = trees.value[near]
        own = np.flatnonzero(trees.set_features == j)
        if len(own):
            sums = _sum_by(trees.set_of[near, own[0]], value, len(trees.allowed[own[0]]))
            return np.asarray(trees.base + trees.allowed[own[0]].T @ sums)
        n = len(trees.edges[j]) + 1
        first, last = trees.first[near, j], trees.last[near, j]
        some = first <= last
        steps = _sum_by(first[some], value[some], n + 1) - _sum_by(last[some] + 1, value[some], n + 1)
        steps = np.cumsum(steps, axis=0)
        steps[n] = value[trees.missing[near, j]].sum(axis=0)
        return np.asarray(trees.base + steps)

    def all_steps(self) -> list[Array]:
        """Return :meth:`step_scores` of every feature."""
        trees, d = self.trees, len(self.cells)
        here, one = np.flatnonzero(self._count == 0), np.flatnonzero(self._count == 1)
        beside = np.argmax(self._outside[one], axis=1)
        whole = int(self._starts[-1])
        # features one after the other in a single array: leaves around the point count in each, others in their own
        leaf = np.concatenate([np.repeat(here, d), one])
        feature = np.concatenate([np.tile(np.arange(d), len(here)), beside])
        first, last = trees.first[leaf, feature].astype(int), trees.last[leaf, feature].astype(int)
        value, some = trees.value[leaf], first <= last
        start = self._starts[feature]
        steps = _sum_by((start + first)[some], value[some], whole)
        steps -= _sum_by((start + last + 1)[some], value[some], whole)
        steps = np.cumsum(steps, axis=0)
        taken = trees.missing[leaf, feature]
        gaps = _sum_by(feature[taken], value[taken], d)
        steps[self._starts[1:] - 1] = gaps
        found = [trees.base + part for part in np.split(steps, self._starts[1:-1])]
        for s, j in enumerate(trees.set_features.tolist()):
            mine = np.concatenate([here, one[beside == j]])
            sums = _sum_by(trees.set_of[mine, s], trees.value[mine], len(trees.allowed[s]))
            found[j] = trees.base + trees.allowed[s].T @ sums
        return found


def _sum_by(where: Array, value: Array, n: int) -> Array:
    """Return sums ``(n, K)`` of values ``(m, K)`` with the same place ``(m,)``."""
    return np.column_stack([np.bincount(where, weights=value[:, k], minlength=n) for k in range(value.shape[1])])
