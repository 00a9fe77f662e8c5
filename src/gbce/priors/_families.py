"""The prior families: Gaussian (the paper's own), Laplace, sparse (spike and slab), and closeness to data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gbce._numerics import CACHE_CELLS, ROUNDING, log_total
from gbce._validation import is_number, require_counts, require_finite
from gbce.base import Array, Prior
from gbce.priors._assemble import Categories, Chained, assemble
from gbce.priors._distributions import LAPLACE, NORMAL, log_mass
from gbce.priors._located import LocatedPrior, per_feature, require_width
from gbce.priors._parts import FiniteValues, MaybeMissing, Part, Spiked
from gbce.space import Feature, Places, Space

_ASYMMETRY, _ASYMMETRY_NEAR_ZERO = 1e-8, 1e-12  # of a covariance, relative and absolute: less is rounding
SHRINKAGE = 0.05  # of estimated correlations towards zero, which keeps the matrix invertible; chosen by hand
_MOST_LIKELY = 0.5  # largest probability of a change where features are few: then it is as likely as none
_SEED = 20_002  # any number, but fixed: the density is part of the prior and must not depend on the user's seed
_WIDTHS = np.geomspace(0.05, 2.0, 16)  # candidates, in units of each feature's scale: neighbours differ by 28%; by hand
_FEWEST_ROWS = 3  # so that leaving one out leaves more than one

# --- Gaussian --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gaussian:
    """Normal distribution around the row, truncated to the space: ``d(row, x) = |x - row|**2 / (2 sigma**2)``.

    Integers and ordinals have the same cost at their own values. A change of a category costs one unit, and goes to a
    level in proportion to its frequency.

    Parameters
    ----------
    sigma : float, sequence or mapping
        Standard deviation in units of each feature's scale; one number, one per feature, or by name.
    cov : array of shape (d, d) or "data", optional
        Covariance in those units instead, for correlated changes; ``"data"`` takes the correlations of the explainer's
        data. Immutable features are conditioned on; categories are independent.
    categories : {"frequency", "uniform"}
        Whether new levels of a category are drawn by their frequency in the data or uniformly.

    Examples
    --------
    >>> space = Space.real(2)
    >>> placed = Gaussian(0.5).at(space, np.zeros(2)).place(np.array([[1.0, -2.0]]))
    >>> placed.x, placed.cost
    (array([[ 0.5, -1. ]]), array([2.5]))
    """

    sigma: float | Sequence[float] | Mapping[str, float] = 1.0
    cov: Array | Literal["data"] | None = None
    categories: Categories = "frequency"

    def __post_init__(self) -> None:
        require_categories(self.categories, "Gaussian")

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the prior at the row ``x0``."""
        if self.cov is None:
            sigma = per_feature(self.sigma, space, "Gaussian: sigma")
            return assemble(space, x0, NORMAL, sigma, categories=self.categories)
        factor = np.linalg.cholesky(self._read_covariance(space))
        return assemble(space, x0, NORMAL, np.ones(len(space)), categories=self.categories, factor=factor)

    def learned(self, space: Space, data: Array) -> "Gaussian":
        """Return this prior with the correlations of data ``(n, d)`` if ``cov="data"``."""
        if not isinstance(self.cov, str):
            return self
        if self.cov != "data":
            raise ValueError(f"Gaussian: cov must be an array or 'data', not {self.cov!r}")
        numeric = np.array([not feature.unordered for feature in space.features])
        known = data[~np.isnan(data[:, numeric]).any(axis=1)]
        if len(known) <= numeric.sum():
            raise ValueError(
                "Gaussian: cov='data' needs more rows without missing values than there are numbers in one"
            )
        correlation, where = np.eye(len(space)), np.flatnonzero(numeric)
        spread = known[:, where].std(axis=0)
        offset = (known[:, where] - known[:, where].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        found = offset.T @ offset / len(known)
        found = (1 - SHRINKAGE) * found + SHRINKAGE * np.eye(len(where))
        np.fill_diagonal(found, 1.0)
        correlation[np.ix_(where, where)] = found
        sigma = per_feature(self.sigma, space, "Gaussian: sigma")
        return replace(self, sigma=1.0, cov=correlation * np.outer(sigma, sigma))

    def _read_covariance(self, space: Space) -> Array:
        """Check ``cov`` and return it in the features' own units."""
        if isinstance(self.cov, str):
            raise ValueError("Gaussian: cov='data' has no data yet; pass the prior to gbce.Explainer(..., prior=...)")
        if not (isinstance(self.sigma, float) and self.sigma == 1.0):
            raise ValueError("Gaussian: give sigma or cov, not both")
        try:
            cov, d = np.asarray(self.cov, dtype=float), len(space)
        except (TypeError, ValueError):
            raise ValueError(f"Gaussian: cov must be an array of numbers, not {self.cov!r}") from None
        if cov.shape != (d, d):
            raise ValueError(f"Gaussian: cov must have shape ({d}, {d}), one row per feature, not {cov.shape}")
        if not np.isfinite(cov).all() or not np.allclose(cov, cov.T, rtol=_ASYMMETRY, atol=_ASYMMETRY_NEAR_ZERO):
            raise ValueError("Gaussian: cov must be finite and symmetric")
        sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
        # checked on the correlations, whose eigenvalues do not depend on units; a zero appears as a rounding error
        if not (sd > 0).all() or np.linalg.eigvalsh(cov / np.outer(sd, sd))[0] <= ROUNDING:
            raise ValueError("Gaussian: cov must be positive definite, but it has an eigenvalue of zero or less")
        require_width(sd, "Gaussian: the root of cov's diagonal")
        return cov * np.outer(space.scale, space.scale)


def require_categories(categories: str, what: str) -> None:
    """Check the option ``categories``."""
    if categories not in ("frequency", "uniform"):
        raise ValueError(f"{what}: categories must be 'frequency' or 'uniform', not {categories!r}")


# --- Laplace ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Laplace:
    """Laplace distribution around the row, truncated to the space: ``d(row, x) = sum |x_j - row_j| / b``.

    Parameters
    ----------
    b : float, sequence or mapping
        Mean absolute change in units of each feature's scale; one number, one per feature, or by name.
    categories : {"frequency", "uniform"}
        Whether new levels of a category are drawn by their frequency in the data or uniformly.

    Examples
    --------
    >>> import numpy as np
    >>> placed = Laplace(2.0).at(Space.real(1), np.zeros(1)).place(np.array([[0.0], [1.0]]))
    >>> placed.x.round(3).ravel()
    array([0.   , 2.296])
    """

    b: float | Sequence[float] | Mapping[str, float] = 1.0
    categories: Categories = "frequency"

    def __post_init__(self) -> None:
        require_categories(self.categories, "Laplace")

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the prior at the row ``x0``."""
        return assemble(space, x0, LAPLACE, per_feature(self.b, space, "Laplace: b"), categories=self.categories)


# --- sparse ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sparse:
    """Spike and slab: each feature changes with probability ``change``, drawn from ``base``, and else stays the same.

    For a frame, ``Sparse(moves=3)`` is the default prior of an explainer.

    Densities of points with different numbers of changed features cannot be compared; so under this prior
    :class:`gbce.MAP` returns the best point for each number of changes.

    Parameters
    ----------
    base : Gaussian or Laplace, optional
        Distribution of the changes; a Gaussian without ``cov``, or a Laplace. ``Gaussian()`` when left out.
    change : float
        Probability that a feature changes.
    moves : float, optional
        Expected number of changed features, instead of ``change``: each of the ``m`` that can change does so with
        probability ``moves / m``, at most one half.

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
        """Place the prior at the row ``x0``."""
        base = Gaussian() if self.base is None else self.base
        # constraints are checked on every candidate instead: most features stay, so that most candidates satisfy them
        located = base.at(_drop_constraints(space), x0)
        if located.distance is not None or located.terms or located.spikes or not _is_independent(located):
            raise ValueError(
                "Sparse: base must move each feature independently: a gbce.Gaussian without cov, or a gbce.Laplace"
            )
        change = self.change if self.moves is None else min(self.moves / len(located.free), _MOST_LIKELY)
        parts = tuple(_add_spike(part, x0[part.where], change) for part in located.parts)
        return LocatedPrior(space, x0, parts, spikes=True)

    def learned(self, space: Space, data: Array) -> "Sparse":
        """Return this prior with its base fitted to data."""
        learn: Any = getattr(self.base, "learned", None)
        return self if learn is None else replace(self, base=learn(space, data))


def _drop_constraints(space: Space) -> Space:
    """Return the space without constraints, computed features held fixed."""
    computed = {one.name for one in space.computed}
    features = tuple(replace(f, mutable=False) if f.name in computed else f for f in space.features)
    return replace(space, features=features, constraints=(), computed=())


def _is_independent(located: LocatedPrior) -> bool:
    """Whether all features are drawn independently."""
    return all(getattr(part, "factor", np.zeros(1)).ndim == 1 for part in located.parts)


def _add_spike(part: Part, origin: Array, change: float) -> Part:
    """Return the part with probability ``1 - change`` on the row's own value."""
    if isinstance(part, FiniteValues):
        own = part.values == origin[0]
        # the other values share the rest in proportion
        price = part.price.copy()
        price[~own] += log_total(-part.price[~own]) - np.log(change)
        price[own] = -np.log1p(-change)
        return replace(part, price=price - price[own])
    if isinstance(part, MaybeMissing) and part.missing_now:
        return replace(part, move=change)
    if isinstance(part, MaybeMissing) and (own_mass := _mass_of_own(part.inner, origin)) > 0:
        # missing and the other values share the probability of a change in proportion
        missing = change * part.move / (part.move + (1.0 - part.move) * (1.0 - own_mass))
        inner = _add_spike(part.inner, origin, (change - missing) / (1.0 - missing))
        return replace(part, inner=inner, move=missing)
    return Spiked(part, origin, change / (1.0 - _mass_of_own(part, origin)))


def _mass_of_own(part: Part, origin: Array) -> float:
    """Return the probability of the row's own value in a part of one feature, where a draw is no change."""
    if isinstance(part, FiniteValues):
        return float(np.exp(-part.price[part.values == origin[0]] - log_total(-part.price)).sum())
    if not (isinstance(part, Chained) and len(part.where) == 1 and part.is_integer[0]):
        return 0.0
    scale = float(part.factor.ravel()[0])
    ends = [(part.low - 0.5 - part.origin) / scale, (part.high + 0.5 - part.origin) / scale]
    half = np.full(1, 0.5 / scale)
    own = log_mass(part.distribution, np.maximum(-half, ends[0]), np.minimum(half, ends[1]))
    return float(np.exp(own - log_mass(part.distribution, *ends))[0])


# --- closeness to data -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Density:
    """A Gaussian kernel density estimate on embedded rows; the kernel's peak is one, so no log density exceeds 0."""

    points: Places
    width: float

    @classmethod
    def of(cls, points: Places, features: Sequence[Feature]) -> "Density":
        """Choose the bandwidth by leave-one-out likelihood."""
        n = len(points)
        squares = _squared_distances(points, points)
        np.fill_diagonal(squares, np.inf)
        scores = [
            (_log_sum_kernel(squares.copy(), -0.5 / h**2) - np.log(n - 1)).mean() - _log_volume(features, h)
            for h in _WIDTHS
        ]
        return cls(points, float(_WIDTHS[int(np.argmax(scores))]))

    def log(self, u: Places) -> Array:
        """Return the log density ``(m,)`` at embedded rows, relative to its largest possible value."""
        block = max(1, CACHE_CELLS // len(self.points))
        parts = [
            _log_sum_kernel(_squared_distances(u.take(slice(i, i + block)), self.points), -0.5 / self.width**2)
            for i in range(0, len(u), block)
        ]
        return np.concatenate(parts) - np.log(len(self.points)) if parts else np.zeros(0)


@dataclass(frozen=True)
class NearData:
    """``base`` times ``p_D(x)**strength``: stay close to the data, the paper's ``p(x | D)``.

    ``p_D`` is a kernel density estimate of the explainer's data in units of each feature's scale, for numbers and
    categories alike; its bandwidth is chosen by leave-one-out likelihood.

    Parameters
    ----------
    base : prior, optional
        ``Gaussian()`` when left out.
    strength : float
        Exponent of the density; zero is the base alone.
    max_rows : int
        Largest number of rows of the data that are used, picked at random.

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
    max_rows: int = 1_000  # the time of every evaluation grows with it; chosen by hand
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
        if len(data) > self.max_rows:
            data = data[np.random.default_rng(_SEED).choice(len(data), self.max_rows, replace=False)]
        return replace(self, base=base, density=Density.of(space.embed(data), space.features))

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the prior at the row ``x0``."""
        base = Gaussian() if self.base is None else self.base
        located = base.at(space, x0)
        density, strength = self.density, self.strength
        if density is None:
            raise ValueError("NearData has no data yet; pass it to gbce.Explainer(..., prior=...)")
        if strength == 0:
            return located

        def density_cost(x: Array) -> Array:
            return -strength * density.log(space.embed(x))

        return replace(located, terms=(*located.terms, density_cost))


def _log_sum_kernel(squares: Array, factor: float) -> Array:
    """Compute ``log(sum(exp(factor * squares)))`` of ``(n, m)`` along rows, factor negative; overwrites squares."""
    least = squares.min(axis=1)
    squares -= least[:, None]
    squares *= factor
    return np.log(np.exp(squares, out=squares).sum(axis=1)) + factor * least


def _squared_distances(a: Places, b: Places) -> Array:
    """Compute squared distances ``(n, m)`` by one matrix product."""
    one, other = a.axes, b.axes
    squares = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1) - 2.0 * one @ other.T
    return np.maximum(squares, 0.0) + a.level_squares(b)


def _log_volume(features: Sequence[Feature], h: float) -> float:
    """Compute the log of the kernel's integral over all rows, up to a constant."""
    total = 0.0
    for feature in features:
        if feature.unordered:
            levels = len(feature.levels or ())
            total += float(np.log1p((levels - 1) * np.exp(-0.5 / (feature.scale * h) ** 2)))
        else:
            total += float(np.log(h))
    return total
