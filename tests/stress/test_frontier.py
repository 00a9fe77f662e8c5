"""What reliability costs: the frontier of draws, under noise, under other models, and what a walk finds."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, norm
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier

import gbce
from gbce.metrics import near_front, next_model_probability, pareto_front
from gbce.search import BestPerLevel, StepsFromRow
from support.slopes import DATA, MODELS, QUICK, WEIGHTS, slope, slopes_explainer, slopes_explanation

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def explainer():
    return slopes_explainer()


@pytest.fixture(scope="module")
def explanation():
    return slopes_explanation()


# --- draws, noise, other models -----------------------------------------------------------------------------


def test_pareto_by_brute_force():
    reliability, cost = RNG.integers(0, 6, size=80) / 5, RNG.integers(1, 30, size=80) / 10
    front = pareto_front(reliability, cost)
    for level in np.unique(reliability[reliability > 0]):
        cheapest = cost[reliability >= level].min()
        assert cost[front[reliability[front] >= level]].min() == cheapest
    assert (np.diff(reliability[front]) > 0).all()
    assert (np.diff(cost[front]) > 0).all()
    assert set(front) <= set(near_front(reliability, cost, 50, 80))


@pytest.mark.parametrize("distance", ["l2", "l1"])
def test_frontier_of_the_models_at_hand(explanation, distance):
    table = explanation.frontier(distance=distance)
    x = np.vstack([explanation.draws.x, *(decision.x for decision in explanation.decisions)])
    share = np.column_stack([model(x) >= 1.0 for model in MODELS]) @ WEIGHTS
    cost = np.linalg.norm(x, axis=1, ord=2 if distance == "l2" else 1)
    for level in np.unique(share[share > 0]):
        assert table["cost"][table.index >= level - 1e-9].iloc[0] == pytest.approx(cost[share >= level - 1e-9].min())
    assert table.index.is_monotonic_increasing
    assert table["cost"].is_monotonic_increasing
    own = np.column_stack([model(table[["x1", "x2"]]) >= 1.0 for model in MODELS]) @ WEIGHTS
    np.testing.assert_allclose(own, table.index)
    some = explanation.frontier(distance=distance, levels=[0.6, 1.0])
    assert some.index.min() >= 0.6
    pool = explanation.frontier(distance=distance, among="pool")
    assert pool["cost"].iloc[-1] <= table["cost"].iloc[-1]


def test_frontier_under_noise_is_honest():
    explainer = gbce.Explainer(slope(1.0), RNG.normal(size=(100, 1)), space=gbce.Space.real(1), sampler=QUICK)
    explanation = explainer.explain([0.0], gbce.AtLeast(1.0, scale=0.5), rules=[], seed=0)
    table = explainer.frontier(explanation, noise=0.4)
    truth = norm.cdf((table["x1"] - 1.0) / 0.4)
    z = (table.index - truth) / table["se"]
    assert len(table) > 10
    assert np.abs(z).max() < 4
    assert table.index.is_monotonic_increasing
    assert table["cost"].is_monotonic_increasing
    levels = explainer.frontier(explanation, noise=0.4, levels=[0.5, 0.9])
    best = 1.0 + 0.4 * norm.ppf(0.9)
    assert levels["cost"].iloc[-1] == pytest.approx(best, abs=0.06)


def test_many_points_of_middling_reliability_do_not_crowd_out_the_reliable_ones():
    rng = np.random.default_rng(0)
    cost = np.sort(rng.uniform(0.0, 3.0, size=60_000))
    share = rng.binomial(64, norm.cdf((cost - 1.0) / 0.4)) / 64
    kept = near_front(share, cost, 64, 200)
    assert len(kept) == 200
    assert set(pareto_front(share, cost)) <= set(kept)
    assert share[kept].max() == share.max() > 0.99


def test_errors_of_a_frontier_over_models_and_noise_cover():
    first, second = slope(1.0, 0.5, 0.0), slope(1.0, 0.0, 0.5)
    space = gbce.Space.real(3)
    explainer = gbce.Explainer([first, second], RNG.normal(size=(50, 3)), space=space, sampler=QUICK, weights=[7, 3])
    z = []
    for seed in range(6):
        explanation = explainer.explain(np.zeros(3), gbce.AtLeast(1.0, scale=0.5), rules=[], seed=seed)
        table = explainer.frontier(explanation, noise=0.3)
        x, sd = table[["x1", "x2", "x3"]].to_numpy(), 0.3 * np.sqrt(1.25)
        truth = 0.7 * norm.cdf((first(x) - 1.0) / sd) + 0.3 * norm.cdf((second(x) - 1.0) / sd)
        z.append((table.index.to_numpy() - truth) / table["se"].to_numpy())
    assert abs(np.mean([one.mean() for one in z])) < 1.0  # chosen, and yet not too good to be true
    assert np.mean(np.abs(np.concatenate(z)) < 1.96) > 0.85


def test_frontier_under_other_models(explainer, explanation):
    refits = [slope(a, b) for a, b in RNG.normal([1.0, 0.2], 0.3, size=(10, 2))]
    table = explainer.frontier(explanation, models=refits, max_candidates=5_000, refine=False)
    x = np.vstack([explanation.draws.x, *(decision.x for decision in explanation.decisions)])
    share = np.mean([model(x) >= 1.0 for model in refits], axis=0) * (MODELS[0](x) >= 1.0)
    for level in (0.3, 0.5, 0.9):
        attained = table["cost"][table.index >= level - 1e-9].iloc[0]
        assert attained == pytest.approx(np.abs(x).sum(axis=1)[share >= level - 1e-9].min())
    pd.testing.assert_frame_equal(
        explainer.frontier(explanation, max_candidates=5_000, refine=False).astype(float),
        explanation.frontier().astype(float),
    )
    hopeless = explainer.frontier(explanation, models=[lambda rows: np.zeros(len(rows))], noise=0.1)
    assert len(hopeless) == 0


class Torn:
    """A classifier whose scores and decisions are at odds: it turns away all near the diagonal, where it is cheap."""

    classes_ = np.array([0, 1])

    def predict_proba(self, x):
        p = 1.0 / (1.0 + np.exp(-4.0 * (np.asarray(x, dtype=float).sum(axis=1) - 2.5)))
        return np.column_stack([1 - p, p])

    def predict(self, x):
        apart = np.abs(np.diff(np.asarray(x, dtype=float), axis=1))[:, 0] > 0.4
        return ((self.predict_proba(x)[:, 1] >= 0.5) & apart).astype(int)


def test_under_noise_no_point_is_offered_that_the_model_refuses():
    """A hole around the cheapest point: copies of it succeed, it itself does not."""

    def model(x):
        x = np.asarray(x, dtype=float)[:, 0]
        return np.where((x > 1.0) & (np.abs(x - 1.5) > 0.05), 1.0, 0.0)

    explainer = gbce.Explainer(model, RNG.normal(size=(100, 1)), space=gbce.Space.real(1), sampler=QUICK)
    explanation = explainer.explain([0.0], gbce.AtLeast(0.5, scale=0.5), rules=[], seed=0)
    table = explainer.frontier(explanation, noise=0.4)
    assert table.columns.tolist() == ["cost", "distance", "se", "output", "reached", "x1"]
    assert len(table) > 5
    assert table["reached"].all()
    assert table["reached"].dtype == bool
    assert (table["output"] == model(table[["x1"]])).all()
    assert (table["output"] == 1.0).all()
    row = explainer.frontier(explanation, noise=5.0)  # the row itself succeeds in two of five copies
    assert (row["cost"] > 1.0).all()


def test_points_that_the_decision_refuses_make_room_for_others():
    data = RNG.normal(size=(200, 2))
    explainer = gbce.Explainer(Torn(), data, space=gbce.Space.real(2), sampler=QUICK)
    explanation = explainer.explain([0.0, 0.0], gbce.Class(1), rules=[], seed=0)
    table = explainer.frontier(explanation, noise=0.2)
    assert len(table) > 5
    assert Torn().predict(table[["x1", "x2"]]).all()
    assert table["reached"].all()
    assert table.index.is_monotonic_increasing
    assert table.index.max() > 0.95
    one = explainer.frontier(explanation, noise=0.2, levels=[0.9])
    assert one["reached"].tolist() == [True]


def test_frontier_keeps_a_column_named_distance():
    frame = pd.DataFrame(DATA, columns=["distance", "x"])
    explainer = gbce.Explainer(lambda f: f.to_numpy().sum(axis=1), frame, sampler=QUICK)
    table = explainer.explain(frame.iloc[0], gbce.AtLeast(2), rules=[], seed=0).frontier()
    assert table.columns.tolist() == ["cost", "distance_", "se", "distance", "x"]


def test_picture_of_a_frontier(explainer, explanation):
    import matplotlib.pyplot as plt

    ax = explanation.plot.frontier()
    assert "share of models" in ax.get_ylabel()
    assert {"draw", "frontier", "MAP", "Mean", "the answer"} == {
        text.get_text() for text in ax.get_legend().get_texts()
    }
    noisy = explanation.plot.frontier(explainer.frontier(explanation, noise=0.2))
    assert "probability" in noisy.get_ylabel()
    table = explainer.frontier(explanation, models=MODELS[1:], unseen=MODELS[0])
    seen = explanation.plot.frontier(table)
    assert {"frontier", "under unseen models"} == {text.get_text() for text in seen.get_legend().get_texts()}
    assert [*seen.lines[-1].get_ydata()] == table["unseen"].tolist() == [1.0] * len(table)
    hopeless = explainer.frontier(explanation, models=[lambda rows: np.zeros(len(rows))])
    assert explanation.plot.frontier(hopeless) is not None
    plt.close("all")


# --- the next model -----------------------------------------------------------------------------------------


def test_next_model_is_students_predictive_distribution():
    said = RNG.normal(size=(7, 5))
    scale = said.std(axis=1, ddof=1) * np.sqrt(1 + 1 / 5)
    expected = student(4, said.mean(axis=1), scale)
    equal = np.full(5, 0.2)
    np.testing.assert_allclose(next_model_probability(said, equal, (0.3, np.inf)), expected.sf(0.3), rtol=1e-10)
    np.testing.assert_allclose(next_model_probability(said, equal, (-np.inf, 0.3)), expected.cdf(0.3), rtol=1e-10)
    np.testing.assert_allclose(
        next_model_probability(said, equal, (-1, 2)), expected.cdf(2) - expected.cdf(-1), rtol=1e-10
    )
    alike = np.full((1, 5), 0.7)
    assert next_model_probability(alike, equal, (0.5, np.inf))[0] == 1.0
    assert next_model_probability(alike, equal, (0.8, np.inf))[0] == 0.0
    for k in (3, 7, 10):  # at the limit itself, whatever the rounding of a mean
        for limit in (0.1, 0.7, 3.0):
            alike, equal = np.full((1, k), limit), np.full(k, 1 / k)
            for accepted in ((limit, np.inf), (-np.inf, limit), (limit, limit)):
                assert next_model_probability(alike, equal, accepted)[0] == 1.0


def test_next_model_is_calibrated():
    said = RNG.normal(3.0, 2.0, size=(20_000, 6))
    among = np.array(
        [next_model_probability(row[None, :5], np.full(5, 0.2), (row[5], np.inf))[0] for row in said[:4_000]]
    )
    assert kstest(among, "uniform").pvalue > 0.001
    biased = np.array([norm.sf(row[5], row[:5].mean(), row[:5].std(ddof=1)) for row in said[:4_000]])
    assert kstest(biased, "uniform").pvalue < 1e-6  # what a plug-in normal would be


@pytest.mark.parametrize(
    ("target", "accepted"),
    [
        (gbce.Value(3, tolerance=0.5), (2.5, 3.5)),
        (gbce.Range(1, 2, tolerance=0), (1, 2)),
        (gbce.AtLeast(3, tolerance=0.25), (2.75, np.inf)),
        (gbce.AtMost(3, tolerance=0), (-np.inf, 3)),
        (gbce.Class("yes"), (0.5, np.inf)),
        (gbce.Class("yes", probability=(0.2, 0.4)), (0.2, 0.4)),
    ],
)
def test_what_targets_accept(target, accepted):
    assert target.accepted() == accepted


# --- the walk -----------------------------------------------------------------------------------------------


def test_shelf_keeps_the_cheapest_for_every_level():
    shelf = BestPerLevel.empty(np.array([0.2, 0.5, 0.9]), np.zeros(2))
    x, reliability, cost = RNG.normal(size=(300, 2)), RNG.random(300) * 0.8, RNG.random(300)
    for part in np.split(np.arange(300), 3):
        shelf.add(x[part], reliability[part], cost[part])
    for level, point, price in zip(shelf.levels[:2], shelf.x[:2], shelf.cost[:2], strict=True):
        best = np.where(reliability >= level, cost, np.inf).argmin()
        assert price == cost[best]
        np.testing.assert_array_equal(point, x[best])
    assert shelf.cost[2] == np.inf
    assert len(shelf.filled) == len(np.unique(shelf.x[:2], axis=0))
    assert max(shelf.highest.values()) == 0.5


def test_exchanging_one_change_for_more_of_another():
    space = gbce.Space.real(["a", "b", "c", "d"], scale=[1.0, 2.0, 1.0, 1.0])
    data = np.column_stack([np.linspace(-5, 5, 101)] * 4)
    data[:, 2] /= 5  # c was seen up to one
    steps = StepsFromRow.of(space, np.zeros(4), data)
    x = np.array([[1.0, -2.0, 0.9, 0.0]])  # one unit of a and of b, 0.9 of c
    found = steps.exchange(x)
    assert len(found) == 6  # each of three changes for each of the two others
    for point in ([1.7, 0, 0.9, 0], [1.63, -2, 0, 0], [0, -3.4, 0.9, 0], [0, -2, steps.values[2][-1], 0]):
        assert np.isclose(found, point).all(axis=1).any()
    assert (np.abs(found) / space.scale).sum(axis=1).max() < 2.9
    assert len(steps.exchange(np.zeros((0, 4)))) == 0
    assert len(steps.exchange(x * [1, 0, 0, 0])) == 0  # nothing to exchange it for
    many = StepsFromRow.of(gbce.Space.real(40), np.zeros(40), np.tile(np.linspace(-5, 5, 101)[:, None], 40))
    assert len(many.exchange(np.linspace(0.1, 1, 80).reshape(2, 40))) == 2 * 6 * 5  # the largest six of each


def test_exchanges_in_a_mixed_table():
    frame = pd.DataFrame(
        {"n": [1, 2, 9, 4], "c": list("uvuw"), "r": [0.0, 9.0, 3.0, np.nan], "s": [1.0, 2.0, 8.0, 4.0]}
    )
    space = gbce.Space.infer(frame, scale={"n": 1, "r": 1, "s": 1}, constraints=["n + s <= 9"], missing={"r": "any"})
    steps = StepsFromRow.of(space, space.encode_row(frame.iloc[0]), space.encode(frame))
    x = space.encode(pd.DataFrame({"n": [4, 4], "c": ["v", "u"], "r": [0.0, np.nan], "s": [3.0, 3.0]}))
    found = space.decode(steps.exchange(x))
    assert ((found["n"] + found["s"]) <= 9).all()
    assert (found["n"] == found["n"].round()).all()
    # a category, or a value that went missing, is given up for 0.7 units of another; n then rounds
    back = found[(found["c"] == "u") & (found["r"] == 0)]
    assert {(5, 3.0), (4, 3.7)} <= set(zip(back["n"], back["s"].round(6), strict=True))
    assert not ((found["c"] != "u") & found["r"].isna()).any()


def test_a_walk_past_changes_that_exclude_each_other():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": rng.integers(0, 6, 400), "b": rng.integers(0, 6, 400)})
    data["a"] *= np.arange(400) % 2
    data["b"] *= 1 - np.arange(400) % 2
    data = data.assign(c=rng.uniform(0, 2, 400), e=rng.uniform(0, 2, 400))
    space = gbce.Space.infer(data, constraints=["if a > 0 then b == 0"], bounds="data")
    models = [lambda x, s=s: s * x.sum(axis=1).to_numpy() for s in (0.9, 1.0, 1.1)]
    explainer = gbce.Explainer(models[1], data, space=space, sampler=gbce.Importance(500, 100))
    explanation = explainer.explain({"a": 0, "b": 0, "c": 0.1, "e": 0.1}, gbce.AtLeast(7), rules=[], seed=0)
    table = explainer.frontier(explanation, models=models, distance="l1")
    assert table.index[-1] == 1
    assert ((table["a"] == 0) | (table["b"] == 0)).all()
    assert (0.9 * table[["a", "b", "c", "e"]].iloc[-1].sum()) >= 7


def test_exchanges_never_take_what_drawing_back_needs(monkeypatch):
    """Where a walk has little left, it draws back what it has; with exchanges it is no dearer than without."""
    d, rng = 60, np.random.default_rng(0)
    w = np.ones(d) / np.sqrt(d)
    models = [slope(*(w + 0.3 * rng.normal(size=d) / np.sqrt(d))) for _ in range(6)]
    explainer = gbce.Explainer(
        slope(*w), rng.normal(size=(300, d)), space=gbce.Space.real(d), prior=gbce.Gaussian(0.3), eta=5.0,
        sampler=gbce.Importance(2_000, 200),
    )  # fmt: skip
    explanation = explainer.explain(np.zeros(d), gbce.AtLeast(3.0), rules=[], seed=0)
    for rows in (None, 30_000):
        found = explainer.frontier(explanation, models=models, max_model_rows=rows)
        with monkeypatch.context() as patch:
            patch.setattr(StepsFromRow, "exchange", lambda self, x: x[:0])
            without = explainer.frontier(explanation, models=models, max_model_rows=rows)
        for level, price in without["cost"].items():
            assert found["cost"][found.index >= level - 1e-9].iloc[0] <= 1.01 * price


def test_a_walk_finds_the_cheapest_change_of_linear_models():
    w = np.array([0.3, 1.0, -0.5, 0.2, 0.0, 0.6])
    refits = [slope(*(w * a)) for a in np.linspace(0.7, 1.3, 7)]
    data = RNG.uniform(-3, 3, size=(400, 6))  # a walk only tries what was seen
    explainer = gbce.Explainer(slope(*w), data, space=gbce.Space.real(6), sampler=gbce.Importance(2_000, 200))
    explanation = explainer.explain(np.zeros(6), gbce.AtLeast(1.5), rules=[], seed=0)
    options = {"models": refits, "distance": "l1", "levels": [0.25, 0.5, 1.0]}
    drawn, walked = (explainer.frontier(explanation, refine=refine, **options) for refine in (False, True))
    # all of it goes to the feature that counts most; a model of slope a accepts from 1.5 / a on, and today's is a = 1
    best = pd.Series(1.5 / np.array([1.0, 1.0, 0.7]), index=[3 / 7, 4 / 7, 1.0])
    for level in options["levels"]:
        found = walked["cost"][walked.index >= level].iloc[0]
        exact = best[best.index >= level].iloc[0]
        assert exact <= found <= 1.1 * exact
        assert found < 0.8 * drawn["cost"][drawn.index >= level].iloc[0]


def test_what_a_walk_finds_is_never_dearer(explainer, explanation):
    for distance in ("l1", "l2"):
        drawn, walked = (
            explainer.frontier(explanation, distance=distance, refine=refine, max_candidates=5_000)
            for refine in (False, True)
        )
        for level, price in drawn["cost"].items():
            assert walked["cost"][walked.index >= level - 1e-9].iloc[0] <= price


@pytest.fixture(scope="module")
def forests():
    rng = np.random.default_rng(5)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "income": rng.gamma(4, 800, n).round(2),
            "debt": rng.gamma(2, 300, n).round(2),
            "job": rng.choice(["none", "clerk", "boss"], n, p=[0.3, 0.5, 0.2]),
            "owner": rng.random(n) < 0.4,
        }
    )
    score = frame["income"] / 1_000 - frame["debt"] / 400 + (frame["job"] == "boss") * 1.5 + frame["owner"] * 0.5
    y = np.where(score + rng.normal(size=n) * 0.5 > 2.2, "yes", "no")

    def fitted(seed, rows):
        from sklearn.compose import make_column_transformer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder

        one_hot = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
        forest = RandomForestClassifier(12, random_state=seed)
        return make_pipeline(one_hot, forest).fit(frame.iloc[rows], y[rows])

    model = fitted(0, np.arange(n))
    refits = [fitted(seed, rng.integers(n, size=n)) for seed in range(1, 15)]
    row = frame[model.predict(frame) == "no"].iloc[[3]]
    return frame, model, refits[:10], refits[10:], row


@pytest.fixture(scope="module")
def mixed(forests):
    frame, model, *_, row = forests
    space = gbce.Space.infer(frame, immutable=["age"], bounds="data", constraints=["debt <= 0.6 * income"])
    explainer = gbce.Explainer(model, frame, space=space, sampler=gbce.Importance(1_500, 150))
    return explainer, explainer.explain(row, gbce.Class("yes"), rules=[], seed=0)


@pytest.mark.parametrize("reliability", ["share", "next"])
def test_walk_over_a_mixed_table(forests, mixed, reliability):
    frame, model, refits, unseen, row = forests
    explainer, explanation = mixed
    table = explainer.frontier(explanation, models=refits, unseen=unseen, reliability=reliability, distance="l1")
    found = table[frame.columns]
    assert (model.predict(found) == "yes").all()
    assert (found["age"] == row["age"].iloc[0]).all()
    assert (found["debt"] <= 0.6 * found["income"] + 1e-9).all()
    assert (found.dtypes == frame.dtypes).all()
    np.testing.assert_allclose(table["unseen"], np.mean([fit.predict(found) == "yes" for fit in unseen], axis=0))
    if reliability == "share":
        np.testing.assert_allclose(table.index, np.mean([fit.predict(found) == "yes" for fit in refits], axis=0))
    else:
        p = np.column_stack([fit.predict_proba(found)[:, 1] for fit in refits])
        np.testing.assert_allclose(table.index, next_model_probability(p, np.full(10, 0.1), (0.5, np.inf)))
    drawn = explainer.frontier(explanation, models=refits, reliability=reliability, distance="l1", refine=False)
    cheapest = np.array([table["cost"][table.index >= level].min() for level in drawn.index])
    assert (cheapest <= drawn["cost"] + 1e-12).all()
    if reliability == "share":  # of the other, draws may be as near at every level
        assert (cheapest < drawn["cost"]).any()


def test_steps_stay_in_the_space(mixed):
    explainer, explanation = mixed
    steps = StepsFromRow.of(explainer.space, explanation.x0, explainer._session.data)
    around = steps.neighbours(explanation.x0)
    changed = explainer.space.changed(around, explanation.x0)
    assert (changed.sum(axis=1) == 1).all()
    assert not changed[:, 0].any()  # age
    assert changed[:, 1:].any(axis=0).all()
    assert explainer.space.admissible(around, explanation.x0).all()
    two = steps.combine(around[0], *_one_each(around[1:], changed[1:], around[0], explanation.x0))
    assert (explainer.space.changed(two, explanation.x0).sum(axis=1) > 1).all()
    back = steps.draw_back(np.vstack([around, two]))
    assert explainer.space.admissible(back.x, explanation.x0).all()
    assert (explainer.space.changed(back.x, np.vstack([around, two])[back.parent]).sum(axis=1) == 1).all()
    assert len(steps.draw_back(explanation.row.x).x) == 0


def _one_each(points, changed, x, x0):
    own = np.flatnonzero(x != x0)
    feature = changed.argmax(axis=1)
    picked = [np.flatnonzero(feature == j)[0] for j in np.unique(feature) if j not in own]
    return points[picked], feature[picked]


def test_a_walk_under_noise_is_reported_honestly():
    explainer = gbce.Explainer(slope(1.0, 0.4), DATA, space=gbce.Space.real(2), sampler=QUICK)
    explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0, scale=0.5), rules=[], seed=0)
    table = explainer.frontier(explanation, noise=0.3, distance="l1", levels=[0.5, 0.8, 0.95])
    truth = norm.cdf((slope(1.0, 0.4)(table[["x1", "x2"]]) - 1.0) / (0.3 * np.hypot(1.0, 0.4)))
    assert (np.abs(table.index - truth) < 4 * table["se"]).all()


@pytest.mark.parametrize("noise", [None, 0.1])
def test_the_budget_of_a_frontier(forests, mixed, noise):
    _, _, refits, *_ = forests
    explainer, explanation = mixed
    asked = []

    def counting(fit):
        def ask(rows):
            asked.append(len(rows))
            return fit.predict_proba(rows)[:, 1]

        return gbce.classifier(ask, classes=["no", "yes"])

    models = [counting(fit) for fit in refits]
    explainer.frontier(explanation, models=models, max_model_rows=3_000, max_candidates=1, n_perturb=2, n_confirm=2)
    asked.clear()
    options = {"n_perturb": 4, "max_model_rows": 4_000}
    for n_confirm in (16, 512):  # more than can be paid for
        asked.clear()
        table = explainer.frontier(explanation, models=models, noise=noise, n_confirm=n_confirm, **options)
        assert 500 < sum(asked) <= 4_000
        assert len(table) > 0


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda e, x: x.frontier(distance="l3"), "distance must be 'l2' or 'l1'"),
        (lambda e, x: x.frontier(among="all"), "among must be 'draws' or 'pool'"),
        (lambda e, x: x.frontier(levels=[0.5, 2.0]), "levels must be probabilities"),
        (lambda e, x: e.frontier(x, noise=-1.0), "noise must be zero or more"),
        (lambda e, x: e.frontier(x, n_perturb=0), "n_perturb must be an integer"),
        (lambda e, x: e.frontier(x, n_confirm=64.0), "n_confirm must be an integer"),
        (lambda e, x: e.frontier(x, max_candidates=True), "max_candidates must be an integer"),
        (lambda e, x: e.frontier(x, models=MODELS, weights=[1.0]), "one number per model: 3 models"),
        (lambda e, x: e.frontier(x, models=[]), "models is an empty list"),
        (lambda e, x: e.frontier(x, reliability="all"), "reliability must be 'share' or 'next', not 'all'"),
        (lambda e, x: e.frontier(x, reliability="next"), "needs at least 4 models, but there are 3"),
        (lambda e, x: e.frontier(x, max_model_rows=0), "max_model_rows"),
    ],
)
def test_bad_input_is_told(explainer, explanation, ask, sentence):
    with pytest.raises(ValueError, match=sentence):
        ask(explainer, explanation)


def test_the_next_model_needs_one_number():
    wish = gbce.Loss(lambda f: np.abs(f - 1.0), threshold=0.1)
    explainer = gbce.Explainer(MODELS * 2, DATA, space=gbce.Space.real(2), sampler=QUICK)
    explanation = explainer.explain([0.0, 0.0], wish, rules=[], seed=0)
    with pytest.raises(
        ValueError, match="not available for this target: Loss cannot be judged from one number per model"
    ):
        explainer.frontier(explanation, reliability="next")
