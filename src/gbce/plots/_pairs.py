"""Pairs of features: draws over each pair, and the distribution of each by itself, before and after."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.base import Array
from gbce.explanation import Explanation
from gbce.metrics import most_moved
from gbce.plots._features import FeatureAxis, feature_axis
from gbce.plots._marks import mark_answer
from gbce.plots._posterior import scatter_draws
from gbce.plots._style import ANSWER, DRAWS, PRIOR, ROW, as_panels, given_panels, put_legend_outside, wish_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_pairs"]

# Looks, chosen by hand.
_SIDE = 2.3  # inches of a panel
_NAME_WIDTH = 22  # letters that fit beside a panel
_BINS = 24  # of the distribution of a number
_MOST_FEATURES = 8  # beyond which panels are too small to read


def plot_pairs(
    explanation: Explanation,
    features: Sequence[str] | None = None,
    *,
    max_features: int = 4,
    n_draws: int = 1_000,
    ax: "Axes | Sequence[Axes] | None" = None,
) -> "Axes | np.ndarray[Any, Any]":
    """Draw a triangle of panels: draws over each pair of features, and on its diagonal each one's distribution.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    features : sequence of str, optional
        Which; those whose movement differs most from the prior's own when left out.
    max_features : int
        How many when left out; fewer if there are fewer.
    n_draws : int
        Largest number of draws in a panel.
    ax : sequence of matplotlib Axes, optional
        Where to draw: for ``k`` features ``k (k + 1) / 2`` of them, line by line of the lower triangle.

    Returns
    -------
    matplotlib Axes, or array of them
        The axes drawn on, line by line of the lower triangle, the diagonal included; one Axes for one feature.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 3))
    >>> explanation = gbce.Explainer(lambda x: x.sum(axis=1), data).explain(data[0], gbce.AtLeast(2), rules=[], seed=0)
    >>> len(explanation.plot.pairs(["x1", "x3"]))
    3
    """
    columns = _choose_columns(explanation, features, max_features)
    panels = _triangle(ax, len(columns))
    answer = explanation.answer
    others = [] if answer is None else [answer.decision.x]
    axes = [feature_axis(explanation, j, np.array([x[j] for x in others])) for j in columns]
    place = iter(panels)
    for line, j in enumerate(columns):
        for across, i in enumerate(columns[: line + 1]):
            panel = next(place)
            if i == j:
                _draw_distribution(panel, explanation, j, axes[line])
            else:
                scatter_draws(panel, explanation, (axes[across], axes[line]), (i, j), n_draws, size=6)
                at = [axis.positions(explanation.x0[[k]])[0] for axis, k in ((axes[across], i), (axes[line], j))]
                panel.scatter(at[0], at[1], s=60, color=ROW, marker="+", linewidths=1.6, label="row", zorder=4)
                for x in others:
                    spot = [axis.positions(x[[k]])[0] for axis, k in ((axes[across], i), (axes[line], j))]
                    mark_answer(panel, explanation, (spot[0], spot[1]), size=42)
            axes[across].decorate(panel, "x", label=line == len(columns) - 1, width=_NAME_WIDTH)
            if across < line:
                axes[line].decorate(panel, "y", label=across == 0, width=_NAME_WIDTH)
            if line < len(columns) - 1:
                panel.tick_params(labelbottom=False)
            if across > 0 and across < line:
                panel.tick_params(labelleft=False)
            panel.tick_params(labelsize=8)
            panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_title(f"Draws for the target: {wish_text(explanation.target.describe())}", loc="left", fontsize=10)
    _explain(panels, in_corner=ax is None and len(columns) > 1)
    return as_panels(panels)


def _choose_columns(explanation: Explanation, features: Sequence[str] | None, most: int) -> list[int]:
    names = explanation.space.names
    if features is None:
        chosen = most_moved(explanation.importance, most)
        if not chosen:
            raise ValueError("no column can move: there is nothing to draw")
    else:
        chosen = [features] if isinstance(features, str) else list(dict.fromkeys(features))
        unknown = [name for name in chosen if name not in names]
        if unknown or not chosen:
            raise ValueError(f"features must be names out of {list(names)}, not {unknown or chosen}")
    if len(chosen) > _MOST_FEATURES:
        raise ValueError(f"{len(chosen)} features make panels too small to read: name at most {_MOST_FEATURES}")
    return [names.index(name) for name in chosen]


def _triangle(ax: Any, k: int) -> "list[Axes]":
    """Return the axes of a lower triangle with its diagonal."""
    n = k * (k + 1) // 2
    if ax is not None:
        return given_panels(ax, n)
    import matplotlib.pyplot as plt  # slow to import

    side = 4.2 if k == 1 else _SIDE * k
    figure = plt.figure(figsize=(side + 1.2, side), layout="constrained")
    return [figure.add_subplot(k, k, line * k + i + 1) for line in range(k) for i in range(line + 1)]


def _draw_distribution(panel: "Axes", explanation: Explanation, j: int, axis: FeatureAxis) -> None:
    """Draw how a feature is distributed under the posterior, and under the prior where its points were kept."""
    draws = explanation.draws
    after = axis.positions(draws.x[:, j]), draws.weights
    before = None if draws.record is not None else (axis.positions(draws.pool.x[:, j]), draws.prior_weights)
    edges = _bins(axis, after[0], before).tolist()
    if before is not None:
        panel.hist(before[0], bins=edges, weights=before[1], color=PRIOR, label="prior")
    panel.hist(
        after[0], bins=edges, weights=after[1], histtype="step", color=DRAWS, lw=1.8, label="posterior"
    )  # fmt: skip
    panel.axvline(axis.positions(explanation.x0[[j]])[0], color=ROW, lw=1.2, ls="--")
    if explanation.answer is not None:
        spot = axis.positions(explanation.answer.decision.x[[j]])[0]
        panel.plot([spot], [0.0], "*", ms=11, mfc=ANSWER, mec="#222222", zorder=6, clip_on=False)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)


def _bins(axis: FeatureAxis, after: Array, before: Any) -> Array:
    """Return edges of bins: one for each level or whole number if there are few, else evenly over the draws."""
    values = after[np.isfinite(after)]
    if axis.stepped and not axis.is_time:
        low, high = values.min(), values.max()
        if before is not None:
            known = before[0][np.isfinite(before[0])]
            low, high = min(low, known.min()), max(high, known.max())
        if high - low <= 2 * _BINS:
            return np.arange(low - 0.5, high + 1.0)
    low, high = float(values.min()), float(values.max())
    if before is not None:  # the prior's middle, so that a far tail does not leave the rest one bin
        known = before[0][np.isfinite(before[0])]
        low, high = min(low, float(np.quantile(known, 0.02))), max(high, float(np.quantile(known, 0.98)))
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.geomspace(low, high, _BINS + 1) if axis.log and low > 0 else np.linspace(low, high, _BINS + 1)


def _explain(panels: "Sequence[Axes]", *, in_corner: bool) -> None:
    """Put one legend beside the first panel of a triangle, where no other panel is, or beside the last one."""
    entries: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    where = panels[0] if in_corner else panels[-1]
    put_legend_outside(where, list(entries.values()), list(entries), in_layout=not in_corner)
