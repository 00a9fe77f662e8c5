"""A table with numbers, a category, bounds, a column that may not change and missing cells, and two models of it."""

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel

__all__ = ["mixed", "mixed_rows"]


def mixed_rows(n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.uniform(10.0, 50.0, n),
            "months": rng.integers(1, 13, n),
            "age": rng.uniform(20.0, 60.0, n),
            "job": rng.choice(["none", "part", "full"], n),
        }
    )
    frame.loc[:4, "income"] = np.nan
    return frame


class _Smooth:
    classes_ = np.array(["no", "yes"])

    def logit(self, frame):
        job = frame["job"].map({"none": -1.0, "part": 0.0, "full": 1.0}).to_numpy(dtype=float)
        income = frame["income"].fillna(44.0).to_numpy(dtype=float)
        return 0.08 * (income - 50.0) - 0.15 * (frame["months"].to_numpy(dtype=float) - 4.0) + job

    def predict_proba(self, frame):
        p = 1 / (1 + np.exp(-self.logit(frame)))
        return np.column_stack([1 - p, p])

    def predict(self, frame):
        return self.classes_[(self.logit(frame) >= 0).astype(int)]


class _Steps(_Smooth):
    def logit(self, frame):
        return np.round(2 * super().logit(frame)) / 2 + 0.1


def mixed(rival, smooth=True):
    """Fit a method to the table; return it and its space."""
    X = mixed_rows()
    model = CountedModel(_Smooth() if smooth else _Steps())
    space = gbce.Space.infer(X, immutable=["age"], decrease=["months"], bounds={"income": (10.0, 45.0)})
    rival.fit(model, Data(X, pd.Series(model.predict(X), index=X.index)), space)
    return rival, space
