"""Pictures of an explanation, and of explanations of many rows: compute once, draw later."""

from gbce.plots._accessor import Plots, TablePlots
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

__all__ = [
    "Plots",
    "TablePlots",
    "plot_alternatives",
    "plot_before_after",
    "plot_changes",
    "plot_decisions",
    "plot_disagreement",
    "plot_frontier",
    "plot_importance",
    "plot_pairs",
    "plot_path",
    "plot_posterior",
    "plot_shares",
    "plot_table_changes",
    "plot_table_costs",
]
