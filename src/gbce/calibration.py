"""Tying the loss, and so eta, to how well a model predicts."""

import math
from typing import Any

import numpy as np

__all__ = ["noise_scale"]


def noise_scale(model: Any, X: Any, y: Any, *, cv: int = 5, seed: int = 0) -> float:
    """Scale at which ``eta = 1`` means ``y* ~ N(f(x), MSE)``: the square root of twice the cross-validated MSE.

    With ``Value(y, scale=noise_scale(model, X, y))`` the squared loss is minus the log likelihood of the wanted
    output under the model's own prediction error.

    Parameters
    ----------
    model : regressor
        A scikit-learn estimator or pipeline; it is cloned and refitted on each fold.
    X, y : array or frame of shape (n, d), and (n,)
        Training data.
    cv : int
        Number of folds, shuffled.
    seed : int
        Of the shuffle.

    Returns
    -------
    float
        In the units of ``y``.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(scale=0.5, size=500)
    >>> bool(abs(noise_scale(LinearRegression(), X, y) - 0.5 * 2**0.5) < 0.05)
    True
    """
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import KFold, cross_val_score

    if is_classifier(model):
        raise TypeError("noise_scale is for regressors; a classifier's log loss needs no scale")
    folds = KFold(cv, shuffle=True, random_state=seed)
    scores = cross_val_score(clone(model), X, y, cv=folds, scoring="neg_mean_squared_error", error_score="raise")
    return math.sqrt(2.0 * float(np.mean(-scores)))
