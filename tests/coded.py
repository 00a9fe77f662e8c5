"""A table with words in it, and a space that shows it to models as it was: columns keep their dtypes."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import gbce

LEVELS = ("north", "south", "west")


def mixed_frame(n=150, seed=0, words="category"):
    """Two real columns, a whole number, and a region as a category or as plain text."""
    rng = np.random.default_rng(seed)
    region = np.array(LEVELS)[rng.integers(0, 3, n)]
    return pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "visits": rng.integers(0, 9, n),
            "region": pd.Categorical(region, categories=LEVELS)
            if words == "category"
            else pd.Series(region, dtype="str"),
            "debt": rng.normal(size=n).astype("float32"),
        }
    )


def score_of(frame):
    return (frame["age"] + 0.1 * frame["visits"] - frame["debt"] + (frame["region"] == "north") - 0.7).to_numpy(float)


@dataclass(frozen=True)
class Coded(gbce.Space):
    """A space of codes: columns with levels are decoded to them, whole numbers to whole numbers."""

    template: pd.DataFrame | None = None

    @classmethod
    def of(cls, frame):
        return cls(gbce.Space.real(list(frame.columns)).features, columns=tuple(frame.columns), template=frame.iloc[:0])

    def codes(self, frame):
        columns = []
        for name in frame:
            words = not pd.api.types.is_numeric_dtype(frame[name])
            columns.append([LEVELS.index(one) for one in frame[name]] if words else frame[name].to_numpy(float))
        return np.column_stack(columns).astype(float)

    def decode(self, x):
        table = {}
        for j, name in enumerate(self.template.columns):
            dtype = self.template.dtypes.iloc[j]
            words = not pd.api.types.is_numeric_dtype(dtype)
            values = np.array(LEVELS)[x[:, j].astype(int)] if words else x[:, j]
            table[name] = pd.Series(values).astype(dtype)
        return pd.DataFrame(table)
