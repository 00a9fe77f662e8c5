"""The data that a model was fitted on, and fits of the same learner on other data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rivals._model import CountedModel

__all__ = ["Data"]

_OWN = 1_000_000  # where the seeds of refits begin that methods may look at; those they are judged by begin at zero


@dataclass
class Data:
    """Rows, outcomes, and refits on bootstraps of them that methods may look at.

    Parameters
    ----------
    X : DataFrame
        The rows.
    y : Series
        Their outcomes.
    learn : callable, optional
        Rows, outcomes and a seed to a fitted estimator; without one there are no refits.
    """

    X: pd.DataFrame
    y: pd.Series
    learn: Callable[[pd.DataFrame, pd.Series, int], Any] | None = None
    _refits: list[CountedModel] = field(default_factory=list, repr=False)

    def refits(self, n: int) -> list[CountedModel]:
        """Return ``n`` fits on bootstraps, the same ones for every method, none of which any method is judged by.

        Raises
        ------
        ValueError
            If nothing is known about how the model was fitted.
        """
        if self.learn is None:
            raise ValueError("nobody said how the model was fitted, so it cannot be refitted")
        while len(self._refits) < n:
            self._refits.append(CountedModel(self.bootstrap(_OWN + len(self._refits))))
        return self._refits[:n]

    def bootstrap(self, seed: int) -> Any:
        """Fit on a bootstrap, one that holds every class."""
        assert self.learn is not None
        rng = np.random.default_rng(seed)
        while True:
            rows = rng.integers(0, len(self.X), len(self.X))
            y = self.y.iloc[rows]
            if self.y.dtype.kind == "f" or y.nunique() == self.y.nunique():
                return self.learn(self.X.iloc[rows], y, seed)
