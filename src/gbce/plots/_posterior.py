"""Plots of the draws over two features, or over all pairs, with the decisions and optionally the model's surface."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce._validation import is_count
from gbce.base import Array
from gbce.budget import budget_of
from gbce.decisions import stack_points
from gbce.explanation import Explanation, number_text
from gbce.metrics import most_moved
from gbce.plots._features import FeatureAxis, feature_axis
from gbce.plots._style import (
    ANSWER,
    DRAWS,
    MISSED,
    PRIOR,
    ROW,
    SAFE,
    as_panels,
    entries_in_order,
    finish_axes,
    given_panels,
    list_marked,
    mark_answer,
    mark_points,
    new_axes,
    put_legend_outside,
    target_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gbce.explainer import Explainer


@dataclass(frozen=True)
class _Layout:
    """Layout, chosen by hand."""

    coarsest: int = 8  # fewest grid points along an axis for meaningful contours
    lines: int = 6  # approximate number of contours
    pale: float = 0.45  # opacity of the accepted region
    size: float = 62.0  # of a mark, in square points
    side: float = 2.3  # inches of a panel
    name_width: int = 22  # characters that fit beside a panel
    bins: int = 24  # of a histogram
    most_ticks: int = 4  # intervals between the ticks of a panel
    tick_characters: int = 24  # of all numbers below a panel
    level_characters: int = 20  # of all levels below a panel, beyond which they are aslant
    round_steps: tuple[float, ...] = (1, 2, 2.5, 5, 10)  # between ticks
    most_features: int = 8  # beyond which panels are too small to read


_LAYOUT = _Layout()

# --- the model over two features -------------------------------------------------------------------------------------


def _draw_surface(
    ax: "Axes",
    explanation: Explanation,
    explainer: "Explainer",
    axes: tuple[FeatureAxis, FeatureAxis],
    which: tuple[int, int],
    resolution: int,
    max_model_rows: int | None,
) -> tuple[list[Any], list[str]]:
    """Draw contours of the output and the accepted region below everything else; return the legend's entries."""
    from matplotlib.lines import Line2D  # slow to import
    from matplotlib.patches import Patch

    if not is_count(resolution, _LAYOUT.coarsest):
        raise ValueError(f"resolution must be an integer of at least {_LAYOUT.coarsest}, not {resolution!r}")
    limits = ax.get_xlim(), ax.get_ylim()
    sides = _choose_grid(ax, explanation, axes, which, resolution, max_model_rows)
    shown = [axis.positions(side) for axis, side in zip(axes, sides, strict=True)]
    output, reached = _evaluate_grid(explanation, explainer, sides, which)
    handles: list[Any] = []
    labels: list[str] = []
    if reached.any():
        _shade_accepted(ax, shown, axes, reached)
        handles.append(Patch(facecolor=SAFE, alpha=_LAYOUT.pale))
        labels.append("the model accepts")
    smooth = not any(axis.feature.leveled for axis in axes)
    if smooth and np.ptp(output[np.isfinite(output)]) > 0:
        lines = ax.contour(*shown, output, levels=_LAYOUT.lines, colors="#777777", linewidths=0.8, zorder=0.6)
        ax.clabel(lines, fontsize=7.5, inline=True)
        handles.append(Line2D([], [], color="#777777", lw=0.8))
        labels.append("the model's output")
    ax.set_xlim(*limits[0])
    ax.set_ylim(*limits[1])
    return handles, labels


def _shade_accepted(ax: "Axes", shown: list[Array], axes: tuple[FeatureAxis, FeatureAxis], reached: Array) -> None:
    """Fill the accepted region, with one cell per level of a leveled feature."""
    from matplotlib.colors import ListedColormap  # slow to import

    if any(axis.feature.leveled for axis in axes):
        cells = np.ma.masked_equal(reached.astype(float), 0.0)
        order = [np.argsort(side, kind="stable") for side in shown]
        ax.pcolormesh(
            shown[0][order[0]], shown[1][order[1]], cells[np.ix_(order[1], order[0])], shading="nearest",
            cmap=ListedColormap([SAFE]), alpha=_LAYOUT.pale, zorder=0.4, linewidth=0, rasterized=True,
        )  # fmt: skip
    else:
        ax.contourf(*shown, reached.astype(float), levels=[0.5, 1.5], colors=[SAFE], alpha=_LAYOUT.pale, zorder=0.4)


