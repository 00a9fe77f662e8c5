"""What goes into the explorer: an explanation as plain data, with every point that the page weighs anew."""

from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import ENOUGH_ESS
from gbce._validation import printable
from gbce.base import Array
from gbce.decisions import answers_among
from gbce.explanation import Explanation
from gbce.metrics import pareto_front
from gbce.pages._arrays import pack_array
from gbce.pages._columns import describe_columns
from gbce.pages._known import Known, effective_factor, gather_points
from gbce.pages._receipt import receipt_of
from gbce.pages._rules import when_to_use
from gbce.posterior import Mixture
from gbce.space import plain_records, plain_value

__all__ = ["explorer_payload"]

# The eta slider: from the prior, then evenly on a logarithmic scale around the explanation's own; all by hand.
_STEPS_BELOW, _STEPS_ABOVE = 40, 16
_SMALLEST, _LARGEST = 1e-3, 8.0  # as shares of eta
_FEW_STEPS = 4  # only every so many where each step has a column of its own
_MOST_LOSSES = 12  # models whose losses are kept one by one; of more, the potential at every step is
_MOST_ALTERNATIVES = 4
_SAME_COST = 1e-6  # relative: two ways to measure agree at every step of a frontier only if they are the same
_ETA_DIGITS = 3  # of the slider's positions, so that what the page shows of one is all of it
_LOSS_PRECISION = 1e-6  # of a potential that losses may be off by: weights are then off by as little


def explorer_payload(explanation: Explanation, frontier: pd.DataFrame | None = None) -> dict[str, Any]:
    """Return everything that the explorer shows of an explanation, as plain data.

    Parameters
    ----------
    explanation : Explanation
        Of one row.
    frontier : DataFrame, optional
        What :meth:`gbce.Explainer.frontier` returned for it; what its draws and decisions know when left out.

    Returns
    -------
    dict
        Strict JSON; arrays as :func:`gbce.pages.pack_array` has them.
    """
    known = gather_points(explanation)
    for decision in explanation.decisions:  # those beside a rule's answer, too: Python suggests them where they fit
        known.add_decision(decision)
    named = {
        "answer": _answer(explanation, known),
        "decisions": _decisions(explanation, known),
        "sparsity": _sparsity(explanation, known),
        "frontier": _frontier(explanation, known, frontier),
        "alternatives": _alternatives(explanation, known),
    }
    points = sorted({one for one in _positions(named) if one is not None})
    content = {
        "title": _title(explanation),
        "target": printable(explanation.target.describe()),
        "status": str(explanation.status),
        "notes": [printable(note) for note in explanation.notes],
        "conditions": [printable(one) for one in explanation.conditions],
        "models": [printable(name) for name in explanation.models],
        "row": _row(explanation),
        **named,
        "columns": describe_columns(explanation, known.x),
        "points": _points(explanation, known),
        # points that somebody may act on, with all their digits
        "exact": {str(i): plain_value(known.x[i]) for i in points},
        "said": {str(i): _say(explanation, known.output[i], bool(known.verdicts[i, 0])) for i in points},
        "path": _path(explanation),
        "disagreement": _disagreement(explanation),
        "quality": _quality(explanation),
        "receipt": receipt_of(explanation),
    }
    plain: dict[str, Any] = plain_value(content)
    return plain


def _positions(named: dict[str, Any]) -> list[int | None]:
    """Return where points are that the parts of a payload name."""
    answer = [named["answer"]["point"]] if named["answer"] else []
    listed = [named["decisions"], named["sparsity"], named["frontier"]["steps"], named["alternatives"]["listed"]]
    return answer + [one["point"] for part in listed for one in part]


def _title(explanation: Explanation) -> str:
    return f"What would have to change (wanted: {printable(explanation.target.describe())})"


