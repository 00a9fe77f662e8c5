"""Chains over a network's weights."""

import math

import numpy as np

from gbce.base import Array
from gbce.ensembles._anneal import anneal, round_maps
from gbce.ensembles._hmc import FIRST_STEP, HMCRun, Jump, hmc
from gbce.ensembles._net import Net
from gbce.ensembles._problem import Problem

__all__ = ["network_chains"]

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
