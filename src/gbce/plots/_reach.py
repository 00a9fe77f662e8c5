"""What distance buys under one model: its output over the distance from the row, and the best that was seen."""

from typing import TYPE_CHECKING

import numpy as np

from gbce.base import Array
from gbce.decisions import answers_among, stack_points
from gbce.explanation import Explanation
from gbce.metrics import costs
from gbce.plots._marks import dodge, entries_in_order, mark_answer, mark_decisions
from gbce.plots._style import DRAWS, EDGE, MISSED, ROW, SAFE, finish_axes, new_axes, put_legend_outside, wish_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_reach"]

_SIZE = 54.0  # of a mark, in square points, by hand


def plot_reach(explanation: Explanation, distance: str, ax: "Axes | None") -> "Axes":
    """Draw what the first model says over the distance from the row, and the best that each distance buys."""
    space, x0 = explanation.space, explanation.x0
    where, pool = explanation.draws.distinct[0], explanation.draws.pool
    decisions, answer = list(answers_among(explanation.decisions)), explanation.answer
    listed = [*decisions, *([] if answer is None else [answer.decision])]
    x = stack_points(listed, len(space))
    cost = costs(space, pool.x[where], x0, distance)
    own = costs(space, x, x0, distance)
    height = _Height(explanation)
    ax = new_axes(ax, 7.6, 4.6)
    reached = pool.reached[where, 0]
    y = height.of(pool.outputs[where, 0], pool.loss[where, 0])
    for among, colour, label in ((~reached, MISSED, "draw, misses"), (reached, DRAWS, "draw, reaches the target")):
        if among.any():
            ax.scatter(cost[among], y[among], s=10, color=colour, alpha=0.55, linewidths=0, label=label)
    row = explanation.row
    loss = np.concatenate([row.loss[:, 0], pool.loss[where, 0], [one.loss[0] for one in listed]])
    outputs = np.concatenate([row.outputs[:, 0], pool.outputs[where, 0], [one.outputs[0] for one in listed]])
    front = _best_by_cost(np.concatenate([[0.0], cost, own]), loss)
    at = np.concatenate([[0.0], cost, own])[front]
    ax.step(at, height.of(outputs, loss)[front], where="post", color=EDGE, lw=1.6, label="best for its distance")
    ax.scatter(
        0.0, height.of(row.outputs[:, 0], row.loss[:, 0])[0], s=110, color=ROW, marker="+", label="row", zorder=4
    )
    ax.margins(x=0.03, y=0.06)
    ax.autoscale_view()
    if height.accepted is not None:
        limits = ax.get_ylim()
        low, high = (float(np.clip(end, *limits)) for end in height.accepted)
        ax.axhspan(low, high, color=SAFE, alpha=0.3, lw=0, zorder=0, label="wanted")
        ax.set_ylim(*limits)
    places = np.column_stack(
        [own, height.of(np.array([one.outputs[0] for one in listed]), np.array([one.loss[0] for one in listed]))]
    ).reshape(-1, 2)
    shifts = dodge(ax, places, _SIZE)
    mark_decisions(ax, decisions, [tuple(spot) for spot in places[: len(decisions)]], size=_SIZE, shifts=shifts)
    if answer is not None:
        mark_answer(ax, explanation, tuple(places[-1]), size=_SIZE, shift=shifts[-1])
    ax.set_xlabel(f"distance from the row ({distance.upper()}, in units of each feature's scale)")
    ax.set_ylabel(height.name)
    finish_axes(ax, f"What distance buys, target: {wish_text(explanation.target.describe())}")
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


class _Height:
    """What is drawn upwards: the output where a wish can be read off it, else the loss."""

    def __init__(self, explanation: Explanation) -> None:
        try:
            self.accepted: tuple[float, float] | None = explanation.target.accepted()
        except TypeError:  # several outputs, or a loss of somebody's own
            self.accepted = None
        self.name = "the model's output" if self.accepted is not None else "loss"

    def of(self, outputs: Array, loss: Array) -> Array:
        """Return the heights of points ``(n,)``."""
        return np.asarray(outputs if self.accepted is not None else loss, dtype=float)


def _best_by_cost(cost: Array, loss: Array) -> Array:
    """Return the positions of points that have less loss than all cheaper ones, the cheapest first.

    Examples
    --------
    >>> _best_by_cost(np.array([0.0, 2.0, 1.0, 3.0]), np.array([9.0, 5.0, 6.0, 7.0])).tolist()
    [0, 2, 1]
    """
    order = np.lexsort((loss, cost))
    best = np.minimum.accumulate(loss[order])
    first = np.append(True, best[1:] < best[:-1])
    return np.asarray(order[first])
