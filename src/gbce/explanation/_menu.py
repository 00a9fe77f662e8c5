"""Which few columns would do: the sets of columns by which the target can be reached, with their cheapest points."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import is_count, printable
from gbce.base import Array
from gbce.decisions import Strategies, find_moves
from gbce.explanation._alternatives import (
    estimate_error,
    explain_absence,
    format_share,
    write_sentence,
)
from gbce.metrics import costs

if TYPE_CHECKING:
    from gbce.explanation._explanation import Explanation

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

    Examples
    --------
    See :meth:`gbce.Explanation.menu`.
    """

    table: pd.DataFrame
    tried: int
    max_columns: int
    note: str = ""

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
            names = ["{" + ", ".join(one) + "}" for one in self.table.loc[self.table["verdict"] == verdict, "columns"]]
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
    return Menu(table, len(needed | set(sets)), max_columns, "" if lines else explain_absence(explanation))


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
