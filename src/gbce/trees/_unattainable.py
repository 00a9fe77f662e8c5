"""Branch and bound over boxes: whether any row of a box can meet conditions on a sum over trees.

A box is bounded by the best leaf of each tree among those that it meets. Where that is not enough it is cut in two at a
node that the best leaves disagree about, until every part misses a condition, or one part has leaves that agree, or the
limit is met.
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

__all__ = [
    "MOST_BOXES",
    "Box",
    "EnumeratedFeature",
    "Outcome",
    "Range",
    "bound_trees",
    "prove_unattainable",
    "range_of",
    "say_unattainable",
    "sum_margin",
]

# --- what rows can be, in the columns that a model's scores are made of ----------------------------------------------

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
class EnumeratedFeature:
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
    few: tuple[EnumeratedFeature, ...]
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


def range_of(inside: ModelStructure, space: Space, x0: Array) -> Range | None:
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
    few: list[EnumeratedFeature] = []
    for j, values in enumerate(features):
        images, unrounded = made[starts[j] : starts[j + 1]], exact[starts[j] : starts[j + 1]]
        decided = np.flatnonzero(~_same(unrounded, exact[0]).all(axis=0))
        if len(decided) == 0:
            continue
        if taken[decided].any():  # two features in one column: this is not columnwise after all
            return None
        taken[decided] = True
        if values.listed is not None:
            one = EnumeratedFeature(decided, images[:, decided])
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


# --- branch and bound over boxes -------------------------------------------------------------------------------------

MOST_BOXES = 2_000  # by hand: a few seconds at most, and what a few hundred boxes do not decide seldom ends at all
_MOST_CELLS = 20_000_000  # numbers in the boxes of leaves: 160 MB for each end
_MOST_WORK = 100_000_000  # numbers compared in all; by hand: a second or two


class Outcome(NamedTuple):
    """What was found: whether every row misses a condition, each condition's sums where it is the one, and the effort.

    ``sums`` ``(q,)`` are the largest that any row can have of a condition; NaN where another one decided in some box.
    """

    proved: bool
    sums: Array
    boxes: int


class _Leaves(NamedTuple):
    """Leaves that a box meets: above ``low`` and up to ``high`` in every column, or missing where that is ``taken``."""

    low: Array
    high: Array
    taken: Array
    tree: Array
    worth: Array

    def pick(self, which: Array) -> "_Leaves":
        return _Leaves(*(part[which] for part in self))


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the range: its box, which values of the few are alive, and the leaves it meets."""

    box: Box
    alive: tuple[Array, ...]
    leaves: _Leaves


def bound_trees(
    trees: TreeScores, rows: Range, conditions: ScoreBounds, margin: Array, most_boxes: int = MOST_BOXES
) -> Outcome:
    """Return whether every row of a range misses a condition by more than its ``margin`` ``(q,)``."""
    undecided = Outcome(False, np.full(len(margin), np.nan), 1)
    used = np.unique(trees.column[trees.column >= 0])
    leaves = _meet(trees, rows.box, used, conditions)
    if leaves is None:
        return undecided
    base = conditions.weights @ trees.base
    open_parts = [_Part(rows.box, tuple(np.ones(len(one.values), dtype=bool) for one in rows.few), leaves)]
    largest = np.full(len(margin), -np.inf)
    boxes = work = 0
    while open_parts:
        part = open_parts.pop()
        boxes += 1
        work += part.leaves.low.size
        if boxes > most_boxes or work > _MOST_WORK:
            return undecided._replace(boxes=boxes - 1)
        best, sums = _best(part.leaves, base)
        if len(best[0]) < len(trees.roots):  # a tree without a leaf for these rows: what was read is no tree
            return undecided
        missed = sums + margin < conditions.least
        if missed.any():
            largest = np.maximum(largest, np.where(missed, sums + margin, np.inf))
            continue
        # the condition that is nearest to being missed says which leaves to part
        nearest = int(np.argmin((sums - conditions.least) / np.maximum(np.abs(sums), 1.0)))
        halves = _cut(part, part.leaves.pick(best[nearest]), rows, used)
        if halves is None:  # the best leaves agree: a row meets this condition, and the others decide
            halves = _cut(part, part.leaves.pick(np.unique(np.concatenate(best))), rows, used)
        if halves is None:
            return undecided._replace(boxes=boxes)
        open_parts += halves
    return Outcome(True, np.where(np.isfinite(largest), largest, np.nan), boxes)


