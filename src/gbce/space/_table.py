"""Print a space as a table, and report the rows that do not fit it: bounds, constraints, unreadable columns."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._numerics import WIDE_ROUNDING
from gbce._validation import distinguish, printable
from gbce.base import Array
from gbce.space._constraints import describe_transitions, same
from gbce.space._feature import Feature
from gbce.space._format import number_text

if TYPE_CHECKING:
    from gbce.space._space import Space

# Lengths are chosen by hand.
_WIDEST_RANGE = 40  # characters of a list of levels before it is abbreviated
_MOST_COLUMNS_NAMED = 10  # in one sentence
# Words in the names of columns that a person cannot change, or that it is unlawful to base advice on.
_PROTECTED = re.compile(
    r"\b(age|ages|sex|gender|race|ethnic|ethnicity|ethnic group|nationality|national origin|citizenship|religion|birth|"
    r"birthday|birthdate|birthplace|dob|marital|married|disability|disabled|pregnant|pregnancy|skin colou?r)\b"
    "|年齢|年令|性別|男女|人種|民族|国籍|宗教|信仰|生年|誕生|出生|婚姻|配偶者|障害|障がい|妊娠"
)
# Names of columns that number or name the rows, such as the one that pandas gives to the index of a CSV file.
_IDENTIFIER = re.compile(r"\b(unnamed|id|uuid|guid)\b|^ *(index|row|row number) *$")
_HEADER = ["row", "feature", "problem"]

# --- printing --------------------------------------------------------------------------------------------------------


def as_text(space: "Space", notes: Sequence[str]) -> str:
    """Format the features of a space as a table, with constraints and notes below it."""
    formula = {one.name: one.text for one in space.computed}
    lines: list[tuple[str, ...]] = [("feature", "kind", "range", "unit of change", "may change")]
    lines += [
        (
            f.name,
            f.kind,
            _format_range(space, j),
            _format_unit(f),
            f"= {formula[f.name]}" if f.name in formula else _format_direction(f),
        )
        for j, f in enumerate(space.features)
    ]
    lines = [tuple(printable(cell) for cell in line) for line in lines]
    widths = [max(len(line[k]) for line in lines) for k in range(5)]
    text = []
    for line in lines:
        cells = [cell.rjust(widths[k]) if k == 3 else cell.ljust(widths[k]) for k, cell in enumerate(line)]
        text.append("  ".join(cells).rstrip())
    rules = [*(printable(one.text) for one in space.constraints), *describe_transitions(space.features)]
    if rules:
        text += ["", "always:", *(f"  {rule}" for rule in rules)]
    if notes:
        text += ["", *map(printable, notes)]
    return "\n".join(text)


def constant_notes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the note on columns that are held fixed because they are constant in the data."""
    if not names:
        return ()
    more = len(names) - _MOST_COLUMNS_NAMED
    listed = ", ".join(map(repr, names[:_MOST_COLUMNS_NAMED])) + (f" and {more} more" if more > 0 else "")
    return (
        f"Held fixed, because the data show one value only: {listed}. To let one move, give its unit with "
        "scale={name: number}, or its levels with levels={name: [...]}.",
    )


def protected_notes(features: Sequence[Feature]) -> tuple[str, ...]:
    """Return notes on columns that may change although their names suggest that they cannot, or must not."""
    unlawful = "advice to change such a column can rarely be followed and may be unlawful"
    counted = "such a column usually numbers or names the rows"
    notes = []
    for pattern, reason in ((_PROTECTED, unlawful), (_IDENTIFIER, counted)):
        names = [one.name for one in features if one.mutable and pattern.search(_split_words(one.name))]
        if not names:
            continue
        *others, last = map(repr, names[:_MOST_COLUMNS_NAMED])
        listed = f"{', '.join(others)} and {last}" if others else last
        notes.append(
            f"{printable(listed)} may change, although {reason}. To hold {'it' if len(names) == 1 else 'them'} fixed: "
            f"Space.infer(data, immutable={names!r})."
        )
    return tuple(notes)


