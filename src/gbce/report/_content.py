"""What a summary says, before it is text or HTML: headed tables of ready strings."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce._validation import is_number, printable, short
from gbce.explanation import Explanation
from gbce.metrics import disagreement_sentence, most_moved
from gbce.space import value_text

__all__ = ["Section", "content", "headline"]

_NAMES = {
    "success_probability": "success probability",
    "tail": "tail loss",
    "stability": "stability (total variance)",
    "expected_loss": "expected loss",
    "expected_distance": "expected distance",
}
_MAX_FEATURES = 12


class Section(NamedTuple):
    """A title, a table of strings, and a line that says how to read it."""

    title: str
    table: pd.DataFrame
    legend: str


def headline(explanation: Explanation) -> list[tuple[str, str]]:
    """Return the facts that come first, verdict before all, and the notes."""
    outputs = zip(explanation.row.outputs[0], explanation.models, strict=True)
    scale: Any = getattr(explanation.target, "scale", None)
    unit = f"; an error of {short(scale)} costs one unit of loss" if is_number(scale) else ""
    facts = [
        ("verdict", explanation.diagnostics["verdict"]),
        ("target", explanation.target.describe() + unit),
        ("status", str(explanation.status)),
        ("row", "output " + ", ".join(f"{number(value)} ({model})" for value, model in outputs)),
    ]
    if len(explanation.models) > 1:
        facts.append(("models", f"combined by {explanation.mixture.combine!r}; figures are those of the first"))
        weights = explanation.mixture.weights
        if (weights > 0).sum() > 1:
            found = disagreement_sentence(explanation.draws, explanation.space, explanation.free, weights)
            facts.append(("", found))
    cost = f"{explanation.n_model_calls} model calls, {explanation.n_model_rows:,} rows"
    facts.append(("cost", f"{cost}; eta {explanation.eta:g}, seed {explanation.seed}"))
    facts += [("note", note) for note in explanation.notes]
    return [(name, printable(fact)) for name, fact in facts]


def content(explanation: Explanation) -> list[Section]:
    """Return the tables of a summary."""
    sections = (_decisions(explanation), _features(explanation), _posterior(explanation))
    return [section._replace(table=_printable(section.table)) for section in sections]


def _printable(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of texts, names of users' columns and levels among them, without control characters."""
    return table.map(printable).rename(index=printable, columns=printable)


def number(value: float) -> str:
    """Four significant digits, without exponents where they can be avoided."""
    if not np.isfinite(value):
        return "-" if np.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == 0 or 1e-3 <= abs(value) < 1e9:
        digits = max(0, 3 - int(np.floor(np.log10(abs(value))))) if value else 0
        return f"{value:,.{min(digits, 4)}f}"
    return f"{value:.3g}"


def _decisions(explanation: Explanation) -> Section:
    table = explanation.pointwise
    shown = pd.DataFrame(
        {
            "output": table["output"].map(number),
            "reached": table["reached"].map({True: "yes", False: "no"}),
            "loss": table["loss"].map(number),
            "distance": table["distance"].map(number),
            "robustness": table["robustness"].map(number),
            "plausibility": table["plausibility"].map(number),
        },
        index=table.index,
    )
    values = np.array([decision.x for decision in explanation.decisions]).reshape(-1, len(explanation.space))
    moved, space = explanation.changes(), explanation.space
    names = _told(explanation, moved)
    for name in names:
        column = values[:, space.names.index(name)]
        changed = {rule for rule, feature in zip(moved["rule"], moved["feature"], strict=True) if feature == name}
        shown[name] = [
            value(explanation, name, v) if rule in changed else "=" for rule, v in zip(table.index, column, strict=True)
        ]
    legend = (
        "robustness: share that still succeeds under execution noise; plausibility: mean distance to the nearest "
        "training rows; = means unchanged."
    )
    further = moved["rule"][~moved["feature"].isin(names)].value_counts()
    if len(further):
        shown["further"] = [str(further.get(rule, "=")) for rule in table.index]
        legend += " further: how many other columns change."
    return Section("Decisions", shown, legend)


