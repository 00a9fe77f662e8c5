"""Proposal distributions of adaptive importance sampling: Gaussian mixtures, products of marginals, strata.

All live in the latent space, and all densities are taken against its base distribution ``N(0, I)``. Draws are weighted
by the density of the whole mixture, so that a poor fit costs effective sample size but never biases the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple
from weakref import ReferenceType, ref

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from gbce._numerics import MATRIX_UP_TO, TINY, log_sum_exp, normalise
from gbce.base import Array
from gbce.predictors import Partition
from gbce.samplers._tilts import TiltedProduct

# Strata. Poor estimates show in the weights; these numbers only decide what a draw costs.
_MOST_STRATA = 512
_MOST_POINTS = 3_000  # that a tree is fitted to
_SPLIT = 40  # columns of a wide table that it may split, those with the largest single effects: 512 leaves ask few
_IRRELEVANT = 25.0  # potential above the lowest: less than exp(-25) of the density at the mode
_FLATTER = 0.5  # power of the estimated masses for half of the draws, because estimates may be far off
_LARGEST = 1.0 - 1e-16  # below one, where the normal quantile is finite

# Normals; chosen by hand.
_MOST_PER_POINT = 0.9  # coordinates per effective point: beyond one, the correction of the spread breaks down
_LEAST_VARIANCE = 1e-8  # of a fitted direction: with none, points could not leave a plane
_MEAN_ERRORS = 2.0  # standard errors below which a coordinate of a fitted mean is set to zero
_NEGLIGIBLE = 1e-9  # of the largest weight: far fewer points are left where a posterior has little of the prior's mass

# Products of marginals; chosen by hand, as draws are weighted by their density.
_LEAST, _MOST = 1e-300, 1 - 1e-16  # probabilities with finite quantiles
_EDGES = np.linspace(-4.2, 4.2, 29)  # of histogram bins: some fit into the spike of a column that seldom changes
_KEPT_LATENT = 1 / 6  # weight of N(0, 1) in each marginal, at least, since an empty bin may have mass

_BLOCK_POINTS = 4_096  # of a mixture, whose densities are computed together: bounds memory

# --- strata -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Strata:
    """Boxes that partition the latent space, and the probability of drawing from each.

    They are the leaves of a regression tree fitted to every evaluated point, training rows included. Each box has an
    estimated posterior mass, its probability under ``N(0, I)`` times ``exp(-potential)``, and draws are truncated
    normals (recursive stratified sampling, Press and Farrar, 1990, with the strata of a fitted tree). They cover all
    regions where the model was seen to be good, whether or not a search ended there.
    """

    boxes: Partition  # the leaves of a regression tree
    columns: Array  # (c,): the coordinates that they bound
    dimension: int  # of all coordinates: the others keep ``N(0, 1)``
    log_mass: Array  # (L,): log probability of each under ``N(0, I)``
    weights: Array  # (L,): probability of drawing from each

    @classmethod
    def fit(cls, rng: np.random.Generator, parts: Sequence[Array], potential: Array) -> "Strata | None":
        """Fit to latent points, each part ``(n, m)``, and potentials; ``None`` where all are equal or irrelevant."""
        neg_log_density = potential + 0.5 * np.concatenate([square_norms(z) for z in parts])
        most = neg_log_density.min() + _IRRELEVANT
        value = np.minimum(potential, most)
        if not np.isfinite(most) or np.ptp(value) == 0:
            return None
        kept = np.arange(len(value))
        if len(kept) > _MOST_POINTS:  # half of them the best ones
            order = np.argsort(neg_log_density, kind="stable")
            half = _MOST_POINTS // 2
            kept = np.append(order[:half], rng.permutation(order[half:])[:half])
        z, value = _take_rows(parts, kept), value[kept]
        columns = _find_effective_columns(z, value)
        z = z[:, columns]
        boxes = Partition.fit(z, value, _MOST_STRATA, int(rng.integers(2**31)))
        log_mass, n = _log_normal_probability(boxes.low, boxes.high).sum(axis=1), len(boxes.low)
        leaf, least = boxes.find(z), value.min()
        mean = np.bincount(leaf, np.exp(least - value), n) / np.bincount(leaf, minlength=n)
        found = log_mass + np.log(mean)
        flat = normalise(_FLATTER * found)
        return cls(boxes, columns, parts[0].shape[1], log_mass, 0.5 * normalise(found) + 0.5 * flat)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points ``(n, m)``."""
        which = rng.choice(len(self.weights), size=n, p=self.weights)
        z = rng.standard_normal((n, self.dimension))
        low, high = self.boxes.low[which], self.boxes.high[which]
        at = np.nonzero(np.isfinite(low) | np.isfinite(high))
        z[at[0], self.columns[at[1]]] = _draw_truncated(rng, low[at], high[at])
        return z

    def log_density(self, z: Array) -> Array:
        """Return the log density ``(n,)`` against ``N(0, I)``."""
        which = self.boxes.find(z if len(self.columns) == z.shape[1] else z[:, self.columns])
        weights = self.weights[which]
        with np.errstate(divide="ignore", invalid="ignore"):  # a box too thin to have mass is never drawn from
            return np.where(weights > 0, np.log(weights) - self.log_mass[which], -np.inf)


