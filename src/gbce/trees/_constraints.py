"""A target as conditions on scores that every row that reaches it meets."""

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from scipy.special import expit, logit

from gbce.base import Array, Target
from gbce.targets import Class
from gbce.trees._structure import ModelStructure

__all__ = ["Proof", "ScoreBounds", "say_answer", "say_cheapest", "score_bounds_of", "score_of"]

# --- what a proof says -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proof:
    """What no row within the bounds can do: of the first model, in its own arithmetic.

    That none reaches the target (``explanation.proof``), or that none reaches it at a lower cost than some (the
    ``proof`` of a decision of ``Nearest(prove=True)``).

    Parameters
    ----------
    kind : {"trees", "linear"}
        What it rests on: the leaves of all trees, or the coefficients.
    sentence : str
        What is proved, and how.
    bound : float, optional
        The output that no row gets beyond, on the side of the target: what a row can get is at most (for a target
        above) or at least (below) this. None where no single number says it, as between two classes of many.
    boxes : int
        How many boxes of rows were told apart: 1 where the box of all rows was enough.
    lower : float, optional
        What every point that reaches the target costs at least, in the units of the rule's distance; None where the
        proof is that none reaches it.
    cost : float, optional
        What the point costs that the proof is about.
    least_changes : int
        How many columns have to be changed at least to reach the target; 0 where that was not looked at.
    optimum : float, optional
        What the cheapest point costs that was found and that the model accepts, before its numbers were rounded to few
        digits; None where none was found. It is the least possible where it equals ``lower``.

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
        """The share of the cost that a cheaper point could save at most: 0 where none is cheaper."""
        if self.lower is None or not self.cost:
            return 0.0
        return max(0.0, 1.0 - self.lower / self.cost)


# --- proofs about costs in words -------------------------------------------------------------------------------------

_EXACT = 1e-6  # share of the cost that nobody minds: what a summation or the last digit of a value may differ by
_FEW = {2: "No change of one column suffices.", 3: "No change of one or two columns suffices."}


def say_cheapest(proof: Proof, origin: str, distance: str, under: str = "") -> str:
    """Return what a proof says about the point that it is of.

    Parameters
    ----------
    proof : Proof
        With costs.
    origin : str
        What it rests on.
    distance : {"l1", "l2", "changes"}
        What the cost is.
    under : str
        What else was asked of points.

    Examples
    --------
    >>> say_cheapest(Proof("trees", "", boxes=9, lower=1.95, cost=2.0), "from the leaves", "l1")
    'No point that reaches the target is more than 3% cheaper (proved from the leaves, in 9 boxes of cells).'
    >>> say_cheapest(Proof("trees", "", lower=1.99, cost=2.0, optimum=1.99), "from the leaves", "l1").split(";")[1]
    ' this one, with rounded numbers, costs at most 0.6% more.'
    """
    how = f"(proved {origin}, in {proof.boxes:,} box{'es' * (proof.boxes != 1)} of cells)"
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
        more = _share(cost / proof.optimum - 1.0)
        said = (
            f"The cheapest point{under} that reaches the target costs {proof.optimum:.6g} {how}; this one, with rounded"
        )
        return " ".join([f"{said} numbers, costs at most {more} more.", *few])
    if proof.gap < 1:
        return " ".join(
            [f"No point{under} that reaches the target is more than {_share(proof.gap)} cheaper {how}.", *few]
        )
    return " ".join([*few, how[1:-1].capitalize() + "."]) if few else ""


def say_answer(proof: Proof, cost: float) -> str:
    """Return what a proof about the nearest point says about another one, by the same cost.

    Examples
    --------
    >>> say_answer(Proof("trees", "", lower=1.5, cost=1.5), 2.0)
    'Any point that reaches the target costs at least 1.5, and this one 2 (proved from the leaves of all trees).'
    """
    lower = proof.lower or 0.0
    if cost <= 0 or lower <= 0:
        return ""
    how = "(proved from the leaves of all trees)"
    if lower >= cost * (1.0 - _EXACT):
        return f"No cheaper point reaches the target {how}."
    return f"Any point that reaches the target costs at least {_down(lower)}, and this one {cost:.3g} {how}."


def _share(gap: float) -> str:
    """Return a share in percent, rounded up."""
    return f"{ceil(1000 * gap) / 10:g}%" if gap < 0.01 else f"{ceil(100 * gap)}%"


def _down(number: float) -> str:
    """Return a number with three digits that is not above it."""
    said = f"{number:.3g}"
    return said if float(said) <= number else f"{number * (1 - 5e-3):.3g}"


# --- a target as conditions on scores that every row that reaches it meets -------------------------------------------

_OWN_DECISION = 0.5  # of a Class: the model's own decision counts
# Relative, of a wanted output: a target compares differences of rounded numbers, and links are rounded, too.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """Weighted sums of scores that must be at least some number, all of them, where the target is reached.

    Parameters
    ----------
    weights : array of shape (q, K)
        Of the scores in each condition.
    least : array of shape (q,)
        What each sum must come to.
    link : str
        What makes an output of the first score, where a condition is on one output.
    says : tuple of q str
        ``"above"`` or ``"below"`` where the condition is on the output itself and its bound can be told, else what is
        true where it fails.
    """

    weights: Array
    least: Array
    link: str
    says: tuple[str, ...]

    def output(self, number: int, total: float) -> float | None:
        """Return the output at which a condition's sum comes to ``total``; None where it is no output."""
        if self.says[number] not in ("above", "below"):
            return None
        score = total if self.says[number] == "above" else -total
        if self.link in ("exp", "expm1"):
            return float(np.exp(score) if self.link == "exp" else np.expm1(score))
        if self.link == "sign":
            return 1.0 if score >= 0 else -1.0
        return float(expit(score)) if self.link == "logistic" else float(score)


