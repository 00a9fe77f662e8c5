"""The inner loops of lines and pairs of cells, as numba compiles them; they add in the order in which numpy does."""

import numpy as np

from gbce.base import Array
from gbce.search._compiling import Loop

__all__ = ["ADD_STEPS", "MOVE", "SCAN_PAIR", "add_steps", "move", "scan_pair"]


def add_steps(
    count: Array, which: Array, low: Array, high: Array, value: Array, row: Array, n_slots: int
) -> tuple[Array, Array]:
    """Return sums ``(N, q)`` of the leaves where one feature alone moves to each slot, and the leaves here ``(t,)``.

    Parameters
    ----------
    count : int array of shape (n,)
        In how many features each leaf lies outside.
    which : int array of shape (n,)
        Of a leaf with one feature outside, that one.
    low, high : int arrays of shape (n, m)
        The first slot of each feature that a leaf holds, and the one after the last.
    value : array of shape (n, q)
        What a leaf adds.
    row : int array
        Positions of the features in ``low`` and ``high``.
    n_slots : int
        All slots.
    """
    n, q = value.shape
    m = low.shape[1]
    inside, beside = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    n_inside = n_beside = 0
    for i in range(n):
        if count[i] == 0:
            inside[n_inside] = i
            n_inside += 1
        elif count[i] == 1:
            beside[n_beside] = i
            n_beside += 1
    comes, goes = np.zeros((q, n_slots + 1)), np.zeros((q, n_slots + 1))
    for i in inside[:n_inside]:
        for j in range(m):
            for k in range(q):
                comes[k, low[i, j]] += value[i, k]
                goes[k, high[i, j]] += value[i, k]
    for i in beside[:n_beside]:
        j = row[which[i]]
        for k in range(q):
            comes[k, low[i, j]] += value[i, k]
            goes[k, high[i, j]] += value[i, k]
    sums = np.empty((n_slots, q))
    for k in range(q):
        total = 0.0
        for slot in range(n_slots):
            total += comes[k, slot] - goes[k, slot]
            sums[slot, k] = total
    return sums, inside[:n_inside]


def move(count: Array, which: Array, outside: Array, low: Array, high: Array, i: int, slot: int) -> None:
    """Move feature ``i`` to a slot: which leaves ``(n,)`` lie outside then, in how many features, and in which."""
    for leaf in range(len(count)):
        is_out = not (low[leaf] <= slot and slot < high[leaf])
        if is_out and not outside[leaf]:
            count[leaf] += 1
            which[leaf] += i
        elif outside[leaf] and not is_out:
            count[leaf] -= 1
            which[leaf] -= i
        outside[leaf] = is_out


def scan_pair(
    inside: Array,
    one_i: Array,
    one_j: Array,
    two: Array,
    first_i: Array,
    end_i: Array,
    first_j: Array,
    end_j: Array,
    value: Array,
    base: Array,
    least: Array,
    price_i: Array,
    price_j: Array,
    here_i: int,
    here_j: int,
    room_i: float,
    room_j: float,
    below: float,
) -> tuple[int, int, int]:
    """Return the cells of two features that reach for the least price, -1 if none does, and how many were counted.

    Parameters
    ----------
    inside, one_i, one_j, two : int arrays
        Leaves that hold the row, that it enters with one of the features, and with both.
    first_i, end_i, first_j, end_j : int arrays of shape (n,)
        The first cell that each leaf holds, and the one after the last.
    value : array of shape (n, q)
        What a leaf adds.
    base, least : arrays of shape (q,)
        What leaves are added to, and what sums must come to.
    price_i, price_j : arrays
        Of the cells of each feature.
    here_i, here_j : int
        The row's own cells.
    room_i, room_j : float
        What a move of each feature has to cost less than.
    below : float
        What both moves have to cost less than.
    """
    q = value.shape[1]
    n_stops = np.zeros(2, dtype=np.int64)
    ranks = np.zeros((2, max(len(price_i), len(price_j)) + 1), dtype=np.int64)
    stops = np.empty((2, max(len(price_i), len(price_j))), dtype=np.int64)
    for side in range(2):
        price, here, room = (price_i, here_i, room_i) if side == 0 else (price_j, here_j, room_j)
        first, end = (first_i, end_i) if side == 0 else (first_j, end_j)
        is_stop = np.zeros(len(price), dtype=np.bool_)
        for leaves in (one_i if side == 0 else one_j, two):
            for leaf in leaves:
                if first[leaf] > here:
                    cell = first[leaf]
                    while cell < len(price) and price[cell] == np.inf:
                        cell += 1
                    if cell < len(price):
                        is_stop[cell] = True
                elif end[leaf] - 1 < here:
                    cell = end[leaf] - 1
                    while cell >= 0 and price[cell] == np.inf:
                        cell -= 1
                    if cell >= 0:
                        is_stop[cell] = True
        n = 0
        for cell in range(len(price)):
            ranks[side, cell] = n
            if is_stop[cell] and price[cell] < room and cell != here:
                stops[side, n] = cell
                n += 1
        ranks[side, len(price) :] = n
        n_stops[side] = n
    n_i, n_j = n_stops
    if n_i == 0 or n_j == 0:
        return -1, -1, 0
    rise = np.zeros((q, n_i + 1, n_j + 1))
    for corner in range(4):
        sign = 1.0 if corner in (0, 3) else -1.0
        row, column = end_i if corner >= 2 else first_i, end_j if corner % 2 else first_j
        for leaves in (inside, one_i, one_j, two):
            for leaf in leaves:
                for k in range(q):
                    rise[k, ranks[0, row[leaf]], ranks[1, column[leaf]]] += sign * value[leaf, k]
    for k in range(q):
        for a in range(1, n_i):
            for b in range(n_j):
                rise[k, a, b] += rise[k, a - 1, b]
    cheapest, best_i, best_j = below, -1, -1
    sums = np.zeros(q)
    for a in range(n_i):
        sums[:] = 0.0
        for b in range(n_j):
            reaches = True
            for k in range(q):
                sums[k] += rise[k, a, b]
                reaches &= sums[k] + base[k] >= least[k]
            price = price_i[stops[0, a]] + price_j[stops[1, b]]
            if reaches and price < cheapest:
                cheapest, best_i, best_j = price, stops[0, a], stops[1, b]
    return best_i, best_j, int(n_i * n_j)


ADD_STEPS, MOVE, SCAN_PAIR = Loop(add_steps), Loop(move), Loop(scan_pair)
