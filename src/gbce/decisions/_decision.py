"""One chosen point with its figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gbce.base import Array, Choice, Rule
from gbce.draws import Points
from gbce.metrics import unknown_errors, unknown_figures
from gbce.search import Proof

__all__ = ["Candidates", "Decision", "answers_among", "decisions_without_noise", "stack_choices", "stack_points"]


@dataclass(frozen=True, eq=False)
class Decision:
    """One chosen point and its figures; a figure that was not computed is NaN.

    Parameters
    ----------
    label : str
        Its name in tables: that of the rule that chose it, numbered if it chose several.
    x : array of shape (d,)
        Encoded.
    outputs, loss, reached : array of shape (K,)
        Under each model.
    cost : float
        The prior's distance d(row, x).
    figures, errors : mapping
        Robustness (Rb), plausibility (Plu) and whatever else is in :mod:`gbce.metrics`, by name, and the Monte Carlo
        errors of those that have one.
    rule : Rule, optional
        What chose it; ``None`` for a row that a user proposed.
    beside : bool
        Whether it only stands beside the rule's answer, such as the best point with another number of changes.
    proof : Proof, optional
        What is proved about it, such as that nothing cheaper reaches the target.
    """

    label: str
    x: Array
    outputs: Array
    loss: Array
    reached: Array
    cost: float
    figures: Mapping[str, float] = field(default_factory=unknown_figures)
    errors: Mapping[str, float] = field(default_factory=unknown_errors)
    rule: Rule | None = None
    beside: bool = False
    proof: Proof | None = None


@dataclass(frozen=True, eq=False)
class Candidates:
    """Chosen points ``(k, d)`` before they have figures: their labels, rules, which stand beside an answer, proofs."""

    x: Array
    labels: tuple[str, ...]
    rules: tuple[Rule | None, ...]
    beside: tuple[bool, ...]
    proofs: tuple[Proof | None, ...]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def on_path(self) -> list[bool]:
        """Which are on a path over the number of changes, beside its answer."""
        return [
            beside and rule is not None and rule.has_path for beside, rule in zip(self.beside, self.rules, strict=True)
        ]


def answers_among(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return the decisions that tables show: all but those on a path over the number of changes, beside its answer."""
    return tuple(one for one in decisions if not (one.beside and one.rule is not None and one.rule.has_path))


def stack_points(decisions: Sequence[Decision], d: int) -> Array:
    """Return the chosen points of ``k`` decisions as an array ``(k, d)``; ``k`` may be zero."""
    return np.array([decision.x for decision in decisions]).reshape(-1, d)


def stack_choices(choices: Sequence[tuple[Rule, Choice]], d: int) -> Candidates:
    """Return the points of all rules one after the other."""
    x = np.vstack([np.zeros((0, d)), *(choice.x for _, choice in choices)])
    labels = [label for rule, choice in choices for label in choice.labels(rule.label)]
    rules = [rule for rule, choice in choices for _ in choice.x]
    beside = tuple(b for _, choice in choices for b in choice.beside)
    proofs = tuple(None if b else choice.proof for _, choice in choices for b in choice.beside)
    return Candidates(x, tuple(labels), tuple(rules), beside, proofs)


def decisions_without_noise(rule: Rule, choice: Choice, points: Points) -> list[Decision]:
    """Return a rule's decisions for evaluated points; figures that would take the model are left NaN."""
    return [
        Decision(
            label,
            points.x[i],
            points.outputs[i],
            points.loss[i],
            points.reached[i],
            float(points.cost[i]),
            rule=rule,
            beside=choice.beside[i],
        )
        for i, label in enumerate(choice.labels(rule.label))
    ]
