"""Scores of tree ensembles along one column, the other columns fixed: the primitive of exact coordinate draws.

Along one column an ensemble is a step function. The trees of all models are stacked on common cells of the columns that
can change, with splits on other columns resolved; the loops over nodes are compiled on first use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gbce.base import Array
from gbce.trees._cells import CellTrees, compiled_loops

_LEAF = -1  # in place of the column of a split
_SAME_SUM = 1e-12  # relative difference of the sums of leaves that is rounding


class CommonCells(NamedTuple):
    """Cells of one column shared by all models: for each model its own cell of each ``(n,)``; the last may be missing.

    ``n_known`` is the number of cells of known values.
    """

    own: tuple[Array, ...]
    n_known: int


class Steps(NamedTuple):
    """Steps along one column: positions of each point's ``(n + 1,)``, first cells, prior masses, and scores."""

    starts: Array
    first: Array
    masses: Array
    scores: Array


@dataclass(frozen=True, eq=False)
class StackedTrees:
    """The trees of several models on common cells of ``m`` columns: ``T`` trees, ``N`` nodes, ``S`` scores in all.

    ``nodes`` ``(N, 4)`` are column (-1 for a leaf), cut, left child, which the right one follows, and kind:
    the row of ``words`` whose bits are the cells that go left, -1 for a plain cut, -2 if missing values go left
    besides. ``value`` ``(N, W)`` is added to the scores from ``slot`` ``(T,)`` on. ``trees_of`` lists the trees that
    split on each column, ``by_cell`` whether a column's cells are unordered. ``totals`` are, for each model, the sum of
    its two scores if only the second is kept, else NaN; ``ends`` ``(2, S)`` bound each score.
    """

    roots: Array
    slot: Array
    nodes: Array
    words: Array
    value: Array
    base: Array
    n_known: Array
    by_cell: Array
    trees_of: tuple[Array, ...]
    owned: tuple[slice, ...]
    totals: tuple[float, ...]
    ends: Array

    @classmethod
    def stack(
        cls, ensembles: Sequence[CellTrees], x0: Array, free: Array, common: Sequence[CommonCells]
    ) -> "StackedTrees":
        """Stack ensembles, with the features ``free`` ``(m,)`` on common cells and all others at the row's."""
        return cls._join([_place_on_cells(trees, x0, free, common, k) for k, trees in enumerate(ensembles)], common)

    @classmethod
    def whole(cls, trees: CellTrees) -> "StackedTrees":
        """Return one ensemble on all of its own cells, the last of each feature for missing values.

        Scores are the sums of its leaves as the model adds them, before they are divided and without the base.
        """
        common = [CommonCells((np.arange(n + 1),), n) for n in trees.n_cells.tolist()]
        placed = _place_on_cells(trees, np.zeros(len(common)), np.arange(len(common)), common, 0)
        values = trees.nodes.value
        return cls._join([placed._replace(value=values, base=np.zeros(values.shape[1]), total=float("nan"))], common)

    @classmethod
    def _join(cls, parts: "Sequence[_Placed]", common: Sequence[CommonCells]) -> "StackedTrees":
        """Join models placed on common cells, whose arrays are changed, with all nodes in the order of their trees."""
        starts = np.cumsum([0, *(len(part.nodes) for part in parts)])[:-1]
        set_starts = np.cumsum([0, *(len(part.words) for part in parts)])[:-1]
        slots = np.cumsum([0, *(len(part.base) for part in parts)])
        width = max(part.value.shape[1] for part in parts)
        for part, start, set_start in zip(parts, starts, set_starts, strict=True):
            part.children[:] += start
            part.nodes[part.nodes[:, 3] >= 0, 3] += set_start
        roots = np.concatenate([part.roots + start for part, start in zip(parts, starts, strict=True)])
        slot = np.concatenate([[start] * len(part.roots) for part, start in zip(parts, slots[:-1], strict=True)])
        nodes, children = (np.concatenate([getattr(part, name) for part in parts]) for name in ("nodes", "children"))
        value = _stack_padded([part.value for part in parts], float)
        unused = np.zeros(width - parts[-1].value.shape[1])  # so that values of the last model fit in as well
        base = np.concatenate([*(part.base for part in parts), unused])
        order, tree_of = _order_by_tree(nodes, children, roots)
        place = np.zeros(len(nodes), dtype=int)
        place[order] = np.arange(len(order))
        nodes[:, 2] = place[children[:, 0]]
        nodes, value, roots = nodes[order], value[order], place[roots]
        by_cell = np.zeros(len(common), dtype=bool)
        by_cell[nodes[nodes[:, 3] >= 0, 0]] = True
        owned = tuple(slice(int(a), int(b)) for a, b in pairwise(slots))
        return cls(
            roots=roots.astype(np.int32),
            slot=slot.astype(np.int64),
            nodes=np.ascontiguousarray(nodes, dtype=np.int32),
            words=_stack_padded([part.words for part in parts], np.uint64),
            value=np.ascontiguousarray(value),
            base=base,
            n_known=np.array([one.n_known for one in common], dtype=np.int32),
            by_cell=by_cell,
            trees_of=tuple(np.unique(tree_of[nodes[:, 0] == j]).astype(np.int64) for j in range(len(common))),
            owned=owned,
            totals=tuple(part.total for part in parts),
            ends=_bound_scores(nodes, tree_of, value, slot, base),
        )

    def scores(self, cells: Array) -> Array:
        """Return all scores ``(n, S)`` of cells ``(n, m)``."""
        return self.follow(cells)[0]

    def follow(self, cells: Array) -> tuple[Array, Array]:
        """Return all scores ``(n, S)`` of cells ``(n, m)``, and the columns on the way to leaves as bits ``(n, T)``."""
        found, paths = np.tile(self.base, (len(cells), 1)), np.empty((len(cells), len(self.roots)), dtype=np.uint64)
        loops = _require_loops()
        table = self.roots, self.slot, self.n_known, self.nodes, self.packed, self.words, self.value
        loops.sum_scores(cells, *table, found, paths)
        return found, paths

    def score_moves(
        self, cells: Array, columns: Array, begins: Array, window: Array | None = None, gaps: Array | None = None
    ) -> tuple[Array, Array]:
        """Return the scores ``(N, S)`` after moving a point ``(m,)`` along one of its columns, and here ``(S,)``.

        The cells of each of the ``columns`` ``(c,)``, the missing one last, begin at ``begins`` ``(c + 1,)``. Of
        ordered columns only cells from ``window`` ``(c, 2)`` are scored, if that is given, and the missing one where
        ``gaps`` ``(c,)``.
        """
        loops, point = _require_loops(), cells.astype(np.int32)
        here, out, which = self.base.copy(), np.zeros((int(begins[-1]), len(self.base))), np.full(len(cells), -1)
        which[columns] = np.arange(len(columns))
        which[self.by_cell] = -1
        if window is None or gaps is None:
            window = np.column_stack([np.zeros_like(columns), np.diff(begins) - 2])
            gaps = np.ones(len(columns), dtype=bool)
        table = self.roots, self.slot, self.n_known, self.nodes, self.words, self.value
        loops.score_moves(which, begins, window, gaps, self.depth, point, here, *table, out)
        unordered = np.flatnonzero(self.by_cell[columns]).tolist()
        for i in unordered:
            n, paths = int(begins[i + 1] - begins[i]), self.follow(point[None, :])[1]
            steps = self.find_steps(int(columns[i]), np.zeros(n), point[None, :], here[None, :], paths)
            out[begins[i] : begins[i + 1]] = np.repeat(steps.scores, np.diff(np.append(steps.first, n)), axis=0)
        return out, here

    @cached_property
    def packed(self) -> Array:
        """Nodes in one word each ``(N,)``, where they fit in, for walks that take less time so."""
        loops, (column, cut, child, kind) = _require_loops(), self.nodes.T.astype(np.int64)
        leaf, word = column < 0, np.zeros(len(column), dtype=np.uint64)
        fits = (column < loops.LOOKED_UP) & (kind < 0) & (cut >= -1) & (cut + 1 < 2**loops.CUT_BITS)
        fits &= child < 2**loops.CHILD_BITS
        for part, bits in ((child, loops.CUT_BITS), (cut + 1, 1), (kind == -2, loops.COLUMN_BITS), (column, 0)):
            word = (word | np.where(fits & ~leaf, part, 0).astype(np.uint64)) << np.uint64(bits)
        return np.where(leaf, loops.LEAF, np.where(fits, word, loops.LOOKED_UP)).astype(np.uint64)

    @cached_property
    def depth(self) -> int:
        """Number of nodes on the longest way from a root to a leaf."""
        level, depth = self.roots, 0
        while len(level):
            child = self.nodes[level[self.nodes[level, 0] >= 0], 2]
            level, depth = np.concatenate([child, child + 1]), depth + 1
        return depth

    def renew_paths(self, column: int, moved: Array, cells: Array, paths: Array) -> None:
        """Renew, in place, the paths ``(n, T)`` of points that ``moved`` ``(n,)`` along a column to ``cells``."""
        loops, trees = _require_loops(), self.trees_of[column]
        table = self.roots, self.n_known, self.nodes, self.packed, self.words
        loops.renew_paths(column, moved, trees, cells, *table, paths)

    def find_steps(self, column: int, mass: Array, cells: Array, scores: Array, paths: Array) -> Steps:
        """Return the steps along a column of points on cells ``(n, m)`` with these scores and paths."""
        most = len(cells) * len(mass)
        starts, first = np.empty(len(cells) + 1, dtype=np.int64), np.empty(most, dtype=np.int32)
        masses, along = np.empty(most), np.empty((most, scores.shape[1]))
        ordered = mass[: 0 if self.by_cell[column] else self.n_known[column]]
        below, above = np.append(0.0, np.cumsum(ordered)), np.append(np.cumsum(ordered[::-1])[::-1], 0.0)
        loops = _require_loops()
        n = loops.find_steps(
            column, bool(self.by_cell[column]), mass, below, above, self.trees_of[column], cells, scores, paths,
            self.roots, self.slot, self.n_known, self.nodes, self.packed, self.words, self.value, starts, first, masses,
            along,
        )  # fmt: skip
        return Steps(starts, first[:n], masses[:n], along[:n])

    def scores_of(self, model: int, scores: Array) -> Array:
        """Return the scores ``(n, K)`` of one model, as its link expects them, out of all ``(n, S)``."""
        own, total = scores[:, self.owned[model]], self.totals[model]
        return own if np.isnan(total) else np.column_stack([total - own[:, 0], own[:, 0]])


