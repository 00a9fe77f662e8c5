"""Validate an explanation from a file: types, shapes, weights, and values that features can have."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gbce._validation import is_count, is_number
from gbce.base import Array
from gbce.decisions import Strategies
from gbce.draws import PRIOR_LEVELS, TAIL_LEVELS, Draws, ExactFigures, Points, PoolRecord, SamplerInfo
from gbce.explanation import Answer, Decision, Explanation, Mean, SafeBox, Share, Status
from gbce.space import Space
from gbce.trees import Proof

_SUM_SLACK = 1e-6  # weights sum to one up to the rounding of a million of them

Test = Callable[[Array], Any]


def require_sound(explanation: Explanation) -> None:
    """Raise a ValueError that names the first inconsistency of an explanation."""
    draws, d, k = explanation.draws, len(explanation.space), len(explanation.models)
    _require_strings(explanation)
    _require_proof(explanation)
    latent = draws.pool.z.shape[1:]
    if len(latent) != 1 or not len(draws.pool):
        raise ValueError("the pool is empty or has no coordinates")
    _require_points("pool", draws.pool, len(draws.pool), latent[0], explanation.space, k)
    if draws.seen is not None:
        _require_points("seen", draws.seen, len(draws.seen), latent[0], explanation.space, k)
    _require_points("row", explanation.row, 1, latent[0], explanation.space, k)
    _require_draws(draws, d)
    if draws.record is not None:
        _require_record(draws.record, explanation.space, len(draws.pool))
    if draws.exact is not None:
        _require_exact(draws.exact, d, k)
    _require_conditions(explanation)
    for decision in explanation.decisions:
        _require_decision(decision, explanation.space, k)
    if explanation.answer is not None:
        _require_answer(explanation.answer, explanation.space, k)
    if explanation.strategies is not None:
        _require_strategies(explanation.strategies, explanation.space, len(draws.pool))
    _require_array("mixture.weights", explanation.mixture.weights, (k,), "f", _sums_to_one)
    explanation.space.frame(explanation.row.x)  # raises unless levels and dtypes make a table


def _require_array(name: str, array: Array, shape: tuple[int, ...], kinds: str, sound: Test) -> None:
    if np.shape(array) != shape:
        raise ValueError(f"{name} has the shape {np.shape(array)} instead of {shape}")
    if array.dtype.kind not in kinds:
        raise ValueError(f"{name} holds {array.dtype}")
    if not np.all(sound(array)):
        raise ValueError(f"{name} holds impossible values")


def _is_not_nan(array: Array) -> Array:
    return ~np.isnan(array)


def _accept_all(array: Array) -> bool:
    return True


def _sums_to_one(array: Array) -> bool:
    """Whether weights are non-negative and sum to one; false for NaN."""
    return bool((array >= 0).all() and abs(array.sum() - 1.0) <= _SUM_SLACK)


def _are_positions_in(n: int) -> Test:
    return lambda array: (array >= 0) & (array < n)


def _require_points(prefix: str, points: Points, n: int, m: int, space: Space, k: int) -> None:
    _require_array(f"{prefix}.z", points.z, (n, m), "f", np.isfinite)
    _require_array(f"{prefix}.x", points.x, (n, len(space)), "f", _are_values_of(space))
    for name in ("outputs", "loss"):  # a loss may be infinite, and is shown as the output where there are several
        _require_array(f"{prefix}.{name}", getattr(points, name), (n, k), "f", _is_not_nan)
    _require_array(f"{prefix}.reached", points.reached, (n, k), "b", _accept_all)
    for name in ("cost", "log_correction"):
        _require_array(f"{prefix}.{name}", getattr(points, name), (n,), "f", _is_not_nan)


def _are_values_of(space: Space) -> Test:
    """Return a test of whether values ``(..., d)`` are admissible for the features."""
    may_lack = np.array([feature.missing is not None for feature in space.features]) | space.is_computed
    levels = np.array([len(feature.levels) if feature.levels else np.inf for feature in space.features])
    leveled = np.isfinite(levels)

    def sound(x: Array) -> Array:
        code = ~leveled | ((x >= 0) & (x < levels) & (x == np.round(x)))
        return (np.isfinite(x) & code) | (np.isnan(x) & may_lack)

    return sound


def _require_draws(draws: Draws, d: int) -> None:
    n = len(draws.pool)
    _require_array("draws.pool_weights", draws.pool_weights, (n,), "f", _sums_to_one)
    _require_array("draws.index", draws.index, (len(draws.index),), "iu", _are_positions_in(n))
    _require_array("draws.weights", draws.weights, (len(draws.index),), "f", _sums_to_one)
    _require_array("draws.prior_change", draws.prior_change, (d,), "f", lambda change: change >= 0)
    _require_array("draws.log_base_weights", draws.log_base_weights, (n,), "f", _is_not_nan)
    if draws.groups is not None:
        _require_array("draws.groups", draws.groups, (n,), "iu", _are_positions_in(n))
    _require_info(draws.info)
    numbers: Sequence[Any] = (draws.log_evidence, draws.log_evidence_se, draws.evidence_inflation, *draws.rungs)
    if not draws.rungs or not all(is_number(number) and number == number for number in numbers):
        raise ValueError("the evidence or the rungs of the draws are not numbers")
    if (
        not (isinstance(draws.resampled, bool) and isinstance(draws.reweighted, bool))
        or draws.evidence_inflation < 0
        or draws.log_evidence_se < 0
        or min(draws.rungs) < 0
    ):
        raise ValueError("the flags or the evidence of the draws are impossible")


def _require_strategies(found: Strategies, space: Space, n: int) -> None:
    d, m, u, p, t = len(space), len(found.weights), len(found.needs), len(found.x), len(found.missed)
    kept = (len(found.index),) if len(found.index) == 0 else (m,)
    _require_array("strategies.index", found.index, kept, "iu", _are_positions_in(n))
    _require_array("strategies.weights", found.weights, (m,), "f", _sums_to_one)
    _require_array("strategies.which", found.which, (m,), "i", lambda which: (which >= -1) & (which < u))
    _require_array("strategies.needs", found.needs, (u, d), "i", lambda needs: np.abs(needs) <= 2)
    _require_array("strategies.x", found.x, (p, d), "f", _are_values_of(space))
    _require_array("strategies.outputs", found.outputs, (p,), "f", _is_not_nan)
    _require_array("strategies.reliability", found.reliability, (p,), "f", lambda share: (share >= 0) & (share <= 1))
    _require_array("strategies.holds", found.holds, (p,), "b", _accept_all)
    _require_array("strategies.strategy", found.strategy, (p,), "i", lambda strategy: strategy >= -1)
    _require_array("strategies.missed", found.missed, (t, d), "b", _accept_all)
    if len(found.proofs) != t or not is_count(found.copies):
        raise ValueError("the strategies have another number of proofs than sets, or no copies")


def _require_record(record: PoolRecord, space: Space, n: int) -> None:
    d = len(space)
    _require_array("record.change", record.change, (d,), "f", lambda change: change >= 0)
    _require_array("record.change_se", record.change_se, (d,), "f", lambda se: (se >= 0) | np.isnan(se))
    _require_array("record.prior_moves", record.prior_moves, (len(PRIOR_LEVELS), d), "f", np.isfinite)
    for shares in record.prior_shares:
        if len(shares):
            _require_array("record.prior_shares", shares, shares.shape, "f", _sums_to_one)
    if not is_count(record.n_evaluated, n) or not is_count(record.worst_of, 0):
        raise ValueError("the record of the pool counts fewer points than there are")
    if not all(is_number(size) and size > 0 for size in (record.ess, record.worst_ess)):
        raise ValueError("the record of the pool has no effective sample size")
    if not (is_number(record.pareto_k) and is_number(record.expected_potential)):
        raise ValueError("the record of the pool has no Pareto k, or no potential")
    for measure, model, value, se, low, high in record.figures:
        numbers = [value, se, *([] if low is None and high is None else [low, high])]
        if not (isinstance(measure, str) and isinstance(model, str) and all(map(is_number, numbers))):
            raise ValueError(f"the record of the pool has no number for {measure!r:.40}")
    if "success_probability" not in [measure for measure, *_ in record.figures]:
        raise ValueError("the record of the pool lacks the success probability")


def _require_exact(exact: ExactFigures, d: int, k: int) -> None:
    _require_array(
        "exact.success", exact.success, (k + 2,), "f", lambda share: (share >= 0) & (share <= 1 + _SUM_SLACK)
    )
    _require_array("exact.success_se", exact.success_se, (k + 2,), "f", lambda se: se >= 0)
    _require_array("exact.loss_levels", exact.loss_levels, (k, TAIL_LEVELS + 1), "f", _is_not_nan)
    _require_array("exact.change", exact.change, (d,), "f", lambda change: change >= 0)
    numbers = (exact.stability, exact.expected_loss, exact.expected_potential)
    if not is_count(exact.cells) or not all(is_number(number) and number == number for number in numbers):
        raise ValueError("the exact figures are not numbers, or have no cells")


def _require_info(info: SamplerInfo) -> None:
    """Check the types of the usual entries of a report; further ones of a user's sampler are not checked."""
    evidence = info.model_evidence
    sound = {
        "sampler": isinstance(info.sampler, str),
        "complete": isinstance(info.complete, bool),
        "goal_met": info.goal_met is None or isinstance(info.goal_met, bool),
        "r_hat": info.r_hat is None or is_number(info.r_hat),
        "joint": info.joint is None or isinstance(info.joint, bool),
        "ended": info.ended is None or isinstance(info.ended, str),
        "model_evidence": evidence is None or (isinstance(evidence, tuple) and all(map(is_number, evidence))),
    }
    for name, right in sound.items():
        if not right:
            raise ValueError(f"the sampler's {name} is {getattr(info, name)!r:.80}")


