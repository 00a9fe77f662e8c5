"""From nodes to leaves: what cells each leaf holds."""

from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.predictors import Inside, TreeScores
from gbce.trees._cells import CellTrees, Nodes

__all__ = ["Cuts", "make_boxes"]


class Cuts(NamedTuple):
    """Cells of features, and what every node asks of them; see :class:`CellTrees`."""

    edges: tuple[Array, ...]
    low: Array
    high: Array
    nodes: Nodes
    set_features: Array


class _Paths(NamedTuple):
    """Ways from roots down to nodes, one in a row, and the cells that go there; see :class:`CellTrees`."""

    at: Array
    tree: Array
    first: Array
    last: Array
    missing: Array
    sets: Array

    def pick(self, which: Array) -> "_Paths":
        return _Paths(*(part[which] for part in self))


def make_boxes(inside: Inside, parts: TreeScores, cuts: Cuts) -> CellTrees:
    """Go down all trees at once and return the leaves with what they hold."""
    nodes = cuts.nodes
    n_cells = np.array([len(edges) + 1 for edges in cuts.edges])
    book = {j: _SetBook(int(n_cells[j]) + 1) for j in cuts.set_features.tolist()}
    paths, done = _start(nodes.roots, n_cells, len(book)), []
    while len(paths.at):
        is_leaf = nodes.feature[paths.at] < 0
        done.append(paths.pick(is_leaf))
        paths = _go_down(nodes, paths.pick(~is_leaf), n_cells, book)
    leaves = _Paths(*(np.concatenate(part) for part in zip(*done, strict=True)))
    leaves = leaves.pick(np.argsort(leaves.tree, kind="stable"))
    possible = np.asarray(((leaves.first <= leaves.last) | leaves.missing).all(axis=1))
    for s, own in enumerate(book.values()):
        possible &= np.any(own.table(), axis=1)[leaves.sets[:, s]]
    leaves = leaves.pick(possible)
    return CellTrees(
        inside=inside, edges=cuts.edges, low=cuts.low, high=cuts.high, first=leaves.first, last=leaves.last,
        missing=leaves.missing, set_features=cuts.set_features, set_of=leaves.sets,
        allowed=tuple(own.table() for own in book.values()), tree=leaves.tree, value=parts.share[leaves.at],
        base=parts.base, epsilon=parts.epsilon, nodes=nodes,
    )  # fmt: skip


def _start(roots: Array, n_cells: Array, n_sets: int) -> _Paths:
    """Return the roots, where all cells go."""
    kind = np.int16 if n_cells.max(initial=1) < np.iinfo(np.int16).max - 1 else np.int32
    shape = (len(roots), len(n_cells))
    last = np.tile((n_cells - 1).astype(kind), (len(roots), 1))
    sets = np.zeros((len(roots), n_sets), dtype=np.int32)
    return _Paths(roots, np.arange(len(roots)), np.zeros(shape, dtype=kind), last, np.ones(shape, dtype=bool), sets)


def _go_down(nodes: Nodes, paths: _Paths, n_cells: Array, book: "dict[int, _SetBook]") -> _Paths:
    """Return both ways on from every node, those to the left first."""
    at, n = paths.at, len(paths.at)
    feature, rows = nodes.feature[at], np.arange(n)
    both = _Paths(*(np.concatenate([part, part]) for part in paths))
    ordered = np.flatnonzero(nodes.group[at] < 0)
    own, cut = feature[ordered], np.clip(nodes.cut[at], -1, n_cells[feature] - 1)[ordered].astype(both.first.dtype)
    both.last[ordered, own] = np.minimum(both.last[ordered, own], cut)
    both.first[n + ordered, own] = np.maximum(both.first[n + ordered, own], cut + 1)
    gap = nodes.missing_left[at]
    both.missing[rows, feature] &= gap
    both.missing[n + rows, feature] &= ~gap
    for s, (j, sets) in enumerate(book.items()):
        mine = np.flatnonzero((feature == j) & (nodes.group[at] >= 0))
        goes_left = nodes.sets[nodes.group[at[mine]], : sets.width]
        both.sets[mine, s] = sets.narrow(both.sets[mine, s], goes_left)
        both.sets[n + mine, s] = sets.narrow(both.sets[n + mine, s], ~goes_left)
    return both._replace(at=np.concatenate([nodes.left[at], nodes.right[at]]))


class _SetBook:
    """Sets of cells of one feature by number; the first is all of them."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: list[Array] = [np.ones(width, dtype=bool)]
        self._number = {self._rows[0].tobytes(): 0}

    def narrow(self, sets: Array, to: Array) -> Array:
        """Return numbers of the sets ``(m,)`` that are left of others when only cells ``to`` ``(m, width)`` are."""
        kept = self.table()[sets] & to
        packed, which = np.unique(np.packbits(kept, axis=1), axis=0, return_inverse=True)
        numbers = np.empty(len(packed), dtype=np.int32)
        for i, bits in enumerate(packed):
            row = np.unpackbits(bits, count=self.width).astype(bool)
            numbers[i] = self._number.setdefault(row.tobytes(), len(self._rows))
            if numbers[i] == len(self._rows):
                self._rows.append(row)
        return numbers[which.ravel()]

    def table(self) -> Array:
        """Return all sets ``(n_sets, width)``."""
        return np.array(self._rows)
