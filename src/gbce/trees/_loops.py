"""Compiled loops over the nodes of tree ensembles: sums of leaves, scores of points on cells and along one column.

Importing this module compiles them by numba; :mod:`gbce.trees._along` does so on first use. Random numbers are passed
in, so that results depend on the caller's generator only.
"""

from typing import Any

import numpy as np

from gbce._numerics import compile_loop
from gbce.base import Array
from gbce.trees._move_loops import drop_leaves as drop_leaves
from gbce.trees._move_loops import enter_leaves as enter_leaves
from gbce.trees._move_loops import find_windows as find_windows
from gbce.trees._move_loops import mark_cheapest as mark_cheapest
from gbce.trees._move_loops import mark_steps as mark_steps
from gbce.trees._move_loops import score_moves as score_moves

_BLOCK = 64  # rows that go down together: the bits of a number
_TOGETHER = 32  # points that go down a tree one after another, while it is in the cache; by time, on a forest
_ONE, _SIX = np.uint64(1), np.uint64(63)  # one bit, and six: of a position within a word
# A product with this number has the position of a single bit in its first six bits (de Bruijn, 1946).
_MAGIC, _SHIFT = np.uint64(0x03F79D71B4CB0A89), np.uint64(58)
_PLACES = np.argsort([((0x03F79D71B4CB0A89 << place) % 2**64) >> 58 for place in range(64)])


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


# A node in one word, so that a step down a tree reads memory once: its column, or what no column is for a leaf and for
# a node that has to be looked up; whether missing values go left; the first cell that goes right; and the left child.
COLUMN_BITS, CUT_BITS, CHILD_BITS = 16, 19, 28
LEAF, LOOKED_UP = 2**COLUMN_BITS - 1, 2**COLUMN_BITS - 2
_COLUMN, _CUT = np.uint64(2**COLUMN_BITS - 1), np.uint64(2**CUT_BITS - 1)
_LEAF, _LOOKED_UP = np.uint64(LEAF), np.uint64(LOOKED_UP)
_FLAG_AT, _CUT_AT, _CHILD_AT = np.uint64(COLUMN_BITS), np.uint64(COLUMN_BITS + 1), np.uint64(COLUMN_BITS + 1 + CUT_BITS)


# The walk down a tree is written out in each loop: handing arrays to a function counts references to them, which takes
# ten times as long as a step. Column, cut, left child and kind of a node stand side by side, so that a step reads
# memory once. A cell goes right beyond the cut; kinds other than -1 are sets (0 and more), bits in words of 64 cells,
# where cells outside go right, and cuts at which missing values, which have the last cell, go left (-2).


@compile_loop
def sum_scores(
    cells: Array,
    roots: Array,
    slot: Array,
    n_known: Array,
    nodes: Array,
    packed: Array,
    words: Array,
    value: Array,
    out: Array,
    paths: Array,
) -> None:
    """Add the leaves of every tree that hold points ``(n, m)`` to their scores ``out`` ``(n, S)``.

    ``paths`` ``(n, T)`` gets the columns on the way to each leaf, as bits; columns that differ by 64 share one.
    """
    for start in range(0, len(cells), _TOGETHER):
        for t in range(len(roots)):
            for i in range(start, min(start + _TOGETHER, len(cells))):
                node, path = np.uint64(roots[t]), np.uint64(0)
                while True:
                    word = packed[node]
                    on = word & _COLUMN
                    if on >= _LOOKED_UP:
                        if on == _LEAF:
                            break
                        on = np.uint64(nodes[node, 0])
                        path |= _ONE << (on & _SIX)
                        cell = np.int64(cells[i, on])
                        right = cell > nodes[node, 1]
                        if nodes[node, 3] >= 0:
                            right = not (words[nodes[node, 3], cell >> 6] >> np.uint64(cell & 63)) & _ONE
                        elif nodes[node, 3] == -2:
                            right = right and cell != n_known[on]
                        node = np.uint64(nodes[node, 2]) + np.uint64(right)
                        continue
                    path |= _ONE << (on & _SIX)
                    known = np.uint64(cells[i, on])
                    left = (word >> _FLAG_AT) & np.uint64(known == np.uint64(n_known[on]))
                    node = (word >> _CHILD_AT) + (np.uint64(known >= ((word >> _CUT_AT) & _CUT)) & (left ^ _ONE))
                paths[i, t] = path
                for w in range(value.shape[1]):
                    out[i, slot[t] + w] += value[node, w]


