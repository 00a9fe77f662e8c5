"""What methods that ask several models share: refits, and a search for a point that keeps a condition on all."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._search import Condition, Pool, make_codes, panel, search
from benchmarks.rivals._wish import Wish

__all__ = ["Ensemble"]


@dataclass(kw_only=True)
class Ensemble:
    """A model and refits of it.

    Parameters
    ----------
    refits : int
        Models beside the original one. No publication has a number; eight keep a row at about a second.
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

    def seek(
        self, row: pd.DataFrame, target: Wish, seed: int, conditions: Sequence[Condition]
    ) -> tuple[Question, list[tuple[Any, float]]]:
        """Return the row's question, and for each condition the nearest point found ``(p,)`` and what it lacks."""
        question = Question(self._models[0], self._codes, row, target)
        starts, rng = self._pool.nearest(question), np.random.default_rng(seed)
        return question, search(question, self._models, conditions, starts, rng)
