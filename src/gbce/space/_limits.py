"""Compute the limits of each feature at a row, and project points to admissible ones.

A point is clipped, rounded and completed; if it then violates a constraint, its move is shrunk towards a start.
Features that share no constraint are moved in parallel.
"""

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

# Fractions of a move, of which the first admissible one is taken; the last is the start itself. Chosen by hand: steps
# of 5% lose at most that much of a move.
_SHARES_OF_MOVE = np.concatenate([np.linspace(0.95, 0.05, 19), [0.02, 0.0]])
_SHARES_OF_EACH = np.array([1.0, 0.75, 0.5, 0.25])  # the same for the move of a single feature
_MOST_CHECKED = 2_000  # points checked at once: every check has a fixed cost; by hand
_LEVELS_STAY = 0.5  # fraction of a move down to which levels stay changed; a convention: half-way, the nearer end

# --- limits ----------------------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """Everything that determines the limits of a row, each ``(d,)``."""

    low: Array
    high: Array
    only_up: Array
    only_down: Array
    unordered: Array
    discrete: Array
    keeps_missing: Array
    may_become_missing: Array
    fixed: Array
    forbidden: tuple[tuple[int, Array], ...]  # features with forbidden transitions, and these as booleans (k, k)

    @classmethod
    def of(cls, features: Sequence[Feature], computed: Array) -> "Limits":
        """Collect the limits of features; those flagged in ``computed`` ``(d,)`` do not move by themselves."""
        low = [0.0 if f.unordered else -math.inf if f.low is None else f.low for f in features]
        high = [len(f.levels or ()) - 1.0 if f.unordered else math.inf if f.high is None else f.high for f in features]
        return cls(
            low=np.array(low),
            high=np.array(high),
            only_up=np.array([f.direction == "increase" for f in features]),
            only_down=np.array([f.direction == "decrease" for f in features]),
            unordered=np.array([f.unordered for f in features]),
            discrete=np.array([f.discrete for f in features]),
            keeps_missing=np.array([f.missing not in ("leave", "any") for f in features]),
            may_become_missing=np.array([f.missing == "any" and f.mutable for f in features]) & ~computed,
            fixed=np.array([not f.mutable for f in features]) | computed,
            forbidden=tuple((j, _tabulate(f)) for j, f in enumerate(features) if f.forbidden),
        )

    def at(self, x0: Array) -> "RowLimits":
        """Compute the limits at the row ``x0`` ``(d,)``."""
        low, high = self.ends(x0)
        barred = self.barred_at(x0)
        for j, levels in barred:
            if levels.sum() == len(levels) - 1:
                low[j] = high[j] = x0[j]
        low.flags.writeable = high.flags.writeable = False
        return RowLimits(x0.copy(), low, high, self.discrete, self.may_become_missing, barred)

    def ends(self, x0: Array) -> tuple[Array, Array]:
        """Return the lowest and the highest values at a row ``(d,)``, or at each of several ``(n, d)``."""
        low = np.where(self.only_up, np.fmax(self.low, x0), self.low)
        high = np.where(self.only_down, np.fmin(self.high, x0), self.high)
        # a row that rounding puts slightly outside a bound may keep its own value
        low, high = np.fmin(low, x0), np.fmax(high, x0)
        if self.discrete.any():
            low = np.where(self.unordered, self.low, low)
            high = np.where(self.unordered, self.high, high)
            start = np.where(np.isnan(x0), 0.0, x0)
            low = np.where(self.discrete, start + np.ceil(low - start), low)
            high = np.where(self.discrete, start + np.floor(high - start), high)
        fixed = self.fixed | (self.keeps_missing & np.isnan(x0))
        return np.where(fixed, x0, low), np.where(fixed, x0, high)

    def barred_at(self, x0: Array) -> tuple[tuple[int, Array], ...]:
        """Return the levels that may not follow those of a row ``(d,)``: positions of features with masks ``(k,)``."""
        return tuple((j, table[int(x0[j])]) for j, table in self.forbidden if not np.isnan(x0[j]))

    def follows(self, x: Array, x0: Array) -> Array:
        """Whether every level of rows ``(n, d)`` may follow that of its own row in ``x0 (n, d)``: ``(n,)``."""
        good = np.ones(len(x), dtype=bool)
        for j, table in self.forbidden:
            known = ~np.isnan(x[:, j]) & ~np.isnan(x0[:, j])
            good[known] &= ~table[x0[known, j].astype(int), x[known, j].astype(int)]
        return good


