"""Exact sums over cells: against quadrature, enumeration and SMC; their draws, their refusals, and the default."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce.posterior import GibbsPosterior

ROUNDING = 1e-9  # between sums in another order, and quadrature of 40 nodes
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(40)
FAR = 40.0  # deviations beyond which a Laplace law has nothing that counts here


def table(d, n=250):
    rng = np.random.default_rng(d)
    x = rng.normal(size=(n, d))
    return x, np.sin(2 * x[:, 0]) + x.sum(axis=1) + 0.1 * rng.normal(size=n)


def forest(d, **options):
    x, y = table(d)
    return RandomForestRegressor(8, max_depth=3, random_state=0, **options).fit(x, y)


def booster(d):
    x, y = table(d)
    return GradientBoostingRegressor(n_estimators=12, max_depth=2, random_state=0).fit(x, y)


def thresholds(model, j):
    """Every threshold of a column, read off scikit-learn's own arrays."""
    trees = [model] if hasattr(model, "tree_") else np.ravel(model.estimators_).tolist()
    cuts = np.concatenate([one.tree_.threshold[one.tree_.feature == j] for one in trees])
    # values are rounded to single precision: what goes left ends half-way between two of these numbers
    left = cuts.astype(np.float32)
    left = np.where(left > cuts, np.nextafter(left, np.float32(-np.inf)), left)
    return 0.5 * (left.astype(float) + np.nextafter(left, np.float32(np.inf)).astype(float))


class Quadrature:
    """One column's law by quadrature: probability of each cell, and mean size and variance parts within."""

    def __init__(self, law, cuts, low=-np.inf, high=np.inf, spike=0.0):
        inside = np.unique(cuts[(cuts > low) & (cuts < high)])
        edges = np.unique(np.concatenate([[max(low, -FAR)], inside, [0.0], [min(high, FAR)]]))  # a kink lies at 0
        pieces = [np.linspace(a, b, 1 + int(np.ceil(b - a))) for a, b in itertools.pairwise(edges)]
        fine = np.unique(np.concatenate(pieces))
        half = 0.5 * np.diff(fine)
        t = (fine[:-1] + half)[:, None] + half[:, None] * NODES
        w = half[:, None] * NODE_WEIGHTS * law.pdf(t)
        w *= (1 - spike) / w.sum()
        cell = np.searchsorted(inside, t[:, 0])
        n = len(inside) + 1
        self.mass, self.first, self.size, self.square = (
            np.bincount(cell, weights=(w * value).sum(axis=1), minlength=n)
            for value in (1.0, t, np.abs(t), np.square(t))
        )
        self.mass[np.searchsorted(inside, 0.0)] += spike
        ends = np.concatenate([[max(low, -FAR)], inside, [min(high, FAR)]])
        self.middle = 0.5 * (ends[1:] + ends[:-1])


def brute(models, columns, target, mixture):
    """Every figure by asking the models about the middle of every cell; the row is at zero."""
    grid = np.array(list(itertools.product(*(column.middle for column in columns))))
    prior = np.prod(np.array(list(itertools.product(*(column.mass for column in columns)))), axis=1)
    said = [target.read(gbce.base.Outputs(model.predict(grid))) for model in models]
    loss = np.column_stack([one.loss for one in said])
    reached = np.column_stack([one.reached for one in said])
    log_mass = np.log(prior) - mixture.potential(loss)
    mass = np.exp(log_mass - logsumexp(log_mass))
    shape = tuple(len(column.middle) for column in columns)
    importance, stability = [], 0.0
    for i, column in enumerate(columns):
        own = mass.reshape(shape).sum(axis=tuple(k for k in range(len(shape)) if k != i)) / column.mass
        importance.append(own @ column.size)
        stability += own @ column.square - (own @ column.first) ** 2
    order = np.argsort(loss[:, 0], kind="stable")
    tail = loss[order, 0][np.searchsorted(np.cumsum(mass[order]), 0.9)]
    return {
        "log_evidence": logsumexp(log_mass),
        "success_probability": mass @ reached[:, 0],
        "expected_loss": mass @ loss[:, 0],
        "stability": stability,
        "tail": tail,
        "importance": np.array(importance),
        "all": mass @ reached.all(axis=1),
    }


