"""The posterior over two features, with the decisions in it (the paper's Figure 1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.decisions import answers_among, stack_points
from gbce.explanation import Explanation
from gbce.metrics import most_moved
from gbce.plots._features import FeatureAxis, feature_axis
from gbce.plots._marks import dodge, entries_in_order, mark_answer, mark_decisions, nudge
from gbce.plots._style import DRAWS, EDGE, MISSED, ROW, finish_axes, new_axes, put_legend_outside, wish_text
from gbce.plots._surface import draw_surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gbce.explainer import Explainer

__all__ = ["plot_posterior"]

_SIZE = 62.0  # of a mark, in square points, by hand


def plot_posterior(
    explanation: Explanation,
    features: Sequence[str] | None = None,
    *,
    explainer: "Explainer | None" = None,
    resolution: int = 60,
    max_model_rows: int | None = None,
    ax: "Axes | None" = None,
    n_draws: int = 2_000,
) -> "Axes":
    """Scatter the draws over two features and mark the row, every decision and the answer.

    With the explainer, which has the model, also contours of the first model's output and the region in which it
    reaches the target, where all other columns are as in the answer (or as in the row, where there is no answer). Marks
    that would cover each other are set apart a little; draws at levels and whole numbers are scattered around them.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    features : pair of str, optional
        Horizontal and vertical axis; by default the two whose movement differs most from the prior's own.
    explainer : Explainer, optional
        Whose explanation it is: its first model is asked about a grid of points.
    resolution : int
        Points of that grid along each axis; along a feature with levels, these.
    max_model_rows : int, optional
        Most rows that may be asked about; the grid is made coarser until it fits.
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
    >>> ax = explanation.plot.posterior(explainer=explainer)
    >>> ax.get_xlabel()
    'x1'
    """
    names = explanation.space.names
    first, second = _choose_features(explanation, features)
    i, j = names.index(first), names.index(second)
    ax = new_axes(ax, 7.4, 5.4)
    decisions = answers_among(explanation.decisions)
    chosen = stack_points(decisions, len(names))
    answer = explanation.answer
    others = chosen if answer is None else np.vstack([chosen, answer.decision.x])
    axes = feature_axis(explanation, i, others[:, i]), feature_axis(explanation, j, others[:, j])
    scatter_draws(ax, explanation, axes, (i, j), n_draws)
    row = np.array([axis.positions(explanation.x0[[k]])[0] for axis, k in zip(axes, (i, j), strict=True)])
    ax.update_datalim(row[None, :] if np.isfinite(row).all() else np.zeros((0, 2)))
    for axis, which in zip(axes, "xy", strict=True):
        axis.decorate(ax, which)
    places = np.column_stack([axes[0].positions(others[:, i]), axes[1].positions(others[:, j])])
    ax.update_datalim(places[np.isfinite(places).all(axis=1)])
    ax.autoscale_view()
    handles: list[Any] = []
    labels: list[str] = []
    if explainer is not None:
        handles, labels = draw_surface(ax, explanation, explainer, axes, (i, j), resolution, max_model_rows)
    shifts = dodge(
        ax, np.vstack([places, row]), _SIZE, pinned=[len(places)], along=int(axes[1].jitter and not axes[0].jitter)
    )
    for place, shift in zip(
        places, shifts, strict=False
    ):  # on axes of numbers a mark beside its place says where that is
        if np.hypot(*shift) > 0.5 * np.sqrt(_SIZE):
            line = {"arrowstyle": "-", "color": EDGE, "linewidth": 0.7}
            ax.annotate("", tuple(place), tuple(shift), textcoords="offset points", arrowprops=line, zorder=4)
    at = nudge(ax, ax.transData, shifts[-1])
    ax.scatter(row[0], row[1], s=110, color=ROW, marker="+", linewidths=2, label="row", zorder=4, transform=at)
    mark_decisions(ax, decisions, [tuple(place) for place in places[: len(decisions)]], size=_SIZE, shifts=shifts)
    if answer is not None:
        mark_answer(ax, explanation, tuple(places[-1]), size=_SIZE, shift=shifts[-2])
    finish_axes(ax, f"Draws for the target: {wish_text(explanation.target.describe())}")
    put_legend_outside(ax, *entries_in_order(ax, handles, labels))
    return ax


def scatter_draws(
    ax: "Axes",
    explanation: Explanation,
    axes: tuple[FeatureAxis, FeatureAxis],
    which: tuple[int, int],
    n_draws: int,
    size: float = 11,
) -> None:
    """Scatter draws over two features, those that miss the target below those that reach it."""
    draws, rng = explanation.draws, np.random.default_rng(0)
    at = [axis.positions(draws.x[:n_draws, k], rng) for axis, k in zip(axes, which, strict=True)]
    reached = draws.reached[:n_draws, 0]
    for among, colour, label in ((~reached, MISSED, "draw, misses"), (reached, DRAWS, "draw, reaches the target")):
        if among.any():
            ax.scatter(at[0][among], at[1][among], s=size, color=colour, alpha=0.55, linewidths=0, label=label)


def _choose_features(explanation: Explanation, features: Sequence[str] | None) -> tuple[str, str]:
    names = explanation.space.names
    if features is not None:
        listed = [features] if isinstance(features, str) else list(features)
        unknown = [name for name in listed if name not in names]
        if unknown or len(listed) != 2:
            raise ValueError(f"features must be two names out of {list(names)}, not {listed}")
        return listed[0], listed[1]
    if len(names) < 2:
        raise ValueError("the posterior over two features needs two features; try explanation.plot.changes()")
    chosen = most_moved(explanation.importance, 2)
    chosen += [name for name in names if name not in chosen][: 2 - len(chosen)]  # where only one is free
    chosen.sort(key=names.index)
    return chosen[0], chosen[1]
