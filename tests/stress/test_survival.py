"""Across models, rows and groups: combinations, disagreement, refits, and who pays how much."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression

import gbce
from gbce.decisions._risk import tail_mean
from gbce.metrics import wilson
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import as_predictor
from gbce.space import Places
from gbce.stress._other_models import energy_distance
from support.exact import Grid, gaussian_log_prior, linear, midpoints
from support.scenes import scene_of
from support.slopes import DATA, MODELS, QUICK, WEIGHTS, slope, slopes_explainer, slopes_explanation

RNG = np.random.default_rng(0)
LOSS = RNG.exponential(size=(40, 3)) * np.array([1.0, 3.0, 0.2])


@pytest.fixture(scope="module")
def explainer():
    return slopes_explainer()


@pytest.fixture(scope="module")
def explanation():
    return slopes_explanation()


# --- the entropic family ------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [-3.0, -0.4, 0.7, 2.0, 5.0])
def test_entropic_is_its_formula(t):
    expected = -np.log(np.exp(-t * LOSS) @ WEIGHTS) / t
    np.testing.assert_allclose(gbce.Entropic(t).loss(LOSS, WEIGHTS), expected, rtol=1e-12)
    np.testing.assert_allclose(Mixture(1.7, WEIGHTS, gbce.Entropic(t)).potential(LOSS), 1.7 * expected, rtol=1e-12)


@pytest.mark.parametrize(("combine", "t"), [("any", 1.7), ("average", 0.0), ("all", -np.inf)])
def test_named_combinations_are_members(combine, t):
    named, member = Mixture(1.7, WEIGHTS, combine), Mixture(1.7, WEIGHTS, gbce.Entropic(t))
    np.testing.assert_allclose(named.potential(LOSS), member.potential(LOSS), rtol=1e-14)
    assert named.t == t
    if combine == "any":
        np.testing.assert_allclose(named.potential(LOSS), -np.log(np.exp(-1.7 * LOSS) @ WEIGHTS), rtol=1e-12)


def test_limits_in_t():
    of = lambda t: gbce.Entropic(t).loss(LOSS, WEIGHTS)  # noqa: E731
    mean = LOSS @ WEIGHTS
    variance, third = (np.abs(LOSS - mean[:, None]) ** power @ WEIGHTS for power in (2, 3))
    for t in (1e-15, -1e-15, 1e-9, 1e-5, -1e-5):  # the second term of the series as well: no digit is lost near zero
        np.testing.assert_allclose(of(t), mean - t * variance / 2, rtol=0, atol=third.max() * t**2 + 1e-14)
    for t in (1e4, 1e8, 1e300, np.inf):
        np.testing.assert_allclose(of(t), LOSS.min(axis=1), atol=-np.log(WEIGHTS.min()) / t)
        np.testing.assert_allclose(of(-t), LOSS.max(axis=1), atol=-np.log(WEIGHTS.min()) / t)
    steps = np.array([of(t) for t in (-np.inf, -50, -1, -1e-8, 0, 1e-8, 1, 50, np.inf)])
    assert (np.diff(steps, axis=0) <= 1e-12).all()


def test_entropic_where_losses_are_huge_or_infinite():
    loss = np.array([[0.0, np.inf, 1.0], [np.inf, np.inf, np.inf], [1e6, 2e6, 3e6]])
    np.testing.assert_allclose(
        gbce.Entropic(2.0).loss(loss, WEIGHTS), [-np.log(0.5 + 0.2 * np.exp(-2)) / 2, np.inf, 1e6 - np.log(0.5) / 2]
    )
    np.testing.assert_allclose(gbce.Entropic(-2.0).loss(loss, WEIGHTS), [np.inf, np.inf, 3e6 + np.log(0.2) / 2])
    silent = np.array([0.6, 0.0, 0.4])
    for t in (-np.inf, -1.0, 0.0, 1.0, np.inf):
        alone = gbce.Entropic(t).loss(loss[:1, [0, 2]], silent[[0, 2]])
        np.testing.assert_array_equal(gbce.Entropic(t).loss(loss[:1], silent), alone)


def test_posterior_of_a_member_agrees_with_quadrature():
    combine = gbce.Entropic(-2.0)
    explainer = gbce.Explainer(MODELS, DATA, space=gbce.Space.real(2), weights=WEIGHTS, combine=combine)
    explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0, scale=0.7), rules=[], seed=1)
    target = explanation.target

    def losses(x):
        return np.column_stack([np.square(np.maximum(1.0 - model(x), 0) / target.scale) for model in MODELS])

    potential = lambda x: -np.log(np.exp(2.0 * losses(x)) @ WEIGHTS) / -2.0  # noqa: E731
    axes = [midpoints(-6, 6, 400)] * 2
    grid = Grid.of(axes, gaussian_log_prior(np.zeros(2), np.eye(2)), potential)
    figures = explanation.distribution
    success = grid.mean(MODELS[0](grid.x) >= 1.0)
    assert abs(figures["success_probability"] - success) < 4 * figures["success_probability_se"]
    assert abs(explanation.draws.log_evidence - grid.log_evidence) < 4 * explanation.draws.log_evidence_se + 1e-3


def test_reweighting_asks_no_model(explanation):
    asked = []

    def counted(model):
        return lambda rows: asked.append(len(rows)) or model(rows)

    explainer = gbce.Explainer([counted(m) for m in MODELS], DATA, space=gbce.Space.real(2), sampler=QUICK)
    first = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0, scale=0.5), rules=[gbce.Mean()], seed=3)
    before = len(asked)
    for weights in (None, [1, 2, 1]):
        again = first.at(combine=gbce.Entropic(-1.0), weights=weights)
        mixture = Mixture(1.0, np.array([1, 2, 1]) / 4 if weights else np.full(3, 1 / 3), gbce.Entropic(-1.0))
        expected = np.exp(-mixture.potential(first.draws.pool.loss))
        np.testing.assert_allclose(again.draws.pool_weights, expected / expected.sum(), rtol=1e-9)
        assert again.disagreement().sentence
        assert len(again.frontier())
        assert again.summary()
    assert len(asked) == before


@pytest.mark.parametrize("t", [-np.inf, -1.5, 0.0, 2.0, np.inf])
def test_a_member_is_saved_and_loaded(explanation, tmp_path, t):
    mixture = replace(explanation.mixture, combine=gbce.Entropic(t))
    member = replace(explanation, query=replace(explanation.query, mixture=mixture))
    again = gbce.load(member.save(tmp_path / "one.gbce"))
    assert again.mixture.combine == gbce.Entropic(t)
    pd.testing.assert_frame_equal(again.pointwise, member.pointwise)


def test_eta_can_be_found_under_a_member():
    explainer = gbce.Explainer(
        MODELS, DATA, space=gbce.Space.real(2), combine=gbce.Entropic(-1.0), eta=gbce.SuccessProbability(0.8)
    )
    found = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0), rules=[], seed=0)
    assert found.distribution["success_probability"] == pytest.approx(0.8, abs=0.04)


# --- disagreement -------------------------------------------------------------------------------------------


def test_disagreement_beside_a_category_names_the_number():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"wealth": rng.normal(size=200), "job": rng.choice(["cook", "nurse", "judge"], 200)})
    models = [lambda d: d["wealth"].to_numpy(), lambda d: np.where(d["wealth"] > 0.8, -1.0, d["wealth"])]
    found = gbce.Explainer(models, data).explain(data.iloc[[0]], gbce.AtLeast(0.5, scale=1), rules=[], seed=0)
    told = found.disagreement()
    assert told.where.loc["wealth", "level"] is None
    assert told.where.loc["job", "level"] in {"cook", "nurse", "judge"}
    assert told.sentence.endswith("mostly where wealth is high")


def test_disagreement_counts_verdicts(explanation):
    found, draws = explanation.disagreement(), explanation.draws
    reached, w = draws.reached, draws.weights
    assert found.overall["differ"] == pytest.approx(w @ (reached.any(axis=1) & ~reached.all(axis=1)))
    names = explanation.models
    by_pair = {(a, b): w @ (reached[:, a] != reached[:, b]) for a, b in [(0, 1), (0, 2), (1, 2)]}
    for (a, b), share in by_pair.items():
        assert found.pairs.loc[(names[a], names[b]), "differ"] == pytest.approx(share)
    odds = {pair: WEIGHTS[pair[0]] * WEIGHTS[pair[1]] for pair in by_pair}
    expected = sum(odds[pair] * by_pair[pair] for pair in by_pair) / sum(odds.values())
    assert found.overall["pair"] == pytest.approx(expected)
    outputs = draws.outputs
    between = np.sqrt(np.square(outputs - (outputs @ WEIGHTS)[:, None]) @ WEIGHTS)
    assert found.overall["spread"] == pytest.approx(w @ between / outputs[:, 0].std(), rel=1e-6)
    assert f"disagree on {100 * found.overall['differ']:.0f}% of the draws" in found.sentence
    assert found.sentence in explanation.summary()


def test_disagreement_says_where(explanation):
    found, draws = explanation.disagreement(), explanation.draws
    differ = draws.reached.any(axis=1) & ~draws.reached.all(axis=1)
    gap = draws.x[differ].mean(axis=0) - draws.x[~differ].mean(axis=0)
    np.testing.assert_allclose(found.where.loc[["x1", "x2"], "difference"], gap, rtol=1e-9)
    assert found.where["difference"].abs().is_monotonic_decreasing
    values = []
    for seed in range(24):
        explainer = gbce.Explainer(MODELS, DATA, space=gbce.Space.real(2), weights=WEIGHTS, sampler=QUICK)
        again = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0, scale=0.5), rules=[], seed=seed)
        values.append(again.disagreement().where.loc[["x1", "x2"], "difference"])
    np.testing.assert_allclose(found.where.loc[["x1", "x2"], "se"], np.std(values, axis=0), rtol=0.45)


def test_disagreement_in_a_category_and_none_at_all():
    frame = pd.DataFrame({"x": DATA[:, 0], "kind": np.where(DATA[:, 1] > 0, "a", np.where(DATA[:, 1] < -1, "c", "b"))})
    first, second = lambda f: f["x"], lambda f: f["x"] - 5 * (f["kind"] == "c")
    row = {"x": 0.0, "kind": "a"}
    found = gbce.Explainer([first, second], frame).explain(row, gbce.AtLeast(1.0), rules=[], seed=0).disagreement()
    assert found.where.index[0] == "kind"
    assert found.where.loc["kind", "level"] == "c"
    assert found.sentence.endswith("mostly where kind is c")
    same = gbce.Explainer([first, first], frame).explain(row, gbce.AtLeast(1.0), rules=[], seed=0)
    assert same.disagreement().sentence.startswith("the models agree on every draw")
    assert same.disagreement().overall["differ"] == 0
    assert len(same.disagreement().where) == 0


# --- refits -------------------------------------------------------------------------------------------------


def test_wilson_interval():
    low, high = wilson(np.array([0.8, 0.0, 1.0]), 10)
    np.testing.assert_allclose(low, [0.4902, 0.0, 0.7225], atol=1e-4)
    np.testing.assert_allclose(high, [0.9433, 0.2775, 1.0], atol=1e-4)


def test_survival_is_the_share_of_new_models(explainer, explanation):
    refits = [slope(a, b) for a, b in RNG.normal([1.0, 0.2], 0.4, size=(30, 2))]
    table = explainer.survival(explanation, refits)
    assert table.index.tolist() == ["MAP", "Mean", "posterior"]
    for decision in explanation.decisions:
        reached = np.array([model(decision.x[None, :])[0] >= 1.0 for model in refits])
        assert table.loc[decision.label, "survival"] == pytest.approx(reached.mean())
        assert table.loc[decision.label, "all"] == reached.all()
    reached = np.column_stack([model(explanation.draws.x) >= 1.0 for model in refits])
    assert table.loc["posterior", "survival"] == pytest.approx(reached.mean())
    assert table.loc["posterior", "all"] == pytest.approx(reached.all(axis=1).mean())
    assert (table["low"] <= table["survival"]).all()
    assert (table["survival"] <= table["high"]).all()
    assert (table["n_models"] == 30).all()
    assert table.loc["posterior", "before"] == explanation.distribution["success_probability"]


def test_survival_under_a_posterior_over_models(explainer, explanation, tmp_path):
    refits = [slope(a, b) for a, b in RNG.normal([1.0, 0.2], 0.4, size=(6, 2))]
    weights = np.array([0.5, 0.3, 0.2, 0.0, 0.0, 0.0])
    posterior = gbce.ModelPosterior(refits, weights, "by hand")
    table = gbce.metrics.survival(explanation, posterior)
    x = explanation.decisions[0].x[None, :]
    reached = np.array([model(x)[0] >= 1.0 for model in refits])
    assert table.loc["MAP", "survival"] == pytest.approx(reached @ weights)
    assert table.loc["MAP", "all"] == reached[:3].all()
    drawn = np.column_stack([model(explanation.draws.x) >= 1.0 for model in refits])
    assert table.loc["posterior", "survival"] == pytest.approx((drawn @ weights).mean())
    low, high = wilson(table["survival"].to_numpy(), 1 / 0.38)  # three unequal ones count as fewer
    np.testing.assert_allclose(table[["low", "high"]], np.column_stack([low, high]))
    pd.testing.assert_frame_equal(explainer.survival(explanation, posterior), table)
    explanation.save(tmp_path / "kept")
    pd.testing.assert_frame_equal(gbce.metrics.survival(gbce.load(tmp_path / "kept"), posterior), table)


def test_the_same_models_with_other_weights(explainer, explanation):
    models = [slope(1.0, 0.0), slope(-1.0, 0.0)]
    one, other = (gbce.ModelPosterior(models, np.array(w), "by hand") for w in ([1.0, 0.0], [0.0, 1.0]))
    for asked in (one, other, models, one):  # what is remembered of them are not their weights
        expected = gbce.metrics.survival(explanation, asked)
        pd.testing.assert_frame_equal(explainer.survival(explanation, asked), expected)
    agreeing, contrary = (explainer.survival(explanation, m).loc["posterior", "survival"] for m in (one, other))
    assert agreeing > 0.1 > 0.01 > contrary


def test_survival_of_classifiers():
    label = np.where(DATA.sum(axis=1) + 0.5 * RNG.normal(size=200) > 0, "yes", "no")
    fits = [LogisticRegression().fit(DATA[rows], label[rows]) for rows in RNG.integers(200, size=(6, 200))]
    explainer = gbce.Explainer(fits[0], DATA)
    explanation = explainer.explain([-1.0, -1.0], gbce.Class("yes"), rules=[gbce.Mean()], seed=0)
    table = explainer.survival(explanation, fits[1:])
    x = explanation.decisions[0].x[None, :]
    assert table.loc["Mean", "survival"] == np.mean([fit.predict(x)[0] == "yes" for fit in fits[1:]])
    assert explainer.survival(explanation, fits[0]).loc["posterior", "survival"] == pytest.approx(
        explanation.distribution["success_probability"]
    )


# --- a row that moves ---------------------------------------------------------------------------------------


def test_energy_distance_of_normal_laws():
    n, gap = 3_000, 0.8
    a, b = RNG.normal(size=(n, 1)), gap + RNG.normal(size=(n, 1))
    cross = 2 * norm.pdf(gap / np.sqrt(2)) * np.sqrt(2) + gap * (1 - 2 * norm.cdf(-gap / np.sqrt(2)))
    assert energy_distance(Places(a), Places(b)) == pytest.approx(np.sqrt(2 * cross - 4 / np.sqrt(np.pi)), abs=0.04)
    twice = np.vstack([a[:500], a[:250]])
    weights = np.append(np.repeat([1.0, 2.0], 250), np.ones(250) * 0) / 750
    counted = np.vstack([a[:250], a[250:500], a[250:500]])
    far = energy_distance(Places(twice), Places(b[:500]), weights)
    assert far == pytest.approx(energy_distance(Places(counted), Places(b[:500])), abs=0.01)
    assert energy_distance(Places(a[:1]), Places(a[:1])) == 0


def test_sensitivity_of_a_linear_model():
    case = linear(2, eta=1.0)
    explainer = gbce.Explainer(case.predict, DATA, space=gbce.Space.real(2))
    noise = lambda rng, n: np.tile([0.6, 0.0], (n, 1))  # noqa: E731
    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    found = explainer.sensitivity(case.x0, target, noise=noise, n_rows=2, n_null=2, seed=0)
    table = found.table
    np.testing.assert_allclose(table["moved"], [0, 0, 0.6, 0.6], atol=1e-12)
    expected = np.linalg.norm(case.cov @ np.linalg.solve(case.S, [0.6, 0.0]))
    moved = table[table["row"] == "moved"]
    np.testing.assert_allclose(moved["shift"], expected, atol=0.1)
    assert moved["distance"].min() > table.loc[table["row"] == "same", "distance"].max()
    assert "Similar rows get similar answers" in found.sentence
    assert str(found) == found.sentence


def test_sensitivity_moves_only_what_can_move_and_is_reproducible():
    frame = pd.DataFrame(DATA, columns=["age", "income"])
    space = gbce.Space.infer(frame, immutable=["age"], bounds={"income": (-1, 1)})
    explainer = gbce.Explainer(lambda f: f.to_numpy().sum(axis=1), frame, space=space, sampler=QUICK)
    ask = lambda **o: explainer.sensitivity(  # noqa: E731
        {"age": 0.0, "income": 0.9}, gbce.AtLeast(1.0), n_rows=3, n_null=1, **o
    )
    one, two = ask(seed=4), ask(seed=4)
    pd.testing.assert_frame_equal(one.table, two.table)
    assert ask(noise=50.0, seed=1).table["moved"].max() <= 1.9 / space.scale[1] + 1e-9
    with pytest.raises(ValueError, match="no copy of the row moved"):
        ask(noise={"age": 1.0})
    with pytest.raises(ValueError, match="n_null must be an integer"):
        explainer.sensitivity({"age": 0.0, "income": 0.9}, gbce.AtLeast(1.0), n_null=0)


# --- rules over models and noise ----------------------------------------------------------------------------


def two_models(x, *, weights=(0.6, 0.4), noise=0.3, target=None):
    scene = scene_of(x, model=lambda rows: rows[:, 0], target=target, noise=noise)
    predictors = tuple(as_predictor(f, scene.space) for f in (lambda rows: rows[:, 0], lambda rows: rows[:, 0] - 1.0))
    mixture = Mixture(1.0, np.array(weights))
    posterior = GibbsPosterior(scene.posterior.prior, predictors, scene.posterior.target, mixture)
    return replace(scene, query=replace(scene.query, mixture=mixture), posterior=posterior)


def test_weighted_tail_mean_is_that_of_repeated_losses():
    loss = RNG.exponential(size=(7, 4))
    times = np.array([3, 1, 4, 2])
    repeated = np.repeat(loss, times, axis=1)
    for tau in (0.0, 0.3, 0.5, 0.77, 0.95):
        np.testing.assert_allclose(tail_mean(loss, tau, times / 10), tail_mean(repeated, tau), rtol=1e-12)
    silent = tail_mean(np.array([[1.0, np.inf]]), 0.9, np.array([1.0, 0.0]))
    np.testing.assert_array_equal(silent, [1.0])


def test_chance_constrained_counts_models_and_noise():
    x = np.linspace(0.0, 3.0, 301)[:, None]
    target = gbce.AtLeast(0.0, scale=1, tolerance=0)
    reliability = 0.6 * norm.cdf(x[:, 0] / 0.3) + 0.4 * norm.cdf((x[:, 0] - 1.0) / 0.3)
    rule = gbce.ChanceConstrained(0.9, across="models", n_confirm=4_000)
    chosen = rule.choose(two_models(x, target=target)).x[0, 0]
    # not nearer than what keeps the promise, and not much farther: a trial may be failed by chance
    assert -0.01 <= chosen - x[np.argmax(reliability >= 0.9), 0] <= 0.1
    first = gbce.ChanceConstrained(0.9, n_confirm=4_000).choose(two_models(x, target=target)).x[0, 0]
    assert -0.01 <= first - 0.3 * norm.ppf(0.9) <= 0.1
    short = gbce.ChanceConstrained(0.9, across="models").choose(two_models(x[:50], target=target))
    assert "under noise and across models with probability 0.9" in short.note
    assert rule.label == "ChanceConstrained(n_confirm=4000, across=models)"


def test_cvar_over_models_minimises_its_definition():
    x = RNG.normal(size=(60, 1))
    shifts = gbce.metrics.offsets(0.3, gbce.Space.real(1), np.random.default_rng(0), 50)
    rule = gbce.CVaR(tau=0.8, n_perturb=50, across="models", race=False, refine=False)
    chosen = rule.choose(two_models(x)).x[0, 0]
    moved = x + shifts[:, 0]
    loss = np.stack([np.square(moved), np.square(moved - 1.0)], axis=2)
    repeated = np.concatenate([np.repeat(loss[:, :, [0]], 3, axis=1), np.repeat(loss[:, :, [1]], 2, axis=1)], axis=1)
    assert chosen == x[np.argmin(tail_mean(repeated[:, :, 0], 0.8)), 0]
    grid = gbce.CVaR(race=False, refine=False)
    assert grid.choose(two_models(x)).x[0, 0] == replace(grid, across="combined").choose(two_models(x)).x[0, 0]


# --- groups -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    explainer = gbce.Explainer(slope(1.0, 0.5), DATA, sampler=gbce.Importance(n_candidates=3_000, n_draws=500))
    frame = pd.DataFrame(DATA[:40], index=[f"r{i}" for i in range(40)])
    labels = np.where(DATA[:40, 1] > 0, "up", "down")
    rules = [gbce.MAP(), gbce.Mean()]
    table = explainer.explain_many(frame.to_numpy(), gbce.AtLeast(1.0), rules=rules, seed=0, progress=False)
    singles = [explainer.explain(DATA[i], gbce.AtLeast(1.0), rules=rules, seed=i) for i in range(12)]
    return table, labels, singles


def test_group_costs_are_means_over_rows(many):
    table, labels, _ = many
    found = gbce.group_costs(table, labels, rule="posterior")
    status = table.diagnostics["status"].to_numpy()
    for group in ("up", "down"):
        inside = labels == group
        line = found.loc[group]
        assert line["rows"] == inside.sum()
        assert line["already"] == (inside & (status == "already reached")).sum()
        cost = table.distribution["expected_cost"][inside & (status == "attainable")]
        assert line["cost"] == pytest.approx(cost.mean())
        half = student.ppf(0.975, len(cost) - 1) * cost.std(ddof=1) / np.sqrt(len(cost))
        assert line["cost_high"] - line["cost_low"] == pytest.approx(2 * half, rel=0.12)
        assert line["cost_low"] < line["cost"] < line["cost_high"]
        se = table.distribution["expected_cost_se"][inside & (status == "attainable")]
        assert line["se_mc"] == pytest.approx(np.sqrt(np.square(se).sum()) / len(se))
        assert line["attainable_low"] < line["attainable"] <= line["attainable_high"]
    by_rule = gbce.group_costs(table, labels, rule="Mean")
    own = table.pointwise.xs("Mean", level="rule")
    kept = (labels == "up") & (status != "already reached") & own["reached"].to_numpy()
    assert by_rule.loc["up", "cost"] == pytest.approx(own["cost"][kept].mean())
    assert by_rule.loc["up", "attainable"] == pytest.approx(
        kept.sum() / ((labels == "up") & (status != "already reached")).sum()
    )
    series = pd.Series(labels[::-1], index=range(39, -1, -1))
    pd.testing.assert_frame_equal(gbce.group_costs(table, series, rule="posterior").loc[found.index], found)


def test_group_changes_pool_posteriors(many):
    table, labels, singles = many
    found = gbce.group_changes(table, labels)
    kept = (labels == "down") & (table.diagnostics["status"] == "attainable").to_numpy()
    expected = table.importance["change"].unstack("feature")[kept].mean()
    np.testing.assert_allclose(found.loc["down", "change"], expected[["x1", "x2"]])
    assert ((found["low"] < found["change"]) & (found["change"] < found["high"])).all()
    listed = gbce.group_changes(dict(enumerate(singles)), labels[:12])
    moved = [
        s.draws.x.mean(axis=0) - s.x0
        for s, g in zip(singles, labels, strict=False)
        if g == "up" and s.status == "attainable"
    ]
    np.testing.assert_allclose(listed.loc["up", "shift"], np.mean(moved, axis=0))
    one = next(single for single in singles if single.status == "attainable")
    lone = gbce.group_costs([one], ["a"]).loc["a"]
    assert lone["cost"] > 0
    assert np.isnan([lone["cost_low"], lone["cost_high"]]).all()


# --- bad input ----------------------------------------------------------------------------------------------


def test_rows_without_a_group_are_a_group(many):
    groups = ["a"] * 20 + [None] * 10 + [np.nan] * 10
    found = gbce.group_costs(many[0], groups)
    assert list(found["n"] if "n" in found else found.iloc[:, 0]) == [20, 20]
    assert list(found.index) == ["a", "missing"]


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda e, x, t: gbce.Entropic(float("nan")), "t must be a number or plus or minus infinity"),
        (lambda e, x, t: gbce.Entropic("any"), "t must be a number"),
        (lambda e, x, t: x.at(combine="some"), r"combine must be one of .* or gbce.Entropic\(t\), not 'some'"),
        (lambda e, x, t: x.at(weights=[1, 0, 0]).disagreement(), "at least two models with weights above zero"),
        (lambda e, x, t: e.survival(x, []), "models is an empty list"),
        (lambda e, x, t: gbce.CVaR(across="first"), "CVaR: across must be 'combined' or 'models'"),
        (lambda e, x, t: gbce.ChanceConstrained(across="all"), "across must be 'first' or 'models', not 'all'"),
        (lambda e, x, t: gbce.group_costs(t, ["a"]), "one entry per row: 40 rows, but 1 entries"),
        (lambda e, x, t: gbce.group_costs(t, {0: "a"}), r"no entry for rows \[1, 2"),
        (lambda e, x, t: gbce.group_costs(t, ["a"] * 40, rule="Best"), "no rule 'Best'; the explanations have"),
        (lambda e, x, t: gbce.group_costs(t, ["a"] * 40, mass=1.0), "mass must lie between 0 and 1"),
        (lambda e, x, t: gbce.group_changes(t, ["a"] * 40, n_bootstrap=3), "n_bootstrap must be an integer"),
    ],
)
def test_bad_input_is_told(explainer, explanation, many, ask, sentence):
    with pytest.raises(ValueError, match=sentence):
        ask(explainer, explanation, many[0])


def test_groups_of_what(explanation):
    with pytest.raises(TypeError, match="ExplanationTable or a list or mapping of explanations, not Explanation"):
        gbce.group_costs(explanation, ["a"])
    with pytest.raises(TypeError, match="at least one explanation, and nothing else"):
        gbce.group_changes([], [])
