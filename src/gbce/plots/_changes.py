"""Change per feature: the posterior's interval against the prior's, and what each rule does."""

from typing import TYPE_CHECKING

import numpy as np

from gbce._numerics import weighted_quantile
from gbce.base import Array
from gbce.decisions import answers_among, stack_points
from gbce.explanation import Explanation
from gbce.metrics import most_moved, prior_moves, signed_changes
from gbce.plots._levels import LevelBoxes, draw_boxes, level_boxes
from gbce.plots._marks import entries_in_order, mark_answer, mark_decisions
from gbce.plots._style import DRAWS, PRIOR, finish_axes, new_axes, put_legend_outside, short_text, wish_text
from gbce.space import value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_changes"]

# Looks, chosen by hand.
_MARK_RISE = 0.33  # of a line, up and down, between the marks of the first and the last decision
_LANE = 0.09  # inches between the marks of two decisions
_MOST_BOXES = 5  # for the levels of a category
_MARK_ROOM = 0.2  # inches of a box that are kept for marks
_AXES_INCHES = 4.6  # what the picture itself is wide, about
_FAR = 60.0  # units of scale, over the middle size of what is shown, from which on the axis is logarithmic


def plot_changes(
    explanation: Explanation, *, mass: float = 0.9, max_features: int = 15, ax: "Axes | None" = None
) -> "Axes":
    """Draw the interval of each feature's change in units of its scale, with the decisions as marks.

    A category has boxes for its levels instead, the darker the more probable, the row's own with a dark edge; a
    decision is marked in the box of its level. Where changes differ by orders of size, the axis is logarithmic on both
    sides of zero.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    mass : float
        Probability of the intervals.
    max_features : int
        Show the features whose movement differs most from the prior's own.
    ax : matplotlib Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib, numpy as np
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    >>> [tick.get_text().split()[0] for tick in explanation.plot.changes().get_yticklabels()]
    ['x1', 'x2']
    """
    if not 0 < mass < 1:
        raise ValueError(f"mass must lie between 0 and 1, not {mass!r}")
    space = explanation.space
    kept = most_moved(explanation.importance, max_features)
    columns = [space.names.index(name) for name in kept]
    labels = [_label(explanation, j) for j in columns]
    width = 8.4 + 0.08 * max([max(map(len, label.split("\n"))) - 18 for label in labels] + [0])  # inches
    decisions = answers_among(explanation.decisions)
    line = max(0.5, _LANE * len(decisions) / (2 * _MARK_RISE))  # inches: no mark covers another
    ax = new_axes(ax, width, 1.6 + line * len(kept))
    x = stack_points(decisions, len(space))
    boxes: dict[int, LevelBoxes] = {}
    ends: list[float] = []
    for y, j in enumerate(columns):
        if space.features[j].unordered:
            boxes[y] = _draw_category(ax, explanation, y, j, x[:, j])
        else:
            spans = _change_spans(explanation, j, mass)
            _draw_spans(ax, y, *spans)
            ends += [*spans[0], *spans[1]]
    _mark(ax, explanation, columns, boxes)
    if len(boxes) < len(columns):
        ax.axvline(0.0, color="#111111", lw=1, zorder=1.2)
        ax.set_xlabel("change, in units of each feature's scale")
        numbers = [j for y, j in enumerate(columns) if y not in boxes]
        _stretch(ax, np.append(signed_changes(space, x, explanation.x0)[:, numbers].ravel(), ends))
    else:
        ax.set_xticks([])
    ax.set_yticks(range(len(columns)), labels)
    ax.set_ylim(max(len(columns), 1) - 0.5, -0.5)
    shown = "" if len(columns) else ": no column can move"
    finish_axes(
        ax,
        f"What changes, target: {wish_text(explanation.target.describe())} ({mass:.0%} intervals){shown}",
        hidden=("top", "right", "left"),
    )
    handles, texts = entries_in_order(ax)
    if handles:
        put_legend_outside(ax, handles, texts)
    ax.tick_params(axis="y", length=0)
    return ax


