"""Answer follow-up questions about an explanation with the models that it was made with, and check that they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gbce._numerics import seed_number
from gbce.base import Array, Outputs, Target
from gbce.budget import Budget
from gbce.decisions import apply_known_rules
from gbce.draws import Points
from gbce.explainer._notes import judge_status
from gbce.explanation import (
    Event,
    Explanation,
    answer_given,
    keep_known,
    meets,
    require_explanation,
    with_conditions,
)
from gbce.posterior import GibbsPosterior
from gbce.predictors import Panel, pick_rows, same_answers
from gbce.space import Condition, Space
from gbce.targets import Loss

if TYPE_CHECKING:
    from gbce.explainer._session import Session

_CHECK_SHARE = 10  # the check of an explanation may take one part in ten of a budget, chosen by hand
ADVICE = "Explain the row with this explainer, or use the one that the explanation was made with."

# --- another run under conditions ------------------------------------------------------------------------------------


def explain_given(
    session: "Session",
    explanation: Explanation,
    event: Event,
    eta: float | None,
    seed: int | None,
    budget: Budget,
) -> Explanation:
    """Explain the row of an explanation again under conditions, see :meth:`gbce.Explainer.given`."""
    posterior = session.own_posterior(require_explanation(explanation), budget)
    before = explanation.query
    conditions = () if eta is not None and event.empty else event.read(before)
    effort = event.read_effort(before)
    _require_possible(conditions, before.space, sparse=before.sparse)
    query, _ = with_conditions(before, conditions)
    if eta is not None:
        query = replace(query, mixture=replace(query.mixture, eta=eta))
    again = session.under(query.space, query.mixture, effort)
    used = explanation.seed if seed is None else seed_number(seed)
    again.prior.at(query.space, query.x0)  # a prior that does not fit raises before any model is called
    again.ask_about_data(posterior.predictors, budget)
    refits = again.prepare_refits(posterior.target, budget)
    found = again.explain_encoded(query.x0, posterior.predictors, posterior.target, before.rules, used, budget, refits)
    found = replace(found, query=replace(found.query, conditions=query.conditions))
    given = f" given that {' and '.join(found.conditions)}," if found.conditions else ""
    note = f"Sampled again{given} at eta = {query.mixture.eta:g}{' as before' * (eta is None)}."
    found = _drop_outside(found, query.conditions)
    first = 1 if found.status_note else 0
    return replace(found, notes=(*found.notes[:first], note, *found.notes[first:]))


def _require_possible(conditions: Sequence[Condition], space: Space, *, sparse: bool) -> None:
    """Raise if a condition fixes a continuous column at a value of probability zero."""
    for one in conditions:
        j = space.position[one.name]
        if one.low is None or one.low != one.high or space.features[j].discrete:
            continue
        if space.is_computed[j] and not (sparse and one.kept):
            raise ValueError(f"{one.text}: {one.name!r} is computed from other columns; keep those instead")
        if not one.kept:
            raise ValueError(
                f"{one.text}: a single value of a real column has probability zero unless it is the row's. Give a "
                f"range, between={{{one.name!r}: (low, high)}}, or explain the row with that value in it."
            )


def _drop_outside(found: Explanation, conditions: Sequence[Condition]) -> Explanation:
    """Drop decisions and evaluated points that violate a condition; rules may choose among known points instead."""
    # draws never violate one, but a rule that starts from the row may return to it when the row itself does
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
    every = replace(draws, seen=keep_known(found, conditions))  # an answer may be a decision
    notes = [sentence, *(note for note in found.notes if note != found.status_note)]
    gone = [label for label in lost if label not in [one.label for one in again]]
    if gone:
        notes.append(f"{', '.join(gone)} found no point that meets the conditions and is left out.")
    return replace(
        found,
        draws=draws,
        decisions=tuple(decisions),
        status=status,
        status_note=sentence,
        notes=tuple(filter(None, notes)),
        answer=None if found.answer is None else answer_given(found.answer, query, every, conditions),
        strategies=None
        if found.strategies is None
        else found.strategies.keep_points(meets(conditions, found, found.strategies.x)),
    )


# --- check of an explanation's models --------------------------------------------------------------------------------


def require_own(explanation: Explanation, posterior: GibbsPosterior) -> None:
    """Raise if an explanation has another prior, or models of another identity or, without one, other outputs."""
    points = _pick_points(explanation)
    for k, predictor in enumerate(posterior.predictors):
        identity = explanation.query.identities[k] if k < len(explanation.query.identities) else None
        if identity is None and predictor.identity:
            continue  # not recorded by an earlier version
        if (identity or "") != predictor.identity:
            raise ValueError(
                f"the explanation was made with another model: {identity or explanation.models[k]}, where this "
                f"explainer has {predictor.identity or predictor.name}. {ADVICE}"
            )
        if not predictor.identity:
            panel = Panel((predictor,), posterior.budget)
            if panel.affords(1) == 0:  # at least one row is needed for any result
                panel = Panel((predictor,), posterior.budget.without_deadline())
            most = max(panel.affords(_CHECK_SHARE * len(points.x)) // _CHECK_SHARE, 1)
            now = _read_output(panel.ask_some(points.x[:most])[0], posterior.target)
            _require_same(points.outputs[: most if now is None else len(now), k], now, predictor.name)
    if not same_answers(points.cost, posterior.prior.cost(points.x)):
        raise ValueError(f"the explanation was made with a different prior. {ADVICE}")


def _pick_points(explanation: Explanation) -> Points:
    """Return the row and some points that all models evaluated."""
    pool, row = explanation.draws.pool, explanation.row
    row = row.take(np.isfinite(row.log_correction))  # the row may violate the conditions of a follow-up question
    evaluated = np.flatnonzero(np.isfinite(pool.log_correction))
    return Points.join([row, pool.take(evaluated[pick_rows(len(evaluated))])])


def _read_output(outputs: Outputs, target: Target) -> Array | None:
    """Return outputs ``(n,)`` as the target reads them; None if the target's code was lost in a file."""
    if not target.readable:  # a Loss without its function still reads plain outputs
        return outputs.values if isinstance(target, Loss) and outputs.values.ndim == 1 else None
    return target.read(outputs).output


def _require_same(before: Array, now: Array | None, name: str) -> None:
    if now is None or same_answers(before, now):
        return
    with np.errstate(invalid="ignore"):
        i = int(np.argmax(np.nan_to_num(np.abs(before - now))))  # infinite both times is no difference
    raise ValueError(
        f"the explanation was made with another model: {name} returns {now[i]:.4g} where it has {before[i]:.4g}, at "
        f"one of {len(before)} points that were evaluated again. {ADVICE} (Follow-up questions need a model whose "
        "outputs are not random.)"
    )
