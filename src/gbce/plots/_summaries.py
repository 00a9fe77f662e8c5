"""Plots of posterior summaries: importance, probabilities of levels, figures over eta, and disagreement of models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce.decisions import stack_points
from gbce.explanation import Explanation
from gbce.metrics import FIGURE_TITLES, PRINTED_Z_95, Disagreement, most_moved
from gbce.plots._features import choose_levels
from gbce.plots._style import (
    DRAWS,
    EDGE,
    PRIOR,
    QUIET,
    as_panels,
    entries_in_order,
    finish_lines,
    given_panels,
    list_marked,
    literal_text,
    mark_answer,
    mark_decisions,
    new_axes,
    new_panels,
    put_legend_outside,
    short_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = ("success_probability", "tail", "expected_cost", "stability", "log_evidence")  # plotted by default


@dataclass(frozen=True)
class _Layout:
    """Layout, chosen by hand."""

    size: float = 46.0  # of a mark, in square points
    mark_width: float = 0.035  # of the axis, for a mark beside a bar
    side_by_side: int = 3  # panels per line of a new figure
    most_models: int = 12  # named beside the matrix
    most_written: int = 8  # models up to which numbers are written into the matrix
    dark: float = 0.85  # of the largest share, above which a number in the matrix is white


_LAYOUT = _Layout()

# --- importance ------------------------------------------------------------------------------------------------------


def plot_importance(explanation: Explanation, *, max_features: int = 15, ax: "Axes | None" = None) -> "Axes":
    """Plot the expected absolute change of each feature with its 95% interval, and that under the prior.

    A feature that does not matter to the model moves as it does under the prior. The most important feature comes
    first; the number after its name is the ratio to the prior.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    max_features : int
        Largest number of features: those whose movement differs most from the prior's.
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
    >>> data = np.random.default_rng(0).normal(size=(100, 3))
    >>> explainer = gbce.Explainer(lambda x: x[:, 1], data, space=gbce.Space.real(3))
    >>> explanation = explainer.explain(np.zeros(3), gbce.AtLeast(2, scale=0.1), rules=[], seed=0)
    >>> explanation.plot.importance().get_yticklabels()[0].get_text().split()[0]
    'x2'
    """
    table = explanation.importance
    space = explanation.space
    scale = dict(zip(space.names, space.scale, strict=True))
    called = {name: short_text(space.label(j)) for j, name in enumerate(space.names)}
    excess = (table["ratio"] - 1.0).abs()[table["prior"] > 0].sort_values(ascending=False, kind="stable")
    kept = list(excess.index[:max_features])
    longest = max([len(called[name]) for name in kept] + [0])
    ax = new_axes(ax, 6.8 + 0.07 * max(longest - 14, 0), 1.5 + 0.36 * len(kept))
    shown = table.loc[kept]
    unit = np.array([scale[name] for name in kept])
    change, se, prior = (shown[name].to_numpy(dtype=float) / unit for name in ("change", "se", "prior"))
    y = np.arange(len(kept))
    ax.barh(y, prior, height=0.72, color=PRIOR, label="prior")
    ax.barh(y, change, height=0.36, color=DRAWS, label="posterior")
    ax.errorbar(change, y, xerr=PRINTED_Z_95 * se, fmt="none", ecolor=EDGE, elinewidth=1.2, capsize=2)
    labels = [f"{called[str(name)]} ({ratio:.2g} ×)" for name, ratio in shown["ratio"].items()]
    ax.set_xlim(left=0.0)
    ax.set_xlabel("expected change, in units of each feature's scale; for a category, its probability", wrap=True)
    left = int((table["prior"] > 0).sum()) - len(kept)
    more = f" ({left} more move about as under the prior)" if left else ""
    finish_lines(ax, labels, f"What matters: change, and its ratio to the prior's{more}")
    put_legend_outside(ax, *ax.get_legend_handles_labels())
    return ax


# --- probabilities of levels -----------------------------------------------------------------------------------------


def plot_shares(
    explanation: Explanation, feature: str | None = None, *, max_levels: int = 15, ax: "Axes | None" = None
) -> "Axes":
    """Plot the probability of each level under the posterior and the prior, and the levels of the decisions.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    feature : str, optional
        Name of a category, a boolean or an ordinal; by default the one whose movement differs most from the prior's.
    max_levels : int
        Largest number of levels with their own bar: the row's, those of decisions, then the most probable. The others
        share one bar.
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
    >>> rng = np.random.default_rng(0)
    >>> data = pd.DataFrame({"job": rng.choice(["clerk", "smith"], 80), "age": rng.normal(40, 9, 80).round()})
    >>> explainer = gbce.Explainer(lambda f: 1.0 * (f["job"] == "smith") + 0 * f["age"], data)
    >>> explanation = explainer.explain({"job": "clerk", "age": 40.0}, gbce.AtLeast(1), seed=0)
    >>> [tick.get_text() for tick in explanation.plot.shares("job").get_yticklabels()]
    ['clerk (now)', 'smith']
    """
    name = _choose_feature(explanation, feature)
    table = explanation.shares(name)
    j = explanation.space.names.index(name)
    marked, answered = list_marked(explanation), explanation.answer is not None
    points = stack_points(marked, len(explanation.space))
    now, taken = _find_line(table, explanation.x0[j]), [_find_line(table, code) for code in points[:, j]]
    kept = _choose_lines(table, [now, *taken], max_levels)
    shown = _group_others(table, kept)
    ax = new_axes(ax, 7.2, 1.5 + 0.36 * len(shown))
    y = np.arange(len(shown))
    ax.barh(y, shown["prior"], height=0.74, color=PRIOR, label="prior")
    ax.barh(y, shown["posterior"], height=0.36, color=DRAWS, label="posterior")
    labels = [short_text(str(level), 32) for level in shown.index]
    labels[kept.index(now)] += " (now)"
    finish_lines(ax, labels, f"Levels of {short_text(explanation.space.label(j))}")
    ax.get_yticklabels()[kept.index(now)].set_fontweight("bold")
    places = _place_beside_bars(ax, shown, [kept.index(k) for k in taken])
    n_decisions = len(marked) - answered
    mark_decisions(ax, marked[:n_decisions], places[:n_decisions], size=_LAYOUT.size)
    if answered:
        mark_answer(ax, explanation, places[-1], size=_LAYOUT.size)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.tick_params(axis="y", colors=EDGE)
    ax.set_xlabel("probability")
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _place_beside_bars(ax: "Axes", shown: pd.DataFrame, lines: list[int]) -> list[tuple[float, float]]:
    """Return a place for each mark on the line of its level, right of its bars and of the marks before it."""
    ends = shown.to_numpy(dtype=float).max(axis=1)
    width = max(ends.max() * (1.0 + _LAYOUT.mark_width * (len(lines) + 1)), 0.05)
    ax.set_xlim(0.0, width)
    before = [lines[:k].count(line) for k, line in enumerate(lines)]
    return [
        (ends[line] + _LAYOUT.mark_width * (n + 0.8) * width, float(line))
        for line, n in zip(lines, before, strict=True)
    ]


def _choose_feature(explanation: Explanation, feature: str | None) -> str:
    if feature is not None:
        return feature
    leveled = [one.name for one in explanation.space.features if one.leveled]
    if not leveled:
        raise ValueError("no column has levels: explanation.plot.changes() and plot.pairs() draw numbers")
    moved = most_moved(explanation.importance.loc[leveled], 1)
    return (moved or leveled)[0]


def _find_line(table: pd.DataFrame, code: float) -> int:
    """Return the line of an encoded value; missing values have the last one."""
    return len(table) - 1 if np.isnan(code) else round(code)


def _choose_lines(table: pd.DataFrame, fixed: list[int], most: int) -> list[int]:
    """Return the lines to draw: all if they are few, otherwise ``fixed`` and the most probable ones."""
    if most < 1:
        raise ValueError(f"max_levels must be at least 1, not {most!r}")
    if len(table) <= most:
        return list(range(len(table)))
    return choose_levels(table["posterior"].to_numpy(), fixed, most)


def _group_others(table: pd.DataFrame, kept: list[int]) -> pd.DataFrame:
    """Keep the lines ``kept`` and add up the others."""
    shown = table.iloc[kept]
    if len(kept) == len(table):
        return shown
    rest = (table.sum() - shown.sum()).clip(lower=0.0)
    return pd.concat([shown, rest.to_frame(f"other ({len(table) - len(kept)} levels)").T])


# --- eta path --------------------------------------------------------------------------------------------------------


def plot_path(
    explanation: Explanation,
    etas: Sequence[float] | None = None,
    *,
    figures: Sequence[str] | str | None = None,
    ax: "Axes | Sequence[Axes] | None" = None,
) -> "Axes | np.ndarray[Any, Any]":
    """Plot figures of the posterior against eta, one panel each, with 95% Monte Carlo bands.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    etas : sequence of float, optional
        By default from zero, the prior, to the explanation's own eta.
    figures : str or sequence of str, optional
        Columns of ``explanation.path()``; by default success probability, tail, expected cost, stability and
        evidence.
    ax : matplotlib Axes or sequence of them, optional
        Axes to draw on, one for each figure; by default those of a new figure.

    Returns
    -------
    matplotlib Axes, or array of them
        The axes drawn on; an array ``(k,)`` for ``k`` figures.

    Examples
    --------
    >>> import gbce, matplotlib, numpy as np
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explanation = gbce.Explainer(lambda x: x.sum(axis=1), data).explain(data[0], gbce.AtLeast(2), rules=[], seed=0)
    >>> len(explanation.plot.path(figures=["success_probability", "expected_cost"]))
    2
    """
    table = explanation.path(etas)
    names = [figures] if isinstance(figures, str) else list(_PANELS if figures is None else figures)
    unknown = [name for name in names if name not in table.columns]
    if unknown or not names:
        raise ValueError(f"figures must be columns of explanation.path(), such as 'tail', not {unknown or names}")
    positive = table[table.index > 0]
    etas_shown = positive.index.to_numpy(dtype=float)
    columns = min(len(names), _LAYOUT.side_by_side)
    panels = new_panels(ax, len(names), 3.1, [2.7] * -(-len(names) // columns), columns)
    few = len(positive) < 3  # a line through one or two points needs markers
    for panel, name in zip(panels, names, strict=True):
        value = positive[name].to_numpy(dtype=float)
        se = positive.get(f"{name}_se", 0.0 * positive[name]).to_numpy(dtype=float)
        panel.fill_between(
            etas_shown, value - PRINTED_Z_95 * se, value + PRINTED_Z_95 * se, color=DRAWS, alpha=0.25, lw=0,
            label="95% band",
        )  # fmt: skip
        panel.plot(etas_shown, value, color=DRAWS, lw=2, marker="o" if few else None, label="posterior")
        if 0.0 in table.index:
            panel.axhline(float(table.loc[0.0, name]), color=QUIET, lw=1.2, ls=":", label="the prior")
        panel.axvline(explanation.eta, color="#111111", lw=1, ls="--", label="eta of this explanation")
        panel.set_xscale("log")
        panel.set_xlabel("eta")
        panel.set_title(literal_text(FIGURE_TITLES.get(name, name)), loc="left", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8.5)
    hole = ax is None and len(panels) > _LAYOUT.side_by_side and len(panels) % _LAYOUT.side_by_side > 0
    put_legend_outside(panels[-1], *panels[-1].get_legend_handles_labels(), in_layout=not hole)
    return as_panels(panels)


# --- disagreement of models ------------------------------------------------------------------------------------------


def plot_disagreement(
    explanation: Explanation, *, max_features: int = 10, ax: "Sequence[Axes] | None" = None
) -> "Axes | np.ndarray[Any, Any]":
    """Plot how often each pair of models disagrees about the draws, and where: two panels.

    Parameters
    ----------
    explanation : Explanation
        An explanation of several models.
    max_features : int
        Largest number of features in the second panel: those in which disputed draws differ most from the others.
    ax : pair of matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    array of two matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> models = [lambda x: x[:, 0], lambda x: x[:, 0] + np.maximum(x[:, 1], 0)]
    >>> explanation = gbce.Explainer(models, data).explain(data[0], gbce.AtLeast(1.0), rules=[], seed=0)
    >>> len(explanation.plot.disagreement())
    2
    """
    if ax is not None:
        given_panels(ax, 2)
    found = explanation.disagreement()
    panels = new_panels(ax, 2, 5.2, [4.2], 2)
    _draw_pairs(panels[0], found)
    space = explanation.space
    _draw_where(panels[1], found, max_features, {name: space.label(j) for j, name in enumerate(space.names)})
    return as_panels(panels)


def _draw_pairs(ax: "Axes", found: Disagreement) -> None:
    """Draw the matrix of pairwise disagreement."""
    names = list(dict.fromkeys([name for pair in found.pairs.index for name in pair]))
    share = np.zeros((len(names), len(names)))
    for (one, other), value in found.pairs["differ"].items():
        i, j = names.index(one), names.index(other)
        share[i, j] = share[j, i] = value
    shown = np.ma.masked_array(share, mask=np.triu(np.ones_like(share, dtype=bool), 1) | np.eye(len(names), dtype=bool))
    top = max(float(share.max()), 0.01)
    ax.imshow(shown, cmap="Blues", vmin=0.0, vmax=1.4 * top, aspect="auto")
    if len(names) <= _LAYOUT.most_written:
        for i in range(len(names)):
            for j in range(i):
                colour = "white" if share[i, j] > _LAYOUT.dark * top else EDGE
                ax.text(j, i, f"{share[i, j]:.0%}", ha="center", va="center", fontsize=9, color=colour)
    step = max(1, -(-len(names) // _LAYOUT.most_models))
    labelled = list(range(0, len(names), step))
    labels = [short_text(names[k], 22) for k in labelled]
    ax.set_xticks(labelled, labels, rotation=35, ha="right", rotation_mode="anchor", fontsize=8.5)
    ax.set_yticks(labelled, labels, fontsize=8.5)
    ax.set_xlim(-0.5, len(names) - 1.5)
    ax.set_ylim(len(names) - 0.5, 0.5)
    ax.spines[["top", "right", "left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title("share of draws on which two models disagree", loc="left", fontsize=10)


def _draw_where(ax: "Axes", found: Disagreement, most: int, called: dict[str, str]) -> None:
    """Draw the mean difference between disputed draws and the others, by feature."""
    where = found.where.dropna(subset=["difference"]).iloc[:most]
    ax.set_title("where: disputed draws against the others", loc="left", fontsize=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.axvline(0.0, color=EDGE, lw=1)
    if len(where) == 0:
        import textwrap

        ax.text(0.5, 0.5, textwrap.fill(f"{found.sentence}", 40), transform=ax.transAxes, ha="center", va="center")
        ax.set_yticks([])
        ax.set_xticks([])
        return
    y = np.arange(len(where))
    difference, error = where["difference"].to_numpy(dtype=float), where["se"].to_numpy(dtype=float)
    ax.errorbar(
        difference, y, xerr=PRINTED_Z_95 * error, fmt="o", color=DRAWS, ecolor=EDGE, elinewidth=1.2, ms=7, mec=EDGE
    )
    labels = [
        short_text(called.get(str(name), str(name)), 26)
        + ("" if level is None else f"\n= {short_text(str(level), 20)}")
        for name, level in zip(where.index, where["level"], strict=True)
    ]
    ax.set_yticks(y, labels, fontsize=8.5)
    ax.set_ylim(len(where) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", alpha=0.25, lw=0.6)
    ax.set_xlabel("difference, in units of each feature's scale;\nfor a category, in the share of a level", fontsize=9)
