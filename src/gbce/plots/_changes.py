"""Plots of changes: intervals by feature, cost and reliability of decisions, strategies, sets of few columns."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce._numerics import weighted_quantile
from gbce.base import Array
from gbce.decisions import Decision, answers_among, stack_points
from gbce.explanation import Explanation, changed_columns
from gbce.metrics import PRINTED_Z_95, costs, most_moved, prior_moves, signed_changes
from gbce.plots._features import LevelBoxes, draw_boxes, level_boxes
from gbce.plots._style import (
    DRAWS,
    EDGE,
    MISSED,
    PRIOR,
    QUIET,
    SAFE,
    as_panels,
    cost_label,
    entries_in_order,
    finish_axes,
    finish_lines,
    given_panels,
    list_marked,
    mark_answer,
    mark_decisions,
    mark_points,
    new_axes,
    new_panels,
    put_legend_outside,
    short_text,
    target_text,
)
from gbce.plots._tracks import draw_tracks
from gbce.space import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class _Layout:
    """Layout, chosen by hand."""

    mark_rise: float = 0.33  # lines from the centre to the marks of the first and the last decision
    lane: float = 0.09  # inches between the marks of two decisions
    mark_room: float = 0.2  # inches of a box reserved for marks
    axes_inches: float = 4.6  # approximate width of the axes
    far: float = 60.0  # ratio of the largest to the median change above which the axis is logarithmic
    size: float = 80.0  # of a mark, in square points
    width: float = 8.2  # inches: of a panel, between lines, for title and legend
    line: float = 0.55
    room: float = 0.45
    legend: float = 0.3
    menu_width: float = 8.6  # inches of a menu, of each set, and of title and axis
    menu_line: float = 0.72
    menu_room: float = 1.3
    lowest: float = 3.0  # inches of a menu, however few sets there are
    names: int = 34  # characters of a column's name in a menu


_LAYOUT = _Layout()

# --- change by feature -----------------------------------------------------------------------------------------------


def plot_changes(
    explanation: Explanation, *, mass: float = 0.9, max_features: int = 15, ax: "Axes | None" = None
) -> "Axes":
    """Plot the interval of each feature's change in units of its scale, with the decisions as marks.

    A category has boxes for its levels, darker if more probable, with a dark edge for the row's level; decisions are
    marked in the box of their level. If changes differ by orders of magnitude, the axis is logarithmic on both sides of
    zero.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    mass : float
        Probability of the intervals.
    max_features : int
        Show the features whose movement differs most from the prior's own.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

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
    labels = [_format_label(explanation, j) for j in columns]
    width = 8.4 + 0.08 * max([max(map(len, label.split("\n"))) - 18 for label in labels] + [0])  # inches
    decisions = answers_among(explanation.decisions)
    line = max(0.5, _LAYOUT.lane * len(decisions) / (2 * _LAYOUT.mark_rise))  # inches: no mark covers another
    ax = new_axes(ax, width, 1.6 + line * len(kept))
    x = stack_points(decisions, len(space))
    boxes: dict[int, LevelBoxes] = {}
    ends: list[float] = []
    for y, j in enumerate(columns):
        if space.features[j].unordered:
            boxes[y] = _draw_category(ax, explanation, y, j, x[:, j])
        else:
            spans = _find_spans(explanation, j, mass)
            _draw_spans(ax, y, *spans)
            ends += [*spans[0], *spans[1]]
    _mark_points(ax, explanation, columns, boxes)
    if len(boxes) < len(columns):
        ax.axvline(0.0, color="#111111", lw=1, zorder=1.2)
        ax.set_xlabel("change, in units of each feature's scale")
        numbers = [j for y, j in enumerate(columns) if y not in boxes]
        _set_scale(ax, np.append(signed_changes(space, x, explanation.x0)[:, numbers].ravel(), ends))
    else:
        ax.set_xticks([])
    left = int((explanation.importance["prior"] > 0).sum()) - len(columns)
    rest = f"; {left} more column{'s' * (left > 1)} move about as under the prior" if left else ""
    rest = rest if len(columns) else ": no column can move"
    title = f"What changes, target: {target_text(explanation.target.describe())} ({mass:.0%} intervals){rest}"
    finish_lines(ax, labels, title)
    handles, labels_shown = entries_in_order(ax)
    if handles:
        put_legend_outside(ax, handles, labels_shown)
    return ax


