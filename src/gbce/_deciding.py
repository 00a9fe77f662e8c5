"""From rules to judged decisions: every rule is applied, every chosen point gets its figures, within the budget."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from gbce._seeds import JUDGING, stream
from gbce._weights import Array
from gbce.decisions import Choice, Rule
from gbce.explanation import Decision, Explanation
from gbce.metrics import Neighbours, robustness
from gbce.noise import offsets
from gbce.posterior import BudgetSpentError, Evaluated, GibbsPosterior

__all__ = ["chosen", "judged", "judged_points"]

_FEWEST_PERTURBED = 10  # copies, below which robustness is not worth a number


def chosen(
    explanation: Explanation, posterior: GibbsPosterior, rules: Sequence[Rule]
) -> tuple[dict[str, Choice], list[str]]:
    """Apply rules; one that the budget does not allow is left out, and a sentence says so."""
    choices: dict[str, Choice] = {}
    notes: list[str] = []
    for number, rule in enumerate(rules):
        # what is left is shared out evenly between the rules still to come and the figures in the end
        part = replace(posterior, budget=posterior.budget.share(1.0 / (len(rules) - number + 1)))
        try:
            choices[rule.label] = rule.choose(explanation.scene(part))
        except BudgetSpentError:
            notes.append(f"{rule.label} was left out: the budget does not allow what it would ask the model.")
    return choices, notes + [choice.note for choice in choices.values() if choice.note]


def judged(
    explanation: Explanation, posterior: GibbsPosterior, choices: Mapping[str, Choice], neighbours: Neighbours
) -> tuple[Decision, ...]:
    """Figures of all chosen points: two model calls for all of them together.

    Robustness stays open where the budget does not allow it; without a row left for the points themselves there is no
    decision.
    """
    if not choices:
        return ()
    labels = [label for rule, choice in choices.items() for label in choice.labels(rule)]
    x = np.vstack([choice.x for choice in choices.values()])
    return judged_points(explanation, posterior, labels, x, neighbours)


def judged_points(
    explanation: Explanation, posterior: GibbsPosterior, labels: Sequence[str], x: Array, neighbours: Neighbours
) -> tuple[Decision, ...]:
    """Figures of points ``(k, d)`` under their labels, of which some may be equal."""
    space, evaluation = explanation.space, explanation.evaluation
    try:
        outputs, loss, reached = _said(posterior, x)
    except BudgetSpentError:
        return ()
    shifts = offsets(evaluation.noise, space, stream(explanation.seed, JUDGING), evaluation.n_perturb)
    shifts = shifts[: posterior.affords(len(shifts) * len(x)) // len(x)]
    robust = robust_se = np.full(len(x), np.nan)
    if len(shifts) >= min(_FEWEST_PERTURBED, evaluation.n_perturb):
        with suppress(BudgetSpentError):  # time ran out earlier than was foreseen
            robust, robust_se = robustness(posterior, space, x, shifts)
    near = neighbours.plausibility(x, evaluation.neighbours)
    figures = np.column_stack([posterior.prior.cost(x), robust, robust_se, near])
    return tuple(
        Decision(label, x[i], outputs[i], loss[i], reached[i], *map(float, figures[i]))
        for i, label in enumerate(labels)
    )


def _said(posterior: GibbsPosterior, x: Array) -> Evaluated:
    """Return what the models say about chosen points, as rows of their own: what is reported is what a row gets."""
    untimed = replace(posterior, budget=posterior.budget.untimed())  # a handful of rows, and the answer itself
    return untimed.evaluate(x, own_decision=True)
