"""Decide and answer: apply rules and policy, confirm the answer, estimate its reliability, prove what can be.

Reliability is estimated under fresh noise and with refitted models held out from the choice, or summed exactly over the
cells of a tree ensemble. ``Prover`` tries to prove a target unattainable before a search reports that it found nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gbce._numerics import ANSWERING, FORESEEING, first_of_least, stream
from gbce.base import Array, Choice, Query, Rule
from gbce.budget import HALF, BudgetSpentError
from gbce.decisions import (
    FEWEST_TO_CONFIRM,
    Decision,
    Nearest,
    Reliable,
    apply_rule,
    apply_rules,
    confirm_point,
    confirms,
    evaluate_choices,
    find_against,
    refit_shares,
    split_refits,
    stack_points,
)
from gbce.draws import Draws, Points, Scene
from gbce.explainer._notes import add_reaching
from gbce.explanation import Answer, Mean, SafeBox, Share, changed_columns, cheapest_known
from gbce.metrics import (
    Neighbours,
    NoiseDistribution,
    costs,
    evaluate_under_noise,
    noise_distribution,
    offsets,
    sum_under_noise,
)
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.space import effort_cost
from gbce.trees import (
    CellReader,
    CellTrees,
    ModelStructure,
    Proof,
    TreeScores,
    describe_answer,
    find_safe_ranges,
    prove_unattainable,
    seems_attainable,
)

# The reason for an answer that replaces the policy's point, which the model did not confirm row by row.
_REPLACED = "the best point that the model confirms; predicting each row alone, it rejects"
_COPIES = 1_000  # noisy copies of the answer: a share near 0.9 then has a standard error of 0.01
_FEWEST_COPIES = 100  # with fewer no reliability is reported: its standard error would exceed 0.05
_MOST_CONFIRMED = 10  # points tried one by one if the model rejects the answer, chosen by hand
_REFIT_COPIES = 100  # noisy copies per refitted model; the number of models dominates the error
_CHECKED = 256  # evaluated points that the structure read from a model must reproduce, chosen by hand
_WORK_IN_TIME: dict[str, Any] = {"most_work": 200_000}  # of a proof under a deadline: about a tenth of a second
_EARLY: dict[str, Any] = {"most_work": 1_000_000}  # of one before sampling: most of those found in full are found so
_TRIED = 300  # prior draws that the structure judges before a proof is tried, in some milliseconds; chosen by hand

# --- rules, policy and answer ----------------------------------------------------------------------------------------


class Decided(NamedTuple):
    """The choices with notes, the policy's, all decisions, and how verdicts or outputs depend on the batch."""

    choices: list[tuple[Rule, Choice]]
    notes: list[str]
    by_policy: list[tuple[Rule, Choice]]
    decisions: tuple[Decision, ...]
    depends: bool
    apart: bool
    answer: Answer | None = None


