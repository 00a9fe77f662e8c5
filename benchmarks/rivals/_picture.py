"""Cost against survival: one point for each method, one line for gbce's frontier."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

from benchmarks.rivals._methods import METHODS
from benchmarks.rivals._results import summed_up

__all__ = ["CAPTION", "draw"]

CAPTION = """
Methods with fewer than half of their answers valid are left out. The frontier has a point for each probability that one
more refit agrees.
"""

_WIDE, _HIGH = 3.6, 3.0  # inches of a panel
_LEAST_WIDE = 6.0  # inches, so that the legend fits below a single one
_LINE, _MARGIN = 0.155, 0.15  # inches of a line of the legend, and around it
_COLUMNS = 3
_MARKS = "osvD^<>Xhdp"  # as many as have no common divisor with ten colours: no two methods look alike


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Draw one panel for each table; methods with fewer than half of their answers valid are left out."""
    tables = list(lines["table"].unique())
    columns = min(_COLUMNS, len(tables))
    n_rows = -(-len(tables) // columns)
    rivals = [one for one in METHODS if one.kind != "own" and one.name in set(lines["method"])]
    across = max(columns + 1, 2)  # entries of the legend in a line
    below = _LINE * -(-(len(rivals) + 3) // across) + _MARGIN
    size = (max(_WIDE * columns, _LEAST_WIDE), _HIGH * n_rows + below)
    figure, axes = plt.subplots(n_rows, columns, figsize=size, squeeze=False)
    for ax, table in zip(axes.ravel(), tables, strict=False):
        sums = summed_up(lines[lines["table"] == table], [])
        _draw_panel(ax, sums[sums["valid"] >= 0.5].set_index("name"), [one.label for one in rivals])
        ax.set_title(table)
    for ax in axes.ravel()[len(tables) :]:
        ax.set_visible(False)
    named = {label: mark for ax in axes.ravel() for mark, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="lower center", ncols=across, fontsize=7, frameon=False)
    figure.tight_layout(rect=(0, below / size[1], 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_panel(ax: Any, sums: pd.DataFrame, rivals: Sequence[str]) -> None:
    """Draw rivals as points, gbce's frontier as a line and its answers as large marks."""
    colours = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]
    for i, name in enumerate(rivals):
        if name in sums.index:
            mark, colour = _MARKS[i % len(_MARKS)], colours[i % len(colours)]
            ax.plot(sums.loc[name, "l1"], sums.loc[name, "survival"], mark, color=colour, ms=5, label=name)
    front = sums[[name.startswith("gbce frontier: ") for name in sums.index]].sort_values("l1")
    if len(front):
        ax.plot(front["l1"], front["survival"], "-", color="black", lw=1.2, marker=".", label="gbce frontier")
    for name, mark in (("gbce, ranges", "*"), ("gbce, refits, ranges", "P")):
        if name in sums.index:
            at = sums.loc[name, "l1"], sums.loc[name, "survival"]
            ax.plot(*at, mark, color="black", ms=11, mec="white", label=f"{name}: answer")
    ax.set(xlabel="cost (l1, ranges)", ylabel="survival", ylim=(-0.03, 1.03), xscale="log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(alpha=0.25)
