"""A prior that moves every column by itself, seen column by column: atoms, a continuous law, and missing values."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from gbce.base import Array, Prior
from gbce.priors._assemble import Chained
from gbce.priors._distributions import KNOWN_DISTRIBUTIONS, NORMAL, Distribution, draw_within, log_mass, measure
from gbce.priors._located import LocatedPrior
from gbce.priors._parts import IntegerSteps, MaybeMissing, Part, Reals, Spiked
from gbce.space import Effort, Feature, Space, effort_cost

__all__ = ["ColumnCells", "ColumnDistribution", "WithEffort", "column_distributions"]

# --- a prior that moves every column by itself, seen column by column ------------------------------------------------

_MOST_WHOLE = 2_000_000  # values of a whole number that are written out one by one: 50 MB; chosen by hand


@dataclass(frozen=True, eq=False)
class ColumnDistribution:
    """The law of one column: values with a probability of their own, a continuous law beside them, and missing.

    Parameters
    ----------
    where : int
        Position of the feature.
    values : array of shape (a,)
        With a probability of their own.
    log_values : array of shape (a,)
        Logs of these.
    log_slab : float
        Log probability of the continuous law; minus infinity where there is none.
    law : Law, optional
        Of its standard moves.
    origin, scale, low, high : float
        What it moves from, its deviation, and its limits.
    log_missing : float
        Log probability of a missing value.

    Examples
    --------
    >>> import gbce
    >>> placed = gbce.Sparse(change=0.25).at(gbce.Space.real(1), np.zeros(1))
    >>> cells = column_distributions(placed)[0].on(np.array([0.0]))  # zero or less, and more
    >>> np.exp(cells.log_mass).round(3)
    array([0.875, 0.125])
    """

    where: int
    values: Array
    log_values: Array
    log_slab: float = -np.inf
    distribution: Distribution | None = None
    origin: float = 0.0
    scale: float = 1.0
    low: float = -np.inf
    high: float = np.inf
    log_missing: float = -np.inf

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value that it gives."""
        if self.distribution is not None:
            return self.low, self.high
        possible = self.values[np.isfinite(self.log_values)]
        return float(possible.min()), float(possible.max())

    def on(self, edges: Array) -> "ColumnCells":
        """Part it into cells: a value lies in the first whose edge, of ``(k,)`` rising ones, is not below it.

        There are ``k + 1`` cells, and one more for missing values where they occur.
        """
        n = len(edges) + 1
        owner = np.searchsorted(edges, self.values, side="left")
        bottom, top = np.append(-np.inf, edges), np.append(edges, np.inf)
        slab, moments = np.full(n, -np.inf), np.zeros((3, n))
        if self.distribution is not None:
            lowest, highest = ((end - self.origin) / self.scale for end in (self.low, self.high))
            whole = measure(self.distribution, np.array([lowest]), np.array([highest])).log_mass[0]
            inside = measure(self.distribution, *self.standardise(bottom, top))
            slab = self.log_slab + inside.log_mass - whole
            moments = np.array([inside.mean * self.scale, inside.square * self.scale**2, inside.size * self.scale])
        atoms = np.full(n, -np.inf)
        np.logaddexp.at(atoms, owner, self.log_values)
        log_mass = np.logaddexp(slab, atoms)
        if np.isfinite(self.log_missing):
            log_mass = np.append(log_mass, self.log_missing)
        return ColumnCells(self, edges, log_mass, owner, atoms, slab, moments)

    def standardise(self, bottom: Array, top: Array) -> tuple[Array, Array]:
        """Return stretches ``(n,)`` as far as they lie within the limits, in standard moves."""
        low, high = np.clip(bottom, self.low, self.high), np.clip(top, self.low, self.high)
        return (low - self.origin) / self.scale, (high - self.origin) / self.scale

    def scaled(self, log_share: float) -> "ColumnDistribution":
        """Return the law with its probabilities times a share: a part of another one."""
        return replace(
            self,
            log_values=self.log_values + log_share,
            log_slab=self.log_slab + log_share,
            log_missing=self.log_missing + log_share,
        )


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """A column's law in ``n`` cells, the last for missing values where they occur.

    Parameters
    ----------
    law : ColumnDistribution
        The law.
    edges : array of shape (k,)
        Between the cells.
    log_mass : array of shape (n,)
        Log probability of each cell.
    owner : int array of shape (a,)
        Cells of the values with a probability of their own.
    log_atoms, log_slab : arrays of shape (k + 1,)
        Log probabilities of these values in each cell, and of the continuous law.
    moments : array of shape (3, k + 1)
        Of the continuous law's moves in each cell: mean, mean square, mean size.
    """

    distribution: ColumnDistribution
    edges: Array
    log_mass: Array
    owner: Array
    log_atoms: Array
    log_slab: Array
    moments: Array

    @property
    def n_known(self) -> int:
        """Number of cells of known values."""
        return len(self.edges) + 1

    def shares(self, masses: Array) -> tuple[Array, Array, float]:
        """Part probabilities of cells ``(n,)``: of each value ``(a,)``, of the continuous law by cell, of missing."""
        with np.errstate(invalid="ignore"):
            values = masses[self.owner] * np.exp(self.distribution.log_values - self.log_mass[self.owner])
            slab = masses[: self.n_known] * np.exp(self.log_slab - self.log_mass[: self.n_known])
        gone = float(masses[self.n_known]) if len(masses) > self.n_known else 0.0
        return np.nan_to_num(values), np.nan_to_num(slab), gone

    def mean_change(self, masses: Array, feature: Feature, now: float) -> float:
        """Mean size of the change from ``now`` under probabilities ``(n,)`` of the cells; see :meth:`Space.change`."""
        values, slab, gone = self.shares(masses)
        one = 1.0 if feature.unordered else feature.scale
        if np.isnan(now):
            return one * float(values.sum() + slab.sum())
        size = (self.distribution.values != now) if feature.unordered else np.abs(self.distribution.values - now)
        return float(values @ size + slab @ self.moments[2] + one * gone)

    def variance(self, masses: Array, feature: Feature) -> float:
        """Variance on all axes of the feature, see :meth:`Space.embed`, under probabilities ``(n,)`` of the cells."""
        values, slab, gone = self.shares(masses)
        levels = len(feature.levels or ())
        own = gone * (1.0 - gone) if feature.missing is not None else 0.0
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
        mean = float(values @ moves + slab @ self.moments[0] + gone * (centre - start))
        square = float(values @ np.square(moves) + slab @ self.moments[1] + gone * (centre - start) ** 2)
        return own + max(square - mean**2, 0.0) / feature.scale**2

    def likeliest(self) -> Array:
        """Return in each cell ``(n,)`` the value of the highest probability, or density where none has one.

        NaN stands for missing, and for a cell without values.
        """
        distribution, found = self.distribution, np.full(len(self.log_mass), np.nan)
        if distribution.distribution is not None:
            with np.errstate(over="ignore"):
                bottom = np.maximum(np.append(-np.inf, np.nextafter(self.edges, np.inf)), distribution.low)
            top = np.minimum(np.append(self.edges, np.inf), distribution.high)
            nearest = np.clip(distribution.origin, bottom, np.maximum(bottom, top))
            found[: self.n_known] = np.where((bottom <= top) & np.isfinite(self.log_slab), nearest, np.nan)
        order = np.argsort(distribution.log_values, kind="stable")  # the most probable last, which stays
        order = order[np.isfinite(distribution.log_values[order])]
        found[self.owner[order]] = distribution.values[order]
        return found

    def draw(self, rng: np.random.Generator, cells: Array) -> Array:
        """Draw a value in each of the cells ``(m,)``, which must have mass, from the law given the cell."""
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
        distribution = self.distribution
        bottom, top = np.append(-np.inf, self.edges)[cells], np.append(self.edges, np.inf)[cells]
        standard = NORMAL if distribution.distribution is None else distribution.distribution
        move = draw_within(standard, *distribution.standardise(bottom, top), u, side)
        least = np.maximum(np.nextafter(bottom, np.inf), distribution.low)
        return np.clip(distribution.origin + distribution.scale * move, least, np.minimum(top, distribution.high))


