"""Branch and bound over boxes of cells: what the cheapest row that meets conditions costs at least.

A box of cells is bounded by the best leaf of each tree among those that it meets and that cost less than what is known
to do. The least price at which these leaves together could meet every condition is a bound for all rows of the box. The
box with the lowest bound is looked at first: if its cheapest row meets the conditions, there is no cheaper one at all;
otherwise it is cut in two between that row and the leaves that promise most. Whenever it ends, the lowest bound of the
boxes that are left holds for every row.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from gbce.base import Array
from gbce.trees._cells import CellTrees
from gbce.trees._question import CellPrices

__all__ = [
    "MOST_WORK",
    "Axis",
    "Cutter",
    "Intervals",
    "Leaves",
    "Lowest",
    "Part",
    "Sets",
    "Verdict",
    "find_lowest",
    "make_axes",
    "pick_leaves",
]

# --- leaves along one feature, in the cells that a row can get to ----------------------------------------------------

_MOST_TABLE = 20_000_000  # truth values of sets of cells: 20 MB
_LEAST_STEP = 1e-3  # of the best price known, that a step counts as where it costs less, or nothing; by hand

Part = Any  # of a feature's cells: two ends, the first and the one after the last, or an array of which are left


@dataclass(frozen=True, eq=False)
class Intervals:
    """Leaves that hold cells from ``low`` up to but without ``high``, both ``(L,)``."""

    priced: CellPrices
    low: Array
    high: Array

    def whole(self) -> Part:
        """Return all cells."""
        return 0, len(self.priced.cells)

    def cheapest(self, part: Part) -> int:
        """Return the cheapest cell of a part, by its position in the offer."""
        first, end = part
        return int(min(max(self.priced.own, first), end - 1))

    def price(self, part: Part, leaves: Array) -> Array:
        """Return the least price ``(m,)`` of what leaves ``(m,)`` have in a part; infinite where that is nothing."""
        first = np.maximum(self.low[leaves], part[0])
        end = np.minimum(self.high[leaves], part[1]) - 1
        # prices rise on both sides of the row's own cell: the cheapest is the nearest
        found = self.priced.price[np.minimum(np.maximum(self.priced.own, first), end)]
        return np.where(first <= end, found, np.inf)

    def holds(self, leaves: Array, cell: int) -> Array:
        """Return which leaves ``(m,)`` have a cell."""
        return np.asarray((self.low[leaves] <= cell) & (cell < self.high[leaves]))


@dataclass(frozen=True, eq=False)
class Sets:
    """Leaves that hold sets of cells: ``member`` ``(S, k)``, and which of these is a leaf's, ``which`` ``(L,)``."""

    priced: CellPrices
    member: Array
    which: Array

    def whole(self) -> Part:
        """Return all cells."""
        return np.ones(len(self.priced.cells), dtype=bool)

    def cheapest(self, part: Part) -> int:
        """Return the cheapest cell of a part, by its position in the offer."""
        if part[self.priced.own]:
            return self.priced.own
        return int(np.argmin(np.where(part, self.priced.price, np.inf)))

    def price(self, part: Part, leaves: Array) -> Array:
        """Return the least price ``(m,)`` of what leaves ``(m,)`` have in a part; infinite where that is nothing."""
        least = np.where(self.member & part, self.priced.price, np.inf).min(axis=1)
        return np.asarray(least[self.which[leaves]])

    def holds(self, leaves: Array, cell: int) -> Array:
        """Return which leaves ``(m,)`` have a cell."""
        return np.asarray(self.member[self.which[leaves], cell])


Axis = Intervals | Sets


