"""Plot a plan: the model's output and the chances after each step."""

from typing import TYPE_CHECKING

import numpy as np

from gbce.explanation import Plan, Share
from gbce.plots._style import (
    DRAWS,
    EDGE,
    SAFE,
    finish_lines,
    new_axes,
    put_legend_outside,
    short_text,
    target_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _LINE, _ROOM = 8.4, 0.7, 1.5  # inches of the figure, of each step, and of title, axis and legend; by hand
_NAMES = 46  # characters of a step's changes; by hand
_APART = 0.14  # between the two chances of a step, in lines; by hand


def plot_plan(plan: Plan, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the two chances after each step of a plan, and the model's output beside it.

    A square is the probability that the target is reached if one stops after the step, a dot the probability that the
    whole plan reaches it if the steps so far were made exactly; both under execution noise, with 95% intervals.

    Parameters
    ----------
    plan : Plan
        From ``explainer.plan``.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib, pandas as pd
    >>> matplotlib.use("Agg")
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["skill", "hours"])
    >>> explainer = gbce.Explainer(lambda x: x["skill"] + x["hours"], data)
    >>> explanation = explainer.explain({"skill": 0.0, "hours": 0.0}, gbce.AtLeast(4), rules=["Nearest"], seed=0)
    >>> ax = explainer.plan(explanation, fallbacks=False).plot()
    >>> [label.get_text()[:2] for label in ax.get_yticklabels()]
    ['as', '1.', '2.']
    >>> matplotlib.pyplot.close(ax.figure)
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must come from explainer.plan(...), not {plan!r:.80}")
    if not plan.steps:
        raise ValueError(f"there is no step to draw. {plan.note}")
    ax = new_axes(ax, _WIDTH, _ROOM + _LINE * (len(plan) + 1))
    outputs = [plan.output, *(step.output for step in plan.steps)]
    reached = [False, *(step.reached for step in plan.steps)]
    _draw_chance(ax, 0.0, plan.prospect, DRAWS, "o", "at the end, if all goes on as planned")
    for place, step in enumerate(plan.steps, start=1):
        _draw_chance(ax, place - _APART, step.holds, SAFE, "s", "if you stop here")
        _draw_chance(ax, place + _APART, step.prospect, DRAWS, "o", "at the end, if all goes on as planned")
    names = ["as it is", *(f"{i}. {_name_step(step.changes)}" for i, step in enumerate(plan.steps, start=1))]
    shown = zip(names, outputs, reached, strict=True)
    labels = [f"{name}\noutput {output:.3g}{', reaches the target' * good}" for name, output, good in shown]
    finish_lines(ax, labels, f"Step by step to {target_text(plan.target.describe())}", fontsize=9)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("probability of reaching the target under execution noise")
    ax.grid(axis="x", alpha=0.25, lw=0.6)
    ax.set_axisbelow(True)
    put_legend_outside(ax, *ax.get_legend_handles_labels())
    return ax


def _draw_chance(ax: "Axes", place: float, share: Share, colour: str, mark: str, label: str) -> None:
    """Draw a probability with its interval."""
    if np.isfinite([share.low, share.high]).all() and share.high > share.low:
        ax.plot([share.low, share.high], [place, place], color=colour, lw=3, zorder=2, solid_capstyle="butt")
    ax.plot([share.share], [place], mark, color=colour, mec=EDGE, ms=8, ls="", zorder=3, label=label)


def _name_step(changes: str) -> str:
    """Return the changes of a step in at most two lines."""
    if len(changes) <= _NAMES:
        return changes
    cut = changes.rfind(" from ", 0, _NAMES)
    cut = changes.rfind(" ", 0, _NAMES) if cut < 0 else cut
    return f"{short_text(changes[: max(cut, 1)], _NAMES)}\n{short_text(changes[max(cut, 1) :].strip(), _NAMES)}"
