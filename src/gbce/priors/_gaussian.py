"""The Gaussian prior: squared Euclidean (or Mahalanobis) distance, the paper's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from gbce._weights import Array
from gbce.priors._laws import NORMAL
from gbce.priors._located import LatentMap, LocatedPrior, free_features, per_feature
from gbce.space import Space

__all__ = ["Gaussian"]

_SMALLEST_EIGENVALUE = 1e-12


@dataclass(frozen=True)
class Gaussian:
    """Normal law around the row, truncated to the space: ``d(row, x) = |x - row|**2 / (2 sigma**2)``.

    Parameters
    ----------
    sigma : float, sequence or mapping
        Standard deviation in units of each feature's scale; one number, one per feature, or by name.
    cov : array of shape (d, d), optional
        Covariance in those units instead, for correlated moves. Immutable features are conditioned on.

    Examples
    --------
    >>> space = Space.real(2)
    >>> placed = Gaussian(0.5).at(space, np.zeros(2)).place(np.array([[1.0, -2.0]]))
    >>> placed.x, placed.cost
    (array([[ 0.5, -1. ]]), array([2.5]))
    """

    sigma: float | Sequence[float] | Mapping[str, float] = 1.0
    cov: Array | None = None

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the law at the row ``x0``."""
        free, low, high = free_features(space, x0)
        if self.cov is None:
            factor = (space.scale * per_feature(self.sigma, space, "Gaussian: sigma"))[free]
        else:
            factor = _conditional_factor(self._covariance(space), free)
        latent = LatentMap(NORMAL, x0, free, factor, low, high)

        def cost(x: Array) -> Array:
            offset = x[:, free] - x0[free]
            e = offset / factor if factor.ndim == 1 else solve_triangular(factor, offset.T, lower=True).T
            return 0.5 * np.square(e).sum(axis=1)

        return LocatedPrior(latent, cost, exact=latent.exact)

    def _covariance(self, space: Space) -> Array:
        if not (isinstance(self.sigma, float) and self.sigma == 1.0):
            raise ValueError("Gaussian: give sigma or cov, not both")
        try:
            cov, d = np.asarray(self.cov, dtype=float), len(space)
        except (TypeError, ValueError):
            raise ValueError(f"Gaussian: cov must be an array of numbers, not {self.cov!r}") from None
        if cov.shape != (d, d):
            raise ValueError(f"Gaussian: cov must have shape ({d}, {d}), one line per feature, not {cov.shape}")
        if not np.isfinite(cov).all() or not np.allclose(cov, cov.T, rtol=1e-8, atol=1e-12):
            raise ValueError("Gaussian: cov must be finite and symmetric")
        sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
        # judged on the correlations, whose eigenvalues do not depend on units; zero comes out as a rounding error
        if not (sd > 0).all() or np.linalg.eigvalsh(cov / np.outer(sd, sd))[0] <= _SMALLEST_EIGENVALUE:
            raise ValueError("Gaussian: cov must be positive definite, but it has an eigenvalue of zero or less")
        return cov * np.outer(space.scale, space.scale)


def _conditional_factor(cov: Array, free: Array) -> Array:
    """Cholesky factor of the free features' covariance, given that the others stay where they are."""
    precision = np.linalg.inv(cov)[np.ix_(free, free)]
    conditional = np.linalg.inv(precision)
    return np.linalg.cholesky(0.5 * (conditional + conditional.T))
