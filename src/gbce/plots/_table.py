"""Plots of many rows: changes by column and costs by group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import printable
from gbce.base import Array
from gbce.batch import ANSWER, POSTERIOR, ExplanationTable, find_costs, group_costs
from gbce.decisions import Rule
from gbce.explanation import Status, number_text
from gbce.plots._features import MOST_BOXES
from gbce.plots._style import DRAWS, EDGE, MISSED, finish_lines, new_axes, pale, put_legend_outside, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class _Layout:
    """Layout, chosen by hand."""

    swarm_bins: int = 60  # positions along a line at which dots are stacked
    swarm_height: float = 0.38  # units of a line, up and down, for the tallest stack
    characters: int = 60  # that fit into a line of boxes


_LAYOUT = _Layout()
_LOW, _HIGH = "#e8b04a", "#24508f"  # colours of values that start low and high

# --- changes and costs -----------------------------------------------------------------------------------------------


def plot_table_changes(
    table: ExplanationTable, rule: Rule | str | None = None, *, max_features: int = 15, ax: "Axes | None" = None
) -> "Axes":
    """Plot the changes of all rows as a swarm of dots, one line per column, one dot per row that changes it.

    Every line has its own scale up to its largest change, which stands below its name, because columns have different
    units. A dot's colour tells where the row starts: low or high among the rows that change this column. A category has
    boxes for the new levels instead, darker for more rows.

    Parameters
    ----------
    table : ExplanationTable
        The explained rows.
    rule : Rule or str, optional
        A decision rule, its label, or ``"answer"``. By default the answers, or the first rule if there are none.
    max_features : int
        Largest number of columns: those that change in most rows.
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
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:5], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0, progress=False)
    >>> [tick.get_text().split()[0] for tick in table.plot.changes().get_yticklabels()]
    ['x1', 'x2']
    """
    moves, rule = _select_changes(table, rule)
    counts = moves["feature"].value_counts(sort=False)
    counts = counts.sort_values(ascending=False, kind="stable")
    kept = list(counts.index[:max_features])
    n = int((table.diagnostics["status"] != Status.FAILED).sum())
    units, called = _list_units(table), _list_labels(table)
    labels = [
        _format_label(moves[moves["feature"] == name], called.get(str(name), str(name)), n, units.get(str(name), ""))
        for name in kept
    ]
    longest = max([len(line) for label in labels for line in label.split("\n")] + [0])
    ax = new_axes(ax, 7.6 + 0.07 * max(longest - 16, 0), 1.5 + 0.56 * max(len(kept), 1))
    ax.axvline(0.0, color=EDGE, lw=1, zorder=1)
    coloured = False
    for y, name in enumerate(kept):
        own = moves[moves["feature"] == name]
        change = own["change"].to_numpy(dtype=float)
        if np.isfinite(change).any():
            coloured |= _draw_swarm(ax, y, own, change)
        else:
            _draw_levels(ax, y, own["to"])
    ax.set_xlim(-1.08, 1.08)
    ax.set_xticks([-1, 0, 1], ["largest\nfall", "no change", "largest\nrise"])
    ax.set_xlabel("change, each column in its own unit")
    who = {"": "What changes", ANSWER: "What the answers change"}.get(rule, f"What {short_text(rule)} changes")
    title = f"{who} in {n:,} rows"
    left = len(counts) - len(kept)
    finish_lines(ax, labels, title + (f" ({left} more columns change less often)" if left else ""))
    if not kept:
        ax.text(0.5, 0.5, "no decision changes anything", transform=ax.transAxes, ha="center", va="center")
        ax.set_xticks([])
        ax.set_xlabel("")
    if coloured:
        _add_colour_legend(ax)
    return ax


def plot_table_costs(
    table: ExplanationTable,
    groups: Any = None,
    *,
    rule: Rule | str = ANSWER,
    mass: float = 0.95,
    seed: int = 0,
    max_groups: int = 20,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the cost of recourse by group: each row as a dot, the mean of each group with its interval.

    Below a group's name is the number of rows that can reach the target, of those that have not yet. The figures are
    those of :func:`gbce.group_costs`.

    Parameters
    ----------
    table : ExplanationTable
        The explained rows.
    groups : sequence, Series or mapping, optional
        The group of each row, in order or by the row's label. By default all rows are one group.
    rule, mass, seed
        As in :func:`gbce.group_costs`.
    max_groups : int
        Largest number of groups: those with most rows.
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
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:6], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0, progress=False)
    >>> ax = table.plot.costs(["a", "a", "a", "b", "b", "b"])
    >>> [tick.get_text()[0] for tick in ax.get_yticklabels()]
    ['a', 'b']
    """
    labels = ["all rows"] * len(table) if groups is None else groups
    found = group_costs(table, labels, rule=rule, mass=mass, seed=seed)
    kept = found.sort_values("rows", ascending=False, kind="stable").index[:max_groups]
    shown = found[found.index.isin(kept)]
    rows = _row_costs(table, labels, rule)
    names = [short_text(str(name), 32) for name in shown.index]
    ax = new_axes(ax, 7.4 + 0.07 * max(max(map(len, names)) - 14, 0), 1.4 + 0.52 * len(shown))
    rng = np.random.default_rng(0)
    for y, name in enumerate(shown.index):
        cost = rows.loc[rows["group"] == name, "cost"].to_numpy(dtype=float)
        cost = cost[np.isfinite(cost)]
        up = rng.uniform(-0.28, 0.28, size=len(cost))
        ax.scatter(cost, y + up, s=12, color=MISSED, linewidths=0, label="a row", zorder=2)
        line = shown.loc[name]
        if np.isfinite(line["cost_low"]):
            ax.plot([line["cost_low"], line["cost_high"]], [y, y], color=DRAWS, lw=4, zorder=3, solid_capstyle="butt")
        ax.scatter(line["cost"], y, s=60, color=DRAWS, edgecolors=EDGE, zorder=4, label="mean of the group")
        wanting = int(line["rows"] - line["failed"] - line["already"])
        able = (
            f"{round(line['attainable'] * wanting):,} of {wanting:,} can reach it" if wanting else "none needs a change"
        )
        names[y] += f"\n({able})"
    ax.set_xlim(left=0.0)
    whose = {POSTERIOR: "mean cost of the draws", ANSWER: "cost of the answer"}
    label = rule if isinstance(rule, str) else rule.label
    of = whose.get(label, f"cost of {short_text(label)}")
    ax.set_xlabel(f"{of}: sum of changes, in units of each feature's scale", wrap=True)
    more = f" ({len(found) - len(shown)} smaller groups are not shown)" if len(found) > len(shown) else ""
    finish_lines(ax, names, f"What recourse costs, with {mass:.0%} intervals{more}")
    put_legend_outside(ax, *ax.get_legend_handles_labels())
    return ax


