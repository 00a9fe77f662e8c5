"""Colours and markers, the same in every picture."""

from typing import Any

__all__ = ["DRAWS", "MISSED", "PRIOR", "ROW", "mark"]

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
    if "(" in label:
        marker = _OTHERS[position % len(_OTHERS)]
    return {"color": colour, "marker": marker}
