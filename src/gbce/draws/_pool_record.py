"""What was read off a pool of evaluated points before it was let go, so that tables stay as they were."""

from dataclasses import dataclass

import numpy as np

from gbce.base import Array

__all__ = ["PRIOR_LEVELS", "PoolRecord"]

# Probabilities at which quantiles of the prior are kept: the ends of the usual intervals (50, 80, 90 and 95%) are among
# them, and between two of them a picture can be drawn by eye. A convention on which no table hangs.
PRIOR_LEVELS = np.linspace(0.0, 1.0, 41)


@dataclass(frozen=True, eq=False)
class PoolRecord:
    """Numbers that need every evaluated point, kept where the points are not.

    Parameters
    ----------
    n_evaluated : int
        How many points there were.
    ess, worst_ess : float
        Effective sample size in all, and of the figure that runs agree on least.
    worst_of : int
        Which figure that is, see :attr:`gbce.draws.Draws.worst_ess`.
    pareto_k, expected_potential : float
        Of the weights' tail; under the posterior.
    figures : tuple of (str, str, float, float, float or None, float or None)
        Figures of the posterior: what is measured, of which model if not of the first, value, error, and the ends of an
        interval of its own.
    change, change_se : array of shape (d,)
        Mean size of each feature's change under the posterior, and its error.
    prior_shares : tuple of arrays
        Of each feature with levels, how probable each is under the prior, and last that it is missing; an empty array
        for other features.
    prior_moves : array of shape (41, d)
        Quantiles of each feature's signed change under the prior, in units of its scale, at ``PRIOR_LEVELS``; the
        probability of a change for a category.
    """

    n_evaluated: int
    ess: float
    worst_ess: float
    worst_of: int
    pareto_k: float
    expected_potential: float
    figures: tuple[tuple[str, str, float, float, float | None, float | None], ...]
    change: Array
    change_se: Array
    prior_shares: tuple[Array, ...]
    prior_moves: Array
