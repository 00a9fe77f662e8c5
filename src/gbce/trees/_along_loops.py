"""Compiled loops over the nodes of tree ensembles: scores of points on cells, and scores along one column.

Importing this module imports numba; :mod:`gbce.trees._along` does so on first use. Random numbers are passed in, so
that results depend on the caller's generator only.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from gbce.base import Array

__all__ = ["find_steps", "interpolate", "pick_cells", "renew_paths", "sum_leaves", "sum_scores"]


def _compile(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop, cached on disk where some directory can be written."""
    try:
        return njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # numba finds no directory for its cache
        return njit(nogil=True)(loop)


# The walk down a tree is written out in each loop: handing arrays to a function counts references to them, which takes
# ten times as long as a step. A cell goes right beyond the cut; kinds other than -1 are sets (0 and more), where cells
# outside go right, and cuts at which missing values, which have the last cell, go left (-2).


@_compile
def sum_leaves(
    cells: Array,
    n_cells: Array,
    roots: Array,
    feature: Array,
    cut: Array,
    group: Array,
    missing_left: Array,
    left: Array,
    right: Array,
    sets: Array,
    value: Array,
    out: Array,
) -> None:
    """Add the leaves of every tree that hold rows of cells ``(n, d)`` to ``out`` ``(n, K)``, one tree after another."""
    for t in range(len(roots)):
        for i in range(len(cells)):
            node = roots[t]
            while feature[node] >= 0:
                cell = cells[i, feature[node]]
                goes_left = cell <= cut[node]
                if group[node] >= 0:
                    goes_left = sets[group[node], cell]
                elif cell == n_cells[feature[node]]:
                    goes_left = missing_left[node]
                node = left[node] if goes_left else right[node]
            for k in range(value.shape[1]):
                out[i, k] += value[node, k]


@_compile
def sum_scores(
    cells: Array,
    roots: Array,
    slot: Array,
    n_known: Array,
    split: Array,
    cut: Array,
    child: Array,
    kind: Array,
    sets: Array,
    value: Array,
    out: Array,
    paths: Array,
) -> None:
    """Add the leaves of every tree that hold points ``(n, m)`` to their scores ``out`` ``(n, S)``.

    ``paths`` ``(n, T)`` gets the columns on the way to each leaf, as bits; columns that differ by 64 share one.
    """
    for i in range(len(cells)):
        for t in range(len(roots)):
            node, path = roots[t], np.uint64(0)
            while split[node] >= 0:
                path |= np.uint64(1) << np.uint64(split[node] & 63)
                cell = cells[i, split[node]]
                right = cell > cut[node]
                if kind[node] != -1:
                    right = not sets[kind[node], cell] if kind[node] >= 0 else right and cell != n_known[split[node]]
                node = child[node] + (1 if right else 0)
            paths[i, t] = path
            for w in range(value.shape[1]):
                out[i, slot[t] + w] += value[node, w]


@_compile
def renew_paths(
    column: int,
    moved: Array,
    trees: Array,
    cells: Array,
    roots: Array,
    n_known: Array,
    split: Array,
    cut: Array,
    child: Array,
    kind: Array,
    sets: Array,
    paths: Array,
) -> None:
    """Renew the paths of points that ``moved`` ``(n,)`` along one column in the trees where it was on the way."""
    bit = np.uint64(1) << np.uint64(column & 63)
    for i in range(len(cells)):
        if not moved[i]:
            continue
        for at in range(len(trees)):
            t = trees[at]
            if not paths[i, t] & bit:
                continue
            node, path = roots[t], np.uint64(0)
            while split[node] >= 0:
                path |= np.uint64(1) << np.uint64(split[node] & 63)
                cell = cells[i, split[node]]
                right = cell > cut[node]
                if kind[node] != -1:
                    right = not sets[kind[node], cell] if kind[node] >= 0 else right and cell != n_known[split[node]]
                node = child[node] + (1 if right else 0)
            paths[i, t] = path