def _format_label(explanation: Explanation, j: int) -> str:
    """Return a label with a feature's name and the row's value."""
    space = explanation.space
    now = short_text(space.format(j, explanation.x0[j]), 24)
    name = short_text(space.label(j))
    return f"{name}  (now {now})" if len(name) + len(now) < 34 else f"{name}\n(now {now})"


def _draw_spans(ax: "Axes", y: int, before: list[float], after: list[float]) -> None:
    """Draw the intervals of prior and posterior, labelled for the legend on the first numeric line only."""
    first = not any(bar.get_label() == "prior" for bar in ax.containers)
    width = before[2] - before[0]
    ax.barh(y, width, left=before[0], height=0.62, color=PRIOR, label="prior" if first else None)
    ax.plot(
        [after[0], after[2]], [y, y], color=DRAWS, lw=5, solid_capstyle="butt", label="posterior" if first else None
    )
    ax.plot([after[1]], [y], "|", color="white", ms=9, mew=2)


def _draw_category(ax: "Axes", explanation: Explanation, y: int, j: int, chosen: Array) -> LevelBoxes:
    others = list(chosen) + ([] if explanation.answer is None else [explanation.answer.decision.x[j]])
    boxes = level_boxes(explanation, j, others)
    draw_boxes(
        ax, y, boxes, height=0.7, inches=_LAYOUT.axes_inches, now=explanation.x0[j], transform=ax.get_yaxis_transform(),
        room=_LAYOUT.mark_room,
    )  # fmt: skip
    return boxes


def _mark_points(ax: "Axes", explanation: Explanation, columns: list[int], boxes: dict[int, LevelBoxes]) -> None:
    """Mark the decisions, each in its own lane, and the answer in the last one."""
    space, decisions = explanation.space, answers_among(explanation.decisions)
    x = stack_points(list_marked(explanation), len(space))
    rise = np.linspace(-_LAYOUT.mark_rise, _LAYOUT.mark_rise, len(x)) if len(x) > 1 else np.zeros(len(x))
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


def _set_scale(ax: "Axes", changes: Array) -> None:
    """Make the axis symmetric-logarithmic if a few large changes would squeeze the others."""
    sizes = np.abs(changes)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if len(sizes) and sizes.max() > _LAYOUT.far * np.median(sizes):
        ax.set_xscale("symlog", linthresh=float(np.median(sizes)))


def _find_spans(explanation: Explanation, j: int, mass: float) -> tuple[list[float], list[float]]:
    """Return low end, median and high end of a feature's change under the prior and under the posterior."""
    draws, space, x0 = explanation.draws, explanation.space, explanation.x0
    edges = ((1 - mass) / 2, 0.5, (1 + mass) / 2)
    moves = signed_changes(space, draws.x, x0)[:, j]
    before = prior_moves(draws, space, x0, j, edges).tolist()
    return before, [float(weighted_quantile(moves, draws.weights, q)) for q in edges]


# --- cost and reliability of decisions -------------------------------------------------------------------------------


