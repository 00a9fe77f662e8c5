"""Landmarks: known rows that reach the target, so that modes far from the row are not missed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gbce._weights import Array
from gbce.draws import Points
from gbce.posterior import GibbsPosterior

__all__ = ["Landmarks", "landmarks_of"]

_TRIED = 500  # known rows the models are asked about
_MOST = 32  # landmarks
_ROUNDS, _TRIALS = 16, 4  # of taking back what a landmark does not need
_MARGIN = 6.0  # of log density: modes that lie lower carry no mass worth the effort
_WIDTH = 0.5  # of the law around each, in latent units, where it differs from the row
_SHARE = 0.1  # of the starting law


@dataclass(frozen=True)
class Landmarks:
    """A share of the starting law: normal laws around latent points.

    A coordinate in which a landmark agrees with the row keeps the latent law ``N(0, 1)`` there.

    Parameters
    ----------
    centres : array of shape (R, m)
        Latent coordinates of the landmarks; zero where they agree with the row.
    share : float
        Of the starting law; the rest is the latent law ``N(0, I)``.
    """

    centres: Array
    share: float = _SHARE

    @property
    def widths(self) -> Array:
        """Standard deviation ``(R, m)`` of each coordinate around each landmark."""
        return np.where(self.centres == 0, 1.0, _WIDTH)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points around the landmarks, ``(n, m)``."""
        which = rng.integers(len(self.centres), size=n)
        return self.centres[which] + self.widths[which] * rng.standard_normal((n, self.centres.shape[1]))

    def excess(self, z: Array) -> Array:
        """Log density ``(n,)`` of the starting law against the latent law: never below ``log(1 - share)``."""
        c, precision = self.centres, 1 / np.square(self.widths)
        squares = np.square(z) @ (precision - 1).T - 2 * z @ (precision * c).T + (precision * np.square(c)).sum(axis=1)
        near = logsumexp(-0.5 * squares - np.log(self.widths).sum(axis=1), axis=1) - np.log(len(c))
        return np.logaddexp(np.log1p(-self.share), np.log(self.share) + near)


def landmarks_of(posterior: GibbsPosterior, rng: np.random.Generator) -> Landmarks | None:
    """Return the most probable of the known rows that reach the target, or ``None`` if none does.

    A known row is first made admissible: what cannot change keeps the row's value, and bounds hold. Then whatever it
    has in common with the target only by chance is taken back to the row.
    """
    known = posterior.landmarks
    if known is None or len(known) == 0:
        return None
    tried = posterior.affords(min(_TRIED, len(known)))
    if tried == 0:
        return None

    def height(points: Points) -> Array:
        return posterior.mixture.potential(points.loss) + points.extra + 0.5 * np.square(points.z).sum(axis=1)

    some = known if tried == len(known) else known[rng.choice(len(known), tried, replace=False)]
    points = Points.evaluated(posterior, posterior.prior.locate(some))
    good = np.flatnonzero(points.reached.any(axis=1) & np.isfinite(height(points)))
    if len(good) == 0:
        return None
    best = good[np.argsort(height(points)[good], kind="stable")[:_MOST]]
    points = _relaxed(posterior, rng, points.take(best), height)
    heights = height(points)
    return Landmarks(points.z[heights <= heights.min() + _MARGIN])


def _relaxed(
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
        tried = Points.evaluated(posterior, trial)
        heights = height(tried).reshape(_TRIALS, r)
        winner = np.argmin(heights, axis=0)
        better = heights[winner, np.arange(r)] < height(points)
        points = points.moved(tried.take(winner * r + np.arange(r)), better)
    return points
