"""Colours and markers, the same in every picture."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gbce._checks import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DRAWS", "MISSED", "PRIOR", "ROW", "UNSEEN", "marks", "outside", "verbatim"]

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
_ON_PATH = re.compile(r" with \d+ changes?$")  # a sparsity path beside the decision that is marked
_OTHERS = ("<", ">", "p", "d", "8")


def marks(labels: Sequence[str]) -> list[dict[str, Any]]:
    """Colour and marker of each decision; variants of one rule share the colour and differ in the marker."""
    styles: list[dict[str, Any]] = []
    seen: dict[str, list[str]] = {}
    for label in labels:
        name = label.split("(")[0].split(" ")[0]
        family = label.split(" ")[0]  # the points of one set are marked alike
        colour, marker = _MARKS.get(name, ("#555555", "o"))
        if _ON_PATH.search(label):
            styles.append({"color": colour, "marker": "."})
            continue
        variants = seen.setdefault(name, [])
        if family not in variants:
            variants.append(family)
        which = variants.index(family)
        styles.append({"color": colour, "marker": marker if which == 0 else _OTHERS[(which - 1) % len(_OTHERS)]})
    return styles


def verbatim(text: str) -> str:
    """Return a user's text so that matplotlib draws it as it is: a dollar sign starts no formula."""
    return printable(text).replace("$", r"\$")


def outside(ax: "Axes", handles: list[Any], labels: list[str]) -> None:
    """Put the legend to the right of the axes, where it hides nothing; the points of one set share one entry."""
    names = [_ON_PATH.sub(", other numbers of changes", re.sub(r"\) \d+$", ")", verbatim(label))) for label in labels]
    entries = dict(zip(names, handles, strict=True))
    legend = ax.legend(
        list(entries.values()), list(entries), loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9
    )
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_alpha"):
            handle.set_alpha(1.0)
