"""A target as conditions on scores that every row that reaches it meets."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from gbce.base import Array, Target
from gbce.predictors import Inside
from gbce.targets import Class

__all__ = ["Conditions", "conditions_of", "score_of"]

_OWN_DECISION = 0.5  # of a Class: the model's own decision counts
# Relative, of a wanted output: a target compares differences of rounded numbers, and links are rounded, too.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Conditions:
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


def conditions_of(inside: Inside, target: Target, margin: float = 0.0) -> Conditions | None:
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


def _between(low: float, high: float, link: str, score: Array) -> Conditions | None:
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
    return Conditions(np.array(rows), np.array(least), link, tuple(says)) if rows else None


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


def _for_class(inside: Inside, target: Class, n_scores: int, margin: float) -> Conditions | None:
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
    return Conditions(rows, np.full(len(others), least), "logistic", words)
