"""Strata as a proposal distribution: densities, draws, and what a search cannot see."""

import weakref
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from sklearn.datasets import load_diabetes

import gbce
from gbce._numerics import effective_sample_size, log_mean_exp, normalise
from gbce.samplers import _runs
from gbce.samplers._proposals import _EDGES, MixtureProposal, NormalComponent, ProductOfMarginals, Strata, _find_bins

CORNER = np.array([-2.0, 1.0, 0.0])  # the potential is 1 where z0 < -2 and z1 > 1, else 30


def potential(z):
    return np.where((z[:, 0] < CORNER[0]) & (z[:, 1] > CORNER[1]), 1.0, 30.0)


@pytest.fixture(scope="module")
def seen():
    rng = np.random.default_rng(0)
    return np.vstack([rng.standard_normal((1_000, 3)), 3.0 * rng.standard_normal((1_000, 3))])


@pytest.fixture(scope="module")
def strata(seen):
    return Strata.fit(np.random.default_rng(10), [seen], potential(seen))


def test_the_density_is_that_of_the_draws(strata):
    rng = np.random.default_rng(1)
    drawn, latent = strata.draw(rng, 40_000), rng.standard_normal((400_000, 3))
    density = np.exp(strata.log_density(latent))
    for event in (lambda z: z[:, 0] > -np.inf, lambda z: z[:, 2] > 0.5, lambda z: (z[:, 0] < -2.2) & (z[:, 1] > 1.5)):
        share, values = event(drawn).mean(), density * event(latent)
        error = np.sqrt(share * (1 - share) / len(drawn) + values.var() / len(latent))
        assert abs(share - values.mean()) < 4 * error + 1e-9


def test_a_box_of_a_thousandth_is_drawn_from_as_if_it_were_all(seen, strata):
    """Its edges are known to the nearest points that were seen inside: less than that box must not be found."""
    inside = seen[potential(seen) == 1.0]
    least = log_ndtr(inside[:, 0].max()) + log_ndtr(-inside[:, 1].min()) - 1.0
    z = strata.draw(np.random.default_rng(2), 4_000)
    log_weights = -potential(z) - strata.log_density(z)
    exact = log_ndtr(CORNER[0]) + log_ndtr(-CORNER[1]) - 1.0
    weights = normalise(log_weights)
    error = np.sqrt(np.square(weights).sum())
    assert effective_sample_size(weights) > 0.3 * len(z)
    assert least - 4 * error - 1e-9 < log_mean_exp(log_weights) < exact + 4 * error + 1e-9


def test_limits_far_out_are_kept():
    rng = np.random.default_rng(3)
    z = rng.standard_normal((500, 2))
    z[:250, 0] -= 9.0
    strata = Strata.fit(rng, [z], np.where(z[:, 0] < -6.0, 0.0, 60.0))
    drawn = strata.draw(rng, 2_000)
    assert np.isfinite(drawn).all()
    assert np.isfinite(strata.log_density(drawn)).all()
    assert (drawn[:, 0] < -4.0).mean() > 0.3


def test_where_all_is_the_same_there_is_nothing_to_divide():
    z = np.random.default_rng(4).standard_normal((50, 2))
    assert Strata.fit(np.random.default_rng(0), [z], np.full(50, 3.0)) is None


def test_a_box_too_thin_to_have_a_mass_has_no_density(strata):
    """Between points one rounding apart a box has a mass of zero: its density was not a number."""
    z = np.random.default_rng(3).standard_normal((500, 3))
    which = strata.boxes.find(z)
    thin = np.arange(len(strata.weights)) == which[0]
    weights = np.where(thin, 0.0, strata.weights)
    density = replace(strata, log_mass=np.where(thin, -np.inf, strata.log_mass), weights=weights).log_density(z)
    np.testing.assert_array_equal(density, np.where(thin[which], -np.inf, strata.log_density(z)))


