"""Whatever is wrong with a rule or a noise, the error says what, and what to do about it."""

import numpy as np
import pytest

import gbce
from support.three_columns import DATA, NAN, ROW, explain, total


def probability(rows):
    return 1.0 / (1.0 + np.exp(-total(rows)))


BAD_RULES = [
    (gbce.CVaR, {"tau": 1}, r"tau must be at least 0 and below 1, not 1"),
    (gbce.CVaR, {"tau": -0.1}, r"tau must be at least 0 and below 1"),
    (gbce.CVaR, {"tau": NAN}, r"tau must be a finite number"),
    (gbce.CVaR, {"tau": "most"}, r"tau must be a finite number, not 'most'"),
    (gbce.CVaR, {"n_perturb": 0}, r"n_perturb must be an integer of at least 1, not 0"),
    (gbce.CVaR, {"max_candidates": 0}, r"max_candidates must be an integer"),
    (gbce.CVaR, {"race": "yes"}, r"race must be True or False, not 'yes'"),
    (gbce.CVaR, {"refine": None}, r"refine must be True or False, not None"),
    (gbce.ChanceConstrained, {"refine": 1}, r"refine must be True or False, not 1"),
    (gbce.ChanceConstrained, {"probability": 0}, r"probability must be above 0, at most 1, not 0"),
    (gbce.ChanceConstrained, {"probability": 1.1}, r"probability must be above 0, at most 1, not 1\.1"),
    (gbce.ChanceConstrained, {"probability": "high"}, r"probability must be a finite number, not 'high'"),
    (gbce.ChanceConstrained, {"confidence": 1.0}, r"confidence must lie between 0 and 1, not 1\.0"),
    (gbce.ChanceConstrained, {"n_perturb": 0}, r"n_perturb must be an integer"),
    (gbce.ChanceConstrained, {"n_confirm": 0}, r"n_confirm must be an integer"),
    (gbce.ChanceConstrained, {"max_candidates": 0}, r"max_candidates must be an integer"),
    (gbce.DiverseSet, {"k": 0}, r"k must be an integer of at least 1, not 0"),
    (gbce.DiverseSet, {"k": 2.5}, r"k must be an integer of at least 1, not 2\.5"),
    (gbce.DiverseSet, {"k": 2, "mass": 0}, r"mass must be above 0 and at most 1, not 0"),
    (gbce.DiverseSet, {"k": 2, "mass": 1.1}, r"mass must be above 0 and at most 1, not 1\.1"),
    (gbce.DiverseSet, {"k": 2, "mass": "all"}, r"mass must be a finite number, not 'all'"),
    (gbce.RandomDraw, {"k": 0}, r"k must be an integer of at least 1, not 0"),
    (gbce.MAP, {"method": "objectve"}, r"method must be 'objective', 'kde' or 'knn', not 'objectve'"),
    (gbce.MAP, {"k": 0}, r"k must be an integer"),
    (gbce.DirectOpt, {"n_starts": 0}, r"n_starts must be an integer"),
    (gbce.DirectOpt, {"max_iterations": 0}, r"max_iterations must be an integer"),
    (gbce.GeometricMedian, {"max_iterations": 0}, r"max_iterations must be an integer"),
    (gbce.Evaluation, {"n_perturb": 0}, r"n_perturb must be an integer"),
    (gbce.Evaluation, {"neighbours": 0}, r"neighbours must be an integer"),
    (gbce.Evaluation, {"alpha": 0}, r"alpha must lie between 0 and 1, not 0"),
    (gbce.Evaluation, {"alpha": 1}, r"alpha must lie between 0 and 1, not 1"),
]


@pytest.mark.parametrize(("kind", "options", "sentence"), BAD_RULES)
def test_bad_option_of_a_rule_is_refused(kind, options, sentence):
    with pytest.raises(ValueError, match=f"^{kind.__name__}: {sentence}"):
        kind(**options)


@pytest.mark.parametrize("rules", [5, gbce.MAP, [gbce.MAP], [gbce.Mean(), None], [gbce.Value(1)]])
def test_something_that_is_no_rule_is_refused(rules):
    with pytest.raises(TypeError, match=r"a rule must be an object such as gbce\.MAP\(\), not "):
        explain(rules=rules)


def test_the_same_rule_twice_is_refused():
    with pytest.raises(ValueError, match="rules: MAP is listed twice"):
        explain(rules=[gbce.MAP(), gbce.Mean(), gbce.MAP()])


BAD_NOISE = {
    "negative": (-0.1, r"noise must be zero or more, one number or 3, not -0\.1"),
    "NaN": (NAN, r"noise must be zero or more, one number or 3, not nan"),
    "text": ("small", r"noise must be a number, one per feature, a mapping or a function, not 'small'"),
    "two of three": ([0.1, 0.2], r"noise must be zero or more, one number or 3"),
    "unknown name": ({"zip": 0.1}, r"noise names \['zip'\], but the features are \['Age', 'income', 'debt'\]"),
    "negative by name": ({"Age": -1}, r"noise must be zero or more"),
    "wrong shape": (
        lambda rng, n: np.zeros((n, 2)),
        r"noise\(rng, \d+\) must return finite offsets of shape \(\d+, 3\)",
    ),
    "NaN offsets": (lambda rng, n: np.full((n, 3), NAN), r"must return finite offsets"),
}


@pytest.mark.parametrize(("noise", "sentence"), BAD_NOISE.values(), ids=BAD_NOISE)
def test_bad_noise_is_refused_by_rules_and_by_figures(noise, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(rules=gbce.CVaR(noise=noise))
    with pytest.raises(ValueError, match=sentence):
        explain(rules=gbce.ChanceConstrained(noise=noise))
    with pytest.raises(ValueError, match=sentence):
        explain(rules=gbce.MAP(), evaluation=gbce.Evaluation(noise=noise))


def test_noise_is_checked_before_a_model_is_asked():
    asked = []

    def model(frame):
        asked.append(len(frame))
        return frame["Age"]

    with pytest.raises(ValueError, match="noise must be zero or more"):
        gbce.Explainer(model, DATA, evaluation=gbce.Evaluation(noise=-1.0))
    explainer = gbce.Explainer(model, DATA)
    with pytest.raises(ValueError, match=r"noise names \['nope'\]"):
        explainer.explain(ROW, gbce.AtLeast(1.0), rules=[gbce.CVaR(noise={"nope": 0.1})])
    assert not asked


def test_rules_that_differ_in_any_option_can_stand_together():
    rules = [gbce.DiverseSet(2), gbce.DiverseSet(3), gbce.MAP(), gbce.MAP(method="knn")]
    assert len(explain(rules=rules, prior=gbce.Gaussian()).counterfactuals) == 7
