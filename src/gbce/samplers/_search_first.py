"""The stages of an SMC run: importance sampling from the prior, adaptive runs around modes, tempered SMC.

Each stage is used only if the one before does not cover the posterior: two independent mode searches check the prior
draws; independent runs of adaptive importance sampling must agree; else points are tempered in several islands.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from gbce._numerics import MAX_PARETO_K, TINY, effective_sample_size, fork, normalise, pareto_k
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, log_target
from gbce.eta import solve_eta_nearby
from gbce.posterior import GibbsPosterior, Mixture, run_together
from gbce.priors import LocatedPrior
from gbce.samplers._importance import SMCInfo, draw_candidates
from gbce.samplers._islands import (
    Coverage,
    Islands,
    Run,
    draw_start_if_affordable,
    estimate_mass_around,
    shows_missed_mass,
)
from gbce.samplers._pilot import Pilot, find_first_eta
from gbce.samplers._proposals import MixtureProposal, join_proposals
from gbce.samplers._runs import (
    KEPT,
    MOST_FOR_EFFECTIVE,
    Agreement,
    ProposalRun,
    compare_runs,
    initial_proposal,
    pool_runs,
    rows_for_run,
    run_proposal,
)
from gbce.samplers._starts import Starts
from gbce.samplers._tempering import Bridge, StallDetector
from gbce.search import Modes, neg_log_density_of

# Chosen by hand.
_FEWEST_CANDIDATES = 4  # to go on with: two for each of two searches
# Least rows for which a search and two runs are of use: the sum of both. With fewer, prior draws are tempered.
_FEWEST_ROWS, _FEWEST_ROWS_PER_COORDINATE = 4_000, 100
# Of the effective draws that were wanted: with fewer in all runs, points are tempered. With more, the runs are the
# result, flagged if need be: tempering after them took 46,000 to 71,000 rows, and was trusted in none of eight cases.
_LOST = 0.1
_RUNS_FOR_TAIL = 2  # more runs, where all agree but the weights have a heavy tail: one or two often help
# Of points and sweeps of a tempered run, in one round, after runs without a proposal that fits: all of them took
# 350,000 to 800,000 rows where log Z was -9 and -12, for no better verdict. Also of the points where it seeks an eta.
_REDUCED = 0.5
_TEMPERED_POINTS = 10_000  # points that a tempered run starts with, if the budget is unlimited
_TILTED_POINTS = 4_000  # and one that starts from tilts, whose draws reach the target
# The same after a start from tilts. Of a network in 30 columns with log Z -49, three runs each: a quarter of the points
# and all sweeps gave 130 to 270 effective draws for 125,000 rows, half of both 50 to 220 for 146,000.
_TILTED = 0.25
_SHARES_OF_ETA = (1.0, 0.1, 0.01, 0.001)  # of the last eta of a run for a goal, for which components are made
_FEW_COORDINATES, _TRIED_AROUND = 3, 16  # in which the mass around unexplained points is estimated; number of points
_AROUND = 1_000  # points drawn around modes to see whether a tempered run has missed them
_PRIOR_DRAWS = 8_000  # for the prior's own mean changes: known to about 1%
# Most values of eta to draw at, and the relative difference within which drawing afresh at the solution hardly gains.
# Two of 150 rows of benchmarks/unseen.py whose solution was farther off kept 0.1 of their effective draws.
_MOST_ETAS, _NEAR = 3, 0.1
_FEWEST_EFFECTIVE = 20  # below, tempering can do no worse; below 100 the verdict is that it was not sampled
_NO_PILOT = Pilot(None)
_MODES_SHARE = 0.5  # of these points that come from components at modes


@dataclass
class SearchFirst:
    """One run of the sampler, with its results so far."""

    posterior: GibbsPosterior  # the target
    rng: np.random.Generator  # for everything
    first: Points  # prior draws
    complete: bool  # whether these are as many as were wanted
    n_effective: float  # effective sample size that is wanted
    max_looks: int  # most runs of adaptive importance sampling; with 0 there is no search
    islands: Islands  # options of tempered runs
    pilot: Pilot = _NO_PILOT  # its tilt is a component of every proposal, and tempering starts from its other ones
    starts: Starts | None = field(init=False, default=None)
    found: list[Modes] = field(init=False, default_factory=list)
    runs: list[ProposalRun] = field(init=False, default_factory=list)
    coverage: Coverage | None = field(init=False, default=None)  # of the result

    def draw(self) -> Draws:
        """Draw at the given eta, by the first stage whose draws cover the posterior."""
        if not self._can_search:
            plain = self._weigh_prior_draws()
            few = len(self.first) < _FEWEST_CANDIDATES
            return plain if few or self._covers_posterior(plain) else self._temper()
        # without any finite loss, a search may still find one
        hopeful = bool(np.isfinite(log_target(self.posterior.mixture, self.first)).any())
        covering = self._weigh_prior_draws() if hopeful else None
        if covering is not None and not self._covers_posterior(covering):
            covering = None
        try:
            drawn = self._draw_by_search(covering)
        except BudgetSpentError:
            if covering is not None:  # the prior draws are the result
                return self._add_seen(replace(covering, info=SMCInfo(complete=False)), None)
            drawn = None
        return self._temper() if drawn is None else drawn

    def _weigh_prior_draws(self) -> Draws:
        """Weight the prior draws as in Algorithm 1."""
        posterior, info = self.posterior, SMCInfo(complete=self.complete)
        return Draws.weigh(self.first, posterior.mixture, posterior.prior, info=info)

    def _draw_by_search(self, plain: Draws | None) -> Draws | None:
        """Search twice; return prior draws that miss nothing found, else draws around the modes if a proposal fits."""
        posterior = self.posterior
        posterior.budget.begin("searching")
        self.starts = Starts(posterior, self.rng, self.first)
        self.found += self.starts.search_twice()
        if plain is not None:
            cover = _cover_of_prior(posterior, self.first)
            if len(self._find_missed(cover)) == 0:
                info = SMCInfo(complete=self.complete, sites=len(self._modes))
                return self._add_seen(replace(plain, info=info), cover)
        posterior.budget.begin("sampling")
        # where tilts reach the target but none fits, hardly any other proposal does: these are for tempering
        return self._run_until_agreed() if self.pilot.reaching is None else None

    def draw_for_goal(self) -> Draws:
        """Find the eta that meets the goal, and draw there.

        Draws at any fixed eta have weights of known density, so that eta can be solved for on them. A small pilot
        gives a first value; if the draws there do not carry the solution, they are drawn afresh at it, and the best of
        these are the result. Where none has a solution, a large tempered run walks the whole path.
        """
        unlimited = self._can_search and not self.posterior.budget.limited
        self.pilot = find_first_eta(self.posterior, self.rng, self.first) if unlimited else _NO_PILOT
        eta = self.pilot.eta
        best: tuple[Draws, Coverage | None] | None = None
        for _ in range(_MOST_ETAS):
            if eta is None:
                break
            draws, met = self._solve_at(eta)
            if met and (best is None or _rank(draws) > _rank(best[0])):
                best = replace(draws, info=replace(draws.info, goal_met=True)), self.coverage
            solved, share = draws.rungs[-1], draws.ess / self.n_effective
            near = abs(solved - eta) <= _NEAR * max(solved, eta)
            # a tempered run again would take as many rows, for hardly better draws
            if met and (draws.info.tempered or (share >= _LOST and (near or share >= KEPT))):
                break
            if best is not None and not self._can_search:  # no rows are left for another eta
                break
            eta = solved if met or solved != eta else None
        if best is None or (best[0].ess < _FEWEST_EFFECTIVE and self._can_search):
            return self._temper_for_goal()
        draws, self.coverage = best
        return draws

    def _solve_at(self, eta: float) -> tuple[Draws, bool]:
        """Draw at a fixed eta and reweight to the nearby one that meets the goal; return also whether it does."""
        posterior, goal = self.posterior, self.posterior.goal
        assert goal is not None
        mixture = replace(posterior.mixture, eta=eta)
        at = replace(posterior, mixture=mixture, goal=None)
        run = SearchFirst(
            at, self.rng, self.first, self.complete, self.n_effective, self.max_looks, self.islands, self.pilot
        )
        draws, self.coverage = run.draw(), run.coverage
        solved = solve_eta_nearby(draws, mixture, goal)
        return draws.reweigh(replace(mixture, eta=solved.eta)), solved.met

    def _temper_for_goal(self) -> Draws:
        """Find the eta that meets the goal on a large tempered run, and draw there."""
        first = self._draw_tempering_start()
        stalls = self._make_stall_detector(first)
        n_draws = self.islands.n_draws if self.max_looks == 0 else round(_REDUCED * self.islands.n_draws)
        islands = replace(self.islands, n_draws=n_draws)
        run = islands.temper(self.posterior, self.rng, Bridge(self.posterior.mixture), first, stalls)
        runs = [run]
        if run.info.complete and self._can_search:
            with suppress(BudgetSpentError):  # time ran out earlier than foreseen: keep the first run
                runs += self._rerun_with_missed(run, islands)
        return self._check_tempered(runs[-1])

    @property
    def _can_search(self) -> bool:
        """Whether a search is wanted and affordable."""
        rows = _FEWEST_ROWS + _FEWEST_ROWS_PER_COORDINATE * self.posterior.prior.dimension
        return self.max_looks > 0 and len(self.first) >= _FEWEST_CANDIDATES and self.posterior.affords(rows) == rows

    # --- adaptive importance sampling ---------------------------------------------------------------------------------

    def _run_until_agreed(self) -> Draws | None:
        """Run until the last run agrees with those before it; ``None`` where proposals do not fit, or not in time."""
        agreed, agreements, disagreements, spent, more_for_tail = None, 0, 0, False, _RUNS_FOR_TAIL
        before = self._rows_per_model
        first_two = self._run_first_two()
        for number in range(self.max_looks):
            try:
                run = first_two[number] if number < len(first_two) else self._run_again(number)
            except BudgetSpentError as error:
                run = error
            if isinstance(run, BudgetSpentError):  # keep the runs so far, if there are any
                spent = True
                break
            costly = self._rows_per_model - before >= MOST_FOR_EFFECTIVE * self.n_effective
            if run is None or run.n == 0:  # no proposal fits
                disagreements += 1
                if disagreements > 1 and len(self.runs) < 2:
                    return None
                continue
            self.runs.append(run)
            if len(self.runs) == 1:
                continue
            agreed, cover = compare_runs(self.posterior.mixture, self.runs), pool_runs(self.runs)
            holds = agreed.holds and len(self._find_missed(cover)) == 0
            agreements, disagreements = (agreements + 1, disagreements) if holds else (0, disagreements + 1)
            if costly:
                break
            if agreements > min(disagreements, 1):  # after a disagreement, two agreements are needed
                if more_for_tail == 0 or _has_light_tail(cover, self.posterior.mixture):
                    break
                more_for_tail -= 1
        if len(self.runs) < (1 if spent else 2):
            return None
        return self._weigh_runs(agreed, agreements > min(disagreements, 1), spent)

    def _weigh_runs(self, agreed: Agreement | None, confirmed: bool, spent: bool) -> Draws | None:
        """Weight the draws of all runs as one pool; ``None`` where the proposals miss the mass."""
        cover = pool_runs(self.runs)
        reason = _describe_missed(len(self._find_missed(cover))) or self._describe_disagreement(agreed, confirmed)
        weights = normalise(cover.log_base_weights + log_target(self.posterior.mixture, cover.pool))
        ess, limited = effective_sample_size(weights), self.posterior.budget.limited
        if ess < _LOST * self.n_effective and not (spent or limited):
            return None  # the proposals miss the mass; temper instead
        once = None if agreed is None else agreed.seen_once
        info = SMCInfo(
            complete=not (spent or (limited and ess < KEPT * self.n_effective)),
            sites=len(self._modes),
            looks=len(self.runs),
            doubt=reason,
            seen_once=once,
        )
        base, (mixture, prior) = cover.log_base_weights, (self.posterior.mixture, self.posterior.prior)
        draws = Draws.weigh(cover.pool, mixture, prior, log_base_weights=base, info=info)
        return self._add_seen(replace(draws, prior_change=_mean_prior_change(prior, self.rng)), cover)

    def _run_first_two(self) -> list[ProposalRun | BudgetSpentError | None]:
        """Run around the modes of the first two searches, in shared model calls."""
        both = [self._prepare_run(0), self._prepare_run(1)]
        return run_together(self.posterior, both, rows_for_run(0.5 * self.n_effective))

    def _run_again(self, number: int) -> ProposalRun | BudgetSpentError | None:
        """Search once more, and run around the modes found."""
        assert self.starts is not None
        extra = self._find_missed(pool_runs(self.runs)) if self.runs else self._modes
        self.found.append(self.starts.search(extra))
        return self._prepare_run(number)(self.posterior)

    def _prepare_run(self, number: int) -> Callable[[GibbsPosterior], ProposalRun | BudgetSpentError | None]:
        """Return a function that adapts a proposal at the modes and draws; it returns ``None`` without modes."""
        assert self.starts is not None
        rng, modes, plain, half = fork(self.rng), self.found[number], self.starts.plain[number], 0.5 * self.n_effective
        known = self.starts.landmarks
        if modes.evaluated is not None:
            known = (np.vstack([known[0], modes.evaluated[0]]), np.append(known[1], modes.evaluated[1]))

        def run(posterior: GibbsPosterior) -> ProposalRun | BudgetSpentError | None:
            wanted = 2 * round(MOST_FOR_EFFECTIVE * half)
            most = posterior.affords(wanted) // 2  # as much is left for the run that is to confirm this one
            if len(modes.neg_log_density) == 0 or most == 0:  # no point has a finite loss
                return None
            try:
                return run_proposal(posterior, rng, modes, plain, known, half, most, self.pilot.tilt)
            except BudgetSpentError as error:
                return error

        return run

    def _covers_posterior(self, plain: Draws) -> bool:
        """Whether prior draws are enough, by their weights, and the Pareto tail of these if they are unbounded."""
        if plain.ess < min(self.n_effective, 0.5 * len(plain.pool)):
            return False
        exact = self.posterior.prior.exact
        return exact or pareto_k(np.log(np.maximum(plain.pool_weights, TINY))) <= MAX_PARETO_K

    # --- coverage of known points -------------------------------------------------------------------------------------

    @property
    def _rows_per_model(self) -> float:
        """Rows evaluated by each model so far, on average."""
        return self.posterior.n_rows / len(self.posterior.predictors)

    @property
    def _modes(self) -> Points:
        """The modes of all searches."""
        return Points.join([modes.points for modes in self.found])

    @property
    def _known(self) -> Points:
        """Every point that the draws must explain."""
        others = [] if self.starts is None else [self.starts.memory.kept, self.starts.known]
        found = [modes.points for modes in self.found]
        return Points.join([*(points for points in others if points is not None), *found])

    def _find_missed(self, cover: Coverage, mixture: Mixture | None = None) -> Points:
        """Return known points that show missed mass; of many, only the lowest are checked."""
        mixture, known = self.posterior.mixture if mixture is None else mixture, self._known
        missed = known.take(cover.unexplained(known, mixture))
        if len(missed) == 0 or missed.z.shape[1] > _FEW_COORDINATES:  # in more, a few draws do not show a mode's width
            return missed
        posterior = replace(self.posterior, mixture=mixture)
        order = np.argsort(neg_log_density_of(posterior, missed), kind="stable")
        missed = missed.take(order[:_TRIED_AROUND])
        try:
            mass = estimate_mass_around(posterior, self.rng, missed.z)
        except BudgetSpentError:
            return missed
        return missed.take(cover.is_relevant(mass, mixture))

    def _describe_disagreement(self, agreed: Agreement | None, confirmed: bool) -> str | None:
        """Describe how runs disagree, if they do."""
        if confirmed or agreed is None:
            return None
        return agreed.describe() if not agreed.holds else f"{len(self.runs)} independent searches rarely agree"

    def _add_seen(self, draws: Draws, cover: Coverage | None) -> Draws:
        """Return the draws with the best points of all searches, and keep their coverage."""
        self.coverage = cover
        return replace(draws, seen=None if self.starts is None else self.starts.memory.kept)

    # --- tempering ----------------------------------------------------------------------------------------------------

    def _temper(self) -> Draws:
        """Temper to eta from the prior, and from components at modes if there are any."""
        bridge, first = Bridge(self.posterior.mixture), None
        if self.runs:  # a proposal that does not fit is a worse start than the prior
            proposal = join_proposals([run.proposal for run in self.runs], self._share)
            bridge, first = self._start_from(proposal, self.posterior.mixture.eta)
        elif self.pilot.reaching is not None:
            bridge, first = self._start_from(self.pilot.reaching, self.posterior.mixture.eta, _TILTED_POINTS)
        if first is None:
            bridge, first = Bridge(self.posterior.mixture), self._draw_tempering_start()
        islands = self.islands if self.max_looks == 0 else self.islands.reduce(_REDUCED, _REDUCED)
        if self.pilot.reaching is not None and not self.runs:
            islands = self.islands.reduce(_TILTED, 1.0)
        run = islands.temper(self.posterior, self.rng, bridge, first, self._make_stall_detector(first))
        return self._check_tempered(run)

    def _make_stall_detector(self, first: Points) -> StallDetector | None:
        """Return a detector for a target that no point has reached; ``None`` if one has."""
        seen = [self.first, first, *(run.points for run in self.runs)]
        seen = seen if self.starts is None else [*seen, self._known]
        if any(points.reached.any() for points in seen):
            return None
        lowest = min(float(self.posterior.mixture.effective_loss(points.loss).min()) for points in seen)
        return StallDetector(lowest, patience=1 if self.found else 2)

    def _rerun_with_missed(self, run: Run, islands: Islands) -> list[Run]:
        """Search at the last eta of a run for a goal, and run again from the modes if any rung has missed mass."""
        rungs = [eta for eta in run.info.climbed or run.draws.rungs if eta > 0]
        if not rungs:
            return []
        at = replace(self.posterior, mixture=replace(self.posterior.mixture, eta=rungs[-1]), goal=None)
        self.starts = Starts(at, self.rng, self.first)
        self.found += self.starts.search_twice()
        # components as wide as needed at the eta where a mode matters first, perhaps far below the last rung
        proposals = [
            initial_proposal(
                modes._replace(gradient=share * modes.gradient, curvature=share * modes.curvature), at_share
            )
            for share in _SHARES_OF_ETA
            for at_share in [replace(at, mixture=replace(at.mixture, eta=share * rungs[-1]))]
            for modes in self.found
            if len(modes.neg_log_density)
        ]
        if not proposals:
            return []
        proposal = join_proposals(proposals, self._share)
        around = Points.evaluate(self.posterior, proposal.draw(self.rng, _AROUND))
        for eta in rungs:
            mixture, mass = replace(self.posterior.mixture, eta=eta), self.posterior.prior.mass
            agreed = islands.agree(run.draws)  # eta must not rest on a mode that was met by chance
            if shows_missed_mass(proposal, around, run.draws.reweigh(mixture), mixture, mass, agreed):
                bridge, first = self._start_from(proposal, eta)
                again = None if first is None else islands.temper(self.posterior, self.rng, bridge, first)
                return [again] if again is not None and again.info.complete else []
        return []

    def _start_from(
        self, proposal: MixtureProposal, fade: float, most: int = _TEMPERED_POINTS
    ) -> tuple[Bridge, Points | None]:
        """Return a bridge that starts from a proposal, and its first points if they can be afforded."""
        bridge = Bridge(self.posterior.mixture, proposal, fade)
        n = len(self.first) if self.posterior.budget.limited else most
        return bridge, draw_start_if_affordable(self.posterior, self.rng, bridge, n)

    @property
    def _share(self) -> float:
        """Share of a proposal in the initial distribution, prior draws that break constraints included."""
        near = self.posterior.prior.mass * _MODES_SHARE
        return near / (near + 1 - _MODES_SHARE)

    def _draw_tempering_start(self) -> Points:
        """Return the prior draws, with more for a tempered run if the budget is unlimited."""
        more = _TEMPERED_POINTS - len(self.first)
        if more <= 0 or self.max_looks == 0 or self.posterior.budget.limited or self.posterior.affords(more) < more:
            return self.first
        return Points.join([self.first, draw_candidates(self.posterior, self.rng, more)])

    def _check_tempered(self, run: Run) -> Draws:
        """Check a tempered run against every known point."""
        # a mode that few islands find has too little mass until one of them does, and too much from then on
        late = "independent islands disagreed at first" if (run.info.rounds or 1) > 1 else None
        if self.starts is None:
            self.coverage = run.coverage
            return replace(run.draws, info=replace(run.info, doubt=late))
        mixture = replace(self.posterior.mixture, eta=run.draws.rungs[-1])
        reason = _describe_missed(len(self._find_missed(run.coverage, mixture))) or late
        found = [modes for modes in self.found if len(modes.neg_log_density)]
        proposals = [] if reason else [initial_proposal(modes, self.posterior) for modes in found]
        if proposals and self.posterior.affords(_AROUND) == _AROUND:
            proposal = join_proposals([*proposals, *(run.proposal for run in self.runs)], self._share)
            around = Points.evaluate(self.posterior, proposal.draw(self.rng, _AROUND))
            if shows_missed_mass(proposal, around, run.draws, mixture, self.posterior.prior.mass):
                reason = "the draws miss mass near modes that a search found"
        info = replace(run.info, doubt=reason, sites=len(self._modes) if self.found else None)
        return self._add_seen(replace(run.draws, info=info), run.coverage)


def _rank(draws: Draws) -> tuple[bool, float]:
    """Return what makes draws better than others: first that their run was finished, then their effective size."""
    return draws.info.complete, draws.ess


def _describe_missed(n: int) -> str | None:
    """Describe how many known points the draws miss, if any."""
    return f"the draws miss {n} known point{'s' * (n > 1)} of high density" if n else None


def _mean_prior_change(prior: LocatedPrior, rng: np.random.Generator) -> Array:
    """Return the mean change of each feature ``(d,)`` under the prior: no model call; runs have few prior draws."""
    placed = prior.place(rng.standard_normal((_PRIOR_DRAWS, prior.dimension)))
    return normalise(-placed.log_correction) @ prior.change(placed.x)


def _has_light_tail(cover: Coverage, mixture: Mixture) -> bool:
    """Whether the Pareto tail of the weights is light enough for error estimates; if not, draw more."""
    return pareto_k(cover.log_base_weights + log_target(mixture, cover.pool)) <= MAX_PARETO_K


def _cover_of_prior(posterior: GibbsPosterior, first: Points) -> Coverage:
    """Return the coverage of prior draws."""
    log_n = float(np.log(len(first) / posterior.prior.mass))
    return Coverage(first, lambda points: np.full(len(points), log_n), np.full(len(first), -log_n))