def plot_decisions(explanation: Explanation, *, distance: str = "l1", ax: "Axes | None" = None) -> "Axes":
    """Plot the cost of each decision against its probability of success under execution noise.

    A decision below and to the right of another is more expensive and less reliable. Lines are 95% Monte Carlo
    intervals. A decision that misses the target without noise is crossed out. If reliability was not estimated (after
    reweighting, or without budget), the share of models that accept the decision is shown instead, as the axis says.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    distance : {"l1", "l2"}
        Cost: the sum of changes in units of each feature's scale, or their Euclidean norm.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=["MAP", "CVaR"], seed=0)
    >>> explanation.plot.decisions().get_ylabel()
    'works under small errors of execution'
    """
    listed = list_marked(explanation)
    if not listed:
        raise ValueError(
            "there is no decision to draw: the explanation was made without rules; pass rules= to explain(...)"
        )
    ax = new_axes(ax, 7.6, 4.4)
    cost = costs(explanation.space, stack_points(listed, len(explanation.space)), explanation.x0, distance)
    share, error, label = _find_reliability(explanation, listed)
    places = np.column_stack([cost, share])
    ax.set_xlim(*_find_limits(cost))
    ax.set_ylim(-0.06, 1.06)
    for k, decision in enumerate(listed):
        low, high = np.clip(share[k] + PRINTED_Z_95 * error[k] * np.array([-1.0, 1.0]), 0.0, 1.0)
        ax.plot([cost[k], cost[k]], [low, high], color=QUIET, lw=1.2, zorder=3)
        if not decision.reached[0]:
            ax.plot([cost[k]], [share[k]], "x", color=EDGE, ms=15, mew=1.4, zorder=7, label="misses")
    mark_points(ax, explanation, places, size=_LAYOUT.size)
    ax.set_xlabel(cost_label(distance), wrap=True)
    ax.set_ylabel(label)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.grid(alpha=0.25, lw=0.6)
    ax.set_axisbelow(True)
    finish_axes(
        ax, f"What decisions cost and how often they work, target: {target_text(explanation.target.describe())}"
    )
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _find_reliability(explanation: Explanation, listed: list[Decision]) -> tuple[Array, Array, str]:
    """Return the reliability of each decision, its standard error, and the label of the axis."""
    share = np.array([decision.figures.get("robustness", np.nan) for decision in listed], dtype=float)
    error = np.array([decision.errors.get("robustness", np.nan) for decision in listed], dtype=float)
    answer = explanation.answer
    if answer is not None and answer.reliability is not None:
        share[-1] = answer.reliability.share
        error[-1] = (answer.reliability.high - answer.reliability.low) / 2 / PRINTED_Z_95
    if np.isfinite(share).all():
        return share, np.nan_to_num(error), "works under small errors of execution"
    reached = np.array([decision.reached for decision in listed], dtype=float) @ explanation.mixture.weights
    kind = "the model accepts" if len(explanation.models) == 1 else "share of models that accept"
    return reached, np.zeros(len(listed)), f"{kind} (reliability was not estimated)"


def _find_limits(cost: Array) -> tuple[float, float]:
    low, high = float(min(cost.min(), 0.0)), float(cost.max())
    room = 0.1 * (high - low) or 1.0
    return low - 0.3 * room, high + room


# --- distinct strategies ---------------------------------------------------------------------------------------------


def plot_alternatives(
    explanation: Explanation, k: int = 3, *, max_features: int = 6, ax: "Axes | Sequence[Axes] | None" = None
) -> "Axes | np.ndarray[Any, Any]":
    """Plot the strategies of :meth:`gbce.Explanation.alternatives`, one panel each, from the row to its cheapest point.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    k : int
        Largest number of strategies.
    max_features : int
        Largest number of columns in a panel: those that change most in any strategy.
    ax : matplotlib Axes or sequence of them, optional
        Axes to draw on, one for each strategy; by default those of a new figure.

    Returns
    -------
    matplotlib Axes, or array of them
        The axes drawn on; an array ``(s,)`` for ``s`` strategies.

    Examples
    --------
    >>> import gbce, matplotlib, pandas as pd
    >>> matplotlib.use("Agg")
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"])
    >>> explainer = gbce.Explainer(lambda x: np.maximum(x["a"], x["b"]), data)
    >>> explanation = explainer.explain({"a": 0.0, "b": 0.0}, gbce.AtLeast(1), rules=["Nearest"], seed=1)
    >>> len(explanation.plot.alternatives())
    2
    """
    if ax is not None:
        given_panels(ax, len(np.ravel(np.asarray(ax, dtype=object))))  # raise before anything is computed
    found = explanation.alternatives(k)
    space, x0 = explanation.space, explanation.x0
    if len(found) == 0:
        raise ValueError(f"there is nothing to compare. {found.note}")
    own_columns = space.frame(x0[None, :]).columns
    points = space.encode(found.table.iloc[:, -len(own_columns) :].set_axis(own_columns, axis=1))
    columns = sorted({int(j) for x in points for j in changed_columns(space, x0, x)})
    size = np.abs(signed_changes(space, points, x0)).max(axis=0)
    columns = sorted(sorted(columns, key=lambda j: -size[j])[:max_features])
    shown = [[j for j in columns if j in changed_columns(space, x0, x)] for x in points]
    heights = [_LAYOUT.room + _LAYOUT.line * (len(own) + 1) for own in shown]
    heights[-1] += _LAYOUT.legend
    panels = new_panels(ax, len(heights), _LAYOUT.width, heights)
    for number, (panel, x) in enumerate(zip(panels, points, strict=True), start=1):
        line = found.table.loc[number]
        decision = _make_decision(explanation, x, bool(line["reached"]), float(line["output"]))
        own = shown[number - 1]
        draw_tracks(panel, explanation, decision, own, legend=number == len(panels))
        mass, error = float(line["mass"]), PRINTED_Z_95 * float(line["mass_se"])
        title = f"{number}. {mass:.0%} (± {error:.0%}) of the posterior, cost {float(line['cost']):.2g}"
        more = len(changed_columns(space, x0, x)) - len(own)
        title += f", {more} more column{'s' * (more > 1)} change" if more else ""
        title += f"; other strategies: {found.other:.0%}" if number == len(panels) and found.other > 0.005 else ""
        panel.set_title(title, loc="left", fontsize=10, wrap=True)
        panel.spines[["top", "right", "left", "bottom"]].set_visible(False)
    return as_panels(panels)


