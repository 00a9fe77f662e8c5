"""Read forbidden transitions between levels, ``"never degree 'Master' -> 'Bachelor'"``, as properties of features.

A transition depends on the row's own level, so that no row violates one by itself: like a direction, it limits what a
row can become.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from gbce._validation import printable, show
from gbce.space._constraints import Constraint
from gbce.space._feature import Feature

_STRING = re.compile(r"'[^']*'|\"[^\"]*\"")
_NEVER = re.compile(
    r"\s*never\s+(?P<name>`[^`]+`|[^\W\d]\w*)\s+(?P<before>\S.*?)\s*->\s*(?P<after>\S.*?)\s*", re.DOTALL
)
_EVERY = "any"


class Transition(NamedTuple):
    """Levels of a column that may not be followed by others; ``None`` stands for every level."""

    name: str
    before: tuple[Any, ...] | None
    after: tuple[Any, ...] | None
    text: str


def read_transitions(given: Any, names: Sequence[str]) -> tuple[Any, list[Transition]]:
    """Split constraints on the columns ``names`` into others, as given, and transitions."""
    if isinstance(given, (str, Constraint)) or callable(given) or not isinstance(given, Iterable):
        found = _read_one(given, names)
        return (given, []) if found is None else ((), [found])
    listed = list(given)
    read = [_read_one(one, names) for one in listed]
    return [one for one, found in zip(listed, read, strict=True) if found is None], [one for one in read if one]


def _read_one(given: Any, names: Sequence[str]) -> Transition | None:
    """Read ``"never column 'a', 'b' -> 'c'"``; None for any other constraint."""
    if not isinstance(given, str):
        return None
    found = _NEVER.fullmatch(_STRING.sub(lambda quoted: "'" * len(quoted.group(0)), given))
    if found is None:
        return None
    name, before, after = (given[slice(*found.span(part))] for part in ("name", "before", "after"))
    if name.strip("`") not in names:
        raise ValueError(f"{given!r} refers to {name.strip('`')!r}, which is no column; columns are {list(names)}")
    return Transition(name.strip("`"), _read_levels(before, given), _read_levels(after, given), given.strip())


def _read_levels(side: str, text: str) -> tuple[Any, ...] | None:
    """Read one side of the arrow: levels as Python writes them, or ``any``."""
    if side == _EVERY:
        return None
    try:
        levels = ast.literal_eval(f"({side},)")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(
            f"{text!r} cannot be parsed: {side!r} is not a list of levels. Write it like \"never degree 'Master', "
            f"'PhD' -> 'Bachelor'\", with levels as in the table, or {_EVERY} for every level."
        ) from None
    return tuple(levels)


def forbid(features: tuple[Feature, ...], transitions: Sequence[Transition]) -> tuple[Feature, ...]:
    """Return features that keep the transitions, too."""
    position = {feature.name: j for j, feature in enumerate(features)}
    found = list(features)
    for one in transitions:
        j = position[one.name]
        if not found[j].unordered:
            raise ValueError(
                f"{one.text!r}: {one.name!r} is {found[j].kind}, and only levels without an order have transitions; "
                f"say in which direction it may go, such as increase=[{one.name!r}]"
            )
        before, after = (_find_codes(found[j], side, one.text) for side in (one.before, one.after))
        pairs = {*found[j].forbidden, *((a, b) for a in before for b in after if a != b)}
        found[j] = replace(found[j], forbidden=tuple(sorted(pairs)))
    return tuple(found)


def _find_codes(feature: Feature, levels: tuple[Any, ...] | None, text: str) -> list[int]:
    """Return the positions of levels, of all if ``None``."""
    known = feature.levels or ()
    if levels is None:
        return list(range(len(known)))
    unknown = [level for level in levels if level not in known]
    if unknown:
        raise ValueError(
            f"{text!r}: {feature.name!r} has no level {show(unknown[0])}; its levels are {', '.join(map(show, known))}"
        )
    return [known.index(level) for level in levels]


def describe_transitions(features: Sequence[Feature]) -> list[str]:
    """Return the transitions of features as lines that could be given as constraints."""
    return [
        f"never {_quote_name(feature.name)} {printable(show((feature.levels or ())[before]))} -> "
        + ", ".join(printable(show((feature.levels or ())[after])) for _, after in pairs)
        for feature in features
        for before, pairs in groupby(feature.forbidden, key=lambda pair: pair[0])
    ]


def _quote_name(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
