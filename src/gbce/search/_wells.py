"""Wells around places of low height, and which points lie lower than any of them explains.

A search that has ended at some places has asked about many other points on its way. Around each end the height is
taken to rise as a square, with a curvature that slopes at these points tell. A point that lies lower than all of these
squares belongs to another well: a descent from there ends where none has ended before.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from gbce._numerics import TINY
from gbce.base import Array

__all__ = ["Slopes", "Wells"]

# Chosen by hand.
_FLATTEST = 0.1  # curvature in any direction, that of the latent law being one
_LEAST_RISE = 1.0  # above the place of a well: nearer, its slope tells how well the place is known
_LARGEST_MISFIT = 0.1  # of a slope and a rise, beyond which a point belongs to no known well
_SAME = 1e-6  # of the largest: smaller singular values of the ways from a place are rounding


class Slopes(NamedTuple):
    """Latent points ``(n, m)`` at which the ``height`` ``(n,)`` and its slope ``uphill`` ``(n, m)`` are known."""

    z: Array
    height: Array
    uphill: Array

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return all of them."""
        return cls(*(np.concatenate(side) for side in zip(*parts, strict=True)))


class Wells(NamedTuple):
    """Squares around places ``(k, m)`` of heights ``lowest`` ``(k,)``, with ``root`` ``(k, m, m)`` of the curvature."""

    place: Array
    lowest: Array
    root: Array

    @classmethod
    def fit(cls, place: Array, lowest: Array, slopes: Slopes) -> Self:
        """Fit the curvature of each well to the slopes that agree with it.

        In a square the slope times the way from its place is twice the rise. A point belongs to the well for which
        that comes closest, if it does come close.
        """
        way, rise = slopes.z[:, None, :] - place, slopes.height[:, None] - lowest
        with np.errstate(invalid="ignore", over="ignore"):
            along = (way * slopes.uphill[:, None, :]).sum(axis=2)
            misfit = np.abs(along - 2 * rise) / np.maximum(rise, TINY)
        misfit = np.where(np.isfinite(misfit) & (rise > _LEAST_RISE), misfit, np.inf)
        owner = np.where(misfit.min(axis=1) < _LARGEST_MISFIT, misfit.argmin(axis=1), -1)
        roots = [_root_of_curvature(way[owner == k, k], slopes.uphill[owner == k]) for k in range(len(place))]
        return cls(place, lowest, np.array(roots))

    def explain(self, z: Array, height: Array) -> Array:
        """Return how much of the height of points ``(n,)`` wells explain: one on a square, less below all of them.

        A well whose square lies below some point is scaled up to it, so that a poor fit does not explain everything.
        """
        parts = []
        for place, lowest, root in zip(self.place, self.lowest, self.root, strict=True):
            square = 0.5 * np.square((z - place) @ root).sum(axis=1)
            with np.errstate(invalid="ignore", over="ignore"):
                part = (height - lowest) / np.maximum(square, TINY)
            part = np.where(np.isfinite(part), part, 1.0)
            parts.append(part / max(float(part.max(initial=1.0)), 1.0))
        return np.asarray(np.max(parts, axis=0))


def _root_of_curvature(way: Array, uphill: Array) -> Array:
    """Root ``(m, m)`` of the roundest curvature that has slopes ``(n, m)`` after ways ``(n, m)`` from a place."""
    n, m = way.shape
    squares = float(np.square(way).sum())
    if n == 0 or squares == 0:
        return np.eye(m)
    same = max(float((way * uphill).sum()) / squares, _FLATTEST)
    rest = np.linalg.lstsq(way, uphill - same * way, rcond=_SAME)[0]
    size, axes = np.linalg.eigh(same * np.eye(m) + 0.5 * (rest + rest.T))
    return np.asarray(axes * np.sqrt(np.maximum(size, _FLATTEST)))