def exactly(models, d, prior, target, *, space=None, **options):
    space = gbce.Space.real(d) if space is None else space
    x = table(d)[0]
    explainer = gbce.Explainer(models, x, space=space, prior=prior, sampler=gbce.ExactTrees(), policy=None, **options)
    return explainer, explainer.explain(np.zeros(d), target, rules=[], seed=1)


def compare(found, wanted):
    assert found.diagnostics["log_evidence"] == pytest.approx(wanted["log_evidence"], abs=ROUNDING)
    assert found.diagnostics["log_evidence_se"] == 0
    for name in ("success_probability", "expected_loss", "stability", "tail"):
        assert found.distribution[name] == pytest.approx(wanted[name], abs=ROUNDING), name
        assert found.distribution[f"{name}_se"] == 0, name
    np.testing.assert_allclose(found.importance["change"], wanted["importance"], atol=ROUNDING)
    assert (found.importance["se"] == 0).all()


@pytest.mark.parametrize(
    ("prior", "law", "spike"),
    [
        (gbce.Gaussian(0.8), stats.norm(scale=0.8), 0.0),
        (gbce.Laplace(0.6), stats.laplace(scale=0.6), 0.0),
        (gbce.Sparse(gbce.Gaussian(), change=0.4), stats.norm(), 0.6),
        (gbce.Sparse(gbce.Laplace(), change=0.3), stats.laplace(), 0.7),
    ],
    ids=["gaussian", "laplace", "sparse gaussian", "sparse laplace"],
)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_sums_are_those_of_quadrature(d, prior, law, spike):
    model, target = (forest if d != 2 else booster)(d), gbce.AtLeast(1.0, scale=0.5)
    explainer, found = exactly(model, d, prior, target, eta=1.3)
    columns = [Quadrature(law, thresholds(model, j), spike=spike) for j in range(d)]
    compare(found, brute([model], columns, found.target, explainer._session.mixture))


def test_a_single_tree_with_bounds_directions_and_features_that_stay():
    x, y = table(3)
    model = DecisionTreeRegressor(max_depth=5, random_state=0).fit(x, y)
    features = [
        gbce.Feature("x1", low=-0.5, high=1.5),
        gbce.Feature("x2", mutable=False),
        gbce.Feature("x3", direction="increase"),
    ]
    space, target = gbce.Space(tuple(features)), gbce.Value(1.0, scale=0.7, tolerance=0.4)
    explainer, found = exactly(model, 3, gbce.Gaussian(), target, space=space)
    law = stats.norm()
    columns = [
        Quadrature(law, thresholds(model, 0), -0.5, 1.5),
        Quadrature(law, np.zeros(0), -1e-12, 1e-12),
        Quadrature(law, thresholds(model, 2), 0.0, np.inf),
    ]
    wanted = brute([model], columns, found.target, explainer._session.mixture)
    wanted["importance"][1] = 0.0
    compare(found, wanted)
    assert found.draws.x[:, 0].min() >= -0.5
    assert found.draws.x[:, 2].min() >= 0
    assert not found.draws.x[:, 1].any()


@pytest.mark.parametrize("combine", ["any", "all", "average"])
def test_several_models_are_summed_over_their_common_cells(combine):
    models, target = [forest(2), booster(2)], gbce.AtLeast(1.0, scale=0.5)
    explainer, found = exactly(models, 2, gbce.Gaussian(), target, combine=combine, weights=[0.3, 0.7], eta=2.0)
    columns = [Quadrature(stats.norm(), np.concatenate([thresholds(m, j) for m in models])) for j in range(2)]
    wanted = brute(models, columns, found.target, explainer._session.mixture)
    compare(found, wanted)
    assert found.distribution["success_probability[all]"] == pytest.approx(wanted["all"], abs=ROUNDING)


