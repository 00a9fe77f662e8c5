"""Importance sampling from the prior (Algorithm 1 of the paper), and the info that SMC reports."""

from dataclasses import dataclass, replace

import numpy as np

from gbce._validation import require_counts
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, SamplerInfo
from gbce.eta import solve_eta
from gbce.posterior import GibbsPosterior

N_CANDIDATES, N_DRAWS = 20_000, 2_000  # N_cand and N_samp of the paper's experiments in two dimensions
PRIOR_DRAWS = 20_000  # for figures of the prior alone, where the pool has few such points; no model call

# --- info of SMC ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SMCInfo(SamplerInfo):
    """What SMC reports; where draws from the prior or around modes were enough, there were no islands.

    Parameters
    ----------
    sites, looks : int, optional
        Distinct modes that all searches found, and the number of independent runs of adaptive importance sampling.
    islands, rounds : int, optional
        Islands of the tempered run, and how often as many were run.
    sweeps, acceptance, memory : tuple, optional
        For each rung (temperature): sweeps, their acceptance rate, and the correlation left with the start.
    climbed : tuple of float, optional
        All rungs, where a goal was missed and eta went back below the last of them.
    """

    sampler: str = "SMC"
    sites: int | None = None
    looks: int | None = None
    islands: int | None = None
    rounds: int | None = None
    sweeps: tuple[int, ...] | None = None
    acceptance: tuple[float, ...] | None = None
    memory: tuple[float, ...] | None = None
    climbed: tuple[float, ...] | None = None

    @property
    def advice(self) -> str:
        """What to do about too few draws."""
        return "raise n_draws of the sampler, widen the prior, lower eta, or ask for less"

    @property
    def runs(self) -> str:
        """Number of islands and rungs."""
        if self.islands is None:
            return ""
        rungs = len(self.sweeps or ())
        return f"{self.islands} islands over {rungs} rung{'s' if rungs != 1 else ''}"

    @property
    def kind_of_run(self) -> str:
        """Name of several runs."""
        return "islands"

    @property
    def tempered(self) -> bool:
        """Whether there were islands."""
        return self.islands is not None


# --- importance sampling ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImportanceInfo(SamplerInfo):
    """What importance sampling reports."""

    sampler: str = "Importance"

    @property
    def scope(self) -> str:
        """Without a search, regions that no candidate has met are unknown."""
        return ", as far as the weights can tell"

    @property
    def advice(self) -> str:
        """What to do about too few draws."""
        return "use gbce.SMC(), raise n_candidates, widen the prior, lower eta, or ask for less"


@dataclass(frozen=True)
class Importance:
    """Importance sampling: prior draws weighted by ``exp(-potential)``, resampled with replacement.

    Parameters
    ----------
    n_candidates : int
        Points drawn from the prior and evaluated by the model, N_cand.
    n_draws : int
        Draws resampled from them, N_samp.

    Examples
    --------
    >>> Importance(n_candidates=500, n_draws=100)
    Importance(n_candidates=500, n_draws=100)
    """

    n_candidates: int = N_CANDIDATES
    n_draws: int = N_DRAWS

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "n_draws")

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Run Algorithm 1: one model call per model, up to its batch limit."""
        pool = draw_candidates(posterior, rng, self.n_candidates)
        info = ImportanceInfo(complete=len(pool) == self.n_candidates)
        return weigh_candidates(posterior, pool, info).resample(rng, self.n_draws)


def weigh_candidates(posterior: GibbsPosterior, pool: Points, info: SamplerInfo) -> Draws:
    """Weight prior draws at the given eta, or at the one that meets the goal."""
    mixture = posterior.mixture
    if posterior.goal is not None:
        flat = Draws.weigh(pool, replace(mixture, eta=0.0), posterior.prior)
        eta, met = solve_eta(flat, mixture, posterior.goal)
        mixture, info = replace(mixture, eta=eta), replace(info, goal_met=met)
    return Draws.weigh(pool, mixture, posterior.prior, info=info)


def draw_candidates(posterior: GibbsPosterior, rng: np.random.Generator, n: int) -> Points:
    """Draw ``n`` points from the prior's map, and evaluate as many as the budget allows."""
    z = posterior.prior.draw(rng, n)
    parts: list[Points] = []
    try:
        for some in posterior.portions(n):
            parts.append(Points.evaluate(posterior, z[some]))
    except BudgetSpentError:  # time ran out earlier than foreseen: return what there is
        if not parts and posterior.budget.deadline is None:
            raise
    if not parts and posterior.budget.deadline is not None:
        parts = _evaluate_one_batch(posterior, z)
    if not parts:
        raise BudgetSpentError("the budget does not allow a single candidate: raise max_model_rows or time_budget")
    return parts[0] if len(parts) == 1 else Points.join(parts)


def _evaluate_one_batch(posterior: GibbsPosterior, z: Array) -> list[Points]:
    """Evaluate one batch in the total time that is left: without candidates nothing can follow."""
    full = replace(posterior, budget=posterior.budget.outermost)
    size = min(posterior.budget.rows_left, len(z), full.budget.batch(len(z), full.panel.load))
    return [Points.evaluate(full, z[:size])] if full.budget.time_left > 0 and size > 0 else []
