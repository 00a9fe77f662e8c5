"""How hard columns are to change: how many times as much each unit of a change counts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce._validation import is_number, printable
from gbce.base import Array

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = ["Effort", "effort_cost", "read_effort", "say_effort"]

Effort = tuple[tuple[str, float], ...]  # columns by name, each with its factor


def read_effort(space: "Space", asked: Any, before: Effort = ()) -> Effort:
    """Return factors by column, on top of those that held before; in the order of the columns, without ones.

    Raises
    ------
    TypeError, ValueError
        For what is no mapping, a column that is not there or follows from others, and a factor that is not positive.

    Examples
    --------
    >>> from gbce.space import Space
    >>> read_effort(Space.real(["income", "debt"]), {"debt": 2, "income": 1})
    (('debt', 2.0),)
    """
    if not isinstance(asked, Mapping):
        raise TypeError(f"effort must be a mapping of column names to factors, such as {{'income': 2}}, not {asked!r}")
    factors = dict(before)
    for name, factor in asked.items():
        if name not in space.position:
            raise ValueError(f"effort names {name!r}, which the table does not have; columns are {list(space.names)}")
        if space.is_computed[space.position[name]]:
            raise ValueError(f"effort: {name!r} is computed from other columns; say how hard those are to change")
        if not is_number(factor) or not 0 < factor < np.inf:
            raise ValueError(f"effort: the factor of {name!r} must be a positive number, not {factor!r}")
        factors[name] = factors.get(name, 1.0) * float(factor)
    return tuple((name, factors[name]) for name in space.names if factors.get(name, 1.0) != 1.0)


def effort_cost(space: "Space", effort: Effort, x: Array, x0: Array) -> Array:
    """Return what points ``(n, d)`` pay beyond their cost, ``(n,)``: below zero where a column is easier to change.

    A unit of a column's scale costs its factor instead of one.
    """
    more = np.zeros(len(x))
    if effort:
        units = space.change(x, x0) / space.scale
        for name, factor in effort:
            more += (factor - 1.0) * units[:, space.position[name]]
    return more


def say_effort(effort: Sequence[tuple[str, float]]) -> list[str]:
    """Return each factor as a text."""
    return [f"a change of {printable(name)} counts {factor:g} times" for name, factor in effort]
