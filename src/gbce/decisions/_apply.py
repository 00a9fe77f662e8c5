"""From rules to decisions: rules are checked and applied, every chosen point gets its figures, within the budget."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gbce._numerics import DECIDING, stream
from gbce.base import Array, Choice, Query, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._decision import Candidates, Decision, decisions_without_noise, stack_choices
from gbce.decisions._names import named_rule
from gbce.draws import Draws, Scene
from gbce.metrics import Neighbours, evaluate_figures, unknown_errors, unknown_figures
from gbce.posterior import Evaluated, GibbsPosterior, run_together
from gbce.space import Space

__all__ = [
    "apply_known_rules",
    "apply_rule",
    "apply_rules",
    "evaluate_choices",
    "evaluate_points",
    "require_rule",
    "require_rules",
]

_ROWS_OF_RULE = 60_000  # points: more than any rule of the package asks about with its own numbers


def require_rule(rule: Any) -> Rule:
    """Return ``rule`` if it is one, the built-in one if it is a name, or say what was expected."""
    if isinstance(rule, str):
        return named_rule(rule)
    if not isinstance(rule, Rule):
        raise TypeError(f"a rule must be an object such as gbce.MAP(), not {rule!r}")
    return rule


def require_rules(rules: Any, space: Space) -> tuple[Rule, ...]:
    """Return one rule or several as a tuple, names among them or not.

    What is no rule, is listed twice or does not fit the space is refused.
    """
    listed = tuple(rules) if isinstance(rules, Iterable) and not isinstance(rules, str) else (rules,)
    listed = tuple(require_rule(rule) for rule in listed)
    labels = [rule.label for rule in listed]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"rules: {', '.join(twice)} {'is' if len(twice) == 1 else 'are'} listed twice")
    for rule in listed:
        rule.check_space(space)
    return listed


def apply_rule(
    rule: Rule,
    query: Query,
    draws: Draws,
    posterior: GibbsPosterior | None = None,
    *,
    refits: GibbsPosterior | None = None,
    earlier: Sequence[tuple[Rule, Choice]] = (),
) -> Choice:
    """Let one rule choose; the models are asked only if the posterior is at hand."""
    rule.check_target(query.target)
    choice = rule.choose(
        Scene(query, draws, stream(query.seed, DECIDING, query.key), posterior, refits, tuple(earlier))
    )
    if not isinstance(choice, Choice):
        raise TypeError(f"{rule.label}: choose must return a Choice, not {choice!r:.80}")
    if choice.x.shape[1] != len(query.space):
        k, d = choice.x.shape
        raise ValueError(f"{rule.label} chose {k} points of {d} features, where the space has {len(query.space)}")
    return choice


def apply_rules(
    query: Query, draws: Draws, posterior: GibbsPosterior, *, further: int = 0
) -> tuple[list[tuple[Rule, Choice]], list[str]]:
    """Apply the rules of a query; one that the budget does not allow is left out, and a sentence says so.

    Those that do not look at what others chose ask the models together. What is left of a scarce budget is shared out
    evenly between the rules still to come, so many ``further`` ones that are applied later, and the figures in the end.
    """
    rules, n = query.rules, len(query.rules)
    made: dict[int, Choice | None] = {}  # by the places of the rules

    def task_of(place: int) -> Callable[[GibbsPosterior], Choice | None]:
        earlier = [(rules[i], choice) for i, choice in sorted(made.items()) if i < place and choice is not None]

        def choose(part: GibbsPosterior) -> Choice | None:
            try:
                return apply_rule(rules[place], query, draws, part, earlier=earlier)
            except BudgetSpentError:
                return None

        return choose

    alone = [i for i in range(n) if not rules[i].reads_earlier]
    for some in (alone, *([i] for i in range(n) if rules[i].reads_earlier)):
        later = n - len(made) - len(some) + further + 1
        made |= zip(some, run_together(posterior, [*map(task_of, some)], _ROWS_OF_RULE, later=later), strict=True)
    found = [(rules[i], choice) for i, choice in sorted(made.items()) if choice is not None]
    left_out = [
        f"{rule.label} was left out: the budget does not allow what it would ask the model."
        for i, rule in enumerate(rules)
        if made[i] is None
    ]
    return found, left_out + [choice.note for _, choice in found if choice.note]


def apply_known_rules(query: Query, draws: Draws) -> tuple[list[Decision], list[str]]:
    """Apply the rules that need no model to points that were evaluated before; the labels of the others follow."""
    decisions: list[Decision] = []
    undecided: list[str] = []
    for rule in query.rules:
        choice = None if rule.asks_model else apply_rule(rule, query, draws)
        if choice is None or choice.known is None:
            undecided.append(rule.label)
        else:
            decisions += decisions_without_noise(rule, choice, choice.known)
    return decisions, undecided


def evaluate_choices(
    query: Query, posterior: GibbsPosterior, choices: Sequence[tuple[Rule, Choice]], neighbours: Neighbours
) -> tuple[Decision, ...]:
    """Return all chosen points with their figures: two model calls for all of them together.

    Robustness stays open where the budget does not allow it; without a row left for the points themselves there is no
    decision.
    """
    candidates = stack_choices(choices, len(query.space))
    try:
        return _evaluate(query, posterior, candidates, neighbours) if len(candidates) else ()
    except BudgetSpentError:
        return ()


def evaluate_points(
    query: Query, posterior: GibbsPosterior, labels: Sequence[str], x: Array, neighbours: Neighbours
) -> tuple[Decision, ...]:
    """Figures of points ``(k, d)`` that no rule chose, under labels that need not differ; the budget may refuse."""
    k = len(labels)
    candidates = Candidates(x, tuple(labels), (None,) * k, (False,) * k, (None,) * k)
    return _evaluate(query, posterior, candidates, neighbours)


def _evaluate(
    query: Query, posterior: GibbsPosterior, candidates: Candidates, neighbours: Neighbours
) -> tuple[Decision, ...]:
    x = candidates.x
    outputs, loss, reached = _predict_choices(posterior, x)
    # what is on a path beside an answer is asked about once, and has no further figures
    judged = [i for i, on_path in enumerate(candidates.on_path) if not on_path] or list(range(len(x)))
    found, cost = evaluate_figures(query, posterior, x[judged], neighbours), posterior.prior.cost(x)
    figures, errors = _spread(found.values, judged), _spread(found.errors, judged)
    return tuple(
        Decision(
            label=candidates.labels[i],
            x=x[i],
            outputs=outputs[i],
            loss=loss[i],
            reached=reached[i],
            cost=float(cost[i]),
            figures=figures.get(i, unknown_figures()),
            errors=errors.get(i, unknown_errors()),
            rule=candidates.rules[i],
            beside=candidates.beside[i],
            proof=candidates.proofs[i],
        )
        for i in range(len(x))
    )


def _spread(found: Mapping[str, Array], where: Sequence[int]) -> dict[int, dict[str, float]]:
    """Return figures ``(k,)`` by name as one mapping for each of the ``k`` positions."""
    return {i: {name: float(values[n]) for name, values in found.items()} for n, i in enumerate(where)}


def _predict_choices(posterior: GibbsPosterior, x: Array) -> Evaluated:
    """Return what the models say about chosen points, as rows of their own: what is reported is what a row gets."""
    untimed = replace(posterior, budget=posterior.budget.without_deadline())  # few rows, the answer itself
    return untimed.evaluate(x, use_predict=True)
