"""Where points with the very same output meet: every column as near to the row as they have it.

A model that is constant on boxes, such as a tree, says the same in all of a box. Points to which it said the very same
mostly lie in one box, and with them all that lies between them. The nearest of that to the row is made without asking,
and one row confirms it: what points do not need is gone at once, where giving back change after change takes many rows.
Where it is denied, they lie in several boxes, and are parted by whether they meet the cheapest of them in its own.
"""

from collections.abc import Callable

import numpy as np

from gbce.base import Array
from gbce.space import Space

__all__ = ["meet_alike"]

# By hand: they decide how many rows are asked about.
_MOST_GROUPS = 60  # that are asked about at a time, the most promising
_PARTED, _MEMBERS = 6, 40  # groups that are parted in a round, and points of each that take part
_ROUNDS = 4  # of parting
_KEPT = 1e-9  # relative: what a point is worth is what was promised, but for rounding


def meet_alike(
    space: Space,
    x0: Array,
    x: Array,
    outputs: Array,
    promise: Callable[[Array, Array], Array],
    ask: Callable[[Array], Array],
    least: float,
) -> None:
    """Ask about points where others meet to which models said the very same, as long as they promise to be better.

    Parameters
    ----------
    space : Space
        Places points.
    x0 : array of shape (d,)
        The row.
    x : array of shape (n, d)
        Points, the best first.
    outputs : array of shape (n, K)
        What models said there.
    promise : callable
        Takes points ``(g, d)`` and positions ``(g,)`` among ``x``; returns the figure ``(g,)`` that points have if
        models say there what they said at these. It is the least that any of the others between them can have.
    ask : callable
        Takes points ``(g, d)``, asks about them, returns the figure that they have, ``(g,)``.
    least : float
        The least figure that is known.
    """
    groups = _part_by_outputs(outputs)
    for number in range(_ROUNDS + 1):
        groups = [own for own in groups if len(own) > 1]
        met, good = _meet(space, x0, x, groups)
        promised = np.where(good, promise(met, np.array([own[0] for own in groups], dtype=int)), np.inf)
        order = np.argsort(promised, kind="stable")
        order = order[promised[order] < least][:_MOST_GROUPS]
        if len(order) == 0:
            return
        found = ask(met[order])
        least = min(least, float(found.min()))
        denied = (found > promised[order] + _KEPT * np.abs(promised[order])) & (promised[order] < least)
        parted = [groups[i][_spread(len(groups[i]), _MEMBERS)] for i in order[denied][:_PARTED].tolist()]
        if not parted or number == _ROUNDS:
            return
        groups = _part(space, x0, x, parted, promise, ask)


def _part(
    space: Space,
    x0: Array,
    x: Array,
    groups: list[Array],
    promise: Callable[[Array, Array], Array],
    ask: Callable[[Array], Array],
) -> list[Array]:
    """Return groups of those that meet the first one of their group where models say the same, and of the others."""
    pairs = [np.array([own[0], other]) for own in groups for other in own[1:]]
    met, good = _meet(space, x0, x, pairs)
    promised = promise(met, np.array([pair[0] for pair in pairs]))
    alike = np.zeros(len(pairs), dtype=bool)
    alike[good] = ask(met[good]) <= promised[good] + _KEPT * np.abs(promised[good])
    found, end = [], 0
    for own in groups:
        same, end = alike[end : end + len(own) - 1], end + len(own) - 1
        found += [np.append(own[0], own[1:][same]), own[1:][~same]]
    return found


def _part_by_outputs(outputs: Array) -> list[Array]:
    """Return positions of points with the same outputs ``(n, K)``, in their order."""
    if len(outputs) == 0:
        return []
    order = np.lexsort((np.arange(len(outputs)), *outputs.T))
    same = (outputs[order[1:]] == outputs[order[:-1]]).all(axis=1)
    return np.split(order, np.flatnonzero(~same) + 1)


def _meet(space: Space, x0: Array, x: Array, groups: list[Array]) -> tuple[Array, Array]:
    """Return where groups of points meet, ``(g, d)``, and whether that can be had; of levels the first one's stays."""
    if not groups:
        return x[:0], np.zeros(0, dtype=bool)
    rows, first = x[np.concatenate(groups)], x[[own[0] for own in groups]]
    start = np.cumsum([0, *(len(own) for own in groups)])[:-1]
    between = np.clip(x0, np.fmin.reduceat(rows, start), np.fmax.reduceat(rows, start))
    with_row = np.logical_or.reduceat((rows == x0) | (np.isnan(rows) & np.isnan(x0)), start)
    on_axis = ~space.unordered & ~np.isnan(x0)
    return space.place(np.where(with_row, x0, np.where(on_axis, between, first)), x0)


def _spread(n: int, most: int) -> Array:
    """Return at most so many of ``n`` positions: the first half of them, and others evenly."""
    if n <= most:
        return np.arange(n)
    half = most // 2
    return np.append(np.arange(half), np.linspace(half, n - 1, most - half).astype(int))
