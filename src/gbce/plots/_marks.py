"""Marks of decisions: a colour and a shape for each rule, set apart where they would cover each other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.base import Array
from gbce.explanation import Decision, Explanation
from gbce.plots._style import ANSWER, EDGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

__all__ = ["ANSWER_ENTRY", "dodge", "entries_in_order", "legend_entry", "mark_answer", "mark_decisions", "nudge"]

ANSWER_ENTRY = "the answer"

# Rules of the paper keep its hues: MAP red, Mean green, CVaR purple, DirectOpt a black star. Lightness and saturation
# were sought by hand and by a random search, so that no kind of colour blindness makes two of them one.
_MARKS: dict[str, tuple[str, str]] = {
    "Nearest": ("#024361", "H"),
    "MAP": ("#ad0611", "o"),
    "Mean": ("#95e672", "s"),
    "CVaR": ("#8101b3", "D"),
    "DirectOpt": ("#111111", "*"),
    "ChanceConstrained": ("#e68d1e", "^"),
    "GeometricMedian": ("#3ef5a9", "v"),
    "Medoid": ("#a27a57", "P"),
    "DiverseSet": ("#d410a0", "X"),
    "RandomDraw": ("#5b5b5b", "h"),
}
_OTHER_RULES = ("#555555", "#2a6f97", "#6a994e", "#bc4749", "#9c6644")  # colours of a user's own
_VARIANTS = ("<", ">", "p", "d", "8")

# Looks, chosen by hand.
_POINTS_PER_INCH = 72.0  # by definition
_LAYOUT_ROOM = 1.35  # how much smaller the axes may become once titles and a legend have taken their place
_APART = 1.35  # diameters between the middles of two marks: a star is larger than the others
_DODGE_ROUNDS = 60  # of pushing marks apart; a dozen of them at one place need about thirty


def mark_decisions(
    ax: "Axes",
    decisions: Sequence[Decision],
    places: Sequence[tuple[Any, Any]],
    *,
    size: float,
    shifts: Array | None = None,
    transform: "Transform | None" = None,
) -> None:
    """Mark decisions at their places, one or several each.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    decisions : sequence of k Decision
        What to mark.
    places : sequence of k pairs
        Horizontal and vertical positions of each: numbers or arrays.
    size : float
        Area of a mark, in square points; a star is larger, to look as large.
    shifts : array of shape (k, 2), optional
        How far to set each mark beside its place, in points, see :func:`dodge`.
    transform : matplotlib Transform, optional
        What the places are in; data when left out.
    """
    base = ax.transData if transform is None else transform
    for k, (decision, place, style) in enumerate(zip(decisions, places, choose_styles(decisions), strict=True)):
        area = 2.4 * size if style["marker"] == "*" else size
        at = base if shifts is None else nudge(ax, base, shifts[k])
        ax.scatter(
            *place, s=area, **style, edgecolors=EDGE, linewidths=0.7, label=legend_entry(decision), zorder=5,
            transform=at,
        )  # fmt: skip


def mark_answer(
    ax: "Axes",
    explanation: Explanation,
    place: tuple[Any, Any],
    *,
    size: float,
    shift: Array | None = None,
    transform: "Transform | None" = None,
) -> None:
    """Mark the answer, if there is one: a star above all else."""
    if explanation.answer is None:
        return
    base = ax.transData if transform is None else transform
    ax.scatter(
        *place, s=2.6 * size, color=ANSWER, marker="*", edgecolors=EDGE, linewidths=0.9, label=ANSWER_ENTRY, zorder=6,
        transform=base if shift is None else nudge(ax, base, shift),
    )  # fmt: skip


def nudge(ax: "Axes", base: "Transform", shift: Array) -> "Transform":
    """Return a transform that sets things beside their place by so many points, however the figure is resized."""
    from matplotlib.transforms import ScaledTranslation  # slow to import

    figure = ax.get_figure(root=True)
    if figure is None:  # only of axes that were removed
        return base
    inches = np.asarray(shift, dtype=float) / _POINTS_PER_INCH
    return base + ScaledTranslation(float(inches[0]), float(inches[1]), figure.dpi_scale_trans)


def dodge(ax: "Axes", places: Array, size: float, pinned: Sequence[int] = (), along: int = 0) -> Array:
    """Return how far to set marks ``(k, 2)`` apart, in points, so that none covers another.

    Marks that lie apart stay where they are, and so do those that are pinned; others that share a place go to both
    sides of it, along the first axis or the second.
    """
    places = np.asarray(places, dtype=float).reshape(-1, 2)
    shifts = np.zeros_like(places)
    known = np.isfinite(places).all(axis=1)
    if known.sum() < 2:
        return shifts
    figure = ax.get_figure(root=True)
    dpi = _POINTS_PER_INCH if figure is None else float(figure.dpi)
    start = np.zeros_like(places)
    start[known] = ax.transData.transform(places[known]) * _POINTS_PER_INCH / dpi / _LAYOUT_ROOM
    need = _APART * np.sqrt(size)
    at = start.copy()
    at[:, along] += 1e-3 * np.arange(len(at))  # those at one place need a direction
    for _ in range(_DODGE_ROUNDS):
        gap = at[:, None, :] - at[None, :, :]
        far = np.hypot(gap[..., 0], gap[..., 1])
        close = (far < need) & known[:, None] & known[None, :]
        np.fill_diagonal(close, False)
        if not close.any():
            break
        way = gap / np.maximum(far, 1e-9)[..., None]
        push = np.where(close[..., None], 0.5 * (need * 1.02 - far)[..., None] * way, 0.0).sum(axis=1)
        push[list(pinned)] = 0.0
        at = at + push
    return at - start


def choose_styles(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
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


def legend_entry(decision: Decision) -> str:
    """Return the legend's entry: the points of one set share one, and so do those beside a rule's answer."""
    label = decision.label if decision.rule is None else decision.rule.label
    return f"{label}, alternatives" if decision.beside else label


_BEFORE_DECISIONS = (
    "prior", "posterior", "draw", "draw, misses", "draw, reaches the target", "the model accepts", "the model's output",
    "wanted", "frontier", "best for its distance", "under unseen models", ANSWER_ENTRY, "row",
)  # fmt: skip


def entries_in_order(
    ax: "Axes", handles: Sequence[Any] = (), labels: Sequence[str] = ()
) -> tuple[list[Any], list[str]]:
    """Return the entries of a legend, further ones included: what is around first, then the answer, then decisions."""
    own_handles, own_labels = ax.get_legend_handles_labels()
    entries = [*zip(own_handles, own_labels, strict=True), *zip(handles, labels, strict=True)]
    last = len(_BEFORE_DECISIONS)
    rank = {label: k for k, label in enumerate(_BEFORE_DECISIONS)} | {"misses": last + 1}
    order = sorted(range(len(entries)), key=lambda k: (rank.get(entries[k][1], last), k))
    return [entries[k][0] for k in order], [entries[k][1] for k in order]
