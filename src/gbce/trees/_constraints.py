"""Targets as necessary conditions on scores (inequalities that every row reaching the target satisfies), and proofs.

:class:`Proof` is the public result; ``describe_cheapest`` and ``describe_answer`` put proofs of costs into words.
"""

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from scipy.special import expit, logit

from gbce.base import Array, Target
from gbce.targets import Class
from gbce.trees._structure import ModelStructure

__all__ = ["Proof", "ScoreBounds", "describe_answer", "describe_cheapest", "score_bounds_of", "score_of"]

_EXACT = 1e-6  # relative cost difference that does not matter: rounding of sums and of the last digit of values
_FEW = {2: "No change of one column suffices.", 3: "No change of one or two columns suffices."}
_OWN_DECISION = 0.5  # probability of a Class target at which the model's own decision counts
# Relative slack of a wanted output, since targets compare differences of rounded numbers and links round as well.
_ROUNDING = 1e-12

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


# --- bounds on scores ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """Lower bounds on weighted sums of scores that hold wherever the target is reached.

    Parameters
    ----------
    weights : array of shape (q, K)
        Score weights of each sum.
    least : array of shape (q,)
        Lower bound of each sum.
    link : str
        Link from the first score to the output, for bounds on an output.
    phrases : tuple of q str
        ``"above"`` or ``"below"`` for a bound on the output itself; otherwise what is true of rows that violate it.
    """

    weights: Array
    least: Array
    link: str
    phrases: tuple[str, ...]

    def output(self, number: int, total: float) -> float | None:
        """Return the output at which a sum equals ``total``; None if the sum is not an output."""
        if self.phrases[number] not in ("above", "below"):
            return None
        score = total if self.phrases[number] == "above" else -total
        if self.link in ("exp", "expm1"):
            return float(np.exp(score) if self.link == "exp" else np.expm1(score))
        if self.link == "sign":
            return 1.0 if score >= 0 else -1.0
        return float(expit(score)) if self.link == "logistic" else float(score)


def score_bounds_of(structure: ModelStructure, target: Target, margin: float = 0.0) -> ScoreBounds | None:
    """Return the bounds that hold where the target is reached by a margin; None if they are not known."""
    n_scores = len(structure.parts.base)
    if isinstance(target, Class):
        return None if structure.classes is None else _bound_class(structure, target, n_scores, margin)
    if structure.classes is not None or n_scores != 1:
        return None
    try:
        low, high = target.accepted()
    except TypeError:
        return None
    return _bound_output(low + margin, high - margin, structure.link, np.ones(1))


def _bound_output(low: float, high: float, link: str, score: Array) -> ScoreBounds | None:
    """Return bounds for an output of one score between two numbers."""
    rows, least, phrases = [], [], []
    ends = [(1.0, low, "above"), (-1.0, high, "below")]
    for sign, end, word in ends:
        if not np.isfinite(end):
            continue
        score_end = score_of(end - sign * _ROUNDING * abs(end), link, sign)
        if score_end is None:
            continue
        rows.append(sign * score)
        least.append(sign * score_end)
        phrases.append(word)
    return ScoreBounds(np.array(rows), np.array(least), link, tuple(phrases)) if rows else None


def score_of(output: float, link: str, sign: float) -> float | None:
    """Return the score of an output: infinite if no score attains it, None if every score is on the right side of it.

    ``sign`` is 1 for a lower limit of the output and -1 for an upper one.
    """
    if link == "sign":
        if sign * output <= -1:
            return None
        return 0.0 if sign * output <= 1 else sign * np.inf
    if link in ("exp", "expm1"):
        least = 0.0 if link == "exp" else -1.0
        if output <= least:
            return None if sign > 0 else -np.inf
        return float(np.log(output) if link == "exp" else np.log1p(output))
    if link != "logistic":
        return output
    if output <= 0:
        return None if sign > 0 else -np.inf
    return (np.inf if sign > 0 else None) if output >= 1 else float(logit(output))


def _bound_class(structure: ModelStructure, target: Class, n_scores: int, margin: float) -> ScoreBounds | None:
    """Return bounds for a class by its probability, or by the model's own decision."""
    classes = list(structure.classes or ())
    if target.label not in classes:
        return None
    wanted, chance = classes.index(target.label), target.probability
    pair = isinstance(chance, tuple)
    low, high = chance if isinstance(chance, tuple) else (float(chance), np.inf)
    decides = not pair and low == _OWN_DECISION and margin == 0
    low, high = low + margin, high - margin
    if structure.link == "logistic":
        sign = 1.0 if wanted == 1 else -1.0
        if high >= 1:
            high = np.inf
        return _bound_output(low if low > 0 else -np.inf, high, "logistic", np.array([sign]))
    if len(classes) != n_scores:
        return None
    others = [k for k in range(n_scores) if k != wanted]
    unit = np.eye(n_scores)
    if structure.link == "identity" and not decides:
        return _bound_output(low if low > 0 else -np.inf, high if high < 1 else np.inf, "identity", unit[wanted])
    if structure.link == "softmax" and not decides and (low <= 0 or low >= 1):
        return None
    # p >= low implies p / (p + p_k) >= low for each other class, so score differences are at least logit(low)
    least = 0.0 if decides else float(logit(low)) - _ROUNDING
    rows = np.array([unit[wanted] - unit[k] for k in others])
    if not decides:
        words = ["above"] * len(others)
    elif len(others) == 1:
        words = [f"the model says {classes[others[0]]!r}"]
    else:
        words = [f"the model prefers {classes[k]!r} to {target.label!r}" for k in others]
    return ScoreBounds(rows, np.full(len(others), least), "logistic", tuple(words))
