"""Strata of the latent space: the leaves of a regression tree fitted to evaluated points, as a proposal distribution.

A search sees what its starts lead to. A regression tree fitted to every point that a model was asked about, rows of the
data among them, divides the whole latent space into boxes, each with an estimate of its posterior mass: the box's
probability under ``N(0, I)`` times ``exp(-potential)``. Draws from these boxes, truncated normals weighed by their
density, come wherever the model was seen to be good, whether or not a search ended there (recursive stratified
sampling, Press and Farrar, 1990, with the strata of a fitted tree).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from gbce._numerics import TINY, effective_sample_size, log_sum_exp, normalise, resample_evenly
from gbce.base import Array
from gbce.draws import Draws, Points, log_target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import Partition
from gbce.priors import LocatedPrior
from gbce.samplers._moves import NormalComponent
from gbce.search import Modes

__all__ = [
    "MANY",
    "MixtureProposal",
    "ProductOfMarginals",
    "Strata",
    "TiltedProduct",
    "fit_proposal",
    "join_proposals",
    "tilt",
]

# --- strata of the latent space --------------------------------------------------------------------------------------

# What is wrong with an estimate shows in the weights; these numbers decide what a draw costs.
_MOST_STRATA = 512
_MOST_POINTS = 3_000  # that a tree is fitted to
_IRRELEVANT = 25.0  # potential above the lowest height: less than exp(-25) of the density at the mode
_FLATTER = 0.5  # power of the estimated masses that half of the draws follow, because estimates may be far off
_LARGEST = 1.0 - 1e-16  # below one, where the inverse of the normal distribution function is finite


@dataclass(frozen=True, eq=False)
class Strata:
    """Boxes that partition the latent space, and the probability of drawing from each.

    Parameters
    ----------
    boxes : Partition
        The leaves of a regression tree.
    log_mass : array of shape (L,)
        Log probability of each under the latent law.
    weights : array of shape (L,)
        Probability of drawing from each.
    """

    boxes: Partition
    log_mass: Array
    weights: Array

    @classmethod
    def fit(cls, rng: np.random.Generator, z: Array, potential: Array) -> "Strata | None":
        """Fit to latent points ``(n, m)`` and minus their log density ``(n,)`` against the latent law.

        Nothing where all of them are as good as each other, or worse than irrelevant.
        """
        neg_log_density = potential + 0.5 * np.square(z).sum(axis=1)
        most = neg_log_density.min() + _IRRELEVANT
        value = np.minimum(potential, most)
        if not np.isfinite(most) or np.ptp(value) == 0:
            return None
        if len(z) > _MOST_POINTS:  # the better a point, the rather it is kept
            order = np.argsort(neg_log_density, kind="stable")
            kept = np.append(
                order[: _MOST_POINTS // 2], rng.permutation(order[_MOST_POINTS // 2 :])[: _MOST_POINTS // 2]
            )
            z, value = z[kept], value[kept]
        boxes = Partition.fit(z, value, _MOST_STRATA, int(rng.integers(2**31)))
        log_mass, n = _log_probability(boxes.low, boxes.high).sum(axis=1), len(boxes.low)
        leaf, least = boxes.find(z), value.min()
        mean = np.bincount(leaf, np.exp(least - value), n) / np.bincount(leaf, minlength=n)
        found = log_mass + np.log(mean)
        flat = normalise(_FLATTER * found)
        return cls(boxes, log_mass, 0.5 * normalise(found) + 0.5 * flat)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points ``(n, m)``."""
        which = rng.choice(len(self.weights), size=n, p=self.weights)
        z = rng.standard_normal((n, self.boxes.low.shape[1]))
        low, high = self.boxes.low[which], self.boxes.high[which]
        at = np.nonzero(np.isfinite(low) | np.isfinite(high))
        z[at] = _draw_between(rng, low[at], high[at])
        return z

    def log_density(self, z: Array) -> Array:
        """Log density ``(n,)`` against the latent law."""
        which = self.boxes.find(z)
        weights = self.weights[which]
        with np.errstate(divide="ignore", invalid="ignore"):  # a box too thin to have a mass is never drawn from
            return np.where(weights > 0, np.log(weights) - self.log_mass[which], -np.inf)


