"""The explorer page of an explanation: its data for the page's script, with all points that the page reweights."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import ENOUGH_ESS
from gbce._validation import printable
from gbce.base import Array, Rule
from gbce.decisions import answers_among
from gbce.draws import Draws
from gbce.explanation import Explanation, Status, format_value
from gbce.metrics import MOSTLY, Verdict, pareto_front, prior_moves, prior_shares
from gbce.pages._document import Known, build_page, effective_factor, gather_points, pack_array, receipt_of, write_page
from gbce.posterior import Mixture
from gbce.space import Space, plain_records, plain_value


@dataclass(frozen=True)
class _Tuning:
    """What a page stores, and how precisely; by hand."""

    # units of scale: largest error of a value in a page, which keeps three digits of any figure
    precision: float = 1e-5
    ends: tuple[float, float, float] = (0.05, 0.5, 0.95)  # quantiles, as in explanation.intervals()
    # The eta slider: zero, then evenly on a logarithmic scale around the explanation's own; all chosen by hand.
    steps_below: int = 40
    steps_above: int = 16
    smallest: float = 0.001  # as multiples of eta
    largest: float = 8.0
    few_steps: int = 4  # keep every fourth step if each has a column of potentials
    most_losses: int = 12  # models whose losses are stored; with more, the potential at every step is
    most_alternatives: int = 4
    a_year: float = 2000.0  # written without a comma in columns of years
    menu_columns: int = 3  # of the menu: as its own default, and as many sets as it prints
    menu_sets: int = 12
    same_cost: float = 1e-6  # relative tolerance to recognise how a frontier measures cost
    eta_digits: int = 3  # significant digits of the slider's positions, so that the page shows them in full
    loss_precision: float = 1e-5  # largest error of a potential, and so of a log weight
    near_zero: float = 1e3  # of a potential: its error in single precision is below 1e-4
    largest_single: float = 1e30  # of a loss in single precision, which ends at 3e38


_TUNING = _Tuning()

# When to use each rule, by the name of its class.
_WHEN = {
    "Nearest": "Use it when the change is certain to be carried out exactly and has to be as small as possible.",
    "Reliable": "Use it when people carry out the change: the cheapest one that still works if it is not exact.",
    "ChanceConstrained": "Use it when a given probability of success has to be kept although changes are not exact.",
    "CVaR": "Use it when a failure would be expensive: it looks at the worst cases, and pays for safety.",
    "MAP": "Use it when you want the single most probable compromise between staying near and reaching the target.",
    "Mean": "Use it as a summary of where the draws lie; between two separate modes it may itself miss the target.",
    "GeometricMedian": "Use it as a summary that is robust to a few distant draws.",
    "Medoid": "Use it when the suggestion has to be one of the draws, the most central one.",
    "DirectOpt": "Use it for comparison with plain optimisation, which finds one point and no uncertainty.",
    "DiverseSet": "Use it to offer several different suggestions, and let a person choose.",
    "RandomDraw": "Use it when many people get suggestions and these should not all be the same.",
}

# Elements that the script fills, and a note for browsers without scripts.
_BODY = """<a class="skip" href="#answer">Skip to the answer</a>
<header id="top"></header>
<main id="page"><noscript><p>This page needs JavaScript, which is part of the file; nothing is loaded from any
network.</p></noscript></main>
<footer id="foot"></footer>"""


def explore(
    explanation: "Explanation", path: str | Path | None = None, *, frontier: pd.DataFrame | None = None
) -> str | Path:
    """Return the explorer as a string, or write it to ``path``, see :meth:`gbce.Explanation.to_html`."""
    if len(explanation.draws) == 0:
        raise ValueError("to_html: the explanation has no draws, so there is nothing to explore; explain the row again")
    payload = explorer_payload(explanation, frontier)
    scripts = ["common.js", "words.js", "weights.js", "charts.js", "asking.js", "card.js", "explorer.js"]
    page = build_page(payload["title"], payload, scripts, ["page.css", "explorer.css"], _BODY)
    return page if path is None else write_page(page, path)


# --- columns ---------------------------------------------------------------------------------------------------------


def describe_columns(explanation: Explanation, x: Array) -> list[dict[str, Any]]:
    """Return the data of each feature, with its values at points ``(n, d)``."""
    space, importance = explanation.space, explanation.importance
    free = set(explanation.free.tolist())
    quantiles = [explanation.quantiles(q) for q in _TUNING.ends]
    found = []
    for j, feature in enumerate(space.features):
        now, moved = explanation.x0[j], importance.iloc[j]
        found.append(
            {
                "name": space.label(j),
                "key": feature.name,
                "digits": feature.digits,
                "grouped": "," in space.format(j, _TUNING.a_year, unit=False) if feature.kind == "integer" else True,
                "kind": feature.kind,
                "unit": printable(feature.unit) if feature.kind == "real" or feature.kind == "integer" else "",
                "scale": feature.scale,
                "free": j in free,
                "computed": bool(space.is_computed[j]),
                "missing": feature.missing is not None,
                "now": None if np.isnan(now) else float(now),
                "levels": None if not feature.leveled else _list_levels(space, j),
                "written": None if not feature.leveled else [plain_value(level) for level in feature.levels or ()],
                "moments": _list_dates(space, j, x[:, j]) if feature.kind == "datetime" else None,
                "values": pack_array(
                    x[:, j], precision=_TUNING.precision * feature.scale, apart_from=float(now), mostly=now
                ),
                "change": plain_value(moved["change"]),
                "change_se": plain_value(moved["se"]),
                "prior": _read_prior(explanation.draws, space, explanation.x0, j),
                "own": {
                    "change": moved["change"],
                    "ends": None if feature.unordered else _make_plain([ends[j] for ends in quantiles]),
                    "shares": None if not feature.leveled else _list_shares(explanation, j),
                },
            }
        )
    return found


def _list_levels(space: Space, j: int) -> list[str]:
    return [format_value(space, j, float(code)) for code in range(len(space.features[j].levels or ()))]


def _list_dates(space: Space, j: int, values: Array) -> dict[str, Any]:
    """Return all distinct dates in order, as numbers and as strings."""
    every = np.unique(values[~np.isnan(values)])
    return {"values": pack_array(every), "texts": [format_value(space, j, float(one)) for one in every]}


def _read_prior(draws: Draws, space: Space, x0: Array, j: int) -> dict[str, Any] | None:
    """Return prior figures of a feature if the pool, from which the page computes them, was not kept."""
    if draws.record is None:
        return None
    feature = space.features[j]
    if feature.leveled:
        return {"shares": _make_plain(prior_shares(draws, space, j))}
    start = (feature.centre or 0.0) if np.isnan(x0[j]) else x0[j]
    return {"ends": _make_plain(start + feature.scale * prior_moves(draws, space, x0, j, _TUNING.ends))}


def _list_shares(explanation: Explanation, j: int) -> list[Any]:
    """Return the posterior probability of each level, and last of a missing value."""
    found = explanation.shares(explanation.space.names[j])["posterior"].to_numpy(dtype=float)
    return _make_plain(found if explanation.space.features[j].missing is not None else np.append(found, 0.0))


def _make_plain(values: Sequence[float] | Array) -> list[Any]:
    return [plain_value(float(value)) for value in values]


# --- payload ---------------------------------------------------------------------------------------------------------


def explorer_payload(explanation: Explanation, frontier: pd.DataFrame | None = None) -> dict[str, Any]:
    """Return the data of the explorer as strict JSON, with arrays packed by :func:`gbce.pages.pack_array`."""
    known = gather_points(explanation)
    for decision in explanation.decisions:  # including a rule's alternatives, which given() may suggest
        known.add_decision(decision)
    named = {
        "answer": _pack_answer(explanation, known),
        "decisions": _pack_decisions(explanation, known),
        "sparsity": _pack_sparsity(explanation, known),
        "frontier": _pack_frontier(explanation, known, frontier),
        "alternatives": _pack_alternatives(explanation, known),
        "menu": _pack_menu(explanation),
    }
    n_suggested = len(known)
    measured = _measure_strategies(explanation, known)
    points = sorted({one for one in [*_find_positions(named), *measured] if one is not None})
    content = {
        "title": _write_title(explanation),
        "target": printable(explanation.target.describe()),
        "status": str(explanation.status),
        "notes": [printable(note) for note in explanation.notes],
        "conditions": [printable(one) for one in explanation.conditions],
        "models": [printable(name) for name in explanation.models],
        "row": _pack_row(explanation),
        **named,
        "measured": {str(at): share for at, share in measured.items()},
        "columns": describe_columns(explanation, known.x),
        # given() chooses among the first of them; those after it are for whoever wants a reliability
        "points": _pack_points(explanation, known) | {"n_suggested": n_suggested},
        # points that people may act on, in full precision
        "exact": {str(i): plain_value(known.x[i]) for i in points},
        "said": _pack_verdicts(explanation, known),
        "path": _pack_path(explanation),
        "disagreement": _pack_disagreement(explanation),
        "quality": _pack_quality(explanation),
        "receipt": receipt_of(explanation),
    }
    plain: dict[str, Any] = plain_value(content)
    return plain


def _find_positions(named: dict[str, Any]) -> list[int | None]:
    """Return the positions of the points named in a payload."""
    answer = [named["answer"]["point"]] if named["answer"] else []
    listed = [named["decisions"], named["sparsity"], named["frontier"]["steps"], named["alternatives"]["listed"]]
    return answer + [one["point"] for part in listed for one in part]


def _write_title(explanation: Explanation) -> str:
    wanted = printable(explanation.target.describe())
    if explanation.status == Status.NOT_ATTAINED:
        return f"How near this case comes to the target: {wanted}"
    level = wanted.removeprefix("class ")
    if level == wanted:
        return f"How this case could reach the target: {wanted}"
    named = level.startswith(("'", '"'))  # a word speaks for itself, a number does not
    return f"How this case could become {level if named else wanted}"


def _pack_row(explanation: Explanation) -> dict[str, Any]:
    """Return the models' outputs for the row."""
    row = explanation.row
    return {
        "output": float(row.outputs[0, 0]),
        "reached": bool(row.reached[0, 0]),
        "said": [
            {
                "model": printable(name),
                "said": _describe_output(explanation, row.outputs[0, k], bool(row.reached[0, k])),
            }
            for k, name in enumerate(explanation.models)
        ],
    }


