"""What a summary says, before it is text or HTML: headed tables of ready strings."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from gbce.explanation import Explanation
from gbce.metrics import most_moved
from gbce.targets import short

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
    """Return the facts that come first, verdict before all."""
    outputs = zip(explanation.row.outputs[0], explanation.models, strict=True)
    scale = getattr(explanation.target, "scale", None)
    unit = "" if scale is None else f"; an error of {short(scale)} costs one unit of loss"
    facts = [
        ("verdict", explanation.diagnostics["verdict"]),
        ("target", explanation.target.describe() + unit),
        ("status", explanation.status),
        ("row", "output " + ", ".join(f"{number(value)} ({model})" for value, model in outputs)),
    ]
    if len(explanation.models) > 1:
        facts.append(("models", f"combined by {explanation.mixture.combine!r}; figures are those of the first"))
    cost = f"{explanation.n_model_calls} model calls, {explanation.n_model_rows:,} rows"
    facts.append(("cost", f"{cost}; eta {explanation.eta:g}, seed {explanation.seed}"))
    return facts


def content(explanation: Explanation) -> list[Section]:
    """Return the tables of a summary."""
    return [_decisions(explanation), _features(explanation), _posterior(explanation)]


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
    values = explanation.counterfactuals
    moved = explanation.changes()
    for name in most_moved(explanation.importance, _MAX_FEATURES):
        column = values.iloc[:, list(explanation.space.names).index(name)].astype(float)
        changed = {rule for rule, feature in zip(moved["rule"], moved["feature"], strict=True) if feature == name}
        shown[name] = [number(v) if rule in changed else "=" for rule, v in zip(values.index, column, strict=True)]
    legend = (
        "robustness: share that still succeeds under execution noise; plausibility: mean distance to the nearest "
        "training rows; = means unchanged."
    )
    return Section("Decisions", shown, legend)


def _features(explanation: Explanation) -> Section:
    names = most_moved(explanation.importance, _MAX_FEATURES)
    intervals = explanation.intervals().loc[names]
    importance = explanation.importance.loc[names]
    span = [f"{number(a)} to {number(b)}" for a, b in zip(intervals["low"], intervals["high"], strict=True)]
    size = [f"{number(c)} ± {number(2 * s)}" for c, s in zip(importance["change"], importance["se"], strict=True)]
    shown = pd.DataFrame(
        {
            "now": intervals["row"].map(number),
            "median": intervals["median"].map(number),
            "90% of draws": span,
            "mean change": size,
            "vs prior": importance["ratio"].map(lambda ratio: f"x {ratio:.2f}"),
        },
        index=importance.index,
    )
    hidden = len(explanation.space) - len(names)
    legend = "mean change: E|x - row| with twice its error; vs prior: near x 1.00 the model does not care."
    return Section("What changes", shown, legend + (f" Not shown: {hidden} more." if hidden else ""))


def _posterior(explanation: Explanation) -> Section:
    figures = explanation.distribution
    names = [name for name in figures.index if not name.endswith("_se")]
    lines = {}
    for name in names:
        value, se = figures[name], figures[f"{name}_se"]
        base, _, model = name.partition("[")
        low, high = value - 1.96 * se, value + 1.96 * se
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