def _choose_grid(
    ax: "Axes",
    explanation: Explanation,
    axes: tuple[FeatureAxis, FeatureAxis],
    which: tuple[int, int],
    resolution: int,
    max_model_rows: int | None,
) -> list[Array]:
    """Return encoded grid values along both axes, coarser if ``max_model_rows`` requires it."""
    x0 = explanation.x0
    seen = explanation.draws.x
    while True:
        sides = []
        for axis, j, ends in zip(axes, which, (ax.get_xlim(), ax.get_ylim()), strict=True):
            feature = axis.feature
            if axis.feature.leveled:
                places = np.zeros(0) if axis.place is None else axis.place
                sides.append(np.unique(places, return_index=True)[1].astype(float))
                continue
            known = np.append(seen[:, j], x0[j])
            known = known[~np.isnan(known)]
            low, high = (float(known.min()), float(known.max())) if axis.is_time else sorted(ends)
            side = (np.geomspace if axis.log else np.linspace)(low, high, resolution)
            if feature.discrete:
                side = np.unique(np.round(side))
            inside = feature.range_from(x0[j])
            side = side[(side >= inside[0]) & (side <= inside[1])]
            sides.append(side if len(side) > 1 else np.unique([low, high]))
        n = len(sides[0]) * len(sides[1])
        if max_model_rows is None or n <= max_model_rows:
            return sides
        if resolution <= _LAYOUT.coarsest:
            raise ValueError(
                f"max_model_rows = {max_model_rows} is too few for contours: a coarse grid takes {n} rows; allow more, "
                "or leave explainer out"
            )
        resolution = max(_LAYOUT.coarsest, resolution - 4)


def _evaluate_grid(
    explanation: Explanation,
    explainer: "Explainer",
    sides: list[Array],
    which: tuple[int, int],
) -> tuple[Array, Array]:
    """Return the first model's output on the grid and whether it reaches the target, each ``(n_y, n_x)``."""
    posterior = explainer._session.own_posterior(explanation, budget_of(None, None))
    base = explanation.x0 if explanation.answer is None else explanation.answer.decision.x
    horizontal, vertical = np.meshgrid(*sides)
    x = np.repeat(base[None, :], horizontal.size, axis=0)
    x[:, which[0]], x[:, which[1]] = horizontal.ravel(), vertical.ravel()
    x = explanation.space.completed(x, explanation.x0)
    found = posterior.evaluate_first(x)
    return found.outputs[:, 0].reshape(horizontal.shape), found.reached[:, 0].reshape(horizontal.shape)


# --- the posterior over two features (the paper's Figure 1) ----------------------------------------------------------


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
    reaches the target, with all other columns as in the answer (or as in the row if there is no answer). Marks that
    overlap are drawn as rings around each other; draws at levels and integers are jittered.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    features : pair of str, optional
        Horizontal and vertical axis; by default the two whose movement differs most from the prior's.
    explainer : Explainer, optional
        The explainer of the explanation, whose first model is evaluated on a grid.
    resolution : int
        Grid points along each axis; a feature with levels has one per level.
    max_model_rows : int, optional
        Largest number of grid points; the grid is made coarser until it fits.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
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
    others = stack_points(list_marked(explanation), len(names))
    axes = feature_axis(explanation, i, others[:, i]), feature_axis(explanation, j, others[:, j])
    _scatter_draws(ax, explanation, axes, (i, j), n_draws)
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
        handles, labels = _draw_surface(ax, explanation, explainer, axes, (i, j), resolution, max_model_rows)
    mark_points(ax, explanation, places, size=_LAYOUT.size)
    ax.scatter(row[0], row[1], s=110, color=ROW, marker="+", linewidths=2, label="row", zorder=7)
    finish_axes(ax, f"Draws for the target: {target_text(explanation.target.describe())}")
    put_legend_outside(ax, *entries_in_order(ax, handles, labels))
    return ax


def _scatter_draws(
    ax: "Axes",
    explanation: Explanation,
    axes: tuple[FeatureAxis, FeatureAxis],
    which: tuple[int, int],
    n_draws: int,
    size: float = 11,
) -> None:
    """Scatter draws over two features, those that reach the target on top."""
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
    chosen += [name for name in names if name not in chosen][: 2 - len(chosen)]  # if only one is free
    chosen.sort(key=names.index)
    return chosen[0], chosen[1]


# --- pairs of features -----------------------------------------------------------------------------------------------


