"""What rules and the policy choose, evaluated; once more where one rule came upon what the others had looked for."""

from typing import NamedTuple

from gbce.base import Choice, Query, Rule
from gbce.decisions import Decision, apply_rules, evaluate_choices
from gbce.draws import Draws
from gbce.explainer._answering import apply_policy
from gbce.explainer._reach import add_reaching
from gbce.metrics import Neighbours
from gbce.posterior import GibbsPosterior

__all__ = ["Decided", "decide"]


class Decided(NamedTuple):
    """Choices of rules with notes, the policy's own if there is one, and all decisions, the policy's the last.

    The last fields are whether verdicts of the model, and its outputs by more than rounding, depend on the batch.
    """

    choices: list[tuple[Rule, Choice]]
    notes: list[str]
    handed: list[tuple[Rule, Choice]]
    decisions: tuple[Decision, ...]
    depends: bool
    apart: bool


def decide(
    query: Query,
    draws: Draws,
    posterior: GibbsPosterior,
    refits: GibbsPosterior | None,
    policy: Rule | None,
    neighbours: Neighbours,
) -> tuple[Decided, Draws]:
    """Apply rules and policy and evaluate what they choose; return that, and the draws with what they saw.

    Rules look side by side. Where nothing had reached the target and one of them comes upon a point that does, all of
    them are applied once more, knowing it, unless the budget ends on the way.
    """

    def choose(known: Draws) -> Decided:
        choices, notes = apply_rules(query, known, posterior, further=0 if policy is None else 1)
        handed = [] if policy is None else [(policy, apply_policy(policy, query, known, posterior, refits, choices))]
        judged = evaluate_choices(query, posterior, [*choices, *handed], neighbours)
        return Decided(choices, [*notes, *judged.notes], handed, judged.decisions, judged.depends, judged.apart)

    first = choose(draws)
    more = add_reaching(posterior, draws, first.decisions)
    if more is draws:
        return first, draws
    second = choose(more)
    return second if len(second.decisions) >= len(first.decisions) else first, more
