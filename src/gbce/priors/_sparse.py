"""The sparse prior: most features stay exactly as they are (spike and slab)."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gbce._numerics import log_total
from gbce._validation import is_number
from gbce.base import Array, Prior
from gbce.priors._atoms import Blank, Spiked
from gbce.priors._gaussian import Gaussian
from gbce.priors._located import LocatedPrior
from gbce.priors._parts import Part, WholeSteps
from gbce.space import Space

__all__ = ["Sparse"]

_MOST_LIKELY = 0.5  # chance of a change where there are few features: it is as likely as none, and answers stay short


@dataclass(frozen=True)
class Sparse:
    """Each feature changes with probability ``change``, by the law of ``base``; otherwise it stays exactly.

    On a frame ``Sparse(moves=3)`` is what an explainer takes when no prior is given.

    Densities of points with different numbers of changed features cannot be compared; so under this prior
    :class:`gbce.MAP` gives the best point for each number of changes.

    Parameters
    ----------
    base : Gaussian or Laplace, optional
        Law of the changes; a Gaussian without ``cov``, or a Laplace. ``Gaussian()`` when left out.
    change : float
        Probability that a feature changes.
    moves : float, optional
        How many features change on average, instead of ``change``: of ``m`` that can, each does with probability
        ``moves / m``, but never more than one half, so that a feature is never more likely to change than to stay.

    Examples
    --------
    >>> placed = Sparse(Gaussian(), change=0.3).at(Space.real(3), np.zeros(3))
    >>> x = placed.place(np.random.default_rng(0).standard_normal((20_000, 3))).x
    >>> float((x != 0).mean().round(2))
    0.3
    """

    base: Prior | None = None
    change: float = 0.3  # chosen by hand
    moves: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.change, (int, float)) or not 0 < self.change < 1:
            raise ValueError(f"Sparse: change must lie between 0 and 1, not {self.change!r}")
        if self.moves is not None and not (is_number(self.moves) and math.isfinite(self.moves) and self.moves > 0):
            raise ValueError(f"Sparse: moves must be a number of features above 0, or None, not {self.moves!r}")
        if self.base is not None and not hasattr(self.base, "at"):
            raise TypeError(f"Sparse: base must be a prior such as gbce.Gaussian(), not {self.base!r}")

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the law at the row ``x0``."""
        base = Gaussian() if self.base is None else self.base
        # conditions are checked on every candidate instead: most features stay, so that most candidates meet them
        located = base.at(_without_conditions(space), x0)
        if located.distance is not None or located.terms or located.spikes or not _independent(located):
            raise ValueError(
                "Sparse: base must move each feature by itself: a gbce.Gaussian without cov, or a gbce.Laplace"
            )
        change = self.change if self.moves is None else min(self.moves / len(located.free), _MOST_LIKELY)
        parts = tuple(_add_spike(part, x0[part.where], change) for part in located.parts)
        return LocatedPrior(space, x0, parts, spikes=True)

    def learned(self, space: Space, data: Array) -> "Sparse":
        """Return this prior with what its base learns from data."""
        learn: Any = getattr(self.base, "learned", None)
        return self if learn is None else replace(self, base=learn(space, data))


def _without_conditions(space: Space) -> Space:
    """Return the space without its conditions; what is computed stays as it is."""
    computed = {one.name for one in space.computed}
    features = tuple(replace(f, mutable=False) if f.name in computed else f for f in space.features)
    return replace(space, features=features, constraints=(), computed=())


def _independent(located: LocatedPrior) -> bool:
    return all(getattr(part, "factor", np.zeros(1)).ndim == 1 for part in located.parts)


def _add_spike(part: Part, origin: Array, change: float) -> Part:
    """Return the part with the row's own value given the probability ``1 - change``."""
    if isinstance(part, WholeSteps):
        own = part.values == origin[0]
        # the others share what is left, in proportion
        price = part.price.copy()
        price[~own] += log_total(-part.price[~own]) - np.log(change)
        price[own] = -np.log1p(-change)
        return replace(part, price=price - price[own])
    if isinstance(part, Blank) and part.missing_now:
        return replace(part, move=change)
    return Spiked(part, origin, change)