def _tabulate(feature: Feature) -> Array:
    """Return whether each level may not be followed by each other one ``(k, k)``."""
    table = np.zeros((len(feature.levels or ()),) * 2, dtype=bool)
    table[tuple(np.array(feature.forbidden).T)] = True
    return table


@dataclass(frozen=True, eq=False)
class RowLimits:
    """Limits of the features at one row, each ``(m,)``."""

    x0: Array  # the row's own values
    low: Array
    high: Array
    discrete: Array  # whether values differ from the row's own by integers
    may_become_missing: Array
    barred: tuple[tuple[int, Array], ...] = ()  # features, and whether each of their levels is forbidden to the row

    def of(self, which: Any) -> "RowLimits":
        """Return the limits of some features."""
        barred: tuple[tuple[int, Array], ...] = ()
        if self.barred:
            known, own = dict(self.barred), np.arange(len(self.x0))[which].tolist()
            barred = tuple((i, known[j]) for i, j in enumerate(own) if j in known)
        ends = self.low[which], self.high[which]
        return RowLimits(self.x0[which], *ends, self.discrete[which], self.may_become_missing[which], barred)

    def allow(self, x: Array) -> Array:
        """Whether the levels of points ``(n, m)`` may follow the row's, ``(n,)``."""
        good = np.ones(len(x), dtype=bool)
        for j, levels in self.barred:
            good &= ~_entries_of(levels, x[:, j])
        return good

    def apply(self, x: Array) -> Array:
        """Round and clip values ``(n, m)``."""
        missing = np.isnan(x)
        if missing.any():
            x = np.where(missing & ~self.may_become_missing, self.x0, x)  # known values stay known
        stepped, start = self._steps
        if len(stepped):
            x = x.copy()
            steps = x[:, stepped] - start
            np.rint(steps, out=steps)
            x[:, stepped] = steps + start
        x = x.clip(self.low, self.high)
        for j, levels in self.barred:
            x[_entries_of(levels, x[:, j]), j] = self.x0[j]
        return x

    @cached_property
    def _steps(self) -> tuple[Array, Array]:
        """Positions of the discrete features, and the values from which their integer steps are counted."""
        stepped = np.flatnonzero(self.discrete)
        return stepped, np.where(np.isnan(self.x0[stepped]), 0.0, self.x0[stepped])


def _entries_of(levels: Array, column: Array) -> Array:
    """Return the entry of each level of a column ``(n,)``, False for missing ones."""
    known = ~np.isnan(column)
    return known & levels[np.where(known, column, 0.0).astype(int)]


# --- projection ------------------------------------------------------------------------------------------------------


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
        # levels that violate a constraint even if no number moves are undone; the numbers need not be
        levels = np.where(space.unordered, placed[bad], toward[bad])
        stuck = bad[~space.admissible(_snap(space, levels, x0), x0)]
        undone = np.where(space.unordered, toward[stuck], placed[stuck])
        placed[stuck] = _snap(space, undone, x0)
        good[stuck] = space.admissible(placed[stuck], x0)
        bad = bad[~good[bad]]
    shares = _SHARES_OF_MOVE
    while len(bad):
        block, shares = _split_shares(shares, len(bad))
        tried = _shrink_moves(space, placed[bad], toward[bad], x0, block)
        holds = space.admissible(tried, x0).reshape(len(block), len(bad))
        taken = (block == 0)[:, None] | holds
        first, found = taken.argmax(axis=0), taken.any(axis=0)
        at, first = bad[found], first[found]
        placed[at] = tried[first * len(bad) + np.flatnonzero(found)]
        good[at] = holds[first, found]
        bad = bad[~found]
    return placed, good


