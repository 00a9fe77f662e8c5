"""What reliability costs: the cheapest point for every share of models, or of models and noise, that is satisfied."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gbce.explanation import Explanation
from gbce.metrics import costs
from gbce.plots._style import DRAWS, MISSED, UNSEEN, entry_of, marks, outside, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_frontier"]


def plot_frontier(
    explanation: Explanation,
    table: pd.DataFrame | None = None,
    *,
    distance: str = "l2",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the cost-reliability frontier as steps.

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
    import matplotlib.pyplot as plt

    own = labelled = table is None
    shown = explanation.frontier(distance=distance) if table is None else table
    if ax is None:
        _, ax = plt.subplots(figsize=(7.6, 4.6), layout="constrained")
    space, x0, weights = explanation.space, explanation.x0, explanation.mixture.weights
    if own:
        where = explanation.draws.distinct[0]
        pool = explanation.draws.pool
        cost = costs(space, pool.x[where], x0, distance)
        apart = np.random.default_rng(0).uniform(-0.012, 0.012, size=len(where))  # draws do not hide each other
        share = pool.reached[where] @ weights + apart
        ax.scatter(cost, share, s=10, color=MISSED, alpha=0.6, linewidths=0, label="draw")
    reliability, cheapest = shown.index.to_numpy(dtype=float), shown.iloc[:, 0].to_numpy(dtype=float)
    if len(shown):
        last = max(ax.get_xlim()[1], float(cheapest[-1]) * 1.05) if own else float(cheapest[-1]) * 1.05
        at = np.append(cheapest, last)
        se = shown.iloc[:, 1].to_numpy(dtype=float)
        if (se > 0).any():
            low, high = np.clip(reliability - 1.96 * se, 0, 1), np.clip(reliability + 1.96 * se, 0, 1)
            ax.fill_between(
                at, np.append(low, low[-1]), np.append(high, high[-1]), step="post", color=DRAWS, alpha=0.2, lw=0
            )
        steps = np.append(reliability, reliability[-1])
        ax.step(at, steps, where="post", color=DRAWS, lw=2, label="frontier")
        ax.plot(cheapest, reliability, "o", color=DRAWS, ms=4 if len(shown) < 40 else 2)
        if len(shown.columns) - space.n_columns == 3:  # distance, error, and the share of unseen models
            ax.plot(
                cheapest, shown.iloc[:, 2], "D", color=UNSEEN, ms=6, mec="white", label="under unseen models", zorder=4
            )
            labelled = True
    if own:
        styles = marks(explanation.decisions)
        for decision, style in zip(explanation.decisions, styles, strict=True):
            place = costs(space, decision.x[None, :], x0, distance)[0], float(decision.reached @ weights)
            size = 150 if style["marker"] == "*" else 60
            ax.scatter(*place, s=size, **style, edgecolors="white", linewidths=1, label=entry_of(decision), zorder=5)
    kind = "share of models that reach" if own else "probability to reach"
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel(f"distance from the row ({distance.upper()}, in units of each feature's scale)")
    ax.set_ylabel(f"reliability: {kind} the target")
    ax.set_title(f"What reliability costs, target: {verbatim(explanation.target.describe())}", loc="left", fontsize=11)
    if labelled:
        outside(ax, *ax.get_legend_handles_labels())
    ax.spines[["top", "right"]].set_visible(False)
    return ax
