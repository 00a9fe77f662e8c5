"""One independent look at a posterior: a search of its own, laws around what it found, and draws from them.

A look begins with starts that no other look has. Around the sites where its search ends it puts normal laws, with the
latent law beside them as a defence, learns from a few rounds of draws how wide they have to be and how much each
counts, and then draws afresh from what it has learned: the draws that count have had no part in the learning, so that
their weights, the posterior against the whole mixture of laws, have no bias. Two looks that cover what each other found
are the evidence that nothing of weight was missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import log_ndtr

from gbce._numerics import TINY, effective_sample_size, log_sum_exp, log_total, normalise
from gbce.base import Array
from gbce.draws import Points, log_target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._coverage import Coverage
from gbce.samplers._moves import NormalComponent
from gbce.samplers._proposals import MANY, MixtureProposal, ProductOfMarginals, Strata, TiltedProduct, tilt
from gbce.search import Modes

__all__ = [
    "KEPT",
    "MOST_FOR_EFFECTIVE",
    "WIDER",
    "Agreement",
    "ProposalAdaptation",
    "ProposalRun",
    "agreement",
    "initial_proposal",
    "least_rows_for_runs",
    "pool_runs",
    "rows_for_run",
    "run_proposal",
]

# --- normal laws around sites ----------------------------------------------------------------------------------------

# Chosen by hand; what is wrong with a first guess is learned, and shows in the weights if it is not.
_DEFENCE = 0.2  # share of the latent law among the draws of a look
_MOVED = 0.05  # latent deviations below which a site leaves a coordinate alone
_BENT = 0.5  # curvature of the potential, that of the latent law being one, beyond which a coordinate is narrower
_NARROW = 0.2  # deviation, in what a site changes, of the narrow one of its laws
_NARROWEST = 1e-4  # variance of any law at first
WIDER = 1.25  # times a variance: weights of a law that is too narrow have heavy tails


def initial_proposal(modes: Modes, posterior: GibbsPosterior, tilted: Sequence[TiltedProduct] = ()) -> MixtureProposal:
    """Put three to five laws around each site, and the latent law and those that are ``tilted`` beside them all.

    One is as wide as the prior, one is made for what lies beyond the site, one is narrow wherever the site changes
    something or the potential bends, and one is that of a squared loss with the site's slope, if it has any; in many
    coordinates a fifth is the same, but for what the site has beside its slope. In the
    well of a smooth potential the narrow one is as wide as the bends say: few draws come to a well of little mass, so
    that what is wrong with its law is not learned, and a law that is too narrow finds too little there.
    """
    potential = -log_target(posterior.mixture, modes.points)
    components: list[NormalComponent] = []
    whose: list[int] = []
    parts = zip(modes.points.z, modes.slope, modes.curvature, modes.smooth, potential, strict=True)
    for z, slope, curvature, smooth, neg_log_density in parts:
        narrow = _component_of_basin(z, curvature) if smooth else _curved_component(z, curvature)
        components += [
            NormalComponent(z, np.zeros((len(z), 0)), np.zeros(0)),
            _distribution_beyond(z, curvature),
            narrow,
        ]
        if slope.any():
            components.append(_sloped_component(z, slope, float(neg_log_density)))
        if slope.any() and len(z) >= MANY:
            components.append(_sloped_component(_along(z, slope), slope, float(neg_log_density)))
        whose += [max(whose, default=-1) + 1] * (len(components) - len(whose))
    k = len(components) + len(tilted)
    whose += [max(whose) + 1] * len(tilted)
    return MixtureProposal((*components, *tilted), 1 - _DEFENCE, np.full(k, 1.0 / k), np.array(whose))


def _distribution_beyond(z: Array, curvature: Array) -> NormalComponent:
    """Return the law of what lies beyond a site, coordinate by coordinate, as in a box of which it is the corner."""
    moved = np.flatnonzero((np.abs(z) > _MOVED) | (curvature > _BENT))
    edge, sign = np.abs(z[moved]), np.sign(z[moved])
    mills = np.exp(-0.5 * edge**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-edge))  # mean of N(0, 1) beyond the edge
    open_side = curvature[moved] <= _BENT
    mean = z.copy()
    mean[moved] = np.where(open_side, sign * mills, z[moved])
    beyond = np.maximum(1 + edge * mills - mills**2, _NARROWEST)
    variance = WIDER * np.where(open_side, beyond, np.maximum(1 / (1 + curvature[moved]), _NARROWEST))
    return NormalComponent(mean, np.eye(len(z))[:, moved], variance)


def _curved_component(z: Array, curvature: Array) -> NormalComponent:
    """Return a law around a site, narrow in what it changes and in what the potential bends."""
    moved = np.flatnonzero((np.abs(z) > _MOVED) | (curvature > _BENT))
    narrow = np.where(np.abs(z[moved]) > _MOVED, _NARROW**2, 1.0)
    variance = np.maximum(np.minimum(1 / (1 + curvature[moved]), narrow), _NARROWEST)
    return NormalComponent(z, np.eye(len(z))[:, moved], variance)


def _component_of_basin(z: Array, curvature: Array) -> NormalComponent:
    """Return a law around a site of a smooth potential: as wide as the bend says, where there is one."""
    bent = np.flatnonzero(curvature > _BENT)
    return NormalComponent(z, np.eye(len(z))[:, bent], np.maximum(WIDER / (1 + curvature[bent]), _NARROWEST))


def _along(z: Array, slope: Array) -> Array:
    """Return the part of a site that lies along its slope: at a mode that is all of it.

    In many coordinates a search ends beside the mode, off by a little in each of them, and a law around that end has
    next to no draw where the posterior is.
    """
    unit = slope / np.hypot.reduce(slope)
    return np.asarray((z @ unit) * unit)


def _sloped_component(z: Array, slope: Array, potential: float) -> NormalComponent:
    """Return the law of a squared loss with this slope: narrow along it, as wide as the prior across it."""
    steepness = float(np.hypot.reduce(slope))
    variance = 1 / (1 + steepness * (steepness / max(2 * potential, _NARROWEST)))
    return NormalComponent(z, (slope / steepness)[:, None], np.array([WIDER * variance]))


# --- what a look learns from rounds of draws -------------------------------------------------------------------------

# Chosen by hand.
_POINTS_PER_COORDINATE, _FEWEST_POINTS = 2.0, 12.0  # effective points that a law is fitted to, at least: their sum
_LEAST_WEIGHT = 0.004  # of a law: so that every site is visited, and one that was met by chance is not lost
_NO_MASS = 1e-3  # of all that the laws explain
_POWERS = (0.5, 0.25, 0.125, 0.0625, 0.03125)  # parts of eta whose posteriors get laws of their own, for the eta path
_ON_THE_WAY = 0.2  # share of these laws among all
_STRATA_WEIGHT = (0.1, 0.6)  # of strata among the components, at least and at most
# Of the product of marginals among the laws, at least and at most. With 300 boosted trees on 8 columns ten rows took
# 720,000 model rows, with 0.6 at least 640,000; but that is too much where columns go together, as in a linear model.
_PRODUCT_WEIGHT = (0.3, 0.8)
_LEAST_CARRIED = 30.0  # effective points at a smaller eta below which it gets no law


@dataclass
class ProposalAdaptation:
    """Points of all rounds so far, seen as draws from all rounds together.

    Parameters
    ----------
    posterior : GibbsPosterior
        What is to be learned.
    points : Points
        At first, candidates of the prior.
    known : arrays of shapes (n, m) and (n,)
        Other latent points, and minus the log of their density: strata are fitted to these as well.
    rng : Generator
        For the strata.
    """

    posterior: GibbsPosterior
    points: Points
    known: tuple[Array, Array]
    rng: np.random.Generator
    proposals: list[tuple[MixtureProposal, int]] = field(init=False, default_factory=list)
    log_density: Array = field(init=False)

    def __post_init__(self) -> None:
        self._n_plain = len(self.points)
        self.log_density = self._density(self.points)

    def add(self, proposal: MixtureProposal, points: Points) -> None:
        """Add a round: points drawn from a guide. Each density is computed once for each point."""
        there = self._density(points)
        self.proposals.append((proposal, len(points)))
        self.points = Points.join([self.points, points])
        before = np.append(self.log_density, there)
        self.log_density = np.logaddexp(before, proposal.excess(self.points.z) + np.log(max(len(points), 1)))

    def _density(self, points: Points) -> Array:
        """Log of the expected number of points of all rounds at ``points`` ``(n,)``, against the latent law."""
        rounds = [proposal.excess(points.z) + np.log(max(n, 1)) for proposal, n in self.proposals]
        return log_sum_exp(np.array([np.full(len(points), np.log(max(self._n_plain, 1))), *rounds]), axis=0)

    def weights(self, share: float = 1.0) -> Array:
        """Weights ``(n,)`` of all points under the posterior at a share of eta."""
        mixture = replace(self.posterior.mixture, eta=share * self.posterior.mixture.eta)
        return normalise(log_target(mixture, self.points) - self.log_density)

    @property
    def enough(self) -> float:
        """Effective points that a law is fitted to, at least."""
        return _FEWEST_POINTS + _POINTS_PER_COORDINATE * self.posterior.prior.dimension

    def fit(self, proposal: MixtureProposal) -> MixtureProposal:
        """Fit each law to the part of the weighted points that it explains: one step of expectation and maximisation.

        Laws that explain next to nothing are dropped, but for the best one of each site. Where fewer points count than
        a law is fitted to, the best so many count the same: one or two heavy ones only tell where to go.
        """
        if not np.isfinite(log_target(self.posterior.mixture, self.points)).any():
            return proposal  # there is nothing to learn from
        weights = self.weights()
        counted = weights > 0
        z, weights = self.points.z[counted], weights[counted]
        plain = weights
        if effective_sample_size(weights) < self.enough:
            weights = _clip(weights, int(self.enough))
        log_parts = proposal.log_parts(z) + np.log(proposal.share)
        whole = np.logaddexp(log_sum_exp(log_parts, axis=1), np.log1p(-proposal.share))
        part = log_parts - whole[:, None]
        np.exp(part, out=part)
        tilted = [isinstance(component, TiltedProduct) for component in proposal.components] + [False] * (
            part.shape[1] - len(proposal.components)
        )
        # a tilt has one number to learn: it takes few points
        part *= np.where(tilted, plain[:, None], weights[:, None])
        mass = part.sum(axis=0)
        components: list[NormalComponent | TiltedProduct | ProductOfMarginals] = []
        for component, own, total in zip(proposal.components, part.T, mass, strict=False):
            size = total**2 / max(float(np.square(own).sum()), TINY)
            if isinstance(component, TiltedProduct):
                components.append(component.refit(z, own / total) if size >= _FEWEST_POINTS else component)
            elif isinstance(component, ProductOfMarginals):
                components.append(component)
            else:
                components.append(
                    NormalComponent.fit(z, own / total, size).widen(WIDER) if size >= self.enough else component
                )
        by_strata = float(np.clip(mass[len(components) :].sum() / max(mass.sum(), TINY), *_STRATA_WEIGHT))
        shares = mass[: len(components)] / max(mass[: len(components)].sum(), TINY)
        product = np.array([isinstance(component, ProductOfMarginals) for component in components])
        by_product = float(np.clip(shares[product].sum(), *_PRODUCT_WEIGHT))
        shares[product] = 0.0
        kept = np.flatnonzero((shares >= _NO_MASS) | (_best_of_modes(proposal, shares) & ~product))
        own_weights = np.maximum(shares[kept], _LEAST_WEIGHT)
        fitted = MixtureProposal(
            components=(
                *(components[k] for k in kept),
                ProductOfMarginals.fit(z, weights, effective_sample_size(weights)),
            ),
            share=proposal.share,
            weights=np.append((1.0 - by_product) * own_weights / own_weights.sum(), by_product),
            modes=None if proposal.modes is None else np.append(proposal.modes[kept], -1),
        )
        return fitted.beside(self.stratify(), by_strata)

    def stratify(self) -> Strata | None:
        """Fit strata to all points."""
        z = np.vstack([self.points.z, self.known[0]])
        return Strata.fit(self.rng, z, np.append(-log_target(self.posterior.mixture, self.points), self.known[1]))

    def add_tempered_components(self, proposal: MixtureProposal) -> MixtureProposal:
        """Add laws fitted to the posterior at smaller etas, so that draws carry these as well."""
        components = []
        for power in _POWERS:
            weights = self.weights(power)
            size = effective_sample_size(weights)
            if size >= _LEAST_CARRIED:
                components.append(NormalComponent.fit(self.points.z, weights, size).widen(WIDER))
        if not components or proposal.weights is None:
            return proposal
        own, way = proposal.weights[: len(proposal.components)], _ON_THE_WAY / (1 - proposal.strata_weight)
        weights = np.concatenate([(1 - way) * own / own.sum(), np.full(len(components), way / len(components))])
        return MixtureProposal(proposal.components + tuple(components), proposal.share, weights).beside(
            proposal.strata, proposal.strata_weight
        )


def _clip(weights: Array, n: int) -> Array:
    """Return weights ``(N,)`` of which the ``n`` largest are the same, so that about as many points count.

    Laws then come nearer round by round, where a fit to the few that count would not move, or collapse (Koblents and
    Míguez, A population Monte Carlo scheme with transformed weights, 2015).
    """
    largest = np.sort(weights)[-n:]
    clipped = np.minimum(weights, largest[0])
    return np.asarray(clipped / clipped.sum())


def _best_of_modes(proposal: MixtureProposal, shares: Array) -> Array:
    """Which laws ``(k,)`` have the largest share of those around their site."""
    if proposal.modes is None:
        return np.ones(len(shares), dtype=bool)
    best = np.zeros(len(shares), dtype=bool)
    for mode in np.unique(proposal.modes):
        own = np.flatnonzero(proposal.modes == mode)
        best[own[np.argmax(shares[own])]] = True
    return best


# --- one independent look at a posterior -----------------------------------------------------------------------------

# Chosen by hand; they decide what a look costs. What is wrong with its laws shows in its weights.
_PILOT, _PILOT_PER_COORDINATE = 500, 25  # draws of a round of learning: the sum of both
_LARGEST_PILOT = 3_000  # in more than a hundred coordinates there is less to be learned than would be needed anyway
_MOST_ROUNDS, _MOST_LEARNING = 14, 18_000  # of learning, and draws of all of them; 30 coordinates may need all rounds
# Efficiency, effective draws for each draw, at which learning is over: in any case, or where the draws that are wanted
# take no more than so many rounds of learning.
_GOOD, _ROUNDS_WORTH = 0.25, 2
_IMPROVES = 1.2  # times the efficiency before: learning that gains less is over after two rounds that fail
MOST_FOR_EFFECTIVE = 60  # draws for one effective draw: where more would be needed, points are moved instead
_ROUNDS_LEFT = 4  # rounds of learning that a budget must still allow for another one to begin
_USUAL_ROUNDS, _AT_BEST = 2, 0.5  # rounds of learning that most looks take, and the efficiency that few exceed
_STRATA_SHARE = 0.4  # of strata among the components of the first round
KEPT = 0.5  # of the effective draws that were wanted: with fewer, a look draws a second time
# When looks agree: at most this share of the mass is covered by one of them only, and the log evidences of what both
# cover differ by no more than so many standard errors, or by no more than this.
_SEEN_ONCE, _Z_EVIDENCE, _EVIDENCE_SLACK = 0.02, 3.5, 0.03


@dataclass(frozen=True, eq=False)
class ProposalRun:
    """What one look has to say.

    Parameters
    ----------
    guide : Guide
        The law its draws come from.
    points : Points
        Draws from it, evaluated; those that break a constraint are left out.
    n : int
        How many there were before that.
    sites : Sites
        Where its search ended.
    efficiency : float
        Effective draws for each draw, in the last round of learning.
    """

    proposal: MixtureProposal
    points: Points
    n: int
    modes: Modes
    efficiency: float


def rows_for_run(n_effective: float) -> int:
    """Return how many rows a budget must still allow for a look to get all that it may ask."""
    return _MOST_LEARNING + 2 * round(MOST_FOR_EFFECTIVE * n_effective)


def least_rows_for_runs(m: int, n_effective: float) -> int:
    """Return how many rows two looks in ``m`` coordinates take for so many effective draws, if all goes well."""
    return 2 * _USUAL_ROUNDS * _pilot(m) + round(n_effective / _AT_BEST)


def _pilot(m: int) -> int:
    """Return the draws of a round of learning in ``m`` coordinates."""
    return min(_PILOT + _PILOT_PER_COORDINATE * m, _LARGEST_PILOT)


def run_proposal(
    posterior: GibbsPosterior,
    rng: np.random.Generator,
    modes: Modes,
    plain: Points,
    known: tuple[Array, Array],
    n_effective: float,
    most: int,
) -> ProposalRun:
    """Learn laws around sites, then draw from them until about ``n_effective`` draws count, ``most`` at most.

    ``plain`` are candidates of the prior, from which is learned as well. Where learning does not come to one effective
    draw in sixty, nothing is drawn. Where ``most`` is less than would be needed, as many are drawn as it allows.
    """
    adaptation = ProposalAdaptation(posterior, plain, known, rng)
    proposal = initial_proposal(modes, posterior, tilt(posterior, modes)).beside(adaptation.stratify(), _STRATA_SHARE)
    pilot = _pilot(plain.z.shape[1])
    best, failures, efficiency = proposal, 0, 0.0
    good = min(_GOOD, n_effective / (_ROUNDS_WORTH * pilot))
    for _ in range(min(_MOST_ROUNDS, _MOST_LEARNING // pilot)):
        drawn = _draw(posterior, rng, proposal, pilot)
        now = _efficiency(posterior, proposal, drawn, pilot)
        adaptation.add(proposal, drawn)
        tells = (
            now * pilot >= adaptation.enough
        )  # with fewer draws that count, it is the efficiency of a few heavy ones
        failures = failures + 1 if tells and now <= _IMPROVES * efficiency else 0
        if now > efficiency:
            best, efficiency = proposal, now
        if efficiency >= good or failures > 1 or posterior.affords(_ROUNDS_LEFT * pilot) < _ROUNDS_LEFT * pilot:
            break
        proposal = adaptation.fit(proposal)
    if efficiency == 0.0:  # no draw had a finite loss
        return ProposalRun(proposal, plain.take(np.zeros(0, dtype=int)), 0, modes, efficiency)
    # What counts is drawn afresh. If it is far less effective than the rounds of learning promised, they had missed
    # something: then it is one more of them.
    for last in (False, True):
        final = adaptation.add_tempered_components(adaptation.fit(best))
        if efficiency * MOST_FOR_EFFECTIVE < 1:
            break
        n = min(int(np.ceil(n_effective / efficiency)), most)
        drawn = _draw(posterior, rng, final, n)
        efficiency = _efficiency(posterior, final, drawn, n)
        hopeless = efficiency * MOST_FOR_EFFECTIVE < 1  # another such draw would not do either: this one counts
        if last or hopeless or n == most or efficiency * n >= KEPT * n_effective:
            return ProposalRun(final, drawn, n, modes, efficiency)
        adaptation.add(final, drawn)
    return ProposalRun(final, plain.take(np.zeros(0, dtype=int)), 0, modes, efficiency)


def pool_runs(runs: Sequence[ProposalRun]) -> Coverage:
    """Return the draws of all looks together: each is weighed as one of the whole mixture."""
    pool = Points.join([run.points for run in runs])

    def log_density(points: Points) -> Array:
        return log_sum_exp(np.array([run.proposal.excess(points.z) + np.log(run.n) for run in runs]), axis=0)

    return Coverage(pool, log_density, -log_density(pool))


@dataclass(frozen=True)
class Agreement:
    """Whether looks agree: the share of the mass that only one of them covers, and the gap of log evidences.

    The mass that was seen by one look only estimates what none has seen (Good, 1953). ``gap`` is that between the last
    look and all before it, apart from the mass that one of the two does not cover; ``errors`` is the gap in standard
    errors.
    """

    seen_once: float
    gap: float
    errors: float

    @property
    def holds(self) -> bool:
        """Whether what remains is what chance alone explains."""
        close = self.errors <= _Z_EVIDENCE or self.gap <= _EVIDENCE_SLACK
        return self.seen_once <= _SEEN_ONCE and close

    def describe(self) -> str:
        """Say in what they disagree, as a part of a sentence."""
        if self.seen_once > _SEEN_ONCE:
            return f"independent searches end at different places ({self.seen_once:.0%} of the mass seen by one only)"
        return f"independent searches lead to log evidences that differ by {self.gap:.2f}"


def agreement(mixture: Mixture, runs: Sequence[ProposalRun]) -> Agreement:
    """Compare what each look covers with what all found together, and the evidence of the last with all before it."""
    whole = pool_runs(runs)
    weights = normalise(whole.log_base_weights + log_target(mixture, whole.pool))
    total = whole.log_mass(mixture)
    covers = np.array([~pool_runs([run]).outweighed(whole.pool, mixture, total) for run in runs])
    parts = [pool_runs(runs[:-1]), pool_runs(runs[-1:])]
    evidence = [part.log_base_weights + log_target(mixture, part.pool) for part in parts]
    missed = [float(weights[~covered].sum()) for covered in (covers[:-1].any(axis=0), covers[-1])]
    earlier, last = (log_total(one) - np.log1p(-min(gone, 0.999)) for one, gone in zip(evidence, missed, strict=True))
    error = np.sqrt(sum(np.square(normalise(one)).sum() for one in evidence))
    gap = abs(last - earlier)
    return Agreement(float(weights[covers.sum(axis=0) < 2].sum()), gap, float(gap / error))


def _draw(posterior: GibbsPosterior, rng: np.random.Generator, proposal: MixtureProposal, n: int) -> Points:
    """Draw from the whole mixture, the latent law included, and keep what breaks no constraint."""
    near = rng.binomial(n, proposal.share)
    z = np.vstack([proposal.draw(rng, near), rng.standard_normal((n - near, posterior.prior.dimension))])
    points = Points.evaluate(posterior, z)
    return points.take(np.isfinite(points.log_correction))


def _efficiency(posterior: GibbsPosterior, proposal: MixtureProposal, points: Points, n: int) -> float:
    """Effective draws for each of ``n`` draws, of which these are the points that break no constraint."""
    log_weights = log_target(posterior.mixture, points) - proposal.excess(points.z)
    return effective_sample_size(normalise(log_weights)) / n if np.isfinite(log_weights).any() else 0.0