def _best(leaves: _Leaves, base: Array) -> tuple[list[Array], Array]:
    """Return the best leaf of each tree for every condition, and the sums ``(q,)`` of these."""
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


def _meet(trees: TreeScores, box: Box, used: Array, conditions: ScoreBounds) -> _Leaves | None:
    """Go down all trees at once and return the leaves that the box meets; None where they are too many."""
    place = np.full(int(trees.column.max(initial=-1)) + 1, -1)
    place[used] = np.arange(len(used))
    at = trees.roots
    low, high = np.full((len(at), len(used)), -np.inf), np.full((len(at), len(used)), np.inf)
    taken, tree = np.ones((len(at), len(used)), dtype=bool), np.arange(len(at))
    done: list[_Leaves] = []
    share = trees.share
    narrow = Box(box.low[used], box.high[used], box.missing[used])
    while len(at):
        leaf = trees.column[at] < 0
        worth = share[at[leaf]] @ conditions.weights.T
        done.append(_Leaves(low[leaf], high[leaf], taken[leaf], tree[leaf], worth))
        at, low, high, taken, tree = at[~leaf], low[~leaf], high[~leaf], taken[~leaf], tree[~leaf]
        if 2 * low.size + sum(one.low.size for one in done) > _MOST_CELLS:
            return None
        rows, column, cut = np.arange(len(at)), place[trees.column[at]], trees.threshold[at]
        goes = trees.missing_left[at]
        left_high, right_low = high.copy(), low.copy()
        left_high[rows, column] = np.minimum(high[rows, column], cut)
        right_low[rows, column] = np.maximum(low[rows, column], cut)
        left_taken, right_taken = taken.copy(), taken.copy()
        left_taken[rows, column] &= goes
        right_taken[rows, column] &= ~goes
        # only the column that was asked about can have become impossible
        low, high = np.vstack([low, right_low]), np.vstack([left_high, high])
        taken, tree = np.vstack([left_taken, right_taken]), np.r_[tree, tree]
        at, column, rows = np.r_[trees.left[at], trees.right[at]], np.r_[column, column], np.arange(2 * len(at))
        possible = _touches(
            narrow.low[column], narrow.high[column], narrow.missing[column],
            low[rows, column], high[rows, column], taken[rows, column],
        )  # fmt: skip
        at, low, high, taken, tree = at[possible], low[possible], high[possible], taken[possible], tree[possible]
    joined = _Leaves(*(np.concatenate(part) for part in zip(*done, strict=True)))
    return joined.pick(np.argsort(joined.tree, kind="stable"))


def _touches(box_low: Array, box_high: Array, gap: Array, low: Array, high: Array, taken: Array) -> Array:
    """Whether an interval with a gap in knowledge meets what is above ``low`` and up to ``high``, or missing."""
    return ((box_low <= box_high) & (box_low <= high) & (box_high > low)) | (gap & taken)


def _restrict(part: _Part, box: Box, alive: tuple[Array, ...], used: Array) -> _Part | None:
    """Return a part with a smaller box; nothing if no row is left in it."""
    empty = (box.low > box.high) & ~box.missing
    if empty.any():
        return None
    leaves = part.leaves
    meets = _touches(box.low[used], box.high[used], box.missing[used], leaves.low, leaves.high, leaves.taken)
    leaves = leaves.pick(np.asarray(meets.all(axis=1)))
    return _Part(box, alive, leaves)


