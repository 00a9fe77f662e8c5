"""What Newton steps know of a potential's curvature, learnt from slopes: one update per step (symmetric rank one).

For few features the curvature is a matrix. For many it is kept as what it is made of, one vector per step, so that
neither memory nor time grows with the square of the features; this needs a prior under which each moves by itself.
"""

from typing import Protocol

import numpy as np

from gbce._numerics import MATRIX_UP_TO
from gbce.base import Array

__all__ = ["Curvature", "curvature_of"]

_FLATTEST = 0.05  # least curvature, that of the prior being about one: no step is longer than 20 slopes; by hand
_LEAST_DOUBLE = 1e-12  # floor of twice a potential, so that nothing is divided by zero
_UPDATE_GUARD = 1e-8  # cosine below which a rank one update is skipped (Nocedal and Wright, 2006, section 6.2)


class Curvature(Protocol):
    """The curvature of ``s`` potentials in ``m`` coordinates each."""

    def learn(self, which: Array, move: Array, change: Array, slope: Array, potential: Array) -> None:
        """Explain the change ``(k, m)`` of slopes over the last move ``(k, m)`` of the starts ``which`` ``(k,)``.

        Without a last move (NaN) it is that of a squared error, whose slope ``g`` and value ``P`` give ``g g' / 2P``.
        """
        ...

    def step(self, which: Array, uphill: Array) -> Array:
        """Return Newton's step ``(k, m)`` against slopes ``(k, m)`` of the objective, in coordinates where they are."""
        ...


def curvature_of(n_starts: int, precision: Array, max_steps: int) -> Curvature:
    """Return a curvature that knows nothing yet beside the prior's own, ``precision`` ``(m, m)``."""
    m = len(precision)
    alone = np.count_nonzero(precision - np.diag(np.diag(precision))) == 0
    return _Vectors(n_starts, m, max_steps) if alone and m > MATRIX_UP_TO else _Matrix(n_starts, precision)


class _Matrix:
    """The curvature as matrices ``(s, m, m)``."""

    def __init__(self, n_starts: int, precision: Array) -> None:
        self.precision = precision
        self.learnt = np.zeros((n_starts, *precision.shape))

    def learn(self, which: Array, move: Array, change: Array, slope: Array, potential: Array) -> None:
        """Add what explains the change of the slopes."""
        fresh, curvature = np.isnan(move[:, 0]), self.learnt[which]
        move = np.where(fresh[:, None], 0.0, move)
        with np.errstate(over="ignore", invalid="ignore"):  # at an extreme eta; what is no number is not learnt
            first = slope[:, :, None] * slope[:, None, :] / _divisor_at_first(potential)[:, None, None]
            rest = change - np.einsum("ijk,ik->ij", curvature, move)
            update = rest[:, :, None] * rest[:, None, :] / _divisor(rest, move)[:, None, None]
            learnt = np.where(fresh[:, None, None], first, curvature + update)
        self.learnt[which] = np.where(np.isfinite(learnt).all(axis=(1, 2), keepdims=True), learnt, 0.0)

    def step(self, which: Array, uphill: Array) -> Array:
        """Solve in the eigenvectors of each matrix."""
        moving = uphill != 0
        both = moving[:, :, None] & moving[:, None, :]
        curvature = self.learnt[which] + self.precision
        size, axes = np.linalg.eigh(np.where(both, curvature, np.eye(uphill.shape[1])))
        size = np.maximum(np.abs(size), _FLATTEST)  # down, not to a saddle
        return np.where(moving, -np.einsum("ijk,ilk,il->ij", axes / size[:, None, :], axes, uphill), 0.0)


class _Vectors:
    """The curvature as ``sum_r factor_r v_r v_r'`` beside the prior's own, which is one in every coordinate."""

    def __init__(self, n_starts: int, m: int, max_steps: int) -> None:
        self.vectors = np.zeros((n_starts, max_steps, m))
        self.factors = np.zeros((n_starts, max_steps))
        self.used = 0

    def learn(self, which: Array, move: Array, change: Array, slope: Array, potential: Array) -> None:
        """Add a vector, or begin anew with one."""
        fresh, now = np.isnan(move[:, 0]), slice(0, self.used)
        move = np.where(fresh[:, None], 0.0, move)
        vectors, factors = self.vectors[which, now], self.factors[which, now]
        along = factors * (vectors @ move[:, :, None])[:, :, 0]
        rest = change - (along[:, None, :] @ vectors)[:, 0]
        self.factors[which[fresh]] = 0.0
        self.vectors[which, self.used] = np.where(fresh[:, None], slope, rest)
        self.factors[which, self.used] = 1.0 / np.where(fresh, _divisor_at_first(potential), _divisor(rest, move))
        self.used += 1

    def step(self, which: Array, uphill: Array) -> Array:
        """Solve in the space that the vectors span; across it the prior's curvature is all there is."""
        moving = uphill != 0
        vectors = np.where(moving[:, None, :], self.vectors[which, : self.used], 0.0)
        basis, part = np.linalg.qr(vectors.transpose(0, 2, 1))
        inner = (part * self.factors[which, None, : self.used]) @ part.transpose(0, 2, 1)
        size, axes = np.linalg.eigh(np.eye(inner.shape[1]) + inner)
        size = np.maximum(np.abs(size), _FLATTEST)  # down, not to a saddle
        directions = basis @ axes
        along = (directions.transpose(0, 2, 1) @ uphill[:, :, None])[:, :, 0]
        return np.where(moving, (directions @ (along * (1.0 - 1.0 / size))[:, :, None])[:, :, 0] - uphill, 0.0)


def _divisor_at_first(potential: Array) -> Array:
    """Return ``2P`` ``(k,)``, by which the first update is divided."""
    return np.maximum(2 * potential, _LEAST_DOUBLE)


def _divisor(rest: Array, move: Array) -> Array:
    """Return what an update is divided by ``(k,)``: infinite where it would be far too large."""
    product = (rest * move).sum(axis=1)
    safe = np.abs(product) > _UPDATE_GUARD * np.linalg.norm(rest, axis=1) * np.linalg.norm(move, axis=1)
    return np.where(safe, product, np.inf)
