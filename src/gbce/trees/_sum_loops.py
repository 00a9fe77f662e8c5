"""Compiled sums of the leaves of tree ensembles over rows of cells.

Up to 64 rows go down a tree together, as the bits of a number: rows that follow one another often lie close together,
as noisy copies of a point do, and most splits then have all of them on one side. Leaves are added tree after tree, so
that sums do not depend on how rows are grouped, to the last bit.

Importing this module imports numba; :mod:`gbce.trees._cells` does so on first use.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from gbce.base import Array

_BLOCK = 64  # rows that go down together: the bits of a number
_ONE = np.uint64(1)
# A product with this number has the position of a single bit in its first six bits (de Bruijn, 1946).
_MAGIC, _SHIFT = np.uint64(0x03F79D71B4CB0A89), np.uint64(58)
_PLACES = np.argsort([((0x03F79D71B4CB0A89 << place) % 2**64) >> 58 for place in range(64)])


def compile_loop(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop, cached on disk where some directory can be written."""
    try:
        return njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # numba finds no directory for its cache
        return njit(nogil=True)(loop)


# A node is column, cut, left child, which the right one follows, and kind, as in :class:`gbce.trees._along`.
# Here a leaf is its own left child.


@compile_loop
def sum_leaves(
    cells: Array, roots: Array, n_known: Array, nodes: Array, words: Array, value: Array, out: Array
) -> None:
    """Add the leaves of every tree that hold rows of cells ``(n, d)`` to ``out`` ``(n, K)``, one tree after another."""
    d = cells.shape[1]
    begins = np.zeros(d + 1, np.int64)
    begins[1:] = np.cumsum(n_known + 1)
    upto, ends, absent = np.empty(begins[d], np.uint64), np.empty((d, 2), np.int64), np.empty(d, np.uint64)
    later, parts = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.uint64)  # nodes, and which rows reach them
    for start in range(0, len(cells), _BLOCK):
        stop = min(start + _BLOCK, len(cells))
        _mark_cells(cells, start, stop, begins, n_known, upto, ends, absent)
        _add_block(start, stop, begins, upto, ends, absent, roots, nodes, words, value, later, parts, out)


@compile_loop
def _mark_cells(
    cells: Array, start: int, stop: int, begins: Array, n_known: Array, upto: Array, ends: Array, absent: Array
) -> None:
    """Find the lowest and the highest cell of each column, and which rows lie up to each cell between, as bits.

    The cells of column ``j`` are in ``upto`` from ``begins[j]`` on; ``absent`` ``(d,)`` are rows where it is missing.
    """
    for j in range(len(ends)):
        low = high = cells[start, j]
        for i in range(start + 1, stop):
            low, high = min(low, cells[i, j]), max(high, cells[i, j])
        begin, ends[j, 0], ends[j, 1] = begins[j], low, high
        for at in range(begin + low, begin + high + 1):
            upto[at] = 0
        for i in range(start, stop):
            upto[begin + cells[i, j]] |= _ONE << np.uint64(i - start)
        absent[j] = upto[begin + high] if high == n_known[j] else np.uint64(0)
        for at in range(begin + low + 1, begin + high + 1):
            upto[at] |= upto[at - 1]


@compile_loop
def _add_block(
    start: int, stop: int, begins: Array, upto: Array, ends: Array, absent: Array, roots: Array, nodes: Array,
    words: Array, value: Array, later: Array, parts: Array, out: Array,
) -> None:  # fmt: skip
    """Add the leaves of a block of rows, in one loop because calls within it would take longer than its work."""
    for t in range(len(roots)):
        later[0], parts[0], top = roots[t], ~np.uint64(0) >> np.uint64(_BLOCK - (stop - start)), 1
        while top > 0:
            top -= 1
            node, rows = later[top], parts[top]
            while nodes[node, 2] != node:
                column, cut, child, kind = nodes[node, 0], nodes[node, 1], np.int64(nodes[node, 2]), nodes[node, 3]
                if kind >= 0:
                    left = rows & _find_members(begins[column], ends[column, 0], ends[column, 1], upto, words[kind])
                elif cut >= ends[column, 1]:
                    left = rows
                elif cut >= ends[column, 0]:
                    left = rows & upto[begins[column] + cut]
                else:
                    left = np.uint64(0)
                if kind == -2:  # missing values go left
                    left |= rows & absent[column]
                if left == 0:
                    node = child + 1
                elif left == rows:
                    node = child
                else:
                    later[top], parts[top] = child + 1, rows ^ left
                    top += 1
                    node, rows = child, left
            while rows:
                bit = rows & (~rows + _ONE)
                rows ^= bit
                i = start + _PLACES[(bit * _MAGIC) >> _SHIFT]
                for k in range(value.shape[1]):
                    out[i, k] += value[node, k]


@compile_loop
def _find_members(begin: int, low: int, high: int, upto: Array, members: Array) -> Any:
    """Return which rows lie in a set of cells from ``low`` to ``high`` of a column."""
    found, before = np.uint64(0), np.uint64(0)
    for cell in range(low, high + 1):
        if (members[cell >> 6] >> np.uint64(cell & 63)) & _ONE:
            found |= upto[begin + cell] & ~before
        before = upto[begin + cell]
    return found
