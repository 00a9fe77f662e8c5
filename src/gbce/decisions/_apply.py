"""From rules to decisions: rules are checked and applied, every chosen point gets its figures, within the budget."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from gbce._numerics import DECIDING, stream
from gbce.base import Array, Choice, Query, Rule
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, Scene
from gbce.metrics import Neighbours, evaluate_figures, unknown_errors, unknown_figures
from gbce.posterior import Evaluated, GibbsPosterior, run_together
from gbce.space import Space
from gbce.trees import Proof

__all__ = [
    "Candidates",
    "Decision",
    "Judgement",
    "answers_among",
    "apply_known_rules",
    "apply_rule",
    "apply_rules",
    "confirm_point",
    "decisions_without_noise",
    "evaluate_choices",
    "evaluate_points",
    "named_rule",
    "require_rule",
    "require_rules",
    "stack_choices",
    "stack_points",
]

# --- one chosen point with its figures -------------------------------------------------------------------------------


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


# --- built-in rules by their names, as text --------------------------------------------------------------------------

_ROOM = __name__.rpartition(".")[0]


def named_rule(name: str) -> Rule:
    """Return the built-in rule of this name with its usual options.

    Parameters
    ----------
    name : str
        That of a class of this room, such as ``"MAP"``.

    Returns
    -------
    Rule
        An object of that class.

    Raises
    ------
    ValueError
        If there is no such rule, or none without options.

    Examples
    --------
    >>> named_rule("Mean")
    Mean()
    """
    known = _built_in(Rule)
    if name not in known:
        lowered = {one.lower(): one for one in known}
        near = difflib.get_close_matches(name.lower(), list(lowered), n=1)
        hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
        raise ValueError(
            f"there is no rule {name!r}; rules by name are {', '.join(sorted(known))}, and one with options is an "
            f"object such as gbce.CVaR(0.8).{hint}"
        )
    needed = _options_without_default(known[name])
    if needed:
        options = ", ".join(f"{option}=..." for option in needed)
        raise ValueError(f"the rule {name!r} needs options: write gbce.{name}({options})")
    return known[name]()


def _built_in(base: type[Any]) -> dict[str, type[Rule]]:
    """Return the classes of this room that inherit from ``base``, by name; somebody's own are not among them."""
    found: dict[str, type[Rule]] = {}
    for kind in base.__subclasses__():
        if kind.__module__.startswith(f"{_ROOM}.") and not kind.__name__.startswith("_"):
            found[kind.__name__] = kind
        found |= _built_in(kind)
    return found


def _options_without_default(kind: Any) -> list[str]:
    missing = [f for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING]
    return [f.name for f in missing]


# --- from rules to decisions -----------------------------------------------------------------------------------------

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