def _cut(part: _Part, best: _Leaves, rows: Range, used: Array) -> list[_Part] | None:
    """Return two halves of a part, cut where its best leaves disagree; None where one row may be in all of them."""
    box = part.box
    low, high, gap = box.low[used], box.high[used], box.missing[used]
    top, bottom = best.low.max(axis=0), best.high.min(axis=0)
    known = _touches(low, high, np.zeros(len(used), dtype=bool), top, bottom, gap) & (top < bottom)
    agreed = known | (gap & best.taken.all(axis=0))
    # the column in which most leaves lie on different sides
    apart = np.flatnonzero(~agreed)
    if len(apart):
        counts = [min((best.high[:, c] <= top[c]).sum(), (best.low[:, c] >= bottom[c]).sum()) for c in apart]
        c = int(apart[int(np.argmax(counts))])
        cut = float(bottom[c]) if top[c] >= bottom[c] else None
        return _halve(part, rows, used, int(used[c]), cut)
    for number, one in enumerate(rows.few):  # every column has a value that suits all, but no value has all of them
        place = np.searchsorted(used, one.columns)
        asked = (place < len(used)) & (used[np.minimum(place, len(used) - 1)] == one.columns)
        if not asked.any():
            continue
        at, values = place[asked], one.values[:, asked]
        gone = np.isnan(values)
        with np.errstate(invalid="ignore"):
            suits = (values > top[at]) & (values <= bottom[at])
        fits = np.where(gone, best.taken[:, at].all(axis=0), suits).all(axis=1)
        alive = part.alive[number]
        if not (fits & alive).any():
            return _split_few(part, rows, used, number, np.arange(len(alive)) < np.flatnonzero(alive)[alive.sum() // 2])
    return None


def _halve(part: _Part, rows: Range, used: Array, column: int, cut: float | None) -> list[_Part] | None:
    """Cut a part at a value of a column, or into known and missing."""
    owner, box = int(rows.owner[column]), part.box
    if owner >= 0:
        one = rows.few[owner]
        values = one.values[:, int(np.flatnonzero(one.columns == column)[0])]
        if cut is None or box.missing[column]:
            return _split_few(part, rows, used, owner, np.isnan(values))
        with np.errstate(invalid="ignore"):
            return _split_few(part, rows, used, owner, values <= cut)
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


def _split_few(part: _Part, rows: Range, used: Array, number: int, first: Array) -> list[_Part] | None:
    """Share out the living values of a feature to two parts; None where one of them would have none."""
    halves = []
    for side in (first, ~first):
        alive = part.alive[number] & side
        if not alive.any():
            return None
        box = Box(part.box.low.copy(), part.box.high.copy(), part.box.missing.copy())
        rows.few[number].hull(alive, box)
        everything = tuple(alive if i == number else old for i, old in enumerate(part.alive))
        halves.append(_restrict(part, box, everything, used))
    return [half for half in halves if half is not None]


# --- from a model's parts to a proof ---------------------------------------------------------------------------------

_MOST_DIGITS = 17  # of a double


def prove_unattainable(
    inside: ModelStructure,
    space: Space,
    x0: Array,
    target: Target,
    x: Array,
    outputs: Array,
    most_boxes: int = MOST_BOXES,
) -> Proof | None:
    """Prove that no row that ``x0`` may become reaches the target; None where that is not proved.

    Parameters
    ----------
    inside : Inside
        What the model is made of.
    space : Space
        What may change, and how far.
    x0 : array of shape (d,)
        The row, encoded.
    target : Target
        With its numbers filled in.
    x : array of shape (n, d)
        Known rows that ``x0`` may become, none of which reaches the target.
    outputs : array of shape (n,)
        What the model itself said of them, as the target reads it. What was read of the model must say the same.
    most_boxes : int
        Most boxes that the rows are parted into.

    Returns
    -------
    Proof or None
        None, too, if anything that is known contradicts what was read.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> import gbce
    >>> from gbce.trees import read_structure
    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]])
    >>> model, space = LinearRegression().fit(x, x.sum(axis=1)), gbce.Space.infer(x, bounds="data")
    >>> inside, wish = read_structure(model, space), gbce.AtLeast(8, scale=1).resolve(1.0)
    >>> print(prove_unattainable(inside, space, x[0], wish, x[:1], model.predict(x[:1])).sentence)
    Unattainable within these bounds: no row can get above 7.01 (proved from the coefficients).
    """
    if not agrees(inside, x, outputs, target.label if isinstance(target, Class) else None):
        return None
    inside = inside.by_thresholds()
    parts = inside.parts
    try:
        conditions = score_bounds_of(inside, target)
        rows = range_of(inside, space, x0)
        columns = parts.rounded(inside.columns(x))
    except Exception:  # a model that does not answer at the ends of what is allowed, in any way of its own
        return None
    if conditions is None or rows is None or not rows.holds(columns):
        return None
    outcome = _bound(parts, rows, conditions, n_terms(inside), most_boxes)
    if not outcome.proved:
        return None
    seen = parts.scores(columns) @ conditions.weights.T
    if (seen > outcome.sums + same_output(inside, outputs)).any():  # NaN where a condition has no bound of its own
        return None
    where = f", in {outcome.boxes:,} boxes of rows" if outcome.boxes > 1 else ""
    return say_unattainable(parts, conditions, outcome, target, where)


def _bound(parts: TreeScores | LinearScores, rows: Range, conditions: ScoreBounds, terms: int, most: int) -> Outcome:
    if isinstance(parts, TreeScores):
        tree = np.searchsorted(parts.roots, np.arange(len(parts.column)), side="right") - 1
        margin = sum_margin(tree, parts.share, parts.base, parts.epsilon, len(parts.roots), conditions.weights)
        return bound_trees(parts, rows, conditions, margin, most)
    sums, sizes = _largest_sums(parts, rows, conditions)
    sums = sums + terms * parts.epsilon * sizes
    missed = sums < conditions.least  # false where it is not finite
    return Outcome(bool(missed.any()), np.where(missed, sums, np.nan), 1)


def sum_margin(tree: Array, value: Array, base: Array, epsilon: float, n_trees: int, weights: Array) -> Array:
    """Return what the model's own sum of leaves may differ from another by rounding, for each condition ``(q,)``.

    Parameters
    ----------
    tree : int array of shape (N,)
        Of each leaf, or node.
    value : array of shape (N, K)
        Of each leaf.
    base : array of shape (K,)
        What is added.
    epsilon : float
        Relative rounding error of the model's own sums.
    n_trees : int
        How many there are.
    weights : array of shape (q, K)
        Of scores in the conditions.
    """
    size = np.abs(weights)
    largest = np.zeros((n_trees, len(size)))
    sizes = np.abs(value) @ size.T
    for q in range(len(size)):  # numpy is quicker with one column after the other
        np.maximum.at(largest[:, q], tree, sizes[:, q])
    return (MORE_TERMS + n_trees) * epsilon * (largest.sum(axis=0) + size @ np.abs(base))


def _largest_sums(parts: LinearScores, rows: Range, conditions: ScoreBounds) -> tuple[Array, Array]:
    """Return the largest that each weighted sum can be ``(q,)``, exact but for rounding, and the size of its terms."""
    weights = conditions.weights @ parts.weights
    absolute = np.abs(conditions.weights) @ np.abs(parts.weights)
    sums, sizes = conditions.weights @ parts.base, np.abs(conditions.weights) @ np.abs(parts.base)
    box, alone = rows.box, rows.owner < 0
    if box.missing.any():  # a linear model has no answer to a missing value
        return np.full(len(weights), np.inf), sizes
    # away from this corner the sum falls faster than its rounding error can grow
    corner = np.where(weights > 0, box.high, box.low)
    with np.errstate(invalid="ignore"):
        terms = np.where(weights == 0, 0.0, weights * corner)
        rounding = np.where(absolute == 0, 0.0, absolute * np.abs(np.where(weights == 0, box.high, corner)))
    sums, sizes = sums + terms[:, alone].sum(axis=1), sizes + rounding[:, alone].sum(axis=1)
    for one in rows.few:
        sums = sums + (weights[:, one.columns] @ one.values.T).max(axis=1)
        sizes = sizes + (absolute[:, one.columns] @ np.abs(one.values.T)).max(axis=1)
    return sums, sizes


def say_unattainable(
    parts: TreeScores | LinearScores, conditions: ScoreBounds, outcome: Outcome, target: Target, where: str
) -> Proof:
    """Say what was proved, with a number where there is one, and ``where`` it was looked at."""
    whose = f" a probability of {target.label!r}" if isinstance(target, Class) else ""
    proof = Proof("trees" if isinstance(parts, TreeScores) else "linear", "", boxes=outcome.boxes)
    fact = f"no row can get {target.describe()}"
    for i, total in enumerate(outcome.sums):
        bound = None if np.isnan(total) else conditions.output(i, float(total))
        if bound is not None:
            word = conditions.says[i]
            end = conditions.output(i, float(conditions.least[i]))
            fact = f"no row can get{whose} {word} {_outward(bound, end, word)}"
            proof = replace(proof, bound=bound)
            break
        if not np.isnan(total) and conditions.says[i]:
            fact = f"for every row {conditions.says[i]}"
            break
    return replace(proof, sentence=f"Unattainable within these bounds: {fact} (proved {parts.origin}{where}).")


def _outward(bound: float, wanted: float | None, word: str) -> str:
    """Return a bound with few digits, rounded away from what rows can have but not up to what is wanted."""
    for digits in range(3, _MOST_DIGITS):
        rounded = float(f"{bound:.{digits - 1}e}")
        step = 10.0 ** (np.floor(np.log10(abs(bound))) - digits + 1) if bound else 0.0
        sign = 1.0 if word == "above" else -1.0
        if sign * (rounded - bound) < 0:
            rounded = float(f"{rounded + sign * step:.{digits - 1}e}")
        if wanted is None or sign * (wanted - rounded) > 0:
            return f"{rounded:.{digits}g}" if abs(rounded) < 10.0**digits else short(rounded)
    return f"{bound:.{_MOST_DIGITS}g}"
