"""Rival methods asked about small problems whose answer is known."""

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._wish import Wish

__all__ = ["Formula", "Logistic", "corners", "fitted"]


class Formula:
    """A regression model given by a function of an array ``(n, d)``."""

    def __init__(self, function):
        self._function = function

    def predict(self, frame):
        return np.asarray(self._function(np.asarray(frame, dtype=float)), dtype=float)


class Logistic:
    """A classifier with classes 0 and 1, given by the logit of 1 as a function of an array ``(n, d)``."""

    classes_ = np.array([0, 1])

    def __init__(self, logit):
        self._logit = logit

    def predict_proba(self, frame):
        p = 1 / (1 + np.exp(-np.asarray(self._logit(np.asarray(frame, dtype=float)), dtype=float)))
        return np.column_stack([1 - p, p])

    def predict(self, frame):
        return (self.predict_proba(frame)[:, 1] >= 0.5).astype(int)


def corners(d, n=200, low=0.0, high=1.0, seed=0):
    """Return even noise between two numbers that holds both in each column: its ranges are known exactly."""
    x = np.random.default_rng(seed).uniform(low, high, (n, d))
    x[0], x[1] = low, high
    return pd.DataFrame(x, columns=[f"x{j + 1}" for j in range(d)])


def fitted(rival, model, X, *, label=None, learn=None, space=None, **interval):
    """Fit a method; return it, the wish and the model, which counts its rows."""
    wish = Wish(label=label, **interval)
    counted = CountedModel(model)
    data = Data(X, pd.Series(model.predict(X), index=X.index), learn)
    rival.fit(counted, data, gbce.Space.infer(X) if space is None else space)
    counted.rows = counted.calls = 0
    return rival, wish, counted
