"""What is wanted of a model: a class, or a number in an interval."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

import gbce
from benchmarks.rivals._model import CountedModel

__all__ = ["Wish"]

_STEEP = 5.0  # logits for one standard deviation of the outcome; chosen by hand, only for numbers
_EDGE = 1e-9  # of a probability: where logits end


@dataclass(frozen=True)
class Wish:
    """A class that is wanted, or an interval of numbers.

    Parameters
    ----------
    label : optional
        The class.
    low, high : float
        The interval, where no class is wanted.
    unit : float
        Standard deviation of the outcome in the data.

    Examples
    --------
    >>> Wish(low=2.0).reached([1.0, 2.0, 3.0]).tolist()
    [False, True, True]
    """

    label: Any = None
    low: float = -np.inf
    high: float = np.inf
    unit: float = 1.0

    @property
    def classifies(self) -> bool:
        """Whether a class is wanted."""
        return self.label is not None

    @property
    def target(self) -> Any:
        """The wish as gbce takes it."""
        if self.classifies:
            return gbce.Class(self.label)
        if np.isinf(self.high):
            return gbce.AtLeast(self.low)
        return gbce.AtMost(self.high) if np.isinf(self.low) else gbce.Range(self.low, self.high)

    def reached(self, said: Any) -> Any:
        """Whether each of ``predict``'s words ``(n,)`` grants the wish."""
        said = np.asarray(said)
        return said == self.label if self.classifies else (said >= self.low) & (said <= self.high)

    def granted(self, model: CountedModel, frame: pd.DataFrame) -> Any:
        """Whether a model's own ``predict`` grants the wish to each row ``(n,)``."""
        return self.reached(model.predict(frame))

    def scores(self, model: CountedModel, frame: pd.DataFrame) -> Any:
        """Return how much a model is in favour ``(n,)``: in [0, 1], one half at the edge.

        For a class it is its probability against the most probable other one, so with two classes its probability. For
        numbers, which few of the publications have, it is a logistic function of the distance into the interval.
        """
        if self.classifies:
            p = model.predict_proba(frame)
            mine = model.classes_ == self.label
            wanted, other = p[:, mine].sum(axis=1), p[:, ~mine].max(axis=1, initial=0.0)
            return wanted / np.maximum(wanted + other, np.finfo(float).tiny)
        return expit(_STEEP * self._inside(model.predict(frame)))

    def logits(self, model: CountedModel, frame: pd.DataFrame) -> Any:
        """Return :meth:`scores` on the scale of logits ``(n,)``: zero at the edge."""
        if self.classifies:
            return logit(np.clip(self.scores(model, frame), _EDGE, 1 - _EDGE))
        return self.logits_of(model.predict(frame))

    def logits_of(self, said: Any) -> Any:
        """Return the logits ``(n,)`` that go with numbers that a model says."""
        return _STEEP * self._inside(said)

    def gaps(self, model: CountedModel, frame: pd.DataFrame) -> Any:
        """Return how far each output lies outside of what is wanted ``(n,)``: as a probability, or in units."""
        return np.maximum(-self.depths(model, frame), 0.0)

    def depths(self, model: CountedModel, frame: pd.DataFrame) -> Any:
        """Return how far each output lies inside of what is wanted ``(n,)``, negative outside: on the same scale."""
        if self.classifies:
            return self.scores(model, frame) - 0.5
        return self._inside(model.predict(frame))

    def _inside(self, said: Any) -> Any:
        """Return the distance into the interval in units, negative outside."""
        said = np.asarray(said, dtype=float)
        return np.minimum(said - self.low, self.high - said) / self.unit
