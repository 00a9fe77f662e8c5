"""SafeBayes: eta' by how well each learning rate predicts every row from those before it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import digamma

from gbce.base import Array
from gbce.ensembles._likelihood import NormalErrors
from gbce.ensembles._problem import Problem, gaussian_draws

__all__ = ["SAFE_GRID", "safe_eta"]

SAFE_GRID = tuple(2.0 ** (-j / 2) for j in range(13))  # learning rates in half powers of two, 1 down to 1/64; by hand
_N_ORDERS = 8  # of rows that linear models average over: one order let 12 of 40 wrong models pass at eta' = 1, eight 1
# Of logistic regression, by hand: each block takes a mode, and draws are the same for all learning rates.
_N_BLOCKS = 60  # in which rows come
_N_DRAWS = 64  # from each posterior, in pairs of opposite sign
_WEAK_SD = 10.0  # standard deviation of what has a flat prior, in sizes of y or in logits; by hand, wide against both


def safe_eta(problem: Problem, grid: Sequence[float], version: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return the eta' of least cumulative prequential loss (Grünwald and van Ommen 2017), the grid and the losses.

    Rows come in random order, of linear models in several, whose losses are averaged. ``version`` is "R", the expected
    log loss of a draw from the posterior so far (R-log-SafeBayes), or "I", the log loss at its mean (I-log-SafeBayes).
    """
    order = rng.permutation(len(problem.X))
    etas = np.sort(np.asarray(grid, dtype=float))[::-1]
    likelihood = problem.likelihood
    if isinstance(likelihood, NormalErrors):
        proper = _with_weak_prior(problem, _WEAK_SD * max(float(np.abs(likelihood.y).max()), likelihood.sd))
        orders = [order, *(rng.permutation(len(problem.X)) for _ in range(_N_ORDERS - 1))]
        losses = np.mean([_squared_losses(proper, likelihood.take(one), one, etas, version) for one in orders], axis=0)
    else:
        half = rng.standard_normal((_N_DRAWS // 2, problem.net.n_parameters))
        blocks = np.array_split(order, min(len(order), _N_BLOCKS))
        proper, normal = _with_weak_prior(problem, _WEAK_SD), np.concatenate([half, -half])
        losses = np.array([_log_loss(proper.at(eta), blocks, normal, version) for eta in etas])
    best = int(np.argmin(losses))  # the first, hence the largest eta, of equals
    return {"eta": float(etas[best]), "eta_grid": tuple(etas.tolist()), "eta_losses": tuple(losses.tolist())}


def _with_weak_prior(problem: Problem, spread: float) -> Problem:
    """Give what is flat a weak prior, so that the first rows can be predicted."""
    flat = np.diag(problem.precision) == 0
    return replace(problem, precision=problem.precision + np.diag(flat / spread**2))


def _squared_losses(problem: Problem, likelihood: NormalErrors, order: Array, etas: Array, version: str) -> Array:
    """Return the losses ``(g,)`` of linear regression whose noise is unknown, all etas row by row.

    The prior is the conjugate one of the paper, normal in the coefficients and inverse gamma in the variance, around
    the noise of the problem. A known variance would hide what SafeBayes looks for: that draws agree on a variance that
    is wrong for the next row. The mean that version "I" predicts with is that of the coefficients and of the variance,
    ``b / (a - 1)``, which exists from the second row on; the first one all rates predict alike.
    """
    rows = problem.net.jacobian(np.zeros(problem.net.n_parameters), problem.X[order])[:, 0]
    cov = np.repeat(np.linalg.inv(problem.precision)[None] / likelihood.sd**2, len(etas), axis=0)  # over the variance
    mean = np.zeros((len(etas), rows.shape[1]))
    a, b = np.ones(len(etas)), np.full(len(etas), likelihood.sd**2)
    losses = np.zeros(len(etas))
    for number, (x, y) in enumerate(zip(rows, likelihood.y, strict=True)):
        shared = cov @ x
        spread, error = shared @ x, y - mean @ x
        if version == "R":
            losses += 0.5 * (np.log(b) - digamma(a) + error**2 * a / b + spread)
        elif number:
            losses += 0.5 * (np.log(b / (a - 1)) + error**2 * (a - 1) / b)
        gain = shared / (1 / etas + spread)[:, None]
        mean = mean + gain * error[:, None]
        cov = cov - gain[:, :, None] * shared[:, None, :]
        a, b = a + etas / 2, b + 0.5 * error**2 / (1 / etas + spread)
    return losses


def _log_loss(problem: Problem, blocks: Sequence[Array], normal: Array, version: str) -> float:
    """Return the loss of logistic regression; posteriors are Laplace's, which here only have to rank the grid."""
    total, seen = 0.0, np.zeros(0, dtype=int)
    mode = np.zeros(problem.net.n_parameters)
    for block in blocks:
        known, asked = problem.take(seen), problem.take(block)
        mode = known.mode(mode)
        theta = mode[None] if version == "I" else gaussian_draws(mode, known.curvature(mode), normal)
        total += float(asked.likelihood.loss(asked.net.outputs(theta, asked.X)).sum()) / len(theta)
        seen = np.concatenate([seen, block])
    return total if math.isfinite(total) else math.inf
