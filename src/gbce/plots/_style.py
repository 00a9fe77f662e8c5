"""Colours and markers, the same in every picture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gbce._validation import printable
from gbce.explanation import Decision

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DRAWS", "MISSED", "PRIOR", "ROW", "UNSEEN", "entry_of", "marks", "outside", "verbatim"]

DRAWS = "#3b6fb6"  # draws that reach the target
MISSED = "#b9c4d0"
PRIOR = "#d9dde3"
ROW = "#111111"
UNSEEN = "#c0562f"

# rules of the paper keep its colours: MAP red, Mean green, CVaR purple, DirectOpt a black star
_MARKS: dict[str, tuple[str, str]] = {
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
_OTHER_RULES = ("#555555", "#2a6f97", "#6a994e", "#bc4749", "#9c6644")  # colours of somebody's own
_VARIANTS = ("<", ">", "p", "d", "8")


def marks(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """Colour and marker of each decision; variants of one rule share the colour and differ in the marker."""
    styles: list[dict[str, Any]] = []
    seen: dict[str, list[str]] = {}
    for decision in decisions:
        name = type(decision.rule).__name__
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


def entry_of(decision: Decision) -> str:
    """Return the legend's entry: the points of one set share one, and so do those beside a rule's answer."""
    label = decision.label if decision.rule is None else decision.rule.label
    return f"{label}, alternatives" if decision.beside else label


def verbatim(text: str) -> str:
    """Return a user's text so that matplotlib draws it as it is: a dollar sign starts no formula."""
    return printable(text).replace("$", r"\$")


def outside(ax: "Axes", handles: list[Any], labels: list[str]) -> None:
    """Put the legend to the right of the axes, where it hides nothing; equal labels share one entry."""
    entries = dict(zip(map(verbatim, labels), handles, strict=True))
    legend = ax.legend(
        list(entries.values()), list(entries), loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9
    )
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_alpha"):
            handle.set_alpha(1.0)
