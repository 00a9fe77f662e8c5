"""Columns of zeros and ones that spell one category."""

from typing import Any

from gbce.space._codecs import OneHotCodec

__all__ = ["group_levels", "group_members"]


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


def group_members(name: Any, members: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a group, listed or given by what they start with."""
    if isinstance(members, str):
        members = [column for column in names if column.startswith(members)]
    listed = tuple(map(str, members))
    unknown = [member for member in listed if member not in names]
    if unknown or len(listed) < 2:
        raise ValueError(
            f"one_hot[{str(name)!r}] must list at least two columns of the data, or be a text they start with; "
            f"{f'unknown {unknown}' if unknown else f'found {list(listed)}'}"
        )
    return listed