# --- levels, whole numbers and missing values, enumerated -----------------------------------------------------------


def mixed():
    rng = np.random.default_rng(3)
    n = 400
    frame = pd.DataFrame(
        {
            "job": rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "age": rng.integers(0, 9, n),
            "score": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 4, n)),
        }
    )
    y = (frame["job"] == "c") * 1.5 + 0.3 * frame["age"] + frame["score"].fillna(-2.0) + 0.1 * rng.normal(size=n)
    encode = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    model = make_pipeline(encode, HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=6))
    space = gbce.Space.infer(
        frame, kinds={"score": "integer"}, bounds={"age": (0, 8), "score": (0, 3)}, scale="raw", constraints=()
    )
    return frame, model.fit(frame, y), space


def probability(costs):
    log = -np.array(list(costs.values()))
    return dict(zip(costs, np.exp(log - logsumexp(log)), strict=True))


def steps(now, values):
    return {value: 0.5 * (value - now) ** 2 for value in values}


def levels(space, now):
    job = space.features[0]
    share = pd.Series(job.frequencies, index=job.levels)
    others = share.drop(now)
    cost = {level: 0.5 - np.log(others[level] / others.sum()) for level in others.index}
    return {now: 0.0, **cost}


def spiked(chances, now, change):
    others = sum(chance for value, chance in chances.items() if value != now)
    return {value: 1 - change if value == now else change * p / others for value, p in chances.items()}


@pytest.mark.parametrize("change", [None, 0.4])
def test_levels_whole_numbers_and_missing_values_are_enumerated(change):
    frame, model, space = mixed()
    space = replace(
        space, features=tuple(replace(f, missing="any") if f.name == "score" else f for f in space.features)
    )
    row = {"job": "a", "age": 2, "score": 1.0}
    prior = gbce.Gaussian() if change is None else gbce.Sparse(change=change)
    target = gbce.AtLeast(4.0, scale=1.0)
    explainer = gbce.Explainer(model, frame, space=space, prior=prior, sampler=gbce.ExactTrees(), policy=None)
    found = explainer.explain(row, target, rules=[], seed=0)
    gone = np.exp(-0.5) / (1 + np.exp(-0.5))
    score = {value: (1 - gone) * p for value, p in probability(steps(1, range(4))).items()} | {None: gone}
    chances = [probability(levels(space, "a")), probability(steps(2, range(9))), score]
    if change is not None:  # a value that goes missing is one of the changes
        chances = [spiked(chances[0], "a", change), spiked(chances[1], 2, change), spiked(score, 1, change)]
    points = list(itertools.product(*chances))
    prior_mass = np.array([np.prod([t[v] for t, v in zip(chances, point, strict=True)]) for point in points])
    rows = pd.DataFrame(points, columns=frame.columns).astype({"score": float})
    reading = found.target.read(gbce.base.Outputs(model.predict(rows)))
    mass = prior_mass * np.exp(-reading.loss)
    assert found.diagnostics["log_evidence"] == pytest.approx(np.log(mass.sum()), abs=ROUNDING)
    mass /= mass.sum()
    assert found.distribution["success_probability"] == pytest.approx(mass @ reading.reached, abs=ROUNDING)
    away = {"job": rows["job"] != "a", "age": (rows["age"] - 2).abs(), "score": (rows["score"] - 1).abs().fillna(1.0)}
    for name, size in away.items():
        assert found.importance.loc[name, "change"] == pytest.approx(mass @ size.to_numpy(float), abs=ROUNDING)
    drawn = found.draws.frame().astype({"score": float}).fillna(-1.0).value_counts()
    drawn = drawn.reindex(pd.MultiIndex.from_frame(rows.fillna(-1.0)), fill_value=0).to_numpy()
    assert chi_square(drawn, mass) > 1e-4


