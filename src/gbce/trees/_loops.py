"""The inner loops of the search for the cheapest row, as numba compiles them; they add in the order that numpy has.

All of them walk over leaves of a box: positions among those of a search, in the order of their trees.
"""

import numpy as np

from gbce.base import Array
from gbce.trees._move_table import Loop

__all__ = ["BOUND", "CUT", "HOLD", "NARROW", "PRICE", "PROMISE"]


def price_stretch(low: Array, high: Array, leaves: Array, price: Array, own: int, first: int, end: int) -> Array:
    """Return the least price ``(m,)`` of what leaves ``(m,)`` have from cell ``first`` up to but without ``end``."""
    found = np.empty(len(leaves))
    for i in range(len(leaves)):
        start, last = max(low[leaves[i]], first), min(high[leaves[i]], end) - 1
        found[i] = price[min(max(own, start), last)] if start <= last else np.inf
    return found


def hold(ends: Array, leaves: Array, cells: Array) -> Array:
    """Return which leaves ``(m,)`` have cells ``(n,)``, by first cells and then those after the last ``(L, 2n)``."""
    n = len(cells)
    found = np.empty(len(leaves), dtype=np.bool_)
    for i in range(len(leaves)):
        leaf, good = leaves[i], True
        for a in range(n):
            if ends[leaf, a] > cells[a] or ends[leaf, n + a] <= cells[a]:
                good = False
                break
        found[i] = good
    return found


def cut(
    ends: Array, leaves: Array, gain: Array, cells: Array, starts: Array, price: Array, newest: Array, least: float
) -> tuple[float, int, int]:
    """Return how good the best cut of an ordered axis is, the axis, and the cell before which it lies.

    Parameters
    ----------
    ends : int array of shape (L, 2n)
        First cells of all leaves along ``n`` axes, then those after the last.
    leaves, gain : arrays of shape (m,)
        Leaves that promise most, and what each is better.
    cells : int array of shape (n,)
        The cheapest of the box.
    starts : int array of shape (n + 1,)
        Where the places of each axis begin in ``price``.
    price : array of shape (P,)
        Of all places.
    newest : int array of shape (P,)
        Minus ones, which they are again in the end: places are too many to make it anew for every box.
    least : float
        That a step counts as at least.
    """
    m, n = len(leaves), len(cells)
    best, which, where = 0.0, -1, -1
    chain, who = np.empty(m * n, dtype=np.int32), np.empty(m * n, dtype=np.int32)  # leaves that end at the same place
    far = np.empty(n, dtype=np.int64)
    for side in range(2):  # leaves above the cells, then those below
        for a in range(n):
            far[a] = cells[a] + side  # nothing yet
        count = 0
        for k in range(m):
            i = k if side == 0 else m - 1 - k  # of a chain the newest comes first
            for a in range(n):
                end = ends[leaves[i], a + side * n]
                if (end > cells[a]) if side == 0 else (end <= cells[a]):
                    place = starts[a] + end
                    who[count], chain[count], newest[place] = i, newest[place], count
                    count += 1
                    far[a] = max(far[a], end) if side == 0 else min(far[a], end)
        total = 0.0
        for b in range(n):
            a = b if side == 1 else n - 1 - b
            here, before = price[starts[a] + cells[a]], total
            for c in range(abs(cells[a] + side - far[a])):  # from the far end towards the cells
                place = starts[a] + (far[a] + c if side == 1 else far[a] - c)
                at, newest[place] = newest[place], -1
                while at >= 0:
                    total += gain[who[at]]
                    worth = (total - before) * max(price[place - side] - here, least)
                    if worth > best:
                        best, which, where = worth, a, place - starts[a]
                    at = chain[at]
    return best, which, where


