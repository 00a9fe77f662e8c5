"""Tempered runs of several islands: up to eta, again while they disagree, and from a better start where they did."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points
from gbce.eta import solve_eta
from gbce.posterior import GibbsPosterior
from gbce.samplers._coverage import Coverage
from gbce.samplers._importance import SMCInfo, candidates
from gbce.samplers._proposals import fit_proposal
from gbce.samplers._tempering import Bridge, Climb, Population, StallDetector, climb, log_density, recycle

__all__ = ["LEAST_ISLANDS", "Islands", "Run"]

LEAST_ISLANDS = 2  # to have an error between them
_LEAST_ISLAND = 25  # points of an island: with fewer there is little to resample (chosen by hand)
# When islands agree: effective draws over all figures, and for the worst of them, as shares of n_draws; and the error
# of the log evidence. Chosen by hand: 0.22 of the default 2,000 draws is a little above the 400, and 0.45 a little
# below the 0.5, at which the verdict on the draws asks for care.
_AGREED, _AGREED_WORST, _AGREED_EVIDENCE = 0.22, 0.05, 0.45
_MAX_PROPOSALS = 4  # runs from a start fitted to earlier ones (chosen by hand)
# Variance of the mean evidence against independent islands, which learn moves from each other: 1.29 and 1.34 in two
# cases over 500 seeds each (docs/benchmarks.md).
_EVIDENCE_INFLATION = 1.3
_FORESEEN = 50  # sweeps: with fewer rows than these need, fewer points are moved (chosen by hand)


class Run(NamedTuple):
    """A tempered run: its draws, and what they cover."""

    draws: Draws
    coverage: Coverage

    @property
    def info(self) -> SMCInfo:
        """What it reported."""
        assert isinstance(self.draws.info, SMCInfo)
        return self.draws.info


@dataclass(frozen=True)
class Islands:
    """How islands are run; the options are those of :class:`gbce.SMC`."""

    n_draws: int
    n_islands: int
    max_sweeps: int
    max_rounds: int

    def reduce(self, share: float) -> "Islands":
        """Return one round with a share of the points and of the sweeps."""
        return Islands(round(share * self.n_draws), self.n_islands, max(round(share * self.max_sweeps), 1), 1)

    def temper(
        self,
        posterior: GibbsPosterior,
        rng: np.random.Generator,
        bridge: Bridge,
        first: Points,
        unreached: StallDetector | None = None,
    ) -> Run:
        """Go up the bridge with all islands, and again while they disagree; see :func:`climb`."""
        n_moved = self._affordable_points(posterior)
        n_islands = max(LEAST_ISLANDS, min(self.n_islands, n_moved // _LEAST_ISLAND, len(first) // 2))
        start = _share_out(first, n_islands)
        climbed = climb(posterior, rng, bridge, start, n_moved, self.max_sweeps, unreached=unreached)
        run = self._weigh(posterior, bridge, climbed)
        levels = [rung.level for rung in climbed.rungs[1:]]
        while climbed.complete and climbed.rounds < self.max_rounds and not self.agree(run.draws):
            again = try_to_start(posterior, rng, bridge, len(first))
            if again is None:
                break
            more = climb(posterior, rng, bridge, _share_out(again, n_islands), n_moved, self.max_sweeps, levels)
            if not more.complete:  # the budget ran out: what there was stands
                break
            climbed = climbed.join(more)
            run = self._weigh(posterior, bridge, climbed)
        return run

    def follow_proposals(self, posterior: GibbsPosterior, rng: np.random.Generator, runs: Sequence[Run], n: int) -> Run:
        """Run again from a start fitted to what runs have found, unless the islands of each agreed at once.

        Islands that agree only after more of them were sent up may owe that to when they stopped: a mode that few of
        them find has too little mass until one of them does, and too much from then on.
        """
        fade = runs[-1].draws.rungs[-1]
        if self.max_rounds == 1 or not runs[-1].info.complete or fade == 0:
            return runs[-1]
        for number in range(_MAX_PROPOSALS):
            if all(run.info.rounds == 1 and self.agree(run.draws) for run in runs):
                break
            if posterior.budget.deadline is not None and posterior.affords(n) < n:
                break  # before time goes into a guide that nobody can follow
            proposal = fit_proposal([run.draws for run in runs], rng, posterior.mixture, posterior.prior.mass)
            bridge = Bridge(posterior.mixture, proposal, fade)
            first = try_to_start(posterior, rng, bridge, n)
            found = None if first is None else self.temper(posterior, rng, bridge, first)
            if found is None or not found.info.complete:  # the budget ran out: what there was stands
                break
            runs = [Run(replace(found.draws, info=replace(found.info, guides=number + 1)), found.coverage)]
        return runs[-1]

    def agree(self, draws: Draws) -> bool:
        """Whether the islands agree well enough, on figures and on the evidence."""
        figures = draws.ess >= _AGREED * self.n_draws and draws.worst_ess[0] >= _AGREED_WORST * self.n_draws
        return figures and draws.log_evidence_se <= _AGREED_EVIDENCE

    def _affordable_points(self, posterior: GibbsPosterior) -> int:
        """Points to move: fewer than asked for where few rows are left, because eta must be reached first."""
        rows = posterior.affords(_FORESEEN * self.n_draws)
        return min(self.n_draws, max(rows // _FORESEEN, 2 * _LEAST_ISLAND))

    def _weigh(self, posterior: GibbsPosterior, bridge: Bridge, climbed: Climb) -> Run:
        """Weigh the points of all rungs at the eta that was asked for, found or reached."""
        pool, base, island = recycle(climbed.rungs, bridge)
        mixture, prior = replace(posterior.mixture, eta=max(climbed.top, 0.0)), posterior.prior
        rungs = tuple(rung.level for rung in climbed.rungs if rung.level > 0)
        info = _report(climbed)
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
        return Run(draws, Coverage(pool, lambda points: log_density(climbed.rungs, bridge, points), base))


def try_to_start(posterior: GibbsPosterior, rng: np.random.Generator, bridge: Bridge, n: int) -> Points | None:
    """Return ``n`` fresh points of the bridge's starting law, or nothing if they cannot be afforded."""
    if posterior.affords(n) < n:
        return None
    try:
        return _draw_start(posterior, rng, bridge, n)
    except BudgetSpentError:  # time ran out earlier than was foreseen
        return None