def _split_shares(shares: Array, n: int) -> tuple[Array, Array]:
    """Split fractions ``(s,)`` into those at which ``n`` points are checked at once, and the rest."""
    size = max(1, _MOST_CHECKED // n)
    return shares[:size], shares[size:]


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
    if not space.computed and space.constraint_groups(now).all():
        placed[bad] = _move_in_parallel(space, now, goal, x0)
    else:
        placed[bad] = _move_in_sequence(space, now, goal, x0)
    return placed


def _move_in_parallel(space: "Space", now: Array, goal: Array, x0: Array) -> Array:
    """Move constrained features of admissible points ``now`` ``(n, d)`` towards ``goal`` as far as constraints allow.

    Equivalent to moving them in sequence, because features of different groups share no constraint.
    """
    limits = space.row_limits(x0)
    for which, group in space.constraint_groups.rounds:
        todo, own_limits, shares = ~same(goal[:, which], now[:, which]), limits.of(which), _SHARES_OF_EACH
        left = np.flatnonzero(todo.any(axis=1))
        while len(left) and len(shares):
            block, shares = _split_shares(shares, len(left))
            rows, unfinished = now[left], todo[left]
            before = rows[:, which]
            moved = before + block[:, None, None] * (goal[left][:, which] - before)
            moved = own_limits.apply(moved.reshape(-1, len(which))).reshape(moved.shape)
            tried = np.concatenate([rows] * len(block))
            tried[:, which] = np.where(unfinished, moved, before).reshape(-1, len(which))
            tried = space.completed(tried, x0)
            good = unfinished & space.constraint_groups(tried)[:, group].reshape(moved.shape)
            moved = np.take_along_axis(tried[:, which].reshape(moved.shape), good.argmax(axis=0)[None], axis=0)[0]
            found = good.any(axis=0)
            rows[:, which] = np.where(found, moved, before)
            now[left], todo[left] = rows, unfinished & ~found
            left = left[todo[left].any(axis=1)]
    return now


def _move_in_sequence(space: "Space", now: Array, goal: Array, x0: Array) -> Array:
    """Move constrained features of points ``now`` ``(n, d)`` towards ``goal`` ``(n, d)``, one after the other."""
    limits = space.row_limits(x0)
    for j in np.flatnonzero(space.is_bound & ~space.is_computed):
        left, own_limits, shares = np.flatnonzero(~same(goal[:, j], now[:, j])), limits.of([j]), _SHARES_OF_EACH
        while len(left) and len(shares):
            block, shares = _split_shares(shares, len(left))
            before = now[left, j]
            moved = before + block[:, None] * (goal[left, j] - before)
            tried = np.concatenate([now[left]] * len(block))
            tried[:, [j]] = own_limits.apply(moved.reshape(-1, 1))
            tried = space.completed(tried, x0)
            good = space.admissible(tried, x0).reshape(moved.shape)
            found = good.any(axis=0)
            now[left[found]] = tried[good.argmax(axis=0)[found] * len(left) + np.flatnonzero(found)]
            left = left[~found]
    return now


def _shrink_moves(space: "Space", x: Array, toward: Array, x0: Array, shares: Array) -> Array:
    """Return points ``(s * k, d)`` at fractions ``(s,)`` of the moves from ``toward`` to ``x``, both ``(k, d)``."""
    with np.errstate(invalid="ignore"):
        path = toward + shares[:, None, None] * (x - toward)
    levels = space.unordered | np.isnan(path)
    if levels.any():
        path = np.where(levels, np.where((shares < _LEVELS_STAY)[:, None, None], toward, x), path)
    tried = _snap(space, path.reshape(-1, x.shape[1]), x0).reshape(path.shape)
    tried[shares == 0] = toward
    return tried.reshape(-1, x.shape[1])


def _snap(space: "Space", x: Array, x0: Array) -> Array:
    """Round, clip and complete points ``(n, d)``."""
    return space.completed(space.row_limits(x0).apply(x), x0)


def complete(space: "Space", x: Array, x0: Array) -> Array:
    """Compute computed features and round to the precision of columns; see :meth:`gbce.Space.completed`."""
    if not space.low_precision and not space.computed:
        return x
    x = x.copy()
    low, high = space.limits(x0)
    for j, kind in space.low_precision:
        stored = x[:, j].astype(kind)
        stored = np.where(stored > high[j], np.nextafter(stored, kind.type(-np.inf)), stored)
        stored = np.where(stored < low[j], np.nextafter(stored, kind.type(np.inf)), stored)
        x[:, j] = np.where(x[:, j] == x0[j], x0[j], stored)
    for one in space.computed:
        j = space.position[one.name]
        values = one.values(space, x)
        x[:, j] = np.where(same(values, x0[j]), x0[j], values)
    return x


def is_admissible(space: "Space", x: Array, x0: Array) -> Array:
    """Whether points ``(n, d)`` satisfy the constraints and the bounds of computed features, ``(n,)``."""
    good = space.checks(x)
    for one in space.computed:
        j = space.position[one.name]
        value = x[:, j]
        low, high = space.features[j].range_from(x0[j])
        good &= np.isfinite(value) & (value >= low) & (value <= high)
    return good


def low_precision_of(features: Sequence[Feature], codecs: Sequence[Any]) -> list[tuple[int, np.dtype[Any]]]:
    """Return positions and dtypes of real features that are stored with less than double precision."""
    found = []
    for j, (codec, feature) in enumerate(zip(codecs, features, strict=True)):
        if isinstance(codec, Codec) and not codec.precise and feature.kind == "real" and codec.dtype != "object":
            kind = pd.api.types.pandas_dtype(codec.dtype)
            found.append((j, getattr(kind, "numpy_dtype", kind)))
    return found


def settle_each(space: "Space", x: Array, x0: Array) -> tuple[Array, Array]:
    """Return rows ``(n, d)`` completed, and whether each may be reached from its own row in ``x0`` ``(n, d)``.

    Nothing is clipped, rounded to steps or shrunk: a row that is not exactly possible is not admissible.
    """
    low, high = space.all_limits.ends(x0)
    x = x.copy()
    for j, kind in space.low_precision:
        x[:, j] = np.where(x[:, j] == x0[:, j], x0[:, j], x[:, j].astype(kind))
    steps = np.where(np.isnan(x0), 0.0, x0)
    with np.errstate(invalid="ignore"):
        inside = (x >= low) & (x <= high) & (~space.discrete | (np.rint(x - steps) == x - steps))
    kept = (x == x0) | (np.isnan(x) & np.isnan(x0)) | (np.isnan(x) & space.may_become_missing)
    good = np.asarray((inside | kept | space.is_computed).all(axis=1))
    # levels outside their range have been found; only others have a place in the tables of transitions
    good[good] &= space.all_limits.follows(x[good], x0[good])
    for one in space.computed:
        j = space.position[one.name]
        values = one.values(space, x)
        x[:, j] = np.where(same(values, x0[:, j]), x0[:, j], values)
        ends = np.array([space.features[j].range_from(now) for now in x0[:, j].tolist()]).reshape(-1, 2)
        with np.errstate(invalid="ignore"):
            good &= np.isfinite(x[:, j]) & (x[:, j] >= ends[:, 0]) & (x[:, j] <= ends[:, 1])
    return x, good & space.checks(x)


# --- constraint groups -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ConstraintGroups:
    """Groups of features that are linked by constraints, each with its constraints."""

    rounds: tuple[tuple[Array, Array], ...]  # features (c,), at most one per group, and their groups (c,)
    lower: Array  # positions (k,) of pairs of columns that a constraint only orders, lower <= upper
    upper: Array
    pair_group: Array  # group (k,) of each pair
    others: tuple[tuple[int, Callable[[Array], Any]], ...]  # group and function of rows of each other constraint
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
        of_link = [root[link[0]] if link else -1 for link in links]  # a constraint without columns has an empty group
        groups = sorted(set(of_link))
        members = [[j for j in everything if root[j] == group] for group in groups]
        rounds = []
        for t in range(max(map(len, members), default=0)):
            here = [(own[t], g) for g, own in enumerate(members) if t < len(own)]
            rounds.append((np.array([j for j, _ in here]), np.array([g for _, g in here])))
        own_checks = [
            Checks.of(space, tuple(one for one, its in zip(space.constraints, of_link, strict=True) if its == group))
            for group in groups
        ]
        return cls(
            tuple(rounds),
            np.concatenate([np.zeros(0, dtype=int), *[one.lower for one in own_checks]]),
            np.concatenate([np.zeros(0, dtype=int), *[one.upper for one in own_checks]]),
            np.repeat(np.arange(len(groups)), [len(one.lower) for one in own_checks]),
            tuple((g, holds) for g, one in enumerate(own_checks) for holds in one.others),
            len(groups),
        )

    @cached_property
    def _groups_of_pairs(self) -> tuple[Array, Array]:
        """Groups ``(g,)`` that have pairs, which are contiguous, and the position of the first pair of each."""
        return np.unique(self.pair_group, return_index=True)

    def __call__(self, x: Array) -> Array:
        """Whether rows ``(n, d)`` satisfy the constraints of each group, ``(n, n_groups)``."""
        good = np.ones((len(x), self.n_groups), dtype=bool)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if len(self.lower):
                groups, first = self._groups_of_pairs
                in_order = at_most(x[:, self.lower], x[:, self.upper])
                good[:, groups] = np.logical_and.reduceat(in_order, first, axis=1)
            for g, holds in self.others:
                good[:, g] &= holds(x)
        return good
