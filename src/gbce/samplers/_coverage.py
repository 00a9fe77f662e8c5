"""What a pool of draws covers: whether known points, or places that a search found, show mass that it missed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import effective_sample_size, log_mean_exp, log_total, normalise
from gbce.base import Array
from gbce.draws import Draws, Points, log_target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._proposals import MixtureProposal

__all__ = ["Coverage", "mass_around", "shows_missed_mass"]

# Of all mass that was found: a point at which a single draw would carry more lies where the pool has next to nothing
# though there is something. With a thousand effective draws, one of them carries about 0.1%; chosen by hand.
_OUTWEIGHS = 0.05
# When points drawn around sites show missed mass: so much of all, beyond what was found there and beyond so many
# relative standard errors, and never with fewer effective points than this. Chosen by hand.
_WIDTHS, _COPIES = np.array([0.5, 0.1, 0.02]), 24  # latent deviations of points drawn around one point, and how many
_MISSED, _DOUBT, _FEWEST_EFFECTIVE = 0.05, 1.5, 3.0
_MOST_LOG_RATIO = 50.0  # of masses: beyond it, only overflow matters
# Where a point lies in its well is looked at along each coordinate at these distances, both ways; in between the height
# is taken to change evenly, so that a well that is narrower than the first counts as half as wide as that.
_ALONG = 0.01 * 1.8 ** np.arange(11)
_NEEDLE = 1e-3  # latent deviations: a place that is narrower than that in every coordinate is none
_IN_BOX = 600  # draws that tell how full the box is; by hand: a few hundredths of a usual explanation
_RELEVANT = 0.01  # of all mass: less around a known point is nothing to worry about; chosen by hand


@dataclass(frozen=True, eq=False)
class Coverage:
    """Where the points of a pool were to be expected.

    Parameters
    ----------
    pool : Points
        The points.
    log_density : callable
        Log of the expected number of them at evaluated points, against the latent law: ``(n,)``.
    log_base_weights : array of shape (N,)
        Minus that for the pool itself; runs that found different mass may count differently.
    """

    pool: Points
    log_density: Callable[[Points], Array]
    log_base_weights: Array

    def log_mass(self, mixture: Mixture) -> float:
        """Log of the normaliser, against the latent law, that the pool found."""
        return log_total(self.log_base_weights + log_target(mixture, self.pool))

    def outweighed(self, points: Points, mixture: Mixture, log_mass: float | None = None) -> Array:
        """Whether a single draw at each of the points ``(n,)`` would carry too much for the pool to be complete.

        Too much of what the pool itself found, or of another log mass.
        """
        found = self.log_mass(mixture) if log_mass is None else log_mass
        share = log_target(mixture, points) - self.log_density(points) - found
        return share > np.log(_OUTWEIGHS)

    def is_relevant(self, log_mass: Array, mixture: Mixture) -> Array:
        """Whether masses ``(n,)`` against the latent law are worth worrying about."""
        return log_mass > self.log_mass(mixture) + np.log(_RELEVANT)

    def unexplained(self, points: Points, mixture: Mixture) -> Array:
        """Whether known points ``(n,)`` show mass that the pool has missed.

        Around a point of height ``h`` no more than ``exp(-h)`` is to be expected, because the posterior is nowhere much
        wider than the latent law. Where that is next to nothing, a draw would outweigh the pool but does not occur.
        """
        most = log_target(mixture, points) - 0.5 * np.square(points.z).sum(axis=1)
        return self.is_relevant(most, mixture) & self.outweighed(points, mixture)

    def dwarfed(self, points: Points, mixture: Mixture) -> Array:
        """Whether what the pool found is next to nothing beside points ``(n,)``, however thin the places are."""
        thin = _height(mixture, points) + points.z.shape[1] * np.log(_NEEDLE)
        return self.is_relevant(thin, mixture)

    def has_missed_mass_near(self, posterior: GibbsPosterior, rng: np.random.Generator, z: Array) -> bool:
        """Whether mass that the pool has missed may lie around a latent point ``(m,)`` that it does not explain.

        A needle, such as a corner cell of a forest that a search for the nearest finds, is high and holds next to
        nothing. How far a well goes is looked at along each coordinate; draws from the box of that shape tell how much
        of it lies where a single draw would outweigh the pool. The mean and three errors of it must be little.
        """
        m, along = len(z), np.concatenate([-_ALONG[::-1], [0.0], _ALONG])
        there = np.tile(z, (m, len(along), 1))
        there[np.arange(m), :, np.arange(m)] += along
        neg_log_density = _height(posterior.mixture, Points.evaluate(posterior, there.reshape(-1, m))).reshape(
            m, len(along)
        )
        here = neg_log_density[0, len(_ALONG)]
        if not np.isfinite(here):
            return False
        ratio = np.exp(np.minimum(neg_log_density - here, _MOST_LOG_RATIO))
        mass = 0.5 * (ratio[:, 1:] + ratio[:, :-1]) * np.diff(along)
        share = mass / mass.sum(axis=1, keepdims=True)
        which = np.array([rng.choice(len(along) - 1, size=_IN_BOX, p=one) for one in share]).T
        drawn = z + along[which] + rng.random((_IN_BOX, m)) * np.diff(along)[which]
        points = Points.evaluate(posterior, drawn)
        log_density = np.log(share[np.arange(m), which] / np.diff(along)[which]).sum(axis=1)
        log_share = _height(posterior.mixture, points) - log_density - 0.5 * m * np.log(2.0 * np.pi)
        log_share = np.minimum(log_share - self.log_mass(posterior.mixture), _MOST_LOG_RATIO)
        missed = np.where(self.outweighed(points, posterior.mixture), np.exp(log_share), 0.0)
        return bool(missed.mean() + 3.0 * missed.std() / np.sqrt(_IN_BOX) > _RELEVANT)


def _height(mixture: Mixture, points: Points) -> Array:
    """Return the log of the posterior's density ``(n,)`` in the latent space, up to constants."""
    return np.asarray(log_target(mixture, points) - 0.5 * np.square(points.z).sum(axis=1))


def mass_around(posterior: GibbsPosterior, rng: np.random.Generator, z: Array) -> Array:
    """Log of the mass ``(n,)``, against the latent law, around latent points ``(n, m)``: what a few draws there tell.

    They come from three normal laws of different widths, so that a cell of a forest, which may be tiny, is not taken
    for a wide well of the same depth. It is for few coordinates: in many, draws so near see a small part of a well.
    """
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
    """Whether points drawn from a guide show mass near its laws that the draws have not found.

    Rungs of a tempered run are known by what it found itself: their densities do not tell that a mode is missing. Mass
    counts as near where the guide is denser than the latent law. ``mass`` is the share of the latent law that meets the
    constraints, to which the draws' evidence refers. Mass on which islands have not ``agreed`` does not count as found.
    """
    near = proposal.near(around.z)
    there = np.where(near > 0, log_target(mixture, around) - near, -np.inf)
    size = effective_sample_size(normalise(there)) if np.isfinite(there).any() else 0.0
    if size < _FEWEST_EFFECTIVE:
        return False
    found = float(draws.pool_weights[proposal.near(draws.pool.z) > 0].sum()) if agreed else 0.0
    seen = np.exp(np.minimum(log_mean_exp(there) - np.log(mass) - draws.log_evidence, _MOST_LOG_RATIO))
    return bool(seen * (1 - _DOUBT / np.sqrt(size)) > found + _MISSED)
