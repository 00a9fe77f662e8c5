"""Change per feature: the posterior's interval against the prior's, and what each rule does."""

from typing import TYPE_CHECKING

import numpy as np

from gbce._numerics import weighted_quantile
from gbce.decisions import answers_among, stack_points
from gbce.explanation import Explanation
from gbce.metrics import most_moved, prior_moves, signed_changes
from gbce.plots._style import DRAWS, PRIOR, finish_axes, literal_text, mark_decisions, new_axes, put_legend_outside
from gbce.space import value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_changes"]

_LONGEST_NAME = 40  # characters; longer ones would leave no room for the picture
_MARK_RISE = 0.22  # of a line, up and down, between the marks of the first and the last decision; chosen by hand


def plot_changes(
    explanation: Explanation, *, mass: float = 0.9, max_features: int = 15, ax: "Axes | None" = None
) -> "Axes":
    """Draw the interval of each feature's change in units of its scale, with the decisions as marks.

    The bar of a category is as long as a change is probable.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    mass : float
        Probability of the intervals.
    max_features : int
        Show the features whose movement differs most from the prior's own.
    ax : matplotlib Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib, numpy as np
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    >>> [tick.get_text().split()[0] for tick in explanation.plot.changes().get_yticklabels()]
    ['x1', 'x2']
    """
    kept = most_moved(explanation.importance, max_features)
    columns = [explanation.space.names.index(name) for name in kept]
    width = 8.0 + 0.08 * max([len(_shorten(name)) - 12 for name in kept] + [0])  # inches: room for long names
    ax = new_axes(ax, width, 1.6 + 0.5 * len(kept))
    space = explanation.space
    labels = []
    for y, j in enumerate(columns):
        before, (low, middle, high) = _change_spans(explanation, j, mass)
        first = y == 0
        ax.barh(
            y,
            before[2] - before[0],
            left=before[0],
            height=0.62,
            color=PRIOR,
            label="prior" if first else None,
        )
        ax.plot(
            [low, high],
            [y, y],
            color=DRAWS,
            lw=5,
            solid_capstyle="butt",
            label="posterior" if first else None,
        )
        ax.plot([middle], [y], "|", color="white", ms=9, mew=2)
        now = value_text(space.features[j], space.codecs[j], explanation.x0[j])
        odds = f", changes: {high * space.scale[j]:.0%}" if space.features[j].unordered else ""
        labels.append(literal_text(f"{_shorten(kept[y])}  (now {_shorten(now)}{odds})"))
    decisions = answers_among(explanation.decisions)
    rise = np.linspace(-_MARK_RISE, _MARK_RISE, len(decisions)) if len(decisions) > 1 else np.zeros(len(decisions))
    changes = signed_changes(space, stack_points(decisions, len(space)), explanation.x0)[:, columns]
    places = [(change, np.arange(len(columns)) + up) for change, up in zip(changes, rise, strict=True)]
    mark_decisions(ax, decisions, places, size=38, star=90, edge=0.7)
    ax.axvline(0.0, color="#111111", lw=1)
    ax.set_yticks(range(len(columns)), labels)
    ax.invert_yaxis()
    ax.set_xlabel("change, in units of each feature's scale")
    wish = literal_text(explanation.target.describe())
    finish_axes(ax, f"What changes, target: {wish} ({mass:.0%} intervals)", hidden=("top", "right", "left"))
    handles, texts = ax.get_legend_handles_labels()
    order = sorted(range(len(texts)), key=lambda i: {"prior": -2, "posterior": -1}.get(texts[i], i))
    put_legend_outside(ax, [handles[i] for i in order], [texts[i] for i in order])
    ax.tick_params(axis="y", length=0)
    return ax


def _change_spans(explanation: Explanation, j: int, mass: float) -> tuple[list[float], list[float]]:
    """Low end, middle and high end of a feature's change under the prior and under the posterior.

    For a category both reach from zero to the probability of a change.
    """
    draws, space, x0 = explanation.draws, explanation.space, explanation.x0
    edges = ((1 - mass) / 2, 0.5, (1 + mass) / 2)
    before = prior_moves(draws, space, x0, j, edges).tolist()
    moves = signed_changes(space, draws.x, x0)[:, j]
    if space.features[j].unordered:
        mean = float(draws.weights @ moves)
        return [0.0, *before[1:]], [0.0, mean, mean]
    return before, [float(weighted_quantile(moves, draws.weights, q)) for q in edges]


def _shorten(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
