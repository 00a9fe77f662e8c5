"""Ranges around a point within which a tree ensemble is guaranteed to stay in the target and constraints hold.

They come from a safe box of cells: for one or two features the largest there is, for more a box that grows greedily.
Where constraints between columns cut into it, its ends are shrunk.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from gbce._numerics import ROUNDING, WIDE_ROUNDING
from gbce.base import Array, Target
from gbce.space import Constraint, Space
from gbce.trees._cells import CellTrees
from gbce.trees._grid import Axis, Grid
from gbce.trees._question import ScoreConstraints, score_constraints
from gbce.trees._structure import MORE_TERMS

_MOST_CELLS = 500_000  # cells of two features, summed in some hundredths of a second; with more, those near the point
_MOST_STOPS = 400  # ends of a box on either side of the first feature; with more, a subset is tried
_MOST_STEPS = 5_000  # cells or runs of cells added, a fraction of a second; hand-tuned


class AllowedCells(NamedTuple):
    """Cells that one feature may have: the first and the last, and where each begins ``(n_cells + 1,)``."""

    first: int
    last: int
    places: Array
    least: float  # minimum width, of a single cell
    empty: Array = np.zeros(0, dtype=bool)  # cells without an attainable value, if any

    def none_in(self, first: int, last: int) -> Array:
        """Return which of the cells from ``first`` to ``last`` hold no attainable value."""
        return self.empty[first : last + 1] if len(self.empty) else np.zeros(last + 1 - first, dtype=bool)

    def width(self, first: int, last: int) -> float:
        """Return the total width of cells."""
        return max(float(self.places[last + 1] - self.places[first]), self.least)


def find_boxes(
    trees: CellTrees, cells: Array, which: Array, weights: Array, least: Array, allowed: list[AllowedCells]
) -> tuple[Array, Array] | None:
    """Return the first and last cells ``(k, c)`` of the maximal safe boxes of one or two features around a point.

    None if the point's own cells ``(d,)`` are not safe. With too many cells, only those near the point are considered.
    ``weights`` ``(q, K)`` are those of each sum of scores, ``least`` ``(q,)`` its lower bound.
    """
    here, ends = cells[which], np.array([[axis.first, axis.last] for axis in allowed])
    for i, axis in enumerate(allowed):  # no box extends beyond what is safe if this feature alone varies
        good = _check_cells(trees, cells, which[[i]], weights, least, ends[[i]]) | axis.none_in(*ends[i])
        at = int(here[i] - ends[i, 0])
        if not (0 <= at < len(good) and good[at]):
            return None
        ends[i] = here[i] - _count_run(good[at::-1]), here[i] + _count_run(good[at:])
    if len(which) == 1:
        return ends[None, :, 0], ends[None, :, 1]
    ends = _narrow(ends, here)
    good = _check_cells(trees, cells, which, weights, least, ends)
    good |= allowed[0].none_in(*ends[0])[:, None] | allowed[1].none_in(*ends[1])
    low, high = _find_largest_boxes(good, *(here - ends[:, 0]).tolist())
    return low + ends[:, 0], high + ends[:, 0]


def _check_cells(trees: CellTrees, cells: Array, which: Array, weights: Array, least: Array, ends: Array) -> Array:
    """Return where sums meet their bounds on the grid of cells of some features between ends ``(c, 2)``."""
    tops = [np.append(trees.edges[j], np.inf)[first : last + 1] for j, (first, last) in zip(which, ends, strict=True)]
    axes = [Axis(int(j), top) for j, top in zip(which, tops, strict=True)]
    met = [(scores @ weights.T >= least).all(axis=-1) for scores in Grid(trees, cells, which).scores(axes)]
    return np.concatenate(met)


def _count_run(good: Array) -> int:
    """Return how many cells after the first are good until one is not."""
    return int(np.argmin(np.append(good[1:], False)))


def _narrow(ends: Array, cells: Array) -> Array:
    """Move ends ``(2, 2)`` closer to a point's cells if there are too many cells between them."""
    share = np.sqrt(_MOST_CELLS / np.prod(ends[:, 1] + 1.0 - ends[:, 0]))
    return ends if share >= 1 else cells[:, None] + (share * (ends - cells[:, None])).astype(int)


