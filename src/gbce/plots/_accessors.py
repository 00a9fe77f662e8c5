"""The ``plot`` accessors of explanations and of tables: every plot as a method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce.batch import ANSWER, ExplanationTable
from gbce.decisions import Rule
from gbce.explanation import Explanation
from gbce.plots._changes import plot_alternatives, plot_changes, plot_decisions, plot_menu
from gbce.plots._frontier import plot_frontier
from gbce.plots._posterior import plot_pairs, plot_posterior
from gbce.plots._summaries import plot_disagreement, plot_importance, plot_path, plot_shares
from gbce.plots._table import plot_table_changes, plot_table_costs
from gbce.plots._tracks import SafeRanges, plot_before_after

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gbce.explainer import Explainer

__all__ = ["Plots", "TablePlots"]


@dataclass(frozen=True)
class Plots:
    """Plots of one explanation; docs/gallery.md shows each of them.

    Each takes ``ax`` to draw on and returns the matplotlib ``Axes``, or a flat array of them if there are several
    panels.

    Examples
    --------
    ``explanation.plot.before_after()`` and ``explanation.plot.posterior(features=("bmi", "bp"))``.
    """

    explanation: Explanation

    def before_after(
        self,
        *,
        rule: Rule | str | None = None,
        safe: SafeRanges | None = None,
        max_features: int = 12,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Old and new values of the answer, see :func:`gbce.plots.plot_before_after`."""
        return plot_before_after(self.explanation, rule=rule, safe=safe, max_features=max_features, ax=ax)

    def changes(self, *, mass: float = 0.9, max_features: int = 15, ax: "Axes | None" = None) -> "Axes":
        """Change per feature with intervals, see :func:`gbce.plots.plot_changes`."""
        return plot_changes(self.explanation, mass=mass, max_features=max_features, ax=ax)

    def decisions(self, *, distance: str = "l1", ax: "Axes | None" = None) -> "Axes":
        """Cost of each decision against its reliability, see :func:`gbce.plots.plot_decisions`."""
        return plot_decisions(self.explanation, distance=distance, ax=ax)

    def alternatives(
        self, k: int = 3, *, max_features: int = 6, ax: "Axes | Sequence[Axes] | None" = None
    ) -> "Axes | np.ndarray[Any, Any]":
        """Distinct strategies, one panel each, see :func:`gbce.plots.plot_alternatives`."""
        return plot_alternatives(self.explanation, k, max_features=max_features, ax=ax)

    def menu(self, max_columns: int = 3, *, max_sets: int = 12, ax: "Axes | None" = None) -> "Axes":
        """Cost of reaching the target by few columns, see :func:`gbce.plots.plot_menu`."""
        return plot_menu(self.explanation, max_columns, max_sets=max_sets, ax=ax)

    def pairs(
        self,
        features: Sequence[str] | None = None,
        *,
        max_features: int = 4,
        n_draws: int = 1_000,
        ax: "Axes | Sequence[Axes] | None" = None,
    ) -> "Axes | np.ndarray[Any, Any]":
        """Draws over pairs of features, see :func:`gbce.plots.plot_pairs`."""
        return plot_pairs(self.explanation, features, max_features=max_features, n_draws=n_draws, ax=ax)

    def posterior(
        self,
        features: Sequence[str] | None = None,
        *,
        explainer: "Explainer | None" = None,
        resolution: int = 60,
        max_model_rows: int | None = None,
        ax: "Axes | None" = None,
        n_draws: int = 2_000,
    ) -> "Axes":
        """Draws and decisions over two features, see :func:`gbce.plots.plot_posterior`."""
        return plot_posterior(
            self.explanation, features, explainer=explainer, resolution=resolution, max_model_rows=max_model_rows,
            ax=ax, n_draws=n_draws,
        )  # fmt: skip

    def importance(self, *, max_features: int = 15, ax: "Axes | None" = None) -> "Axes":
        """Movement of features relative to the prior, see :func:`gbce.plots.plot_importance`."""
        return plot_importance(self.explanation, max_features=max_features, ax=ax)

    def shares(self, feature: str | None = None, *, max_levels: int = 15, ax: "Axes | None" = None) -> "Axes":
        """Probabilities of the levels of a feature, see :func:`gbce.plots.plot_shares`."""
        return plot_shares(self.explanation, feature, max_levels=max_levels, ax=ax)

    def path(
        self,
        etas: Sequence[float] | None = None,
        *,
        figures: Sequence[str] | str | None = None,
        ax: "Axes | Sequence[Axes] | None" = None,
    ) -> "Axes | np.ndarray[Any, Any]":
        """Figures against eta, one panel each, see :func:`gbce.plots.plot_path`."""
        return plot_path(self.explanation, etas, figures=figures, ax=ax)

    def frontier(
        self, table: "pd.DataFrame | None" = None, *, distance: str = "l1", ax: "Axes | None" = None
    ) -> "Axes":
        """Least cost of every reliability, see :func:`gbce.plots.plot_frontier`."""
        return plot_frontier(self.explanation, table, distance=distance, ax=ax)

    def disagreement(
        self, *, max_features: int = 10, ax: "Sequence[Axes] | None" = None
    ) -> "Axes | np.ndarray[Any, Any]":
        """How often and where models disagree, see :func:`gbce.plots.plot_disagreement`."""
        return plot_disagreement(self.explanation, max_features=max_features, ax=ax)


@dataclass(frozen=True)
class TablePlots:
    """Plots of explanations of many rows; docs/gallery.md shows each of them.

    Each takes ``ax`` to draw on and returns the matplotlib ``Axes``.

    Examples
    --------
    ``table.plot.changes()`` and ``table.plot.costs(rows["sex"])``.
    """

    table: ExplanationTable

    def changes(self, *, rule: Rule | str | None = None, max_features: int = 15, ax: "Axes | None" = None) -> "Axes":
        """Swarm of changes in all rows, see :func:`gbce.plots.plot_table_changes`."""
        return plot_table_changes(self.table, rule=rule, max_features=max_features, ax=ax)

    def costs(
        self,
        groups: Any = None,
        *,
        rule: Rule | str = ANSWER,
        mass: float = 0.95,
        seed: int = 0,
        max_groups: int = 20,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Cost of recourse by groups of rows, see :func:`gbce.plots.plot_table_costs`."""
        return plot_table_costs(self.table, groups, rule=rule, mass=mass, seed=seed, max_groups=max_groups, ax=ax)
