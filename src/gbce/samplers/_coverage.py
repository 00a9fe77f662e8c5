"""What a pool of draws covers: whether a known point has a density that the draws do not explain."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gbce.base import Array
from gbce.draws import Points, log_target
from gbce.posterior import Mixture

__all__ = ["Coverage"]

# Of all mass that was found: a point at which a single draw would carry more lies where the pool has next to nothing
# though there is something. With a thousand effective draws, one of them carries about 0.1%; chosen by hand.
_OUTWEIGHS = 0.05
_RELEVANT = 0.01  # of all mass: less around a known point is nothing to worry about; chosen by hand


@dataclass(frozen=True, eq=False)
class Coverage:
    """Where the points of a pool were to be expected.

    Parameters
    ----------
    pool : Points
        The points.
    log_density : callable
        Log of the expected number of them at evaluated points, against the latent law: ``(n,)``.
    log_base_weights : array of shape (N,)
        Minus that for the pool itself; runs that found different mass may count differently.
    """

    pool: Points
    log_density: Callable[[Points], Array]
    log_base_weights: Array

    def log_mass(self, mixture: Mixture) -> float:
        """Log of the normaliser, against the latent law, that the pool found."""
        return float(logsumexp(self.log_base_weights + log_target(mixture, self.pool)))

    def outweighed(self, points: Points, mixture: Mixture) -> Array:
        """Whether a single draw at each of the points ``(n,)`` would carry too much for the pool to be complete."""
        share = log_target(mixture, points) - self.log_density(points) - self.log_mass(mixture)
        return share > np.log(_OUTWEIGHS)

    def unexplained(self, points: Points, mixture: Mixture) -> Array:
        """Whether known points ``(n,)`` show mass that the pool has missed.

        Around a point of height ``h`` no more than ``exp(-h)`` is to be expected, because the posterior is nowhere much
        wider than the latent law. Where that is next to nothing, a draw would outweigh the pool but does not occur.
        """
        most = log_target(mixture, points) - 0.5 * np.square(points.z).sum(axis=1)
        relevant = most > self.log_mass(mixture) + np.log(_RELEVANT)
        return relevant & self.outweighed(points, mixture)
