"""Proofs about all rows within the bounds, as :class:`Proof`, and the sentences that state them."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

import numpy as np

from gbce._validation import short
from gbce.base import Array, Target
from gbce.targets import Class
from gbce.trees._question import ScoreConstraints
from gbce.trees._scores import LinearScores, TreeScores

_EXACT = 1e-6  # relative cost difference that does not matter: rounding of sums and of the last digit of values
_FEW = {2: "No change of one column suffices.", 3: "No change of one or two columns suffices."}
_MOST_DIGITS = 17  # of a double

# --- proofs ----------------------------------------------------------------------------------------------------------


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

    Examples
    --------
    >>> describe_cheapest(Proof("trees", "", boxes=9, lower=1.95, cost=2.0), "from all 20 trees", "l1")
    'No point that reaches the target is more than 3% cheaper (proved from all 20 trees).'
    >>> describe_cheapest(Proof("trees", "", lower=1.99, cost=2.0, optimum=1.99), "from trees", "l1").split(";")[1]
    ' this one, with rounded numbers, costs at most 0.6% more.'
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
    """Return what a proof about the nearest point implies for another point of a given cost.

    Examples
    --------
    >>> describe_answer(Proof("trees", "", lower=1.5, cost=1.5), 2.0)
    'Any point that reaches the target costs at least 1.5, and this one 2 (proved from all trees).'
    """
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