# --- swarm and boxes -------------------------------------------------------------------------------------------------


def _select_changes(table: ExplanationTable, rule: Rule | str | None) -> tuple[pd.DataFrame, str]:
    """Return the changes made by a rule, by default by the answers or else the first rule, and its label."""
    if rule is None:
        listed = list(dict.fromkeys(table.changes()["rule"]))
        first = next((label for label in table.rules if label in listed), "")
        rule = ANSWER if table.has_answers and table.encoded is not None else first
    label = table.label_of(rule) if rule else ""
    return table.changes(label), label


def _list_labels(table: ExplanationTable) -> dict[str, str]:
    """Return what people call each column."""
    space = None if table.encoded is None else table.encoded.space
    return {} if space is None else {name: space.label(j) for j, name in enumerate(space.names)}


def _list_units(table: ExplanationTable) -> dict[str, str]:
    """Return the known units of changes by column, each with a leading blank."""
    if table.encoded is None:
        return {}
    names = {"datetime": "days", "ordinal": "levels"}
    known = {one.name: names.get(one.kind, printable(one.unit)) for one in table.encoded.space.features}
    return {name: f" {unit}" for name, unit in known.items() if unit}


def _format_label(own: pd.DataFrame, name: str, n: int, unit: str) -> str:
    """Return a label with a column's name, the number of rows that change it, and the largest change."""
    change = own["change"].to_numpy(dtype=float)
    change = np.abs(change[np.isfinite(change)])
    most = f", by up to {number_text(float(change.max()), 3)}{short_text(unit, 20)}" if len(change) else ""
    return f"{short_text(name)}\n({len(own):,} of {n:,} rows{most})"