def score_bounds_of(inside: ModelStructure, target: Target, margin: float = 0.0) -> ScoreBounds | None:
    """Return what every row meets that reaches the target, by a margin of its output; None where that is not known."""
    n_scores = len(inside.parts.base)
    if isinstance(target, Class):
        return None if inside.classes is None else _for_class(inside, target, n_scores, margin)
    if inside.classes is not None or n_scores != 1:
        return None
    try:
        low, high = target.accepted()
    except TypeError:
        return None
    return _between(low + margin, high - margin, inside.link, np.ones(1))


def _between(low: float, high: float, link: str, score: Array) -> ScoreBounds | None:
    """Return conditions for an output of one score that lies between two numbers."""
    rows, least, says = [], [], []
    ends = [(1.0, low, "above"), (-1.0, high, "below")]
    for sign, end, word in ends:
        if not np.isfinite(end):
            continue
        score_end = score_of(end - sign * _ROUNDING * abs(end), link, sign)
        if score_end is None:
            continue
        rows.append(sign * score)
        least.append(sign * score_end)
        says.append(word)
    return ScoreBounds(np.array(rows), np.array(least), link, tuple(says)) if rows else None


def score_of(output: float, link: str, sign: float) -> float | None:
    """Return the score of an output, infinite where no score has it; None where every score is on its right side.

    ``sign`` is 1 where outputs of at least this are wanted, -1 where outputs of at most this are.
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


def _for_class(inside: ModelStructure, target: Class, n_scores: int, margin: float) -> ScoreBounds | None:
    classes = list(inside.classes or ())
    if target.label not in classes:
        return None
    wanted, chance = classes.index(target.label), target.probability
    pair = isinstance(chance, tuple)
    low, high = chance if isinstance(chance, tuple) else (float(chance), np.inf)
    decides = not pair and low == _OWN_DECISION and margin == 0
    low, high = low + margin, high - margin
    if inside.link == "logistic":
        sign = 1.0 if wanted == 1 else -1.0
        if high >= 1:
            high = np.inf
        conditions = _between(low if low > 0 else -np.inf, high, "logistic", np.array([sign]))
        return conditions
    if len(classes) != n_scores:
        return None
    others = [k for k in range(n_scores) if k != wanted]
    unit = np.eye(n_scores)
    if inside.link == "identity" and not decides:
        return _between(low if low > 0 else -np.inf, high if high < 1 else np.inf, "identity", unit[wanted])
    if inside.link == "softmax" and not decides and (low <= 0 or low >= 1):
        return None
    # p >= low makes p / (p + p_k) >= low for each other class: the difference of scores is at least logit(low)
    least = 0.0 if decides else float(logit(low)) - _ROUNDING
    rows = np.array([unit[wanted] - unit[k] for k in others])
    words = tuple(f"the model prefers {classes[k]!r} to {target.label!r}" if decides else "above" for k in others)
    return ScoreBounds(rows, np.full(len(others), least), "logistic", words)
