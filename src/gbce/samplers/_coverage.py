"""Coverage of a pool of draws: whether evaluated points or modes show posterior mass that the draws missed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import effective_sample_size, log_mean_exp, log_total, normalise
from gbce.base import Array
from gbce.draws import Draws, Points, log_target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._proposals import MixtureProposal

__all__ = ["Coverage", "estimate_mass_around", "shows_missed_mass"]

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