def _draw_swarm(ax: "Axes", y: int, own: pd.DataFrame, change: Array) -> bool:
    """Draw dots beside each other rather than on top; return whether they are coloured."""
    known = np.isfinite(change)
    largest = float(np.abs(change[known]).max()) or 1.0
    place = change[known] / largest
    start = _rank_values(own["from"].to_numpy(dtype=object)[known])
    colours = [MISSED] * len(place) if start is None else _map_colours(start)
    size = float(np.clip(26.0 * (40.0 / max(len(place), 40)), 7.0, 26.0))
    ax.scatter(
        place, y + _stack_dots(place), s=size, c=colours, edgecolors=EDGE,
        linewidths=0.3, zorder=3,
    )  # fmt: skip
    return start is not None


def _stack_dots(place: Array) -> Array:
    """Return vertical offsets ``(n,)`` that stack dots at the same position."""
    bins = np.round(place * _LAYOUT.swarm_bins / 2).astype(int)
    up = np.zeros(len(place))
    tallest = max(int(np.bincount(bins - bins.min()).max()), 1)
    step = min(2 * _LAYOUT.swarm_height / tallest, 0.11)
    for one in np.unique(bins):
        own = np.flatnonzero(bins == one)
        side = np.where(np.arange(len(own)) % 2 == 1, 1.0, -1.0)
        up[own] = side * ((np.arange(len(own)) + 1) // 2) * step
    return up


def _rank_values(values: Array) -> Array | None:
    """Return ranks scaled to [0, 1], None if all values are equal or have no order."""
    series = pd.Series(values)
    if series.map(lambda value: isinstance(value, str)).any():
        return None
    try:
        rank = series.infer_objects().rank(method="average", na_option="top").to_numpy(dtype=float)
    except TypeError:  # values of several kinds
        return None
    if len(rank) < 2 or np.ptp(rank) == 0:
        return None
    return (rank - rank.min()) / np.ptp(rank)


def _map_colours(share: Array) -> Any:
    from matplotlib.colors import LinearSegmentedColormap  # slow to import

    return LinearSegmentedColormap.from_list("start", [_LOW, "#d8d8d8", _HIGH])(share)


def _draw_levels(ax: "Axes", y: int, to: pd.Series) -> None:
    """Draw the new levels as boxes, darker for more rows."""
    from matplotlib.patches import Rectangle  # slow to import

    counts = to.map(lambda value: "missing" if pd.isna(value) else str(value)).value_counts()
    boxes: list[tuple[str, int]] = [(str(name), int(n)) for name, n in counts.iloc[:MOST_BOXES].items()]
    rest = counts.iloc[MOST_BOXES:]
    if len(rest):
        boxes.append((f"other ({len(rest)} levels)", int(rest.sum())))
    width, total = 2.0 / len(boxes), int(counts.sum())
    for k, (name, n) in enumerate(boxes):
        left = -1.0 + k * width
        face = pale(DRAWS, 0.1 + 0.65 * n / total)
        ax.add_patch(Rectangle((left + 0.008, y - 0.3), width - 0.016, 0.6, facecolor=face, lw=0, zorder=2))
        text = f"to {short_text(name, max(_LAYOUT.characters // len(boxes) - 3, 4))}\n{n:,} row{'s' * (n > 1)}"
        ax.text(left + width / 2, y, text, ha="center", va="center", fontsize=7.5, color=EDGE, zorder=3)


def _add_colour_legend(ax: "Axes") -> None:
    from matplotlib.lines import Line2D  # slow to import

    handles = [Line2D([], [], marker="o", ls="", mfc=colour, mec=EDGE, mew=0.3) for colour in (_LOW, "#d8d8d8", _HIGH)]
    put_legend_outside(ax, handles, ["starts low", "in between", "starts high"])


def _row_costs(table: ExplanationTable, groups: Any, rule: Rule | str) -> pd.DataFrame:
    """Return the group of each row, and its cost if the target is attainable."""
    rows = table.diagnostics.index
    status = table.diagnostics["status"].to_numpy()
    listed = [groups[row] for row in rows] if isinstance(groups, (Mapping, pd.Series)) else list(groups)
    cost, _, attained = find_costs(table, rule)
    found = attained & (status == Status.ATTAINABLE)
    return pd.DataFrame({"group": pd.Series(listed, dtype=object), "cost": np.where(found, cost, np.nan)})
