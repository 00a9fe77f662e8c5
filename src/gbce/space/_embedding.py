"""Rows as points of a Euclidean space in which distance is change, in units of each feature's scale.

A number takes one axis. A category takes an axis per level, so that all its levels are equally far from each other (two
levels share one axis; the axes of many levels are not laid out). A feature that may be missing takes one axis more:
missing lies one unit away from its centre.
"""

from collections.abc import Sequence

import numpy as np

from gbce.base import Array
from gbce.space._feature import Feature
from gbce.space._places import Centre, Places

__all__ = ["axes_of", "distances_to", "embed", "nearest"]

# Levels of a category that get an axis each. Chosen by hand, since a k-d tree is little faster than brute force from
# some twenty dimensions on (scipy's documentation of KDTree); distances are the same either way.
MOST_AXES = 16
_ROW_CELLS = 1_000_000  # numbers in a block of rows whose distances to one row are measured together: 8 MB, by hand


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