def _row(explanation: Explanation) -> dict[str, Any]:
    """Return what the models say about the row as it is."""
    row = explanation.row
    return {
        "output": float(row.outputs[0, 0]),
        "reached": bool(row.reached[0, 0]),
        "said": [
            {"model": printable(name), "said": _say(explanation, row.outputs[0, k], bool(row.reached[0, k]))}
            for k, name in enumerate(explanation.models)
        ],
    }


def _say(explanation: Explanation, output: float, reached: bool) -> str:
    """Return what the first model says, as a sentence goes on after its name."""
    if np.isnan(output):
        return "reaches the target" if reached else "misses the target"
    return printable(explanation.target.say(float(output), reached))


# --- points that something has named -----------------------------------------------------------------------------


def _answer(explanation: Explanation, known: Known) -> dict[str, Any] | None:
    answer = explanation.answer
    if answer is None:
        return None
    said = answer.to_dict()
    return {name: said[name] for name in ("kind", "reached", "n_changes", "cost", "policy", "promised")} | {
        "point": known.add_decision(answer.decision),
        "sentence": printable(answer.sentence),
        "because": printable(answer.because),
        "proof": printable(answer.proof),
        "reliability": said["reliability"],
        "expected": said["expected"],
        "survival": said["survival"],
    }


def _decisions(explanation: Explanation, known: Known) -> list[dict[str, Any]]:
    figures, decided = explanation.pointwise, answers_among(explanation.decisions)
    names = ("output", "reached", "loss", "distance", "robustness", "robustness_se", "plausibility", "changed")
    return [
        {name: plain_value(line[name]) for name in names}
        | {"rule": printable(one.label), "when": printable(when_to_use(one.rule)), "point": known.add_decision(one)}
        for one, (_, line) in zip(decided, figures.iterrows(), strict=True)
    ]


def _sparsity(explanation: Explanation, known: Known) -> list[dict[str, Any]]:
    """Return the best point for each number of changes, where a rule has sought them."""
    table = explanation.sparsity_path
    if len(table) == 0:
        return []
    own = known.space.frame(known.x[:1]).columns
    cost, reached = (table.iloc[:, k].tolist() for k in (1, 5))
    lines = zip(table.index.tolist(), cost, reached, known.add_table(table[list(own)]), strict=True)
    return [{"changes": int(n), "cost": one, "reached": bool(met), "point": at} for n, one, met, at in lines]


def _frontier(explanation: Explanation, known: Known, measured: pd.DataFrame | None) -> dict[str, Any]:
    """Return the cheapest point for every reliability: as it was measured, else among what is known."""
    if measured is not None:
        steps = _frontier_steps(known, measured)
        sums = known.cost[[one["point"] for one in steps]]
        added_up = np.allclose(sums, [one["cost"] for one in steps], rtol=_SAME_COST)
        return {"of": "measured", "by": "cost" if added_up else "distance", "steps": steps}
    if int((explanation.mixture.weights > 0).sum()) > 1:
        return {"of": "models", "by": "cost", "steps": _frontier_steps(known, explanation.frontier(distance="l1"))}
    tried = [(one, one.figures.get("robustness", np.nan)) for one in answers_among(explanation.decisions)]
    answer = explanation.answer
    if answer is not None and answer.reliability is not None:
        tried.append((answer.decision, answer.reliability.share))
    # of a point that was tried twice, the answer's own trials count: they had no part in choosing it
    shares = {known.add_decision(one): share for one, share in tried if np.isfinite(share) and one.reached[0]}
    at, share = list(shares), np.array(list(shares.values()))
    cost = known.cost[at]
    front: list[int] = pareto_front(share, cost).tolist() if at else []
    steps = [{"reliability": float(share[i]), "cost": float(cost[i]), "point": at[i]} for i in front]
    return {"of": "noise", "by": "cost", "steps": steps}


