"""Rules for eta: goals for the posterior, and the unit rule from prediction error."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gbce._numerics import seed_number
from gbce._validation import is_number, require_counts, require_finite
from gbce.base import Array, Target
from gbce.predictors import check_data, classifies, folds_of

# --- goals for the posterior -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuccessProbability:
    """The smallest eta whose posterior reaches the target with a given probability.

    It is found while the sampler tempers, without further model calls. With several models the first one counts.

    If success depends on one model's loss alone (a target on a number, or on one of two classes), its probability never
    decreases as eta grows. It may decrease with :class:`gbce.Multi`, with one of several classes and with several
    models: the least total loss may lie where the target is missed. The whole path is then searched; if no eta achieves
    the probability, the smallest that comes closest is taken, and a note says so.

    Parameters
    ----------
    probability : float
        Required probability, above 0 and below 1.
    least : float
        Smallest eta to take, even if the posterior at a smaller one has that probability. ``eta="auto"`` is
        ``SuccessProbability(0.9, least=1)``.

    Examples
    --------
    >>> import gbce
    >>> import numpy as np
    >>> data = np.random.default_rng(0).normal(size=(200, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, eta=gbce.SuccessProbability(0.9))
    >>> explanation = explainer.explain(data[0], gbce.Value(3.0, scale=1, tolerance=0.5), rules=[], seed=0)
    >>> abs(explanation.distribution["success_probability"] - 0.9) < 0.05
    np.True_
    """

    probability: float
    least: float = 0.0

    def __post_init__(self) -> None:
        require_finite(self, "probability", "least")
        _require_least(self)
        if not 0 < self.probability < 1:
            raise ValueError(
                f"SuccessProbability: probability must lie between 0 and 1, not {self.probability!r}; no finite eta "
                "makes success certain"
            )

    @property
    def label(self) -> str:
        """The rule in words."""
        return f"SuccessProbability({self.probability:g}{_name_least(self.least)})"

    def shortfall(self, loss: Array, reached: Array, weights: Array) -> float:
        """Return the shortfall of the success probability at weighted points, each array ``(n,)``."""
        return self.probability - float(weights @ reached)


@dataclass(frozen=True)
class ExpectedLoss:
    """The eta whose posterior has a given expected loss: a Lagrange multiplier.

    With one model, the posterior at this eta is the distribution nearest to the prior (in Kullback-Leibler divergence)
    among all with no larger expected loss. With several, the loss is the first one's, which may increase with eta; the
    smallest eta that achieves it is taken.

    Parameters
    ----------
    loss : float
        Required expected loss, in the units of the target's loss.
    least : float
        Smallest eta to take, even if the posterior at a smaller one has that expected loss.

    Examples
    --------
    >>> ExpectedLoss(0.5).label
    'ExpectedLoss(0.5)'
    """

    loss: float
    least: float = 0.0

    def __post_init__(self) -> None:
        require_finite(self, "loss", "least")
        _require_least(self)

    @property
    def label(self) -> str:
        """The rule in words."""
        return f"ExpectedLoss({self.loss:g}{_name_least(self.least)})"

    def shortfall(self, loss: Array, reached: Array, weights: Array) -> float:
        """Return the excess of the expected loss at weighted points, each array ``(n,)``."""
        counted = weights > 0
        return float(weights[counted] @ loss[counted]) - self.loss


def _require_least(goal: "SuccessProbability | ExpectedLoss") -> None:
    """Reject a negative lower limit of eta."""
    if goal.least < 0:
        raise ValueError(f"{type(goal).__name__}: least must be zero or positive, as eta is, not {goal.least!r}")


def _name_least(least: float) -> str:
    """Return the lower limit as an argument in a label, empty if it is zero."""
    return f", least={least:g}" if least else ""


# --- eta from prediction error ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ModelError:
    """The unit rule: the eta at which the loss is the negative log likelihood of the wanted output.

    For squared loss that is ``1 / (2 * MSE)`` in units of the output, so that the target counts as a draw from
    ``N(f(x), MSE)``; for absolute loss it is one over the mean absolute error; for the log loss of a class it is 1.
    With several models the error is the first one's.

    Parameters
    ----------
    y : array of shape (n,), optional
        Outcomes of the rows of the explainer's data: the model is refitted on folds of them, once.
    mse, mae : float, optional
        A known mean squared or mean absolute error.
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
        """Return the error that the target's loss needs, added to ``known`` ones; folds are fitted once."""
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

    With ``Value(y, scale=noise_scale(model, X, y))`` the squared loss is the negative log likelihood of the wanted
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
    """Return the cross-validated mean error."""
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_score

    if not hasattr(model, "fit"):
        raise TypeError(
            f"noise_scale cannot refit {type(model).__name__} on folds because it has no fit: give a number"
        )
    if classifies(model):
        raise TypeError("noise_scale and ModelError with squared loss are for regressors; log loss needs no scale")
    X, y = check_data(model, X, y)
    folds = folds_of(y, False, cv, seed_number(seed))
    scoring = {"mse": "neg_mean_squared_error", "mae": "neg_mean_absolute_error"}[error]
    return float(np.mean(-cross_val_score(clone(model), X, y, cv=folds, scoring=scoring, error_score="raise")))


# --- checked input ---------------------------------------------------------------------------------------------------

EtaRule = SuccessProbability | ExpectedLoss | ModelError

# nine draws in ten reach the target, and the loss never counts less than in the paper
AUTO = SuccessProbability(0.9, least=1.0)


@dataclass(frozen=True)
class Calibration:
    """How a rule found eta: its label, whether eta meets the goal, and the model's errors that were used, by name."""

    rule: str
    met: bool = True
    errors: Mapping[str, float] = field(default_factory=dict)

    def entries(self) -> dict[str, Any]:
        """Return the fields as plain data by name."""
        return {"rule": self.rule, "met": self.met, **self.errors}


def as_eta(eta: Any) -> tuple[float, EtaRule | None]:
    """Return a number and, if ``eta`` is a rule, the rule; the number is then a starting value."""
    if isinstance(eta, str):
        if eta != "auto":
            raise ValueError(
                "eta must be zero or a positive number, a rule such as gbce.SuccessProbability(0.9), or "
                f'"auto", not {eta!r}'
            )
        return 1.0, AUTO
    if isinstance(eta, EtaRule):
        return 1.0, eta
    if isinstance(eta, type) and issubclass(eta, EtaRule):
        raise TypeError(f"eta must be a number or an object such as gbce.SuccessProbability(0.9), not the class {eta}")
    return eta, None


def as_etas(etas: Any) -> Array:
    """Check a list of etas and sort it: ``(n,)``."""
    try:
        array = np.sort(np.asarray(list(etas), dtype=float))
    except (TypeError, ValueError):
        raise ValueError(f"etas must be numbers, not {etas!r}") from None
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"etas must be zero or positive numbers, at least one, not {etas!r}")
    return array
