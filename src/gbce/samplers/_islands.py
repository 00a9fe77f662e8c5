"""Tempered SMC in several islands, and whether a pool of draws covers the mass that other points or modes show."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import effective_sample_size, log_mean_exp, log_total, normalise
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, log_target
from gbce.eta import solve_eta
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._importance import SMCInfo, draw_candidates
from gbce.samplers._proposals import MixtureProposal
from gbce.samplers._tempering import (
    Bridge,
    Population,
    StallDetector,
    TemperingPass,
    log_density,
    recycle,
    run_tempering,
)

# --- coverage --------------------------------------------------------------------------------------------------------

# Share of the mass: a point at which a single draw would carry more lies where the pool has next to no draws. With a
# thousand effective draws, one of them carries about 0.1%; chosen by hand.
_OUTWEIGHS = 0.05
_WIDTHS, _COPIES = np.array([0.5, 0.1, 0.02]), 24  # latent standard deviations of draws around a point; their number
# Draws around modes show missed mass if it is this share of all, beyond what was found there and beyond this many
# relative standard errors, and never with fewer effective points than this. Chosen by hand.
_MISSED, _ERRORS, _FEWEST_EFFECTIVE = 0.05, 1.5, 3.0
_MOST_LOG_RATIO = 50.0  # of masses: beyond, only overflow matters
# Distances at which the density is profiled along each coordinate, both ways. It is interpolated linearly in between,
# so that a mode narrower than the first counts as half as wide as that.
_ALONG = 0.01 * 1.8 ** np.arange(11)
_NEEDLE = 1e-3  # latent standard deviations: narrower modes are ignored
_IN_BOX = 600  # draws that estimate the mass in the box; by hand: a few hundredths of a usual explanation
_RELEVANT = 0.01  # of all mass: less around a known point is negligible; by hand


@dataclass(frozen=True, eq=False)
class Coverage:
    """Expected density of the points of a pool."""

    pool: Points  # the points
    log_density: Callable[
        [Points], Array
    ]  # log expected number of pool points at evaluated points (n,), against N(0, I)
    log_base_weights: Array  # (N,): minus that for the pool; runs that found different mass may count differently

    def log_mass(self, mixture: Mixture) -> float:
        """Return the log normalising constant, against ``N(0, I)``, estimated by the pool."""
        return log_total(self.log_base_weights + log_target(mixture, self.pool))

    def outweighed(self, points: Points, mixture: Mixture, log_mass: float | None = None) -> Array:
        """Whether a draw at each of the points ``(n,)`` would carry too much of the mass, by default the pool's."""
        found = self.log_mass(mixture) if log_mass is None else log_mass
        share = log_target(mixture, points) - self.log_density(points) - found
        return share > np.log(_OUTWEIGHS)

    def is_relevant(self, log_mass: Array, mixture: Mixture) -> Array:
        """Whether log masses ``(n,)`` against ``N(0, I)`` are a relevant share of the pool's."""
        return log_mass > self.log_mass(mixture) + np.log(_RELEVANT)

    def unexplained(self, points: Points, mixture: Mixture) -> Array:
        """Whether evaluated points ``(n,)`` show mass that the pool has missed.

        The mass around a point of latent density ``p`` is about ``p`` at most, because the posterior is nowhere much
        wider than ``N(0, I)``. Where that is negligible, a draw would outweigh the pool but does not occur.
        """
        most = log_target(mixture, points) - 0.5 * np.square(points.z).sum(axis=1)
        return self.is_relevant(most, mixture) & self.outweighed(points, mixture)

    def dwarfed(self, points: Points, mixture: Mixture) -> Array:
        """Whether the pool's mass is negligible beside points ``(n,)``, however narrow their modes are."""
        thin = _latent_log_density(mixture, points) + points.z.shape[1] * np.log(_NEEDLE)
        return self.is_relevant(thin, mixture)

    def has_missed_mass_near(self, posterior: GibbsPosterior, rng: np.random.Generator, z: Array) -> bool:
        """Whether mass that the pool has missed may lie around an unexplained latent point ``(m,)``.

        A narrow mode (for instance one forest cell) can have high density and negligible mass. The density is profiled
        along each coordinate, and draws from the box of that shape estimate the mass where a single draw would outweigh
        the pool. Its mean plus three standard errors must be small.
        """
        m, along = len(z), np.concatenate([-_ALONG[::-1], [0.0], _ALONG])
        there = np.tile(z, (m, len(along), 1))
        there[np.arange(m), :, np.arange(m)] += along
        points = Points.evaluate(posterior, there.reshape(-1, m))
        profile = _latent_log_density(posterior.mixture, points).reshape(m, len(along))
        here = profile[0, len(_ALONG)]
        if not np.isfinite(here):
            return False
        ratio = np.exp(np.minimum(profile - here, _MOST_LOG_RATIO))
        mass = 0.5 * (ratio[:, 1:] + ratio[:, :-1]) * np.diff(along)
        share = mass / mass.sum(axis=1, keepdims=True)
        which = np.array([rng.choice(len(along) - 1, size=_IN_BOX, p=one) for one in share]).T
        drawn = z + along[which] + rng.random((_IN_BOX, m)) * np.diff(along)[which]
        points = Points.evaluate(posterior, drawn)
        log_density = np.log(share[np.arange(m), which] / np.diff(along)[which]).sum(axis=1)
        log_share = _latent_log_density(posterior.mixture, points) - log_density - 0.5 * m * np.log(2.0 * np.pi)
        log_share = np.minimum(log_share - self.log_mass(posterior.mixture), _MOST_LOG_RATIO)
        missed = np.where(self.outweighed(points, posterior.mixture), np.exp(log_share), 0.0)
        return bool(missed.mean() + 3.0 * missed.std() / np.sqrt(_IN_BOX) > _RELEVANT)


