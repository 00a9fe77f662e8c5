"""What the scores of a model are made of, where its parts can be read: trees, or a weighted sum of columns."""

from dataclasses import dataclass

import numpy as np

from gbce.base import Array

__all__ = ["LinearScores", "TreeScores"]


@dataclass(frozen=True, eq=False)
class TreeScores:
    """Scores that are a sum over trees: at a node, a value of at most the threshold goes left.

    Parameters
    ----------
    column : int array of shape (N,)
        That each node asks about; -1 for a leaf.
    threshold : array of shape (N,)
        Largest value that goes left.
    left, right : int arrays of shape (N,)
        The nodes that follow.
    missing_left : bool array of shape (N,)
        Whether a missing value goes left.
    value : array of shape (N, K)
        What a leaf adds to each score.
    roots : int array of shape (T,)
        Where each tree begins.
    base : array of shape (K,)
        What the trees are added to.
    single : bool
        Whether the columns are rounded to single precision first.
    epsilon : float
        Relative rounding error of the model's own sums.
    zero : float
        What is no larger is read as zero.

    Examples
    --------
    >>> stump = TreeScores(
    ...     column=np.array([0, -1, -1]), threshold=np.array([0.5, 0, 0]), left=np.array([1, 0, 0]),
    ...     right=np.array([2, 0, 0]), missing_left=np.array([True] * 3), value=np.array([[0.0], [1.0], [3.0]]),
    ...     roots=np.array([0]), base=np.array([10.0]),
    ... )
    >>> stump.scores(np.array([[0.5], [0.6], [np.nan]]))[:, 0]
    array([11., 13., 11.])
    """

    column: Array
    threshold: Array
    left: Array
    right: Array
    missing_left: Array
    value: Array
    roots: Array
    base: Array
    single: bool = False
    epsilon: float = float(np.finfo(float).eps)
    zero: float = 0.0

    @property
    def origin(self) -> str:
        """Where a bound of these scores comes from, in words."""
        n = len(self.roots)
        return f"from the leaves of all {n:,} trees" if n > 1 else "from the leaves of the tree"

    def rounded(self, columns: Array) -> Array:
        """Return columns as the trees see them."""
        if not self.single:
            return np.where(np.abs(columns) <= self.zero, 0.0, columns) if self.zero else columns
        with np.errstate(over="ignore"):
            return columns.astype(np.float32).astype(float)

    def goes_left(self, at: Array, seen: Array) -> Array:
        """Return whether values, as the trees see them, go left at nodes of the same shape."""
        return np.where(np.isnan(seen), self.missing_left[at], seen <= self.threshold[at])

    def scores(self, columns: Array) -> Array:
        """Return scores ``(n, K)`` of rows ``(n, C)``."""
        x = self.rounded(np.asarray(columns, dtype=float))
        rows = np.arange(len(x))[:, None]
        at = np.tile(self.roots, (len(x), 1))
        while True:
            asked = self.column[at]
            inner = asked >= 0
            if not inner.any():
                return self.base + self.value[at].sum(axis=1)
            goes_left = self.goes_left(at, x[rows, np.maximum(asked, 0)])
            at = np.where(inner, np.where(goes_left, self.left[at], self.right[at]), at)


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores that are weighted sums of columns.

    Parameters
    ----------
    weights : array of shape (K, C)
        Of each column in each score.
    base : array of shape (K,)
        What is added.

    Examples
    --------
    >>> LinearScores(np.array([[2.0, -1.0]]), np.array([0.5])).scores(np.array([[1.0, 3.0]]))
    array([[-0.5]])
    """

    weights: Array
    base: Array
    single: bool = False
    epsilon: float = float(np.finfo(float).eps)

    @property
    def origin(self) -> str:
        """Where a bound of these scores comes from, in words."""
        return "from the coefficients"

    def rounded(self, columns: Array) -> Array:
        """Return columns as the model sees them."""
        return columns

    def scores(self, columns: Array) -> Array:
        """Return scores ``(n, K)`` of rows ``(n, C)``."""
        return np.asarray(columns @ self.weights.T + self.base)
