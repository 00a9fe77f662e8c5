"""A guide: normal laws fitted to what earlier runs found, so that every island of a later run starts in every mode."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import TINY, effective_sample_size, log_sum_exp, normalise, resample_evenly
from gbce.base import Array
from gbce.draws import Draws
from gbce.posterior import Mixture
from gbce.samplers._moves import NormalLaw
from gbce.samplers._strata import Strata
from gbce.samplers._tilted import ProductLaw, TiltedLaw

__all__ = ["Guide", "fit_guide", "join_guides"]

# Chosen by hand: a guide that fits badly costs effective draws, but its density is in the weights.
_SHARE = 0.5  # of the points that a run starts from
_FITTED_POINTS = 4_000  # that laws are fitted to
_MOST_LAWS = 24  # for one run
_LEAST_POINTS = 40  # independent ones, of a law
_WIDER = 1.5  # times the fitted variances, because a mode that was met by chance is wider than what was seen of it
_ITERATIONS = 30  # of expectation and maximisation, at most
_BLOCK_POINTS = 4_096  # whose densities are computed together: bounds memory
_EVENING = 0.5  # power of an island's evidence taken away: where islands disagree, a mode's mass is not known yet


@dataclass(frozen=True)
class Guide:
    """A share of the starting law: a mixture of normal laws in the latent space.

    Parameters
    ----------
    laws : tuple of NormalLaw, TiltedLaw or ProductLaw
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

    laws: tuple[NormalLaw | TiltedLaw | ProductLaw, ...]
    share: float
    weights: Array | None = None
    sites: Array | None = None
    strata: Strata | None = None

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points from the laws and the strata, ``(n, m)``."""
        if self.weights is None:
            which = rng.integers(len(self.laws), size=n)
        else:
            which = rng.choice(len(self.weights), size=n, p=self.weights)
        z = rng.standard_normal((n, self.laws[0].dimension))
        for k, law in enumerate(self.laws):
            own = which == k
            z[own] = law.place(z[own])
        if self.strata is not None:
            own = which == len(self.laws)
            z[own] = self.strata.draw(rng, int(own.sum()))
        return z

    @property
    def strata_weight(self) -> float:
        """Weight of the strata among the components."""
        return 0.0 if self.strata is None or self.weights is None else float(self.weights[-1])

    def beside(self, strata: Strata | None, weight: float) -> "Guide":
        """Return the guide with strata beside its laws, of this weight among the components, or with other ones."""
        laws = np.full(len(self.laws), 1.0) if self.weights is None else self.weights[: len(self.laws)]
        laws = laws / laws.sum()
        if strata is None:
            return replace(self, weights=laws, strata=None)
        return replace(self, weights=np.append((1.0 - weight) * laws, weight), strata=strata)

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
        equal = np.full(len(self.laws), 1.0 / len(self.laws))
        parts = np.empty((len(z), len(self.laws)))
        parts[:, [isinstance(law, NormalLaw) for law in self.laws]] = self._joined.log_densities(z)
        tail, steps = np.zeros(0), None
        for k, law in enumerate(self.laws):
            if isinstance(law, TiltedLaw):  # to find the steps is most of the work, and tails are the same
                if steps is None or not np.array_equal(law.tail, tail):
                    tail, steps = law.tail, law.find_steps(z)
                parts[:, k] = law.log_density_on(steps)
            elif not isinstance(law, NormalLaw):
                parts[:, k] = law.log_density(z)
        if self.strata is not None:
            parts = np.column_stack([parts, self.strata.log_density(z)])
        parts += np.log(equal if self.weights is None else self.weights)
        parts.flags.writeable = False
        self._remembered[:] = [*self._remembered[-1:], (z, parts)]
        return parts

    @cached_property
    def _joined(self) -> "_Joined":
        return _Joined.of([law for law in self.laws if isinstance(law, NormalLaw)])

    @cached_property
    def _remembered(self) -> list[tuple[Array, Array]]:
        """The last two sets of points and what was said of them: learning and weighing ask about the same ones."""
        return []

    def excess(self, z: Array) -> Array:
        """Log density ``(n,)`` of the starting law against the latent law: never below ``log(1 - share)``."""
        return np.logaddexp(np.log1p(-self.share), np.log(self.share) + self.near(z))


def join_guides(guides: Sequence[Guide], share: float) -> Guide:
    """Return one guide with the laws of all of them, each guide counting the same."""
    guides = [guide.beside(None, 0.0) for guide in guides]
    weights = [guide.weights for guide in guides if guide.weights is not None]
    return Guide(tuple(law for guide in guides for law in guide.laws), share, np.concatenate(weights) / len(guides))


def fit_guide(runs: Sequence[Draws], rng: np.random.Generator, mixture: Mixture, mass: float = 1.0) -> Guide:
    """Fit normal laws to the points of all islands of some runs; ``mass`` of the latent law meets the constraints.

    Each is looked at twice, at its eta and half-way up to it, where islands still have modes that most lose later. The
    fit need not be good: what is drawn from it is weighed by its density.
    """
    long = [run for run in runs if len(run.rungs) > 1]
    half = [run.reweigh(replace(mixture, eta=run.rungs[len(run.rungs) // 2 - 1])) for run in long]
    laws = [law.widen(_WIDER) for run in (*runs, *half) for law in _fit_laws(run, rng)]
    return Guide(tuple(laws), mass * _SHARE / (mass * _SHARE + 1 - _SHARE))


def _fit_laws(run: Draws, rng: np.random.Generator) -> list[NormalLaw]:
    """Cluster a run's points, and refine the clusters by expectation and maximisation."""
    weights = _even_out(run)
    z = run.pool.z[resample_evenly(rng, weights, _FITTED_POINTS)]
    each = (
        min(effective_sample_size(weights), _FITTED_POINTS) / _FITTED_POINTS
    )  # independent points that one stands for
    part = _cluster(rng, z, int(np.clip(each * len(z) / _LEAST_POINTS, 1, _MOST_LAWS)))
    for _ in range(_ITERATIONS):
        large = each * part.sum(axis=0) >= _LEAST_POINTS
        part = part[:, large] if large.any() else np.ones((len(z), 1))
        size = part.sum(axis=0)
        laws = [NormalLaw.fit(z, column / total, each * total) for column, total in zip(part.T, size, strict=True)]
        log_part = _Joined.of(laws).log_densities(z) + np.log(size)
        before, part = part, np.exp(log_part - logsumexp(log_part, axis=1, keepdims=True))
        if np.array_equal(before, part):  # every further round would be the same
            break
    return laws


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
    def of(cls, laws: Sequence[NormalLaw]) -> "_Joined":
        """Put laws side by side."""
        mean = np.column_stack([law.mean for law in laws])
        level = -0.5 * np.square(mean).sum(axis=0) - 0.5 * np.array([np.log(law.variance).sum() for law in laws])
        directions = np.column_stack([law.directions for law in laws])
        centre = np.concatenate([law.mean @ law.directions for law in laws])
        whose = np.repeat(np.arange(len(laws)), [len(law.variance) for law in laws])
        narrower = np.zeros((len(whose), len(laws)))
        narrower[np.arange(len(whose)), whose] = np.concatenate([1 / law.variance - 1 for law in laws])
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
