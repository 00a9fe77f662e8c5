"""Integers many deviations away: improbable, but not impossible, and as probable as the prior says."""

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
