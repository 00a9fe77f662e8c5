"""Groups of features that no condition links: what one of them does leaves the conditions of the others as they are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gbce.base import Array
from gbce.space._checks import Checks
from gbce.space._operators import at_most

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = ["Apart"]


@dataclass(frozen=True, eq=False)
class Apart:
    """Groups of features that constraints link, each with its constraints.

    Parameters
    ----------
    turns : tuple of (array, array)
        Features ``(c,)``, one of each group at most, and their groups ``(c,)``: the first of every group, the second,
        and so on.
    lower, upper, pair_group : arrays of shape (k,)
        Columns of numbers of which the first is at most the second, and the group of both.
    others : tuple of (int, callable)
        The group of each other constraint, and the constraint as a function of rows ``(n, d)``.
    n_groups : int
        How many groups there are.
    """

    turns: tuple[tuple[Array, Array], ...]
    lower: Array
    upper: Array
    pair_group: Array
    others: tuple[tuple[int, Callable[[Array], Any]], ...]
    n_groups: int

    @classmethod
    def of(cls, space: "Space") -> Self:
        """Group the features of a space without computed columns."""
        d = len(space)
        everything = list(range(d))
        links = [
            everything if names is None else sorted(space.position[name] for name in names)
            for names in (constraint.names() for constraint in space.constraints)
        ]
        root = everything.copy()
        for link in links:
            linked = {root[j] for j in link}
            root = [min(linked) if one in linked else one for one in root]
        of_link = [root[link[0]] if link else -1 for link in links]  # what names no column is a group without features
        groups = sorted(set(of_link))
        members = [[j for j in everything if root[j] == group] for group in groups]
        turns = []
        for t in range(max(map(len, members), default=0)):
            here = [(own[t], g) for g, own in enumerate(members) if t < len(own)]
            turns.append((np.array([j for j, _ in here]), np.array([g for _, g in here])))
        own_checks = [
            Checks.of(space, tuple(one for one, its in zip(space.constraints, of_link, strict=True) if its == group))
            for group in groups
        ]
        return cls(
            tuple(turns),
            np.concatenate([np.zeros(0, dtype=int), *[one.lower for one in own_checks]]),
            np.concatenate([np.zeros(0, dtype=int), *[one.upper for one in own_checks]]),
            np.repeat(np.arange(len(groups)), [len(one.lower) for one in own_checks]),
            tuple((g, holds) for g, one in enumerate(own_checks) for holds in one.others),
            len(groups),
        )

    @cached_property
    def _groups_of_pairs(self) -> tuple[Array, Array]:
        """Groups ``(g,)`` that have pairs, which lie side by side, and the position of the first of each."""
        return np.unique(self.pair_group, return_index=True)

    def __call__(self, x: Array) -> Array:
        """Whether rows ``(n, d)`` meet the constraints of each group, ``(n, n_groups)``."""
        good = np.ones((len(x), self.n_groups), dtype=bool)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if len(self.lower):
                groups, first = self._groups_of_pairs
                in_order = at_most(x[:, self.lower], x[:, self.upper])
                good[:, groups] = np.logical_and.reduceat(in_order, first, axis=1)
            for g, holds in self.others:
                good[:, g] &= holds(x)
        return good
