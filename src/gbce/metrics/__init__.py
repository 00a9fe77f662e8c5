"""Figures: for one point, for the whole posterior, and for how well it was sampled."""

from gbce.metrics._diagnostics import diagnose
from gbce.metrics._disagreement import Disagreement, disagreement, disagreement_sentence
from gbce.metrics._distributional import (
    Figure,
    figures,
    importance,
    most_moved,
    stability,
    success_probability,
    tail,
)
from gbce.metrics._evaluation import Evaluation
from gbce.metrics._frontier import at_levels, costs, frontier_table, near_front, pareto
from gbce.metrics._path import eta_path
from gbce.metrics._pointwise import Neighbours, robustness
from gbce.metrics._predictive import FEWEST_MODELS, next_model
from gbce.metrics._survival import survival, survival_table, wilson

__all__ = [
    "FEWEST_MODELS",
    "Disagreement",
    "Evaluation",
    "Figure",
    "Neighbours",
    "at_levels",
    "costs",
    "diagnose",
    "disagreement",
    "disagreement_sentence",
    "eta_path",
    "figures",
    "frontier_table",
    "importance",
    "most_moved",
    "near_front",
    "next_model",
    "pareto",
    "robustness",
    "stability",
    "success_probability",
    "survival",
    "survival_table",
    "tail",
    "wilson",
]
