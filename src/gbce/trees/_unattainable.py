"""Proofs that no row within the bounds reaches a target, for tree ensembles and linear models.

For trees, branch and bound over boxes of cells decides; see :mod:`gbce.trees._bound`. For linear models the attainable
rows are enclosed in a box of model columns, over which the largest score is exact.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce._numerics import ROUNDING
from gbce.base import Array, Target
from gbce.space import Space, list_values
from gbce.targets import Class
from gbce.trees._bound import bound_sums
from gbce.trees._cells import CellTrees
from gbce.trees._optimum import make_task
from gbce.trees._proof import Proof, describe_unattainable
from gbce.trees._question import ScoreConstraints, score_constraints
from gbce.trees._read import read_cells
from gbce.trees._scores import LinearScores
from gbce.trees._structure import ModelStructure, agrees, n_terms, same_output

MOST_WORK = 4_000_000  # leaves of all boxes, one or two seconds: what that leaves open is seldom ever decided
# Integer columns with more values are treated as intervals, a larger set; hand-tuned.
_MOST_VALUES = 200
_VISIBLE = 1e-3  # relative step that visibly changes every dependent column, however it is scaled; hand-tuned

# --- proofs ----------------------------------------------------------------------------------------------------------


def prove_unattainable(
    structure: ModelStructure,
    space: Space,
    x0: Array,
    target: Target,
    x: Array,
    outputs: Array,
    trees: CellTrees | None = None,
    most_work: int = MOST_WORK,
) -> Proof | None:
    """Prove that no row that ``x0`` may become reaches the target; None if that is not proved.

    ``x`` ``(n, d)`` are known rows that ``x0`` may become, none of which reaches the target, and ``outputs`` ``(n,)``
    the model's own, as the target reads them, which the structure must reproduce. ``trees`` is the structure on cells,
    if it has been read; at most ``most_work`` leaves are processed over all boxes of cells, with 0 those of one box.
    """
    if not agrees(structure, x, outputs, target.label if isinstance(target, Class) else None):
        return None
    constraints = score_constraints(structure, target, slack=ROUNDING)
    if constraints is None:
        return None
    if isinstance(structure.parts, LinearScores):
        found = _bound_linear(structure, structure.parts, space, x0, constraints, x)
    else:
        trees = read_cells(structure, space, x) if trees is None else trees
        found = None if trees is None else _bound_cells(trees, space, x0, constraints, x, most_work)
    if found is None:
        return None
    sums, boxes = found
    seen = structure.parts.scores(structure.columns(x)) @ constraints.weights.T
    if (seen > sums + same_output(structure, outputs)).any():  # NaN where a constraint has no bound of its own
        return None
    return describe_unattainable(structure.parts, constraints, target, sums, boxes)


def _bound_cells(
    trees: CellTrees, space: Space, x0: Array, constraints: ScoreConstraints, x: Array, most_work: int
) -> tuple[Array, int] | None:
    """Return the largest sums ``(q,)`` over all cells and the number of boxes, if every cell violates a constraint."""
    task = make_task(trees, space, x0, constraints, "changes")
    if task is None or not _are_attainable(space, x0, x):
        return None
    same = np.abs(trees.scores(trees.cells(x)) - trees.inside.parts.scores(trees.inside.columns(x)))
    if (same @ np.abs(constraints.weights).T > constraints.margins(trees)).any():
        return None
    found = bound_sums(task.leaves, task.axes, task.least, most_work)
    return None if found is None else (found[0] + (constraints.least - task.least), found[1])


def _are_attainable(space: Space, x0: Array, x: Array) -> bool:
    """Whether all rows ``(n, d)`` lie within the limits of ``x0``, computed columns apart."""
    low, high = space.limits(x0)
    within = np.where(np.isnan(x), np.isnan(x0) | space.may_become_missing, (x >= low) & (x <= high))
    return bool((within | space.is_computed).all() and space.row_limits(x0).allow(x).all())


def _bound_linear(
    structure: ModelStructure,
    parts: LinearScores,
    space: Space,
    x0: Array,
    constraints: ScoreConstraints,
    x: Array,
) -> tuple[Array, int] | None:
    """Return the largest sums ``(q,)`` over all rows, and one box, if they violate a constraint."""
    try:
        rows, columns = row_box_of(structure, space, x0), structure.columns(x)
    except Exception:  # the model may raise anything at the ends of the allowed range
        return None
    if rows is None or not rows.holds(columns):
        return None
    sums, sizes = _largest_sums(parts, rows, constraints)
    sums = sums + n_terms(structure) * parts.epsilon * sizes
    violated = sums < constraints.least  # false where it is not finite
    return (np.where(violated, sums, np.nan), 1) if violated.any() else None


# --- linear models: attainable rows ----------------------------------------------------------------------------------


class Box(NamedTuple):
    """Interval and possible missingness of each column ``(C,)``; if low is above high, no known value is possible."""

    low: Array
    high: Array
    missing: Array


@dataclass(frozen=True, eq=False)
class EnumeratedFeature:
    """Columns ``(k,)`` produced by each value of a feature with few values ``(a, k)``; NaN for missing."""

    columns: Array
    values: Array

    def hull(self, alive: Array, box: Box) -> None:
        """Write the smallest intervals that enclose the ``alive`` values ``(a,)`` into a box."""
        values = self.values[alive]
        known = ~np.isnan(values)
        box.low[self.columns] = np.where(known, values, np.inf).min(axis=0)
        box.high[self.columns] = np.where(known, values, -np.inf).max(axis=0)
        box.missing[self.columns] = ~known.all(axis=0)


@dataclass(frozen=True, eq=False)
class RowBox:
    """All rows that are attainable, in the columns of the model.

    ``box`` encloses them. ``enumerated`` are features with few values, whose columns depend on each other, and
    ``owner`` ``(C,)`` is which of them determines a column; -1 for an interval or a constant column.
    """

    box: Box
    enumerated: tuple[EnumeratedFeature, ...]
    owner: Array

    def holds(self, columns: Array) -> bool:
        """Whether all rows ``(n, C)`` are inside."""
        box, is_missing = self.box, np.isnan(columns)
        with np.errstate(invalid="ignore"):
            within = (columns >= box.low) & (columns <= box.high)
        return bool(np.all(within | (is_missing & box.missing)))


class _FeatureValues(NamedTuple):
    """Possible encoded values of one feature: a list, or an interval and whether it may be missing."""

    listed: Array | None
    low: float
    high: float
    missing: bool


def row_box_of(structure: ModelStructure, space: Space, x0: Array) -> RowBox | None:
    """Return the rows that ``x0`` ``(d,)`` may become, in model columns; None if the bounds of a column are unknown.

    The model's own preprocessing is applied to the ends, since it is monotone in each number.
    """
    features = [_list_values(space, x0, j) for j in range(len(space))]
    if any(features[j].listed is None for j in structure.stepwise):
        return None
    trials = [_pick_trials(one, float(x0[j]), float(space.scale[j])) for j, one in enumerate(features)]
    rows = np.repeat(x0[None, :], 1 + sum(map(len, trials)), axis=0)
    starts = 1 + np.concatenate([[0], np.cumsum([len(one) for one in trials])]).astype(int)
    for j, tried in enumerate(trials):
        rows[starts[j] : starts[j + 1], j] = tried
    made = structure.columns(rows)
    first = made[0]
    box = Box(first.copy(), first.copy(), np.isnan(first))
    box.low[box.missing], box.high[box.missing] = np.inf, -np.inf
    owner, assigned = np.full(len(first), -1), np.zeros(len(first), dtype=bool)
    enumerated: list[EnumeratedFeature] = []
    for j, values in enumerate(features):
        images = made[starts[j] : starts[j + 1]]
        decided = np.flatnonzero(~_equal_or_nan(images, first).all(axis=0))
        if len(decided) == 0:
            continue
        if assigned[decided].any():  # two features in one column: the preprocessing is not columnwise
            return None
        assigned[decided] = True
        if values.listed is not None:
            one = EnumeratedFeature(decided, images[:, decided])
            owner[decided] = len(enumerated)
            enumerated.append(one)
            one.hull(np.ones(len(one.values), dtype=bool), box)
        else:
            is_nonlinear = j in structure.nonlinear
            if is_nonlinear and not (
                np.isfinite([values.low, values.high]).all() and np.isfinite(images[:2, decided]).all()
            ):
                return None  # two values do not determine such a function beyond them
            _write_interval(values, images[:, decided], decided, box)
            if is_nonlinear:
                widest = ROUNDING * np.maximum(1.0, np.abs(images[:2, decided]).max(axis=0))
                box.low[decided] -= widest
                box.high[decided] += widest
    return RowBox(box, tuple(enumerated), owner)


def _equal_or_nan(a: Array, b: Array) -> Array:
    """Return where two arrays are equal, counting NaN as equal."""
    return (a == b) | (np.isnan(a) & np.isnan(b))


def _list_values(space: Space, x0: Array, j: int) -> _FeatureValues:
    """Return the possible values of a feature."""
    feature, now = space.features[j], x0[j]
    low, high = (float(end[j]) for end in space.limits(x0))
    missing = bool(np.isnan(now) or space.may_become_missing[j])
    if space.is_computed[j]:  # computed from the others: anything within its own bounds
        top = len(feature.levels) - 1.0 if feature.levels else np.inf
        low = 0.0 if feature.levels else -np.inf if feature.low is None else feature.low
        high = top if feature.levels else np.inf if feature.high is None else feature.high
        low, high = float(np.fmin(low, now)), float(np.fmax(high, now))
    if np.isnan(low) or low == high:
        missing_value = [np.nan] if missing else []
        return _FeatureValues(np.array(([] if np.isnan(low) else [low]) + missing_value), low, high, missing)
    listed = None
    if feature.leveled or not space.is_computed[j]:
        listed = list_values(feature, low, high, _MOST_VALUES)
    if listed is not None and feature.forbidden and not space.is_computed[j]:
        listed = feature.levels_from(now)
    if listed is not None and missing:
        listed = np.append(listed, np.nan)
    return _FeatureValues(listed, low, high, missing)


def _pick_trials(values: _FeatureValues, now: float, unit: float) -> Array:
    """Return values that reveal a feature's effect on the columns: all, or two of an interval and a missing one."""
    if values.listed is not None:
        return values.listed
    low, high = values.low, values.high
    known = next((end for end in (low, high, now) if np.isfinite(end)), 0.0)
    step = max(1.0, np.ceil(unit), np.ceil(_VISIBLE * abs(known)))  # large enough not to vanish in rounding
    if not np.isfinite(low):
        low = high - step if np.isfinite(high) else known
    high = high if np.isfinite(high) else low + step
    return np.array([low, high, np.nan] if values.missing else [low, high])


