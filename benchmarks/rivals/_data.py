"""The data that a model was fitted on, and fits of the same learner on other data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rivals._model import CountedModel

__all__ = ["Data", "Rows", "draw_bootstrap", "first_whole"]

Rows = tuple[pd.DataFrame, pd.Series]  # and their outcomes

_OWN = 1_000_000  # where the seeds of refits begin that methods may look at; those they are judged by begin at zero
_TRIES = 1_000  # before a draw with every class is given up


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
        return self.learn(*draw_bootstrap(self.X, self.y, np.random.default_rng(seed)), seed)


def first_whole(y: pd.Series, draw: Callable[[], Rows]) -> Rows:
    """Return the first of a thousand draws of rows and outcomes that holds every class; of numbers, just the first.

    Raises
    ------
    ValueError
        If none does: a class is too rare, or whole numbers were meant as numbers.
    """
    classes = 0 if y.dtype.kind == "f" else y.nunique()
    for _ in range(_TRIES):
        X, changed = draw()
        if not classes or changed.nunique() == classes:
            return X, changed
    raise ValueError(
        f"of {_TRIES} draws of the rows none has all {classes} classes of the outcome: "
        "leave out rare ones, or make the outcome a float if it is a number"
    )


def draw_bootstrap(X: pd.DataFrame, y: pd.Series, rng: np.random.Generator) -> Rows:
    """Return as many rows drawn with replacement, with every class among them."""

    def draw() -> Rows:
        rows = rng.integers(0, len(X), len(X))
        return X.iloc[rows], y.iloc[rows]

    return first_whole(y, draw)