def _require_loops() -> ModuleType:
    """Return the compiled loops, which callers have made sure of."""
    loops = compiled_loops()
    assert loops is not None
    return loops


class _Placed(NamedTuple):
    """One model on common cells: as in :class:`StackedTrees`, but for the children ``(N, 2)`` of its nodes."""

    nodes: Array
    children: Array
    words: Array
    value: Array
    base: Array
    roots: Array
    total: float


def _place_on_cells(trees: CellTrees, x0: Array, free: Array, common: Sequence[CommonCells], model: int) -> _Placed:
    """Express one model's splits in common cells, and skip those of which only one side can be followed."""
    given, n = trees.nodes, len(trees.nodes.feature)
    column = np.full(len(x0), _LEAF)
    column[free] = np.arange(len(free))
    split = given.feature >= 0
    nodes = np.full((n, 4), -1)
    follow = np.arange(n)  # where a point at this node goes at once: to itself, unless the split is resolved
    home = trees.cells(x0[None, :])[0]
    fixed = np.flatnonzero(split & (column[given.feature] < 0))
    follow[fixed] = _take_sides(trees, fixed, home[given.feature[fixed]])
    n_sets, sets = 0, list[Array]()
    for i, j in enumerate(free.tolist()):
        own, n_known = common[i].own[model], common[i].n_known
        some = np.flatnonzero(given.feature == j)
        nodes[some, 0] = i
        ordered, listed = some[given.group[some] < 0], some[given.group[some] >= 0]
        cut = np.searchsorted(own[:n_known], given.cut[ordered], side="right") - 1
        nodes[ordered, 1] = cut
        nodes[ordered, 3] = np.where(given.missing_left[ordered] & (len(own) > n_known), -2, -1)
        if len(own) == n_known:
            sides = np.where(cut < 0, given.right[ordered], given.left[ordered])
            follow[ordered] = np.where((cut < 0) | (cut >= n_known - 1), sides, ordered)
        if len(listed):
            nodes[listed, 3] = n_sets + np.arange(len(listed))
            sets.append(given.sets[given.group[listed]][:, own])
            n_sets += len(listed)
    while not np.array_equal(further := follow[follow], follow):
        follow = further
    nodes[~split, 0] = _LEAF
    children = np.where(split[:, None], np.column_stack([follow[given.left], follow[given.right]]), 0)
    value, base, total = _drop_dependent_score(trees)
    return _Placed(nodes, children, _pack_bits(sets), value, base, follow[given.roots], total)


