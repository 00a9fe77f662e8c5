"""From a model's parts to a proof: what was read is checked against the model's own outputs, then bounded."""

from dataclasses import replace

import numpy as np

from gbce._validation import short
from gbce.base import Array, Target
from gbce.predictors import MORE_TERMS, Inside, LinearScores, TreeScores, agrees, n_terms, same_output
from gbce.search._proofs._branching import MOST_BOXES, Outcome, bound_trees
from gbce.search._proofs._conditions import Conditions, conditions_of
from gbce.search._proofs._proof import Proof
from gbce.search._proofs._range import Range, range_of
from gbce.space import Space
from gbce.targets import Class

__all__ = ["prove_unattainable", "say_unattainable", "sum_margin"]

_MOST_DIGITS = 17  # of a double


def prove_unattainable(
    inside: Inside,
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
    >>> from gbce.predictors import look_inside
    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]])
    >>> model, space = LinearRegression().fit(x, x.sum(axis=1)), gbce.Space.infer(x, bounds="data")
    >>> inside, wish = look_inside(model, space), gbce.AtLeast(8, scale=1).resolve(1.0)
    >>> print(prove_unattainable(inside, space, x[0], wish, x[:1], model.predict(x[:1])).sentence)
    Unattainable within these bounds: no row can get above 7.01 (proved from the coefficients).
    """
    if not agrees(inside, x, outputs, target.label if isinstance(target, Class) else None):
        return None
    inside = inside.by_thresholds()
    parts = inside.parts
    try:
        conditions = conditions_of(inside, target)
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


def _bound(parts: TreeScores | LinearScores, rows: Range, conditions: Conditions, terms: int, most: int) -> Outcome:
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


def _largest_sums(parts: LinearScores, rows: Range, conditions: Conditions) -> tuple[Array, Array]:
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
    parts: TreeScores | LinearScores, conditions: Conditions, outcome: Outcome, target: Target, where: str
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