def chi_square(counts, mass):
    """Chance of counts as far from their expectations, rare ones put together."""
    expected = mass * counts.sum()
    rare = expected < 5
    seen = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    kept = wanted > 0
    assert not seen[~kept].any()
    return stats.chi2.sf((np.square(seen - wanted)[kept] / wanted[kept]).sum(), kept.sum() - 1)


# --- draws, goals, decisions ----------------------------------------------------------------------------------------


def test_draws_come_from_the_cells_and_from_the_prior_within():
    model, target = forest(2), gbce.AtLeast(1.0, scale=0.5)
    x = table(2)[0]
    explainer = gbce.Explainer(
        model, x, space=gbce.Space.real(2), prior=gbce.Laplace(), sampler=gbce.ExactTrees(n_draws=20_000), policy=None
    )
    found = explainer.explain(np.zeros(2), target, rules=[], seed=0)
    cuts = [np.unique(thresholds(model, j)) for j in range(2)]
    columns = [Quadrature(stats.laplace(), thresholds(model, j)) for j in range(2)]
    grid = np.array(list(itertools.product(*(column.middle for column in columns))))
    prior = np.prod(np.array(list(itertools.product(*(column.mass for column in columns)))), axis=1)
    mass = prior * np.exp(-found.target.read(gbce.base.Outputs(model.predict(grid))).loss)
    mass /= mass.sum()
    places = [np.searchsorted(cuts[j], found.draws.x[:, j]) for j in range(2)]
    counts = np.bincount(np.ravel_multi_index(places, [len(c) + 1 for c in cuts]), minlength=len(mass))
    assert chi_square(counts, mass) > 1e-4
    # within a cell the law is the prior's own
    for j in range(2):
        widest = np.bincount(places[j]).argmax()
        ends = np.append(-np.inf, cuts[j])[widest], np.append(cuts[j], np.inf)[widest]
        law = stats.laplace()
        inside = found.draws.x[places[j] == widest, j]
        share = (law.cdf(inside) - law.cdf(ends[0])) / (law.cdf(ends[1]) - law.cdf(ends[0]))
        assert stats.kstest(share, "uniform").pvalue > 1e-4
    np.testing.assert_allclose(found.draws.outputs[:, 0], model.predict(found.draws.x), atol=1e-12)


def test_smc_agrees_within_its_error_and_other_etas_follow_from_the_pool():
    model, target, x = booster(3), gbce.AtLeast(2.0, scale=0.5), table(3)[0]
    options = {"space": gbce.Space.real(3), "prior": gbce.Sparse(change=0.5), "policy": None}
    explainer = gbce.Explainer(model, x, sampler=gbce.ExactTrees(), **options)
    found = explainer.explain(np.zeros(3), target, rules=[], seed=0)
    drawn = gbce.Explainer(model, x, sampler=gbce.SMC(), **options).explain(np.zeros(3), target, rules=[], seed=0)
    within = 4.0  # standard errors, in nine figures
    gap = found.diagnostics["log_evidence"] - drawn.diagnostics["log_evidence"]
    assert abs(gap) < within * drawn.diagnostics["log_evidence_se"]
    for name in ("success_probability", "expected_loss", "stability"):
        gap = found.distribution[name] - drawn.distribution[name]
        assert abs(gap) < within * drawn.distribution[f"{name}_se"], name
    # the same posterior at a smaller eta, reweighed and summed
    cooler = gbce.Explainer(model, x, sampler=gbce.ExactTrees(), eta=0.3, **options)
    summed, reweighed = cooler.explain(np.zeros(3), target, rules=[], seed=0), found.at(0.3)
    assert reweighed.draws.exact is None
    assert reweighed.diagnostics["ess"] > 500
    gap = summed.diagnostics["log_evidence"] - reweighed.diagnostics["log_evidence"]
    assert abs(gap) < within * reweighed.diagnostics["log_evidence_se"]
    for name in ("success_probability", "expected_loss"):
        gap = summed.distribution[name] - reweighed.distribution[name]
        assert abs(gap) < within * reweighed.distribution[f"{name}_se"], name


