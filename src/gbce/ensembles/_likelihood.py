"""Losses of outcomes as minus log likelihoods (up to a constant), with slopes and curvatures in the outputs."""

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from scipy.special import expit, log_softmax, softmax

from gbce.base import Array

__all__ = ["Categorical", "Likelihood", "NormalErrors"]


class Likelihood(Protocol):
    """A loss of ``n`` outcomes against outputs ``(c, n, o)``."""

    def loss(self, outputs: Array) -> Array:
        """Return the loss of each row, ``(c, n)``."""
        ...

    def slope(self, outputs: Array) -> Array:
        """Return its slope in the outputs, ``(c, n, o)``."""
        ...

    def curvature(self, outputs: Array) -> Array:
        """Return its curvature in the outputs, ``(n, o, o)`` for outputs ``(n, o)``."""
        ...

    def take(self, index: Array) -> Self:
        """Return the same of some rows."""
        ...


@dataclass(frozen=True, eq=False)
class NormalErrors:
    """Outcomes ``y (n,)`` with normal errors: squared loss over twice the variance."""

    y: Array
    sd: float

    def loss(self, outputs: Array) -> Array:
        """Return ``(f - y)**2 / (2 sd**2)``."""
        return np.square(outputs[..., 0] - self.y) / (2 * self.sd**2)

    def slope(self, outputs: Array) -> Array:
        """Return ``(f - y) / sd**2``."""
        return (outputs - self.y[:, None]) / self.sd**2

    def curvature(self, outputs: Array) -> Array:
        """Return ``1 / sd**2``."""
        return np.full((len(self.y), 1, 1), self.sd**-2)

    def take(self, index: Array) -> Self:
        """Return the same of some rows."""
        return replace(self, y=self.y[index])


@dataclass(frozen=True, eq=False)
class Categorical:
    """Classes by number, ``codes (n,)``: log loss of one logit (two classes) or of one score per class."""

    codes: Array

    def loss(self, outputs: Array) -> Array:
        """Return ``-log p(class)``."""
        if outputs.shape[-1] == 1:
            return np.logaddexp(0.0, np.where(self.codes == 1, -1.0, 1.0) * outputs[..., 0])
        rows = np.arange(len(self.codes))
        return -log_softmax(outputs, axis=-1)[..., rows, self.codes]

    def slope(self, outputs: Array) -> Array:
        """Return probabilities minus the indicator of the class that occurred."""
        if outputs.shape[-1] == 1:
            return expit(outputs) - self.codes[:, None]
        return softmax(outputs, axis=-1) - np.eye(outputs.shape[-1])[self.codes]

    def curvature(self, outputs: Array) -> Array:
        """Return the covariance of the indicator of the class."""
        if outputs.shape[-1] == 1:
            p = expit(outputs)
            return (p * (1 - p))[:, :, None]
        p = softmax(outputs, axis=-1)
        return p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]

    def take(self, index: Array) -> Self:
        """Return the same of some rows."""
        return replace(self, codes=self.codes[index])