def _pack_verdicts(explanation: Explanation, known: Known) -> dict[str, Any]:
    """Return what the first model says of each point: the texts, and the place of each point's."""
    texts = [
        _describe_output(explanation, float(output), bool(reached))
        for output, reached in zip(known.output, known.verdicts[:, 0], strict=True)
    ]
    place = {one: k for k, one in enumerate(dict.fromkeys(texts))}
    return {"texts": list(place), "at": pack_array(np.array([place[one] for one in texts]))}


def _describe_output(explanation: Explanation, output: float, reached: bool) -> str:
    """Return the first model's output as the predicate of a sentence."""
    if np.isnan(output):
        return "reaches the target" if reached else "misses the target"
    return printable(explanation.target.say(float(output), reached))


# --- answer, decisions and alternatives ------------------------------------------------------------------------------


def _measure_strategies(explanation: Explanation, known: Known) -> dict[int, float]:
    """Return the reliability of the points of strategies, by position: those that noise was tried on."""
    found = explanation.strategies
    if found is None:
        return {}
    unknown, reached = np.full(known.loss.shape[1], np.nan), np.ones(known.loss.shape[1], dtype=bool)
    tried = zip(found.x, found.outputs.tolist(), found.reliability.tolist(), strict=True)
    return {known.add(x, unknown, reached, output): share for x, output, share in tried if np.isfinite(share)}


