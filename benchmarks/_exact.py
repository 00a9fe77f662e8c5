"""What is known exactly about a posterior, and a question that can be put to gbce beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

import gbce

Array = NDArray[np.float64]

ALPHA = 0.1  # of the tail; gbce's default is set to it by hand below, so that another default changes nothing


@dataclass(frozen=True, eq=False)
class Truth:
    """Exact figures of one posterior.

    Parameters
    ----------
    log_evidence, success_probability, stability : float
        As gbce defines them: ``log E_prior[exp(-potential)]``, the probability of reaching the target under the first
        model, and the trace of the covariance in units of each column's scale.
    importance, importance_sd : array of shape (d,)
        Mean and standard deviation of ``|x_j - row_j|`` in the column's own units; a changed category counts one.
    expected_loss, loss_sd : float
        Mean and standard deviation of the first model's loss; NaN where they are not known.
    tail : float
        The loss that is exceeded with probability ``ALPHA``; NaN where losses come in lumps, since next to a lump no
        error of a quantile means anything.
    """

    log_evidence: float
    success_probability: float
    stability: float
    importance: Array
    importance_sd: Array
    expected_loss: float = np.nan
    loss_sd: float = np.nan
    tail: float = np.nan


@dataclass(frozen=True)
class Wish:
    """An output between ``low`` and ``high``, with the loss and the verdict written out again, without gbce."""

    low: float
    high: float
    scale: float = 1.0
    tolerance: float = 0.0

    def deviation(self, outputs: Array) -> Array:
        """Return how far outputs are from the wish."""
        return np.maximum(np.maximum(self.low - outputs, outputs - self.high), 0.0)

    def loss(self, outputs: Array) -> Array:
        """Return the squared deviation in units of the scale."""
        return np.square(self.deviation(outputs) / self.scale)

    def reached(self, outputs: Array) -> NDArray[np.bool_]:
        """Return which outputs meet the wish."""
        return np.asarray(self.deviation(outputs) <= self.tolerance)

    def target(self) -> gbce.base.Target:
        """Return the same wish for gbce."""
        how: dict[str, Any] = {"scale": self.scale, "tolerance": self.tolerance}
        if self.low == self.high:
            return gbce.Value(self.low, **how)
        if np.isinf(self.high):
            return gbce.AtLeast(self.low, **how)
        if np.isinf(self.low):
            return gbce.AtMost(self.high, **how)
        return gbce.Range(self.low, self.high, **how)


def at_least(y: float, scale: float) -> Wish:
    """Wish for an output of ``y`` or more."""
    return Wish(y, np.inf, scale)


def at_most(y: float, scale: float) -> Wish:
    """Wish for an output of ``y`` or less."""
    return Wish(-np.inf, y, scale)


def value(y: float, scale: float = 1.0, tolerance: float = 0.5) -> Wish:
    """Wish for the output ``y``."""
    return Wish(y, y, scale, tolerance)


@dataclass(frozen=True, eq=False)
class Case:
    """A question to gbce, and the exact answer."""

    model: Any  # one model or a list of several
    data: Any
    row: Any
    target: gbce.base.Target
    truth: Truth
    space: gbce.Space
    prior: Any = None
    eta: float = 1.0
    combine: Any = "any"

    @property
    def n_columns(self) -> int:
        """How many columns the table has."""
        return len(self.space)

    def explain(self, seed: int) -> gbce.Explanation:
        """Ask gbce, with its default sampler."""
        explainer = gbce.Explainer(
            self.model,
            self.data,
            space=self.space,
            prior=gbce.Gaussian() if self.prior is None else self.prior,
            eta=self.eta,
            combine=self.combine,
            evaluation=gbce.Evaluation(alpha=ALPHA),
        )
        return explainer.explain(self.row, self.target, rules=[], seed=seed)


Build = Callable[[], Case]


def root(variance: Array) -> Array:
    """Return the root of variances that rounding may have made negative."""
    return np.sqrt(np.maximum(variance, 0.0))


def quantile(values: Array, weights: Array, level: float) -> float:
    """Return the smallest value with at least that share of the weight at or below it."""
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(weights[order]), level))
    return float(values[order][min(place, len(values) - 1)])


def from_points(
    places: Array,
    change: Array,
    log_prior: Array,
    potential: Array,
    loss: Array,
    reached: NDArray[np.bool_],
    *,
    lumps: bool,
) -> Truth:
    """Sum over points: an enumeration, or a grid fine enough for an integral.

    Parameters
    ----------
    places : array of shape (n, k)
        Coordinates in units of each column's scale; levels of a category at distance one from each other.
    change : array of shape (n, d)
        Size of each column's change.
    log_prior, potential, loss : arrays of shape (n,)
        The prior up to a constant, eta times what the models lose together, and the first model's own loss.
    reached : array of shape (n,)
        Whether the first model reaches the target.
    lumps : bool
        Whether losses come in lumps, so that the tail is no figure to judge.
    """
    log_weights = log_prior - potential
    total = logsumexp(log_weights)
    weights = np.exp(log_weights - total)
    mean_change, mean_loss = weights @ change, float(weights @ loss)
    return Truth(
        log_evidence=float(total - logsumexp(log_prior)),
        success_probability=float(weights @ reached),
        stability=float((weights @ np.square(places) - np.square(weights @ places)).sum()),
        importance=mean_change,
        importance_sd=root(weights @ np.square(change) - np.square(mean_change)),
        expected_loss=mean_loss,
        loss_sd=float(np.sqrt(weights @ np.square(loss - mean_loss))),
        tail=np.nan if lumps else quantile(loss, weights, 1 - ALPHA),
    )
