"""Laws of a counterfactual around a row, before the model has been asked: ``p(x | row)``."""

from gbce.priors._columns import ColumnCells, ColumnLaw, WithEffort, column_laws
from gbce.priors._distance import DistancePrior, Gower
from gbce.priors._families import Gaussian, Laplace, NearData, Sparse
from gbce.priors._located import LocatedPrior, Placed

__all__ = [
    "ColumnCells",
    "ColumnLaw",
    "DistancePrior",
    "Gaussian",
    "Gower",
    "Laplace",
    "LocatedPrior",
    "NearData",
    "Placed",
    "Sparse",
    "WithEffort",
    "column_laws",
]
