"""Plot which few columns would do: the cheapest and the cheapest reliable point of each set of columns."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.explanation import Explanation
from gbce.metrics import PRINTED_Z_95
from gbce.plots._style import (
    DRAWS,
    EDGE,
    MISSED,
    SAFE,
    entries_in_order,
    finish_axes,
    new_axes,
    put_legend_outside,
    short_text,
    target_text,
)
from gbce.space import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_menu"]

_WIDTH, _LINE, _ROOM = 8.6, 0.72, 1.3  # inches of the figure, of each set, and of title and axis; by hand
_LOWEST = 3.0  # inches of the figure, however few sets there are; by hand
_NAMES = 34  # characters of a column's name; by hand


def plot_menu(
    explanation: Explanation, max_columns: int = 3, *, max_sets: int = 12, ax: "Axes | None" = None
) -> "Axes":
    """Plot the sets of columns of :meth:`gbce.Explanation.menu` that reach the target, with what each costs.

    A hollow mark is the cheapest point found that changes just these columns, a filled one the cheapest that is
    reliable. Below the names of the columns is the share of the posterior that needs just these columns.

    Parameters
    ----------
    explanation : Explanation
        The explanation.
    max_columns : int
        Largest number of columns of a set.
    max_sets : int
        Largest number of sets, those with fewer columns and then the cheapest first.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib, pandas as pd
    >>> matplotlib.use("Agg")
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"])
    >>> explainer = gbce.Explainer(lambda x: np.maximum(x["a"], x["b"]), data)
    >>> explanation = explainer.explain({"a": 0.0, "b": 0.0}, gbce.AtLeast(1), rules=["Nearest"], seed=1)
    >>> ax = explanation.plot.menu(1)
    >>> sorted(label.get_text()[0] for label in ax.get_yticklabels())
    ['a', 'b']
    >>> matplotlib.pyplot.close(ax.figure)
    """
    menu = explanation.menu(max_columns)
    table = menu.table[menu.table["verdict"] == "reaches"].head(max_sets)
    if len(table) == 0:
        raise ValueError(f"there is no set of columns to draw. {menu.note or menu}")
    ax = new_axes(ax, _WIDTH, max(_ROOM + _LINE * len(table), _LOWEST))
    for place, line in enumerate(table.to_dict("records")):
        cost, reliable = float(line["cost"]), float(line["reliable_cost"])
        if np.isfinite(reliable):
            ax.plot([cost, reliable], [place, place], color=MISSED, lw=3, zorder=2, solid_capstyle="round")
            ax.plot(
                [reliable],
                [place],
                "o",
                color=SAFE,
                mec=EDGE,
                ms=9,
                zorder=4,
                ls="",
                label="the cheapest reliable point",
            )
        ax.plot(
            [cost], [place], "o", color="white", mec=DRAWS, mew=2, ms=9, zorder=3, ls="", label="the cheapest point"
        )
    ax.set_yticks(
        range(len(table)), [_name_set(explanation.space, line) for line in table.to_dict("records")], fontsize=9
    )
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlim(left=0.0)
    ax.margins(x=0.05)
    ax.set_xlabel("cost: sum of changes, in units of each feature's scale", wrap=True)
    ax.grid(axis="x", alpha=0.25, lw=0.6)
    ax.set_axisbelow(True)
    n_impossible = int((menu.table["verdict"] == "impossible").sum())
    title = f"Which columns would do, target: {target_text(explanation.target.describe())}"
    if n_impossible:
        title += f" ({n_impossible} other set{'s' * (n_impossible > 1)} proved impossible)"
    finish_axes(ax, title, hidden=("top", "right", "left"))
    ax.tick_params(axis="y", length=0)
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _name_set(space: Space, line: dict[Hashable, Any]) -> str:
    """Return the names of the columns of a set, and its share of the posterior."""
    names = "\n".join(short_text(space.label(space.names.index(name)), _NAMES) for name in line["columns"])
    return f"{names}\n{line['share']:.0%} (± {PRINTED_Z_95 * line['share_se']:.0%})"