def _write_interval(values: _FeatureValues, images: Array, decided: Array, box: Box) -> None:
    """Write the image of an interval in its columns into a box; infinite ends stay infinite."""
    low, high = np.fmin(images[0], images[1]), np.fmax(images[0], images[1])
    rising = images[1] >= images[0]
    falling = images[1] <= images[0]
    if not np.isfinite(values.low):
        low, high = np.where(rising, -np.inf, low), np.where(falling, np.inf, high)
    if not np.isfinite(values.high):
        high, low = np.where(rising, np.inf, high), np.where(falling, -np.inf, low)
    is_missing = np.zeros(len(decided), dtype=bool)
    if values.missing:
        is_missing = np.isnan(images[2])
        low, high = np.fmin(low, images[2]), np.fmax(high, images[2])
    box.low[decided], box.high[decided], box.missing[decided] = low, high, is_missing


def _largest_sums(parts: LinearScores, rows: RowBox, bounds: ScoreConstraints) -> tuple[Array, Array]:
    """Return the largest value of each weighted sum ``(q,)``, exact up to rounding, and the size of its terms."""
    weights = bounds.weights @ parts.weights
    absolute = np.abs(bounds.weights) @ np.abs(parts.weights)
    sums, sizes = bounds.weights @ parts.base, np.abs(bounds.weights) @ np.abs(parts.base)
    box, alone = rows.box, rows.owner < 0
    if box.missing.any():  # a linear model cannot score a missing value
        return np.full(len(weights), np.inf), sizes
    # away from this corner the sum falls faster than its rounding error can grow
    corner = np.where(weights > 0, box.high, box.low)
    with np.errstate(invalid="ignore"):
        terms = np.where(weights == 0, 0.0, weights * corner)
        rounding = np.where(absolute == 0, 0.0, absolute * np.abs(np.where(weights == 0, box.high, corner)))
    sums, sizes = sums + terms[:, alone].sum(axis=1), sizes + rounding[:, alone].sum(axis=1)
    for one in rows.enumerated:
        sums = sums + (weights[:, one.columns] @ one.values.T).max(axis=1)
        sizes = sizes + (absolute[:, one.columns] @ np.abs(one.values.T)).max(axis=1)
    return sums, sizes
