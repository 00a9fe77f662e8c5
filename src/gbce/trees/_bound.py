"""Lower bounds on the price of any row that meets score constraints, by branch and bound over boxes of cells.

A box is bounded through the best leaf of each tree among those that intersect it and cost less than the best known row:
the lowest price at which these leaves together could satisfy every constraint. The box with the lowest bound is
processed first. If its cheapest row is feasible, no row is cheaper; otherwise the box is split between that row and the
most promising leaves. Whenever the search stops, the lowest remaining bound holds for every row.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from gbce._numerics import HUGE, ROUNDING
from gbce.base import Array
from gbce.trees._cells import CellTrees
from gbce.trees._question import CellPrices, ReachableCells

# Leaves processed over all boxes: one to eight seconds on one core, the smaller the boxes the longer.
MOST_WORK = 12_000_000
_MOST_KEPT = 20_000_000  # leaves of queued boxes: 240 MB
_MOST_TABLE = 20_000_000  # booleans in tables of cell sets: 20 MB
_LEAST_STEP = 1e-3  # smallest price step that a split counts, as a share of the best price; hand-tuned
_TIGHTENED = (
    200_000  # further leaves by which a bound on unattainable sums is made tighter: some hundredths of a second
)
_HALVINGS = 5  # bisections between an infeasible and a feasible price, per box
_MOST_CHECKED = 200  # candidate rows that the model itself evaluates, one at a time
_TINY = float(np.finfo(float).tiny)

# --- leaves along one feature ----------------------------------------------------------------------------------------

Part = Any  # some cells of a feature: the first and the one after the last, or a boolean mask


@dataclass(frozen=True, eq=False)
class Intervals:
    """Leaves that hold an interval of cells of one feature: ``low`` up to but excluding ``high``, both ``(L,)``."""

    priced: CellPrices
    low: Array
    high: Array

    def at_no_price(self) -> "Intervals":
        """Return the same leaves with all cells at no price."""
        return replace(self, priced=self.priced.at_no_price())

    def whole(self) -> Part:
        """Return the part with all cells."""
        return 0, len(self.priced.cells)

    def cheapest(self, part: Part) -> int:
        """Return the position of the cheapest cell of a part."""
        first, end = part
        return int(min(max(self.priced.own, first), end - 1))

    def price(self, part: Part, leaves: Array) -> Array:
        """Return the lowest price ``(m,)`` at which leaves ``(m,)`` are entered within a part; infinite if empty."""
        first = np.maximum(self.low[leaves], part[0])
        end = np.minimum(self.high[leaves], part[1]) - 1
        # prices rise on both sides of the row's own cell, so the nearest cell is the cheapest
        found = self.priced.price[np.minimum(np.maximum(self.priced.own, first), end)]
        return np.where(first <= end, found, np.inf)

    def holds(self, leaves: Array, cell: int) -> Array:
        """Return which leaves ``(m,)`` hold a cell."""
        return np.asarray((self.low[leaves] <= cell) & (cell < self.high[leaves]))


@dataclass(frozen=True, eq=False)
class Sets:
    """Leaves that hold sets of cells of one feature: ``member`` ``(S, k)``, and each leaf's set, ``which`` ``(L,)``."""

    priced: CellPrices
    member: Array
    which: Array

    def at_no_price(self) -> "Sets":
        """Return the same leaves with all cells at no price."""
        return replace(self, priced=self.priced.at_no_price())

    def whole(self) -> Part:
        """Return the part with all cells."""
        return np.ones(len(self.priced.cells), dtype=bool)

    def cheapest(self, part: Part) -> int:
        """Return the position of the cheapest cell of a part."""
        if part[self.priced.own]:
            return self.priced.own
        return int(np.argmin(np.where(part, self.priced.price, np.inf)))

    def price(self, part: Part, leaves: Array) -> Array:
        """Return the lowest price ``(m,)`` at which leaves ``(m,)`` are entered within a part; infinite if empty."""
        least = np.where(self.member & part, self.priced.price, np.inf).min(axis=1)
        return np.asarray(least[self.which[leaves]])

    def holds(self, leaves: Array, cell: int) -> Array:
        """Return which leaves ``(m,)`` hold a cell."""
        return np.asarray(self.member[self.which[leaves], cell])


