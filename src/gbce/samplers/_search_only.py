"""A search without a posterior: for whoever wants an answer, and no distribution behind it."""

from dataclasses import dataclass, replace

import numpy as np

from gbce._validation import require_counts
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, SamplerInfo
from gbce.posterior import GibbsPosterior
from gbce.samplers._importance import candidates, weigh_candidates
from gbce.samplers._starts import Starts

__all__ = ["SearchOnly"]

# Chosen by hand: on eighteen questions of benchmarks/rows.py answers cost as much as with two or three thousand
# candidates, and 6% less than with 500.
_CANDIDATES = 1_000
_DRAWS = 500  # half of the candidates: more would be the same ones again


@dataclass(frozen=True)
class SearchOnlyInfo(SamplerInfo):
    """What a search without a posterior reports.

    Parameters
    ----------
    sites : int, optional
        Distinct places of low objective that the search found.
    """

    sampler: str = "SearchOnly"
    sites: int | None = None

    @property
    def draws_posterior(self) -> bool:
        """An answer is all that was wanted."""
        return False

    @property
    def advice(self) -> str:
        """What to do for a posterior."""
        return "leave out posterior=False, or use gbce.SMC(), to have the posterior"


@dataclass(frozen=True)
class SearchOnly:
    """One search for places of low objective, and a few candidates of the prior: what an answer needs, and no more.

    It is what ``explain(..., posterior=False)`` uses. The candidates have the weights of Algorithm 1, but they are few,
    and nothing says that they have met all of the posterior: it counts as not sampled.

    Parameters
    ----------
    n_candidates : int
        Points drawn from the prior and shown to the model first.
    n_draws : int
        Draws resampled from them.

    Examples
    --------
    >>> SearchOnly()
    SearchOnly(n_candidates=1000, n_draws=500)
    """

    n_candidates: int = _CANDIDATES
    n_draws: int = _DRAWS

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "n_draws")

    @property
    def searches(self) -> bool:
        """It begins at rows of the data, so that models have to be asked about some of them."""
        return True

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Weigh candidates, and search once at the eta that was given or found."""
        pool = candidates(posterior, rng, self.n_candidates)
        complete = len(pool) == self.n_candidates
        draws = weigh_candidates(posterior, pool, SearchOnlyInfo(complete=complete))
        seen, sites = _search(replace(posterior, mixture=replace(posterior.mixture, eta=draws.rungs[-1])), rng, pool)
        info = SearchOnlyInfo(complete=complete, goal_met=draws.info.goal_met, sites=sites)
        return replace(draws, seen=seen, info=info).resample(rng, self.n_draws)


def _search(posterior: GibbsPosterior, rng: np.random.Generator, pool: Points) -> tuple[Points | None, int | None]:
    """Return the best points of a search, and how many sites it found; nothing that the budget does not allow."""
    starts = None
    try:
        starts = Starts(posterior, rng, pool)
        sites = len(starts.search(laws=False).height)
    except BudgetSpentError:
        return None if starts is None else starts.memory.kept, None
    return starts.memory.kept, sites
