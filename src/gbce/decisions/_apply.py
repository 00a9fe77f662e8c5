"""Turn rules into decisions: check and apply rules, evaluate the chosen points, and compute their figures."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from gbce._numerics import DECIDING, stream
from gbce._validation import short
from gbce.base import Array, Choice, Query, Rule
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, Scene
from gbce.metrics import Neighbours, evaluate_figures, unknown_errors, unknown_figures
from gbce.posterior import Evaluated, GibbsPosterior, run_together
from gbce.space import Space
from gbce.trees import Proof

_ROOM = __name__.rpartition(".")[0]
# Relative to the largest output: how much predictions of a row alone and in a batch may differ without a note. Chosen
# by hand: single-precision rounding through hundreds of layers stays far below.
_ROUNDING = 1e-3
_ROWS_OF_RULE = 60_000  # more points than any rule of the package evaluates with its default options
_LATER_OF_FEW = 0.5  # of a share, where rows are few: a single rule gets two thirds, the figures the rest
_UNCONFIRMED = "The budget did not allow predicting each decision by itself; they were predicted together."

# --- decisions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """One chosen point and its figures; a figure that was not computed is NaN.

    Parameters
    ----------
    label : str
        Its name in tables: that of the rule, numbered if the rule chose several points.
    x : array of shape (d,)
        Encoded.
    outputs, loss, reached : array of shape (K,)
        Under each model.
    cost : float
        The prior's distance d(row, x).
    figures, errors : mapping
        Robustness (Rb), plausibility (Plu) and the other figures of :mod:`gbce.metrics`, by name, and the Monte Carlo
        errors of those that have one.
    rule : Rule, optional
        The rule that chose it; ``None`` for a row that a user proposed.
    beside : bool
        Whether it only accompanies the rule's choice, such as the best point with another number of changes.
    proof : Proof, optional
        A proof about it, such as that nothing cheaper reaches the target.
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

    @classmethod
    def of_point(cls, points: Points, i: int, label: str = "answer", **known: Any) -> "Decision":
        """Return the decision for one of some evaluated points, without figures."""
        x, cost = points.x[i], float(points.cost[i])
        return cls(label, x, points.outputs[i], points.loss[i], points.reached[i], cost, **known)

    def __repr__(self) -> str:
        outputs = ", ".join(map(short, self.outputs[:3])) + (", ..." if len(self.outputs) > 3 else "")
        reached = "reaches" if self.reached[0] else "does not reach"
        return f"<Decision {self.label}: {reached} the target, output {outputs}, cost {short(self.cost)}>"


class Candidate(NamedTuple):
    """A chosen point ``(d,)`` before it is evaluated: its label, its rule, whether it accompanies a choice, a proof."""

    x: Array
    label: str
    rule: Rule | None = None
    beside: bool = False
    proof: Proof | None = None


def _is_on_path(one: Candidate | Decision) -> bool:
    """Whether a point is on a path over the number of changes, besides the chosen one."""
    return one.beside and one.rule is not None and one.rule.has_path


