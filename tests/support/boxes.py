"""Single trees under a Gaussian prior: every leaf is a box, and the posterior is exact in any number of columns."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp


@dataclass(frozen=True)
class Boxes:
    """Leaves of one tree: lower and upper corners ``(L, d)``, and values ``(L,)``."""

    low: np.ndarray
    high: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, tree, d):
        """Read the leaves off a fitted scikit-learn tree of ``d`` columns."""
        t, found = tree.tree_, []

        def descend(node, low, high):
            if t.children_left[node] < 0:
                found.append((low, high, t.value[node].ravel()[0]))
                return
            j, cut = t.feature[node], t.threshold[node]
            left, right = high.copy(), low.copy()
            left[j], right[j] = min(high[j], cut), max(low[j], cut)
            descend(t.children_left[node], low, left)
            descend(t.children_right[node], right, high)

        descend(0, np.full(d, -np.inf), np.full(d, np.inf))
        return cls(*map(np.array, zip(*found, strict=True)))

    def posterior(self, x0, sd, loss, reached):
        """Return log evidence and success probability under N(x0, sd**2), given each leaf's potential and verdict."""
        a, b = (self.low - x0) / sd, (self.high - x0) / sd
        flip = a > 0  # work in the left tail
        a, b = np.where(flip, -b, a), np.where(flip, -a, b)
        with np.errstate(divide="ignore"):
            log_mass = log_ndtr(b) + np.log1p(-np.exp(np.minimum(log_ndtr(a) - log_ndtr(b), 0.0)))
        log_weight = log_mass.sum(axis=1) - loss
        log_evidence = logsumexp(log_weight)
        return float(log_evidence), float(np.exp(log_weight - log_evidence)[reached].sum())

    def lowest(self, x0, sd, loss):
        """Return the least potential plus half the squared distance over all leaves."""
        nearest = np.clip(0.0, (self.low - x0) / sd, (self.high - x0) / sd)
        return float((loss + 0.5 * np.square(nearest).sum(axis=1)).min())
