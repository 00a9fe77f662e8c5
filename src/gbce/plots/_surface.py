"""What the model says over two features while the others stay: contours of its output, and where it accepts."""

from typing import TYPE_CHECKING, Any

import numpy as np

from gbce._validation import is_count
from gbce.base import Array
from gbce.budget import budget_of
from gbce.explanation import Explanation
from gbce.plots._features import FeatureAxis
from gbce.plots._style import SAFE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gbce.explainer import Explainer

__all__ = ["draw_surface"]

# Looks, chosen by hand.
_COARSEST = 8  # points along an axis, below which contours say nothing
_LINES = 6  # contours, about
_PALE = 0.45  # of the colour of the region that is accepted


def draw_surface(
    ax: "Axes",
    explanation: Explanation,
    explainer: "Explainer",
    axes: tuple[FeatureAxis, FeatureAxis],
    which: tuple[int, int],
    resolution: int,
    max_model_rows: int | None,
) -> tuple[list[Any], list[str]]:
    """Draw below everything else; return the entries of the legend."""
    from matplotlib.lines import Line2D  # slow to import
    from matplotlib.patches import Patch

    if not is_count(resolution, _COARSEST):
        raise ValueError(f"resolution must be a whole number of at least {_COARSEST}, not {resolution!r}")
    limits = ax.get_xlim(), ax.get_ylim()
    sides = _sides(ax, explanation, axes, which, resolution, max_model_rows)
    shown = [axis.positions(side) for axis, side in zip(axes, sides, strict=True)]
    output, reached = _ask(explanation, explainer, sides, which)
    handles: list[Any] = []
    labels: list[str] = []
    if reached.any():
        _shade(ax, shown, axes, reached)
        handles.append(Patch(facecolor=SAFE, alpha=_PALE))
        labels.append("the model accepts")
    smooth = not any(axis.feature.leveled for axis in axes)
    if smooth and np.ptp(output[np.isfinite(output)]) > 0:
        lines = ax.contour(*shown, output, levels=_LINES, colors="#777777", linewidths=0.8, zorder=0.6)
        ax.clabel(lines, fontsize=7.5, inline=True)
        handles.append(Line2D([], [], color="#777777", lw=0.8))
        labels.append("the model's output")
    ax.set_xlim(*limits[0])
    ax.set_ylim(*limits[1])
    return handles, labels


def _shade(ax: "Axes", shown: list[Array], axes: tuple[FeatureAxis, FeatureAxis], reached: Array) -> None:
    """Fill the region that is accepted; along levels, a cell around each."""
    from matplotlib.colors import ListedColormap  # slow to import

    if any(axis.feature.leveled for axis in axes):
        cells = np.ma.masked_equal(reached.astype(float), 0.0)
        order = [np.argsort(side, kind="stable") for side in shown]
        ax.pcolormesh(
            shown[0][order[0]], shown[1][order[1]], cells[np.ix_(order[1], order[0])], shading="nearest",
            cmap=ListedColormap([SAFE]), alpha=_PALE, zorder=0.4, linewidth=0, rasterized=True,
        )  # fmt: skip
    else:
        ax.contourf(*shown, reached.astype(float), levels=[0.5, 1.5], colors=[SAFE], alpha=_PALE, zorder=0.4)


def _sides(
    ax: "Axes",
    explanation: Explanation,
    axes: tuple[FeatureAxis, FeatureAxis],
    which: tuple[int, int],
    resolution: int,
    max_model_rows: int | None,
) -> list[Array]:
    """Return encoded values along both axes, as many as may be asked about."""
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
        if resolution <= _COARSEST:
            raise ValueError(
                f"max_model_rows = {max_model_rows} is too few for contours: a coarse grid takes {n} rows; allow more, "
                "or leave explainer out"
            )
        resolution = max(_COARSEST, resolution - 4)


def _ask(
    explanation: Explanation,
    explainer: "Explainer",
    sides: list[Array],
    which: tuple[int, int],
) -> tuple[Array, Array]:
    """Return the first model's output and verdict over the grid, each ``(n_y, n_x)``."""
    posterior = explainer.own_posterior(explanation, budget_of(None, None))
    base = explanation.x0 if explanation.answer is None else explanation.answer.decision.x
    horizontal, vertical = np.meshgrid(*sides)
    x = np.repeat(base[None, :], horizontal.size, axis=0)
    x[:, which[0]], x[:, which[1]] = horizontal.ravel(), vertical.ravel()
    x = explanation.space.completed(x, explanation.x0)
    found = posterior.evaluate_first(x)
    return found.outputs[:, 0].reshape(horizontal.shape), found.reached[:, 0].reshape(horizontal.shape)
