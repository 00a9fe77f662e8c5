"""Losses of several models as one: the entropic family, with the best, the mean and the worst model as its members."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from gbce._validation import is_number
from gbce.base import Array

__all__ = ["NAMED", "Combine", "Entropic", "entropic", "require_combine"]

NAMED = ("any", "all", "average")
_NEAR_MEAN = 0.5  # t times a loss's distance from the mean: below it, differences from the mean keep more digits


@dataclass(frozen=True)
class Entropic:
    """Combine several models' losses by one number, between the best model's and the worst one's.

    The one loss that stands for all is ``-log(sum_k w_k exp(-t loss_k)) / t``, and the potential is eta times it.
    ``t = eta`` is ``combine="any"``, the paper's mixture; ``t = 0`` is ``"average"``; ``t = -inf`` is ``"all"``, the
    worst model; ``t = inf`` is the best one. The smaller ``t``, the more models have to be satisfied.

    Parameters
    ----------
    t : float
        Any number, or plus or minus infinity. In units of one over the loss, as eta is.

    Notes
    -----
    ``t`` stays where it is when eta changes. ``"any"`` goes with eta: at another eta it is another member.

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
        """Return the one loss ``(n,)`` that stands for losses ``(n, K)`` of models with weights ``(K,)``."""
        return entropic(loss, weights, float(self.t))


Combine = Literal["any", "all", "average"] | Entropic


def require_combine(combine: Any) -> None:
    """Require a known way of combining, or say which there are."""
    if not isinstance(combine, Entropic) and not (isinstance(combine, str) and combine in NAMED):
        raise ValueError(f"combine must be one of {NAMED} or gbce.Entropic(t), not {combine!r}")


def entropic(loss: Array, weights: Array, t: float) -> Array:
    """Return ``-log(sum_k w_k exp(-t loss_k)) / t`` ``(n,)`` of losses ``(n, K)``, limits in ``t`` included.

    A model of weight zero has no say, even where its loss is infinite.
    """
    counted = weights > 0
    loss, weights = loss[:, counted], weights[counted]
    if t == np.inf or loss.shape[1] == 1:
        return np.asarray(loss.min(axis=1))
    if t == -np.inf:
        return np.asarray(loss.max(axis=1))
    if t == 0:
        return np.asarray(loss @ weights)
    # measured from the loss that counts most, exponents are zero or less: none overflows
    leading = loss.min(axis=1) if t > 0 else loss.max(axis=1)
    finite = np.isfinite(leading)
    start = np.where(finite, leading, 0.0)[:, None]
    value = leading.copy()
    with np.errstate(over="ignore"):
        exponents = -t * (loss - start)
        value[finite] -= logsumexp(exponents[finite] + np.log(weights), axis=1) / t
    # near t = 0 the logarithm of almost one is divided by almost zero: there it is taken from the mean
    mean = np.where(np.isfinite(loss).all(axis=1), np.where(np.isfinite(loss), loss, 0.0) @ weights, np.inf)
    near = np.flatnonzero(np.isfinite(mean))
    with np.errstate(over="ignore"):
        gaps = -t * (loss[near] - mean[near, None])
    small = np.abs(gaps).max(axis=1, initial=0.0) < _NEAR_MEAN
    near, gaps = near[small], gaps[small]
    value[near] = mean[near] - np.log1p(np.expm1(gaps) @ weights) / t
    return value
