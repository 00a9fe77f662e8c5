"""The Gaussian prior: squared Euclidean (or Mahalanobis) distance, the paper's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gbce.base import Array
from gbce.priors._assemble import Categories, assemble
from gbce.priors._laws import NORMAL
from gbce.priors._located import LocatedPrior, per_feature, require_width
from gbce.space import Space

__all__ = ["SHRINKAGE", "Gaussian"]

_SMALLEST_EIGENVALUE = 1e-12  # of a correlation matrix: less is zero up to rounding
_ASYMMETRY, _ASYMMETRY_NEAR_ZERO = 1e-8, 1e-12  # of a covariance, relative and absolute: less is rounding
SHRINKAGE = 0.05  # of estimated correlations towards none, which keeps the matrix invertible; chosen by hand


@dataclass(frozen=True)
class Gaussian:
    """Normal law around the row, truncated to the space: ``d(row, x) = |x - row|**2 / (2 sigma**2)``.

    Whole numbers and ordinals have the same cost at their own values. A category changes at the cost of one unit, and
    to a level in proportion to its frequency.

    Parameters
    ----------
    sigma : float, sequence or mapping
        Standard deviation in units of each feature's scale; one number, one per feature, or by name.
    cov : array of shape (d, d) or "data", optional
        Covariance in those units instead, for correlated moves; ``"data"`` takes the correlations of the explainer's
        data. Immutable features are conditioned on; categories move by themselves.
    categories : {"frequency", "uniform"}
        Whether a category that changes prefers the levels that are frequent in the data.

    Examples
    --------
    >>> space = Space.real(2)
    >>> placed = Gaussian(0.5).at(space, np.zeros(2)).place(np.array([[1.0, -2.0]]))
    >>> placed.x, placed.cost
    (array([[ 0.5, -1. ]]), array([2.5]))
    """

    sigma: float | Sequence[float] | Mapping[str, float] = 1.0
    cov: Array | Literal["data"] | None = None
    categories: Categories = "frequency"

    def __post_init__(self) -> None:
        require_categories(self.categories, "Gaussian")

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the law at the row ``x0``."""
        if self.cov is None:
            sigma = per_feature(self.sigma, space, "Gaussian: sigma")
            return assemble(space, x0, NORMAL, sigma, categories=self.categories)
        factor = np.linalg.cholesky(self._covariance(space))
        return assemble(space, x0, NORMAL, np.ones(len(space)), categories=self.categories, factor=factor)

    def learned(self, space: Space, data: Array) -> "Gaussian":
        """Return this prior with the correlations of data ``(n, d)``, if they were asked for."""
        if not isinstance(self.cov, str):
            return self
        if self.cov != "data":
            raise ValueError(f"Gaussian: cov must be an array or 'data', not {self.cov!r}")
        numeric = np.array([not feature.unordered for feature in space.features])
        known = data[~np.isnan(data[:, numeric]).any(axis=1)]
        if len(known) <= numeric.sum():
            raise ValueError(
                "Gaussian: cov='data' needs more rows without missing values than there are numbers in one"
            )
        correlation, where = np.eye(len(space)), np.flatnonzero(numeric)
        spread = known[:, where].std(axis=0)
        offset = (known[:, where] - known[:, where].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        found = offset.T @ offset / len(known)
        found = (1 - SHRINKAGE) * found + SHRINKAGE * np.eye(len(where))
        np.fill_diagonal(found, 1.0)
        correlation[np.ix_(where, where)] = found
        sigma = per_feature(self.sigma, space, "Gaussian: sigma")
        return replace(self, sigma=1.0, cov=correlation * np.outer(sigma, sigma))

    def _covariance(self, space: Space) -> Array:
        if isinstance(self.cov, str):
            raise ValueError(
                "Gaussian: cov='data' has seen no data yet; give the prior to gbce.Explainer(..., prior=...)"
            )
        if not (isinstance(self.sigma, float) and self.sigma == 1.0):
            raise ValueError("Gaussian: give sigma or cov, not both")
        try:
            cov, d = np.asarray(self.cov, dtype=float), len(space)
        except (TypeError, ValueError):
            raise ValueError(f"Gaussian: cov must be an array of numbers, not {self.cov!r}") from None
        if cov.shape != (d, d):
            raise ValueError(f"Gaussian: cov must have shape ({d}, {d}), one line per feature, not {cov.shape}")
        if not np.isfinite(cov).all() or not np.allclose(cov, cov.T, rtol=_ASYMMETRY, atol=_ASYMMETRY_NEAR_ZERO):
            raise ValueError("Gaussian: cov must be finite and symmetric")
        sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
        # judged on the correlations, whose eigenvalues do not depend on units; zero comes out as a rounding error
        if not (sd > 0).all() or np.linalg.eigvalsh(cov / np.outer(sd, sd))[0] <= _SMALLEST_EIGENVALUE:
            raise ValueError("Gaussian: cov must be positive definite, but it has an eigenvalue of zero or less")
        require_width(sd, "Gaussian: the root of cov's diagonal")
        return cov * np.outer(space.scale, space.scale)


def require_categories(categories: str, what: str) -> None:
    """Require a known way of choosing levels."""
    if categories not in ("frequency", "uniform"):
        raise ValueError(f"{what}: categories must be 'frequency' or 'uniform', not {categories!r}")
