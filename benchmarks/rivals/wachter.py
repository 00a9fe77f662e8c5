"""Wachter, Mittelstadt and Russell 2017, "Counterfactual explanations without opening the black box".

Written from memory and from ports of it, not from the paper: the row that minimises ``lambda (f(x) - y')^2 + sum_j
|x_j - x0_j| / MAD_j``, with lambda raised from a warm start until the wish is granted. It is the conventional
distance minimisation that the gbce paper calls DirectOpt, with the publication's distance.

What is filled in here: y' is the nearest of what is wanted, a margin inside (0.05 of probability, or standard
deviations of the outcome), so that nothing is missed beyond it; lambda goes up by tens; categories are half-unit
indicators whose MAD, being zero, is their standard deviation. The publication leaves the optimiser open and takes
Adam. Here it is a search along one column at a time and, where the model has slopes, along the path that raises the
linearised logit most for its cost, anew from each better point. It asks the model for many points at once, from the
row and from restarts around it, and ends in local minima like any other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._objective import Objective
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._surrogate import has_slopes
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "PRICES", "Wachter"]

PRICES = tuple(10.0**k for k in range(7))  # lambda; at the first most rows stay where they are
_GRID = 17  # points along a line; then as many again between the neighbours of its best, twice
_ZOOMS = 2


@dataclass(frozen=True)
class _Line:
    """Points by one number: ``points`` takes ``(n,)`` to ``(n, p)``; ``at`` are the numbers to begin with."""

    points: Callable[[Any], Any]
    at: Any
    zooms: bool = True

    def closer(self, k: int) -> "_Line":
        """Return the line between the neighbours of the k-th number, that one included."""
        ends = self.at[max(k - 1, 0)], self.at[min(k + 1, len(self.at) - 1)]
        at = np.append(np.linspace(*ends, _GRID), self.at[k]) if self.zooms else self.at[[k]]
        return _Line(self.points, np.unique(at), self.zooms)


@dataclass
class Wachter:
    """The least MAD-weighted l1 distance at the least price of a miss that grants the wish.

    Parameters
    ----------
    margin : float
        How far inside y' lies.
    prices : tuple of float
        Lambda, one after the other.
    starts : int
        The row, and points around it; fewer than the 20 of the gbce paper, for time.
    steps : int
        At most, for each lambda.
    """

    margin: float = 0.05
    prices: tuple[float, ...] = PRICES
    starts: int = 3
    steps: int = 8

    def __post_init__(self) -> None:
        """Check the options."""
        if not self.prices or min(self.prices) <= 0 or list(self.prices) != sorted(self.prices):
            raise ValueError(f"prices must be positive and rise, one at least: got {self.prices}")
        if self.starts < 1:
            raise ValueError(f"starts counts the row itself, so it is at least 1: got {self.starts}")

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Remember the model and the data."""
        self._model, self._codes = model, Codes(data.X, space)

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Raise lambda until a point is granted."""
        question = Question(self._model, self._codes, row, target)
        if not question.free.any():
            return Found(note="nothing may change")
        search = _Search(Objective(question, self.margin), has_slopes(question))
        search.begin(self._scattered(question, np.random.default_rng(seed)))
        for price in self.prices:
            z = search.run(price, self.steps)
            if question.granted(z[None, :])[0]:
                return Found.one(question.frame(z), f"lambda {price:g}")
        return Found(note=f"not reached with lambda up to {self.prices[-1]:g}")

    def _scattered(self, question: Question, rng: np.random.Generator) -> Any:
        """Return the row and points a standard deviation around it ``(starts, p)``."""
        noise = rng.standard_normal((self.starts, len(question.start))) * self._codes.points.std(axis=0)
        noise[0] = 0.0
        return question.settle(question.start + noise)


@dataclass
class _Search:
    """Several points that go down together, and all that was seen on the way."""

    objective: Objective
    smooth: bool
    _z: list[Any] = field(default_factory=list)
    _miss: list[Any] = field(default_factory=list)
    _distance: list[Any] = field(default_factory=list)
    _left: set[bytes] = field(default_factory=set)  # points from which lines have been drawn

    def begin(self, starts: Any) -> None:
        """Look at where to start from."""
        self._at = starts
        self._look(starts.copy())

    def run(self, price: float, steps: int) -> Any:
        """Return the best point seen ``(p,)``, after at most so many steps."""
        self._at[0] = self._best(price)
        for _ in range(steps):
            fresh = [i for i, z in enumerate(self._at) if z.tobytes() not in self._left]
            if not fresh:
                break
            self._left.update(self._at[i].tobytes() for i in fresh)
            lines = [self._lines(self._at[i]) for i in fresh]
            for i, z in zip(fresh, self._descend(lines, price), strict=True):
                self._at[i] = z
        return self._best(price)

    def _best(self, price: float) -> Any:
        values = price * np.concatenate(self._miss) + np.concatenate(self._distance)
        return np.concatenate(self._z)[np.argmin(values)].copy()

    def _look(self, z: Any) -> tuple[Any, Any]:
        miss, distance = self.objective.parts(z)
        self._z.append(z)
        self._miss.append(miss)
        self._distance.append(distance)
        return miss, distance

    def _descend(self, groups: list[list[_Line]], price: float) -> list[Any]:
        """Return the best point on the lines of each group, all of them asked about together."""
        for _ in range(_ZOOMS + 1):
            points = [[self.objective.question.settle(line.points(line.at)) for line in lines] for lines in groups]
            miss, distance = self._look(np.vstack([z for mine in points for z in mine]))
            values, chosen = iter(np.split(price * miss + distance, np.cumsum([len(z) for m in points for z in m]))), []
            for g, lines in enumerate(groups):
                ends = []  # of each line: its least value, and where
                for k, line in enumerate(lines):
                    mine = next(values)
                    least = int(np.argmin(mine))
                    ends.append((float(mine[least]), points[g][k][least]))
                    lines[k] = line.closer(least)
                chosen.append(min(ends, key=lambda end: end[0])[1])
        return chosen

    def _lines(self, z: Any) -> list[_Line]:
        return [self._path(z), *self._columns(z)] if self.smooth else self._columns(z)

    def _columns(self, z: Any) -> list[_Line]:
        """Return a line along each column from a point."""
        question = self.objective.question
        codes, (low, high) = question.codes, question.limits
        lines = []
        for j in np.unique(codes.column[question.free]):
            mine = np.flatnonzero(codes.column == j)
            if np.isnan(codes.level[mine[0]]):
                k = mine[0]
                at = np.unique(np.append(np.linspace(low[k], high[k], _GRID), question.start[k]))
                lines.append(_Line(partial(_with, z, k), at))
            else:
                lines.append(_Line(partial(_with_level, z, mine), np.arange(len(mine)), zooms=False))
        return lines

    def _path(self, z: Any) -> _Line:
        """Return the path from the row that raises the logit, linearised at a point, most for its cost.

        Columns go one after the other, the one with the largest gain for its cost first, each as far as it may.
        """
        question, weight = self.objective.question, self.objective.weight
        codes, start, (low, high) = question.codes, question.start, question.limits
        slopes = question.slopes(z)
        legs: list[tuple[float, Any]] = []  # what is gained for the cost, and the whole change of a column
        for j in np.unique(codes.column[question.free]):
            mine = np.flatnonzero(codes.column == j)
            change = np.zeros(len(z))
            if np.isnan(codes.level[mine[0]]):
                k = mine[0]
                change[k] = (high[k] if slopes[k] > 0 else low[k]) - start[k]
                gain = change[k] * slopes[k]
            else:
                own = np.argmax(start[mine])
                gains = slopes[mine] - slopes[mine][own]
                cost = weight[mine] + weight[mine][own]
                best = np.argmax(gains / cost)
                change[mine[own]], change[mine[best]] = change[mine[own]] - 0.5, change[mine[best]] + 0.5
                gain = gains[best]
            if gain > 0:
                legs.append((gain / (np.abs(change) @ weight), change))
        legs.sort(key=lambda leg: -leg[0])
        whole = np.array([change for _, change in legs]).reshape(len(legs), len(z))

        def points(t: Any) -> Any:
            return start + np.clip(t[:, None] - np.arange(len(legs)), 0.0, 1.0) @ whole

        return _Line(points, np.linspace(0.0, len(legs), 8 * len(legs) + 1))


def _with(z: Any, k: int, t: Any) -> Any:
    """Return copies of a point with one number replaced."""
    moved = np.tile(z, (len(t), 1))
    moved[:, k] = t
    return moved


def _with_level(z: Any, mine: Any, t: Any) -> Any:
    """Return copies of a point with one category replaced."""
    moved = np.tile(z, (len(t), 1))
    moved[:, mine] = 0.5 * np.eye(len(mine))[t]
    return moved


METHODS = (Method("Wachter (DirectOpt)", "Wachter et al. 2017", Wachter),)