def _require_decision(decision: Decision, space: Space, k: int) -> None:
    prefix = f"decision {decision.label!r}:"
    _require_array(f"{prefix} x", decision.x, (len(space),), "f", _are_values_of(space))
    for name in ("outputs", "loss"):
        _require_array(f"{prefix} {name}", getattr(decision, name), (k,), "f", _is_not_nan)
    _require_array(f"{prefix} reached", decision.reached, (k,), "b", _accept_all)
    if decision.proof is not None:
        _require_valid_proof(decision.proof)
    if not is_number(decision.cost) or np.isnan(decision.cost):  # the other figures may not have been computed
        raise ValueError(f"{prefix} cost is not a number")


def _require_answer(answer: Answer, space: Space, k: int) -> None:
    _require_decision(answer.decision, space, k)
    if not (
        all(isinstance(text, str) for text in (answer.policy, answer.reason, answer.proof, answer.doubt))
        and all(name in space.position for name in answer.against)
        and is_number(answer.cost)
    ):
        raise ValueError("the answer has fields of the wrong type")
    for name, share in (("reliability", answer.reliability), ("survival", answer.survival)):
        if share is not None and not (
            all(is_number(number) and 0 <= number <= 1 for number in share[:3]) and _is_counted(share)
        ):
            raise ValueError(f"the answer's {name} is {share!r:.80}")
    mean = answer.expected
    if mean is not None and not (all(is_number(number) for number in mean[:3]) and _is_counted(mean)):
        raise ValueError(f"the answer's expected output is {mean!r:.80}")
    if answer.safe is not None:
        _require_safe(answer.safe)
    if answer.promised is not None and not (is_number(answer.promised) and 0 <= answer.promised <= 1):
        raise ValueError(f"the answer promises {answer.promised!r:.80}")


