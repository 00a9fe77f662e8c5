"""All constraints of a space at once: a check costs about the same for one as for ten."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gbce.base import Array
from gbce.space._constraints import Constraint
from gbce.space._operators import at_most
from gbce.space._terms import Levels

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = ["Checks"]


@dataclass(frozen=True, eq=False)
class Checks:
    """Whether encoded rows meet constraints, each worked out the cheapest way that says the same.

    Parameters
    ----------
    lower, upper : array, shape (k,)
        Positions of columns of numbers of which the first is at most the second, of all constraints that say just that.
    others : tuple of callable
        Rows ``(n, d)`` to booleans ``(n,)``, one for each other constraint.
    """

    lower: Array
    upper: Array
    others: tuple[Callable[[Array], Any], ...]

    @classmethod
    def of(cls, space: "Space", constraints: tuple[Constraint, ...]) -> Self:
        """Prepare constraints on the columns of a space."""
        columns: dict[str, int | Levels] = {
            feature.name: Levels(j, tuple(feature.levels or ())) if feature.leveled else j
            for j, feature in enumerate(space.features)
        }
        pairs: list[tuple[int, int]] = []
        others: list[Callable[[Array], Any]] = []
        for constraint in constraints:
            found = _pairs_of_numbers(constraint, columns)
            if found is None:
                others.append(constraint.term(columns) or partial(constraint.holds, space))
            else:
                pairs += found
        lower, upper = np.array(pairs, dtype=int).reshape(-1, 2).T
        return cls(lower, upper, tuple(others))

    def __call__(self, x: Array) -> Array:
        """Whether each row of ``(n, d)`` meets all of them, ``(n,)``."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            in_order = at_most(x[:, self.lower], x[:, self.upper]) if len(self.lower) else None
            good = np.ones(len(x), dtype=bool) if in_order is None else in_order.all(axis=1)
            for holds in self.others:
                good &= holds(x)
        return good


def _pairs_of_numbers(constraint: Constraint, columns: dict[str, int | Levels]) -> list[tuple[int, int]] | None:
    """Return the positions of the pairs that a constraint puts in order, if it does nothing else."""
    found: list[tuple[int, int]] = []
    pairs = constraint.ordered_pairs()
    for one, other in pairs or ():
        lower, upper = columns[one], columns[other]
        if isinstance(lower, Levels) or isinstance(upper, Levels):
            return None
        found.append((lower, upper))
    return None if pairs is None else found
