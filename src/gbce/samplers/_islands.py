"""Tempered SMC in several islands: repeated while islands disagree, and rerun from a proposal fitted to the result."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points
from gbce.eta import solve_eta
from gbce.posterior import GibbsPosterior
from gbce.samplers._coverage import Coverage
from gbce.samplers._importance import SMCInfo, draw_candidates
from gbce.samplers._proposals import fit_proposal
from gbce.samplers._tempering import (
    Bridge,
    Population,
    StallDetector,
    TemperingPass,
    log_density,
    recycle,
    run_tempering,
)

__all__ = ["LEAST_ISLANDS", "Islands", "Run"]

LEAST_ISLANDS = 2  # to estimate an error between them
_LEAST_ISLAND = 25  # points of an island: with fewer there is little to resample (by hand)
# Islands agree if the effective sample size, over all figures and for the worst, is at least these shares of n_draws,
# and the error of the log evidence at most this. Chosen by hand: 0.22 of the default 2,000 draws is a little above the
# 400, and 0.45 a little below the 0.5, at which the verdict on the draws asks for care.
_AGREED, _AGREED_WORST, _AGREED_EVIDENCE = 0.22, 0.05, 0.45
_MAX_PROPOSALS = 4  # reruns from a start fitted to earlier runs (by hand)
# Variance of the mean evidence relative to independent islands, as islands adapt moves to each other: 1.29 and 1.34 in
# two cases over 500 seeds each (docs/benchmarks.md).
_EVIDENCE_INFLATION = 1.3
_FORESEEN = 50  # sweeps: with fewer rows than these need, fewer points are moved (by hand)


class Run(NamedTuple):
    """A tempered run: its draws and their coverage."""

    draws: Draws
    coverage: Coverage

    @property
    def info(self) -> SMCInfo:
        """The info of the run."""
        assert isinstance(self.draws.info, SMCInfo)
        return self.draws.info


@dataclass(frozen=True)
class Islands:
    """Options of tempered runs, as in :class:`gbce.SMC`."""

    n_draws: int
    n_islands: int
    max_sweeps: int
    max_rounds: int

    def reduce(self, share: float) -> "Islands":
        """Return the options for one round with a share of the points and sweeps."""
        return Islands(round(share * self.n_draws), self.n_islands, max(round(share * self.max_sweeps), 1), 1)

    def temper(
        self,
        posterior: GibbsPosterior,
        rng: np.random.Generator,
        bridge: Bridge,
        first: Points,
        unreached: StallDetector | None = None,
    ) -> Run:
        """Temper all islands to the end of the bridge, and add more while they disagree; see :func:`run_tempering`."""
        n_moved = self._affordable_points(posterior)
        n_islands = max(LEAST_ISLANDS, min(self.n_islands, n_moved // _LEAST_ISLAND, len(first) // 2))
        start = _assign_islands(first, n_islands)
        done = run_tempering(posterior, rng, bridge, start, n_moved, self.max_sweeps, unreached=unreached)
        run = self._weigh(posterior, bridge, done)
        levels = [rung.level for rung in done.rungs[1:]]
        while done.complete and done.rounds < self.max_rounds and not self.agree(run.draws):
            again = draw_start_if_affordable(posterior, rng, bridge, len(first))
            if again is None:
                break
            more = run_tempering(
                posterior, rng, bridge, _assign_islands(again, n_islands), n_moved, self.max_sweeps, levels
            )
            if not more.complete:  # the budget ran out: keep the result so far
                break
            done = done.join(more)
            run = self._weigh(posterior, bridge, done)
        return run

    def rerun_from_fit(self, posterior: GibbsPosterior, rng: np.random.Generator, runs: Sequence[Run], n: int) -> Run:
        """Run again from a proposal fitted to earlier runs, unless the islands of each agreed at once.

        Islands that agree only after more were added may do so because of the stopping rule: a mode that few of them
        find has too little mass until one of them does, and too much from then on.
        """
        fade = runs[-1].draws.rungs[-1]
        if self.max_rounds == 1 or not runs[-1].info.complete or fade == 0:
            return runs[-1]
        for number in range(_MAX_PROPOSALS):
            if all(run.info.rounds == 1 and self.agree(run.draws) for run in runs):
                break
            if posterior.budget.deadline is not None and posterior.affords(n) < n:
                break  # before time goes into a proposal that cannot be used
            proposal = fit_proposal([run.draws for run in runs], rng, posterior.mixture, posterior.prior.mass)
            bridge = Bridge(posterior.mixture, proposal, fade)
            first = draw_start_if_affordable(posterior, rng, bridge, n)
            found = None if first is None else self.temper(posterior, rng, bridge, first)
            if found is None or not found.info.complete:  # the budget ran out: keep the result so far
                break
            runs = [Run(replace(found.draws, info=replace(found.info, guides=number + 1)), found.coverage)]
        return runs[-1]

    def agree(self, draws: Draws) -> bool:
        """Whether the islands agree well enough on figures and on the evidence."""
        figures = draws.ess >= _AGREED * self.n_draws and draws.worst_ess[0] >= _AGREED_WORST * self.n_draws
        return figures and draws.log_evidence_se <= _AGREED_EVIDENCE

    def _affordable_points(self, posterior: GibbsPosterior) -> int:
        """Return the number of points to move: fewer where few rows are left, because eta must be reached first."""
        rows = posterior.affords(_FORESEEN * self.n_draws)
        return min(self.n_draws, max(rows // _FORESEEN, 2 * _LEAST_ISLAND))

    def _weigh(self, posterior: GibbsPosterior, bridge: Bridge, done: TemperingPass) -> Run:
        """Weight the points of all rungs at the eta that was given, found or reached."""
        pool, base, island = recycle(done.rungs, bridge)
        mixture, prior = replace(posterior.mixture, eta=max(done.top, 0.0)), posterior.prior
        rungs = tuple(rung.level for rung in done.rungs if rung.level > 0)
        info = _make_info(done)
        draws = Draws.weigh(
            pool,
            mixture,
            prior,
            log_base_weights=base,
            groups=island,
            rungs=rungs,
            info=info,
            evidence_inflation=_EVIDENCE_INFLATION,
        )
        if posterior.goal is not None:
            eta, met = solve_eta(draws, mixture, posterior.goal, mixture.eta)
            # where the goal is missed, eta may lie far below the top: known points are compared on all rungs up to it
            info = replace(info, goal_met=met, climbed=None if met else rungs)
            draws = replace(draws, info=info).reweigh(replace(mixture, eta=eta))
        elif not rungs or rungs[-1] < mixture.eta:
            draws = replace(draws, rungs=(*rungs, mixture.eta))
        return Run(draws, Coverage(pool, lambda points: log_density(done.rungs, bridge, points), base))


def draw_start_if_affordable(
    posterior: GibbsPosterior, rng: np.random.Generator, bridge: Bridge, n: int
) -> Points | None:
    """Return ``n`` fresh points of the bridge's initial distribution, or ``None`` if they cannot be afforded."""
    if posterior.affords(n) < n:
        return None
    try:
        return _draw_start(posterior, rng, bridge, n)
    except BudgetSpentError:  # time ran out earlier than foreseen
        return None