def _pack_bits(sets: Sequence[Array]) -> Array:
    """Return sets of cells ``(n, m)`` of several columns as bits in words of 64 ``(n, most / 64)``."""
    words = [np.ascontiguousarray(np.packbits(one, axis=1, bitorder="little")) for one in sets]
    return _stack_padded([np.pad(one, ((0, 0), (0, -one.shape[1] % 8))).view("<u8") for one in words], np.uint64)


def _stack_padded(parts: Sequence[Array], kind: Any) -> Array:
    """Stack arrays ``(n, m)`` of different widths, padded by zeros."""
    width = max((part.shape[1] for part in parts), default=1)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
    return np.concatenate([np.zeros((0, width), dtype=kind), *padded])


def _take_sides(trees: CellTrees, which: Array, cell: Array) -> Array:
    """Return the child of each of the splits ``which`` ``(n,)`` to which a cell ``(n,)`` goes."""
    nodes = trees.nodes
    left = np.where(cell == trees.n_cells[nodes.feature[which]], nodes.missing_left[which], cell <= nodes.cut[which])
    listed = np.flatnonzero(nodes.group[which] >= 0)
    left[listed] = nodes.sets[nodes.group[which[listed]], cell[listed]]
    return np.where(left, nodes.left[which], nodes.right[which])