def _split_words(name: str) -> str:
    """Return a column name in lower case, its words separated by blanks."""
    return re.sub(r"[^a-z\u3040-\u9fff]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def _format_range(space: "Space", j: int) -> str:
    """Format the levels or bounds of a feature."""
    feature = space.features[j]
    if feature.leveled:
        levels = list(map(str, feature.levels or ()))
        if not feature.unordered:
            levels = levels[int(feature.low or 0) : int(feature.high or 0) + 1]
        text = (" < " if feature.kind == "ordinal" else ", ").join(levels)
        if len(text) > _WIDEST_RANGE:
            shown = " < ".join([levels[0], "...", levels[-1]]) if feature.kind == "ordinal" else f"{levels[0]}, ..."
            text = f"{shown} ({len(levels)} levels)"
    else:
        text = " to ".join(
            end if bound is None else space.format(j, bound, unit=False)
            for bound, end in ((feature.low, "-inf"), (feature.high, "inf"))
        )
        text = "any" if text == "-inf to inf" else text
    return text if feature.missing is None else f"{text}, or missing"


def _format_unit(feature: Feature) -> str:
    """Format the unit of change of a feature."""
    if feature.unordered:
        return "any change" if feature.scale == 1.0 else f"{1.0 / feature.scale:.3g} a change"
    steps = {"ordinal": " levels", "datetime": f" {feature.unit}s"}.get(feature.kind, f" {feature.unit}".rstrip())
    return f"{number_text(feature.scale, 4)}{steps}"


def _format_direction(feature: Feature) -> str:
    """Say whether and in which direction a feature may change."""
    if not feature.mutable:
        return "no"
    return {"any": "yes", "increase": "only up", "decrease": "only down"}[feature.direction]


# --- checking rows ---------------------------------------------------------------------------------------------------


def check_table(space: "Space", table: pd.DataFrame) -> pd.DataFrame:
    """List the problems of a table with the space's columns, one line each and one for an unreadable column."""
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
    """List the problems of rows ``(n, d)``; bounds hold up to rounding, and inferred bounds do not bind the row."""
    lines: list[tuple[int, str, str]] = []
    for j, feature in enumerate(space.features):
        value = x[:, j]
        if feature.missing is None:
            lines += [(int(i), feature.name, f"{feature.name!r} is missing") for i in np.flatnonzero(np.isnan(value))]
        tolerance = WIDE_ROUNDING * np.maximum(1.0, np.abs(value))
        for bound, side in ((feature.low, "below"), (feature.high, "above")):
            if bound is None or feature.stretch:
                continue
            outside = value < bound - tolerance if side == "below" else value > bound + tolerance
            for i in np.flatnonzero(outside):
                have, edge = (space.format(j, one, exact=True, unit=False) for one in (value[i], bound))
                problem = (
                    f"{feature.name!r} = {have} lies {side} its bound {edge}. Correct the row or widen the bound: a "
                    "bound holds for the row as well as for every draw."
                )
                lines.append((int(i), feature.name, problem))
    required = np.array([feature.missing is None for feature in space.features])
    lines += _list_violations(space, x, ~np.isnan(x[:, required]).any(axis=1))
    return pd.DataFrame(sorted(lines, key=lambda line: line[0]), columns=_HEADER)


def _list_violations(space: "Space", x: Array, known: Any) -> list[tuple[int, str, str]]:
    """List violated constraints, and computed columns that differ from their formula."""
    lines: list[tuple[int, str, str]] = []
    some = np.flatnonzero(known)
    for one in space.computed:
        value = one.values(space, x[some])
        have = x[some, space.names.index(one.name)]
        for i in np.flatnonzero(~same(value, have)):
            found, expected = distinguish(have[i], value[i])
            problem = f"{one.name!r} = {found}, but {one.text} gives {expected}. Correct the row or the formula."
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


def describe_broken(space: "Space", x: Array, x0: Array) -> list[str]:
    """Return in words what each of the points ``(n, d)`` breaks that the row ``x0`` has to keep; empty if nothing."""
    possible = space.settle_each(x, np.broadcast_to(x0, x.shape))[1].tolist()
    return ["" if good else _name_broken(space, one, x0) for good, one in zip(possible, x, strict=True)]


def _name_broken(space: "Space", x: Array, x0: Array) -> str:
    low, high = space.limits(x0)
    moved = np.flatnonzero(space.changed(x[None, :], x0)[0] & ~space.is_computed).tolist()
    held = [j for j in moved if not low[j] <= x[j] <= high[j] and not (np.isnan(x[j]) and space.may_become_missing[j])]
    found = [f"{space.label(j)} must be {space.format_range(j, low[j], high[j])}" if low[j] < high[j]
             else f"{space.label(j)} must stay as it is" for j in held]  # fmt: skip
    for j in moved:
        if (x0[j], x[j]) in space.features[j].forbidden:
            before, after = space.format_change(j, x0[j], x[j], exact=True, quoted=True)
            found.append(f"{space.label(j)} must not change from {before} to {after}")
    found += [one.text for one in space.constraints if not one.holds(space, x[None, :])[0]]
    return "; ".join(found) or "a value is between steps, or a computed column leaves its bounds"
