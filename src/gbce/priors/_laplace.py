"""The Laplace prior: absolute (L1) distance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gbce._weights import Array
from gbce.priors._laws import LAPLACE
from gbce.priors._located import LatentMap, LocatedPrior, free_features, per_feature
from gbce.space import Space

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace:
    """Double exponential law around the row, truncated to the space: ``d(row, x) = sum |x_j - row_j| / b``.

    Parameters
    ----------
    b : float, sequence or mapping
        Mean absolute change in units of each feature's scale; one number, one per feature, or by name.

    Examples
    --------
    >>> placed = Laplace(2.0).at(Space.real(1), np.zeros(1)).place(np.array([[0.0], [1.0]]))
    >>> placed.x.round(3).ravel()
    array([0.   , 2.296])
    """

    b: float | Sequence[float] | Mapping[str, float] = 1.0

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the law at the row ``x0``."""
        free, low, high = free_features(space, x0)
        factor = (space.scale * per_feature(self.b, space, "Laplace: b"))[free]
        latent = LatentMap(LAPLACE, x0, free, factor, low, high)

        def cost(x: Array) -> Array:
            return (np.abs(x[:, free] - x0[free]) / factor).sum(axis=1)

        return LocatedPrior(latent, cost, exact=True)
