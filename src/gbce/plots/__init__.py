"""Plots of one explanation, of explanations of many rows, and of decisions about them."""

from gbce.plots._accessors import Plots, TablePlots
from gbce.plots._changes import plot_alternatives, plot_changes, plot_decisions, plot_menu
from gbce.plots._frontier import plot_frontier
from gbce.plots._policy import plot_actions, plot_allocation, plot_fairness, plot_plan
from gbce.plots._posterior import plot_pairs, plot_posterior
from gbce.plots._summaries import plot_disagreement, plot_importance, plot_path, plot_shares
from gbce.plots._table import plot_table_changes, plot_table_costs
from gbce.plots._tracks import plot_before_after

__all__ = [
    "Plots",
    "TablePlots",
    "plot_actions",
    "plot_allocation",
    "plot_alternatives",
    "plot_before_after",
    "plot_changes",
    "plot_decisions",
    "plot_disagreement",
    "plot_fairness",
    "plot_frontier",
    "plot_importance",
    "plot_menu",
    "plot_pairs",
    "plot_path",
    "plot_plan",
    "plot_posterior",
    "plot_shares",
    "plot_table_changes",
    "plot_table_costs",
]
