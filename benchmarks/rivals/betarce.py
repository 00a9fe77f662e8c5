"""BetaRCE: an answer that most changed models accept, with a stated credibility.

Stępka, Stefanowski, Lango, 2025: Counterfactual Explanations with Probabilistic Guarantees on their Robustness to Model
Change.

Models of the change that is expected are fitted; a of k of them accept a point. With a prior Beta(1/2, 1/2) the point
is accepted if the original model accepts it and the (1 - beta) quantile of Beta(1/2 + a, 1/2 + k - a) is above delta.
An answer of any other method that fails is replaced by the nearest point that passes, looked for in growing spheres
around that answer (not around the row).

Read: abstract and the authors' code; written anew. What differs: the base answer is the nearest point found that the
model grants, by the search of this directory (there: growing spheres, DiCE and others); changed models are bootstrap
refits; categories are drawn evenly among their levels in every candidate (there: each indicator by a coin); bounds and
columns that may not change are kept; any wish will do, since only acceptance counts. Shells are asked ten at a time and
a model is no longer asked about points that cannot pass; neither changes the answer.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._search import Pool, lacking, make_codes, panel, search
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "BetaRCE", "beta_bound", "needed"]

_PRIOR = 0.5  # Beta(1/2, 1/2), the authors'
_TOGETHER = 10  # shells asked at once


def beta_bound(accepting: Any, k: int, beta: float) -> Any:
    """Return what the probability of acceptance exceeds with credibility ``beta``, if so many of ``k`` models accept.

    Examples
    --------
    >>> beta_bound([32, 31], 32, 0.9).round(4).tolist()
    [0.9589, 0.9062]
    """
    accepting = np.asarray(accepting)
    return betaincinv(_PRIOR + accepting, _PRIOR + k - accepting, 1 - beta)


def needed(k: int, beta: float, delta: float) -> int:
    """Return how many of ``k`` models have to accept; ``k + 1`` if not even all are enough.

    Examples
    --------
    >>> needed(32, 0.9, 0.9)
    31
    """
    return int(np.sum(beta_bound(np.arange(k + 1), k, beta) <= delta))


@dataclass
class BetaRCE:
    """An answer moved to where most changed models accept it, with a stated credibility.

    Parameters
    ----------
    k : int
        Changed models; 32 in the authors' experiments.
    beta : float
        Credibility; .9 there.
    delta : float
        Probability of acceptance that is asked for; .8 and .9 there.
    samples, step, shells : int, float, int
        Points per shell, its width in ranges, and shells at most; 100, .1 and 100 there.
    """

    k: int = 32
    beta: float = 0.9
    delta: float = 0.9
    samples: int = 100
    step: float = 0.1
    shells: int = 100
    _model: CountedModel = field(init=False, repr=False)
    _changed: list[CountedModel] = field(init=False, repr=False)
    _codes: Codes = field(init=False, repr=False)
    _pool: Pool = field(init=False, repr=False)

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Fit the changed models and look at the data."""
        if not (0 < self.beta < 1 and 0 < self.delta < 1):
            raise ValueError(f"beta is {self.beta} and delta {self.delta}: both are probabilities between 0 and 1")
        if needed(self.k, self.beta, self.delta) > self.k:
            raise ValueError(
                f"k is {self.k}: so few models never give delta {self.delta} with credibility {self.beta}, take more"
            )
        self._model, *self._changed = panel(model, data, self.k)
        self._codes = make_codes(data, space)
        self._pool = Pool(model, data, self._codes)

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Answer for a frame of one row."""
        question = Question(self._model, self._codes, row, target)
        rng = np.random.default_rng(seed)
        starts = self._pool.nearest(question)
        [(base, lacks)] = search(question, [self._model], [lambda m: lacking(m[0])], starts, rng)
        if lacks > 0:
            return Found(note="no base answer found")
        return self.improve(question, base, rng)

    def improve(self, question: Question, base: Any, rng: np.random.Generator) -> Found:
        """Return a base answer if it passes, or else the nearest point to it that does in the first shell with any."""
        if self.passes(question, base[None, :])[0]:
            return Found.one(question.frame(base), "the base answer passes")
        for first in range(0, self.shells, _TOGETHER):
            many = min(_TOGETHER, self.shells - first)
            shell = np.repeat(first + np.arange(many), self.samples)
            points = question.settle(self._sphere(question, base, shell, rng))
            passed = self.passes(question, points)
            if passed.any():
                mine = passed & (shell == shell[passed].min())
                far = np.where(mine, np.square(points - base).sum(axis=1), np.inf)
                return Found.one(question.frame(points[np.argmin(far)]))
        return Found(note=f"nothing passes within {self.shells} shells around the base answer")

    def passes(self, question: Question, z: Any) -> Any:
        """Whether points ``(n, p)`` are granted by the original model and by enough of the changed ones ``(n,)``."""
        frame = question.frame(z)
        alive = np.flatnonzero(question.wish.granted(self._model, frame))
        refused = np.zeros(len(frame), dtype=int)
        for model in self._changed:
            if not len(alive):
                break
            refused[alive] += ~question.wish.granted(model, frame.iloc[alive])
            alive = alive[refused[alive] <= self.k - needed(self.k, self.beta, self.delta)]
        passed = np.zeros(len(frame), dtype=bool)
        passed[alive] = True
        return passed

    def _sphere(self, question: Question, base: Any, shell: Any, rng: np.random.Generator) -> Any:
        """Return points of shells ``(n,)`` around the base answer: numbers on the sphere, levels at random."""
        column, level = self._codes.column, self._codes.level
        plain = np.isnan(level)
        numbers = plain & question.free
        way = np.where(numbers, rng.standard_normal((len(shell), len(base))), 0.0)
        length = np.sqrt(np.square(way).sum(axis=1, keepdims=True))
        radius = self.step * (shell + rng.uniform(size=len(shell)))[:, None]
        points = base + radius * way / np.where(length > 0, length, 1.0)
        luck = rng.uniform(size=points.shape)
        for j in np.unique(column[~plain & question.free]):
            mine = np.flatnonzero(column == j)
            points[:, mine] = 0.5 * (luck[:, mine] == luck[:, mine].max(axis=1, keepdims=True))
        return points


METHODS = (Method("BetaRCE", "Stępka et al. 2025", BetaRCE),)
