"""A look inside models: what is read gives the model's own outputs, and what cannot be read is None."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

import gbce
from gbce.predictors import as_predictor
from gbce.trees import read_structure

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(250, 4))
Y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3]
CLASS = np.digitize(Y, [-1, 1])
QUIET = {"n_estimators": 20, "n_jobs": 1}


def same(model, data):
    space = gbce.Space.infer(data)
    inside, x = read_structure(model, space), space.encode(data)
    np.testing.assert_allclose(inside.outputs(x), as_predictor(model, space)(x).values, rtol=1e-5, atol=1e-5)
    return inside


@pytest.mark.parametrize(
    ("make", "link"),
    [
        (lambda: lightgbm.LGBMRegressor(objective="poisson", verbose=-1, **QUIET), "exp"),
        (lambda: lightgbm.LGBMRegressor(objective="quantile", verbose=-1, **QUIET), "identity"),
        (lambda: xgboost.XGBRegressor(objective="count:poisson", **QUIET), "exp"),
        (lambda: xgboost.XGBRegressor(objective="reg:gamma", base_score=2.0, **QUIET), "exp"),
        (lambda: xgboost.XGBRegressor(num_parallel_tree=3, subsample=0.7, **QUIET), "identity"),
        (lambda: GradientBoostingRegressor(loss="huber", n_estimators=20), "identity"),
        (lambda: GradientBoostingRegressor(init="zero", n_estimators=20), "identity"),
    ],
)
def test_links_and_beginnings(make, link):
    assert same(make().fit(X, np.abs(Y) + 0.1), X).link == link


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda: lightgbm.LGBMClassifier(verbose=-1, **QUIET),
        lambda: xgboost.XGBClassifier(**QUIET),
        lambda: xgboost.XGBClassifier(base_score=0.3, **QUIET),
        lambda: HistGradientBoostingClassifier(max_iter=10),
        lambda: GradientBoostingClassifier(n_estimators=5),
        lambda: RandomForestClassifier(10, random_state=0),
        lambda: LogisticRegression(),
    ],
)
def test_classes(make, classes):
    labels = np.array(["low", "middle", "high"])[CLASS if classes == 3 else np.minimum(CLASS, 1)]
    model = make()
    y = labels if not isinstance(model, xgboost.XGBClassifier) else np.unique(labels, return_inverse=True)[1]
    inside = same(model.fit(X, y), X)
    assert len(inside.classes) == classes


def test_boosters_without_an_estimator():
    space, x = gbce.Space.infer(X), X
    boosters = [
        lightgbm.train({"objective": "binary", "verbose": -1, "sigmoid": 2.0}, lightgbm.Dataset(X, Y > 0), 10),
        lightgbm.train({"objective": "regression", "verbose": -1}, lightgbm.Dataset(X, Y), 10),
        xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, Y > 0), 10),
        xgboost.train({"objective": "multi:softprob", "num_class": 3}, xgboost.DMatrix(X, CLASS), 10),
    ]
    for booster in boosters:
        said = as_predictor(booster, space)(x).values
        np.testing.assert_allclose(read_structure(booster, space).outputs(x), said, atol=1e-5)


def test_early_stopping_counts_only_the_best_rounds():
    model = xgboost.XGBRegressor(n_estimators=200, learning_rate=0.8, early_stopping_rounds=2, n_jobs=1)
    model.fit(X[:150], Y[:150], eval_set=[(X[150:], Y[150:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    inside = same(model, X)
    assert len(inside.parts.roots) == model.best_iteration + 1


def test_renamed_classes_and_columns_in_another_order():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = RandomForestClassifier(5, random_state=0).fit(frame[["d", "b", "a", "c"]], CLASS)
    same(model, frame)
    assert read_structure(gbce.classifier(model, ["x", "y", "z"]), gbce.Space.infer(frame)).classes == ("x", "y", "z")


def mixed():
    frame = pd.DataFrame(X, columns=list("abcd"))
    return frame.assign(kind=RNG.choice(["p", "q", "r"], len(X)), size=pd.Categorical(RNG.choice(["s", "m"], len(X))))


@pytest.mark.parametrize(
    ("prepare", "stepwise"),
    [
        (make_column_transformer((OneHotEncoder(), ["kind", "size"]), remainder="passthrough"), {4, 5}),
        (make_column_transformer((OrdinalEncoder(), ["kind"]), (RobustScaler(), list("dcba"))), {4}),
        (
            make_column_transformer(
                (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "d"]),
                (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["size"]),
            ),
            {5},
        ),
    ],
)
def test_what_comes_before_the_model_is_followed(prepare, stepwise):
    frame = mixed()
    for core in (LinearRegression(), RandomForestRegressor(5, random_state=0)):
        inside = same(make_pipeline(prepare, core).fit(frame, Y), frame)
        assert inside.stepwise == stepwise


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(PolynomialFeatures(), LinearRegression()).fit(X, Y),
        AdaBoostRegressor(n_estimators=3).fit(X, Y),
        SVC().fit(X, CLASS),
        GradientBoostingRegressor(init=LinearRegression(), n_estimators=3).fit(X, Y),
        lightgbm.LGBMRegressor(linear_tree=True, n_estimators=3, verbose=-1).fit(X, Y),
        lambda x: x.sum(axis=1),
    ],
)
def test_what_cannot_be_read_is_none(model):
    assert read_structure(model, gbce.Space.infer(X)) is None
