"""Priors at a row: the map and the distance belong together, in each feature's scale, and reach both tails."""

import numpy as np
import pytest
from scipy.stats import laplace, norm

import gbce
from gbce.priors._distance import _safe_distributions
from gbce.priors._distributions import LAPLACE, NORMAL, STUDENT, Truncation, log_mass
from gbce.priors._parts import Reals, Spiked


def truncate(law, z, low, high):
    return Truncation.of(law, low, high).truncate(z)


SPACE = gbce.Space.real(2, scale=[0.5, 20.0])
X0 = np.array([1.0, -3.0])
COV = np.array([[1.0, 0.6], [0.6, 2.0]])


@pytest.mark.parametrize(
    "prior",
    [gbce.Gaussian(), gbce.Gaussian([0.5, 2.0]), gbce.Gaussian(cov=COV), gbce.Laplace([0.5, 2.0])],
    ids=["isotropic", "per feature", "correlated", "laplace"],
)
def test_density_of_an_exact_map_is_the_distance(prior):
    located = prior.at(SPACE, X0)
    (part,) = located.parts
    x, log_q = part.draw(np.random.default_rng(0).normal(size=(50, 2)))
    np.testing.assert_allclose(log_q + located.cost(x), log_q[0] + located.cost(x)[0])


def test_spread_is_in_each_features_scale():
    z = np.array([[1.0, 0.0], [0.0, 1.0]])
    L = (gbce.Gaussian(cov=COV).at(SPACE, X0).place(z).x - X0).T
    np.testing.assert_allclose(L @ L.T, COV * np.outer(SPACE.scale, SPACE.scale))
    at = gbce.Laplace([0.5, 2.0]).at(SPACE, X0).place(np.ones((1, 2))).x[0] - X0
    np.testing.assert_allclose(at, laplace.isf(norm.sf(1.0)) * np.array([0.5 * 0.5, 2.0 * 20.0]))


@pytest.mark.parametrize(("low", "high"), [(8.0, 9.0), (-9.0, -8.0), (-1.0, np.inf), (-np.inf, 1.0)])
def test_truncation_is_accurate_in_either_tail(low, high):
    z = np.array([-9.0, 0.0, 9.0])
    x = truncate(NORMAL, z, np.array(low), np.array(high))
    sign = -1.0 if low + high > 0 else 1.0  # work in the lower tail, where scipy is accurate
    a, b = sorted((sign * low, sign * high))
    share = norm.cdf(z if sign > 0 else -z)
    np.testing.assert_allclose(x, sign * norm.ppf(norm.cdf(a) + share * (norm.cdf(b) - norm.cdf(a))), rtol=1e-9)
    np.testing.assert_allclose(log_mass(NORMAL, np.array(low), np.array(high)), np.log(norm.cdf(b) - norm.cdf(a)))


def test_proposals_are_never_lighter_than_the_distance():
    assert _safe_distributions(0.5) == [STUDENT]
    assert _safe_distributions(1.0) == [STUDENT, LAPLACE]
    assert _safe_distributions(2.0) == [STUDENT, LAPLACE, NORMAL]


@pytest.mark.parametrize("law", [NORMAL, LAPLACE, STUDENT], ids=lambda law: law.name)
def test_what_stays_need_not_be_mapped(law):
    """Only features that leave the row go through the law, each as if all did."""
    rng = np.random.default_rng(0)
    k = 12
    origin = rng.normal(size=k)
    low, high = origin - rng.exponential(size=k), origin + rng.exponential(size=k)
    low[::3], high[1::4] = -np.inf, np.inf
    low[5] = high[5] = origin[5]
    reals = Reals(np.arange(k), law, origin, rng.uniform(0.5, 2.0, k), low, high)
    spiked = Spiked(reals, origin, 0.3)
    z = 1.5 * rng.standard_normal((400, k))
    z[:2] = [[40.0], [-40.0]]
    stays = np.abs(z) <= spiked._spike_edge
    every = reals.draw(spiked._map_to_slab(z))[0]
    np.testing.assert_array_equal(spiked.draw(z)[0], np.where(stays, origin, every))
    assert 0.4 < stays.mean() < 0.6


@pytest.mark.parametrize("law", [NORMAL, LAPLACE, STUDENT], ids=lambda law: law.name)
@pytest.mark.parametrize("limits", [(-np.inf, 0.3), (-0.3, np.inf), (-np.inf, np.inf)])
def test_noise_from_far_out_is_mapped_to_finite_values(law, limits):
    """A search may step where the normal tail is zero in floating point; no model is shown an infinite number."""
    z = np.array([-100.0, -39.0, 0.0, 39.0, 100.0])
    value = truncate(law, z, *(np.full(5, limit) for limit in limits))
    assert np.isfinite(value).all()
    assert (np.diff(value) >= 0).all()
    assert (value >= limits[0]).all()
    assert (value <= limits[1]).all()
