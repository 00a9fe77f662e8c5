"""Whatever is wrong with a prior, the error says what, and what to do about it."""

import numpy as np
import pytest

import gbce
from support.three_columns import DATA, INF, NAMES, NAN, ROW, explain

ROUGH = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
TALL = np.random.default_rng(5).normal(size=(3, 2))
BAD_PRIORS = {
    "negative sigma": (gbce.Gaussian(-1), r"Gaussian: sigma must be positive and finite, not -1"),
    "zero sigma": (gbce.Gaussian(0), r"Gaussian: sigma must be positive and finite, not 0"),
    "NaN sigma": (gbce.Gaussian(NAN), r"Gaussian: sigma must be positive and finite, not nan"),
    "two sigmas": (gbce.Gaussian([1, 2]), r"Gaussian: sigma must have one number or 3, one per feature"),
    "text sigma": (gbce.Gaussian("wide"), r"Gaussian: sigma must be a number or one number per feature"),
    "sigma by name": (gbce.Gaussian({"Age": 1, "zip": 1}), r"unknown \['zip'\], missing \['income', 'debt'\]"),
    "negative cov": (gbce.Gaussian(cov=-np.eye(3)), r"Gaussian: cov must be positive definite"),
    "cov of another shape": (gbce.Gaussian(cov=np.eye(2)), r"Gaussian: cov must have shape \(3, 3\).*not \(2, 2\)"),
    "cov not symmetric": (gbce.Gaussian(cov=np.triu(np.ones((3, 3)))), r"Gaussian: cov must be finite and symmetric"),
    "NaN cov": (gbce.Gaussian(cov=np.full((3, 3), NAN)), r"Gaussian: cov must be finite and symmetric"),
    "cov not definite": (gbce.Gaussian(cov=ROUGH), r"Gaussian: cov must be positive definite, .*eigenvalue"),
    "cov singular": (gbce.Gaussian(cov=np.ones((3, 3))), r"Gaussian: cov must be positive definite"),
    "cov singular up to rounding": (gbce.Gaussian(cov=TALL @ TALL.T), r"Gaussian: cov must be positive definite"),
    "text cov": (gbce.Gaussian(cov="wide"), r"Gaussian: cov must be an array or 'data', not 'wide'"),
    "sigma and cov": (gbce.Gaussian(2.0, cov=np.eye(3)), r"Gaussian: give sigma or cov, not both"),
    "zero b": (gbce.Laplace(0), r"Laplace: b must be positive and finite, not 0"),
    "negative b": (gbce.Laplace(-2), r"Laplace: b must be positive and finite, not -2"),
    "two b": (gbce.Laplace([1, 2]), r"Laplace: b must have one number or 3"),
}


@pytest.mark.parametrize(("prior", "sentence"), BAD_PRIORS.values(), ids=BAD_PRIORS)
def test_bad_prior_is_refused(prior, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(prior=prior)


def test_singular_cov_is_refused_whatever_rounding_makes_of_it():
    for seed in range(40):
        root = np.random.default_rng(seed).normal(size=(4, 3)) * 10.0 ** (seed % 7 - 3)
        with pytest.raises(ValueError, match="Gaussian: cov must be positive definite"):
            gbce.Gaussian(cov=root @ root.T).at(gbce.Space.real(4), np.zeros(4))


def test_cov_of_very_different_units_is_accepted():
    prior = gbce.Gaussian(cov=np.diag([1e-8, 1.0, 1e8])).at(gbce.Space.real(3), np.zeros(3))
    np.testing.assert_allclose(prior.place(np.ones((1, 3))).x, [[1e-4, 1.0, 1e4]])


def norm(x, row):
    return np.linalg.norm(x - row, axis=1)


BAD_DISTANCES = {
    "bounded": (
        lambda x, row: 1 - np.exp(-norm(x, row)),
        r"cannot be integrated.*reaches only 1 however far.*infinite mass",
    ),
    "periodic": (lambda x, row: 1 - np.cos(norm(x, row)), r"cannot be integrated"),
    "zero": (
        lambda x, row: np.zeros(len(x)),
        r"cannot be integrated.*reaches only 0.*bound those features in the Space",
    ),
    "ignores income": (
        lambda x, row: np.abs(x - row)[:, [0, 2]].sum(axis=1),
        r"Along 'income' the distance reaches only 0",
    ),
    "ignores Age": (lambda x, row: np.abs(x - row)[:, 1:].sum(axis=1), r"Along 'Age' the distance reaches only 0"),
    "one way only": (lambda x, row: np.maximum(x - row, 0).sum(axis=1), r"Along 'Age' the distance reaches only 0"),
    "flat across the axes": (lambda x, row: np.abs((x - row).sum(axis=1)), r"In a direction without bounds"),
    "squared, of low rank": (lambda x, row: ((x - row) @ [1.0, -2.0, 0.5]) ** 2, r"In a direction without bounds"),
    "grows too slowly": (lambda x, row: 2.9 * np.log1p(norm(x, row)), r"must grow faster than 3 x log of the move"),
    "negative": (lambda x, row: norm(x, row) - 1, r"a distance must be zero or more, but it is -1\.0 at \{'Age': 0\.1"),
    "NaN": (lambda x, row: norm(x, row) * NAN, r"a distance must be zero or more, but it is nan at \{'Age'"),
    "wrong shape": (lambda x, row: np.abs(x - row), r"must return one number per line of x, \(1,\), not \(1, 3\)"),
    "one number": (lambda x, row: 1.0, r"must return one number per line of x, \(1,\), not \(\)"),
    "words": (lambda x, row: ["far"] * len(x), r"distance\(x, row\) must return numbers, not \['far'\]"),
    "infinite at the row": (lambda x, row: np.full(len(x), INF), r"the distance of the row to itself must be finite"),
}


@pytest.mark.parametrize(("distance", "sentence"), BAD_DISTANCES.values(), ids=BAD_DISTANCES)
def test_bad_distance_is_refused(distance, sentence):
    with pytest.raises(ValueError, match=f"DistancePrior: .*{sentence}"):
        explain(prior=gbce.DistancePrior(distance), space=gbce.Space.infer(DATA, bounds="none"))


def test_something_that_is_no_distance_is_refused():
    with pytest.raises(TypeError, match=r"DistancePrior: distance must be a function of \(x, row\), not 5"):
        gbce.DistancePrior(5)
    with pytest.raises(TypeError, match=r"DistancePrior: proposal must be a prior such as gbce\.Laplace\(\), not 5"):
        gbce.DistancePrior(norm, proposal=5)


def test_bounded_distance_is_accepted_where_every_feature_is_bounded():
    prior = gbce.DistancePrior(lambda x, row: np.tanh(norm(x, row)))
    bounds = {name: (-3, 3) for name in NAMES}
    with pytest.raises(ValueError, match="Along 'debt' the distance"):
        explain(prior=prior, space=gbce.Space.infer(DATA, bounds=bounds | {"debt": (-3, None)}))
    explanation = explain(prior=prior, space=gbce.Space.infer(DATA, bounds=bounds))
    assert np.abs(explanation.draws.x).max() <= 3
    assert explanation.diagnostics["ess"] > 50


def test_ignoring_a_feature_that_cannot_move_is_no_fault_of_a_distance():
    prior = gbce.DistancePrior(lambda x, row: np.abs(x - row)[:, [0, 2]].sum(axis=1))
    explanation = explain(prior=prior, space=gbce.Space.infer(DATA, immutable=["income"]))
    assert (explanation.draws.x[:, 1] == ROW["income"]).all()
