"""Tilted products as proposals: densities, refits, and the first eta that they lead to."""

from dataclasses import replace

import numpy as np
import pytest

import gbce
from gbce._numerics import effective_sample_size, normalise
from gbce.draws import Points, log_target
from gbce.eta import AUTO
from gbce.samplers._importance import draw_candidates
from gbce.samplers._islands import Islands, draw_start_if_affordable
from gbce.samplers._pilot import _climb_by_tilts, _propose_tilts, find_first_eta
from gbce.samplers._tempering import Bridge
from gbce.samplers._tilts import tilt
from support.tempering import posterior_of

D = 30
WEIGHTS = np.random.default_rng(3).uniform(0.3, 1.0, D) * np.where(np.arange(D) % 2, 1.0, -1.0)


class Far(gbce.base.Target):
    """A sum of at least 14, which no prior draw comes near, with a logistic loss."""

    def read(self, outputs):
        return gbce.base.Reading(outputs.values, np.logaddexp(0.0, 14.0 - outputs.values), outputs.values >= 14.0)

    def describe(self):
        return "far"


def far_posterior(**options):
    prior = gbce.Sparse(gbce.Gaussian(sigma=1.0), change=0.15)
    return replace(posterior_of(lambda x: x @ WEIGHTS, np.zeros(D), Far(), 6.0, prior=prior), **options)


@pytest.fixture(scope="module")
def tilted():
    return tilt(far_posterior()).with_divergence(12.0)


def test_the_density_is_that_of_the_draws(tilted):
    z = tilted.transform(np.random.default_rng(0).standard_normal((40_000, D)))
    weak = tilt(far_posterior()).with_divergence(0.5)
    near = weak.transform(np.random.default_rng(1).standard_normal((40_000, D)))
    weights = np.exp(-weak.log_density(near))
    assert abs(weights.mean() - 1.0) < 4 * weights.std() / 200
    for j in (0, 1):
        own = weights * (near[:, j] > 1.5)
        assert abs(own.mean() - 0.0668) < 4 * own.std() / 200 + 1e-3
    divergence = tilted.log_density(z)
    assert abs(divergence.mean() - 12.0) < 4 * divergence.std() / 200 + 0.01


def test_a_refit_matches_the_mean_changes(tilted):
    z = tilted.transform(np.random.default_rng(2).standard_normal((20_000, D)))
    equal = np.full(len(z), 1.0 / len(z))
    again = tilt(far_posterior()).with_divergence(4.0).refit(z, equal, float(len(z)))
    drawn = again.transform(np.random.default_rng(3).standard_normal((20_000, D)))
    for side in (1, -1):
        mine, theirs = (np.maximum(side * one, 0.0) for one in (drawn, z))
        error = np.sqrt((mine.var(axis=0) + theirs.var(axis=0)) / len(z))
        assert np.all(np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 5 * error + 0.02)


def test_a_tilt_fits_an_additive_model_far_from_the_row():
    posterior, rng = far_posterior(), np.random.default_rng(4)
    direction, best = tilt(posterior), 0.0
    for divergence in (8.0, 12.0, 18.0):
        component = direction.with_divergence(divergence)
        points = Points.evaluate(posterior, component.transform(rng.standard_normal((2_000, D))))
        weights = normalise(log_target(posterior.mixture, points) - component.log_density(points.z))
        best = max(best, effective_sample_size(weights) / 2_000)
    assert best > 0.05  # of prior draws, one in a million counts


@pytest.mark.parametrize("seed", [0, 1])
def test_a_pilot_finds_eta_for_a_few_rows(seed):
    posterior, rng = far_posterior(goal=AUTO), np.random.default_rng(seed)
    first = draw_candidates(posterior, rng, 1_000)
    assert not first.reached.any()
    before = posterior.n_rows
    eta = find_first_eta(posterior, rng, first).eta
    assert posterior.n_rows - before < 6_000  # a tempered run took 15,000
    draws = gbce.SMC().sample(far_posterior(goal=AUTO), np.random.default_rng(seed))
    assert 0.6 < eta / draws.rungs[-1] < 1.6


def test_without_columns_that_may_stay_there_is_no_tilt():
    assert tilt(posterior_of(lambda x: x @ WEIGHTS, np.zeros(D), Far(), 6.0, prior=gbce.Gaussian())) is None


def test_tempering_from_tilts_finds_the_evidence():
    """Rungs from tilts that reach the target, moved by redraws, agree with weights of a tilt that fits."""
    posterior, rng = far_posterior(goal=AUTO), np.random.default_rng(0)
    reaching = _propose_tilts(_climb_by_tilts(posterior, rng))
    at = replace(posterior, goal=None)
    bridge = Bridge(at.mixture, reaching, at.mixture.eta)
    start = draw_start_if_affordable(at, rng, bridge, 2_000)
    run = Islands(400, 8, 30, 1).temper(at, rng, bridge, start)
    exact, error = weigh_by_a_tilt(at)
    assert abs(run.draws.log_evidence - exact) < 4 * np.hypot(run.draws.log_evidence_se, error)
    assert run.draws.log_evidence_se < 0.5


def weigh_by_a_tilt(posterior):
    """Return the log evidence and its error by importance sampling from a tilt."""
    component = tilt(posterior).with_divergence(12.0)
    z = component.transform(np.random.default_rng(4).standard_normal((20_000, D)))
    points = Points.evaluate(posterior, z)
    log_weights = log_target(posterior.mixture, points) - component.log_density(z)
    weights = np.exp(log_weights - log_weights.max())
    mean = weights.mean()
    return float(log_weights.max() + np.log(mean)), float(weights.std() / mean / np.sqrt(len(z)))


def test_rows_that_a_move_leaves_as_they_are_are_not_evaluated_again():
    posterior, rng = far_posterior(), np.random.default_rng(0)
    z = rng.standard_normal((500, D))
    points = Points.evaluate(posterior, z)
    moved = z.copy()
    moved[:, 0] = rng.standard_normal(500)
    before = posterior.n_rows
    now = Points.evaluate(posterior, moved, points)
    changed = (now.x != points.x).any(axis=1)
    assert 0 < changed.sum() < 250
    assert posterior.n_rows - before == changed.sum()
    afresh = Points.evaluate(posterior, moved)
    for name in ("z", "x", "reached", "log_correction"):
        np.testing.assert_array_equal(getattr(now, name), getattr(afresh, name))
    for name in ("outputs", "loss", "cost"):
        np.testing.assert_allclose(getattr(now, name), getattr(afresh, name), rtol=1e-12)
