"""Trees of LightGBM as they are read: the model's own outputs everywhere, at the edges of splits above all."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.predictors import as_predictor
from gbce.trees import read_structure
from support.edges import at_edges, check, compare

lightgbm = pytest.importorskip("lightgbm")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
X[:, 4] = np.where(RNG.random(400) < 0.5, 0.0, X[:, 4])
Y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3] + (X[:, 4] == 0)
CLASS = np.digitize(Y, [-1, 1])
GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
MANY = RNG.normal(size=(2_000, 5))
QUIET = {"n_estimators": 25, "min_child_samples": 5, "verbose": -1, "n_jobs": 1, "random_state": 0}


def check_edges(model, missing=0.0):
    space = gbce.Space.infer(GAPS if missing else X)
    inside, predictor = read_structure(model, space), as_predictor(model, space)
    compare(inside, predictor, MANY)
    compare(inside, predictor, at_edges(MANY, inside.parts, 1, missing, small=True))
    return inside


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"boost_from_average": False},
        {"objective": "regression_l1"},
        {"objective": "tweedie"},
        {"boosting_type": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
        {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        {"data_sample_strategy": "goss"},
        {"extra_trees": True},
        {"max_depth": 1},
    ],
)
def test_numbers(options):
    check_edges(lightgbm.LGBMRegressor(**QUIET | options).fit(X, np.abs(Y)))


@pytest.mark.parametrize(
    "options",
    [{}, {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, {"is_unbalance": True, "sigmoid": 2.0}],
)
def test_classes(options):
    model = lightgbm.LGBMClassifier(**QUIET | options)
    assert check_edges(model.fit(X, Y > 0)).link == "logistic"
    if "is_unbalance" not in options:
        assert check_edges(model.fit(X, CLASS)).link == "softmax"


@pytest.mark.parametrize("options", [{}, {"use_missing": False}, {"zero_as_missing": True}])
@pytest.mark.parametrize("gaps", [False, True])
def test_missing_values_and_zeros_that_count_as_missing(options, gaps):
    data = GAPS if gaps else X
    model = lightgbm.LGBMRegressor(**QUIET | options).fit(data, Y)
    inside = check_edges(model, missing=0.2)
    zeros = X.copy()
    zeros[:, 4] = 0.0
    without = np.where(zeros == 0, np.nan, zeros)
    same = inside.parts.scores(zeros) == inside.parts.scores(without)
    assert same.all() == ("zero_as_missing" in options or "use_missing" in options or not gaps)


def test_zero_as_missing_makes_intervals_of_what_is_none():
    data = np.where(RNG.random((500, 2)) < 0.4, 0.0, RNG.normal(size=(500, 2)))
    model = lightgbm.LGBMRegressor(**QUIET, zero_as_missing=True).fit(data, (data == 0) @ [3.0, 1.0] + data[:, 0])
    text = model.booster_.model_to_string()
    before = sum(2 * int(line.split("=")[1]) - 1 for line in text.splitlines() if line.startswith("num_leaves="))
    space = gbce.Space.infer(data)
    inside = read_structure(model, space)
    assert before < len(inside.parts.column) < 6 * before
    values = np.array([-1.0, -1e-30, -1e-36, 0.0, 1e-36, 1e-30, 1.0])
    rows = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
    compare(inside, as_predictor(model, space), rows)


def test_early_stopping_counts_only_the_best_rounds():
    booster = lightgbm.train({"objective": "regression", "verbose": -1}, lightgbm.Dataset(X, Y), 30)
    booster.best_iteration = 7
    assert len(check_edges(booster).parts.roots) == 7


# --- categories -------------------------------------------------------------------------------------------------------


def mixed(n, seed, gaps=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a b": rng.normal(size=n),
            "word": pd.Categorical(rng.choice([f"w{i}" for i in range(40)], n)),
            "b": rng.normal(size=n),
            "kind": pd.Categorical(rng.choice(["x", "y", "z"], n), categories=["z", "y", "x"]),
        }
    )
    if gaps:
        frame.loc[rng.random(n) < 0.1, "word"] = np.nan
    return frame


def wished(frame):
    return frame["a b"] + frame["word"].cat.codes % 3 - (frame["kind"] == "y") * frame["b"]


@pytest.mark.parametrize("gaps", [False, True])
def test_categories_of_frames_have_the_codes_of_training(gaps):
    frame = mixed(900, 0, gaps)
    options = QUIET | {"cat_smooth": 1.0, "min_data_per_group": 5}
    model = lightgbm.LGBMRegressor(**options).fit(frame, wished(frame))
    inside = check(model, mixed(2_000, 1, gaps))
    assert inside.stepwise == {1, 3}
    assert inside.parts.sets.shape[1] > 32  # more words than a bitset of one word has
    classes = lightgbm.LGBMClassifier(**options).fit(frame, np.digitize(wished(frame), [0, 1]))
    check(classes, mixed(2_000, 1, gaps))
    booster = lightgbm.train({**options, "objective": "binary"}, lightgbm.Dataset(frame, wished(frame) > 0), 9)
    assert check(booster, mixed(2_000, 1, gaps)).stepwise == {1, 3}


def test_other_categories_than_those_of_training_are_found_by_name():
    frame = mixed(900, 0)
    model = lightgbm.LGBMRegressor(**QUIET, min_data_per_group=5).fit(frame, wished(frame))
    other = mixed(500, 2)
    other["kind"] = other["kind"].cat.reorder_categories(["x", "z", "y"])
    other["word"] = other["word"].cat.add_categories(["new"])
    other.loc[::3, "word"] = "new"
    check(model, other)


def test_codes_are_cut_to_whole_numbers_and_unknown_ones_go_right():
    codes = np.column_stack([X[:, 0], RNG.integers(0, 12, len(X))])
    y = codes[:, 0] + np.isin(codes[:, 1], [0, 3, 8, 10])
    model = lightgbm.LGBMRegressor(**QUIET, min_data_per_group=5).fit(codes, y, categorical_feature=[1])
    space = gbce.Space.infer(codes, missing={"x2": "keep"})
    trial = np.array([-3.0, -1.0, -0.5, 0.0, 0.5, 3.0, 3.999, 11.0, 12.0, 31.0, 32.0, 1e4, np.nan])
    rows = np.column_stack([np.tile(X[:20, 0], len(trial)), np.repeat(trial, 20)])
    inside = read_structure(model, space)
    compare(inside, as_predictor(model, space), rows)
    assert len(np.unique(inside.outputs(rows[::20]))) >= 2


@pytest.mark.parametrize(
    "options", [{"linear_tree": True}, {"objective": "cross_entropy"}, {"reg_sqrt": True}, {"pred_early_stop": True}]
)
def test_what_is_no_plain_sum_over_leaves_is_not_read(options):
    model = lightgbm.LGBMRegressor(**QUIET | options).fit(X, (Y > 0) * 1.0)
    assert read_structure(model, gbce.Space.infer(X)) is None