def _pack_answer(explanation: Explanation, known: Known) -> dict[str, Any] | None:
    answer = explanation.answer
    if answer is None:
        return None
    fields, sentence = answer.to_dict(), printable(answer.sentence)
    verdict = _describe_output(explanation, float(answer.decision.outputs[0]), answer.reached) + "."
    head = sentence.find(verdict) + len(verdict) if answer.reached and verdict in sentence else len(sentence)
    return {name: fields[name] for name in ("kind", "reached", "n_changes", "cost", "policy", "promised")} | {
        "point": known.add_decision(answer.decision),
        "sentence": sentence,
        "head": head,  # characters that say what to do and what the model then returns
        "because": printable(answer.because),
        "proof": printable(answer.proof),
        "reliability": fields["reliability"],
        "expected": fields["expected"],
        "survival": fields["survival"],
    }


def when_to_use(rule: Rule | None) -> str:
    """Return one sentence on when to use a rule; for a user-defined rule, the first line of its docstring."""
    if rule is None:
        return "A row given by the user."
    if rule.kind in _WHEN:
        return _WHEN[rule.kind]
    docstring = inspect.getdoc(type(rule)) or ""
    return docstring.split("\n", 1)[0] or "A user-defined rule."


def _pack_decisions(explanation: Explanation, known: Known) -> list[dict[str, Any]]:
    figures, decided = explanation.pointwise, answers_among(explanation.decisions)
    names = ("output", "reached", "loss", "cost", "distance", "robustness", "robustness_se", "plausibility", "changed")
    return [
        {name: plain_value(line[name]) for name in names}
        | {"rule": printable(one.label), "when": printable(when_to_use(one.rule)), "point": known.add_decision(one)}
        for one, (_, line) in zip(decided, figures.iterrows(), strict=True)
    ]


