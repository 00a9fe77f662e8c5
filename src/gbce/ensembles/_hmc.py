"""Hamiltonian Monte Carlo (Neal 2011) over coefficients: many chains in parallel, each with a linear map of its own.

Chains over the weights of a network start from a population tempered from the prior, in which poor modes die out, and
also propose to rescale hidden units.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import WORST_R_HAT, effective_sample_size, normalise, resample_systematically
from gbce.base import Array
from gbce.ensembles._problem import Net, Problem

Energy = Callable[[Array], tuple[Array, Array]]
Jump = Callable[[Array, np.random.Generator], tuple[Array, Array]]

FIRST_STEP = 0.5  # where adaptation begins, in coordinates in which the posterior is isotropic; by hand


@dataclass(frozen=True)
class _Tuning:
    """How chains adapt and tempering proceeds."""

    target_acceptance: float = 0.8  # Stan's default
    # random factor of the step size, against periodic paths (Neal 2011); by hand
    step_jitter: tuple[float, float] = (0.8, 1.0)
    # Dual averaging: t0, gamma and kappa of Hoffman and Gelman (2014, Section 3.2.1)
    slow_start: int = 10
    shrinkage: float = 0.05
    forgetting: float = 0.75
    # Tempering, by hand: the population only has to find good modes, the chains that start there do the rest.
    moves_per_rung: int = 5  # to adapt the step size, and as many after
    most_leaps: int = 10  # leapfrog steps of a move
    most_rungs: int = 100  # so that tempering ends however hard the problem is
    effective_share: float = 0.5  # of the population after a rung: half, as is usual (Del Moral, Doucet and Jasra 2006)
    bisections: int = 50  # of the interval of the next eta': 2**-50 of it is left, which is rounding
    tempered_per_chain: int = 4  # members of the tempered population per chain that starts from it; by hand
    states_per_map: int = 10  # of a chain, evenly spaced, over which the curvature is averaged for its map; by hand
    rescaling_sd: float = 0.7  # of the log factor by which a jump rescales a unit; by hand, and 1 did as well


_TUNING = _Tuning()


# --- Hamiltonian Monte Carlo -----------------------------------------------------------------------------------------


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

    ``start`` is ``(c, p)``. Chain k moves in coordinates ``z`` with ``theta = maps[k] @ z``, ``(c, p, p)``, in which
    the posterior around it should be isotropic. The ``step`` size is adapted by dual averaging during warm-up, jointly
    or, if ``(c,)``, per chain, and jittered; a step has between 1 and ``leaps`` leapfrog steps. After each step an
    optional ``jump`` is proposed: from states ``(c, p)`` and the generator to new states and the log Jacobian ``(c,)``;
    it must be as probable as its reverse.
    """
    theta, (u, g) = start, energy(start)
    first = averaged = log_step = np.log(step)
    error = np.zeros_like(first)
    states, energies, accepted = [], [], []
    for number in range(n_warmup + n_steps):
        size = np.exp(log_step if number < n_warmup else averaged) * rng.uniform(*_TUNING.step_jitter)
        size = size[:, None] if np.ndim(step) else size
        momentum = rng.standard_normal(theta.shape)
        before = u + 0.5 * np.square(momentum).sum(axis=1)
        at, slope, value, p = theta, g, u, momentum
        with np.errstate(over="ignore", invalid="ignore"):
            p = p - 0.5 * size * _gradient_in_z(maps, slope)
            n_leaps = int(rng.integers(1, leaps + 1))
            for leap in range(n_leaps):
                at = at + size * (maps @ p[:, :, None])[:, :, 0]
                value, slope = energy(at)
                p = p - (size if leap < n_leaps - 1 else 0.5 * size) * _gradient_in_z(maps, slope)
            change = before - value - 0.5 * np.square(p).sum(axis=1)
        chance = np.exp(np.minimum(np.where(np.isfinite(change), change, -np.inf), 0.0))
        moves = rng.random(len(theta)) < chance
        theta, u, g = _select(moves, (at, value, slope), (theta, u, g))
        if jump is not None:
            at, growth = jump(theta, rng)
            value, slope = energy(at)
            moves = np.log(rng.random(len(theta))) < u - value + growth
            theta, u, g = _select(moves, (at, value, slope), (theta, u, g))
        if number < n_warmup:  # Hoffman and Gelman (2014), Algorithm 5
            m = number + 1
            accepts = chance if np.ndim(step) else chance.mean()
            error = error + (_TUNING.target_acceptance - accepts - error) / (m + _TUNING.slow_start)
            log_step = first - np.sqrt(m) / _TUNING.shrinkage * error
            averaged = averaged + m**-_TUNING.forgetting * (log_step - averaged)
        else:
            states.append(theta)
            energies.append(u)
            accepted.append(chance.mean())
    return HMCRun(np.array(states), np.array(energies), float(np.mean(accepted)), np.exp(averaged))