def _find_largest_boxes(good: Array, a: int, b: int) -> tuple[Array, Array]:
    """Return the ends ``(k, 2)``, inclusive, of boxes of good cells ``(n, m)`` around a cell, with all maximal ones.

    The column of the cell itself is good throughout. Of very many ends on one side, only some are tried.
    """
    right, left = good[:, b:], good[:, b::-1]
    stop = b + np.argmin(np.column_stack([right, np.zeros(len(good), dtype=bool)]), axis=1) - 1
    begin = b + 1 - np.argmin(np.column_stack([left, np.zeros(len(good), dtype=bool)]), axis=1)
    sides = []
    for rows in (np.arange(a, -1, -1), np.arange(a, len(good))):
        low, high = np.maximum.accumulate(begin[rows]), np.minimum.accumulate(stop[rows])
        at = np.flatnonzero(np.append((low[1:] != low[:-1]) | (high[1:] != high[:-1]), True))
        if len(at) > _MOST_STOPS:
            at = at[np.linspace(0, len(at) - 1, _MOST_STOPS).astype(int)]
        sides.append((rows[at], low[at], high[at]))
    (above, low, high), (below, other_low, other_high) = sides
    first = np.column_stack([np.repeat(above, len(below)), np.maximum.outer(low, other_low).ravel()])
    last = np.column_stack([np.tile(below, len(above)), np.minimum.outer(high, other_high).ravel()])
    return first, last


def grow_box(box: "GrowingBox", allowed: list[AllowedCells]) -> tuple[Array, Array]:
    """Return the first and last cells ``(c,)`` after growing a box by runs of cells while some fit."""
    closed: set[tuple[int, int]] = set()
    for _ in range(_MOST_STEPS):
        best: tuple[float, int, int, int] | None = None
        for i, axis in enumerate(allowed):
            for side, end in ((-1, axis.first), (1, axis.last)):
                if (i, side) in closed:
                    continue
                slack_then = box.slacks_towards(i, side, end)
                slack_then = slack_then[: int(np.count_nonzero(slack_then >= 0))]
                if not len(slack_then):  # a larger box loses more, so this side is closed
                    closed.add((i, side))
                    continue
                gain = _compute_gains(axis, int(box.first[i]), int(box.last[i]), side, len(slack_then))
                score = gain / (box.slack - slack_then + WIDE_ROUNDING * (1.0 + box.slack))
                most = int(np.argmax(score))
                if best is None or score[most] > best[0]:
                    best = float(score[most]), i, side, most + 1
        if best is None:
            break
        _, i, side, n = best
        box.add(i, side, n)
    return box.first, box.last


def _compute_gains(axis: AllowedCells, first: int, last: int, side: int, n: int) -> Array:
    """Return the width added by one to ``n`` more cells on a side ``(n,)``, as shares of the allowed range."""
    if side > 0:
        wider = axis.places[last + 2 : last + 2 + n] - axis.places[first]
    else:
        wider = axis.places[last + 1] - axis.places[first - n : first][::-1]
    gain = np.maximum(wider, axis.least) - axis.width(first, last)
    return np.asarray(gain / axis.width(axis.first, axis.last))