def answers_among(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return the decisions that tables show: all but the points of a path that accompany a choice."""
    return tuple(one for one in decisions if not _is_on_path(one))


def match_label(rule: Rule | str, labels: Sequence[str]) -> str | None:
    """Return the label among ``labels`` of a rule, given as such, by its label, or by its class name; else None.

    A class name stands for the only label of that class.
    """
    wanted = rule.label if isinstance(rule, Rule) else rule
    if wanted in labels:
        return wanted
    of_class = [label for label in dict.fromkeys(labels) if label.partition("(")[0] == wanted]
    return of_class[0] if len(of_class) == 1 else None


def stack_points(decisions: Sequence[Decision], d: int) -> Array:
    """Return the chosen points of ``k`` decisions as an array ``(k, d)``; ``k`` may be zero."""
    return np.array([decision.x for decision in decisions]).reshape(-1, d)


def _list_candidates(choices: Sequence[tuple[Rule, Choice]]) -> list[Candidate]:
    """Return the points of all rules."""
    return [
        Candidate(x, label, rule, beside, None if beside else choice.proof)
        for rule, choice in choices
        for x, label, beside in zip(choice.x, choice.labels(rule.label), choice.beside, strict=True)
    ]


# --- rules by name ---------------------------------------------------------------------------------------------------


def named_rule(name: str) -> Rule:
    """Return the built-in rule of this name with default options.

    Raises ``ValueError`` if there is no such rule, or it has options without defaults.
    """
    known = _find_built_in(Rule)
    if name not in known:
        lowered = {one.lower(): one for one in known}
        near = difflib.get_close_matches(name.lower(), list(lowered), n=1)
        hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
        raise ValueError(
            f"there is no rule {name!r}; rules by name are {', '.join(sorted(known))}, and one with options is an "
            f"object such as gbce.CVaR(0.8).{hint}"
        )
    needed = _required_options(known[name])
    if needed:
        options = ", ".join(f"{option}=..." for option in needed)
        raise ValueError(f"the rule {name!r} needs options: write gbce.{name}({options})")
    return known[name]()


def _find_built_in(base: type[Any]) -> dict[str, type[Rule]]:
    """Return the subclasses of ``base`` defined in this package, by name."""
    found: dict[str, type[Rule]] = {}
    for kind in base.__subclasses__():
        if kind.__module__.startswith(f"{_ROOM}.") and not kind.__name__.startswith("_"):
            found[kind.__name__] = kind
        found |= _find_built_in(kind)
    return found


def _required_options(kind: Any) -> list[str]:
    """Return the names of options without a default."""
    missing = [f for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING]
    return [f.name for f in missing]


# --- applying rules --------------------------------------------------------------------------------------------------


def require_rule(rule: Any) -> Rule:
    """Return ``rule`` if it is one, or the built-in rule of that name; refuse anything else."""
    if isinstance(rule, str):
        return named_rule(rule)
    if not isinstance(rule, Rule):
        raise TypeError(f"a rule must be an object such as gbce.MAP(), not {rule!r}")
    return rule


def require_rules(rules: Any, space: Space) -> tuple[Rule, ...]:
    """Return one or several rules or names as a tuple; refuse duplicates and rules that do not fit the space."""
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
    """Let one rule choose; models are called only if a posterior is given."""
    rule.check_target(query.target)
    choice = rule.choose(
        Scene(query, draws, stream(query.seed, DECIDING, query.key), posterior, refits, tuple(earlier))
    )
    if not isinstance(choice, Choice):
        raise TypeError(f"{rule.label}: choose must return a Choice, not {choice!r:.80}")
    if choice.x.shape[1] != len(query.space):
        k, d = choice.x.shape
        raise ValueError(f"{rule.label} chose {k} points of {d} features, but the space has {len(query.space)}")
    return choice


def apply_rules(
    query: Query, draws: Draws, posterior: GibbsPosterior, *, further: int = 0
) -> tuple[list[tuple[Rule, Choice]], list[str]]:
    """Apply the rules of a query within the budget, of which ``further`` ones get a part; return choices and notes."""
    rules, n = query.rules, len(query.rules)
    made: dict[int, Choice | None] = {}  # by position of the rule

    def make_task(place: int) -> Callable[[GibbsPosterior], Choice | None]:
        earlier = [(rules[i], choice) for i, choice in sorted(made.items()) if i < place and choice is not None]

        def choose(part: GibbsPosterior) -> Choice | None:
            try:
                return apply_rule(rules[place], query, draws, part, earlier=earlier)
            except BudgetSpentError:
                return None

        return choose

    alone = [i for i in range(n) if not rules[i].reads_earlier]
    for some in (alone, *([i] for i in range(n) if rules[i].reads_earlier)):
        later = _LATER_OF_FEW if posterior.has_few_rows else n - len(made) - len(some) + further + 1
        made |= zip(some, run_together(posterior, [*map(make_task, some)], _ROWS_OF_RULE, later=later), strict=True)
    found = [(rules[i], choice) for i, choice in sorted(made.items()) if choice is not None]
    left_out = [
        f"{rule.label} was left out: the budget does not allow the model calls it needs."
        for i, rule in enumerate(rules)
        if made[i] is None
    ]
    return found, left_out + [choice.note for _, choice in found if choice.note]


def apply_known_rules(query: Query, draws: Draws) -> tuple[list[Decision], list[str]]:
    """Apply the rules that need no model; return their decisions and the labels of the other rules."""
    decisions: list[Decision] = []
    undecided: list[str] = []
    for rule in query.rules:
        choice = None if rule.asks_model else apply_rule(rule, query, draws)
        if choice is None or choice.known is None:
            undecided.append(rule.label)
        else:
            for i, one in enumerate(_list_candidates([(rule, choice)])):
                decisions.append(Decision.of_point(choice.known, i, one.label, rule=rule, beside=one.beside))
    return decisions, undecided


class Judgement(NamedTuple):
    """Decisions with notes; whether verdicts depend on the batch, and outputs by more than rounding (``apart``)."""

    decisions: tuple[Decision, ...]
    notes: list[str]
    depends: bool = False
    apart: bool = False


def evaluate_choices(
    query: Query, posterior: GibbsPosterior, choices: Sequence[tuple[Rule, Choice]], neighbours: Neighbours
) -> Judgement:
    """Evaluate the chosen points, by the first model each alone, and compute the figures that the budget allows."""
    candidates = _list_candidates(choices)
    if not candidates:
        return Judgement((), [])
    try:
        together = _predict_choices(posterior, _stack(candidates))
        evaluated, notes, depends, apart = _confirm(posterior, candidates, together)
    except BudgetSpentError:
        return Judgement((), [])
    return Judgement(_build_decisions(query, posterior, candidates, neighbours, evaluated), notes, depends, apart)


def evaluate_points(
    query: Query, posterior: GibbsPosterior, labels: Sequence[str], x: Array, neighbours: Neighbours
) -> tuple[Decision, ...]:
    """Evaluate points ``(k, d)`` that no rule chose and compute their figures; may exceed the budget."""
    candidates = [Candidate(*one) for one in zip(x, labels, strict=True)]
    return _build_decisions(query, posterior, candidates, neighbours, _predict_choices(posterior, x))


def confirm_point(posterior: GibbsPosterior, decision: Decision) -> Decision:
    """Return a decision with the first model's prediction of its point alone; may exceed the budget."""
    evaluated = Evaluated(*(values[None, :].copy() for values in (decision.outputs, decision.loss, decision.reached)))
    if not _evaluate_alone(posterior, decision.x[None, :], [0], evaluated):
        raise BudgetSpentError("the time ran out before the answer was confirmed")
    return replace(decision, outputs=evaluated.outputs[0], loss=evaluated.loss[0], reached=evaluated.reached[0])


def _stack(candidates: Sequence[Candidate]) -> Array:
    """Return the points ``(k, d)`` of at least one candidate."""
    return np.array([one.x for one in candidates])


def _build_decisions(
    query: Query, posterior: GibbsPosterior, candidates: Sequence[Candidate], neighbours: Neighbours, found: Evaluated
) -> tuple[Decision, ...]:
    """Compute figures and costs of evaluated candidates and assemble the decisions."""
    x, judged = _stack(candidates), _select_answers(candidates)
    points = Points(np.zeros((len(x), 0)), x, *found, cost=posterior.prior.cost(x), log_correction=np.zeros(len(x)))
    answers = evaluate_figures(query, posterior, x[judged], neighbours)
    figures, errors = _unstack_figures(answers.values, judged), _unstack_figures(answers.errors, judged)
    return tuple(
        Decision.of_point(
            points,
            i,
            one.label,
            figures=figures.get(i, unknown_figures()),
            errors=errors.get(i, unknown_errors()),
            rule=one.rule,
            beside=one.beside,
            proof=one.proof,
        )
        for i, one in enumerate(candidates)
    )


def _unstack_figures(found: Mapping[str, Array], where: Sequence[int]) -> dict[int, dict[str, float]]:
    """Return figures ``(k,)`` by name as one mapping for each of the ``k`` positions."""
    return {i: {name: float(values[n]) for name, values in found.items()} for n, i in enumerate(where)}


def _select_answers(candidates: Sequence[Candidate]) -> list[int]:
    """Return the positions of candidates that get figures: all but those on a path."""
    return [i for i, one in enumerate(candidates) if not _is_on_path(one)] or list(range(len(candidates)))


def _confirm(
    posterior: GibbsPosterior, candidates: Sequence[Candidate], together: Evaluated
) -> tuple[Evaluated, list[str], bool, bool]:
    """Replace joint predictions of the first model by those of each point alone; return the rest of a Judgement."""
    if posterior.predictors[0].cost_per_call:
        return together, [], False, False
    x, answers = _stack(candidates), _select_answers(candidates)
    on_path = sorted(set(range(len(x))) - set(answers))
    evaluated = Evaluated(*(array.copy() for array in together))
    notes = [] if _evaluate_alone(posterior, x, answers, evaluated) else [_UNCONFIRMED]
    room = _ROUNDING * np.abs(together.outputs[:, 0]).max()
    apart = not np.allclose(evaluated.outputs[:, 0], together.outputs[:, 0], rtol=0, atol=room, equal_nan=True)
    differ = evaluated.reached[:, 0] != together.reached[:, 0]
    if not apart and not differ.any():
        return evaluated, notes, False, False
    if on_path and not _evaluate_alone(posterior, x, on_path, evaluated):
        evaluated.reached[on_path, 0] = False  # unconfirmed
    labels = [candidates[i].label for i in np.flatnonzero(differ & together.reached[:, 0]).tolist()]
    which = f": {', '.join(labels)} would reach the target only in a batch" if labels else ""
    others = "draws and figures come from batches and cannot be trusted" if apart else "the rest is rounding"
    notes.append(
        f"The outputs of {posterior.predictors[0].name} depend on the batch, the rows that are predicted "
        f"together{which}. Decisions and the answer use predictions of each row alone; {others}."
    )
    return evaluated, notes, True, apart


def _evaluate_alone(posterior: GibbsPosterior, x: Array, which: Sequence[int], evaluated: Evaluated) -> bool:
    """Write the first model's predictions of points ``which`` alone into ``evaluated``; whether all were made."""
    places: dict[bytes, list[int]] = {}
    for i in which:
        places.setdefault(x[i].tobytes(), []).append(i)
    try:
        alone = _without_deadline(posterior).ask_alone(x[[twins[0] for twins in places.values()]])
    except BudgetSpentError:
        return False
    own = posterior.read(alone) if alone else Evaluated(*np.empty((3, 0, 1)))
    for n, twins in zip(range(len(own.loss)), places.values(), strict=False):
        for array, new in zip(evaluated, own, strict=True):
            array[twins, 0] = new[n, 0]
    return len(own.loss) == len(places)


def _predict_choices(posterior: GibbsPosterior, x: Array) -> Evaluated:
    """Evaluate chosen points together by the models' own ``predict``."""
    return _without_deadline(posterior).evaluate(x, use_predict=True)


def _without_deadline(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the posterior without its deadline: the answer itself takes few rows."""
    return replace(posterior, budget=posterior.budget.without_deadline())
