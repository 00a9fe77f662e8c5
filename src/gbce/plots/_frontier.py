"""Frontier plots: the least cost for every reliability, or, under one model, the best output at every cost."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.decisions import stack_points
from gbce.explanation import Explanation
from gbce.metrics import PRINTED_Z_95, costs
from gbce.plots._style import (
    DRAWS,
    EDGE,
    MISSED,
    ROW,
    SAFE,
    UNSEEN,
    accepted_outputs,
    cost_label,
    entries_in_order,
    finish_axes,
    list_marked,
    mark_points,
    new_axes,
    put_legend_outside,
    target_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Layout, chosen by hand.
_MANY_STEPS = 40  # of a frontier, from which on its points are small
_SIZE = 54.0  # of a mark, in square points

# --- output against cost ---------------------------------------------------------------------------------------------


def _plot_reach(explanation: Explanation, distance: str, ax: "Axes | None") -> "Axes":
    """Plot the first model's output against the cost, with the best one at each cost."""
    space, x0 = explanation.space, explanation.x0
    where, pool = explanation.draws.distinct[0], explanation.draws.pool
    marked, accepted, row = list_marked(explanation), accepted_outputs(explanation), explanation.row
    cost = costs(space, pool.x[where], x0, distance)
    own = costs(space, stack_points(marked, len(space)), x0, distance)
    ax = new_axes(ax, 7.6, 4.6)
    reached = pool.reached[where, 0]
    shown = "loss" if accepted is None else "outputs"
    y, y_row = getattr(pool, shown)[where, 0], getattr(row, shown)[:, 0]
    y_own = np.array([getattr(one, shown)[0] for one in marked])
    for among, colour, label in ((~reached, MISSED, "draw, misses"), (reached, DRAWS, "draw, reaches the target")):
        if among.any():
            ax.scatter(cost[among], y[among], s=10, color=colour, alpha=0.55, linewidths=0, label=label)
    loss = np.concatenate([row.loss[:, 0], pool.loss[where, 0], [one.loss[0] for one in marked]])
    every = np.concatenate([[0.0], cost, own])
    front = _best_by_cost(every, loss)
    best = np.concatenate([y_row, y, y_own])[front]
    ax.step(every[front], best, where="post", color=EDGE, lw=1.6, label="best for its cost")
    ax.scatter(0.0, y_row[0], s=110, color=ROW, marker="+", label="row", zorder=4)
    ax.margins(x=0.03, y=0.06)
    ax.autoscale_view()
    if accepted is not None:
        limits = ax.get_ylim()
        low, high = (float(np.clip(end, *limits)) for end in accepted)
        ax.axhspan(low, high, color=SAFE, alpha=0.3, lw=0, zorder=0, label="wanted")
        ax.set_ylim(*limits)
    mark_points(ax, explanation, np.column_stack([own, y_own]), size=_SIZE)
    ax.set_xlabel(cost_label(distance), wrap=True)
    ax.set_ylabel("loss" if accepted is None else "the model's output")
    finish_axes(ax, f"What cost buys, target: {target_text(explanation.target.describe())}")
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _best_by_cost(cost: Array, loss: Array) -> Array:
    """Return the positions of points of less loss than all cheaper ones, the cheapest first."""
    order = np.lexsort((loss, cost))
    best = np.minimum.accumulate(loss[order])
    first = np.append(True, best[1:] < best[:-1])
    return np.asarray(order[first])


# --- reliability against cost ----------------------------------------------------------------------------------------


def plot_frontier(
    explanation: Explanation,
    table: pd.DataFrame | None = None,
    *,
    distance: str = "l1",
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the frontier of cost and reliability as steps.

    With one model and no table, reliability is either zero or one; then the model's output is plotted against the
    cost, with the best output at each cost.

    Parameters
    ----------
    explanation : Explanation
        The explanation; its draws and decisions are shown if their reliability is known without calling a model.
    table : DataFrame, optional
        From :meth:`gbce.Explainer.frontier`, for noise or other models; bands are 95% Monte Carlo intervals, and the
        share of unseen models is shown if there are any. By default ``explanation.frontier()``.
    distance : {"l1", "l2"}
        Measure of cost, as in the table.
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
    >>> explainer = gbce.Explainer([lambda x: x[:, 0], lambda x: x.sum(axis=1)], data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    >>> explanation.plot.frontier().get_ylabel()
    'reliability: share of models that reach the target'
    """
    own = labelled = table is None
    if own and len(explanation.models) == 1:
        return _plot_reach(explanation, distance, ax)
    shown = explanation.frontier(distance=distance) if table is None else table
    ax = new_axes(ax, 7.6, 4.6)
    if own:
        _scatter_draws(ax, explanation, distance)
    reliability, cheapest = shown.index.to_numpy(dtype=float), shown.iloc[:, 0].to_numpy(dtype=float)
    if len(shown):
        last = max(ax.get_xlim()[1], float(cheapest[-1]) * 1.05) if own else float(cheapest[-1]) * 1.05
        at = np.append(cheapest, last)
        se = shown.iloc[:, 2].to_numpy(dtype=float)
        if (se > 0).any():
            half = PRINTED_Z_95 * se
            low, high = np.clip(reliability - half, 0, 1), np.clip(reliability + half, 0, 1)
            ax.fill_between(
                at, np.append(low, low[-1]), np.append(high, high[-1]), step="post", color=DRAWS, alpha=0.2, lw=0
            )
        steps = np.append(reliability, reliability[-1])
        ax.step(at, steps, where="post", color=DRAWS, lw=2, label="frontier")
        ax.plot(cheapest, reliability, "o", color=DRAWS, ms=4 if len(shown) < _MANY_STEPS else 2)
        last_figure = len(shown.columns) - explanation.space.n_columns - 1  # share of unseen models, if there are any
        if str(shown.columns[last_figure]).startswith("unseen"):
            accepted = shown.iloc[:, last_figure]
            ax.plot(cheapest, accepted, "D", color=UNSEEN, ms=6, mec="white", label="under unseen models", zorder=4)
            labelled = True
    else:
        ax.text(0.5, 0.5, "no point reaches the target", transform=ax.transAxes, ha="center", va="center")
    ax.set_ylim(-0.05, 1.05)
    if own:
        _mark_points(ax, explanation, distance)
    kind = "share of models that reach" if own else "probability to reach"
    ax.set_xlabel(cost_label(distance), wrap=True)
    ax.set_ylabel(f"reliability: {kind} the target")
    finish_axes(ax, f"What reliability costs, target: {target_text(explanation.target.describe())}")
    if labelled:
        put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _scatter_draws(ax: "Axes", explanation: Explanation, distance: str) -> None:
    where, pool = explanation.draws.distinct[0], explanation.draws.pool
    cost = costs(explanation.space, pool.x[where], explanation.x0, distance)
    share = pool.reached[where] @ explanation.mixture.weights
    ax.scatter(cost, share, s=70, color=MISSED, marker="|", alpha=0.6, linewidths=1.0, label="draw")


def _mark_points(ax: "Axes", explanation: Explanation, distance: str) -> None:
    """Mark decisions and the answer at their cost and the share of models that accept them."""
    space, marked = explanation.space, list_marked(explanation)
    cost = costs(space, stack_points(marked, len(space)), explanation.x0, distance)
    share = [float(decision.reached @ explanation.mixture.weights) for decision in marked]
    mark_points(ax, explanation, np.column_stack([cost, share]), size=_SIZE)
