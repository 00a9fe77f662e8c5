"""Where chains over a network's weights begin: a population cooled from the prior, in which poor modes die out."""

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import effective_sample_size, normalise, resample_systematically
from gbce.base import Array
from gbce.ensembles._hmc import hmc
from gbce.ensembles._problem import Problem

__all__ = ["annealed", "round_maps"]

_MOVES, _LEAPS = 5, 10  # moves to adapt the step in, and as many after
_RUNGS = 100
_KEPT = 0.5  # effective share of the population after a rung


def annealed(problem: Problem, n: int, rng: np.random.Generator) -> Array:
    """Return ``n`` states ``(n, p)`` near the posterior, by rungs of eta' that keep most of it effective."""
    theta = rng.standard_normal((n, problem.net.n_parameters)) / np.sqrt(np.diag(problem.precision))
    beta = 0.0
    step: float | Array = 0.5
    for _ in range(_RUNGS):
        loss = problem.likelihood.loss(problem.net.outputs(theta, problem.X)).sum(axis=-1)
        beta, before = _next(loss, beta, problem.eta), beta
        theta = theta[resample_systematically(rng, normalise(-(beta - before) * loss), n)]
        here = problem.at(beta)
        run = hmc(here.energy, theta, round_maps(here, theta[None]), _MOVES, _MOVES, _LEAPS, rng, step)
        theta, step = run.states[-1], run.step
        if beta == problem.eta:
            break
    return theta


def _next(loss: Array, beta: float, end: float) -> float:
    """Return the largest eta' up to ``end`` at which enough of the population counts."""

    def share(to: float) -> float:
        weights = -(to - beta) * loss
        return effective_sample_size(np.exp(weights - logsumexp(weights))) / len(loss)

    if share(end) >= _KEPT:
        return end
    low, high = beta, end
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) >= _KEPT else (low, middle)
    return low


def round_maps(problem: Problem, visited: Array) -> Array:
    """Return a map for each chain, ``(c, p, p)``, that makes the states it ``visited (v, c, p)`` round on average."""
    curvatures = [np.mean([problem.curvature(one) for one in chain], axis=0) for chain in np.swapaxes(visited, 0, 1)]
    roots = [np.linalg.cholesky(one) for one in curvatures]
    return np.array([np.linalg.inv(root).T for root in roots])
