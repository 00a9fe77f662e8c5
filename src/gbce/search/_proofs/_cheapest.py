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

__all__ = ["MOST_WORK", "Leaves", "Lowest", "Verdict", "find_lowest"]

# Leaves that are looked at in all boxes together; by hand: about a second on one core.
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
    """Parts of all axes, the leaves ``(m,)`` that matter there, the least price of each, and the changes it takes."""

    parts: tuple[Part, ...]
    live: Array
    entry: Array
    changes: Array | None


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
        self.prices = [axis.offer.price for axis in axes]
        self.worths = [np.ascontiguousarray(worth) for worth in self.leaves.worth.T]
        self.cells: Array | None = None
        self.waiting: list[tuple[float, int, float, _Box]] = []
        self.boxes = self.work = self.kept = 0
        changes = None if most_changes is None else count[kept]
        parts = tuple(axis.whole() for axis in self.axes)
        self.add(_Box(parts, np.arange(len(kept)), entry[kept], changes), 0.0)

    def add(self, box: _Box, bound: float) -> None:
        """Bound a box, which costs at least ``bound``, and let it wait unless nothing in it can be cheaper."""
        self.boxes += 1
        self.work += len(box.live)
        box = self.prune(box)
        starts = self.starts(box)
        if len(starts) < self.leaves.n_trees:
            return
        worths = [worth[box.live] for worth in self.worths]
        if not self.suffice(worths, starts):
            return
        low, high = bound, self.best
        if self.suffice_up_to(box, worths, starts, low):
            high = low
        else:
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                if self.suffice_up_to(box, worths, starts, middle):
                    high = middle
                else:
                    low = middle
            low = float(box.entry[box.entry > low].min())  # nothing new comes in between
        heapq.heappush(self.waiting, (low, self.boxes, max(high, low), box))
        self.kept += len(box.live)

    def prune(self, box: _Box) -> _Box:
        """Return a box without leaves that cost as much as what is known, or take too many changes."""
        good = box.entry < self.best
        if box.changes is not None and self.most is not None:
            good &= box.changes <= self.most
        if good.all():
            return box
        count = None if box.changes is None else box.changes[good]
        return _Box(box.parts, box.live[good], box.entry[good], count)

    def starts(self, box: _Box) -> Array:
        """Return where the leaves of each tree begin in a box."""
        tree = self.leaves.tree[box.live]
        return np.flatnonzero(np.concatenate([[True], tree[1:] != tree[:-1]])) if len(tree) else np.zeros(0, dtype=int)

    def suffice(self, worths: list[Array], starts: Array) -> bool:
        """Whether the best leaf of each tree is enough: one condition after the other, which is the quickest way."""
        return all(
            np.maximum.reduceat(worth, starts).sum() >= least
            for worth, least in zip(worths, self.least.tolist(), strict=True)
        )

    def suffice_up_to(self, box: _Box, worths: list[Array], starts: Array, price: float) -> bool:
        """Whether leaves of at most a price could meet every condition."""
        within = box.entry <= price
        return self.suffice([np.where(within, worth, -np.inf) for worth in worths], starts)

    def cheapest(self, box: _Box) -> tuple[Array, float]:
        """Return the cheapest cells of a box, and their price."""
        cells = [axis.cheapest(part) for axis, part in zip(self.axes, box.parts, strict=True)]
        return np.array(cells, dtype=int), float(sum(price[c] for price, c in zip(self.prices, cells, strict=True)))

    def there(self, box: _Box, cells: Array, price: float) -> Array:
        """Return the leaves of a box that hold cells, one for each tree, as positions in the box."""
        some = np.flatnonzero(box.entry <= price + _SAME_PRICE * max(price, 1.0))
        return np.asarray(some[self.cutter.hold(box.live[some], cells)])

    def split(self, box: _Box, cells: Array, here: Array, price: float, bound: float) -> bool:
        """Cut a box between its cheapest cells and the leaves that promise most; false if there are no others."""
        starts, worths = self.starts(box), [worth[box.live] for worth in self.worths]
        lacks = [
            (least - float(worth[here].sum())) / max(float(np.ptp(worth)), _TINY)
            for worth, least in zip(worths, self.least.tolist(), strict=True)
        ]
        own = worths[int(np.argmax(lacks))]
        sizes = np.diff(np.append(starts, len(own)))
        now = np.repeat(own[here], sizes)
        for offered in (np.where(box.entry <= price, own, -np.inf), None):
            if offered is None:  # whatever differs from what is here
                best, gain = np.arange(len(own)), np.abs(own - now) + (np.ptp(own) or 1.0)
            else:
                tops = np.maximum.reduceat(offered, starts)
                best = np.flatnonzero(offered == np.repeat(tops, sizes))
                gain = (own - now)[best]
                best, gain = best[gain > 0], gain[gain > 0]
            if len(best) and self.cut(box, cells, box.live[best], gain, bound):
                return True
        return False

    def cut(self, box: _Box, cells: Array, leaves: Array, gain: Array, bound: float) -> bool:
        found = self.cutter.cut(box.parts, leaves, gain, cells, self.best)
        if found is None:
            return False
        which, halves = found
        axis = self.axes[which]
        old = axis.price(box.parts[which], box.live)
        for half in halves:
            new = axis.price(half, box.live)
            good = np.flatnonzero(np.isfinite(new))
            entry = box.entry[good] + (new[good] - old[good])
            count = None if box.changes is None else box.changes[good] + (new[good] > 0) - (old[good] > 0)
            parts = tuple(half if a == which else part for a, part in enumerate(box.parts))
            self.add(_Box(parts, box.live[good], entry, count), bound)
        return True


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
        box = search.prune(box)
        if len(search.starts(box)) < leaves.n_trees:
            continue
        cells, cost = search.cheapest(box)
        here = search.there(box, cells, cost)
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
        search.split(box, cells, here, price, bound)
    lower = min(lower, search.best if search.cells is not None else np.inf)
    return Lowest(float(lower), search.cells, search.best, search.boxes)
