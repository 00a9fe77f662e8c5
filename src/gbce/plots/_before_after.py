"""Before and after: what the answer changes, from where to where, and the range in which it still works."""

from math import floor
from typing import TYPE_CHECKING

import numpy as np

from gbce.base import Array
from gbce.decisions import Decision, answers_among
from gbce.explanation import Explanation, changed_columns
from gbce.metrics import signed_changes
from gbce.plots._style import QUIET, finish_axes, new_axes, short_text, wish_text
from gbce.plots._tracks import SafeRanges, draw_tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_before_after"]

_LINE = 0.62  # inches between two columns, by hand
_ROUNDING = 1e-9  # a share of 0.93 is 93 of 100, whatever its last bit
_ROOM = 1.2  # inches for title, legend and what is said below, by hand


def plot_before_after(
    explanation: Explanation,
    *,
    rule: str | None = None,
    safe: SafeRanges | None = None,
    max_features: int = 12,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what has to change, column by column, from the value now to the value then, and what the model says.

    Every line has a scale of its own. A band shows a range beside the new value: where the answer is known to work
    still, if ``safe`` or the answer's own proof (``explanation.answer.safe``) says so; else the middle 90% of the draws
    that reach the target and change these columns the same way, whatever else they change, which is no promise for one
    column by itself. Without enough such draws there is no band.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    rule : str, optional
        Label of the decision to draw, as ``explanation.pointwise`` has it; the answer when left out, or the first
        decision where there is no answer.
    safe : mapping of str to (low, high), or DataFrame by feature with ``low`` and ``high``, optional
        Range of each column in which the target is still reached while the others are as in the answer, in the
        column's own units; infinite ends are open. Of a category: the levels, as a collection. Columns without an
        entry get no band.
    max_features : int
        Most columns to draw; those that change most are kept, and the others counted.
    ax : matplotlib Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib Axes
        The axes drawn on; its lower edge is the last column.

    Examples
    --------
    >>> import gbce, matplotlib
    >>> matplotlib.use("Agg")
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    >>> [tick.get_text() for tick in explanation.plot.before_after().get_yticklabels()]
    ['the model says', 'x1']
    """
    decision = _choose_decision(explanation, rule)
    if safe is None and rule is None and explanation.answer is not None and explanation.answer.safe is not None:
        safe = explanation.answer.safe.table
    columns, n_left = _choose_columns(explanation, decision.x, max_features)
    ax = new_axes(ax, 8.2, _ROOM + _LINE * (len(columns) + 1))
    draw_tracks(ax, explanation, decision, columns, safe=safe)
    _say_rest(ax, explanation, decision, n_left)
    return ax


def _choose_decision(explanation: Explanation, rule: str | None) -> Decision:
    decided = {decision.label: decision for decision in answers_among(explanation.decisions)}
    if rule is not None:
        if rule not in decided:
            raise ValueError(f"there is no decision {rule!r}; the explanation has {list(decided)}")
        return decided[rule]
    if explanation.answer is not None:
        return explanation.answer.decision
    if not decided:
        raise ValueError(
            "there is no answer to draw: the explanation was made without rules; explain the row with rules, or draw "
            "explanation.plot.changes()"
        )
    return next(iter(decided.values()))


def _choose_columns(explanation: Explanation, x: Array, most: int) -> tuple[list[int], int]:
    """Return the positions of the columns to draw, in their own order, and how many are left out."""
    if most < 1:
        raise ValueError(f"max_features must be at least 1, not {most!r}")
    columns = changed_columns(explanation.space, explanation.x0, x)
    size = np.abs(signed_changes(explanation.space, x[None, :], explanation.x0)[0, columns])
    kept = np.sort(columns[np.argsort(-size, kind="stable")[:most]])
    return [int(j) for j in kept], len(columns) - len(kept)


def _say_rest(ax: "Axes", explanation: Explanation, decision: Decision, n_left: int) -> None:
    """Write what was asked as the title, and below the picture what it leaves out and how often it holds."""
    answer = explanation.answer if explanation.answer is not None and explanation.answer.decision is decision else None
    whose = "" if answer is not None else f" ({short_text(decision.label)})"
    verdict = "" if decision.reached[0] else ": best seen, does not reach the target"
    title = f"What to change{whose}, target: {wish_text(explanation.target.describe())}{verdict}"
    changed = len(changed_columns(explanation.space, explanation.x0, decision.x))
    said = [] if changed else ["Nothing has to change." if decision.reached[0] else "Nothing is changed."]
    if n_left:
        said.append(f"{n_left} more column{'s' * (n_left > 1)} change, by less.")
    if answer is not None and answer.reached and answer.reliability is not None:
        count = floor(100 * answer.reliability.share + _ROUNDING)
        said.append(f"Under small errors of execution this holds in {count} of 100 cases.")
    finish_axes(ax, title, hidden=("top", "right", "left", "bottom"))
    if said:
        ax.set_xlabel(" ".join(said), fontsize=9, color=QUIET, loc="left", wrap=True, labelpad=24)