def _is_counted(held: Share | Mean) -> bool:
    """Whether a figure is exact without trials, or has a number of trials."""
    return isinstance(held.exact, bool) and (held.n == 0 if held.exact else is_count(held.n))


def _require_safe(box: SafeBox) -> None:
    known = all(isinstance(name, str) and name in box.space.position for name in box.features)
    if not known or not box.low.shape == box.high.shape == (len(box.features),) or not (box.low <= box.high).all():
        raise ValueError(f"the answer's safe ranges are {box.features!r:.80}, {box.low!r:.80} and {box.high!r:.80}")


def _require_conditions(explanation: Explanation) -> None:
    """Check that conditions name existing columns and that the draws meet them."""
    pool = explanation.draws.pool
    counted = pool.x[np.isfinite(pool.log_correction)]
    for condition in explanation.query.conditions:
        if condition.name not in explanation.space.position or not isinstance(condition.text, str):
            raise ValueError(f"a condition names the column {condition.name!r:.80}, which does not exist")
        if not condition.holds(explanation.space, counted).all():
            raise ValueError(f"points of the pool do not meet the condition {condition.text!r:.80}")


def _require_proof(explanation: Explanation) -> None:
    proof = explanation.proof
    if proof is None:
        return
    _require_valid_proof(proof)
    if explanation.status != Status.NOT_ATTAINED:
        raise ValueError(f"there is a proof, but the status is {explanation.status}")


def _require_valid_proof(proof: Proof) -> None:
    numbers = (proof.bound, proof.lower, proof.cost, proof.optimum)
    bounded = all(one is None or (is_number(one) and one == one) for one in numbers)
    counted = is_count(proof.boxes) and isinstance(proof.least_changes, int) and proof.least_changes >= 0
    if proof.kind not in ("trees", "linear") or not isinstance(proof.sentence, str) or not (bounded and counted):
        raise ValueError(f"the proof is {proof!r:.80}")


def _require_strings(explanation: Explanation) -> None:
    strings = (
        *explanation.models,
        *explanation.notes,
        explanation.status_note,
        explanation.status,
        *(one.label for one in explanation.decisions),
    )
    if not explanation.models or not all(isinstance(text, str) for text in strings):
        raise ValueError("names and notes must be strings, and there must be a model")
    for name in ("seed", "n_model_calls", "n_model_rows"):
        count = getattr(explanation, name)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ValueError(f"{name} is {count!r}")
