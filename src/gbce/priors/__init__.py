"""Laws of a counterfactual around a row, before the model has been asked: ``p(x | row)``."""

from gbce.priors._distance import DistancePrior
from gbce.priors._gaussian import Gaussian
from gbce.priors._laplace import Laplace
from gbce.priors._located import LocatedPrior, Prior

__all__ = ["DistancePrior", "Gaussian", "Laplace", "LocatedPrior", "Prior"]
