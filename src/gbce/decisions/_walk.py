"""A walk from the row to points that hold: at each step the one change that buys most for its price.

Every point asked about on the way is kept where it is the cheapest so far for some reliability. What was kept is then
drawn back towards the row, feature by feature, as far as its reliability allows: what it no longer needs, it gives up.
Only verdicts are asked, so models may be of any kind; the values that are tried are those seen in the data.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np

from gbce._weights import Array
from gbce.posterior import BudgetSpentError
from gbce.space import Space

__all__ = ["Shelf", "Steps", "walk"]

_QUANTILES = np.linspace(0.01, 0.99, 41)
_MOST_LEVELS = 20  # of a category
_PARTS = np.array([0.0, 0.4, 0.7, 0.9])  # of the way from the row that a change is drawn back to
_MAX_STEPS, _MAX_ROUNDS = 60, 6
_POINTS, _POINTS_PER_FEATURE = 4_000, 200  # the most that is asked about
_LEAST_GAIN = 1e-6
_LEAST_PRICE = 0.5  # of what a change costs in the middle: nothing is so cheap that it must be taken
_ABOUT = 0.1  # by which a glance at reliability may be wrong
_SHORT_LIST = 32  # steps that are looked at twice
_LEAST_SAVING = 1e-3  # of the cost, for another round
_SMALLEST = 1e-3  # reliability that is told from none


Judge = Callable[[Array], tuple[Array, Array]]
Asked = tuple[Array, Array, Array]  # value, reliability, cost
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
        enough = reliability[:, None] >= self.levels - 1e-9
        least = np.where(enough, cost[:, None], np.inf)
        best = least.argmin(axis=0)
        price = least[best, np.arange(len(self.levels))]
        cheaper = price < self.cost
        self.x[cheaper], self.cost[cheaper] = x[best[cheaper]], price[cheaper]

    def wants(self, reliability: Array, cost: Array) -> Array:
        """Return which points may be cheaper than what is there, if their reliability is about this: ``(n,)``."""
        enough = (reliability[:, None] > 0) & (reliability[:, None] + _ABOUT >= self.levels)
        return np.asarray((enough & (cost[:, None] < self.cost)).any(axis=1))

    @property
    def filled(self) -> Array:
        """The points ``(k, d)`` that are there, each once."""
        return np.unique(self.x[np.isfinite(self.cost)], axis=0)


@dataclass(frozen=True)
class Steps:
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

    def around(self, x: Array) -> Array:
        """Return points ``(n, d)`` that differ from ``x`` ``(d,)`` by one of these changes, or by taking one back."""
        where: list[Array] = []
        to: list[Array] = []
        for j, values in self.values.items():
            if self.space.features[j].unordered or np.isnan(x[j]):
                tried = values
            else:
                above, below = values[values > x[j]], values[values < x[j]][::-1]
                tried = np.concatenate([_spread(above), _spread(below)])
            tried = np.append(tried, self.x0[j])
            where.append(np.full(len(tried), j))
            to.append(tried)
        rows = self._placed(np.tile(x, (sum(map(len, to)), 1)), np.concatenate(where), np.concatenate(to))
        return rows[~((rows == x) | (np.isnan(rows) & np.isnan(x))).all(axis=1)]

    def back(self, x: Array) -> Array:
        """Return ``x`` ``(k, d)`` with single changes drawn back, a part of the way or all of it: ``(n, d)``."""
        changed = self.space.changed(x, self.x0)
        changed[:, np.setdiff1d(np.arange(len(self.x0)), list(self.values))] = False
        point, feature = np.nonzero(changed)
        start, now = self.x0[feature, None], x[point, feature][:, None]
        with np.errstate(invalid="ignore"):
            to = start + _PARTS * (now - start)
        whole = self.space.unordered[feature][:, None] | np.isnan(to)
        to = np.where(whole, start, to)
        rows = np.repeat(x[point], len(_PARTS), axis=0)
        return np.unique(self._placed(rows, np.repeat(feature, len(_PARTS)), to.ravel()), axis=0)

    def _placed(self, rows: Array, feature: Array, to: Array) -> Array:
        if len(rows) == 0:
            return rows
        rows[np.arange(len(rows)), feature] = to
        rows = self.space.project(rows, self.x0)
        return rows[self.space.admissible(rows, self.x0)]


def walk(judge: Judge, cost: Callable[[Array], Array], steps: Steps, shelf: Shelf, glance: Judge | None = None) -> None:
    """Walk from the row until the highest level is reached or nothing is gained, then draw back what is on the shelf.

    Parameters
    ----------
    judge : callable
        Takes points ``(n, d)``, returns their reliability and their loss, ``(n,)`` each.
    cost : callable
        Takes points, returns what they cost ``(n,)``.
    steps : Steps
        Changes that may be made.
    shelf : Shelf
        Gets every point that is the cheapest for a level.
    glance : callable, optional
        A cheaper judge, such as a few models out of many, that tells which of the next steps to look at; where it finds
        none reliable, it alone decides.
    """
    left = _POINTS + _POINTS_PER_FEATURE * len(steps.values)

    def ask(x: Array) -> Asked:
        nonlocal left
        if len(x) > left:
            raise BudgetSpentError(f"{len(x):,} more points are not within the limit of a walk")
        left -= len(x)
        reliability, loss = judge(x)
        price = cost(x)
        shelf.add(x, reliability, price)
        return _value(reliability, loss), reliability, price

    def glanced(x: Array) -> Asked:
        if glance is None:
            return ask(x)
        reliability, loss = glance(x)
        return _value(reliability, loss), reliability, cost(x)

    with suppress(BudgetSpentError):
        _forward(glanced, ask if glance is not None else None, steps, shelf.levels[-1])
    left += _POINTS  # what is found on the way is worth little before it is drawn back
    with suppress(BudgetSpentError):
        _back(ask, glanced if glance is not None else None, steps, shelf)


def _value(reliability: Array, loss: Array) -> Array:
    """Return what a walk makes small: the loss, and what can still go wrong where there is no loss any more."""
    return loss - np.log(np.maximum(reliability, _SMALLEST))


def _forward(look: Ask, look_again: Ask | None, steps: Steps, highest: float) -> None:
    x = steps.x0
    for _ in range(_MAX_STEPS):
        trial = np.vstack([x, steps.around(x)])
        value, reliability, cost = look(trial)
        worth = _worth(value, cost)
        if look_again is not None:
            short = np.append(0, 1 + np.argsort(-worth[1:], kind="stable")[:_SHORT_LIST])
            trial, worth, reliability = trial[short], worth[short], reliability[short]
            if reliability.any():
                value, reliability, cost = look_again(trial)
                worth = _worth(value, cost)
        best = int(worth.argmax())
        if worth[best] == -np.inf or reliability[0] >= highest - 1e-9:
            return
        x = trial[best]


def _worth(value: Array, cost: Array) -> Array:
    """Return the gain over the first point for its price ``(n,)``; minus infinity where nothing is gained."""
    gain, price = value[0] - value, cost - cost[0]
    dear = price[price > 0]
    least = _LEAST_PRICE * float(np.median(dear)) if len(dear) else 1.0
    return np.where(gain > _LEAST_GAIN, gain / np.maximum(price, least), -np.inf)


def _back(ask: Ask, glanced: Ask | None, steps: Steps, shelf: Shelf) -> None:
    known: set[bytes] = set()
    for _ in range(_MAX_ROUNDS):
        before = shelf.cost.copy()
        trial = steps.back(np.array([x for x in shelf.filled if x.tobytes() not in known]).reshape(-1, len(steps.x0)))
        known |= {x.tobytes() for x in shelf.filled}
        if glanced is not None and len(trial):
            _, reliability, price = glanced(trial)
            trial = trial[shelf.wants(reliability, price)]
        if len(trial) == 0:
            return
        ask(trial)
        there = np.isfinite(before)
        if (before[there] - shelf.cost[there] <= _LEAST_SAVING * before[there]).all():
            return


def _spread(values: Array) -> Array:
    """Return a few of ``values``: the first, the last and one between."""
    return values if len(values) < 4 else values[[0, len(values) // 2, -1]]