def _drop_dependent_score(trees: CellTrees) -> tuple[Array, Array, float]:
    """Return values ``(N, W)`` and base ``(W,)``, the second of two scores alone if their sum is a constant, and it."""
    nodes = trees.nodes
    value, leaf = nodes.value / nodes.divisor, nodes.feature < 0
    sums = value.sum(axis=1)
    if value.shape[1] != 2 or not len(sums[leaf]):
        return value, trees.base, float("nan")
    constant = float(sums[leaf][0])
    if np.abs(sums[leaf] - constant).max() > _SAME_SUM * max(abs(constant), _SAME_SUM):
        return value, trees.base, float("nan")
    return value[:, 1:], trees.base[1:], float(trees.base.sum() + constant * len(nodes.roots))


def _order_by_tree(nodes: Array, children: Array, roots: Array) -> tuple[Array, Array]:
    """Return the nodes that points can come to, tree by tree with siblings side by side, and the tree of each.

    The children of the larger of two siblings follow them at once, where a walk finds them in the same line of memory.
    """
    level, tree = roots, np.arange(len(roots))
    levels, trees = [], []
    while len(level):
        levels.append(level)
        trees.append(tree)
        split = nodes[level, 0] >= 0
        tree, level = np.repeat(tree[split], 2), children[level[split]].ravel()
    below = [np.zeros(len(level), dtype=np.int64) for level in levels]  # nodes below each
    for own, level, lower in zip(below[-2::-1], levels[-2::-1], below[:0:-1], strict=True):
        own[nodes[level, 0] >= 0] = 2 + lower.reshape(-1, 2).sum(axis=1)
    ends = np.cumsum(below[0] + 1)
    place, next_place = [ends - below[0] - 1], ends - below[0]
    for level, lower in zip(levels[:-1], below[1:], strict=True):
        begin, (left, right) = next_place[nodes[level, 0] >= 0], lower.reshape(-1, 2).T
        place.append((begin[:, None] + np.arange(2)).ravel())
        before = np.column_stack([np.where(left < right, right, 0), np.where(left < right, 0, left)])
        next_place = (begin[:, None] + 2 + before).ravel()
    found, tree_of, places = np.concatenate(levels), np.concatenate(trees), np.concatenate(place)
    order = np.argsort(places, kind="stable")
    return found[order], tree_of[order]


def _bound_scores(nodes: Array, tree_of: Array, value: Array, slot: Array, base: Array) -> Array:
    """Return bounds ``(2, S)`` of the scores: the sums of the least and of the greatest leaves of all trees."""
    leaf = np.flatnonzero(nodes[:, 0] < 0)
    ends = np.array([base, base])
    for w in range(value.shape[1]):
        for side, best, worst in ((0, np.minimum, np.inf), (1, np.maximum, -np.inf)):
            of_tree = np.full(len(slot), worst)
            best.at(of_tree, tree_of[leaf], value[leaf, w])
            np.add.at(ends[side], slot + w, of_tree)
    return ends