Axis = Intervals | Sets


class Cutter:
    """Chooses where to split a box, over all axes at once."""

    def __init__(self, axes: list[Axis]) -> None:
        self._ordered = [a for a, axis in enumerate(axes) if isinstance(axis, Intervals)]
        self._sets = [(a, axis) for a, axis in enumerate(axes) if isinstance(axis, Sets)]
        ordered = [axis for axis in axes if isinstance(axis, Intervals)]
        n_leaves = len(next((axis.low if isinstance(axis, Intervals) else axis.which for axis in axes), []))
        self._ends = np.zeros((n_leaves, 2 * len(ordered)), dtype=np.int32)  # first cells, then one past the last
        for a, axis in enumerate(ordered):
            self._ends[:, a], self._ends[:, a + len(ordered)] = axis.low, axis.high
        # possible splits: before each cell of an axis, and after its last one
        self._starts = np.concatenate([[0], np.cumsum([len(axis.priced.cells) + 1 for axis in ordered])]).astype(int)
        self._price = np.concatenate([np.zeros(0), *(np.append(axis.priced.price, np.inf) for axis in ordered)])

    def hold(self, leaves: Array, cells: Array) -> Array:
        """Return which leaves ``(m,)`` hold the cells ``(a,)``, one per axis."""
        if not len(cells):
            return np.ones(len(leaves), dtype=bool)
        n, here, ends = len(self._ordered), cells[self._ordered], self._ends[leaves]
        good = np.asarray(((ends[:, :n] <= here) & (ends[:, n:] > here)).all(axis=1))
        for a, axis in self._sets:
            good &= axis.holds(leaves, int(cells[a]))
        return good

    def cut(
        self, parts: tuple[Part, ...], leaves: Array, gain: Array, cells: Array, best: float
    ) -> tuple[int, list[Part]] | None:
        """Return the axis to split and its two parts; None if every leaf holds the cells.

        On the side of the cheapest cells ``(a,)`` of the box, the leaves ``(m,)`` beyond the split become unreachable
        and their gain is lost; on the other side every row pays the price step up to the split. The product is
        maximised.
        """
        least = _LEAST_STEP * (best if np.isfinite(best) else 1.0)
        most, which, place = self._cut_ordered(leaves, gain, cells, least)
        halves: list[Part] = [] if which < 0 else [(parts[which][0], place), (place, parts[which][1])]
        for a, axis in self._sets:
            away = ~axis.holds(leaves, int(cells[a]))
            if not away.any():
                continue
            sums = np.bincount(axis.which[leaves[away]], gain[away])
            tried = np.flatnonzero(sums)
            step = np.where(axis.member[tried] & parts[a], axis.priced.price, np.inf).min(axis=1)
            worth = sums[tried] * np.maximum(step - axis.priced.price[int(cells[a])], least)
            at = int(np.argmax(worth))
            if worth[at] > most:
                most, which, member = float(worth[at]), a, axis.member[tried[at]]
                halves = [parts[a] & member, parts[a] & ~member]
        return None if which < 0 else (which, halves)

    def _cut_ordered(self, leaves: Array, gain: Array, cells: Array, least: float) -> tuple[float, int, int]:
        """Return the value of the best split of an ordered axis, that axis, and the cell before the split."""
        n, here = len(self._ordered), cells[self._ordered]
        if n == 0:
            return 0.0, -1, -1
        ends = self._ends[leaves]
        above, below = np.nonzero(ends[:, :n] > here), np.nonzero(ends[:, n:] <= here)
        starts = self._starts[:-1]
        best = 0.0, -1, -1
        for (leaf, axis), far, cell in ((above, 0, 0), (below, n, -1)):
            if len(leaf) == 0:
                continue
            places = ends[leaf, axis + far] + starts[axis]
            order = np.argsort(places, kind="stable")
            if far == 0:  # on either side, from the far end towards the cells
                order = order[::-1]
            places, axis = places[order], axis[order]
            sums = np.cumsum(gain[leaf[order]])
            first = np.flatnonzero(np.concatenate([[True], axis[1:] != axis[:-1]]))
            before = np.concatenate([[0.0], sums[first[1:] - 1]])
            lost = sums - np.repeat(before, np.diff(np.append(first, len(axis))))
            step = self._price[places + cell] - self._price[here[axis] + starts[axis]]
            worth = lost * np.maximum(step, least)
            at = int(np.argmax(worth))
            if worth[at] > best[0]:
                best = float(worth[at]), self._ordered[int(axis[at])], int(places[at] - starts[axis[at]])
        return best