def _told(explanation: Explanation, moved: pd.DataFrame) -> list[str]:
    """Return the columns to show: all that a decision changes if they are few, then those that draws move most."""
    told: dict[str, None] = {}
    for names in sorted((list(names) for _, names in moved.groupby("rule")["feature"]), key=len):
        if len(names) <= _MAX_FEATURES:
            told |= dict.fromkeys(names)
    told |= dict.fromkeys(most_moved(explanation.importance, _MAX_FEATURES))
    kept = set(list(told)[:_MAX_FEATURES])
    return [name for name in explanation.space.names if name in kept]


def _features(explanation: Explanation) -> Section:
    names = most_moved(explanation.importance, _MAX_FEATURES)
    low, middle, high = (explanation.quantiles(q) for q in (0.05, 0.5, 0.95))
    places = [explanation.space.names.index(name) for name in names]
    importance = explanation.importance.loc[names]
    span = [_span(explanation, name, low[j], high[j]) for name, j in zip(names, places, strict=True)]
    size = [f"{number(c)} ± {number(2 * s)}" for c, s in zip(importance["change"], importance["se"], strict=True)]
    shown = pd.DataFrame(
        {
            "now": [value(explanation, name, explanation.x0[j]) for name, j in zip(names, places, strict=True)],
            "median": [value(explanation, name, middle[j]) for name, j in zip(names, places, strict=True)],
            "90% of draws": span,
            "mean change": size,
            "vs prior": importance["ratio"].map(lambda ratio: f"x {ratio:.2f}"),
        },
        index=importance.index,
    )
    hidden = len(explanation.space) - len(names)
    legend = "mean change: E|x - row| with twice its error; vs prior: near x 1.00 the model does not care."
    if any(explanation.space.features[j].unordered for j in places):
        legend += " Of a category: the most probable level, and the probability of a change."
    return Section("What changes", shown, legend + (f" Not shown: {hidden} more." if hidden else ""))


def value(explanation: Explanation, name: str, x: float) -> str:
    """One value of a feature as the table has it."""
    j = explanation.space.names.index(name)
    feature = explanation.space.features[j]
    return number(x) if feature.plain else value_text(feature, explanation.space.codecs[j], x)


def _span(explanation: Explanation, name: str, low: float, high: float) -> str:
    if not explanation.space.features[explanation.space.names.index(name)].unordered:
        return f"{value(explanation, name, low)} to {value(explanation, name, high)}"
    shares = explanation.shares(name)["posterior"].sort_values(ascending=False, kind="stable")
    return ", ".join(f"{level} {share:.0%}" for level, share in shares[:3].items() if share >= 0.005)


def _posterior(explanation: Explanation) -> Section:
    figures = explanation.distribution
    names = [name for name in figures.index if not name.endswith(("_se", "_low", "_high"))]
    lines = {}
    for name in names:
        value, se = figures[name], figures[f"{name}_se"]
        base, _, model = name.partition("[")
        with np.errstate(invalid="ignore"):  # an infinite value with an infinite error has no interval, shown as -
            low, high = figures.get(f"{name}_low", value - 1.96 * se), figures.get(f"{name}_high", value + 1.96 * se)
        low = max(low, 0.0) if base != "expected_loss" else low  # only a user's own loss can be negative
        high = min(high, 1.0) if base == "success_probability" else high
        label = _NAMES[base] + (f" [{model}" if model else "")
        lines[label] = (number(value), f"{number(low)} to {number(high)}")
    evidence, se = explanation.draws.log_evidence, explanation.draws.log_evidence_se
    lines["log evidence"] = (
        number(evidence),
        f"{number(evidence - 1.96 * se)} to {number(evidence + 1.96 * se)}",
    )
    table = pd.DataFrame.from_dict(lines, orient="index", columns=["value", "95% interval"])
    table.index.name = "figure"
    share = 100 * (1 - explanation.evaluation.alpha)
    legend = f"tail loss: {share:g}% of draws stay below it. Intervals are Monte Carlo error, not model error."
    return Section("The posterior", table, legend)
