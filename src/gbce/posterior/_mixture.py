"""Combine the losses of one or several models into one potential: the entropic family, weights and temperature."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import HUGE
from gbce._validation import is_number
from gbce.base import Array

__all__ = ["Combine", "Entropic", "Mixture", "as_weights", "entropic", "weights_from_risk"]


NAMED = ("any", "all", "average")
_NEAR_MEAN = 0.5  # |t (loss - mean)| below which differences from the mean keep more digits


@dataclass(frozen=True)
class Entropic:
    """Combine the losses of several models into one, between the best and the worst.

    The combined loss is ``-log(sum_k w_k exp(-t loss_k)) / t``, and the potential is eta times it.
    ``t = eta`` is ``combine="any"``, the paper's mixture; ``t = 0`` is ``"average"``; ``t = -inf`` is ``"all"``, the
    worst model; ``t = inf`` is the best one. The smaller ``t``, the more models have to be satisfied.

    Parameters
    ----------
    t : float
        Any number, or plus or minus infinity; in units of one over the loss, like eta.

    Notes
    -----
    ``t`` does not change with eta. ``"any"`` does: at another eta it is another member of the family.

    Examples
    --------
    >>> import gbce
    >>> loss, weights = np.array([[0.0, 1.0, 4.0]]), np.full(3, 1 / 3)
    >>> [round(float(gbce.Entropic(t).loss(loss, weights)[0]), 3) for t in (-np.inf, -2, 0, 2, np.inf)]
    [4.0, 3.452, 1.667, 0.486, 0.0]
    >>> data = np.random.default_rng(0).normal(size=(50, 2))
    >>> explainer = gbce.Explainer([lambda x: x[:, 0], lambda x: x[:, 1]], data, combine=gbce.Entropic(-1))
    """

    t: float

    def __post_init__(self) -> None:
        if not is_number(self.t) or math.isnan(self.t):
            raise ValueError(
                f"Entropic: t must be a number or plus or minus infinity, not {self.t!r}: eta gives 'any', "
                "0 gives 'average', minus infinity gives 'all'"
            )

    def loss(self, loss: Array, weights: Array) -> Array:
        """Return the combined loss ``(n,)`` of losses ``(n, K)`` of models with weights ``(K,)``."""
        return entropic(loss, weights, float(self.t))


Combine = Literal["any", "all", "average"] | Entropic


def require_combine(combine: Any) -> None:
    """Refuse an unknown way of combining models."""
    if not isinstance(combine, Entropic) and not (isinstance(combine, str) and combine in NAMED):
        raise ValueError(f"combine must be one of {NAMED} or gbce.Entropic(t), not {combine!r}")


def entropic(loss: Array, weights: Array, t: float) -> Array:
    """Return ``-log(sum_k w_k exp(-t loss_k)) / t`` ``(n,)`` of losses ``(n, K)``, including limits in ``t``.

    Models of weight zero are ignored, even if their loss is infinite.
    """
    counted = weights > 0
    if np.count_nonzero(counted) == 1:
        return np.array(loss[:, int(counted.argmax())])
    loss, weights = loss[:, counted], weights[counted]
    if t == np.inf:
        return np.asarray(loss.min(axis=1))
    if t == -np.inf:
        return np.asarray(loss.max(axis=1))
    if t == 0:
        return np.asarray(loss @ weights)
    # relative to the dominant loss, exponents are at most zero, so none overflows
    leading = loss.min(axis=1) if t > 0 else loss.max(axis=1)
    finite = np.isfinite(leading)
    start = np.where(finite, leading, 0.0)[:, None]
    value = leading.copy()
    with np.errstate(over="ignore"):
        exponents = -t * (loss - start)
        value[finite] -= logsumexp(exponents[finite] + np.log(weights), axis=1) / t
    # near t = 0 this divides the log of almost one by almost zero: expand around the mean instead
    mean = np.where(np.isfinite(loss).all(axis=1), np.where(np.isfinite(loss), loss, 0.0) @ weights, np.inf)
    near = np.flatnonzero(np.isfinite(mean))
    with np.errstate(over="ignore"):
        exponents_from_mean = -t * (loss[near] - mean[near, None])
    small = np.abs(exponents_from_mean).max(axis=1, initial=0.0) < _NEAR_MEAN
    near, exponents_from_mean = near[small], exponents_from_mean[small]
    value[near] = mean[near] - np.log1p(np.expm1(exponents_from_mean) @ weights) / t
    return value


@dataclass(frozen=True, eq=False)
class Mixture:
    """How one or several models' losses become one potential, at one temperature.

    Parameters
    ----------
    eta : float
        Weight of the loss against the prior, the paper's η (its learning rate, an inverse temperature).
    weights : array of shape (K,)
        One weight per model; they sum to one.
    combine : {"any", "all", "average"} or Entropic
        ``any`` is the paper's mixture (at least one model is satisfied), ``all`` its worst case, ``average`` the
        weighted mean loss; all three belong to the family :class:`gbce.Entropic`.

    Examples
    --------
    >>> Mixture(2.0, np.array([1.0])).potential(np.array([[0.5], [3.0]]))
    array([1., 6.])
    """

    eta: float
    weights: Array
    combine: Combine = "any"

    def __post_init__(self) -> None:
        if not is_number(self.eta) or not (0 <= self.eta < np.inf):
            raise ValueError(
                f"eta must be zero or a positive number, not {self.eta!r}: it weighs the loss against the prior"
            )
        require_combine(self.combine)

    @property
    def t(self) -> float:
        """The parameter of the entropic family that the combination has at this eta."""
        if isinstance(self.combine, Entropic):
            return float(self.combine.t)
        return {"any": float(self.eta), "average": 0.0, "all": -np.inf}[self.combine]

    def potential(self, loss: Array) -> Array:
        """Return the potential ``(n,)`` of losses ``(n, K)``, the negative log likelihood of the Gibbs posterior."""
        if self.eta == 0:
            return np.zeros(len(loss))  # even if a loss is infinite: the prior ignores losses
        # Eq. model-mixture is the member t = eta: -log sum_k w_k exp(-eta loss_k)
        with np.errstate(over="ignore"):  # an infinite potential means no weight
            return self.eta * self.effective_loss(loss)

    def objective(self, loss: Array, cost: Array) -> Array:
        """Return the negative log density up to a constant, ``potential + d(row, x)`` (Eq. 1 and Eq. map)."""
        return self.potential(loss) + cost

    def effective_loss(self, loss: Array) -> Array:
        """Return the potential over eta ``(n,)``: the combined loss of all models (Section 4 of the paper)."""
        return entropic(loss, self.weights, self.t)


def weights_from_risk(risk: Any, gamma: float) -> Array:
    """Weight models by their risk: ``w_k`` proportional to ``exp(-gamma * R_k)`` (Section 2.4 of the paper).

    Parameters
    ----------
    risk : array of shape (K,)
        Cross-validated loss R_k of each model.
    gamma : float
        How strongly to prefer models of low risk; zero gives equal weights.

    Returns
    -------
    array of shape (K,)
        Weights that sum to one.

    Examples
    --------
    >>> weights_from_risk([0.1, 0.2], gamma=0.0)
    array([0.5, 0.5])
    """
    risk = np.asarray(risk, dtype=float)
    if risk.ndim != 1 or len(risk) == 0 or not np.isfinite(risk).all():
        raise ValueError(f"risk must be one finite number per model, not {risk!r}")
    if not (np.isfinite(gamma) and gamma >= 0):
        raise ValueError(f"gamma must be zero or a positive number, not {gamma!r}")
    with np.errstate(over="ignore"):  # an infinitely worse model has no weight
        weights = np.exp(-gamma * np.minimum(risk - risk.min(), np.finfo(float).max))
    return weights / weights.sum()


def as_weights(weights: Any, n_models: int) -> Array:
    """Return checked and normalised weights of ``n_models`` models, equal if ``None``."""
    if weights is None:
        return np.full(n_models, 1.0 / n_models)
    try:
        array = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"weights must be numbers, one per model, not {weights!r}") from None
    if array.shape != (n_models,):
        raise ValueError(f"weights must have one number per model: {n_models} models, but weights {array.tolist()}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise ValueError(f"weights must be zero or more and not all zero, not {array.tolist()}")
    array = array / array.max() if array.max() > HUGE else array  # so that their sum does not overflow
    return array / array.sum()
