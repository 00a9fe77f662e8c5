"""Cross-validated risk, one number per model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gbce._numerics import seed_number
from gbce.base import Array
from gbce.ensembles._fits import learner_rng, refit
from gbce.predictors import check_data, classifies, folds_of, rows_of
from gbce.targets import SMALLEST_PROBABILITY

__all__ = ["RiskLoss", "cross_val_risk", "risk_of"]

RiskLoss = Callable[[Array, Array], Any]


def cross_val_risk(models: Any, X: Any, y: Any, cv: int = 5, loss: RiskLoss | None = None, seed: Any = 0) -> Array:
    """Estimate the risk R_k of each model by cross-validation, for :func:`gbce.weights_from_risk`.

    Parameters
    ----------
    models : estimator, or sequence of K
        Cloned and refitted on each fold; what they were fitted to before does not matter.
    X, y : DataFrame or array of shape (n, d), and (n,)
        Training data.
    cv : int
        Number of folds, shuffled (and stratified for classifiers), the same for all models.
    loss : callable, optional
        ``loss(y, output)`` of held-out outcomes ``(m,)`` and what the model says, ``predict`` of a regressor or
        ``predict_proba (m, c)`` of a classifier; one number, or one per row. Squared error or log loss when left out.
    seed : int, Generator or SeedSequence
        Of folds and refits.

    Returns
    -------
    array of shape (K,)
        Mean loss of a held-out row.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.dummy import DummyRegressor
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(size=200)
    >>> risk = gbce.cross_val_risk([LinearRegression(), DummyRegressor()], X, y)
    >>> gbce.weights_from_risk(risk, gamma=0.5).round(2)
    array([0.95, 0.05])
    """
    listed = [models] if hasattr(models, "fit") else list(models)
    if not listed:
        raise ValueError("models is empty; give at least one learner")
    for model in listed:
        if not hasattr(model, "fit"):
            raise TypeError(
                f"{type(model).__name__} cannot be refitted on folds, it has no fit: compute its risk yourself"
            )
    number = seed_number(seed)
    risks = []
    for model in listed:
        rows, outcomes = check_data(model, X, y)
        folds = folds_of(outcomes, classifies(model), cv, number)
        risks.append(risk_of(model, rows, outcomes, None, folds, loss, np.random.SeedSequence(number)))
    return np.array(risks)


def risk_of(
    learner: Any,
    X: Any,
    y: Array,
    weights: Array | None,
    folds: Sequence[tuple[Array, Array]],
    loss: RiskLoss | None,
    seed: np.random.SeedSequence,
) -> float:
    """Return the mean loss of held-out rows; the training rows of each fold count by ``weights``."""
    total = 0.0
    for train, held_out in folds:
        w = None if weights is None else weights[train]
        model = refit(learner, rows_of(X, train), y[train], w, learner_rng(seed))
        total += len(held_out) * _mean_loss(model, rows_of(X, held_out), y[held_out], loss)
    return total / len(y)


def _mean_loss(model: Any, X: Any, y: Array, loss: RiskLoss | None) -> float:
    if not classifies(model):
        said = np.asarray(model.predict(X), dtype=float).reshape(len(y))
        value = float(np.mean(np.square(said - y))) if loss is None else _user_loss(loss, y, said)
    else:
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"{type(model).__name__} gives no probabilities, and the risk of a classifier is its log loss: wrap it "
                "in sklearn.calibration.CalibratedClassifierCV"
            )
        shares = np.asarray(model.predict_proba(X))
        if loss is None:
            right = np.asarray(model.classes_)[None, :] == y[:, None]
            value = float(np.mean(-np.log(np.maximum((shares * right).sum(axis=1), SMALLEST_PROBABILITY))))
        else:
            value = _user_loss(loss, y, shares)
    return value


def _user_loss(loss: RiskLoss, y: Array, said: Array) -> float:
    value = float(np.mean(np.asarray(loss(y, said), dtype=float)))
    if not np.isfinite(value):
        raise ValueError(f"loss returned {value} on held-out rows: it must return finite numbers")
    return value
