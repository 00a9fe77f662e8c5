"""Groups of features that no condition links: what one of them does leaves the conditions of the others as they are."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space._codecs import Codec
from gbce.space._constraints import same
from gbce.space._expressions import at_most
from gbce.space._feature import Feature
from gbce.space._places import Checks

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = [
    "ConstraintGroups",
    "Limits",
    "RowLimits",
    "complete",
    "is_admissible",
    "low_precision_of",
    "move_each",
    "place",
]

# --- points made admissible ------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """What the limits of a row follow from, each ``(d,)``."""

    low: Array
    high: Array
    only_up: Array
    only_down: Array
    unordered: Array
    discrete: Array
    keeps: Array
    may_become_missing: Array
    fixed: Array

    @classmethod
    def of(cls, features: Sequence[Feature], computed: Array) -> "Limits":
        """Read limits off features; those that are ``computed`` ``(d,)`` from others do not move by themselves."""
        low = [0.0 if f.unordered else -math.inf if f.low is None else f.low for f in features]
        high = [len(f.levels or ()) - 1.0 if f.unordered else math.inf if f.high is None else f.high for f in features]
        return cls(
            low=np.array(low),
            high=np.array(high),
            only_up=np.array([f.direction == "increase" for f in features]),
            only_down=np.array([f.direction == "decrease" for f in features]),
            unordered=np.array([f.unordered for f in features]),
            discrete=np.array([f.discrete for f in features]),
            keeps=np.array([f.missing not in ("leave", "any") for f in features]),
            may_become_missing=np.array([f.missing == "any" and f.mutable for f in features]) & ~computed,
            fixed=np.array([not f.mutable for f in features]) | computed,
        )

    def at(self, x0: Array) -> "RowLimits":
        """Return what values may become from the row ``x0`` ``(d,)``."""
        low = np.where(self.only_up, np.fmax(self.low, x0), self.low)
        high = np.where(self.only_down, np.fmin(self.high, x0), self.high)
        # a row that rounding puts a hair outside its bound keeps its own value
        low, high = np.fmin(low, x0), np.fmax(high, x0)
        if self.discrete.any():
            low = np.where(self.unordered, self.low, low)
            high = np.where(self.unordered, self.high, high)
            start = np.where(np.isnan(x0), 0.0, x0)
            low = np.where(self.discrete, start + np.ceil(low - start), low)
            high = np.where(self.discrete, start + np.floor(high - start), high)
        fixed = self.fixed | (self.keeps & np.isnan(x0))
        low, high = np.where(fixed, x0, low), np.where(fixed, x0, high)
        low.flags.writeable = high.flags.writeable = False
        return RowLimits(x0.copy(), low, high, self.discrete, self.may_become_missing)


@dataclass(frozen=True, eq=False)
class RowLimits:
    """What values of one row's features may become, each ``(m,)``.

    Parameters
    ----------
    x0 : array
        The row's own values.
    low, high : array
        The lowest and the highest.
    discrete : bool array
        Which move in whole steps from the row's own.
    may_become_missing : bool array
        Which may become missing.
    """

    x0: Array
    low: Array
    high: Array
    discrete: Array
    may_become_missing: Array

    def of(self, which: Any) -> "RowLimits":
        """Return those of some features."""
        return RowLimits(
            self.x0[which], self.low[which], self.high[which], self.discrete[which], self.may_become_missing[which]
        )

    def cut(self, x: Array) -> Array:
        """Return values ``(n, m)`` cut and rounded."""
        gone = np.isnan(x)
        if gone.any():
            x = np.where(gone & ~self.may_become_missing, self.x0, x)  # what is known stays known
        whole, start = self._whole
        if len(whole):
            x = x.copy()
            steps = x[:, whole] - start
            np.rint(steps, out=steps)
            x[:, whole] = steps + start
        return x.clip(self.low, self.high)

    @cached_property
    def _whole(self) -> tuple[Array, Array]:
        """Positions of the features that move in whole steps, and what these are counted from."""
        whole = np.flatnonzero(self.discrete)
        return whole, np.where(np.isnan(self.x0[whole]), 0.0, self.x0[whole])


# Shares of a move of which the first that is admissible is taken; the last is the start itself. Chosen by hand: steps
# of 5% lose at most that much of a move. So many points are checked at once: a check has a cost, however few they are.
_SHARES_OF_MOVE = np.concatenate([np.linspace(0.95, 0.05, 19), [0.02, 0.0]])
_MOST_CHECKED = 2_000
_SHARES_OF_EACH = np.array(
    [1.0, 0.75, 0.5, 0.25]
)  # of the move of one feature, of which the first that is admissible is taken
_LEVELS_STAY = 0.5  # share of a move down to which levels stay changed; a convention: half-way, the nearer end


def place(space: "Space", x: Array, x0: Array, toward: Array | None) -> tuple[Array, Array]:
    """Return points near ``x`` ``(n, d)`` and whether each is admissible ``(n,)``; see :meth:`gbce.Space.place`."""
    if space.plain:
        return space.completed(x.clip(*space.limits(x0)), x0), np.ones(len(x), dtype=bool)
    placed = _snap(space, x, x0)
    if not space.constraints and not space.computed:
        return placed, np.ones(len(x), dtype=bool)
    good = space.admissible(placed, x0)
    if good.all():
        return placed, good
    bad = np.flatnonzero(~good)
    toward = np.broadcast_to(x0 if toward is None else toward, x.shape)
    placed = placed.copy()
    if space.unordered.any():
        # levels that break a constraint even where no number moves: they go back, the numbers need not
        levels = np.where(space.unordered, placed[bad], toward[bad])
        stuck = bad[~space.admissible(_snap(space, levels, x0), x0)]
        back = np.where(space.unordered, toward[stuck], placed[stuck])
        placed[stuck] = _snap(space, back, x0)
        good[stuck] = space.admissible(placed[stuck], x0)
        bad = bad[~good[bad]]
    shares = _SHARES_OF_MOVE
    while len(bad):
        block, shares = _first_shares(shares, len(bad))
        tried = _take_back(space, placed[bad], toward[bad], x0, block)
        holds = space.admissible(tried, x0).reshape(len(block), len(bad))
        taken = (block == 0)[:, None] | holds
        first, found = taken.argmax(axis=0), taken.any(axis=0)
        at, first = bad[found], first[found]
        placed[at] = tried[first * len(bad) + np.flatnonzero(found)]
        good[at] = holds[first, found]
        bad = bad[~found]
    return placed, good


def _first_shares(shares: Array, n: int) -> tuple[Array, Array]:
    """Part shares ``(s,)`` into those at which ``n`` points are checked at once, and those that are left."""
    some = max(1, _MOST_CHECKED // n)
    return shares[:some], shares[some:]


def move_each(space: "Space", start: Array, x: Array, x0: Array) -> Array:
    """Return admissible points near ``x`` ``(n, d)``; see :meth:`gbce.Space.move_each`."""
    placed = _snap(space, x, x0)
    if not space.constraints and not space.computed:
        return placed
    good = space.admissible(placed, x0)
    if good.all():
        return placed
    bad = np.flatnonzero(~good)
    now, goal = start[bad], placed[bad]
    free = ~space.is_bound & ~space.is_computed
    now[:, free] += np.where(same(goal, now), 0.0, goal - now)[:, free]
    now = _snap(space, now, x0)
    if not space.computed and space.apart(now).all():
        placed[bad] = _move_side_by_side(space, now, goal, x0)
    else:
        placed[bad] = _move_in_turn(space, now, goal, x0)
    return placed


def _move_side_by_side(space: "Space", now: Array, goal: Array, x0: Array) -> Array:
    """Move bound features of admissible points ``now`` ``(n, d)`` towards ``goal`` ``(n, d)``, as far as they let it.

    The same as one after the other: what one feature does is no matter to those that no constraint links with it.
    """
    limits = space.row_limits(x0)
    for which, group in space.apart.turns:
        todo, own_limits, shares = ~same(goal[:, which], now[:, which]), limits.of(which), _SHARES_OF_EACH
        left = np.flatnonzero(todo.any(axis=1))
        while len(left) and len(shares):
            block, shares = _first_shares(shares, len(left))
            rows, wanted = now[left], todo[left]
            before = rows[:, which]
            moved = before + block[:, None, None] * (goal[left][:, which] - before)
            moved = own_limits.cut(moved.reshape(-1, len(which))).reshape(moved.shape)
            tried = np.concatenate([rows] * len(block))
            tried[:, which] = np.where(wanted, moved, before).reshape(-1, len(which))
            tried = space.completed(tried, x0)
            good = wanted & space.apart(tried)[:, group].reshape(moved.shape)
            moved = np.take_along_axis(tried[:, which].reshape(moved.shape), good.argmax(axis=0)[None], axis=0)[0]
            found = good.any(axis=0)
            rows[:, which] = np.where(found, moved, before)
            now[left], todo[left] = rows, wanted & ~found
            left = left[todo[left].any(axis=1)]
    return now


def _move_in_turn(space: "Space", now: Array, goal: Array, x0: Array) -> Array:
    """Move bound features of points ``now`` ``(n, d)`` towards ``goal`` ``(n, d)``, one after the other."""
    limits = space.row_limits(x0)
    for j in np.flatnonzero(space.is_bound & ~space.is_computed):
        left, own_limits, shares = np.flatnonzero(~same(goal[:, j], now[:, j])), limits.of([j]), _SHARES_OF_EACH
        while len(left) and len(shares):
            block, shares = _first_shares(shares, len(left))
            before = now[left, j]
            moved = before + block[:, None] * (goal[left, j] - before)
            tried = np.concatenate([now[left]] * len(block))
            tried[:, [j]] = own_limits.cut(moved.reshape(-1, 1))
            tried = space.completed(tried, x0)
            good = space.admissible(tried, x0).reshape(moved.shape)
            found = good.any(axis=0)
            now[left[found]] = tried[good.argmax(axis=0)[found] * len(left) + np.flatnonzero(found)]
            left = left[~found]
    return now


def _take_back(space: "Space", x: Array, toward: Array, x0: Array, shares: Array) -> Array:
    """Return points ``(k, d)`` at shares ``(s,)`` of their moves from ``toward`` ``(k, d)``: ``(s * k, d)``."""
    with np.errstate(invalid="ignore"):
        way = toward + shares[:, None, None] * (x - toward)
    levels = space.unordered | np.isnan(way)
    if levels.any():
        way = np.where(levels, np.where((shares < _LEVELS_STAY)[:, None, None], toward, x), way)
    tried = _snap(space, way.reshape(-1, x.shape[1]), x0).reshape(way.shape)
    tried[shares == 0] = toward
    return tried.reshape(-1, x.shape[1])


def _snap(space: "Space", x: Array, x0: Array) -> Array:
    """Cut, round and complete."""
    return space.completed(space.row_limits(x0).cut(x), x0)


def complete(space: "Space", x: Array, x0: Array) -> Array:
    """Fill in what follows from the free features; see :meth:`gbce.Space.completed`."""
    if not space.low_precision and not space.computed:
        return x
    x = x.copy()
    low, high = space.limits(x0)
    for j, kind in space.low_precision:
        seen = x[:, j].astype(kind)
        seen = np.where(seen > high[j], np.nextafter(seen, kind.type(-np.inf)), seen)
        seen = np.where(seen < low[j], np.nextafter(seen, kind.type(np.inf)), seen)
        x[:, j] = np.where(x[:, j] == x0[j], x0[j], seen)
    for one in space.computed:
        j = space.position[one.name]
        values = one.values(space, x)
        x[:, j] = np.where(same(values, x0[j]), x0[j], values)
    return x


def is_admissible(space: "Space", x: Array, x0: Array) -> Array:
    """Whether points meet the constraints and the bounds of what is computed, ``(n,)``."""
    good = space.checks(x)
    for one in space.computed:
        j = space.position[one.name]
        value = x[:, j]
        low, high = space.features[j].range_from(x0[j])
        good &= np.isfinite(value) & (value >= low) & (value <= high)
    return good


def low_precision_of(features: Sequence[Feature], codecs: Sequence[Any]) -> list[tuple[int, np.dtype[Any]]]:
    """Return positions and dtypes of real features that are kept with fewer digits than computed with."""
    found = []
    for j, (codec, feature) in enumerate(zip(codecs, features, strict=True)):
        if isinstance(codec, Codec) and not codec.precise and feature.kind == "real" and codec.dtype != "object":
            kind = pd.api.types.pandas_dtype(codec.dtype)
            found.append((j, getattr(kind, "numpy_dtype", kind)))
    return found


# --- groups of features that no condition links ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ConstraintGroups:
    """Groups of features that constraints link, each with its constraints.

    Parameters
    ----------
    turns : tuple of (array, array)
        Features ``(c,)``, one of each group at most, and their groups ``(c,)``: the first of every group, the second,
        and so on.
    lower, upper, pair_group : arrays of shape (k,)
        Columns of numbers of which the first is at most the second, and the group of both.
    others : tuple of (int, callable)
        The group of each other constraint, and the constraint as a function of rows ``(n, d)``.
    n_groups : int
        How many groups there are.
    """

    turns: tuple[tuple[Array, Array], ...]
    lower: Array
    upper: Array
    pair_group: Array
    others: tuple[tuple[int, Callable[[Array], Any]], ...]
    n_groups: int

    @classmethod
    def of(cls, space: "Space") -> Self:
        """Group the features of a space without computed columns."""
        d = len(space)
        everything = list(range(d))
        links = [
            everything if names is None else sorted(space.position[name] for name in names)
            for names in (constraint.names() for constraint in space.constraints)
        ]
        root = everything.copy()
        for link in links:
            linked = {root[j] for j in link}
            root = [min(linked) if one in linked else one for one in root]
        of_link = [root[link[0]] if link else -1 for link in links]  # what names no column is a group without features
        groups = sorted(set(of_link))
        members = [[j for j in everything if root[j] == group] for group in groups]
        turns = []
        for t in range(max(map(len, members), default=0)):
            here = [(own[t], g) for g, own in enumerate(members) if t < len(own)]
            turns.append((np.array([j for j, _ in here]), np.array([g for _, g in here])))
        own_checks = [
            Checks.of(space, tuple(one for one, its in zip(space.constraints, of_link, strict=True) if its == group))
            for group in groups
        ]
        return cls(
            tuple(turns),
            np.concatenate([np.zeros(0, dtype=int), *[one.lower for one in own_checks]]),
            np.concatenate([np.zeros(0, dtype=int), *[one.upper for one in own_checks]]),
            np.repeat(np.arange(len(groups)), [len(one.lower) for one in own_checks]),
            tuple((g, holds) for g, one in enumerate(own_checks) for holds in one.others),
            len(groups),
        )

    @cached_property
    def _groups_of_pairs(self) -> tuple[Array, Array]:
        """Groups ``(g,)`` that have pairs, which lie side by side, and the position of the first of each."""
        return np.unique(self.pair_group, return_index=True)

    def __call__(self, x: Array) -> Array:
        """Whether rows ``(n, d)`` meet the constraints of each group, ``(n, n_groups)``."""
        good = np.ones((len(x), self.n_groups), dtype=bool)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if len(self.lower):
                groups, first = self._groups_of_pairs
                in_order = at_most(x[:, self.lower], x[:, self.upper])
                good[:, groups] = np.logical_and.reduceat(in_order, first, axis=1)
            for g, holds in self.others:
                good[:, g] &= holds(x)
        return good
