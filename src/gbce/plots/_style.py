"""Style of all plots: colours, axes, labels, legends, and the marks of decisions and the answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce._validation import printable
from gbce.base import Array
from gbce.decisions import answers_among
from gbce.explanation import Decision, Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

# Distinguishable with any kind of colour blindness, as tests/plots/test_colours.py measures.
DRAWS = "#5b93d9"  # draws that reach the target
MISSED = "#c9d1da"
PRIOR = "#dfe3e8"
ROW = "#111111"
ANSWER = "#ffd400"
SAFE = "#8fd3c1"  # wanted outputs, and ranges in which an answer is known to work
REACHING = "#c3d7ef"  # ranges of draws that reach the target
UNSEEN = "#c0562f"
EDGE = "#222222"  # around marks, so that light ones stand out
QUIET = "#666666"  # captions

ANSWER_ENTRY = "the answer"

# Rules of the paper keep its hues: MAP red, Mean green, CVaR purple, DirectOpt a black star. Lightness and saturation
# were chosen by hand and by a random search so that no kind of colour blindness confuses two of them.
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
_OTHER_RULES = ("#555555", "#2a6f97", "#6a994e", "#bc4749", "#9c6644")  # colours of user-defined rules
_VARIANTS = ("<", ">", "p", "d", "8")
_BEFORE_DECISIONS = (
    "prior", "posterior", "draw", "draw, misses", "draw, reaches the target", "the model accepts", "the model's output",
    "wanted", "frontier", "best for its cost", "under unseen models", ANSWER_ENTRY, "row",
)  # fmt: skip


@dataclass(frozen=True)
class _Layout:
    """Layout, chosen by hand."""

    longest_name: int = 40  # characters; longer names would leave no room for the plot
    longest_target: int = 90  # characters of a target in a title
    legend_mark: float = 60.0  # area of a mark in a legend, in square points
    layout_room: float = 1.35  # how much smaller the axes may become once titles and a legend are placed
    overlap: float = 1.1  # diameters between the centres of two marks below which one would hide the other
    star: float = 2.6  # area of the answer's star, in units of that of other marks
    line_spacing: float = 1.35  # of labels, so that an underscore touches no letter below it
    ring_step: float = 7.0  # points by which a ring is wider than the one inside it


_LAYOUT = _Layout()
_NUMBER = re.compile(r" #\d+$")  # behind names of models that occur twice
_POINTS_PER_INCH = 72.0  # by definition

# --- axes, labels and legends ----------------------------------------------------------------------------------------


def new_axes(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return the given axes, or those of a new figure; sizes are in inches."""
    if ax is not None:
        _require_axes(ax)
        return ax
    import matplotlib.pyplot as plt  # slow to import

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def new_panels(ax: Any, n: int, width: float, heights: Sequence[float], columns: int = 1) -> "list[Axes]":
    """Return ``n`` given axes, or those of a new figure in lines of ``columns``; sizes are in inches per panel."""
    if ax is not None:
        return given_panels(ax, n)
    import matplotlib.pyplot as plt  # slow to import

    figure = plt.figure(figsize=(width * columns, sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=list(heights))
    return [figure.add_subplot(grid[i // columns, i % columns]) for i in range(n)]


def given_panels(ax: Any, n: int) -> "list[Axes]":
    """Return ``n`` given axes as a list, or raise."""
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    for one in given:
        _require_axes(one)
    if len(given) != n:
        raise ValueError(f"ax must have one Axes for each of the {n} panels, not {len(given)}")
    return given


def as_panels(panels: "Sequence[Axes]") -> "Axes | np.ndarray[Any, Any]":
    """Return a single Axes, or a flat array of several."""
    if len(panels) == 1:
        return panels[0]
    drawn = np.empty(len(panels), dtype=object)
    drawn[:] = panels
    return drawn


def _require_axes(ax: Any) -> None:
    from matplotlib.axes import Axes  # slow to import

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a matplotlib Axes, such as plt.subplots()[1], not {ax!r:.80}")


def finish_axes(ax: "Axes", title: str, *, hidden: Sequence[str] = ("top", "right"), size: float = 11) -> None:
    """Write a wrapped title on the left and hide spines."""
    ax.set_title(title, loc="left", fontsize=size, wrap=True)
    ax.spines[list(hidden)].set_visible(False)


def finish_lines(ax: "Axes", labels: Sequence[str], title: str, **text: Any) -> None:
    """Name the lines of a plot from the top down, with properties of the ``text``, and write its title."""
    ax.set_yticks(range(len(labels)), labels, **{"linespacing": _LAYOUT.line_spacing, **text})
    ax.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    finish_axes(ax, title, hidden=("top", "right", "left"))


def pale(colour: str, share: float) -> tuple[float, float, float]:
    """Return an opaque mix of white and a share of a colour."""
    from matplotlib.colors import to_rgb  # slow to import

    red, green, blue = (1.0 - share * (1.0 - part) for part in to_rgb(colour))
    return red, green, blue


def accepted_outputs(explanation: Explanation) -> tuple[float, float] | None:
    """Return the range of outputs that is the target, None for several outputs and user-defined losses."""
    try:
        return explanation.target.accepted()
    except TypeError:
        return None


def literal_text(text: str) -> str:
    """Escape a user's string so that matplotlib does not read dollar signs as formulas."""
    return printable(text).replace("$", r"\$")


def short_text(text: str, longest: int = _LAYOUT.longest_name) -> str:
    """Escape a user's string, and truncate it if it is too long, but for the number that tells models apart."""
    text = printable(text)
    number = _NUMBER.search(text)
    end = number[0] if number else ""
    return literal_text(text if len(text) <= longest else f"{text[: longest - 1 - len(end)]}…{end}")


def broken_text(text: str, width: int, most: int = 2) -> str:
    """Wrap a string into at most ``most`` lines of ``width`` characters, preferably after blanks or underscores."""
    lines: list[str] = []
    rest = printable(text)
    while rest and len(lines) < most:
        cut = len(rest)
        if cut > width:
            breaks = [k + 1 for k, letter in enumerate(rest[:width]) if letter in " _" and k >= width // 2]
            cut = breaks[-1] if breaks else width
        lines.append(rest[:cut].strip())
        rest = rest[cut:]
    if rest:
        lines[-1] = lines[-1][: width - 1] + "…"
    return "\n".join(map(literal_text, lines))


def cost_label(distance: str) -> str:
    """Return the label of an axis of costs, ``"l1"`` or ``"l2"``."""
    kind = "cost: sum of changes" if distance == "l1" else "Euclidean distance from the row"
    return f"{kind}, in units of each feature's scale"


def target_text(target: str) -> str:
    """Shorten a target for a title, with no word too long to be wrapped."""
    words = [
        word if len(word) <= _LAYOUT.longest_name else word[: _LAYOUT.longest_name - 1] + "…"
        for word in printable(target).split()
    ]
    return short_text(" ".join(words), _LAYOUT.longest_target)


def put_legend_outside(
    ax: "Axes",
    handles: Sequence[Any],
    labels: Sequence[str],
    *,
    below: bool = False,
    columns: int = 1,
    in_layout: bool = True,
) -> None:
    """Put the legend to the right of the axes or below them; equal labels share one entry.

    A legend that is not ``in_layout`` uses space that is empty anyway.
    """
    from matplotlib.collections import PathCollection  # slow to import

    entries = dict(zip((short_text(label) for label in labels), handles, strict=True))
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    if below:
        place = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.02), "borderaxespad": 0.2}
    legend = ax.legend(
        list(entries.values()), list(entries), frameon=False, fontsize=9, ncols=columns, borderpad=0.2, **place
    )
    legend.set_in_layout(in_layout)
    for handle in legend.legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_alpha(1.0)  # dots are transparent where there are many
            if handle.get_path_effects():  # a ring: in the legend as the filled mark that it stands for
                handle.set(facecolor=handle.get_edgecolor(), edgecolor=EDGE, linewidth=0.7, path_effects=[])
                handle.set_sizes([_LAYOUT.legend_mark])


# --- marks of decisions ----------------------------------------------------------------------------------------------


def list_marked(explanation: Explanation) -> list[Decision]:
    """Return the decisions that a plot marks, and last that of the answer if there is one."""
    answer = explanation.answer
    return [*answers_among(explanation.decisions), *([] if answer is None else [answer.decision])]


def mark_points(ax: "Axes", explanation: Explanation, places: Array, *, size: float) -> None:
    """Mark decisions, and last the answer if there is one, at ``places`` ``(k, 2)`` in data coordinates.

    Every mark stands at its value. Where marks would cover each other, the answer or the first one is filled and the
    others are rings of their own shape and colour around it. Limits of the axes must be set before.
    """
    places = np.asarray(places, dtype=float).reshape(-1, 2)
    decisions, answered = answers_among(explanation.decisions), explanation.answer is not None
    ranks = _rank_overlaps(ax, places, size, first=len(places) - 1 if answered else 0)
    for decision, place, rank, style in zip(decisions, places, ranks, choose_styles(decisions), strict=False):
        _mark_ring(ax, decision, place, size, style, int(rank)) if rank else mark_decisions(
            ax, [decision], [tuple(place)], size=size, styles=[style]
        )
    if answered:
        mark_answer(ax, explanation, tuple(places[-1]), size=size)


def mark_decisions(
    ax: "Axes",
    decisions: Sequence[Decision],
    places: Sequence[tuple[Any, Any]],
    *,
    size: float,
    styles: Sequence[dict[str, Any]] | None = None,
    transform: "Transform | None" = None,
) -> None:
    """Mark ``k`` decisions at positions ``places``, pairs of numbers or arrays in the coordinates of ``transform``.

    ``size`` is the area of a mark in square points.
    """
    styles = choose_styles(decisions) if styles is None else styles
    for decision, place, style in zip(decisions, places, styles, strict=True):
        area = 2.4 * size if style["marker"] == "*" else size
        ax.scatter(
            *place, s=area, **style, edgecolors=EDGE, linewidths=0.7, label=legend_entry(decision), zorder=5,
            transform=ax.transData if transform is None else transform,
        )  # fmt: skip


def mark_answer(
    ax: "Axes", explanation: Explanation, place: tuple[Any, Any], *, size: float, transform: "Transform | None" = None
) -> None:
    """Mark the answer, if there is one, by a star on top of everything else."""
    if explanation.answer is None:
        return
    ax.scatter(
        *place, s=_LAYOUT.star * size, color=ANSWER, marker="*", edgecolors=EDGE, linewidths=0.9, label=ANSWER_ENTRY,
        zorder=6, transform=ax.transData if transform is None else transform,
    )  # fmt: skip


def _mark_ring(ax: "Axes", decision: Decision, place: Array, size: float, style: dict[str, Any], rank: int) -> None:
    """Draw the outline of a decision's mark, larger for a higher rank, so that what lies inside stays visible."""
    from matplotlib.patheffects import withStroke  # slow to import

    across = np.sqrt(_LAYOUT.star * size) + _LAYOUT.ring_step * rank  # points
    ax.scatter(
        place[0], place[1], s=across**2, marker=style["marker"], facecolors="none", edgecolors=style["color"],
        linewidths=2.0, label=legend_entry(decision), zorder=5,
        path_effects=[withStroke(linewidth=3.0, foreground=EDGE)],
    )  # fmt: skip


def _rank_overlaps(ax: "Axes", places: Array, size: float, first: int) -> Array:
    """Return for each mark ``(k,)`` how many rings it lies outside of: zero unless it overlaps one placed before it."""
    figure = ax.get_figure(root=True)
    dpi = _POINTS_PER_INCH if figure is None else float(figure.dpi)
    ranks = np.zeros(len(places), dtype=int)
    order = [first, *(k for k in range(len(places)) if k != first)] if len(places) else []
    with np.errstate(invalid="ignore"):
        at = ax.transData.transform(places) * _POINTS_PER_INCH / dpi / _LAYOUT.layout_room
    for n, k in enumerate(order):
        before = np.array(order[:n], dtype=int)
        close = before[np.hypot(*(at[before] - at[k]).T) < _LAYOUT.overlap * np.sqrt(size)]
        ranks[k] = ranks[close].max(initial=-1) + 1
    return ranks


def choose_styles(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """Choose colour and marker of each decision; variants of a rule share the colour and differ in the marker."""
    styles: list[dict[str, Any]] = []
    seen: dict[str, list[str]] = {}
    for decision in decisions:
        name = "" if decision.rule is None else decision.rule.kind
        family = decision.label if decision.rule is None else decision.rule.label  # points of one set share a mark
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
    """Return the legend entry of a decision; the points of a set share one, and so do a rule's alternatives."""
    label = decision.label if decision.rule is None else decision.rule.label
    return f"{label}, alternatives" if decision.beside else label


def entries_in_order(
    ax: "Axes", handles: Sequence[Any] = (), labels: Sequence[str] = ()
) -> tuple[list[Any], list[str]]:
    """Return the handles and labels of a legend in order: context, the answer, then decisions."""
    own_handles, own_labels = ax.get_legend_handles_labels()
    entries = [*zip(own_handles, own_labels, strict=True), *zip(handles, labels, strict=True)]
    last = len(_BEFORE_DECISIONS)
    rank = {label: k for k, label in enumerate(_BEFORE_DECISIONS)} | {"misses": last + 1}
    order = sorted(range(len(entries)), key=lambda k: (rank.get(entries[k][1], last), k))
    return [entries[k][0] for k in order], [entries[k][1] for k in order]
