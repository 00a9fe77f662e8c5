"""What the readers of all libraries share: one tree as a table of nodes, and many of them stacked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._score_parts import TreeScores

__all__ = ["DOUBLE", "SINGLE", "ReadTrees", "Tree", "as_matrix", "codes_in", "in_column", "stack_trees"]

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