class GrowingBox:
    """A box of cells, and the slack by which the worst leaves that intersect it exceed the bounds.

    It counts for each of the leaves ``some`` ``(m,)``, in the order of their trees, the features ``which`` ``(c,)`` in
    which it lies outside: a new cell of one feature brings in only leaves that lie outside in that feature alone. It
    begins at ``cells`` ``(c,)``; ``weights`` ``(q, K)`` are those of each sum of scores, ``least`` ``(q,)`` its lower
    bound.
    """

    def __init__(self, trees: CellTrees, some: Array, which: Array, cells: Array, weights: Array, least: Array) -> None:
        self.first, self.last = cells.copy(), cells.copy()
        tree = trees.tree[some]
        begins = np.concatenate([[True], tree[1:] != tree[:-1]])
        self._tree = np.cumsum(begins) - 1
        self._worth, self._least = trees.value[some] @ weights.T, least
        self._feature_leaves = [_FeatureLeaves(trees, int(j), some) for j in which.tolist()]
        inside = [leaves.meets(cell) for leaves, cell in zip(self._feature_leaves, cells.tolist(), strict=True)]
        self._outside = ~np.array(inside).reshape(len(inside), len(some))
        self._n_outside = self._outside.sum(axis=0)
        meets = (self._n_outside == 0)[:, None]
        self._worst = np.minimum.reduceat(np.where(meets, self._worth, np.inf), np.flatnonzero(begins), axis=0)
        self.slack = self._compute_slack(self._worst)

    def slacks_towards(self, i: int, side: int, end: int) -> Array:
        """Return the slacks ``(n,)`` after adding one, two, ... cells of the ``i``-th feature, up to an end."""
        begin = int(self.last[i] if side > 0 else self.first[i])
        n = (end - begin) * side
        if n <= 0:
            return np.zeros(0)
        leaves = np.flatnonzero(self._outside[i] & (self._n_outside == 1))
        when = self._feature_leaves[i].steps_to(leaves, begin, side)  # the first step that brings in each leaf
        leaves, when = leaves[when <= n], when[when <= n]
        lost = np.array([self._compute_losses(leaves, when, k, n) for k in range(self._worth.shape[1])])
        now = self._worst.sum(axis=0) - self._least
        return np.asarray((now[:, None] - np.cumsum(lost, axis=1)).min(axis=0))

    def _compute_losses(self, leaves: Array, when: Array, k: int, n: int) -> Array:
        """Return how much each of ``n`` steps takes from the ``k``-th sum ``(n,)`` by bringing in leaves."""
        worse = self._worth[leaves, k] < self._worst[self._tree[leaves], k]
        leaves, when = leaves[worse], when[worse]
        order = np.lexsort((when, self._tree[leaves]))
        leaves, when = leaves[order], when[order]
        tree, worth = self._tree[leaves], self._worth[leaves, k]
        lowest = _running_minimum(tree, worth)
        begins = np.diff(tree, prepend=-1) > 0
        before = np.where(begins, self._worst[tree, k], np.concatenate([worth[:1], lowest[:-1]]))
        return np.asarray(np.bincount(when - 1, weights=before - lowest, minlength=n))

    def add(self, i: int, side: int, n: int) -> None:
        """Add the next ``n`` cells of the ``i``-th feature below (-1) or above (1)."""
        new = self._feature_leaves[i].between(int((self.first if side < 0 else self.last)[i]), side, n)
        new = new[self._outside[i][new]]
        (self.first if side < 0 else self.last)[i] += side * n
        self._outside[i][new] = False
        self._n_outside[new] -= 1
        met = new[self._n_outside[new] == 0]
        if len(met):
            self._worst = self._update_worst(met)
            self.slack = self._compute_slack(self._worst)

    def _update_worst(self, leaves: Array) -> Array:
        """Return the worst leaf of each tree after adding leaves."""
        worst, tree = self._worst.copy(), self._tree[leaves]
        for k in range(worst.shape[1]):  # numpy is faster one column at a time
            np.minimum.at(worst[:, k], tree, self._worth[leaves, k])
        return worst

    def _compute_slack(self, worst: Array) -> float:
        """Return the slack of the worst leaves."""
        return float((worst.sum(axis=0) - self._least).min())


def _running_minimum(group: Array, values: Array) -> Array:
    """Return the running minimum within groups ``(n,)``, which are sorted ascending."""
    if not len(values):
        return values
    upwards = np.argsort(values, kind="stable")
    rank = np.empty(len(values), dtype=int)
    rank[upwards] = np.arange(len(values))
    shift = (group[-1] - group) * len(values)  # each group ranks below all earlier ones, so the minimum restarts
    return np.asarray(values[upwards[np.minimum.accumulate(rank + shift) - shift]])