def _draw_start(posterior: GibbsPosterior, rng: np.random.Generator, bridge: Bridge, n: int) -> Points | None:
    """Draw from the prior, or from the prior and the proposal in the shares of the initial distribution."""
    if bridge.proposal is None:
        return draw_candidates(posterior, rng, n)
    # prior draws that broke a constraint count for the share, but not for n
    share, mass = bridge.proposal.share, posterior.prior.mass
    n_components = min(round(n * share / (share + mass * (1 - share))), n - 1)
    around = Points.evaluate(posterior, bridge.proposal.draw(rng, n_components))
    around = around.take(np.isfinite(around.log_correction))  # drop those that break a constraint
    plain = (
        draw_candidates(posterior, rng, n - n_components)
        if posterior.affords(n - n_components) == n - n_components
        else None
    )
    if plain is None or len(plain) < n - n_components:  # time ran out, and the share would not be right
        return None
    return Points.join([plain, around])


def _assign_islands(first: Points, n_islands: int) -> Population:
    """Return the first population, dealt out to the islands."""
    return Population(first, np.arange(len(first)) % n_islands, -1.0, np.zeros(n_islands))


def _make_info(done: TemperingPass) -> SMCInfo:
    """Return the info of a tempering pass."""
    return SMCInfo(
        complete=done.complete,
        islands=len(done.rungs[0].log_z),
        rounds=done.rounds,
        sweeps=tuple(done.sweeps),
        acceptance=tuple(done.acceptance),
        memory=tuple(done.memory),
        ended=done.ended,
    )
