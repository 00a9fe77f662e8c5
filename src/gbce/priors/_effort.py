"""A prior under which some columns are harder to change than others."""

from dataclasses import dataclass, replace

from gbce.base import Array, Prior
from gbce.priors._located import LocatedPrior
from gbce.space import Effort, Space, effort_cost

__all__ = ["WithEffort"]


@dataclass(frozen=True)
class WithEffort:
    """``base`` times ``exp(-effort)``: each unit of a column's change costs its factor instead of one.

    Parameters
    ----------
    base : prior
        The law without it, placed where it is.
    effort : tuple of (str, float)
        Columns with their factors, see :func:`gbce.space.read_effort`.

    Examples
    --------
    >>> import numpy as np
    >>> from gbce.priors import Gaussian
    >>> prior = WithEffort(Gaussian(), (("x1", 3.0),))
    >>> prior.at(Space.real(2), np.zeros(2)).cost(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([2.5, 0.5])
    """

    base: Prior
    effort: Effort

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the law at the row ``x0``."""
        located: LocatedPrior = self.base.at(space, x0)
        if not self.effort:
            return located
        return replace(located, terms=(*located.terms, lambda x: effort_cost(space, self.effort, x, x0)))
