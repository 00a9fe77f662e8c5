"""Search first, then sample: how a run of SMC goes, from candidates over searches and looks to tempering."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from gbce._numerics import MAX_PARETO_K, TINY, effective_sample_size, fork, normalise, pareto_k
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, log_target
from gbce.posterior import GibbsPosterior, Mixture, run_together
from gbce.priors import LocatedPrior
from gbce.samplers._coverage import Coverage, mass_around, shows_missed_mass
from gbce.samplers._importance import SMCInfo, candidates
from gbce.samplers._islands import Islands, Run, try_to_start
from gbce.samplers._proposals import MixtureProposal, join_proposals
from gbce.samplers._runs import (
    KEPT,
    MOST_FOR_EFFECTIVE,
    Agreement,
    ProposalRun,
    agreement,
    initial_proposal,
    least_rows_for_runs,
    pool_runs,
    rows_for_run,
    run_proposal,
)
from gbce.samplers._starts import Starts
from gbce.samplers._tempering import Bridge, StallDetector
from gbce.search import Modes, neg_log_density_of

__all__ = ["SearchFirst"]

# Chosen by hand.
_FEWEST_CANDIDATES = 4  # to go on with: two for each of two searches
# Rows that a search and two looks need to be of use: the sum of both. With fewer, candidates are tempered.
_FEWEST_ROWS, _FEWEST_ROWS_PER_COORDINATE = 4_000, 100
_SPARE = 1.05  # times the candidates that the first ones promise to be enough: how many count is not known exactly
# Of the mass, missed by one of two searches: what two can miss, the next two can miss as well, however well they agree.
_LOST_BY_ONE = 0.25
# Of the effective draws that were wanted: with fewer in all looks, points are tempered. With more, looks are handed
# over, with care if need be: tempering after them took 46,000 to 71,000 rows, and was trusted in none of eight runs.
_LOST = 0.1
_LOOKS_FOR_TAIL = 2  # more looks, where all agree but a few draws carry most of the weight: one or two often help
# Of points and sweeps of a tempered run after looks that found no laws, and one round: all of them took 350,000 to
# 800,000 rows where log Z was -9 and -12, for no better verdict.
_LAST_RESORT = 0.5
_CLIMBERS = 20_000  # points that a tempered run starts with, where no budget is set
_SHARES_OF_ETA = (1.0, 0.1, 0.01, 0.001)  # of the eta at which a climb with a goal ended, that laws are made for
# In so few coordinates it is looked how much mass lies around points that the draws do not explain, so many of them.
_FEW_COORDINATES, _TRIED_AROUND = 3, 16
_AROUND = 1_000  # points drawn around sites to see whether a tempered run has missed what is there
_PRIOR_DRAWS = 8_000  # for the prior's own mean changes: they are known to about 1%
_MODES_SHARE = 0.5  # of these points, those drawn around sites


@dataclass
class SearchFirst:
    """One run of the sampler, with what it has found so far.

    Parameters
    ----------
    posterior : GibbsPosterior
        What to draw from.
    rng : Generator
        For everything.
    first : Points
        Candidates of the prior.
    complete : bool
        Whether these are as many as were wanted.
    n_effective : float
        Effective draws that are wanted.
    max_looks : int
        Most looks; without any there is no search.
    islands : Islands
        How to temper.
    """

    posterior: GibbsPosterior
    rng: np.random.Generator
    first: Points
    complete: bool
    n_effective: float
    max_looks: int
    islands: Islands
    starts: Starts | None = field(init=False, default=None)
    found: list[Modes] = field(init=False, default_factory=list)
    runs: list[ProposalRun] = field(init=False, default_factory=list)

    def draw(self) -> Draws:
        """Draw at the eta that was given."""
        posterior, searches, n = self.posterior, self._can_search, len(self.first)
        plain = None
        if not searches or np.isfinite(log_target(posterior.mixture, self.first)).any():  # a search may find the first
            plain = Draws.weigh(self.first, posterior.mixture, posterior.prior, info=SMCInfo(complete=self.complete))
            if len(self.first) < _FEWEST_CANDIDATES:
                return plain
            plain = plain if self._carries(plain) else self._draw_more(plain) if searches else None
        if not searches:
            return self._temper() if plain is None else plain
        try:
            posterior.budget.begin("searching")
            self.starts = Starts(posterior, self.rng, self.first)
            cover = None if plain is None else _cover_of_prior(posterior, self.first)
            # beside more candidates that can miss nothing, a search only shows rules where to begin
            once = cover is not None and len(self.first) > n and not _can_be_outweighed(posterior, cover)
            self.found += [self.starts.search(components=False)] if once else self.starts.search_twice()
            if plain is not None and cover is not None and (once or len(self._missed_by(cover)) == 0):
                info = SMCInfo(complete=self.complete, sites=len(self._modes))
                return self._add_seen(replace(plain, info=info), cover)
            posterior.budget.begin("sampling")
            drawn = self._run_until_agreed()
        except BudgetSpentError:
            if plain is not None:  # what candidates say stands
                return self._add_seen(replace(plain, info=SMCInfo(complete=False)), None)
            drawn = None
        return self._temper() if drawn is None else drawn

    def draw_for_goal(self) -> Draws:
        """Find the eta that meets the goal on a tempered run, and draw there."""
        run = self.islands.temper(self.posterior, self.rng, Bridge(self.posterior.mixture), self._climbers())
        runs = [run]
        if run.info.complete and self._can_search:
            with suppress(BudgetSpentError):  # time ran out earlier than was foreseen: what there was stands
                runs += self._run_from_missed(run)
        return self._judge(self.islands.follow_proposals(self.posterior, self.rng, runs, len(self.first)))

    @property
    def _can_search(self) -> bool:
        """Whether a search is wanted, and within the budget."""
        rows = _FEWEST_ROWS + _FEWEST_ROWS_PER_COORDINATE * self.posterior.prior.dimension
        return self.max_looks > 0 and len(self.first) >= _FEWEST_CANDIDATES and self.posterior.affords(rows) == rows

    # --- draws around sites -------------------------------------------------------------------------------------------

    def _run_until_agreed(self) -> Draws | None:
        """Take looks until the last one agrees with those before it; nothing where laws do not fit, or not in time."""
        agreed, agreements, disagreements, spent, more_for_tail = None, 0, 0, False, _LOOKS_FOR_TAIL
        most_seen_once, before = 0.0, self._rows_of_each
        first_two = self._look_twice()
        for number in range(self.max_looks):
            try:
                run = first_two[number] if number < len(first_two) else self._look_again(number)
            except BudgetSpentError as error:
                run = error
            if isinstance(run, BudgetSpentError):  # the looks that there are stand, if there is one
                spent = True
                break
            costly = self._rows_of_each - before >= MOST_FOR_EFFECTIVE * self.n_effective
            if run is None or run.n == 0:  # no laws fit
                disagreements += 1
                if disagreements > 1 and len(self.runs) < 2:
                    return None
                continue
            self.runs.append(run)
            if len(self.runs) == 1:
                continue
            agreed, cover = agreement(self.posterior.mixture, self.runs), pool_runs(self.runs)
            most_seen_once = max(most_seen_once, agreed.seen_once)
            holds = agreed.holds and len(self._missed_by(cover)) == 0
            agreements, disagreements = (agreements + 1, disagreements) if holds else (0, disagreements + 1)
            if costly:
                break
            if agreements > min(disagreements, 1):  # searches that miss something must be confirmed twice
                if more_for_tail == 0 or _has_light_tail(cover, self.posterior.mixture):
                    break
                more_for_tail -= 1
        if len(self.runs) < (1 if spent else 2):
            return None
        cover = pool_runs(self.runs)
        doubt = _count_missed(len(self._missed_by(cover))) or self._disagreement(
            agreed, agreements > min(disagreements, 1)
        )
        weights = normalise(cover.log_base_weights + log_target(self.posterior.mixture, cover.pool))
        ess, limited = effective_sample_size(weights), self.posterior.budget.limited
        if ess < _LOST * self.n_effective and not (spent or limited):
            return None  # laws do not come where the mass is: points have to be moved
        once = None if agreed is None else agreed.seen_once
        info = SMCInfo(
            complete=not (spent or (limited and ess < KEPT * self.n_effective)),
            sites=len(self._modes),
            looks=len(self.runs),
            doubt=doubt,
            seen_once=once,
        )
        base, (mixture, prior) = cover.log_base_weights, (self.posterior.mixture, self.posterior.prior)
        draws = Draws.weigh(cover.pool, mixture, prior, log_base_weights=base, info=info)
        return self._add_seen(replace(draws, prior_change=_prior_change(prior, self.rng)), cover)

    def _look_twice(self) -> list[ProposalRun | BudgetSpentError | None]:
        """Look around the sites of the first two searches, in shared model calls."""
        return run_together(self.posterior, [self._look(0), self._look(1)], rows_for_run(0.5 * self.n_effective))

    def _look_again(self, number: int) -> ProposalRun | BudgetSpentError | None:
        """Search once more, and look around what was found."""
        assert self.starts is not None
        extra = self._missed_by(pool_runs(self.runs)) if self.runs else self._modes
        self.found.append(self.starts.search(extra))
        return self._look(number)(self.posterior)

    def _look(self, number: int) -> Callable[[GibbsPosterior], ProposalRun | BudgetSpentError | None]:
        """Return what learns laws around sites, and draws; it returns nothing where no site was found."""
        assert self.starts is not None
        rng, modes, plain, half = fork(self.rng), self.found[number], self.starts.plain[number], 0.5 * self.n_effective
        known = self.starts.landmarks
        if modes.asked is not None:
            known = (np.vstack([known[0], modes.asked[0]]), np.append(known[1], modes.asked[1]))

        def run(posterior: GibbsPosterior) -> ProposalRun | BudgetSpentError | None:
            wanted = 2 * round(MOST_FOR_EFFECTIVE * half)
            most = posterior.affords(wanted) // 2  # as much is left for the look that is to confirm this one
            if len(modes.neg_log_density) == 0 or most == 0:  # no finite loss was met
                return None
            try:
                return run_proposal(posterior, rng, modes, plain, known, half, most)
            except BudgetSpentError as error:
                return error

        return run

    def _carries(self, plain: Draws) -> bool:
        """Whether candidates carry the posterior, as far as their weights tell.

        A correction for a map that is not the prior has no upper bound: there the tail of the weights is looked at.
        """
        if plain.ess < min(self.n_effective, 0.5 * len(plain.pool)):
            return False
        exact = self.posterior.prior.exact
        return exact or pareto_k(np.log(np.maximum(plain.pool_weights, TINY))) <= MAX_PARETO_K

    def _draw_more(self, plain: Draws) -> Draws | None:
        """Draw more candidates of the prior where that is cheaper than looks; nothing if they do not carry it then."""
        posterior, n = self.posterior, len(self.first)
        most = n + least_rows_for_runs(posterior.prior.dimension, self.n_effective)
        while not self._carries(plain):
            more = int(np.ceil(_SPARE * self.n_effective * len(self.first) / plain.ess)) - len(self.first)
            if more <= 0 or len(self.first) + more > most or posterior.budget.limited:
                return None
            self.first = Points.join([self.first, candidates(posterior, self.rng, more)])
            plain = Draws.weigh(self.first, posterior.mixture, posterior.prior, info=plain.info)
        return plain

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def _rows_of_each(self) -> float:
        """Rows that each model was asked about so far, on average."""
        return self.posterior.n_rows / len(self.posterior.predictors)

    @property
    def _modes(self) -> Points:
        """The sites of all searches."""
        return Points.join([modes.points for modes in self.found])

    @property
    def _known(self) -> Points:
        """Every point that the draws must explain."""
        others = [] if self.starts is None else [self.starts.memory.kept, self.starts.known]
        found = [modes.points for modes in self.found]
        return Points.join([*(points for points in others if points is not None), *found])

    def _missed_by(self, cover: Coverage, mixture: Mixture | None = None) -> Points:
        """Return known points that lie where draws do not come though there is mass; of many, the lowest are tried."""
        mixture, known = self.posterior.mixture if mixture is None else mixture, self._known
        missed = known.take(cover.unexplained(known, mixture))
        if (
            len(missed) == 0 or missed.z.shape[1] > _FEW_COORDINATES
        ):  # in more, a few draws do not tell how wide a place is
            return missed
        order = np.argsort(neg_log_density_of(replace(self.posterior, mixture=mixture), missed), kind="stable")[
            :_TRIED_AROUND
        ]
        missed = missed.take(order)
        try:
            mass = mass_around(replace(self.posterior, mixture=mixture), self.rng, missed.z)
        except BudgetSpentError:
            return missed
        return missed.take(cover.is_relevant(mass, mixture))

    def _disagreement(self, agreed: Agreement | None, confirmed: bool) -> str | None:
        """Say how looks disagree, if they do."""
        if confirmed or agreed is None:
            return None
        return agreed.describe() if not agreed.holds else f"{len(self.runs)} independent searches agree too seldom"

    def _add_seen(self, draws: Draws, cover: Coverage | None) -> Draws:
        """Return the draws with the best that searches have met, and with what they cover."""
        return replace(draws, seen=None if self.starts is None else self.starts.memory.kept, coverage=cover)

    # --- tempering ----------------------------------------------------------------------------------------------------

    def _temper(self) -> Draws:
        """Climb to eta from the prior, and from around sites if there are any."""
        bridge, first = Bridge(self.posterior.mixture), None
        if self.runs:  # laws that did not fit are a worse start than the prior
            proposal = join_proposals([run.proposal for run in self.runs], self._share)
            bridge, first = self._start_from(proposal, self.posterior.mixture.eta)
        if first is None:
            bridge, first = Bridge(self.posterior.mixture), self._climbers()
        islands = self.islands if self.max_looks == 0 else self.islands.reduce(_LAST_RESORT)
        run = islands.temper(self.posterior, self.rng, bridge, first, self._unreached(first))
        return self._judge(islands.follow_proposals(self.posterior, self.rng, [run], len(first)))

    def _unreached(self, first: Points) -> StallDetector | None:
        """Return what is known of a target that none of the points so far reaches; nothing if one does."""
        seen = [self.first, first, *(run.points for run in self.runs)]
        seen = seen if self.starts is None else [*seen, self._known]
        if any(points.reached.any() for points in seen):
            return None
        lowest = min(float(self.posterior.mixture.effective_loss(points.loss).min()) for points in seen)
        return StallDetector(lowest, patience=1 if self.found else 2)

    def _run_from_missed(self, run: Run) -> list[Run]:
        """Search where the goal was met, or given up, and run again from there if the draws have missed something.

        A goal may have sent the climb far beyond the eta at which missed mass matters first: every rung is looked at.
        """
        rungs = [eta for eta in run.info.climbed or run.draws.rungs if eta > 0]
        if not rungs:
            return []
        at = replace(self.posterior, mixture=replace(self.posterior.mixture, eta=rungs[-1]), goal=None)
        self.starts = Starts(at, self.rng, self.first)
        self.found += self.starts.search_twice()
        # laws as wide as they have to be where a mode matters first, which may be far below the last rung
        proposals = [
            initial_proposal(modes._replace(slope=share * modes.slope, curvature=share * modes.curvature), at_share)
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
            agreed = self.islands.agree(run.draws)  # an eta must not rest on a mode that was met by chance
            if shows_missed_mass(proposal, around, run.draws.reweigh(mixture), mixture, mass, agreed):
                bridge, first = self._start_from(proposal, eta)
                again = None if first is None else self.islands.temper(self.posterior, self.rng, bridge, first)
                return [again] if again is not None and again.info.complete else []
        return []

    def _start_from(self, proposal: MixtureProposal, fade: float) -> tuple[Bridge, Points | None]:
        """Return a bridge that starts from a guide, and its first points if they can be afforded."""
        bridge = Bridge(self.posterior.mixture, proposal, fade)
        limited = self.posterior.budget.limited
        return bridge, try_to_start(self.posterior, self.rng, bridge, len(self.first) if limited else _CLIMBERS)

    @property
    def _share(self) -> float:
        """Share of a guide in the starting law, of which candidates that break constraints are a part."""
        near = self.posterior.prior.mass * _MODES_SHARE
        return near / (near + 1 - _MODES_SHARE)

    def _climbers(self) -> Points:
        """Return the candidates, with more beside them for a run that has to climb, if there is no budget to keep."""
        more = _CLIMBERS - len(self.first)
        if more <= 0 or self.max_looks == 0 or self.posterior.budget.limited or self.posterior.affords(more) < more:
            return self.first
        return Points.join([self.first, candidates(self.posterior, self.rng, more)])

    def _judge(self, run: Run) -> Draws:
        """Compare a tempered run with every point that is known."""
        if self.starts is None:
            return replace(run.draws, coverage=run.coverage)
        mixture = replace(self.posterior.mixture, eta=run.draws.rungs[-1])
        doubt = _count_missed(len(self._missed_by(run.coverage, mixture)))
        proposals = (
            [initial_proposal(modes, self.posterior) for modes in self.found if len(modes.neg_log_density)]
            if not doubt
            else []
        )
        if proposals and self.posterior.affords(_AROUND) == _AROUND:
            proposal = join_proposals([*proposals, *(run.proposal for run in self.runs)], self._share)
            around = Points.evaluate(self.posterior, proposal.draw(self.rng, _AROUND))
            if shows_missed_mass(proposal, around, run.draws, mixture, self.posterior.prior.mass):
                doubt = "there is mass near places that a search found, and the draws do not come there"
        info = replace(run.info, doubt=doubt, sites=len(self._modes) if self.found else None)
        return self._add_seen(replace(run.draws, info=info), run.coverage)


def _count_missed(n: int) -> str | None:
    """Say how many known points the draws do not explain."""
    many = n > 1
    return f"{n} known point{'s' * many} of high density lie{'s' * (not many)} where draws do not come" if n else None


def _prior_change(prior: LocatedPrior, rng: np.random.Generator) -> Array:
    """Mean size of each feature's change ``(d,)`` under the prior: it takes no model, and looks have few of these."""
    placed = prior.place(rng.standard_normal((_PRIOR_DRAWS, prior.dimension)))
    return normalise(-placed.log_correction) @ prior.change(placed.x)


def _has_light_tail(cover: Coverage, mixture: Mixture) -> bool:
    """Whether errors of figures can be told from the weights of the draws; where not, more draws are needed."""
    return pareto_k(cover.log_base_weights + log_target(mixture, cover.pool)) <= MAX_PARETO_K


def _can_be_outweighed(posterior: GibbsPosterior, cover: Coverage) -> bool:
    """Whether any point, known or not, could lie where candidates of the prior do not come though there is mass.

    Where the map is the prior, and no loss is below zero, a point without any loss is the heaviest there can be.
    """
    if not (posterior.prior.exact and posterior.target.loss_from_zero):
        return True
    best = cover.pool.take(np.zeros(1, dtype=int))
    best = replace(best, loss=np.zeros_like(best.loss))
    return bool(cover.outweighed(best, posterior.mixture)[0])


def _cover_of_prior(posterior: GibbsPosterior, first: Points) -> Coverage:
    """Return what candidates of the prior cover."""
    log_n = float(np.log(len(first) / posterior.prior.mass))
    return Coverage(first, lambda points: np.full(len(points), log_n), np.full(len(first), -log_n))
