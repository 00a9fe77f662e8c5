"""From a learner and its data to many fitted models: posteriors over what is predicted with (Section 2.4)."""

from gbce.models._bootstrap import BayesianBootstrap
from gbce.models._coefficients import CoefficientPosterior
from gbce.models._laplace import LaplaceApproximation
from gbce.models._model_posterior import model_posterior
from gbce.models._pac import PACBayes
from gbce.models._posterior import ModelPosterior, listed_models
from gbce.models._rashomon import Rashomon
from gbce.models._risk import cross_val_risk

__all__ = [
    "BayesianBootstrap",
    "CoefficientPosterior",
    "LaplaceApproximation",
    "ModelPosterior",
    "PACBayes",
    "Rashomon",
    "cross_val_risk",
    "listed_models",
    "model_posterior",
]
