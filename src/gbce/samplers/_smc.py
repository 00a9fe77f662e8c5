"""Search first, then sample: draws from the prior or around what a search found, tempered where that is not enough."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np

from gbce._validation import is_count, is_number, require_counts
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, SamplerInfo
from gbce.posterior import GibbsPosterior
from gbce.samplers._importance import N_DRAWS, SMCInfo, candidates, weigh_candidates
from gbce.samplers._islands import LEAST_ISLANDS, Islands
from gbce.samplers._search_first import SearchFirst
from gbce.samplers._starts import Starts

__all__ = ["SMC", "SMCInfo", "SearchOnly"]

# --- search first, then sample ---------------------------------------------------------------------------------------

_FIRST_LOOK = 3_000  # candidates of the prior; enough for the default precision where a third of them counts
_QUICK = 0.05  # precision of a first look
_PICKING = 1.5  # times the effective draws that the precision asks of the pool, because picking draws adds error
_CANDIDATES_SHARE = 0.5  # of a budget; the other half is for searching and for moving points
_DIFFERENT = 0.55  # of n_draws: with fewer different candidates among the draws, they are picked evenly; by hand
# Rows of a usual explanation with the options below: 22,000 to 44,000 on eighteen questions (docs/benchmarks.md).
# Larger options ask for more, in proportion.
_USUAL_ROWS = 40_000
_LARGEST_WEIGHT = 1 - 1e-9  # so that the logarithm of what is left is finite


@dataclass(frozen=True)
class SMC:
    """Search for places of low objective, draw around them, and temper where that does not carry the posterior.

    Candidates of the prior come first. Two independent searches, from training rows that reach the target, from the
    best candidates and from the row, look for places that these miss. Where the candidates carry the posterior and
    nothing was missed, they are the answer, with the weights of Algorithm 1. More of them are drawn where that is
    cheaper than what follows; beside so many that nothing can be missed there is one search. Otherwise each search puts
    normal laws around what it found, and the product of the marginals beside them, learns how wide they have to be, and
    draws afresh, weighed by the whole mixture.
    Draws of two such looks are the answer if hardly any mass is covered by one of them only; if not, or if a few draws
    carry most of the weight, another look is taken, unless looks have taken too many rows.
    Where no laws fit, the candidates are tempered: eta is approached
    in rungs, at which points are resampled and moved.

    Parameters
    ----------
    n_candidates : int
        Points drawn from the prior and shown to the model first.
    n_draws : int
        Draws in the end, and points that are moved together.
    n_islands : int
        Tempered runs that share their temperatures but not their points; the errors of all figures are those between
        them. Fewer where an island would have less than 25 points.
    max_sweeps : int
        Most moves of all points on one rung.
    max_rounds : int
        Most runs of all islands from one start: where they disagree, as many more are sent up, to the same
        temperatures. Where that was needed, all is run again from a better start, normal laws fitted to what was found
        and weighed by their density, unless ``max_rounds`` is 1.
    landmarks : bool
        Whether searches also begin at training rows that reach the target.
    max_looks : int
        Most independent looks; with 0 there is no search, and what candidates do not carry is tempered.
    precision : float or "quick"
        Standard error of a success probability of one half that the draws are to have: the size of a run. ``"quick"``
        is 0.05, for a first look.

    Examples
    --------
    >>> SMC(precision="quick").n_draws
    2000
    """

    n_candidates: int = _FIRST_LOOK
    n_draws: int = N_DRAWS
    n_islands: int = 8  # chosen by hand: fewer make errors between them vague, more leave each with few points
    max_sweeps: int = 50  # against points that never forget where they were; chosen by hand
    max_rounds: int = 3  # chosen by hand; then a better start is fitted
    landmarks: bool = True
    _: KW_ONLY
    max_looks: int = 6  # chosen by hand: the second one confirms the first, further ones are for when it does not
    precision: float | Literal["quick"] = 0.02

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "n_draws", "n_islands", "max_sweeps", "max_rounds")
        if self.n_islands < LEAST_ISLANDS:
            raise ValueError("SMC: n_islands must be at least 2, because errors are those between islands")
        if not is_count(self.max_looks, least=0) or self.max_looks == 1:
            raise ValueError(
                f"SMC: max_looks must be 0 or at least 2, so that looks can be compared, not {self.max_looks!r}"
            )
        quick = isinstance(self.precision, str) and self.precision == "quick"
        if not quick and not (is_number(self.precision) and 0 < float(self.precision) <= 0.5):
            raise ValueError(f'SMC: precision must be above 0 and at most 0.5, or "quick", not {self.precision!r}')

    @property
    def searches(self) -> bool:
        """Whether it begins at rows of the data, so that models have to be asked about some of them."""
        return self.max_looks > 0 and self.landmarks

    @property
    def usual_rows(self) -> int:
        """Rows that a usual explanation with these options shows to each model."""
        usual, more = SMC(), _USUAL_ROWS * max(1.0, self.n_effective / SMC().n_effective)
        for name in ("n_candidates", "n_draws", "n_islands", "max_sweeps", "max_rounds", "max_looks"):
            more *= max(1.0, getattr(self, name) / getattr(usual, name))
        return round(more)

    @property
    def n_effective(self) -> float:
        """Effective draws that the precision asks for."""
        precision = _QUICK if isinstance(self.precision, str) else float(self.precision)
        return _PICKING * 0.25 / precision**2

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw: one model call for all candidates, a few dozen for the searches, one for each round of draws."""
        share = replace(posterior, budget=posterior.budget.share(_CANDIDATES_SHARE))
        first = candidates(share, rng, self.n_candidates)
        known = posterior if self.landmarks else replace(posterior, landmarks=None)
        islands = Islands(self.n_draws, self.n_islands, self.max_sweeps, self.max_rounds)
        complete = len(first) == self.n_candidates
        run = SearchFirst(known, rng, first, complete, self.n_effective, self.max_looks, islands)
        draws = run.draw_for_goal() if posterior.goal is not None else run.draw()
        return draws.resample(rng, self.n_draws, apart=draws.groups is None and self._repeats(draws))

    def _repeats(self, plain: Draws) -> bool:
        """Whether draws picked one by one are expected to repeat the same few candidates."""
        different = -np.expm1(self.n_draws * np.log1p(-np.minimum(plain.pool_weights, _LARGEST_WEIGHT))).sum()
        return bool(different < _DIFFERENT * min(self.n_draws, len(plain.pool)))


# --- a search without a posterior ------------------------------------------------------------------------------------

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
        seen, modes = _search(replace(posterior, mixture=replace(posterior.mixture, eta=draws.rungs[-1])), rng, pool)
        info = SearchOnlyInfo(complete=complete, goal_met=draws.info.goal_met, sites=modes)
        return replace(draws, seen=seen, info=info).resample(rng, self.n_draws)


def _search(posterior: GibbsPosterior, rng: np.random.Generator, pool: Points) -> tuple[Points | None, int | None]:
    """Return the best points of a search, and how many sites it found; nothing that the budget does not allow."""
    starts = None
    try:
        starts = Starts(posterior, rng, pool)
        modes = len(starts.search(components=False).neg_log_density)
    except BudgetSpentError:
        return None if starts is None else starts.memory.kept, None
    return starts.memory.kept, modes
