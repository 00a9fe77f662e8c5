"""Branch and bound over boxes: whether any row of a box can meet conditions on a sum over trees.

A box is bounded by the best leaf of each tree among those that it meets. Where that is not enough it is cut in two at a
node that the best leaves disagree about, until every part misses a condition, or one part has leaves that agree, or the
limit is met.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.predictors import TreeScores
from gbce.search._proofs._conditions import Conditions
from gbce.search._proofs._range import Box, Range

__all__ = ["MOST_BOXES", "Outcome", "bound_trees"]

MOST_BOXES = 2_000  # by hand: a few seconds at most, and what a few hundred boxes do not decide seldom ends at all
_MOST_CELLS = 20_000_000  # numbers in the boxes of leaves: 160 MB for each end
_MOST_WORK = 100_000_000  # numbers compared in all; by hand: a second or two


class Outcome(NamedTuple):
    """What was found: whether every row misses a condition, each condition's sums where it is the one, and the effort.

    ``sums`` ``(q,)`` are the largest that any row can have of a condition; NaN where another one decided in some box.
    """

    proved: bool
    sums: Array
    boxes: int


class _Leaves(NamedTuple):
    """Leaves that a box meets: above ``low`` and up to ``high`` in every column, or missing where that is ``taken``."""

    low: Array
    high: Array
    taken: Array
    tree: Array
    worth: Array

    def pick(self, which: Array) -> "_Leaves":
        return _Leaves(*(part[which] for part in self))


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the range: its box, which values of the few are alive, and the leaves it meets."""

    box: Box
    alive: tuple[Array, ...]
    leaves: _Leaves


def bound_trees(
    trees: TreeScores, rows: Range, conditions: Conditions, margin: Array, most_boxes: int = MOST_BOXES
) -> Outcome:
    """Return whether every row of a range misses a condition by more than its ``margin`` ``(q,)``."""
    undecided = Outcome(False, np.full(len(margin), np.nan), 1)
    used = np.unique(trees.column[trees.column >= 0])
    leaves = _meet(trees, rows.box, used, conditions)
    if leaves is None:
        return undecided
    base = conditions.weights @ trees.base
    open_parts = [_Part(rows.box, tuple(np.ones(len(one.values), dtype=bool) for one in rows.few), leaves)]
    largest = np.full(len(margin), -np.inf)
    boxes = work = 0
    while open_parts:
        part = open_parts.pop()
        boxes += 1
        work += part.leaves.low.size
        if boxes > most_boxes or work > _MOST_WORK:
            return undecided._replace(boxes=boxes - 1)
        best, sums = _best(part.leaves, base)
        if len(best[0]) < len(trees.roots):  # a tree without a leaf for these rows: what was read is no tree
            return undecided
        missed = sums + margin < conditions.least
        if missed.any():
            largest = np.maximum(largest, np.where(missed, sums + margin, np.inf))
            continue
        # the condition that is nearest to being missed says which leaves to part
        nearest = int(np.argmin((sums - conditions.least) / np.maximum(np.abs(sums), 1.0)))
        halves = _cut(part, part.leaves.pick(best[nearest]), rows, used)
        if halves is None:  # the best leaves agree: a row meets this condition, and the others decide
            halves = _cut(part, part.leaves.pick(np.unique(np.concatenate(best))), rows, used)
        if halves is None:
            return undecided._replace(boxes=boxes)
        open_parts += halves
    return Outcome(True, np.where(np.isfinite(largest), largest, np.nan), boxes)


def _best(leaves: _Leaves, base: Array) -> tuple[list[Array], Array]:
    """Return the best leaf of each tree for every condition, and the sums ``(q,)`` of these."""
    edges = np.flatnonzero(np.r_[True, leaves.tree[1:] != leaves.tree[:-1]])
    sums, best = base.copy(), []
    for i in range(len(base)):
        worth = leaves.worth[:, i]
        tops = np.maximum.reduceat(worth, edges)
        sums[i] += tops.sum()
        is_top = worth == np.repeat(tops, np.diff(np.r_[edges, len(worth)]))
        where = np.flatnonzero(is_top)
        best.append(where[np.r_[True, leaves.tree[where][1:] != leaves.tree[where][:-1]]])
    return best, sums


def _meet(trees: TreeScores, box: Box, used: Array, conditions: Conditions) -> _Leaves | None:
    """Go down all trees at once and return the leaves that the box meets; None where they are too many."""
    place = np.full(int(trees.column.max(initial=-1)) + 1, -1)
    place[used] = np.arange(len(used))
    at = trees.roots
    low, high = np.full((len(at), len(used)), -np.inf), np.full((len(at), len(used)), np.inf)
    taken, tree = np.ones((len(at), len(used)), dtype=bool), np.arange(len(at))
    done: list[_Leaves] = []
    share = trees.share
    narrow = Box(box.low[used], box.high[used], box.missing[used])
    while len(at):
        leaf = trees.column[at] < 0
        worth = share[at[leaf]] @ conditions.weights.T
        done.append(_Leaves(low[leaf], high[leaf], taken[leaf], tree[leaf], worth))
        at, low, high, taken, tree = at[~leaf], low[~leaf], high[~leaf], taken[~leaf], tree[~leaf]
        if 2 * low.size + sum(one.low.size for one in done) > _MOST_CELLS:
            return None
        rows, column, cut = np.arange(len(at)), place[trees.column[at]], trees.threshold[at]
        goes = trees.missing_left[at]
        left_high, right_low = high.copy(), low.copy()
        left_high[rows, column] = np.minimum(high[rows, column], cut)
        right_low[rows, column] = np.maximum(low[rows, column], cut)
        left_taken, right_taken = taken.copy(), taken.copy()
        left_taken[rows, column] &= goes
        right_taken[rows, column] &= ~goes
        # only the column that was asked about can have become impossible
        low, high = np.vstack([low, right_low]), np.vstack([left_high, high])
        taken, tree = np.vstack([left_taken, right_taken]), np.r_[tree, tree]
        at, column, rows = np.r_[trees.left[at], trees.right[at]], np.r_[column, column], np.arange(2 * len(at))
        possible = _touches(
            narrow.low[column], narrow.high[column], narrow.missing[column],
            low[rows, column], high[rows, column], taken[rows, column],
        )  # fmt: skip
        at, low, high, taken, tree = at[possible], low[possible], high[possible], taken[possible], tree[possible]
    joined = _Leaves(*(np.concatenate(part) for part in zip(*done, strict=True)))
    return joined.pick(np.argsort(joined.tree, kind="stable"))


