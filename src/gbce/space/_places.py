"""Embed rows in a Euclidean space whose distance measures change, and evaluate all constraints of a space.

Every level of a category has its own axis, so that all levels are equally far apart. For categories with many levels
these axes are implicit: the level of a point determines its distance to any other point and to any mean.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from gbce._numerics import CACHE_CELLS, MEMORY_CELLS, ROUNDING
from gbce.base import Array
from gbce.space._feature import Feature
from gbce.space._limits import Placing

# Levels of a category up to which each has an explicit axis. Chosen by hand: a k-d tree is little faster than brute
# force from some twenty dimensions on (scipy's documentation of KDTree); distances are the same either way.
MOST_AXES = 16

# --- embedded points -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Centre:
    """A mean of embedded points: coordinates ``(k,)``, and the share of each level of each large category."""

    axes: Array
    shares: tuple[Array, ...] = ()

    def toward(self, other: "Centre", part: float) -> "Centre":
        """Return the centre a fraction ``part`` of the way to another one."""
        shares = (a + part * (b - a) for a, b in zip(self.shares, other.shares, strict=True))
        return Centre(self.axes + part * (other.axes - self.axes), tuple(shares))


@dataclass(frozen=True, eq=False)
class Places:
    """``n`` embedded points."""

    axes: Array  # coordinates (n, k)
    # levels (n, c) of large categories; -1 where missing, which lies at the origin of their axes
    codes: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.intp))
    sizes: tuple[int, ...] = ()  # number of levels of each large category
    # coordinate (c,) of a level on its axis: the distance between two levels over the root of two
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
        squares = np.concatenate([np.square(block - centre.axes).sum(axis=1) for block in self._iterate_blocks()])
        for c, share in enumerate(centre.shares):
            code = self.codes[:, c]
            own = np.where(code >= 0, 1.0 - 2.0 * share[np.maximum(code, 0)], 0.0)
            squares = squares + self.heights[c] ** 2 * (own + np.square(share).sum())
        return squares

    def _iterate_blocks(self) -> Iterator[Array]:
        """Yield the coordinates in blocks of rows that fit the processor's cache."""
        size = max(1, CACHE_CELLS // max(self.axes.shape[1], 1))
        for start in range(0, max(len(self), 1), size):
            yield self.axes[start : start + size]

    def between(self, a: Centre, b: Centre) -> float:
        """Return the distance between two centres of such points."""
        squares = float(np.square(a.axes - b.axes).sum())
        for offset, one, other in zip(self.heights, a.shares, b.shares, strict=True):
            squares += float(offset**2 * np.square(one - other).sum())
        return float(np.sqrt(squares))

    def level_squares(self, others: "Places") -> Array | float:
        """Return the squared distances ``(n, m)`` due to levels of large categories."""
        total: Array | float = 0.0
        for c, offset in enumerate(self.heights):
            a, b = self.codes[:, c][:, None], others.codes[:, c][None, :]
            total = total + offset**2 * np.where(a == b, 0.0, 1.0 * (a >= 0) + (b >= 0))
        return total

    def distances(self, others: "Places") -> Array:
        """Return pairwise distances ``(n, m)``."""
        if not self.sizes:
            return cdist(self.axes, others.axes)
        near = cdist(self.axes, others.axes, "sqeuclidean") if self.axes.shape[1] else 0.0
        return np.sqrt(near + self.level_squares(others))

    def blocks(self, others: "Places") -> Iterator["Places"]:
        """Yield the points in blocks whose distances to the others fit into memory."""
        size = max(1, MEMORY_CELLS // max(len(others), 1))
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def nearest_distances(self, at: "Places", k: int) -> Array:
        """Return the distances ``(m, k)`` of points ``at`` to the ``k`` nearest of these, the nearest first."""
        if not self.sizes:
            return self._tree.query(at.axes, k=np.arange(1, k + 1))[0]
        return np.concatenate(
            [np.sort(np.partition(block.distances(self), k - 1, axis=1)[:, :k], axis=1) for block in at.blocks(self)]
        )

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.axes)


# --- embedding of rows -----------------------------------------------------------------------------------------------


def axes_of(feature: Feature) -> int:
    """Return the number of explicit axes of a feature."""
    levels = len(feature.levels or ())
    own = 0 if _is_large(feature) else levels if feature.unordered and levels > 2 else 1
    return own + (feature.missing is not None)


def _is_large(feature: Feature) -> bool:
    return feature.unordered and len(feature.levels or ()) > MOST_AXES


def _level_offset(feature: Feature) -> float:
    """Return the coordinate of a level on its axis, so that two levels are one unit apart."""
    return 1.0 / (feature.scale * float(np.sqrt(2.0)))


def embed(features: Sequence[Feature], x: Array) -> Places:
    """Embed rows ``(n, d)`` of these features."""
    if all(feature.plain for feature in features):
        return Places(x / np.array([feature.scale for feature in features]))
    axes = np.concatenate([_embed_column(feature, x[:, j]) for j, feature in enumerate(features)], axis=1)
    large = [j for j, feature in enumerate(features) if _is_large(feature)]
    if not large:
        return Places(axes)
    codes = np.where(np.isnan(x[:, large]), -1, x[:, large]).astype(np.intp)
    sizes = tuple(len(features[j].levels or ()) for j in large)
    return Places(axes, codes, sizes, np.array([_level_offset(features[j]) for j in large]))


def _embed_column(feature: Feature, column: Array) -> Array:
    """Return the explicit coordinates ``(n, k)`` of one column, the last for missing values if they are allowed."""
    missing = np.isnan(column)
    size = len(feature.levels or ())
    if _is_large(feature):
        axes = np.zeros((len(column), 0))
    elif feature.unordered and size > 2:
        axes = (column[:, None] == np.arange(size)) / (feature.scale * np.sqrt(2.0))
    else:
        centre = 0.5 * (size == 2) if feature.centre is None else feature.centre
        axes = (np.where(missing, centre, column) / feature.scale)[:, None]
    return axes if feature.missing is None else np.column_stack([axes, missing / 1.0])


def distances_to(features: Sequence[Feature], x: Array, x0: Array) -> Array:
    """Return the distances ``(n,)`` of rows ``(n, d)`` to one row ``(d,)``, block by block."""
    size = max(1, MEMORY_CELLS // len(features))
    return np.concatenate([_measure_block(features, x[i : i + size], x0) for i in range(0, max(len(x), 1), size)])


def _measure_block(features: Sequence[Feature], x: Array, x0: Array) -> Array:
    """Return the distances ``(n,)`` of a block of rows to one row."""
    if all(feature.plain for feature in features):
        return np.linalg.norm((x - x0) / np.array([feature.scale for feature in features]), axis=1)
    rows, row = embed(features, x), embed(features, x0[None, :])
    if not rows.sizes:
        return np.linalg.norm(rows.axes - row.axes, axis=1)
    return rows.distances(row)[:, 0]


def nearest(features: Sequence[Feature], point: Centre, low: Array, high: Array, x0: Array) -> Array:
    """Return the values ``(d,)`` of these features, within limits, that are nearest to an embedded point."""
    values, start = np.empty(len(features)), 0
    shares = iter(point.shares)
    for j, feature in enumerate(features):
        own = Centre(point.axes[start : start + axes_of(feature)], (next(shares),) if _is_large(feature) else ())
        start += axes_of(feature)
        if not high[j] > low[j] and not (feature.mutable and feature.missing == "any"):
            values[j] = x0[j]
            continue
        choices = _list_candidates(feature, own.axes, low[j], high[j], x0[j])
        values[j] = choices[np.argmin(embed([feature], choices[:, None]).squares_from(own))]
    return values


def _list_candidates(feature: Feature, own: Array, low: float, high: float, now: float) -> Array:
    """List values of one feature that include the nearest one to a point on its axes."""
    may_be_missing = feature.missing == "any" or (feature.missing is not None and np.isnan(now))
    missing = [np.nan] if may_be_missing else []
    if feature.unordered:
        return np.array([*feature.levels_from(now), *missing])
    value = own[0] * feature.scale
    if not feature.discrete:
        return np.array([np.clip(value, low, high), *missing])
    start = 0.0 if np.isnan(now) else now
    steps = start + np.floor(value - start) + np.array([-1.0, 0.0, 1.0, 2.0])
    steps = np.append(steps[(steps >= low) & (steps <= high)], [edge for edge in (low, high) if np.isfinite(edge)])
    return np.array([*steps, *missing])


# --- distances in a space -------------------------------------------------------------------------------------------


class Measuring(Placing):
    """The distances between rows of a :class:`gbce.Space`."""

    def embed(self, x: Array, which: Array | None = None) -> Places:
        """Embed rows ``(n, d)`` so that Euclidean distance is change in units of each feature's scale.

        With ``which``, positions ``(m,)``, only those features are embedded.
        """
        if which is None:
            return embed(self.features, x)
        return embed([self.features[j] for j in which], x[:, which])

    def nearest(self, point: Centre, x0: Array, which: Array) -> Array:
        """Return the admissible row ``(d,)`` nearest to an embedded point in the features ``which``.

        Applied to the mean of embedded draws this is their Fréchet mean: the row with the least expected squared
        distance.
        """
        low, high = self.limits(x0)
        chosen = [self.features[j] for j in which]
        x = x0.copy()
        x[which] = nearest(chosen, point, low[which], high[which], x0[which])
        return self.project(x[None, :], x0)[0]

    def distance(self, x: Array, x0: Array) -> Array:
        """Return the Euclidean distance ``(n,)`` of ``(n, d)`` to the row in units of each feature's scale."""
        return distances_to(self.features, x, x0)

    def change(self, x: Array, x0: Array, *, columns: slice = slice(None)) -> Array:
        """Return the size of each feature's change ``(n, d)`` in its own units; any change of a category counts one.

        Points and row may have only some ``columns``.
        """
        size = np.asarray(x - x0)
        np.abs(size, out=size)
        unordered, missing = self.all_limits.unordered[columns], np.isnan(size)
        size = np.where(unordered, size != 0, size) if unordered.any() else size
        if not missing.any():
            return size
        both = np.isnan(x) & np.isnan(x0)
        return np.where(both, 0.0, np.where(missing, np.where(unordered, 1.0, self.scale[columns]), size))

    def changed(self, x: Array, x0: Array, *, columns: slice = slice(None)) -> Array:
        """Whether each feature of ``(n, d)`` differs from the row's: ``(n, d)``; ``columns`` as in :meth:`change`."""
        here, there = np.broadcast_arrays(x, x0)
        differs, block = np.empty(here.shape, dtype=bool), max(MEMORY_CELLS // max(here.shape[1], 1), 1)
        for start in range(0, len(here), block):
            some = slice(start, start + block)
            differs[some] = self.change(here[some], there[some], columns=columns) > ROUNDING * self.scale[columns]
        return differs
