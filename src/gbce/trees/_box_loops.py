"""Compiled growth of a safe box, cell by cell; importing this module imports numba."""

import numpy as np

from gbce.base import Array
from gbce.trees._sum_loops import compile_loop

__all__ = ["grow_by_cells"]


@compile_loop
def grow_by_cells(
    first: Array,
    last: Array,
    ends: Array,
    places: Array,
    begins: Array,
    least_width: Array,
    leaves: Array,
    entries: Array,
    held: Array,
    outside: Array,
    n_outside: Array,
    tree: Array,
    worth: Array,
    worst: Array,
    least: Array,
    most_steps: int,
    rounding: float,
) -> None:
    """Grow a box ``first`` to ``last`` ``(c,)`` by the cell that adds most to the log widths per lost slack.

    Cells of a feature lie between its ``ends`` ``(c, 2)`` and begin at ``places``, from ``begins`` ``(c + 1,)`` on.
    ``leaves`` ``(c, 2, m)`` are sorted by the cells ``entries`` ``(c, 2, m)`` at which a box that grows down or up
    meets them; of an unordered feature ``held`` ``(c, m, cells)`` tells which cells a leaf holds. The other arrays are
    those of :class:`gbce.trees._safe_box.GrowingBox`, and are changed in place.
    """
    n_features, n_sums, n_leaves = len(first), worth.shape[1], len(tree)
    closed = np.zeros((n_features, 2), np.bool_)
    then, stamp, now = np.empty(worst.shape), np.zeros(worst.shape, np.int64), 0
    sums, lost = np.zeros(n_sums), np.empty(n_sums)
    for _ in range(most_steps):
        sums[:] = 0.0
        for t in range(len(worst)):
            for k in range(n_sums):
                sums[k] += worst[t, k]
        slack = (sums - least).min()
        best_i, best_side, best = -1, 0, -np.inf
        for i in range(n_features):
            for side in range(2):
                cell = first[i] - 1 if side == 0 else last[i] + 1
                if closed[i, side] or not ends[i, 0] <= cell <= ends[i, 1]:
                    continue
                now += 1
                lost[:] = 0.0
                sets = held.shape[2] > 0 and entries[i, 0, 0] < 0
                begin, end = 0, n_leaves
                if not sets:
                    begin = np.searchsorted(entries[i, side], cell, side="left")
                    end = np.searchsorted(entries[i, side], cell, side="right")
                for at in range(begin, end):
                    leaf = at if sets else leaves[i, side, at]
                    if n_outside[leaf] != 1 or not outside[i, leaf] or (sets and not held[i, leaf, cell]):
                        continue
                    t = tree[leaf]
                    for k in range(n_sums):
                        before = then[t, k] if stamp[t, k] == now else worst[t, k]
                        if worth[leaf, k] < before:
                            lost[k] += before - worth[leaf, k]
                            then[t, k], stamp[t, k] = worth[leaf, k], now
                slack_then = (sums - lost - least).min()
                if not slack_then >= 0:  # a larger box loses more, so this side is closed
                    closed[i, side] = True
                    continue
                low, high = min(cell, first[i]), max(cell, last[i])
                wider = max(places[begins[i] + high + 1] - places[begins[i] + low], least_width[i])
                width = max(places[begins[i] + last[i] + 1] - places[begins[i] + first[i]], least_width[i])
                score = np.log(wider / width) / (slack - slack_then + rounding * (1.0 + slack))
                if best_i < 0 or score > best:
                    best, best_i, best_side = score, i, side
        if best_i < 0:
            return
        i, side = best_i, best_side
        cell = first[i] - 1 if side == 0 else last[i] + 1
        sets = held.shape[2] > 0 and entries[i, 0, 0] < 0
        begin, end = 0, n_leaves
        if not sets:
            begin = np.searchsorted(entries[i, side], cell, side="left")
            end = np.searchsorted(entries[i, side], cell, side="right")
        for at in range(begin, end):
            leaf = at if sets else leaves[i, side, at]
            if not outside[i, leaf] or (sets and not held[i, leaf, cell]):
                continue
            outside[i, leaf] = False
            n_outside[leaf] -= 1
            if n_outside[leaf] == 0:
                for k in range(n_sums):
                    worst[tree[leaf], k] = min(worst[tree[leaf], k], worth[leaf, k])
        if side == 0:
            first[i] = cell
        else:
            last[i] = cell