def make_axes(trees: CellTrees, reachable: ReachableCells) -> tuple[Array, list[Axis]] | None:
    """Return the reachable leaves ``(L',)``, in order, and one axis per splitting feature with a choice of cells.

    The axes index these leaves. None if the tables of cell sets would be too large.
    """
    every = [reachable.prices_of(i) for i in range(len(reachable.moving))]
    free = [priced for priced in every if len(priced.cells) > 1]
    cells = reachable.cells.copy()
    cells[reachable.moving] = [priced.cells[0] for priced in every]
    fixed = np.setdiff1d(trees.used, [priced.feature for priced in free])
    leaves = trees.leaves_between(fixed, cells[fixed], cells[fixed])
    axes: list[Axis] = []
    sets = {int(j): s for s, j in enumerate(trees.set_features.tolist())}
    for priced in free:
        j = priced.feature
        if j in sets:
            member = trees.allowed[sets[j]][:, priced.cells]
            axes.append(Sets(priced, member, trees.set_of[leaves, sets[j]]))
            continue
        known = priced.cells[:-1] if priced.has_missing else priced.cells
        cells = np.arange(-1, trees.n_cells[j] + 2)  # searching once per cell is cheaper than once per leaf
        low = np.take(np.searchsorted(known, cells, side="left"), trees.first[leaves, j] + 1)
        high = np.take(np.searchsorted(known, cells, side="right"), trees.last[leaves, j] + 1)
        if not priced.has_missing:
            axes.append(Intervals(priced, low, high))
            continue
        different, which = np.unique(
            np.column_stack([low, np.maximum(low, high), trees.missing[leaves, j]]), axis=0, return_inverse=True
        )
        if len(different) * len(priced.cells) > _MOST_TABLE:
            return None
        place = np.arange(len(known))
        inner = (different[:, :1] <= place) & (place < different[:, 1:2])
        axes.append(Sets(priced, np.column_stack([inner, different[:, 2] > 0]), which.ravel()))
    possible = np.ones(len(leaves), dtype=bool)
    everything = np.arange(len(leaves))
    for axis in axes:
        possible &= np.isfinite(axis.price(axis.whole(), everything))
    kept = np.flatnonzero(possible)
    return leaves[kept], [pick_leaves(axis, kept) for axis in axes]


def pick_leaves(axis: Axis, kept: Array) -> Axis:
    """Restrict an axis to some of its leaves ``(m,)``, in their order."""
    if isinstance(axis, Intervals):
        return Intervals(axis.priced, axis.low[kept], axis.high[kept])
    return Sets(axis.priced, axis.member, axis.which[kept])


# --- branch and bound ------------------------------------------------------------------------------------------------


class CandidateStatus(Enum):
    """Status of a candidate row: the model accepts it, rejects its cells, or this is unknown."""

    ACCEPTED = 1
    REJECTED = 2
    UNKNOWN = 3


class Leaves(NamedTuple):
    """Leaves of ``n_trees`` trees: ``tree`` ``(L,)`` ascending, and ``worth`` ``(L, q)``, the constraint terms."""

    tree: Array
    worth: Array
    n_trees: int


class Lowest(NamedTuple):
    """Result of a search for the cheapest feasible row.

    No feasible row costs less than ``lower``, which is infinite if none costs less than the known price. ``cells``
    ``(a,)`` is the cheapest feasible row found below the known price, as positions on the axes, and ``price`` its
    price. ``boxes`` counts the boxes that were bounded.
    """

    lower: float
    cells: Array | None
    price: float
    boxes: int


