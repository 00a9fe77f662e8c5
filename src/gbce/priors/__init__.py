"""Priors: distributions ``p(x | row)`` of counterfactuals around a row, before the model is taken into account."""

from gbce.priors._columns import ColumnCells, ColumnDistribution, WithEffort, column_distributions
from gbce.priors._distance import DistancePrior, Gower
from gbce.priors._families import Gaussian, Laplace, NearData, Sparse
from gbce.priors._located import LocatedPrior, Placed