@compile_loop
def renew_paths(
    column: int,
    moved: Array,
    trees: Array,
    cells: Array,
    roots: Array,
    n_known: Array,
    nodes: Array,
    packed: Array,
    words: Array,
    paths: Array,
) -> None:
    """Renew the paths of points that ``moved`` ``(n,)`` along one column in the trees where it was on the way."""
    bit = np.uint64(1) << np.uint64(column & 63)
    for start in range(0, len(cells), _TOGETHER):
        for at in range(len(trees)):
            t = trees[at]
            for i in range(start, min(start + _TOGETHER, len(cells))):
                if not moved[i] or not paths[i, t] & bit:
                    continue
                node, path = np.uint64(roots[t]), np.uint64(0)
                while True:
                    word = packed[node]
                    on = word & _COLUMN
                    if on >= _LOOKED_UP:
                        if on == _LEAF:
                            break
                        on = np.uint64(nodes[node, 0])
                        path |= _ONE << (on & _SIX)
                        cell = np.int64(cells[i, on])
                        right = cell > nodes[node, 1]
                        if nodes[node, 3] >= 0:
                            right = not (words[nodes[node, 3], cell >> 6] >> np.uint64(cell & 63)) & _ONE
                        elif nodes[node, 3] == -2:
                            right = right and cell != n_known[on]
                        node = np.uint64(nodes[node, 2]) + np.uint64(right)
                        continue
                    path |= _ONE << (on & _SIX)
                    known = np.uint64(cells[i, on])
                    left = (word >> _FLAG_AT) & np.uint64(known == np.uint64(n_known[on]))
                    node = (word >> _CHILD_AT) + (np.uint64(known >= ((word >> _CUT_AT) & _CUT)) & (left ^ _ONE))
                paths[i, t] = path


