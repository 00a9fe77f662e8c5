"""Judge how well a posterior was sampled, and summarise the pool of evaluated points before it is dropped."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from gbce._numerics import ENOUGH_ESS, MAX_PARETO_K, PRINTED_Z_95, ROUNDS_TO_ZERO, weighted_quantiles
from gbce.base import Array
from gbce.draws import PRIOR_LEVELS, Draws, PoolRecord, SamplerInfo
from gbce.metrics._distributional import figures, importance
from gbce.metrics._pointwise import costs
from gbce.posterior import Mixture
from gbce.space import Space

GOOD_ESS = 400.0  # Vehtari et al. (2021): from 400 on, errors of means and quantiles are reliable themselves
# Vehtari et al. (2021) recommend 1.01 for long chains. Chains here start at draws of the posterior, are many and short
# (100 states after warm-up by default), and their split R-hat exceeds 1.01 by chance even from a perfect start; Gelman
# and Rubin's (1992) 1.1 separates chains that do not mix from those that do.
MAX_R_HAT = 1.1
MOSTLY = 0.5  # share of the draws that reach the target; below it most of them are not counterfactuals
MAX_EVIDENCE_ERROR = 0.5  # of the log: beyond it, evidences that differ by a factor of 3 cannot be distinguished
# Points that are kept though not drawn, for rules that consider every evaluated point; per number of changed features,
# chosen by hand.
_BEST_EACH = 10  # of least objective, and of least loss
_NEAREST_EACH = 5  # that reach the target, by each distance
_MOST_CHANGES = 20  # larger numbers of changes are pooled

# --- sampling quality ------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """How far to trust the draws."""

    TRUSTWORTHY = "trustworthy"
    CARE = "use with care"
    NOT_SAMPLED = "not sampled"
    NOT_FINISHED = "not finished"

    def __repr__(self) -> str:
        return repr(self.value)


class Judgement(NamedTuple):
    """A verdict, and a sentence with its reason and what to do."""

    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Diagnosis:
    """Figures of how well a posterior was sampled.

    The free energy ``-log E_prior[exp(-potential)]`` equals the expected potential plus the divergence of the posterior
    from the prior (Donsker and Varadhan; the appendix of the paper). ``ess_worst`` is the effective sample size of the
    figure on which runs agree least, named by ``ess_worst_of``; ``pareto_k``, the tail shape of the weights, is NaN for
    independent runs, whose errors need no such check; ``rungs`` are temperatures; ``exact`` figures are sums over all
    cells, without Monte Carlo error, and come with independent draws.
    """

    info: SamplerInfo
    ess: float
    ess_worst: float
    ess_worst_of: str
    pareto_k: float
    n_draws: int
    n_distinct: int
    n_evaluated: int
    log_evidence: float
    log_evidence_se: float
    free_energy: float
    expected_potential: float
    divergence_from_prior: float
    rungs: tuple[float, ...]
    exact: bool = False

    @classmethod
    def of(cls, draws: Draws, mixture: Mixture, free: tuple[str, ...]) -> "Diagnosis":
        """Compute the diagnosis of draws; ``free`` names the latent coordinates."""
        record = draws.record
        expected = _expect_potential(draws, mixture) if record is None else record.expected_potential
        if draws.exact is not None:
            expected = draws.exact.expected_potential
        worst, which = draws.worst_ess
        return cls(
            info=draws.info,
            ess=draws.ess,
            ess_worst=worst,
            ess_worst_of=(*free, "the loss", "the distance")[which],
            pareto_k=draws.pareto_k,
            n_draws=len(draws),
            n_distinct=len(draws.distinct[0]),
            n_evaluated=len(draws.pool) if record is None else record.n_evaluated,
            log_evidence=draws.log_evidence,
            log_evidence_se=draws.log_evidence_se,
            free_energy=-draws.log_evidence,
            expected_potential=expected,
            divergence_from_prior=max(-draws.log_evidence - expected, 0.0),
            rungs=draws.rungs,
            exact=draws.exact is not None,
        )

    def entries(self) -> dict[str, Any]:
        """Return the fields and the sampler's own report as plain data by name."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "info"}
        own = own if self.exact else {name: value for name, value in own.items() if name != "exact"}
        return {"sampler": self.info.sampler, **own, **self.info.entries()}

    def judge(self) -> Judgement:
        """Return whether to trust the draws, and what to do if not."""
        if not self.info.draws_posterior:
            return _build_judgement(Verdict.NOT_SAMPLED, f": {self.info.undrawn}; {self.info.advice}")
        if not self.info.complete:
            why, what = self.info.ended or "the budget ran out", "allow more rows or time"
            what = what if self.info.ended is None else "ask for less, or widen the prior or the bounds"
            ended = f"{why} at eta = {self.rungs[-1]:g}, with {self._describe_ess}; {what}"
            return _build_judgement(Verdict.NOT_FINISHED, f": {ended}")
        if self.exact and self.info.doubt is None:
            cells = self.info.entries().get("cells")
            over = f" over {cells:,} cells" if cells is not None else ""
            drawn = f"the expected distance is that of {self.n_draws:,} independent draws"
            return _build_judgement(Verdict.TRUSTWORTHY, f": figures are exact sums{over}; {drawn}")
        if self.ess < ENOUGH_ESS:
            return _build_judgement(Verdict.NOT_SAMPLED, f": only {self._describe_ess}; {self.info.advice}")
        reasons = self._list_reasons()
        if reasons:
            return _build_judgement(Verdict.CARE, f", because {reasons[0]}; {self.info.advice}")
        detail = f"Pareto k {self.pareto_k:.2f}" if np.isfinite(self.pareto_k) else ""
        if self.info.r_hat is not None:
            detail = f"R-hat {self.info.r_hat:.3f}"
        if self.info.tempered:
            detail = f"log evidence within {PRINTED_Z_95 * self.log_evidence_se:.2f}"
        why = f"{self.info.scope}: {self._describe_ess}"
        return _build_judgement(Verdict.TRUSTWORTHY, why + (f", {detail}" if detail else ""))

    @property
    def _describe_ess(self) -> str:
        """The number of effective draws and their origin, in words."""
        count = f"{self.ess:,.0f} effective draws"
        return f"{count} from {self.info.runs}" if self.info.runs else f"{count} out of {self.n_evaluated:,} candidates"

    def _list_reasons(self) -> list[str]:
        """Return reasons for care, the gravest first."""
        r_hat = 1.0 if self.info.r_hat is None else self.info.r_hat
        reasons = [
            (self.info.doubt is not None, str(self.info.doubt)),
            (r_hat > MAX_R_HAT, f"the chains have not mixed (R-hat {r_hat:.2f})"),
            (
                self.ess_worst < ENOUGH_ESS,
                f"the {self.info.kind_of_run} disagree on {self.ess_worst_of} ({self.ess_worst:,.0f} effective draws)",
            ),
            (
                self.log_evidence_se > MAX_EVIDENCE_ERROR,
                f"the log evidence is uncertain by {self.log_evidence_se:.1f}",
            ),
            (
                self.pareto_k > MAX_PARETO_K,
                f"few candidates carry most of the weight (Pareto k {self.pareto_k:.2f})",
            ),
            (self.ess < GOOD_ESS, f"there are only {self._describe_ess}"),
        ]
        return [reason for holds, reason in reasons if holds]


