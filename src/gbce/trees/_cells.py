"""Tree ensembles whose splits are expressed in cells of the encoded features.

A cell is an interval of a feature (or a category) that no tree splits further. Every leaf is a box of cells; scores,
outputs and the nearest attainable value in each cell follow without calling the model.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.base import Array, Outputs, Target
from gbce.predictors import Predictor
from gbce.space import Space
from gbce.trees._structure import ModelStructure

if TYPE_CHECKING:
    from gbce.trees._along import StackedTrees


# Links whose outputs follow from scores.
_LINKS = ("identity", "exp", "logistic", "softmax")
_SINGLE = 1e-10  # relative rounding error of a model's sums above which it computes in single precision


@cache
def compiled_loops() -> ModuleType | None:
    """Return the module of compiled loops over nodes; None if numba cannot be imported."""
    try:
        from gbce.trees import _loops
    except ImportError:
        return None
    return _loops


# --- ensembles on cells ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, for traversal: ``N`` nodes, ``T`` trees, ``S`` sets; arrays are ``(N,)`` unless noted.

    A cell of ``feature`` (-1 for a leaf) up to ``cut`` goes left, or one in the row ``group`` of ``sets`` ``(S, m)`` if
    that is not -1; ``missing_left`` is where the missing cell goes. ``value`` ``(N, K)`` is what a leaf adds to each
    score, and the sums are divided by ``divisor``. ``roots`` is ``(T,)``.
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
        """Right and left child of each node, interleaved ``(2N,)`` for a single lookup."""
        return np.column_stack([self.right, self.left]).ravel()


@dataclass(frozen=True, eq=False)
class CellTrees:
    """A tree ensemble on cells of ``d`` encoded features: ``L`` leaves, ``K`` scores.

    ``edges`` are the largest values of every cell but the last, for each feature: a value lies in the first cell whose
    edge is not below it. Cells are known from ``low`` to ``high`` ``(d,)``. Leaf ``l`` holds the cells ``first[l, j]``
    to ``last[l, j]`` of feature ``j`` (none if first is above last), and the missing one if ``missing[l, j]``; of the
    unordered ``set_features`` ``(s,)`` it holds the row ``set_of[l, s]`` of ``allowed[s]`` ``(n_sets, n_cells + 1)``.
    It belongs to ``tree`` ``(L,)``, ascending, and adds ``value`` ``(L, K)`` to ``base`` ``(K,)``. ``epsilon`` is the
    relative rounding error of the model's own sums; ``nodes`` are the same trees for traversal.
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
        """Number of cells of each feature ``(d,)`` without the missing one, whose index this is."""
        return np.array([len(edges) + 1 for edges in self.edges])

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.nodes.roots)

    @cached_property
    def used(self) -> Array:
        """Positions of the features on which some tree splits."""
        feature = self.nodes.feature
        return np.unique(feature[feature >= 0])

    @cached_property
    def largest_total(self) -> float:
        """Sum over trees of the largest value of a leaf, in size."""
        largest = np.zeros(self.n_trees)
        np.maximum.at(largest, self.tree, np.abs(self.value).max(axis=1))
        return float(largest.sum())

    def largest_sums(self, sizes: Array) -> Array:
        """Return sums over trees of the largest leaf, in size, that scores weighted by ``sizes`` ``(q, K)`` have."""
        key = sizes.tobytes()
        if key not in self._largest:
            largest, each = np.zeros((self.n_trees, len(sizes))), np.abs(self.value) @ sizes.T
            for q in range(len(sizes)):  # numpy is faster one column at a time
                np.maximum.at(largest[:, q], self.tree, each[:, q])
            self._largest[key] = largest.sum(axis=0)
        return self._largest[key]

    @cached_property
    def _largest(self) -> dict[bytes, Array]:
        return {}

    @cached_property
    def score_ends(self) -> tuple[tuple[float, float], ...]:
        """Lower and upper bounds of each score: the sums of the least and of the greatest leaves of all trees."""
        found = []
        for k, base in enumerate(self.base.tolist()):
            least, most = np.full(self.n_trees, np.inf), np.full(self.n_trees, -np.inf)
            np.minimum.at(least, self.tree, self.value[:, k])
            np.maximum.at(most, self.tree, self.value[:, k])
            found.append((base + float(least.sum()), base + float(most.sum())))
        return tuple(found)

    @cached_property
    def spans(self) -> tuple[tuple[Array, Array], ...]:
        """Lowest and highest number in each cell ``(n_cells,)``, for every feature."""
        with np.errstate(over="ignore"):
            return tuple(
                (np.concatenate([[-np.inf], np.nextafter(edges, np.inf)]), np.concatenate([edges, [np.inf]]))
                for edges in self.edges
            )

    def cells(self, x: Array) -> Array:
        """Return the cells ``(n, d)`` of encoded rows ``(n, d)``; a missing value has the index ``n_cells``."""
        found = np.zeros(x.shape, dtype=int)
        for j in self._split_features:
            found[:, j] = np.searchsorted(self.edges[j], x[:, j], side="left")
        is_missing = np.isnan(x)
        return np.where(is_missing, self.n_cells, found) if is_missing.any() else found

    @cached_property
    def _split_features(self) -> list[int]:
        """Features with more than one cell."""
        return [j for j, edges in enumerate(self.edges) if len(edges)]

    def covers(self, x: Array) -> Array:
        """Return which encoded rows ``(n, d)`` lie where cells are known ``(n,)``."""
        with np.errstate(invalid="ignore"):
            return np.asarray(~((x < self.low) | (x > self.high)).any(axis=1))

    def scores(self, cells: Array) -> Array:
        """Return scores ``(n, K)`` of cells ``(n, d)``; neighbouring rows that lie close together take less time."""
        loops = compiled_loops()
        assert loops is not None  # without it no ensemble is read
        total = np.zeros((len(cells), self.nodes.value.shape[1]))
        loops.sum_leaves(cells, *self._walked, total)
        return np.asarray(self.base + total / self.nodes.divisor)

    def score_moves(self, cells: Array, features: Array, begins: Array) -> Array:
        """Return scores ``(N + 1, K)`` after moving cells ``(d,)`` along one of some features, and last those here.

        The cells of each of the ``features`` ``(m,)``, the missing one last, begin at ``begins`` ``(m + 1,)``.
        """
        moved, here = self._stacked.score_moves(cells, features, begins)
        return np.asarray(self.base + np.vstack([moved, here]) / self.nodes.divisor)

    def score_steps(
        self, cells: Array, features: Array, begins: Array, start: Array, here: Array, price: Array, room: Array
    ) -> tuple[Array, Array]:
        """Return the moves ``(n,)`` of :meth:`score_moves` to the nearest cell of each score, and scores.

        Cells of a ``price`` ``(N,)`` up to the ``room`` ``(m,)`` of their feature can be had; others of the same score
        are further away. The last of the scores ``(n + 1, K)`` are those here; ``here`` ``(m,)`` are the positions of
        ``cells``, ``start`` ``(m,)`` those from which prices rise.
        """
        loops = compiled_loops()
        assert loops is not None
        window, gaps = np.empty((len(here), 2), dtype=np.int64), np.empty(len(here), dtype=bool)
        loops.find_windows(begins, start, here, price, room, window, gaps)
        moved, own = self._stacked.score_moves(cells, features, begins, window, gaps)
        marked = np.zeros(len(moved), dtype=bool)
        loops.mark_steps(begins, window, here, self._stacked.by_cell[features], price, room, moved, marked)
        to = np.flatnonzero(marked)
        return to, np.asarray(self.base + np.vstack([moved[to], own]) / self.nodes.divisor)

    def score_runs(
        self, cells: Array, features: Array, begins: Array, here: Array, price: Array, changed: Array
    ) -> tuple[Array, Array]:
        """Return the moves ``(n,)`` of :meth:`score_moves` to the cheapest cell of each run of equal scores.

        Cells of a finite ``price`` ``(N,)`` can be had, ``changed`` ``(N,)`` are kept apart; ``here`` ``(m,)`` are the
        positions of ``cells``. Their scores are returned, too, the last of which ``(n + 1, K)`` are those here.
        """
        loops = compiled_loops()
        assert loops is not None
        moved, own = self._stacked.score_moves(cells, features, begins)
        marked = np.zeros(len(moved), dtype=bool)
        loops.mark_cheapest(begins, here, self._stacked.by_cell[features], price, changed, moved, marked)
        to = np.flatnonzero(marked)
        return to, np.asarray(self.base + np.vstack([moved[to], own]) / self.nodes.divisor)

    @cached_property
    def _stacked(self) -> "StackedTrees":
        """The same trees for loops along columns."""
        from gbce.trees._along import StackedTrees

        return StackedTrees.whole(self)

    @cached_property
    def _walked(self) -> tuple[Array, ...]:
        """The stacked trees with leaves as their own children."""
        stacked = self._stacked
        nodes = stacked.nodes.copy()
        leaf = np.flatnonzero(nodes[:, 0] < 0)
        nodes[leaf, 2] = leaf
        return stacked.roots, stacked.n_known, nodes, stacked.words, stacked.value

    def outputs(self, cells: Array) -> Array:
        """Return the model's outputs, ``(n,)`` or one column per class, of cells ``(n, d)``."""
        return self.inside.link_scores(self.scores(cells))

    def leaves_between(self, features: Array, low: Array, high: Array) -> Array:
        """Return the positions of the leaves that hold some cell from ``low`` to ``high`` of each of ``features``.

        All are ``(c,)``. Of unordered features the cells are known ones; a missing one stands alone.
        """
        held, alone = np.ones(len(self.tree), dtype=bool), np.isin(features, self.set_features)
        alone |= low > np.minimum(high, self.n_cells[features] - 1)
        loops = compiled_loops()
        assert loops is not None
        loops.drop_leaves(self.first, self.last, *(one[~alone] for one in (features, low, high)), held)
        for j, begin, end in zip(*(one[alone].tolist() for one in (features, low, high)), strict=True):
            own = np.flatnonzero(self.set_features == j)
            if len(own):
                held &= self.allowed[own[0]][:, begin : end + 1].any(axis=1)[self.set_of[:, own[0]]]
            else:
                held &= self.missing[:, j]
        return np.flatnonzero(held)

    def holds(self, j: int, cell: int) -> Array:
        """Return which leaves ``(L,)`` hold a cell of feature ``j``."""
        own = np.flatnonzero(self.set_features == j)
        if len(own):
            return np.asarray(self.allowed[own[0]][self.set_of[:, own[0]], cell])
        if cell == len(self.edges[j]) + 1:
            return self.missing[:, j]
        return np.asarray((self.first[:, j] <= cell) & (cell <= self.last[:, j]))