def test_product_law_draws_what_its_density_says():
    """Draws of a product of histograms, weighed by its density, are draws of the latent law; marginals are learned."""
    rng = np.random.default_rng(3)
    z = np.column_stack([-2.5 + 0.3 * rng.standard_normal(400), rng.standard_normal(400)])
    law = ProductOfMarginals.fit(z, np.full(400, 1 / 400), 400.0)
    drawn = law.transform(rng.standard_normal((20_000, 2)))
    weights = np.exp(-law.log_density(drawn))
    for value, exact in ((np.ones(20_000), 1.0), (drawn[:, 0], 0.0), (drawn[:, 1] > 1.0, ndtr(-1.0))):
        each = weights * value
        assert abs(each.mean() - exact) < 5 * each.std() / np.sqrt(20_000)
    assert np.mean(np.abs(drawn[:, 0] + 2.5) < 0.9) > 0.7
    assert abs(np.mean(np.abs(drawn[:, 1]) < 1.0) - 0.68) < 0.1


def test_a_posterior_of_many_sets_of_columns_does_not_run_away():
    """It is spread too thinly for normal laws; what looks found is handed over where tempering would not do better."""
    lightgbm = pytest.importorskip("lightgbm")
    x, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = lightgbm.LGBMRegressor(n_estimators=300, verbose=-1, n_jobs=1).fit(x, y)
    space = gbce.Space.infer(x, immutable=["age", "sex"])
    explainer = gbce.Explainer(model, x, space=space, eta=1, sampler=gbce.SMC())
    explanation = explainer.explain(x.iloc[9], gbce.AtMost(120), seed=0)
    assert "islands" not in explanation.diagnostics
    assert explanation.n_model_rows < 160_000


# --- many columns -----------------------------------------------------------------------------------------------------


def test_in_many_columns_strata_bound_those_with_an_effect():
    rng, m = np.random.default_rng(5), 200
    z = np.vstack([rng.standard_normal((1_500, m)), 2.0 * rng.standard_normal((1_500, m))])
    value = np.where((z[:, 7] < -1.0) & (z[:, 150] > 0.5), 0.0, 8.0) + 2.0 * np.abs(z[:, 42])
    strata = Strata.fit(rng, [z[:1_000], z[1_000:]], value)
    assert {7, 42, 150} <= set(strata.columns)
    assert strata.boxes.low.shape[1] == len(strata.columns) < m / 2
    drawn = strata.draw(rng, 4_000)
    assert drawn.shape == (4_000, m)
    corner = (drawn[:, 7] < -1.0) & (drawn[:, 150] > 0.5)
    weights = normalise(-strata.log_density(drawn))  # back to N(0, I)
    error = np.sqrt(np.sum(np.square(weights * (corner - ndtr(-1.0) * ndtr(-0.5)))))
    assert corner.mean() > 3 * ndtr(-1.0) * ndtr(-0.5)
    assert abs(weights @ corner - ndtr(-1.0) * ndtr(-0.5)) < 4 * error


def test_histogram_bins_are_those_of_their_edges():
    z = np.random.default_rng(6).normal(0.0, 3.0, size=(500, 7))
    z[0] = [-np.inf, np.inf, -40.0, 40.0, 4.19, -4.21, 0.1]
    np.testing.assert_array_equal(_find_bins(z), np.searchsorted(_EDGES, z))


def test_densities_are_reused_but_keep_no_points_alive():
    rng, m = np.random.default_rng(7), 5
    proposal = MixtureProposal((NormalComponent(np.ones(m), np.zeros((m, 0)), np.zeros(0)),), 0.8)
    z = rng.standard_normal((50, m))
    first = proposal.log_component_parts(z)
    assert proposal.log_component_parts(z.copy()) is first
    alive = weakref.ref(z)
    del z
    assert alive() is None
    other = rng.standard_normal((9_000, m))  # more than one block
    np.testing.assert_allclose(proposal.log_component_parts(other)[:, 0], other.sum(axis=1) - 0.5 * m, atol=1e-12)


def test_runs_in_many_columns_keep_a_bounded_number_of_draws(monkeypatch):
    m, cells = 60, 60 * 1_500
    monkeypatch.setattr(_runs, "_MOST_CELLS", cells)
    slopes = np.random.default_rng(8).normal(size=m) / np.sqrt(m)
    explainer = gbce.Explainer(
        lambda x: x @ slopes, np.random.default_rng(9).normal(size=(100, m)), sampler=gbce.SMC(1_000, 400)
    )
    found = explainer.explain(np.zeros(m), gbce.AtLeast(3.0, scale=0.3), rules=[], seed=0)
    looks = found.diagnostics["looks"]
    assert looks >= 2
    assert len(found.draws.pool) <= looks * cells // m
