"""Counterfactual explanations as a posterior distribution, and decisions whose risk is stated.

The counterfactual of a row is not one point but a Gibbs posterior,
``p(x | row, target) ∝ exp(-eta * loss(f(x), target)) * prior(x | row)``. :class:`Explainer` draws from it and
applies decision rules; :class:`Explanation` holds the draws, the decisions and their figures.
"""

from gbce import datasets
from gbce._budget import BudgetSpentError
from gbce.batch import ExplanationTable, group_changes, group_costs
from gbce.calibration import ExpectedLoss, ModelError, SuccessProbability, noise_scale
from gbce.decisions import (
    MAP,
    ChanceConstrained,
    CVaR,
    DirectOpt,
    DiverseSet,
    GeometricMedian,
    Mean,
    Medoid,
    ModelNeededError,
    RandomDraw,
)
from gbce.explain import Explainer
from gbce.explanation import Explanation
from gbce.io import FileError, load
from gbce.metrics import Evaluation
from gbce.models import (
    BayesianBootstrap,
    CoefficientPosterior,
    LaplaceApproximation,
    ModelPosterior,
    PACBayes,
    Rashomon,
    cross_val_risk,
    model_posterior,
)
from gbce.posterior import Entropic, weights_from_risk
from gbce.predictors import PredictionError, Remote, classifier
from gbce.priors import DistancePrior, Gaussian, Gower, Laplace, NearData, Sparse
from gbce.samplers import SMC, Chains, Importance, Nested
from gbce.space import Feature, Space
from gbce.targets import AtLeast, AtMost, Change, Class, Loss, Multi, Range, Value

__version__ = "0.1.0"

__all__ = [
    "MAP",
    "SMC",
    "AtLeast",
    "AtMost",
    "BayesianBootstrap",
    "BudgetSpentError",
    "CVaR",
    "Chains",
    "ChanceConstrained",
    "Change",
    "Class",
    "CoefficientPosterior",
    "DirectOpt",
    "DistancePrior",
    "DiverseSet",
    "Entropic",
    "Evaluation",
    "ExpectedLoss",
    "Explainer",
    "Explanation",
    "ExplanationTable",
    "Feature",
    "FileError",
    "Gaussian",
    "GeometricMedian",
    "Gower",
    "Importance",
    "Laplace",
    "LaplaceApproximation",
    "Loss",
    "Mean",
    "Medoid",
    "ModelError",
    "ModelNeededError",
    "ModelPosterior",
    "Multi",
    "NearData",
    "Nested",
    "PACBayes",
    "PredictionError",
    "RandomDraw",
    "Range",
    "Rashomon",
    "Remote",
    "Space",
    "Sparse",
    "SuccessProbability",
    "Value",
    "classifier",
    "cross_val_risk",
    "datasets",
    "group_changes",
    "group_costs",
    "load",
    "model_posterior",
    "noise_scale",
    "weights_from_risk",
]
