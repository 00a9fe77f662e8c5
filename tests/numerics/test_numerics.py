"""Weights and draws: sums, quantiles, resampling, Pareto k, and errors that cover."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import genpareto

import gbce
from gbce._numerics import (
    effective_sample_size,
    first_of_each,
    log_mean_exp,
    log_total,
    normalise,
    pareto_k,
    resample,
    resample_evenly,
    resample_systematically,
    weighted_quantile,
)
from support.exact import linear


def test_log_mean_exp_survives_large_numbers():
    assert log_mean_exp(np.array([-1000.0, -1000.0])) == pytest.approx(-1000.0)
    assert log_mean_exp(np.array([800.0, -np.inf])) == pytest.approx(800.0 - np.log(2))


def test_a_total_of_logs_is_that_of_scipy():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=50), 300.0 * rng.normal(size=50), np.round(rng.normal(size=50)), np.full(9, -800.0)):
        assert log_total(values) == pytest.approx(logsumexp(values), rel=1e-14)
    for values in ([-np.inf, 2.0], [-np.inf, -np.inf], [np.inf, 1.0], [np.nan, 1.0]):
        np.testing.assert_array_equal(log_total(np.array(values)), logsumexp(values))


def test_normalise_and_effective_sample_size():
    weights = normalise(np.log([1.0, 3.0]) + 5000)
    np.testing.assert_allclose(weights, [0.25, 0.75])
    assert effective_sample_size(weights) == pytest.approx(1 / (0.0625 + 0.5625))
    with pytest.raises(ValueError, match="weight zero"):
        normalise(np.full(3, -np.inf))


def test_weighted_quantile_is_the_inverse_cdf():
    values = np.arange(1.0, 11.0)
    equal = np.full(10, 0.1)
    assert weighted_quantile(values, equal, 0.9) == 9.0
    assert weighted_quantile(values, equal, 0.901) == 10.0
    assert weighted_quantile(values, equal, 0.0) == 1.0
    assert weighted_quantile(values[::-1], np.r_[0.0, 1.0, np.zeros(8)], 0.5) == 9.0
    rng = np.random.default_rng(0)
    sample = rng.normal(size=2000)
    want = np.quantile(sample, 0.9, method="inverted_cdf")
    assert weighted_quantile(sample, np.full(2000, 1 / 2000), 0.9) == want


def test_resampling_is_unbiased():
    weights = np.array([0.5, 0.0, 0.2, 0.3])
    picks = resample(np.random.default_rng(0), weights, 40_000)
    share = np.bincount(picks, minlength=4) / 40_000
    assert share[1] == 0
    np.testing.assert_allclose(share, weights, atol=4 * np.sqrt(0.25 / 40_000))


def test_an_even_choice_is_unbiased_and_follows_no_pattern():
    rng = np.random.default_rng(0)
    weights = np.tile([0.5, 0.0, 0.2, 0.3], 50) / 50
    counts = np.array([np.bincount(resample_evenly(rng, weights, 77), minlength=200) for _ in range(4_000)])
    assert (np.abs(counts - 77 * weights) < 1).all()  # as often as its weight says, within one
    np.testing.assert_allclose(counts.mean(axis=0), 77 * weights, atol=5 * np.sqrt(0.25 / 4_000))  # 200 of them
    chains = np.tile(np.arange(200), 25)  # 25 steps of 200 chains
    assert len(np.unique(chains[resample_evenly(rng, np.full(5_000, 1 / 5_000), 800)])) > 180
    assert len(np.unique(chains[resample_systematically(rng, np.full(5_000, 1 / 5_000), 800)])) == 32


@pytest.mark.parametrize("k", [0.3, 0.9])
def test_pareto_k_reads_the_right_tail(k):
    weights = 1.0 + genpareto(k).rvs(20_000, random_state=0)
    assert pareto_k(np.log(weights)) == pytest.approx(k, abs=0.12)
    assert pareto_k(-np.log(weights)) < 0.2  # the other tail is bounded


def test_pareto_k_without_a_tail():
    assert pareto_k(np.zeros(1000)) == -np.inf
    # the tail has 94 of 1000, whatever is below it
    for largest in (93, 94, 95, 500):
        k = pareto_k(np.r_[np.zeros(largest), -1.0 - np.arange(1000.0 - largest) / 500])
        assert k == -np.inf if largest >= 94 else np.isfinite(k)
    assert pareto_k(np.r_[0.0, np.full(999, -2000.0)]) == np.inf
    assert pareto_k(np.r_[np.zeros(10), np.full(990, -np.inf)]) == np.inf


@pytest.mark.parametrize("d", [2, 10])
def test_printed_intervals_cover_the_exact_values(d):
    """Over 200 seeds, value ± 1.96 se (of Tail, its own interval) covers between 90% and 99% of the time."""
    case = linear(d, eta=1.0, seed=d)
    explainer = gbce.Explainer(
        case.predict, np.random.default_rng(0).normal(size=(30, d)), space=gbce.Space.real(d),
        sampler=gbce.Importance(n_candidates=4_000, n_draws=1_000),
    )  # fmt: skip
    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    hits = {"success_probability": [], "stability": [], "importance": [], "tail": [], "log_evidence": []}
    for seed in range(200):
        explanation = explainer.explain(case.x0, target, rules=[], seed=seed)
        table = explanation.distribution
        exact = {
            "success_probability": case.success_probability(0.5),
            "stability": case.stability,
        }
        hits["tail"].append(table["tail_low"] <= case.tail(0.1) <= table["tail_high"])
        for name, value in exact.items():
            hits[name].append(abs(table[name] - value) <= 1.96 * table[f"{name}_se"])
        change = explanation.importance
        hits["importance"].append(np.abs(change["change"] - case.importance) <= 1.96 * change["se"])
        draws = explanation.draws
        hits["log_evidence"].append(abs(draws.log_evidence - case.log_evidence) <= 1.96 * draws.log_evidence_se)
    for name, covered in hits.items():
        assert 0.90 <= np.mean(covered) <= 0.99, (name, np.mean(covered))


def test_errors_shrink_with_the_square_root_of_the_work():
    case = linear(2)
    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    errors = []
    for n in (2_000, 32_000):
        sampler = gbce.Importance(n_candidates=n, n_draws=n // 4)
        data = np.random.default_rng(0).normal(size=(30, 2))
        explainer = gbce.Explainer(case.predict, data, space=gbce.Space.real(2), sampler=sampler)
        errors.append(explainer.explain(case.x0, target, rules=[], seed=1).distribution["stability_se"])
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.25)


def test_first_of_each_tells_rows_apart_by_their_bits():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0], [np.nan, 2.0], [np.nan, 2.0]])
    assert first_of_each(rows).tolist() == [0, 1, 3]
    assert first_of_each(np.zeros((0, 2))).tolist() == []
    assert first_of_each(np.zeros((3, 0))).tolist() == [0]  # without a column all are alike
