"""Distinct strategies with their share of the posterior, each with a point that the model confirms.

Strategies and points are found in :meth:`gbce.Explainer.explain` (:mod:`gbce.decisions`); here they are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gbce._numerics import ENOUGH_ESS, effective_sample_size
from gbce._validation import is_count, printable
from gbce.base import Array
from gbce.decisions import Strategies, find_moves, follow_strategies
from gbce.draws import Draws
from gbce.explanation._words import Status, describe_changes, name_model
from gbce.metrics import PRINTED_Z_95, Verdict, costs

if TYPE_CHECKING:
    from gbce.explanation._explanation import Explanation


_NO_SHARE = (
    "Too few draws reach the target by the same columns, so there is no strategy to list. explanation.menu() lists "
    "points that reach it."
)
_LEAST_SHARE = 0.005  # of a listed strategy: less is printed as 0%
_FIGURES = ("mass", "mass_se", "ess", "reached", "output", "cost", "reliability", "reliable")  # columns of the table


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Distinct strategies that reach the target, the most probable first.

    Parameters
    ----------
    table : DataFrame
        One line per strategy: ``mass``, its share of the posterior, with its Monte Carlo error ``mass_se``; ``ess``,
        its effective draws; then, for the point that represents it, ``reached`` (always true, by the model's own
        ``predict`` of this row), ``output``, ``cost`` (the sum of its changes in units of each column's scale),
        ``reliability`` (the probability that it still reaches under execution noise), ``reliable`` (whether that is
        shown to be enough, as by :class:`gbce.Reliable`) and ``sentence``; and that point in the user's columns. It is
        the cheapest reliable point found, or the cheapest if none was.
    other, other_se : float
        Share of everything else, and its error: of draws that follow none of these strategies or miss the target.
    note : str
        Why the list is empty; empty if it is not.
    caveat : str
        Why the shares are to be read with care: what is wrong with the draws. Empty if they are trustworthy.
    x : array of shape (k, d)
        The points of the strategies, encoded.

    Examples
    --------
    See :meth:`gbce.Explanation.alternatives`.
    """

    table: pd.DataFrame
    other: float
    other_se: float
    note: str = ""
    caveat: str = ""
    x: Array = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    @property
    def sentences(self) -> list[str]:
        """One sentence per strategy."""
        return list(self.table["sentence"])

    def __str__(self) -> str:
        lines = [
            f"{number}. {format_share(line.mass, line.mass_se)}: {line.sentence}"
            for number, line in enumerate(self.table.itertuples(), start=1)
        ]
        last = [self.note or f"other: {format_share(self.other, self.other_se)}"]
        return "\n".join([*lines, *last, *([f"Shares with care: {self.caveat}"] if self.caveat and lines else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = "" if self.note else self.table.drop(columns="sentence").to_html(escape=True)
        return f"<pre>{escape(str(self), quote=False)}</pre>{shown}"


def alternatives(explanation: "Explanation", k: int) -> Alternatives:
    """Return at most ``k`` distinct strategies, see :meth:`gbce.Explanation.alternatives`."""
    if not is_count(k):
        raise ValueError(f"alternatives: k must be an integer of at least 1, not {k!r}")
    draws, found = explanation.draws, explanation.strategies
    if not draws.info.draws_posterior:
        raise ValueError(
            f"alternatives are parts of the posterior, but the row was explained without one: {draws.info.advice}"
        )
    if draws.ess < ENOUGH_ESS:
        raise ValueError(
            f"there are too few effective draws for alternatives: {draws.ess:.0f}, and {ENOUGH_ESS:.0f} are needed to "
            "estimate their probabilities. Explain the row with more candidates or a larger budget."
        )
    space, x0 = explanation.space, explanation.x0
    none = _build_table(explanation, np.zeros((0, len(x0))), dict.fromkeys(_FIGURES, np.zeros(0)))
    if found is None or not (found.strategy >= 0).any():
        return Alternatives(none, 1.0, 0.0, explain_absence(explanation))
    cost = costs(space, found.x, x0, "l1")
    points = found.find_representatives(cost)
    follows = np.append(follow_strategies(found.needs, find_moves(space, found.x[points], x0)), -1)[found.which]
    share = np.array([found.weights[follows == s].sum() for s in range(len(points))])
    shown = np.argsort(-share, kind="stable")[:k]
    shown = shown[share[shown] >= _LEAST_SHARE]
    if len(shown) == 0:
        return Alternatives(none, 1.0, 0.0, _NO_SHARE)
    points, share = points[shown], share[shown]
    error = np.array([estimate_error(draws, found, one) for one in share])
    other = float(np.clip(1.0 - share.sum(), 0.0, 1.0))
    figures = (
        share,
        error,
        share * min(draws.ess, effective_sample_size(found.weights)),
        np.ones(len(points), dtype=bool),
        found.outputs[points],
        cost[points],
        found.reliability[points],
        found.holds[points],
    )
    table = _build_table(explanation, found.x[points], dict(zip(_FIGURES, figures, strict=True)))
    doubted = explanation.diagnostics["sampling"] != Verdict.TRUSTWORTHY
    caveat = str(explanation.diagnostics["sampling_note"]) if doubted else ""
    return Alternatives(table, other, estimate_error(draws, found, other), caveat=caveat, x=found.x[points])


def _build_table(explanation: "Explanation", x: Array, figures: dict[str, Array]) -> pd.DataFrame:
    """Return figures, sentences and points ``(k, d)`` as a table."""
    index = pd.RangeIndex(1, len(x) + 1, name="strategy")
    table = pd.DataFrame(figures, index=index)
    table["sentence"] = [write_sentence(explanation, *one) for one in zip(x, figures["output"], strict=True)]
    own = explanation.space.frame(x).set_axis(index)
    return pd.concat([table, own.rename(columns={name: f"{name} (column)" for name in table.columns})], axis=1)


def write_sentence(explanation: "Explanation", x: Array, output: float) -> str:
    """Return the changes to a point ``(d,)`` that reaches the target, and what the model then returns."""
    changes = describe_changes(explanation.space, explanation.x0, x)
    model = name_model(explanation.models)
    return f"{changes[0].upper()}{changes[1:]}: {model} then {printable(explanation.target.say(float(output), True))}."


def estimate_error(draws: Draws, found: Strategies, share: float) -> float:
    """Return the Monte Carlo error of a share: of the draws, and of those that were labelled."""
    n = effective_sample_size(found.weights)
    spread = max(share * (1.0 - share), (1.0 - 1.0 / n) / n)  # a share of zero may be one of one draw in n
    parts = 1.0 / n + draws.tail_factor**2 / draws.ess + (draws.info.seen_once or 0.0) ** 2
    return float(np.sqrt(spread * parts))


def explain_absence(explanation: "Explanation") -> str:
    """Return why there are no points of strategies."""
    if explanation.status == Status.ALREADY_REACHED:
        return "The row reaches the target as it is: there is nothing to change."
    if explanation.status == Status.NOT_ATTAINED:
        return explanation.status_note or "No point was found that reaches the target."
    if explanation.strategies is not None:
        return "No known point of a strategy meets these conditions; explainer.given(...) looks for others."
    return (
        "No strategies were searched for: explainer.explain(...) does so for a table, or with "
        'eta="auto", if draws reach the target and the budget allows it.'
    )


def format_share(mass: float, error: float) -> str:
    """Return a share with its 95% interval."""
    return f"{mass:.0%} (± {PRINTED_Z_95 * error:.0%})"
