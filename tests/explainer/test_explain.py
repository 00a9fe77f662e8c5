"""From a model and a row to an explanation: results, tables, seeds, files, several models."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.metrics import unknown_figures

SMALL = gbce.Importance(n_candidates=3_000, n_draws=500)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X, RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def explanation(diabetes):
    X, model = diabetes
    row = X.iloc[int(np.argsort(model.predict(X))[250])]
    space = gbce.Space.infer(X, immutable=["age", "sex"], bounds="none")
    rules = [gbce.MAP(), gbce.Mean(), gbce.CVaR(n_perturb=16, max_candidates=100), gbce.DiverseSet(2)]
    explainer = gbce.Explainer(model, X, space=space, prior=gbce.Gaussian(), sampler=SMALL)
    return explainer.explain(row, gbce.AtMost(120), rules=rules, seed=4)


def test_tables_have_the_shapes_of_the_contract(diabetes, explanation):
    X, _ = diabetes
    labels = ["MAP", "Mean", "CVaR(n_perturb=16, max_candidates=100)", "DiverseSet(k=2) 1", "DiverseSet(k=2) 2"]
    assert list(explanation.counterfactuals.index) == labels
    assert list(explanation.counterfactuals.columns) == list(X.columns)
    assert (explanation.counterfactuals.dtypes == X.dtypes).all()
    figures = ["loss", "cost", "distance", *unknown_figures(), "reached"]
    assert list(explanation.pointwise.columns[: len(figures)]) == figures
    assert {"robustness", "plausibility"} <= set(figures)
    assert explanation.pointwise["reached"].dtype == bool
    assert list(explanation.importance.columns[:3]) == ["change", "se", "prior"]
    assert explanation.distribution["success_probability_se"] > 0
    assert explanation.distribution["stability_se"] > 0
    assert explanation.distribution["tail_se"] >= 0  # zero where the quantile sits in a lump of equal losses
    wanted = {"ess", "pareto_k", "log_evidence", "log_evidence_se", "n_model_calls", "n_model_rows", "rungs",
              "sampling", "sampling_note", "notes"}  # fmt: skip
    assert wanted <= set(explanation.diagnostics)
    draws = explanation.draws
    assert draws.x.shape == (500, 10)
    assert draws.z.shape == (500, 8)
    assert draws.loss.shape == draws.outputs.shape == (500, 1)
    assert draws.weights.sum() == pytest.approx(1.0)


def test_figures_are_those_of_the_model(diabetes, explanation):
    X, model = diabetes
    f = model.predict(explanation.counterfactuals)
    np.testing.assert_allclose(explanation.pointwise["output"], f)
    counted = explanation.changes().groupby("rule").size()
    assert explanation.pointwise["changed"].to_dict() == counted.to_dict()
    assert explanation.pointwise["changed"].max() <= 8  # two of the ten columns are immutable
    scale = explanation.target.scale
    assert scale == pytest.approx(0.1 * model.predict(X).std())
    np.testing.assert_allclose(explanation.pointwise["loss"], np.square(np.maximum(f - 120, 0) / scale))
    np.testing.assert_array_equal(explanation.pointwise["reached"], f <= 120)
    np.testing.assert_allclose(
        explanation.draws.outputs[:, 0], model.predict(explanation.space.decode(explanation.draws.x))
    )
    unit = X.std(ddof=0).to_numpy()
    offset = (explanation.counterfactuals.to_numpy() - explanation.x0) / unit
    np.testing.assert_allclose(explanation.pointwise["distance"], np.linalg.norm(offset, axis=1))
    gaps = np.linalg.norm((X.to_numpy()[None] - explanation.counterfactuals.to_numpy()[:, None]) / unit, axis=2)
    np.testing.assert_allclose(explanation.pointwise["plausibility"], np.sort(gaps, axis=1)[:, :20].mean(axis=1))


def test_robustness_is_the_share_that_survives_noise():
    model = lambda x: x[:, 0]  # noqa: E731
    data = np.random.default_rng(0).normal(size=(100, 2))
    evaluation = gbce.Evaluation(noise=0.5, n_perturb=20_000)
    explainer = gbce.Explainer(model, data, space=gbce.Space.real(2), evaluation=evaluation, sampler=SMALL)
    explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0, scale=1), rules=[gbce.MAP()], seed=0)
    at = [[1.0, 0.0], [1.5, 3.0], [0.0, 0.0], [9.0, 0.0]]
    table = explainer.assess(explanation, at)
    exact = [0.5, 0.841345, 0.022750, 1.0]  # P(N(x, 0.5**2) >= 1)
    assert np.all(np.abs(table["robustness"] - exact) <= 4 * table["robustness_se"])
    assert table["robustness_se"].iloc[3] > 0  # no failure in 20,000 trials is not certainty


def test_changes_are_tidy(explanation):
    changes = explanation.changes()
    assert list(changes.columns) == ["rule", "feature", "from", "to", "change"]
    assert not changes["feature"].isin(["age", "sex"]).any()
    one = changes[changes["rule"] == "MAP"].iloc[0]
    assert one["to"] == explanation.counterfactuals.loc["MAP", one["feature"]]
    assert one["to"] - one["from"] == one["change"]


def test_intervals_hold_their_mass(explanation):
    table = explanation.intervals(0.8)
    inside = (explanation.draws.x >= table["low"].to_numpy()) & (explanation.draws.x <= table["high"].to_numpy())
    assert (inside.mean(axis=0) >= 0.8).all()
    assert (inside.mean(axis=0) <= 0.8 + 0.2 * (table["low"] == table["high"]) + 0.02).all()


def test_importance_stands_beside_the_priors_own(explanation):
    half_normal = np.sqrt(2 / np.pi) * explanation.space.scale
    free = explanation.importance.index.difference(["age", "sex"], sort=False)
    mask = explanation.importance.index.isin(free)
    np.testing.assert_allclose(explanation.importance["prior"][mask], half_normal[mask], rtol=0.06)
    assert (explanation.importance.loc[["age", "sex"], ["change", "prior"]] == 0).all(axis=None)


# --- randomness -------------------------------------------------------------------------------------------------


def test_same_seed_same_bits_other_seed_other_bits(diabetes):
    X, model = diabetes
    explainer = gbce.Explainer(model, X, sampler=SMALL)
    rules = [gbce.MAP(), gbce.CVaR(n_perturb=8), gbce.RandomDraw(), gbce.DirectOpt(n_starts=3, max_iterations=30)]

    def bits(seed, rules=rules):
        explanation = explainer.explain(X.iloc[0], gbce.AtMost(120), rules=rules, seed=seed)
        return explanation.draws.x.tobytes(), explanation.counterfactuals, explanation.pointwise

    first, again, other = bits(1), bits(1), bits(2)
    assert first[0] == again[0] != other[0]
    pd.testing.assert_frame_equal(first[1], again[1], check_exact=True)
    pd.testing.assert_frame_equal(first[2], again[2], check_exact=True)
    assert not first[1].equals(other[1])
    # one rule's answer does not depend on which others are asked for, or in which order
    alone = bits(1, [gbce.RandomDraw(), gbce.CVaR(n_perturb=8)])
    pd.testing.assert_frame_equal(alone[2], first[2].loc[alone[2].index], check_exact=True)


def test_global_random_state_is_neither_read_nor_written(diabetes):
    X, model = diabetes
    explainer = gbce.Explainer(model, X, sampler=SMALL)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    explainer.explain(X.iloc[0], gbce.AtMost(120), seed=1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_a_run_without_a_seed_can_be_repeated_from_the_recorded_one(diabetes):
    X, model = diabetes
    explainer = gbce.Explainer(model, X, sampler=SMALL)
    free = explainer.explain(X.iloc[0], gbce.AtMost(120), rules=[gbce.MAP()])
    again = explainer.explain(X.iloc[0], gbce.AtMost(120), rules=[gbce.MAP()], seed=free.seed)
    np.testing.assert_array_equal(free.draws.x, again.draws.x)
    generator = explainer.explain(X.iloc[0], gbce.AtMost(120), rules=[], seed=np.random.default_rng(5))
    same = explainer.explain(X.iloc[0], gbce.AtMost(120), rules=[], seed=np.random.default_rng(5))
    np.testing.assert_array_equal(generator.draws.x, same.draws.x)


# --- explicit results -------------------------------------------------------------------------------------------


def test_already_reached(diabetes):
    X, model = diabetes
    low = X.iloc[int(model.predict(X).argmin())]
    explanation = gbce.Explainer(model, X, sampler=SMALL).explain(low, gbce.AtMost(150), seed=0)
    assert explanation.status == "already reached"
    assert "already reaches" in explanation.notes[0]
    np.testing.assert_array_equal(explanation.counterfactuals.loc["MAP"], low)


def test_not_attained_names_the_best(diabetes):
    X, model = diabetes
    explanation = gbce.Explainer(model, X, sampler=SMALL).explain(X.iloc[0], gbce.AtLeast(1000), seed=0)
    assert explanation.status == "not attained"
    best = max(explanation.draws.pool.outputs.max(), explanation.pointwise["output"].max())
    assert f"best seen is {best:.4g}" in explanation.notes[0]
    assert explanation.distribution["success_probability"] == 0
    assert explanation.distribution["success_probability_se"] > 0
    assert not explanation.pointwise["reached"].any()


def test_too_few_effective_draws_are_said_with_what_to_do():
    data = np.random.default_rng(0).normal(size=(100, 2))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2), eta=2000.0, sampler=SMALL)
    explanation = explainer.explain([0.0, 0.0], gbce.Value(4.0, scale=1, tolerance=0.1), rules=[], seed=0)
    assert explanation.diagnostics["ess"] < 100
    sentence = explanation.diagnostics["sampling_note"]
    assert sentence.startswith("not sampled")
    assert "n_candidates" in sentence
    assert explanation.summary().startswith("posterior  not sampled")


def test_good_draws_are_called_trustworthy(explanation):
    assert explanation.diagnostics["sampling_note"].startswith(("trustworthy", "use with care"))
    easy = gbce.Explainer(lambda x: x.sum(axis=1), np.random.default_rng(0).normal(size=(100, 2)))
    assert (
        easy.explain([0.0, 0.0], gbce.AtLeast(0.5), rules=[], seed=0)
        .diagnostics["sampling_note"]
        .startswith("trustworthy")
    )


def test_model_calls_and_rows_are_counted_to_the_last():
    asked = []

    def model(x):
        asked.append(len(x))
        return x.sum(axis=1)

    data = np.random.default_rng(0).normal(size=(100, 2))
    rules = [gbce.MAP(polish=False), gbce.Mean(), gbce.CVaR(race=False, refine=False)]
    for chosen, policy in ((None, gbce.Reliable()), (rules, None)):
        explainer = gbce.Explainer(model, data, sampler=SMALL, policy=policy)
        asked.clear()
        explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(2.0), rules=chosen, seed=0)
        assert explanation.diagnostics["n_model_calls"] == len(asked)
        assert explanation.diagnostics["n_model_rows"] == sum(asked)
    # the data for the scale, row, candidates, CVaR, the invented point (Mean), each of three alone, robustness
    assert len(asked) == 9


# --- classifiers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "names"), [(load_breast_cancer, ["malignant", "benign"]), (load_wine, ["red", "white", "pink"])]
)
def test_classifier_decisions_agree_with_predict(load, names):
    X, y = load(return_X_y=True, as_frame=True)
    labels = np.array(names)[y]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(X, labels)
    row = X[model.predict(X) == names[0]].iloc[0]
    explanation = gbce.Explainer(model, X, sampler=SMALL).explain(row, gbce.Class(names[1]), seed=0)
    decided = model.predict(explanation.counterfactuals) == names[1]
    np.testing.assert_array_equal(explanation.pointwise["reached"], decided)
    drawn = model.predict(explanation.space.decode(explanation.draws.x)) == names[1]
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], drawn)
    p = model.predict_proba(explanation.counterfactuals)[:, list(model.classes_).index(names[1])]
    np.testing.assert_allclose(explanation.pointwise["loss"], -np.log(p))


class _Stubborn:
    """Decides for its most probable class, except far outside its data."""

    classes_ = np.array([0, 1])

    def predict_proba(self, x):
        p = 1.0 / (1.0 + np.exp(3.0 - x[:, 0]))
        return np.column_stack([1.0 - p, p])

    def predict(self, x):
        return np.where(x[:, 0] > 4.0, 0, self.predict_proba(x).argmax(axis=1))


def test_predict_has_the_last_word_on_decisions():
    data = np.random.default_rng(0).uniform(-3.5, 3.5, size=(200, 1))
    space = gbce.Space((gbce.Feature("x1", low=-5.0, high=12.0, direction="increase"),))
    explainer = gbce.Explainer(_Stubborn(), data, space=space, prior=gbce.Gaussian(5.0), eta=100.0, sampler=SMALL)
    explanation = explainer.explain([0.0], gbce.Class(1), rules=[gbce.MAP()], seed=0)
    assert explanation.counterfactuals.loc["MAP", "x1"] > 4.0
    assert not explanation.pointwise.loc["MAP", "reached"]


def test_forest_classifier_with_zero_probabilities_has_finite_figures():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = RandomForestClassifier(20, random_state=0).fit(X, y)
    row = X[(model.predict_proba(X)[:, 1] == 0)].iloc[0]
    explanation = gbce.Explainer(model, X, sampler=SMALL).explain(row, gbce.Class(1), seed=0)
    assert np.isfinite(explanation.distribution).all()


# --- several models ---------------------------------------------------------------------------------------------


def test_several_models_are_reported_beside_the_first(diabetes):
    X, forest = diabetes
    y = load_diabetes(return_X_y=True)[1]
    line = LinearRegression().fit(X, y)
    explainer = gbce.Explainer([forest, line], X, sampler=SMALL, weights=gbce.weights_from_risk([0.3, 0.4], gamma=2.0))
    explanation = explainer.explain(X.iloc[0], gbce.AtMost(130), rules=[gbce.MAP(), gbce.Mean()], seed=0)
    np.testing.assert_allclose(explainer._session.mixture.weights, np.exp([-0.6, -0.8]) / np.exp([-0.6, -0.8]).sum())
    table = explanation.pointwise
    f = np.column_stack([forest.predict(explanation.counterfactuals), line.predict(explanation.counterfactuals)])
    loss = np.square(np.maximum(f - 130, 0) / explanation.target.scale)
    np.testing.assert_allclose(table[["loss[RandomForestRegressor]", "loss[LinearRegression]"]], loss, rtol=1e-9)
    np.testing.assert_allclose(table["loss"], loss[:, 0])
    combined = -np.log(np.exp(-loss) @ explainer._session.mixture.weights)
    np.testing.assert_allclose(table["combined_loss"], combined, rtol=1e-9)
    figures = explanation.distribution
    assert figures["success_probability"] == figures["success_probability[RandomForestRegressor]"]
    both = explanation.draws.reached.all(axis=1).mean()
    assert figures["success_probability[all]"] == pytest.approx(both)
    assert "success_probability[all]_se" in figures
    assert explanation.draws.loss.shape == (500, 2)


def test_two_models_of_one_class_get_distinct_names(diabetes):
    X, forest = diabetes
    explainer = gbce.Explainer([forest, forest, forest], X, sampler=SMALL)
    explanation = explainer.explain(X.iloc[0], gbce.AtMost(130), rules=[], seed=0)
    assert explanation.models == ("RandomForestRegressor", "RandomForestRegressor #2", "RandomForestRegressor #3")


def test_names_of_models_neither_meet_each_other_nor_those_of_figures():
    def named(name):
        def model(x):
            return x.sum(axis=1)

        model.__name__ = name
        return model

    data = np.random.default_rng(0).normal(size=(50, 2))
    models = [named(name) for name in ("net #2", "net", "net", "net #2")]
    assert [p.name for p in gbce.Explainer(models, data)._session.predictors] == [
        "net #2",
        "net",
        "net #3",
        "net #2 #2",
    ]
    assert [p.name for p in gbce.Explainer(named("all"), data)._session.predictors] == ["all"]
    models = [named("half"), lambda x: x[:, 0]]  # success_probability[half] is that under at least half of them
    explanation = gbce.Explainer(models, data, sampler=SMALL).explain(data[0], gbce.AtLeast(1), rules=[], seed=0)
    assert explanation.models[0] == "half #2"
    figures = explanation.distribution
    assert (
        figures["success_probability[half #2]"] == figures["success_probability"] < figures["success_probability[half]"]
    )


# --- other questions to the same draws --------------------------------------------------------------------------


def test_another_eta_by_reweighting_agrees_with_a_fresh_run():
    data = np.random.default_rng(0).normal(size=(100, 2))
    target = gbce.Value(1.5, scale=1, tolerance=0.5)
    sampler = gbce.Importance(n_candidates=20_000, n_draws=4_000)

    def run(eta, seed):
        explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2), eta=eta, sampler=sampler)
        return explainer.explain([0.0, 0.0], target, rules=[gbce.MAP(), gbce.Mean()], seed=seed)

    base = run(1.0, 0)
    for eta in (0.0, 0.25, 3.0):
        moved, fresh = base.at(eta), run(eta, 1)
        assert moved.eta == eta
        for name in ("success_probability", "tail", "stability"):
            gap = abs(moved.distribution[name] - fresh.distribution[name])
            se = np.hypot(moved.distribution[f"{name}_se"], fresh.distribution[f"{name}_se"])
            assert gap <= 4 * se, (eta, name)
        close = 4 * np.hypot(moved.draws.log_evidence_se, fresh.draws.log_evidence_se)
        assert abs(moved.draws.log_evidence - fresh.draws.log_evidence) <= close + 1e-12
        assert list(moved.counterfactuals.index) == ["MAP"]
        assert "Mean can only be applied with the model" in moved.notes[0]
    with pytest.raises(ValueError, match="cannot be reweighted to eta = 100000"):
        base.at(100_000)


def test_reweighted_draws_are_draws_and_must_be_a_hundred():
    data = np.random.default_rng(0).normal(size=(100, 2))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2), sampler=SMALL)
    base = explainer.explain([0.0, 0.0], gbce.Value(1.5, scale=1, tolerance=0.5), rules=[], seed=0)
    moved = base.at(2.0)
    np.testing.assert_array_equal(moved.draws.weights, np.full(500, 1 / 500))
    few = next(eta for eta in 2.0 ** np.arange(30) if _effective(base, eta) < 100)
    assert _effective(base, few) > 2
    with pytest.raises(ValueError, match="cannot be reweighted"):
        base.at(few)
    mode = explainer.decide(base.at(0.25), gbce.DirectOpt()).to_numpy()[0]
    np.testing.assert_allclose(mode, np.full(2, 2 * 0.25 * 1.5 / (1 + 4 * 0.25)), atol=1e-3)


def _effective(explanation, eta):
    weights = np.exp(-eta * explanation.draws.pool.loss[:, 0])
    return weights.sum() ** 2 / (weights**2).sum()


def test_other_weights_and_combinations_by_reweighting(diabetes):
    X, forest = diabetes
    y = load_diabetes(return_X_y=True)[1]
    models = [forest, LinearRegression().fit(X, y)]
    base = gbce.Explainer(models, X, sampler=SMALL).explain(X.iloc[0], gbce.AtMost(180), rules=[], seed=0)
    for options in ({"combine": "all"}, {"weights": [1, 0]}, {"combine": "average", "weights": [1, 3]}):
        fresh = gbce.Explainer(models, X, sampler=SMALL, **options).explain(
            X.iloc[0], gbce.AtMost(180), rules=[], seed=0
        )
        np.testing.assert_allclose(base.at(**options).draws.pool_weights, fresh.draws.pool_weights)


def test_decide_with_and_without_the_model(diabetes):
    X, model = diabetes
    explainer = gbce.Explainer(model, X, sampler=SMALL)
    rules = [gbce.Medoid(), gbce.CVaR(n_perturb=8)]
    explanation = explainer.explain(X.iloc[0], gbce.AtMost(120), rules=rules, seed=3)
    pd.testing.assert_frame_equal(explanation.decide(gbce.Medoid()), explanation.counterfactuals.loc[["Medoid"]])
    label = rules[1].label
    pd.testing.assert_frame_equal(explainer.decide(explanation, rules[1]), explanation.counterfactuals.loc[[label]])
    with pytest.raises(gbce.ModelNeededError, match=r"explainer\.decide"):
        explanation.decide(gbce.CVaR())
    assert explanation.decide(gbce.DiverseSet(3)).shape == (3, 10)


def test_assess_judges_any_row(diabetes, explanation):
    X, model = diabetes
    space = gbce.Space.infer(X, immutable=["age", "sex"], bounds="none")
    explainer = gbce.Explainer(model, X, space=space, prior=gbce.Gaussian(), sampler=SMALL)
    table = explainer.assess(explanation, explanation.counterfactuals.iloc[:2])
    assert table.pop("breaks").tolist() == ["", ""]
    pd.testing.assert_frame_equal(table, explanation.pointwise.iloc[:2], check_names=False)


def test_what_no_candidate_reaches_is_sought_before_it_is_called_out_of_reach():
    data = np.random.default_rng(0).normal(size=(100, 2))
    explainer = gbce.Explainer(lambda x: x[:, 0], data, space=gbce.Space.real(2), sampler=SMALL, eta=1e6)
    target = gbce.Value(7.0, scale=1, tolerance=0.01)
    explanation = explainer.explain([0.0, 0.0], target, rules=[gbce.MAP(polish=False), gbce.DirectOpt()], seed=0)
    assert not explanation.draws.pool.reached.any()
    assert explanation.status == "attainable"
    assert explanation.pointwise["reached"].all()
    assert explainer.explain([0.0, 0.0], target, rules=[], seed=0).status == "attainable"
    flat = gbce.Explainer(lambda x: np.tanh(x[:, 0]), data, space=gbce.Space.real(2), sampler=SMALL, eta=1e6)
    without = flat.explain([0.0, 0.0], target, rules=[], seed=0)
    assert without.status == "not attained"
    assert f"best seen is {without.draws.known.outputs.max():.4g}, against 0 now" in without.notes[0]


# --- files ------------------------------------------------------------------------------------------------------


def test_saved_explanations_come_back_to_the_last_bit(tmp_path, explanation):
    path = explanation.save(tmp_path / "row.gbce")
    again = gbce.load(path)
    pd.testing.assert_frame_equal(again.counterfactuals, explanation.counterfactuals, check_exact=True)
    pd.testing.assert_frame_equal(again.pointwise, explanation.pointwise, check_exact=True)
    pd.testing.assert_series_equal(again.distribution, explanation.distribution, check_exact=True)
    pd.testing.assert_frame_equal(again.importance, explanation.importance, check_exact=True)
    assert again.summary() == explanation.summary()
    assert again.target == explanation.target
    assert again.space == explanation.space
    assert again.rules == explanation.rules
    pd.testing.assert_frame_equal(again.at(0.5).counterfactuals, explanation.at(0.5).counterfactuals)
    assert [p.name for p in tmp_path.iterdir()] == ["row.gbce"]


@pytest.mark.parametrize("max_looks", [0, 6])
def test_an_explanation_keeps_its_path(tmp_path, max_looks):
    data = np.random.default_rng(0).normal(size=(100, 2))
    explainer = gbce.Explainer(lambda x: x[:, 0], data, eta=10.0, sampler=gbce.SMC(max_looks=max_looks))
    explanation = explainer.explain([0.0, 0.0], gbce.Value(4.5, scale=1), rules=[], seed=0)
    assert (len(explanation.draws.rungs) > 1) == (max_looks == 0)  # tempered
    assert ("looks" in explanation.draws.facts) == (max_looks > 0)
    again = gbce.load(explanation.save(tmp_path / "e"))
    pd.testing.assert_frame_equal(again.path(), explanation.path(), check_exact=True)


@pytest.mark.parametrize("columns", [[0, 1], [("a", 1), ("a", 2)]])
def test_odd_column_labels_survive_a_file(tmp_path, columns):
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)))
    data.columns = pd.Index(columns, tupleize_cols=False)
    explainer = gbce.Explainer(lambda x: x.to_numpy().sum(axis=1), data, sampler=SMALL)
    explanation = explainer.explain(data.iloc[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    again = gbce.load(explanation.save(tmp_path / "e"))
    pd.testing.assert_frame_equal(again.counterfactuals, explanation.counterfactuals)
    assert again.space == explanation.space


def test_a_loaded_explanation_can_go_back_to_its_explainer(tmp_path, diabetes):
    X, model = diabetes
    explainer = gbce.Explainer(model, X, sampler=SMALL)
    rule = gbce.CVaR(n_perturb=8)
    explanation = explainer.explain(X.iloc[0], gbce.AtMost(120), rules=[rule], seed=3)
    again = gbce.load(explanation.save(tmp_path / "e"))
    pd.testing.assert_frame_equal(explainer.decide(again, rule), explanation.counterfactuals)


def test_functions_are_left_out_of_files_and_missed_only_when_needed(tmp_path):
    data = np.random.default_rng(0).normal(size=(100, 2))
    noise = lambda rng, n: rng.normal(scale=0.1, size=(n, 2))  # noqa: E731
    explainer = gbce.Explainer(lambda x: x[:, 0], data, sampler=SMALL, evaluation=gbce.Evaluation(noise=noise))
    wish = gbce.Loss(lambda f: np.abs(f - 1), threshold=0.2)
    explanation = explainer.explain(data[0], wish, rules=[gbce.MAP()], seed=0)
    again = gbce.load(explanation.save(tmp_path / "e"))
    assert "at most 0.2" in again.summary()
    pd.testing.assert_frame_equal(again.pointwise, explanation.pointwise)
    with pytest.raises(ValueError, match="contains no code"):
        explainer.decide(again, gbce.CVaR(noise=0.1))


def test_noise_scale_makes_eta_one_the_models_own_error():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = X.sum(axis=1) + rng.normal(scale=0.7, size=3000)
    assert gbce.noise_scale(LinearRegression(), X, y) == pytest.approx(np.sqrt(2) * 0.7, rel=0.05)
    with pytest.raises(TypeError, match="regressors"):
        gbce.noise_scale(LogisticRegression(), X, y > 0)
