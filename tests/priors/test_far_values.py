"""Values many deviations away: improbable, but not impossible, and as probable as the prior says."""

import numpy as np
import pandas as pd
import pytest

import gbce

SPACE = gbce.Space((gbce.Feature("n", kind="integer", low=0, high=60, scale=1.0),))


@pytest.mark.parametrize("readable", [True, False])
def test_a_target_fifteen_deviations_away_has_its_exact_evidence(readable):
    """It was called unattainable beyond nine."""
    from sklearn.tree import DecisionTreeRegressor

    data = np.arange(61.0)[:, None]
    tree = DecisionTreeRegressor(max_depth=1).fit(data, (data[:, 0] >= 15.0).astype(float))
    model = tree if readable else lambda x: tree.predict(np.asarray(x))
    explainer = gbce.Explainer(model, data, space=SPACE, prior=gbce.Gaussian(1.0), eta=1_000.0)
    explanation = explainer.explain([0.0], gbce.AtLeast(1.0, scale=1.0, tolerance=0.0), rules=[], seed=0)
    weights = np.exp(-0.5 * np.square(np.arange(61.0)))
    exact = np.log(weights[15:].sum() / weights.sum())
    facts = explanation.diagnostics
    assert explanation.distribution["success_probability"] == pytest.approx(1.0)
    assert facts["log_evidence"] == pytest.approx(exact, abs=max(5 * facts["log_evidence_se"], 1e-6))


def test_a_sparse_integer_moves_as_often_as_it_is_said_to():
    """Its next value is forty deviations away: it did not move at all."""
    space = gbce.Space((gbce.Feature("flag", kind="integer", low=0, high=1, scale=0.15),))
    prior = gbce.Sparse(gbce.Gaussian(0.16), change=0.44).at(space, np.zeros(1))
    moved = prior.place(np.random.default_rng(0).standard_normal((4_000, 1))).x[:, 0] != 0
    assert abs(moved.mean() - 0.44) < 4 * np.sqrt(0.44 * 0.56 / 4_000)


def test_a_diagonal_covariance_of_one_integer_column():
    """It raised: only 0-dimensional arrays can be converted to Python scalars."""
    from sklearn.tree import DecisionTreeRegressor

    data = pd.DataFrame({"n": np.arange(200) % 50, "fixed": np.arange(200.0)})
    tree = DecisionTreeRegressor(max_depth=3).fit(data, data["n"].astype(float))
    space = gbce.Space.infer(data, immutable=["fixed"])
    explainer = gbce.Explainer(tree, data, space=space, prior=gbce.Gaussian(cov=np.diag([4.0, 9.0])))
    assert explainer.explain(data.iloc[3], gbce.AtLeast(20.0), rules=[], seed=0).status != "not attained"


FAR = [-300.0, -45.0, -38.0, -37.7, -30.1, -29.9, 29.9, 30.1, 37.7, 38.0, 45.0, 300.0]


@pytest.mark.parametrize(("row", "missing"), [(0.5, "keep"), (0.5, "any"), (np.nan, "any")])
@pytest.mark.parametrize("prior", [gbce.Gaussian(), gbce.Sparse(gbce.Gaussian(), change=0.26)], ids=["dense", "sparse"])
def test_values_beside_an_atom_are_finite_and_in_order_however_far_the_noise_is_out(prior, row, missing):
    """At 37.7 deviations a tail that was divided by the odds of a change was infinitely far away."""
    located = prior.at(gbce.Space((gbce.Feature("a", scale=1.0, missing=missing),)), np.array([row]))
    values = located.place(np.array(FAR)[:, None]).x[:, 0]
    known = values[~np.isnan(values)]
    assert len(known) >= np.sum(np.array(FAR) < 0)
    assert np.isfinite(known).all()
    assert (np.diff(known) > 0).all()
    np.testing.assert_allclose(known, np.array(FAR)[: len(known)], atol=1.0)  # an atom's tail is a log of odds nearer


def test_a_known_row_far_away_is_asked_about_as_it_is():
    """Row 1 lies 37.7 deviations out: its value became infinite, and the model raised."""
    from sklearn.tree import DecisionTreeRegressor

    data = np.random.default_rng(0).normal(size=(200, 2))
    data[1, 0] = 37.66
    tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(data, data[:, 0])
    asked = []

    def model(x):
        asked.append(np.array(x))
        return tree.predict(x)

    space = gbce.Space.real(2)
    sparse = gbce.Sparse(gbce.Gaussian(1.0), change=0.26)
    explanation = gbce.Explainer(model, data, space=space, prior=sparse).explain(
        [0.0, 0.0], gbce.AtLeast(30.0), rules=[gbce.Nearest()], seed=0
    )
    assert np.isfinite(np.concatenate(asked)).all()
    assert explanation.pointwise["reached"].all()


@pytest.mark.parametrize("limits", [{}, {"low": 0.0}, {"high": 1.0}], ids=["none", "low", "high"])
def test_heavy_tails_go_no_farther_than_single_precision(limits):
    """Beside one limit values of 1e75 were asked about, which no tree of scikit-learn takes."""
    from sklearn.tree import DecisionTreeRegressor

    data = np.random.default_rng(0).uniform(size=(200, 2))
    space = gbce.Space(tuple(gbce.Feature(name, scale=1.0, **limits) for name in "ab"))
    tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(data, data.sum(axis=1))
    heavy = gbce.DistancePrior(lambda x, row: np.abs(x - row).sum(axis=1) ** 0.6)
    explainer = gbce.Explainer(
        lambda x: tree.predict(x) + np.log1p(np.abs(x)).sum(axis=1), data, space=space, prior=heavy
    )
    assert explainer.explain([0.1, 0.1], gbce.AtLeast(60.0), rules=[gbce.MAP()], seed=0).status == "not attained"