def test_a_goal_is_met_exactly_or_missed():
    _, found = exactly(forest(2), 2, gbce.Gaussian(), gbce.AtLeast(1.0, scale=0.5), eta=gbce.SuccessProbability(0.8))
    assert found.diagnostics["goal_met"]
    assert found.distribution["success_probability"] == pytest.approx(0.8, abs=1e-3)  # eta is found to 1e-4
    assert found.distribution["success_probability"] >= 0.8
    _, missed = exactly(forest(2), 2, gbce.Gaussian(), gbce.AtLeast(99.0, scale=9.0), eta=gbce.SuccessProbability(0.8))
    assert not missed.diagnostics["goal_met"]
    assert missed.distribution["success_probability"] == 0


@pytest.mark.parametrize("prior", [gbce.Gaussian(), gbce.Sparse(change=0.4)], ids=["gaussian", "sparse"])
def test_decisions_stand_on_the_best_cells(prior):
    model, target, x = forest(2), gbce.AtLeast(1.0, scale=0.3), table(2)[0]
    explainer = gbce.Explainer(model, x, space=gbce.Space.real(2), prior=prior, sampler=gbce.ExactTrees())
    rules = [gbce.MAP(), gbce.Nearest(), gbce.ChanceConstrained(), gbce.CVaR()]
    found = explainer.explain(np.zeros(2), target, rules=rules, seed=0)
    assert found.pointwise["reached"][["Nearest", "ChanceConstrained"]].all()
    assert found.answer is not None
    # the corner of every cell that is nearest to the row, by the model itself
    near = []
    for j in range(2):
        cuts = np.unique(thresholds(model, j))
        inside = np.append(cuts, np.inf), np.append(-np.inf, cuts + 1e-9)
        near.append(np.clip(0.0, inside[1], inside[0]))
    corners = np.array(list(itertools.product(*near)))
    reading = found.target.read(gbce.base.Outputs(model.predict(corners)))
    cost = 0.5 * np.square(corners).sum(axis=1)
    if isinstance(prior, gbce.Gaussian):
        assert found.pointwise.loc["MAP", "objective"] == pytest.approx((reading.loss + cost).min(), abs=1e-6)
        assert float(found.draws.exact.cells) > len(corners) / 2
    else:
        one = (corners != 0).sum(axis=1) == 1
        best = (reading.loss + cost)[one & reading.reached].min() + np.log(0.6 / 0.4)
        assert found.pointwise.loc["MAP", "objective"] == pytest.approx(best, abs=1e-6)
    cheapest = np.abs(corners[reading.reached]).sum(axis=1).min()
    assert np.abs(found.draws.known.x[found.draws.known.reached[:, 0]]).sum(axis=1).min() <= cheapest + 1e-6


def test_votes_that_tie_are_decided_by_the_model():
    x, y = table(2)
    model = RandomForestClassifier(4, random_state=0).fit(x, y > 0.5)  # votes of four full trees tie often
    explainer = gbce.Explainer(model, x, space=gbce.Space.real(2), sampler=gbce.ExactTrees(), policy=None)
    found = explainer.explain(np.zeros(2), gbce.Class(True), rules=[], seed=0)
    columns = [Quadrature(stats.norm(), thresholds(model, j)) for j in range(2)]
    grid = np.array(list(itertools.product(*(column.middle for column in columns))))
    mass = np.prod(np.array(list(itertools.product(*(column.mass for column in columns)))), axis=1)
    p = model.predict_proba(grid)[:, 1]
    mass = mass * np.clip(p, np.finfo(float).eps, 1.0)
    mass /= mass.sum()
    tied = float(mass[p == 0.5].sum())
    assert tied > 0.02
    gap = abs(found.distribution["success_probability"] - mass @ model.predict(grid))
    assert gap <= max(1e-6, 4 * found.distribution["success_probability_se"])
    assert found.distribution["success_probability_se"] < 0.01 * tied


