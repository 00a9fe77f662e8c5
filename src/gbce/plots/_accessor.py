"""What ``explanation.plot`` offers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gbce.explanation import Explanation
from gbce.plots._changes import plot_changes
from gbce.plots._frontier import plot_frontier
from gbce.plots._path import plot_path
from gbce.plots._posterior import plot_posterior

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Plots"]


@dataclass(frozen=True)
class Plots:
    """The pictures of one explanation.

    Each takes ``ax``, where to draw, and returns what it drew on: the matplotlib ``Axes``, or a flat array of them
    where there are several panels.

    Examples
    --------
    ``explanation.plot.posterior(features=("bmi", "bp"))`` and ``explanation.plot.changes()``.
    """

    explanation: Explanation

    def posterior(self, features: Sequence[str] | None = None, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draws and decisions over two features, see :func:`gbce.plots.plot_posterior`."""
        return plot_posterior(self.explanation, features, ax=ax, **options)

    def changes(self, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Change per feature with intervals, see :func:`gbce.plots.plot_changes`."""
        return plot_changes(self.explanation, ax=ax, **options)

    def path(
        self, etas: Sequence[float] | None = None, *, ax: "Axes | Sequence[Axes] | None" = None, **options: Any
    ) -> "Axes | np.ndarray[Any, Any]":
        """Figures over eta, one panel each, see :func:`gbce.plots.plot_path`."""
        return plot_path(self.explanation, etas, ax=ax, **options)

    def frontier(self, table: "pd.DataFrame | None" = None, *, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Cost of every reliability, see :func:`gbce.plots.plot_frontier`."""
        return plot_frontier(self.explanation, table, ax=ax, **options)
