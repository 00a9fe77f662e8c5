"""Find the changes that draws need: those that cannot be taken back without missing the target.

A draw changes more columns than it needs to. Changes are undone in lockstep, the least needed first, so that every draw
is left with a small set of moves (columns with a direction each); draws with similar sets follow the same strategy.
"""

from dataclasses import dataclass, replace

import numpy as np

from gbce._numerics import WIDE_ROUNDING
from gbce.base import Array, Query
from gbce.decisions._structure import Reaching
from gbce.posterior import GibbsPosterior
from gbce.search import Judged
from gbce.space import Space
from gbce.targets import Class
from gbce.trees import CellTrees, read_models

_BECOMES_MISSING = 2  # direction of a value that becomes missing or known: neither up nor down
# Share of the moves of two sets that both make, above which they count as one strategy. By hand: in thirty columns of a
# linear model hardly two draws need exactly the same moves, and three of four in common are one idea.
_ALIKE = 0.5
_PROBABLE = 0.05  # weight from which a set is a strategy of its own: one draw in twenty needs just it; by hand

# --- judging points --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judge:
    """Judges whether points reach by the one model of ``posterior``, without model rows if its ``trees`` are read."""

    query: Query
    posterior: GibbsPosterior
    trees: CellTrees | None = None

    @classmethod
    def of(cls, query: Query, posterior: GibbsPosterior) -> "Judge":
        """Read the first model if possible."""
        first = replace(posterior, predictors=posterior.predictors[:1])
        read = read_models(first)
        return cls(query, read, None if read.predictors == first.predictors else first.read_trees())

    def __call__(self, x: Array) -> Judged:
        """Return the shortfall of admissible points ``(n, d)`` and whether they reach; an inadmissible one does not."""
        gap, reached = np.full(len(x), np.inf), np.zeros(len(x), dtype=bool)
        good = self.query.space.admissible(x, self.query.x0) if len(x) else reached
        if good.any():
            found = Reaching(self.posterior.target).judge(self.posterior.evaluate_first(x[good]))
            gap[good], reached[good] = found
            if self._may_tie:
                # the model adds votes in another order, and the first of tied classes wins
                reached[good] &= found.gap < -WIDE_ROUNDING
        return Judged(gap, reached)

    @property
    def _may_tie(self) -> bool:
        """Whether votes of trees that tie, up to rounding, are for another class."""
        target, trees = self.posterior.target, self.trees
        if trees is None or not isinstance(target, Class) or trees.inside.link != "identity":
            return False
        return list(trees.inside.classes or ()).index(target.label) > 0


# --- needed moves ----------------------------------------------------------------------------------------------------


def find_moves(space: Space, x: Array, x0: Array) -> Array:
    """Return the direction in which each column of points ``(n, d)`` moves: 1, -1, or 0 if it stays; int8 ``(n, d)``.

    Another level of a category is 1, whichever it is; a value that becomes missing or known is 2. Computed columns
    have no moves of their own.
    """
    with np.errstate(invalid="ignore"):
        side = np.where(np.isnan(x) != np.isnan(x0), _BECOMES_MISSING, np.sign(np.nan_to_num(x - x0)))
    side = np.where(space.unordered, 1, side)
    return np.where(space.changed(x, x0) & ~space.is_computed, side, 0).astype(np.int8)


def undo_unneeded(judge: Judge, x: Array) -> Array:
    """Return points ``(n, d)``, all of which reach, without unneeded changes: those of the largest margin go first."""
    x, going = x.copy(), np.arange(len(x))
    while len(going):
        fewer = _undo_spared(judge, x[going])
        undone = find_moves(judge.query.space, fewer, x[going]).any(axis=1)
        x[going] = fewer
        going = going[undone]
    return x


def find_idle(judge: Judge, x: Array) -> Array:
    """Return which points ``(n, d)`` have a change beside others that brings them no closer to the target ``(n,)``."""
    space, x0 = judge.query.space, judge.query.x0
    changed = find_moves(space, x, x0) != 0
    fewer, point, _column = undo_singly(space, x0, x, changed & (changed.sum(axis=1) > 1)[:, None])
    idle = np.zeros(len(x), dtype=bool)
    if len(point):
        with_it, without = judge(x).gap, judge(fewer).gap
        idle[point[without <= with_it[point]]] = True
    return idle


def undo_singly(space: Space, x0: Array, x: Array, changed: Array) -> tuple[Array, Array, Array]:
    """Return points ``(n, d)`` with each ``changed`` column undone alone ``(k, d)``, their points and columns."""
    point, column = changed.nonzero()
    return _undo(space, x0, x[point], column), point, column


def _undo_spared(judge: Judge, x: Array) -> Array:
    """Return points ``(n, d)`` after one round of undoing changes that they can do without, each by itself."""
    space, x0 = judge.query.space, judge.query.x0
    x, changed = x.copy(), find_moves(space, x, x0) != 0
    each, point, column = undo_singly(space, x0, x, changed)
    gap, spared = np.full(x.shape, np.inf), np.zeros(x.shape, dtype=bool)
    gap[point, column], spared[point, column] = judge(each)
    order = np.argsort(np.where(spared, gap, np.inf), axis=1, kind="stable")
    n_spared = spared.sum(axis=1)
    for step in range(int(n_spared.max(initial=0))):
        which = np.flatnonzero(n_spared > step)
        fewer = _undo(space, x0, x[which], order[which, step])
        reached = judge(fewer).reached if step else np.ones(len(which), dtype=bool)  # the first was judged above
        x[which[reached]] = fewer[reached]
    return x


def _undo(space: Space, x0: Array, x: Array, column: Array) -> Array:
    """Return points ``(n, d)`` with one column ``(n,)`` of each as in the row, computed columns filled in."""
    fewer = x.copy()
    fewer[np.arange(len(x)), column] = x0[column]
    return space.completed(fewer, x0)


# --- strategies ------------------------------------------------------------------------------------------------------


def follow_strategies(needs: Array, strategies: Array) -> Array:
    """Return the first of ``s`` strategies ``(s, d)`` that sets of moves ``(u, d)`` follow: ``(u,)``, -1 for none.

    A set follows a strategy if more than half of the moves of both are common to both.
    """
    if len(strategies) == 0:
        return np.full(len(needs), -1)
    alike = _find_alike(needs, strategies)
    return np.where(alike.any(axis=1), alike.argmax(axis=1), -1)


def choose_strategies(needs: Array, weights: Array, most: int) -> list[int]:
    """Return at most ``most`` sets of moves ``(u, d)`` that most weight ``(u,)`` follows, probable ones first."""
    alike, size = _find_alike(needs, needs), (needs != 0).sum(axis=1)
    left = weights * (size > 0)
    chosen: list[int] = []
    while len(chosen) < most and left.any():
        worth = left if (left >= _PROBABLE).any() else alike.T @ left
        best = int(np.lexsort((size, -np.round(worth, 12)))[0])  # sums of equal weights must tie
        chosen.append(best)
        left = np.where(alike[:, best], 0.0, left)
    return chosen


def _find_alike(one: Array, other: Array) -> Array:
    """Return which sets of moves ``(a, d)`` and ``(b, d)`` follow the same strategy: ``(a, b)``."""
    directions = [side for side in np.unique(np.vstack([one, other])).tolist() if side]
    both = sum((one == side).astype(float) @ (other == side).T.astype(float) for side in directions)
    either = (one != 0).sum(axis=1)[:, None] + (other != 0).sum(axis=1)[None, :]
    either = either - (one != 0).astype(float) @ (other != 0).T.astype(float)
    return np.asarray(both > _ALIKE * either)
