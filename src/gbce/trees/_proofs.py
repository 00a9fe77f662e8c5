"""Proofs that no row within the bounds reaches a target, for tree ensembles and linear models.

For trees, branch and bound over boxes of cells decides; see :mod:`gbce.trees._bound`. For linear models the attainable
rows are enclosed in a box of model columns, over which the largest score is exact.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from gbce._numerics import ROUNDING
from gbce._validation import short
from gbce.base import Array, Target
from gbce.space import Space, list_values
from gbce.targets import Class
from gbce.trees._bound import bound_sums
from gbce.trees._cells import CellTrees
from gbce.trees._optimum import make_task
from gbce.trees._question import ScoreConstraints, score_constraints
from gbce.trees._read import read_cells
from gbce.trees._scores import LinearScores, TreeScores
from gbce.trees._structure import ModelStructure, agrees, n_terms, same_output

_EXACT = 1e-6  # relative cost difference that does not matter: rounding of sums and of the last digit of values
_FEW = {2: "No change of one column suffices.", 3: "No change of one or two columns suffices."}
_MOST_DIGITS = 17  # of a double


@dataclass(frozen=True)
class Proof:
    """What is proved about all rows within the bounds, for the first model and in its own arithmetic.

    Either that no row reaches the target (``explanation.proof``), or that none reaches it at a lower cost than a given
    one (the ``proof`` of a decision of ``Nearest(prove=True)``).

    Parameters
    ----------
    kind : {"trees", "linear"}
        What the proof is based on: the leaves of all trees, or the coefficients.
    sentence : str
        What is proved, and how.
    bound : float, optional
        Limit of the attainable outputs on the side of the target: no row gets above it (for a target above) or below it
        (for a target below). None where no single number applies, as between two of many classes.
    boxes : int
        Number of boxes that the rows were divided into; 1 if the box of all rows was enough.
    lower : float, optional
        Lower bound on the cost of every point that reaches the target, in the units of the rule's distance; None if the
        proof is that none reaches it.
    cost : float, optional
        Cost of the point that the proof is about.
    least_changes : int
        Minimum number of changed columns needed to reach the target; 0 if this was not computed.
    optimum : float, optional
        Cost of the cheapest point found that the model accepts, before its numbers were rounded to few digits; None if
        none was found. It is optimal if it equals ``lower``.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> x = np.arange(20.0)[:, None]
    >>> explainer = gbce.Explainer(DecisionTreeRegressor(max_depth=2).fit(x, x[:, 0]), x)
    >>> explanation = explainer.explain([3.0], gbce.AtLeast(30, scale=5), rules=[], seed=0)
    >>> explanation.proof.kind, explanation.proof.bound < 30
    ('trees', True)
    """

    kind: Literal["trees", "linear"]
    sentence: str
    bound: float | None = None
    boxes: int = 1
    lower: float | None = None
    cost: float | None = None
    least_changes: int = 0
    optimum: float | None = None

    @property
    def gap(self) -> float:
        """Largest share of the cost that a cheaper point could save: 0 if none is cheaper."""
        if self.lower is None or not self.cost:
            return 0.0
        return max(0.0, 1.0 - self.lower / self.cost)


# --- sentences about costs -------------------------------------------------------------------------------------------


def describe_cheapest(proof: Proof, origin: str, distance: str, under: str = "") -> str:
    """Return the sentence of a proof about the cost of a point.

    ``origin`` is what the proof is based on, ``distance`` one of "l1", "l2" and "changes", and ``under`` a further
    requirement on points.
    """
    how = f"(proved {origin})"
    lower, cost = proof.lower or 0.0, proof.cost or 0.0
    if distance == "changes":
        needed = max(ceil(lower - _EXACT), proof.least_changes)
        if needed >= cost:
            return f"No point with fewer changes{under} reaches the target {how}."
        return f"Any point{under} that reaches the target has at least {needed} change{'s' * (needed != 1)} {how}."
    few = [_FEW[proof.least_changes]] if proof.least_changes in _FEW and not under else []
    if proof.gap <= _EXACT:
        return " ".join([f"No cheaper point{under} reaches the target {how}.", *few])
    if proof.optimum is not None and lower >= proof.optimum * (1.0 - _EXACT):
        more = _format_share(cost / proof.optimum - 1.0)
        least = f"The cheapest point{under} that reaches the target costs {proof.optimum:.6g} {how}"
        return " ".join([f"{least}; this one, with rounded numbers, costs at most {more} more.", *few])
    if proof.gap < 1:
        return " ".join(
            [f"No point{under} that reaches the target is more than {_format_share(proof.gap)} cheaper {how}.", *few]
        )
    return " ".join([*few, how[1:-1].capitalize() + "."]) if few else ""


def describe_answer(proof: Proof, cost: float) -> str:
    """Return what a proof about the nearest point implies for another point of a given cost."""
    lower = proof.lower or 0.0
    if cost <= 0 or lower <= 0:
        return ""
    how = "(proved from all trees)"
    if lower >= cost * (1.0 - _EXACT):
        return f"No cheaper point reaches the target {how}."
    return f"Any point that reaches the target costs at least {_format_down(lower)}, and this one {cost:.3g} {how}."


def _format_share(gap: float) -> str:
    """Format a share as a percentage, rounded up."""
    return f"{ceil(1000 * gap) / 10:g}%" if gap < 0.01 else f"{ceil(100 * gap)}%"


def _format_down(number: float) -> str:
    """Format a number with three digits, rounded down."""
    text = f"{number:.3g}"
    return text if float(text) <= number else f"{number * (1 - 5e-3):.3g}"


# --- unattainable targets --------------------------------------------------------------------------------------------


def describe_unattainable(
    parts: TreeScores | LinearScores, bounds: ScoreConstraints, target: Target, sums: Array, boxes: int = 1
) -> Proof:
    """Return the proof that no row reaches a target, with a bound of the output if there is one.

    ``sums`` ``(q,)`` are the largest attainable values of each constraint; NaN where another one decided in some box.
    """
    whose = f" a probability of {target.label!r}" if isinstance(target, Class) else ""
    proof = Proof("trees" if isinstance(parts, TreeScores) else "linear", "", boxes=boxes)
    fact = f"no row can get {target.describe()}"
    for i, total in enumerate(sums):
        bound = None if np.isnan(total) else bounds.output(i, float(total))
        if bound is not None:
            word = bounds.phrases[i]
            end = bounds.output(i, float(bounds.least[i]))
            fact = f"no row can get{whose} {word} {_round_outward(bound, end, word)}"
            proof = replace(proof, bound=bound)
            break
        if not np.isnan(total) and bounds.phrases[i]:
            fact = f"whatever changes, {bounds.phrases[i]}"
            break
    return replace(proof, sentence=f"Impossible within these bounds: {fact} (proved {parts.origin}).")


def _round_outward(bound: float, wanted: float | None, word: str) -> str:
    """Format a bound with few digits, rounded away from attainable outputs but not past the wanted one."""
    for digits in range(3, _MOST_DIGITS):
        rounded = float(f"{bound:.{digits - 1}e}")
        step = 10.0 ** (np.floor(np.log10(abs(bound))) - digits + 1) if bound else 0.0
        sign = 1.0 if word == "above" else -1.0
        if sign * (rounded - bound) < 0:
            rounded = float(f"{rounded + sign * step:.{digits - 1}e}")
        if wanted is None or sign * (wanted - rounded) > 0:
            return f"{rounded:.{digits}g}" if abs(rounded) < 10.0**digits else short(rounded)
    return f"{bound:.{_MOST_DIGITS}g}"


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


def seems_attainable(structure: ModelStructure, target: Target, x: Array) -> bool:
    """Whether one of some rows ``(n, d)`` reaches a target by the structure alone, or that cannot be told from it."""
    constraints = score_constraints(structure, target)
    if constraints is None:
        return True
    try:
        sums = structure.parts.scores(structure.columns(x)) @ constraints.weights.T
    except Exception:  # the model's own preprocessing may raise anything
        return True
    return bool((sums >= constraints.least).all(axis=1).any())


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
    if found is None:
        return None
    known = np.isfinite(constraints.least)  # no output is beyond an infinite one
    shift = constraints.weights @ trees.base + constraints.margins(trees)
    return found[0] + np.where(known, np.where(known, constraints.least, 0.0) - task.least, shift), found[1]


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
    sums, rounding = _maximise_sums(parts, rows, constraints, n_terms(structure) * parts.epsilon)
    sums = sums + rounding
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


def _maximise_sums(
    parts: LinearScores, attainable: RowBox, constraints: ScoreConstraints, error: float
) -> tuple[Array, Array]:
    """Return the maximum of each constraint's sum of scores ``(q,)`` over attainable rows, and its rounding error.

    ``error`` is the relative rounding error of a sum of absolute terms.
    """
    weights = constraints.weights @ parts.weights
    absolute = np.abs(constraints.weights) @ np.abs(parts.weights)
    sums, sizes = constraints.weights @ parts.base, np.abs(constraints.weights) @ np.abs(parts.base)
    box, alone = attainable.box, attainable.owner < 0
    if box.missing.any():  # a linear model cannot score a missing value
        return np.full(len(weights), np.inf), sizes
    corner = np.where(weights > 0, box.high, box.low)
    # away from this corner the sum falls faster than its rounding error grows, unless coefficients nearly cancel
    cancelling = np.abs(weights) <= error * absolute
    farthest = np.where(cancelling, np.maximum(np.abs(box.low), np.abs(box.high)), np.abs(corner))
    with np.errstate(invalid="ignore"):
        terms = np.where(weights == 0, 0.0, weights * corner)
        rounding = np.where(absolute == 0, 0.0, absolute * farthest)
    sums, sizes = sums + terms[:, alone].sum(axis=1), sizes + rounding[:, alone].sum(axis=1)
    for one in attainable.enumerated:
        sums = sums + (weights[:, one.columns] @ one.values.T).max(axis=1)
        sizes = sizes + (absolute[:, one.columns] @ np.abs(one.values.T)).max(axis=1)
    return sums, error * sizes
