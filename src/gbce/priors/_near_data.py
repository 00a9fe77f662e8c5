"""Closeness to data: a prior times a power of the density of rows that exist."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gbce._validation import require_counts, require_finite
from gbce.base import Array, Prior
from gbce.priors._gaussian import Gaussian
from gbce.priors._located import LocatedPrior
from gbce.space import Feature, Places, Space

__all__ = ["NearData"]

_SEED = 20_002  # any number, but fixed: the density is part of the prior, whatever seed the user gives
_WIDTHS = np.geomspace(0.05, 2.0, 16)  # tried, in units of each feature's scale: neighbours differ by 28%; by hand
_FEWEST_ROWS = 3  # so that leaving one out leaves more than one
_BLOCK_CELLS = 200_000  # of a block of distances: 1.6 MB, which stays in the processor's cache


@dataclass(frozen=True)
class Density:
    """A kernel estimate on embedded rows: Gaussian in numbers, a step down for another level of a category.

    The kernel is one at its peak, so that no log density is above zero.
    """

    points: Places
    width: float

    @classmethod
    def of(cls, points: Places, features: Sequence[Feature]) -> "Density":
        """Choose the width under which rows that were left out are most probable."""
        n = len(points)
        squares = _squares(points, points)
        np.fill_diagonal(squares, np.inf)
        scores = [
            (_log_sum(squares.copy(), -0.5 / h**2) - np.log(n - 1)).mean() - _log_volume(features, h) for h in _WIDTHS
        ]
        return cls(points, float(_WIDTHS[int(np.argmax(scores))]))

    def log(self, u: Places) -> Array:
        """Log density ``(m,)`` of embedded rows, against the highest there can be."""
        block = max(1, _BLOCK_CELLS // len(self.points))
        parts = [
            _log_sum(_squares(u.take(slice(i, i + block)), self.points), -0.5 / self.width**2)
            for i in range(0, len(u), block)
        ]
        return np.concatenate(parts) - np.log(len(self.points)) if parts else np.zeros(0)


@dataclass(frozen=True)
class NearData:
    """``base`` times ``p_D(x)**strength``: stay where data are, the paper's ``p(x | D)``.

    ``p_D`` is a kernel density estimate of the explainer's data in units of each feature's scale, over numbers and
    categories alike; its width is the one under which rows that are left out are most probable.

    Parameters
    ----------
    base : prior, optional
        ``Gaussian()`` when left out.
    strength : float
        Zero is the base alone.
    max_rows : int
        Rows of the data that are used, picked at random.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(300, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, prior=NearData(gbce.Gaussian(), strength=1.0))
    >>> explainer.explain([0.0, 0.0], gbce.AtLeast(2), rules=[], seed=0).status
    'attainable'
    """

    base: Prior | None = None
    strength: float = 1.0
    max_rows: int = 1_000  # the time of every density grows with it; chosen by hand
    density: Density | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_finite(self, "strength")
        require_counts(self, "max_rows")
        if self.strength < 0:
            raise ValueError(f"NearData: strength must be zero or more, not {self.strength!r}")
        if self.base is not None and not hasattr(self.base, "at"):
            raise TypeError(f"NearData: base must be a prior such as gbce.Gaussian(), not {self.base!r}")

    def learned(self, space: Space, data: Array) -> "NearData":
        """Return this prior with the density of data ``(n, d)``."""
        base: Any = Gaussian() if self.base is None else self.base
        base = base.learned(space, data) if hasattr(base, "learned") else base
        if len(data) < _FEWEST_ROWS:
            raise ValueError(f"NearData: needs at least three rows of data, not {len(data)}")
        some = data
        if len(data) > self.max_rows:
            some = data[np.random.default_rng(_SEED).choice(len(data), self.max_rows, replace=False)]
        return replace(self, base=base, density=Density.of(space.embed(some), space.features))

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the law at the row ``x0``."""
        base = Gaussian() if self.base is None else self.base
        located = base.at(space, x0)
        density, strength = self.density, self.strength
        if density is None:
            raise ValueError("NearData has seen no data yet; give it to gbce.Explainer(..., prior=...)")
        if strength == 0:
            return located

        def away(x: Array) -> Array:
            return -strength * density.log(space.embed(x))

        return replace(located, terms=(*located.terms, away))


def _log_sum(squares: Array, factor: float) -> Array:
    """Log of the sum ``(n,)`` of ``exp(factor * squares)`` ``(n, m)`` for a factor below zero; overwrites them."""
    least = squares.min(axis=1)
    squares -= least[:, None]
    squares *= factor
    return np.log(np.exp(squares, out=squares).sum(axis=1)) + factor * least


def _squares(a: Places, b: Places) -> Array:
    """Squared distances ``(n, m)`` by one product."""
    one, other = a.axes, b.axes
    squares = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1) - 2.0 * one @ other.T
    return np.maximum(squares, 0.0) + a.level_squares(b)


def _log_volume(features: Sequence[Feature], h: float) -> float:
    """Log of what a kernel of this width adds up to over all rows, up to a constant."""
    total = 0.0
    for feature in features:
        if feature.unordered:
            levels = len(feature.levels or ())
            total += float(np.log1p((levels - 1) * np.exp(-0.5 / (feature.scale * h) ** 2)))
        else:
            total += float(np.log(h))
    return total
