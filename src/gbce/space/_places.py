"""Points of a Euclidean space in which distance is change, without an axis for every level of a large category.

Levels of one category all lie equally far from each other, each on an axis of its own. With thousands of levels these
axes are never laid out: which level a point has is enough to know its distance from any other point and from any mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from gbce.base import Array

__all__ = ["Centre", "Places"]

# Sizes of blocks, in numbers; chosen by hand, results do not hang on them.
_COORDINATE_CELLS = 250_000  # of coordinates: 2 MB stay in a processor's cache
_PAIR_CELLS = 4_000_000  # of pairwise distances: 32 MB


@dataclass(frozen=True)
class Centre:
    """A mean of places: on the axes ``(k,)``, and the share of each level of each large category."""

    axes: Array
    shares: tuple[Array, ...] = ()

    def toward(self, other: "Centre", part: float) -> "Centre":
        """Return the centre a part of the way to another one."""
        shares = (a + part * (b - a) for a, b in zip(self.shares, other.shares, strict=True))
        return Centre(self.axes + part * (other.axes - self.axes), tuple(shares))


@dataclass(frozen=True, eq=False)
class Places:
    """``n`` points.

    Parameters
    ----------
    axes : array of shape (n, k)
        Coordinates.
    codes : int array of shape (n, c)
        Levels of large categories; -1 where missing, which lies at the origin of the levels' axes.
    sizes : tuple of int
        How many levels each of them has.
    heights : array of shape (c,)
        How far out each level lies on its axis: the distance between two levels over the root of two.
    """

    axes: Array
    codes: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.intp))
    sizes: tuple[int, ...] = ()
    heights: Array = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.axes)

    def take(self, index: Array | slice) -> "Places":
        """Return the points at ``index``: positions, a mask or a slice."""
        return Places(self.axes[index], self.codes[index] if self.sizes else self.codes, self.sizes, self.heights)

    def centre(self, weights: Array, total: float = 1.0) -> Centre:
        """Return the mean under weights ``(n,)`` that sum to ``total``."""
        return Centre(weights @ self.axes / total, tuple(share / total for share in self.shares(weights)))

    def shares(self, weights: Array) -> tuple[Array, ...]:
        """Return the weight of each level of each large category."""
        found = []
        for code, size in zip(self.codes.T if self.sizes else (), self.sizes, strict=True):
            known = code >= 0
            found.append(np.bincount(code[known], weights=weights[known], minlength=size))
        return tuple(found)

    def squares_from(self, centre: Centre) -> Array:
        """Return squared distances ``(n,)`` from a centre."""
        squares = np.concatenate([np.square(some - centre.axes).sum(axis=1) for some in self._in_rows()])
        for c, share in enumerate(centre.shares):
            code = self.codes[:, c]
            own = np.where(code >= 0, 1.0 - 2.0 * share[np.maximum(code, 0)], 0.0)
            squares = squares + self.heights[c] ** 2 * (own + np.square(share).sum())
        return squares

    def _in_rows(self) -> Iterator[Array]:
        """Go through the coordinates in blocks of rows that stay near the processor."""
        size = max(1, _COORDINATE_CELLS // max(self.axes.shape[1], 1))
        for start in range(0, max(len(self), 1), size):
            yield self.axes[start : start + size]

    def between(self, a: Centre, b: Centre) -> float:
        """Return the distance of two centres of such places."""
        squares = float(np.square(a.axes - b.axes).sum())
        for height, one, other in zip(self.heights, a.shares, b.shares, strict=True):
            squares += float(height**2 * np.square(one - other).sum())
        return float(np.sqrt(squares))

    def level_squares(self, others: "Places") -> Array | float:
        """Return what different levels of large categories add to squared distances ``(n, m)``."""
        total: Array | float = 0.0
        for c, height in enumerate(self.heights):
            a, b = self.codes[:, c][:, None], others.codes[:, c][None, :]
            total = total + height**2 * np.where(a == b, 0.0, 1.0 * (a >= 0) + (b >= 0))
        return total

    def distances(self, others: "Places") -> Array:
        """Return distances ``(n, m)``."""
        if not self.sizes:
            return cdist(self.axes, others.axes)
        near = cdist(self.axes, others.axes, "sqeuclidean") if self.axes.shape[1] else 0.0
        return np.sqrt(near + self.level_squares(others))

    def blocks(self, others: "Places") -> Iterator["Places"]:
        """Go through the points in blocks whose distances to the others fit into memory."""
        size = max(1, _PAIR_CELLS // max(len(others), 1))
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def nearest_distances(self, at: "Places", k: int) -> Array:
        """Return the distances ``(m, k)`` of points ``at`` to the ``k`` nearest of these, the nearest first."""
        if not self.sizes:
            return self._tree.query(at.axes, k=np.arange(1, k + 1))[0]
        return np.concatenate(
            [np.sort(np.partition(some.distances(self), k - 1, axis=1)[:, :k], axis=1) for some in at.blocks(self)]
        )

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.axes)
