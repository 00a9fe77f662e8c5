"""Draws: evaluated points with weights, which every rule, figure and plot reads.

A sampler evaluates a *pool* of points and weighs them; the draws are a selection from it. Nothing that reads them needs
the model: outputs, losses and verdicts of every point are kept, per model.
"""

from gbce.draws._draws import Covering, Draws, Scene, log_target
from gbce.draws._points import PRIOR_LEVELS, TAIL_LEVELS, ExactFigures, Points, PoolRecord, SamplerInfo
