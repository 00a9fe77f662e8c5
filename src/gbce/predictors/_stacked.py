"""All trees of a forest as one tree of its own kind, so that a few rows take one call instead of one per tree.

The trees hang below a router: splits on one more column, the number of the tree. Every pair of a row and a tree is then
a row of its own, and the library's compiled walk finds the leaves of all pairs at once, by the same comparisons as
before. Nothing is rounded anew, and the trees are added up in their order.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gbce.base import Array

__all__ = ["FEW_HIST_ROWS", "FEW_ROWS", "ForestStack", "HistStack"]

# Rows of a batch up to which a stack is faster; beyond, the router takes as long as the calls that it saves. Measured
# with 100 to 300 trees: as fast as one call per tree at 50 to 100 rows of a forest, at 200 of histogram boosting.
FEW_ROWS = 50
FEW_HIST_ROWS = 100
_MAX_NODES = 150_000  # 11 MB and 20 ms; measured at 250,000: caches are too small, no gain from ten rows on
_MAX_CELLS = 4_000_000  # numbers in the pairs of rows and trees: 16 or 32 MB; by hand
_NO_CATEGORIES = np.zeros((0, 8), dtype=np.uint32)  # bitsets of them, as histogram boosting has them


class _Names(NamedTuple):
    """What a library calls the parts of a node."""

    left: str
    right: str
    feature: str
    threshold: str


class ForestStack:
    """Trees of a scikit-learn forest with one output; stacked when first asked, and not kept in pickles.

    Parameters
    ----------
    trees : sequence of sklearn.tree._tree.Tree
        In the order in which they are added up.
    n_features : int
        Columns of a row.

    Attributes
    ----------
    most_rows : int
        How large a batch may be to be better asked here than tree by tree.
    """

    def __init__(self, trees: Sequence[Any], n_features: int) -> None:
        self._trees, self._n_features = tuple(trees), n_features
        self._agrees: bool | None = None
        n_nodes = sum(tree.node_count for tree in trees)
        self.most_rows = _most_rows(FEW_ROWS, n_nodes, len(self._trees), n_features)
        self._tree: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_tree": None}

    def takes(self, n: int, probe: Array, by_tree: Callable[[Array], Array]) -> bool:
        """Whether ``n`` rows are to be asked here: few, and the same bits as ``by_tree`` were seen on the probe."""
        if not 0 < n <= self.most_rows:
            return False
        if self._agrees is None:
            self._agrees = self._gives(probe[: self.most_rows], by_tree)
        return self._agrees

    def _gives(self, x: Array, by_tree: Callable[[Array], Array]) -> bool:
        try:
            return all(np.array_equal(self.add_up(part), by_tree(part)) for part in (x[:1], x))
        except Exception:  # what a release of scikit-learn has inside is its own
            return False

    def add_up(self, x: Array) -> Array:
        """Return the sum over trees of the leaves of float32 rows, ``(n, d)`` to ``(n, classes)``."""
        if self._tree is None:
            self._tree = self._stacked()
        n_trees = len(self._trees)
        leaves = self._tree.apply(_pairs(x, n_trees)).reshape(n_trees, len(x))
        values = self._tree.value[:, 0, :].take(leaves, axis=0)
        return _one_after_another(values)

    def _stacked(self) -> Any:
        make, (_, n_classes, n_outputs), _ = self._trees[0].__reduce__()
        states = [tree.__reduce__()[2] for tree in self._trees]
        nodes = _stack(
            [state["nodes"] for state in states],
            _Names("left_child", "right_child", "feature", "threshold"),
            self._n_features,
        )
        values = [state["values"] for state in states]
        router = np.zeros((len(nodes) - sum(map(len, values)), *values[0].shape[1:]))
        tree = make(self._n_features + 1, n_classes, n_outputs)
        tree.__setstate__(
            {
                "max_depth": max(state["max_depth"] for state in states) + len(states).bit_length(),
                "node_count": len(nodes),
                "nodes": nodes,
                "values": np.concatenate([router, *values]),
            }
        )
        return tree


class HistStack:
    """Trees of scikit-learn's histogram boosting without categories; stacked when first asked, not kept in pickles.

    Parameters
    ----------
    iterations : sequence of sequences of TreePredictor
        One tree per output in each iteration.
    baseline : array, shape (1, outputs)
        What the trees are added to.
    n_features : int
        Columns of a row.

    Attributes
    ----------
    most_rows : int
        How large a batch may be to be better asked here than tree by tree.
    """

    def __init__(self, iterations: Sequence[Sequence[Any]], baseline: Array, n_features: int) -> None:
        self._trees = tuple(tree for one in iterations for tree in one)
        self._baseline, self._n_features = baseline, n_features
        n_nodes = sum(len(tree.nodes) for tree in self._trees)
        self.most_rows = _most_rows(FEW_HIST_ROWS, n_nodes, len(self._trees), n_features)
        self._tree: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_tree": None}

    def __call__(self, x: Array) -> Array:
        """Return the baseline and the leaves of float64 rows, added up: ``(n, d)`` to ``(n, outputs)``."""
        return self.add_up(x) if len(x) <= self.most_rows else self._by_tree(x)

    def _by_tree(self, x: Array) -> Array:
        """Walk one tree after the other, as the estimator does, without its checks of rows."""
        from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

        n_outputs, n_threads = self._baseline.size, _openmp_effective_n_threads()
        columns = np.zeros(self._n_features, dtype=np.uint32)  # of categories
        total = np.empty((n_outputs, len(x)))
        total[:] = self._baseline.reshape(-1, 1)
        for number, tree in enumerate(self._trees):
            total[number % n_outputs] += tree.predict(x, _NO_CATEGORIES, columns, n_threads)
        return total.T

    def add_up(self, x: Array) -> Array:
        """Return what the stack says of a few rows."""
        if self._tree is None:
            nodes = _stack(
                [tree.nodes for tree in self._trees],
                _Names("left", "right", "feature_idx", "num_threshold"),
                self._n_features,
            )
            self._tree = type(self._trees[0])(nodes, _NO_CATEGORIES, _NO_CATEGORIES)
        columns = np.zeros(self._n_features + 1, dtype=np.uint32)  # of categories, too
        # in one thread: more of them take longer to start than to walk
        said = self._tree.predict(_pairs(x, len(self._trees)), _NO_CATEGORIES, columns, 1)
        n_outputs = self._baseline.size
        parts = np.empty((len(self._trees) // n_outputs + 1, n_outputs, len(x)))
        parts[0] = self._baseline.reshape(-1, 1)
        parts[1:] = said.reshape(-1, n_outputs, len(x))
        return _one_after_another(parts).T


def _most_rows(few: int, n_nodes: int, n_trees: int, n_features: int) -> int:
    return min(few, _MAX_CELLS // (max(n_trees, 1) * (n_features + 1))) if n_nodes <= _MAX_NODES else 0


def _one_after_another(parts: Array) -> Array:
    """Add up along the first axis, in its order, as scikit-learn does: a plain sum may go pairwise."""
    return np.array(np.add.accumulate(parts, axis=0)[-1])


def _pairs(x: Array, n_trees: int) -> Array:
    """Return every row once for each tree, tree by tree, with the number of the tree as its last column."""
    n, d = x.shape
    pairs = np.empty((n_trees, n, d + 1), dtype=x.dtype)
    pairs[:, :, :d] = x
    pairs[:, :, d] = np.arange(n_trees, dtype=x.dtype)[:, None]
    return pairs.reshape(n_trees * n, d + 1)


def _stack(parts: Sequence[Array], names: _Names, column: int) -> Array:
    """Return the nodes of all trees below a router on ``column``, which comes first; the nodes are copied."""
    n_router = len(parts) - 1
    sizes = np.array([len(part) for part in parts])
    roots = n_router + np.concatenate([[0], np.cumsum(sizes)])
    nodes = np.zeros(roots[-1], dtype=parts[0].dtype)
    raw, width = nodes.view(np.uint8), nodes.dtype.itemsize  # as bytes: numpy copies records field by field
    for part, root in zip(parts, roots, strict=False):
        raw[root * width : (root + len(part)) * width] = np.ascontiguousarray(part).view(np.uint8)
    offset = np.repeat(roots[:-1], sizes)
    for name in (names.left, names.right):
        children = nodes[name][n_router:]
        # the root is nobody's child: what is not above it marks a leaf
        np.add(children, offset.astype(children.dtype), out=children, where=children > 0)
    spans = [(0, len(parts))] if n_router else []
    for me in range(n_router):  # each split halves the trees that are left, down to one
        low, high = spans[me]
        middle = (low + high) // 2
        nodes[names.feature][me], nodes[names.threshold][me] = column, middle - 0.5
        for name, span in ((names.left, (low, middle)), (names.right, (middle, high))):
            single = span[1] - span[0] == 1
            nodes[name][me] = roots[span[0]] if single else len(spans)
            if not single:
                spans.append(span)
    return nodes