def _frontier_steps(known: Known, table: pd.DataFrame) -> list[dict[str, Any]]:
    if not isinstance(table, pd.DataFrame) or table.index.name != "reliability" or len(table.columns) == 0:
        raise TypeError(
            "to_html: frontier must be the table that explainer.frontier(explanation, ...) or explanation.frontier() "
            f"returned, not {table!r:.80}"
        )
    distance = table.iloc[:, 0].astype(float)
    lines = zip(table.index.tolist(), distance.tolist(), known.add_table(table), strict=True)
    return [{"reliability": float(share), "cost": one, "point": at} for share, one, at in lines]


def _alternatives(explanation: Explanation, known: Known) -> dict[str, Any]:
    """Return distinct strategies, or why there are none to tell."""
    draws = explanation.draws
    if draws.record is not None or draws.ess < ENOUGH_ESS or not draws.info.draws_posterior:
        why = "there are too few effective draws" if draws.record is None else "the points were not kept"
        why = why if draws.info.draws_posterior else "only an answer was asked for"
        return {"listed": [], "other": None, "why": f"Distinct ways cannot be told apart here: {why}."}
    found = explanation.alternatives(_MOST_ALTERNATIVES)
    own = len(known.space.frame(known.x[:1]).columns)
    rows = found.table.iloc[:, -own:].set_axis(known.space.frame(known.x[:1]).columns, axis=1)
    at = known.add_table(rows)
    listed = [
        {
            "mass": line["mass"],
            "mass_se": line["mass_se"],
            "success": line["success"],
            "reached": bool(line["reached"]),
            "output": line["output"],
            "cost": line["cost"],
            "sentence": printable(line["sentence"]),
            "point": at[i],
        }
        for i, (_, line) in enumerate(found.table.iterrows())
    ]
    return {"listed": listed, "other": found.other, "why": ""}


# --- points that are weighed -------------------------------------------------------------------------------------


def _points(explanation: Explanation, known: Known) -> dict[str, Any]:
    draws, mixture = explanation.draws, explanation.mixture
    n = known.n_pool
    fixed = draws.record is not None
    etas = np.array([mixture.eta]) if fixed else _slider(mixture, len(mixture.weights))
    verdicts = known.verdicts.astype(float)
    return {
        "n": len(known),
        "n_pool": n,
        "n_evaluated": known.n_evaluated,
        "n_draws": len(draws),
        "etas": etas,
        "eta": mixture.eta,
        "fixed": fixed,
        "alpha": explanation.evaluation.alpha,
        "own": _own_figures(explanation),
        "own_ess": draws.ess,
        "ess_factor": effective_factor(draws),
        "sparse": explanation.query.sparse,
        "log_prior": pack_array(known.log_prior[:n]),
        **_potential(mixture, known.loss[:n], etas, fixed),
        "loss": _pack_loss(known.loss[:n, 0], float(etas.max())),
        "reached": pack_array(verdicts[:, 0]),
        "agreed": pack_array(verdicts @ mixture.weights, precision=1e-6),
        "output": pack_array(known.output, precision=1e-6 * _spread(known.output)),
        "cost": pack_array(known.cost, precision=1e-6),
        "distance": pack_array(known.distance, precision=1e-6),
    }


def _own_figures(explanation: Explanation) -> dict[str, float]:
    """Return the figures of the question as it was asked, as Python's tables have them."""
    said, space = explanation.distribution, explanation.space
    draws, counted = explanation.draws.read, explanation.free[~space.is_computed[explanation.free]]
    several = int((explanation.mixture.weights > 0).sum()) > 1
    return {
        "success": said["success_probability"],
        "distance": said["expected_distance"],
        "loss": said["expected_loss"],
        "tail": said["tail"],
        "changes": float(draws.mean(space.changed(draws.pool.x, explanation.x0)[:, counted].sum(axis=1))),
        "differ": explanation.disagreement().overall["differ"] if several else 0.0,
    }