def plot_pairs(
    explanation: Explanation,
    features: Sequence[str] | None = None,
    *,
    max_features: int = 4,
    n_draws: int = 1_000,
    ax: "Axes | Sequence[Axes] | None" = None,
) -> "Axes | np.ndarray[Any, Any]":
    """Plot a triangle of panels: draws over each pair of features, and each feature's histogram on the diagonal.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    features : sequence of str, optional
        By default those whose movement differs most from the prior's.
    max_features : int
        Largest number of features by default.
    n_draws : int
        Largest number of draws in a panel.
    ax : sequence of matplotlib Axes, optional
        Axes to draw on: ``k (k + 1) / 2`` of them for ``k`` features, the lower triangle row by row.

    Returns
    -------
    matplotlib Axes, or array of them
        The axes drawn on, the lower triangle with its diagonal row by row; one Axes for one feature.

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
    panels = _make_triangle(ax, len(columns))
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
                _scatter_draws(panel, explanation, (axes[across], axes[line]), (i, j), n_draws, size=6)
                at = [axis.positions(explanation.x0[[k]])[0] for axis, k in ((axes[across], i), (axes[line], j))]
                panel.scatter(at[0], at[1], s=60, color=ROW, marker="+", linewidths=1.6, label="row", zorder=4)
                for x in others:
                    spot = [axis.positions(x[[k]])[0] for axis, k in ((axes[across], i), (axes[line], j))]
                    mark_answer(panel, explanation, (spot[0], spot[1]), size=42)
            axes[across].decorate(panel, "x", label=line == len(columns) - 1, width=_LAYOUT.name_width)
            if across < line:
                axes[line].decorate(panel, "y", label=across == 0, width=_LAYOUT.name_width)
            if line < len(columns) - 1:
                panel.tick_params(labelbottom=False)
            if across > 0 and across < line:
                panel.tick_params(labelleft=False)
            panel.tick_params(labelsize=8)
            _thin_ticks(panel, axes[across], axes[line] if across < line else None)
            panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_title(f"Draws for the target: {target_text(explanation.target.describe())}", loc="left", fontsize=10)
    _add_legend(panels, in_corner=ax is None and len(columns) > 1)
    return as_panels(panels)


def _thin_ticks(panel: "Axes", across: FeatureAxis, up: FeatureAxis | None) -> None:
    """Leave as many ticks as a small panel has room for: few round numbers, and names of levels aslant."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # slow to import

    for one, axis in ((across, panel.xaxis), (up, panel.yaxis)):
        if one is None or one.ticks or one.is_time or one.log:
            continue
        longest = max(len(number_text(float(end), 4)) for end in axis.get_view_interval())
        n = max(min(_LAYOUT.most_ticks, int(_LAYOUT.tick_characters / (longest + 1))), 1)
        axis.set_major_locator(MaxNLocator(n, steps=_LAYOUT.round_steps, integer=one.feature.kind == "integer"))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(float(value), 4)))
    if across.ticks and sum(map(len, across.labels)) > _LAYOUT.level_characters:
        panel.tick_params(axis="x", rotation=40)
        for text in panel.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")


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
    if len(chosen) > _LAYOUT.most_features:
        raise ValueError(f"{len(chosen)} features make panels too small to read: name at most {_LAYOUT.most_features}")
    return [names.index(name) for name in chosen]


def _make_triangle(ax: Any, k: int) -> "list[Axes]":
    """Return the given or new axes of a lower triangle with its diagonal."""
    n = k * (k + 1) // 2
    if ax is not None:
        return given_panels(ax, n)
    import matplotlib.pyplot as plt  # slow to import

    side = 4.2 if k == 1 else _LAYOUT.side * k
    figure = plt.figure(figsize=(side + 1.2, side), layout="constrained")
    return [figure.add_subplot(k, k, line * k + i + 1) for line in range(k) for i in range(line + 1)]


def _draw_distribution(panel: "Axes", explanation: Explanation, j: int, axis: FeatureAxis) -> None:
    """Draw the histogram of a feature under the posterior, and under the prior if the pool was kept."""
    draws = explanation.draws
    after = axis.positions(draws.x[:, j]), draws.weights
    before = None if draws.record is not None else (axis.positions(draws.pool.x[:, j]), draws.prior_weights)
    edges = _choose_bins(axis, after[0], before).tolist()
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


def _choose_bins(axis: FeatureAxis, after: Array, before: Any) -> Array:
    """Return bin edges: one bin per level or integer if there are few, otherwise evenly over the draws."""
    values = after[np.isfinite(after)]
    if axis.stepped and not axis.is_time:
        low, high = values.min(), values.max()
        if before is not None:
            known = before[0][np.isfinite(before[0])]
            low, high = min(low, known.min()), max(high, known.max())
        if high - low <= 2 * _LAYOUT.bins:
            return np.arange(low - 0.5, high + 1.0)
    low, high = float(values.min()), float(values.max())
    if before is not None:  # the bulk of the prior, so that a long tail does not squeeze the rest into one bin
        known = before[0][np.isfinite(before[0])]
        low, high = min(low, float(np.quantile(known, 0.02))), max(high, float(np.quantile(known, 0.98)))
    if low == high:
        low, high = low - 0.5, high + 0.5
    return (
        np.geomspace(low, high, _LAYOUT.bins + 1) if axis.log and low > 0 else np.linspace(low, high, _LAYOUT.bins + 1)
    )


def _add_legend(panels: "Sequence[Axes]", *, in_corner: bool) -> None:
    """Put one legend into the empty corner beside the first panel, or beside the last one."""
    entries: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    where = panels[0] if in_corner else panels[-1]
    put_legend_outside(where, list(entries.values()), list(entries), in_layout=not in_corner)
