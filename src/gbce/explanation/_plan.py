"""A plan: the changes of an answer as a sequence of steps, with what the model says and may still say after each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import printable
from gbce.base import Array, Target
from gbce.explanation._answer import Share
from gbce.space import Space, number_text, plain_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Fallback:
    """What to do if a step cannot be made: the answer given the steps before it, without the columns of this one.

    Parameters
    ----------
    x : array of shape (d,), optional
        The row to reach instead, encoded; None if nothing was found, or nothing is left to change.
    changes : str
        What is left to do, in words.
    cost : float
        Of these changes, with the plan's efforts.
    reliability : Share, optional
        Probability that it works under execution noise.
    probability, probability_se : float
        Probability of the target under the posterior given what was done, with the failed columns as they are, and its
        Monte Carlo error; NaN without a posterior.
    sentence : str
        All of it in words.
    """

    x: Array | None
    changes: str
    cost: float
    reliability: Share | None
    probability: float
    probability_se: float
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "possible": self.x is not None,
            "changes": self.changes,
            "cost": plain_value(self.cost),
            "reliability": None if self.reliability is None else self.reliability._asdict(),
            "probability": plain_value(self.probability),
            "probability_se": plain_value(self.probability_se),
            "sentence": self.sentence,
        }


@dataclass(frozen=True, eq=False)
class PlanStep:
    """One step of a plan, and what is known after it.

    Parameters
    ----------
    columns : tuple of str
        The columns that change: one, or several that the rules between columns let change together only.
    x : array of shape (d,)
        The row after the step, encoded.
    changes : str
        The changes in words.
    cost : float
        Of the step: its changes in units of each column's scale, times their efforts.
    time : float
        How long the step takes; NaN unless the plan was given times.
    output : float
        Of the first model after the step.
    reached : bool
        Whether the row reaches the target after the step.
    holds : Share
        Probability that it does under execution noise, if one stops here: the promise of this row.
    prospect : Share
        Probability that the whole plan reaches the target if all steps so far were made exactly, and the rest is made
        under execution noise. After the last step that is the noise of the columns that the plan does not change, so it
        need not be 1.
    posterior, posterior_se : float
        Probability of the target under the posterior given that the columns so far changed at least this much, with the
        other columns as the posterior has them; NaN where too few draws agree.
    fallback : Fallback, optional
        What to do if this step cannot be made.
    """

    columns: tuple[str, ...]
    x: Array
    changes: str
    cost: float
    time: float
    output: float
    reached: bool
    holds: Share
    prospect: Share
    posterior: float
    posterior_se: float
    fallback: Fallback | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "columns": list(self.columns),
            "changes": self.changes,
            "cost": self.cost,
            "time": plain_value(self.time),
            "output": plain_value(self.output),
            "reached": self.reached,
            "holds": self.holds._asdict(),
            "prospect": self.prospect._asdict(),
            "posterior": plain_value(self.posterior),
            "posterior_se": plain_value(self.posterior_se),
            "fallback": None if self.fallback is None else self.fallback.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Plan:
    """The changes from a row to a point that reaches the target, one after the other.

    Parameters
    ----------
    space : Space
        The features.
    target : Target
        What is wanted.
    x0 : array of shape (d,)
        The row, encoded.
    goal : str
        Where the plan leads: the answer, a rule, or a strategy.
    output : float
        Of the first model at the row.
    prospect : Share
        Probability that the plan reaches the target if it is carried out under execution noise.
    steps : tuple of PlanStep
        In their best order.
    short, short_loss : float
        What the order minimises: the expected effort, or time, spent before the target is reached if one could stop at
        any moment, and then the loss along the way, each step weighted by its effort or time.
    n_orders : int
        Number of orders that keep all rules, among which it is the best.
    note : str
        What should be known about the plan; empty if nothing.

    Examples
    --------
    See :meth:`gbce.Explainer.plan`.
    """

    space: Space
    target: Target
    x0: Array
    goal: str
    output: float
    prospect: Share
    steps: tuple[PlanStep, ...]
    short: float
    short_loss: float
    n_orders: int
    note: str = ""

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[PlanStep]:
        return iter(self.steps)

    @property
    def cost(self) -> float:
        """The cost of all steps."""
        return float(sum(step.cost for step in self.steps))

    @property
    def time(self) -> float:
        """How long all steps take; NaN unless the plan was given times."""
        return float(sum(step.time for step in self.steps)) if self.steps else float("nan")

    @property
    def reached(self) -> bool:
        """Whether the row reaches the target after the last step."""
        return bool(self.steps) and self.steps[-1].reached

    @property
    def table(self) -> pd.DataFrame:
        """One line per step, from 0, the row as it is: the figures of each step, and the row in the user's columns."""
        nothing = {"step": "", "cost": 0.0, "time": 0.0 if np.isfinite(self.time) else np.nan, "output": self.output}
        lines: list[dict[str, Any]] = [nothing | {"reached": False, "prospect": self.prospect.share}]
        for one in self.steps:
            lines.append(
                {
                    "step": one.changes,
                    "cost": one.cost,
                    "time": one.time,
                    "output": one.output,
                    "reached": one.reached,
                    "holds": one.holds.share,
                    "holds_low": one.holds.low,
                    "holds_high": one.holds.high,
                    "prospect": one.prospect.share,
                    "prospect_low": one.prospect.low,
                    "prospect_high": one.prospect.high,
                    "posterior": one.posterior,
                    "posterior_se": one.posterior_se,
                    "otherwise": "" if one.fallback is None else one.fallback.sentence,
                }
            )
        table = pd.DataFrame(lines).rename_axis("number")
        rows = self.space.frame(np.vstack([self.x0, *(one.x for one in self.steps)])).set_axis(table.index)
        return pd.concat([table, rows.rename(columns={name: f"{name} (column)" for name in table.columns})], axis=1)

    @property
    def sentences(self) -> list[str]:
        """Each step as a sentence, with what is known after it and what to do if it cannot be made."""
        written = []
        for one in self.steps:
            verdict = printable(self.target.say(one.output, one.reached))
            chances = f"If you stop here, it works with probability {_say(one.holds)}"
            if one is not self.steps[-1]:
                chances = f"{chances}; if the rest goes on as planned, {_say(one.prospect)}"
            long = f" (takes {number_text(one.time, 3)})" if one.time > 0 else ""
            words = f"{one.changes[:1].upper()}{one.changes[1:]}{long}: the model then {verdict}. {chances}."
            written.append(words if one.fallback is None else f"{words} {one.fallback.sentence}")
        return written

    def __str__(self) -> str:
        if not self.steps:
            return self.note
        takes = f", time {number_text(self.time, 3)}" if np.isfinite(self.time) else ""
        n = len(self.steps)
        head = (
            f"{n} step{'s' * (n > 1)} to {printable(self.target.describe())}, cost {number_text(self.cost, 3)}{takes}; "
            f"it works with probability {_say(self.prospect)}."
        )
        lines = [f"{number}. {sentence}" for number, sentence in enumerate(self.sentences, start=1)]
        return "\n".join([head, *lines, *([self.note] if self.note else [])])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, ready for JSON."""
        rows = self.space.readable(np.vstack([self.x0, *(one.x for one in self.steps)]))
        listed = [{str(name): plain_value(value) for name, value in line.items()} for _, line in rows.iterrows()]
        return {
            "goal": self.goal,
            "target": self.target.describe(),
            "row": listed[0],
            "output": plain_value(self.output),
            "prospect": self.prospect._asdict(),
            "cost": self.cost,
            "time": plain_value(self.time),
            "reached": self.reached,
            "n_orders": self.n_orders,
            "note": self.note,
            "steps": [one.to_dict() | {"row": row} for one, row in zip(self.steps, listed[1:], strict=True)],
        }

    def to_json(self, path: str | Path | None = None) -> str | Path:
        """Return :meth:`to_dict` as strict JSON, or write it atomically to ``path`` and return the path."""
        from gbce.files import to_json

        return to_json(self.to_dict(), path)

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Plot the output and the chances after each step, see :func:`gbce.plots.plot_plan`."""
        from gbce.plots import plot_plan

        return plot_plan(self, ax=ax)


def _say(share: Share) -> str:
    """Return a probability with its interval, unless it is exact."""
    if share.exact or share.n == 0:
        return share.digits
    return f"{share.digits} ({share.low:.2f} to {share.high:.2f})"