# --- model outputs ---------------------------------------------------------------------------------------------------


def why_unreadable(trees: CellTrees, predictor: Predictor, target: Target) -> str:
    """Return why leaf sums do not determine what a target reads from a model; empty if they do."""
    if trees.inside.link not in _LINKS:
        return f"the link between the tree sums of {predictor.name} and its outputs is not known"
    if target.reads_classes and (predictor.decide_always or predictor.classes != trees.inside.classes):
        return f"{predictor.name} does not decide by the probabilities of its trees alone"
    return ""


def outputs_of(trees: CellTrees, predictor: Predictor, scores: Array) -> Outputs:
    """Return the outputs of scores ``(n, K)`` in the form and precision of the model's own."""
    values = trees.inside.link_scores(scores)
    if trees.inside.link == "logistic" and trees.epsilon > _SINGLE:
        positive = values[:, 1].astype(np.float32).astype(float)
        values = np.column_stack([1.0 - positive, positive])
    is_pair = values.ndim == 2 and values.shape[1] == 2
    if predictor.classes is None and is_pair:  # a function that returns one of the two
        values = values[:, 1]
    if predictor.classes is None:
        return Outputs(values, model=predictor.name)
    return Outputs(values, predictor.classes, values.argmax(axis=1), predictor.name)


