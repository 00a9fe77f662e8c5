"""Fairness: pooled means against quadrature, intervals in simulated tables, tests, and gaps that are known."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import gbce
from gbce.policy import fairness
from gbce.policy._fairness import _compare, _split_gap, _test, moderate, pool_means

DATA = pd.DataFrame(
    {
        "sex": np.random.default_rng(1).choice(["f", "m"], 200),
        "pay": np.random.default_rng(2).normal(50, 10, 200).round(1),
        "debt": np.random.default_rng(3).normal(50, 10, 200).round(1),
    }
)
HANDICAP = 6.0  # what the model takes from women, in the units of pay


def score(rows):
    return (rows["pay"] - rows["debt"] - HANDICAP * (rows["sex"] == "f")).to_numpy(dtype=float)


def blind(rows):
    return (rows["pay"] - rows["debt"]).to_numpy(dtype=float)


def explain(model, n=24):
    space = gbce.Space.infer(DATA, immutable=["sex"], scale={"pay": 10.0, "debt": 10.0}, bounds="none")
    explainer = gbce.Explainer(model, DATA, space=space, evaluation=gbce.Evaluation(noise=0.02))
    refused = DATA[model(DATA) < 0]
    rows = pd.concat([refused[refused["sex"] == sex].head(n // 2) for sex in ("f", "m")])
    return explainer, explainer.explain_many(
        rows, gbce.AtLeast(0), rules=["Nearest"], seed=0, posterior=False, progress=False
    )


@pytest.fixture(scope="module")
def handicapped():
    return explain(score)


def by_quadrature(means, errors, scale):
    """Posterior means and variances of the groups on a fine grid of population mean and spread."""
    spread = np.linspace(1e-4, 60 * scale, 6_000)
    centre = np.linspace(means.min() - 12, means.max() + 12, 1_500)
    prior = 1.0 / (1.0 + np.square(spread / scale))
    log = np.log(prior)[:, None] + np.zeros((1, len(centre)))
    for y, s in zip(means, errors, strict=True):
        log += norm.logpdf(y, centre[None, :], np.sqrt(s**2 + spread[:, None] ** 2))
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    found = []
    for y, s in zip(means, errors, strict=True):
        share = (spread**2 / (spread**2 + s**2))[:, None]
        inner = share * y + (1 - share) * centre[None, :]
        mean = (weight * inner).sum()
        found.append((mean, (weight * (inner**2 + share * s**2)).sum() - mean**2))
    return np.array(found)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_pooled_means_are_those_of_quadrature(scale):
    means, errors = np.array([1.0, 2.5, 0.2]), np.array([0.4, 0.9, 0.3])
    pooled = pool_means(means, errors, scale)
    exact = by_quadrature(means, errors, scale)
    for i, one in enumerate(np.eye(3)):
        assert pooled.mean(one) == pytest.approx(exact[i, 0], abs=0.01)
        low, high = pooled.interval(one, 0.95)
        assert high - low == pytest.approx(2 * 1.96 * np.sqrt(exact[i, 1]), rel=0.08)
    contrast = np.array([1.0, -1.0, 0.0])
    assert pooled.probability_above(contrast) + pooled.probability_above(-contrast) == pytest.approx(1.0)


def test_a_group_without_rows_has_the_populations_mean():
    pooled = pool_means(np.array([1.0, 3.0, np.nan]), np.array([0.2, 0.2, np.inf]), 1.0)
    assert pooled.mean(np.array([0.0, 0.0, 1.0])) == pytest.approx(pooled.population[0])
    low, high = pooled.interval(np.array([0.0, 0.0, 1.0]), 0.95)
    assert high - low > 2


@pytest.mark.parametrize("sizes", [(40, 40), (60, 12, 5), (25, 25, 25, 25)])
def test_intervals_hold_the_means_of_groups_in_simulated_tables(sizes):
    """Skewed costs, groups from a population: 95% intervals of means and of gaps, over 300 tables."""
    rng = np.random.default_rng(0)
    inside, n = np.zeros(2), 0
    for _ in range(300):
        truth = np.exp(rng.normal(0.3, 0.3, len(sizes)))
        values = [mean * rng.gamma(3.0, 1.0 / 3.0, size) for mean, size in zip(truth, sizes, strict=True)]
        pooled = pool_means(*moderate(values))
        for i, one in enumerate(np.eye(len(sizes))):
            low, high = pooled.interval(one, 0.95)
            other = one - np.eye(len(sizes))[(i + 1) % len(sizes)]
            below, above = pooled.interval(other, 0.95)
            inside += [low <= truth[i] <= high, below <= other @ truth <= above]
            n += 1
    share = inside / n
    assert (share > 0.90).all()
    assert (share < 0.99).all()


def test_equal_groups_are_rarely_called_different_and_unequal_ones_often():
    rng = np.random.default_rng(0)
    labels = np.array(["a"] * 15 + ["b"] * 25, dtype=object)
    equal, apart = [], []
    for seed in range(60):
        cost = rng.exponential(size=40)
        values = {"attainable": np.ones(40), "cost": cost, "chance": cost}
        equal.append(_test(values, labels, ["a", "b"], 199, seed).loc["cost", "p"])
        values["cost"] = cost + (labels == "a") * 1.5
        apart.append(_test(values, labels, ["a", "b"], 199, seed).loc["cost", "p"])
    assert np.mean(np.array(equal) <= 0.1) < 0.1 + 4 * np.sqrt(0.09 / 60)
    assert np.mean(np.array(apart) <= 0.1) > 0.7
    assert _test(values, labels, ["a", "b"], 199, 0).loc["attainable", "p"] == 1.0  # nothing differs


def test_a_handicap_in_the_model_is_the_models_part(handicapped):
    explainer, table = handicapped
    found = fairness(table, "sex", reference="m", explainer=explainer, protected="sex", n_permutations=200)
    line = found.parts.loc["f"]
    assert line["gap"] == pytest.approx(line["model"] + line["rows"])
    assert line["model_low"] <= HANDICAP / 10.0 <= line["model_high"]
    assert line["model"] == pytest.approx(HANDICAP / 10.0, abs=0.1)
    cost = table.answers["cost"].groupby(DATA.loc[table.answers.index, "sex"]).mean()
    assert found.groups["cost"].to_dict() == pytest.approx(cost.to_dict())


def test_a_blind_model_has_no_part():
    explainer, table = explain(blind, 12)
    found = fairness(table, "sex", explainer=explainer, protected="sex", n_permutations=200)
    assert np.abs(found.parts["model"]).max() < 0.02  # what the search itself varies by
    assert np.allclose(found.parts["gap"], found.parts["rows"], atol=0.02)


def test_parts_add_up_whatever_the_order():
    rng = np.random.default_rng(0)
    own_b, as_a, own_a, as_b = rng.exponential(size=(4, 30))
    found = _split_gap(own_b, as_a, own_a, as_b, 0.95)
    assert found["gap"] == pytest.approx(own_b.mean() - own_a.mean())
    assert found["model"] == pytest.approx(((own_b - as_a).mean() + (as_b - own_a).mean()) / 2)
    assert found["rows"] == pytest.approx(((as_a - own_a).mean() + (own_b - as_b).mean()) / 2)


def test_refits_tell_the_models_uncertainty_from_that_of_the_rows(handicapped):
    table = handicapped[1]
    same = fairness(table, "sex", refits=[score, score, score], n_permutations=200).refits
    assert (same["se_models"] == 0).all()
    assert (same["chance"] == 1).all()
    strict = [lambda rows, k=k: score(rows) - k for k in (0.0, 3.0, -3.0, 1e6)]
    found = fairness(table, "sex", refits=strict, n_permutations=200).refits
    assert (found["se_models"] > 0.2).all()  # one accepts nobody


def test_figures_sentences_and_json(handicapped):
    found = fairness(handicapped[1], "sex", reference="m", n_permutations=200)
    assert (
        found.groups.loc["f", "cost_low"] <= found.groups.loc["f", "cost_pooled"] <= found.groups.loc["f", "cost_high"]
    )
    assert found.gaps.loc[("cost", "f"), "gap"] > 0
    assert any("cost: f minus m is" in one for one in found.sentences)
    assert set(found.to_dict()["meanings"]) == {"attainable", "cost", "chance"}
    assert found.to_json().startswith("{")


@pytest.mark.parametrize(
    ("groups", "options", "problem"),
    [
        ("age", {}, "no column 'age'"),
        (["a"] * 24, {}, "at least two"),
        (["a"] * 3, {}, "one entry per row"),
        ("sex", {"reference": "x"}, "no group 'x'"),
        ("sex", {"mass": 2}, "between 0 and 1"),
        ("sex", {"n_permutations": 5}, "at least 100"),
        ("sex", {"seed": -1}, "seed must be an integer"),
        ("sex", {"protected": "sex"}, "give explainer="),
        ("sex", {"refits": [score]}, "at least 2 models"),
    ],
)
def test_options_that_make_no_sense_are_a_sentence(handicapped, groups, options, problem):
    with pytest.raises(ValueError, match=problem):
        fairness(handicapped[1], groups, **options)


def test_groups_that_are_not_values_of_the_protected_column_are_refused(handicapped):
    explainer, table = handicapped
    with pytest.raises(ValueError, match="have 2 values of 'sex'"):
        fairness(table, ["a", "b"] * (len(table) // 2), explainer=explainer, protected="sex", n_permutations=100)
    with pytest.raises(ValueError, match="no column 'race'"):
        fairness(table, "sex", explainer=explainer, protected="race", n_permutations=100)


def test_too_few_rows_to_compare_are_a_sentence():
    values = {name: np.array([np.nan, 1.0]) for name in ("attainable", "cost", "chance")}
    with pytest.raises(ValueError, match="fewer than two rows"):
        _compare(values, np.array(["a", "b"], dtype=object), ["a", "b"], "a", 0.95)
