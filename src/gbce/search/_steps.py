"""Changes of single features from the row, and a greedy walk from the row to reliable points.

At each step the walk makes the changes that gain most for their cost. Every evaluated point is kept where it is the
cheapest so far for some level of reliability. The kept points are then shrunk towards the row, feature by feature, as
far as their reliability allows, and changes are traded for cheaper ones. Only outcomes are needed, so models may be of
any kind; the values tried are those seen in the data.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.space import Space

__all__ = ["BestPerLevel", "StepsFromRow", "values_to_try", "walk"]

# Single changes; chosen by hand: finer steps cost more rows, and repeated rounds make up for coarse ones.
_QUANTILES = np.linspace(0.01, 0.99, 41)  # of a column of the data: values tried, without the extremes
_MOST_LEVELS = 20  # of a category, the most frequent ones
_PARTS = np.array([0.0, 0.3, 0.6, 0.8, 0.9, 0.97])  # of a change that are kept when it is shrunk
# A change is extended by this share of what undoing another saves, among a point's largest changes. Without such trades
# a walk ended 23% dearer on linear models, with two changes where one larger change is cheaper.
_EXCHANGED, _MOST_EXCHANGED = 0.7, 6
_ALL_TRIED = 3  # values on one side of a feature that are all tried; of more, three

# Values to try.
_MOST_VALUES = 41  # of one feature; by hand: quantiles of the data 2.5% apart, refined by bisection later
_FEWEST_VALUES = 6  # of one feature where there are many: three on each side of the row
_VALUES_IN_ALL = 2_000  # of all features together: each is one model row, so that the first round stays affordable
_BEYOND = np.array([0.25, 1.0])  # of the data's range, beyond either end of it where there is no limit
_MOST_LEVELS_TRIED = 60  # of a category, the most frequent ones

# Walk; chosen by hand.
_MAX_STEPS, _MAX_ROUNDS = 60, 7  # of the walk, and of shrinking
_MOST_POINTS, _MOST_POINTS_PER_FEATURE = 4_000, 200  # on the walk: the sum of both; shrinking adds the first again
_LEAST_GAIN = 1e-6  # of a step: less is rounding
_LEAST_PRICE = 0.5  # of the median cost of a change: floor of the cost that a gain is divided by
_LEAST_SAVING = 1e-3  # of the cost, for another round of shrinking
_LEAST_RELIABILITY = 1e-3  # so that its logarithm is finite
_ROUNDING = 1e-9  # of reliabilities, which are shares

# --- changes of single features ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepsFromRow:
    """Changes of single features, to given values."""

    space: Space  # with limits, steps and constraints
    x0: Array  # (d,): the row
    values: dict[int, Array]  # for each movable feature, by position: ascending values, or codes of levels

    @classmethod
    def of(cls, space: Space, x0: Array, data: Array) -> Self:
        """Take the values from data ``(n, d)``, within the limits of the row."""
        low, high = space.limits(x0)
        values = {}
        for j in space.free(x0):
            known = data[~np.isnan(data[:, j]), j]
            if space.features[j].unordered:
                known = known[np.isin(known, space.features[j].levels_from(x0[j]))]
                codes, count = np.unique(known, return_counts=True)
                values[int(j)] = codes[np.argsort(-count, kind="stable")[:_MOST_LEVELS]]
            elif len(known):
                values[int(j)] = np.unique(np.clip(np.quantile(known, _QUANTILES), low[j], high[j]))
        return cls(space, x0, values)

    def neighbours(self, x: Array) -> Array:
        """Return points ``(n, d)`` that differ from ``x`` ``(d,)`` by one change, or by undoing one."""
        where: list[Array] = []
        to: list[Array] = []
        for j, values in self.values.items():
            if self.space.features[j].unordered or np.isnan(x[j]):
                tried = values
            else:
                above, below = values[values > x[j]], values[values < x[j]][::-1]
                tried = np.concatenate([_pick_few(above), _pick_few(below)])
            tried = np.append(tried, self.x0[j])
            where.append(np.full(len(tried), j))
            to.append(tried)
        if not to:
            return np.zeros((0, len(x)))
        feature = np.concatenate(where)
        rows = np.tile(x, (len(feature), 1))
        rows[np.arange(len(rows)), feature] = np.concatenate(to)
        rows, good = self._snap(rows)
        return rows[good & self.space.changed(rows, x).any(axis=1)]

    def draw_back(self, x: Array) -> "Shrunk":
        """Shrink single changes of points ``(k, d)`` a part of the way to the row, or undo them."""
        parent, feature = (np.repeat(part, len(_PARTS)) for part in np.nonzero(self._movable_changes(x)))
        start, now = self.x0[feature], x[parent, feature]
        with np.errstate(invalid="ignore"):
            to = start + np.tile(_PARTS, len(feature) // len(_PARTS)) * (now - start)
        rows = x[parent]
        rows[np.arange(len(rows)), feature] = np.where(self.space.unordered[feature] | np.isnan(to), start, to)
        rows, good = self._snap(rows)
        good &= self.space.changed(rows, x[parent]).any(axis=1) if len(rows) else good
        return Shrunk(rows[good], parent[good], feature[good])

    def exchange(self, x: Array) -> Array:
        """Return points ``(n, d)`` in which one large change of a point ``(k, d)`` is undone and another extended."""
        ordered = ~self.space.unordered & ~np.isnan(self.x0)
        step = (x - self.x0) / self.space.scale
        size = np.where(self._movable_changes(x), np.where(ordered & ~np.isnan(step), np.abs(step), 1.0), 0.0)
        few = np.argsort(-size, axis=1, kind="stable")[:, :_MOST_EXCHANGED]
        one, other = np.nonzero(~np.eye(few.shape[1], dtype=bool))
        parent, undone, further = np.repeat(np.arange(len(x)), len(one)), few[:, one].ravel(), few[:, other].ravel()
        can = (
            (size[parent, undone] > 0) & (size[parent, further] > 0) & ordered[further] & ~np.isnan(x[parent, further])
        )
        parent, undone, further = parent[can], undone[can], further[can]
        now, saved, away = x[parent, further], size[parent, undone], np.sign(step[parent, further])
        low, high = np.array([self.values[j][[0, -1]] for j in further.tolist()]).reshape(-1, 2).T
        to = np.clip(now + _EXCHANGED * saved * away * self.space.scale[further], low, high)
        more = (to - now) * away > 0
        rows, at = x[parent[more]], np.arange(more.sum())
        rows[at, undone[more]], rows[at, further[more]] = self.x0[undone[more]], to[more]
        rows, good = self._snap(rows)
        return rows[good]

    def _movable_changes(self, x: Array) -> Array:
        """Return where points ``(n, d)`` differ from the row in a feature that may move by itself."""
        changed = self.space.changed(x, self.x0)
        changed[:, self._fixed] = False
        return changed

    @cached_property
    def _fixed(self) -> Array:
        """Features ``(d,)`` that do not move by themselves."""
        fixed = np.ones(len(self.x0), dtype=bool)
        fixed[list(self.values)] = False
        return fixed

    def combine(self, x: Array, singles: Array, features: Array) -> Array:
        """Return ``x`` ``(d,)`` with the first two, three, ... of single changes ``(n, d)`` made together."""
        rows = np.tile(x, (max(len(features) - 1, 0), 1))
        for i, (single, j) in enumerate(zip(singles, features, strict=True)):
            rows[max(i - 1, 0) :, j] = single[j]
        rows, good = self._snap(rows)
        return rows[good]

    def _snap(self, rows: Array) -> tuple[Array, Array]:
        """Return admissible points near ``rows`` ``(n, d)``, and which of them exist ``(n,)``."""
        if len(rows) == 0:
            return rows, np.zeros(0, dtype=bool)
        return self.space.place(rows, self.x0)


class Shrunk(NamedTuple):
    """Points ``(n, d)`` that are nearer to the row in one ``feature`` ``(n,)`` than the point ``parent`` ``(n,)``."""

    x: Array
    parent: Array
    feature: Array


def _pick_few(values: Array) -> Array:
    """Return the first, the middle and the last of ``values``, or all of a few."""
    return values if len(values) <= _ALL_TRIED else values[[0, len(values) // 2, -1]]


# --- values to try ----------------------------------------------------------------------------------------------------


def values_to_try(space: Space, x0: Array, data: Array) -> dict[int, Array]:
    """Return the values that each movable feature, by position, is given when it changes alone.

    They are taken from rows ``(n, d)`` of usual values: numbers in ascending order, or codes of levels, with NaN last
    where a value may become missing. The row's own value is left out.
    """
    low, high = space.limits(x0)
    free = space.free(x0)
    most = int(np.clip(_VALUES_IN_ALL // max(len(free), 1), _FEWEST_VALUES, _MOST_VALUES))
    tried: dict[int, Array] = {}
    for j in free.tolist():
        column = data[~np.isnan(data[:, j]), j]
        if space.features[j].unordered:
            values = _list_levels(space.features[j].levels_from(x0[j]), column)
        else:
            values = _list_numbers(column, float(low[j]), float(high[j]), float(x0[j]), most, bool(space.discrete[j]))
        values = values[values != x0[j]]
        if space.may_become_missing[j] and not np.isnan(x0[j]):
            values = np.append(values, np.nan)
        if len(values):
            tried[j] = values
    return tried


def _list_levels(allowed: Array, column: Array) -> Array:
    """Return the codes of allowed levels: all of them, or the most frequent ones in a column."""
    if len(allowed) <= _MOST_LEVELS_TRIED:
        return allowed
    codes, count = np.unique(column[np.isin(column, allowed)], return_counts=True)
    return np.sort(codes[np.argsort(-count, kind="stable")[:_MOST_LEVELS_TRIED]])


def _list_numbers(column: Array, low: float, high: float, here: float, most: int, integer: bool) -> Array:
    """Return values within the limits: all integers if they are few, else those of the data and the limits."""
    if integer and high - low < most:
        return np.arange(low, high + 1.0)
    inside = np.unique(np.clip(column, low, high)) if len(column) else np.array([] if np.isnan(here) else [here])
    span = float(np.ptp(inside)) if len(inside) else 0.0
    below, above = (inside.min() - _BEYOND * span, inside.max() + _BEYOND * span) if len(inside) else (0.0, 0.0)
    ends = np.append(below if low == -np.inf else low, above if high == np.inf else high)
    if len(inside) > most:
        # as many on each side of the row, so that a row at the edge of the data has a fine grid as well
        below, above = inside[inside < here], inside[inside > here]
        sides = (below, above) if len(below) and len(above) else (inside,)
        inside = np.concatenate([_thin(side, most // len(sides)) for side in sides])
    return np.unique(np.concatenate([inside, ends]))


def _thin(values: Array, most: int) -> Array:
    """Return at most ``most`` of sorted values, evenly spaced in rank, both ends among them."""
    if len(values) <= most:
        return values
    return values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))]


# --- walk from the row ------------------------------------------------------------------------------------------------


Judge = Callable[[Array], tuple[Array, Array]]


class Scored(NamedTuple):
    """Objective, reliability and cost of points, ``(n,)`` each."""

    value: Array
    reliability: Array
    cost: Array


Score = Callable[[Array], Scored]


@dataclass
class BestPerLevel:
    """The cheapest point so far for every level of reliability."""

    levels: Array  # (l,): reliabilities in ascending order
    x: Array  # (l, d): the points; the row where there is none yet
    cost: Array  # (l,): their cost; infinite where there is none yet

    @classmethod
    def empty(cls, levels: Array, x0: Array) -> Self:
        """Return the levels without any points."""
        return cls(levels, np.tile(x0, (len(levels), 1)), np.full(len(levels), np.inf))

    def add(self, x: Array, reliability: Array, cost: Array) -> None:
        """Keep points ``(n, d)`` where they are cheaper than the current ones; ties do not replace."""
        enough = reliability[:, None] >= self.levels - _ROUNDING
        least = np.where(enough, cost[:, None], np.inf)
        best = least.argmin(axis=0)
        price = least[best, np.arange(len(self.levels))]
        cheaper = price < self.cost
        self.x[cheaper], self.cost[cheaper] = x[best[cheaper]], price[cheaper]

    @property
    def highest(self) -> dict[bytes, float]:
        """The points kept, as bytes, with the highest level of each."""
        filled = np.isfinite(self.cost)
        return {x.tobytes(): float(level) for x, level in zip(self.x[filled], self.levels[filled], strict=True)}

    @property
    def filled(self) -> Array:
        """The distinct points ``(k, d)`` kept."""
        return _unpack_points(self.highest, self.x.shape[1])


def _unpack_points(kept: Iterable[bytes], d: int) -> Array:
    """Return points ``(k, d)`` from their bytes."""
    return np.array([np.frombuffer(x) for x in kept]).reshape(-1, d)


def walk(judge: Judge, cost: Callable[[Array], Array], steps: StepsFromRow, best: BestPerLevel) -> None:
    """Walk from the row until the highest level is reached or nothing is gained, then shrink the points kept.

    ``judge`` takes points ``(n, d)`` and returns their reliability and loss, ``cost`` their cost, ``(n,)`` each.
    ``best`` receives every point that is the cheapest for a level.
    """
    left = _MOST_POINTS + _MOST_POINTS_PER_FEATURE * len(steps.values)

    def score(x: Array) -> Scored:
        nonlocal left
        if len(x) > left:
            raise BudgetSpentError(f"{len(x):,} more points exceed the limit of a walk")
        left -= len(x)
        reliability, loss = judge(x)
        price = cost(x)
        best.add(x, reliability, price)
        # the loss, and the unreliability that is left where the loss is zero
        return Scored(loss - np.log(np.maximum(reliability, _LEAST_RELIABILITY)), reliability, price)

    with suppress(BudgetSpentError):
        _walk_forward(score, steps, best.levels[-1])
    left += _MOST_POINTS  # points found on the way are worth little before they are shrunk
    with suppress(BudgetSpentError):
        _shrink_changes(score, steps, best)


def _walk_forward(score: Score, steps: StepsFromRow, highest: float) -> None:
    """Make the two changes with the largest gain per cost, until nothing is gained."""
    x = steps.x0
    for _ in range(_MAX_STEPS):
        trial = np.vstack([x, steps.neighbours(x)])
        scored = score(trial)
        worth = _compute_gain_per_cost(scored.value, scored.cost)
        order = np.argsort(-worth, kind="stable")
        if worth[order[0]] == -np.inf or scored.reliability[0] >= highest - _ROUNDING:
            return
        x = _make_two_changes(steps, x, trial[order[worth[order] > -np.inf]])


def _make_two_changes(steps: StepsFromRow, x: Array, trial: Array) -> Array:
    """Return ``x`` ``(d,)`` with the first of the changes ``(n, d)`` and the next one of another feature."""
    changed = steps.space.changed(trial, x)
    apart = np.flatnonzero(~(changed & changed[0]).any(axis=1))
    if len(apart) == 0:
        return trial[0]
    both = np.where(changed[0], trial[0], trial[apart[0]])
    return steps.space.project(both[None, :], steps.x0, toward=trial[0])[0]  # if both are incompatible, the first


def _compute_gain_per_cost(value: Array, cost: Array) -> Array:
    """Return the gain over the first point per cost ``(n,)``; minus infinity where nothing is gained."""
    with np.errstate(invalid="ignore"):  # inadmissible points have infinite cost and loss
        gain, price = np.nan_to_num(value[0] - value, nan=-np.inf), cost - cost[0]
    dearer = price[(price > 0) & np.isfinite(price)]
    least = _LEAST_PRICE * float(np.median(dearer)) if len(dearer) else 1.0
    worth = (gain > _LEAST_GAIN) & np.isfinite(price)
    return np.where(worth, gain / np.maximum(np.where(worth, price, 1.0), least), -np.inf)


def _shrink_changes(score: Score, steps: StepsFromRow, best: BestPerLevel) -> None:
    """Shrink the points kept, by single changes and then by several together, until little is saved."""
    joined = np.zeros((0, len(steps.x0)))
    known: set[bytes] = set()
    for _ in range(_MAX_ROUNDS):
        before, highest = best.cost.copy(), best.highest
        start = [x for x in highest if x not in known]
        known.update(start)
        points = _unpack_points(start, len(steps.x0))
        shrunk = steps.draw_back(points)
        if len(shrunk.x) + len(joined) == 0:
            return
        try:
            scored = score(np.vstack([shrunk.x, joined, steps.exchange(points)]))
        except BudgetSpentError:  # shrinking comes before trading
            scored = score(np.vstack([shrunk.x, joined]))
        there = np.isfinite(before)
        if (before[there] - best.cost[there] <= _LEAST_SAVING * before[there]).all():
            return
        joined = _combine_shrunk(steps, points, [highest[x] for x in start], shrunk, scored)


def _combine_shrunk(steps: StepsFromRow, points: Array, levels: list[float], shrunk: Shrunk, scored: Scored) -> Array:
    """Return points ``(n, d)`` with all shrinkages applied that, one by one, keep a point's reliability."""
    found = [np.zeros((0, len(steps.x0)))]
    for number, (x, level) in enumerate(zip(points, levels, strict=True)):
        own = np.flatnonzero((shrunk.parent == number) & (scored.reliability[: len(shrunk.x)] >= level - _ROUNDING))
        own = own[np.argsort(scored.cost[own], kind="stable")]  # the largest savings first
        _, first = np.unique(shrunk.feature[own], return_index=True)
        own = own[np.sort(first)]
        found.append(steps.combine(x, shrunk.x[own], shrunk.feature[own]))
    return np.vstack(found)
