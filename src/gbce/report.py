"""Summaries of an explanation: its facts and tables as strings, then laid out as plain text or as HTML."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from gbce._validation import current_options, printable, short
from gbce.base import Rule
from gbce.decisions import answers_among, stack_points
from gbce.eta import AUTO
from gbce.explanation import Explanation, Share
from gbce.metrics import FIGURE_TITLES, POINT_FIGURES, PRINTED_Z_95, ROUNDS_TO_ZERO, disagreement_sentence, most_moved

# Sizes of a summary, chosen by hand; the tables of the explanation are complete.


@dataclass(frozen=True)
class _Layout:
    """Layout, chosen by hand."""

    max_features: int = 12
    max_levels: int = 3  # most probable levels listed for a category
    ends: tuple[float, float] = (0.05, 0.95)  # quantiles that enclose 90% of the draws
    plain_numbers: tuple[float, float] = (1e-3, 1e9)  # magnitudes printed without an exponent
    digits: int = 4  # significant digits of a number, and most decimals
    width: int = 110  # characters
    name_width: int = 11  # characters for the names of facts: the longest, "posterior", and two blanks


_LAYOUT = _Layout()
_COST = "the changes added up, each in units of its column's scale"
_OWN_COSTS = {"l2": "the Euclidean distance instead", "changes": "the number of changes first"}
_STYLE = """
.gbce { font: 13px/1.5 system-ui, sans-serif; max-width: 70em; overflow-x: auto; }
.gbce h4 { margin: 1em 0 .3em; font-size: 1em; }
.gbce dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: 0; }
.gbce dt { opacity: .65; } .gbce dd { margin: 0; }
.gbce table { border-collapse: collapse; font: inherit; }
.gbce th, .gbce td { padding: .2em .7em; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
.gbce th:first-child { text-align: left; }
.gbce p { margin: .3em 0; opacity: .65; }
.gbce p.answer { font-size: 1.2em; opacity: 1; max-width: 50em; }
.gbce .missed { color: #c0392b; }
"""

# --- facts and tables ------------------------------------------------------------------------------------------------


class _Section(NamedTuple):
    """A titled table of strings, its legend, and which of its lines are decisions that miss the target."""

    title: str
    table: pd.DataFrame
    legend: str
    missed: tuple[bool, ...] = ()


def _collect_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """List the facts that follow the answer, the quality of the draws first and the notes last."""
    outputs = zip(explanation.row.outputs[0], explanation.models, strict=True)
    scale = explanation.target.loss_unit
    unit = "" if scale is None else f" (missing it by {short(scale)} counts as a loss of 1)"
    facts = [
        ("posterior", explanation.diagnostics["posterior_note"]),
        ("target", explanation.target.describe() + unit),
        ("status", str(explanation.status)),
        ("row", "output " + ", ".join(f"{format_number(value)} ({model})" for value, model in outputs)),
    ]
    if len(explanation.models) > 1:
        facts.append(("models", f"combined by {explanation.mixture.combine!r}; figures are those of the first"))
        weights = explanation.mixture.weights
        if (weights > 0).sum() > 1:
            found = disagreement_sentence(explanation.draws, explanation.space, explanation.free, weights)
            facts.append(("", found))
    calls, rows = explanation.n_model_calls, explanation.n_model_rows
    effort = f"{calls:,} model call{'s' * (calls != 1)}, {rows:,} row{'s' * (rows != 1)}"
    facts += [("eta", _describe_eta(explanation)), ("effort", f"{effort}; seed {explanation.seed}")]
    facts += [("note", note) for note in explanation.notes]
    return [(name, printable(fact)) for name, fact in facts]


def _describe_eta(explanation: Explanation) -> str:
    """Return eta, and how it was chosen."""
    eta, chosen = short(explanation.eta), explanation.calibration
    if chosen is None:
        return eta
    if chosen.rule == AUTO.label and chosen.met:
        least = explanation.eta <= AUTO.least
        why = "already enough" if least else "the smallest"
        return f"{eta}, {why} for {AUTO.probability:.0%} of the draws to reach the target (set `eta=` to change this)"
    return f"{eta}, by {chosen.rule}"


class _Opening(NamedTuple):
    """The answer as a sentence, with a table of its changes and facts about it."""

    sentence: str
    table: pd.DataFrame
    facts: list[tuple[str, str]]


def _make_opening(explanation: Explanation) -> _Opening | None:
    """Return the opening of a summary, None without an answer."""
    answer = explanation.answer
    if answer is None:
        return None
    space, x0, x = explanation.space, explanation.x0, answer.decision.x
    where = [space.names.index(name) for name in answer.changes.index]
    pairs = [space.format_change(j, x0[j], x[j], exact=answer.reached) for j in where]
    table = pd.DataFrame(
        {"now": [now for now, _ in pairs], "then": [then for _, then in pairs]},
        index=pd.Index([space.label(j) for j in where], name="changes", dtype=object),
    )
    cost = f"{format_number(answer.cost)} ({_COST})"
    facts = [("why this", answer.because), ("cost", cost)]
    facts += [
        (name, _format_share(share, what))
        for name, share, what in (
            ("works", answer.reliability, "trials under execution noise"),
            ("refits", answer.survival, "refitted models"),
        )
        if share is not None
    ]
    if answer.expected is not None and answer.expected.exact:
        facts.append(("average", f"{format_number(answer.expected.mean)} under execution noise (exact)"))
    return _Opening(
        printable(answer.sentence), _make_printable(table), [(name, printable(fact)) for name, fact in facts]
    )


def _format_share(share: Share, what: str) -> str:
    """Format a share with its interval and number of trials, or as exact."""
    if share.exact:
        return f"{share.digits} (exact: summed over the model's cells under execution noise)"
    return f"{share.share:.3f} ({share.low:.3f} to {share.high:.3f}, {share.n:,} {what})"


def _build_sections(explanation: Explanation) -> list[_Section]:
    """List the tables of a summary."""
    listed = [_build_decision_section(explanation)]
    if explanation.draws.info.draws_posterior:
        listed += [_build_feature_section(explanation), _build_posterior_section(explanation)]
    return [section._replace(table=_make_printable(section.table)) for section in listed]


def _make_printable(table: pd.DataFrame) -> pd.DataFrame:
    """Remove control characters from a table of strings, which may hold users' names and levels."""
    return table.map(printable).rename(index=printable, columns=printable)


def format_number(value: float) -> str:
    """Format a number with four significant digits, without an exponent if possible."""
    if not np.isfinite(value):
        return "-" if np.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == 0 or _LAYOUT.plain_numbers[0] <= abs(value) < _LAYOUT.plain_numbers[1]:
        wanted = current_options().digits or _LAYOUT.digits
        digits = max(0, wanted - 1 - int(np.floor(np.log10(abs(value))))) if value else 0
        return f"{value + 0.0:,.{min(digits, wanted)}f}"
    return f"{value:.3g}"


def _build_decision_section(explanation: Explanation) -> _Section:
    table = explanation.pointwise
    shown = pd.DataFrame(
        {
            "output": table["output"].map(format_number),
            "reached": table["reached"].map({True: "yes", False: "no"}),
            "loss": table["loss"].map(format_number),
            "cost": table["cost"].map(format_number),
            **{figure.name: table[figure.name].map(format_number) for figure in POINT_FIGURES},
        },
        index=table.index,
    )
    decided = answers_among(explanation.decisions)
    values = stack_points(decided, len(explanation.space))
    moved, space = explanation.changes(), explanation.space
    names = _choose_columns(explanation, moved)
    for name in names:
        column = values[:, space.names.index(name)]
        changed = {rule for rule, feature in zip(moved["rule"], moved["feature"], strict=True) if feature == name}
        j = space.position[name]
        shown[space.label(j)] = [
            space.format_change(j, explanation.x0[j], v, exact=False)[1] if rule in changed else "="
            for rule, v in zip(table.index, column, strict=True)
        ]
    trials = f" ({explanation.evaluation.n_perturb:,} trials of its own)"
    meanings = [f"cost: {_COST}"]
    meanings += [f"{one.name}: {one.meaning}{trials * one.has_error}" for one in POINT_FIGURES]
    other = sorted({_describe_own_cost(one.rule) for one in decided} - {""})
    legend = "; ".join([*meanings, *other, "= means unchanged; numbers are rounded, counterfactuals has all digits."])
    further = moved["rule"][~moved["feature"].isin(names)].value_counts()
    if len(further):
        shown["further"] = [str(further.get(rule, "=")) for rule in table.index]
        legend += " further: how many other columns change."
    return _Section("Decisions", shown, legend, tuple(bool(one) for one in ~table["reached"]))


def _describe_own_cost(rule: Rule | None) -> str:
    """Return what a rule minimises instead of the cost; empty if it minimises that or no distance."""
    other = _OWN_COSTS.get(str(getattr(rule, "distance", "")))
    return "" if rule is None or other is None else f"{rule.label} minimises {other}"


def _choose_columns(explanation: Explanation, moved: pd.DataFrame) -> list[str]:
    """Choose the columns to show: those that a decision changes, if few, then those that the draws move most."""
    chosen: dict[str, None] = {}
    for names in sorted((list(names) for _, names in moved.groupby("rule")["feature"]), key=len):
        if len(names) <= _LAYOUT.max_features:
            chosen |= dict.fromkeys(names)
    chosen |= dict.fromkeys(most_moved(explanation.importance, _LAYOUT.max_features))
    kept = set(list(chosen)[: _LAYOUT.max_features])
    return [name for name in explanation.space.names if name in kept]


def _build_feature_section(explanation: Explanation) -> _Section:
    names = most_moved(explanation.importance, _LAYOUT.max_features)
    low, middle, high = (explanation.quantiles(q) for q in (_LAYOUT.ends[0], 0.5, _LAYOUT.ends[1]))
    places = [explanation.space.names.index(name) for name in names]
    importance = explanation.importance.loc[names]
    span = [_format_span(explanation, name, low[j], high[j]) for name, j in zip(names, places, strict=True)]
    errors = zip(importance["change"], importance["se"], strict=True)
    size = [f"{format_number(change)} ± {format_number(2 * se)}" for change, se in errors]
    shown = pd.DataFrame(
        {
            "now": [_format_value(explanation, name, explanation.x0[j]) for name, j in zip(names, places, strict=True)],
            "median": [_format_value(explanation, name, middle[j]) for name, j in zip(names, places, strict=True)],
            "90% of draws": span,
            "mean change": size,
            "vs prior": [f"x {ratio:.2f}" for ratio in importance["ratio"]],
        },
        index=pd.Index([explanation.space.label(j) for j in places], name=importance.index.name, dtype=object),
    )
    hidden = len(explanation.space) - len(names)
    legend = "mean change: ± 2 standard errors; vs prior: near x 1.00 the target makes no difference to the column."
    if any(explanation.space.features[j].unordered for j in places):
        legend += " For a category, median is the most probable level and mean change the probability of a change."
    return _Section("What changes", shown, legend + (f" Not shown: {hidden} more." if hidden else ""))


def _format_value(explanation: Explanation, name: str, x: float) -> str:
    """Write a value of a feature as people do."""
    return explanation.space.format(explanation.space.position[name], x)


def _format_span(explanation: Explanation, name: str, low: float, high: float) -> str:
    space, j = explanation.space, explanation.space.position[name]
    if not space.features[j].unordered:
        return f"{space.format(j, low, unit=bool(np.isnan(high)))} to {space.format(j, high)}"
    shares = explanation.shares(name)["posterior"].sort_values(ascending=False, kind="stable")
    common = shares[shares >= ROUNDS_TO_ZERO][: _LAYOUT.max_levels]
    return ", ".join(f"{level} {share:.0%}" for level, share in common.items())


def _build_posterior_section(explanation: Explanation) -> _Section:
    lines = {}
    for name, (value, se, interval) in explanation.figures.items():
        with np.errstate(invalid="ignore"):  # an infinite value with an infinite error has no interval, shown as -
            half = PRINTED_Z_95 * se
            low, high = (value - half, value + half) if interval is None else interval
        low = max(low, 0.0) if name.measure != "expected_loss" else low  # only a user's own loss can be negative
        high = min(high, 1.0) if name.measure == "success_probability" else high
        label = FIGURE_TITLES.get(name.measure, name.measure) + (f" [{name.model}]" if name.model else "")
        lines[label] = (format_number(value), f"{format_number(low)} to {format_number(high)}")
    evidence, se = explanation.draws.log_evidence, explanation.draws.log_evidence_se
    lines[FIGURE_TITLES["log_evidence"]] = (
        format_number(evidence),
        f"{format_number(evidence - PRINTED_Z_95 * se)} to {format_number(evidence + PRINTED_Z_95 * se)}",
    )
    table = pd.DataFrame.from_dict(lines, orient="index", columns=["value", "95% interval"])
    table.index.name = "figure"
    share = 100 * (1 - explanation.evaluation.alpha)
    legend = f"tail loss: {share:g}% of draws stay below it. Intervals are Monte Carlo error, not model error."
    return _Section("The posterior", table, legend)


# --- HTML ------------------------------------------------------------------------------------------------------------


def as_html(explanation: Explanation) -> str:
    """Return the summary as one HTML fragment with its own style."""
    facts = "".join(_format_facts_as_html(_collect_facts(explanation)))
    opening = _format_opening_as_html(explanation)
    folded = f"<details{'' if opening else ' open'}><summary>How it was found</summary><dl>{facts}</dl>"
    html = [f"<style>{_STYLE}</style><div class='gbce'>{opening}{folded}"]
    for section in _build_sections(explanation):
        if len(section.table):
            table = _format_table_as_html(section.table, section.missed)
            html.append(f"<h4>{escape(section.title)}</h4>{table}<p>{escape(section.legend)}</p>")
    return "".join(html) + "</details></div>"


def _format_opening_as_html(explanation: Explanation) -> str:
    """Return the opening as HTML."""
    first, answer = _make_opening(explanation), explanation.answer
    if first is None or answer is None:
        return ""
    missed = "" if answer.reached else " missed"
    table = _format_table_as_html(first.table) if len(first.table) else ""
    facts = "".join(_format_facts_as_html(first.facts))
    return f"<p class='answer{missed}'>{escape(first.sentence)}</p>{table}<dl>{facts}</dl>"


def _format_table_as_html(table: pd.DataFrame, missed: Sequence[bool] = ()) -> str:
    """Return a table of strings as HTML, with decisions that miss the target marked."""
    heads = "".join(f"<th scope='col'>{escape(str(name))}</th>" for name in ["", *table.columns])
    lines = []
    for i, (label, cells) in enumerate(zip(table.index, table.to_numpy(), strict=True)):
        marked = " class='missed'" if i < len(missed) and missed[i] else ""
        row = "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
        lines.append(f"<tr{marked}><th scope='row'>{escape(str(label))}</th>{row}</tr>")
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _format_facts_as_html(facts: list[tuple[str, str]]) -> list[str]:
    return [f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in facts]


# --- plain text ------------------------------------------------------------------------------------------------------


def as_text(explanation: Explanation, say: Callable[[str], str] = str) -> str:
    """Return the summary as plain text, at most 110 characters wide where the columns allow it; ``say`` words facts."""
    first = _make_opening(explanation)
    lines = [] if first is None else _wrap_opening(first)
    lines += _wrap_facts([(name, say(fact)) for name, fact in _collect_facts(explanation)])
    for section in _build_sections(explanation):
        if len(section.table):
            lines += ["", section.title, *_fold_table(section.table)]
            lines += textwrap.wrap(section.legend, _LAYOUT.width, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def _wrap_opening(first: _Opening) -> list[str]:
    """Return the opening as lines of text."""
    lines = [*textwrap.wrap(first.sentence, _LAYOUT.width), ""]
    if len(first.table):
        lines += [*_fold_table(first.table), ""]
    return [*lines, *_wrap_facts(first.facts), ""]


def _wrap_facts(facts: list[tuple[str, str]]) -> list[str]:
    lines = []
    for name, fact in facts:
        indent = f"{name:<{_LAYOUT.name_width}}"
        lines += textwrap.wrap(fact, _LAYOUT.width, initial_indent=indent, subsequent_indent=" " * _LAYOUT.name_width)
    return lines


def _fold_table(table: pd.DataFrame) -> list[str]:
    """Return a table as lines with right-aligned columns, folded into several blocks if it is too wide."""
    index = [str(table.index.name or ""), *map(str, table.index)]
    first = max(map(len, index))
    columns = [[str(name), *map(str, table[name])] for name in table.columns]
    blocks: list[list[list[str]]] = [[]]
    used = first
    for cells in columns:
        width = max(map(len, cells)) + 2
        if blocks[-1] and used + width > _LAYOUT.width - 2:
            blocks.append([])
            used = first
        blocks[-1].append([cell.rjust(width) for cell in cells])
        used += width
    lines = []
    for block in blocks:
        lines += ["  " + index[i].ljust(first) + "".join(cells[i] for cells in block) for i in range(len(index))]
    return lines
