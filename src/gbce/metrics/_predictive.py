"""The next model: how probable it is that one more model of the same kind agrees, from what a few of them say."""

import numpy as np
from scipy.special import stdtr

from gbce.base import Array

__all__ = ["FEWEST_MODELS", "next_model_probability"]

FEWEST_MODELS = 4  # fewer leave two degrees of freedom or less, and Student's law without a finite variance


def next_model_probability(outputs: Array, weights: Array, accepted: tuple[float, float]) -> Array:
    """Return the probability that one more model's output is accepted.

    The outputs of the models at a point count as a sample from a normal distribution with unknown mean and variance,
    so that the next one follows Student's distribution around their mean, wider than their spread by what so few of
    them leave open. All agreeing is then not taken for certainty, which a mere share of them would be.

    Parameters
    ----------
    outputs : array of shape (..., K)
        What each model says about each point.
    weights : array of shape (K,)
        Of the models; with unequal weights they count as fewer.
    accepted : pair of floats
        The lowest and the highest output that meet the wish; infinite where there is none.

    Returns
    -------
    array of shape (...)
        Probabilities.

    Examples
    --------
    >>> said = np.array([[0.4, 0.6, 0.55, 0.65], [0.8, 0.82, 0.79, 0.81]])
    >>> next_model_probability(said, np.full(4, 0.25), (0.5, np.inf)).round(2)
    array([0.65, 1.  ])
    """
    square = float(np.square(weights).sum())
    mean = outputs @ weights
    variance = np.square(outputs - mean[..., None]) @ weights / (1.0 - square)
    # n = 1 / sum(w^2) models of equal weight: scale s * sqrt(1 + 1 / n), n - 1 degrees of freedom
    scale = np.maximum(np.sqrt(variance * (1.0 + square)), np.finfo(float).tiny)
    df, (low, high) = 1.0 / square - 1.0, accepted
    with np.errstate(over="ignore"):
        below, above = stdtr(df, (low - mean) / scale), stdtr(df, (mean - high) / scale)
    return np.clip(1.0 - below - above, 0.0, 1.0)
