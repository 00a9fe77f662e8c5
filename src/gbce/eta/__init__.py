"""Choosing eta: by a goal for the posterior, or by the prediction error of the model."""

from gbce.eta._eta import (
    AUTO,
    STEEPEST,
    Calibration,
    EtaRule,
    ExpectedLoss,
    ModelError,
    Solved,
    SuccessProbability,
    as_eta,
    as_etas,
    noise_scale,
    solve_eta,
    solve_eta_among,
    solve_eta_nearby,
)

__all__ = [
    "AUTO",
    "STEEPEST",
    "Calibration",
    "EtaRule",
    "ExpectedLoss",
    "ModelError",
    "Solved",
    "SuccessProbability",
    "as_eta",
    "as_etas",
    "noise_scale",
    "solve_eta",
    "solve_eta_among",
    "solve_eta_nearby",
]
