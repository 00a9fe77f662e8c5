"""Rules on real tables, checked in plain pandas, and what keeping them costs."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import gbce
from gbce.space import Places


@pytest.fixture(scope="module")
def table():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = RandomForestRegressor(20, min_samples_leaf=3, random_state=0).fit(X, y)
    space = gbce.Space.infer(
        X,
        immutable=["age", "sex"],
        decrease=["bmi"],
        bounds={"bmi": (18, 45), "bp": (60, 140)},
        constraints=["s2 + s3 <= s1", "if bmi >= 35 then bp >= 70"],
    )
    return X, model, space


def keeps_the_rules(frame, row):
    return (
        (frame["age"] == row["age"])
        & (frame["sex"] == row["sex"])
        & (frame["bmi"] <= row["bmi"])
        & frame["bmi"].between(18, 45)
        & frame["bp"].between(60, 140)
        & (frame["s2"] + frame["s3"] <= frame["s1"])
        & ((frame["bmi"] < 35) | (frame["bp"] >= 70))
    )


@pytest.mark.parametrize("prior", [gbce.Gaussian(), gbce.Sparse(gbce.Gaussian(), change=0.2)], ids=["plain", "sparse"])
def test_draws_and_decisions_keep_the_rules_and_report_what_predict_says(table, prior):
    X, model, space = table
    explainer = gbce.Explainer(model, X, space=space, prior=prior, sampler=gbce.SMC(1_000, 200))
    for i in (3, 9):
        now = model.predict(X.iloc[[i]])[0]
        found = explainer.explain(X.iloc[i], gbce.Change(-0.15, relative=True), rules=[gbce.MAP(), gbce.Mean()], seed=i)
        pool, weights = found.draws.pool.x, found.draws.pool_weights
        for frame in (space.frame(pool[weights > 0]), found.counterfactuals):
            assert keeps_the_rules(frame, X.iloc[i]).all()
            assert (frame.dtypes == X.dtypes).all()
        granted = model.predict(found.counterfactuals) <= 0.85 * now
        np.testing.assert_array_equal(found.pointwise["reached"], granted)


def test_a_sparsity_path_searches_all_numbers_of_changes_in_the_same_calls(table):
    X, model, space = table
    prior = gbce.Sparse(gbce.Gaussian(), change=0.2)
    explainer = gbce.Explainer(model, X, space=space, prior=prior, sampler=gbce.SMC(1_000, 200))
    found = explainer.explain(X.iloc[9], gbce.Change(-0.15, relative=True), rules=[gbce.MAP()], seed=0)
    assert found.n_model_calls < 500  # one search after the other took thousands
    x = np.array([decision.x for decision in found.decisions])
    changes = space.changed(x, found.x0).sum(axis=1)
    assert len(set(changes)) == len(changes) == 6
    assert found.pointwise["reached"].iloc[0]
    # a point with one more change is refined as far: it costs little more than one change does by itself
    loss, cost = (np.array([getattr(decision, name) for decision in found.decisions]) for name in ("loss", "cost"))
    steps = np.diff(found.mixture.objective(loss, cost)[np.argsort(changes)])
    assert found.sparsity_path.index.tolist() == sorted(changes)
    assert found.pointwise.index.tolist() == ["MAP"]
    assert (steps[changes.min() - 1 : 4] < 3).all()


def test_candidates_that_break_a_rule_are_not_asked_for_their_density(table, monkeypatch):
    from gbce.priors._families import Density

    X, _, space = table
    prior = gbce.NearData(gbce.Gaussian(), max_rows=50).learned(space, space.encode(X))
    located = prior.at(space, space.encode_row(X.iloc[9]))
    asked = []
    whole = Density.log
    monkeypatch.setattr(Density, "log", lambda self, u: asked.append(len(u)) or whole(self, u))
    z = located.draw(np.random.default_rng(0), 300)
    assert 0 < located.mass <= 1
    assert asked == []
    placed = located.place(z)
    assert asked == [300]
    assert np.isfinite(placed.log_correction).all()
    assert keeps_the_rules(space.frame(placed.x), X.iloc[9]).all()


def test_density_is_the_mean_of_the_kernels(table):
    X, _, space = table
    density = gbce.NearData(max_rows=60).learned(space, space.encode(X)).density
    u = space.embed(space.encode(X)).axes[:40] + 0.3
    gaps = np.square(u[:, None, :] - density.points.axes[None, :, :]).sum(axis=2)
    np.testing.assert_allclose(
        density.log(Places(u)), np.log(np.exp(-0.5 * gaps / density.width**2).mean(axis=1)), rtol=1e-8
    )


def test_a_level_that_breaks_a_rule_goes_back_and_numbers_keep_their_move():
    frame = load_diabetes(return_X_y=True, as_frame=True, scaled=False)[0].assign(
        group=lambda X: np.where(X["age"] > 50, "old", np.where(X["age"] > 30, "middle", "young"))
    )
    space = gbce.Space.infer(frame, constraints=["if sex == 2 then group != 'young'", "s2 + s3 <= s1"])
    row = frame[(frame["sex"] == 2) & (frame["group"] == "old")].iloc[0]
    x0 = space.encode_row(row)
    asked = space.encode(row.to_frame().T.assign(group="young", bmi=row["bmi"] + 3).infer_objects())
    found = space.frame(space.project(asked, x0)).iloc[0]
    assert found["group"] == "old"
    assert found["bmi"] == row["bmi"] + 3