def _label(explanation: Explanation, j: int) -> str:
    """Return a feature's name and the row's value."""
    space = explanation.space
    now = short_text(value_text(space.features[j], space.codecs[j], explanation.x0[j]), 24)
    name = short_text(space.names[j])
    return f"{name}  (now {now})" if len(name) + len(now) < 34 else f"{name}\n(now {now})"


def _draw_spans(ax: "Axes", y: int, before: list[float], after: list[float]) -> None:
    """Draw the prior's interval and the posterior's; both have their legend's entry from the first line of numbers."""
    first = not any(bar.get_label() == "prior" for bar in ax.containers)
    width = before[2] - before[0]
    ax.barh(y, width, left=before[0], height=0.62, color=PRIOR, label="prior" if first else None)
    ax.plot(
        [after[0], after[2]], [y, y], color=DRAWS, lw=5, solid_capstyle="butt", label="posterior" if first else None
    )
    ax.plot([after[1]], [y], "|", color="white", ms=9, mew=2)


def _draw_category(ax: "Axes", explanation: Explanation, y: int, j: int, chosen: Array) -> LevelBoxes:
    others = list(chosen) + ([] if explanation.answer is None else [explanation.answer.decision.x[j]])
    boxes = level_boxes(explanation, j, others, _MOST_BOXES)
    draw_boxes(
        ax, y, boxes, height=0.7, inches=_AXES_INCHES, now=explanation.x0[j], transform=ax.get_yaxis_transform(),
        room=_MARK_ROOM,
    )  # fmt: skip
    return boxes


def _mark(ax: "Axes", explanation: Explanation, columns: list[int], boxes: dict[int, LevelBoxes]) -> None:
    """Mark the decisions, each in a lane of its own, and the answer in the last one."""
    space, decisions, answer = explanation.space, answers_among(explanation.decisions), explanation.answer
    lanes = len(decisions) + (answer is not None)
    rise = np.linspace(-_MARK_RISE, _MARK_RISE, lanes) if lanes > 1 else np.zeros(lanes)
    x = stack_points([*decisions, *([] if answer is None else [answer.decision])], len(space))
    changes = signed_changes(space, x, explanation.x0)[:, columns]
    lines = np.arange(len(columns))
    numbers = np.array([y for y in lines if y not in boxes], dtype=int)
    if len(numbers):
        places = [(change[numbers], numbers + up) for change, up in zip(changes, rise, strict=True)]
        mark_decisions(ax, decisions, places[: len(decisions)], size=30)
        mark_answer(ax, explanation, places[-1] if places else ([], []), size=34)
    if boxes:
        levels = np.array(list(boxes))
        places = []
        for point, up in zip(x, rise, strict=True):
            right = [(one.box(point[columns[y]]) + 1) / len(one) - 0.022 for y, one in boxes.items()]
            places.append((np.array(right), levels + up))
        across = ax.get_yaxis_transform()
        mark_decisions(ax, decisions, places[: len(decisions)], size=30, transform=across)
        mark_answer(ax, explanation, places[-1] if places else ([], []), size=34, transform=across)


def _stretch(ax: "Axes", changes: Array) -> None:
    """Make the axis logarithmic on both sides of zero where a few changes would leave no room for the others."""
    sizes = np.abs(changes)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if len(sizes) and sizes.max() > _FAR * np.median(sizes):
        ax.set_xscale("symlog", linthresh=float(np.median(sizes)))


def _change_spans(explanation: Explanation, j: int, mass: float) -> tuple[list[float], list[float]]:
    """Low end, middle and high end of a number's change under the prior and under the posterior."""
    draws, space, x0 = explanation.draws, explanation.space, explanation.x0
    edges = ((1 - mass) / 2, 0.5, (1 + mass) / 2)
    moves = signed_changes(space, draws.x, x0)[:, j]
    before = prior_moves(draws, space, x0, j, edges).tolist()
    return before, [float(weighted_quantile(moves, draws.weights, q)) for q in edges]
