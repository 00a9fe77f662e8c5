"""Importance sampling from the prior: Algorithm 1 of the paper."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gbce._checks import require_counts
from gbce.draws import Draws, Points
from gbce.posterior import GibbsPosterior

__all__ = ["Importance", "Sampler"]


class Sampler(Protocol):
    """What an Explainer takes as ``sampler``."""

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw from the posterior."""
        ...


@dataclass(frozen=True)
class Importance:
    """Candidates from the prior, weighted by ``exp(-potential)``, resampled with replacement.

    Parameters
    ----------
    n_candidates : int
        Points drawn from the prior and shown to the model, N_cand.
    n_draws : int
        Draws resampled from them, N_samp.

    Examples
    --------
    >>> Importance(n_candidates=500, n_draws=100)
    Importance(n_candidates=500, n_draws=100)
    """

    n_candidates: int = 20_000
    n_draws: int = 2_000

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "n_draws")

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Run Algorithm 1: one model call per model, up to its batch limit."""
        z = rng.standard_normal((self.n_candidates, posterior.prior.dimension))
        placed = posterior.prior.place(z)
        said = posterior.evaluate(placed.x)
        pool = Points(z, placed.x, said.outputs, said.loss, said.reached, placed.cost, placed.extra)
        return Draws.weighed(pool, posterior.mixture, posterior.prior.x0).resample(rng, self.n_draws)