class _Box(NamedTuple):
    """A part of each axis and its cheapest cell ``(a,)``, with the live leaves ``(m,)`` of the box.

    ``entry`` and ``changes`` are the lowest price and number of changes of each leaf; all entries are less than
    ``below``.
    """

    parts: tuple[Part, ...]
    cells: Array
    live: Array
    entry: Array
    changes: Array | None
    below: float


class _BoxSearch:
    """State of one branch-and-bound search; see :func:`find_lowest`."""

    def __init__(self, leaves: Leaves, axes: list[Axis], least: Array, known: float, most_changes: int | None) -> None:
        everything = np.arange(len(leaves.tree))
        entry, count = np.zeros(len(everything)), np.zeros(len(everything), dtype=int)
        for axis in axes:
            price = axis.price(axis.whole(), everything)
            entry += price
            count += price > 0
        kept = np.flatnonzero(entry < known)  # in a large forest, few of the leaves
        self.leaves = Leaves(leaves.tree[kept], leaves.worth[kept], leaves.n_trees)
        self.axes = [pick_leaves(axis, kept) for axis in axes]
        self.least, self.best, self.most, self.cutter = least, known, most_changes, Cutter(self.axes)
        self.prices = np.concatenate([np.zeros(0), *(axis.priced.price for axis in axes)])
        self.axis_starts = np.cumsum([0, *(len(axis.priced.price) for axis in axes)])[:-1]
        self.worth = np.ascontiguousarray(self.leaves.worth.T)
        self.cells: Array | None = None
        self.waiting: list[tuple[float, int, Any, _Box]] = []
        self.boxes, self.work, self.kept = 0, len(kept), 0
        parts = tuple(axis.whole() for axis in self.axes)
        cells = np.array([axis.cheapest(part) for axis, part in zip(self.axes, parts, strict=True)], dtype=int)
        changes = None if most_changes is None else count[kept]
        self.add(self.prune(_Box(parts, cells, np.arange(len(kept)), entry[kept], changes, np.nan)), 0.0)

    def add(self, box: _Box, least: float) -> None:
        """Bound a box that costs at least ``least`` and queue it, unless nothing in it can be cheaper."""
        self.boxes += 1
        low, high = self.bound(box, least)
        if low < np.inf:
            heapq.heappush(self.waiting, (low, -self.boxes, high, box))  # of equal bounds, the latest first
            self.kept += len(box.live)

    def bound(self, box: _Box, low: float) -> tuple[float, float]:
        """Return a price below which no row of a box is feasible, and one at which some row might be."""
        starts, high = self.find_tree_starts(box), self.best
        if len(starts) < self.leaves.n_trees:
            return np.inf, np.inf
        worths = [worth[box.live] for worth in self.worth]
        if (self.sum_best(worths, starts) < self.least).any():
            return np.inf, np.inf
        if self.can_suffice_up_to(box, worths, starts, low):
            return low, low
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if self.can_suffice_up_to(box, worths, starts, middle):
                high = middle
            else:
                low = middle
        low = float(box.entry[box.entry > low].min())  # no leaf enters in between
        return low, max(high, low)

    def prune(self, box: _Box) -> _Box:
        """Drop leaves that cost as much as the best known row or take too many changes."""
        if box.below == self.best:
            return box
        good = box.entry < self.best
        if box.changes is not None and self.most is not None:
            good &= box.changes <= self.most
        count = None if box.changes is None else box.changes[good]
        return _Box(box.parts, box.cells, box.live[good], box.entry[good], count, self.best)

    def find_tree_starts(self, box: _Box) -> Array:
        """Return where the leaves of each tree start in a box."""
        tree = self.leaves.tree[box.live]
        return np.flatnonzero(np.concatenate([[True], tree[1:] != tree[:-1]])) if len(tree) else np.zeros(0, dtype=int)

    def sum_best(self, worths: list[Array], starts: Array) -> Array:
        """Return the sum of the best leaves of all trees for each constraint ``(q,)``, in the order of the trees."""
        return np.array([np.add.accumulate(np.maximum.reduceat(worth, starts))[-1] for worth in worths])

    def can_suffice_up_to(self, box: _Box, worths: list[Array], starts: Array, price: float) -> bool:
        """Whether leaves of at most a price could satisfy every constraint."""
        within = box.entry <= price
        worths = [np.where(within, worth, -np.inf) for worth in worths]
        return bool((self.sum_best(worths, starts) >= self.least).all())

    def compute_price(self, cells: Array) -> float:
        """Return the price of cells ``(a,)``."""
        return float(np.add.accumulate(self.prices[self.axis_starts + cells])[-1]) if len(cells) else 0.0

    def find_holding_leaves(self, box: _Box, price: float) -> Array:
        """Return the leaves that hold the cheapest cells of a box, one per tree, as positions in the box."""
        some = np.flatnonzero(box.entry <= price + ROUNDING * max(price, 1.0))
        return np.asarray(some[self.cutter.hold(box.live[some], box.cells)])

    def split(self, box: _Box, here: Array, price: float, bound: float) -> bool:
        """Split a box between its cheapest cells and the most promising leaves; false if there are no others."""
        worth = self.worth[self.find_most_violated(box, here)]
        return self.cut(box, *self.pick_promising(box, worth, here, price), bound) or self.cut(
            box, *self.compare_all_leaves(box, worth, here), bound
        )

    def find_most_violated(self, box: _Box, here: Array) -> int:
        """Return the constraint that leaves ``(T,)`` violate most, in units of the range of leaf values."""
        if len(self.least) == 1:
            return 0
        worths = [worth[box.live] for worth in self.worth]
        lacks = [
            (least - float(worth[here].sum())) / max(float(np.ptp(worth)), _TINY)
            for worth, least in zip(worths, self.least.tolist(), strict=True)
        ]
        return int(np.argmax(lacks))

    def pick_promising(self, box: _Box, worth: Array, here: Array, price: float) -> tuple[Array, Array]:
        """Return the leaves that are best in their tree up to a price and better than those here, and their gain."""
        starts, own = self.find_tree_starts(box), worth[box.live]
        sizes = np.diff(np.append(starts, len(own)))
        affordable = np.where(box.entry <= price, own, -np.inf)
        best = np.flatnonzero(affordable == np.repeat(np.maximum.reduceat(affordable, starts), sizes))
        gain = (own - np.repeat(own[here], sizes))[best]
        return box.live[best[gain > 0]], gain[gain > 0]

    def compare_all_leaves(self, box: _Box, worth: Array, here: Array) -> tuple[Array, Array]:
        """Return all leaves, and roughly how much each differs from the one here."""
        own = worth[box.live]
        now = np.repeat(own[here], np.diff(np.append(self.find_tree_starts(box), len(own))))
        return box.live, np.abs(own - now) + (np.ptp(own) or 1.0)

    def cut(self, box: _Box, leaves: Array, gain: Array, bound: float) -> bool:
        """Split a box where these leaves gain most; false if all of them hold its cheapest cells."""
        found = self.cutter.cut(box.parts, leaves, gain, box.cells, self.best)
        if found is None:
            return False
        which, halves = found
        old = self.axes[which].price(box.parts[which], box.live)
        for half in halves:
            self.add(self.narrow(box, which, half, old), bound)
        return True

    def narrow(self, box: _Box, which: int, half: Part, old: Array) -> _Box:
        """Return part of a box along an axis on which its leaves ``(m,)`` had the prices ``old``."""
        axis, count = self.axes[which], None
        parts, cells = (*box.parts[:which], half, *box.parts[which + 1 :]), box.cells.copy()
        cells[which] = axis.cheapest(half)
        new = axis.price(half, box.live)
        self.work += int(np.isfinite(new).sum())
        entry = box.entry + (new - old)  # infinite for leaves outside the part
        good = entry < self.best
        if box.changes is not None and self.most is not None:
            count = box.changes + (new > 0) - (old > 0)
            good &= count <= self.most
            count = count[good]
        return _Box(parts, cells, box.live[good], entry[good], count, self.best)