def _expect_potential(draws: Draws, mixture: Mixture) -> float:
    """Return the posterior expectation of the potential."""
    counted = draws.pool_weights > 0
    return float(draws.pool_weights[counted] @ mixture.potential(draws.pool.loss[counted]))


def _build_judgement(verdict: Verdict, why: str) -> Judgement:
    """Return a judgement whose sentence begins with the verdict."""
    return Judgement(verdict, f"{verdict}{why}")


def describe_posterior(judged: Judgement, success: float, remedy: str = "") -> str:
    """Return one sentence on the draws: the share that reaches the target, and how well they were sampled.

    If most draws miss the target, it says so, with the ``remedy`` if there is one. If they were not sampled, that comes
    first.

    Examples
    --------
    >>> judged = Judgement(Verdict.TRUSTWORTHY, "trustworthy: 900 effective draws out of 9,000 candidates")
    >>> describe_posterior(judged, 0.9)
    '90% of the draws reach the target; well sampled (trustworthy: 900 effective draws out of 9,000 candidates)'
    >>> describe_posterior(judged, 0.32).split(";")[0]
    'only 32% of the draws reach the target, so most of them are not counterfactuals'
    """
    share = "less than 1%" if 0 < success < ROUNDS_TO_ZERO else f"{success:.0%}" if success else "none"
    verdict, sentence = judged
    if verdict in (Verdict.NOT_SAMPLED, Verdict.NOT_FINISHED):
        return f"{sentence} (of what was drawn, {share} reaches the target)"
    reach = f"{share} of the draws reach the target"
    if success < MOSTLY:
        which = "most of them" if success else "they"
        reach = f"{'only ' * (success >= ROUNDS_TO_ZERO)}{reach}, so {which} are not counterfactuals"
        reach += f": {remedy}" if remedy else ""
    return f"{reach}; well sampled ({sentence})" if verdict == Verdict.TRUSTWORTHY else f"{reach}; {sentence}"


