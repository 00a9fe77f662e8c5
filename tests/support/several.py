"""Ensembles of small models that are known exactly, for methods that look at several."""

from itertools import count

import numpy as np
import pandas as pd

import gbce
from support.asked import fitted

__all__ = ["Coloured", "assert_kept", "mixed_table", "several"]


class Coloured:
    """A classifier of a table with a colour and two numbers, of which one is whole; ``shift`` makes it stricter."""

    classes_ = np.array(["no", "yes"])

    def __init__(self, shift=0.0):
        self._shift = shift

    def predict_proba(self, frame):
        logit = (
            4 * (frame["colour"] == "blue") + 0.5 * frame["size"] + 2 * frame["weight"].fillna(0.0) - 5 - self._shift
        )
        p = 1 / (1 + np.exp(-logit.to_numpy(dtype=float)))
        return np.column_stack([1 - p, p])

    def predict(self, frame):
        return self.classes_[(self.predict_proba(frame)[:, 1] > 0.5).astype(int)]


def mixed_table(n=120, seed=0):
    """Return a table for :class:`Coloured` with missing cells, and a space that fixes the whole number's bounds."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], n),
            "size": rng.integers(0, 9, n),
            "weight": rng.uniform(0, 1, n),
            "age": rng.integers(20, 70, n),
        }
    )
    X.loc[[3, 8], "weight"] = np.nan
    return X, gbce.Space.infer(X, immutable=["age"], bounds={"size": (0, 6)})


def several(rival, models, X, **wish):
    """Fit a method to the first of some models, whose refits are the others in their order, over and over."""
    numbers = count()
    others = models[1:] or models
    return fitted(rival, models[0], X, learn=lambda X, y, seed: others[next(numbers) % len(others)], **wish)


def assert_kept(answer, row, models):
    """What is missing or may not change stays, whole numbers are whole and within bounds, and all models say yes."""
    assert answer["weight"].isna().all()
    assert answer["age"].item() == row["age"].item()
    assert answer["size"].item() <= 6
    assert answer["size"].item() == round(answer["size"].item())
    assert all(model.predict(answer)[0] == "yes" for model in models)
