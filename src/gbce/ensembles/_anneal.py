"""Where chains over a network's weights begin: a population cooled from the prior, in which poor modes die out."""

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import effective_sample_size, normalise, resample_systematically
from gbce.base import Array
from gbce.ensembles._hmc import FIRST_STEP, hmc
from gbce.ensembles._problem import Problem

__all__ = ["anneal", "round_maps"]

# By hand: the population only has to find good modes, the chains that begin there do the rest.
_MOVES_PER_RUNG = 5  # to adapt the step in, and as many after
_MOST_LEAPS = 10  # of a move
_MOST_RUNGS = 100  # so that cooling ends however hard the problem is
_EFFECTIVE_SHARE = 0.5  # of the population after a rung: half, as is usual (Del Moral, Doucet and Jasra 2006)
_BISECTIONS = 50  # of the interval of eta' that the next one is sought in: then 2**-50 of it is left, which is rounding


def anneal(problem: Problem, n: int, rng: np.random.Generator) -> Array:
    """Return ``n`` states ``(n, p)`` near the posterior, by rungs of eta' that keep most of it effective."""
    theta = rng.standard_normal((n, problem.net.n_parameters)) / np.sqrt(np.diag(problem.precision))
    beta = 0.0
    step: float | Array = FIRST_STEP
    for _ in range(_MOST_RUNGS):
        loss = problem.likelihood.loss(problem.net.outputs(theta, problem.X)).sum(axis=-1)
        beta, before = _next_eta(loss, beta, problem.eta), beta
        theta = theta[resample_systematically(rng, normalise(-(beta - before) * loss), n)]
        here = problem.at(beta)
        maps = round_maps(here, theta[None])
        run = hmc(here.energy, theta, maps, _MOVES_PER_RUNG, _MOVES_PER_RUNG, _MOST_LEAPS, rng, step)
        theta, step = run.states[-1], run.step
        if beta == problem.eta:
            break
    return theta


def _next_eta(loss: Array, beta: float, end: float) -> float:
    """Return the largest eta' up to ``end`` at which enough of the population counts."""

    def share(to: float) -> float:
        weights = -(to - beta) * loss
        return effective_sample_size(np.exp(weights - logsumexp(weights))) / len(loss)

    if share(end) >= _EFFECTIVE_SHARE:
        return end
    low, high = beta, end
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) >= _EFFECTIVE_SHARE else (low, middle)
    return low


def round_maps(problem: Problem, visited: Array) -> Array:
    """Return a linear map for each chain, ``(c, p, p)``, under which the posterior around it is round.

    The curvature is averaged over the states ``visited (v, c, p)``.
    """
    curvatures = [np.mean([problem.curvature(one) for one in chain], axis=0) for chain in np.swapaxes(visited, 0, 1)]
    roots = [np.linalg.cholesky(one) for one in curvatures]
    return np.array([np.linalg.inv(root).T for root in roots])
