"""Upadhyay, Joshi and Lakkaraju 2021, "Towards robust and reliable algorithmic recourse" (ROAR).

The authors' code was read, the paper not. A linear logit whose weights and intercept may each change by delta is
assumed to do its worst: ``min_x log(1 + exp(-m(x))) + lambda |x - x0|_1`` with ``m(x) = w x + b - delta (|x|_1 +
1)``, x being standard scores of numbers and indicators of levels. Lambda is the largest of 0.1, 0.2, ..., 1 before
which the share of granted answers to rows of the data first falls. The weights of a linear model are its own, those
of any other a local logistic regression as LIME has it. Nothing checks that the answer is granted by the model
itself.

What differs: the authors find the worst weights by a linear programme at each step of Adam and stop once the loss
changes by less than 1e-4; here the worst case is in closed form, and the problem, which is convex, is solved exactly.
A category changes to one level only, as a share of the whole change (from a half on it is made), where the authors'
indicators move by themselves. Lambda is chosen on a few rows, and left at 0.1 where a number is wanted, since each
row then has a wish of its own. A model is linear here if it is so in what the row may change.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._surrogate import Plane, linear_plane, local_plane, standard
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "ROAR", "worst_logit"]

_PRICES = np.arange(1, 11) / 10  # the authors' grid
_LOOKED_THROUGH = 1_000  # rows of the data, for some that are refused


def worst_logit(plain: Any, size: Any, delta: float) -> Any:
    """Return the least logit of weights and intercept within ``delta`` of those that give ``plain``.

    Parameters
    ----------
    plain : float or ndarray
        The logit.
    size : float or ndarray
        The l1 norm of the point.
    delta : float
        How much each weight and the intercept may change.
    """
    return plain - delta * (size + 1.0)


@dataclass
class ROAR:
    """The cheapest point that a linear logit grants at its worst.

    Parameters
    ----------
    delta : float
        How much each weight may change; the authors' 0.1.
    price : float, optional
        Lambda; chosen on the data when left out.
    drawn : int
        Made-up rows for the local regression; LIME's 5,000.
    tried : int
        Rows of the data that lambda is chosen on; the authors take all.
    """

    delta: float = 0.1
    price: float | None = None
    drawn: int = 5_000
    tried: int = 20
    _chosen: dict[Any, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check the options."""
        if self.delta < 0 or (self.price is not None and self.price <= 0):
            raise ValueError(f"delta cannot be negative and price must be positive: got {self.delta} and {self.price}")

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Remember the model and the data."""
        self._model, self._codes, self._X = model, Codes(data.X, space), data.X
        self._chosen.clear()

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Answer for the plane at the row."""
        question = Question(self._model, self._codes, row, target)
        if not question.free.any():
            return Found(note="nothing may change")
        plane = self._plane(question, seed)
        if plane is None:
            return Found(note="the model says the same of all rows that were made up around this one")
        price = self._price(target)
        return Found.one(question.frame(self.solve(question, plane, price)), f"lambda {price:g}")

    def solve(self, question: Question, plane: Plane, price: float) -> Any:
        """Return the minimiser ``(p,)``: columns go in the order of gain for their cost, until that is too small."""
        origin, size = standard(question)
        x0 = (question.start - origin) / size
        z, logit = question.start.copy(), worst_logit(plane.level, np.abs(x0).sum(), self.delta)
        for rate, length, change in sorted(self._legs(question, plane, x0), key=lambda leg: -leg[0]):
            if rate <= price:
                break
            wanted = np.log((rate - price) / price)  # where another unit gains what it costs
            if logit >= wanted:
                break
            step = min(length, (wanted - logit) / rate)
            z = z + step * change * size
            logit += step * rate
        return z

    def _legs(self, question: Question, plane: Plane, x0: Any) -> Iterator[tuple[float, float, Any]]:
        """Yield the ways up: gain of the worst logit for a unit of cost, units there are, and the change of one."""
        codes, (origin, size) = question.codes, standard(question)
        ends = (question.low - origin) / size, (question.high - origin) / size
        for j in np.unique(codes.column[question.free]):
            mine = np.flatnonzero(codes.column == j)
            k, change = mine[0], np.zeros(len(x0))
            if not np.isnan(codes.level[k]):
                k, own = mine[np.argmax(plane.slopes[mine])], mine[np.argmax(question.start[mine])]
                change[k], change[own] = change[k] + 0.5, change[own] - 0.5  # of two indicators: a unit of cost
                yield plane.slopes[k] / 2, 2.0, change
                continue
            for sign, end in ((1.0, ends[1][k]), (-1.0, ends[0][k])):
                change = np.zeros(len(x0))
                change[k] = sign
                home = max(-sign * x0[k], 0.0)  # as far as zero, |x| shrinks
                room = sign * (end - x0[k])
                yield sign * plane.slopes[k] + self.delta, min(home, room), change
                yield sign * plane.slopes[k] - self.delta, room - min(home, room), change

    def _plane(self, question: Question, seed: int) -> Plane | None:
        return linear_plane(question) or local_plane(question, self.drawn, np.random.default_rng(seed))

    def _price(self, wish: Wish) -> float:
        if self.price is not None:
            return self.price
        if not wish.classifies:
            return float(_PRICES[0])
        if wish.label not in self._chosen:
            self._chosen[wish.label] = self._choose(wish)
        return self._chosen[wish.label]

    def _choose(self, wish: Wish) -> float:
        """Return the largest lambda of the grid before which the share of granted answers first falls."""
        order = np.random.default_rng(0).permutation(len(self._X))[:_LOOKED_THROUGH]
        refused = order[~wish.granted(self._model, self._X.iloc[order])][: self.tried]
        frames: list[list[pd.DataFrame]] = [[] for _ in _PRICES]
        for i in refused:
            question = Question(self._model, self._codes, self._X.iloc[[i]], wish)
            plane = self._plane(question, int(i)) if question.free.any() else None
            if plane is not None:
                for price, mine in zip(_PRICES, frames, strict=True):
                    mine.append(question.frame(self.solve(question, plane, price)))
        if not frames[0]:
            return float(_PRICES[0])
        granted = wish.granted(self._model, pd.concat([frame for mine in frames for frame in mine]))
        falls = np.diff(granted.reshape(len(_PRICES), -1).mean(axis=1)) < 0
        return float(_PRICES[np.argmax(falls) if falls.any() else -1])


METHODS = (Method("ROAR", "Upadhyay et al. 2021", ROAR),)