def square_norms(z: Array) -> Array:
    """Return the squared norms ``(n,)`` of points ``(n, m)``, without an array of all squares."""
    blocks = range(0, len(z), _BLOCK_POINTS)
    return np.concatenate([np.square(z[at : at + _BLOCK_POINTS]).sum(axis=1) for at in blocks] or [np.zeros(0)])


def _take_rows(parts: Sequence[Array], index: Array) -> Array:
    """Return the rows at positions ``index`` ``(k,)`` of parts ``(n, m)`` that are counted one after the other."""
    rows, start = np.empty((len(index), parts[0].shape[1])), 0
    for part in parts:
        own = (index >= start) & (index < start + len(part))
        rows[own] = part[index[own] - start]
        start += len(part)
    return rows


def _find_effective_columns(z: Array, value: Array) -> Array:
    """Return the columns of points ``(n, m)`` that explain most of values ``(n,)`` alone, linearly or by their size.

    A tree that looks at every column takes as long for each of them, and with hundreds splits those of chance effects.
    """
    m = z.shape[1]
    if m <= MATRIX_UP_TO:
        return np.arange(m)
    rest = value - value.mean()
    effect = np.zeros(m)
    for shape in (z, np.abs(z)):
        offset = shape - shape.mean(axis=0)
        spread = np.einsum("ij,ij->j", offset, offset)
        effect = np.maximum(effect, np.square(rest @ offset) / np.maximum(spread, TINY))
    return np.sort(np.argsort(-effect, kind="stable")[:_SPLIT])


def _log_normal_probability(low: Array, high: Array) -> Array:
    """Return the log probability of ``low < z <= high`` under ``N(0, 1)``, elementwise."""
    flip = low > 0  # work in the lower tail
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = log_ndtr(b)
    with np.errstate(divide="ignore"):
        return upper + np.log(-np.expm1(np.minimum(log_ndtr(a) - upper, 0.0)))


