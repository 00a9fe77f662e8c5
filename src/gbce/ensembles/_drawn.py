"""Models made of drawn coefficients: small, picklable, with the methods of an estimator."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from gbce.base import Array
from gbce.ensembles._net import Net

__all__ = ["DrawnClassifier", "DrawnModel", "DrawnRegressor", "build_model"]


@dataclass(frozen=True, eq=False)
class DrawnModel:
    """A net at coefficients ``theta (p,)``, after what prepares rows; linearised there if it has a ``step``."""

    net: Net
    theta: Array = field(repr=False)
    prepare: Any = field(default=None, repr=False)
    step: Array | None = field(default=None, repr=False)
    feature_names_in_: Array | None = field(default=None, repr=False)
    n_features_in_: int = 0

    def scores(self, X: Any) -> Array:
        """Return outputs ``(n, o)`` of rows ``(n, d)``."""
        rows = np.asarray(X if self.prepare is None else self.prepare.transform(X), dtype=float)
        if self.step is None:
            return self.net.outputs(self.theta, rows)
        return self.net.outputs_linearised(self.theta, self.step, rows)

    @property
    def coef_(self) -> Array:
        """Weights of the first layer, ``(d,)`` with one output, else ``(o, d)``."""
        weights = self.net.layers(self._whole)[0][0]
        return weights[:, 0] if weights.shape[1] == 1 else weights.T

    @property
    def intercept_(self) -> Any:
        """Biases of the first layer, a number with one output."""
        biases = self.net.layers(self._whole)[0][1]
        return float(biases[0]) if len(biases) == 1 else biases

    @property
    def _whole(self) -> Array:
        return self.theta if self.step is None else self.theta + self.step


@dataclass(frozen=True, eq=False)
class DrawnRegressor(DrawnModel):
    """Predicts one number per row."""

    def predict(self, X: Any) -> Array:
        """Return predictions ``(n,)``."""
        return self.scores(X)[:, 0]


@dataclass(frozen=True, eq=False)
class DrawnClassifier(DrawnModel):
    """Predicts probabilities of ``classes_``."""

    classes_: Array = field(default_factory=lambda: np.arange(2))

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities ``(n, classes)``."""
        scores = self.scores(X)
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        return np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row, ``(n,)``."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def build_model(net: Net, theta: Array, classes: Array | None, **options: Any) -> DrawnModel:
    """Return a regressor, or a classifier where there are classes."""
    if classes is None:
        return DrawnRegressor(net, theta, **options)
    return DrawnClassifier(net, theta, classes_=classes, **options)
