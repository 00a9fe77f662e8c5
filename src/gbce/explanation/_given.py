"""Condition an explanation on columns that stay, lie in a range or are harder to change, by reweighting its draws."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._numerics import ENOUGH_ESS, REWEIGHTING, stream
from gbce._validation import show
from gbce.base import Array, Query
from gbce.decisions import Decision, Strategies, apply_known_rules
from gbce.draws import Draws, Points
from gbce.explanation._answer import Answer, cheapest_known
from gbce.explanation._words import Status, join_words
from gbce.metrics import costs, unknown_figures
from gbce.space import Condition, Effort, Space, describe_effort, effort_cost, read_conditions, read_effort, restate

if TYPE_CHECKING:
    from gbce.explanation._explanation import Explanation

_KNOWN = "among known points"  # policy of an answer that was chosen without one


@dataclass(frozen=True)
class Event:
    """Conditions and efforts of a follow-up question as the user gave them, see :meth:`gbce.Explanation.given`."""

    keep: Iterable[str] | str = ()
    at_least: Mapping[str, Any] | None = None
    at_most: Mapping[str, Any] | None = None
    between: Mapping[str, tuple[Any, Any]] | None = None
    exactly: Mapping[str, Any] | None = None
    effort: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        one = isinstance(self.keep, str)
        if one or (isinstance(self.keep, Iterable) and not isinstance(self.keep, Mapping)):
            object.__setattr__(
                self, "keep", [self.keep] if one else list(self.keep)
            )  # an iterator can be read only once

    def read(self, query: Query) -> tuple[Condition, ...]:
        """Return the conditions on the columns of a query's space; raise if nothing is left to change."""
        options = {name: value for name, value in vars(self).items() if name != "effort"}
        if self.effort and not any(value is not None and len(value) for value in options.values()):
            return ()
        found = read_conditions(query.space, query.x0, **options)
        held = {one.name for one in found if one.kept}
        if held.issuperset(query.space.names[j] for j in query.free):
            raise ValueError("given: every column that may change is kept, so that nothing is left to change")
        return found

    @property
    def empty(self) -> bool:
        """Whether there are neither conditions nor efforts."""
        return not any(value is not None and len(value) for value in vars(self).values())

    def read_effort(self, query: Query) -> Effort:
        """Return the efforts by column, merged with those of the query."""
        return query.effort if self.effort is None else read_effort(query.space, self.effort, query.effort)

    @property
    def call(self) -> str:
        """Python call that answers the same question with the models."""
        given = {name: value for name, value in vars(self).items() if value is not None and len(value)}
        options = ", ".join(f"{name}={_format_option(value)}" for name, value in given.items())
        return f"explainer.given(explanation, {options})"


def condition(explanation: "Explanation", event: Event) -> "Explanation":
    """Return the posterior given an event, from the draws, see :meth:`gbce.Explanation.given`."""
    before = explanation.query
    conditions, effort = event.read(before), event.read_effort(before)
    explanation.draws.require_pool("given(...)")
    info = explanation.draws.info
    if not info.draws_posterior:
        raise ValueError(
            f"there are no posterior draws to reweight: {info.undrawn}. To use the models instead, run {event.call}"
        )
    inside = meets(conditions, explanation, explanation.draws.pool.x)
    if not explanation.draws.pool_weights[inside].any():
        raise ValueError(f"{_explain_no_draws(conditions, before)} To use the models instead, run {event.call}")
    query, coordinates = with_conditions(before, conditions)
    query = replace(query, effort=effort)
    known = keep_known(explanation, conditions)
    size = explanation.space.change(explanation.draws.pool.x, explanation.x0)
    harder = _add_effort(replace(explanation.draws, seen=known), before, effort)
    weighed = harder.restrict(inside, query.mixture, size, coordinates)
    weighed = replace(weighed, info=replace(weighed.info, model_evidence=None, goal_met=None))
    words = join_words([*(one.text for one in conditions), *(describe_effort(effort) if event.effort else ())])
    if weighed.ess < ENOUGH_ESS:
        raise ValueError(
            f"the draws cannot be reweighted given that {words}: only {weighed.ess:.0f} effective draws of "
            f"{len(explanation.draws.pool)} would be left. To use the models instead, run {event.call}"
        )
    picked = weighed.resample(stream(explanation.seed, REWEIGHTING, explanation.query.key), len(explanation.draws))
    draws = replace(picked, reweighted=True)
    decisions, undecided = apply_known_rules(query, draws)
    status, sentence = _judge(explanation, conditions, draws, decisions, event, words)
    notes = (sentence, _describe(explanation, inside, weighed, words, undecided, not conditions))
    return replace(
        explanation,
        query=query,
        draws=draws,
        decisions=tuple(decisions),
        status=status,
        status_note=sentence,
        notes=tuple(filter(None, notes)),
        calibration=None,  # eta was found for the posterior as a whole
        answer=None if explanation.answer is None else answer_given(explanation.answer, query, draws, conditions),
        strategies=_restrict_strategies(explanation, conditions, inside, draws),
    )


def _restrict_strategies(
    explanation: "Explanation", conditions: Sequence[Condition], inside: Array, draws: Draws
) -> Strategies | None:
    """Return the strategies with shares of the new draws, and those of their points that meet the conditions."""
    known = explanation.strategies
    known = None if known is None else known.reweigh(explanation.draws, draws, inside)
    return None if known is None else known.keep_points(meets(conditions, explanation, known.x))


def _add_effort(draws: Draws, before: Query, effort: Effort) -> Draws:
    """Add the cost of effort to all points, and correct their weights for the changed prior."""
    if effort == before.effort:
        return draws

    def harder(points: Points) -> Points:
        more = effort_cost(before.space, effort, points.x, before.x0)
        more = more - effort_cost(before.space, before.effort, points.x, before.x0)
        return replace(points, cost=points.cost + more, log_correction=points.log_correction + more)

    return replace(draws, pool=harder(draws.pool), seen=None if draws.seen is None else harder(draws.seen))


