"""Marginal distributions of a prior whose columns are independent: atoms, a continuous component, missing values.

Each can be partitioned into cells, with probabilities, moments and draws within a cell. Also the prior with effort
factors on columns.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from gbce.base import Array, Prior
from gbce.priors._assemble import Chained
from gbce.priors._distributions import (
    KNOWN_DISTRIBUTIONS,
    NORMAL,
    Distribution,
    draw_within,
    interval_moments,
    log_mass,
)
from gbce.priors._located import LocatedPrior
from gbce.priors._parts import FiniteValues, MaybeMissing, Part, Reals, Spiked
from gbce.space import Effort, Feature, Space, effort_cost

_MOST_ENUMERATED = 2_000_000  # values of an integer that are enumerated: 50 MB; chosen by hand

# --- independent columns ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ColumnDistribution:
    """The distribution of one column: atoms, a continuous component (slab), and missing values."""

    where: int  # position of the feature
    values: Array  # atoms (a,)
    log_values: Array  # log probabilities (a,) of the atoms
    log_slab: float = -np.inf  # log probability of the slab
    distribution: Distribution | None = None  # of the slab, standardised by origin and scale
    origin: float = 0.0
    scale: float = 1.0
    low: float = -np.inf  # limits of the slab
    high: float = np.inf
    log_missing: float = -np.inf  # log probability of a missing value

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value of its support."""
        if self.distribution is not None:
            return self.low, self.high
        possible = self.values[np.isfinite(self.log_values)]
        return float(possible.min()), float(possible.max())

    def on(self, edges: Array) -> "ColumnCells":
        """Partition it into ``k + 1`` cells at ascending ``edges`` ``(k,)``, each the upper end of its cell (included).

        One more cell is for missing values, where they occur.
        """
        n = len(edges) + 1
        owner = np.searchsorted(edges, self.values, side="left")
        bottom, top = np.append(-np.inf, edges), np.append(edges, np.inf)
        slab, moments = np.full(n, -np.inf), np.zeros((3, n))
        if self.distribution is not None:
            lowest, highest = ((end - self.origin) / self.scale for end in (self.low, self.high))
            whole = interval_moments(self.distribution, np.array([lowest]), np.array([highest])).log_mass[0]
            inside = interval_moments(self.distribution, *self.standardise(bottom, top))
            slab = self.log_slab + inside.log_mass - whole
            moments = np.array([inside.mean * self.scale, inside.square * self.scale**2, inside.size * self.scale])
        atoms = np.full(n, -np.inf)
        np.logaddexp.at(atoms, owner, self.log_values)
        log_mass = np.logaddexp(slab, atoms)
        if np.isfinite(self.log_missing):
            log_mass = np.append(log_mass, self.log_missing)
        return ColumnCells(self, edges, log_mass, owner, atoms, slab, moments)

    def standardise(self, bottom: Array, top: Array) -> tuple[Array, Array]:
        """Clip intervals ``(n,)`` to the limits and standardise them."""
        low, high = np.clip(bottom, self.low, self.high), np.clip(top, self.low, self.high)
        return (low - self.origin) / self.scale, (high - self.origin) / self.scale

    def scaled(self, log_share: float) -> "ColumnDistribution":
        """Return it with all probabilities multiplied by a share, as a component of a mixture."""
        return replace(
            self,
            log_values=self.log_values + log_share,
            log_slab=self.log_slab + log_share,
            log_missing=self.log_missing + log_share,
        )


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """A column's distribution in ``n`` cells, the last for missing values where they occur."""

    distribution: ColumnDistribution
    edges: Array  # between the cells (k,)
    log_mass: Array  # log probability of each cell (n,)
    owner: Array  # cell of each atom (a,)
    log_atoms: Array  # log probability of the atoms in each cell (k + 1,)
    log_slab: Array  # log probability of the slab in each cell (k + 1,)
    moments: Array  # conditional mean, mean square and mean size of the slab's moves in each cell (3, k + 1)

    @property
    def n_known(self) -> int:
        """Number of cells of known values."""
        return len(self.edges) + 1

    def shares(self, masses: Array) -> tuple[Array, Array, float]:
        """Split probabilities of cells ``(n,)`` into those of atoms ``(a,)``, of the slab by cell, and of missing."""
        with np.errstate(invalid="ignore"):
            values = masses[self.owner] * np.exp(self.distribution.log_values - self.log_mass[self.owner])
            slab = masses[: self.n_known] * np.exp(self.log_slab - self.log_mass[: self.n_known])
        missing = float(masses[self.n_known]) if len(masses) > self.n_known else 0.0
        return np.nan_to_num(values), np.nan_to_num(slab), missing

    def mean_change(self, masses: Array, feature: Feature, now: float) -> float:
        """Return the mean size of the change from ``now`` given probabilities ``(n,)`` of the cells."""
        values, slab, missing = self.shares(masses)
        one = 1.0 if feature.unordered else feature.scale
        if np.isnan(now):
            return one * float(values.sum() + slab.sum())
        size = (self.distribution.values != now) if feature.unordered else np.abs(self.distribution.values - now)
        return float(values @ size + slab @ self.moments[2] + one * missing)

    def variance(self, masses: Array, feature: Feature) -> float:
        """Return the variance over the axes of the embedded feature given probabilities ``(n,)`` of the cells."""
        values, slab, missing = self.shares(masses)
        levels = len(feature.levels or ())
        own = missing * (1.0 - missing) if feature.missing is not None else 0.0
        if feature.unordered and levels > 2:
            share = np.bincount(self.distribution.values.astype(int), weights=values, minlength=levels)
            return own + float((share * (1.0 - share)).sum()) / (2.0 * feature.scale**2)
        start = (
            self.distribution.origin
            if self.distribution.distribution is not None or not len(values)
            else float(self.distribution.values[0])
        )
        centre = 0.5 * (levels == 2) if feature.centre is None else feature.centre
        moves = self.distribution.values - start
        mean = float(values @ moves + slab @ self.moments[0] + missing * (centre - start))
        square = float(values @ np.square(moves) + slab @ self.moments[1] + missing * (centre - start) ** 2)
        return own + max(square - mean**2, 0.0) / feature.scale**2

    def likeliest(self) -> Array:
        """Return the mode of each cell ``(n,)``: its most probable atom, else the highest density; NaN for missing."""
        distribution, found = self.distribution, np.full(len(self.log_mass), np.nan)
        if distribution.distribution is not None:
            with np.errstate(over="ignore"):
                bottom = np.maximum(np.append(-np.inf, np.nextafter(self.edges, np.inf)), distribution.low)
            top = np.minimum(np.append(self.edges, np.inf), distribution.high)
            nearest = np.clip(distribution.origin, bottom, np.maximum(bottom, top))
            found[: self.n_known] = np.where((bottom <= top) & np.isfinite(self.log_slab), nearest, np.nan)
        order = np.argsort(distribution.log_values, kind="stable")  # the most probable last, overwriting the others
        order = order[np.isfinite(distribution.log_values[order])]
        found[self.owner[order]] = distribution.values[order]
        return found

    def draw(self, rng: np.random.Generator, cells: Array) -> Array:
        """Draw a value from each of the cells ``(m,)``, which must have mass."""
        u, side, which = rng.random((3, len(cells)))
        found = np.full(len(cells), np.nan)
        known = cells < self.n_known
        own = np.where(known, cells, 0)
        on_slab = known & (np.log(np.maximum(which, np.finfo(float).tiny)) < self.log_slab[own] - self.log_mass[own])
        if on_slab.any() and self.distribution.distribution is not None:
            found[on_slab] = self._draw_slab(cells[on_slab], u[on_slab], side[on_slab])
        on_value = known & ~on_slab
        if on_value.any():
            order = np.lexsort((self.distribution.log_values, self.owner))
            owner = self.owner[order]
            upto = np.cumsum(np.exp(self.distribution.log_values[order] - self.log_atoms[owner]))  # each cell adds one
            start = np.searchsorted(owner, cells[on_value], side="left")
            end = np.searchsorted(owner, cells[on_value], side="right") - 1
            below = np.where(start > 0, upto[start - 1], 0.0)
            place = np.searchsorted(upto, below + u[on_value] * (upto[end] - below), side="left")
            found[on_value] = self.distribution.values[order][np.clip(place, start, end)]
        return found

    def _draw_slab(self, cells: Array, u: Array, side: Array) -> Array:
        """Draw from the slab within cells ``(m,)``."""
        distribution = self.distribution
        bottom, top = np.append(-np.inf, self.edges)[cells], np.append(self.edges, np.inf)[cells]
        standard = NORMAL if distribution.distribution is None else distribution.distribution
        move = draw_within(standard, *distribution.standardise(bottom, top), u, side)
        least = np.maximum(np.nextafter(bottom, np.inf), distribution.low)
        return np.clip(distribution.origin + distribution.scale * move, least, np.minimum(top, distribution.high))