def column_distributions(prior: LocatedPrior) -> tuple[ColumnDistribution, ...]:
    """Return the laws of the columns that can move, in the order of ``prior.free``; or say why there are none.

    Raises
    ------
    ValueError
        Where columns do not move independently of each other; the message is a part of a sentence that says why.
    """
    if not isinstance(prior, LocatedPrior):
        raise ValueError("the prior is not made of parts that are known, one for each column")
    if prior.distance is not None:
        raise ValueError("the prior is a distance over all columns together (gbce.DistancePrior)")
    if prior.terms:
        raise ValueError("the prior weighs all columns together (gbce.NearData)")
    if prior.conditional:
        raise ValueError("constraints or computed columns tie columns together")
    distributions = [_distribution_of(part, i) for part in prior.parts for i in range(len(part.where))]
    return tuple(sorted(distributions, key=lambda distribution: distribution.where))


def _distribution_of(part: Part, i: int, *, rounded: bool = False) -> ColumnDistribution:
    """Return the law of the ``i``-th feature of a part; ``rounded`` if whole steps are cells of a continuous law."""
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
    if isinstance(part, IntegerSteps):
        return ColumnDistribution(where, part.values, -part.price - logsumexp(-part.price))
    if isinstance(part, Spiked):
        inner = _distribution_of(part.inner, i, rounded=True).scaled(float(np.log(part.change)))
        spike = float(np.log1p(-part.change))
        return replace(
            inner, values=np.append(inner.values, part.origin[i]), log_values=np.append(inner.log_values, spike)
        )
    if isinstance(part, MaybeMissing):
        known = part.move if part.missing_now else 1.0 - part.move
        inner = _distribution_of(part.inner, i, rounded=rounded).scaled(float(np.log(known)))
        return replace(inner, log_missing=float(np.log1p(-known)))
    if isinstance(part, Chained) and len(part.where) == 1 and part.whole[0] and not len(part.room):
        return _integer_distribution(part, rounded)
    if isinstance(part, (Chained, Reals)):
        raise ValueError("the prior moves columns together (correlated, or by a law of another form)")
    raise ValueError(f"the prior has a part of its own ({type(part).__name__}) whose cells are not known")


def _integer_distribution(part: Chained, rounded: bool) -> ColumnDistribution:
    """Write out a whole number with very many values."""
    origin, scale = float(part.origin[0]), float(part.factor.ravel()[0])  # of one column, however it was given
    reach = np.ceil(part.distribution.farthest * scale) + 1.0
    low, high = max(float(part.low[0]), origin - reach), min(float(part.high[0]), origin + reach)
    if high - low > _MOST_WHOLE:
        raise ValueError("a whole number has too many values")
    values = origin + np.arange(np.ceil(low - origin), np.floor(high - origin) + 1)
    t, half = (values - origin) / scale, 0.5 / scale
    log_values = log_mass(part.distribution, t - half, t + half) if rounded else -part.distribution.cost(t)
    return ColumnDistribution(int(part.where[0]), values, log_values - logsumexp(log_values))


# --- a prior under which some columns are harder to change than others -----------------------------------------------


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
