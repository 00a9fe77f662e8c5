"""What a look learns from rounds of draws: how wide its laws have to be, and how much each counts."""

from dataclasses import dataclass, field, replace

import numpy as np

from gbce._numerics import TINY, effective_sample_size, log_sum_exp, normalise
from gbce.base import Array
from gbce.draws import Points, log_target
from gbce.posterior import GibbsPosterior
from gbce.samplers._guide import Guide
from gbce.samplers._moves import NormalLaw
from gbce.samplers._site_laws import WIDER
from gbce.samplers._strata import Strata
from gbce.samplers._tilted import ProductLaw, TiltedLaw

__all__ = ["Lessons"]

# Chosen by hand.
_POINTS_PER_COORDINATE, _FEWEST_POINTS = 2.0, 12.0  # effective points that a law is fitted to, at least: their sum
_LEAST_WEIGHT = 0.004  # of a law: so that every site is visited, and one that was met by chance is not lost
_NO_MASS = 1e-3  # of all that the laws explain
_POWERS = (0.5, 0.25, 0.125, 0.0625, 0.03125)  # parts of eta whose posteriors get laws of their own, for the eta path
_ON_THE_WAY = 0.2  # share of these laws among all
_STRATA_WEIGHT = (0.1, 0.6)  # of strata among the components, at least and at most
# Of the product of marginals among the laws, at least and at most. With 300 boosted trees on 8 columns ten rows took
# 720,000 model rows, with 0.6 at least 640,000; but that is too much where columns go together, as in a linear model.
_PRODUCT_WEIGHT = (0.3, 0.8)
_LEAST_CARRIED = 30.0  # effective points at a smaller eta below which it gets no law


