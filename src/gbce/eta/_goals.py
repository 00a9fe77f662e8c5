"""What a posterior is to achieve, where that decides eta."""

from dataclasses import dataclass

from gbce._validation import require_finite
from gbce.base import Array

__all__ = ["ExpectedLoss", "SuccessProbability"]


@dataclass(frozen=True)
class SuccessProbability:
    """The smallest eta whose posterior reaches the target with a given probability.

    It is found on the way up of the sampler, without further model calls. With several models it is the first one's.

    Where success is a matter of one model's loss alone (a wish for a number, or for one of two classes), its
    probability never falls as eta grows. It can fall with :class:`gbce.Multi`, with one of several classes and with
    several models: the least total loss may lie where the target is missed. There all of the path is searched; if no
    eta succeeds often enough, the smallest that does so as often as any is taken, and a note says so.

    Parameters
    ----------
    probability : float
        Wanted, above 0 and below 1.

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

    def __post_init__(self) -> None:
        require_finite(self, "probability")
        if not 0 < self.probability < 1:
            raise ValueError(
                f"SuccessProbability: probability must lie between 0 and 1, not {self.probability!r}; no finite eta "
                "makes success certain"
            )

    @property
    def label(self) -> str:
        """The rule in words."""
        return f"SuccessProbability({self.probability:g})"

    def shortfall(self, loss: Array, reached: Array, weights: Array) -> float:
        """Return what is missing to the wanted probability at weighted points, each array ``(n,)``."""
        return self.probability - float(weights @ reached)


@dataclass(frozen=True)
class ExpectedLoss:
    """The eta whose posterior has a given expected loss: a Lagrange multiplier.

    Of all laws with no larger expected loss, the posterior at this eta is the one nearest to the prior (in
    Kullback-Leibler divergence), if there is one model. With several, the loss asked about is the first one's, which
    may rise with eta; the smallest eta that achieves it is taken.

    Parameters
    ----------
    loss : float
        Wanted, in the units of the target's loss.

    Examples
    --------
    >>> ExpectedLoss(0.5).label
    'ExpectedLoss(0.5)'
    """

    loss: float

    def __post_init__(self) -> None:
        require_finite(self, "loss")

    @property
    def label(self) -> str:
        """The rule in words."""
        return f"ExpectedLoss({self.loss:g})"

    def shortfall(self, loss: Array, reached: Array, weights: Array) -> float:
        """Return by how much the expected loss at weighted points is too large, each array ``(n,)``."""
        counted = weights > 0
        return float(weights[counted] @ loss[counted]) - self.loss
