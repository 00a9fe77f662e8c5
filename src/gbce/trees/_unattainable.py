"""Proofs that no row within the bounds reaches a target, for tree ensembles and linear models.

The attainable rows are enclosed in a box of model columns, and scores are bounded over it: exactly for linear models,
by branch and bound for trees. A box is bounded through the best leaf of each tree that intersects it; if that is not
enough, it is split at a node where the best leaves disagree, until every part violates a constraint, the best leaves of
one part agree, or a limit is met.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gbce._validation import short
from gbce.base import Array, Target
from gbce.space import Space
from gbce.targets import Class
from gbce.trees._constraints import Proof, ScoreBounds, score_bounds_of
from gbce.trees._scores import LinearScores, TreeScores
from gbce.trees._structure import MORE_TERMS, ModelStructure, agrees, n_terms, same_output

__all__ = ["Outcome", "describe_unattainable", "prove_unattainable", "sum_margin"]

MOST_BOXES = 2_000  # hand-tuned: a few seconds at most, and what a few hundred boxes leave open is seldom ever decided
_MOST_CELLS = 20_000_000  # numbers in the boxes of leaves: 160 MB for each end
_MOST_WORK = 100_000_000  # numbers compared in total, one or two seconds; hand-tuned
# Integer columns with more values are treated as intervals, a larger set; hand-tuned.
_MOST_VALUES = 200
# Relative error of functions that are not quite monotone in their last digits, in double and in single precision.
_UNEVEN, _UNEVEN_SINGLE = 1e-12, 1e-6
_VISIBLE = 1e-3  # relative step that visibly changes every dependent column, however it is scaled; hand-tuned
_MOST_DIGITS = 17  # of a double

# --- attainable rows -------------------------------------------------------------------------------------------------


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

    Parameters
    ----------
    box : Box
        Encloses every row.
    enumerated : tuple of EnumeratedFeature
        Features with few values, whose columns depend on each other.
    owner : int array of shape (C,)
        Which of ``enumerated`` determines a column; -1 for an interval or a constant column.
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
    exact = structure.columns(rows)
    made = structure.parts.rounded(exact)
    first = made[0]
    box = Box(first.copy(), first.copy(), np.isnan(first))
    box.low[box.missing], box.high[box.missing] = np.inf, -np.inf
    owner, assigned = np.full(len(first), -1), np.zeros(len(first), dtype=bool)
    enumerated: list[EnumeratedFeature] = []
    for j, values in enumerate(features):
        images, unrounded = made[starts[j] : starts[j + 1]], exact[starts[j] : starts[j + 1]]
        decided = np.flatnonzero(~_equal_or_nan(unrounded, exact[0]).all(axis=0))
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
        elif structure.coded.intersection(decided.tolist()):  # category codes that are not enumerated
            return None
        else:
            is_nonlinear = j in structure.nonlinear
            if is_nonlinear and not (
                np.isfinite([values.low, values.high]).all() and np.isfinite(images[:2, decided]).all()
            ):
                return None  # two values do not determine such a function beyond them
            _write_interval(values, images[:, decided], decided, box)
            if is_nonlinear:
                slack = _UNEVEN_SINGLE if structure.parts.single else _UNEVEN
                widest = slack * np.maximum(1.0, np.abs(images[:2, decided]).max(axis=0))
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
    enumerated = feature.discrete and not (space.is_computed[j] and not feature.leveled) and high - low < _MOST_VALUES
    if not enumerated:
        return _FeatureValues(None, low, high, missing)
    listed = low + np.arange(round(high - low) + 1)
    return _FeatureValues(np.append(listed, np.nan) if missing else listed, low, high, missing)


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


# --- branch and bound ------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """Result of a proof attempt: whether every row violates a constraint, and the number of boxes.

    ``sums`` ``(q,)`` are the largest attainable values of each constraint; NaN where another one decided in some box.
    """

    proved: bool
    sums: Array
    boxes: int


class _Leaves(NamedTuple):
    """Leaves that intersect a box: ``(low, high]`` in every column, or missing where ``takes_missing``."""

    low: Array
    high: Array
    takes_missing: Array
    tree: Array
    worth: Array

    def pick(self, which: Array) -> "_Leaves":
        return _Leaves(*(part[which] for part in self))


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the attainable rows: its box, the remaining values of enumerated features, and its leaves."""

    box: Box
    alive: tuple[Array, ...]
    leaves: _Leaves