class Cutter:
    """Finds where to cut a box, and looks at leaves over all axes at once."""

    def __init__(self, axes: list[Axis]) -> None:
        self._ordered = [a for a, axis in enumerate(axes) if isinstance(axis, Intervals)]
        self._sets = [(a, axis) for a, axis in enumerate(axes) if isinstance(axis, Sets)]
        ordered = [axis for axis in axes if isinstance(axis, Intervals)]
        n_leaves = len(next((axis.low if isinstance(axis, Intervals) else axis.which for axis in axes), []))
        self._ends = np.zeros((n_leaves, 2 * len(ordered)), dtype=np.int32)  # first cells, then those after the last
        for a, axis in enumerate(ordered):
            self._ends[:, a], self._ends[:, a + len(ordered)] = axis.low, axis.high
        # places to cut: before each cell of an axis, and after its last one
        self._starts = np.concatenate([[0], np.cumsum([len(axis.priced.cells) + 1 for axis in ordered])]).astype(int)
        self._price = np.concatenate([np.zeros(0), *(np.append(axis.priced.price, np.inf) for axis in ordered)])

    def hold(self, leaves: Array, cells: Array) -> Array:
        """Return which leaves ``(m,)`` have cells ``(a,)``, one of each axis."""
        n, here, ends = len(self._ordered), cells[self._ordered], self._ends[leaves]
        good = np.asarray(((ends[:, :n] <= here) & (ends[:, n:] > here)).all(axis=1))
        for a, axis in self._sets:
            good &= axis.holds(leaves, int(cells[a]))
        return good

    def cut(
        self, parts: tuple[Part, ...], leaves: Array, gain: Array, cells: Array, best: float
    ) -> tuple[int, list[Part]] | None:
        """Return the axis, and its part in two, where most is lost on the side of the cells and most is paid beyond.

        On the side of the cheapest cells ``(a,)`` of a box the leaves ``(m,)`` beyond a cut are out of reach, with
        their gains; on the other side every row pays the step up to the cut. The product of both is largest there.

        None if every leaf holds the cells.
        """
        least = _LEAST_STEP * best
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
        """Return how good the best cut of an axis in order is, the axis, and the cell before which it lies."""
        n, here = len(self._ordered), cells[self._ordered]
        ends = self._ends[leaves]
        above, below = np.nonzero(ends[:, :n] > here), np.nonzero(ends[:, n:] <= here)
        starts = self._starts[:-1]
        best = 0.0, -1, -1
        for (leaf, axis), far, cell in ((above, 0, 0), (below, n, -1)):
            if len(leaf) == 0:
                continue
            places = ends[leaf, axis + far] + starts[axis]
            order = np.argsort(places, kind="stable")
            if far == 0:  # from the far end towards the cells, on either side
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


def make_axes(trees: CellTrees, reachable: list[CellPrices]) -> tuple[Array, list[Axis]] | None:
    """Return the leaves that a row can get to, and an axis for each feature with a choice; None if they are too many.

    Returns
    -------
    leaves : int array of shape (L',)
        Positions among the leaves of the trees, in their order; axes count these.
    axes : list of Axis
        One for each feature that has more than one cell on offer and that some tree asks about.
    """
    asked = set(trees.used.tolist())
    alive = np.ones(len(trees.tree), dtype=bool)
    free: list[CellPrices] = []
    for priced in reachable:
        if priced.feature not in asked:
            continue
        if len(priced.cells) == 1:
            alive &= trees.holds(priced.feature, int(priced.cells[0]))
        else:
            free.append(priced)
    leaves = np.flatnonzero(alive)
    axes: list[Axis] = []
    sets = {int(j): s for s, j in enumerate(trees.set_features.tolist())}
    for priced in free:
        j = priced.feature
        if j in sets:
            member = trees.allowed[sets[j]][:, priced.cells]
            axes.append(Sets(priced, member, trees.set_of[leaves, sets[j]]))
            continue
        known = priced.cells[:-1] if priced.gap else priced.cells
        cells = np.arange(-1, trees.n_cells[j] + 2)  # once for every cell is less than once for every leaf
        low = np.take(np.searchsorted(known, cells, side="left"), trees.first[leaves, j] + 1)
        high = np.take(np.searchsorted(known, cells, side="right"), trees.last[leaves, j] + 1)
        if not priced.gap:
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
    """Return an axis over some of its leaves ``(m,)``, in their order."""
    if isinstance(axis, Intervals):
        return Intervals(axis.priced, axis.low[kept], axis.high[kept])
    return Sets(axis.priced, axis.member, axis.which[kept])


# --- branch and bound over boxes of cells ----------------------------------------------------------------------------

# Leaves that are looked at in all boxes together: a second to eight on one core, the more the smaller the boxes are.
MOST_WORK = 12_000_000
_MOST_KEPT = 20_000_000  # leaves of the boxes that wait: 240 MB
_HALVINGS = 5  # of the prices between what is known to be too little and what is known to do, for one box
_MOST_ASKED = 200  # rows that the model is asked about, one by one
_TINY = float(np.finfo(float).tiny)
_SAME_PRICE = 1e-12  # relative: sums of the same prices in another order


class Verdict(Enum):
    """What becomes of a row whose cells meet the conditions: it does, no row of its cells does, or nobody knows."""

    GOOD = 1
    BAD = 2
    UNKNOWN = 3


class Leaves(NamedTuple):
    """Leaves of ``T`` trees, ``q`` conditions: ``tree`` ``(L,)`` rising, ``worth`` ``(L, q)``."""

    tree: Array
    worth: Array
    n_trees: int


class Lowest(NamedTuple):
    """What was found.

    ``lower`` is a price that no row that meets the conditions is below; infinite if none meets them below the price
    that was known. ``cells`` ``(a,)`` is the cheapest row that does, by positions in the axes' offers, where one was
    found that is cheaper than what was known, with its ``price``. ``boxes`` counts the boxes that were bounded.
    """

    lower: float
    cells: Array | None
    price: float
    boxes: int