@compile_loop
def find_steps(
    column: int,
    by_cell: bool,
    mass: Array,
    below: Array,
    above: Array,
    trees: Array,
    cells: Array,
    scores: Array,
    paths: Array,
    roots: Array,
    slot: Array,
    n_known: Array,
    nodes: Array,
    packed: Array,
    words: Array,
    value: Array,
    starts: Array,
    first: Array,
    masses: Array,
    along: Array,
) -> int:
    """Write the steps of the scores along one column, one point of ``cells`` ``(n, m)`` after the other.

    ``starts`` ``(n + 1,)`` are the positions of each point's steps; ``first`` their first cells, ``masses`` their prior
    masses and ``along`` ``(., S)`` their scores. ``mass`` has one entry per cell; ``below`` and ``above`` sum those of
    the ordered cells before and from each cell on. Returns the number of all steps.
    """
    n_cells, n_scores, width = len(mass), scores.shape[1], value.shape[1]
    n_ordered = 0 if by_cell else n_known[column]  # a range of these is followed at once, then the missing cell
    middle = np.searchsorted(below, 0.5 * below[n_ordered])
    # scores of the trees that split on the column: for ordered cells, differences from the cell before where marked
    score, total = np.zeros((_TOGETHER, n_cells + 1, n_scores)), np.zeros(n_scores)
    marked = np.zeros((_TOGETHER, n_cells // 64 + 1), np.uint64)
    later = np.empty((max(n_cells + 1, 65), 3), np.int64)  # nodes still to be followed, with their ranges of cells
    sets = np.empty(65, np.uint64)  # or with sets of 64 unordered cells: each node that is put off splits one
    bit, here_column = np.uint64(1) << np.uint64(column & 63), np.uint64(column)
    n = 0
    for start in range(0, len(cells), _TOGETHER):
        stop = min(start + _TOGETHER, len(cells))
        score[:, n_ordered:] = 0.0
        for at in range(len(trees)):
            t = trees[at]
            for i in range(start, stop):
                own = i - start
                if not paths[i, t] & bit:  # the column is not on the way: the tree does not change along it
                    continue
                for word in range((n_cells + 63) // 64 if by_cell else 0):
                    zero, n_bits = 64 * word, min(64, n_cells - 64 * word)
                    later[0, 0], sets[0], top = roots[t], ~np.uint64(0) >> np.uint64(64 - n_bits), 1
                    while top > 0:
                        top -= 1
                        node, held = later[top, 0], sets[top]
                        while nodes[node, 0] >= 0:
                            if nodes[node, 0] == column:
                                goes_left = np.uint64(0)
                                if nodes[node, 3] >= 0:
                                    goes_left = words[nodes[node, 3], word]
                                else:
                                    missing = n_known[column] if nodes[node, 3] == -2 else -1
                                    for k in range(n_bits):
                                        if zero + k <= nodes[node, 1] or zero + k == missing:
                                            goes_left |= np.uint64(1) << np.uint64(k)
                                if held & goes_left == np.uint64(0):
                                    node = np.int64(nodes[node, 2] + 1)
                                else:
                                    if held & ~goes_left != np.uint64(0):
                                        later[top, 0], sets[top] = nodes[node, 2] + 1, held & ~goes_left
                                        top += 1
                                    held &= goes_left
                                    node = np.int64(nodes[node, 2])
                                continue
                            cell = np.int64(cells[i, nodes[node, 0]])
                            right = cell > nodes[node, 1]
                            if nodes[node, 3] >= 0:
                                right = not (words[nodes[node, 3], cell >> 6] >> np.uint64(cell & 63)) & np.uint64(1)
                            elif nodes[node, 3] == -2:
                                right = right and cell != n_known[nodes[node, 0]]
                            node = np.int64(nodes[node, 2] + (1 if right else 0))
                        for k in range(n_bits):
                            if (held >> np.uint64(k)) & np.uint64(1):
                                for w in range(width):
                                    score[own, zero + k, slot[t] + w] += value[node, w]
                if by_cell:
                    continue
                later[0, 0], later[0, 1], later[0, 2], top = roots[t], 0, n_ordered - 1, min(n_ordered, 1)
                single = n_ordered
                while top > 0 or single < n_cells:
                    if top > 0:
                        top -= 1
                        node, low, high = np.uint64(later[top, 0]), later[top, 1], later[top, 2]
                    else:
                        node, low, high = np.uint64(roots[t]), np.int64(single), np.int64(single)
                        single += 1
                    while True:
                        word = packed[node]
                        on = word & _COLUMN
                        if on == here_column and low < high:
                            cut, child = np.int64((word >> _CUT_AT) & _CUT) - 1, word >> _CHILD_AT
                            if low <= cut and cut < high:
                                later[top, 0], later[top, 1], later[top, 2] = child + _ONE, cut + 1, high
                                top += 1
                                high = cut
                            node = child + np.uint64(high > cut)
                            continue
                        if on >= _LOOKED_UP:
                            if on == _LEAF:
                                break
                            along_it = nodes[node, 0] == column
                            if along_it and low < high:
                                cut, child = np.int64(nodes[node, 1]), np.uint64(nodes[node, 2])
                                if low <= cut and cut < high:
                                    later[top, 0], later[top, 1], later[top, 2] = child + _ONE, cut + 1, high
                                    top += 1
                                    high = cut
                                node = child + np.uint64(high > cut)
                                continue
                            cell = low if along_it else np.int64(cells[i, nodes[node, 0]])
                            right = cell > nodes[node, 1]
                            if nodes[node, 3] >= 0:
                                right = not (words[nodes[node, 3], cell >> 6] >> np.uint64(cell & 63)) & _ONE
                            elif nodes[node, 3] == -2:
                                right = right and cell != n_known[nodes[node, 0]]
                            node = np.uint64(nodes[node, 2]) + np.uint64(right)
                            continue
                        known = np.uint64(low) if on == here_column else np.uint64(cells[i, on])
                        left = (word >> _FLAG_AT) & np.uint64(known == np.uint64(n_known[on]))
                        node = (word >> _CHILD_AT) + (np.uint64(known >= ((word >> _CUT_AT) & _CUT)) & (left ^ _ONE))
                    for w in range(width):
                        score[own, low, slot[t] + w] += value[node, w]
                    if low < n_ordered:
                        marked[own, low >> 6] |= np.uint64(1) << np.uint64(low & 63)
                        if high + 1 < n_ordered:
                            marked[own, (high + 1) >> 6] |= np.uint64(1) << np.uint64((high + 1) & 63)
                            for w in range(width):
                                score[own, high + 1, slot[t] + w] -= value[node, w]
        for i in range(start, stop):
            own = i - start
            now, here, starts[i] = cells[i, column], n, n
            total[:] = 0.0
            if n_ordered > 0:
                marked[own, 0] |= np.uint64(1)
            for word in range((n_ordered + 63) // 64):
                held = marked[own, word]
                marked[own, word] = np.uint64(0)
                for byte in range(8):
                    if (held >> np.uint64(8 * byte)) & np.uint64(255) == np.uint64(0):
                        continue
                    for k in range(8 * byte, 8 * byte + 8):
                        if not (held >> np.uint64(k)) & np.uint64(1):
                            continue
                        cell = np.int64(64 * word + k)
                        first[n] = cell
                        for s in range(n_scores):
                            total[s] += score[own, cell, s]
                            score[own, cell, s] = 0.0
                            along[n, s] = total[s]
                        if cell <= now:
                            here = n
                        n += 1
            for step in range(starts[i], n):
                low, high = first[step], first[step + 1] if step + 1 < n else n_ordered
                if high <= middle:
                    masses[step] = below[high] - below[low]
                elif low >= middle:
                    masses[step] = above[low] - above[high]
                else:
                    masses[step] = below[n_ordered] - below[low] - above[high]
            for k in range(n_ordered, n_cells):
                first[n], masses[n] = k, mass[k]
                for s in range(n_scores):
                    along[n, s] = score[own, k, s]
                if k == now:
                    here = n
                n += 1
            for s in range(n_scores):
                shift = scores[i, s] - along[here, s]
                for step in range(starts[i], n):
                    along[step, s] += shift
    starts[len(cells)] = n
    return n


@compile_loop
def interpolate(along: Array, low: float, per_unit: float, table: Array, out: Array) -> None:
    """Interpolate a table of values at equally spaced scores, linearly, for scores ``(n, 1)``."""
    last = len(table) - 2
    for i in range(len(along)):
        place = (along[i, 0] - low) * per_unit
        k = min(max(int(place), 0), last)
        out[i] = table[k] + (place - k) * (table[k + 1] - table[k])


@compile_loop
def pick_cells(
    mass: Array, uniform: Array, starts: Array, first: Array, masses: Array, potential: Array, cell: Array, step: Array
) -> None:
    """Draw a step of each point by prior mass times likelihood, and a cell within it, from one uniform variate each.

    ``cell`` and ``step`` ``(n,)`` keep their values where no step has mass.
    """
    for i in range(len(uniform)):
        lowest = np.inf
        for s in range(starts[i], starts[i + 1]):
            if masses[s] > 0.0 and potential[s] < lowest:
                lowest = potential[s]
        if lowest == np.inf:
            continue
        total = 0.0
        for s in range(starts[i], starts[i + 1]):
            total += masses[s] * np.exp(lowest - potential[s])
        left, chosen, share = uniform[i] * total, -1, 0.0
        for s in range(starts[i], starts[i + 1]):
            weight = masses[s] * np.exp(lowest - potential[s])
            if weight > 0.0:
                chosen, share = s, min(max(left / weight, 0.0), 1.0)
                if left < weight:
                    break
            left -= weight
        end = first[chosen + 1] if chosen + 1 < starts[i + 1] else len(mass)
        left = share * masses[chosen]
        for k in range(first[chosen], end):
            if mass[k] > 0.0:
                cell[i] = k
                if left < mass[k]:
                    break
            left -= mass[k]
        step[i] = chosen
