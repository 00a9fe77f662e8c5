"""Explainers and explanations travel: any copy gives the same bits, learns its models anew, and holds no code."""

import copy
import io
import pickle

import cloudpickle
import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import gbce

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(150, 4)), columns=["age", "income", "debt", "rate"])
Y = X["income"] - 2 * X["debt"] + 0.5 * np.abs(X["age"])
QUICK = gbce.SMC(n_candidates=500, n_draws=100)
ROW = X.iloc[int(Y.argmin())]


def score(frame):
    return frame["income"].to_numpy() - frame["debt"].to_numpy()


MAKES = {
    "linear": lambda: Ridge().fit(X, Y),
    "pipeline": lambda: make_pipeline(StandardScaler(), Ridge()).fit(X, Y),
    "forest": lambda: RandomForestRegressor(5, random_state=0).fit(X, Y),
    "boosting": lambda: HistGradientBoostingRegressor(max_iter=5).fit(X, Y),
    "classifier": lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y > 0),
    "scores": lambda: LinearSVC().fit(X, Y > 0),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X, Y),
    "booster": lambda: lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X, Y).booster_,
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(X, Y),
    "function": lambda: score,
    "several": lambda: [Ridge().fit(X, Y), score],
}


def joblib_trip(thing):
    file = io.BytesIO()
    joblib.dump(thing, file)
    file.seek(0)
    return joblib.load(file)


TRIPS = {
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "joblib": joblib_trip,
    "cloudpickle": lambda thing: cloudpickle.loads(cloudpickle.dumps(thing)),
    "deepcopy": copy.deepcopy,
}


def explain(explainer, **options):
    target = gbce.Class(True) if explainer._session.predictors[0].classes else gbce.AtLeast(1.0)
    return explainer.explain(ROW, target, seed=3, progress=False, **options)


def same(one, other):
    assert np.array_equal(one.draws.x, other.draws.x)
    assert np.array_equal(one.draws.weights, other.draws.weights)
    pd.testing.assert_frame_equal(one.pointwise, other.pointwise, check_exact=True)
    assert one.answer.sentence == other.answer.sentence


@pytest.fixture(scope="module")
def explanation():
    return explain(gbce.Explainer(MAKES["pipeline"](), X))


# every model one way, and every way once; deepcopy asks boosters for copies of their own
@pytest.mark.parametrize(("make", "trip"), [*((make, "pickle") for make in MAKES), ("linear", "joblib"),
                                            ("linear", "cloudpickle"), ("several", "deepcopy"),
                                            ("booster", "deepcopy")])  # fmt: skip
def test_a_copy_of_an_explainer_gives_the_same_bits(make, trip):
    explainer = gbce.Explainer(
        MAKES[make](), X, sampler=QUICK, refits=[Ridge(5.0).fit(X, Y)] if make == "linear" else None
    )
    unused = TRIPS[trip](explainer)
    rules = {} if trip == "joblib" else {"rules": ["Nearest"]}  # all of them once
    first = explain(explainer, **rules)
    same(first, explain(unused, **rules))
    short = {"max_model_rows": 3_000, "posterior": False, **rules}
    same(explain(explainer, **short), explain(TRIPS[trip](explainer), **short))


@pytest.mark.parametrize("trip", TRIPS)
def test_a_copy_of_an_explanation_is_the_same_and_holds_no_code(explanation, trip):
    again = TRIPS[trip](explanation)
    same(explanation, again)
    pickle.dumps(again)


@pytest.mark.parametrize("trip", ["pickle", "deepcopy"])
def test_a_copy_follows_its_own_model_when_that_is_fitted_anew(trip):
    explainer = gbce.Explainer(MAKES["pipeline"](), X, sampler=QUICK)
    explain(explainer)
    again = TRIPS[trip](explainer)
    explain(again)
    (model,) = again._session.models
    assert again._session.predictors[0].ask.short  # what was learned of the model anew is used
    model[0].fit(3.0 * X + 1.0)
    rows = again._session.data[:20]
    assert np.array_equal(again._session.predictors[0](rows).values, model.predict(X[:20]))
    assert not np.array_equal(again._session.predictors[0](rows).values, explainer._session.predictors[0](rows).values)