def _log_probability(low: Array, high: Array) -> Array:
    """Log of the probability of ``low < z <= high`` under ``N(0, 1)``, of arrays of any shape."""
    flip = low > 0  # work in the lower tail
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = log_ndtr(b)
    with np.errstate(divide="ignore"):
        return upper + np.log(-np.expm1(np.minimum(log_ndtr(a) - upper, 0.0)))


def _draw_between(rng: np.random.Generator, low: Array, high: Array) -> Array:
    """Draw from ``N(0, 1)`` between limits ``(n,)``."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below, up_to = ndtr(a), ndtr(b)
    z = ndtri(np.clip(below + rng.random(len(low)) * (up_to - below), np.nextafter(0, 1), _LARGEST))
    z = np.clip(z, a, b)
    return np.where(flip, -z, z)


# --- tilted laws -----------------------------------------------------------------------------------------------------

# Chosen by hand, as is every law that draws are weighed against.
MANY = 40  # coordinates from which on a search and the laws around what it found are not enough
_STEPS, _DEPTH = (
    16,
    0.5,
)  # to either side: each has exp(-_DEPTH) of the mass beyond the one before, the last has the rest
_ASKED = 2  # the step that models are asked about: a change that is about as large as most
_SHARES = (0.25, 0.35, 0.5, 0.7, 1.0)  # of the lowest site's height: divergences from the latent law that laws have
_HALVINGS = 60  # of an interval: to the last digits
_WIDEST_SPIKE = 8.0  # latent deviations, beyond which a column changes with a chance of 1e-15
_FARTHEST = 40.0  # log odds that a tilt may change for one coordinate: beyond it, only overflow matters
_LEAST, _MOST = 1e-300, 1 - 1e-16  # probabilities that have finite quantiles
# Edges of a histogram's bins, in latent deviations: some fit into the spike of a column that seldom changes.
_EDGES = np.linspace(-4.2, 4.2, 29)
_KEPT_LATENT = 1 / 6  # of each coordinate's law, at least: the latent law, since a bin without points may have mass


@dataclass(frozen=True)
class TiltedProduct:
    """A product law on the latent space, whose density against the standard normal one is a step function.

    Parameters
    ----------
    tail : array of shape (m,)
        Mass of the latent law on either side of each coordinate's middle step, on which its column stays as it is.
    price : array of shape (2 * steps + 1, m)
        What the potential changes by on each step, from the lowest values to the highest.
    power : float
        How strongly steps that lower it are favoured.
    """

    tail: Array
    price: Array
    power: float

    @property
    def dimension(self) -> int:
        """Number of latent coordinates."""
        return len(self.tail)

    @cached_property
    def _chance(self) -> Array:
        """Mass of the latent law on each step, ``(2 * steps + 1, m)``."""
        side = -np.diff(np.append(_beyond(), 0.0))[:, None] * self.tail
        return np.concatenate([side[::-1], 1.0 - 2.0 * self.tail[None, :], side])

    @cached_property
    def _log_ratio(self) -> Array:
        """Log density of each step against the latent law, ``(2 * steps + 1, m)``."""
        tilt = np.clip(-self.power * self.price, -_FARTHEST, _FARTHEST)
        return tilt - np.log((self._chance * np.exp(tilt)).sum(axis=0))

    def place(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into draws."""
        ratio, column = np.exp(self._log_ratio), np.arange(self.dimension)
        start, below = (np.cumsum(mass, axis=0) - mass for mass in (self._chance, self._chance * ratio))
        u = ndtr(e)
        step = np.zeros(e.shape, dtype=np.intp)
        for one in below[1:]:
            step += u > one
        latent = start[step, column] + (u - below[step, column]) / ratio[step, column]
        return np.asarray(ndtri(np.clip(latent, _LEAST, _MOST)))

    def log_density(self, z: Array) -> Array:
        """Log density ``(n,)`` against the latent law."""
        return self.log_density_on(self.find_steps(z))

    def log_density_on(self, steps: "Steps") -> Array:
        """Return the log density ``(n,)`` of points whose steps are known: laws of one ``tail`` share them."""
        return _add_up(steps, self._log_ratio)

    def refit(self, z: Array, weights: Array) -> "TiltedProduct":
        """Return the law under which prices add up to what they do for weighted points ``(n, m)``, on average.

        That is the one of largest likelihood, as for every exponential family.
        """
        gain = float(weights @ _add_up(self.find_steps(z), self.price))
        return self._raise_while(lambda component: component._mean(component.price) > gain)

    def diverge(self, divergence: float) -> "TiltedProduct":
        """Return the law with so large a divergence from the latent law, or as large a one as it can have."""
        return self._raise_while(lambda component: component._mean(component._log_ratio) < divergence)

    def _raise_while(self, short: Callable[["TiltedProduct"], bool]) -> "TiltedProduct":
        """Return the law with the power up to which it falls short."""
        component, low, high = self, 0.0, _FARTHEST / max(float(np.abs(self.price).max()), _LEAST)
        for _ in range(_HALVINGS):
            component = replace(self, power=0.5 * (low + high))
            low, high = (component.power, high) if short(component) else (low, component.power)
        return component

    def _mean(self, values: Array) -> float:
        """Return what values ``(2 * steps + 1, m)`` of the steps add up to on average."""
        return float((self._chance * np.exp(self._log_ratio) * values).sum())

    def find_steps(self, z: Array) -> "Steps":
        """Return the steps that points ``(n, m)`` lie on."""
        row, column = np.nonzero(np.abs(z) > -ndtri(self.tail))  # most coordinates lie on their middle step
        there = z[row, column]
        depth = np.log(self.tail[column]) - log_ndtr(-np.abs(there))
        out = 1 + np.minimum(np.maximum(depth / _DEPTH, 0.0), _STEPS - 1).astype(np.intp)
        return Steps(len(z), row, column, _STEPS + np.where(there < 0, -out, out))


