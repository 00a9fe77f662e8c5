"""Adaptive tempering: importance sampling where that is enough, sequential Monte Carlo where it is not."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from gbce._numerics import MAX_PARETO_K, TINY, pareto_k
from gbce._validation import require_counts
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, SamplerInfo
from gbce.eta import solve_eta
from gbce.posterior import GibbsPosterior
from gbce.samplers._climb import ENOUGH, Climb, climb
from gbce.samplers._guide import fit_guide
from gbce.samplers._importance import N_CANDIDATES, N_DRAWS, candidates
from gbce.samplers._landmarks import Landmarks, find_landmarks
from gbce.samplers._tempering import Bridge, Population, recycle

__all__ = ["SMC", "SMCInfo"]

_CANDIDATES_SHARE = 0.5  # of a budget; the other half is for moving points
_LANDMARKS_SHARE = 0.15  # of what is left of it, for asking about training rows
_LEAST_ISLANDS = 2  # to have an error between them
_LEAST_ISLAND = 25  # points of an island: with fewer there is little to resample (chosen by hand)
_FEWEST_CANDIDATES = 4  # to climb with: two for each of two islands
_DIFFERENT = 0.55  # of n_draws: with fewer different candidates among the draws, they are picked evenly; by hand
# When islands agree: effective draws over all figures, and for the worst of them, as shares of n_draws; and the error
# of the log evidence. Chosen by hand: 0.22 of the default 2,000 draws is a little above the 400, and 0.45 a little
# below the 0.5, at which the verdict on the draws asks for care.
_AGREED, _AGREED_WORST, _AGREED_EVIDENCE = 0.22, 0.05, 0.45
_MAX_GUIDES = 4  # runs from a start fitted to earlier ones (chosen by hand)
# Variance of the mean evidence against independent islands, which learn moves from each other: 1.29 and 1.34 in two
# cases over 500 seeds each (docs/benchmarks.md).
_EVIDENCE_INFLATION = 1.3
_FORESEEN = 50  # sweeps: with fewer rows than these need, fewer points are moved (chosen by hand)
_LARGEST_WEIGHT = 1 - 1e-9  # so that the logarithm of what is left is finite


@dataclass(frozen=True)
class SMCInfo(SamplerInfo):
    """What SMC reports; where candidates of the prior were enough, there were no islands.

    Parameters
    ----------
    islands, rounds, guides : int, optional
        Populations that went up by themselves, how often more of them were sent, and how often from a fitted start.
    sweeps, acceptance, memory : tuple, optional
        Of each rung: moves of all points, the share that was accepted, and the correlation with the start that is left.
    climbed : tuple of float, optional
        All rungs, where a goal was missed and eta went back below the last of them.
    """

    sampler: str = "SMC"
    islands: int | None = None
    rounds: int | None = None
    sweeps: tuple[int, ...] | None = None
    acceptance: tuple[float, ...] | None = None
    memory: tuple[float, ...] | None = None
    guides: int | None = None
    climbed: tuple[float, ...] | None = None

    @property
    def advice(self) -> str:
        """What to do about too few draws."""
        return "raise n_draws of the sampler, widen the prior, lower eta, or ask for less"

    @property
    def runs(self) -> str:
        """Islands and rungs."""
        if self.islands is None:
            return ""
        rungs = len(self.sweeps or ())
        return f"{self.islands} islands over {rungs} rung{'s' if rungs != 1 else ''}"

    @property
    def kind_of_run(self) -> str:
        """What several runs are called."""
        return "islands"

    @property
    def tempered(self) -> bool:
        """Whether there were islands."""
        return self.islands is not None


@dataclass(frozen=True)
class SMC:
    """Candidates from the prior, tempered towards the posterior as far as they need it.

    The candidates are those of :class:`Importance`. If enough of them count at eta, they are the answer, with the
    weights of Algorithm 1 to the last bit, and its draws unless about half of them would be repetitions: those are
    picked evenly. Otherwise eta is approached in rungs: each is the largest ``beta`` that keeps half of the
    points effective, at which they are resampled and moved until they have forgotten where they were. Points of all
    rungs are kept and weighed together, so one run gives the posterior at every smaller eta as well.

    Parameters
    ----------
    n_candidates : int
        Points drawn from the prior and shown to the model first.
    n_draws : int
        Draws in the end, and points that are moved together.
    n_islands : int
        Runs that share their temperatures but not their points; the errors of all figures are those between them.
        Fewer where an island would have less than 25 points.
    max_sweeps : int
        Most moves of all points on one rung.
    max_rounds : int
        Most runs of all islands from one start: where they disagree, as many more are sent up, to the same
        temperatures. Where that was needed, all is run again from a better start, normal laws fitted to what was found
        and weighed by their density, unless ``max_rounds`` is 1.
    landmarks : bool
        Whether a tempered run also looks around training rows that reach the target where candidates do not come. If
        they show mass that was missed, a second run starts there as well, with weights that make up for it.

    Examples
    --------
    >>> SMC(n_draws=1000).n_islands
    8
    """

    n_candidates: int = N_CANDIDATES
    n_draws: int = N_DRAWS
    n_islands: int = 8  # chosen by hand: fewer make errors between them vague, more leave each with few points
    max_sweeps: int = 50  # against points that never forget where they were; chosen by hand
    max_rounds: int = 3  # chosen by hand; then a better start is fitted
    landmarks: bool = True

    def __post_init__(self) -> None:
        require_counts(self, "n_candidates", "n_draws", "n_islands", "max_sweeps", "max_rounds")
        if self.n_islands < _LEAST_ISLANDS:
            raise ValueError("SMC: n_islands must be at least 2, because errors are those between islands")

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw: one model call for all candidates, then one for each move of all points."""
        # First the candidates of Algorithm 1. Where enough of them count at eta they are the answer, with its weights.
        # With a goal eta is not known yet, and is found on the climb.
        share = replace(posterior, budget=posterior.budget.share(_CANDIDATES_SHARE))
        first = candidates(share, rng, self.n_candidates)
        if posterior.goal is None:
            plain = Draws.weigh(first, posterior.mixture, posterior.prior)
            if self._enough(plain, posterior):
                info = SMCInfo(complete=len(first) == self.n_candidates)
                return replace(plain, info=info).resample(rng, self.n_draws, apart=self._repeats(plain))
        # Otherwise the same candidates are the first population of a climb from the prior to eta, in islands that share
        # temperatures and no points. What it can miss are modes that none of its points has met.
        n_moved = self._affordable_points(posterior)
        draws = self._temper(posterior, rng, Bridge(posterior.mixture), first, n_moved)
        # Training rows that reach the target show where such modes may lie. Only if there is mass that the climb has
        # missed, a second one starts from the prior and from there.
        runs = [draws]
        if self.landmarks and draws.info.complete:
            with suppress(BudgetSpentError):  # time ran out earlier than was foreseen: what there was stands
                runs += self._from_landmarks(posterior, rng, draws, first, n_moved)
        # Where the islands of a run disagreed, some met a mode and others did not: all go up once more, from a start
        # that is fitted to what any of them has found.
        return self._follow_guides(posterior, rng, runs, len(first), n_moved).resample(rng, self.n_draws)

    def _from_landmarks(
        self, posterior: GibbsPosterior, rng: np.random.Generator, draws: Draws, first: Points, n_moved: int
    ) -> list[Draws]:
        """Look around landmarks, and run again from there if the draws have missed something: one run, or none."""
        known = replace(posterior, budget=posterior.budget.share(_LANDMARKS_SHARE))
        marks = find_landmarks(known, rng, len(first))
        # candidates that broke a constraint were drawn as well, only not kept
        drawn = len(first) / posterior.prior.mass
        n = 0 if marks is None else posterior.affords(round(drawn * marks.share / (1 - marks.share)))
        if marks is None or n == 0:
            return []
        around = Points.evaluate(posterior, marks.draw(rng, n))
        trusted = posterior.goal is None or self._agree(draws)  # an eta must not rest on a mode met by chance
        fade = _missed_at(posterior, marks, around, draws, trusted)
        if fade is None:
            return []
        bridge = Bridge(posterior.mixture, replace(marks, share=n / (n + drawn)), fade)
        found = self._temper(posterior, rng, bridge, Points.join([first, _drop_inadmissible(around)]), n_moved)
        return [found] if found.info.complete else []

    def _follow_guides(
        self, posterior: GibbsPosterior, rng: np.random.Generator, runs: Sequence[Draws], n: int, n_moved: int
    ) -> Draws:
        """Run again from a start fitted to what runs have found, unless the islands of each agreed at once.

        Islands that agree only after more of them were sent up may owe that to when they stopped: a mode that few of
        them find has too little mass until one of them does, and too much from then on.
        """
        fade = runs[-1].rungs[-1]
        if self.max_rounds == 1 or not runs[-1].info.complete or fade == 0:
            return runs[-1]
        for number in range(_MAX_GUIDES):
            if all(_info(run).rounds == 1 and self._agree(run) for run in runs):
                break
            if posterior.budget.deadline is not None and posterior.affords(n) < n:
                break  # before time goes into a guide that nobody can follow
            guide = fit_guide(runs, rng, posterior.mixture, posterior.prior.mass)
            bridge = Bridge(posterior.mixture, guide, fade)
            first = _try_to_start(posterior, rng, bridge, n)
            found = None if first is None else self._temper(posterior, rng, bridge, first, n_moved)
            if found is None or not found.info.complete:  # the budget ran out: what there was stands
                break
            runs = [replace(found, info=replace(_info(found), guides=number + 1))]
        return runs[-1]

    def _temper(
        self, posterior: GibbsPosterior, rng: np.random.Generator, bridge: Bridge, first: Points, n_moved: int
    ) -> Draws:
        """Go up the bridge with all islands, and again while they disagree."""
        n_islands = max(_LEAST_ISLANDS, min(self.n_islands, n_moved // _LEAST_ISLAND, len(first) // 2))
        climbed = climb(posterior, rng, bridge, _share_out(first, n_islands), n_moved, self.max_sweeps)
        draws = self._weigh(posterior, bridge, climbed)
        levels = [rung.level for rung in climbed.rungs[1:]]
        while climbed.complete and climbed.rounds < self.max_rounds and not self._agree(draws):
            again = _try_to_start(posterior, rng, bridge, len(first))
            if again is None:
                break
            more = climb(posterior, rng, bridge, _share_out(again, n_islands), n_moved, self.max_sweeps, levels)
            if not more.complete:  # the budget ran out: what there was stands
                break
            climbed = climbed.join(more)
            draws = self._weigh(posterior, bridge, climbed)
        return draws

    def _agree(self, draws: Draws) -> bool:
        """Whether the islands agree well enough, on figures and on the evidence."""
        figures = draws.ess >= _AGREED * self.n_draws and draws.worst_ess[0] >= _AGREED_WORST * self.n_draws
        return figures and draws.log_evidence_se <= _AGREED_EVIDENCE

    def _enough(self, plain: Draws, posterior: GibbsPosterior) -> bool:
        """Whether the candidates carry the posterior by themselves.

        A correction for a map that is not the prior has no upper bound: there the tail of the weights is looked at.
        """
        if len(plain.pool) < _FEWEST_CANDIDATES:  # nothing to climb with
            return True
        if plain.ess < ENOUGH * min(self.n_draws, len(plain.pool)):
            return False
        return posterior.prior.exact or pareto_k(np.log(np.maximum(plain.pool_weights, TINY))) <= MAX_PARETO_K

    def _repeats(self, plain: Draws) -> bool:
        """Whether draws picked one by one are expected to repeat the same few candidates."""
        different = -np.expm1(self.n_draws * np.log1p(-np.minimum(plain.pool_weights, _LARGEST_WEIGHT))).sum()
        return bool(different < _DIFFERENT * min(self.n_draws, len(plain.pool)))

    def _affordable_points(self, posterior: GibbsPosterior) -> int:
        """Points to move: fewer than asked for where few rows are left, because eta must be reached first."""
        rows = posterior.affords(_FORESEEN * self.n_draws)
        return min(self.n_draws, max(rows // _FORESEEN, 2 * _LEAST_ISLAND))

    def _weigh(self, posterior: GibbsPosterior, bridge: Bridge, climbed: Climb) -> Draws:
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
            # where the goal is missed, eta may lie far below the top: landmarks are looked for on all rungs up to there
            info = replace(info, goal_met=met, climbed=None if met else rungs)
            draws = replace(draws, info=info).reweigh(replace(mixture, eta=eta))
        elif not rungs or rungs[-1] < mixture.eta:
            draws = replace(draws, rungs=(*rungs, mixture.eta))
        return draws


def _report(climbed: Climb) -> SMCInfo:
    """Return what can be said of a climb, as plain numbers."""
    return SMCInfo(
        complete=climbed.complete,
        islands=len(climbed.rungs[0].log_z),
        rounds=climbed.rounds,
        sweeps=tuple(climbed.sweeps),
        acceptance=tuple(climbed.acceptance),
        memory=tuple(climbed.memory),
    )


def _info(draws: Draws) -> SMCInfo:
    """Return what a tempered run reported."""
    assert isinstance(draws.info, SMCInfo)
    return draws.info


def _share_out(first: Points, n_islands: int) -> Population:
    """Return the first population, shared out to the islands."""
    return Population(first, np.arange(len(first)) % n_islands, -1.0, np.zeros(n_islands))


def _missed_at(posterior: GibbsPosterior, marks: Landmarks, around: Points, draws: Draws, agreed: bool) -> float | None:
    """Return the eta at which landmarks show mass that was missed, if there is one.

    A goal may have sent the climb far beyond the eta at which that mass matters first: there every rung is looked at.
    """
    climbed = _info(draws).climbed
    rungs = draws.rungs if climbed is None else climbed
    for eta in rungs if posterior.goal is not None else draws.rungs[-1:]:
        mixture = replace(posterior.mixture, eta=eta)
        if eta > 0 and marks.missed(around, draws.reweigh(mixture), mixture, posterior.prior.mass, agreed):
            return eta
    return None


def _try_to_start(posterior: GibbsPosterior, rng: np.random.Generator, bridge: Bridge, n: int) -> Points | None:
    """Return ``n`` fresh points of the bridge's starting law, or nothing if they cannot be afforded."""
    if posterior.affords(n) < n:
        return None
    try:
        return _draw_start(posterior, rng, bridge, n)
    except BudgetSpentError:  # time ran out earlier than was foreseen
        return None


def _draw_start(posterior: GibbsPosterior, rng: np.random.Generator, bridge: Bridge, n: int) -> Points | None:
    """Draw from the prior, or from the prior and around the landmarks in the shares of the starting law."""
    if bridge.landmarks is None:
        return candidates(posterior, rng, n)
    # candidates that broke a constraint were drawn as well: they count for the share, only not for n
    share, mass = bridge.landmarks.share, posterior.prior.mass
    near = min(round(n * share / (share + mass * (1 - share))), n - 1)
    around = _drop_inadmissible(Points.evaluate(posterior, bridge.landmarks.draw(rng, near)))
    plain = candidates(posterior, rng, n - near) if posterior.affords(n - near) == n - near else None
    if plain is None or len(plain) < n - near:  # time ran out, and the share would not be right
        return None
    return Points.join([plain, around])


def _drop_inadmissible(points: Points) -> Points:
    """Return the points that break no constraint."""
    return points.take(np.isfinite(points.log_correction))
