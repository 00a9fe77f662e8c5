"""Choosing eta: by a goal for the posterior, or by the prediction error of the model."""

from gbce.eta._path import STEEPEST, GoalProgress, Solved, solve_eta, solve_eta_among, solve_eta_nearby
from gbce.eta._rules import (
    AUTO,
    Calibration,
    EtaRule,
    ExpectedLoss,
    ModelError,
    SuccessProbability,
    as_eta,
    as_etas,
    noise_scale,
)
