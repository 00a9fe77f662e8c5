"""A model that counts what it is asked."""

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["CountedModel"]


class CountedModel:
    """A fitted model that counts the rows it is shown.

    Parameters
    ----------
    inner : estimator
        With ``predict``, and for classes ``predict_proba`` and ``classes_``.

    Attributes
    ----------
    rows, calls : int
        So far.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.rows = self.calls = 0
        if hasattr(inner, "classes_"):
            self.classes_ = np.asarray(inner.classes_)

    @property
    def classifies(self) -> bool:
        """Whether it gives classes."""
        return hasattr(self, "classes_")

    def predict(self, frame: pd.DataFrame) -> Any:
        """Return what the model says of rows: labels or numbers ``(n,)``."""
        self._count(frame)
        return np.asarray(self.inner.predict(frame)).ravel()

    def predict_proba(self, frame: pd.DataFrame) -> Any:
        """Return probabilities ``(n, k)`` of the classes."""
        self._count(frame)
        return np.asarray(self.inner.predict_proba(frame), dtype=float)

    def _count(self, frame: pd.DataFrame) -> None:
        self.rows += len(frame)
        self.calls += 1
