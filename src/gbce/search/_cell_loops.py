"""The inner loops of lines of cells, as numba compiles them; they add in the order in which numpy does."""

import numpy as np

from gbce.base import Array
from gbce.search._compiling import Loop

__all__ = ["ADD_STEPS", "MOVE", "add_steps", "move"]


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


ADD_STEPS, MOVE = Loop(add_steps), Loop(move)
