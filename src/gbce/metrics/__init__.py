"""Figures: for one point, for the whole posterior, and for how well it was sampled."""

from typing import TYPE_CHECKING, Any

from gbce.metrics._diagnostics import Diagnosis, Judgement, Verdict
from gbce.metrics._disagreement import Disagreement, disagreement, disagreement_sentence
from gbce.metrics._distributional import Figure, figures, importance, most_moved, stability, success_probability, tail
from gbce.metrics._evaluation import Evaluation
from gbce.metrics._frontier import at_levels, costs, frontier_table, near_front, pareto
from gbce.metrics._noise import Noise, offsets, require_noise, under_noise
from gbce.metrics._path import eta_path
from gbce.metrics._pointwise import Neighbours, evaluate_figures, open_errors, open_figures, robustness
from gbce.metrics._predictive import FEWEST_MODELS, next_model
from gbce.metrics._survival import survival_table, wilson

if TYPE_CHECKING:
    from gbce.stress import survival

__all__ = [
    "FEWEST_MODELS",
    "Diagnosis",
    "Disagreement",
    "Evaluation",
    "Figure",
    "Judgement",
    "Neighbours",
    "Noise",
    "Verdict",
    "at_levels",
    "costs",
    "disagreement",
    "disagreement_sentence",
    "eta_path",
    "evaluate_figures",
    "figures",
    "frontier_table",
    "importance",
    "most_moved",
    "near_front",
    "next_model",
    "offsets",
    "open_errors",
    "open_figures",
    "pareto",
    "require_noise",
    "robustness",
    "stability",
    "success_probability",
    "survival",
    "survival_table",
    "tail",
    "under_noise",
    "wilson",
]


def __getattr__(name: str) -> Any:
    if name == "survival":  # a documented name, whose function asks models and so lives in a later room
        from gbce.stress import survival

        return survival
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