def _pack_sparsity(explanation: Explanation, known: Known) -> list[dict[str, Any]]:
    """Return the best point for each number of changes, if a rule has a path."""
    table = explanation.sparsity_path
    if len(table) == 0:
        return []
    own = known.space.frame(known.x[:1]).columns
    cost, reached = (table.iloc[:, k].tolist() for k in (1, 5))
    lines = zip(table.index.tolist(), cost, reached, known.add_table(table[list(own)]), strict=True)
    return [{"changes": int(n), "cost": one, "reached": bool(met), "point": at} for n, one, met, at in lines]


def _pack_frontier(explanation: Explanation, known: Known, measured: pd.DataFrame | None) -> dict[str, Any]:
    """Return the cheapest point for every reliability, from a measured table if given, else among known points."""
    if measured is not None:
        steps = _list_frontier_steps(known, measured)
        sums = known.cost[[one["point"] for one in steps]]
        added_up = np.allclose(sums, [one["cost"] for one in steps], rtol=_TUNING.same_cost)
        return {"of": "measured", "by": "cost" if added_up else "distance", "steps": steps}
    if int((explanation.mixture.weights > 0).sum()) > 1:
        return {"of": "models", "by": "cost", "steps": _list_frontier_steps(known, explanation.frontier())}
    tried = [(one, one.figures.get("robustness", np.nan)) for one in answers_among(explanation.decisions)]
    answer = explanation.answer
    if answer is not None and answer.reliability is not None:
        tried.append((answer.decision, answer.reliability.share))
    # the answer's own estimate replaces the robustness of a decision at the same point: its noise was held out
    shares = {known.add_decision(one): share for one, share in tried if np.isfinite(share) and one.reached[0]}
    at, share = list(shares), np.array(list(shares.values()))
    cost = known.cost[at]
    front: list[int] = pareto_front(share, cost).tolist() if at else []
    steps = [{"reliability": float(share[i]), "cost": float(cost[i]), "point": at[i]} for i in front]
    return {"of": "noise", "by": "cost", "steps": steps}


def _list_frontier_steps(known: Known, table: pd.DataFrame) -> list[dict[str, Any]]:
    if not isinstance(table, pd.DataFrame) or table.index.name != "reliability" or len(table.columns) == 0:
        raise TypeError(
            "to_html: frontier must come from explainer.frontier(explanation, ...) or explanation.frontier(), "
            f"not {table!r:.80}"
        )
    cost = table.iloc[:, 0].astype(float)
    lines = zip(table.index.tolist(), cost.tolist(), known.add_table(table), strict=True)
    return [{"reliability": float(share), "cost": one, "point": at} for share, one, at in lines]


def _pack_alternatives(explanation: Explanation, known: Known) -> dict[str, Any]:
    """Return distinct strategies, each with a point that reaches the target, or the reason for their absence."""
    why = _find_obstacle(explanation)
    if why:
        return {"listed": [], "other": None, "why": f"Different ways cannot be distinguished here: {why}."}
    found = explanation.alternatives(_TUNING.most_alternatives)
    if found.note:
        return {"listed": [], "other": None, "why": printable(found.note)}
    reach = float(explanation.distribution["success_probability"])
    unknown = np.full(known.loss.shape[1], np.nan)
    lines = zip(found.x, found.table["reached"], found.table["output"], strict=True)
    at = [known.add(x, unknown, np.full(len(unknown), bool(met)), float(output)) for x, met, output in lines]
    listed = [
        {
            "share": min(line["mass"] / reach, 1.0),
            "reliability": line["reliability"],
            "reached": bool(line["reached"]),
            "output": line["output"],
            "cost": line["cost"],
            "sentence": printable(line["sentence"]),
            "point": at[i],
        }
        for i, (_, line) in enumerate(found.table.iterrows())
    ]
    return {"listed": listed, "other": max(1.0 - sum(one["share"] for one in listed), 0.0), "why": ""}


