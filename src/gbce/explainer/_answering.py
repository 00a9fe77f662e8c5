"""The answer: what the policy chose, judged under noise and refits that had no part in choosing it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gbce._numerics import ANSWERING, stream
from gbce.base import Array, Choice, Query, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions import (
    FEWEST_TO_CONFIRM,
    Decision,
    Nearest,
    Reliable,
    apply_rule,
    confirm_point,
    confirms,
    refit_shares,
    split_refits,
)
from gbce.draws import Draws, Points, Scene
from gbce.explanation import Answer, Mean, SafeBox, Share, changed_columns, cheapest_known
from gbce.metrics import NoiseDistribution, costs, evaluate_under_noise, noise_distribution, offsets, sum_under_noise
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.trees import (
    CellReader,
    CellTrees,
    ModelStructure,
    Proof,
    TreeScores,
    find_safe_ranges,
    prove_over_all_cells,
    prove_unattainable,
    say_answer,
)

__all__ = ["DENIED", "Prover", "apply_policy", "hand_over", "judge_answer", "proof_of", "safe_box_of"]

# --- the answer ------------------------------------------------------------------------------------------------------

DENIED = "the best point that the model confirms of the row alone, where it denies"  # why, of an answer
_POLICY_SHARE = 0.5  # of what rules leave of a budget; chosen by hand, and the rest is for figures
_COPIES = 1_000  # under noise: a share near 0.9 then has an error of 0.01
_FEWEST_COPIES = 100  # below it a reliability is not worth a number: its error is up to 0.05
_MOST_TRIED = 10  # points that are asked about alone where the model denied the answer; by hand
_REFIT_COPIES = 100  # for each of the refitted models, whose number decides the error


def apply_policy(
    policy: Rule,
    query: Query,
    draws: Draws,
    posterior: GibbsPosterior,
    refits: GibbsPosterior | None,
    choices: Sequence[tuple[Rule, Choice]],
) -> Choice:
    """Return the point that a policy hands over, and why; of a rule that was applied already, what it chose.

    Where the budget does not allow it, the cheapest evaluated point that reaches the target is handed over.
    """
    for rule, choice in choices:
        if rule == policy:
            return _only_first(choice)
    part = replace(posterior, budget=posterior.budget.share(_POLICY_SHARE))
    refits = None if refits is None else replace(refits, budget=part.budget)
    try:
        return _only_first(apply_rule(policy, query, draws, part, refits=refits, earlier=choices))
    except BudgetSpentError:
        points, what = cheapest_known(query, draws)
        return Choice(points.x, points, f"the budget did not allow a search; this is {what}")


def _only_first(choice: Choice) -> Choice:
    """Return the point that is a rule's answer, without those beside it."""
    answer = choice.beside.index(False) if False in choice.beside else 0
    known = None if choice.known is None else choice.known.take(np.array([answer]))
    return Choice(choice.x[[answer]], known, choice.note, proof=choice.proof)


def hand_over(
    query: Query,
    posterior: GibbsPosterior,
    known: Points,
    last: Decision,
    decisions: Sequence[Decision],
    depends: bool,
) -> Decision:
    """Return what is handed over: the policy's point ``last``, or the best that is known where that falls short.

    What is said to reach the target is what the model confirms of a row alone. Where its outputs were seen to depend
    on the batch, the cheapest such decision is taken, or else the cheapest known point.
    """
    if last.reached[0]:
        return last
    if not depends:
        best = _best_seen(known, (last, *decisions))
        if not best.reached[0] or any(best is one for one in decisions):
            return best
        confirmed = _confirmed(posterior, best)
        if confirmed is not None:
            return confirmed
    holding = [one for one in decisions if one.reached[0]]
    if holding:
        return min(holding, key=lambda one: one.cost)
    reaching = np.flatnonzero(known.reached[:, 0] & np.isfinite(known.log_correction))
    cost = costs(query.space, known.x[reaching], query.x0, "l1")
    for at in reaching[np.argsort(cost, kind="stable")][:_MOST_TRIED]:
        confirmed = _confirmed(posterior, _as_decision(known, int(at)))
        if confirmed is not None:
            return confirmed
    return min((last, *decisions), key=lambda one: float(one.loss[0]))


def _confirmed(posterior: GibbsPosterior, decision: Decision) -> Decision | None:
    """Return a decision as the model confirms it of the row alone; None if it does not, or may not be asked."""
    try:
        found = confirm_point(posterior, decision)
    except BudgetSpentError:
        return None
    return found if found.reached[0] else None


def _best_seen(known: Points, decisions: Sequence[Decision]) -> Decision:
    """Return the one of least loss of decisions and evaluated points, for an answer where none reaches."""
    best = min(decisions, key=lambda one: float(one.loss[0]))
    known = known.take(np.isfinite(known.log_correction))  # what breaks a constraint was not asked about
    if len(known) == 0:
        return best
    at = int(np.argmin(known.loss[:, 0]))
    if known.loss[at, 0] >= best.loss[0]:
        return best
    return _as_decision(known, at)


