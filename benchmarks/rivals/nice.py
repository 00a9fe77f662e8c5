"""NICE by its own package: from the row to its nearest unlike neighbour, column by column.

D. Brughmans, P. Leyman and D. Martens, "NICE: an algorithm for nearest instance counterfactual explanations", 2023;
package ``NICEx``. The neighbour is the nearest training row (HEOM: ranges, and one for another level) that the model
puts into the wanted class and whose label says so too. Columns are copied from it by what they gain (``sparsity``, the
package's default) or by what they gain for their distance (``proximity``), until the class is reached; ``none`` gives
the neighbour itself, an answer with data around it. ``plausibility`` needs an auto-encoder and is left out.

The package knows no columns that may not change and no bounds: the model is shown rows in which these are put back,
so that it ends without an answer where the neighbour is refused like that. A missing cell of the row stays missing and
counts as the middle of its column, or as a level of its own.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._installed import require
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError, Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "Nice"]

_REWARDS = ("sparsity", "proximity", "none")
_NO_LEVEL = -1.0  # of a missing cell: differs from all


class _NoColumnLeftError(RuntimeError):
    """All of the neighbour is copied, and the class not reached."""


@dataclass
class Nice:
    """The nearest unlike neighbour, and what can be left out of it.

    Parameters
    ----------
    reward : {"sparsity", "proximity", "none"}
        By what columns are copied.
    justified : bool
        Whether the neighbour's own label has to be the wanted one.
    """

    reward: str = "sparsity"
    justified: bool = True

    def __post_init__(self) -> None:
        """Refuse what is not wired up here."""
        if self.reward not in _REWARDS:
            raise ValueError(f"reward is one of {', '.join(_REWARDS)}, not {self.reward!r}")

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Show it the rows without missing cells."""
        require("nice", "--no-deps NICEx")
        if not model.classifies:
            raise CannotRunError("takes classifiers only")
        if any(feature.kind == "datetime" for feature in space.features):
            raise CannotRunError("takes no columns of dates here")
        from nice import NICE

        self._model, self._codes = model, Codes(data.X, space)
        self._question: Question | None = None
        known = self._codes.known
        if not known.any():
            raise CannotRunError("takes no missing cells, and every row has one")
        x = space.encode(data.X)
        self._middle = np.nanmedian(x, axis=0)
        self._leveled = np.array([feature.leveled for feature in space.features])
        self._explainer = NICE(
            X_train=x[known].copy(), predict_fn=self._probabilities,
            y_train=np.searchsorted(model.classes_, data.y[known]), cat_feat=np.flatnonzero(self._leveled).tolist(),
            num_feat=np.flatnonzero(~self._leveled).tolist(), distance_metric="HEOM", num_normalization="minmax",
            optimization=self.reward, justified_cf=self.justified,
        )  # fmt: skip

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Return its answer."""
        self._question = question = Question(self._model, self._codes, row, target)
        now = np.where(np.isnan(question.x0), np.where(self._leveled, _NO_LEVEL, self._middle), question.x0)
        wanted = [int(np.searchsorted(self._model.classes_, target.label))]
        if not (self._explainer.data.candidates_mask & (self._explainer.data.X_train_class == wanted[0])).any():
            return Found(note="no training row is granted the wish")
        try:
            found = self._explainer.explain(now[None, :].copy(), wanted)
        except _NoColumnLeftError:
            return Found(note="its neighbour is refused with what may not change put back")
        finally:
            self._question = None
        return Found.one(self._frame(question, found))

    def _probabilities(self, x: Any) -> Any:
        """Return what the model says of encoded rows, at a question with what may not change put back."""
        space, question = self._codes.space, self._question
        if not len(x):
            raise _NoColumnLeftError
        return self._model.predict_proba(space.frame(x) if question is None else self._frame(question, x))

    def _frame(self, question: Question, x: Any) -> pd.DataFrame:
        return question.frame(self._codes.of(np.asarray(x, dtype=float)))


METHODS = (
    Method("NICE sparsity", "Brughmans et al. 2023 (NICEx)", lambda: Nice("sparsity"), "package"),
    Method("NICE proximity", "Brughmans et al. 2023 (NICEx)", lambda: Nice("proximity"), "package"),
    Method("NICE neighbour", "Brughmans et al. 2023 (NICEx)", lambda: Nice("none"), "package"),
)
