"""Compiled loops over leaves and moves of one point: its scores along every column, and which moves need be judged.

:mod:`gbce.trees._loops` passes them on; a node is column, cut, left child, which the right one follows, and kind, as
there.
"""

import numpy as np

from gbce._numerics import compile_loop
from gbce.base import Array


@compile_loop
def drop_leaves(first: Array, last: Array, features: Array, low: Array, high: Array, held: Array) -> None:
    """Unmark the leaves ``held`` ``(L,)`` without a known cell between ``low`` and ``high`` of some ``features``."""
    for leaf in range(len(held)):
        for i in range(len(features)):
            begin, end = first[leaf, features[i]], last[leaf, features[i]]
            if begin > high[i] or end < low[i] or begin > end:
                held[leaf] = False
                break


@compile_loop
def enter_leaves(
    column: int, first: Array, last: Array, missing: Array, here: int, bound: Array, gap: float, away: float,
    most: float, most_changes: int, leaf: Array, price: Array, changes: Array,
) -> int:  # fmt: skip
    """Add what it costs to enter leaves along a column; keep those in reach, in place, and return their number.

    ``bound`` ``(n_cells,)`` are prices from the cell ``here`` on, ``gap`` is that of a missing value. From a missing
    value all cells cost ``away``.
    """
    n = 0
    for at in range(len(leaf)):
        begin, end, absent = first[leaf[at], column], last[leaf[at], column], missing[leaf[at], column]
        if here == len(bound):
            moved, least = not absent, 0.0 if absent else away
        else:
            moved, least = begin > here or end < here, np.inf
            if begin <= end:
                least = bound[min(max(begin, here), end)]
            if absent and gap < least:
                least = gap
        total, count = price[at] + least, changes[at] + moved
        if (total < most or (total == most and most < np.inf)) and count <= most_changes:
            leaf[n], price[n], changes[n], n = leaf[at], total, count, n + 1
    return n


@compile_loop
def score_moves(
    which: Array,
    begins: Array,
    window: Array,
    gaps: Array,
    depth: int,
    cells: Array,
    here: Array,
    roots: Array,
    slot: Array,
    n_known: Array,
    nodes: Array,
    words: Array,
    value: Array,
    out: Array,
) -> None:
    """Add the scores of a point on cells ``(m,)`` to ``here`` ``(S,)``, and those after moves to ``out`` ``(N, S)``.

    It is moved along the columns that ``which`` ``(m,)`` numbers, not along those of -1. Their cells begin at
    ``begins`` in ``out``, the missing one last. Only cells from the ``window`` ``(., 2)`` of a column are scored, and
    the missing one where it has ``gaps``. ``depth`` bounds that of all trees.
    """
    path, later = np.empty(depth, np.int64), np.empty((depth + 1, 4), np.int64)
    low, high, with_gap = np.empty(len(cells), np.int64), np.empty(len(cells), np.int64), np.empty(len(cells), np.bool_)
    for t in range(len(roots)):
        node, n = np.int64(roots[t]), 0
        while nodes[node, 0] >= 0:
            column = nodes[node, 0]
            if which[column] >= 0:
                i = which[column]
                low[column], high[column], with_gap[column] = window[i, 0], window[i, 1], gaps[i]
            path[n], n = node, n + 1
            cell = np.int64(cells[column])
            right = cell > nodes[node, 1]
            if nodes[node, 3] >= 0:
                right = not (words[nodes[node, 3], cell >> 6] >> np.uint64(cell & 63)) & np.uint64(1)
            elif nodes[node, 3] == -2:
                right = right and cell != n_known[column]
            node = np.int64(nodes[node, 2] + (1 if right else 0))
        own = node
        for w in range(value.shape[1]):
            here[slot[t] + w] += value[own, w]
        for at in range(n):
            column, cut = np.int64(nodes[path[at], 0]), np.int64(nodes[path[at], 1])
            if which[column] < 0:
                continue
            missing_left, taken = nodes[path[at], 3] == -2, path[at + 1] if at + 1 < n else own
            right = taken > nodes[path[at], 2]
            # the cells that leave the way of the point here
            later[0, 0] = nodes[path[at], 2] + (0 if right else 1)
            later[0, 1] = low[column] if right else max(low[column], cut + 1)
            later[0, 2] = min(high[column], cut) if right else high[column]
            later[0, 3] = with_gap[column] and missing_left == right
            low[column] = max(low[column], cut + 1) if right else low[column]
            high[column] = high[column] if right else min(high[column], cut)
            with_gap[column] = with_gap[column] and missing_left != right
            top = 1
            while top > 0:
                top -= 1
                node, first, last, gap = later[top, 0], later[top, 1], later[top, 2], later[top, 3]
                while nodes[node, 0] >= 0 and (first <= last or gap == 1):
                    child, cut = np.int64(nodes[node, 2]), np.int64(nodes[node, 1])
                    if nodes[node, 0] == column:
                        gap_left = gap if nodes[node, 3] == -2 else 0
                        later[top, 0], later[top, 1], later[top, 2] = child + 1, max(first, cut + 1), last
                        later[top, 3] = gap - gap_left
                        top += 1
                        node, last, gap = child, min(last, cut), gap_left
                        continue
                    cell = np.int64(cells[nodes[node, 0]])
                    right = cell > cut
                    if nodes[node, 3] >= 0:
                        right = not (words[nodes[node, 3], cell >> 6] >> np.uint64(cell & 63)) & np.uint64(1)
                    elif nodes[node, 3] == -2:
                        right = right and cell != n_known[nodes[node, 0]]
                    node = child + (1 if right else 0)
                begin, n_cells, end = begins[which[column]], n_known[column], window[which[column], 1]
                for w in range(value.shape[1]):
                    gain = value[node, w] - value[own, w]
                    if first <= last:
                        out[begin + first, slot[t] + w] += gain
                        if last < end:
                            out[begin + last + 1, slot[t] + w] -= gain
                    if gap == 1:
                        out[begin + n_cells, slot[t] + w] += gain
    for column in range(len(cells)):
        if which[column] < 0:
            continue
        begin = begins[which[column]]
        first, last = begin + window[which[column], 0], begin + window[which[column], 1]
        for s in range(len(here)):
            out[first, s] += here[s]
            for k in range(first + 1, last + 1):  # until here, differences from the cell before
                out[k, s] += out[k - 1, s]
            out[begin + n_known[column], s] += here[s]


