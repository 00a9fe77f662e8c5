"""Rows as points of a Euclidean space in which distance is change, in units of each feature's scale.

A number takes one axis. A category takes an axis per level, so that all its levels are equally far from each other (two
levels share one axis). A feature that may be missing takes one axis more: missing stands one unit aside of its centre.
"""

from collections.abc import Sequence

import numpy as np

from gbce._weights import Array
from gbce.space._feature import Feature

__all__ = ["axes_of", "embedded", "nearest"]


def axes_of(feature: Feature) -> int:
    """Return the number of axes a feature takes."""
    levels = len(feature.levels or ())
    return (levels if feature.unordered and levels > 2 else 1) + (feature.missing is not None)


def embedded(features: Sequence[Feature], x: Array) -> Array:
    """Place the columns ``(n, d)`` of these features: ``(n, k)``."""
    if all(feature.plain for feature in features):
        return x / np.array([feature.scale for feature in features])
    return np.concatenate([_axes(feature, x[:, j]) for j, feature in enumerate(features)], axis=1)


def _axes(feature: Feature, column: Array) -> Array:
    gone = np.isnan(column)
    size = len(feature.levels or ())
    if feature.unordered and size > 2:
        place = (column[:, None] == np.arange(size)) / (feature.scale * np.sqrt(2.0))
    else:
        centre = 0.5 * (size == 2) if feature.centre is None else feature.centre
        place = (np.where(gone, centre, column) / feature.scale)[:, None]
    return place if feature.missing is None else np.column_stack([place, gone / 1.0])


def nearest(features: Sequence[Feature], point: Array, low: Array, high: Array, x0: Array) -> Array:
    """Return the values ``(d,)`` of these features, within limits, that lie nearest to a point ``(k,)``."""
    values, start = np.empty(len(features)), 0
    for j, feature in enumerate(features):
        own = point[start : start + axes_of(feature)]
        start += axes_of(feature)
        if not high[j] > low[j] and not (feature.mutable and feature.missing == "any"):
            values[j] = x0[j]
            continue
        choices = _candidates(feature, own, low[j], high[j], x0[j])
        gap = np.square(embedded([feature], choices[:, None]) - own).sum(axis=1)
        values[j] = choices[np.argmin(gap)]
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
