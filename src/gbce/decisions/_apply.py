"""From rules to decisions: rules are checked and applied, every chosen point gets its figures, within the budget."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

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
    "Judgement",
    "apply_known_rules",
    "apply_rule",
    "apply_rules",
    "confirm_point",
    "evaluate_choices",
    "evaluate_points",
    "require_rule",
    "require_rules",
]

# Of the largest output: what a model says of a row alone and among others may differ by so much without a word. By
# hand: rounding in single precision, through hundreds of layers, stays far below.
_ROUNDING = 1e-3
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


class Judgement(NamedTuple):
    """Decisions, notes about them, and whether verdicts, and outputs by more than rounding, depend on the batch."""

    decisions: tuple[Decision, ...]
    notes: list[str]
    depends: bool = False
    apart: bool = False


def evaluate_choices(
    query: Query, posterior: GibbsPosterior, choices: Sequence[tuple[Rule, Choice]], neighbours: Neighbours
) -> Judgement:
    """Return all chosen points with their figures: two model calls for all of them together, and one for each alone.

    What is reported of a point is what the first model says of it alone, as a user will ask. Robustness stays open
    where the budget does not allow it; without a row left for the points themselves there is no decision.
    """
    candidates = stack_choices(choices, len(query.space))
    try:
        said = _confirm(posterior, candidates, _predict_choices(posterior, candidates.x)) if len(candidates) else None
    except BudgetSpentError:
        said = None
    if said is None:
        return Judgement((), [])
    decisions = _judge(query, posterior, candidates, neighbours, said.said)
    return Judgement(decisions, said.notes, said.depends, said.apart)


def evaluate_points(
    query: Query, posterior: GibbsPosterior, labels: Sequence[str], x: Array, neighbours: Neighbours
) -> tuple[Decision, ...]:
    """Figures of points ``(k, d)`` that no rule chose, under labels that need not differ; the budget may refuse."""
    k = len(labels)
    candidates = Candidates(x, tuple(labels), (None,) * k, (False,) * k, (None,) * k)
    return _judge(query, posterior, candidates, neighbours, _predict_choices(posterior, x))


def confirm_point(posterior: GibbsPosterior, decision: Decision) -> Decision:
    """Return a decision with what the first model says of its point alone; the budget may refuse."""
    said = Evaluated(*(values[None, :].copy() for values in (decision.outputs, decision.loss, decision.reached)))
    if not _ask_alone(posterior, decision.x[None, :], [0], said):
        raise BudgetSpentError("the time is over: the answer cannot be confirmed")
    return replace(decision, outputs=said.outputs[0], loss=said.loss[0], reached=said.reached[0])


def _judge(
    query: Query, posterior: GibbsPosterior, candidates: Candidates, neighbours: Neighbours, said: Evaluated
) -> tuple[Decision, ...]:
    x = candidates.x
    outputs, loss, reached = said
    judged = _answers(candidates)
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


def _answers(candidates: Candidates) -> list[int]:
    """Return the positions of what is judged: what is on a path beside an answer has no further figures."""
    return [i for i, on_path in enumerate(candidates.on_path) if not on_path] or list(range(len(candidates)))


class _Confirmed(NamedTuple):
    said: Evaluated
    notes: list[str]
    depends: bool = False
    apart: bool = False


def _confirm(posterior: GibbsPosterior, candidates: Candidates, together: Evaluated) -> _Confirmed:
    """Put what the first model says of points alone in the place of what it said of all of them ``together``.

    Points on a path are asked alone only where that makes a difference. A model whose calls are paid for is believed.
    """
    if not posterior.predictors[0].by_row:
        return _Confirmed(together, [])
    answers = _answers(candidates)
    on_path = sorted(set(range(len(candidates))) - set(answers))
    said = Evaluated(*(array.copy() for array in together))
    notes = [] if _ask_alone(posterior, candidates.x, answers, said) else [_UNCONFIRMED]
    room = _ROUNDING * np.abs(together.outputs[:, 0]).max()
    apart = not np.allclose(said.outputs[:, 0], together.outputs[:, 0], rtol=0, atol=room, equal_nan=True)
    differ = said.reached[:, 0] != together.reached[:, 0]
    if not apart and not differ.any():
        return _Confirmed(said, notes)
    if on_path and not _ask_alone(posterior, candidates.x, on_path, said):
        said.reached[on_path, 0] = False  # what is not known is not claimed
    labels = [candidates.labels[i] for i in np.flatnonzero(differ & together.reached[:, 0])]
    which = f": {', '.join(labels)} would reach the target among others only" if labels else ""
    others = "draws and figures are from batches, and are not to be trusted" if apart else "the rest is rounding"
    notes.append(
        f"The outputs of {posterior.predictors[0].name} depend on the batch, on which rows it is asked about "
        f"together{which}. Decisions and the answer are what it says of each row alone; {others}."
    )
    return _Confirmed(said, notes, depends=True, apart=apart)


_UNCONFIRMED = "The budget did not allow to ask the model about every decision by itself; they were asked together."


def _ask_alone(posterior: GibbsPosterior, x: Array, which: Sequence[int], said: Evaluated) -> bool:
    """Write what the first model says of some of ``x`` ``(k, d)`` alone into ``said``; whether it was asked about all.

    It is asked once about points that are equal.
    """
    places: dict[bytes, list[int]] = {}
    for i in which:
        places.setdefault(x[i].tobytes(), []).append(i)
    try:
        alone = _untimed(posterior).ask_alone(x[[twins[0] for twins in places.values()]])
    except BudgetSpentError:
        return False
    own = posterior.read(alone) if alone else Evaluated(*np.empty((3, 0, 1)))
    for n, twins in zip(range(len(own.loss)), places.values(), strict=False):
        for array, new in zip(said, own, strict=True):
            array[twins, 0] = new[n, 0]
    return len(own.loss) == len(places)


def _predict_choices(posterior: GibbsPosterior, x: Array) -> Evaluated:
    """Return what the models say about chosen points together."""
    return _untimed(posterior).evaluate(x, use_predict=True)


def _untimed(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the posterior without its deadline: few rows, the answer itself."""
    return replace(posterior, budget=posterior.budget.without_deadline())
