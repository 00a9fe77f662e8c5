"""Counterfactual explanations as a posterior distribution, and decisions whose risk is stated.

The counterfactual of a row is not one point but a Gibbs posterior,
``p(x | row, target) ∝ exp(-eta * loss(f(x), target)) * prior(x | row)``. :class:`Explainer` draws from it and
applies decision rules; :class:`Explanation` holds the draws, the decisions and their figures.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gbce._validation import set_options
    from gbce.base import ModelNeededError
    from gbce.batch import ExplanationTable, StoredTable, group_changes, group_costs, load
    from gbce.budget import BudgetSpentError
    from gbce.decisions import (
        MAP,
        ChanceConstrained,
        CVaR,
        DirectOpt,
        DiverseSet,
        GeometricMedian,
        Mean,
        Medoid,
        Nearest,
        RandomDraw,
        Reliable,
        paper_rules,
    )
    from gbce.ensembles import (
        BayesianBootstrap,
        CoefficientPosterior,
        LaplaceApproximation,
        ModelPosterior,
        PACBayes,
        Rashomon,
        cross_val_risk,
        model_posterior,
    )
    from gbce.eta import ExpectedLoss, ModelError, SuccessProbability, noise_scale
    from gbce.explainer import Explainer
    from gbce.explanation import Answer, Explanation, SafeBox
    from gbce.files import FileError
    from gbce.metrics import Evaluation
    from gbce.posterior import Entropic, weights_from_risk
    from gbce.predictors import PredictionError, Remote, classifier
    from gbce.priors import DistancePrior, Gaussian, Gower, Laplace, NearData, Sparse
    from gbce.samplers import SMC, Chains, Importance, Nested, SearchOnly
    from gbce.space import Feature, Space
    from gbce.targets import AtLeast, AtMost, Change, Class, Loss, Multi, Range, Value
    from gbce.trees import ExactTrees, GibbsTrees, Proof

__version__ = "0.1.0"

# A name is imported from its room when it is first used: `import gbce` by itself loads neither numpy's friends nor a
# framework.
_ROOMS = {
    "_validation": "set_options",
    "base": "ModelNeededError",
    "batch": "ExplanationTable StoredTable group_changes group_costs load",
    "budget": "BudgetSpentError",
    "decisions": "CVaR ChanceConstrained DirectOpt DiverseSet GeometricMedian MAP Mean Medoid Nearest "
    "RandomDraw Reliable paper_rules",
    "ensembles": "BayesianBootstrap CoefficientPosterior LaplaceApproximation ModelPosterior PACBayes Rashomon "
    "cross_val_risk model_posterior",
    "eta": "ExpectedLoss ModelError SuccessProbability noise_scale",
    "explainer": "Explainer",
    "explanation": "Answer Explanation SafeBox",
    "files": "FileError",
    "metrics": "Evaluation",
    "posterior": "Entropic weights_from_risk",
    "predictors": "PredictionError Remote classifier",
    "priors": "DistancePrior Gaussian Gower Laplace NearData Sparse",
    "samplers": "Chains Importance Nested SMC SearchOnly",
    "space": "Feature Space",
    "targets": "AtLeast AtMost Change Class Loss Multi Range Value",
    "trees": "ExactTrees GibbsTrees Proof",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

_MODULES = (
    *_ROOMS,
    "distributed",
    "draws",
    "mlflow",
    "plots",
    "policy",
    "report",
    "stress",
)  # as in gbce.metrics.survival

__all__ = [
    "MAP",
    "SMC",
    "Answer",
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
    "ExactTrees",
    "ExpectedLoss",
    "Explainer",
    "Explanation",
    "ExplanationTable",
    "Feature",
    "FileError",
    "Gaussian",
    "GeometricMedian",
    "GibbsTrees",
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
    "Nearest",
    "Nested",
    "PACBayes",
    "PredictionError",
    "Proof",
    "RandomDraw",
    "Range",
    "Rashomon",
    "Reliable",
    "Remote",
    "SafeBox",
    "SearchOnly",
    "Space",
    "Sparse",
    "StoredTable",
    "SuccessProbability",
    "Value",
    "classifier",
    "cross_val_risk",
    "group_changes",
    "group_costs",
    "load",
    "model_posterior",
    "noise_scale",
    "paper_rules",
    "set_options",
    "weights_from_risk",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"gbce.{_HOME[name]}"), name)
        globals()[name] = value  # asked for once
        return value
    if name in _MODULES:
        return import_module(f"gbce.{name}")
    if name == "datasets":
        raise AttributeError("gbce.datasets went to experiments.trends, beside the experiments of the paper")
    raise AttributeError(f"module 'gbce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