# --- pool of evaluated points ----------------------------------------------------------------------------------------


def signed_changes(space: Space, x: Array, x0: Array, columns: slice = slice(None)) -> Array:
    """Return signed changes ``(n, d)`` from the row in units of scale; a changed category counts as +1."""
    x, x0 = x[:, columns], x0[columns]
    unordered = np.array([feature.unordered for feature in space.features[columns]])
    with np.errstate(invalid="ignore"):
        side = np.where(unordered | np.isnan(x - x0), 1.0, np.sign(x - x0))
    return np.asarray(side * space.change(x, x0, columns=columns) / space.scale[columns])


def prior_shares(draws: Draws, space: Space, j: int) -> Array:
    """Return the prior probability of each level of feature ``j``, and last of a missing value."""
    if draws.record is not None:
        return draws.record.prior_shares[j]
    n, x = len(space.features[j].levels or ()), draws.pool.x[:, j]
    codes = np.where(np.isnan(x), n, x).astype(int)
    return np.bincount(codes, draws.prior_weights, minlength=n + 1)


def prior_moves(draws: Draws, space: Space, x0: Array, j: int, levels: Sequence[float] | Array) -> Array:
    """Return prior quantiles ``(q,)`` of the signed change of feature ``j``; for a category, its change probability."""
    if draws.record is not None:
        return _interpolate(draws.record.prior_moves[:, j], np.asarray(levels))
    moves, weights = signed_changes(space, draws.pool.x, x0, slice(j, j + 1))[:, 0], draws.prior_weights
    if space.features[j].unordered:
        return np.full(len(levels), weights @ moves)
    return weighted_quantiles(moves, weights, np.asarray(levels))


def _interpolate(kept: Array, levels: Array) -> Array:
    """Interpolate stored quantiles at other levels, exact at those that were stored."""
    near = np.abs(PRIOR_LEVELS[:, None] - levels).argmin(axis=0)
    return np.where(np.isclose(PRIOR_LEVELS[near], levels), kept[near], np.interp(levels, PRIOR_LEVELS, kept))


def drop_pool(
    draws: Draws,
    mixture: Mixture,
    space: Space,
    x0: Array,
    alpha: float,
    models: tuple[str, ...],
    free: tuple[str, ...],
) -> Draws:
    """Return the draws with the points that rules may choose, and a record of what else tables and plots need."""
    if draws.record is not None:
        return draws
    found = figures(draws, space, x0, alpha, models)
    moved, diagnosis = importance(draws, space, x0), Diagnosis.of(draws, mixture, free)
    worst, worst_of = draws.worst_ess
    record = PoolRecord(
        n_evaluated=len(draws.pool),
        ess=draws.ess,
        worst_ess=worst,
        worst_of=worst_of,
        pareto_k=diagnosis.pareto_k,
        expected_potential=diagnosis.expected_potential,
        figures=tuple(
            (name.measure, name.model, one.value, one.se, *(one.interval or (None, None)))
            for name, one in found.items()
        ),
        change=moved["change"].to_numpy(),
        change_se=moved["se"].to_numpy(),
        prior_shares=tuple(
            prior_shares(draws, space, j) if feature.levels is not None else np.zeros(0)
            for j, feature in enumerate(space.features)
        ),
        prior_moves=np.column_stack([prior_moves(draws, space, x0, j, PRIOR_LEVELS) for j in range(len(space))]),
    )
    return draws.drop_pool(record, _select_notable(draws, mixture, space, x0))


def _select_notable(draws: Draws, mixture: Mixture, space: Space, x0: Array) -> Array:
    """Return positions of points that a rule may choose though they were not drawn."""
    pool = draws.pool
    fits = np.isfinite(pool.log_correction)
    changed = np.minimum(space.changed(pool.x, x0).sum(axis=1), _MOST_CHANGES)
    rankings = (mixture.objective(pool.loss, pool.cost), pool.loss[:, 0])
    nearness = tuple(costs(space, pool.x, x0, distance) for distance in ("l1", "l2"))
    chosen = []
    for n in np.unique(changed[fits]):
        own = fits & (changed == n)
        chosen += [_take_smallest(ranking, own, _BEST_EACH) for ranking in rankings]
        for reached in (pool.reached[:, 0], pool.reached.all(axis=1)):
            chosen += [_take_smallest(cost, own & reached, _NEAREST_EACH) for cost in nearness]
    return np.unique(np.concatenate([np.zeros(0, dtype=int), *chosen]))


def _take_smallest(values: Array, among: Array, n: int) -> Array:
    """Return the positions of the ``n`` smallest values in a mask."""
    where = np.flatnonzero(among)
    return where[np.argsort(values[where], kind="stable")[:n]]
