"""Follow-up questions that are put to the models: a new run under conditions on columns."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from gbce._numerics import seed_number
from gbce.budget import Budget
from gbce.decisions import apply_known_rules
from gbce.explainer._notes import judge_status
from gbce.explanation import Event, Explanation, answer_given, meets, require_explanation, with_conditions
from gbce.priors import WithEffort
from gbce.space import Condition, Space

if TYPE_CHECKING:
    from gbce.explainer._explainer import Explainer

__all__ = ["explain_given"]


def explain_given(
    explainer: "Explainer",
    explanation: Explanation,
    event: Event,
    eta: float | None,
    seed: int | None,
    budget: Budget,
) -> Explanation:
    """Explain the row of an explanation again under conditions; see :meth:`gbce.Explainer.given`."""
    posterior = explainer.own_posterior(require_explanation(explanation), budget)
    before = explanation.query
    asked = () if eta is not None and event.empty else event.read(before)
    effort = event.read_effort(before)
    _require_possible(asked, before.space, sparse=before.sparse)
    query, _ = with_conditions(before, asked)
    if eta is not None:
        query = replace(query, mixture=replace(query.mixture, eta=eta))
    again = copy(explainer)  # the same models, data and settings; another space, and eta as it was
    again.space, again.mixture, again.eta_rule = query.space, query.mixture, None
    again.prior = WithEffort(explainer.prior, effort) if effort else explainer.prior
    again.jointly = again.jointly and query.mixture.combine == "any"
    used = explanation.seed if seed is None else seed_number(seed)
    again.prior.at(query.space, query.x0)  # a prior that cannot be placed is refused before models are asked
    again.ask_about_data(posterior.predictors, budget)
    refits = again.prepare_refits(posterior.target, budget)
    found = again.explain_encoded(query.x0, posterior.predictors, posterior.target, before.rules, used, budget, refits)
    found = replace(
        found, query=replace(found.query, conditions=query.conditions, effort=effort, settings=explainer.settings)
    )
    said = f" given that {' and '.join(found.conditions)}," if found.conditions else ""
    note = f"Asked anew{said} at eta = {query.mixture.eta:g}{' as before' * (eta is None)}."
    found = _drop_outside(found, query.conditions)
    first = 1 if found.status_note else 0
    return replace(found, notes=(*found.notes[:first], note, *found.notes[first:]))


def _require_possible(asked: Sequence[Condition], space: Space, *, sparse: bool) -> None:
    """Refuse one value of a real column where it has probability zero and nothing can be drawn."""
    for one in asked:
        j = space.position[one.name]
        if one.low is None or one.low != one.high or space.features[j].discrete:
            continue
        if space.is_computed[j] and not (sparse and one.kept):
            raise ValueError(f"{one.text}: {one.name!r} is computed from other columns; keep those instead")
        if not one.kept:
            raise ValueError(
                f"{one.text}: one value of a real column has probability zero unless it is the row's. Give a range, "
                f"between={{{one.name!r}: (low, high)}}, or explain the row with that value in it."
            )


def _drop_outside(found: Explanation, conditions: Sequence[Condition]) -> Explanation:
    """Return the explanation without decisions and seen points that break a condition.

    Draws never do, but rules that move from the row may come back to it where the row itself breaks one. Such a rule
    chooses among the points that are known, if it can.
    """
    draws, query = found.draws, found.query
    if draws.seen is not None:
        inside = meets(conditions, found, draws.seen.x)
        draws = replace(draws, seen=draws.seen.take(inside) if inside.any() else None)
    kept = [one for one in found.decisions if meets(conditions, found, one.x[None, :])[0]]
    lost = {one.label: one.rule for one in found.decisions if one not in kept}
    rules = tuple(rule for rule in dict.fromkeys(lost.values()) if rule is not None)
    again, _ = apply_known_rules(replace(query, rules=rules), draws)
    again = [one for one in again if one.label in lost and meets(conditions, found, one.x[None, :])[0]]
    decisions = sorted([*kept, *again], key=lambda one: [d.label for d in found.decisions].index(one.label))
    status, sentence = judge_status(query, draws.known, decisions, found.proof)
    notes = [sentence, *(note for note in found.notes if note != found.status_note)]
    gone = [label for label in lost if label not in [one.label for one in again]]
    if gone:
        notes.append(f"{', '.join(gone)} found no point that meets the conditions, and is left out.")
    return replace(
        found,
        draws=draws,
        decisions=tuple(decisions),
        status=status,
        status_note=sentence,
        notes=tuple(filter(None, notes)),
        answer=None if found.answer is None else answer_given(found.answer, query, draws, conditions),
    )
