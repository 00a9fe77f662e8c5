"""Independent runs of adaptive importance sampling, and whether they agree.

A run has its own mode search and places a defensive Gaussian mixture at the modes. Rounds of pilot draws adapt it
(population Monte Carlo); the draws that count are fresh ones from the adapted mixture, so their weights are unbiased.
Two runs that cover each other's draws are the evidence that no mass of weight was missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gbce._numerics import TINY, effective_sample_size, log_sum_exp, log_total, normalise
from gbce.base import Array
from gbce.draws import Points, log_target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._islands import Coverage
from gbce.samplers._proposals import MixtureProposal, NormalComponent, ProductOfMarginals, Strata
from gbce.samplers._tilts import TiltedProduct, tilt
from gbce.search import Modes

# Initial proposal; chosen by hand: adaptation corrects it, and the weights show what it does not correct.
_DEFENCE = 0.2  # share of N(0, I) among the draws of a run
_MOVED = 0.05  # latent standard deviations below which a mode leaves a coordinate unchanged
_CURVED = 0.5  # curvature of the potential, that of N(0, I) being one, beyond which a coordinate is narrower
_NARROW = 0.2  # standard deviation of the narrow component in the changed coordinates
_NARROWEST = 1e-4  # initial variance of any component
WIDER = 1.25  # times a variance: weights of a proposal that is too narrow have heavy tails
_MANY = 40  # coordinates from which a mode's own small errors count
_TILTED_WEIGHT = 0.5  # of tilts together, beside components at modes
_DIVERGENCES = (0.35, 0.6, 1.0)  # of tilts from N(0, I), as shares of the lowest negative log density
# Coordinates from which there are tilts. With 30, five rows under a regression took half the model rows, and all were
# trusted instead of two; with up to 10, on other tables, components at modes and strata do without.
_MANY_FOR_TILTS = 12

# Adaptation; chosen by hand.
_POINTS_PER_COORDINATE, _FEWEST_POINTS = 2.0, 12.0  # effective points that a fit needs: their sum
_LEAST_WEIGHT = 0.004  # of a component, so that every mode is visited and none met by chance is lost
_NO_MASS = 1e-3  # share of the mass below which a component is dropped
_POWERS = (0.5, 0.25, 0.125, 0.0625, 0.03125)  # shares of eta that get components of their own, for the eta path
_TEMPERED_SHARE = 0.2  # weight of these components
_STRATA_WEIGHT = (0.1, 0.6)  # of strata among the components, at least and at most
# Weight of the product of marginals, at least and at most. With 300 boosted trees on 8 columns ten rows took 720,000
# model rows, with a minimum of 0.6 only 640,000; but that is too much for correlated columns, as in a linear model.
_PRODUCT_WEIGHT = (0.3, 0.8)
_LEAST_CARRIED = 30.0  # effective points at a smaller eta below which it gets no component

# Runs; chosen by hand: they decide what a run costs. A poor proposal shows in its weights.
_PILOT, _PILOT_PER_COORDINATE = 500, 25  # draws of an adaptation round: the sum of both
_LARGEST_PILOT = 3_000  # beyond a hundred coordinates adaptation could not get enough anyway
_MOST_ROUNDS, _MOST_LEARNING = 14, 18_000  # of adaptation, and draws of all rounds; 30 coordinates may need all of them
_GOOD, _ROUNDS_WORTH = 0.25, 2  # efficiency that ends adaptation: or one with which drawing takes only as many rounds
_IMPROVES = 1.2  # times the efficiency before: adaptation ends after two rounds that gain less
MOST_FOR_EFFECTIVE = 60  # draws per effective draw: where more are needed, points are tempered instead
_MOST_CELLS = (
    10_000_000  # numbers in the draws of one run, and in all its pilots: 80 MB; 18,000 draws up to 550 columns
)
_ROUNDS_LEFT = 4  # adaptation rounds that a budget must still allow for another one to begin
_USUAL_ROUNDS = 2  # adaptation rounds of most runs
_STRATA_SHARE = 0.4  # of strata among the components of the first round
KEPT = 0.5  # of the effective draws wanted: with fewer, a run draws a second time
# Runs agree if at most this share of the mass is covered by only one of them, and the log evidences of what both cover
# differ by at most this many standard errors, or by at most this slack.
_SEEN_ONCE, _Z_EVIDENCE, _EVIDENCE_SLACK = 0.02, 3.5, 0.03

# --- initial proposal -------------------------------------------------------------------------------------------------


def initial_proposal(modes: Modes, posterior: GibbsPosterior, tilted: Sequence[TiltedProduct] = ()) -> MixtureProposal:
    """Place two to four components at each mode, beside the ``tilted`` ones and the defensive ``N(0, I)``.

    One is as wide as the prior, one is narrow where the mode changes something or the potential is curved, and one is
    the Gauss-Newton approximation of a squared loss, if there is a gradient; with many coordinates a fourth is the
    same, centred on the projection to the gradient. For a smooth potential the narrow one is as wide as the curvature
    says: a mode of little mass gets few draws, so that a width that is too small is not corrected.
    """
    potential = -log_target(posterior.mixture, modes.points)
    components: list[NormalComponent] = []
    whose: list[int] = []
    parts = zip(modes.points.z, modes.gradient, modes.curvature, modes.smooth, potential, strict=True)
    for z, gradient, curvature, smooth, at_mode in parts:
        narrow = _make_basin_component(z, curvature) if smooth else _make_narrow_component(z, curvature)
        wide = NormalComponent(z, np.zeros((len(z), 0)), np.zeros(0))
        components += [wide, narrow]
        if gradient.any():
            components.append(_make_gauss_newton_component(z, gradient, float(at_mode)))
        if gradient.any() and len(z) >= _MANY:
            components.append(_make_gauss_newton_component(_project_on_gradient(z, gradient), gradient, float(at_mode)))
        whose += [max(whose, default=-1) + 1] * (len(components) - len(whose))
    whose += [max(whose) + 1] * len(tilted)
    by_tilts = _TILTED_WEIGHT if tilted else 0.0
    weights = np.repeat(
        [(1 - by_tilts) / len(components), by_tilts / max(len(tilted), 1)], [len(components), len(tilted)]
    )
    return MixtureProposal((*components, *tilted), 1 - _DEFENCE, weights, np.array(whose))


def _make_narrow_component(z: Array, curvature: Array) -> NormalComponent:
    """Return a component that is narrow where the mode changes something or the potential is curved."""
    moved = np.flatnonzero((np.abs(z) > _MOVED) | (curvature > _CURVED))
    narrow = np.where(np.abs(z[moved]) > _MOVED, _NARROW**2, 1.0)
    variance = np.maximum(np.minimum(1 / (1 + curvature[moved]), narrow), _NARROWEST)
    return NormalComponent(z, np.eye(len(z))[:, moved], variance)


def _make_basin_component(z: Array, curvature: Array) -> NormalComponent:
    """Return a component as wide as the curvature of a smooth potential says."""
    curved = np.flatnonzero(curvature > _CURVED)
    return NormalComponent(z, np.eye(len(z))[:, curved], np.maximum(WIDER / (1 + curvature[curved]), _NARROWEST))


def _project_on_gradient(z: Array, gradient: Array) -> Array:
    """Project a mode on its gradient: an exact mode stays, the small errors of many coordinates go."""
    unit = gradient / np.hypot.reduce(gradient)
    return np.asarray((z @ unit) * unit)


def _make_gauss_newton_component(z: Array, gradient: Array, potential: float) -> NormalComponent:
    """Return the Gauss-Newton normal of a squared loss: narrow along the gradient only."""
    steepness = float(np.hypot.reduce(gradient))
    variance = 1 / (1 + steepness * (steepness / max(2 * potential, _NARROWEST)))
    return NormalComponent(z, (gradient / steepness)[:, None], np.array([WIDER * variance]))


# --- adaptation -------------------------------------------------------------------------------------------------------


@dataclass
class ProposalAdaptation:
    """Population Monte Carlo: points of all rounds are weighted together, and the mixture is refitted by EM."""

    posterior: GibbsPosterior  # the target
    points: Points  # at first, draws from the prior
    known: tuple[Array, Array]  # latent points (n, m) and their potentials (n,), to which strata are fitted as well
    rng: np.random.Generator  # for the strata
    proposals: list[tuple[MixtureProposal, int]] = field(init=False, default_factory=list)
    log_density: Array = field(init=False)

    def __post_init__(self) -> None:
        self._n_plain, self.points = len(self.points), _drop_rows(self.points)
        self.log_density = self._log_density_of_rounds(self.points)

    def add(self, proposal: MixtureProposal, points: Points) -> None:
        """Add a round of points drawn from a proposal; each density is computed once."""
        there = self._log_density_of_rounds(points)
        self.proposals.append((proposal, len(points)))
        self.points = Points.join([self.points, _drop_rows(points)])
        before = np.append(self.log_density, there)
        self.log_density = np.logaddexp(before, proposal.log_density(self.points.z) + np.log(max(len(points), 1)))

    def _log_density_of_rounds(self, points: Points) -> Array:
        """Return the log expected number of points of all rounds at ``points`` ``(n,)``, against ``N(0, I)``."""
        rounds = [proposal.log_density(points.z) + np.log(max(n, 1)) for proposal, n in self.proposals]
        return log_sum_exp(np.array([np.full(len(points), np.log(max(self._n_plain, 1))), *rounds]), axis=0)

    def weights(self, share: float = 1.0) -> Array:
        """Return the weights ``(n,)`` of all points under the posterior at a share of eta."""
        mixture = replace(self.posterior.mixture, eta=share * self.posterior.mixture.eta)
        return normalise(log_target(mixture, self.points) - self.log_density)

    @property
    def enough_points(self) -> float:
        """Least effective number of points that a component is fitted to."""
        return _FEWEST_POINTS + _POINTS_PER_COORDINATE * self.posterior.prior.dimension

    def fit(self, proposal: MixtureProposal) -> MixtureProposal:
        """Refit each component to its share of the weighted points: one EM step.

        Components of negligible weight are dropped, but for the best one of each mode.
        """
        if not np.isfinite(log_target(self.posterior.mixture, self.points)).any():
            return proposal  # there is nothing to learn from
        weights = self.weights()
        counted = weights > 0
        z, weights = self.points.z if counted.all() else self.points.z[counted], weights[counted]
        log_parts = proposal.log_component_parts(z) + np.log(proposal.share)
        mixture = np.logaddexp(log_sum_exp(log_parts, axis=1), np.log1p(-proposal.share))
        part = log_parts - mixture[:, None]
        np.exp(part, out=part)
        part *= weights[:, None]
        mass = part.sum(axis=0)
        components: list[NormalComponent | TiltedProduct | ProductOfMarginals] = []
        for component, own, total in zip(proposal.components, part.T, mass, strict=False):
            size = total**2 / max(float(np.square(own).sum()), TINY)
            if isinstance(component, TiltedProduct):
                components.append(component.refit(z, own / total, size) if size >= _FEWEST_POINTS else component)
            elif isinstance(component, ProductOfMarginals):
                components.append(component)
            else:
                fits = size >= self.enough_points
                components.append(NormalComponent.fit(z, own / total, size).widen(WIDER) if fits else component)
        by_strata = float(np.clip(mass[len(components) :].sum() / max(mass.sum(), TINY), *_STRATA_WEIGHT))
        shares = mass[: len(components)] / max(mass[: len(components)].sum(), TINY)
        product = np.array([isinstance(component, ProductOfMarginals) for component in components])
        by_product = float(np.clip(shares[product].sum(), *_PRODUCT_WEIGHT))
        shares[product] = 0.0
        kept = np.flatnonzero((shares >= _NO_MASS) | (_find_best_of_modes(proposal, shares) & ~product))
        own_weights = np.maximum(shares[kept], _LEAST_WEIGHT)
        fitted = MixtureProposal(
            components=(
                *(components[k] for k in kept),
                ProductOfMarginals.fit(z, weights, effective_sample_size(weights)),
            ),
            share=proposal.share,
            weights=np.append((1.0 - by_product) * own_weights / own_weights.sum(), by_product),
            modes=None if proposal.modes is None else np.append(proposal.modes[kept], -1),
        )
        return fitted.with_strata(self.stratify(), by_strata)

    def stratify(self) -> Strata | None:
        """Fit strata to all points."""
        potential = np.append(-log_target(self.posterior.mixture, self.points), self.known[1])
        return Strata.fit(self.rng, [self.points.z, self.known[0]], potential)

    def add_tempered_components(self, proposal: MixtureProposal) -> MixtureProposal:
        """Add components for smaller eta, so that ``path()`` can be reweighted from the same draws."""
        components = []
        for power in _POWERS:
            weights = self.weights(power)
            size = effective_sample_size(weights)
            if size >= _LEAST_CARRIED:
                components.append(NormalComponent.fit(self.points.z, weights, size).widen(WIDER))
        if not components or proposal.weights is None:
            return proposal
        own, share = proposal.weights[: len(proposal.components)], _TEMPERED_SHARE / (1 - proposal.strata_weight)
        weights = np.concatenate([(1 - share) * own / own.sum(), np.full(len(components), share / len(components))])
        more = MixtureProposal(proposal.components + tuple(components), proposal.share, weights)
        return more.with_strata(proposal.strata, proposal.strata_weight)


def _drop_rows(points: Points) -> Points:
    """Return points without their rows in the space of features: a fit needs latent points only."""
    return replace(points, x=np.zeros((len(points), 0)))


def _find_best_of_modes(proposal: MixtureProposal, shares: Array) -> Array:
    """Return which components ``(k,)`` have the largest share of those at their mode."""
    if proposal.modes is None:
        return np.ones(len(shares), dtype=bool)
    best = np.zeros(len(shares), dtype=bool)
    for mode in np.unique(proposal.modes):
        own = np.flatnonzero(proposal.modes == mode)
        best[own[np.argmax(shares[own])]] = True
    return best


# --- independent runs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ProposalRun:
    """One run of adaptive importance sampling."""

    proposal: MixtureProposal  # the adapted proposal
    points: Points  # evaluated draws from it, without those that break a constraint
    n: int  # number of draws, those that break a constraint included
    modes: Modes  # result of its mode search
    efficiency: float  # effective sample size per draw


def rows_for_run(n_effective: float) -> int:
    """Return how many rows a budget must still allow for a run to get its full allowance."""
    return _MOST_LEARNING + 2 * round(MOST_FOR_EFFECTIVE * n_effective)


def _pilot_size(m: int) -> int:
    """Return the number of pilot draws of one round in ``m`` coordinates."""
    return min(_PILOT + _PILOT_PER_COORDINATE * m, _LARGEST_PILOT)


def run_proposal(
    posterior: GibbsPosterior,
    rng: np.random.Generator,
    modes: Modes,
    plain: Points,
    known: tuple[Array, Array],
    n_effective: float,
    most: int,
    known_tilt: TiltedProduct | None = None,
) -> ProposalRun:
    """Adapt a mixture at the modes, then draw ``n_effective`` effective draws, none if each takes over 60 draws."""
    adaptation = ProposalAdaptation(posterior, plain, known, rng)
    tilted = _make_tilts(posterior, float(modes.neg_log_density[0]), known_tilt)
    proposal = initial_proposal(modes, posterior, tilted).with_strata(adaptation.stratify(), _STRATA_SHARE)
    pilot = _pilot_size(plain.z.shape[1])
    best, failures, efficiency = proposal, 0, 0.0
    good = min(_GOOD, n_effective / (_ROUNDS_WORTH * pilot))
    most_cells = _MOST_CELLS // plain.z.shape[1]
    most, learning = min(most, most_cells), min(_MOST_LEARNING, max(most_cells, _USUAL_ROUNDS * pilot))
    for _ in range(min(_MOST_ROUNDS, learning // pilot)):
        drawn = _draw_points(posterior, rng, proposal, pilot)
        now = _compute_efficiency(posterior, proposal, drawn, pilot)
        adaptation.add(proposal, drawn)
        reliable = now * pilot >= adaptation.enough_points  # otherwise a few heavy draws decide
        failures = failures + 1 if reliable and now <= _IMPROVES * efficiency else 0
        if now > efficiency:
            best, efficiency = proposal, now
        if efficiency >= good or failures > 1 or posterior.affords(_ROUNDS_LEFT * pilot) < _ROUNDS_LEFT * pilot:
            break
        proposal = adaptation.fit(proposal)
    if efficiency == 0.0:  # no draw had a finite loss
        return ProposalRun(proposal, plain.take(np.zeros(0, dtype=int)), 0, modes, efficiency)
    # The final draws are fresh. If they are far less efficient than the pilot rounds promised, those had missed
    # something: then these are one more round.
    for last in (False, True):
        final = adaptation.add_tempered_components(adaptation.fit(best))
        if efficiency * MOST_FOR_EFFECTIVE < 1:
            break
        n = min(int(np.ceil(n_effective / efficiency)), most)
        drawn = _draw_points(posterior, rng, final, n)
        efficiency = _compute_efficiency(posterior, final, drawn, n)
        hopeless = efficiency * MOST_FOR_EFFECTIVE < 1  # drawing again would not help either: this one counts
        if last or hopeless or n == most or efficiency * n >= KEPT * n_effective:
            return ProposalRun(final, drawn, n, modes, efficiency)
        adaptation.add(final, drawn)
    return ProposalRun(final, plain.take(np.zeros(0, dtype=int)), 0, modes, efficiency)


def _make_tilts(posterior: GibbsPosterior, lowest: float, known_tilt: TiltedProduct | None) -> list[TiltedProduct]:
    """Return tilts for a posterior of this lowest negative log density; none with few coordinates."""
    direction = tilt(posterior) if posterior.prior.dimension >= _MANY_FOR_TILTS else None
    if direction is None:
        return []
    tilted = [direction.with_divergence(share * lowest) for share in _DIVERGENCES]
    return tilted if known_tilt is None else [*tilted, known_tilt]


def pool_runs(runs: Sequence[ProposalRun]) -> Coverage:
    """Return the draws of all runs, each weighted by the mixture of all proposals (multiple importance sampling)."""
    pool = Points.join([run.points for run in runs])

    def log_density(points: Points) -> Array:
        return log_sum_exp(np.array([run.proposal.log_density(points.z) + np.log(run.n) for run in runs]), axis=0)

    return Coverage(pool, log_density, -log_density(pool))


@dataclass(frozen=True)
class Agreement:
    """Agreement of runs: the share of the mass that only one covers, and the difference of log evidences.

    The mass seen by only one run estimates the mass that none has seen (Good, 1953). ``difference`` is between the last
    run and all before it, without the mass that either does not cover; ``errors`` is the same in standard errors.
    """

    seen_once: float
    difference: float
    errors: float

    @property
    def holds(self) -> bool:
        """Whether the disagreement is no more than chance explains."""
        close = self.errors <= _Z_EVIDENCE or self.difference <= _EVIDENCE_SLACK
        return self.seen_once <= _SEEN_ONCE and close

    def describe(self) -> str:
        """Return the disagreement as part of a sentence."""
        if self.seen_once > _SEEN_ONCE:
            return f"independent searches found different modes ({self.seen_once:.0%} of the mass seen by only one)"
        return f"the log evidences of independent searches differ by {self.difference:.2f}"


def compare_runs(mixture: Mixture, runs: Sequence[ProposalRun]) -> Agreement:
    """Compare the coverage of each run with all draws, and the evidence of the last run with all before it."""
    both = pool_runs(runs)
    weights = normalise(both.log_base_weights + log_target(mixture, both.pool))
    total = both.log_mass(mixture)
    covers = np.array([~pool_runs([run]).outweighed(both.pool, mixture, total) for run in runs])
    parts = [pool_runs(runs[:-1]), pool_runs(runs[-1:])]
    evidence = [part.log_base_weights + log_target(mixture, part.pool) for part in parts]
    missed = [float(weights[~covered].sum()) for covered in (covers[:-1].any(axis=0), covers[-1])]
    earlier, last = (
        log_total(one) - np.log1p(-min(uncovered, 0.999)) for one, uncovered in zip(evidence, missed, strict=True)
    )
    error = np.sqrt(sum(np.square(normalise(one)).sum() for one in evidence))
    difference = abs(last - earlier)
    return Agreement(float(weights[covers.sum(axis=0) < 2].sum()), difference, float(difference / error))


def _draw_points(posterior: GibbsPosterior, rng: np.random.Generator, proposal: MixtureProposal, n: int) -> Points:
    """Draw from the whole defensive mixture, and keep the draws that break no constraint."""
    n_components = rng.binomial(n, proposal.share)
    z = np.vstack(
        [proposal.draw(rng, n_components), rng.standard_normal((n - n_components, posterior.prior.dimension))]
    )
    points = Points.evaluate(posterior, z)
    return points.take(np.isfinite(points.log_correction))


def _compute_efficiency(posterior: GibbsPosterior, proposal: MixtureProposal, points: Points, n: int) -> float:
    """Return the effective sample size per draw, of ``n`` draws of which these break no constraint."""
    log_weights = log_target(posterior.mixture, points) - proposal.log_density(points.z)
    return effective_sample_size(normalise(log_weights)) / n if np.isfinite(log_weights).any() else 0.0
