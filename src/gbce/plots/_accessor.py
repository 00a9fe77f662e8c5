"""What ``explanation.plot`` and ``table.plot`` offer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gbce.batch import ExplanationTable
from gbce.explanation import Explanation
from gbce.plots._alternatives import plot_alternatives
from gbce.plots._before_after import plot_before_after
from gbce.plots._changes import plot_changes
from gbce.plots._decisions import plot_decisions
from gbce.plots._disagreement import plot_disagreement
from gbce.plots._frontier import plot_frontier
from gbce.plots._importance import plot_importance
from gbce.plots._pairs import plot_pairs
from gbce.plots._path import plot_path
from gbce.plots._posterior import plot_posterior
from gbce.plots._shares import plot_shares
from gbce.plots._table import plot_table_changes, plot_table_costs

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Plots", "TablePlots"]


@dataclass(frozen=True)
class Plots:
    """The pictures of one explanation; docs/gallery.md shows each of them.

    Each takes ``ax``, where to draw, and returns what it drew on: the matplotlib ``Axes``, or a flat array of them
    where there are several panels.

    Examples
    --------
    ``explanation.plot.before_after()`` and ``explanation.plot.posterior(features=("bmi", "bp"))``.
    """

    explanation: Explanation

    def before_after(self, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Answer, from now to then, see :func:`gbce.plots.plot_before_after`."""
        return plot_before_after(self.explanation, ax=ax, **options)

    def changes(self, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Change per feature with intervals, see :func:`gbce.plots.plot_changes`."""
        return plot_changes(self.explanation, ax=ax, **options)

    def decisions(self, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Cost of each decision against its reliability, see :func:`gbce.plots.plot_decisions`."""
        return plot_decisions(self.explanation, ax=ax, **options)

    def alternatives(
        self, k: int = 3, *, ax: "Axes | Sequence[Axes] | None" = None, **options: Any
    ) -> "Axes | np.ndarray[Any, Any]":
        """Distinct strategies, one panel each, see :func:`gbce.plots.plot_alternatives`."""
        return plot_alternatives(self.explanation, k, ax=ax, **options)

    def pairs(
        self, features: Sequence[str] | None = None, *, ax: "Axes | Sequence[Axes] | None" = None, **options: Any
    ) -> "Axes | np.ndarray[Any, Any]":
        """Draws over pairs of features, see :func:`gbce.plots.plot_pairs`."""
        return plot_pairs(self.explanation, features, ax=ax, **options)

    def posterior(self, features: Sequence[str] | None = None, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draws and decisions over two features, see :func:`gbce.plots.plot_posterior`."""
        return plot_posterior(self.explanation, features, ax=ax, **options)

    def importance(self, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Movement of features, beside the prior's own, see :func:`gbce.plots.plot_importance`."""
        return plot_importance(self.explanation, ax=ax, **options)

    def shares(self, feature: str | None = None, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Shares of the levels of a feature, see :func:`gbce.plots.plot_shares`."""
        return plot_shares(self.explanation, feature, ax=ax, **options)

    def path(
        self, etas: Sequence[float] | None = None, *, ax: "Axes | Sequence[Axes] | None" = None, **options: Any
    ) -> "Axes | np.ndarray[Any, Any]":
        """Figures over eta, one panel each, see :func:`gbce.plots.plot_path`."""
        return plot_path(self.explanation, etas, ax=ax, **options)

    def frontier(self, table: "pd.DataFrame | None" = None, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Cost of every reliability, see :func:`gbce.plots.plot_frontier`."""
        return plot_frontier(self.explanation, table, ax=ax, **options)

    def disagreement(self, *, ax: "Sequence[Axes] | None" = None, **options: Any) -> "Axes | np.ndarray[Any, Any]":
        """Between which models, and where, verdicts differ, see :func:`gbce.plots.plot_disagreement`."""
        return plot_disagreement(self.explanation, ax=ax, **options)


@dataclass(frozen=True)
class TablePlots:
    """The pictures of explanations of many rows; docs/gallery.md shows each of them.

    Each takes ``ax``, where to draw, and returns the matplotlib ``Axes`` it drew on.

    Examples
    --------
    ``table.plot.changes()`` and ``table.plot.costs(rows["sex"])``.
    """

    table: ExplanationTable

    def changes(self, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Swarm of changes in all rows, see :func:`gbce.plots.plot_table_changes`."""
        return plot_table_changes(self.table, ax=ax, **options)

    def costs(self, groups: Any = None, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Cost of recourse by groups of rows, see :func:`gbce.plots.plot_table_costs`."""
        return plot_table_costs(self.table, groups, ax=ax, **options)
