"""Shares of levels: how probable each level of a category or an ordinal is, after and before."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gbce.decisions import answers_among, stack_points
from gbce.explanation import Explanation
from gbce.metrics import most_moved
from gbce.plots._marks import dodge, entries_in_order, mark_answer, mark_decisions
from gbce.plots._style import DRAWS, EDGE, PRIOR, finish_axes, new_axes, put_legend_outside, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_shares"]

_SIZE = 46.0  # of a mark, in square points, by hand
_MISSING = "(missing)"  # as explanation.shares has it


def plot_shares(
    explanation: Explanation, feature: str | None = None, *, max_levels: int = 15, ax: "Axes | None" = None
) -> "Axes":
    """Draw how probable each level is under the posterior and under the prior, and which level each decision takes.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    feature : str, optional
        Name of a category, a boolean or an ordinal; when left out, the one whose movement differs most from the prior's
        own.
    max_levels : int
        Most levels with a bar of their own: the row's, those of decisions, then the most probable. The others are one
        bar.
    ax : matplotlib Axes, optional
        Where to draw; a new figure when left out.

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
    decisions = answers_among(explanation.decisions)
    answer = explanation.answer
    points = stack_points([*decisions, *([] if answer is None else [answer.decision])], len(explanation.space))
    now, taken = _line(table, explanation.x0[j]), [_line(table, code) for code in points[:, j]]
    kept = _choose_levels(table, [now, *taken], max_levels)
    shown = _grouped(table, kept)
    ax = new_axes(ax, 7.2, 1.5 + 0.36 * len(shown))
    y = np.arange(len(shown))
    ax.barh(y, shown["prior"], height=0.74, color=PRIOR, label="prior")
    ax.barh(y, shown["posterior"], height=0.36, color=DRAWS, label="posterior")
    labels = [short_text(str(level), 32) for level in shown.index]
    labels[kept.index(now)] += " (now)"
    ax.set_yticks(y, labels)
    ax.get_yticklabels()[kept.index(now)].set_fontweight("bold")
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlim(0.0, max((1.12 + 0.04 * len(taken)) * float(shown.to_numpy().max()), 0.05))
    places = np.column_stack([[shown["posterior"].iloc[kept.index(k)] for k in taken], [kept.index(k) for k in taken]])
    places = places.reshape(-1, 2).astype(float)
    shifts = dodge(ax, places, _SIZE)
    mark_decisions(ax, decisions, [tuple(at) for at in places[: len(decisions)]], size=_SIZE, shifts=shifts)
    if answer is not None:
        mark_answer(ax, explanation, tuple(places[-1]), size=_SIZE, shift=shifts[-1])
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.tick_params(axis="y", length=0, colors=EDGE)
    ax.set_xlabel("probability")
    finish_axes(ax, f"Levels of {short_text(name)}", hidden=("top", "right", "left"))
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _choose_feature(explanation: Explanation, feature: str | None) -> str:
    if feature is not None:
        return feature
    leveled = [one.name for one in explanation.space.features if one.leveled]
    if not leveled:
        raise ValueError("no column has levels: explanation.plot.changes() and plot.pairs() draw numbers")
    moved = most_moved(explanation.importance.loc[leveled], 1)
    return (moved or leveled)[0]


def _line(table: pd.DataFrame, code: float) -> int:
    """Return the line of an encoded value; that of missing is the last."""
    return len(table) - 1 if np.isnan(code) else round(code)


def _choose_levels(table: pd.DataFrame, fixed: list[int], most: int) -> list[int]:
    """Return the lines that are drawn: all of an ordinary category; of many, the notable and the most probable ones."""
    if most < 1:
        raise ValueError(f"max_levels must be at least 1, not {most!r}")
    if len(table) <= most:
        return list(range(len(table)))
    kept = list(dict.fromkeys(fixed))
    for k in np.argsort(-table["posterior"].to_numpy(), kind="stable"):
        if len(kept) >= most:
            break
        if int(k) not in kept:
            kept.append(int(k))
    return sorted(kept)


def _grouped(table: pd.DataFrame, kept: list[int]) -> pd.DataFrame:
    shown = table.iloc[kept]
    if len(kept) == len(table):
        return shown
    rest = (table.sum() - shown.sum()).clip(lower=0.0)
    return pd.concat([shown, rest.to_frame(f"other ({len(table) - len(kept)} levels)").T])
