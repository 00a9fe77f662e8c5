"""Figures: for one point, for the whole posterior, and for how well it was sampled."""

from gbce.metrics._diagnostics import diagnose
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
from gbce.metrics._path import eta_path
from gbce.metrics._pointwise import Neighbours, robustness

__all__ = [
    "Evaluation",
    "Figure",
    "Neighbours",
    "diagnose",
    "eta_path",
    "figures",
    "importance",
    "most_moved",
    "robustness",
    "stability",
    "success_probability",
    "tail",
]
