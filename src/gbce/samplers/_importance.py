"""Importance sampling from the prior: Algorithm 1 of the paper."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from gbce._checks import require_counts
from gbce._weights import Array
from gbce.draws import Draws, Points
from gbce.posterior import BudgetSpentError, GibbsPosterior
from gbce.samplers._goal import settled

__all__ = ["Importance", "Sampler", "candidates"]


class Sampler(Protocol):
    """What an Explainer takes as ``sampler``."""

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw from the posterior; the last of the draws' rungs is the eta that was reached."""
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
        pool = candidates(posterior, rng, self.n_candidates)
        mixture = posterior.mixture
        facts = {"sampler": "Importance", "complete": len(pool) == self.n_candidates}
        if posterior.goal is not None:
            flat = Draws.weighed(pool, replace(mixture, eta=0.0), posterior.prior)
            eta, met = settled(flat, mixture, posterior.goal)
            mixture, facts = replace(mixture, eta=eta), facts | {"goal_met": met}
        return Draws.weighed(pool, mixture, posterior.prior, facts=facts).resample(rng, self.n_draws)


def candidates(posterior: GibbsPosterior, rng: np.random.Generator, n: int) -> Points:
    """Draw ``n`` points from the prior's map and ask the models about as many as the budget allows."""
    z = posterior.prior.draw(rng, n)
    parts: list[Points] = []
    try:
        for some in posterior.portions(n):
            parts.append(Points.evaluated(posterior, z[some]))
    except BudgetSpentError:  # time ran out earlier than was foreseen: what there is, is returned
        if not parts and posterior.budget.deadline is None:
            raise
    if not parts and posterior.budget.deadline is not None:
        parts = _at_least_some(posterior, z)
    if not parts:
        raise BudgetSpentError("the budget does not allow a single candidate: raise max_model_rows or time_budget")
    return parts[0] if len(parts) == 1 else Points.joined(parts)


def _at_least_some(posterior: GibbsPosterior, z: Array) -> list[Points]:
    """Ask about one batch in the time that is left in all: without candidates there is nothing to go on with."""
    whole = replace(posterior, budget=posterior.budget.outermost)
    size = min(posterior.budget.rows_left, len(z), whole.budget.batch(len(z), whole.panel.load))
    return [Points.evaluated(whole, z[:size])] if whole.budget.time_left > 0 and size > 0 else []