class _FeatureLeaves:
    """Which leaves ``(m,)`` hold a cell of one feature."""

    def __init__(self, trees: CellTrees, j: int, some: Array) -> None:
        own = np.flatnonzero(trees.set_features == j)
        self._allowed: Array | None = None
        if len(own):
            self._allowed = trees.allowed[own[0]][trees.set_of[some, own[0]]]
        else:
            self._first, self._last = trees.first[some, j], trees.last[some, j]

    def between(self, begin: int, side: int, n: int) -> Array:
        """Return the leaves that hold some of ``n`` cells beyond one, on a side, but not that one."""
        if self._allowed is not None:
            cells = begin + side * np.arange(1, n + 1)
            return np.flatnonzero(self._allowed[:, cells].any(axis=1) & ~self._allowed[:, begin])
        away = self._first.astype(int) - begin if side > 0 else begin - self._last.astype(int)
        return np.flatnonzero((away > 0) & (away <= n) & (self._first <= self._last))

    def meets(self, cell: int) -> Array:
        """Return which leaves hold a cell."""
        if self._allowed is not None:
            return np.asarray(self._allowed[:, cell], dtype=bool)
        return np.asarray((self._first <= cell) & (self._last >= cell))

    def steps_to(self, leaves: Array, begin: int, side: int) -> Array:
        """Return the distance in cells to leaves on a side; a huge number for leaves on the other side."""
        if self._allowed is not None:
            ahead = self._allowed[leaves][:, begin + 1 :] if side > 0 else self._allowed[leaves][:, :begin][:, ::-1]
            never = np.ones((len(leaves), 1), dtype=bool)
            away = np.argmax(np.hstack([ahead, never]), axis=1) + 1
            return np.where(away > ahead.shape[1], np.iinfo(int).max, away)
        away = self._first[leaves].astype(int) - begin if side > 0 else begin - self._last[leaves].astype(int)
        return np.where(away > 0, away, np.iinfo(int).max)


_MOST_EXACT = 2  # features for which all cells are summed
_TIGHTER = 1e-9  # relative safety margin for links and the target's own comparisons
_LEAST_WIDTH = 1e-3  # width of a single cell for growing, in units of the feature's scale
_WIDEST = 10.0  # width of an unbounded cell, in units of the feature's scale


class Ranges(NamedTuple):
    """Features ``(c,)`` by position, with the lowest and highest encoded value of each ``(c,)``."""

    features: Array
    low: Array
    high: Array


def find_safe_ranges(
    trees: CellTrees,
    space: Space,
    x0: Array,
    x: Array,
    target: Target,
    which: Array,
    constraints: Sequence[Constraint] | None = None,
) -> Ranges | None:
    """Return ranges of the features ``which``, all others fixed, within which every row reaches the target.

    ``x`` ``(d,)`` is a point that reaches it. Each range contains the point's own value; those of one or two features
    have the largest product of widths. A range has no end where it reaches a bound that was only assumed, and the
    model's last cell with it. Every row in them satisfies ``constraints``, by
    default the space's own: a column has no range if a constraint on it does not reduce to linear inequalities once the
    fixed columns are filled in. Categories, booleans and missing values have none. None if score bounds are not
    sufficient for the target, if there are computed columns, or if no range is more than a point.
    """
    # in single precision, a link may round an output across the target's limit
    rounds = trees.epsilon > ROUNDING and trees.inside.link != "identity"
    bounds = score_constraints(trees.inside, target, slack=-ROUNDING if rounds else 0.0)
    if bounds is None or not bounds.sufficient or space.is_computed.any():
        return None
    if not trees.covers(x[None, :])[0]:
        return None
    which = np.array([j for j in which.tolist() if not space.features[j].unordered and not np.isnan(x[j])], dtype=int)
    constraints = space.constraints if constraints is None else constraints
    which, half_spaces = _linearise_constraints(space, x, which, constraints)
    if not len(which):
        return None
    allowed = [_allow_cells(trees, space, x0, j, space.limits(x0)) for j in which.tolist()]
    grown = _find_boxes(trees, trees.cells(x[None, :])[0], bounds, which, allowed)
    if grown is None:
        return None
    low, high = _apply_half_spaces(half_spaces, x[which], *_find_ends(trees, space, x0, which, *grown))
    low, high = _pick_widest(space, which, allowed, low, high)
    low, high = _keep_clear(space, x, which, half_spaces, constraints, low, high)
    some = high > low
    return Ranges(which[some], low[some], high[some]) if some.any() else None


