"""From a learner and its data to many fitted models: posteriors over what is predicted with (Section 2.4)."""

from gbce.ensembles._bootstrap import BayesianBootstrap
from gbce.ensembles._coefficients import CoefficientPosterior
from gbce.ensembles._laplace import LaplaceApproximation
from gbce.ensembles._model_posterior import model_posterior
from gbce.ensembles._pac import PACBayes
from gbce.ensembles._posterior import ModelPosterior, as_models
from gbce.ensembles._rashomon import Rashomon
from gbce.ensembles._risk import cross_val_risk

__all__ = [
    "BayesianBootstrap",
    "CoefficientPosterior",
    "LaplaceApproximation",
    "ModelPosterior",
    "PACBayes",
    "Rashomon",
    "as_models",
    "cross_val_risk",
    "model_posterior",
]
