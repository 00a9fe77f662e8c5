"""The default sampler, SMC, and a mode search without a posterior."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np

from gbce._validation import is_count, is_number, require_counts
from gbce.budget import BudgetSpentError
from gbce.draws import Covering, Draws, Points, SamplerInfo
from gbce.posterior import GibbsPosterior
from gbce.samplers._importance import N_DRAWS, draw_candidates, weigh_candidates
from gbce.samplers._islands import LEAST_ISLANDS, Islands
from gbce.samplers._search_first import SearchFirst
from gbce.samplers._starts import Starts
from gbce.trees import read_models

_FIRST_CANDIDATES = 3_000  # prior draws; enough for the default precision where a third of them counts
_QUICK = 0.05  # precision of a first result
_PICKING = 1.5  # times the effective sample size that the precision requires, because resampling adds error
_CANDIDATES_SHARE = 0.5  # of a budget; the other half is for searching and for moving points
_DIFFERENT = 0.55  # of n_draws: with fewer distinct candidates among the draws, resampling is even; by hand
# Rows of a usual explanation with the default options: 19,000 to 52,000 on eighteen questions (docs/results/rows.csv).
# Larger options take more, in proportion.
_USUAL_ROWS = 40_000
_LARGEST_WEIGHT = 1 - 1e-9  # so that the log of the rest is finite
# Chosen by hand: on eighteen questions of benchmarks/rows.py answers cost as much as with two or three thousand
# candidates, and 6% less than with 500.
_CANDIDATES = 1_000
_SHARE_OF_FEW = 0.2  # of the rows for sampling, where they are few: to show the model's outputs around the row
_DRAWS = 500  # half of the candidates: more would be the same ones again

# --- SMC --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SMC:
    """Importance sampling around modes found by optimisation, and tempered SMC where that is not enough.

    (1) Prior draws are weighted as in Algorithm 1. Two independent mode searches, from training rows that reach the
    target, from the best prior draws and from the row, check whether they miss any mode; if not, they are the result.
    (2) Otherwise each search places a mixture of normals at its modes, with the product of the marginals beside them,
    adapts it, and draws afresh, weighted by the whole mixture. Two such runs are the result if hardly any mass is
    covered by only one of them; if not, or if a few draws carry most of the weight, further runs follow, within limits.
    (3) Where no mixture fits, prior draws are tempered: eta is approached in rungs (temperatures), on each of which
    points are resampled and moved.

    Parameters
    ----------
    n_candidates : int
        Points drawn from the prior and evaluated first.
    n_draws : int
        Draws in the end, and points that are moved together.
    n_islands : int
        Tempered runs that share their temperatures but not their points; the errors of all figures are those between
        them. Fewer where an island would have less than 25 points.
    max_sweeps : int
        Most sweeps of all points on one rung.
    max_rounds : int
        Most rounds of all islands: where they disagree, as many more are run at the same temperatures. Draws for which
        that was needed are to be used with care.
    landmarks : bool
        Whether searches also begin at training rows that reach the target.
    max_looks : int
        Most independent runs of adaptive importance sampling; with 0 there is no search, and tempering follows (1).
    precision : float or "quick"
        Standard error that a success probability of one half is to have: the size of a run. ``"quick"`` is 0.05, for a
        first result.

    Examples
    --------
    >>> SMC(precision="quick").n_draws
    2000
    """

    n_candidates: int = _FIRST_CANDIDATES
    n_draws: int = N_DRAWS
    n_islands: int = 8  # chosen by hand: fewer make errors between them vague, more leave each with few points
    max_sweeps: int = 50  # for points that never decorrelate; chosen by hand
    max_rounds: int = 3  # chosen by hand
    landmarks: bool = True
    _: KW_ONLY
    max_looks: int = 6  # chosen by hand: the second one confirms the first, further ones are for when it does not
    precision: float | Literal["quick"] = 0.02

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "n_draws", "n_islands", "max_sweeps", "max_rounds")
        if self.n_islands < LEAST_ISLANDS:
            raise ValueError("SMC: n_islands must be at least 2, because errors are estimated between islands")
        if not is_count(self.max_looks, least=0) or self.max_looks == 1:
            raise ValueError(
                f"SMC: max_looks must be 0 or at least 2, so that runs can be compared, not {self.max_looks!r}"
            )
        quick = isinstance(self.precision, str) and self.precision == "quick"
        if not quick and not (is_number(self.precision) and 0 < float(self.precision) <= 0.5):
            raise ValueError(f'SMC: precision must be above 0 and at most 0.5, or "quick", not {self.precision!r}')

    @property
    def searches(self) -> bool:
        """Whether searches begin at training rows, so that some of them have to be evaluated."""
        return self.max_looks > 0 and self.landmarks

    @property
    def usual_rows(self) -> int:
        """Rows per model of a usual explanation with these options."""
        usual, more = SMC(), _USUAL_ROWS * max(1.0, self.n_effective / SMC().n_effective)
        for name in ("n_candidates", "n_draws", "n_islands", "max_sweeps", "max_rounds", "max_looks"):
            more *= max(1.0, getattr(self, name) / getattr(usual, name))
        return round(more)

    @property
    def n_effective(self) -> float:
        """Effective sample size that the precision requires."""
        precision = _QUICK if isinstance(self.precision, str) else float(self.precision)
        return _PICKING * 0.25 / precision**2

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw: one model call for all prior draws, a few dozen for the searches, one for each round of draws."""
        return self.sample_with_coverage(posterior, rng)[0]

    def sample_with_coverage(
        self, posterior: GibbsPosterior, rng: np.random.Generator
    ) -> tuple[Draws, Covering | None]:
        """Draw as :meth:`sample`, and return also what judges whether the draws have missed a point found later."""
        share = replace(posterior, budget=posterior.budget.share(_CANDIDATES_SHARE))
        first = draw_candidates(share, rng, self.n_candidates)
        known = posterior if self.landmarks else replace(posterior, landmarks=None)
        islands = Islands(self.n_draws, self.n_islands, self.max_sweeps, self.max_rounds)
        complete = len(first) == self.n_candidates
        run = SearchFirst(known, rng, first, complete, self.n_effective, self.max_looks, islands)
        draws = run.draw_for_goal() if posterior.goal is not None else run.draw()
        drawn = draws.resample(rng, self.n_draws, apart=draws.groups is None and self._repeats_draws(draws))
        return drawn, run.coverage

    def _repeats_draws(self, plain: Draws) -> bool:
        """Whether independent resampling is expected to repeat the same few candidates."""
        different = -np.expm1(self.n_draws * np.log1p(-np.minimum(plain.pool_weights, _LARGEST_WEIGHT))).sum()
        return bool(different < _DIFFERENT * min(self.n_draws, len(plain.pool)))


