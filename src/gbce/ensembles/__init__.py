"""From a learner and its data to many fitted models: posteriors over what is predicted with (Section 2.4)."""

from gbce.ensembles._coefficients import CoefficientPosterior, LaplaceApproximation
from gbce.ensembles._pac import PACBayes
from gbce.ensembles._posterior import ModelPosterior, as_models
from gbce.ensembles._refits import BayesianBootstrap, Rashomon, cross_val_risk, model_posterior

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