def _linearise_constraints(
    space: Space, x: Array, which: Array, constraints: Sequence[Constraint]
) -> tuple[Array, list["_HalfSpace"]]:
    """Return the features that may vary and the linear inequalities that constraints impose on them."""
    while True:
        names, half_spaces = [space.names[j] for j in which.tolist()], []
        for constraint in constraints:
            about = set(names) & set(names if (known := constraint.names()) is None else known)
            found = constraint.among(space, x, about) if about else []
            if found is None:  # not linear in these
                which = which[[name not in about for name in names]]
                break
            half_spaces += [
                _HalfSpace(np.array([weights.get(name, 0.0) for name in names]), bound) for weights, bound in found
            ]
        else:
            return which, [half_space for half_space in half_spaces if half_space.weights.any()]


class _HalfSpace(NamedTuple):
    """An inequality ``weights @ x <= bound`` on the features that vary."""

    weights: Array
    bound: float


def _find_boxes(
    trees: CellTrees, cells: Array, bounds: ScoreConstraints, which: Array, allowed: list[AllowedCells]
) -> tuple[Array, Array] | None:
    """Return the first and last cells ``(k, c)`` of safe boxes; None if the point's own cells are not safe."""
    least = bounds.least + bounds.margins(trees) + _TIGHTER * np.maximum(1.0, np.abs(bounds.least))
    if len(which) <= _MOST_EXACT:
        return find_boxes(trees, cells, which, bounds.weights, least, allowed)
    fixed = np.setdiff1d(trees.used, which)
    some = trees.leaves_between(fixed, cells[fixed], cells[fixed])
    box = GrowingBox(trees, some, which, cells[which], bounds.weights, least - bounds.weights @ trees.base)
    if not box.slack >= 0:
        return None
    first, last = grow_box(box, allowed)
    return first[None, :], last[None, :]


def _allow_cells(trees: CellTrees, space: Space, x0: Array, j: int, limits: tuple[Array, Array]) -> AllowedCells:
    """Return the known cells within the limits, with widths in units of the feature's scale."""
    low, high = (float(end[j]) for end in limits)
    edges, scale = trees.edges[j], float(space.scale[j])
    far = _WIDEST * scale
    begin = edges[0] - far if len(edges) else x0[j] - far
    end = edges[-1] + far if len(edges) else x0[j] + far
    places = np.concatenate([[max(low, begin)], np.clip(edges, low, high), [min(high, end)]]) / scale
    known = [max(low, float(trees.low[j])), min(high, float(trees.high[j]))]
    first, last = np.searchsorted(edges, known, side="left").tolist()
    empty = np.zeros(0, dtype=bool)
    if space.features[j].discrete and len(edges):
        whole = np.floor(edges)
        empty = np.concatenate([[False], whole[1:] == whole[:-1], [False]])
    return AllowedCells(first, last, places, _LEAST_WIDTH, empty)


def _find_ends(
    trees: CellTrees, space: Space, x0: Array, which: Array, first: Array, last: Array
) -> tuple[Array, Array]:
    """Return the lowest and highest values ``(k, c)`` of ranges of cells ``(k, c)``, within the limits."""
    low, high = np.empty(first.shape), np.empty(first.shape)
    limits = space.limits(x0)
    for i, j in enumerate(which.tolist()):
        bottom = np.concatenate([[-np.inf], np.nextafter(trees.edges[j], np.inf)])[first[:, i]]
        top = np.append(trees.edges[j], np.inf)[last[:, i]]
        least, most = _find_limits(space, j, float(limits[0][j]), float(limits[1][j]), bottom, top)
        low[:, i] = np.maximum(np.maximum(bottom, least), float(trees.low[j]))
        high[:, i] = np.minimum(np.minimum(top, most), float(trees.high[j]))
    return low, high


def _find_limits(space: Space, j: int, low: float, high: float, bottom: Array, top: Array) -> tuple[Array, Array]:
    """Return the limits of ranges ``(k,)``; a bound that was assumed does not limit the model's outermost cells."""
    feature = space.features[j]
    below = feature.stretch and feature.direction != "increase"
    above = feature.stretch and feature.direction != "decrease"
    return np.where(below & np.isinf(bottom), -np.inf, low), np.where(above & np.isinf(top), np.inf, high)


