"""Learners before they are models: whether they classify, what they are fitted to, folds of it."""

from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space import unmasked

__all__ = ["check_data", "classifies", "folds_of", "rows_of"]

_SEEDS = 2**32  # that scikit-learn takes: numpy's RandomState has no others


def classifies(learner: Any) -> bool:
    """Whether a learner predicts classes, by scikit-learn's tags or by its methods."""
    from sklearn.base import BaseEstimator, is_classifier

    return bool(is_classifier(learner)) if isinstance(learner, BaseEstimator) else hasattr(learner, "predict_proba")


def check_data(learner: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Return rows as given (lists as an array) and outcomes ``(n,)``, or say what is wrong with them."""
    X, y = unmasked(X), unmasked(y)
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2 or X.shape[0] < 2:
        raise ValueError(f"X must be a table with at least two rows, not of shape {tuple(X.shape)}")
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(
            f"y must be one outcome per row, shape (n,), not of shape {y.shape}: fit one outcome at a time"
        )
    if len(y) != X.shape[0]:
        raise ValueError(f"y has {len(y)} outcomes, but X has {X.shape[0]} rows")
    gaps = np.asarray(pd.isna(y))
    if gaps.any():
        raise ValueError(
            f"y is missing in {int(gaps.sum())} of {len(y)} rows, first in row {int(gaps.argmax())}: drop them"
        )
    name = type(learner).__name__
    if classifies(learner):
        if y.dtype.kind == "f" and np.any(y != np.round(y)):
            raise TypeError(
                f"{name} is a classifier, but y holds numbers such as {y[y != np.round(y)][0]}: use a regressor"
            )
        if len(set(y.tolist())) < 2:
            raise ValueError(f"y holds the single class {y.tolist()[0]!r}: there is nothing for {name} to learn")
    else:
        try:
            y = y.astype(float)
        except (TypeError, ValueError):
            raise TypeError(f"{name} is a regressor, but y holds {y.tolist()[0]!r}: use a classifier") from None
        if not np.isfinite(y).all():
            raise ValueError(f"y is infinite in row {int((~np.isfinite(y)).argmax())}: drop it or fill it in")
    return X, y


def rows_of(X: Any, index: Array) -> Any:
    """Return the rows ``index`` of a frame or an array."""
    return X.iloc[index] if hasattr(X, "iloc") else X[index]


def folds_of(y: Array, classes: bool, cv: int, seed: int) -> list[tuple[Array, Array]]:
    """Return training and held-out rows of each fold."""
    from sklearn.model_selection import KFold, StratifiedKFold

    if not isinstance(cv, (int, np.integer)) or isinstance(cv, bool) or not 2 <= cv <= len(y):
        raise ValueError(f"cv must be a whole number of folds between 2 and the number of rows, {len(y)}, not {cv!r}")
    if classes:
        rarest, count = min(zip(*np.unique(y, return_counts=True), strict=True), key=lambda pair: pair[1])
        if count < cv:
            raise ValueError(
                f"class {rarest!r} has {count} rows, fewer than cv={cv} folds: take fewer folds or drop it"
            )
    kind = StratifiedKFold if classes else KFold
    return list(kind(cv, shuffle=True, random_state=seed % _SEEDS).split(np.zeros(len(y)), y))
