"""Choosing eta: by a goal for the posterior, or by the prediction error of the model."""

from gbce.eta._eta import (
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
)

__all__ = [
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
]
