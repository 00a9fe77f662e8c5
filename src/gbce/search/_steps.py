"""A walk from the row to points that hold: at each step the changes that buy most for their price.

Every point asked about on the way is kept where it is the cheapest so far for some reliability. What was kept is then
drawn back towards the row, feature by feature, as far as its reliability allows: what it no longer needs, it gives up,
and what it needs less than it costs, it exchanges for more of another change.
Only verdicts are asked, so models may be of any kind; the values that are tried are those seen in the data.
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

__all__ = ["Back", "BestPerLevel", "StepsFromRow", "values_to_try", "walk"]

# --- changes of single features that a search may make ---------------------------------------------------------------

# Chosen by hand: finer steps cost more rows, and repeated rounds make up for coarse ones.
_QUANTILES = np.linspace(0.01, 0.99, 41)  # of a number in the data: values that it may be given, without the extremes
_MOST_LEVELS = 20  # of a category, the most frequent ones
_PARTS = np.array([0.0, 0.3, 0.6, 0.8, 0.9, 0.97])  # of the way from the row that a change is drawn back to
# Another change goes further by this share of what one change saves, among a point's largest changes. Without such
# exchanges a walk ended 23% dearer on linear models, with two changes where one that goes further is cheaper.
_EXCHANGED, _MOST_EXCHANGED = 0.7, 6
_ALL_TRIED = 3  # values on one side of a feature that are all tried; of more, the first, the middle and the last


@dataclass(frozen=True)
class StepsFromRow:
    """Values that single features may be given.

    Parameters
    ----------
    space : Space
        With limits, steps and conditions.
    x0 : array of shape (d,)
        The row.
    values : dict
        For each feature that can move, by position: its values in rising order, or the codes of its levels.
    """

    space: Space
    x0: Array
    values: dict[int, Array]

    @classmethod
    def of(cls, space: Space, x0: Array, data: Array) -> Self:
        """Read the values off data ``(n, d)``, within what the row may become."""
        low, high = space.limits(x0)
        values = {}
        for j in space.free(x0):
            known = data[~np.isnan(data[:, j]), j]
            if space.features[j].unordered:
                codes, count = np.unique(known, return_counts=True)
                values[int(j)] = codes[np.argsort(-count, kind="stable")[:_MOST_LEVELS]]
            elif len(known):
                values[int(j)] = np.unique(np.clip(np.quantile(known, _QUANTILES), low[j], high[j]))
        return cls(space, x0, values)

    def neighbours(self, x: Array) -> Array:
        """Return points ``(n, d)`` that differ from ``x`` ``(d,)`` by one of these changes, or by taking one back."""
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

    def draw_back(self, x: Array) -> "Back":
        """Draw single changes of points ``(k, d)`` back, a part of the way to the row or all of it."""
        parent, feature = (np.repeat(part, len(_PARTS)) for part in np.nonzero(self._movable_changes(x)))
        start, now = self.x0[feature], x[parent, feature]
        with np.errstate(invalid="ignore"):
            to = start + np.tile(_PARTS, len(feature) // len(_PARTS)) * (now - start)
        rows = x[parent]
        rows[np.arange(len(rows)), feature] = np.where(self.space.unordered[feature] | np.isnan(to), start, to)
        rows, good = self._snap(rows)
        good &= self.space.changed(rows, x[parent]).any(axis=1) if len(rows) else good
        return Back(rows[good], parent[good], feature[good])

    def exchange(self, x: Array) -> Array:
        """Return points ``(n, d)`` in which one change of a point ``(k, d)`` is taken back and another goes further.

        Only its largest changes are exchanged, in units of the features' scales; a change of category, or to a missing
        value, is one unit. The other goes further by less than is saved (before it is rounded to whole steps), and not
        beyond the values.
        """
        ordered = ~self.space.unordered & ~np.isnan(self.x0)
        step = (x - self.x0) / self.space.scale
        size = np.where(self._movable_changes(x), np.where(ordered & ~np.isnan(step), np.abs(step), 1.0), 0.0)
        few = np.argsort(-size, axis=1, kind="stable")[:, :_MOST_EXCHANGED]
        one, other = np.nonzero(~np.eye(few.shape[1], dtype=bool))
        parent, given, further = np.repeat(np.arange(len(x)), len(one)), few[:, one].ravel(), few[:, other].ravel()
        can = (size[parent, given] > 0) & (size[parent, further] > 0) & ordered[further] & ~np.isnan(x[parent, further])
        parent, given, further = parent[can], given[can], further[can]
        now, saved, away = x[parent, further], size[parent, given], np.sign(step[parent, further])
        low, high = np.array([self.values[j][[0, -1]] for j in further.tolist()]).reshape(-1, 2).T
        to = np.clip(now + _EXCHANGED * saved * away * self.space.scale[further], low, high)
        more = (to - now) * away > 0
        rows, at = x[parent[more]], np.arange(more.sum())
        rows[at, given[more]], rows[at, further[more]] = self.x0[given[more]], to[more]
        rows, good = self._snap(rows)
        return rows[good]

    def _movable_changes(self, x: Array) -> Array:
        """Where points ``(n, d)`` differ from the row in a feature that may be moved by itself."""
        changed = self.space.changed(x, self.x0)
        changed[:, self._fixed] = False
        return changed

    @cached_property
    def _fixed(self) -> Array:
        """Whether each feature ``(d,)`` is not moved by itself."""
        fixed = np.ones(len(self.x0), dtype=bool)
        fixed[list(self.values)] = False
        return fixed

    def combine(self, x: Array, singles: Array, features: Array) -> Array:
        """Return ``x`` ``(d,)`` with the first two, three, ... of changes made together, each as its own point has it.

        ``singles`` ``(n, d)`` differ from ``x`` by one of ``features`` ``(n,)`` each.
        """
        rows = np.tile(x, (max(len(features) - 1, 0), 1))
        for i, (single, j) in enumerate(zip(singles, features, strict=True)):
            rows[max(i - 1, 0) :, j] = single[j]
        rows, good = self._snap(rows)
        return rows[good]

    def _snap(self, rows: Array) -> tuple[Array, Array]:
        """Return admissible points near ``rows`` ``(n, d)``, and which of them can be had."""
        if len(rows) == 0:
            return rows, np.zeros(0, dtype=bool)
        return self.space.place(rows, self.x0)


class Back(NamedTuple):
    """Points ``(n, d)`` that are nearer to the row in one feature ``(n,)`` than the point ``parent`` ``(n,)``."""

    x: Array
    parent: Array
    feature: Array


def _pick_few(values: Array) -> Array:
    """Return a few of ``values``: the first, the last and one between."""
    return values if len(values) <= _ALL_TRIED else values[[0, len(values) // 2, -1]]


# --- values that single features are given in a search for the nearest point that reaches ----------------------------

_MOST_VALUES = 41  # of one feature; by hand: quantiles of the data 2.5% apart, and what lies between is closed in on
_FEWEST_VALUES = 6  # of one feature where there are many: three on each side of the row
_VALUES_IN_ALL = 2_000  # of all features together: each is one model row, so that a first look stays affordable
_BEYOND = np.array([0.25, 1.0])  # of the data's range, beyond either end of it where there is no limit
_MOST_LEVELS_TRIED = 60  # of a category; of more, the most frequent ones


def values_to_try(space: Space, x0: Array, data: Array) -> dict[int, Array]:
    """Return for each feature that can move, by position, the values it is given when it changes alone.

    Parameters
    ----------
    space : Space
        With limits and levels.
    x0 : array of shape (d,)
        The row.
    data : array of shape (n, d)
        Rows whose values count as usual, such as training rows.

    Returns
    -------
    dict
        Numbers in rising order, or codes of levels; NaN comes last where a value may become missing. The row's own
        value is not among them.
    """
    low, high = space.limits(x0)
    free = space.free(x0)
    most = int(np.clip(_VALUES_IN_ALL // max(len(free), 1), _FEWEST_VALUES, _MOST_VALUES))
    tried: dict[int, Array] = {}
    for j in free.tolist():
        column = data[~np.isnan(data[:, j]), j]
        if space.features[j].unordered:
            values = _levels(len(space.features[j].levels or ()), column)
        else:
            values = _numbers(column, float(low[j]), float(high[j]), float(x0[j]), most, bool(space.discrete[j]))
        values = values[values != x0[j]]
        if space.may_become_missing[j] and not np.isnan(x0[j]):
            values = np.append(values, np.nan)
        if len(values):
            tried[j] = values
    return tried


def _levels(n: int, column: Array) -> Array:
    """Return codes of ``n`` levels: all of them, or the most frequent in a column."""
    if n <= _MOST_LEVELS_TRIED:
        return np.arange(float(n))
    codes, count = np.unique(column, return_counts=True)
    return np.sort(codes[np.argsort(-count, kind="stable")[:_MOST_LEVELS_TRIED]])


def _numbers(column: Array, low: float, high: float, here: float, most: int, whole: bool) -> Array:
    """Return numbers within the limits: every whole one if they are few, or those of the data, and finite limits."""
    if whole and high - low < most:
        return np.arange(low, high + 1.0)
    inside = np.unique(np.clip(column, low, high)) if len(column) else np.array([] if np.isnan(here) else [here])
    span = float(np.ptp(inside)) if len(inside) else 0.0
    below, above = (inside.min() - _BEYOND * span, inside.max() + _BEYOND * span) if len(inside) else (0.0, 0.0)
    ends = np.append(below if low == -np.inf else low, above if high == np.inf else high)
    if len(inside) > most:
        # as many on each side of the row: a row at the edge of the data is to be drawn back finely as well
        below, above = inside[inside < here], inside[inside > here]
        sides = (below, above) if len(below) and len(above) else (inside,)
        inside = np.concatenate([_thin(side, most // len(sides)) for side in sides])
    return np.unique(np.concatenate([inside, ends]))


def _thin(values: Array, most: int) -> Array:
    """Return at most ``most`` of sorted values, evenly along their ranks, both ends among them."""
    if len(values) <= most:
        return values
    return values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))]


# --- a walk from the row to points that hold -------------------------------------------------------------------------

# Chosen by hand.
_MAX_STEPS, _MAX_ROUNDS = 60, 7  # of the walk, and of drawing back
_MOST_POINTS, _MOST_POINTS_PER_FEATURE = 4_000, 200  # asked about on the walk: the sum of both; drawing back adds one
_LEAST_GAIN = 1e-6  # of a step: less is rounding
_LEAST_PRICE = 0.5  # of the median cost of a change: a change that costs next to nothing is not worth any gain
_LEAST_SAVING = 1e-3  # of the cost, for another round of drawing back
_LEAST_RELIABILITY = 1e-3  # that is told from none, so that its logarithm is finite
_ROUNDING = 1e-9  # of reliabilities, which are shares: so little below a level is on it


Judge = Callable[[Array], tuple[Array, Array]]


class Asked(NamedTuple):
    """What is made small, reliability and cost of points, ``(n,)`` each."""

    value: Array
    reliability: Array
    cost: Array


Ask = Callable[[Array], Asked]


@dataclass
class BestPerLevel:
    """The cheapest point so far for every level of reliability.

    Parameters
    ----------
    levels : array of shape (l,)
        Rising reliabilities.
    x : array of shape (l, d)
        The points; the row where there is none yet.
    cost : array of shape (l,)
        What they cost; infinite where there is none yet.
    """

    levels: Array
    x: Array
    cost: Array

    @classmethod
    def empty(cls, levels: Array, x0: Array) -> Self:
        """Return a shelf with nothing on it."""
        return cls(levels, np.tile(x0, (len(levels), 1)), np.full(len(levels), np.inf))

    def add(self, x: Array, reliability: Array, cost: Array) -> None:
        """Put points ``(n, d)`` where they are cheaper than what is there; equals stay."""
        enough = reliability[:, None] >= self.levels - _ROUNDING
        least = np.where(enough, cost[:, None], np.inf)
        best = least.argmin(axis=0)
        price = least[best, np.arange(len(self.levels))]
        cheaper = price < self.cost
        self.x[cheaper], self.cost[cheaper] = x[best[cheaper]], price[cheaper]

    @property
    def highest(self) -> dict[bytes, float]:
        """The points that are there, as bytes, and the highest level of each."""
        filled = np.isfinite(self.cost)
        return {x.tobytes(): float(level) for x, level in zip(self.x[filled], self.levels[filled], strict=True)}

    @property
    def filled(self) -> Array:
        """The points ``(k, d)`` that are there, each once."""
        return _points(self.highest, self.x.shape[1])


def _points(kept: Iterable[bytes], d: int) -> Array:
    """Return points ``(k, d)`` out of their bytes."""
    return np.array([np.frombuffer(x) for x in kept]).reshape(-1, d)


def walk(judge: Judge, cost: Callable[[Array], Array], steps: StepsFromRow, shelf: BestPerLevel) -> None:
    """Walk from the row until the highest level is reached or nothing is gained, then draw back what is on the shelf.

    Parameters
    ----------
    judge : callable
        Takes points ``(n, d)``, returns their reliability and their loss, ``(n,)`` each.
    cost : callable
        Takes points, returns what they cost ``(n,)``.
    steps : StepsFromRow
        Changes that may be made.
    shelf : Shelf
        Gets every point that is the cheapest for a level.
    """
    left = _MOST_POINTS + _MOST_POINTS_PER_FEATURE * len(steps.values)

    def ask(x: Array) -> Asked:
        nonlocal left
        if len(x) > left:
            raise BudgetSpentError(f"{len(x):,} more points are not within the limit of a walk")
        left -= len(x)
        reliability, loss = judge(x)
        price = cost(x)
        shelf.add(x, reliability, price)
        # the loss, and what can still go wrong where there is no loss any more
        return Asked(loss - np.log(np.maximum(reliability, _LEAST_RELIABILITY)), reliability, price)

    with suppress(BudgetSpentError):
        _walk_forward(ask, steps, shelf.levels[-1])
    left += _MOST_POINTS  # what is found on the way is worth little before it is drawn back
    with suppress(BudgetSpentError):
        _draw_back(ask, steps, shelf)


def _walk_forward(ask: Ask, steps: StepsFromRow, highest: float) -> None:
    """Take the two changes that buy most for their price, again and again, until nothing is gained."""
    x = steps.x0
    for _ in range(_MAX_STEPS):
        trial = np.vstack([x, steps.neighbours(x)])
        said = ask(trial)
        worth = _worth(said.value, said.cost)
        order = np.argsort(-worth, kind="stable")
        if worth[order[0]] == -np.inf or said.reliability[0] >= highest - _ROUNDING:
            return
        x = _take_two(steps, x, trial[order[worth[order] > -np.inf]])


def _take_two(steps: StepsFromRow, x: Array, trial: Array) -> Array:
    """Return ``x`` ``(d,)`` with the first of the changes ``(n, d)`` and the next one of another feature.

    Should the second not pay beside the first, it is drawn back later.
    """
    changed = steps.space.changed(trial, x)
    apart = np.flatnonzero(~(changed & changed[0]).any(axis=1))
    if len(apart) == 0:
        return trial[0]
    both = np.where(changed[0], trial[0], trial[apart[0]])
    return steps.space.project(both[None, :], steps.x0, toward=trial[0])[0]  # where they exclude each other, the first


def _worth(value: Array, cost: Array) -> Array:
    """Return the gain over the first point for its price ``(n,)``; minus infinity where nothing is gained."""
    with np.errstate(invalid="ignore"):  # what cannot be had costs, and loses, infinitely much
        gain, price = np.nan_to_num(value[0] - value, nan=-np.inf), cost - cost[0]
    dear = price[(price > 0) & np.isfinite(price)]
    least = _LEAST_PRICE * float(np.median(dear)) if len(dear) else 1.0
    worth = (gain > _LEAST_GAIN) & np.isfinite(price)
    return np.where(worth, gain / np.maximum(np.where(worth, price, 1.0), least), -np.inf)


def _draw_back(ask: Ask, steps: StepsFromRow, shelf: BestPerLevel) -> None:
    """Draw back what is on the shelf, changes one by one and then several together, until little is saved."""
    joined = np.zeros((0, len(steps.x0)))
    known: set[bytes] = set()
    for _ in range(_MAX_ROUNDS):
        before, highest = shelf.cost.copy(), shelf.highest
        start = [x for x in highest if x not in known]
        known.update(start)
        points = _points(start, len(steps.x0))
        back = steps.draw_back(points)
        if len(back.x) + len(joined) == 0:
            return
        try:
            said = ask(np.vstack([back.x, joined, steps.exchange(points)]))
        except BudgetSpentError:  # what can be drawn back comes first
            said = ask(np.vstack([back.x, joined]))
        there = np.isfinite(before)
        if (before[there] - shelf.cost[there] <= _LEAST_SAVING * before[there]).all():
            return
        joined = _combine_drawn_back(steps, points, [highest[x] for x in start], back, said)


def _combine_drawn_back(steps: StepsFromRow, points: Array, levels: list[float], back: Back, said: Asked) -> Array:
    """Return points ``(n, d)`` in which changes that could each be drawn back alone are drawn back together."""
    found = [np.zeros((0, len(steps.x0)))]
    for number, (x, level) in enumerate(zip(points, levels, strict=True)):
        own = np.flatnonzero((back.parent == number) & (said.reliability[: len(back.x)] >= level - _ROUNDING))
        own = own[np.argsort(said.cost[own], kind="stable")]  # what saves most comes first
        _, first = np.unique(back.feature[own], return_index=True)
        own = own[np.sort(first)]
        found.append(steps.combine(x, back.x[own], back.feature[own]))
    return np.vstack(found)