def with_conditions(query: Query, conditions: Sequence[Condition]) -> tuple[Query, Array]:
    """Return a query under further conditions, and the positions of the latent coordinates that remain."""
    space = restate(query.space, conditions, query.x0, spikes=query.sparse)
    free = space.free(query.x0)
    left = np.flatnonzero(np.isin(query.free, free))
    if query.row.z.shape[1] != len(query.free):  # a user-defined prior whose coordinates are not the features
        left = np.arange(query.row.z.shape[1])
    row = exclude_row(replace(query.row, z=query.row.z[:, left]), space)
    return replace(query, space=space, free=free, row=row, conditions=(*query.conditions, *conditions)), left


def exclude_row(row: Points, space: Space) -> Points:
    """Mark the evaluated row as inadmissible, missing the target at infinite cost, if it violates a condition."""
    broken = [one for one in space.constraints if isinstance(one, Condition) and not one.holds(space, row.x)[0]]
    if not broken:
        return row
    never = np.full(1, np.inf)
    return replace(row, reached=np.zeros_like(row.reached), cost=never, log_correction=never)


def answer_given(answer: Answer, query: Query, draws: Draws, conditions: Sequence[Condition]) -> Answer:
    """Return the answer if it meets the conditions, else the best known point, whose reliability is unknown."""
    fits = all(one.holds(query.space, answer.decision.x[None, :])[0] for one in conditions)
    if fits and query.effort == answer.query.effort:
        return replace(answer, query=query)
    known, what = cheapest_known(query, draws)
    words = join_words([*(one.text for one in conditions), *describe_effort(query.effort)])
    cost = float(costs(query.space, known.x, query.x0, "l1")[0])
    return Answer(query, Decision.of_point(known, 0), _KNOWN, f"{what}, given that {words}", cost)


def meets(conditions: Sequence[Condition], explanation: "Explanation", x: Array) -> Array:
    """Whether rows ``(n, d)`` meet all conditions, ``(n,)``."""
    good = np.ones(len(x), dtype=bool)
    for one in conditions:
        good &= one.holds(explanation.space, x)
    return good


def keep_known(explanation: "Explanation", conditions: Sequence[Condition]) -> Points | None:
    """Return evaluated points outside the pool that meet the conditions: those of searches, and decisions."""
    draws, decided = explanation.draws, explanation.decisions
    parts = [] if draws.seen is None else [draws.seen]
    if decided:
        outputs, loss, reached = (
            np.array([getattr(one, name) for one in decided]) for name in ("outputs", "loss", "reached")
        )
        unread = np.zeros((len(decided), draws.pool.z.shape[1]))  # their latent coordinates are never used
        x, cost = np.array([one.x for one in decided]), np.array([one.cost for one in decided])
        parts.append(Points(unread, x, outputs, loss, reached, cost, np.zeros(len(decided))))
    if not parts:
        return None
    every = Points.join(parts)
    inside = meets(conditions, explanation, every.x)
    return every.take(inside) if inside.any() else None


def _explain_no_draws(conditions: Sequence[Condition], query: Query) -> str:
    """Explain why no draw meets the conditions."""
    start = f"there is no draw in which {join_words([one.text for one in conditions])}"
    features = {one.name: query.space.features[query.space.position[one.name]] for one in conditions}
    fixed = [one for one in conditions if one.low is not None and one.low == one.high]
    single = [one for one in fixed if not features[one.name].discrete]
    if not single or (query.sparse and all(one.kept for one in single)):
        return f"{start}."
    named = join_words([repr(one.name) for one in single])
    return (
        f"{start}: a single value of {named} has probability zero under this prior. (Under gbce.Sparse() the row's own "
        "value has a positive one.)"
    )


def _judge(
    explanation: "Explanation",
    conditions: Sequence[Condition],
    draws: Draws,
    decisions: Sequence[Decision],
    event: Event,
    words: str,
) -> tuple[Status, str]:
    """Return the status under the conditions, and a sentence if no known point reaches the target."""
    if explanation.status == Status.ALREADY_REACHED and meets(conditions, explanation, explanation.row.x)[0]:
        return explanation.status, explanation.status_note
    if draws.known.reached[:, 0].any() or any(decision.reached[0] for decision in decisions):
        return Status.ATTAINABLE, ""
    target = explanation.target.describe()
    return Status.NOT_ATTAINED, (
        f"None of {len(draws.known):,} known points in which {words} reaches the target ({target}); "
        f"{event.call} uses the models."
    )


def _describe(
    explanation: "Explanation", inside: Array, weighed: Draws, words: str, undecided: Sequence[str], unconditional: bool
) -> str:
    """Return a note on the conditions, their probability, and the effective draws left."""
    before = replace(explanation.draws, resampled=False)
    share = float(before.pool_weights[inside].sum())
    se = float(before.standard_error(inside - share))
    *others, last = unknown_figures()
    probable = "" if unconditional else f", which has probability {share:.3g} (se {se:.1g})"
    note = (
        f"Given that {words}{probable}: {weighed.ess:,.0f} effective draws, at "
        f"eta = {explanation.eta:g} as before; {', '.join(others)} and {last} were not computed again."
    )
    if undecided:
        note += f" {', '.join(undecided)} can only be applied with the model: use explainer.decide(explanation, rule)."
    return note


def _format_option(value: Any) -> str:
    """Format an option as Python source."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{show(name)}: {_format_option(one)}" for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_format_option, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(str(value)) if isinstance(value, (pd.Timestamp, np.datetime64)) else show(value)