def _select(moves: Array, there: tuple[Array, Array, Array], here: tuple[Array, Array, Array]) -> list[Array]:
    """Return state, energy and gradient ``there`` for the chains that move, ``here`` for the others."""
    return [
        np.where(moves[:, None] if new.ndim == 2 else moves, new, old) for new, old in zip(there, here, strict=True)
    ]


def _gradient_in_z(maps: Array, slope: Array) -> Array:
    return (np.swapaxes(maps, 1, 2) @ slope[:, :, None])[:, :, 0]


def mixing(figures: Array) -> dict[str, float]:
    """Return the worst R-hat and effective sample size of figures ``(steps, chains, m)``."""
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    series = figures.transpose(2, 1, 0)
    with np.errstate(all="ignore"):
        r_hat = array_stats.rhat(series)
        bulk = array_stats.ess(series, method="bulk")
    return {
        "r_hat": float(np.minimum(np.nan_to_num(r_hat, nan=WORST_R_HAT), WORST_R_HAT).max()),
        "ess_bulk": float(np.nan_to_num(bulk, nan=0.0).min()),
    }


# --- chains over the weights of a network ----------------------------------------------------------------------------


def anneal(problem: Problem, n: int, rng: np.random.Generator) -> Array:
    """Temper ``n`` states ``(n, p)`` from the prior to the posterior by sequential Monte Carlo in eta'."""
    theta = rng.standard_normal((n, problem.net.n_parameters)) / np.sqrt(np.diag(problem.precision))
    beta = 0.0
    step: float | Array = FIRST_STEP
    for _ in range(_TUNING.most_rungs):
        loss = problem.likelihood.loss(problem.net.outputs(theta, problem.X)).sum(axis=-1)
        beta, before = _next_eta(loss, beta, problem.eta), beta
        theta = theta[resample_systematically(rng, normalise(-(beta - before) * loss), n)]
        here = problem.at(beta)
        maps = round_maps(here, theta[None])
        run = hmc(
            here.energy, theta, maps, _TUNING.moves_per_rung, _TUNING.moves_per_rung, _TUNING.most_leaps, rng, step
        )
        theta, step = run.states[-1], run.step
        if beta == problem.eta:
            break
    return theta


def _next_eta(loss: Array, beta: float, end: float) -> float:
    """Return the largest eta' up to ``end`` that leaves a sufficient effective sample size."""

    def share(to: float) -> float:
        weights = -(to - beta) * loss
        return effective_sample_size(np.exp(weights - logsumexp(weights))) / len(loss)

    if share(end) >= _TUNING.effective_share:
        return end
    low, high = beta, end
    for _ in range(_TUNING.bisections):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) >= _TUNING.effective_share else (low, middle)
    return low


def round_maps(problem: Problem, visited: Array) -> Array:
    """Return linear maps ``(c, p, p)`` that whiten each chain by the mean curvature at ``visited (v, c, p)``."""
    curvatures = [np.mean([problem.curvature(one) for one in chain], axis=0) for chain in np.swapaxes(visited, 0, 1)]
    roots = [np.linalg.cholesky(one) for one in curvatures]
    return np.array([np.linalg.inv(root).T for root in roots])


def network_chains(
    problem: Problem, n_chains: int, n_warmup: int, n_steps: int, leaps: int, rng: np.random.Generator
) -> HMCRun:
    """Run chains from a tempered population; their steps and maps differ, as they may be in different modes."""
    start = anneal(problem, _TUNING.tempered_per_chain * n_chains, rng)[:: _TUNING.tempered_per_chain]
    step, jump, half = np.full(len(start), FIRST_STEP), _propose_rescaling(problem.net), math.ceil(n_warmup / 2)
    maps = round_maps(problem, start[None])
    first = hmc(problem.energy, start, maps, half // 2, half - half // 2, leaps, rng, step, jump)
    visited = first.states[np.linspace(0, len(first.states) - 1, _TUNING.states_per_map).astype(int)]
    maps = round_maps(problem, visited)
    return hmc(problem.energy, first.states[-1], maps, n_warmup - half, n_steps, leaps, rng, step, jump)


def _propose_rescaling(net: Net) -> Jump:
    """Return a jump that multiplies a hidden unit's incoming weights by a random factor and divides the outgoing."""
    # Outputs hardly change, but the energy is sharply curved in this direction: step sizes that suit most places are
    # far too long where weights are small, and chains would be stuck there for hundreds of steps.
    exponents = net.scalings

    def jump(theta: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        unit = exponents[rng.integers(len(exponents), size=len(theta))]
        log_factor = _TUNING.rescaling_sd * rng.standard_normal(len(theta))
        return theta * np.exp(log_factor[:, None] * unit), log_factor * unit.sum(axis=1)

    return jump