def bound_trees(
    trees: TreeScores, rows: RowBox, bounds: ScoreBounds, margin: Array, most_boxes: int = MOST_BOXES
) -> Outcome:
    """Return whether every row violates some bound on scores by more than its ``margin`` ``(q,)``."""
    undecided = Outcome(False, np.full(len(margin), np.nan), 1)
    used = np.unique(trees.column[trees.column >= 0])
    leaves = _collect_leaves(trees, rows.box, used, bounds)
    if leaves is None:
        return undecided
    base = bounds.weights @ trees.base
    open_parts = [_Part(rows.box, tuple(np.ones(len(one.values), dtype=bool) for one in rows.enumerated), leaves)]
    largest = np.full(len(margin), -np.inf)
    boxes = work = 0
    while open_parts:
        part = open_parts.pop()
        boxes += 1
        work += part.leaves.low.size
        if boxes > most_boxes or work > _MOST_WORK:
            return undecided._replace(boxes=boxes - 1)
        best, sums = _pick_best(part.leaves, base)
        if len(best[0]) < len(trees.roots):  # a tree without a leaf for these rows was not read correctly
            return undecided
        violated = sums + margin < bounds.least
        if violated.any():
            largest = np.maximum(largest, np.where(violated, sums + margin, np.inf))
            continue
        # split the leaves of the constraint closest to being violated
        nearest = int(np.argmin((sums - bounds.least) / np.maximum(np.abs(sums), 1.0)))
        halves = _split_part(part, part.leaves.pick(best[nearest]), rows, used)
        if halves is None:  # the best leaves agree: some row satisfies this constraint, so the others decide
            halves = _split_part(part, part.leaves.pick(np.unique(np.concatenate(best))), rows, used)
        if halves is None:
            return undecided._replace(boxes=boxes)
        open_parts += halves
    return Outcome(True, np.where(np.isfinite(largest), largest, np.nan), boxes)


def _pick_best(leaves: _Leaves, base: Array) -> tuple[list[Array], Array]:
    """Return the best leaf of each tree for every constraint, and their sums ``(q,)``."""
    edges = np.flatnonzero(np.r_[True, leaves.tree[1:] != leaves.tree[:-1]])
    sums, best = base.copy(), []
    for i in range(len(base)):
        worth = leaves.worth[:, i]
        tops = np.maximum.reduceat(worth, edges)
        sums[i] += tops.sum()
        is_top = worth == np.repeat(tops, np.diff(np.r_[edges, len(worth)]))
        where = np.flatnonzero(is_top)
        best.append(where[np.r_[True, leaves.tree[where][1:] != leaves.tree[where][:-1]]])
    return best, sums


def _collect_leaves(trees: TreeScores, box: Box, used: Array, bounds: ScoreBounds) -> _Leaves | None:
    """Traverse all trees at once and return the leaves that intersect a box; None if they are too many."""
    place = np.full(int(trees.column.max(initial=-1)) + 1, -1)
    place[used] = np.arange(len(used))
    at = trees.roots
    low, high = np.full((len(at), len(used)), -np.inf), np.full((len(at), len(used)), np.inf)
    takes_missing, tree = np.ones((len(at), len(used)), dtype=bool), np.arange(len(at))
    done: list[_Leaves] = []
    share = trees.share
    narrow = Box(box.low[used], box.high[used], box.missing[used])
    while len(at):
        leaf = trees.column[at] < 0
        worth = share[at[leaf]] @ bounds.weights.T
        done.append(_Leaves(low[leaf], high[leaf], takes_missing[leaf], tree[leaf], worth))
        at, low, high, takes_missing, tree = at[~leaf], low[~leaf], high[~leaf], takes_missing[~leaf], tree[~leaf]
        if 2 * low.size + sum(one.low.size for one in done) > _MOST_CELLS:
            return None
        rows, column, cut = np.arange(len(at)), place[trees.column[at]], trees.threshold[at]
        goes = trees.missing_left[at]
        left_high, right_low = high.copy(), low.copy()
        left_high[rows, column] = np.minimum(high[rows, column], cut)
        right_low[rows, column] = np.maximum(low[rows, column], cut)
        left_missing, right_missing = takes_missing.copy(), takes_missing.copy()
        left_missing[rows, column] &= goes
        right_missing[rows, column] &= ~goes
        # only the column of the split can have become empty
        low, high = np.vstack([low, right_low]), np.vstack([left_high, high])
        takes_missing, tree = np.vstack([left_missing, right_missing]), np.r_[tree, tree]
        at, column, rows = np.r_[trees.left[at], trees.right[at]], np.r_[column, column], np.arange(2 * len(at))
        possible = _intersects(
            narrow.low[column], narrow.high[column], narrow.missing[column],
            low[rows, column], high[rows, column], takes_missing[rows, column],
        )  # fmt: skip
        at, tree, takes_missing = at[possible], tree[possible], takes_missing[possible]
        low, high = low[possible], high[possible]
    joined = _Leaves(*(np.concatenate(part) for part in zip(*done, strict=True)))
    return joined.pick(np.argsort(joined.tree, kind="stable"))


