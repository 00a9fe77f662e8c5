"""Duell, Fan, 2026: Provably Robust Bayesian Counterfactual Explanations under Model Changes (PSCE). A reconstruction.

Read: the abstract only. An answer is delta-safe if the predictive confidence there is high, and epsilon-robust if the
predictive variance is low. Filled in: draws of the model are the model and bootstrap refits of it; confidence is the
average of their scores, at least 1 - delta, and variance is that of their scores, at most epsilon; among such points
the nearest, in l1 and ranges, found by the search of this directory. Where there is none, the point that lacks least.

By Cantelli's inequality at most V / (V + (m - 1/2)^2) of the draws refuse a point with average m > 1/2 and variance V:
with the options here, which are ours, a tenth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._ensemble import Ensemble
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._search import lacking
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "PSCE"]


@dataclass(kw_only=True)
class PSCE(Ensemble):
    """The nearest point with high average score and low variance over models.

    Parameters
    ----------
    delta : float
        What confidence may lack to one. Ours.
    epsilon : float
        Largest variance of scores. Ours.
    """

    delta: float = 0.2
    epsilon: float = 0.01

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Fit the other models and look at the data."""
        if not (0 < self.delta < 0.5 and self.epsilon > 0):
            raise ValueError(
                f"delta is {self.delta} and epsilon {self.epsilon}: delta lies between 0 and 1/2, epsilon above 0"
            )
        super().fit(model, data, space)

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Answer for a frame of one row."""
        question, [(point, lacks)] = self.seek(row, target, seed, [self._lack])
        note = "" if lacks == 0.0 else f"no safe and robust point found: lacks {lacks:.3g}"
        return Found.one(question.frame(point), note)

    def _lack(self, score: Any) -> Any:
        """Return what scores ``(k, n)`` lack in confidence and exceed in variance ``(n,)``."""
        return lacking(score.mean(axis=0), 1 - self.delta) + np.maximum(score.var(axis=0) - self.epsilon, 0.0)


METHODS = (Method("PSCE", "Duell, Fan 2026", PSCE, kind="reconstruction"),)