@dataclass(frozen=True, eq=False)
class Answering:
    """A question with its models, refitted models and policy, if any, and the training rows for figures."""

    query: Query
    posterior: GibbsPosterior
    refits: GibbsPosterior | None
    policy: Rule | None
    neighbours: Neighbours

    def decide(self, draws: Draws) -> tuple[Decided, Draws]:
        """Apply rules and policy, again where one found what no draw reached; return also draws with what was found."""
        first = self._choose(draws)
        more = add_reaching(self.posterior, draws, first.decisions)
        if more is draws or self.posterior.has_few_rows:
            return first, more
        second = self._choose(more)
        return second if len(second.decisions) >= len(first.decisions) else first, more

    def add_answer(self, draws: Draws, decided: Decided) -> Decided:
        """Make the policy's decision, taken out of the decisions, or the best point that is confirmed the answer."""
        if not decided.by_policy or not decided.decisions:
            return decided
        ((rule, choice),), (*others, last) = decided.by_policy, decided.decisions
        best = self._choose_answer(draws.known, last, others, decided.depends)
        why = choice.note if best is last or not decided.depends else f"{_REPLACED} what {rule.label} chose"
        if self.query.effort and best.reached[0] and not isinstance(rule, Reliable):  # which alone counts efforts
            best, why = self._choose_by_effort(draws, (best, *others))
        return decided._replace(decisions=tuple(others), answer=self._judge(draws, rule, why, best))

    def _choose(self, known: Draws) -> Decided:
        """Apply rules and policy once and evaluate what they chose."""
        choices, notes = apply_rules(self.query, known, self.posterior, further=0 if self.policy is None else 1)
        by_policy = [] if self.policy is None else [(self.policy, self._apply_policy(self.policy, known, choices))]
        judged = evaluate_choices(self.query, self.posterior, [*choices, *by_policy], self.neighbours)
        return Decided(choices, [*notes, *judged.notes], by_policy, judged.decisions, judged.depends, judged.apart)

    def _apply_policy(self, policy: Rule, draws: Draws, choices: Sequence[tuple[Rule, Choice]]) -> Choice:
        """Apply the policy, or reuse the choice of an equal rule; without budget, take the cheapest known point."""
        for rule, choice in choices:
            if rule == policy:
                return _keep_first(choice)
        part = replace(self.posterior, budget=self.posterior.budget.share(HALF))
        refits = None if self.refits is None else replace(self.refits, budget=part.budget)
        try:
            return _keep_first(apply_rule(policy, self.query, draws, part, refits=refits, earlier=choices))
        except BudgetSpentError:
            points, what = cheapest_known(self.query, draws)
            return Choice(points.x, points, f"the budget did not allow a search; this is {what}")

    # --- choice of the answer -------------------------------------------------------------------------------

    def _choose_answer(self, known: Points, last: Decision, decisions: Sequence[Decision], depends: bool) -> Decision:
        """Return the policy's point ``last`` if it reaches, else the best one the model confirms, row by row."""
        # if outputs depend on the batch, the cheapest decision that reaches comes first, then the cheapest point
        if last.reached[0]:
            return last
        if not depends:
            best = _find_best_seen(known, (last, *decisions))
            if not best.reached[0] or any(best is one for one in decisions):
                return best
            confirmed = self._confirm(best)
            if confirmed is not None:
                return confirmed
        holding = [one for one in decisions if one.reached[0]]
        if holding:
            return min(holding, key=lambda one: one.cost)
        reaching = np.flatnonzero(known.reached[:, 0] & np.isfinite(known.log_correction))
        cost = costs(self.query.space, known.x[reaching], self.query.x0, "l1")
        for at in reaching[np.argsort(cost, kind="stable")][:_MOST_CONFIRMED]:
            confirmed = self._confirm(Decision.of_point(known, int(at)))
            if confirmed is not None:
                return confirmed
        return min((last, *decisions), key=lambda one: float(one.loss[0]))

    def _choose_by_effort(self, draws: Draws, decided: Sequence[Decision]) -> tuple[Decision, str]:
        """Return the known point that reaches the target at least cost under efforts, and what it is."""
        query, (points, what) = self.query, cheapest_known(self.query, draws)
        known = [Decision.of_point(points, 0), *decided]
        x, misses = stack_points(known, len(query.space)), [not one.reached[0] for one in known]
        cost = costs(query.space, x, query.x0, "l1") + effort_cost(query.space, query.effort, x, query.x0)
        return known[first_of_least(np.array(misses, dtype=float), cost)], f"{what}, by the efforts"

    def _confirm(self, decision: Decision) -> Decision | None:
        """Evaluate a decision as a single row; return None if it misses the target or the budget is spent."""
        try:
            found = confirm_point(self.posterior, decision)
        except BudgetSpentError:
            return None
        return found if found.reached[0] else None

    # --- reliability of the answer --------------------------------------------------------------------------

    def _judge(self, draws: Draws, policy: Rule, reason: str, decision: Decision) -> Answer:
        """Return the answer with its reliability under fresh noise and under refitted models held out."""
        query, posterior = self.query, self.posterior
        noise_model = noise_distribution(query.evaluation.noise, query.space, query.x0, decision.x)
        trees = None if noise_model is None else _read_first(posterior)
        reliability, expected = self._judge_under_noise(decision, noise_model, trees)
        survival, doubt = (None, "") if self.refits is None else self._judge_by_refits(
            self.refits, draws, policy, decision
        )  # fmt: skip
        return Answer(
            query=query,
            decision=replace(decision, label="answer"),
            policy=policy.label,
            reason=reason or f"chosen by {policy.label}",
            cost=float(costs(query.space, decision.x[None, :], query.x0, "l1")[0]),
            promised=_read_promise(policy),
            reliability=reliability,
            survival=survival,
            safe=find_safe_box(query, posterior, decision.x, trees=trees) if decision.reached[0] else None,
            expected=expected,
            doubt=doubt,
            against=self._find_against(decision),
        )

    def _find_against(self, decision: Decision) -> tuple[str, ...]:
        """Return the changed columns of a table whose change has the opposite effect on average."""
        query = self.query
        if query.space.columns is None or not decision.reached[0]:
            return ()
        better = float(decision.outputs[0] - query.row.outputs[0, 0])
        return find_against(self.posterior, query.space, query.x0, decision.x, better if np.isfinite(better) else 0.0)

    def _judge_under_noise(
        self, decision: Decision, noise_model: NoiseDistribution | None, trees: CellTrees | None
    ) -> tuple[Share | None, Mean | None]:
        """Return the success probability and expected output under noise, exact if possible, otherwise simulated."""
        first = replace(self.posterior, predictors=self.posterior.predictors[:1])
        share, mean = None, None
        if noise_model is not None and trees is not None:
            share, mean = _sum_noise(first, noise_model, trees)
        if share is None:
            evaluated = _simulate_noise(self.query, first, decision)
            if evaluated is not None:
                reached, outputs = evaluated.reached[0, :, 0], evaluated.outputs[0, :, 0]
                share = Share.of(float(reached.mean()), len(reached))
                mean = mean or (Mean.of(outputs) if np.isfinite(outputs).all() else None)
        return share, mean

    def _judge_by_refits(
        self, refits: GibbsPosterior, draws: Draws, policy: Rule, decision: Decision
    ) -> tuple[Share | None, str]:
        """Return the share of refits that accept a decision, and why they do not confirm it; empty if they do."""
        # held-out refits judge if there are any; a share alone confirms nothing, as most of a few may agree by chance
        choosing, confirming = split_refits(refits) if isinstance(policy, Reliable) else (refits, refits)
        judges, promised = confirming or choosing, _read_promise(policy)
        copies = min(judges.affords(_REFIT_COPIES), _REFIT_COPIES)
        scene = Scene(self.query, draws, stream(self.query.seed, ANSWERING, self.query.key), refits=judges)
        try:
            shares = refit_shares(scene, None, decision.x[None, :], copies)[0] if copies > 0 else None
        except BudgetSpentError:
            shares = None
        if shares is None:
            return None, "" if promised is None else "The budget did not allow evaluating the refitted models."
        weights, n = judges.mixture.weights, len(shares)
        held = Share.of(float(shares @ weights), n)
        if promised is None:
            return held, ""
        if n < FEWEST_TO_CONFIRM or confirming is None:
            few = 2 * FEWEST_TO_CONFIRM
            wanted = f"at least {few} are needed, half of them held out from the choice"
            return held, f"They are too few to confirm it: {wanted}."
        sure = confirms(shares, weights, promised, getattr(policy, "refit_confidence", Reliable.refit_confidence))
        return held, "" if sure else "Too few of these held-out models accept it to confirm it."