def _slider(mixture: Mixture, n_models: int) -> Array:
    """Return the etas that the slider has, the explanation's own among them."""
    if mixture.eta == 0:
        return np.zeros(1)
    below = np.geomspace(_SMALLEST, 1.0, _STEPS_BELOW + 1)[:-1]
    above = np.geomspace(1.0, _LARGEST, _STEPS_ABOVE + 1)
    if mixture.combine == "any" and n_models > _MOST_LOSSES:
        below, above = below[::_FEW_STEPS], above[::_FEW_STEPS]
    others = [float(f"{eta:.{_ETA_DIGITS}g}") for eta in (*(below * mixture.eta), *(above[1:] * mixture.eta))]
    return np.unique([0.0, mixture.eta, *others])


def _potential(mixture: Mixture, loss: Array, etas: Array, fixed: bool) -> dict[str, Any]:
    """Return what the page needs to weigh points at any eta of the slider.

    ``how`` is ``"none"`` (weights are what they are), ``"one"`` (eta times one loss), ``"any"`` (the mixture of a few
    models' losses, the member t = eta of the entropic family) or ``"steps"`` (the potential at every eta).
    """
    counted, most = mixture.weights > 0, float(etas.max())
    if fixed:
        return {"how": "none", "losses": [], "shares": []}
    if mixture.combine != "any" or counted.sum() == 1:
        return {"how": "one", "losses": [_pack_loss(mixture.effective_loss(loss), most)], "shares": [1.0]}
    if counted.sum() <= _MOST_LOSSES:
        losses = [_pack_loss(loss[:, k], most) for k in np.flatnonzero(counted)]
        return {"how": "any", "losses": losses, "shares": mixture.weights[counted]}
    steps = [Mixture(float(eta), mixture.weights, mixture.combine).potential(loss) for eta in etas]
    return {"how": "steps", "losses": [pack_array(step, precision=_LOSS_PRECISION) for step in steps], "shares": []}


def _pack_loss(loss: Array, eta: float) -> dict[str, Any]:
    return pack_array(loss, precision=_LOSS_PRECISION / max(eta, 1.0))


def _spread(values: Array) -> float:
    finite = values[np.isfinite(values)]
    return float(np.ptp(finite)) if len(finite) else 0.0


# --- tables as they are ------------------------------------------------------------------------------------------


def _path(explanation: Explanation) -> list[dict[str, Any]]:
    """Return the eta path; nothing where the points were not kept."""
    if explanation.draws.record is not None:
        return []
    mixture = explanation.mixture
    with np.errstate(over="ignore", invalid="ignore"):  # at etas that the points do not carry, whose lines are empty
        table = explanation.path(_slider(mixture, len(mixture.weights)).tolist())
    names = ["success_probability", "success_probability_se", "expected_distance", "expected_distance_se", "ess"]
    return plain_records(table[names])


def _disagreement(explanation: Explanation) -> dict[str, Any] | None:
    if int((explanation.mixture.weights > 0).sum()) < 2:
        return None
    found = explanation.disagreement()
    return {
        "sentence": printable(found.sentence),
        "differ": found.overall["differ"],
        "pairs": [
            {"models": [printable(str(name)) for name in pair], "differ": line["differ"], "se": line["se"]}
            for pair, line in found.pairs.iterrows()
        ],
        "where": [
            {"column": printable(str(name)), "difference": line["difference"], "se": line["se"]}
            for name, line in found.where.iterrows()
        ],
    }


def _quality(explanation: Explanation) -> dict[str, Any]:
    """Return how well it was sampled."""
    said = explanation.diagnostics
    figures = [
        ("effective draws", said["ess"]),
        ("draws", said["n_draws"]),
        ("points evaluated", said["n_evaluated"]),
        ("log evidence", said["log_evidence"]),
        ("its error", said["log_evidence_se"]),
        ("Pareto k of the weights", said["pareto_k"]),
        ("R-hat of the chains", said.get("r_hat")),
        ("model calls", explanation.n_model_calls),
        ("model rows", explanation.n_model_rows),
    ]
    return {
        "verdict": str(said["sampling"]),
        "good": str(said["sampling"]) == "trustworthy",
        "note": printable(said["sampling_note"]),
        "figures": [[name, value] for name, value in figures if plain_value(value) is not None],
    }