def _apply_half_spaces(half_spaces: list[_HalfSpace], x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Shrink ranges ``(k, c)`` around a point ``(c,)`` until they satisfy the inequalities; returns ranges ``(n, c)``.

    The slack of an inequality is divided among features in proportion and, for two features, also given to either
    first.
    """
    orders = [None, *permutations(range(len(x)))] if 1 < len(x) <= _MOST_EXACT and half_spaces else [None]
    found = []
    for order in orders:
        ends = low, high
        for half_space in half_spaces:
            ends = _shrink_ranges(half_space, x, *ends, order)
        found.append(ends)
    return np.vstack([ends[0] for ends in found]), np.vstack([ends[1] for ends in found])


def _shrink_ranges(
    half_space: _HalfSpace, x: Array, low: Array, high: Array, order: tuple[int, ...] | None
) -> tuple[Array, Array]:
    """Shrink ranges ``(k, c)`` until they satisfy one inequality; features in ``order`` extend as far as possible."""
    weights, left = half_space.weights, max(half_space.bound - float(half_space.weights @ x), 0.0)
    wanted = np.zeros(low.shape)
    for i in np.flatnonzero(weights).tolist():
        wanted[:, i] = weights[i] * ((high if weights[i] > 0 else low)[:, i] - x[i])
    granted = np.minimum(wanted, left)
    if order is None:
        total = granted.sum(axis=1, keepdims=True)
        granted = granted * (left / np.maximum(total, max(left, np.finfo(float).tiny)))
    else:
        spent = np.cumsum(granted[:, order], axis=1) - granted[:, order]
        granted[:, order] = np.clip(left - spent, 0.0, granted[:, order])
    low, high = low.copy(), high.copy()
    for i in np.flatnonzero(weights).tolist():
        ends, less = (high if weights[i] > 0 else low)[:, i], granted[:, i] < wanted[:, i]
        ends[less] = x[i] + granted[less, i] / weights[i]
    return low, high


def _keep_clear(
    space: Space,
    x: Array,
    which: Array,
    half_spaces: list[_HalfSpace],
    constraints: Sequence[Constraint],
    low: Array,
    high: Array,
) -> tuple[Array, Array]:
    """Move ends ``(c,)`` that rounding puts beyond a constraint towards the point, by no more than rounding."""
    names, own = {space.names[j] for j in which.tolist()}, x[which]
    about = [one for one in constraints if names & set(one.names() or ())]
    for weights, bound in half_spaces:
        up, down = weights > 0, weights < 0
        corner = x.copy()
        corner[which] = np.where(up, high, np.where(down, low, own))
        if all(one.holds(space, corner[None, :])[0] for one in about):
            continue
        far = np.maximum(np.abs(corner[which]), np.abs(own))[up | down]
        size = abs(bound) + float(np.abs(weights[up | down]) @ far)
        step = (MORE_TERMS + len(far)) * np.spacing(size) / np.where(up | down, np.abs(weights), np.inf)
        low, high = np.where(down, np.minimum(low + step, own), low), np.where(up, np.maximum(high - step, own), high)
    is_integer = space.discrete[which]
    return np.where(is_integer, np.ceil(low), low), np.where(is_integer, np.floor(high), high)


def _pick_widest(
    space: Space, which: Array, allowed: list[AllowedCells], low: Array, high: Array
) -> tuple[Array, Array]:
    """Return the ends ``(c,)`` of the ranges ``(k, c)`` with the largest product of widths, in integer steps."""
    log_widths = np.zeros(len(low))
    for i, (j, axis) in enumerate(zip(which.tolist(), allowed, strict=True)):
        if space.features[j].discrete:
            low[:, i], high[:, i] = np.ceil(low[:, i]), np.floor(high[:, i])
        ends = [np.clip(end[:, i] / space.scale[j], axis.places[0], axis.places[-1]) for end in (low, high)]
        log_widths += np.log(np.maximum(ends[1] - ends[0], axis.least))
    best = int(np.argmax(log_widths))
    return low[best], high[best]