def _keep_first(choice: Choice) -> Choice:
    """Reduce a choice to its main point, without alternatives beside it."""
    answer = choice.beside.index(False) if False in choice.beside else 0
    known = None if choice.known is None else choice.known.take(np.array([answer]))
    return Choice(choice.x[[answer]], known, choice.note, proof=choice.proof)


def _find_best_seen(known: Points, decisions: Sequence[Decision]) -> Decision:
    """Return the decision or evaluated point of least loss."""
    best = min(decisions, key=lambda one: float(one.loss[0]))
    known = known.take(np.isfinite(known.log_correction))  # points that violate a constraint were not evaluated
    if len(known) == 0:
        return best
    at = int(np.argmin(known.loss[:, 0]))
    return best if known.loss[at, 0] >= best.loss[0] else Decision.of_point(known, at)


# --- safe ranges, proofs and noise -----------------------------------------------------------------------------------


def find_safe_box(
    query: Query, posterior: GibbsPosterior, x: Array, which: Array | None = None, trees: CellTrees | None = None
) -> SafeBox | None:
    """Return guaranteed ranges of the features ``which``, by default the changed ones, around a point ``(d,)``."""
    space = query.space
    if query.target.reads_classes and posterior.predictors[0].decide_always:
        return None
    which = changed_columns(space, query.x0, x) if which is None else which
    if len(which) == 0:
        return None
    trees = _read_first(posterior) if trees is None else trees
    constraints = (*query.conditions, *space.constraints)
    found = None if trees is None else find_safe_ranges(trees, space, query.x0, x, query.target, which, constraints)
    if found is None:
        return None
    return SafeBox(space, tuple(space.names[j] for j in found.features), found.low, found.high)


