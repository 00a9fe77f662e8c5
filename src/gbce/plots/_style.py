"""Colours and markers, the same in every picture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce._validation import printable
from gbce.explanation import Decision

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "DRAWS", "MISSED", "PRIOR", "ROW", "UNSEEN", "finish_axes", "literal_text", "mark_decisions", "new_axes",
    "new_panels", "put_legend_outside",
]  # fmt: skip

DRAWS = "#3b6fb6"  # draws that reach the target
MISSED = "#b9c4d0"
PRIOR = "#d9dde3"
ROW = "#111111"
UNSEEN = "#c0562f"

# rules of the paper keep its colours: MAP red, Mean green, CVaR purple, DirectOpt a black star
_MARKS: dict[str, tuple[str, str]] = {
    "Nearest": ("#006d77", "H"),
    "MAP": ("#d62728", "o"),
    "Mean": ("#2ca02c", "s"),
    "CVaR": ("#8e44ad", "D"),
    "DirectOpt": ("#111111", "*"),
    "ChanceConstrained": ("#e67e22", "^"),
    "GeometricMedian": ("#17a589", "v"),
    "Medoid": ("#a0522d", "P"),
    "DiverseSet": ("#c2185b", "X"),
    "RandomDraw": ("#7f8c8d", "h"),
}
_OTHER_RULES = ("#555555", "#2a6f97", "#6a994e", "#bc4749", "#9c6644")  # colours of a user's own
_VARIANTS = ("<", ">", "p", "d", "8")


def new_axes(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return the axes to draw on: those that were given, or those of a new figure of so many inches."""
    if ax is not None:
        _require_axes(ax)
        return ax
    import matplotlib.pyplot as plt  # slow to import

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def new_panels(ax: Any, n: int, width: float, height: float) -> "list[Axes]":
    """Return ``n`` axes side by side: those that were given, or those of a new figure, so many inches each."""
    if ax is None:
        import matplotlib.pyplot as plt  # slow to import

        return list(plt.subplots(1, n, figsize=(width * n, height), layout="constrained", squeeze=False)[1][0])
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    for one in given:
        _require_axes(one)
    if len(given) != n:
        raise ValueError(f"ax must have one Axes for each of the {n} panels, not {len(given)}")
    return given


def _require_axes(ax: Any) -> None:
    from matplotlib.axes import Axes  # slow to import

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a matplotlib Axes, such as plt.subplots()[1], not {ax!r:.80}")


def finish_axes(ax: "Axes", title: str, *, hidden: Sequence[str] = ("top", "right")) -> None:
    """Write the title on the left, and take away the edges that are of no use."""
    ax.set_title(title, loc="left", fontsize=11)
    ax.spines[list(hidden)].set_visible(False)


def mark_decisions(
    ax: "Axes", decisions: Sequence[Decision], places: Sequence[tuple[Any, Any]], size: float, star: float, edge: float
) -> None:
    """Mark decisions at their places, one or several each; a star needs a size of its own to look as large."""
    for decision, place, style in zip(decisions, places, _choose_styles(decisions), strict=True):
        area = star if style["marker"] == "*" else size
        label = _legend_entry(decision)
        ax.scatter(*place, s=area, **style, edgecolors="white", linewidths=edge, label=label, zorder=5)


def _choose_styles(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """Return colour and marker of each decision; variants of one rule share the colour and differ in the marker."""
    styles: list[dict[str, Any]] = []
    seen: dict[str, list[str]] = {}
    for decision in decisions:
        name = "" if decision.rule is None else decision.rule.kind
        family = decision.label if decision.rule is None else decision.rule.label  # points of one set are marked alike
        variants = seen.setdefault(name, [])
        others = [one for one in seen if one not in _MARKS]
        colour, marker = _MARKS.get(name) or (_OTHER_RULES[others.index(name) % len(_OTHER_RULES)], "o")
        if family not in variants:
            variants.append(family)
        which = variants.index(family)
        marker = marker if which == 0 else _VARIANTS[(which - 1) % len(_VARIANTS)]
        styles.append({"color": colour, "marker": "." if decision.beside else marker})
    return styles


def _legend_entry(decision: Decision) -> str:
    """Return the legend's entry: the points of one set share one, and so do those beside a rule's answer."""
    label = decision.label if decision.rule is None else decision.rule.label
    return f"{label}, alternatives" if decision.beside else label


def literal_text(text: str) -> str:
    """Return a user's text so that matplotlib draws it as it is: a dollar sign starts no formula."""
    return printable(text).replace("$", r"\$")


def put_legend_outside(ax: "Axes", handles: list[Any], labels: list[str]) -> None:
    """Put the legend to the right of the axes, where it hides nothing; equal labels share one entry."""
    entries = dict(zip(map(literal_text, labels), handles, strict=True))
    legend = ax.legend(
        list(entries.values()), list(entries), loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9
    )
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_alpha"):
            handle.set_alpha(1.0)
