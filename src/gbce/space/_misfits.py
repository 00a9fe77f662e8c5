"""What in rows does not fit a space: values outside of bounds, broken constraints, columns that cannot be read."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import distinguish
from gbce.base import Array
from gbce.space._computed import same
from gbce.space._table import value_text
from gbce.space._tolerances import DATA_ROUNDING

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = ["check_table", "misfits"]

_HEADER = ["row", "feature", "problem"]


def check_table(space: "Space", table: pd.DataFrame) -> pd.DataFrame:
    """Return one line per problem of a table with the space's columns; one for a column that cannot be read at all."""
    columns, lines = [], []
    for name, codec in zip(space.names, space.codecs, strict=True):
        try:
            columns.append(codec.encode(table, "frame"))
        except ValueError as error:
            columns.append(np.full(len(table), np.nan))
            lines.append({"row": None, "feature": name, "problem": str(error)})
    found = misfits(space, np.column_stack(columns))
    found = found[~found["feature"].isin([line["feature"] for line in lines])]
    found = found.assign(row=[table.index[i] for i in found["row"]])
    return pd.concat([pd.DataFrame(lines, columns=_HEADER), found], ignore_index=True)


def misfits(space: "Space", x: Array) -> pd.DataFrame:
    """Return one line per row and problem of rows ``(n, d)``.

    A row may touch its bound up to rounding, and lie outside of one that was only read off the data.
    """
    lines: list[tuple[int, str, str]] = []
    for j, (feature, codec) in enumerate(zip(space.features, space.codecs, strict=True)):
        value = x[:, j]
        if feature.missing is None:
            lines += [(int(i), feature.name, f"{feature.name!r} is missing") for i in np.flatnonzero(np.isnan(value))]
        room = DATA_ROUNDING * np.maximum(1.0, np.abs(value))
        for bound, side in ((feature.low, "below"), (feature.high, "above")):
            if bound is None or feature.stretch:
                continue
            outside = value < bound - room if side == "below" else value > bound + room
            for i in np.flatnonzero(outside):
                texts = value_text(feature, codec, value[i]), value_text(feature, codec, bound)
                have, edge = texts if texts[0] != texts[1] else distinguish(value[i], bound)
                problem = (
                    f"{feature.name!r} = {have} lies {side} its bound {edge}. Correct the row or widen the bound: a "
                    "bound holds for the row as well as for every draw."
                )
                lines.append((int(i), feature.name, problem))
    certain = np.array([feature.missing is None for feature in space.features])
    lines += _broken_conditions(space, x, ~np.isnan(x[:, certain]).any(axis=1))
    return pd.DataFrame(sorted(lines, key=lambda line: line[0]), columns=_HEADER)


def _broken_conditions(space: "Space", x: Array, known: Any) -> list[tuple[int, str, str]]:
    """Constraints that rows break, and computed columns that do not hold what they should."""
    lines: list[tuple[int, str, str]] = []
    some = np.flatnonzero(known)
    for one in space.computed:
        value = one.values(space, x[some])
        have = x[some, space.names.index(one.name)]
        for i in np.flatnonzero(~same(value, have)):
            found, wanted = distinguish(have[i], value[i])
            problem = f"{one.name!r} = {found}, but {one.text} gives {wanted}. Correct the row or the formula."
            lines.append((int(some[i]), one.name, problem))
    for constraint in space.constraints:
        met = constraint.holds(space, x[some])
        lines += [
            (
                int(some[i]),
                constraint.text,
                f"the constraint {constraint.text!r} does not hold. Correct the row or drop the constraint: it holds "
                "for the row as well as for every draw.",
            )
            for i in np.flatnonzero(~met)
        ]
    return lines