def find_lowest(
    leaves: Leaves,
    axes: list[Axis],
    least: Array,
    known: float,
    judge: Callable[[Array], CandidateStatus],
    *,
    most_changes: int | None = None,
    most_work: int = MOST_WORK,
    late: Callable[[], bool] = lambda: False,
) -> Lowest:
    """Find the lowest price at which sums of leaves can satisfy score constraints, or a lower bound for it.

    ``least`` ``(q,)`` are lower bounds on the sums of worths. Only rows cheaper than ``known`` and with at most
    ``most_changes`` positive prices are searched for, until ``most_work`` leaves are processed or time is up
    (``late``). ``judge`` takes feasible cells ``(a,)``, as positions on the axes, and returns their status under the
    model itself.
    """
    search = _BoxSearch(leaves, axes, least, known, most_changes)
    judged: dict[bytes, CandidateStatus] = {}
    lower = np.inf
    while search.waiting:
        bound, _, price, box = heapq.heappop(search.waiting)
        if bound >= search.best:
            break
        if search.work > most_work or search.kept > _MOST_KEPT or late():
            lower = bound
            break
        search.kept -= len(box.live)
        if box.below != search.best:
            box = search.prune(box)
            if len(search.find_tree_starts(box)) < leaves.n_trees:
                continue
        cells, price_here = box.cells, search.compute_price(box.cells)
        here = search.find_holding_leaves(box, price_here)
        if len(here) < leaves.n_trees:  # too many changes, or too expensive by a rounding error
            lower = bound
            break
        if (search.leaves.worth[box.live[here]].sum(axis=0) >= least).all():
            key = cells.tobytes()
            if key not in judged:
                judged[key] = judge(cells) if len(judged) < _MOST_CHECKED else CandidateStatus.UNKNOWN
            if judged[key] is CandidateStatus.ACCEPTED:
                search.best, search.cells = price_here, cells
                continue
            if judged[key] is CandidateStatus.UNKNOWN:
                lower = bound
                break
        search.split(box, here, price, bound)
    lower = min(lower, search.best if search.cells is not None else np.inf)
    return Lowest(float(lower), search.cells, search.best, search.boxes)


