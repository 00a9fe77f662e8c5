"""Laws of a counterfactual around a row, before the model has been asked: ``p(x | row)``."""

from gbce.priors._columns import ColumnCells, ColumnLaw, column_laws
from gbce.priors._distance import DistancePrior, Gower
from gbce.priors._effort import WithEffort
from gbce.priors._gaussian import Gaussian
from gbce.priors._laplace import Laplace
from gbce.priors._located import LocatedPrior, Placed
from gbce.priors._near_data import NearData
from gbce.priors._sparse import Sparse

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
