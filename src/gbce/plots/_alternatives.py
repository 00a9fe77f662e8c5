"""Distinct strategies side by side: what each changes, and how much of the posterior it has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.decisions import Decision
from gbce.explanation import Explanation, changed_columns
from gbce.metrics import PRINTED_Z_95, signed_changes
from gbce.plots._style import as_panels, given_panels, stacked_panels
from gbce.plots._tracks import draw_tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_alternatives"]

# Looks, chosen by hand.
_WIDTH, _LINE, _ROOM, _LEGEND = 8.2, 0.55, 0.45, 0.3  # inches: of a panel, between lines, for title and legend


def plot_alternatives(
    explanation: Explanation, k: int = 3, *, max_features: int = 6, ax: "Axes | Sequence[Axes] | None" = None
) -> "Axes | np.ndarray[Any, Any]":
    """Draw the strategies of :meth:`gbce.Explanation.alternatives`, one panel each, from the row to its cheapest point.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    k : int
        Most strategies.
    max_features : int
        Most columns in a panel: those that any strategy changes most.
    ax : matplotlib Axes or sequence of them, optional
        Where to draw, one for each strategy there is; a new figure when left out.

    Returns
    -------
    matplotlib Axes, or array of them
        The axes drawn on; an array ``(s,)`` where there are ``s`` strategies.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(200, 2))
    >>> explainer = gbce.Explainer(lambda x: np.abs(x[:, 0]), data, space=gbce.Space.real(2))
    >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(2, scale=0.1), rules=[], seed=1)
    >>> len(explanation.plot.alternatives())
    2
    """
    if ax is not None:
        given_panels(ax, len(np.ravel(np.asarray(ax, dtype=object))))  # refused before anything is computed
    found = explanation.alternatives(k)
    space, x0 = explanation.space, explanation.x0
    if len(found) == 0:
        raise ValueError(
            "no strategy has a mass of at least 0.05 and 20 effective draws: there is nothing to set side by side; try "
            "explanation.plot.changes()"
        )
    own_columns = space.frame(x0[None, :]).columns
    points = space.encode(found.table.iloc[:, -len(own_columns) :].set_axis(own_columns, axis=1))
    columns = sorted({int(j) for x in points for j in changed_columns(space, x0, x)})
    size = np.abs(signed_changes(space, points, x0)).max(axis=0)
    columns = sorted(sorted(columns, key=lambda j: -size[j])[:max_features])
    shown = [[j for j in columns if j in changed_columns(space, x0, x)] for x in points]
    heights = [_ROOM + _LINE * (len(own) + 1) for own in shown]
    heights[-1] += _LEGEND
    panels = stacked_panels(ax, _WIDTH, heights)
    for number, (panel, x) in enumerate(zip(panels, points, strict=True), start=1):
        line = found.table.loc[number]
        decision = _as_decision(explanation, x, bool(line["reached"]), float(line["output"]))
        own = shown[number - 1]
        draw_tracks(panel, explanation, decision, own, legend=number == len(panels))
        mass, error = float(line["mass"]), PRINTED_Z_95 * float(line["mass_se"])
        title = f"{number}. {mass:.0%} (± {error:.0%}) of the posterior, cost {float(line['cost']):.2g}"
        more = len(changed_columns(space, x0, x)) - len(own)
        title += f", {more} more column{'s' * (more > 1)} change" if more else ""
        title += f"; other strategies: {found.other:.0%}" if number == len(panels) and found.other > 0.005 else ""
        panel.set_title(title, loc="left", fontsize=10, wrap=True)
        panel.spines[["top", "right", "left", "bottom"]].set_visible(False)
    return as_panels(panels)


def _as_decision(explanation: Explanation, x: Any, reached: bool, output: float) -> Decision:
    """Return a strategy's point as a decision of the first model."""
    row = explanation.row
    outputs, verdicts = row.outputs[0].copy(), row.reached[0].copy()
    outputs[0], verdicts[0] = output, reached
    return Decision("", x, outputs, row.loss[0], verdicts, 0.0)