@_compile
def find_steps(
    column: int,
    by_cell: bool,
    mass: Array,
    trees: Array,
    cells: Array,
    scores: Array,
    paths: Array,
    roots: Array,
    slot: Array,
    n_known: Array,
    split: Array,
    cut: Array,
    child: Array,
    kind: Array,
    sets: Array,
    value: Array,
    starts: Array,
    first: Array,
    masses: Array,
    along: Array,
) -> int:
    """Write the steps of the scores along one column, one point of ``cells`` ``(n, m)`` after the other.

    ``starts`` ``(n + 1,)`` are the positions of each point's steps; ``first`` their first cells, ``masses`` their prior
    masses (sums of ``mass``, one per cell) and ``along`` ``(., S)`` their scores. Returns the number of all steps.
    """
    n_cells, n_scores, width = len(mass), scores.shape[1], value.shape[1]
    n_ordered = 0 if by_cell else n_known[column]  # a range of these is followed at once, the others one by one
    score = np.zeros((n_cells + 1, n_scores))  # of the trees that split on the column
    begins = np.zeros(n_cells + 1, np.bool_)
    later = np.empty((n_cells + 1, 3), np.int64)  # nodes still to be followed, with their ranges of cells
    bit = np.uint64(1) << np.uint64(column & 63)
    n = 0
    for i in range(len(cells)):
        for k in range(n_cells + 1):
            begins[k] = k == 0 or k >= n_ordered
            for s in range(n_scores):
                score[k, s] = 0.0
        for at in range(len(trees)):
            t = trees[at]
            if not paths[i, t] & bit:  # the column is not on the way: the tree does not change along it
                continue
            top = 0
            if n_ordered > 0:
                later[0, 0], later[0, 1], later[0, 2] = roots[t], 0, n_ordered - 1
                top = 1
            single = n_ordered
            while top > 0 or single < n_cells:
                if top > 0:
                    top -= 1
                    node, low, high = later[top, 0], later[top, 1], later[top, 2]
                else:
                    node, low, high = np.int64(roots[t]), np.int64(single), np.int64(single)
                    single += 1
                while split[node] >= 0:
                    own = split[node] == column
                    if own and low < high:
                        if high <= cut[node]:
                            node = np.int64(child[node])
                        elif low > cut[node]:
                            node = np.int64(child[node] + 1)
                        else:
                            later[top, 0], later[top, 1], later[top, 2] = child[node] + 1, cut[node] + 1, high
                            top += 1
                            high = np.int64(cut[node])
                            node = np.int64(child[node])
                        continue
                    cell = low if own else np.int64(cells[i, split[node]])
                    right = cell > cut[node]
                    if kind[node] != -1:
                        right = (
                            not sets[kind[node], cell] if kind[node] >= 0 else right and cell != n_known[split[node]]
                        )
                    node = np.int64(child[node] + (1 if right else 0))
                begins[low] = True
                for w in range(width):
                    score[low, slot[t] + w] += value[node, w]
                if low < n_ordered:
                    begins[high + 1] = True
                    if high + 1 < n_ordered:
                        for w in range(width):
                            score[high + 1, slot[t] + w] -= value[node, w]
        for k in range(1, n_ordered):
            for s in range(n_scores):
                score[k, s] += score[k - 1, s]
        now = cells[i, column]
        starts[i] = n
        for k in range(n_cells):
            if begins[k]:
                first[n], masses[n] = k, 0.0
                for s in range(n_scores):
                    along[n, s] = scores[i, s] + (score[k, s] - score[now, s])
                n += 1
            masses[n - 1] += mass[k]
    starts[len(cells)] = n
    return n


@_compile
def interpolate(along: Array, low: float, per_unit: float, table: Array, out: Array) -> None:
    """Interpolate a table of values at equally spaced scores, linearly, for scores ``(n, 1)``."""
    last = len(table) - 2
    for i in range(len(along)):
        place = (along[i, 0] - low) * per_unit
        k = min(max(int(place), 0), last)
        out[i] = table[k] + (place - k) * (table[k + 1] - table[k])


@_compile
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
