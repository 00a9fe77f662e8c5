"""Columns that follow from others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce.base import Array
from gbce.space._constraints import call_function
from gbce.space._expressions import linear, names_in, require_readable
from gbce.space._terms import evaluate
from gbce.space._tolerances import DATA_ROUNDING

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = ["Computed", "as_computed", "same"]


@dataclass(frozen=True)
class Computed:
    """A column that follows from others: ``total = a + b``, by a text or by a function of the frame.

    Parameters
    ----------
    name : str
        Of the column.
    text : str
        The formula, or the function's name.
    function : callable, optional
        Frame of ``n`` rows to numbers ``(n,)``.
    kept : bool
        Whether the function is still there; a file keeps only its name.
    """

    name: str
    text: str
    function: Callable[[Any], Any] | None = None
    kept: bool = True

    def values(self, space: "Space", x: Array) -> Array:
        """Return the column ``(n,)`` for rows ``(n, d)``."""
        if not self.kept:
            raise ValueError(f"{self.name!r} was computed by a function, which a file does not keep")
        n, what = len(x), f"computed column {self.name!r}: {self.text}"
        if self.function is None:
            said = evaluate(self.text, lambda name: space.values(name, x))
        else:
            said = call_function(self.function, space.decode(x), what)
        try:
            column = np.asarray(said, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"{what} must give numbers") from None
        if column.shape not in ((), (n,)):
            raise ValueError(f"{what} must give {n} numbers, not {column.shape}")
        return np.broadcast_to(column, (n,))

    def names(self) -> tuple[str, ...] | None:
        """Columns that it follows from; ``None`` where that cannot be known."""
        return names_in(self.text) if self.function is None and self.kept else None

    def linear(self) -> tuple[dict[str, float], float] | None:
        """Coefficients and constant, if it is linear in the other columns."""
        return None if self.function is not None or not self.kept else linear(self.text)


def same(a: Array, b: Array) -> Array:
    """Whether numbers are equal up to rounding: those computed ``a`` and the row's own ``b``."""
    return np.abs(a - b) <= DATA_ROUNDING * np.maximum(1.0, np.abs(b))


def as_computed(given: Mapping[str, Any] | None, names: tuple[str, ...]) -> tuple[Computed, ...]:
    """Read texts and functions as computed columns, in an order in which each needs only earlier ones."""
    waiting: list[Computed] = []
    for name, how in (given or {}).items():
        if name not in names:
            raise ValueError(f"computed names {name!r}, which the data do not have; columns are {list(names)}")
        if isinstance(how, str):
            require_readable(how, names)
            waiting.append(Computed(name, how))
        elif callable(how):
            waiting.append(Computed(name, getattr(how, "__name__", type(how).__name__), how))
        else:
            raise TypeError(
                f"computed[{name!r}] must be a text such as 'a + b' or a function of the frame, not {how!r}"
            )
    ready: list[Computed] = []
    while waiting:
        left = {one.name for one in waiting}
        free = [one for one in waiting if one.function is not None or not left & set(names_in(one.text))]
        if not free:
            raise ValueError(f"the computed columns {sorted(left)} need each other in a circle")
        ready += free
        waiting = [one for one in waiting if one not in free]
    return tuple(ready)
