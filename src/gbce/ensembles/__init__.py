"""Posteriors over models: many fitted models from one learner and its training data (Section 2.4 of the paper)."""

from gbce.ensembles._coefficients import CoefficientPosterior, LaplaceApproximation, PACBayes
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