class _Box(NamedTuple):
    """Parts of all axes and the cheapest cell ``(a,)`` of each.

    With the leaves ``(m,)`` that matter there, the least price of each, the changes it takes, and the price that all of
    them are below.
    """

    parts: tuple[Part, ...]
    cells: Array
    live: Array
    entry: Array
    changes: Array | None
    below: float


class _Search:
    """The state of one search; see :func:`find_lowest`."""

    def __init__(self, leaves: Leaves, axes: list[Axis], least: Array, known: float, most_changes: int | None) -> None:
        everything = np.arange(len(leaves.tree))
        entry, count = np.zeros(len(everything)), np.zeros(len(everything), dtype=int)
        for axis in axes:
            price = axis.price(axis.whole(), everything)
            entry += price
            count += price > 0
        kept = np.flatnonzero(entry < known)  # of a large forest, a small part of the leaves
        self.leaves = Leaves(leaves.tree[kept], leaves.worth[kept], leaves.n_trees)
        self.axes = [pick_leaves(axis, kept) for axis in axes]
        self.least, self.best, self.most, self.cutter = least, known, most_changes, Cutter(self.axes)
        self.prices = np.concatenate([np.zeros(0), *(axis.priced.price for axis in axes)])
        self.firsts = np.cumsum([0, *(len(axis.priced.price) for axis in axes)])[:-1]  # of each axis among the prices
        self.worth = np.ascontiguousarray(self.leaves.worth.T)
        self.cells: Array | None = None
        self.waiting: list[tuple[float, int, float, _Box]] = []
        self.boxes, self.work, self.kept = 0, len(kept), 0
        parts = tuple(axis.whole() for axis in self.axes)
        cells = np.array([axis.cheapest(part) for axis, part in zip(self.axes, parts, strict=True)], dtype=int)
        changes = None if most_changes is None else count[kept]
        self.add(self.prune(_Box(parts, cells, np.arange(len(kept)), entry[kept], changes, np.nan)), 0.0)

    def add(self, box: _Box, least: float) -> None:
        """Bound a box, which costs at least so much, and let it wait unless nothing in it can be cheaper."""
        self.boxes += 1
        low, high = self.bound(box, least)
        if low < np.inf:
            heapq.heappush(self.waiting, (low, self.boxes, high, box))
            self.kept += len(box.live)

    def bound(self, box: _Box, low: float) -> tuple[float, float]:
        """Return a price below which no row of a box meets the conditions, and one at which some could."""
        starts, high = self.starts(box), self.best
        if len(starts) < self.leaves.n_trees:
            return np.inf, np.inf
        worths = [worth[box.live] for worth in self.worth]
        if not self.suffice(worths, starts):
            return np.inf, np.inf
        if self.suffice_up_to(box, worths, starts, low):
            return low, low
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if self.suffice_up_to(box, worths, starts, middle):
                high = middle
            else:
                low = middle
        low = float(box.entry[box.entry > low].min())  # nothing new comes in between
        return low, max(high, low)

    def prune(self, box: _Box) -> _Box:
        """Return a box without leaves that cost as much as what is known, or take too many changes."""
        if box.below == self.best:
            return box
        good = box.entry < self.best
        if box.changes is not None and self.most is not None:
            good &= box.changes <= self.most
        count = None if box.changes is None else box.changes[good]
        return _Box(box.parts, box.cells, box.live[good], box.entry[good], count, self.best)

    def starts(self, box: _Box) -> Array:
        """Return where the leaves of each tree begin in a box."""
        tree = self.leaves.tree[box.live]
        return np.flatnonzero(np.concatenate([[True], tree[1:] != tree[:-1]])) if len(tree) else np.zeros(0, dtype=int)

    def suffice(self, worths: list[Array], starts: Array) -> bool:
        """Whether the best leaf of each tree is enough: one condition after the other, which is the quickest way."""
        return all(
            np.add.accumulate(np.maximum.reduceat(worth, starts))[-1] >= least  # in the order of the trees
            for worth, least in zip(worths, self.least.tolist(), strict=True)
        )

    def suffice_up_to(self, box: _Box, worths: list[Array], starts: Array, price: float) -> bool:
        """Whether leaves of at most a price could meet every condition."""
        within = box.entry <= price
        return self.suffice([np.where(within, worth, -np.inf) for worth in worths], starts)

    def cost(self, cells: Array) -> float:
        """Return the price of cells ``(a,)``."""
        return float(np.add.accumulate(self.prices[self.firsts + cells])[-1]) if len(cells) else 0.0

    def there(self, box: _Box, price: float) -> Array:
        """Return the leaves of a box that hold its cheapest cells, one for each tree, as positions in the box."""
        some = np.flatnonzero(box.entry <= price + _SAME_PRICE * max(price, 1.0))
        return np.asarray(some[self.cutter.hold(box.live[some], box.cells)])

    def split(self, box: _Box, here: Array, price: float, bound: float) -> bool:
        """Cut a box between its cheapest cells and the leaves that promise most; false if there are no others."""
        worth = self.worth[self.lacking(box, here)]
        return self.cut(box, *self.promise(box, worth, here, price), bound) or self.cut(
            box, *self.others(box, worth, here), bound
        )

    def lacking(self, box: _Box, here: Array) -> int:
        """Return which condition is farthest from being met by leaves ``(T,)``, in units of what leaves differ by."""
        if len(self.least) == 1:
            return 0
        worths = [worth[box.live] for worth in self.worth]
        lacks = [
            (least - float(worth[here].sum())) / max(float(np.ptp(worth)), _TINY)
            for worth, least in zip(worths, self.least.tolist(), strict=True)
        ]
        return int(np.argmax(lacks))

    def promise(self, box: _Box, worth: Array, here: Array, price: float) -> tuple[Array, Array]:
        """Return the leaves that are the best of their trees up to a price, and how much better than those here."""
        starts, own = self.starts(box), worth[box.live]
        sizes = np.diff(np.append(starts, len(own)))
        offered = np.where(box.entry <= price, own, -np.inf)
        best = np.flatnonzero(offered == np.repeat(np.maximum.reduceat(offered, starts), sizes))
        gain = (own - np.repeat(own[here], sizes))[best]
        return box.live[best[gain > 0]], gain[gain > 0]

    def others(self, box: _Box, worth: Array, here: Array) -> tuple[Array, Array]:
        """Return all leaves, and how much each differs from the one here, more or less."""
        own = worth[box.live]
        now = np.repeat(own[here], np.diff(np.append(self.starts(box), len(own))))
        return box.live, np.abs(own - now) + (np.ptp(own) or 1.0)

    def cut(self, box: _Box, leaves: Array, gain: Array, bound: float) -> bool:
        """Cut a box where these leaves gain most; false if all of them hold its cheapest cells."""
        found = self.cutter.cut(box.parts, leaves, gain, box.cells, self.best)
        if found is None:
            return False
        which, halves = found
        old = self.axes[which].price(box.parts[which], box.live)
        for half in halves:
            self.add(self.narrow(box, which, half, old), bound)
        return True

    def narrow(self, box: _Box, which: int, half: Part, old: Array) -> _Box:
        """Return a part of a box, along an axis where its leaves ``(m,)`` had other prices."""
        axis, count = self.axes[which], None
        parts, cells = (*box.parts[:which], half, *box.parts[which + 1 :]), box.cells.copy()
        cells[which] = axis.cheapest(half)
        new = axis.price(half, box.live)
        self.work += int(np.isfinite(new).sum())
        entry = box.entry + (new - old)  # infinite where nothing is left
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
    judge: Callable[[Array], Verdict],
    *,
    most_changes: int | None = None,
    most_work: int = MOST_WORK,
    late: Callable[[], bool] = lambda: False,
) -> Lowest:
    """Find the least price at which sums of leaves can meet conditions, or a bound for it.

    Parameters
    ----------
    leaves : Leaves
        Of all trees.
    axes : list of Axis
        One for each feature that can move, over the same leaves.
    least : array of shape (q,)
        What the sums of worths must come to, all of them.
    known : float
        Price below which something is sought.
    judge : callable
        Takes cells ``(a,)`` whose sums meet the conditions, by positions in the offers, and says what the model itself
        makes of them.
    most_changes : int, optional
        Features that may cost something.
    most_work : int
        Leaves that may be looked at, in all boxes together.
    late : callable
        Whether time is up.

    Returns
    -------
    Lowest
        With a bound that holds whenever it ended.
    """
    search = _Search(leaves, axes, least, known, most_changes)
    told: dict[bytes, Verdict] = {}
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
            if len(search.starts(box)) < leaves.n_trees:
                continue
        cells, cost = box.cells, search.cost(box.cells)
        here = search.there(box, cost)
        if len(here) < leaves.n_trees:  # the cheapest row takes too many changes, or costs too much by a last bit
            lower = bound
            break
        if (search.leaves.worth[box.live[here]].sum(axis=0) >= least).all():
            key = cells.tobytes()
            if key not in told:
                told[key] = judge(cells) if len(told) < _MOST_ASKED else Verdict.UNKNOWN
            if told[key] is Verdict.GOOD:
                search.best, search.cells = cost, cells
                continue
            if told[key] is Verdict.UNKNOWN:
                lower = bound
                break
        search.split(box, here, price, bound)
    lower = min(lower, search.best if search.cells is not None else np.inf)
    return Lowest(float(lower), search.cells, search.best, search.boxes)