def _draw_start(posterior: GibbsPosterior, rng: np.random.Generator, bridge: Bridge, n: int) -> Points | None:
    """Draw from the prior, or from the prior and the guide in the shares of the starting law."""
    if bridge.proposal is None:
        return candidates(posterior, rng, n)
    # candidates that broke a constraint were drawn as well: they count for the share, only not for n
    share, mass = bridge.proposal.share, posterior.prior.mass
    near = min(round(n * share / (share + mass * (1 - share))), n - 1)
    around = Points.evaluate(posterior, bridge.proposal.draw(rng, near))
    around = around.take(np.isfinite(around.log_correction))  # what breaks no constraint
    plain = candidates(posterior, rng, n - near) if posterior.affords(n - near) == n - near else None
    if plain is None or len(plain) < n - near:  # time ran out, and the share would not be right
        return None
    return Points.join([plain, around])


def _share_out(first: Points, n_islands: int) -> Population:
    """Return the first population, shared out to the islands."""
    return Population(first, np.arange(len(first)) % n_islands, -1.0, np.zeros(n_islands))


def _report(climbed: Climb) -> SMCInfo:
    """Return what can be said of a climb, as plain numbers."""
    return SMCInfo(
        complete=climbed.complete,
        islands=len(climbed.rungs[0].log_z),
        rounds=climbed.rounds,
        sweeps=tuple(climbed.sweeps),
        acceptance=tuple(climbed.acceptance),
        memory=tuple(climbed.memory),
        ended=climbed.ended,
    )
