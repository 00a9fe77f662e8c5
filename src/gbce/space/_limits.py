"""Compute the limits of each feature at a row, and project points to admissible ones.

A point is clipped, rounded and completed; if it then violates a constraint, its move is shrunk towards a start.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space._codecs import Codec
from gbce.space._constraints import Checks, Computed, Constraint, same
from gbce.space._feature import Feature
from gbce.space._rows import RowCodec

# Fractions of a move, of which the first admissible one is taken; the last is the start itself. Chosen by hand: steps
# of 5% lose at most that much of a move.
_SHARES_OF_MOVE = np.concatenate([np.linspace(0.95, 0.05, 19), [0.02, 0.0]])
_SHARES_OF_EACH = np.array([1.0, 0.75, 0.5, 0.25])  # the same for the move of a single feature
_MOST_CHECKED = 2_000  # points checked at once: every check has a fixed cost; by hand
_MOST_LIMITS = 100  # rows whose limits are cached; by hand: more than are explained at the same time
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


# --- projection -------------------------------------------------------------------------------------------------------


class Placing(RowCodec):
    """Limits and constraints of a :class:`gbce.Space`, and the projection of points to admissible ones."""

    constraints: tuple[Constraint, ...]
    computed: tuple[Computed, ...]

    @cached_property
    def plain(self) -> bool:
        """Whether all features are real numbers that are never missing, without constraints or computed columns."""
        return all(feature.plain for feature in self.features) and not self.constraints and not self.computed

    @cached_property
    def discrete(self) -> Array:
        """Whether each feature is discrete, ``(d,)``."""
        return np.array([feature.discrete for feature in self.features])

    @property
    def unordered(self) -> Array:
        """Whether each feature is a category or a boolean, ``(d,)``."""
        return self.all_limits.unordered

    @property
    def may_become_missing(self) -> Array:
        """Whether each feature may become missing, ``(d,)``."""
        return self.all_limits.may_become_missing

    @cached_property
    def is_computed(self) -> Array:
        """Whether each feature is computed from others, ``(d,)``."""
        computed = {one.name for one in self.computed}
        return np.array([name in computed for name in self.names])

    def limits(self, x0: Array) -> tuple[Array, Array]:
        """Return the lowest and the highest value of each feature at the row ``x0``: two read-only arrays ``(d,)``.

        For a feature that cannot change (immutable, computed, or missing and to be kept) both are the row's value.
        """
        found = self.row_limits(x0)
        return found.low, found.high

    def row_limits(self, x0: Array) -> RowLimits:
        """Return the limits at the row ``x0``, by which points are rounded and clipped; cached."""
        x0 = np.asarray(x0, dtype=float)
        key = x0.tobytes()
        cached = self._limits_of_rows.get(key)
        if cached is None:
            cached = self.all_limits.at(x0)
            if len(self._limits_of_rows) >= _MOST_LIMITS:
                self._limits_of_rows.clear()
            self._limits_of_rows[key] = cached
        return cached

    @cached_property
    def _limits_of_rows(self) -> dict[bytes, RowLimits]:
        """Cache of limits keyed by the bytes of rows: one explanation needs them hundreds of times."""
        return {}

    @cached_property
    def all_limits(self) -> Limits:
        """Everything that determines the limits of a row."""
        return Limits.of(self.features, self.is_computed)

    @cached_property
    def checks(self) -> Checks:
        """The compiled constraints: a function of rows ``(n, d)`` to booleans ``(n,)``."""
        return Checks.of(self, self.constraints)

    @cached_property
    def is_bound(self) -> Array:
        """Whether a constraint or computed feature depends, or may depend, on each feature, ``(d,)``."""
        seen = [*(one.names() for one in self.constraints), *(one.names() for one in self.computed)]
        known = {name for names in seen for name in names or ()}
        return np.array([None in seen or name in known for name in self.names])

    @cached_property
    def low_precision(self) -> list[tuple[int, np.dtype[Any]]]:
        """Positions and dtypes of real features that are stored with less than double precision."""
        found = []
        for j, (codec, feature) in enumerate(zip(self.codecs, self.features, strict=True)):
            if isinstance(codec, Codec) and not codec.precise and feature.kind == "real" and codec.dtype != "object":
                kind = pd.api.types.pandas_dtype(codec.dtype)
                found.append((j, getattr(kind, "numpy_dtype", kind)))
        return found

    def free(self, x0: Array) -> Array:
        """Return the positions ``(m,)`` of the features that can change from ``x0``."""
        low, high = self.limits(x0)
        return np.flatnonzero((high > low) | self.all_limits.may_become_missing)

    def project(self, x: Array, x0: Array, toward: Array | None = None) -> Array:
        """Return admissible points near ``x`` of shape ``(n, d)`` for the row ``x0``.

        Values are rounded and clipped, computed features recomputed. The move of a point that then violates a
        constraint is shrunk towards ``toward`` (by default the row) until it is admissible.
        """
        return self.place(x, x0, toward)[0]

    def place(self, x: Array, x0: Array, toward: Array | None = None) -> tuple[Array, Array]:
        """Return the points of :meth:`project`, and whether each is admissible, ``(n,)``.

        Some may not be if the row itself violates a constraint; each is checked once.
        """
        if self.plain:
            return self.completed(x.clip(*self.limits(x0)), x0), np.ones(len(x), dtype=bool)
        placed = self._snap(x, x0)
        if not self.constraints and not self.computed:
            return placed, np.ones(len(x), dtype=bool)
        good = self.admissible(placed, x0)
        if good.all():
            return placed, good
        bad = np.flatnonzero(~good)
        toward = np.broadcast_to(x0 if toward is None else toward, x.shape)
        placed = placed.copy()
        if self.unordered.any():
            # levels that violate a constraint even if no number moves are undone; the numbers need not be
            levels = np.where(self.unordered, placed[bad], toward[bad])
            stuck = bad[~self.admissible(self._snap(levels, x0), x0)]
            undone = np.where(self.unordered, toward[stuck], placed[stuck])
            placed[stuck] = self._snap(undone, x0)
            good[stuck] = self.admissible(placed[stuck], x0)
            bad = bad[~good[bad]]
        shares = _SHARES_OF_MOVE
        while len(bad):
            block, shares = _take_block(shares, len(bad))
            tried = self._shrink_moves(placed[bad], toward[bad], x0, block)
            holds = self.admissible(tried, x0).reshape(len(block), len(bad))
            taken = (block == 0)[:, None] | holds
            first, found = taken.argmax(axis=0), taken.any(axis=0)
            at, first = bad[found], first[found]
            placed[at] = tried[first * len(bad) + np.flatnonzero(found)]
            good[at] = holds[first, found]
            bad = bad[~found]
        return placed, good

    def _shrink_moves(self, x: Array, toward: Array, x0: Array, shares: Array) -> Array:
        """Return points ``(s * k, d)`` at fractions ``(s,)`` of the moves from ``toward`` to ``x``, both ``(k, d)``."""
        with np.errstate(invalid="ignore"):
            path = toward + shares[:, None, None] * (x - toward)
        levels = self.unordered | np.isnan(path)
        if levels.any():
            path = np.where(levels, np.where((shares < _LEVELS_STAY)[:, None, None], toward, x), path)
        tried = self._snap(path.reshape(-1, x.shape[1]), x0).reshape(path.shape)
        tried[shares == 0] = toward
        return tried.reshape(-1, x.shape[1])

    def move_each(self, start: Array, x: Array, x0: Array) -> Array:
        """Move admissible points ``start`` ``(n, d)`` towards ``x`` ``(n, d)`` for the row ``x0``, keeping them so.

        Where constraints do not let all features move together, each moves in turn as far as they allow, so that
        unconstrained features always move all the way.
        """
        placed = self._snap(x, x0)
        if not self.constraints and not self.computed:
            return placed
        good = self.admissible(placed, x0)
        if good.all():
            return placed
        bad = np.flatnonzero(~good)
        now, goal = start[bad], placed[bad]
        free = ~self.is_bound & ~self.is_computed
        now[:, free] += np.where(same(goal, now), 0.0, goal - now)[:, free]
        now, limits = self._snap(now, x0), self.row_limits(x0)
        for j in np.flatnonzero(self.is_bound & ~self.is_computed):
            left, own_limits, shares = np.flatnonzero(~same(goal[:, j], now[:, j])), limits.of([j]), _SHARES_OF_EACH
            while len(left) and len(shares):
                block, shares = _take_block(shares, len(left))
                before = now[left, j]
                moved = before + block[:, None] * (goal[left, j] - before)
                tried = np.concatenate([now[left]] * len(block))
                tried[:, [j]] = own_limits.apply(moved.reshape(-1, 1))
                tried = self.completed(tried, x0)
                good = self.admissible(tried, x0).reshape(moved.shape)
                found = good.any(axis=0)
                now[left[found]] = tried[good.argmax(axis=0)[found] * len(left) + np.flatnonzero(found)]
                left = left[~found]
        placed[bad] = now
        return placed

    def _snap(self, x: Array, x0: Array) -> Array:
        """Round, clip and complete points ``(n, d)``."""
        return self.completed(self.row_limits(x0).apply(x), x0)

    def completed(self, x: Array, x0: Array) -> Array:
        """Return points ``(n, d)`` with computed features recomputed and values rounded to their columns' precision."""
        if not self.low_precision and not self.computed:
            return x
        x = x.copy()
        low, high = self.limits(x0)
        for j, kind in self.low_precision:
            stored = x[:, j].astype(kind)
            with np.errstate(over="ignore"):  # beyond the last number of the type is infinity, which is not taken
                stored = np.where(stored > high[j], np.nextafter(stored, kind.type(-np.inf)), stored)
                stored = np.where(stored < low[j], np.nextafter(stored, kind.type(np.inf)), stored)
            x[:, j] = np.where(x[:, j] == x0[j], x0[j], stored)
        for one in self.computed:
            j = self.position[one.name]
            values = one.values(self, x)
            x[:, j] = np.where(same(values, x0[j]), x0[j], values)
        return x

    def admissible(self, x: Array, x0: Array) -> Array:
        """Whether each of ``(n, d)`` satisfies the constraints and the bounds of computed features: ``(n,)``."""
        good = self.checks(x)
        for one in self.computed:
            j = self.position[one.name]
            value = x[:, j]
            low, high = self.features[j].range_from(x0[j])
            good &= np.isfinite(value) & (value >= low) & (value <= high)
        return good

    def settle_each(self, x: Array, x0: Array) -> tuple[Array, Array]:
        """Return rows ``(n, d)`` with computed features recomputed, and whether each is admissible ``(n,)``.

        Each has its own row in ``x0`` ``(n, d)``, by whose limits it is judged; it is not moved to meet them.
        """
        low, high = self.all_limits.ends(x0)
        x = x.copy()
        for j, kind in self.low_precision:
            x[:, j] = np.where(x[:, j] == x0[:, j], x0[:, j], x[:, j].astype(kind))
        steps = np.where(np.isnan(x0), 0.0, x0)
        with np.errstate(invalid="ignore"):
            inside = (x >= low) & (x <= high) & (~self.discrete | (np.rint(x - steps) == x - steps))
        kept = (x == x0) | (np.isnan(x) & np.isnan(x0)) | (np.isnan(x) & self.may_become_missing)
        good = np.asarray((inside | kept | self.is_computed).all(axis=1))
        # levels outside their range have been found; only others have a place in the tables of transitions
        good[good] &= self.all_limits.follows(x[good], x0[good])
        for one in self.computed:
            j = self.position[one.name]
            values = one.values(self, x)
            x[:, j] = np.where(same(values, x0[:, j]), x0[:, j], values)
            ends = np.array([self.features[j].range_from(now) for now in x0[:, j].tolist()]).reshape(-1, 2)
            with np.errstate(invalid="ignore"):
                good &= np.isfinite(x[:, j]) & (x[:, j] >= ends[:, 0]) & (x[:, j] <= ends[:, 1])
        return x, good & self.checks(x)


def _take_block(shares: Array, n: int) -> tuple[Array, Array]:
    """Split fractions ``(s,)`` into the next block, few enough to check ``n`` points at each, and the rest."""
    size = max(1, _MOST_CHECKED // n)
    return shares[:size], shares[size:]
