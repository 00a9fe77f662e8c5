"""Branch and bound over boxes of cells: what the cheapest row that meets conditions costs at least.

A box of cells is bounded by the best leaf of each tree among those that it meets and that cost less than what is known
to do. The least price at which these leaves together could meet every condition is a bound for all rows of the box. The
box with the lowest bound is looked at first: if its cheapest row meets the conditions, there is no cheaper one at all;
otherwise it is cut in two between that row and the leaves that promise most. Whenever it ends, the lowest bound of the
boxes that are left holds for every row.
"""

import heapq
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.search._proofs._axes import Axis, Cutter, Part, pick_leaves
from gbce.search._proofs._box_loops import BOUND, NARROW, PROMISE

__all__ = ["MOST_WORK", "Leaves", "Lowest", "Verdict", "find_lowest"]

# Leaves that are looked at in all boxes together: a second to eight on one core, the more the smaller the boxes are.
MOST_WORK = 12_000_000
_MOST_KEPT = 20_000_000  # leaves of the boxes that wait: 240 MB
_HALVINGS = 5  # of the prices between what is known to be too little and what is known to do, for one box
_MOST_ASKED = 200  # rows that the model is asked about, one by one
_TINY = float(np.finfo(float).tiny)
_SAME_PRICE = 1e-12  # relative: sums of the same prices in another order
_NO_CHANGES = np.zeros(0, dtype=int)  # where they do not matter


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
        self.prices = np.concatenate([np.zeros(0), *(axis.offer.price for axis in axes)])
        self.firsts = np.cumsum([0, *(len(axis.offer.price) for axis in axes)])[:-1]  # of each axis among the prices
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
        loop = BOUND.after(len(box.live))
        if loop is None:
            low, high = self.bound(box, least)
        else:
            low, high = loop(
                box.live, box.entry, self.leaves.tree, self.worth, self.least, self.leaves.n_trees, least, self.best,
                _HALVINGS,
            )  # fmt: skip
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
            np.add.accumulate(np.maximum.reduceat(worth, starts))[-1] >= least  # in order, as a loop adds
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
        loop = PROMISE.after(len(box.live))
        if loop is not None:
            leaves, gain = loop(box.live, box.entry, self.leaves.tree, worth, here, price)
            return leaves, gain
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
        loop = NARROW.after(len(box.live))
        if loop is not None:
            changes, most = (_NO_CHANGES, 0) if box.changes is None or self.most is None else (box.changes, self.most)
            live, entry, count, work = loop(box.live, box.entry, changes, old, new, self.best, most)
            self.work += work
            return _Box(parts, cells, live, entry, None if box.changes is None else count, self.best)
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
