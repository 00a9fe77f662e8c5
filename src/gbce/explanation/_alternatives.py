"""Distinct strategies with their share of the posterior and a confirmed point each, and which few columns would do.

Strategies and points are found in :meth:`gbce.Explainer.explain` (:mod:`gbce.decisions`); here they are read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

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
    "Too few of the draws that reach the target change the same columns, so there is no strategy to list. "
    "explanation.menu() lists points that reach it."
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
        return "\n".join(
            [*lines, *last, *([f"Read the shares with care: {self.caveat}"] if self.caveat and lines else [])]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = "" if self.note else self.table.drop(columns="sentence").to_html(escape=True)
        return f"<pre>{escape(str(self), quote=False)}</pre>{shown}"


def alternatives(explanation: "Explanation", k: int) -> Alternatives:
    """Return at most ``k`` distinct strategies, see :meth:`gbce.Explanation.alternatives`."""
    if not is_count(k):
        raise ValueError(f"alternatives: k must be an integer of at least 1, not {k!r}")
    draws, found = explanation.draws, explanation.strategies
    space, x0 = explanation.space, explanation.x0
    none = _build_table(explanation, np.zeros((0, len(x0))), dict.fromkeys(_FIGURES, np.zeros(0)))
    if explanation.proof is not None:  # then nothing was sampled, and nothing is missing
        return Alternatives(none, 1.0, 0.0, explain_absence(explanation))
    if not draws.info.draws_posterior:
        raise ValueError(
            "alternatives are parts of the posterior, but the row was explained without one: "
            f"{draws.info.undrawn}; {draws.info.advice}"
        )
    if draws.ess < ENOUGH_ESS:
        raise ValueError(
            f"there are too few effective draws for alternatives: {draws.ess:.0f}, and {ENOUGH_ESS:.0f} are needed to "
            "estimate their probabilities. Explain the row with more candidates or a larger budget."
        )
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
        "No strategies were sought: explainer.explain(...) seeks them for a table, or with "
        'eta="auto", if draws reach the target and the budget allows it.'
    )


def format_share(mass: float, error: float) -> str:
    """Return a share with its 95% interval."""
    return f"{mass:.0%} (± {PRINTED_Z_95 * error:.0%})"


# --- which few columns would do ----------------------------------------------------------------------------------


_REACHES, _IMPOSSIBLE, _NOT_FOUND = "reaches", "impossible", "nothing found"
_LISTED = 12  # sets that are printed in full; a convention, the table has all


@dataclass(frozen=True, eq=False)
class Menu:
    """Sets of few columns and whether changing just these reaches the target.

    Parameters
    ----------
    table : DataFrame
        One line per set, those that reach first, then by their number of columns and cost: ``columns``, their names;
        ``size``, their number; ``verdict``, which is "reaches", "impossible" (proved) or "nothing found"; ``share``,
        the share of the posterior that needs just these columns, with its Monte Carlo error ``share_se``; ``cost``,
        ``output``, ``reliability`` and ``sentence`` of the cheapest point found; ``reliable_cost``,
        ``reliable_output``, ``reliable_reliability`` and ``reliable_sentence`` of the cheapest reliable one; and
        ``proof``, a sentence. What does not exist is NaN, or an empty string.
    tried : int
        Number of sets of at most this many columns that were tried, by a search or because a draw needs just them.
    max_columns : int
        Largest number of columns.
    note : str
        Why the menu is empty; empty if it is not.
    labels : mapping of str to str
        Columns as people write them, where that is not their name.

    Examples
    --------
    See :meth:`gbce.Explanation.menu`.
    """

    table: pd.DataFrame
    tried: int
    max_columns: int
    note: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return int((self.table["verdict"] == _REACHES).sum())

    def __str__(self) -> str:
        if self.note:
            return self.note
        reaching = self.table[self.table["verdict"] == _REACHES]
        lines = [
            f"{number}. {_write_line(line)}"
            for number, line in enumerate(reaching.head(_LISTED).to_dict("records"), start=1)
        ]
        if len(reaching) > _LISTED:
            lines.append(f"and {len(reaching) - _LISTED} more in .table")
        for verdict, words in ((_IMPOSSIBLE, "proved impossible"), (_NOT_FOUND, "nothing found, not proved")):
            found = self.table.loc[self.table["verdict"] == verdict, "columns"]
            names = ["{" + ", ".join(self.labels.get(name, name) for name in one) + "}" for one in found]
            if names:
                lines.append(f"{words}: {printable(', '.join(names))}")
        sets = f"{self.tried} set{'s' * (self.tried != 1)} of at most {self.max_columns} columns"
        return "\n".join([*lines, f"{sets} {'were' if self.tried != 1 else 'was'} tried."])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = "" if self.note else self.table.drop(columns=["sentence", "reliable_sentence", "proof"]).to_html()
        return f"<pre>{escape(str(self), quote=False)}</pre>{shown}"


def _write_line(line: dict[Any, Any]) -> str:
    """Return one set that reaches as a line of text."""
    text = (
        f"cost {line['cost']:.2g}, {format_share(line['share'], line['share_se'])} of the posterior: {line['sentence']}"
    )
    if line["reliable_sentence"] == line["sentence"]:
        return f"{text} This is reliable."
    if line["reliable_sentence"]:
        return f"{text} Reliable at a cost of {line['reliable_cost']:.2g}: {line['reliable_sentence']}"
    return text


def make_menu(explanation: "Explanation", max_columns: int) -> Menu:
    """Return the sets of at most ``max_columns`` columns, see :meth:`gbce.Explanation.menu`."""
    if not is_count(max_columns):
        raise ValueError(f"menu: max_columns must be an integer of at least 1, not {max_columns!r}")
    found = explanation.strategies
    sets = {} if found is None else _group_points(explanation, found, max_columns)
    lines = [_describe_set(explanation, found, *one) for one in sets.items()] if found is not None else []
    lines.sort(key=lambda line: (line["verdict"] != _REACHES, line["verdict"], line["size"], line["cost"]))
    table = pd.DataFrame(lines, columns=list(_EMPTY))
    needed = set() if found is None else {one.tobytes() for one in found.needs != 0 if one.sum() <= max_columns}
    space, note = explanation.space, "" if lines else explain_absence(explanation)
    labels = {name: space.label(j) for j, name in enumerate(space.names)}
    return Menu(table, len(needed | set(sets)), max_columns, note, labels)


def _group_points(explanation: "Explanation", found: Strategies, most: int) -> dict[bytes, Array]:
    """Return the positions of the points that change each set of columns; none for sets that were missed."""
    changed = find_moves(explanation.space, found.x, explanation.x0) != 0
    small = np.flatnonzero(changed.sum(axis=1) <= most)
    sets: dict[bytes, list[int]] = {}
    for i in small.tolist():
        sets.setdefault(changed[i].tobytes(), []).append(i)
    for one in found.missed[found.missed.sum(axis=1) <= most]:
        sets.setdefault(one.tobytes(), [])
    return {key: np.array(points, dtype=int) for key, points in sets.items()}


_POINT: dict[str, Any] = {"cost": np.nan, "output": np.nan, "reliability": np.nan, "sentence": ""}
# What a line of the table has before anything is known of its set: no columns, no share.
_EMPTY: dict[str, Any] = (
    {"columns": (), "size": 0, "verdict": _NOT_FOUND, "share": 0.0, "share_se": 0.0}
    | _POINT
    | {f"reliable_{name}": value for name, value in _POINT.items()}
    | {"proof": ""}
)


def _describe_set(explanation: "Explanation", found: Strategies, key: bytes, points: Array) -> dict[str, Any]:
    """Return the line of one set of columns, given as the bytes of a mask, and the points that change it."""
    columns = np.frombuffer(key, dtype=bool)
    needed = ((found.needs != 0) == columns).all(axis=1)
    share = float(found.weights[(found.which >= 0) & needed[found.which]].sum()) if len(needed) else 0.0
    line = _EMPTY | {
        "columns": tuple(explanation.space.names[j] for j in np.flatnonzero(columns)),
        "size": int(columns.sum()),
        "share": share,
        "share_se": estimate_error(explanation.draws, found, share),
    }
    if len(points) == 0:
        at = int((found.missed == columns).all(axis=1).argmax())
        proof = found.proofs[at]
        return line | {"verdict": _IMPOSSIBLE if proof else _NOT_FOUND, "proof": proof}
    cost = costs(explanation.space, found.x[points], explanation.x0, "l1")
    order = points[np.argsort(cost, kind="stable")]
    line |= {"verdict": _REACHES} | _describe_point(explanation, found, int(order[0]))
    holding = order[found.holds[order]]
    if len(holding):
        reliable = _describe_point(explanation, found, int(holding[0]))
        line |= {f"reliable_{name}": value for name, value in reliable.items()}
    return line


def _describe_point(explanation: "Explanation", found: Strategies, at: int) -> dict[str, Any]:
    x = found.x[at]
    return {
        "cost": float(costs(explanation.space, x[None, :], explanation.x0, "l1")[0]),
        "output": float(found.outputs[at]),
        "reliability": float(found.reliability[at]),
        "sentence": write_sentence(explanation, x, float(found.outputs[at])),
    }
