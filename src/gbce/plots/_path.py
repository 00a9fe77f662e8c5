"""The eta path: what is won and what is paid as the loss weighs more against the prior."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.explanation import Explanation
from gbce.metrics import FIGURE_TITLES, PRINTED_Z_95
from gbce.plots._style import DRAWS, QUIET, as_panels, literal_text, new_panels, put_legend_outside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_path"]

_PANELS = ("success_probability", "tail", "expected_distance", "stability", "log_evidence")  # drawn by default
_SIDE_BY_SIDE = 3  # panels in a line of a new figure, by hand


def plot_path(
    explanation: Explanation,
    etas: Sequence[float] | None = None,
    *,
    figures: Sequence[str] | str | None = None,
    ax: "Axes | Sequence[Axes] | None" = None,
) -> "Axes | np.ndarray[Any, Any]":
    """Draw figures of the posterior over eta, one panel each, with 95% bands of Monte Carlo error.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    etas : sequence of float, optional
        Where to look; from the prior to the explanation's own eta when left out.
    figures : str or sequence of str, optional
        Columns of ``explanation.path()``; success probability, tail, expected distance, stability and evidence when
        left out.
    ax : matplotlib Axes or sequence of them, optional
        Where to draw, one for each figure; a new figure when left out.

    Returns
    -------
    matplotlib Axes, or array of them
        The axes drawn on; an array ``(k,)`` where there are ``k`` figures.

    Examples
    --------
    >>> import gbce, matplotlib, numpy as np
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explanation = gbce.Explainer(lambda x: x.sum(axis=1), data).explain(data[0], gbce.AtLeast(2), rules=[], seed=0)
    >>> len(explanation.plot.path(figures=["success_probability", "expected_distance"]))
    2
    """
    table = explanation.path(etas)
    names = [figures] if isinstance(figures, str) else list(_PANELS if figures is None else figures)
    unknown = [name for name in names if name not in table.columns]
    if unknown or not names:
        raise ValueError(f"figures must be columns of explanation.path(), such as 'tail', not {unknown or names}")
    positive = table[table.index > 0]
    etas_shown = positive.index.to_numpy(dtype=float)
    panels = new_panels(ax, len(names), 3.1, 2.7, columns=_SIDE_BY_SIDE)
    few = len(positive) < 3  # a line through one or two points would not be seen
    for panel, name in zip(panels, names, strict=True):
        value = positive[name].to_numpy(dtype=float)
        se = positive.get(f"{name}_se", 0.0 * positive[name]).to_numpy(dtype=float)
        panel.fill_between(
            etas_shown, value - PRINTED_Z_95 * se, value + PRINTED_Z_95 * se, color=DRAWS, alpha=0.25, lw=0,
            label="95% of its error",
        )  # fmt: skip
        panel.plot(etas_shown, value, color=DRAWS, lw=2, marker="o" if few else None, label="posterior")
        if 0.0 in table.index:
            panel.axhline(float(table.loc[0.0, name]), color=QUIET, lw=1.2, ls=":", label="the prior")
        panel.axvline(explanation.eta, color="#111111", lw=1, ls="--", label="eta of this explanation")
        panel.set_xscale("log")
        panel.set_xlabel("eta")
        panel.set_title(literal_text(FIGURE_TITLES.get(name, name)), loc="left", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8.5)
    put_legend_outside(panels[-1], *panels[-1].get_legend_handles_labels())
    return as_panels(panels)
