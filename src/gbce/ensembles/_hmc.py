"""Hamiltonian Monte Carlo of many chains in lock-step (Neal 2011), each with a fixed linear map of its own."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gbce._numerics import WORST_R_HAT
from gbce.base import Array

__all__ = ["FIRST_STEP", "HMCRun", "Jump", "hmc", "mixing"]

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
