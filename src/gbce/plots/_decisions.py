"""Decisions compared: what each costs, and how often it still works."""

from typing import TYPE_CHECKING

import numpy as np

from gbce.base import Array
from gbce.decisions import Decision, answers_among, stack_points
from gbce.explanation import Explanation
from gbce.metrics import PRINTED_Z_95, costs
from gbce.plots._marks import dodge, entries_in_order, mark_answer, mark_decisions, nudge
from gbce.plots._style import EDGE, QUIET, finish_axes, new_axes, put_legend_outside, wish_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_decisions"]

_SIZE = 80.0  # of a mark, in square points, by hand


def plot_decisions(explanation: Explanation, *, distance: str = "l1", ax: "Axes | None" = None) -> "Axes":
    """Draw what each decision costs against how often it still reaches the target under execution noise.

    Below and to the right of another a decision is dearer and holds less often. Lines are 95% of the Monte Carlo error.
    A decision that misses the target as it stands is crossed out. Where noise was not looked at (an explanation that
    was reweighted, or had no budget left), the share of the models that accept it stands in its place, and the axis
    says so.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    distance : {"l1", "l2"}
        What is cheap: the sum of changes in units of each feature's scale, or their Euclidean distance.
    ax : matplotlib Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=["MAP", "CVaR"], seed=0)
    >>> explanation.plot.decisions().get_ylabel()
    'holds under small errors of execution'
    """
    decisions = list(answers_among(explanation.decisions))
    answer = explanation.answer
    listed = [*decisions, *([] if answer is None else [answer.decision])]
    if not listed:
        raise ValueError("there is no decision to draw: the explanation was made without rules; give explain(...) some")
    ax = new_axes(ax, 7.6, 4.4)
    cost = costs(explanation.space, stack_points(listed, len(explanation.space)), explanation.x0, distance)
    share, error, label = _reliability(explanation, listed)
    places = np.column_stack([cost, share])
    ax.set_xlim(*_limits(cost))
    ax.set_ylim(-0.06, 1.06)
    shifts = dodge(ax, places, _SIZE)
    for k, decision in enumerate(listed):
        at = nudge(ax, ax.transData, shifts[k])
        low, high = np.clip(share[k] + PRINTED_Z_95 * error[k] * np.array([-1.0, 1.0]), 0.0, 1.0)
        ax.plot([cost[k], cost[k]], [low, high], color=QUIET, lw=1.2, zorder=3, transform=at)
        if not decision.reached[0]:
            ax.plot([cost[k]], [share[k]], "x", color=EDGE, ms=15, mew=1.4, zorder=7, transform=at, label="misses")
    spots = [tuple(place) for place in places]
    mark_decisions(ax, decisions, spots[: len(decisions)], size=_SIZE, shifts=shifts)
    if answer is not None:
        mark_answer(ax, explanation, spots[-1], size=_SIZE, shift=shifts[-1])
    kind = "sum of changes" if distance == "l1" else "distance from the row"
    ax.set_xlabel(f"cost: {kind}, in units of each feature's scale", wrap=True)
    ax.set_ylabel(label)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.grid(alpha=0.25, lw=0.6)
    ax.set_axisbelow(True)
    finish_axes(ax, f"What decisions cost and how often they hold, target: {wish_text(explanation.target.describe())}")
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


def _reliability(explanation: Explanation, listed: list[Decision]) -> tuple[Array, Array, str]:
    """Return how often each decision holds, its error, and what that is."""
    share = np.array([decision.figures.get("robustness", np.nan) for decision in listed], dtype=float)
    error = np.array([decision.errors.get("robustness", np.nan) for decision in listed], dtype=float)
    answer = explanation.answer
    if answer is not None and answer.reliability is not None:
        share[-1] = answer.reliability.share
        error[-1] = (answer.reliability.high - answer.reliability.low) / 2 / PRINTED_Z_95
    if np.isfinite(share).all():
        return share, np.nan_to_num(error), "holds under small errors of execution"
    reached = np.array([decision.reached for decision in listed], dtype=float) @ explanation.mixture.weights
    kind = "the model accepts" if len(explanation.models) == 1 else "share of models that accept"
    return reached, np.zeros(len(listed)), f"{kind} (noise was not looked at)"


def _limits(cost: Array) -> tuple[float, float]:
    low, high = float(min(cost.min(), 0.0)), float(cost.max())
    room = 0.1 * (high - low) or 1.0
    return low - 0.3 * room, high + room
