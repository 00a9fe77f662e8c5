"""SafeBayes: eta' by how well each learning rate predicts every row from those before it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gbce._weights import Array
from gbce.models._likelihood import Normal
from gbce.models._problem import Problem, gaussian_draws

__all__ = ["SAFE_GRID", "safe_eta"]

SAFE_GRID = tuple(2.0 ** (-j / 2) for j in range(13))  # 1 down to 1/64
_BLOCKS = 150  # rows come one at a time up to here, then in blocks
_DRAWS = 64
_WEAK = 10.0  # standard deviation of what has a flat prior, in spreads of y or logits


def safe_eta(problem: Problem, grid: Sequence[float], version: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return the eta' of least cumulative prequential loss (Grünwald and van Ommen 2017), the grid and the losses.

    Rows come in random order. ``version`` is "R", the expected log loss of a draw from the posterior so far
    (R-log-SafeBayes), or "I", the log loss at its mean (I-log-SafeBayes). Posteriors of logistic coefficients are
    those of Laplace's approximation, which here only has to rank the grid.
    """
    order = rng.permutation(len(problem.X))
    blocks = np.array_split(order, min(len(order), _BLOCKS))
    half = rng.standard_normal((_DRAWS // 2, problem.net.n_parameters))
    normal = np.concatenate([half, -half])
    proper = _proper(problem)
    losses = [_prequential(proper.at(eta), blocks, normal, version) for eta in grid]
    best = int(np.argmin(losses))  # the first, hence the largest eta, of equals
    return {"eta": float(grid[best]), "eta_grid": tuple(map(float, grid)), "eta_losses": tuple(losses)}


def _proper(problem: Problem) -> Problem:
    """Give what is flat a weak prior, so that the first rows can be predicted."""
    from dataclasses import replace

    likelihood = problem.likelihood
    spread = _WEAK * max(float(np.abs(likelihood.y).max()), likelihood.sd) if isinstance(likelihood, Normal) else _WEAK
    flat = np.diag(problem.precision) == 0
    return replace(problem, precision=problem.precision + np.diag(flat / spread**2))


def _prequential(problem: Problem, blocks: Sequence[Array], normal: Array, version: str) -> float:
    total, seen = 0.0, np.zeros(0, dtype=int)
    squared = isinstance(problem.likelihood, Normal)
    mode = np.zeros(problem.net.n_parameters)
    for block in blocks:
        known, asked = problem.take(seen), problem.take(block)
        mode = known.mode(mode)
        outputs = asked.net.outputs(mode[None], asked.X)
        if version == "I":
            total += float(asked.likelihood.loss(outputs).sum())
        elif squared:  # the expectation in closed form
            variance = _variance(known.curvature(mode), asked.net.jacobian(mode, asked.X)[:, 0])
            total += float(asked.likelihood.loss(outputs).sum() + variance.sum() / (2 * asked.likelihood.sd**2))
        else:
            theta = gaussian_draws(mode, known.curvature(mode), normal)
            total += float(asked.likelihood.loss(asked.net.outputs(theta, asked.X)).sum()) / len(theta)
        seen = np.concatenate([seen, block])
    return total if math.isfinite(total) else math.inf


def _variance(precision: Array, slopes: Array) -> Array:
    return np.einsum("np,pn->n", slopes, np.linalg.solve(precision, slopes.T))
