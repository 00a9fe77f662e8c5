"""Colours and markers, the same in every picture."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DRAWS", "MISSED", "PRIOR", "ROW", "mark", "outside"]

DRAWS = "#3b6fb6"  # draws that reach the target
MISSED = "#b9c4d0"
PRIOR = "#d9dde3"
ROW = "#111111"

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
_OTHERS = ("<", ">", "p", "d", "8")


def mark(label: str, position: int) -> dict[str, Any]:
    """Colour and marker of a decision; variants of one rule share the colour and differ in the marker."""
    name = label.split("(")[0].split(" ")[0]
    colour, marker = _MARKS.get(name, ("#555555", _OTHERS[position % len(_OTHERS)]))
    if "(" in label and name not in ("DiverseSet", "RandomDraw"):
        marker = _OTHERS[position % len(_OTHERS)]
    return {"color": colour, "marker": marker}


def outside(ax: "Axes", handles: list[Any], labels: list[str]) -> None:
    """Put the legend to the right of the axes, where it hides nothing."""
    legend = ax.legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_alpha"):
            handle.set_alpha(1.0)