# --- refusals, the default, files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"prior": gbce.Gaussian(cov=np.array([[1.0, 0.5], [0.5, 1.0]]))}, "moves columns together"),
        ({"prior": gbce.NearData(gbce.Gaussian())}, "NearData"),
        ({"prior": gbce.DistancePrior(lambda x, x0: np.abs(x - x0).sum(axis=1))}, "DistancePrior"),
        ({"sampler": gbce.ExactTrees(max_cells=10)}, "more than the limit of 10"),
        ({"model": LinearRegression()}, "LinearRegression is not a tree ensemble"),
        ({"constraints": ["x1 <= x2"]}, "constraints or computed columns"),
    ],
    ids=["correlated", "near data", "distance", "too many", "no trees", "constraints"],
)
def test_what_cannot_be_summed_is_refused_in_a_sentence_and_skipped_by_the_default(options, why):
    x, y = table(2)
    model = options.pop("model", None)
    model = forest(2) if model is None else model.fit(x, y)
    frame = pd.DataFrame(x, columns=["x1", "x2"])
    if hasattr(model, "estimators_"):
        model = RandomForestRegressor(8, max_depth=3, random_state=0).fit(frame, y)
    else:
        model = LinearRegression().fit(frame, y)
    space = gbce.Space.infer(frame, constraints=options.pop("constraints", ()))
    sampler = options.pop("sampler", gbce.ExactTrees())
    row = pd.Series({"x1": -0.1, "x2": 0.1})
    explainer = gbce.Explainer(model, frame, space=space, sampler=sampler, **options)
    with pytest.raises(ValueError, match=why) as error:
        explainer.explain(row, gbce.AtLeast(1.0), rules=[], seed=0)
    assert "ExactTrees cannot sum this posterior" in str(error.value)
    assert str(error.value).endswith("leave sampler out.")
    if sampler.max_cells > 10:
        usual = gbce.Explainer(model, frame, space=space, **options)
        assert usual.explain(row, gbce.AtLeast(1.0), rules=[], seed=0).diagnostics["sampler"] != "ExactTrees"


def test_the_default_sums_where_it_can_and_a_sampler_that_was_chosen_stays():
    model, x = forest(2), table(2)[0]
    space = gbce.Space.real(2)
    found = gbce.Explainer(model, x, space=space).explain(np.zeros(2), gbce.AtLeast(1.0), rules=[], seed=0)
    assert found.diagnostics["sampler"] == "ExactTrees"
    assert found.diagnostics["exact"]
    assert found.diagnostics["sampling"] == "trustworthy"
    assert f"exact sums over {found.diagnostics['cells']:,} cells" in found.diagnostics["sampling_note"]
    chosen = gbce.Explainer(model, x, space=space, sampler=gbce.SMC())
    drawn = chosen.explain(np.zeros(2), gbce.AtLeast(1.0), rules=[], seed=0)
    assert drawn.diagnostics["sampler"] == "SMC"
    assert "exact" not in drawn.diagnostics
    # a function of rows cannot be read, and is drawn with the same bits as ever
    asked = gbce.Explainer(model.predict, x, space=space).explain(np.zeros(2), gbce.AtLeast(1.0), rules=[], seed=0)
    assert asked.diagnostics["sampler"] == "SMC"
    np.testing.assert_array_equal(asked.draws.x, drawn.draws.x)


