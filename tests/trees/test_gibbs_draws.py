"""Coordinate draws on cells: the compiled primitive, and posteriors against sums over all cells and over leaf boxes."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce.trees._coordinate_draws import CellProblem
from support.boxes import Boxes

WITHIN = 4.0  # standard errors
ROUNDING = 1e-9


class Stop(Exception):
    pass


class Catch:
    """A sampler that only keeps the posterior it is given."""

    def sample(self, posterior, rng):
        self.posterior = posterior
        raise Stop


def posterior_of(model, data, row, target, **options):
    caught = Catch()
    explainer = gbce.Explainer(model, data, sampler=caught, policy=None, **options)
    with pytest.raises(Stop):
        explainer.explain(row, target, rules=[], seed=0)
    return caught.posterior


def numbers(d, n=250):
    rng = np.random.default_rng(d)
    x = rng.normal(size=(n, d))
    return x, np.sin(2 * x[:, 0]) + x.sum(axis=1) + 0.1 * rng.normal(size=n)


def forest(d, depth=3):
    return RandomForestRegressor(8, max_depth=depth, random_state=0).fit(*numbers(d))


def booster(d):
    return GradientBoostingRegressor(n_estimators=12, max_depth=2, random_state=0).fit(*numbers(d))


def mixed():
    """Return a table with a category, an integer and a number with missing values, and what to learn from it."""
    rng = np.random.default_rng(3)
    n = 300
    frame = pd.DataFrame(
        {
            "job": pd.Categorical(rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.15, 0.05])),
            "age": rng.integers(0, 9, n),
            "score": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n).round(2)),
        }
    )
    y = (frame["job"] == "c") * 1.5 + 0.3 * frame["age"] + frame["score"].fillna(-1.0) + 0.1 * rng.normal(size=n)
    return frame, y


def compare(found, exact):
    """Compare every figure of coordinate draws with that of exact sums, within their stated errors."""
    reported, wanted = found.diagnostics, exact.diagnostics
    assert reported["sampling"] == "trustworthy"
    assert abs(reported["log_evidence"] - wanted["log_evidence"]) < WITHIN * reported["log_evidence_se"]
    assert reported["log_evidence_se"] < 0.15
    for name in ("success_probability", "expected_loss", "stability", "tail"):
        error = found.distribution[f"{name}_se"]
        assert abs(found.distribution[name] - exact.distribution[name]) <= WITHIN * error + ROUNDING, name
    importance, sums = found.importance.sort_index(), exact.importance.sort_index()
    assert (np.abs(importance["change"] - sums["change"]) <= WITHIN * importance["se"].fillna(0.0) + ROUNDING).all()
    np.testing.assert_allclose(importance["prior"], sums["prior"], atol=ROUNDING)


def both(model, data, row, target, **options):
    """Return coordinate draws and exact sums of one posterior."""
    return [
        gbce.Explainer(model, data, sampler=sampler, policy=None, **options).explain(row, target, rules=[], seed=1)
        for sampler in (gbce.GibbsTrees(), gbce.ExactTrees())
    ]


# --- the primitive ---------------------------------------------------------------------------------------------------


@cache
def questions():
    frame, y = mixed()
    x, z = numbers(3)
    categories = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype").fit(frame, y > 1.5)
    some = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=5).fit(x, np.digitize(z, [-1.0, 1.0]))
    row = frame.iloc[0]
    return {
        "sets and missing values": (categories, frame, row, True, {}),
        "three classes": (some, x, np.zeros(3), 2, {"space": gbce.Space.real(3)}),
        "two models": ([forest(3), booster(3)], x, np.zeros(3), gbce.AtLeast(1.0), {"space": gbce.Space.real(3)}),
        "a column that stays": (
            forest(3),
            x,
            np.zeros(3),
            gbce.AtLeast(1.0),
            {"space": gbce.Space.infer(pd.DataFrame(x, columns=["a", "b", "c"]), immutable=["b"])},
        ),
    }


@pytest.mark.parametrize("name", ["sets and missing values", "three classes", "two models", "a column that stays"])
def test_steps_along_a_column_are_the_scores_of_every_cell(name):
    model, data, row, target, options = questions()[name]
    if name == "a column that stays":
        data, row = pd.DataFrame(data, columns=["a", "b", "c"]), dict.fromkeys("abc", 0.0)
    problem = CellProblem.build(posterior_of(model, data, row, target, **options))
    points = problem.draw_prior(np.random.default_rng(0), 40)
    for column, mass in enumerate(problem.masses):
        steps = problem.trees.find_steps(column, mass, points.cells, points.scores, points.paths)
        assert steps.masses.sum() == pytest.approx(len(points))
        cells = np.repeat(points.cells, len(mass), axis=0)
        cells[:, column] = np.tile(np.arange(len(mass)), len(points))
        scores = problem.trees.scores(cells).reshape(len(points), len(mass), -1)
        for i in range(len(points)):
            own = slice(steps.starts[i], steps.starts[i + 1])
            which = np.searchsorted(steps.first[own], np.arange(len(mass)), side="right") - 1
            np.testing.assert_allclose(steps.scores[own][which], scores[i], atol=ROUNDING)


@pytest.mark.parametrize("name", ["sets and missing values", "three classes", "two models"])
def test_losses_read_from_cells_are_those_of_the_models(name):
    model, data, row, target, options = questions()[name]
    posterior = posterior_of(model, data, row, target, **options)
    problem, rng = CellProblem.build(posterior), np.random.default_rng(0)
    points = problem.draw_prior(rng, 300)
    moved = problem.sweep(rng, points, replace(posterior.mixture, eta=3.0))
    assert (moved.cells != points.cells).any(axis=0).all()
    own = posterior.evaluate(problem.draw_rows(rng, moved.cells))
    np.testing.assert_allclose(moved.loss, own.loss, atol=1e-7)
    assert np.array_equal(moved.reached, own.reached)


def test_paths_are_renewed_with_every_column():
    posterior = posterior_of(forest(3), numbers(3)[0], np.zeros(3), gbce.AtLeast(1.0), space=gbce.Space.real(3))
    problem, rng = CellProblem.build(posterior), np.random.default_rng(0)
    points = problem.draw_prior(rng, 200)
    for column in (0, 2, 1):
        before = points.cells.copy()
        points = problem._draw_column(rng, column, points, posterior.mixture)
        assert (points.cells[:, column] != before[:, column]).any()
        scores, paths = problem.trees.follow(points.cells)
        assert np.array_equal(points.paths, paths)
        np.testing.assert_allclose(points.scores, scores, atol=ROUNDING)


def test_sweeps_alone_forget_where_they_started():
    question = forest(3, depth=5), numbers(3)[0], np.zeros(3), gbce.AtLeast(2.0, scale=0.5)
    options = {"space": gbce.Space.real(3), "prior": gbce.Sparse(change=0.5), "eta": 4.0}
    posterior = posterior_of(*question, **options)
    problem, rng = CellProblem.build(posterior), np.random.default_rng(0)
    points = problem.draw_prior(rng, 8_000)
    for _ in range(25):
        points = problem.sweep(rng, points, posterior.mixture)
    model, data, row, target = question
    explainer = gbce.Explainer(model, data, sampler=gbce.ExactTrees(), policy=None, **options)
    exact = explainer.explain(row, target, rules=[], seed=0)
    for values, name in ((points.reached, "success_probability"), (points.loss, "expected_loss")):
        error = values.std() / np.sqrt(len(points))  # chains are independent
        assert abs(values.mean() - exact.distribution[name]) < WITHIN * error, name
    moved = np.abs(problem.draw_rows(rng, points.cells))
    error = moved.std(axis=0) / np.sqrt(len(points))
    assert (np.abs(moved.mean(axis=0) - exact.importance["change"].sort_index()) < WITHIN * error).all()


# --- against sums over all cells -------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [1.3, 6.0])
@pytest.mark.parametrize(
    "prior",
    [gbce.Gaussian(0.8), gbce.Laplace(0.6), gbce.Sparse(change=0.4), gbce.Sparse(gbce.Laplace(), change=0.2)],
    ids=["gaussian", "laplace", "sparse gaussian", "sparse laplace"],
)
@pytest.mark.parametrize("d", [2, 3])
def test_numbers(d, prior, eta):
    target, space = gbce.AtLeast(1.5, scale=0.5), gbce.Space.real(d)
    found, exact = both(forest(d), numbers(d)[0], np.zeros(d), target, space=space, prior=prior, eta=eta)
    compare(found, exact)


def test_a_coarse_table_of_losses_changes_nothing_but_the_rate_of_acceptance(monkeypatch):
    monkeypatch.setattr("gbce.trees._coordinate_draws._KNOTS", 6)
    question = forest(2), numbers(2)[0], np.zeros(2), gbce.AtLeast(1.5, scale=0.5)
    compare(*both(*question, space=gbce.Space.real(2), eta=3.0))


def test_bounds_directions_and_columns_that_stay():
    features = [gbce.Feature("x1", low=-0.5, high=1.5), gbce.Feature("x2", mutable=False),
                gbce.Feature("x3", direction="increase")]  # fmt: skip
    found, exact = both(
        forest(3, depth=5), numbers(3)[0], np.zeros(3), gbce.Value(1.5, scale=0.5, tolerance=0.4),
        space=gbce.Space(tuple(features)), prior=gbce.Sparse(change=0.5), eta=3.0,
    )  # fmt: skip
    compare(found, exact)
    x = found.draws.x
    assert x[:, 0].min() >= -0.5
    assert x[:, 0].max() <= 1.5
    assert not x[:, 1].any()
    assert x[:, 2].min() >= 0
    assert (x[:, 2] == 0).any()


@pytest.mark.parametrize("combine", ["any", "all", "average"])
def test_several_models(combine):
    found, exact = both(
        [forest(2), booster(2)], numbers(2)[0], np.zeros(2), gbce.AtLeast(1.0, scale=0.5),
        space=gbce.Space.real(2), combine=combine, weights=[0.3, 0.7], eta=4.0,
    )  # fmt: skip
    compare(found, exact)
    name = "success_probability[all]"
    assert abs(found.distribution[name] - exact.distribution[name]) < WITHIN * found.distribution[f"{name}_se"]


@pytest.mark.parametrize("coded", [False, True], ids=["one-hot", "sets"])
def test_categories_integers_and_missing_values(coded):
    frame, y = mixed()
    if coded:
        model = HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=6, categorical_features="from_dtype")
    else:
        encode = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
        model = make_pipeline(encode, HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=6))
    row = frame[y < 0.5].iloc[0]
    found, exact = both(model.fit(frame, y), frame, row, gbce.AtLeast(3.0, scale=0.5), eta=2.0)
    compare(found, exact)


def test_a_goal_gives_the_eta_of_exact_sums():
    frame, y = mixed()
    model = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=6, categorical_features="from_dtype")
    row = frame[(y < 0.5) & frame["score"].notna()].iloc[0]  # a missing value stays, and some goals are out of reach
    for goal in (gbce.SuccessProbability(0.9), gbce.ExpectedLoss(0.3)):
        found, exact = both(model.fit(frame, y > 1.5), frame, row, True, eta=goal)
        assert found.diagnostics["calibration"]["met"]
        assert found.mixture.eta == pytest.approx(exact.mixture.eta, rel=0.15)
        at = found.at(exact.mixture.eta) if exact.mixture.eta < found.mixture.eta else found
        assert abs(at.distribution["success_probability"] - exact.distribution["success_probability"]) < 0.03


def test_the_path_over_eta_comes_from_one_run():
    question = forest(2), numbers(2)[0], np.zeros(2), gbce.AtLeast(1.5, scale=0.5)
    found, _ = both(*question, space=gbce.Space.real(2), eta=8.0)
    for eta in (0.5, 2.0, 5.0):
        there, (_, exact) = found.at(eta), both(*question, space=gbce.Space.real(2), eta=eta)
        for name in ("success_probability", "expected_loss"):
            error = there.distribution[f"{name}_se"]
            assert abs(there.distribution[name] - exact.distribution[name]) < WITHIN * error


# --- against leaf boxes, in many columns -----------------------------------------------------------------------------


@pytest.mark.parametrize("d", [5, 10, 30])
def test_single_trees_in_many_columns(d):
    data = load_diabetes(scaled=False) if d == 10 else load_breast_cancer()
    x = data.data[:, :d]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = (data.target - data.target.mean()) / data.target.std()
    model = DecisionTreeRegressor(max_leaf_nodes=40, random_state=0).fit(x, y)
    x0, target, eta = x[np.argmax(model.predict(x))], gbce.AtMost(float(np.quantile(y, 0.2)), scale=0.25), 2.0
    explainer = gbce.Explainer(model, x, space=gbce.Space.real(d), sampler=gbce.GibbsTrees(), policy=None, eta=eta)
    found = explainer.explain(x0, target, rules=[], seed=0)
    leaves = Boxes.of(model, d)
    read = found.target.read(gbce.base.Outputs(leaves.value))
    log_evidence, success = leaves.posterior(x0, np.ones(d), eta * read.loss, read.reached)
    assert found.diagnostics["sampling"] == "trustworthy"
    assert abs(found.diagnostics["log_evidence"] - log_evidence) < WITHIN * found.diagnostics["log_evidence_se"]
    error = found.distribution["success_probability_se"]
    assert abs(found.distribution["success_probability"] - success) < WITHIN * error


# --- constraints between columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [gbce.Gaussian(), gbce.Sparse(change=0.6)], ids=["gaussian", "sparse"])
def test_constraints_between_columns_hold_and_weigh(prior):
    x, y = numbers(2)
    frame = pd.DataFrame(x, columns=["a", "b"])
    model = RandomForestRegressor(8, max_depth=3, random_state=0).fit(frame, y)
    space = gbce.Space.infer(frame, scale="raw", bounds={"a": (-4, 4), "b": (-4, 4)}, constraints=["a * b <= 0.2"])
    target, eta, row = gbce.AtLeast(1.0, scale=0.5), 3.0, frame.iloc[0] * 0.0
    explainer = gbce.Explainer(model, frame, space=space, prior=prior, sampler=gbce.GibbsTrees(), policy=None, eta=eta)
    found = explainer.explain(row, target, rules=[], seed=0)
    drawn = found.draws.frame()
    assert (drawn["a"] * drawn["b"] <= 0.2).all()
    free = gbce.Explainer(
        model, frame, prior=prior, sampler=gbce.Importance(200_000, 2_000), policy=None, eta=eta,
        space=gbce.Space.infer(frame, scale="raw", bounds={"a": (-4, 4), "b": (-4, 4)}, constraints=["a * b <= 0.2"]),
    ).explain(row, target, rules=[], seed=1)  # fmt: skip
    for name in ("success_probability", "expected_loss", "stability"):
        error = np.hypot(found.distribution[f"{name}_se"], free.distribution[f"{name}_se"])
        assert abs(found.distribution[name] - free.distribution[name]) < WITHIN * error, name
    error = np.hypot(found.diagnostics["log_evidence_se"], free.diagnostics["log_evidence_se"])
    assert abs(found.diagnostics["log_evidence"] - free.diagnostics["log_evidence"]) < WITHIN * error


# --- against a sampler that only calls the model ----------------------------------------------------------------------


def test_the_same_posterior_as_smc():
    x, y = load_diabetes(scaled=False, return_X_y=True, as_frame=True)
    model = RandomForestRegressor(20, max_depth=6, random_state=0).fit(x, y)
    row, target = x.iloc[int(np.argmax(model.predict(x)))], gbce.AtMost(180.0, scale=20.0)
    found, other = (
        gbce.Explainer(model, x, sampler=sampler, policy=None, eta=1.0).explain(row, target, rules=[], seed=0)
        for sampler in (gbce.GibbsTrees(), gbce.SMC())
    )
    assert found.diagnostics["n_model_rows"] < 5_000
    for name in ("success_probability", "expected_loss", "stability"):
        error = np.hypot(found.distribution[f"{name}_se"], other.distribution[f"{name}_se"])
        assert abs(found.distribution[name] - other.distribution[name]) < WITHIN * error, name
    importance, others = found.importance.sort_index(), other.importance.sort_index()
    error = np.hypot(importance["se"], others["se"])
    assert (np.abs(importance["change"] - others["change"]) < WITHIN * error).all()
    error = np.hypot(found.diagnostics["log_evidence_se"], other.diagnostics["log_evidence_se"])
    assert abs(found.diagnostics["log_evidence"] - other.diagnostics["log_evidence"]) < WITHIN * error


def test_the_same_seed_gives_the_same_bits():
    model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(numbers(4)[0], numbers(4)[1] > 1)
    options = {"sampler": gbce.GibbsTrees(), "policy": None, "eta": gbce.SuccessProbability(0.9)}
    explainer = gbce.Explainer(model, numbers(4)[0], **options)
    one, two, other = (explainer.explain(np.zeros(4), True, rules=[], seed=seed).draws.x for seed in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_column_that_no_draw_has_changed_still_has_an_error():
    explainer = gbce.Explainer(
        forest(2), numbers(2)[0], sampler=gbce.GibbsTrees(), prior=gbce.Sparse(change=1e-7), policy=None, eta=1.0
    )
    found = explainer.explain(np.zeros(2), gbce.AtLeast(1.0, scale=0.5), rules=[], seed=0)
    assert (found.importance["change"] == 0).all()
    assert (found.importance["se"] > 0).all()
    assert found.distribution["success_probability_se"] > 0


def test_votes_that_tie_count_as_missed():
    """A forest of an even number of pure trees ties, and decides for the first class."""
    x, y = numbers(4)
    model = RandomForestClassifier(100, random_state=0).fit(x, y > 0)
    row = x[np.argmin(model.predict_proba(x)[:, 1])]
    problem = CellProblem.build(posterior_of(model, x, row, True, space=gbce.Space.real(4)))
    rng = np.random.default_rng(0)
    points = problem.draw_prior(rng, 8_000)
    outputs = model.predict_proba(problem.draw_rows(rng, points.cells))[:, 1]
    ties = np.abs(outputs - 0.5) < ROUNDING
    assert ties.sum() > 10
    assert not points.reached[ties].any()
    np.testing.assert_array_equal(points.reached[~ties, 0], outputs[~ties] > 0.5)


@pytest.mark.parametrize("eta", [1.0, 1e12])
def test_a_leaf_at_the_very_limit_of_the_target_reaches_at_any_eta(eta):
    """Between the knots of a table of losses the one beside the limit would be too high, times eta."""
    x, y = numbers(4)
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(x, y)
    limit = np.sort(np.unique(model.predict(x)))[3]
    problem = CellProblem.build(posterior_of(model, x, x[0], gbce.AtMost(limit, scale=0.05), space=gbce.Space.real(4)))
    mixture = replace(problem.posterior.mixture, eta=eta)
    points = problem.draw_prior(np.random.default_rng(0), 500)
    for column in range(4):
        steps = problem.find_steps(column, points)
        exact, found = mixture.potential(problem.read(steps.scores)[0]), problem.potential(steps, mixture)
        assert (exact < ROUNDING).any()
        assert (found[exact < ROUNDING] < 1.0).all()
