"""Points of a Euclidean space in which distance is change, without an axis for every level of a large category.

Levels of one category all lie equally far from each other, each on an axis of its own. With thousands of levels these
axes are never laid out: which level a point has is enough to know its distance from any other point and from any mean.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from gbce.base import Array
from gbce.space._constraints import Constraint
from gbce.space._expressions import at_most
from gbce.space._feature import Feature
from gbce.space._terms import Levels

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = ["Centre", "Checks", "Places", "axes_of", "distances_to", "embed", "nearest"]

# --- points of a Euclidean space in which distance is change, without an axis for every level of a large -------------

# Levels of a category that get an axis each. Chosen by hand, since a k-d tree is little faster than brute force from
# some twenty dimensions on (scipy's documentation of KDTree); distances are the same either way.
MOST_AXES = 16
_ROW_CELLS = 1_000_000  # numbers in a block of rows whose distances to one row are measured together: 8 MB, by hand
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


def axes_of(feature: Feature) -> int:
    """Return the number of axes of a feature that are laid out."""
    levels = len(feature.levels or ())
    own = 0 if _is_large(feature) else levels if feature.unordered and levels > 2 else 1
    return own + (feature.missing is not None)


def _is_large(feature: Feature) -> bool:
    return feature.unordered and len(feature.levels or ()) > MOST_AXES


def _height(feature: Feature) -> float:
    """How far out on its axis a level lies, so that two levels are one unit apart."""
    return 1.0 / (feature.scale * float(np.sqrt(2.0)))


def embed(features: Sequence[Feature], x: Array) -> Places:
    """Place the columns ``(n, d)`` of these features."""
    if all(feature.plain for feature in features):
        return Places(x / np.array([feature.scale for feature in features]))
    axes = np.concatenate([_axes(feature, x[:, j]) for j, feature in enumerate(features)], axis=1)
    large = [j for j, feature in enumerate(features) if _is_large(feature)]
    if not large:
        return Places(axes)
    codes = np.where(np.isnan(x[:, large]), -1, x[:, large]).astype(np.intp)
    sizes = tuple(len(features[j].levels or ()) for j in large)
    return Places(axes, codes, sizes, np.array([_height(features[j]) for j in large]))


def _axes(feature: Feature, column: Array) -> Array:
    gone = np.isnan(column)
    size = len(feature.levels or ())
    if _is_large(feature):
        place = np.zeros((len(column), 0))
    elif feature.unordered and size > 2:
        place = (column[:, None] == np.arange(size)) / (feature.scale * np.sqrt(2.0))
    else:
        centre = 0.5 * (size == 2) if feature.centre is None else feature.centre
        place = (np.where(gone, centre, column) / feature.scale)[:, None]
    return place if feature.missing is None else np.column_stack([place, gone / 1.0])


def distances_to(features: Sequence[Feature], x: Array, x0: Array) -> Array:
    """Return the distances ``(n,)`` of rows ``(n, d)`` to one row ``(d,)``, block by block."""
    some = max(1, _ROW_CELLS // len(features))
    return np.concatenate([_distances_to(features, x[i : i + some], x0) for i in range(0, max(len(x), 1), some)])


def _distances_to(features: Sequence[Feature], x: Array, x0: Array) -> Array:
    if all(feature.plain for feature in features):
        return np.linalg.norm((x - x0) / np.array([feature.scale for feature in features]), axis=1)
    rows, row = embed(features, x), embed(features, x0[None, :])
    if not rows.sizes:
        return np.linalg.norm(rows.axes - row.axes, axis=1)
    return rows.distances(row)[:, 0]


def nearest(features: Sequence[Feature], point: Centre, low: Array, high: Array, x0: Array) -> Array:
    """Return the values ``(d,)`` of these features, within limits, that lie nearest to a point."""
    values, start = np.empty(len(features)), 0
    shares = iter(point.shares)
    for j, feature in enumerate(features):
        own = Centre(point.axes[start : start + axes_of(feature)], (next(shares),) if _is_large(feature) else ())
        start += axes_of(feature)
        if not high[j] > low[j] and not (feature.mutable and feature.missing == "any"):
            values[j] = x0[j]
            continue
        choices = _candidates(feature, own.axes, low[j], high[j], x0[j])
        values[j] = choices[np.argmin(embed([feature], choices[:, None]).squares_from(own))]
    return values


def _candidates(feature: Feature, own: Array, low: float, high: float, now: float) -> Array:
    """Values of one feature among which the nearest to a place on its axes is."""
    may_be_gone = feature.missing == "any" or (feature.missing is not None and np.isnan(now))
    blank = [np.nan] if may_be_gone else []
    if feature.unordered:
        return np.array([*np.arange(len(feature.levels or ()), dtype=float), *blank])
    value = own[0] * feature.scale
    if not feature.discrete:
        return np.array([np.clip(value, low, high), *blank])
    start = 0.0 if np.isnan(now) else now
    steps = start + np.floor(value - start) + np.array([-1.0, 0.0, 1.0, 2.0])
    steps = np.append(steps[(steps >= low) & (steps <= high)], [edge for edge in (low, high) if np.isfinite(edge)])
    return np.array([*steps, *blank])


# Sizes of blocks, in numbers; chosen by hand, results do not hang on them.
_COORDINATE_CELLS = 250_000  # of coordinates: 2 MB stay in a processor's cache


# --- all constraints of a space at once ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Checks:
    """Whether encoded rows meet constraints, each worked out the cheapest way that says the same.

    Parameters
    ----------
    lower, upper : array, shape (k,)
        Positions of columns of numbers of which the first is at most the second, of all constraints that say just that.
    others : tuple of callable
        Rows ``(n, d)`` to booleans ``(n,)``, one for each other constraint.
    """

    lower: Array
    upper: Array
    others: tuple[Callable[[Array], Any], ...]

    @classmethod
    def of(cls, space: "Space", constraints: tuple[Constraint, ...]) -> Self:
        """Prepare constraints on the columns of a space."""
        columns: dict[str, int | Levels] = {
            feature.name: Levels(j, tuple(feature.levels or ())) if feature.leveled else j
            for j, feature in enumerate(space.features)
        }
        pairs: list[tuple[int, int]] = []
        others: list[Callable[[Array], Any]] = []
        for constraint in constraints:
            found = _pairs_of_numbers(constraint, columns)
            if found is None:
                others.append(constraint.term(columns) or partial(constraint.holds, space))
            else:
                pairs += found
        lower, upper = np.array(pairs, dtype=int).reshape(-1, 2).T
        return cls(lower, upper, tuple(others))

    def __call__(self, x: Array) -> Array:
        """Whether each row of ``(n, d)`` meets all of them, ``(n,)``."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            in_order = at_most(x[:, self.lower], x[:, self.upper]) if len(self.lower) else None
            good = np.ones(len(x), dtype=bool) if in_order is None else in_order.all(axis=1)
            for holds in self.others:
                good &= holds(x)
        return good


def _pairs_of_numbers(constraint: Constraint, columns: dict[str, int | Levels]) -> list[tuple[int, int]] | None:
    """Return the positions of the pairs that a constraint puts in order, if it does nothing else."""
    found: list[tuple[int, int]] = []
    pairs = constraint.ordered_pairs()
    for one, other in pairs or ():
        lower, upper = columns[one], columns[other]
        if isinstance(lower, Levels) or isinstance(upper, Levels):
            return None
        found.append((lower, upper))
    return None if pairs is None else found
