"""The Laplace prior: absolute (L1) distance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gbce.base import Array
from gbce.priors._assemble import Categories, assemble
from gbce.priors._gaussian import require_categories
from gbce.priors._laws import LAPLACE
from gbce.priors._located import LocatedPrior, per_feature
from gbce.space import Space

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace:
    """Double exponential law around the row, truncated to the space: ``d(row, x) = sum |x_j - row_j| / b``.

    Parameters
    ----------
    b : float, sequence or mapping
        Mean absolute change in units of each feature's scale; one number, one per feature, or by name.
    categories : {"frequency", "uniform"}
        Whether a category that changes prefers the levels that are frequent in the data.

    Examples
    --------
    >>> import numpy as np
    >>> placed = Laplace(2.0).at(Space.real(1), np.zeros(1)).place(np.array([[0.0], [1.0]]))
    >>> placed.x.round(3).ravel()
    array([0.   , 2.296])
    """

    b: float | Sequence[float] | Mapping[str, float] = 1.0
    categories: Categories = "frequency"

    def __post_init__(self) -> None:
        require_categories(self.categories, "Laplace")

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the law at the row ``x0``."""
        return assemble(space, x0, LAPLACE, per_feature(self.b, space, "Laplace: b"), categories=self.categories)
