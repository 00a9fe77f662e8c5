"""Where models disagree about the draws: between which of them, and along which features."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.explanation import Explanation
from gbce.metrics import PRINTED_Z_95, Disagreement
from gbce.plots._style import DRAWS, EDGE, as_panels, given_panels, new_panels, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_disagreement"]

# Looks, chosen by hand.
_MOST_MODELS = 12  # whose names are written at the matrix
_MOST_WRITTEN = 8  # models, up to which numbers are written into the matrix
_DARK = 0.85  # of the largest share, from which on a number in the matrix is white


def plot_disagreement(
    explanation: Explanation, *, max_features: int = 10, ax: "Sequence[Axes] | None" = None
) -> "Axes | np.ndarray[Any, Any]":
    """Draw how often each pair of models judges draws differently, and where: two panels.

    Parameters
    ----------
    explanation : Explanation
        Of several models.
    max_features : int
        Most features in the second panel: those along which draws that divide the models differ most from the others.
    ax : pair of matplotlib Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    array of two matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> models = [lambda x: x[:, 0], lambda x: x[:, 0] + np.maximum(x[:, 1], 0)]
    >>> explanation = gbce.Explainer(models, data).explain(data[0], gbce.AtLeast(1.0), rules=[], seed=0)
    >>> len(explanation.plot.disagreement())
    2
    """
    if ax is not None:
        given_panels(ax, 2)
    found = explanation.disagreement()
    panels = new_panels(ax, 2, 5.2, 4.2)
    _draw_pairs(panels[0], found)
    _draw_where(panels[1], found, max_features)
    return as_panels(panels)


def _draw_pairs(ax: "Axes", found: Disagreement) -> None:
    """Draw the matrix of shares: how often the verdicts of two models differ."""
    names = list(dict.fromkeys([name for pair in found.pairs.index for name in pair]))
    share = np.zeros((len(names), len(names)))
    for (one, other), value in found.pairs["differ"].items():
        i, j = names.index(one), names.index(other)
        share[i, j] = share[j, i] = value
    shown = np.ma.masked_array(share, mask=np.triu(np.ones_like(share, dtype=bool), 1) | np.eye(len(names), dtype=bool))
    top = max(float(share.max()), 0.01)
    ax.imshow(shown, cmap="Blues", vmin=0.0, vmax=1.4 * top, aspect="auto")
    if len(names) <= _MOST_WRITTEN:
        for i in range(len(names)):
            for j in range(i):
                colour = "white" if share[i, j] > _DARK * top else EDGE
                ax.text(j, i, f"{share[i, j]:.0%}", ha="center", va="center", fontsize=9, color=colour)
    step = max(1, -(-len(names) // _MOST_MODELS))
    labelled = list(range(0, len(names), step))
    texts = [short_text(names[k], 22) for k in labelled]
    ax.set_xticks(labelled, texts, rotation=35, ha="right", rotation_mode="anchor", fontsize=8.5)
    ax.set_yticks(labelled, texts, fontsize=8.5)
    ax.set_xlim(-0.5, len(names) - 1.5)
    ax.set_ylim(len(names) - 0.5, 0.5)
    ax.spines[["top", "right", "left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title("draws that two models judge differently", loc="left", fontsize=10)


def _draw_where(ax: "Axes", found: Disagreement, most: int) -> None:
    """Draw how far draws that divide the models lie from the others, by feature."""
    where = found.where.dropna(subset=["difference"]).iloc[:most]
    ax.set_title("where: draws they divide on, against the others", loc="left", fontsize=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.axvline(0.0, color=EDGE, lw=1)
    if len(where) == 0:
        import textwrap

        ax.text(0.5, 0.5, textwrap.fill(f"{found.sentence}", 40), transform=ax.transAxes, ha="center", va="center")
        ax.set_yticks([])
        ax.set_xticks([])
        return
    y = np.arange(len(where))
    gap, error = where["difference"].to_numpy(dtype=float), where["se"].to_numpy(dtype=float)
    ax.errorbar(gap, y, xerr=PRINTED_Z_95 * error, fmt="o", color=DRAWS, ecolor=EDGE, elinewidth=1.2, ms=7, mec=EDGE)
    labels = [
        short_text(str(name), 26) + ("" if level is None else f"\n= {short_text(str(level), 20)}")
        for name, level in zip(where.index, where["level"], strict=True)
    ]
    ax.set_yticks(y, labels, fontsize=8.5)
    ax.set_ylim(len(where) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", alpha=0.25, lw=0.6)
    ax.set_xlabel("difference, in units of each feature's scale;\nof a category, of the share of a level", fontsize=9)
