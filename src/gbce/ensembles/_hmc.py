"""Where chains over a network's weights begin: a population cooled from the prior, in which poor modes die out."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import WORST_R_HAT, effective_sample_size, normalise, resample_systematically
from gbce.base import Array
from gbce.ensembles._problem import Net, Problem

__all__ = ["FIRST_STEP", "HMCRun", "Jump", "anneal", "hmc", "mixing", "network_chains", "round_maps"]

# --- hamiltonian Monte Carlo of many chains in lock-step (Neal 2011), each with a fixed linear map of its own --------

Energy = Callable[[Array], tuple[Array, Array]]
Jump = Callable[[Array, np.random.Generator], tuple[Array, Array]]

FIRST_STEP = 0.5  # where adaptation begins, in coordinates in which the posterior is round; by hand
_TARGET_ACCEPTANCE = 0.8  # that the step is adapted to: Stan's default
_STEP_JITTER = (0.8, 1.0)  # share of the step that is taken, at random, against periodic paths (Neal 2011); by hand
# Dual averaging: t0, gamma and kappa of Hoffman and Gelman (2014, Section 3.2.1)
_SLOW_START, _SHRINKAGE, _FORGETTING = 10, 0.05, 0.75


class HMCRun(NamedTuple):
    """States ``(steps, chains, p)`` after warm-up, energies ``(steps, chains)``, mean acceptance and the step sizes."""

    states: Array
    energy: Array
    acceptance: float
    step: float | Array


def hmc(
    energy: Energy,
    start: Array,
    maps: Array,
    n_warmup: int,
    n_steps: int,
    leaps: int,
    rng: np.random.Generator,
    step: float | Array = FIRST_STEP,
    jump: Jump | None = None,
) -> HMCRun:
    """Draw from ``exp(-energy)``.

    ``start`` is ``(c, p)``. Chain k moves in coordinates ``z`` with ``theta = maps[k] @ z``, ``(c, p, p)``, which
    should make its surroundings round. The ``step`` size is adapted by dual averaging during warm-up, one for all
    chains or, where it is ``(c,)``, each by what its own chain accepts; every step jitters it, and leaps between 1 and
    ``leaps`` times. After each step a ``jump`` is tried where there is one: from states ``(c, p)`` and the generator to
    new states and the logarithm of how much volume grows there, ``(c,)``; it must be as likely as its reverse.
    """
    theta, (u, g) = start, energy(start)
    first = averaged = log_step = np.log(step)
    error = np.zeros_like(first)
    states, heights, accepted = [], [], []
    for number in range(n_warmup + n_steps):
        size = np.exp(log_step if number < n_warmup else averaged) * rng.uniform(*_STEP_JITTER)
        size = size[:, None] if np.ndim(step) else size
        momentum = rng.standard_normal(theta.shape)
        before = u + 0.5 * np.square(momentum).sum(axis=1)
        at, slope, height, p = theta, g, u, momentum
        with np.errstate(over="ignore", invalid="ignore"):
            p = p - 0.5 * size * _slope_in_z(maps, slope)
            n_leaps = int(rng.integers(1, leaps + 1))
            for leap in range(n_leaps):
                at = at + size * (maps @ p[:, :, None])[:, :, 0]
                height, slope = energy(at)
                p = p - (size if leap < n_leaps - 1 else 0.5 * size) * _slope_in_z(maps, slope)
            change = before - height - 0.5 * np.square(p).sum(axis=1)
        chance = np.exp(np.minimum(np.where(np.isfinite(change), change, -np.inf), 0.0))
        moves = rng.random(len(theta)) < chance
        theta, u, g = _select(moves, (at, height, slope), (theta, u, g))
        if jump is not None:
            at, growth = jump(theta, rng)
            height, slope = energy(at)
            moves = np.log(rng.random(len(theta))) < u - height + growth
            theta, u, g = _select(moves, (at, height, slope), (theta, u, g))
        if number < n_warmup:  # Hoffman and Gelman (2014), Algorithm 5
            m = number + 1
            accepts = chance if np.ndim(step) else chance.mean()
            error = error + (_TARGET_ACCEPTANCE - accepts - error) / (m + _SLOW_START)
            log_step = first - np.sqrt(m) / _SHRINKAGE * error
            averaged = averaged + m**-_FORGETTING * (log_step - averaged)
        else:
            states.append(theta)
            heights.append(u)
            accepted.append(chance.mean())
    return HMCRun(np.array(states), np.array(heights), float(np.mean(accepted)), np.exp(averaged))


def _select(moves: Array, there: tuple[Array, Array, Array], here: tuple[Array, Array, Array]) -> list[Array]:
    """Return state, energy and gradient ``there`` for the chains that move, ``here`` for the others."""
    return [
        np.where(moves[:, None] if new.ndim == 2 else moves, new, old) for new, old in zip(there, here, strict=True)
    ]


def _slope_in_z(maps: Array, slope: Array) -> Array:
    return (np.swapaxes(maps, 1, 2) @ slope[:, :, None])[:, :, 0]


def mixing(figures: Array) -> dict[str, float]:
    """Return the worst R-hat and effective sample size of figures ``(steps, chains, m)``."""
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    watched = figures.transpose(2, 1, 0)
    with np.errstate(all="ignore"):
        r_hat = array_stats.rhat(watched)
        bulk = array_stats.ess(watched, method="bulk")
    return {
        "r_hat": float(np.minimum(np.nan_to_num(r_hat, nan=WORST_R_HAT), WORST_R_HAT).max()),
        "ess_bulk": float(np.nan_to_num(bulk, nan=0.0).min()),
    }


# --- where chains over a network's weights begin ---------------------------------------------------------------------

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


# --- chains over a network's weights ---------------------------------------------------------------------------------

_COOLED_PER_CHAIN = 4  # members of the population that is cooled, of which one in four begins a chain; by hand
_STATES_PER_MAP = 10  # of a chain, evenly spaced, over which the curvature is averaged for its map; by hand
_STRETCH_SD = 0.7  # of the logarithm by which a jump scales a unit; by hand, and 1 did as well


def network_chains(
    problem: Problem, n_chains: int, n_warmup: int, n_steps: int, leaps: int, rng: np.random.Generator
) -> HMCRun:
    """Run chains over a network's weights from a cooled population.

    They may lie in different modes: each has its own step, and from half of the warm-up on its own map, made from the
    states that it has visited.
    """
    start = anneal(problem, _COOLED_PER_CHAIN * n_chains, rng)[::_COOLED_PER_CHAIN]
    step, jump, half = np.full(len(start), FIRST_STEP), _rescaling(problem.net), math.ceil(n_warmup / 2)
    maps = round_maps(problem, start[None])
    look = hmc(problem.energy, start, maps, half // 2, half - half // 2, leaps, rng, step, jump)
    visited = look.states[np.linspace(0, len(look.states) - 1, _STATES_PER_MAP).astype(int)]
    maps = round_maps(problem, visited)
    return hmc(problem.energy, look.states[-1], maps, n_warmup - half, n_steps, leaps, rng, step, jump)


def _rescaling(net: Net) -> Jump:
    """Return a jump that multiplies all that enters one hidden unit by a random number, and divides what leaves it.

    Outputs hardly change where the unit is nearly linear (and not at all with relu), but the energy bends sharply along
    this way: steps that fit most places are far too long where weights are small, and chains stay stuck there for
    hundreds of them.
    """
    exponents = net.scalings

    def jump(theta: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        unit = exponents[rng.integers(len(exponents), size=len(theta))]
        stretch = _STRETCH_SD * rng.standard_normal(len(theta))
        return theta * np.exp(stretch[:, None] * unit), stretch * unit.sum(axis=1)

    return jump
