"""How one or several models' losses become one potential, and what each model weighs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gbce._numerics import HUGE
from gbce._validation import is_number
from gbce.base import Array
from gbce.posterior._combining import Combine, Entropic, entropic, require_combine

__all__ = ["Mixture", "as_weights", "weights_from_risk"]


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
        weighted mean loss; :class:`gbce.Entropic` is the family they belong to.

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
        """Which member of the entropic family the combination is, at this eta."""
        if isinstance(self.combine, Entropic):
            return float(self.combine.t)
        return {"any": float(self.eta), "average": 0.0, "all": -np.inf}[self.combine]

    def potential(self, loss: Array) -> Array:
        """Return the potential ``(n,)`` of losses ``(n, K)``: what the posterior weighs points down by."""
        if self.eta == 0:
            return np.zeros(len(loss))  # also where a loss is infinite: the prior knows no loss
        # Eq. model-mixture is the member t = eta: -log sum_k w_k exp(-eta loss_k)
        with np.errstate(over="ignore"):  # beyond any number it is infinite: the point has no weight
            return self.eta * self.effective_loss(loss)

    def objective(self, loss: Array, cost: Array) -> Array:
        """Return minus the log density up to a constant, ``potential + d(row, x)``: Eq. 1 and Eq. map of the paper."""
        return self.potential(loss) + cost

    def effective_loss(self, loss: Array) -> Array:
        """Return potential over eta ``(n,)``: the one loss that stands for all models (Section 4 of the paper)."""
        return entropic(loss, self.weights, self.t)


def weights_from_risk(risk: Any, gamma: float) -> Array:
    """Weigh models by their risk: ``w_k`` proportional to ``exp(-gamma * R_k)`` (Section 2.4 of the paper).

    Parameters
    ----------
    risk : array of shape (K,)
        Cross-validated loss R_k of each model.
    gamma : float
        How sharply to prefer the better ones; zero gives equal weights.

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
    with np.errstate(over="ignore"):  # a model that is worse beyond any number has no weight
        weights = np.exp(-gamma * np.minimum(risk - risk.min(), np.finfo(float).max))
    return weights / weights.sum()


def as_weights(weights: Any, n_models: int) -> Array:
    """Check the weights of ``n_models`` models, equal if ``None``, and make them sum to one."""
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
