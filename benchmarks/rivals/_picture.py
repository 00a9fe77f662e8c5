"""Cost against survival: one point for each method, one line for gbce's frontier."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.rivals._methods import METHODS
from benchmarks.rivals._results import summed_up

__all__ = ["draw"]

_WIDE, _HIGH = 3.6, 3.0  # inches of a panel
_COLUMNS = 3


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Draw one panel for each table; methods with fewer than half of their answers valid are left out."""
    tables = list(lines["table"].unique())
    n_rows = -(-len(tables) // _COLUMNS)
    columns = min(_COLUMNS, len(tables))
    figure, axes = plt.subplots(n_rows, columns, figsize=(_WIDE * columns, _HIGH * n_rows + 1.1), squeeze=False)
    own = [one.name for one in METHODS if one.kind == "own"]
    rivals = [one for one in METHODS if one.kind != "own" and one.name in set(lines["method"])]
    colours = plt.get_cmap("tab20").colors  # type: ignore[attr-defined]
    marks = "ospvD^<>Xh"
    for ax, table in zip(axes.ravel(), tables, strict=False):
        sums = summed_up(lines[lines["table"] == table], [])
        sums = sums[sums["valid"] >= 0.5].set_index("name")
        for i, one in enumerate(rivals):
            if one.label in sums.index:
                point = sums.loc[one.label]
                ax.plot(
                    point["l1"], point["survival"], marks[i % len(marks)], color=colours[i % 20], ms=5, label=one.label
                )
        front = sums[[name.startswith("gbce frontier: ") for name in sums.index]].sort_values("l1")
        ax.plot(front["l1"], front["survival"], "-", color="black", lw=1.2, marker=".", label="gbce frontier")
        for name, mark in zip(own[:2], "*P", strict=True):
            if name in sums.index:
                ax.plot(
                    sums.loc[name, "l1"],
                    sums.loc[name, "survival"],
                    mark,
                    color="black",
                    ms=10,
                    label=f"{name}: answer",
                )
        ax.set(title=table, xlabel="cost (l1, ranges)", ylabel="survival", ylim=(-0.03, 1.03), xscale="log")
        ax.grid(alpha=0.25)
    for ax in axes.ravel()[len(tables) :]:
        ax.set_visible(False)
    named = {
        label: handle for ax in axes.ravel() for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        named.values(), named.keys(), loc="lower center", ncols=4 if columns > 1 else 2, fontsize=7, frameon=False
    )
    figure.tight_layout(rect=(0, 1.25 / figure.get_figheight(), 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)
