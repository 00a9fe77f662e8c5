"""Points made admissible: cut at limits, rounded to steps, completed, and taken back where they break a constraint."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space._codecs import Codec
from gbce.space._computed import same
from gbce.space._feature import Feature

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = ["Limits", "complete", "is_admissible", "low_precision_of", "move_each", "place"]


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

    def at(self, x0: Array) -> tuple[Array, Array]:
        """Lowest and highest values ``(d,)`` from the row ``x0``."""
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
        return np.where(fixed, x0, low), np.where(fixed, x0, high)


# Shares of a move of which the first that is admissible is taken; the last is the start itself. Chosen by hand: steps
# of 5% lose at most that much of a move. So many points are checked at once: a check has a cost, however few they are.
_SHARES_OF_MOVE = np.concatenate([np.linspace(0.95, 0.05, 19), [0.02, 0.0]])
_MOST_CHECKED = 2_000
_SHARES_OF_EACH = (1.0, 0.75, 0.5, 0.25)  # of the move of one feature, of which the first that is admissible is taken
_LEVELS_STAY = 0.5  # share of a move down to which levels stay changed; a convention: half-way, the nearer end


def place(space: "Space", x: Array, x0: Array, toward: Array | None) -> tuple[Array, Array]:
    """Return points near ``x`` ``(n, d)`` and whether each is admissible ``(n,)``; see :meth:`gbce.Space.place`."""
    low, high = space.limits(x0)
    if space.plain:
        return space.completed(np.clip(x, low, high), x0), np.ones(len(x), dtype=bool)
    placed = _snap(space, x, x0, low, high)
    if not space.constraints and not space.computed:
        return placed, np.ones(len(x), dtype=bool)
    good = space.admissible(placed, x0)
    bad = np.flatnonzero(~good)
    if len(bad) == 0:
        return placed, good
    toward = np.broadcast_to(x0 if toward is None else toward, x.shape)
    placed = placed.copy()
    if space.unordered.any():
        # levels that break a constraint even where no number moves: they go back, the numbers need not
        levels = np.where(space.unordered, placed[bad], toward[bad])
        stuck = bad[~space.admissible(_snap(space, levels, x0, low, high), x0)]
        back = np.where(space.unordered, toward[stuck], placed[stuck])
        placed[stuck] = _snap(space, back, x0, low, high)
        good[stuck] = space.admissible(placed[stuck], x0)
        bad = bad[~good[bad]]
    shares = _SHARES_OF_MOVE
    while len(bad):
        block, shares = np.split(shares, [max(1, _MOST_CHECKED // len(bad))])
        tried = _take_back(space, placed[bad], toward[bad], x0, block)
        holds = space.admissible(tried, x0).reshape(len(block), len(bad))
        taken = (block == 0)[:, None] | holds
        first, found = taken.argmax(axis=0), np.flatnonzero(taken.any(axis=0))
        placed[bad[found]] = tried[first[found] * len(bad) + found]
        good[bad[found]] = holds[first[found], found]
        bad = np.delete(bad, found)
    return placed, good


def move_each(space: "Space", start: Array, x: Array, x0: Array) -> Array:
    """Return admissible points near ``x`` ``(n, d)``; see :meth:`gbce.Space.move_each`."""
    low, high = space.limits(x0)
    placed = _snap(space, x, x0, low, high)
    if not space.constraints and not space.computed:
        return placed
    bad = np.flatnonzero(~space.admissible(placed, x0))
    now, goal = start[bad].copy(), placed[bad]
    free = ~space.is_bound & ~space.is_computed
    now[:, free] += np.where(same(goal, now), 0.0, goal - now)[:, free]
    now = _snap(space, now, x0, low, high)
    if len(bad) and not space.computed and space.apart(now).all():
        placed[bad] = _move_side_by_side(space, now, goal, x0)
    else:
        placed[bad] = _move_in_turn(space, now, goal, x0)
    return placed


def _move_side_by_side(space: "Space", now: Array, goal: Array, x0: Array) -> Array:
    """Move bound features of admissible points ``now`` ``(n, d)`` towards ``goal`` ``(n, d)``, as far as they let it.

    The same as one after the other: what one feature does is no matter to those that no constraint links with it.
    """
    low, high = space.limits(x0)
    for which, group in space.apart.turns:
        todo = ~same(goal[:, which], now[:, which])
        for share in _SHARES_OF_EACH:
            left = np.flatnonzero(todo.any(axis=1))
            if len(left) == 0:
                break
            tried, before = now[left], now[np.ix_(left, which)]
            moved = before + share * (goal[np.ix_(left, which)] - before)
            tried[:, which] = np.where(todo[left], _cut(space, moved, x0, low, high, which), before)
            tried = space.completed(tried, x0)
            good = todo[left] & space.apart(tried)[:, group]
            now[np.ix_(left, which)] = np.where(good, tried[:, which], before)
            todo[left] &= ~good
    return now


def _move_in_turn(space: "Space", now: Array, goal: Array, x0: Array) -> Array:
    """Move bound features of points ``now`` ``(n, d)`` towards ``goal`` ``(n, d)``, one after the other."""
    low, high = space.limits(x0)
    for j in np.flatnonzero(space.is_bound & ~space.is_computed):
        left = np.flatnonzero(~same(goal[:, j], now[:, j]))
        for share in _SHARES_OF_EACH:
            if len(left) == 0:
                break
            tried = now[left]
            tried[:, j] += share * (goal[left, j] - tried[:, j])
            tried[:, [j]] = _cut(space, tried[:, [j]], x0, low, high, [j])
            tried = space.completed(tried, x0)
            good = space.admissible(tried, x0)
            now[left[good]] = tried[good]
            left = left[~good]
    return now


def _take_back(space: "Space", x: Array, toward: Array, x0: Array, shares: Array) -> Array:
    """Return points ``(k, d)`` at shares ``(s,)`` of their moves from ``toward`` ``(k, d)``: ``(s * k, d)``."""
    low, high = space.limits(x0)
    with np.errstate(invalid="ignore"):
        way = toward + shares[:, None, None] * (x - toward)
    levels = space.unordered | np.isnan(way)
    way = np.where(levels, np.where((shares < _LEVELS_STAY)[:, None, None], toward, x), way)
    tried = _snap(space, way.reshape(-1, x.shape[1]), x0, low, high).reshape(way.shape)
    tried[shares == 0] = toward
    return tried.reshape(-1, x.shape[1])


def _snap(space: "Space", x: Array, x0: Array, low: Array, high: Array) -> Array:
    """Cut, round and complete."""
    return space.completed(_cut(space, x, x0, low, high, slice(None)), x0)


def _cut(space: "Space", x: Array, x0: Array, low: Array, high: Array, which: Any) -> Array:
    """Cut and round features ``which``, their values ``x`` ``(n, m)``; the row and its limits ``(d,)`` are whole."""
    x0, whole = x0[which], np.flatnonzero(space.discrete[which])
    gone = np.isnan(x)
    if gone.any():
        x = np.where(gone & ~space.may_become_missing[which], x0, x)  # what is known stays known
    if len(whole):
        start = np.where(np.isnan(x0[whole]), 0.0, x0[whole])
        x = x.copy()
        x[:, whole] = start + np.round(x[:, whole] - start)
    return np.clip(x, low[which], high[which])


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
    good = np.ones(len(x), dtype=bool)
    for one in space.computed:
        j = space.position[one.name]
        value = x[:, j]
        low, high = space.features[j].range_from(x0[j])
        good &= np.isfinite(value) & (value >= low) & (value <= high)
    return good & space.checks(x) if space.constraints else good


def low_precision_of(features: Sequence[Feature], codecs: Sequence[Any]) -> list[tuple[int, np.dtype[Any]]]:
    """Return positions and dtypes of real features that are kept with fewer digits than computed with."""
    found = []
    for j, (codec, feature) in enumerate(zip(codecs, features, strict=True)):
        if isinstance(codec, Codec) and not codec.precise and feature.kind == "real" and codec.dtype != "object":
            kind = pd.api.types.pandas_dtype(codec.dtype)
            found.append((j, getattr(kind, "numpy_dtype", kind)))
    return found
