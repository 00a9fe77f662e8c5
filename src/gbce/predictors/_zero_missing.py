"""Trees in which zero counts as missing, as trees of plain thresholds.

Such a split sends zero another way than its neighbours, so that what goes one way is no interval. Where it does, the
node is parted into one for numbers below zero, one for zero and what is missing, and one for numbers above.
"""

from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.predictors._read_trees import Tree

__all__ = ["part_at_zero"]

_MOST_GROWTH = 50  # times as many nodes as before, by hand: usual trees become two to four times as large
_Side = dict[int, str]  # of columns that are known to be "below", "zero" or "above"


class _Task(NamedTuple):
    """A node to be copied, what is known of its columns by then, and whose child on which side the copy is."""

    node: int
    known: _Side
    parent: int
    is_left: bool


class _Nodes:
    """Nodes of a tree that is being made."""

    def __init__(self) -> None:
        self.column: list[int] = []
        self.threshold: list[float] = []
        self.child: list[list[int]] = []
        self.missing_left: list[bool] = []
        self.old: list[int] = []

    def add(self, column: int, threshold: float, missing_left: bool, old: int, task: _Task) -> int:
        here = len(self.column)
        self.column.append(column)
        self.threshold.append(threshold)
        self.missing_left.append(missing_left)
        self.child.append([0, 0])
        self.old.append(old)
        if task.parent >= 0:
            self.child[task.parent][0 if task.is_left else 1] = here
        return here


def part_at_zero(tree: Tree, zeros: Array, zero: float) -> Tree | None:
    """Return a tree whose nodes that are among ``zeros`` ``(N,)`` send zero the way of missing values.

    None where it would grow too large. Numbers up to the size of ``zero`` must be zeros already.
    """
    nodes, tasks = _Nodes(), [_Task(0, {}, -1, False)]
    while tasks:
        task = tasks.pop()
        if len(nodes.column) > _MOST_GROWTH * len(tree.column):
            return None
        node, known = task.node, task.known
        column, cut = int(tree.column[node]), float(tree.threshold[node])
        goes, left, right = bool(tree.missing_left[node]), int(tree.left[node]), int(tree.right[node])
        if column < 0 or not zeros[node]:
            here = nodes.add(column, cut, goes, node, task)
            if column >= 0:
                tasks += [_Task(left, known, here, True), _Task(right, known, here, False)]
            continue
        side = known.get(column)
        default = left if goes else right
        if side == "zero" or (side == "below" and cut >= 0) or (side == "above" and cut <= zero):
            follows = default if side == "zero" else left if side == "below" else right
            tasks.append(task._replace(node=follows))
            continue
        if side is not None or (cut >= 0) == goes:  # zero goes with its neighbours
            here = nodes.add(column, cut, goes, node, task)
            beyond = side or ("above" if cut >= 0 else "below")
            one, other = (side, beyond) if cut >= 0 else (beyond, side)
            tasks += [_Task(left, _told(known, column, one), here, True)]
            tasks += [_Task(right, _told(known, column, other), here, False)]
            continue
        below, none, above = (_told(known, column, word) for word in ("below", "zero", "above"))
        # what is missing is not below zero, and goes with zero after that
        first = nodes.add(column, -zero, False, node, task)
        second = nodes.add(column, zero, True, node, _Task(node, known, first, False))
        tasks += [_Task(node, below, first, True), _Task(default, none, second, True)]
        tasks.append(_Task(node, above, second, False))
    old, child, made = np.array(nodes.old), np.array(nodes.child), np.array(nodes.column)
    value = np.where((made < 0)[:, None], tree.value[old], 0.0)
    set_of = None if tree.set_of is None else tree.set_of[old]
    missing_left = np.array(nodes.missing_left)
    return Tree(made, np.array(nodes.threshold), child[:, 0], child[:, 1], missing_left, value, set_of, tree.sets)


def _told(known: _Side, column: int, word: str | None) -> _Side:
    return known if word is None else {**known, column: word}
