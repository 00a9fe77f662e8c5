"""Figures of a posterior that were computed, not drawn: plain numbers beside the draws."""

from dataclasses import dataclass

import numpy as np

from gbce.base import Array

__all__ = ["TAIL_LEVELS", "ExactFigures"]

# Shares of the losses at which their quantiles are kept: every tail with at most three digits is among them. Between
# two of them a quantile is known up to its neighbours.
TAIL_LEVELS = 1_000


@dataclass(frozen=True, eq=False)
class ExactFigures:
    """What is known of a posterior without Monte Carlo error; ``d`` features, ``K`` models.

    Parameters
    ----------
    cells : int
        Over which the sums were taken.
    success : array of shape (K + 2,)
        Success probability under each model, under all, and under at least half of them.
    success_se : array of shape (K + 2,)
        What is not known of these: outputs at the very limit of the target, where rounding decides, were asked for
        by a sample. Zero where there are none, or all were asked for.
    loss_levels : array of shape (K, 1001)
        Losses that are not exceeded with probability 0, 0.001, ..., 1, for each model.
    stability, expected_loss, expected_potential : float
        Total variance; loss of the first model; potential.
    change : array of shape (d,)
        Mean size of each feature's change.
    """

    cells: int
    success: Array
    success_se: Array
    loss_levels: Array
    stability: float
    expected_loss: float
    expected_potential: float
    change: Array

    def tail(self, k: int, alpha: float) -> tuple[float, float, float]:
        """Loss of model ``k`` that is exceeded with probability ``alpha`` at most, and between which it must lie."""
        place = (1.0 - alpha) * TAIL_LEVELS
        near = round(place)
        if abs(place - near) < _SAME_LEVEL:
            value = float(self.loss_levels[k, near])
            return value, value, value
        low, high = (float(self.loss_levels[k, int(end)]) for end in (np.floor(place), np.ceil(place)))
        return high, low, high


_SAME_LEVEL = 1e-6  # of a step between two levels: what is less is rounding
