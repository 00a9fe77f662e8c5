"""Columns of zeros and ones that spell one category."""

from collections.abc import Mapping
from typing import Any

from gbce.space._codecs import OneHotCodec

__all__ = ["group_levels", "groups_of"]


def group_levels(codec: OneHotCodec) -> tuple[Any, ...]:
    """Return the levels that the columns spell: their names without what all of them start with."""
    labels = list(map(str, codec.labels))
    shared = _shared_start(labels)
    return tuple([label[len(shared) :] or label for label in labels] + (["(none)"] if codec.base else []))


def _shared_start(labels: list[str]) -> str:
    start = labels[0]
    while start and not all(label.startswith(start) and label != start for label in labels):
        start = start[:-1]
    cut = max(start.rfind(sign) for sign in "_=: .")
    return start[: cut + 1]


def groups_of(one_hot: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each group by its name; every column of the table ``names`` is in one group at most."""
    groups: dict[str, tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for name, members in one_hot.items():
        if name in names:
            raise ValueError(f"one_hot[{name!r}] has the name of a column of the data: give it a name of its own")
        groups[name] = _members(name, members, names)
        shared = [member for member in groups[name] if member in owner]
        if shared:
            others = sorted({owner[member] for member in shared})
            raise ValueError(
                f"one_hot[{name!r}] and one_hot[{others[0]!r}] share the columns {shared}: a column belongs to one "
                "group only. List the columns of each group, or give longer texts that they start with."
            )
        owner |= dict.fromkeys(groups[name], name)
    return groups


def _members(name: str, members: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a group, listed or given by what they start with."""
    if isinstance(members, str):
        members = [column for column in names if column.startswith(members)]
    listed = tuple(map(str, members))
    known = set(names)
    unknown = [member for member in listed if member not in known]
    if unknown or len(listed) < 2:
        raise ValueError(
            f"one_hot[{name!r}] must list at least two columns of the data, or be a text they start with; "
            f"{f'unknown {unknown}' if unknown else f'found {list(listed)}'}"
        )
    twice = sorted({member for member in listed if listed.count(member) > 1})
    if twice:
        raise ValueError(f"one_hot[{name!r}] lists {twice} twice: name each column once")
    return listed