def state_proof(answer: Answer, decisions: Sequence[Decision], unattainable: Proof | None) -> str:
    """Return the sentence of a proof about the answer, or about its cost by a Nearest rule; empty without one."""
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
            return describe_answer(one.proof, answer.cost)
    return ""


def _read_first(posterior: GibbsPosterior) -> CellTrees | None:
    """Return the first model as a tree ensemble, None if it is not one or the budget is spent."""
    try:
        return posterior.read_trees()
    except BudgetSpentError:
        return None


def _sum_noise(
    first: GibbsPosterior, noise_model: NoiseDistribution, trees: CellTrees
) -> tuple[Share | None, Mean | None]:
    """Sum the success probability and expected output over the model's cells; None for one that is not exact."""
    try:
        exact = sum_under_noise(first, noise_model, trees)
    except BudgetSpentError:
        return None, None
    share = None if exact.success is None else Share(*exact.success, 0, exact=True)
    return share, None if exact.output is None else Mean(*exact.output, 0, exact=True)


def _simulate_noise(query: Query, first: GibbsPosterior, decision: Decision) -> Evaluated | None:
    """Evaluate noisy copies of a decision; None if the budget allows too few."""
    n = min(first.affords(_COPIES), _COPIES)
    if n < _FEWEST_COPIES:
        return None
    shifts = offsets(query.evaluation.noise, query.space, stream(query.seed, ANSWERING, query.key), n)
    try:
        return evaluate_under_noise(first, query.space, decision.x[None, :], shifts, first_only=True)
    except BudgetSpentError:  # time ran out earlier than expected
        return None


def _read_promise(policy: Rule) -> float | None:
    """Return the success probability that a policy promises, if it has one."""
    promised: Any = getattr(policy, "probability", None)
    return float(promised) if isinstance(promised, (int, float)) else None


# --- proofs ----------------------------------------------------------------------------------------------------------


class Prover:
    """Proves targets unattainable from the structure of the first model, which is read only when needed."""

    def __init__(self, reader: CellReader) -> None:
        self._reader = reader

    @property
    def inside(self) -> ModelStructure | None:
        """Structure of the model, read once."""
        return self._reader.inside

    def foresees(self, query: Query, posterior: GibbsPosterior) -> bool:
        """Whether a short proof shows before anything else is evaluated that no row can reach the target."""
        if self.inside is None or query.row.reached[0, 0]:
            return False
        z = posterior.prior.draw(stream(query.seed, FORESEEING, query.key), _TRIED)
        if seems_attainable(self.inside, query.target, posterior.prior.place(z).x):
            return False
        return self.prove(query, posterior, query.row, **_EARLY) is not None

    def prove(self, query: Query, posterior: GibbsPosterior, known: Points, **work: Any) -> Proof | None:
        """Return a proof that no row can reach the target, None if a known one does or none is found in this work."""
        decides = query.target.reads_classes and posterior.predictors[0].decide_always  # by a threshold of its own
        if query.row.reached[0, 0] or known.reached[:, 0].any() or decides or self.inside is None:
            return None
        seen = known.take(_pick_checks(known))
        x, outputs = np.vstack([query.row.x, seen.x]), np.append(query.row.outputs[:, 0], seen.outputs[:, 0])
        work = work if posterior.budget.deadline is None else _WORK_IN_TIME
        trees = self._reader.read_unchecked(posterior.budget)  # checked by what is known
        if trees is None and isinstance(self.inside.parts, TreeScores):
            return None
        problem = query.space, query.x0, query.target, x, outputs
        return prove_unattainable(self.inside, *problem, trees, **work)


def _pick_checks(known: Points) -> Array:
    """Return positions of some points: those of least loss, and others evenly spread."""
    lowest = np.argsort(known.loss[:, 0], kind="stable")[: _CHECKED // 2]
    spread = np.linspace(0, len(known) - 1, min(len(known), _CHECKED // 2)).astype(int)
    return np.union1d(lowest, spread)
