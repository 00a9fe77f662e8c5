"""Nearest on tree ensembles: never dearer than the search that only asks, few model rows, and always confirmed."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import gbce
from gbce.metrics import costs

SMALL = gbce.SMC(400, 100)
ROOM = 1.016  # of the cost: numbers may be rounded for one percent, and half a percent buys fewer changes


def explain(model, data, row, target, rules, **options):
    explainer = gbce.Explainer(model, data, sampler=SMALL, policy=None, **options)
    return explainer.explain(row, target, rules=rules, seed=0)


def answers(explanation):
    return [one for one in explanation.decisions if not one.beside]


def price(explanation, one, distance):
    return float(costs(explanation.space, one.x[None, :], explanation.x0, distance)[0])


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X = X[:, [2, 3, 4, 8, 9]]
    return X, RandomForestRegressor(30, min_samples_leaf=3, random_state=0).fit(X, y)


RULES = [gbce.Nearest(), gbce.Nearest("l2"), gbce.Nearest("changes"), gbce.Nearest(max_changes=1)]


def test_it_is_never_dearer_than_the_search_that_only_asks_and_asks_less(diabetes):
    X, model = diabetes
    for i in (1, 7, 30):
        now = float(model.predict(X[[i]])[0])
        target = gbce.AtLeast(now + 60, scale=10) if now < 150 else gbce.AtMost(now - 60, scale=10)
        read = explain(model, X, X[i], target, RULES)
        asked = explain(lambda rows: model.predict(rows), X, X[i], target, RULES)
        for rule, one, other in zip(RULES, answers(read), answers(asked), strict=True):
            assert one.reached[0] or not other.reached[0]
            if not other.reached[0]:
                continue
            if rule.distance == "changes":
                n = [int((some.x != X[i]).sum()) for some in (one, other)]
                assert n[0] <= n[1]
            elif rule.distance != "changes":
                assert price(read, one, rule.priced_by) <= ROOM * price(asked, other, rule.priced_by)
        assert read.n_model_rows < asked.n_model_rows


@pytest.mark.parametrize("wanted", [0, 1])
def test_votes_that_tie_are_decided_by_the_model(wanted):
    data, label = load_breast_cancer(return_X_y=True)
    data = data[:, :6]
    model = RandomForestClassifier(20, random_state=0).fit(data, label)
    for i in np.flatnonzero(model.predict(data) != wanted)[:3]:
        explanation = explain(model, data, data[i], gbce.Class(wanted), [gbce.Nearest()])
        for one in explanation.decisions:
            assert model.predict(one.x[None, :])[0] == wanted


def test_a_margin_is_kept_by_a_booster():
    data, label = load_breast_cancer(return_X_y=True)
    data = data[:, :5]
    model = LGBMClassifier(n_estimators=30, num_leaves=7, random_state=0, verbose=-1, n_jobs=1).fit(data, label)
    i = int(np.flatnonzero(model.predict(data) == 0)[0])
    explanation = explain(model, data, data[i], gbce.Class(1), [gbce.Nearest(margin=0.3)])
    assert model.predict_proba(explanation.decisions[0].x[None, :])[0, 1] >= 0.8


def test_rules_between_columns_are_kept():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(1, 3, size=(200, 3)), columns=["a", "b", "c"])
    frame["ratio"] = frame["a"] / frame["b"]
    model = RandomForestRegressor(15, max_depth=5, random_state=0).fit(frame, frame["ratio"] + frame["c"])
    space = gbce.Space.infer(frame, computed={"ratio": "a / b"}, constraints=["a + c <= 4.5"], bounds="data")
    row = frame.iloc[[int((frame["a"] + frame["c"]).argmin())]]
    now = float(model.predict(row)[0])
    explanation = explain(model, frame, row, gbce.AtLeast(now + 0.6, scale=0.5), [gbce.Nearest()], space=space)
    found = explanation.counterfactuals
    assert (found["a"] + found["c"] <= 4.5 + 1e-9).all()
    np.testing.assert_allclose(found["ratio"], found["a"] / found["b"])
    assert (model.predict(found) >= now + 0.6).all()


def test_columns_of_single_precision_stay_so():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 2)).astype(np.float32), columns=["a", "b"])
    model = RandomForestRegressor(20, random_state=0).fit(frame, frame["a"] + 2 * frame["b"])
    explanation = explain(model, frame, frame.iloc[[0]], gbce.AtLeast(3.0, scale=1), [gbce.Nearest()])
    found = explanation.counterfactuals
    assert (found.dtypes == np.float32).all()
    assert (model.predict(found) >= 3.0).all()


def test_a_model_with_a_threshold_of_its_own_is_only_asked():
    class Lenient(RandomForestClassifier):
        def predict(self, X):
            return (self.predict_proba(X)[:, 1] >= 0.3).astype(int)

    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 2))
    model = Lenient(20, random_state=0).fit(data, (data.sum(axis=1) > 0).astype(int))
    i = int(np.flatnonzero(model.predict(data) == 0)[0])
    explanation = explain(model, data, data[i], gbce.Class(1), [gbce.Nearest()])
    x = explanation.decisions[0].x[None, :]
    assert model.predict(x)[0] == 1
    assert model.predict_proba(x)[0, 1] < 0.5
