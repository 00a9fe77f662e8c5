"""Eta and scales from how well a model predicts."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gbce._numerics import seed_number
from gbce._validation import is_number, require_counts
from gbce.base import Target
from gbce.predictors import check_data, classifies, folds_of

__all__ = ["ModelError", "noise_scale"]


@dataclass(frozen=True, eq=False)
class ModelError:
    """The unit rule: the eta at which the loss is minus the log likelihood of the wanted output.

    For squared loss that is ``1 / (2 * MSE)`` in units of the output, so that the target is seen as a draw from
    ``N(f(x), MSE)``; for absolute loss it is one over the mean absolute error; for the log loss of a class it is 1.
    With several models the error is the first one's.

    Parameters
    ----------
    y : array of shape (n,), optional
        Outcomes of the rows of the explainer's data: the model is refitted on folds of them, once.
    mse, mae : float, optional
        A mean squared or mean absolute error that is known already.
    cv : int
        Number of folds, shuffled.
    seed : int
        Of the shuffle.

    Examples
    --------
    >>> import gbce
    >>> ModelError(mse=0.5).eta(gbce.Value(3.0, scale=1.0), {"mse": 0.5})
    1.0
    """

    y: Any = None
    mse: float | None = None
    mae: float | None = None
    cv: int = 5  # a convention
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("mse", "mae"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 < value < math.inf):
                raise ValueError(f"ModelError: {name} must be a positive number, not {value!r}")
        require_counts(self, "cv")

    @property
    def label(self) -> str:
        """The rule in words."""
        return "ModelError"

    def measure(self, model: Any, X: Any, target: Target, known: dict[str, Any] | None) -> dict[str, Any]:
        """Return the error that the target's loss needs, added to what is ``known``; folds are fitted once."""
        known = {} if known is None else known
        name = target.error
        if name is None or name in known:
            return known
        given = getattr(self, name)
        if given is not None:
            return {**known, name: float(given)}
        if self.y is None:
            raise ValueError(
                f"ModelError needs the model's error for {target.describe()}: give the outcomes of the data, "
                f"ModelError(y), or a number, ModelError({name}=...)"
            )
        if not hasattr(model, "fit"):
            raise TypeError(
                f"ModelError cannot refit {type(model).__name__} on folds: give its error, ModelError({name}=...)"
            )
        if len(self.y) != len(X):
            raise ValueError(f"ModelError: y has {len(self.y)} outcomes, but the explainer's data have {len(X)} rows")
        return {**known, name: _cross_validate(model, X, self.y, name, self.cv, self.seed), "folds": self.cv}

    def eta(self, target: Target, known: dict[str, Any]) -> float:
        """Return eta for a target whose scale is known."""
        name = target.error
        if name is None:
            return 1.0
        scale = 1.0 if target.loss_unit is None else float(target.loss_unit)
        return scale / known["mae"] if name == "mae" else scale**2 / (2.0 * known["mse"])


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
    return math.sqrt(2.0 * _cross_validate(model, X, y, "mse", cv, seed))


def _cross_validate(model: Any, X: Any, y: Any, error: str, cv: int, seed: int) -> float:
    """Return the mean error over folds, each predicted by a model that was fitted to the others."""
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_score

    if not hasattr(model, "fit"):
        raise TypeError(f"noise_scale cannot refit {type(model).__name__} on folds, it has no fit: give a number")
    if classifies(model):
        raise TypeError("noise_scale and ModelError with squared loss are for regressors; log loss needs no scale")
    X, y = check_data(model, X, y)
    folds = folds_of(y, False, cv, seed_number(seed))
    scoring = {"mse": "neg_mean_squared_error", "mae": "neg_mean_absolute_error"}[error]
    return float(np.mean(-cross_val_score(clone(model), X, y, cv=folds, scoring=scoring, error_score="raise")))