def column_distributions(prior: LocatedPrior) -> tuple[ColumnDistribution, ...]:
    """Return the distributions of the columns that can change, in the order of ``prior.free``.

    Raises ``ValueError`` if columns are not independent; the message is a clause that says why.
    """
    if not isinstance(prior, LocatedPrior):
        raise ValueError("the prior is not built from known parts, one for each column")
    if prior.distance is not None:
        raise ValueError("the prior is a distance over all columns together (gbce.DistancePrior)")
    if prior.terms:
        raise ValueError("the prior weighs all columns together (gbce.NearData)")
    if prior.conditional:
        raise ValueError("constraints or computed columns link columns")
    distributions = [_find_marginal(part, i) for part in prior.parts for i in range(len(part.where))]
    return tuple(sorted(distributions, key=lambda distribution: distribution.where))


def _find_marginal(part: Part, i: int, *, rounded: bool = False) -> ColumnDistribution:
    """Return the distribution of the ``i``-th feature of a part; ``rounded`` if integers are intervals of a slab."""
    none = np.zeros(0)
    where = int(part.where[i])
    if (
        isinstance(part, Reals)
        and part.factor.ndim == 1
        and any(part.distribution is distribution for distribution in KNOWN_DISTRIBUTIONS)
    ):
        ends = float(part.low[i]), float(part.high[i])
        return ColumnDistribution(
            where, none, none, 0.0, part.distribution, float(part.origin[i]), float(part.factor[i]), *ends
        )
    if isinstance(part, FiniteValues):
        return ColumnDistribution(where, part.values, -part.price - logsumexp(-part.price))
    if isinstance(part, Spiked):
        inner = _find_marginal(part.inner, i, rounded=True).scaled(float(np.log(part.change)))
        spike = float(np.log1p(-part.change))
        return replace(
            inner, values=np.append(inner.values, part.origin[i]), log_values=np.append(inner.log_values, spike)
        )
    if isinstance(part, MaybeMissing):
        known = part.move if part.missing_now else 1.0 - part.move
        inner = _find_marginal(part.inner, i, rounded=rounded).scaled(float(np.log(known)))
        return replace(inner, log_missing=float(np.log1p(-known)))
    if isinstance(part, Chained) and len(part.where) == 1 and part.is_integer[0] and not len(part.rhs):
        return _enumerate_integer(part, rounded)
    if isinstance(part, (Chained, Reals)):
        raise ValueError("the prior moves columns together (correlated, or by another distribution)")
    raise ValueError(f"the prior has a custom part ({type(part).__name__}) whose cells are not known")


def _enumerate_integer(part: Chained, rounded: bool) -> ColumnDistribution:
    """Enumerate an integer with very many values."""
    origin, scale = float(part.origin[0]), float(part.factor.ravel()[0])  # of one column, as scale or matrix
    reach = np.ceil(part.distribution.farthest * scale) + 1.0
    low, high = max(float(part.low[0]), origin - reach), min(float(part.high[0]), origin + reach)
    if high - low > _MOST_ENUMERATED:
        raise ValueError("an integer has too many values")
    values = origin + np.arange(np.ceil(low - origin), np.floor(high - origin) + 1)
    t, half = (values - origin) / scale, 0.5 / scale
    log_values = log_mass(part.distribution, t - half, t + half) if rounded else -part.distribution.cost(t)
    return ColumnDistribution(int(part.where[0]), values, log_values - logsumexp(log_values))


# --- effort ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WithEffort:
    """The prior ``base`` with effort factors: each unit of a column's change costs its factor instead of one."""

    base: Prior
    effort: Effort

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the prior at the row ``x0``."""
        located: LocatedPrior = self.base.at(space, x0)
        if not self.effort:
            return located
        return replace(located, terms=(*located.terms, lambda x: effort_cost(space, self.effort, x, x0)))
