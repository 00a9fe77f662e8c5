"""Pieces of tempering: moves, islands, errors between runs, proposals."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import gbce
from gbce._numerics import MATRIX_UP_TO
from gbce.draws import Draws, Points
from gbce.draws._draws import _error_of_sum
from gbce.posterior import Mixture
from gbce.samplers._importance import draw_candidates
from gbce.samplers._islands import Islands
from gbce.samplers._moves import Kernel, Learned, StepSizes, correlate_with_start
from gbce.samplers._proposals import MixtureProposal, NormalComponent, ProductOfMarginals
from gbce.samplers._starts import Starts
from gbce.samplers._tempering import Bridge, Population, _make_kernel
from support.laws import close
from support.tempering import (
    SEARCHING,
    SMALL,
    Basins,
    agrees,
    as_loss,
    evidence_agrees,
    hard,
    posterior_linear,
    posterior_of,
    sampled,
)


def bent(z):
    """Whether latent points lie in a region that no proposal knows of, and that looks different from every side."""
    return z[:, 0] > 0.3 + 0.5 * np.square(z[:, 1] - 0.5)


def draws_of_bent(rng, n):
    z = rng.standard_normal((20 * n, 3))
    return z[bent(z)][:n]


@pytest.mark.parametrize("redraws", [False, True])
def test_moves_keep_a_skewed_law(redraws):
    """Many independent points that have the law already have it after moves that were learned from others."""
    rng = np.random.default_rng(0)
    posterior = posterior_of(lambda x: np.where(bent(x), 0.0, 1.0), np.zeros(3), as_loss(), 1.0)
    learned = []
    for _ in range(2):
        other = draws_of_bent(rng, 300)
        equal = np.full(300, 1 / 300)
        marginals = ProductOfMarginals.fit(other, equal, 300.0) if redraws else None
        learned.append(Learned(NormalComponent.fit(other, equal, 300.0), other, marginals))
    points = Points.evaluate(posterior, draws_of_bent(rng, 20_000))
    kernel = Kernel(posterior, lambda p: np.where(p.loss[:, 0] > 0, np.inf, 0.0), learned, np.arange(20_000) % 2)
    steps, before = StepSizes(), points
    for _ in range(25):
        points, steps = kernel.sweep(rng, points, steps)
    assert correlate_with_start(before, points, lambda p: p.z[:, 0]) < 0.2
    exact = draws_of_bent(rng, 100_000)

    def figures(z):
        return np.column_stack([z, np.square(z), z[:, 0] * z[:, 1], z[:, 0] ** 3, z[:, 1] ** 3])

    now, then = figures(points.z), figures(exact)
    se = np.sqrt(now.var(axis=0) / len(now) + then.var(axis=0) / len(then))
    close(now.mean(axis=0), then.mean(axis=0), se, "moments")


def test_a_half_of_the_islands_knows_only_the_other():
    posterior = posterior_linear(hard(2))
    island = np.arange(400) % 4
    z = np.random.default_rng(0).normal(size=(400, 2)) + np.where(island % 2 == 0, 10.0, -10.0)[:, None]
    now = Population(Points.evaluate(posterior, z), island, 0.0, np.zeros(4))
    kernel = _make_kernel(posterior, Bridge(posterior.mixture), now, now, np.zeros(400), 1.0)
    for half, sign in ((0, -1.0), (1, 1.0)):
        assert (sign * kernel.learned[half].points > 0).all()
        assert (sign * kernel.learned[half].component.mean > 5).all()
        assert (sign * z[kernel.half == half] < 0).all()


@pytest.mark.parametrize("n_groups", [2, 4, 8])
def test_errors_between_a_few_runs_cover(n_groups):
    """1.96 errors hold 95% of figures that are sums over a few independent runs."""
    sums = np.random.default_rng(0).normal(size=(n_groups, 20_000))
    share = np.mean(np.abs(sums.sum(axis=0)) <= 1.96 * _error_of_sum(sums, np.arange(n_groups)))
    assert share == pytest.approx(0.95, abs=0.006)


@pytest.mark.parametrize("n_draws", [30, 300])
def test_errors_of_picked_draws_cover(n_draws):
    """Errors between runs and of picking, together: with many draws the first counts most, with few the second."""
    rng, n_groups, held = np.random.default_rng(0), 4, []
    groups, weights = np.repeat(np.arange(n_groups), 250), np.full(1_000, 1 / 1_000)
    nothing = np.zeros((1_000, 1))
    points = Points(nothing, nothing, nothing, nothing, nothing > 0, nothing[:, 0], nothing[:, 0])
    pool = Draws(
        points, weights, np.arange(1_000), weights, False, np.ones(1), 0.0, 0.0, (1.0,), np.zeros(1_000), groups
    )
    for _ in range(4_000):
        values = rng.normal(size=1_000) + 0.3 * rng.normal(size=n_groups)[groups]  # runs differ by more than chance
        draws = pool.resample(rng, n_draws)
        got = draws.mean(values)
        held.append(abs(got) <= 1.96 * draws.standard_error(values - got))
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)  # Welch and Satterthwaite are near, not exact


def test_islands_that_learn_from_each_other_count_for_less():
    """The error of the evidence is that between islands, widened; and so it is at every other eta."""
    posterior = posterior_linear(hard(2, eta=10.0, away=4.5))
    draws = sampled(gbce.SMC(3_000, 800, max_looks=0), posterior, 0)
    assert draws.evidence_inflation == 1.3
    for eta in (10.0, 4.0):
        mixture = replace(posterior.mixture, eta=eta)
        at, alone = draws.reweigh(mixture), replace(draws, evidence_inflation=1.0).reweigh(mixture)
        between = _error_of_sum(at.pool_weights - at.prior_weights, at.groups)
        assert alone.log_evidence_se == pytest.approx(between)
        assert at.log_evidence_se == pytest.approx(np.sqrt(1.3) * between)
    assert draws.log_evidence_se == pytest.approx(draws.reweigh(posterior.mixture).log_evidence_se)


def tempered(sampler, posterior, seed):
    """Return a tempered run."""
    rng = np.random.default_rng(seed)
    first = draw_candidates(posterior, rng, sampler.n_candidates)
    islands = Islands(sampler.n_draws, sampler.n_islands, sampler.max_sweeps, sampler.max_rounds)
    return islands.temper(posterior, rng, Bridge(posterior.mixture), first).draws


def test_islands_that_disagree_are_joined_by_more():
    basins = Basins(10)
    posterior = posterior_of(basins.loss, np.zeros(10), as_loss(), 1.0)
    few = gbce.SMC(2_000, 1_000, max_sweeps=3, max_looks=0)  # too few to go from mode to mode
    once, again = (tempered(replace(few, max_rounds=most), posterior, seed=1) for most in (1, 6))
    assert once.facts["rounds"] == 1
    assert again.facts["rounds"] > 1
    assert again.groups.max() + 1 == 8 * again.facts["rounds"]
    assert again.rungs == once.rungs
    assert again.log_evidence_se < 1.54 * once.log_evidence_se  # of eight islands it is known to 27%: two errors
    right = (again.pool.x[:, 0] > 0).astype(float)
    agrees(again, right, 0.7, "mass of the right mode")
    close(again.log_evidence, basins.log_evidence, again.log_evidence_se, "log evidence", again)


@dataclass(frozen=True)
class Needle:
    """A wide well around the row and a needle beside it that few islands find, with most of the posterior at eta 1."""

    d: int = 3
    width: float = 0.05
    share: float = 0.7

    @property
    def wide(self):
        """Mass of the prior times the wide well, were it as deep as the needle."""
        return -0.5 * self.d * np.log(1 + 1 / 0.2**2)

    @property
    def narrow(self):
        spread = 1 + self.width**2
        return 0.5 * self.d * np.log(self.width**2 / spread) - 0.5 * 2.5**2 / spread

    def loss(self, x):
        higher = self.wide - self.narrow + np.log(self.share / (1 - self.share))
        wide = higher + 0.5 * np.square(x).sum(axis=1) / 0.2**2
        return np.minimum(wide, 0.5 * np.square(x - 2.5 * np.eye(self.d)[0]).sum(axis=1) / self.width**2)

    @property
    def log_evidence(self):
        return self.narrow - np.log(self.share)


def seed_where_few_find(sampler, posterior, first):
    """The first seed at which only some islands find the needle, however many are sent up.

    Where none does, nobody knows of it.
    """
    runs = ((seed, tempered(sampler, posterior, seed)) for seed in range(first, first + 40))
    return next((seed, run) for seed, run in runs if run.facts["rounds"] == sampler.max_rounds)


def test_a_mode_that_few_islands_find_is_a_doubt():
    """Islands that found it give it too much mass and the others too little; more of them do not settle it."""
    needle, sampler = Needle(), SMALL
    posterior = posterior_of(needle.loss, np.zeros(needle.d), as_loss(), 1.0)
    seed, before = seed_where_few_find(sampler, posterior, 100)
    draws = sampled(sampler, posterior, seed)
    assert draws.log_evidence == before.log_evidence
    assert draws.info.doubt == "independent islands disagreed at first"


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_a_mode_that_few_islands_find_is_seen_by_a_search(seed):
    needle = Needle()
    draws = sampled(SEARCHING, posterior_of(needle.loss, np.zeros(needle.d), as_loss(), 1.0), seed)
    agrees(draws, (draws.pool.x[:, 0] > 1.5).astype(float), needle.share, "mass of the needle")
    evidence_agrees(draws, needle.log_evidence)


def test_a_mixture_proposal_is_normalised():
    rng = np.random.default_rng(0)
    laws = [
        NormalComponent.fit(rng.normal(size=(500, 3)) * scale + centre, np.full(500, 1 / 500), 500.0)
        for scale, centre in (([0.05, 0.1, 1.0], 2.0), (0.4, -1.0), (1.0, 0.0))
    ]
    guide = MixtureProposal(tuple(laws), 0.3)
    near = guide.draw(rng, 60_000)
    z = np.concatenate([near, rng.normal(size=(140_000, 3))])
    latent = np.exp(-guide.log_density(z))
    close(latent.mean(), 1.0, latent.std() / np.sqrt(len(z)), "total mass of the latent law")
    values = np.column_stack([z, np.square(z) - 1.0]) * latent[:, None]
    close(values.mean(axis=0), np.zeros(6), values.std(axis=0) / np.sqrt(len(z)), "its moments")


def test_a_law_fitted_to_a_few_points_of_a_narrow_place_stays_there():
    """The error of a mean is that of the points, which lie close; a coordinate in which they do not stays as it was."""
    rng, n = np.random.default_rng(0), 25
    centre, deviation = np.array([2.0, 0.2, -0.3, 0.0]), np.array([0.01, 0.02, 0.1, 1.0])
    law = NormalComponent.fit(centre + deviation * rng.standard_normal((n, 4)), np.full(n, 1 / n), n)
    close(law.mean[:3], centre[:3], deviation[:3] / np.sqrt(n), "mean")
    wide = NormalComponent.fit(rng.standard_normal((n, 40)), np.full(n, 1 / n), n)
    assert np.count_nonzero(wide.mean) <= 0.25 * 40  # of two errors, 5% are expected


@pytest.mark.parametrize(("m", "all_count"), [(3, True), (MATRIX_UP_TO, True), (MATRIX_UP_TO + 1, False)])
def test_points_of_next_to_no_weight_are_dropped_only_from_wide_fits(m, all_count):
    rng = np.random.default_rng(4)
    z = 3.0 + rng.standard_normal((600, m))
    weights = np.repeat([1.0, 1e-12], 300)
    weights /= weights.sum()
    fitted = NormalComponent.fit(z, weights, 300.0)
    whole, heavy = weights @ z, weights[:300] / weights[:300].sum() @ z[:300]
    assert np.any(whole != heavy)
    np.testing.assert_array_equal(fitted.mean, whole if all_count else heavy)


def test_a_mixture_proposal_says_the_same_of_points_it_was_asked_about_before():
    rng = np.random.default_rng(0)
    laws = tuple(NormalComponent.fit(rng.normal(size=(200, 3)) + k, np.full(200, 1 / 200), 200.0) for k in (0.0, 2.0))
    points = [rng.normal(size=(n, 3)) for n in (40, 40, 7, 1)]
    guide = MixtureProposal(laws, 0.3)
    for z in [*points, points[1].copy(), *points[::-1]]:
        np.testing.assert_array_equal(guide.log_component_parts(z), MixtureProposal(laws, 0.3).log_component_parts(z))
    assert len(guide._cache) <= 2


def test_known_rows_order_known_in_turns():
    """Of each group in turn the nearest that is left, and any other: each row once."""
    posterior = replace(
        posterior_of(lambda x: x.sum(axis=1), np.zeros(3), as_loss(), 1.0),
        landmarks=np.random.default_rng(1).normal(size=(70, 3)),
    )
    rng = np.random.default_rng(2)
    starts = Starts(posterior, rng, draw_candidates(posterior, rng, 200))
    starts._groups = [group[: 5 + 3 * k] for k, group in enumerate(starts._groups)]
    starts.rng = np.random.default_rng(3)
    lined_up = starts._order_known()
    rng, turns = np.random.default_rng(3), []
    shuffled = [rng.permutation(len(group)) for group in starts._groups]
    for t in range(max(map(len, starts._groups))):
        for group, order in zip(starts._groups, shuffled, strict=True):
            turns += [group[i] for i in ([t, order[t]] if t < len(group) else [])]
    first = dict.fromkeys(row.tobytes() for row in turns)
    assert [row.tobytes() for row in lined_up] == list(first)


def test_points_that_violate_constraints_have_no_weight_and_leave_no_warning():
    points = SimpleNamespace(loss=np.zeros((3, 1)), log_correction=np.array([0.0, 1.5, np.inf]))
    u = Bridge(Mixture(1.0, np.ones(1))).along(points)
    np.testing.assert_array_equal(u(-1.0), [0.0, 0.0, 0.0])  # constraints do not count yet
    np.testing.assert_array_equal(u(-0.5), [0.0, 0.75, np.inf])
    np.testing.assert_array_equal(u(0.0), [0.0, 1.5, np.inf])
