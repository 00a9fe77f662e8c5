"""Figures: for one point, for the whole posterior, and for how well it was sampled."""

from typing import TYPE_CHECKING, Any

from gbce._numerics import PRINTED_Z_95, ROUNDS_TO_ZERO, wilson
from gbce.metrics._diagnostics import Diagnosis, Judgement, Verdict
from gbce.metrics._disagreement import Disagreement, disagreement, disagreement_sentence
from gbce.metrics._distributional import (
    FIGURE_TITLES,
    SEVERAL_MODELS,
    Figure,
    FigureName,
    figures,
    importance,
    most_moved,
    stability,
    success_probability,
    tail,
)
from gbce.metrics._evaluation import Evaluation
from gbce.metrics._exact_noise import Between, UnderNoise, sum_under_noise
from gbce.metrics._frontier import costs, frontier_table, near_front, pareto_front, positions_at_levels
from gbce.metrics._modes import Modes, find_modes
from gbce.metrics._noise import Noise, evaluate_under_noise, offsets, require_noise
from gbce.metrics._noise_law import NoiseLaw, noise_law
from gbce.metrics._path import eta_path
from gbce.metrics._pointwise import (
    POINT_FIGURES,
    Neighbours,
    PointFigure,
    evaluate_figures,
    robustness,
    unknown_errors,
    unknown_figures,
)
from gbce.metrics._pool import let_pool_go, prior_moves, prior_shares, signed_changes
from gbce.metrics._predictive import FEWEST_MODELS, next_model_probability
from gbce.metrics._survival import survival_table

if TYPE_CHECKING:
    from gbce.stress import survival

__all__ = [
    "FEWEST_MODELS",
    "FIGURE_TITLES",
    "POINT_FIGURES",
    "PRINTED_Z_95",
    "ROUNDS_TO_ZERO",
    "SEVERAL_MODELS",
    "Between",
    "Diagnosis",
    "Disagreement",
    "Evaluation",
    "Figure",
    "FigureName",
    "Judgement",
    "Modes",
    "Neighbours",
    "Noise",
    "NoiseLaw",
    "PointFigure",
    "UnderNoise",
    "Verdict",
    "costs",
    "disagreement",
    "disagreement_sentence",
    "eta_path",
    "evaluate_figures",
    "evaluate_under_noise",
    "figures",
    "find_modes",
    "frontier_table",
    "importance",
    "let_pool_go",
    "most_moved",
    "near_front",
    "next_model_probability",
    "noise_law",
    "offsets",
    "pareto_front",
    "positions_at_levels",
    "prior_moves",
    "prior_shares",
    "require_noise",
    "robustness",
    "signed_changes",
    "stability",
    "success_probability",
    "sum_under_noise",
    "survival",
    "survival_table",
    "tail",
    "unknown_errors",
    "unknown_figures",
    "wilson",
]


def __getattr__(name: str) -> Any:
    if name == "survival":  # a documented name, whose function asks models and so lives in a later room
        from gbce.stress import survival

        return survival
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
