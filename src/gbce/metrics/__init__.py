"""Figures of single points, of the whole posterior, and of sampling quality."""

from typing import TYPE_CHECKING, Any

from gbce._numerics import PRINTED_Z_95, ROUNDS_TO_ZERO, wilson
from gbce.metrics._diagnostics import (
    MOSTLY,
    Diagnosis,
    Judgement,
    Verdict,
    describe_posterior,
    drop_pool,
    prior_moves,
    prior_shares,
    signed_changes,
)
from gbce.metrics._distributional import (
    FEWEST_MODELS,
    FIGURE_TITLES,
    SEVERAL_MODELS,
    Disagreement,
    Figure,
    FigureName,
    disagreement,
    disagreement_sentence,
    eta_path,
    figures,
    importance,
    most_moved,
    next_model_probability,
    success_probability,
)
from gbce.metrics._exact_noise import sum_under_noise
from gbce.metrics._pointwise import (
    POINT_FIGURES,
    Evaluation,
    Neighbours,
    Noise,
    NoiseDistribution,
    PointFigure,
    costs,
    evaluate_figures,
    evaluate_under_noise,
    frontier_table,
    near_front,
    noise_distribution,
    offsets,
    pareto_front,
    positions_at_levels,
    require_noise,
    survival_table,
    unknown_errors,
    unknown_figures,
)

__all__ = [
    "FEWEST_MODELS",
    "FIGURE_TITLES",
    "MOSTLY",
    "POINT_FIGURES",
    "PRINTED_Z_95",
    "ROUNDS_TO_ZERO",
    "SEVERAL_MODELS",
    "Diagnosis",
    "Disagreement",
    "Evaluation",
    "Figure",
    "FigureName",
    "Judgement",
    "Neighbours",
    "Noise",
    "NoiseDistribution",
    "PointFigure",
    "Verdict",
    "costs",
    "describe_posterior",
    "disagreement",
    "disagreement_sentence",
    "drop_pool",
    "eta_path",
    "evaluate_figures",
    "evaluate_under_noise",
    "figures",
    "frontier_table",
    "importance",
    "most_moved",
    "near_front",
    "next_model_probability",
    "noise_distribution",
    "offsets",
    "pareto_front",
    "positions_at_levels",
    "prior_moves",
    "prior_shares",
    "require_noise",
    "signed_changes",
    "success_probability",
    "sum_under_noise",
    "survival",
    "survival_table",
    "unknown_errors",
    "unknown_figures",
    "wilson",
]


if TYPE_CHECKING:
    from gbce.stress import survival


def __getattr__(name: str) -> Any:
    if name == "survival":  # a documented name, whose function calls models and so lives in a later room
        from gbce.stress import survival

        return survival
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