@compile_loop
def find_windows(
    begins: Array, start: Array, here: Array, price: Array, room: Array, window: Array, gaps: Array
) -> None:
    """Find the first and the last known cell ``(m, 2)`` of each column that ``price`` ``(N,)`` leaves in its ``room``.

    Prices of a column rise from the slot ``start`` ``(m,)`` on to both sides, but for cells that cannot be had. The
    window includes the slot ``here`` ``(m,)``, if that is no missing value, which is in ``room`` where ``gaps``.
    """
    for i in range(len(start)):
        begin, last = begins[i], begins[i + 1] - 2
        gaps[i] = price[last + 1] <= room[i]
        low = high = min(start[i], last)
        if start[i] > last:  # from a missing value, prices are in no order
            low, high = begin, last
        at = low - 1
        while at >= begin and (price[at] <= room[i] or price[at] == np.inf):
            low, at = (at if price[at] <= room[i] else low), at - 1
        at = high + 1
        while at <= last and (price[at] <= room[i] or price[at] == np.inf):
            high, at = (at if price[at] <= room[i] else high), at + 1
        if here[i] <= last:
            low, high = min(low, here[i]), max(high, here[i])
        window[i, 0], window[i, 1] = low - begin, high - begin


@compile_loop
def mark_steps(
    begins: Array, window: Array, here: Array, by_cell: Array, price: Array, room: Array, along: Array, marked: Array
) -> None:
    """Mark the nearest place of each step of scores ``along`` ``(N, S)`` that leads away from a point.

    Each column's places start at ``begins`` ``(m + 1,)``; ``window`` ``(m, 2)`` are the cells that count, those of a
    ``price`` ``(N,)`` up to the ``room`` ``(m,)`` can be had, and ``here`` ``(m,)`` are the point's places. Of columns
    that are unordered, or missing at the point, all places that can be had are marked.
    """
    for i in range(len(here)):
        begin, last = begins[i], begins[i + 1] - 1
        if by_cell[i] or here[i] == last:
            for place in range(begin, last + 1):
                marked[place] = price[place] <= room[i]
            continue
        marked[last] = price[last] <= room[i]
        for side in (-1, 1):
            before, place = here[i], here[i] + side
            while begin + window[i, 0] <= place <= begin + window[i, 1]:
                if price[place] <= room[i]:
                    for s in range(along.shape[1]):
                        if along[place, s] != along[before, s]:
                            marked[place] = True
                    before = place
                place += side


@compile_loop
def mark_cheapest(
    begins: Array, here: Array, by_cell: Array, price: Array, changed: Array, along: Array, marked: Array
) -> None:
    """Mark the cheapest place of each run of equal scores ``along`` ``(N, S)``, and the first not dearer than here.

    Each column's places start at ``begins`` ``(m + 1,)``, ``here`` ``(m,)`` are a point's, and runs end where
    ``changed`` ``(N,)`` does or the point is. Of unordered columns and of missing values all places that can be had are
    marked.
    """
    for i in range(len(here)):
        begin, last = begins[i], begins[i + 1] - 1
        for place in range(begin if by_cell[i] else last, last + 1):
            marked[place] = price[place] < np.inf
        marked[here[i]] = True
        least, before = -1, -1  # the cheapest place of the run and the place before
        no_dearer = False
        for place in range(begin, begin if by_cell[i] else last):
            if price[place] == np.inf:
                continue
            same = before >= 0 and place != here[i] and before != here[i] and changed[place] == changed[before]
            if same:
                for s in range(along.shape[1]):
                    same = same and along[place, s] == along[before, s]
            if not same and least >= 0:
                marked[least] = True
                least, no_dearer = -1, False
            if least < 0 or price[place] < price[least]:
                least = place
            if not no_dearer and price[place] <= price[here[i]]:
                marked[place] = no_dearer = True
            before = place
        if least >= 0:
            marked[least] = True