# --- search without a posterior ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchOnlyInfo(SamplerInfo):
    """What a search without a posterior reports.

    Parameters
    ----------
    sites : int, optional
        Distinct modes that the search found.
    few_rows : int, optional
        Model rows that were allowed, where these are too few for a posterior.
    unattainable : bool, optional
        Whether nothing was drawn because it was proved first that no row reaches the target.
    """

    sampler: str = "SearchOnly"
    sites: int | None = None
    few_rows: int | None = None
    unattainable: bool | None = None

    @property
    def undrawn(self) -> str:
        """Why there is no posterior."""
        if self.unattainable:
            return "no row can reach the target"
        if self.few_rows is None:
            return super().undrawn
        return f"{self.few_rows:,} model rows are too few for it"

    @property
    def draws_posterior(self) -> bool:
        """False: only an answer was wanted."""
        return False

    @property
    def advice(self) -> str:
        """What to do for a posterior."""
        if self.unattainable:
            return "widen the bounds, or ask for less"
        if self.few_rows is not None:
            return "allow more model rows, or none as a limit, to have the posterior"
        return "leave out posterior=False, or use gbce.SMC(), to have the posterior"


@dataclass(frozen=True)
class SearchOnly:
    """A few prior draws, and one mode search if none of them reaches the target: what an answer needs, and no more.

    Rules search from there by themselves. It is what ``explain(..., posterior=False)`` uses, with ``modes=True`` where
    there are refits. The prior draws have the weights of Algorithm 1, but they are few, and nothing shows that they
    cover the posterior: it counts as not sampled.

    Parameters
    ----------
    n_candidates : int
        Points drawn from the prior and evaluated first.
    n_draws : int
        Draws resampled from them.
    modes : bool
        Whether to search modes of a model that can only be called even if a candidate reaches. They lie inside of the
        target's region, where refits agree: answers that 24 refits of a linear model in 20 columns accept cost a
        quarter less on average when searched from there.

    Examples
    --------
    >>> SearchOnly()
    SearchOnly(n_candidates=1000, n_draws=500, modes=False)
    """

    n_candidates: int = _CANDIDATES
    n_draws: int = _DRAWS
    modes: bool = False

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "n_draws")

    @property
    def searches(self) -> bool:
        """True: searches begin at training rows, so that some of them have to be evaluated."""
        return True

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Weight prior draws, and search once, if it is needed, at the eta that was given or found."""
        read = read_models(posterior)
        few = read.has_few_rows
        n = int(_SHARE_OF_FEW * read.affords(self.n_candidates)) if few else self.n_candidates
        pool = draw_candidates(read, rng, max(n, 1))
        complete = few or len(pool) == self.n_candidates
        allowed = read.budget.root.max_rows if few else None
        draws = weigh_candidates(read, pool, SearchOnlyInfo(complete=complete, few_rows=allowed))
        if few:  # the rule that looks for the nearest point searches, with a surrogate
            return draws.resample(rng, self.n_draws)
        seen, modes = None, None
        called = any(one is own for one, own in zip(read.predictors, posterior.predictors, strict=True))
        if (self.modes and called) or not pool.reached[:, 0].any():
            seen, modes = _search_once(replace(read, mixture=replace(read.mixture, eta=draws.rungs[-1])), rng, pool)
        info = SearchOnlyInfo(complete=complete, goal_met=draws.info.goal_met, sites=modes)
        return replace(draws, seen=seen, info=info).resample(rng, self.n_draws)


def _search_once(posterior: GibbsPosterior, rng: np.random.Generator, pool: Points) -> tuple[Points | None, int | None]:
    """Return the best points of one search, and its number of modes, as far as the budget allows."""
    starts = None
    try:
        starts = Starts(posterior, rng, pool)
        modes = len(starts.search(components=False).neg_log_density)
    except BudgetSpentError:
        return None if starts is None else starts.memory.kept, None
    return starts.memory.kept, modes
