"""Figures for one point: robustness and plausibility (Rb and Plu of the paper).

Loss and distance (L_pt and D_pt) need no code of their own: the loss comes with every evaluated point, and the
distance is Euclidean in units of each feature's scale.
"""

from dataclasses import dataclass

import numpy as np

from gbce._weights import Array
from gbce.noise import under_noise
from gbce.posterior import GibbsPosterior
from gbce.space import Places, Space

__all__ = ["Neighbours", "robustness"]


def robustness(posterior: GibbsPosterior, space: Space, x: Array, shifts: Array) -> tuple[Array, Array]:
    """Share of perturbed copies that reach the target under the first model, and its Monte Carlo error.

    Parameters
    ----------
    posterior : GibbsPosterior
        With the models.
    space : Space
        Whose limits hold under noise, too.
    x : array of shape (k, d)
        Points.
    shifts : array of shape (n, d)
        Offsets, the same for every point.

    Returns
    -------
    tuple of two arrays of shape (k,)
        Rb and its standard error.
    """
    reached = under_noise(posterior, space, x, shifts, first_only=True).reached[:, :, 0]
    return binomial(reached.mean(axis=1), len(shifts))


def binomial(share: Array, n: float) -> tuple[Array, Array]:
    """Return a share of ``n`` trials and its standard error, which is not zero at shares of 0 and 1.

    There Agresti and Coull's two extra successes and failures stand in: none in 200 trials is not "impossible".
    """
    adjusted = np.where((share == 0) | (share == 1), (share * n + 2) / (n + 4), share)
    size = np.where((share == 0) | (share == 1), n + 4, n)
    return share, np.sqrt(adjusted * (1 - adjusted) / size)


@dataclass(frozen=True)
class Neighbours:
    """Training rows in units of each feature's scale, ready to be searched."""

    rows: Places
    space: Space

    @classmethod
    def of(cls, x: Array, space: Space) -> "Neighbours":
        """Index training rows ``(n, d)``."""
        return cls(space.embed(x), space)

    def plausibility(self, x: Array, q: int) -> Array:
        """Mean distance ``(k,)`` of each point ``(k, d)`` to its ``q`` nearest training rows; smaller is better."""
        return self.rows.nearest_distances(self.space.embed(x), min(q, len(self.rows))).mean(axis=1)