def _intersects(
    box_low: Array, box_high: Array, may_be_missing: Array, low: Array, high: Array, takes_missing: Array
) -> Array:
    """Return where an interval (or a missing value) intersects ``(low, high]`` (or ``takes_missing``)."""
    return ((box_low <= box_high) & (box_low <= high) & (box_high > low)) | (may_be_missing & takes_missing)


def _restrict(part: _Part, box: Box, alive: tuple[Array, ...], used: Array) -> _Part | None:
    """Return a part with a smaller box; None if no row is left in it."""
    empty = (box.low > box.high) & ~box.missing
    if empty.any():
        return None
    leaves = part.leaves
    meets = _intersects(box.low[used], box.high[used], box.missing[used], leaves.low, leaves.high, leaves.takes_missing)
    leaves = leaves.pick(np.asarray(meets.all(axis=1)))
    return _Part(box, alive, leaves)


def _split_part(part: _Part, best: _Leaves, rows: RowBox, used: Array) -> list[_Part] | None:
    """Split a part where its best leaves disagree; None if one row may lie in all of them."""
    box = part.box
    low, high, may_be_missing = box.low[used], box.high[used], box.missing[used]
    top, bottom = best.low.max(axis=0), best.high.min(axis=0)
    known = _intersects(low, high, np.zeros(len(used), dtype=bool), top, bottom, may_be_missing) & (top < bottom)
    agreed = known | (may_be_missing & best.takes_missing.all(axis=0))
    # the column that separates most leaves
    apart = np.flatnonzero(~agreed)
    if len(apart):
        counts = [min((best.high[:, c] <= top[c]).sum(), (best.low[:, c] >= bottom[c]).sum()) for c in apart]
        c = int(apart[int(np.argmax(counts))])
        cut = float(bottom[c]) if top[c] >= bottom[c] else None
        return _halve(part, rows, used, int(used[c]), cut)
    for number, one in enumerate(rows.enumerated):  # each column suits all leaves, but perhaps no single value does
        place = np.searchsorted(used, one.columns)
        is_used = (place < len(used)) & (used[np.minimum(place, len(used) - 1)] == one.columns)
        if not is_used.any():
            continue
        at, values = place[is_used], one.values[:, is_used]
        is_missing = np.isnan(values)
        with np.errstate(invalid="ignore"):
            suits = (values > top[at]) & (values <= bottom[at])
        fits = np.where(is_missing, best.takes_missing[:, at].all(axis=0), suits).all(axis=1)
        alive = part.alive[number]
        if not (fits & alive).any():
            return _split_enumerated(
                part, rows, used, number, np.arange(len(alive)) < np.flatnonzero(alive)[alive.sum() // 2]
            )
    return None


def _halve(part: _Part, rows: RowBox, used: Array, column: int, cut: float | None) -> list[_Part] | None:
    """Split a part at a value of a column, or into known and missing."""
    owner, box = int(rows.owner[column]), part.box
    if owner >= 0:
        one = rows.enumerated[owner]
        values = one.values[:, int(np.flatnonzero(one.columns == column)[0])]
        if cut is None or box.missing[column]:
            return _split_enumerated(part, rows, used, owner, np.isnan(values))
        with np.errstate(invalid="ignore"):
            return _split_enumerated(part, rows, used, owner, values <= cut)
    halves = []
    if box.missing[column] and box.low[column] <= box.high[column]:
        for is_known in (True, False):
            own = Box(box.low.copy(), box.high.copy(), box.missing.copy())
            own.missing[column] = not is_known
            if not is_known:
                own.low[column], own.high[column] = np.inf, -np.inf
            halves.append(_restrict(part, own, part.alive, used))
        return [half for half in halves if half is not None]
    if cut is None:
        return None
    for is_left in (True, False):
        own = Box(box.low.copy(), box.high.copy(), box.missing)
        if is_left:
            own.high[column] = min(own.high[column], cut)
        else:
            own.low[column] = max(own.low[column], np.nextafter(cut, np.inf))
        halves.append(_restrict(part, own, part.alive, used))
    return [half for half in halves if half is not None]


def _split_enumerated(part: _Part, rows: RowBox, used: Array, number: int, first: Array) -> list[_Part] | None:
    """Divide the remaining values of an enumerated feature between two parts; None if one would have none."""
    halves = []
    for side in (first, ~first):
        alive = part.alive[number] & side
        if not alive.any():
            return None
        box = Box(part.box.low.copy(), part.box.high.copy(), part.box.missing.copy())
        rows.enumerated[number].hull(alive, box)
        everything = tuple(alive if i == number else old for i, old in enumerate(part.alive))
        halves.append(_restrict(part, box, everything, used))
    return [half for half in halves if half is not None]


# --- proofs ----------------------------------------------------------------------------------------------------------


def prove_unattainable(
    structure: ModelStructure,
    space: Space,
    x0: Array,
    target: Target,
    x: Array,
    outputs: Array,
    most_boxes: int = MOST_BOXES,
) -> Proof | None:
    """Prove that no row that ``x0`` may become reaches the target; None if that is not proved.

    Parameters
    ----------
    structure : ModelStructure
        Structure of the model.
    space : Space
        The features and their limits.
    x0 : array of shape (d,)
        The row, encoded.
    target : Target
        The resolved target.
    x : array of shape (n, d)
        Known rows that ``x0`` may become, none of which reaches the target.
    outputs : array of shape (n,)
        The model's own outputs for them, as the target reads them; the structure must reproduce them.
    most_boxes : int
        Maximum number of boxes.
    """
    if not agrees(structure, x, outputs, target.label if isinstance(target, Class) else None):
        return None
    structure = structure.by_thresholds()
    parts = structure.parts
    try:
        bounds = score_bounds_of(structure, target)
        rows = row_box_of(structure, space, x0)
        columns = parts.rounded(structure.columns(x))
    except Exception:  # the model may raise anything at the ends of the allowed range
        return None
    if bounds is None or rows is None or not rows.holds(columns):
        return None
    outcome = _bound_scores(parts, rows, bounds, n_terms(structure), most_boxes)
    if not outcome.proved:
        return None
    seen = parts.scores(columns) @ bounds.weights.T
    if (seen > outcome.sums + same_output(structure, outputs)).any():  # NaN where a constraint has no bound of its own
        return None
    return describe_unattainable(parts, bounds, outcome, target)


def _bound_scores(
    parts: TreeScores | LinearScores, rows: RowBox, bounds: ScoreBounds, terms: int, most: int
) -> Outcome:
    """Bound the scores over all attainable rows."""
    if isinstance(parts, TreeScores):
        tree = np.searchsorted(parts.roots, np.arange(len(parts.column)), side="right") - 1
        margin = sum_margin(tree, parts.share, parts.base, parts.epsilon, len(parts.roots), bounds.weights)
        return bound_trees(parts, rows, bounds, margin, most)
    sums, sizes = _largest_sums(parts, rows, bounds)
    sums = sums + terms * parts.epsilon * sizes
    violated = sums < bounds.least  # false where it is not finite
    return Outcome(bool(violated.any()), np.where(violated, sums, np.nan), 1)


def sum_margin(tree: Array, value: Array, base: Array, epsilon: float, n_trees: int, weights: Array) -> Array:
    """Return the largest rounding error of the model's own leaf sums, for each constraint ``(q,)``.

    ``tree`` ``(N,)`` and ``value`` ``(N, K)`` are of leaves or nodes, ``epsilon`` is the model's relative rounding
    error.
    """
    size = np.abs(weights)
    largest = np.zeros((n_trees, len(size)))
    sizes = np.abs(value) @ size.T
    for q in range(len(size)):  # numpy is faster one column at a time
        np.maximum.at(largest[:, q], tree, sizes[:, q])
    return (MORE_TERMS + n_trees) * epsilon * (largest.sum(axis=0) + size @ np.abs(base))


def _largest_sums(parts: LinearScores, rows: RowBox, bounds: ScoreBounds) -> tuple[Array, Array]:
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


def describe_unattainable(
    parts: TreeScores | LinearScores, bounds: ScoreBounds, outcome: Outcome, target: Target
) -> Proof:
    """Return the proof with its sentence, including a bound of the output if there is one."""
    whose = f" a probability of {target.label!r}" if isinstance(target, Class) else ""
    proof = Proof("trees" if isinstance(parts, TreeScores) else "linear", "", boxes=outcome.boxes)
    fact = f"no row can get {target.describe()}"
    for i, total in enumerate(outcome.sums):
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