@dataclass
class Lessons:
    """Points of all rounds so far, seen as draws from all rounds together.

    Parameters
    ----------
    posterior : GibbsPosterior
        What is to be learned.
    points : Points
        At first, candidates of the prior.
    known : arrays of shapes (n, m) and (n,)
        Other latent points, and minus the log of their density: strata are fitted to these as well.
    rng : Generator
        For the strata.
    """

    posterior: GibbsPosterior
    points: Points
    known: tuple[Array, Array]
    rng: np.random.Generator
    guides: list[tuple[Guide, int]] = field(init=False, default_factory=list)
    log_density: Array = field(init=False)

    def __post_init__(self) -> None:
        self._n_plain = len(self.points)
        self.log_density = self._density(self.points)

    def add(self, guide: Guide, points: Points) -> None:
        """Add a round: points drawn from a guide. Each density is computed once for each point."""
        there = self._density(points)
        self.guides.append((guide, len(points)))
        self.points = Points.join([self.points, points])
        before = np.append(self.log_density, there)
        self.log_density = np.logaddexp(before, guide.excess(self.points.z) + np.log(max(len(points), 1)))

    def _density(self, points: Points) -> Array:
        """Log of the expected number of points of all rounds at ``points`` ``(n,)``, against the latent law."""
        rounds = [guide.excess(points.z) + np.log(max(n, 1)) for guide, n in self.guides]
        return log_sum_exp(np.array([np.full(len(points), np.log(max(self._n_plain, 1))), *rounds]), axis=0)

    def weights(self, share: float = 1.0) -> Array:
        """Weights ``(n,)`` of all points under the posterior at a share of eta."""
        mixture = replace(self.posterior.mixture, eta=share * self.posterior.mixture.eta)
        return normalise(log_target(mixture, self.points) - self.log_density)

    @property
    def enough(self) -> float:
        """Effective points that a law is fitted to, at least."""
        return _FEWEST_POINTS + _POINTS_PER_COORDINATE * self.posterior.prior.dimension

    def fit(self, guide: Guide) -> Guide:
        """Fit each law to the part of the weighted points that it explains: one step of expectation and maximisation.

        Laws that explain next to nothing are dropped, but for the best one of each site. Where fewer points count than
        a law is fitted to, the best so many count the same: one or two heavy ones only tell where to go.
        """
        if not np.isfinite(log_target(self.posterior.mixture, self.points)).any():
            return guide  # there is nothing to learn from
        weights = self.weights()
        counted = weights > 0
        z, weights = self.points.z[counted], weights[counted]
        plain = weights
        if effective_sample_size(weights) < self.enough:
            weights = _clip(weights, int(self.enough))
        log_parts = guide.log_parts(z) + np.log(guide.share)
        whole = np.logaddexp(log_sum_exp(log_parts, axis=1), np.log1p(-guide.share))
        part = log_parts - whole[:, None]
        np.exp(part, out=part)
        tilted = [isinstance(law, TiltedLaw) for law in guide.laws] + [False] * (part.shape[1] - len(guide.laws))
        # a tilt has one number to learn: it takes few points
        part *= np.where(tilted, plain[:, None], weights[:, None])
        mass = part.sum(axis=0)
        laws: list[NormalLaw | TiltedLaw | ProductLaw] = []
        for law, own, total in zip(guide.laws, part.T, mass, strict=False):
            size = total**2 / max(float(np.square(own).sum()), TINY)
            if isinstance(law, TiltedLaw):
                laws.append(law.refit(z, own / total) if size >= _FEWEST_POINTS else law)
            elif isinstance(law, ProductLaw):
                laws.append(law)
            else:
                laws.append(NormalLaw.fit(z, own / total, size).widen(WIDER) if size >= self.enough else law)
        by_strata = float(np.clip(mass[len(laws) :].sum() / max(mass.sum(), TINY), *_STRATA_WEIGHT))
        shares = mass[: len(laws)] / max(mass[: len(laws)].sum(), TINY)
        product = np.array([isinstance(law, ProductLaw) for law in laws])
        by_product = float(np.clip(shares[product].sum(), *_PRODUCT_WEIGHT))
        shares[product] = 0.0
        kept = np.flatnonzero((shares >= _NO_MASS) | (_best_of_sites(guide, shares) & ~product))
        own_weights = np.maximum(shares[kept], _LEAST_WEIGHT)
        fitted = Guide(
            laws=(*(laws[k] for k in kept), ProductLaw.fit(z, weights, effective_sample_size(weights))),
            share=guide.share,
            weights=np.append((1.0 - by_product) * own_weights / own_weights.sum(), by_product),
            sites=None if guide.sites is None else np.append(guide.sites[kept], -1),
        )
        return fitted.beside(self.stratify(), by_strata)

    def stratify(self) -> Strata | None:
        """Fit strata to all points."""
        z = np.vstack([self.points.z, self.known[0]])
        return Strata.fit(self.rng, z, np.append(-log_target(self.posterior.mixture, self.points), self.known[1]))

    def add_way(self, guide: Guide) -> Guide:
        """Add laws fitted to the posterior at smaller etas, so that draws carry these as well."""
        laws = []
        for power in _POWERS:
            weights = self.weights(power)
            size = effective_sample_size(weights)
            if size >= _LEAST_CARRIED:
                laws.append(NormalLaw.fit(self.points.z, weights, size).widen(WIDER))
        if not laws or guide.weights is None:
            return guide
        own, way = guide.weights[: len(guide.laws)], _ON_THE_WAY / (1 - guide.strata_weight)
        weights = np.concatenate([(1 - way) * own / own.sum(), np.full(len(laws), way / len(laws))])
        return Guide(guide.laws + tuple(laws), guide.share, weights).beside(guide.strata, guide.strata_weight)


def _clip(weights: Array, n: int) -> Array:
    """Return weights ``(N,)`` of which the ``n`` largest are the same, so that about as many points count.

    Laws then come nearer round by round, where a fit to the few that count would not move, or collapse (Koblents and
    Míguez, A population Monte Carlo scheme with transformed weights, 2015).
    """
    largest = np.sort(weights)[-n:]
    clipped = np.minimum(weights, largest[0])
    return np.asarray(clipped / clipped.sum())


def _best_of_sites(guide: Guide, shares: Array) -> Array:
    """Which laws ``(k,)`` have the largest share of those around their site."""
    if guide.sites is None:
        return np.ones(len(shares), dtype=bool)
    best = np.zeros(len(shares), dtype=bool)
    for site in np.unique(guide.sites):
        own = np.flatnonzero(guide.sites == site)
        best[own[np.argmax(shares[own])]] = True
    return best
