"""The models that answers are judged by: fits of the same learner on changed data, and of other learners."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rivals._data import Data, Rows, draw_bootstrap, first_whole

__all__ = ["CHANGES", "Learn", "changed_models"]

Learn = Callable[[pd.DataFrame, pd.Series, int], Any]  # rows, outcomes and a seed to a fitted estimator

CHANGES = {"bootstrap": 12, "seed": 4, "deletion": 4, "label noise": 4}  # and how many fits of each
_DELETED = 0.1  # share of the rows that are left out
_NOISE = 0.05  # share of the rows whose outcome is wrong
_SEEDS = 100  # that there are: with ten thousand numbers each they end where those of `Data.refits` begin
_EACH, _KIND = 10_000, 100  # numbers for each seed, and for each kind of change


def changed_models(
    learn: Learn, data: Data, seed: int = 0, others: Mapping[str, Learn] | None = None
) -> dict[str, list[Any]]:
    """Return fits by the kind of change, none of which a method has seen.

    Parameters
    ----------
    learn : callable
        The learner of the model that is explained.
    data : Data
        What that was fitted on.
    seed : int
        From 0 to 99; no number that comes of it is one of those that ``data.refits`` uses.
    others : mapping of str to callable, optional
        Other learners by name.

    Returns
    -------
    dict of str to list
        "bootstrap": fits on as many rows drawn with replacement. "seed": another seed and the rows in another order.
        "deletion": without a tenth of the rows. "label noise": a twentieth of the rows have another class, or exchange
        their numbers. "other learners": one fit of each on the same rows, if there are any.
    """
    if not 0 <= seed < _SEEDS:
        raise ValueError(
            f"seed is {seed}: take one from 0 to {_SEEDS - 1}, so that no fit is one that methods have seen"
        )
    changes = {"bootstrap": draw_bootstrap, "seed": _shuffle, "deletion": _delete, "label noise": _mislabel}
    made: dict[str, list[Any]] = {}
    for kind, (name, many) in enumerate(CHANGES.items(), start=1):
        numbers = range(_EACH * seed + _KIND * kind, _EACH * seed + _KIND * kind + many)
        made[name] = [learn(*changes[name](data.X, data.y, np.random.default_rng(i)), i) for i in numbers]
    if others:
        first = _EACH * seed + _KIND * (len(CHANGES) + 1)
        made["other learners"] = [other(data.X, data.y, first + i) for i, other in enumerate(others.values())]
    return made


def _shuffle(X: pd.DataFrame, y: pd.Series, rng: np.random.Generator) -> Rows:
    rows = rng.permutation(len(X))
    return X.iloc[rows], y.iloc[rows]


def _delete(X: pd.DataFrame, y: pd.Series, rng: np.random.Generator) -> Rows:
    kept = len(X) - max(1, round(_DELETED * len(X)))

    def draw() -> Rows:
        rows = np.sort(rng.choice(len(X), kept, replace=False))
        return X.iloc[rows], y.iloc[rows]

    return first_whole(y, draw)


def _mislabel(X: pd.DataFrame, y: pd.Series, rng: np.random.Generator) -> Rows:
    classes = y.unique()

    def draw() -> Rows:
        wrong = rng.choice(len(X), max(2, round(_NOISE * len(X))), replace=False)
        changed = y.copy()
        if y.dtype.kind == "f":
            changed.iloc[wrong] = y.iloc[np.roll(wrong, 1)].to_numpy()  # in a circle, so that each gets another's
        else:
            changed.iloc[wrong] = [rng.choice(classes[classes != y.iloc[i]]) for i in wrong]
        return X, changed

    return first_whole(y, draw)