# --- attainable values -----------------------------------------------------------------------------------------------


def nearest_values(
    trees: CellTrees, space: Space, x0: Array, j: int, limits: tuple[Array, Array] | None = None
) -> Array:
    """Return the attainable value nearest to the row's in each cell of feature ``j`` ``(n_cells + 1,)``.

    Values are encoded and representable in the column's dtype; NaN for cells out of reach. The last entry, for the
    missing cell, is always NaN: ``space.may_become_missing`` and the row decide about that one. ``limits`` is
    ``space.limits(x0)``, passed in to avoid computing it once per feature.
    """
    edges = trees.edges[j]
    low, high = (float(end[j]) for end in (space.limits(x0) if limits is None else limits))
    now = float(x0[j])
    found = np.full(len(edges) + 2, np.nan)
    if np.isnan(low):  # missing, and it stays missing
        return found
    low, high = max(low, float(trees.low[j])), min(high, float(trees.high[j]))
    bottom, top = trees.spans[j]
    if space.features[j].discrete:
        bottom, top = np.ceil(bottom), np.floor(top)
    bottom, top = np.maximum(bottom, low), np.minimum(top, high)
    if np.isnan(now):  # reference value when it becomes known
        centre = space.features[j].centre
        now = float(np.clip(0.0 if centre is None else centre, low, high))
        now = float(np.round(now)) if space.features[j].discrete else now
    found[:-1] = np.where(bottom <= top, np.clip(now, bottom, np.maximum(bottom, top)), np.nan)
    if space.features[j].forbidden:
        found[:-1] = _nearest_levels(space.features[j].levels_from(float(x0[j])), found[:-1], bottom, top)
    kind = dict(space.low_precision).get(j)
    return found if kind is None else _keep_digits(edges, found, float(x0[j]), low, high, kind)


def _nearest_levels(allowed: Array, wanted: Array, bottom: Array, top: Array) -> Array:
    """Return the allowed level nearest to the ``wanted`` one in each cell ``(c,)``; NaN where there is none."""
    inside = (allowed >= bottom[:, None]) & (allowed <= top[:, None])
    apart = np.where(inside, np.abs(allowed - wanted[:, None]), np.inf)
    return np.where(inside.any(axis=1), allowed[np.nan_to_num(apart, nan=np.inf).argmin(axis=1)], np.nan)


def _keep_digits(edges: Array, values: Array, now: float, low: float, high: float, kind: np.dtype[Any]) -> Array:
    """Return values in the same cells that a low-precision dtype can represent; NaN if there is none."""
    cell = np.arange(len(values))
    found = np.full(len(values), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(kind)
        tried = [np.nextafter(near, kind.type(end)) for end in (-np.inf, np.inf)]
    for one in (*tried, near):  # the last that fits wins
        wide = one.astype(float)
        fits = (np.searchsorted(edges, wide, side="left") == cell) & (wide >= low) & (wide <= high)
        found = np.where(fits & ~np.isnan(wide), wide, found)
    return np.where(values == now, now, found)
