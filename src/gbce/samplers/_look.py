"""One independent look at a posterior: a search of its own, laws around what it found, and draws from them.

A look begins with starts that no other look has. Around the sites where its search ends it puts normal laws, with the
latent law beside them as a defence, learns from a few rounds of draws how wide they have to be and how much each
counts, and then draws afresh from what it has learned: the draws that count have had no part in the learning, so that
their weights, the posterior against the whole mixture of laws, have no bias. Two looks that cover what each other found
are the evidence that nothing of weight was missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, logsumexp

from gbce._numerics import effective_sample_size, normalise
from gbce.base import Array
from gbce.draws import Coverage, Points, log_target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._guide import Guide
from gbce.samplers._moves import NormalLaw
from gbce.search import Sites

__all__ = ["Agreement", "Look", "agreement", "guide_around", "join_looks", "take_look"]

# Chosen by hand; they decide what a look costs. What is wrong with its laws shows in its weights.
_DEFENCE = 0.2  # share of the latent law among the draws of a look
_MOVED = 0.05  # latent deviations below which a site leaves a coordinate alone
_BENT = 0.5  # curvature of the potential, that of the latent law being one, beyond which a coordinate is narrower
_NARROW = 0.2  # deviation, in what a site changes, of the narrow one of its laws
_NARROWEST = 1e-4  # variance of any law at first
_WIDER = 1.25  # times a learned variance: weights of a law that is too narrow have heavy tails
_PILOT, _PILOT_PER_COORDINATE = 500, 25  # draws of a round of learning: the sum of both
_MOST_ROUNDS = 6  # of learning
_GOOD = 0.25  # efficiency, effective draws for each draw, at which learning is over
_IMPROVES = 1.2  # times the efficiency before: learning that gains less is over after two rounds that fail
_KEPT = 0.5  # of the effective draws that were wanted: with fewer, a look draws a second time
_POINTS_PER_COORDINATE, _FEWEST_POINTS = 2.0, 12.0  # effective points that a law is fitted to, at least: their sum
_LEAST_WEIGHT = 0.004  # of a law: so that every site is visited, and one that was met by chance is not lost
_POWERS = (0.5, 0.25, 0.125, 0.0625, 0.03125)  # parts of eta whose posteriors get laws of their own, for the eta path
_ON_THE_WAY = 0.2  # share of these laws among all
_LEAST_CARRIED = 30.0  # effective points at a smaller eta below which it gets no law
# When looks agree: at most this share of what one found is not covered by the other, and the log evidences differ by no
# more than so many standard errors, or by no more than this.
_UNCOVERED, _Z_EVIDENCE, _EVIDENCE_SLACK = 0.02, 3.5, 0.03


@dataclass(frozen=True, eq=False)
class Look:
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

    guide: Guide
    points: Points
    n: int
    sites: Sites
    efficiency: float


def take_look(
    posterior: GibbsPosterior, rng: np.random.Generator, sites: Sites, plain: Points, n_effective: float, most: int
) -> Look:
    """Learn laws around sites, then draw from them until about ``n_effective`` draws count, ``most`` at most.

    ``plain`` are candidates of the prior, from which is learned as well. Where learning does not come to an efficiency
    that would do, nothing is drawn.
    """
    guide = guide_around(sites, posterior)
    pilot = _PILOT + _PILOT_PER_COORDINATE * plain.z.shape[1]
    rounds = [_Round(None, plain)]
    best, failures, efficiency = guide, 0, 0.0
    for _ in range(_MOST_ROUNDS):
        drawn = _draw(posterior, rng, guide, pilot)
        now = _efficiency(posterior, guide, drawn, pilot)
        rounds.append(_Round(guide, drawn))
        failures = 0 if now > _IMPROVES * efficiency else failures + 1
        if now > efficiency:
            best, efficiency = guide, now
        if efficiency >= _GOOD or failures > 1:
            break
        guide = _learn(posterior, guide, rounds)
    # What counts is drawn afresh. If it is far less effective than the rounds of learning promised, they had missed
    # something: then it is one more of them.
    for last in (False, True):
        final = _add_way(posterior, _learn(posterior, best, rounds), rounds)
        n = int(np.ceil(n_effective / max(efficiency, n_effective / (2.0 * most))))
        if n > most:
            break
        drawn = _draw(posterior, rng, final, n)
        efficiency = _efficiency(posterior, final, drawn, n)
        if last or efficiency * n >= _KEPT * n_effective:
            return Look(final, drawn, n, sites, efficiency)
        rounds.append(_Round(final, drawn))
    return Look(final, plain.take(np.zeros(0, dtype=int)), 0, sites, efficiency)


def join_looks(looks: Sequence[Look]) -> Coverage:
    """Return the draws of all looks together: each is weighed as one of the whole mixture."""
    pool = Points.join([look.points for look in looks])

    def log_density(points: Points) -> Array:
        return logsumexp([look.guide.excess(points.z) + np.log(look.n) for look in looks], axis=0)

    return Coverage(pool, log_density, -log_density(pool))


@dataclass(frozen=True)
class Agreement:
    """Whether looks agree: the larger share of what one found and others do not cover, and the gap of log evidences.

    ``errors`` is that gap in standard errors.
    """

    uncovered: float
    gap: float
    errors: float

    @property
    def holds(self) -> bool:
        """Whether what remains is what chance alone explains."""
        close = self.errors <= _Z_EVIDENCE or self.gap <= _EVIDENCE_SLACK
        return self.uncovered <= _UNCOVERED and close

    def describe(self) -> str:
        """Say in what they disagree, as a part of a sentence."""
        if self.uncovered > _UNCOVERED:
            return f"independent searches end at different places ({self.uncovered:.0%} of the mass seen by one only)"
        return f"independent searches lead to log evidences that differ by {self.gap:.2f}"


def agreement(mixture: Mixture, looks: Sequence[Look]) -> Agreement:
    """Compare the last look with all before it."""
    parts = [join_looks(looks[:-1]), join_looks(looks[-1:])]
    weights = [normalise(part.log_base_weights + log_target(mixture, part.pool)) for part in parts]
    gap = abs(parts[0].log_mass(mixture) - parts[1].log_mass(mixture))
    error = np.sqrt(sum(np.square(one).sum() for one in weights))
    pairs = zip(parts, weights, reversed(parts), strict=True)
    uncovered = max(float(one[other.outweighed(part.pool, mixture)].sum()) for part, one, other in pairs)
    return Agreement(uncovered, gap, float(gap / error))


# --- pieces -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Round:
    """A round of learning: the guide, and what was drawn from it; without a guide, from the prior."""

    guide: Guide | None
    points: Points

    def log_density(self, z: Array) -> Array:
        """Log of the expected number of its points at ``z`` ``(n, m)``, against the latent law."""
        excess = np.zeros(len(z)) if self.guide is None else self.guide.excess(z)
        return excess + np.log(max(len(self.points), 1))


def guide_around(sites: Sites, posterior: GibbsPosterior) -> Guide:
    """Put laws around each site: one as wide as the prior, one for what lies beyond it, and those that its slope and
    its curvature suggest.
    """
    potential = -log_target(posterior.mixture, sites.points)
    laws: list[NormalLaw] = []
    for z, slope, bend, height in zip(sites.points.z, sites.slope, sites.bend, potential, strict=True):
        laws += [NormalLaw(z, np.zeros((len(z), 0)), np.zeros(0)), _law_beyond(z, bend), _law_bent(z, bend)]
        if slope.any():
            laws.append(_law_sloped(z, slope, float(height)))
    return Guide(tuple(laws), 1 - _DEFENCE, np.full(len(laws), 1.0 / len(laws)))


def _law_beyond(z: Array, bend: Array) -> NormalLaw:
    """Return the law of what lies beyond a site, coordinate by coordinate, as in a box of which it is the corner."""
    moved = np.flatnonzero((np.abs(z) > _MOVED) | (bend > _BENT))
    edge, sign = np.abs(z[moved]), np.sign(z[moved])
    mills = np.exp(-0.5 * edge**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-edge))  # mean of N(0, 1) beyond the edge
    open_side = bend[moved] <= _BENT
    mean = z.copy()
    mean[moved] = np.where(open_side, sign * mills, z[moved])
    beyond = np.maximum(1 + edge * mills - mills**2, _NARROWEST)
    variance = _WIDER * np.where(open_side, beyond, np.maximum(1 / (1 + bend[moved]), _NARROWEST))
    return NormalLaw(mean, np.eye(len(z))[:, moved], variance)


def _law_bent(z: Array, bend: Array) -> NormalLaw:
    """Return a law around a site, narrow in what it changes and in what the potential bends."""
    moved = np.flatnonzero((np.abs(z) > _MOVED) | (bend > _BENT))
    variance = np.maximum(np.minimum(1 / (1 + bend[moved]), np.where(np.abs(z[moved]) > _MOVED, _NARROW**2, 1.0)), _NARROWEST)
    return NormalLaw(z, np.eye(len(z))[:, moved], variance)


def _law_sloped(z: Array, slope: Array, potential: float) -> NormalLaw:
    """Return the law of a squared loss with this slope: narrow along it, as wide as the prior across it."""
    steepness = float(np.linalg.norm(slope))
    variance = 1 / (1 + steepness**2 / max(2 * potential, _NARROWEST))
    return NormalLaw(z, (slope / steepness)[:, None], np.array([_WIDER * variance]))


def _draw(posterior: GibbsPosterior, rng: np.random.Generator, guide: Guide, n: int) -> Points:
    """Draw from the whole mixture, the latent law included, and keep what breaks no constraint."""
    near = rng.binomial(n, guide.share)
    z = np.vstack([guide.draw(rng, near), rng.standard_normal((n - near, posterior.prior.dimension))])
    points = Points.evaluate(posterior, z)
    return points.take(np.isfinite(points.log_correction))


def _at(posterior: GibbsPosterior, share: float) -> Mixture:
    """Return the mixture at a share of eta."""
    return replace(posterior.mixture, eta=share * posterior.mixture.eta)


def _efficiency(posterior: GibbsPosterior, guide: Guide, points: Points, n: int) -> float:
    log_weights = log_target(posterior.mixture, points) - guide.excess(points.z)
    return effective_sample_size(normalise(log_weights)) / n if np.isfinite(log_weights).any() else 0.0


def _weights(posterior: GibbsPosterior, rounds: Sequence[_Round], points: Points, share: float = 1.0) -> Array:
    """Weights ``(n,)`` of the points of all rounds, seen as draws from all rounds together."""
    densities = [one.log_density(points.z) for one in rounds]
    return normalise(log_target(_at(posterior, share), points) - logsumexp(densities, axis=0))


def _learn(posterior: GibbsPosterior, guide: Guide, rounds: Sequence[_Round]) -> Guide:
    """Fit each law to the part of the weighted points that it explains: one step of expectation and maximisation."""
    points = Points.join([one.points for one in rounds])
    weights = _weights(posterior, rounds, points)
    counted = weights > 0
    z, weights = points.z[counted], weights[counted]
    log_parts = guide.log_parts(z) + np.log(guide.share)
    latent = np.full((len(z), 1), np.log1p(-guide.share))
    part = np.exp(log_parts - logsumexp(np.hstack([log_parts, latent]), axis=1, keepdims=True))
    part *= weights[:, None]
    mass = part.sum(axis=0)
    enough = _FEWEST_POINTS + _POINTS_PER_COORDINATE * z.shape[1]
    laws = []
    for law, own, total in zip(guide.laws, part.T, mass, strict=True):
        size = total**2 / max(float(np.square(own).sum()), 1e-300)
        fits = size >= enough
        laws.append(NormalLaw.fit(z, own / total, size).widen(_WIDER) if fits else law)
    shares = np.maximum(mass / max(mass.sum(), 1e-300), _LEAST_WEIGHT)
    return replace(guide, laws=tuple(laws), weights=shares / shares.sum())


def _add_way(posterior: GibbsPosterior, guide: Guide, rounds: Sequence[_Round]) -> Guide:
    """Add laws fitted to the posterior at smaller etas, so that the draws carry these as well."""
    points = Points.join([one.points for one in rounds])
    laws = []
    for power in _POWERS:
        weights = _weights(posterior, rounds, points, power)
        size = effective_sample_size(weights)
        if size >= _LEAST_CARRIED:
            laws.append(NormalLaw.fit(points.z, weights, size).widen(_WIDER))
    if not laws or guide.weights is None:
        return guide
    weights = np.concatenate([(1 - _ON_THE_WAY) * guide.weights, np.full(len(laws), _ON_THE_WAY / len(laws))])
    return replace(guide, laws=guide.laws + tuple(laws), weights=weights)
