"""Odd but legal numbers (huge outputs, infinite losses, weights of zero) leak no warning of numpy's."""

import warnings

import numpy as np
import pytest

import gbce
from gbce.space._feature import deviations

X = np.random.default_rng(0).normal(size=(60, 2))
PLAIN = {"scale": 1.0, "tolerance": 0.1}
QUICK = gbce.SMC(n_candidates=1_000, n_draws=200)
NOTHING_BELOW_ONE = gbce.Loss(lambda f: np.where(f < 1, np.inf, 0.0), threshold=0.5)
RULES = [
    *(gbce.MAP(), gbce.Mean(), gbce.CVaR(), gbce.ChanceConstrained(0.5), gbce.Medoid(), gbce.GeometricMedian()),
    *(gbce.MAP(method="kde"), gbce.DiverseSet(2), gbce.DirectOpt(n_starts=2, max_iterations=50)),
]


def total(x):
    return x.sum(axis=1)


def huge(x):
    return 1e200 * x[:, 0]


TWO = [total, lambda x: -x.sum(axis=1)]
ODD = {
    "outputs whose squares overflow": {"model": huge},
    "a prior of such outputs": {"model": huge, "eta": 0.0},
    "outputs on both ends": {
        "model": lambda x: 1e308 * np.sign(x[:, 0]),
        "target": gbce.Range(-1e308, -1e307, **PLAIN),
    },
    "such outputs, their own spread": {"model": lambda x: 1e300 * x[:, 0], "target": gbce.Value(1e300)},
    "a scale of almost nothing": {"target": gbce.AtLeast(1.0, scale=1e-300, tolerance=0.1)},
    "the same output everywhere": {"model": lambda x: np.zeros(len(x))},
    "an eta beyond reason": {"eta": 1e300},
    "the largest eta": {"eta": 1e308},
    "infinite losses": {"target": NOTHING_BELOW_ONE},
    "a prior with infinite losses": {"target": NOTHING_BELOW_ONE, "eta": 0.0},
    "infinite losses of one of two models": {"model": TWO, "target": NOTHING_BELOW_ONE},
    "infinite losses of a model without weight": {"model": TWO, "weights": [1, 0], "target": NOTHING_BELOW_ONE},
    "infinite losses, model by model": {"model": TWO, "target": NOTHING_BELOW_ONE, "joint": True},
    "weights whose sum overflows": {"model": TWO, "weights": [1e308, 1e308]},
    "infinite losses in chains": {"target": NOTHING_BELOW_ONE, "sampler": gbce.Chains(n_chains=4, n_steps=50)},
    "a goal for huge outputs": {"model": huge, "eta": gbce.SuccessProbability(0.9)},
    "a density of extreme strength": {"prior": gbce.NearData(strength=1e300)},
    "noise beyond reason": {"evaluation": gbce.Evaluation(noise=1e300)},
    "two rows of data": {"data": X[:2]},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_numbers_leak_no_warning(odd):
    options = {"model": total, "data": X, "target": gbce.AtLeast(1.0, **PLAIN), "sampler": QUICK} | odd
    model, data, target = (options.pop(name) for name in ("model", "data", "target"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        explanation = gbce.Explainer(model, data, **options).explain(data[0], target, rules=RULES, seed=0)
        explanation.path()
        explanation.summary()
        figures = explanation.distribution
    assert np.isfinite(figures[["success_probability", "success_probability_se", "stability"]]).all()
    assert explanation.draws.weights.sum() == pytest.approx(1.0)


def test_mean_loss_is_not_lost_to_an_infinite_loss_without_weight():
    explanation = gbce.Explainer(total, X, sampler=gbce.Importance(2_000, 500)).explain(
        X[0], NOTHING_BELOW_ONE, rules=[], seed=0
    )
    assert np.isinf(explanation.draws.pool.loss).any()
    assert explanation.distribution["expected_loss"] == 0
    assert 0 < explanation.distribution["expected_loss_se"] < 0.01  # none of 500 draws had another loss


def test_weights_and_spreads_of_extreme_numbers_are_those_of_ordinary_ones():
    np.testing.assert_array_equal(gbce.weights_from_risk([1e308, -1e308], 1e10), [0.0, 1.0])
    np.testing.assert_array_equal(gbce.weights_from_risk([1e308, -1e308], 0.0), [0.5, 0.5])
    for size in (1e-200, 1.0, 1e200, 1e307):
        np.testing.assert_allclose(deviations(X * size), X.std(axis=0) * size, rtol=1e-12)
    with pytest.raises(ValueError, match=r"'x1': scale = .*e\+(199|200) must lie between 1e-150 and 1e\+150.*units"):
        gbce.Space.infer(X * 1e200)