def test_cells_that_are_not_the_models_are_refused(monkeypatch):
    model, x = forest(2), table(2)[0]
    read = GibbsPosterior.read_trees

    def wrong(self, k=0):
        trees = read(self, k)
        value = trees.value.copy()
        value[: len(value) // 20] += 0.5  # one leaf in twenty says something else
        return replace(trees, value=value)

    monkeypatch.setattr(GibbsPosterior, "read_trees", wrong)
    options = {"space": gbce.Space.real(2), "policy": None}
    target = gbce.Value(1.0, scale=1.0, tolerance=0.5)
    with pytest.raises(ValueError, match="do not reproduce its predictions"):
        gbce.Explainer(model, x, sampler=gbce.ExactTrees(), **options).explain(np.zeros(2), target, rules=[], seed=0)
    usual = gbce.Explainer(model, x, **options).explain(np.zeros(2), target, rules=[], seed=0)
    assert usual.diagnostics["sampler"] == "SMC"


def test_few_rows_are_enough_and_none_is_not():
    model, x = forest(2), table(2)[0]
    explainer = gbce.Explainer(model, x, space=gbce.Space.real(2), sampler=gbce.ExactTrees(), policy=None)
    found = explainer.explain(np.zeros(2), gbce.AtLeast(1.0, scale=1), rules=[], seed=0, max_model_rows=300)
    assert found.n_model_rows <= 300
    assert 0 < len(found.draws) < 300
    assert found.distribution["success_probability_se"] == 0
    with pytest.raises(ValueError, match="the budget is too small to check it"):
        explainer.explain(np.zeros(2), gbce.AtLeast(1.0, scale=1), rules=[], seed=0, max_model_rows=3)


@pytest.mark.parametrize("pool", [True, False])
def test_files_keep_what_is_exact(tmp_path, pool):
    models = [forest(2), booster(2)]
    _, found = exactly(models, 2, gbce.Gaussian(), gbce.AtLeast(1.0, scale=0.5))
    again = gbce.load(found.save(tmp_path / "exact.gbce", pool=pool))
    pd.testing.assert_series_equal(again.distribution, found.distribution)
    pd.testing.assert_frame_equal(again.importance, found.importance)
    for name in ("log_evidence", "expected_potential", "cells", "exact", "sampling_note"):
        assert again.diagnostics[name] == found.diagnostics[name]
    damaged = replace(found, draws=replace(found.draws, exact=replace(found.draws.exact, success=np.full(4, 2.0))))
    with pytest.raises(gbce.FileError, match=r"exact\.success"):
        gbce.load(damaged.save(tmp_path / "damaged.gbce", pool=pool))


def test_a_booster_of_two_classes_is_summed():
    x, y = table(2)
    model = GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0).fit(x, y > 0)
    explainer = gbce.Explainer(model, x, space=gbce.Space.real(2), sampler=gbce.ExactTrees(), policy=None)
    found = explainer.explain(np.zeros(2) - 1, gbce.Class(True), rules=[], seed=0)
    columns = [Quadrature(stats.norm(), thresholds(model, j) + 1) for j in range(2)]
    grid = np.array(list(itertools.product(*(column.middle for column in columns)))) - 1
    mass = np.prod(np.array(list(itertools.product(*(column.mass for column in columns)))), axis=1)
    p = model.predict_proba(grid)[:, 1]
    assert found.diagnostics["log_evidence"] == pytest.approx(np.log(mass @ p), abs=ROUNDING)
    wanted = (mass * p) @ model.predict(grid) / (mass @ p)
    assert found.distribution["success_probability"] == pytest.approx(wanted, abs=ROUNDING)


def test_a_goal_out_of_reach_leaves_the_prior_among_the_best_cells():
    """At the largest eta the potentials exceed 1e13; what tells the best cells apart is the prior alone."""
    target = gbce.AtLeast(99.0, scale=9.0)
    goals = {"eta": gbce.SuccessProbability(0.8)}, {"eta": 1e5}
    far, enough = (exactly(forest(2), 2, gbce.Laplace(), target, **options)[1] for options in goals)
    assert far.eta > 1e11
    np.testing.assert_allclose(far.importance["change"], enough.importance["change"], rtol=1e-9)