class _SumSearch(_BoxSearch):
    """Search for the largest sums, with all cells at no price; a box's bound is by how much it fails, at most."""

    def bound(self, box: _Box, low: float) -> tuple[float, Any]:
        """Return the largest failure of the best leaves of a box, negative if they satisfy all, and their sums."""
        starts = self.find_tree_starts(box)
        if len(starts) < self.leaves.n_trees:
            return np.inf, None
        sums = self.sum_best([worth[box.live] for worth in self.worth], starts)
        return float((self.least - sums).max()), sums


def bound_sums(leaves: Leaves, axes: list[Axis], least: Array, most_work: int) -> tuple[Array, int] | None:
    """Return upper bounds of the sums ``(q,)`` over all cells, and the number of boxes, if no cell satisfies all.

    None if some cell may. A bound is NaN where another constraint is violated in some box. Arguments are those of
    :func:`find_lowest`; a single sum is bounded tightly, as far as a little more work allows.
    """
    least = np.minimum(least, HUGE)  # that no sum attains: its distance from each has to be a number
    search = _SumSearch(leaves, [axis.at_no_price() for axis in axes], least, np.inf, None)
    done: list[Array] = []
    nearest, refuted_at = np.inf, None  # the least failure of any cell so far
    while search.waiting:
        failure, _, sums, box = search.waiting[0]
        if failure > 0 and refuted_at is None:
            refuted_at = search.work
        limit = most_work if refuted_at is None else refuted_at + _TIGHTENED
        if refuted_at is not None and (len(least) > 1 or failure >= nearest - ROUNDING * abs(nearest)):
            break
        if search.work > limit or search.kept > _MOST_KEPT:
            if refuted_at is None:
                return None
            break
        heapq.heappop(search.waiting)
        search.kept -= len(box.live)
        here = search.find_holding_leaves(box, 0.0)
        nearest = min(nearest, float((least - search.leaves.worth[box.live[here]].sum(axis=0)).max()))
        if nearest <= 0:
            return None
        if not search.split(box, here, 0.0, 0.0):
            done.append(sums)
    largest = np.max([np.where(sums < least, sums, np.inf) for sums in (*done, *(one[2] for one in search.waiting))], 0)
    return np.where(np.isfinite(largest), largest, np.nan), search.boxes
