"""The posterior over two features, with the decisions in it (the paper's Figure 1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gbce.base import Array
from gbce.decisions import answers_among
from gbce.explanation import Explanation
from gbce.metrics import most_moved
from gbce.plots._style import (
    DRAWS,
    MISSED,
    ROW,
    finish_axes,
    literal_text,
    mark_decisions,
    new_axes,
    put_legend_outside,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_posterior"]

# Looks, chosen by hand.
_MAX_TICKS = 30  # values of a feature that are shown one by one
_JITTER = 0.3  # of a step between levels or whole numbers, up and down
_MAX_LEVEL_CHARACTERS = 50  # of all levels side by side, beyond which they are written aslant


def plot_posterior(
    explanation: Explanation,
    features: Sequence[str] | None = None,
    *,
    ax: "Axes | None" = None,
    n_draws: int = 2_000,
) -> "Axes":
    """Scatter the draws over two features and mark the row and every decision.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    features : pair of str, optional
        Horizontal and vertical axis; by default the two whose movement differs most from the prior's own.
    ax : matplotlib Axes, optional
        Where to draw; a new figure when left out.
    n_draws : int
        Largest number of draws shown.

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
    >>> ax = explanation.plot.posterior()
    >>> ax.get_xlabel()
    'x1'
    """
    names = explanation.space.names
    first, second = _choose_features(explanation, features)
    i, j = names.index(first), names.index(second)
    ax = new_axes(ax, 7.0, 5.6)
    draws = explanation.draws
    x, reached = _jitter(explanation, draws.x[:n_draws], (i, j)), draws.reached[:n_draws, 0]
    for which, colour, label in (
        (~reached, MISSED, "draw, misses"),
        (reached, DRAWS, "draw, reaches the target"),
    ):
        if which.any():
            ax.scatter(x[which, i], x[which, j], s=11, color=colour, alpha=0.55, linewidths=0, label=label)
    ax.scatter(explanation.x0[i], explanation.x0[j], s=110, color=ROW, marker="+", linewidths=2, label="row", zorder=4)
    decisions = answers_among(explanation.decisions)
    places = [(decision.x[i], decision.x[j]) for decision in decisions]
    mark_decisions(ax, decisions, places, size=75, star=190, edge=1.0)
    _name_levels(explanation, ax, i, j)
    ax.set_xlabel(literal_text(first))
    ax.set_ylabel(literal_text(second))
    finish_axes(ax, f"Draws for the target: {literal_text(explanation.target.describe())}")
    put_legend_outside(ax, *ax.get_legend_handles_labels())
    return ax


def _jitter(explanation: Explanation, x: Array, which: tuple[int, int]) -> Array:
    """Scatter levels and whole numbers a little, so that draws do not hide each other."""
    rng, x = np.random.default_rng(0), x.copy()
    for k in which:
        if explanation.space.features[k].discrete and len(np.unique(x[:, k])) <= _MAX_TICKS:
            x[:, k] += rng.uniform(-_JITTER, _JITTER, size=len(x))
    return x


def _name_levels(explanation: Explanation, ax: "Axes", i: int, j: int) -> None:
    """Write the levels of a category or an ordinal along its axis."""
    for k, axis in ((i, ax.xaxis), (j, ax.yaxis)):
        levels = explanation.space.features[k].levels
        if levels is not None and len(levels) <= _MAX_TICKS:
            axis.set_ticks(range(len(levels)), [literal_text(str(level)) for level in levels])
            if axis is ax.xaxis and sum(len(str(level)) for level in levels) > _MAX_LEVEL_CHARACTERS:
                ax.tick_params(axis="x", rotation=40)


def _choose_features(explanation: Explanation, features: Sequence[str] | None) -> tuple[str, str]:
    names = explanation.space.names
    if features is not None:
        unknown = [name for name in features if name not in names]
        if unknown or len(features) != 2:
            raise ValueError(f"features must be two names out of {list(names)}, not {list(features)}")
        return features[0], features[1]
    if len(names) < 2:
        raise ValueError("the posterior over two features needs two features; try explanation.plot.changes()")
    chosen = most_moved(explanation.importance, 2)
    chosen += [name for name in names if name not in chosen][: 2 - len(chosen)]  # where only one is free
    chosen.sort(key=names.index)
    return chosen[0], chosen[1]