def _as_decision(known: Points, at: int) -> Decision:
    return Decision(
        "answer", known.x[at], known.outputs[at], known.loss[at], known.reached[at], float(known.cost[at])
    )  # fmt: skip


def judge_answer(
    query: Query,
    posterior: GibbsPosterior,
    refits: GibbsPosterior | None,
    draws: Draws,
    policy: Rule,
    reason: str,
    decision: Decision,
) -> Answer:
    """Return an answer with its reliability under fresh noise, and over refitted models that did not choose it."""
    promised = _promised(policy)
    noise_model = noise_distribution(query.evaluation.noise, query.space, query.x0, decision.x)
    trees = None if noise_model is None else _read_first(posterior)
    reliability, expected = _judge_under_noise(query, posterior, decision, noise_model, trees)
    survival, doubt = (None, "") if refits is None else _ask_refits(query, refits, draws, policy, decision)
    return Answer(
        query=query,
        decision=replace(decision, label="answer"),
        policy=policy.label,
        reason=reason or f"what {policy.label} chooses",
        cost=float(costs(query.space, decision.x[None, :], query.x0, "l1")[0]),
        promised=promised,
        reliability=reliability,
        survival=survival,
        safe=safe_box_of(query, posterior, decision.x, trees=trees) if decision.reached[0] else None,
        expected=expected,
        doubt=doubt,
    )


def safe_box_of(
    query: Query, posterior: GibbsPosterior, x: Array, which: Array | None = None, trees: CellTrees | None = None
) -> SafeBox | None:
    """Return ranges around a point ``(d,)`` that reaches, of its changed features unless told; None if there are none.

    There are some only if the first model is a tree ensemble that can be read, and decides by its own scores. It is
    read if ``trees`` are left out.
    """
    space = query.space
    if query.target.reads_classes and posterior.predictors[0].decide_always:
        return None
    which = changed_columns(space, query.x0, x) if which is None else which
    if len(which) == 0:
        return None
    trees = _read_first(posterior) if trees is None else trees
    rules = (*query.conditions, *space.constraints)  # what a follow-up question holds on to, too
    found = None if trees is None else find_safe_ranges(trees, space, query.x0, x, query.target, which, rules)
    if found is None:
        return None
    return SafeBox(space, tuple(space.names[j] for j in found.features), found.low, found.high)


def proof_of(answer: Answer, decisions: Sequence[Decision], unattainable: Proof | None) -> str:
    """Return what is proved about an answer, in words; empty if nothing is.

    What a rule proved about its own point holds for the answer as it is if that is the point; otherwise for what it
    costs, if that is counted alike.
    """
    if unattainable is not None:
        return unattainable.sentence
    if not answer.reached or answer.n_changes == 0:
        return ""
    for one in (answer.decision, *decisions):
        if one.proof is None or not isinstance(one.rule, Nearest):
            continue
        if np.array_equal(one.x, answer.decision.x, equal_nan=True):
            return one.proof.sentence
        if one.rule.distance == "l1" and one.rule.margin == 0 and one.rule.max_changes is None:
            return say_answer(one.proof, answer.cost)
    return ""


def _read_first(posterior: GibbsPosterior) -> CellTrees | None:
    """Return the first model as a tree ensemble, if it is one and the budget allows to look."""
    try:
        return posterior.read_trees()
    except BudgetSpentError:
        return None


def _judge_under_noise(
    query: Query,
    posterior: GibbsPosterior,
    decision: Decision,
    noise_model: NoiseDistribution | None,
    trees: CellTrees | None,
) -> tuple[Share | None, Mean | None]:
    """Return how often a decision holds under noise, and its expected output: exactly where that can be, or by trials.

    What is exact takes a few model rows. Trials are as they are where nothing is exact.
    """
    first = replace(posterior, predictors=posterior.predictors[:1])
    share, mean = None, None
    if noise_model is not None and trees is not None:
        share, mean = _sum_noise(first, noise_model, trees)
    if share is None:
        said = _ask_under_noise(query, first, decision)
        if said is not None:
            reached, outputs = said.reached[0, :, 0], said.outputs[0, :, 0]
            share = Share.of(float(reached.mean()), len(reached))
            mean = mean or (Mean.of(outputs) if np.isfinite(outputs).all() else None)
    return share, mean


def _sum_noise(
    first: GibbsPosterior, noise_model: NoiseDistribution, trees: CellTrees
) -> tuple[Share | None, Mean | None]:
    """Return both figures, each where it is exact."""
    try:
        exact = sum_under_noise(first, noise_model, trees)
    except BudgetSpentError:
        return None, None
    share = None if exact.success is None else Share(*exact.success, 0, exact=True)
    return share, None if exact.output is None else Mean(*exact.output, 0, exact=True)


