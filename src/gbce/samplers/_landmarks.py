"""Landmarks: known rows that reach the target, so that modes far from the row are not missed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc, logsumexp

from gbce._numerics import effective_sample_size, log_mean_exp, normalise
from gbce.base import Array
from gbce.draws import Draws, Points
from gbce.posterior import GibbsPosterior, Mixture

__all__ = ["Landmarks", "find_landmarks"]

# Chosen by hand; what they decide is where a second run starts, and its weights make up for that.
_MOST_TRIED = 500  # known rows the models are asked about
_MOST_LANDMARKS = 32
_ROUNDS, _TRIALS = 16, 4  # of taking back what a landmark does not need, and attempts for each landmark in a round
_SHARE = 0.1  # of the starting law
_MISSED_MASS = 0.05  # of the posterior: less is not worth another run
_FEWEST_EFFECTIVE = 3.0  # points near landmarks, without which nothing is concluded
_DOUBT = 1.5  # relative standard errors by which the mass near landmarks is lowered before it is compared
_MARGIN = 6.0  # of log density below the best: lower landmarks have less than e**-6 = 0.25% of its density
_MOST_LOG_RATIO = 50.0  # of masses: beyond it, only overflow matters


@dataclass(frozen=True)
class Landmarks:
    """A share of the starting law: the latent law, shifted to other centres.

    Parameters
    ----------
    centres : array of shape (R, m)
        Latent coordinates of the landmarks; zero where they agree with the row.
    share : float
        Of the starting law; the rest is the latent law ``N(0, I)`` itself.
    """

    centres: Array
    share: float = _SHARE

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points around the landmarks, ``(n, m)``."""
        which = rng.integers(len(self.centres), size=n)
        return self.centres[which] + rng.standard_normal((n, self.centres.shape[1]))

    def near(self, z: Array) -> Array:
        """Log density ``(n,)`` of the shifted laws against the latent law."""
        c = self.centres
        return logsumexp(z @ c.T - 0.5 * np.square(c).sum(axis=1), axis=1) - np.log(len(c))

    def excess(self, z: Array) -> Array:
        """Log density ``(n,)`` of the starting law against the latent law: never below ``log(1 - share)``."""
        return np.logaddexp(np.log1p(-self.share), np.log(self.share) + self.near(z))

    def missed(self, around: Points, draws: Draws, mixture: Mixture, mass: float, agreed: bool = True) -> bool:
        """Whether points drawn around the landmarks show mass near them that the draws have not found.

        ``mass`` is the share of the latent law that meets the constraints, to which the draws' evidence refers. Mass on
        which islands have not ``agreed`` does not count as found.
        """
        near = self.near(around.z)
        there = np.where(near > 0, -mixture.potential(around.loss) - around.log_correction - near, -np.inf)
        size = effective_sample_size(normalise(there)) if np.isfinite(there).any() else 0.0
        if size < _FEWEST_EFFECTIVE:
            return False
        found = float(draws.pool_weights[self.near(draws.pool.z) > 0].sum()) if agreed else 0.0
        seen = np.exp(np.minimum(log_mean_exp(there) - np.log(mass) - draws.log_evidence, _MOST_LOG_RATIO))
        return bool(seen * (1 - _DOUBT / np.sqrt(size)) > found + _MISSED_MASS)


def find_landmarks(posterior: GibbsPosterior, rng: np.random.Generator, n_candidates: int) -> Landmarks | None:
    """Return the most probable of the known rows that reach the target where candidates do not come, if there are any.

    A known row is first made admissible: what cannot change keeps the row's value, and bounds hold. Then whatever it
    does not need to reach the target is taken back to the row.
    """
    known = posterior.landmarks
    if known is None or len(known) == 0:
        return None
    tried = posterior.affords(min(_MOST_TRIED, len(known)))
    if tried == 0:
        return None

    def height(points: Points) -> Array:
        return posterior.mixture.potential(points.loss) + points.log_correction + 0.5 * np.square(points.z).sum(axis=1)

    some = known if tried == len(known) else known[rng.choice(len(known), tried, replace=False)]
    points = Points.evaluate(posterior, posterior.prior.locate(some))
    good = np.flatnonzero(points.reached.any(axis=1) & np.isfinite(height(points)))
    if len(good) == 0:
        return None
    best = good[np.argsort(height(points)[good], kind="stable")[:_MOST_LANDMARKS]]
    points = _take_back(posterior, rng, points.take(best), height)
    heights = height(points)
    far = _is_far(points.z, n_candidates) & (heights <= heights.min() + _MARGIN)
    return Landmarks(points.z[far]) if far.any() else None


def _is_far(z: Array, n_candidates: int) -> Array:
    """Whether less than one of so many candidates is to be expected as far out as each latent point ``(n, m)``."""
    moved = np.maximum((z != 0).sum(axis=1), 1)
    return n_candidates * gammaincc(0.5 * moved, 0.5 * np.square(z).sum(axis=1)) < 1


def _take_back(
    posterior: GibbsPosterior, rng: np.random.Generator, points: Points, height: Callable[[Points], Array]
) -> Points:
    """Take random sets of coordinates back to the row wherever that makes a point more probable."""
    r, m = points.z.shape
    for _ in range(_ROUNDS):
        if posterior.affords(_TRIALS * r) < _TRIALS * r:
            break
        # from many coordinates at once down to about one
        part = m ** -rng.uniform(0.0, 1.0, size=(_TRIALS * r, 1))
        trial = np.where(rng.random((_TRIALS * r, m)) < part, 0.0, np.tile(points.z, (_TRIALS, 1)))
        tried = Points.evaluate(posterior, trial)
        heights = height(tried).reshape(_TRIALS, r)
        winner = np.argmin(heights, axis=0)
        better = heights[winner, np.arange(r)] < height(points)
        points = points.replace_where(tried.take(winner * r + np.arange(r)), better)
    return points
