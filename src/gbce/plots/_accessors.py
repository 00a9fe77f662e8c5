"""The ``plot`` accessors of explanations and of tables: every plot as a method."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from gbce.batch import ExplanationTable
from gbce.explanation import Explanation
from gbce.plots._changes import plot_alternatives, plot_changes, plot_decisions, plot_menu
from gbce.plots._frontier import plot_frontier
from gbce.plots._posterior import plot_pairs, plot_posterior
from gbce.plots._summaries import plot_disagreement, plot_importance, plot_path, plot_shares
from gbce.plots._table import plot_table_changes, plot_table_costs
from gbce.plots._tracks import plot_before_after

_Options = ParamSpec("_Options")
_Drawn = TypeVar("_Drawn")


def _as_method(draw: Callable[Concatenate[Any, _Options], _Drawn]) -> Callable[Concatenate[Any, _Options], _Drawn]:
    """Return a plot as a method with the function's own options and documentation, but for its example."""

    @wraps(draw)
    def method(self: Any, *args: _Options.args, **options: _Options.kwargs) -> _Drawn:
        return draw(self.table if isinstance(self, TablePlots) else self.explanation, *args, **options)

    method.__doc__ = (draw.__doc__ or "").partition("Examples\n")[0]  # the example runs where the function is
    return method


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

    before_after = _as_method(plot_before_after)
    changes = _as_method(plot_changes)
    decisions = _as_method(plot_decisions)
    alternatives = _as_method(plot_alternatives)
    menu = _as_method(plot_menu)
    pairs = _as_method(plot_pairs)
    posterior = _as_method(plot_posterior)
    importance = _as_method(plot_importance)
    shares = _as_method(plot_shares)
    path = _as_method(plot_path)
    frontier = _as_method(plot_frontier)
    disagreement = _as_method(plot_disagreement)


@dataclass(frozen=True)
class TablePlots:
    """Plots of explanations of many rows; docs/gallery.md shows each of them.

    Each takes ``ax`` to draw on and returns the matplotlib ``Axes``.

    Examples
    --------
    ``table.plot.changes()`` and ``table.plot.costs(rows["sex"])``.
    """

    table: ExplanationTable

    changes = _as_method(plot_table_changes)
    costs = _as_method(plot_table_costs)
