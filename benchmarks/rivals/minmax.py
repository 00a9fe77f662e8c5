"""Min-max over models: the nearest point where the worst of several models still grants the wish.

The paper's Section 4 sets its mixture, which asks that some model succeeds, against "min--max" approaches, which seek
validity under every model. It names no publication and no solver. What runs here: the model and refits of it on
bootstraps; what the worst of them lacks to one half, weighted heavily, plus the l1 distance in ranges, lowered by the
search of this directory. Where no point satisfies all models it returns the one that the worst model lacks least at.

Numbers wanted: a model's score is a logistic function of the distance into the interval.
"""

import pandas as pd

from benchmarks.rivals._ensemble import Ensemble
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._search import lacking
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "MinMax"]


class MinMax(Ensemble):
    """The nearest point that every model of an ensemble grants the wish."""

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Answer for a frame of one row."""
        question, [(point, lacks)] = self.seek(row, target, seed, [lambda m: lacking(m.min(axis=0))])
        note = "" if lacks == 0.0 else f"no point found that all models grant: the worst lacks {lacks:.3g}"
        return Found.one(question.frame(point), note)


METHODS = (Method("Min-max over models", "Section 4 of the paper", MinMax),)
