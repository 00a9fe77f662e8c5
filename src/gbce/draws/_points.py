"""Evaluated points: where they are, what every model said about them, what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gbce.base import Array
from gbce.posterior import Evaluated, GibbsPosterior

__all__ = ["Points"]

_SAID = (float, float, bool)  # outputs, losses, verdicts


@dataclass(frozen=True, eq=False)
class Points:
    """Evaluated points; ``n`` points, ``m`` latent coordinates, ``d`` features, ``K`` models.

    Parameters
    ----------
    z : array of shape (n, m)
        Latent coordinates.
    x : array of shape (n, d)
        Rows, encoded.
    outputs, loss : array of shape (n, K)
        Each model's output and loss.
    reached : bool array of shape (n, K)
        Whether each model's output counts as reached.
    cost : array of shape (n,)
        The prior's distance d(row, x).
    log_correction : array of shape (n,)
        Correction for a map that is not the prior itself.
    """

    z: Array
    x: Array
    outputs: Array
    loss: Array
    reached: Array
    cost: Array
    log_correction: Array

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def evaluate(cls, posterior: GibbsPosterior, z: Array) -> "Points":
        """Place latent points ``(n, m)`` and ask every model about them."""
        placed = posterior.prior.place(z)
        fits = np.isfinite(placed.log_correction)
        if fits.all() and len(fits):
            said = posterior.evaluate(placed.x)
        elif not fits.any():
            said = Evaluated(*(np.zeros((len(z), len(posterior.mixture.weights)), dtype) for dtype in _SAID))
        else:  # rows that break a constraint are not shown to any model, and count for nothing
            some = posterior.evaluate(placed.x[fits])
            said = Evaluated(*(_fill(values, fits) for values in some))
        return cls(z, placed.x, *said, cost=placed.cost, log_correction=placed.log_correction)

    @classmethod
    def join(cls, parts: "Sequence[Points]") -> "Points":
        """Return all points one after the other."""
        return cls(*map(np.concatenate, zip(*(part._arrays for part in parts), strict=True)))

    def take(self, index: Array) -> "Points":
        """Return the points at ``index``, positions or a mask."""
        where = index.nonzero()[0] if index.dtype == bool else index
        return Points(*(array.take(where, axis=0) for array in self._arrays))

    def replace_where(self, to: "Points", where: Array) -> "Points":
        """Return these points with those of ``to`` in the places of the mask ``where`` ``(n,)``."""
        at = where.nonzero()[0]
        arrays = [array.copy() for array in self._arrays]
        for array, other in zip(arrays, to._arrays, strict=True):
            array[at] = other[at]
        return Points(*arrays)

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return self.z, self.x, self.outputs, self.loss, self.reached, self.cost, self.log_correction


def _fill(values: Array, where: Array) -> Array:
    """Put values ``(k, K)`` in the places of a mask ``(n,)``; the others get the largest, or zero."""
    filled = np.zeros((len(where), values.shape[1]), dtype=values.dtype)
    if len(values) and values.dtype != bool:
        filled[:] = values.max(axis=0)
    filled[where] = values
    return filled
