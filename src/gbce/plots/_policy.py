"""Plots of decisions about many rows (coverage and cost of group actions, rows against money) and of plans."""

from typing import TYPE_CHECKING

import numpy as np

from gbce._validation import printable
from gbce.explanation import Plan, Share, number_text
from gbce.plots._style import (
    ANSWER,
    DRAWS,
    EDGE,
    QUIET,
    SAFE,
    entries_in_order,
    finish_axes,
    finish_lines,
    new_axes,
    pale,
    put_legend_outside,
    short_text,
    target_text,
)
from gbce.policy import Allocation, Fairness, GroupActions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE = 108  # characters of an action on a line, chosen by hand


def plot_actions(actions: GroupActions, *, ax: "Axes | None" = None) -> "Axes":
    """Plot group actions as bars: the share of other rows that the actions up to each one bring to the target.

    The bar of each action is what it adds; the whisker is the 95% interval of all up to it, on rows that did not choose
    them. The mean cost stands at its end, the action in words below its bar.

    Parameters
    ----------
    actions : GroupActions
        The result of :func:`gbce.policy.actions`.
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
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
    >>> low = data[data["pay"] < data["debt"]].iloc[:9]
    >>> table = explainer.explain_many(low, gbce.AtLeast(0), seed=0, posterior=False, progress=False)
    >>> gbce.policy.actions(table, 2, explainer=explainer, seed=0).plot().get_xlabel()
    'other rows that reach the target'
    """
    steps = len(actions.coverage)
    ax = new_axes(ax, 8.4, 1.6 + 0.85 * max(steps, 1))
    before = 0.0
    for step in range(steps):
        share, cost = actions.coverage[step], actions.cost[step]
        ax.barh(step, before, height=0.32, color=pale(DRAWS, 0.35))
        ax.barh(step, share.share - before, left=before, height=0.32, color=DRAWS)
        error = [[share.share - share.low], [share.high - share.share]]
        ax.errorbar(share.share, step, xerr=error, color=EDGE, capsize=3, lw=1.2)
        known = f"cost {number_text(cost.mean, 3)}" if np.isfinite(cost.mean) else ""
        ax.text(1.03, step, f"{share.share:.0%}\n{known}", va="center", ha="left", fontsize=9)
        words = "; ".join(
            action.describe(actions.space) + ("" if group is None else f" ({group})")
            for action, group, own in zip(actions.actions, actions.groups, actions.steps, strict=True)
            if own == step + 1
        )  # fmt: skip
        text = printable(f"{step + 1}. {words}")
        short = text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."
        ax.text(0.0, step + 0.2, short, va="top", ha="left", fontsize=9, color=QUIET)
        before = share.share
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(max(steps, 1) - 0.3, -0.5)
    ax.set_yticks([])
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set_xlabel("other rows that reach the target")
    if not steps:
        ax.text(0.5, 0.5, "no action brings any row to the target", transform=ax.transAxes, ha="center", va="center")
    finish_axes(
        ax, f"What the same {steps} change{'s' * (steps != 1)} do for everybody", hidden=("top", "right", "left")
    )
    return ax


def plot_allocation(allocation: Allocation, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the number of rows that reach the target against the money, for the best rows at every budget.

    The line is the expected number, the band that in which the number itself lies with probability 95%; the yellow mark
    is the choice.

    Parameters
    ----------
    allocation : Allocation
        The result of :func:`gbce.policy.allocate`.
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
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
    >>> low = data[data["pay"] < data["debt"]].iloc[:9]
    >>> table = explainer.explain_many(low, gbce.AtLeast(0), seed=0, posterior=False, progress=False)
    >>> gbce.policy.allocate(table, 5.0).plot().get_ylabel()
    'rows that reach the target'
    """
    table = allocation.frontier
    ax = new_axes(ax, 7.2, 4.4)
    money = table.index.to_numpy()
    ax.fill_between(money, table["likely_low"], table["likely_high"], color=SAFE, lw=0, label="95% of outcomes")
    ax.plot(money, table["expected"], color=DRAWS, lw=2, label="expected")
    choice = (allocation.spent if allocation.at_least else allocation.budget, allocation.expected[0])
    ax.plot(*choice, "o", ms=10, color=ANSWER, mec=EDGE, label="the choice", zorder=5)
    if allocation.at_least is not None:
        ax.axhline(allocation.at_least, color=QUIET, lw=1, ls="--")
        label = f"at least {allocation.at_least:,}: probability {allocation.chance:.2f}"
        ax.text(money[-1], allocation.at_least, label, ha="right", va="bottom", fontsize=9, color=QUIET)
    ax.set_xlim(0.0, max(float(money[-1]), 1e-300))
    ax.set_ylim(0.0, max(float(table["likely_high"].max()) * 1.05, 1.0))
    ax.xaxis.set_major_formatter(lambda value, _: number_text(value))
    ax.set_xlabel(f"money{f' ({allocation.prices})' if allocation.prices else ''}")
    ax.set_ylabel("rows that reach the target")
    ax.legend(frameon=False, loc="lower right")
    finish_axes(ax, f"{len(allocation):,} of {len(allocation.labels):,} rows are helped")
    return ax


def plot_fairness(found: Fairness, measure: str = "cost", *, ax: "Axes | None" = None) -> "Axes":
    """Plot a measure by group: the mean of the rows, and the pooled mean with its interval.

    Parameters
    ----------
    found : Fairness
        The result of :func:`gbce.policy.fairness`.
    measure : {"cost", "attainable", "chance"}
        What to compare.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:8], gbce.AtLeast(2), seed=0, posterior=False, progress=False)
    >>> gbce.policy.fairness(table, list("aaaabbbb")).plot().get_xlabel()
    'cost of the answer, in units of each column'
    """
    titles = {
        "cost": "cost of the answer, in units of each column",
        "attainable": "share of rows with an answer",
        "chance": "probability that a row reaches the target by its answer",
    }
    if measure not in titles:
        raise ValueError(f"measure must be one of {', '.join(map(repr, titles))}, not {measure!r}")
    groups = found.groups
    ax = new_axes(ax, 7.6, 1.5 + 0.5 * len(groups))
    for place, (_, line) in enumerate(groups.iterrows()):
        ends = [line[f"{measure}_low"], line[f"{measure}_high"]]
        ax.plot(ends, [place, place], color=DRAWS, lw=4, zorder=2, solid_capstyle="butt")
        ax.plot([line[measure]], [place], "o", color="white", mec=EDGE, ms=7, ls="", zorder=3, label="mean of the rows")
        ax.plot([line[f"{measure}_pooled"]], [place], "o", color=DRAWS, mec=EDGE, ms=8, ls="", zorder=4, label="pooled")
    names = [f"{printable(str(name))}\n({line['rows']:,.0f} rows)" for name, line in groups.iterrows()]
    finish_lines(ax, names, f"Recourse by group, with {found.mass:.0%} intervals")
    ax.set_xlim(left=0.0)
    ax.set_xlabel(titles[measure])
    put_legend_outside(ax, *entries_in_order(ax))
    return ax


# --- plans -------------------------------------------------------------------------------------------------------


_WIDTH, _STEP_LINE, _ROOM = 8.4, 0.7, 1.5  # inches of the figure, of each step, and of title, axis and legend; by hand
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
    ax = new_axes(ax, _WIDTH, _ROOM + _STEP_LINE * (len(plan) + 1))
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
