"""Pictures of an explanation: compute once, draw later."""

from gbce.plots._accessor import Plots
from gbce.plots._changes import plot_changes
from gbce.plots._frontier import plot_frontier
from gbce.plots._path import plot_path
from gbce.plots._posterior import plot_posterior

__all__ = ["Plots", "plot_changes", "plot_frontier", "plot_path", "plot_posterior"]