def _pack_menu(explanation: Explanation) -> dict[str, Any]:
    """Return the sets of few columns that would do, and the names of those that were proved impossible."""
    table = explanation.menu(_TUNING.menu_columns).table
    reaching = table[table["verdict"] == "reaches"].head(_TUNING.menu_sets)
    sets = [
        {
            "columns": _name_columns(explanation.space, line["columns"]),
            "share": line["share"],
            "cost": line["cost"],
            "sentence": printable(line["sentence"]),
            "reliable_cost": line["reliable_cost"] if line["reliable_sentence"] else None,
        }
        for _, line in reaching.iterrows()
    ]
    impossible = table.loc[table["verdict"] == "impossible", "columns"]
    return {"sets": sets, "impossible": [_name_columns(explanation.space, one) for one in impossible]}


def _name_columns(space: Space, names: Sequence[str]) -> str:
    return ", ".join(space.label(space.names.index(name)) for name in names)


def _find_obstacle(explanation: Explanation) -> str:
    """Return why no strategies can be read off the draws; empty if they can."""
    draws = explanation.draws
    if not draws.info.draws_posterior:
        return "the posterior was not drawn"
    if draws.ess < ENOUGH_ESS:
        return "there are too few effective draws"
    few = explanation.distribution["success_probability"] * draws.ess < ENOUGH_ESS
    return "too few of the draws reach the target" if few else ""


# --- points and potentials -------------------------------------------------------------------------------------------


def _pack_points(explanation: Explanation, known: Known) -> dict[str, Any]:
    draws, mixture = explanation.draws, explanation.mixture
    n = known.n_pool
    fixed = draws.record is not None
    etas = np.array([mixture.eta]) if fixed else _list_etas(mixture, len(mixture.weights))
    verdicts, several = known.verdicts.astype(float), len(mixture.weights) > 1
    return {
        "n": len(known),
        "n_pool": n,
        "n_evaluated": known.n_evaluated,
        "n_draws": len(draws),
        "etas": etas,
        "eta": mixture.eta,
        "fixed": fixed,
        "alpha": explanation.evaluation.alpha,
        "own": _pack_figures(explanation),
        "own_ess": draws.ess,
        "ess_factor": effective_factor(draws),
        "sparse": explanation.query.sparse,
        "log_prior": pack_array(known.log_prior[:n], precision=_TUNING.loss_precision),
        **_pack_potentials(mixture, known.loss[:n], etas, fixed),
        "loss": _pack_loss(known.loss[:n, 0], float(etas.max()))
        if fixed or several
        else None,  # the only one of losses
        "reached": pack_array(verdicts[:, 0]),
        "agreed": pack_array(verdicts @ mixture.weights, precision=1e-6) if several else None,  # as reached
        "output": pack_array(known.output, precision=1e-6 * _measure_spread(known.output)),
        "cost": pack_array(known.cost, precision=1e-6),
    }


def _pack_figures(explanation: Explanation) -> dict[str, float]:
    """Return the figures of the question before any edit on the page, equal to those in Python's tables."""
    figures, space = explanation.distribution, explanation.space
    draws, counted = explanation.draws.read, explanation.free[~space.is_computed[explanation.free]]
    several = int((explanation.mixture.weights > 0).sum()) > 1
    return {
        "success": figures["success_probability"],
        "cost": figures["expected_cost"],
        "loss": figures["expected_loss"],
        "tail": figures["tail"],
        "changes": float(draws.mean(space.changed(draws.pool.x, explanation.x0)[:, counted].sum(axis=1))),
        "differ": explanation.disagreement().overall["differ"] if several else 0.0,
    }