def narrow(
    live: Array, entry: Array, changes: Array, old: Array, new: Array, best: float, most: int
) -> tuple[Array, Array, Array, int]:
    """Return the leaves that matter in a part of a box, their prices and changes, and how many have something there.

    Parameters
    ----------
    live, entry : arrays of shape (m,)
        Leaves, and what each costs at least.
    changes : int array of shape (m,)
        How many changes each takes; empty if that does not matter.
    old, new : arrays of shape (m,)
        What each costs at least along the axis that is cut, before and after.
    best : float
        What costs as much does not matter.
    most : int
        What takes more changes does not matter.
    """
    counted = len(changes) > 0
    kept, price, count = np.empty_like(live), np.empty_like(entry), np.empty_like(changes)
    n = there = 0
    for i in range(len(live)):
        if not np.isfinite(new[i]):
            continue
        there += 1
        price[n] = entry[i] + (new[i] - old[i])
        if not price[n] < best:
            continue
        if counted:
            count[n] = changes[i] + (1 if new[i] > 0 else 0) - (1 if old[i] > 0 else 0)
            if count[n] > most:
                continue
        kept[n] = live[i]
        n += 1
    return kept[:n].copy(), price[:n].copy(), count[: n if counted else 0].copy(), there


def bound(
    live: Array, entry: Array, tree: Array, worth: Array, least: Array, n_trees: int, low: float, high: float,
    halvings: int,
) -> tuple[float, float]:  # fmt: skip
    """Return a price below which leaves of a box cannot meet the conditions, and one at which they could.

    Parameters
    ----------
    live, entry : arrays of shape (m,)
        Leaves of the box, and what each costs at least.
    tree, worth : arrays of shape (L,) and (q, L)
        Of all leaves.
    least : array of shape (q,)
        What the sums of worths must come to.
    n_trees : int
        How many there are.
    low, high : float
        What is known of both prices.
    halvings : int
        Of what lies between them.

    Returns
    -------
    low, high : float
        Infinite if all leaves are not enough.
    """
    q, n = len(least), len(live)
    tops, tried = np.full((q, n_trees), -np.inf), np.empty((q, n_trees))
    between = np.arange(n)  # leaves that are not among those of the lower price, but of the higher
    for step in range(halvings + 2):
        price = np.inf if step == 0 else low if step == 1 else 0.5 * (low + high)
        for k in range(q):
            for t in range(n_trees):
                tried[k, t] = tops[k, t]
        for j in range(n):
            leaf = live[between[j]]
            if entry[between[j]] <= price:
                for k in range(q):
                    tried[k, tree[leaf]] = max(tried[k, tree[leaf]], worth[k, leaf])
        enough = True
        for k in range(q):
            total = 0.0
            for t in range(n_trees):
                total += tried[k, t]
            enough = enough and total >= least[k]
        if step == 0 and not enough:
            return np.inf, np.inf
        if step == 1 and enough:
            return low, low
        if enough:
            high = min(high, price)
        else:
            low, tops, tried = price, tried, tops
        kept = 0
        for j in range(n):
            if (entry[between[j]] <= price) == enough:
                between[kept] = between[j]
                kept += 1
        n = kept
    first = np.inf  # nothing new comes in between
    for j in range(n):
        first = min(first, entry[between[j]])
    return first, max(high, first)


def promise(live: Array, entry: Array, tree: Array, worth: Array, here: Array, price: float) -> tuple[Array, Array]:
    """Return the leaves that are the best of their trees up to a price and better than those here, and by how much.

    Parameters
    ----------
    live, entry : arrays of shape (m,)
        Leaves of the box, and what each costs at least.
    tree, worth : arrays of shape (L,)
        Of all leaves.
    here : int array of shape (T,)
        One leaf of each tree, by its position in the box.
    price : float
        What costs more does not count.
    """
    top, now = np.full(len(here), -np.inf), np.empty(len(here))
    for t in range(len(here)):
        now[t] = worth[live[here[t]]]
    for i in range(len(live)):
        if entry[i] <= price:
            t = tree[live[i]]
            top[t] = max(top[t], worth[live[i]])
    leaves, gain = np.empty_like(live), np.empty(len(live))
    n = 0
    for i in range(len(live)):
        leaf = live[i]
        own, t = worth[leaf], tree[leaf]
        if own > now[t] and (own if entry[i] <= price else -np.inf) == top[t]:
            leaves[n], gain[n] = leaf, own - now[t]
            n += 1
    return leaves[:n].copy(), gain[:n].copy()


PRICE, HOLD, CUT = Loop(price_stretch), Loop(hold), Loop(cut)
NARROW, BOUND, PROMISE = Loop(narrow), Loop(bound), Loop(promise)