def _touches(box_low: Array, box_high: Array, gap: Array, low: Array, high: Array, taken: Array) -> Array:
    """Whether an interval with a gap in knowledge meets what is above ``low`` and up to ``high``, or missing."""
    return ((box_low <= box_high) & (box_low <= high) & (box_high > low)) | (gap & taken)


def _restrict(part: _Part, box: Box, alive: tuple[Array, ...], used: Array) -> _Part | None:
    """Return a part with a smaller box; nothing if no row is left in it."""
    empty = (box.low > box.high) & ~box.missing
    if empty.any():
        return None
    leaves = part.leaves
    meets = _touches(box.low[used], box.high[used], box.missing[used], leaves.low, leaves.high, leaves.taken)
    leaves = leaves.pick(np.asarray(meets.all(axis=1)))
    return _Part(box, alive, leaves)


def _cut(part: _Part, best: _Leaves, rows: Range, used: Array) -> list[_Part] | None:
    """Return two halves of a part, cut where its best leaves disagree; None where one row may be in all of them."""
    box = part.box
    low, high, gap = box.low[used], box.high[used], box.missing[used]
    top, bottom = best.low.max(axis=0), best.high.min(axis=0)
    known = _touches(low, high, np.zeros(len(used), dtype=bool), top, bottom, gap) & (top < bottom)
    agreed = known | (gap & best.taken.all(axis=0))
    # the column in which most leaves lie on different sides
    apart = np.flatnonzero(~agreed)
    if len(apart):
        counts = [min((best.high[:, c] <= top[c]).sum(), (best.low[:, c] >= bottom[c]).sum()) for c in apart]
        c = int(apart[int(np.argmax(counts))])
        cut = float(bottom[c]) if top[c] >= bottom[c] else None
        return _halve(part, rows, used, int(used[c]), cut)
    for number, one in enumerate(rows.few):  # every column has a value that suits all, but no value has all of them
        place = np.searchsorted(used, one.columns)
        asked = (place < len(used)) & (used[np.minimum(place, len(used) - 1)] == one.columns)
        if not asked.any():
            continue
        at, values = place[asked], one.values[:, asked]
        gone = np.isnan(values)
        with np.errstate(invalid="ignore"):
            suits = (values > top[at]) & (values <= bottom[at])
        fits = np.where(gone, best.taken[:, at].all(axis=0), suits).all(axis=1)
        alive = part.alive[number]
        if not (fits & alive).any():
            return _split_few(part, rows, used, number, np.arange(len(alive)) < np.flatnonzero(alive)[alive.sum() // 2])
    return None


def _halve(part: _Part, rows: Range, used: Array, column: int, cut: float | None) -> list[_Part] | None:
    """Cut a part at a value of a column, or into known and missing."""
    owner, box = int(rows.owner[column]), part.box
    if owner >= 0:
        one = rows.few[owner]
        values = one.values[:, int(np.flatnonzero(one.columns == column)[0])]
        if cut is None or box.missing[column]:
            return _split_few(part, rows, used, owner, np.isnan(values))
        with np.errstate(invalid="ignore"):
            return _split_few(part, rows, used, owner, values <= cut)
    halves = []
    if box.missing[column] and box.low[column] <= box.high[column]:
        for is_known in (True, False):
            own = Box(box.low.copy(), box.high.copy(), box.missing.copy())
            own.missing[column] = not is_known
            if not is_known:
                own.low[column], own.high[column] = np.inf, -np.inf
            halves.append(_restrict(part, own, part.alive, used))
        return [half for half in halves if half is not None]
    if cut is None:
        return None
    for is_left in (True, False):
        own = Box(box.low.copy(), box.high.copy(), box.missing)
        if is_left:
            own.high[column] = min(own.high[column], cut)
        else:
            own.low[column] = max(own.low[column], np.nextafter(cut, np.inf))
        halves.append(_restrict(part, own, part.alive, used))
    return [half for half in halves if half is not None]


def _split_few(part: _Part, rows: Range, used: Array, number: int, first: Array) -> list[_Part] | None:
    """Share out the living values of a feature to two parts; None where one of them would have none."""
    halves = []
    for side in (first, ~first):
        alive = part.alive[number] & side
        if not alive.any():
            return None
        box = Box(part.box.low.copy(), part.box.high.copy(), part.box.missing.copy())
        rows.few[number].hull(alive, box)
        everything = tuple(alive if i == number else old for i, old in enumerate(part.alive))
        halves.append(_restrict(part, box, everything, used))
    return [half for half in halves if half is not None]