def _list_etas(mixture: Mixture, n_models: int) -> Array:
    """Return the etas of the slider, the explanation's own among them."""
    if mixture.eta == 0:
        return np.zeros(1)
    below = np.geomspace(_TUNING.smallest, 1.0, _TUNING.steps_below + 1)[:-1]
    above = np.geomspace(1.0, _TUNING.largest, _TUNING.steps_above + 1)
    if mixture.combine == "any" and n_models > _TUNING.most_losses:
        below, above = below[:: _TUNING.few_steps], above[:: _TUNING.few_steps]
    others = [float(f"{eta:.{_TUNING.eta_digits}g}") for eta in (*(below * mixture.eta), *(above[1:] * mixture.eta))]
    return np.unique([0.0, mixture.eta, *others])


def _pack_potentials(mixture: Mixture, loss: Array, etas: Array, fixed: bool) -> dict[str, Any]:
    """Return the losses or potentials from which the page computes weights at any eta of the slider."""
    # "none": fixed weights; "one": eta times one loss; "any": the mixture of a few models' losses, the member t = eta
    # of the entropic family; "steps": the potential at every eta
    counted, most = mixture.weights > 0, float(etas.max())
    if fixed:
        return {"how": "none", "losses": [], "shares": []}
    if mixture.combine != "any" or counted.sum() == 1:
        return {"how": "one", "losses": [_pack_loss(mixture.effective_loss(loss), most)], "shares": [1.0]}
    if counted.sum() <= _TUNING.most_losses:
        losses = [_pack_loss(loss[:, k], most) for k in np.flatnonzero(counted)]
        return {"how": "any", "losses": losses, "shares": mixture.weights[counted]}
    steps = [Mixture(float(eta), mixture.weights, mixture.combine).potential(loss) for eta in etas]
    return {
        "how": "steps",
        "losses": [pack_array(step, precision=_TUNING.loss_precision) for step in steps],
        "shares": [],
    }


def _pack_loss(loss: Array, eta: float) -> dict[str, Any]:
    """Pack losses in single precision if the least is near zero: points of larger losses then have no weight."""
    finite = np.abs(loss[np.isfinite(loss)])
    near_zero = len(finite) > 0 and eta * finite.min() < _TUNING.near_zero and finite.max() < _TUNING.largest_single
    return pack_array(loss, precision=np.inf if near_zero else _TUNING.loss_precision / max(eta, 1.0))


def _measure_spread(values: Array) -> float:
    finite = values[np.isfinite(values)]
    return float(np.ptp(finite)) if len(finite) else 0.0


# --- eta path, disagreement and quality ------------------------------------------------------------------------------


def _pack_path(explanation: Explanation) -> list[dict[str, Any]]:
    """Return the eta path, empty if the points were not kept."""
    if explanation.draws.record is not None:
        return []
    mixture = explanation.mixture
    with np.errstate(over="ignore", invalid="ignore"):  # at etas with too few effective draws, whose lines are empty
        table = explanation.path(_list_etas(mixture, len(mixture.weights)).tolist())
    names = ["success_probability", "success_probability_se", "expected_cost", "expected_cost_se", "ess"]
    return plain_records(table[names])


def _pack_disagreement(explanation: Explanation) -> dict[str, Any] | None:
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
            {
                "column": _name_columns(explanation.space, [str(name)]),
                "difference": line["difference"],
                "se": line["se"],
            }
            for name, line in found.where.iterrows()
        ],
    }


def _pack_quality(explanation: Explanation) -> dict[str, Any]:
    """Return whether the draws reach the target and how well they were sampled."""
    found, reach = explanation.diagnostics, explanation.distribution["success_probability"]
    figures = [
        ("effective draws", found["ess"]),
        ("draws", found["n_draws"]),
        ("points evaluated", found["n_evaluated"]),
        ("log evidence", found["log_evidence"]),
        ("its standard error", found["log_evidence_se"]),
        ("Pareto k of the weights", found["pareto_k"]),
        ("R-hat of the chains", found.get("r_hat")),
        ("model calls", explanation.n_model_calls),
        ("model rows", explanation.n_model_rows),
    ]
    return {
        "verdict": str(found["sampling"]),
        "good": found["sampling"] == Verdict.TRUSTWORTHY and reach >= MOSTLY,
        "note": printable(found["posterior_note"]),
        "figures": [[name, value] for name, value in figures if plain_value(value) is not None],
    }
