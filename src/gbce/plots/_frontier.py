"""What reliability costs: the cheapest point for every share of models, or of models and noise, that is satisfied."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gbce.decisions import Decision, answers_among, stack_points
from gbce.explanation import Explanation
from gbce.metrics import PRINTED_Z_95, costs
from gbce.plots._marks import dodge, entries_in_order, mark_answer, mark_decisions
from gbce.plots._reach import plot_reach
from gbce.plots._style import DRAWS, MISSED, UNSEEN, finish_axes, new_axes, put_legend_outside, wish_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_frontier"]

# Looks, chosen by hand.
_JITTER = 0.012  # of a reliability, up and down
_MANY_STEPS = 40  # of a frontier, from which on its points are small
_SIZE = 54.0  # of a mark, in square points


def plot_frontier(
    explanation: Explanation,
    table: pd.DataFrame | None = None,
    *,
    distance: str = "l2",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the cost-reliability frontier as steps.

    With one model and no table every point either reaches the target or misses it, and a frontier of shares would say
    nothing: then the model's output is drawn over the distance, with the best output that each distance buys.

    Parameters
    ----------
    explanation : Explanation
        What to draw; its draws and decisions are shown where their reliability is known without a model.
    table : DataFrame, optional
        From :meth:`gbce.Explainer.frontier`, for noise or other models; bands are 95% of its Monte Carlo error,
        and the share of unseen models is shown if there are any. ``explanation.frontier()`` when left out.
    distance : {"l2", "l1"}
        What is cheap, as the table has it.
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
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer([lambda x: x[:, 0], lambda x: x.sum(axis=1)], data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    >>> explanation.plot.frontier().get_ylabel()
    'reliability: share of models that reach the target'
    """
    own = labelled = table is None
    if own and len(explanation.models) == 1:
        return plot_reach(explanation, distance, ax)
    shown = explanation.frontier(distance=distance) if table is None else table
    ax = new_axes(ax, 7.6, 4.6)
    if own:
        _scatter_draws(ax, explanation, distance)
    reliability, cheapest = shown.index.to_numpy(dtype=float), shown.iloc[:, 0].to_numpy(dtype=float)
    if len(shown):
        last = max(ax.get_xlim()[1], float(cheapest[-1]) * 1.05) if own else float(cheapest[-1]) * 1.05
        at = np.append(cheapest, last)
        se = shown.iloc[:, 1].to_numpy(dtype=float)
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
        _mark(ax, explanation, distance)
    kind = "share of models that reach" if own else "probability to reach"
    ax.set_xlabel(f"distance from the row ({distance.upper()}, in units of each feature's scale)")
    ax.set_ylabel(f"reliability: {kind} the target")
    finish_axes(ax, f"What reliability costs, target: {wish_text(explanation.target.describe())}")
    if labelled:
        put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _scatter_draws(ax: "Axes", explanation: Explanation, distance: str) -> None:
    where, pool = explanation.draws.distinct[0], explanation.draws.pool
    cost = costs(explanation.space, pool.x[where], explanation.x0, distance)
    # a little up and down, so that draws do not hide each other
    apart = np.random.default_rng(0).uniform(-_JITTER, _JITTER, size=len(where))
    share = pool.reached[where] @ explanation.mixture.weights + apart
    ax.scatter(cost, share, s=10, color=MISSED, alpha=0.6, linewidths=0, label="draw")


def _mark(ax: "Axes", explanation: Explanation, distance: str) -> None:
    """Mark decisions and the answer at their cost and the share of models that accept them."""
    decisions: list[Decision] = list(answers_among(explanation.decisions))
    answer = explanation.answer
    listed = [*decisions, *([] if answer is None else [answer.decision])]
    space = explanation.space
    cost = costs(space, stack_points(listed, len(space)), explanation.x0, distance)
    share = [float(decision.reached @ explanation.mixture.weights) for decision in listed]
    places = np.column_stack([cost, share]).reshape(-1, 2)
    shifts = dodge(ax, places, _SIZE)
    mark_decisions(ax, decisions, [tuple(at) for at in places[: len(decisions)]], size=_SIZE, shifts=shifts)
    if answer is not None:
        mark_answer(ax, explanation, tuple(places[-1]), size=_SIZE, shift=shifts[-1])