def _ask_under_noise(query: Query, first: GibbsPosterior, decision: Decision) -> Evaluated | None:
    n = min(first.affords(_COPIES), _COPIES)
    if n < _FEWEST_COPIES:
        return None
    shifts = offsets(query.evaluation.noise, query.space, stream(query.seed, ANSWERING, query.key), n)
    try:
        return evaluate_under_noise(first, query.space, decision.x[None, :], shifts, first_only=True)
    except BudgetSpentError:  # time ran out earlier than expected
        return None


def _ask_refits(
    query: Query, refits: GibbsPosterior, draws: Draws, policy: Rule, decision: Decision
) -> tuple[Share | None, str]:
    """Return how often refits accept a decision, those that had no part in it if there are such, and what is in doubt.

    What the policy promises is not shown by a share alone: of a few models, most may have been lucky.
    """
    choosing, confirming = split_refits(refits) if isinstance(policy, Reliable) else (refits, refits)
    judges, promised = confirming or choosing, _promised(policy)
    copies = min(judges.affords(_REFIT_COPIES), _REFIT_COPIES)
    scene = Scene(query, draws, stream(query.seed, ANSWERING, query.key), refits=judges)
    try:
        shares = refit_shares(scene, None, decision.x[None, :], copies)[0] if copies > 0 else None
    except BudgetSpentError:
        shares = None
    if shares is None:
        return None, "" if promised is None else "The budget did not allow to ask the refitted models."
    weights, n = judges.mixture.weights, len(shares)
    held = Share.of(float(shares @ weights), n)
    if promised is None:
        return held, ""
    if n < FEWEST_TO_CONFIRM or confirming is None:
        few = 2 * FEWEST_TO_CONFIRM
        return held, f"They are too few to confirm it: that takes {few}, half of which have no part in the choice."
    sure = confirms(shares, weights, promised, getattr(policy, "refit_confidence", Reliable.refit_confidence))
    return held, "" if sure else "Too few of them, which had no part in the choice, accept it to confirm it."


def _promised(policy: Rule) -> float | None:
    """Return the probability that a policy promises, if it has one."""
    promised: Any = getattr(policy, "probability", None)
    return float(promised) if isinstance(promised, (int, float)) else None


# --- before a target is said to be out of reach of a search ----------------------------------------------------------

_CHECKED = 256  # known points that what was read of a model must agree with, the lowest and others; by hand
# Under a deadline: boxes into which rows are parted, a tenth of a second, and cells of a grid, some milliseconds.
_BOXES_IN_TIME: dict[str, Any] = {"most_boxes": 100}
_CELLS_IN_TIME: dict[str, Any] = {"most_cells": 200_000}


class Prover:
    """Looks into an explainer's first model when there is something to prove, and not before.

    Parameters
    ----------
    reader : CellReader
        Of that model.
    """

    def __init__(self, reader: CellReader) -> None:
        self._reader = reader

    @property
    def inside(self) -> ModelStructure | None:
        """What the model is made of, looked up once."""
        return self._reader.inside

    def prove(self, query: Query, posterior: GibbsPosterior, known: Points) -> Proof | None:
        """Return a proof that no row can reach the target, if none is known to and there is one.

        By the box of all rows, else cell by cell, else, where cells are too many, in parts of the box.
        """
        decides = query.target.reads_classes and posterior.predictors[0].decide_always  # by a threshold of its own
        if query.row.reached[0, 0] or known.reached[:, 0].any() or decides or self.inside is None:
            return None
        seen = known.take(_some_of(known))
        x, outputs = np.vstack([query.row.x, seen.x]), np.append(query.row.outputs[:, 0], seen.outputs[:, 0])
        asked = query.space, query.x0, query.target, x, outputs
        hurried = posterior.budget.deadline is not None
        proof = prove_unattainable(self.inside, *asked, most_boxes=1)
        if proof is not None:
            return proof
        trees = _trees_of(posterior) if isinstance(self.inside.parts, TreeScores) else None
        looked = None if trees is None else prove_over_all_cells(trees, *asked, **_CELLS_IN_TIME if hurried else {})
        if looked is not None:  # every cell was looked at
            return looked.proof
        return prove_unattainable(self.inside, *asked, **_BOXES_IN_TIME if hurried else {})


def _trees_of(posterior: GibbsPosterior) -> CellTrees | None:
    """Return the first model as cells; None where it has none, or where rows are counted that it is checked with."""
    if posterior.budget.max_rows is not None:
        return None
    try:
        return posterior.read_trees()
    except BudgetSpentError:
        return None


def _some_of(known: Points) -> Array:
    """Return positions of some points: those of the lowest loss, and others evenly spread."""
    lowest = np.argsort(known.loss[:, 0], kind="stable")[: _CHECKED // 2]
    spread = np.linspace(0, len(known) - 1, min(len(known), _CHECKED // 2)).astype(int)
    return np.union1d(lowest, spread)
