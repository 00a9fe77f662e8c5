"""Min-max over models: the nearest point where the worst of several models still grants the wish.

The paper's Section 4 sets its mixture, which asks that some model succeeds, against "min--max" approaches, which seek
validity under every model. It names no publication and no solver. What runs here: the model and refits of it on
bootstraps; what the worst of them lacks to one half, weighted heavily, plus the l1 distance in ranges, lowered by the
search of this directory. Where no point satisfies all models it returns the one that the worst model lacks least at.

Numbers wanted: a model's score is a logistic function of the distance into the interval.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._search import Pool, lacking, make_codes, panel, search
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "MinMax"]


@dataclass
class MinMax:
    """The nearest point that every model of an ensemble grants the wish.

    Parameters
    ----------
    refits : int
        Models beside the original one. Nothing is published; eight keep a row at about a second.
    """

    refits: int = 8
    _models: list[CountedModel] = field(init=False, repr=False)
    _codes: Codes = field(init=False, repr=False)
    _pool: Pool = field(init=False, repr=False)

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Fit the other models and look at the data."""
        self._models = panel(model, data, self.refits)
        self._codes = make_codes(data, space)
        self._pool = Pool(model, data, self._codes)

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Answer for a frame of one row."""
        question = Question(self._models[0], self._codes, row, target)
        starts, rng = self._pool.nearest(question), np.random.default_rng(seed)
        [(point, lacks)] = search(question, self._models, [lambda m: lacking(m.min(axis=0))], starts, rng)
        note = "" if lacks == 0.0 else f"no point found that all models grant: the worst lacks {lacks:.3g}"
        return Found.one(question.frame(point), note)


METHODS = (Method("Min-max over models", "Section 4 of the paper", MinMax),)
