"""Trees of CatBoost as they are read: the model's own outputs everywhere, at the edges of splits above all."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.predictors import as_predictor
from gbce.trees import read_structure
from support.edges import at_edges, check, compare

catboost = pytest.importorskip("catboost")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3]
CLASS = np.digitize(Y, [-1, 1])
GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
MANY = RNG.normal(size=(2_000, 5))
QUIET = {"iterations": 20, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False, "random_seed": 0}


def check_edges(model, missing=0.0):
    space = gbce.Space.infer(GAPS if missing else X)
    inside, predictor = read_structure(model, space), as_predictor(model, space)
    compare(inside, predictor, MANY)
    compare(inside, predictor, at_edges(MANY, inside.parts, 1, missing))
    return inside


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise", "Lossguide"])
@pytest.mark.parametrize("loss", ["RMSE", "MAE", "Quantile:alpha=0.9", "Poisson"])
def test_numbers(policy, loss):
    model = catboost.CatBoostRegressor(**QUIET, grow_policy=policy, loss_function=loss).fit(X, np.abs(Y))
    assert check_edges(model).link == ("exp" if loss == "Poisson" else "identity")


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise"])
def test_classes(policy):
    two = catboost.CatBoostClassifier(**QUIET, grow_policy=policy).fit(X, np.where(Y > 0, "yes", "no"))
    assert check_edges(two).link == "logistic"
    assert check_edges(catboost.CatBoostClassifier(**QUIET, grow_policy=policy).fit(X, CLASS)).link == "softmax"


@pytest.mark.parametrize("mode", ["Min", "Max"])
def test_missing_values_are_below_or_above_everything(mode):
    check_edges(catboost.CatBoostRegressor(**QUIET, nan_mode=mode).fit(GAPS, Y), missing=0.2)


def test_bias_and_scale_are_outside_the_leaves():
    model = catboost.CatBoostRegressor(**QUIET).fit(X, 100.0 + Y)
    model.set_scale_and_bias(0.5, 3.0)
    check_edges(model)


def mixed(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "word": rng.choice(["p", "wörd", "r" * 70, "s t", "5"], n),
            "b": rng.normal(size=n),
            "size": rng.choice([3, 5, 9], n),
        }
    )


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise"])
def test_words_with_splits_of_their_own(policy):
    frame = mixed(500, 0)
    y = frame["a"] + frame["word"].isin(["wörd", "5"]) * 2 - (frame["size"] == 5) * frame["b"]
    options = QUIET | {"one_hot_max_size": 10, "cat_features": ["word", "size"], "grow_policy": policy}
    inside = check(catboost.CatBoostRegressor(**options).fit(frame, y), mixed(2_000, 1))
    assert inside.stepwise == {1, 3}
    check(catboost.CatBoostClassifier(**options).fit(frame, np.digitize(y, [0, 1])), mixed(2_000, 1))
    other = mixed(500, 2)
    other.loc[::3, "word"] = "never seen"
    check(catboost.CatBoostRegressor(**options).fit(frame, y), other)


def test_statistics_of_categories_and_other_outputs_are_not_read():
    frame = mixed(500, 0)
    y = frame["a"] + (frame["word"] == "p")
    counted = catboost.CatBoostRegressor(**QUIET, one_hot_max_size=1, cat_features=["word"]).fit(frame, y)
    assert read_structure(counted, gbce.Space.infer(frame)) is None
    several = catboost.CatBoostClassifier(**QUIET, loss_function="MultiClassOneVsAll").fit(X, CLASS)
    assert read_structure(several, gbce.Space.infer(X)) is None