def _latent_log_density(mixture: Mixture, points: Points) -> Array:
    """Return the log posterior density ``(n,)`` in the latent space, up to a constant."""
    return np.asarray(log_target(mixture, points) - 0.5 * np.square(points.z).sum(axis=1))


def estimate_mass_around(posterior: GibbsPosterior, rng: np.random.Generator, z: Array) -> Array:
    """Estimate the log mass ``(n,)`` around latent points ``(n, m)`` from a few draws; for few coordinates only."""
    n, m = z.shape
    offset = rng.choice(_WIDTHS, size=(n, _COPIES, 1)) * rng.standard_normal((n, _COPIES, m))
    there = (z[:, None, :] + offset).reshape(-1, m)
    squares = np.square(offset).sum(axis=2)[:, :, None] / np.square(_WIDTHS)
    log_density = logsumexp(-0.5 * squares - m * np.log(_WIDTHS), axis=2) - np.log(len(_WIDTHS))
    log_latent = -0.5 * np.square(there).sum(axis=1).reshape(n, _COPIES)
    target = log_target(posterior.mixture, Points.evaluate(posterior, there)).reshape(n, _COPIES)
    return logsumexp(target + log_latent - log_density, axis=1) - np.log(_COPIES)


def shows_missed_mass(
    proposal: MixtureProposal, around: Points, draws: Draws, mixture: Mixture, mass: float, agreed: bool = True
) -> bool:
    """Whether draws ``around`` modes, from a proposal, show mass near its components that ``draws`` have not found.

    The rungs of a tempered run are weighted by their own estimates, which do not show that a mode is missing. Near
    means that the proposal is denser than ``N(0, I)``. ``mass`` is the share of ``N(0, I)`` that meets the constraints,
    to which the draws' evidence refers. Mass on which islands have not ``agreed`` does not count as found.
    """
    log_proposal = proposal.log_component_density(around.z)
    there = np.where(log_proposal > 0, log_target(mixture, around) - log_proposal, -np.inf)
    size = effective_sample_size(normalise(there)) if np.isfinite(there).any() else 0.0
    if size < _FEWEST_EFFECTIVE:
        return False
    found = float(draws.pool_weights[proposal.log_component_density(draws.pool.z) > 0].sum()) if agreed else 0.0
    seen = np.exp(np.minimum(log_mean_exp(there) - np.log(mass) - draws.log_evidence, _MOST_LOG_RATIO))
    return bool(seen * (1 - _ERRORS / np.sqrt(size)) > found + _MISSED)


# --- islands ---------------------------------------------------------------------------------------------------------

LEAST_ISLANDS = 2  # to estimate an error between them
_LEAST_ISLAND = 25  # points of an island: with fewer there is little to resample (by hand)
# Islands agree if the effective sample size, over all figures and for the worst, is at least these shares of n_draws,
# and the error of the log evidence at most this. Chosen by hand: 0.22 of the default 2,000 draws is a little above the
# 400, and 0.45 a little below the 0.5, at which the verdict on the draws asks for care.
_AGREED, _AGREED_WORST, _AGREED_EVIDENCE = 0.22, 0.05, 0.45
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

    def reduce(self, points: float, sweeps: float) -> "Islands":
        """Return the options for one round with shares of the points and sweeps."""
        return Islands(round(points * self.n_draws), self.n_islands, max(round(sweeps * self.max_sweeps), 1), 1)

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
