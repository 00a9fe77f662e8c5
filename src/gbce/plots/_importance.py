"""Importance: how far each feature moves under the posterior, beside the prior's own."""

from typing import TYPE_CHECKING

import numpy as np

from gbce.explanation import Explanation
from gbce.metrics import PRINTED_Z_95
from gbce.plots._style import DRAWS, EDGE, PRIOR, finish_axes, new_axes, put_legend_outside, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_importance"]


def plot_importance(explanation: Explanation, *, max_features: int = 15, ax: "Axes | None" = None) -> "Axes":
    """Draw the expected size of each feature's change, with its 95% error, beside the prior's.

    A feature that the model does not care about moves as far as the prior lets it. What matters most comes first: the
    number after its name is the ratio to the prior.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    max_features : int
        Most features; those whose movement differs most from the prior's own.
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
    >>> data = np.random.default_rng(0).normal(size=(100, 3))
    >>> explainer = gbce.Explainer(lambda x: x[:, 1], data, space=gbce.Space.real(3))
    >>> explanation = explainer.explain(np.zeros(3), gbce.AtLeast(2, scale=0.1), rules=[], seed=0)
    >>> explanation.plot.importance().get_yticklabels()[0].get_text().split()[0]
    'x2'
    """
    table = explanation.importance
    scale = dict(zip(explanation.space.names, explanation.space.scale, strict=True))
    gap = (table["ratio"] - 1.0).abs()[table["prior"] > 0].sort_values(ascending=False, kind="stable")
    kept = list(gap.index[:max_features])
    longest = max([len(short_text(name)) for name in kept] + [0])
    ax = new_axes(ax, 6.8 + 0.07 * max(longest - 14, 0), 1.5 + 0.36 * len(kept))
    shown = table.loc[kept]
    unit = np.array([scale[name] for name in kept])
    change, se, prior = (shown[name].to_numpy(dtype=float) / unit for name in ("change", "se", "prior"))
    y = np.arange(len(kept))
    ax.barh(y, prior, height=0.72, color=PRIOR, label="prior")
    ax.barh(y, change, height=0.36, color=DRAWS, label="posterior")
    ax.errorbar(change, y, xerr=PRINTED_Z_95 * se, fmt="none", ecolor=EDGE, elinewidth=1.2, capsize=2)
    labels = [f"{short_text(name)} ({ratio:.2g} ×)" for name, ratio in shown["ratio"].items()]
    ax.set_yticks(y, labels)
    ax.set_ylim(max(len(kept), 1) - 0.5, -0.5)
    ax.set_xlim(left=0.0)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("expected change, in units of each feature's scale; of a category, its probability", wrap=True)
    left = int((table["prior"] > 0).sum()) - len(kept)
    more = f" ({left} more move about as the prior does)" if left else ""
    finish_axes(ax, f"What matters: change, and its ratio to the prior's{more}", hidden=("top", "right", "left"))
    put_legend_outside(ax, *ax.get_legend_handles_labels())
    return ax
