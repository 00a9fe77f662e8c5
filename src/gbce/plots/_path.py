"""The eta path: what is won and what is paid as the loss weighs more against the prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gbce.explanation import Explanation
from gbce.metrics import FIGURE_TITLES, PRINTED_Z_95
from gbce.plots._style import DRAWS

__all__ = ["plot_path"]

_PANELS = ("success_probability", "tail", "expected_distance", "stability", "log_evidence")  # drawn by default


def plot_path(
    explanation: Explanation, etas: Sequence[float] | None = None, *, figures: Sequence[str] | None = None
) -> "np.ndarray[Any, Any]":
    """Draw figures of the posterior over eta, one panel each, with 95% bands of Monte Carlo error.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    etas : sequence of float, optional
        Where to look; from the prior to the explanation's own eta when left out.
    figures : sequence of str, optional
        Columns of ``explanation.path()``; success probability, tail, expected distance, stability and evidence when
        left out.

    Returns
    -------
    array of matplotlib Axes
        One for each figure.

    Examples
    --------
    >>> import gbce, matplotlib, numpy as np
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explanation = gbce.Explainer(lambda x: x.sum(axis=1), data).explain(data[0], gbce.AtLeast(2), rules=[], seed=0)
    >>> len(explanation.plot.path(figures=["success_probability", "expected_distance"]))
    2
    """
    import matplotlib.pyplot as plt

    table = explanation.path(etas)
    names = list(_PANELS if figures is None else figures)
    unknown = [name for name in names if name not in table.columns]
    if unknown or not names:
        raise ValueError(f"figures must be columns of explanation.path(), such as 'tail', not {unknown or names}")
    positive = table[table.index > 0]
    _, axes = plt.subplots(1, len(names), figsize=(3.1 * len(names), 2.9), layout="constrained", squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        value, se = positive[name], positive.get(f"{name}_se", 0.0 * positive[name])
        ax.fill_between(
            positive.index, value - PRINTED_Z_95 * se, value + PRINTED_Z_95 * se, color=DRAWS, alpha=0.25, lw=0
        )
        ax.plot(positive.index, value, color=DRAWS, lw=2)
        if 0.0 in table.index:
            ax.axhline(table.loc[0.0, name], color="#888888", lw=1, ls=":")
        ax.axvline(explanation.eta, color="#111111", lw=1, ls="--")
        ax.set_xscale("log")
        ax.set_xlabel("eta")
        ax.set_title(FIGURE_TITLES.get(name, name), loc="left", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].annotate(
        "dashed: this explanation's eta\ndotted: the prior",
        (0.03, 0.97),
        xycoords="axes fraction",
        va="top",
        fontsize=7,
        color="#555555",
    )
    return axes[0]
