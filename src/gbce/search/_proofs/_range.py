"""What rows can be, in the columns that a model's scores are made of: a box of values, and lists where they are few."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.predictors import Inside
from gbce.space import Space

__all__ = ["Box", "Few", "Range", "range_of"]

# Of a whole-number column, by hand: with more values than these it counts as an interval, which is a larger set.
_MOST_VALUES = 200
# Relative, of what a function makes that is not quite rising in its last digits, in double and in single precision.
_UNEVEN, _UNEVEN_SINGLE = 1e-12, 1e-6
_VISIBLE = 1e-3  # of a value, by hand: a step that changes whatever depends on it, however that is scaled


class Box(NamedTuple):
    """Columns that each lie in an interval, or are missing: arrays ``(C,)``. Where low is above high, none is known."""

    low: Array
    high: Array
    missing: Array


@dataclass(frozen=True, eq=False)
class Few:
    """A feature of few values: what each makes of the columns that it decides.

    Parameters
    ----------
    columns : int array of shape (k,)
        That it decides.
    values : array of shape (a, k)
        Of these columns, for each of its values; NaN where one is missing.
    """

    columns: Array
    values: Array

    def hull(self, alive: Array, box: Box) -> None:
        """Write the smallest intervals that hold the values that are ``alive`` ``(a,)`` into a box."""
        values = self.values[alive]
        known = ~np.isnan(values)
        box.low[self.columns] = np.where(known, values, np.inf).min(axis=0)
        box.high[self.columns] = np.where(known, values, -np.inf).max(axis=0)
        box.missing[self.columns] = ~known.all(axis=0)


@dataclass(frozen=True, eq=False)
class Range:
    """All that rows can be.

    Parameters
    ----------
    box : Box
        That holds every row.
    few : tuple of Few
        Features of few values, whose columns are not free of each other.
    owner : int array of shape (C,)
        Which of ``few`` decides a column; -1 for an interval, or a column that stays.
    """

    box: Box
    few: tuple[Few, ...]
    owner: Array

    def holds(self, columns: Array) -> bool:
        """Whether rows ``(n, C)`` are all inside."""
        box, gone = self.box, np.isnan(columns)
        with np.errstate(invalid="ignore"):
            inside = (columns >= box.low) & (columns <= box.high)
        return bool(np.all(inside | (gone & box.missing)))


class _Values(NamedTuple):
    """What one feature can be, as encoded: a list of values, or an interval with or without a gap in knowledge."""

    listed: Array | None
    low: float
    high: float
    missing: bool


def range_of(inside: Inside, space: Space, x0: Array) -> Range | None:
    """Return what rows can be that a row ``x0`` ``(d,)`` may become; None if a column has no bounds that are known.

    The model's own preparation is asked about the ends: it is a rising or falling function of each number.
    """
    features = [_values_of(space, x0, j) for j in range(len(space))]
    if any(features[j].listed is None for j in inside.stepwise):
        return None
    trials = [_trials(one, float(x0[j]), float(space.scale[j])) for j, one in enumerate(features)]
    rows = np.repeat(x0[None, :], 1 + sum(map(len, trials)), axis=0)
    starts = 1 + np.concatenate([[0], np.cumsum([len(one) for one in trials])]).astype(int)
    for j, tried in enumerate(trials):
        rows[starts[j] : starts[j + 1], j] = tried
    exact = inside.columns(rows)
    made = inside.parts.rounded(exact)
    first = made[0]
    box = Box(first.copy(), first.copy(), np.isnan(first))
    box.low[box.missing], box.high[box.missing] = np.inf, -np.inf
    owner, taken = np.full(len(first), -1), np.zeros(len(first), dtype=bool)
    few: list[Few] = []
    for j, values in enumerate(features):
        images, unrounded = made[starts[j] : starts[j + 1]], exact[starts[j] : starts[j + 1]]
        decided = np.flatnonzero(~_same(unrounded, exact[0]).all(axis=0))
        if len(decided) == 0:
            continue
        if taken[decided].any():  # two features in one column: this is not columnwise after all
            return None
        taken[decided] = True
        if values.listed is not None:
            one = Few(decided, images[:, decided])
            owner[decided] = len(few)
            few.append(one)
            one.hull(np.ones(len(one.values), dtype=bool), box)
        elif inside.coded.intersection(decided.tolist()):  # codes of categories that are not listed
            return None
        else:
            bent = j in inside.bent
            if bent and not (np.isfinite([values.low, values.high]).all() and np.isfinite(images[:2, decided]).all()):
                return None  # two values do not tell what such a function does beyond them
            _span(values, images[:, decided], decided, box)
            if bent:
                slack = _UNEVEN_SINGLE if inside.parts.single else _UNEVEN
                widest = slack * np.maximum(1.0, np.abs(images[:2, decided]).max(axis=0))
                box.low[decided] -= widest
                box.high[decided] += widest
    return Range(box, tuple(few), owner)


def _same(a: Array, b: Array) -> Array:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def _values_of(space: Space, x0: Array, j: int) -> _Values:
    """Return what a feature can be."""
    feature, now = space.features[j], x0[j]
    low, high = (float(end[j]) for end in space.limits(x0))
    missing = bool(np.isnan(now) or space.may_become_missing[j])
    if space.is_computed[j]:  # it follows from the others: anything within its own bounds
        top = len(feature.levels) - 1.0 if feature.levels else np.inf
        low = 0.0 if feature.levels else -np.inf if feature.low is None else feature.low
        high = top if feature.levels else np.inf if feature.high is None else feature.high
        low, high = float(np.fmin(low, now)), float(np.fmax(high, now))
    if np.isnan(low) or low == high:
        gap = [np.nan] if missing else []
        return _Values(np.array(([] if np.isnan(low) else [low]) + gap), low, high, missing)
    few = feature.discrete and not (space.is_computed[j] and not feature.leveled) and high - low < _MOST_VALUES
    if not few:
        return _Values(None, low, high, missing)
    listed = low + np.arange(round(high - low) + 1)
    return _Values(np.append(listed, np.nan) if missing else listed, low, high, missing)


def _trials(values: _Values, now: float, unit: float) -> Array:
    """Return values that tell what a feature does to the columns: all of them, or two of an interval and a gap."""
    if values.listed is not None:
        return values.listed
    low, high = values.low, values.high
    known = next((end for end in (low, high, now) if np.isfinite(end)), 0.0)
    step = max(1.0, np.ceil(unit), np.ceil(_VISIBLE * abs(known)))  # so that no rounding hides it
    if not np.isfinite(low):
        low = high - step if np.isfinite(high) else known
    high = high if np.isfinite(high) else low + step
    return np.array([low, high, np.nan] if values.missing else [low, high])


def _span(values: _Values, images: Array, decided: Array, box: Box) -> None:
    """Write what an interval makes of its columns into a box: ends that are nowhere stay nowhere."""
    low, high = np.fmin(images[0], images[1]), np.fmax(images[0], images[1])
    rising = images[1] >= images[0]
    falling = images[1] <= images[0]
    if not np.isfinite(values.low):
        low, high = np.where(rising, -np.inf, low), np.where(falling, np.inf, high)
    if not np.isfinite(values.high):
        high, low = np.where(rising, np.inf, high), np.where(falling, -np.inf, low)
    gone = np.zeros(len(decided), dtype=bool)
    if values.missing:
        gone = np.isnan(images[2])
        low, high = np.fmin(low, images[2]), np.fmax(high, images[2])
    box.low[decided], box.high[decided], box.missing[decided] = low, high, gone