class Steps(NamedTuple):
    """Steps of ``n`` points, other than middle ones ``(k,)``: the points, their coordinates, and the steps."""

    n: int
    row: Array
    column: Array
    step: Array


def _add_up(steps: Steps, values: Array) -> Array:
    """Add up the values ``(2 * steps + 1, m)`` of the steps that points lie on: ``(n,)``."""
    middle = values[_STEPS]
    more = values[steps.step, steps.column] - middle[steps.column]
    return middle.sum() + np.bincount(steps.row, weights=more, minlength=steps.n)


@dataclass(frozen=True, eq=False)
class ProductOfMarginals:
    """A product of histograms on the latent space, one of each coordinate.

    A posterior that is spread over dozens of sets of changed columns has no shape that a few normal laws could have;
    fitted to some hundred points, these leave gaps between them, and draws that fall there carry most of the weight.
    Its marginals are known well from as many points, and their product has no gaps.

    Parameters
    ----------
    log_ratio : array of shape (m, bins)
        Log density in each bin, against the latent law.
    """

    log_ratio: Array

    @property
    def dimension(self) -> int:
        """Number of latent coordinates."""
        return len(self.log_ratio)

    @classmethod
    def fit(cls, z: Array, weights: Array, n: float) -> "ProductOfMarginals":
        """Fit to weighted points ``(N, m)`` that are worth ``n`` independent ones.

        A coordinate whose histogram diverges from the latent law by no more than chance explains stays as it is.
        """
        chance, bins = _bin_chances(), len(_EDGES) + 1
        where = np.searchsorted(_EDGES, z)
        found = np.array([np.bincount(own, weights, bins) for own in where.T])
        ratio = np.pad(found / chance, ((0, 0), (1, 1)), mode="edge")
        found = (0.25 * ratio[:, :-2] + 0.5 * ratio[:, 1:-1] + 0.25 * ratio[:, 2:]) * chance
        found /= found.sum(axis=1, keepdims=True)
        divergence = np.sum(found * np.log(np.maximum(found / chance, TINY)), axis=1)
        by_chance = 0.5 * np.sum(found > 0, axis=1) / n  # expected of a histogram of the latent law itself
        learned = np.clip(1.0 - by_chance / np.maximum(divergence, TINY), 0.0, 1.0 - _KEPT_LATENT)[:, None]
        return cls(np.log(learned * found / chance + (1.0 - learned)))

    def place(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into draws."""
        chance, z = _bin_chances(), np.empty(e.shape)
        start = np.cumsum(chance) - chance
        for j, ratio in enumerate(np.exp(self.log_ratio)):
            below, u = np.cumsum(chance * ratio) - chance * ratio, ndtr(e[:, j])
            where = np.searchsorted(below[1:], u)
            z[:, j] = ndtri(np.clip(start[where] + (u - below[where]) / ratio[where], _LEAST, _MOST))
        return z

    def log_density(self, z: Array) -> Array:
        """Log density ``(n,)`` against the latent law."""
        return self.log_ratio[np.arange(z.shape[1]), np.searchsorted(_EDGES, z)].sum(axis=1)


def _bin_chances() -> Array:
    """Mass of the latent law in each bin of a histogram."""
    return np.diff(ndtr(_EDGES), prepend=0.0, append=1.0)


def _beyond() -> Array:
    """Share of a side's mass ``(steps,)`` that lies beyond the beginning of each of its steps."""
    return np.exp(-_DEPTH * np.arange(_STEPS))


def tilt(posterior: GibbsPosterior, modes: Modes) -> list[TiltedProduct]:
    """Return laws that diverge from the latent law about as far as a posterior with these sites can.

    There are none where columns are few, or the prior moves all of them. What each coordinate does by itself is asked
    at the row, two rows for each.
    """
    prior, m = posterior.prior, posterior.prior.dimension
    if not prior.spikes or m < MANY or len(modes.neg_log_density) == 0:
        return []
    tail = ndtr(-_edge_of_spikes(prior))
    middle = -ndtri(_beyond()[:, None] * np.exp(-0.5 * _DEPTH) * tail)
    price = np.concatenate([_prices(posterior, -middle)[::-1], np.zeros((1, m)), _prices(posterior, middle)])
    component = TiltedProduct(tail, price, 0.0)
    return [component.diverge(share * float(modes.neg_log_density[0])) for share in _SHARES] if price.any() else []


def _prices(posterior: GibbsPosterior, z: Array) -> Array:
    """Return what the potential changes by where single coordinates are moved to the steps ``(steps, m)`` of one side.

    One step of each is asked about; on the others the price is taken to be in proportion to the change.
    """
    prior = posterior.prior
    points = Points.evaluate(posterior, np.vstack([np.zeros((1, z.shape[1])), np.diag(z[_ASKED])]))
    potential = -log_target(posterior.mixture, points)
    with np.errstate(invalid="ignore"):
        price = np.nan_to_num(potential[1:] - potential[0], nan=0.0, posinf=_FARTHEST, neginf=0.0)
    change = np.abs(np.nan_to_num(prior.place(z).x - prior.x0))[:, prior.free]
    return price * change / np.where(change[_ASKED] > 0, change[_ASKED], 1.0)


def _edge_of_spikes(prior: LocatedPrior) -> Array:
    """Return how far each latent coordinate goes without changing its column, ``(m,)``: found by halving."""
    low, high = np.zeros(prior.dimension), np.full(prior.dimension, _WIDEST_SPIKE)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        stays = np.isclose(prior.place(middle[None, :]).x[0], prior.x0, rtol=0, atol=0, equal_nan=True)[prior.free]
        low, high = np.where(stays, middle, low), np.where(stays, high, middle)
    return low


# --- a guide ---------------------------------------------------------------------------------------------------------

# Chosen by hand: a guide that fits badly costs effective draws, but its density is in the weights.
_SHARE = 0.5  # of the points that a run starts from
_FITTED_POINTS = 4_000  # that laws are fitted to
_MOST_COMPONENTS = 24  # for one run
_LEAST_POINTS = 40  # independent ones, of a law
_WIDER = 1.5  # times the fitted variances, because a mode that was met by chance is wider than what was seen of it
_ITERATIONS = 30  # of expectation and maximisation, at most
_BLOCK_POINTS = 4_096  # whose densities are computed together: bounds memory
_EVENING = 0.5  # power of an island's evidence taken away: where islands disagree, a mode's mass is not known yet


@dataclass(frozen=True)
class MixtureProposal:
    """A share of the starting law: a mixture of normal laws in the latent space.

    Parameters
    ----------
    laws : tuple of NormalComponent, TiltedProduct or ProductOfMarginals
        At least one, and at least one normal one.
    share : float
        Of the starting law; the rest is the latent law ``N(0, I)`` itself.
    weights : array of shape (k,), optional
        Of the laws, summing to one; each counts the same when left out.
    sites : int array of shape (k,), optional
        Which site each law was put around, where there are sites.
    strata : Strata, optional
        Beside the laws: the last of the mixture's components, whose weight is the last of ``k + 1``.
    """

    components: tuple[NormalComponent | TiltedProduct | ProductOfMarginals, ...]
    share: float
    weights: Array | None = None
    modes: Array | None = None
    strata: Strata | None = None

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points from the laws and the strata, ``(n, m)``."""
        if self.weights is None:
            which = rng.integers(len(self.components), size=n)
        else:
            which = rng.choice(len(self.weights), size=n, p=self.weights)
        z = rng.standard_normal((n, self.components[0].dimension))
        for k, component in enumerate(self.components):
            own = which == k
            z[own] = component.place(z[own])
        if self.strata is not None:
            own = which == len(self.components)
            z[own] = self.strata.draw(rng, int(own.sum()))
        return z

    @property
    def strata_weight(self) -> float:
        """Weight of the strata among the components."""
        return 0.0 if self.strata is None or self.weights is None else float(self.weights[-1])

    def beside(self, strata: Strata | None, weight: float) -> "MixtureProposal":
        """Return the guide with strata beside its laws, of this weight among the components, or with other ones."""
        components = (
            np.full(len(self.components), 1.0) if self.weights is None else self.weights[: len(self.components)]
        )
        components = components / components.sum()
        if strata is None:
            return replace(self, weights=components, strata=None)
        return replace(self, weights=np.append((1.0 - weight) * components, weight), strata=strata)

    def near(self, z: Array) -> Array:
        """Log density ``(n,)`` of the laws against the latent law."""
        return log_sum_exp(self.log_parts(z), axis=1)

    def log_parts(self, z: Array) -> Array:
        """Log density ``(n, k)`` of each law, times its weight, against the latent law; the last ones are remembered.

        They cannot be written into.
        """
        for points, parts in self._remembered:
            if np.array_equal(points, z):
                return parts
        equal = np.full(len(self.components), 1.0 / len(self.components))
        parts = np.empty((len(z), len(self.components)))
        parts[:, [isinstance(component, NormalComponent) for component in self.components]] = (
            self._joined.log_densities(z)
        )
        tail, steps = np.zeros(0), None
        for k, component in enumerate(self.components):
            if isinstance(component, TiltedProduct):  # to find the steps is most of the work, and tails are the same
                if steps is None or not np.array_equal(component.tail, tail):
                    tail, steps = component.tail, component.find_steps(z)
                parts[:, k] = component.log_density_on(steps)
            elif not isinstance(component, NormalComponent):
                parts[:, k] = component.log_density(z)
        if self.strata is not None:
            parts = np.column_stack([parts, self.strata.log_density(z)])
        parts += np.log(equal if self.weights is None else self.weights)
        parts.flags.writeable = False
        self._remembered[:] = [*self._remembered[-1:], (z, parts)]
        return parts

    @cached_property
    def _joined(self) -> "_Joined":
        return _Joined.of([component for component in self.components if isinstance(component, NormalComponent)])

    @cached_property
    def _remembered(self) -> list[tuple[Array, Array]]:
        """The last two sets of points and what was said of them: learning and weighing ask about the same ones."""
        return []

    def excess(self, z: Array) -> Array:
        """Log density ``(n,)`` of the starting law against the latent law: never below ``log(1 - share)``."""
        return np.logaddexp(np.log1p(-self.share), np.log(self.share) + self.near(z))


def join_proposals(proposals: Sequence[MixtureProposal], share: float) -> MixtureProposal:
    """Return one guide with the laws of all of them, each guide counting the same."""
    proposals = [proposal.beside(None, 0.0) for proposal in proposals]
    weights = [proposal.weights for proposal in proposals if proposal.weights is not None]
    return MixtureProposal(
        tuple(component for proposal in proposals for component in proposal.components),
        share,
        np.concatenate(weights) / len(proposals),
    )


def fit_proposal(
    runs: Sequence[Draws], rng: np.random.Generator, mixture: Mixture, mass: float = 1.0
) -> MixtureProposal:
    """Fit normal laws to the points of all islands of some runs; ``mass`` of the latent law meets the constraints.

    Each is looked at twice, at its eta and half-way up to it, where islands still have modes that most lose later. The
    fit need not be good: what is drawn from it is weighed by its density.
    """
    long = [run for run in runs if len(run.rungs) > 1]
    half = [run.reweigh(replace(mixture, eta=run.rungs[len(run.rungs) // 2 - 1])) for run in long]
    components = [component.widen(_WIDER) for run in (*runs, *half) for component in _fit_components(run, rng)]
    return MixtureProposal(tuple(components), mass * _SHARE / (mass * _SHARE + 1 - _SHARE))


def _fit_components(run: Draws, rng: np.random.Generator) -> list[NormalComponent]:
    """Cluster a run's points, and refine the clusters by expectation and maximisation."""
    weights = _even_out(run)
    z = run.pool.z[resample_evenly(rng, weights, _FITTED_POINTS)]
    each = (
        min(effective_sample_size(weights), _FITTED_POINTS) / _FITTED_POINTS
    )  # independent points that one stands for
    part = _cluster(rng, z, int(np.clip(each * len(z) / _LEAST_POINTS, 1, _MOST_COMPONENTS)))
    for _ in range(_ITERATIONS):
        large = each * part.sum(axis=0) >= _LEAST_POINTS
        part = part[:, large] if large.any() else np.ones((len(z), 1))
        size = part.sum(axis=0)
        components = [
            NormalComponent.fit(z, column / total, each * total) for column, total in zip(part.T, size, strict=True)
        ]
        log_part = _Joined.of(components).log_densities(z) + np.log(size)
        before, part = part, np.exp(log_part - logsumexp(log_part, axis=1, keepdims=True))
        if np.array_equal(before, part):  # every further round would be the same
            break
    return components


def _even_out(draws: Draws) -> Array:
    """Return weights ``(N,)`` of the pool's points under which islands differ less than their evidences do."""
    groups = np.zeros(len(draws.pool), dtype=int) if draws.groups is None else draws.groups
    island = np.bincount(groups, weights=draws.pool_weights)[groups]
    with np.errstate(divide="ignore"):
        return normalise(np.log(draws.pool_weights) - _EVENING * np.log(np.maximum(island, TINY)))


class _Joined(NamedTuple):
    """``K`` laws side by side: their means, heights, and directions with what each of these adds to its law."""

    mean: Array
    level: Array
    directions: Array
    centre: Array
    narrower: Array

    @classmethod
    def of(cls, components: Sequence[NormalComponent]) -> "_Joined":
        """Put laws side by side."""
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
        """Log density of each law against the latent law, ``(n, K)``."""
        densities = z @ self.mean + self.level
        for start in range(0, len(z), _BLOCK_POINTS):
            some = slice(start, start + _BLOCK_POINTS)
            along = z[some] @ self.directions  # large: worked on where it is
            along -= self.centre
            np.square(along, out=along)
            along *= 0.5
            densities[some] -= along @ self.narrower
        return densities


def _cluster(rng: np.random.Generator, z: Array, k: int) -> Array:
    """Return the cluster membership of points ``(n, m)``: a table ``(n, k)`` of zeros and ones.

    Centres are points far from each other (Arthur and Vassilvitskii, 2007), clusters what lies nearest to each.
    """
    nearest = np.full(len(z), np.inf)
    part = np.zeros(len(z), dtype=int)
    for number in range(k):
        chance = np.ones(len(z)) if number == 0 else nearest
        if chance.sum() <= 0:
            break
        centre = z[rng.choice(len(z), p=chance / chance.sum())]
        distance = np.square(z - centre).sum(axis=1)
        part[distance < nearest] = number
        nearest = np.minimum(nearest, distance)
    return np.equal(part[:, None], np.arange(k)).astype(float)
