"""A table with words in it."""

import numpy as np
import pandas as pd

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