def _draw_truncated(rng: np.random.Generator, low: Array, high: Array) -> Array:
    """Draw from ``N(0, 1)`` truncated to limits ``(n,)``."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below, up_to = ndtr(a), ndtr(b)
    z = ndtri(np.clip(below + rng.random(len(low)) * (up_to - below), np.nextafter(0, 1), _LARGEST))
    z = np.clip(z, a, b)
    return np.where(flip, -z, z)


# --- normals ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NormalComponent:
    """A normal distribution on the latent space that differs from ``N(0, I)`` in a few directions only.

    Its covariance is ``I + U diag(variance - 1) U'``. Directions in which nothing was learned keep ``N(0, 1)``, so that
    a fit to a thousand points is safe in a hundred dimensions.
    """

    mean: Array  # (m,): centre
    directions: Array  # (m, k): ``U``, orthonormal columns
    variance: Array  # (k,): along each of them

    @classmethod
    def fit(cls, z: Array, weights: Array, n: float) -> "NormalComponent":
        """Fit to weighted points ``(N, m)`` with an effective sample size of ``n``.

        Eigenvalues within the sampling spread of ``n`` points of unit variance are set to one; those beyond it are
        corrected for that spread (the spiked model of Baik, Ben Arous and Péché, 2005). Coordinates of the mean within
        its standard error of zero are set to zero.
        """
        if z.shape[1] > MATRIX_UP_TO:  # there a covariance of all points takes most of the time
            counts = weights > _NEGLIGIBLE * weights.max()
            z, weights = z[counts], weights[counts] / weights[counts].sum()
        mean = weights @ z
        offset = z - mean
        value, vector = np.linalg.eigh((offset * weights[:, None]).T @ offset)
        ratio = min(z.shape[1] / n, _MOST_PER_POINT)
        beyond = value > (1 + np.sqrt(ratio)) ** 2
        if z.shape[1] <= _MOST_PER_POINT * n:  # fewer points leave directions without any spread, which means nothing
            beyond |= value < (1 - np.sqrt(ratio)) ** 2
        seen = np.maximum(value[beyond], _LEAST_VARIANCE)
        moment = seen + 1 - ratio
        root = np.sqrt(np.maximum(np.square(moment) - 4 * seen, 0.0))
        variance = 0.5 * (moment + np.where(seen > 1, root, -root))
        error = np.sqrt(np.minimum(weights @ np.square(offset), 1.0) / n)
        mean = np.where(np.abs(mean) > _MEAN_ERRORS * error, mean, 0.0)
        return cls(mean, vector[:, beyond], np.maximum(variance, _LEAST_VARIANCE))

    def widen(self, by: float) -> "NormalComponent":
        """Return the distribution with ``by`` times the variance in every learned direction."""
        return replace(self, variance=by * self.variance)

    @property
    def dimension(self) -> int:
        """Number of latent coordinates."""
        return len(self.mean)

    def transform(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into draws."""
        return self.mean + self.noise(e)

    def noise(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into centred noise of this covariance."""
        return e + ((e @ self.directions) * (np.sqrt(self.variance) - 1)) @ self.directions.T

    def log_ratio(self, z: Array) -> Array:
        """Return the log density ``(n,)`` against ``N(0, I)``, up to a constant."""
        offset = z - self.mean
        along = np.square(offset @ self.directions) @ (1 / self.variance - 1)
        return -0.5 * (np.square(offset).sum(axis=1) + along - np.square(z).sum(axis=1))


# --- products of marginals --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ProductOfMarginals:
    """A product of histograms on the latent space, one for each coordinate.

    A posterior spread over dozens of sets of changed columns is not a mixture of few normals: fitted to some hundred
    points, these leave holes, and draws that fall there carry most of the weight. Its marginals are well estimated from
    as many points, and their product has no holes.
    """

    log_ratio: Array  # (m, bins): log density in each bin against ``N(0, 1)``

    @property
    def dimension(self) -> int:
        """Number of latent coordinates."""
        return len(self.log_ratio)

    @classmethod
    def fit(cls, z: Array, weights: Array, n: float) -> "ProductOfMarginals":
        """Fit to weighted points ``(N, m)`` of effective size ``n``, shrunk to ``N(0, 1)`` where chance explains it."""
        chance, bins = _bin_masses(), len(_EDGES) + 1
        where = _find_bins(z)
        found = np.array([np.bincount(own, weights, bins) for own in where.T])
        ratio = np.pad(found / chance, ((0, 0), (1, 1)), mode="edge")
        found = (0.25 * ratio[:, :-2] + 0.5 * ratio[:, 1:-1] + 0.25 * ratio[:, 2:]) * chance
        found /= found.sum(axis=1, keepdims=True)
        divergence = np.sum(found * np.log(np.maximum(found / chance, TINY)), axis=1)
        by_chance = 0.5 * np.sum(found > 0, axis=1) / n  # expected divergence of a histogram of N(0, 1) itself
        learned = np.clip(1.0 - by_chance / np.maximum(divergence, TINY), 0.0, 1.0 - _KEPT_LATENT)[:, None]
        return cls(np.log(learned * found / chance + (1.0 - learned)))

    def transform(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into draws."""
        chance, z = _bin_masses(), np.empty(e.shape)
        start = np.cumsum(chance) - chance
        for j, ratio in enumerate(np.exp(self.log_ratio)):
            below, u = np.cumsum(chance * ratio) - chance * ratio, ndtr(e[:, j])
            where = np.searchsorted(below[1:], u)
            z[:, j] = ndtri(np.clip(start[where] + (u - below[where]) / ratio[where], _LEAST, _MOST))
        return z

    def log_density(self, z: Array) -> Array:
        """Return the log density ``(n,)`` against ``N(0, I)``."""
        return self.log_densities(z).sum(axis=1)

    def log_densities(self, z: Array) -> Array:
        """Return the log density ``(n, m)`` of each coordinate against ``N(0, 1)``."""
        return self.log_ratio[np.arange(z.shape[1]), _find_bins(z)]


def _find_bins(z: Array) -> Array:
    """Return the histogram bin of each coordinate ``(n, m)``: edges are equally far apart."""
    bins = (z - _EDGES[0]) / (_EDGES[1] - _EDGES[0])
    np.ceil(bins, out=bins)
    return np.clip(bins, 0, len(_EDGES), out=bins).astype(np.intp)


def _bin_masses() -> Array:
    """Return the mass of ``N(0, 1)`` in each bin of a histogram."""
    return np.diff(ndtr(_EDGES), prepend=0.0, append=1.0)


# --- mixture proposals ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MixtureProposal:
    """A defensive mixture: normal, tilted, product and strata components beside ``N(0, I)``."""

    components: tuple[NormalComponent | TiltedProduct | ProductOfMarginals, ...]  # at least one normal one
    share: float  # of the components and strata together; the rest is ``N(0, I)`` itself
    weights: Array | None = None  # (k,): of the components, summing to one; equal when left out
    modes: Array | None = None  # (k,): the mode of each component, where there are modes
    strata: Strata | None = None  # the last component, whose weight is the last of ``k + 1``

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points ``(n, m)`` from components and strata."""
        if self.weights is None:
            which = rng.integers(len(self.components), size=n)
        else:
            which = rng.choice(len(self.weights), size=n, p=self.weights)
        z = rng.standard_normal((n, self.components[0].dimension))
        for k, component in enumerate(self.components):
            own = which == k
            z[own] = component.transform(z[own])
        if self.strata is not None:
            own = which == len(self.components)
            z[own] = self.strata.draw(rng, int(own.sum()))
        return z

    @property
    def strata_weight(self) -> float:
        """Weight of the strata among the components."""
        return 0.0 if self.strata is None or self.weights is None else float(self.weights[-1])

    def with_strata(self, strata: Strata | None, weight: float) -> "MixtureProposal":
        """Return the mixture with these strata, of this weight among the components, or without any."""
        k = len(self.components)
        own = np.full(k, 1.0) if self.weights is None else self.weights[:k]
        own = own / own.sum()
        if strata is None:
            return replace(self, weights=own, strata=None)
        return replace(self, weights=np.append((1.0 - weight) * own, weight), strata=strata)

    def log_component_density(self, z: Array) -> Array:
        """Return the log density ``(n,)`` of components and strata against ``N(0, I)``."""
        return log_sum_exp(self.log_component_parts(z), axis=1)

    def log_component_parts(self, z: Array) -> Array:
        """Return weighted log densities ``(n, k)`` of the components against ``N(0, I)``: cached, read-only."""
        self._cache[:] = [(seen, parts) for seen, parts in self._cache if seen() is not None]
        for seen, parts in self._cache:
            points = seen()
            if points is not None and np.array_equal(points, z):
                return parts
        equal = np.full(len(self.components), 1.0 / len(self.components))
        parts = np.empty((len(z), len(self.components) + (self.strata is not None)))
        for start in range(0, len(z), _BLOCK_POINTS):
            self._fill_log_densities(z[start : start + _BLOCK_POINTS], parts[start : start + _BLOCK_POINTS])
        parts += np.log(equal if self.weights is None else self.weights)
        parts.flags.writeable = False
        self._cache[:] = [*self._cache[-1:], (ref(z), parts)]
        return parts

    def _fill_log_densities(self, z: Array, parts: Array) -> None:
        """Write the log densities of the components and strata against ``N(0, I)`` into ``parts`` ``(n, k)``."""
        normal = np.flatnonzero([isinstance(component, NormalComponent) for component in self.components])
        parts[:, normal] = self._stacked.log_densities(z)
        for k, component in enumerate(self.components):
            if not isinstance(component, NormalComponent):
                parts[:, k] = component.log_density(z)
        if self.strata is not None:
            parts[:, -1] = self.strata.log_density(z)

    @cached_property
    def _stacked(self) -> "_StackedNormals":
        """All normal components, stacked."""
        return _StackedNormals.of([one for one in self.components if isinstance(one, NormalComponent)])

    @cached_property
    def _cache(self) -> "list[tuple[ReferenceType[Array], Array]]":
        """The last two sets of points with their densities: fitting and weighting use the same ones, which may end."""
        return []

    def log_density(self, z: Array) -> Array:
        """Return the log density ``(n,)`` of the whole mixture against ``N(0, I)``: at least ``log(1 - share)``."""
        return np.logaddexp(np.log1p(-self.share), np.log(self.share) + self.log_component_density(z))


def join_proposals(proposals: Sequence[MixtureProposal], share: float) -> MixtureProposal:
    """Return one mixture with the components of all, each proposal counting the same."""
    proposals = [proposal.with_strata(None, 0.0) for proposal in proposals]
    weights = [proposal.weights for proposal in proposals if proposal.weights is not None]
    return MixtureProposal(
        tuple(component for proposal in proposals for component in proposal.components),
        share,
        np.concatenate(weights) / len(proposals),
    )


class _StackedNormals(NamedTuple):
    """``K`` normal components stacked: means, log densities at zero, and directions with their precisions."""

    mean: Array
    level: Array
    directions: Array
    centre: Array
    narrower: Array

    @classmethod
    def of(cls, components: Sequence[NormalComponent]) -> "_StackedNormals":
        """Stack components."""
        mean = np.column_stack([component.mean for component in components])
        level = -0.5 * np.square(mean).sum(axis=0) - 0.5 * np.array(
            [np.log(component.variance).sum() for component in components]
        )
        directions = np.column_stack([component.directions for component in components])
        centre = np.concatenate([component.mean @ component.directions for component in components])
        whose = np.repeat(np.arange(len(components)), [len(component.variance) for component in components])
        narrower = np.zeros((len(whose), len(components)))
        narrower[np.arange(len(whose)), whose] = np.concatenate(
            [1 / component.variance - 1 for component in components]
        )
        return cls(mean, level, directions, centre, narrower)

    def log_densities(self, z: Array) -> Array:
        """Return the log density ``(n, K)`` of each component against ``N(0, I)``."""
        densities = z @ self.mean + self.level
        for start in range(0, len(z), _BLOCK_POINTS):
            some = slice(start, start + _BLOCK_POINTS)
            along = z[some] @ self.directions  # large: updated in place
            along -= self.centre
            np.square(along, out=along)
            along *= 0.5
            densities[some] -= along @ self.narrower
        return densities
