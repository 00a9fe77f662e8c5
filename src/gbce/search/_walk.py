"""A walk from the row to points that hold: at each step the changes that buy most for their price.

Every point asked about on the way is kept where it is the cheapest so far for some reliability. What was kept is then
drawn back towards the row, feature by feature, as far as its reliability allows: what it no longer needs, it gives up,
and what it needs less than it costs, it exchanges for more of another change.
Only verdicts are asked, so models may be of any kind; the values that are tried are those seen in the data.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.search._steps import Back, StepsFromRow

__all__ = ["Shelf", "walk"]

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
class Shelf:
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


def walk(judge: Judge, cost: Callable[[Array], Array], steps: StepsFromRow, shelf: Shelf) -> None:
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


def _draw_back(ask: Ask, steps: StepsFromRow, shelf: Shelf) -> None:
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
