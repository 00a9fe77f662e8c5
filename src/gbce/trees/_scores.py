"""What the scores of a model are made of, where its parts can be read: trees, or a weighted sum of columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array

__all__ = [
    "DOUBLE",
    "SINGLE",
    "LinearScores",
    "ReadTrees",
    "Tree",
    "TreeScores",
    "as_matrix",
    "codes_in",
    "in_column",
    "stack_trees",
]

# --- what the scores of a model are made of, where its parts can be read ---------------------------------------------

_MOST_AT_ONCE = 4_000_000  # leaf values added up in one go, by hand: 32 MB
_BETWEEN_SIDES = 0.5  # of the sides of a set, which are 0 and 1


@dataclass(frozen=True, eq=False)
class TreeScores:
    """Scores that are a sum over trees: at a node, a value of at most the threshold goes left, or a category of a set.

    Parameters
    ----------
    column : int array of shape (N,)
        That each node asks about; -1 for a leaf.
    threshold : array of shape (N,)
        Largest value that goes left; NaN where a set of categories does.
    left, right : int arrays of shape (N,)
        The nodes that follow.
    missing_left : bool array of shape (N,)
        Whether a missing value goes left.
    value : array of shape (N, K)
        What a leaf adds to the sum of each score.
    roots : int array of shape (T,)
        Where each tree begins; its nodes end where the next tree begins.
    base : array of shape (K,)
        What the trees are added to.
    single : bool
        Whether the columns are rounded to single precision first.
    epsilon : float
        Relative rounding error of the model's own sums.
    zero : float
        What is no larger is read as zero.
    set_of : int array of shape (N,), optional
        Which of the ``sets`` goes left at a node; -1 where a threshold decides. A column is asked for thresholds or for
        sets, never for both; one of sets has codes 0, 1, ... for its categories.
    sets : bool array of shape (S, M + 1), optional
        Which codes below M are in each set, and last whether any other code is.
    divisor : float
        Of the sums: a forest adds its trees' votes and divides in the end, so that votes that tie stay equal.

    Examples
    --------
    >>> stump = TreeScores(
    ...     column=np.array([0, -1, -1]), threshold=np.array([0.5, 0, 0]), left=np.array([1, 0, 0]),
    ...     right=np.array([2, 0, 0]), missing_left=np.array([True] * 3), value=np.array([[0.0], [1.0], [3.0]]),
    ...     roots=np.array([0]), base=np.array([10.0]),
    ... )
    >>> stump.scores(np.array([[0.5], [0.6], [np.nan]]))[:, 0]
    array([11., 13., 11.])

    With the categories 0 and 2 on the left:

    >>> stump = replace(
    ...     stump, threshold=np.array([np.nan, 0, 0]), set_of=np.array([0, -1, -1]),
    ...     sets=np.array([[True, False, True, False]]),
    ... )
    >>> stump.scores(np.array([[0.0], [1.0], [2.0], [7.0]]))[:, 0]
    array([11., 13., 11., 13.])
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
    set_of: Array | None = None
    sets: Array | None = None
    divisor: float = 1.0

    @property
    def origin(self) -> str:
        """Where a bound of these scores comes from, in words."""
        n = len(self.roots)
        return f"from all {n:,} trees" if n > 1 else "from the tree"

    @property
    def share(self) -> Array:
        """What a leaf adds to each score ``(N, K)``."""
        return self.value if self.divisor == 1.0 else self.value / self.divisor

    @cached_property
    def set_columns(self) -> Array:
        """The columns that are asked for sets of categories."""
        if self.set_of is None:
            return np.zeros(0, dtype=int)
        return np.unique(self.column[self.set_of >= 0])

    def rounded(self, columns: Array) -> Array:
        """Return columns as the trees see them: in single precision, small numbers as zeros, codes as whole numbers."""
        if self.single:
            with np.errstate(over="ignore"):
                columns = columns.astype(np.float32).astype(float)
        elif self.zero:
            columns = np.where(np.abs(columns) <= self.zero, 0.0, columns)
        if len(self.set_columns):
            columns = columns.copy()
            columns[:, self.set_columns] = np.trunc(columns[:, self.set_columns])
        return columns

    def scores(self, columns: Array) -> Array:
        """Return scores ``(n, K)`` of rows ``(n, C)``."""
        x = self.rounded(np.asarray(columns, dtype=float))
        step = max(1, _MOST_AT_ONCE // max(1, len(self.roots) * len(self.base)))
        sums = [self.value[self._reached(x[i : i + step])].sum(axis=1) for i in range(0, len(x), step)]
        return self.base + np.concatenate(sums) / self.divisor if sums else np.zeros((0, len(self.base)))

    def _reached(self, x: Array) -> Array:
        """Return leaves ``(n, T)`` of rows that were rounded."""
        n_trees = len(self.roots)
        at = np.tile(self.roots, len(x))
        alive = np.flatnonzero(self.column[at] >= 0)
        while len(alive):
            here = at[alive]
            seen = x[alive // n_trees, self.column[here]]
            at[alive] = np.where(self.goes_left(here, seen), self.left[here], self.right[here])
            alive = alive[self.column[at[alive]] >= 0]
        return at.reshape(len(x), n_trees)

    def goes_left(self, at: Array, seen: Array) -> Array:
        """Return whether values, as the trees see them, go left at nodes of the same shape."""
        gone = np.isnan(seen)
        left = np.where(gone, self.missing_left[at], seen <= self.threshold[at])
        if self.set_of is None or self.sets is None:
            return left
        number, most = self.set_of[at], self.sets.shape[1] - 1
        code = np.where((seen >= 0) & (seen < most), seen, most).astype(int)
        return np.where((number >= 0) & ~gone, self.sets[np.maximum(number, 0), code], left)

    def sides(self, columns: Array) -> Array:
        """Return ``(n, S)`` on which side of each set rows ``(n, C)`` are: 0 left, 1 right, NaN missing."""
        x, nodes = self.rounded(np.asarray(columns, dtype=float)), self._pairs[0]
        seen = x[:, self.column[nodes]]
        left = self.goes_left(np.broadcast_to(nodes, seen.shape), seen)
        return np.where(np.isnan(seen), np.nan, np.where(left, 0.0, 1.0))

    @cached_property
    def _pairs(self) -> tuple[Array, Array]:
        """One node of each pair of a column and a set, and which pair each node that asks for a set has."""
        assert self.set_of is not None
        asking = np.flatnonzero(self.set_of >= 0)
        both = np.column_stack([self.column[asking], self.set_of[asking]])
        _, first, which = np.unique(both, axis=0, return_index=True, return_inverse=True)
        return asking[first], which.ravel()

    def by_thresholds(self, n_columns: int) -> "TreeScores":
        """Return the same scores with a column, behind the ``n_columns``, for each set: the :meth:`sides`."""
        if self.set_of is None or not (self.set_of >= 0).any():
            return replace(self, set_of=None, sets=None)
        asking = self.set_of >= 0
        column, threshold = self.column.copy(), self.threshold.copy()
        column[asking], threshold[asking] = n_columns + self._pairs[1], _BETWEEN_SIDES
        return replace(self, column=column, threshold=threshold, set_of=None, sets=None)


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


# --- what the readers of all libraries share -------------------------------------------------------------------------

# Relative rounding errors of sums.
DOUBLE = float(np.finfo(float).eps)
SINGLE = float(np.finfo(np.float32).eps)


class Tree(NamedTuple):
    """The nodes of one tree, numbered from zero, and its own sets of categories; see :class:`TreeScores`."""

    column: Array
    threshold: Array
    left: Array
    right: Array
    missing_left: Array
    value: Array
    set_of: Array | None = None
    sets: Array | None = None


def as_matrix(rows: Any, codes: Mapping[int, Array] | None = None) -> Array:
    """Return rows as floats ``(n, C)``; refuse levels that only the model itself knows how to read.

    Parameters
    ----------
    rows : frame, array or sparse matrix
        As the model takes them.
    codes : mapping of int to array of shape (n,), optional
        Of the categories in columns of a frame, by position.
    """
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    if not isinstance(rows, pd.DataFrame):
        array = np.asarray(rows)
        if array.dtype == object and not any(isinstance(one, str | bytes) for one in array.flat):
            return array.astype(float)  # numbers beside booleans, as a ColumnTransformer passes them through
        if array.dtype.kind not in "fiub":
            raise TypeError("text is no number")
        return array.astype(float)
    codes = codes or {}
    kinds = list(rows.dtypes)
    words = [c for c, kind in enumerate(kinds) if c not in codes and not pd.api.types.is_numeric_dtype(kind)]
    if words:
        raise TypeError(f"the columns {[rows.columns[c] for c in words]} are no numbers")
    if not codes:
        return rows.to_numpy(dtype=float, na_value=np.nan)
    table = np.empty(rows.shape)
    for c in range(len(kinds)):
        table[:, c] = codes[c] if c in codes else rows.iloc[:, c].to_numpy(dtype=float, na_value=np.nan)
    return table


def codes_in(values: Any, categories: Any = None) -> Array:
    """Return the codes ``(n,)`` of a categorical column, of these categories or its own; NaN for what is in none."""
    own = pd.Categorical(values)
    found = (own if categories is None else own.set_categories(categories)).codes
    return np.where(found < 0, np.nan, found.astype(float))


class ReadTrees(NamedTuple):
    """Scores, what makes outputs of them, and what makes columns of the rows that the model takes.

    ``sources`` are the positions of the columns among those of the rows; None where they are in order.
    """

    scores: TreeScores
    link: str
    prepare: Callable[[Any], Array] = as_matrix
    sources: Array | None = None


def in_column(values: Array, output: int, n_outputs: int) -> Array:
    """Return values ``(N,)`` as one of several columns, zeros elsewhere."""
    table = np.zeros((len(values), n_outputs))
    table[:, output] = values
    return table


def stack_trees(
    trees: Sequence[Tree], base: Array, single: bool, epsilon: float, zero: float = 0.0, divisor: float = 1.0
) -> TreeScores:
    """Return trees one behind the other."""
    sizes = np.array([len(tree.column) for tree in trees])
    roots = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(int)
    offset = np.repeat(roots, sizes)
    column = np.concatenate([tree.column for tree in trees]).astype(int)
    follow = [np.concatenate([tree[i] for tree in trees]).astype(int) for i in (2, 3)]
    for side in follow:
        side += offset
        side[column < 0] = 0
    set_of, sets = _stack_sets(trees)
    return TreeScores(
        column=column,
        threshold=np.concatenate([tree.threshold for tree in trees]).astype(float),
        left=follow[0],
        right=follow[1],
        missing_left=np.concatenate([tree.missing_left for tree in trees]).astype(bool),
        value=np.concatenate([tree.value for tree in trees]).astype(float),
        roots=roots,
        base=np.asarray(base, dtype=float),
        single=single,
        epsilon=epsilon,
        zero=zero,
        set_of=set_of,
        sets=sets,
        divisor=divisor,
    )


def _stack_sets(trees: Sequence[Tree]) -> tuple[Array | None, Array | None]:
    """Return the sets of all trees, each different one once, and which of them the nodes ask for."""
    tables = [tree.sets for tree in trees if tree.sets is not None and len(tree.sets)]
    if not tables:
        return None, None
    width = max(table.shape[1] for table in tables)
    # codes that a table does not know are its other ones, which are in the last column
    wide = [
        np.hstack([table[:, :-1], np.repeat(table[:, -1:], width - table.shape[1] + 1, axis=1)]) for table in tables
    ]
    sets, number = np.unique(np.concatenate(wide), axis=0, return_inverse=True)
    number, first, parts = np.append(number.ravel(), -1), 0, []
    for tree in trees:
        own = np.full(len(tree.column), -1) if tree.set_of is None else tree.set_of
        parts.append(number[np.where(own >= 0, own + first, -1)])
        first += 0 if tree.sets is None else len(tree.sets)
    return np.concatenate(parts), sets