def _make_decision(explanation: Explanation, x: Any, reached: bool, output: float) -> Decision:
    """Return the representative point of a strategy as a decision."""
    row = explanation.row
    outputs, verdicts = row.outputs[0].copy(), row.reached[0].copy()
    outputs[0], verdicts[0] = output, reached
    return Decision("", x, outputs, row.loss[0], verdicts, 0.0)


# --- sets of few columns ----------------------------------------------------------------------------------------------


def plot_menu(
    explanation: Explanation, max_columns: int = 3, *, max_sets: int = 12, ax: "Axes | None" = None
) -> "Axes":
    """Plot the sets of columns of :meth:`gbce.Explanation.menu` that reach the target, with what each costs.

    A hollow mark is the cheapest point found that changes just these columns, a filled one the cheapest that is
    reliable. Below the names of the columns is the share of the posterior that needs just these columns.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    max_columns : int
        Largest number of columns of a set.
    max_sets : int
        Largest number of sets, those with fewer columns and then the cheapest first.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib, pandas as pd
    >>> matplotlib.use("Agg")
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"])
    >>> explainer = gbce.Explainer(lambda x: np.maximum(x["a"], x["b"]), data)
    >>> explanation = explainer.explain({"a": 0.0, "b": 0.0}, gbce.AtLeast(1), rules=["Nearest"], seed=1)
    >>> ax = explanation.plot.menu(1)
    >>> sorted(label.get_text()[0] for label in ax.get_yticklabels())
    ['a', 'b']
    >>> matplotlib.pyplot.close(ax.figure)
    """
    menu = explanation.menu(max_columns)
    table = menu.table[menu.table["verdict"] == "reaches"].head(max_sets)
    if len(table) == 0:
        raise ValueError(f"there is no set of columns to draw. {menu.note or menu}")
    ax = new_axes(ax, _LAYOUT.menu_width, max(_LAYOUT.menu_room + _LAYOUT.menu_line * len(table), _LAYOUT.lowest))
    for place, line in enumerate(table.to_dict("records")):
        cost, reliable = float(line["cost"]), float(line["reliable_cost"])
        if np.isfinite(reliable):
            ax.plot([cost, reliable], [place, place], color=MISSED, lw=3, zorder=2, solid_capstyle="round")
            ax.plot([reliable], [place], "o", color=SAFE, mec=EDGE, ms=9, zorder=4, label="the cheapest reliable point")
        ax.plot([cost], [place], "o", color="white", mec=DRAWS, mew=2, ms=9, zorder=3, label="the cheapest point")
    names = [_name_set(explanation.space, line) for line in table.to_dict("records")]
    ax.set_yticks(range(len(table)), names, fontsize=9, linespacing=1.35)
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlim(left=0.0)
    ax.margins(x=0.05)
    ax.set_xlabel(cost_label("l1"), wrap=True)
    ax.grid(axis="x", alpha=0.25, lw=0.6)
    ax.set_axisbelow(True)
    n_impossible = int((menu.table["verdict"] == "impossible").sum())
    title = f"Which columns would do, target: {target_text(explanation.target.describe())}"
    if n_impossible:
        title += f" ({n_impossible} other set{'s' * (n_impossible > 1)} proved impossible)"
    finish_axes(ax, title, hidden=("top", "right", "left"))
    ax.tick_params(axis="y", length=0)
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _name_set(space: Space, line: dict[Hashable, Any]) -> str:
    """Return the names of the columns of a set, and its share of the posterior."""
    names = "\n".join(short_text(space.label(space.names.index(name)), _LAYOUT.names) for name in line["columns"])
    return f"{names}\n{line['share']:.0%} (± {PRINTED_Z_95 * line['share_se']:.0%})"
