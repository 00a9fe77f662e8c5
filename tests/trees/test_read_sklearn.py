"""Trees of scikit-learn as they are read: the model's own outputs everywhere, at the edges of splits above all."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

import gbce
from gbce.predictors import as_predictor
from gbce.trees import read_cells, read_structure
from support.edges import at_edges, check, compare

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5)).round(2)
Y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3]
CLASS = np.digitize(Y, [-1, 1])
PAIR = np.array(["no", "yes"])[(Y > 0).astype(int)]
MANY = RNG.normal(size=(2_000, 5))
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)


def check_edges(model, missing=0.0):
    space = gbce.Space.infer(GAPS if missing else X)
    inside, predictor = read_structure(model, space), as_predictor(model, space)
    with np.errstate(over="ignore"):
        compare(inside, predictor, MANY)
        compare(inside, predictor, at_edges(MANY, inside.parts, 1, missing))
    return inside


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(min_samples_leaf=3),
        ExtraTreeRegressor(random_state=0),
        RandomForestRegressor(15, random_state=0),
        RandomForestRegressor(15, criterion="absolute_error", max_depth=4, random_state=0),
        ExtraTreesRegressor(15, random_state=0),
        GradientBoostingRegressor(n_estimators=30, subsample=0.7, random_state=0),
        HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5),
        HistGradientBoostingRegressor(max_iter=10, loss="absolute_error"),
        BaggingRegressor(n_estimators=10, max_features=0.6, random_state=0),
    ],
)
def test_numbers(model):
    assert check_edges(model.fit(X, Y)).link == "identity"


@pytest.mark.parametrize("y", [PAIR, CLASS], ids=["two", "three"])
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(min_samples_leaf=4),
        RandomForestClassifier(20, random_state=0),
        RandomForestClassifier(15, min_samples_leaf=5, class_weight="balanced", random_state=0),
        ExtraTreesClassifier(15, random_state=0),
        GradientBoostingClassifier(n_estimators=10, random_state=0),
        HistGradientBoostingClassifier(max_iter=10),
        BaggingClassifier(n_estimators=9, max_features=3, max_samples=12, bootstrap_features=True, random_state=1),
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=12, random_state=0),
    ],
)
def test_classes(model, y):
    inside = check_edges(model.fit(X, y))
    assert inside.classes == tuple(np.unique(y).tolist())


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(6, max_depth=4, random_state=0),
        ExtraTreesClassifier(6, min_samples_leaf=4, random_state=0),
        BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=4), n_estimators=6, random_state=0),
    ],
)
def test_votes_that_tie_are_decided_as_the_model_decides_them(model):
    """Leaves of halves and thirds tie where votes are added whole, and hardly ever where shares of them are."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, size=(120, 3)).astype(float)
    model.fit(x, rng.integers(0, 3, len(x)))
    space = gbce.Space.infer(x, kinds=dict.fromkeys(["x1", "x2", "x3"], "real"))
    every = np.stack(np.meshgrid(*[np.arange(-0.5, 3.0, 0.5)] * 3), axis=-1).reshape(-1, 3)
    said = model.predict_proba(every)
    inside = read_structure(model, space)
    trees = read_cells(inside, space, x)
    for read in (inside.outputs(every), trees.outputs(trees.cells(every))):
        np.testing.assert_array_equal(read, said)


def test_the_exponential_loss_makes_a_probability_of_twice_the_score():
    check_edges(GradientBoostingClassifier(loss="exponential", n_estimators=10, random_state=0).fit(X, PAIR))


def test_positive_numbers_have_a_logarithm_for_a_score():
    assert check_edges(HistGradientBoostingRegressor(loss="poisson", max_iter=10).fit(X, np.abs(Y))).link == "exp"


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(min_samples_leaf=3),
        RandomForestRegressor(10, random_state=0),
        ExtraTreesRegressor(10, random_state=0),
        HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=5),
    ],
)
def test_missing_values_go_their_own_way(model):
    check_edges(model.fit(GAPS, Y), missing=0.2)


def test_a_float_just_above_a_threshold_may_still_go_left_in_single_precision():
    model = DecisionTreeRegressor().fit(X, Y)
    inside = read_structure(model, gbce.Space.infer(X))
    cuts = inside.parts.threshold[inside.parts.column == 0]
    above = np.nextafter(cuts, np.inf)
    still = above.astype(np.float32).astype(float) <= cuts
    assert still.any()
    rows = np.repeat(X[:1], len(cuts), axis=0)
    rows[:, 0] = above
    np.testing.assert_array_equal(inside.outputs(rows), model.predict(rows))


def test_ties_of_votes_go_to_the_first_class():
    x = RNG.integers(0, 4, size=(300, 4)).astype(float)
    model = RandomForestClassifier(10, random_state=0).fit(x, RNG.integers(0, 2, 300))
    space = gbce.Space.infer(x)
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 4), axis=-1).reshape(-1, 4)
    votes = np.array([tree.predict(grid) for tree in model.estimators_])
    full = RandomForestClassifier(10, bootstrap=False, max_features=1, random_state=0).fit(
        grid, RNG.integers(0, 2, 256)
    )
    tied = votes.sum(axis=0) == 5
    assert tied.any()
    for forest in (model, full):
        inside = read_structure(forest, space)
        compare(inside, as_predictor(forest, space), grid)
    # leaves of one class each: what is left over of a vote is no number
    whole = RandomForestClassifier(10, random_state=0, max_features=1).fit(MANY, RNG.integers(0, 2, len(MANY)))
    inside, predictor = read_structure(whole, gbce.Space.infer(X)), as_predictor(whole, gbce.Space.infer(X))
    other = RNG.normal(size=(5_000, 5))
    said = predictor(other)
    assert (said.values[:, 0] == said.values[:, 1]).sum() > 100
    np.testing.assert_array_equal(inside.outputs(other).argmax(axis=1), said.decided)


@pytest.mark.parametrize("options", [{}, {"max_features": 3, "max_samples": 100}, {"contamination": 0.1}])
def test_isolation_forests_say_whether_a_row_is_regular(options):
    model = IsolationForest(n_estimators=20, random_state=0, **options).fit(X)
    space = gbce.Space.infer(X)
    inside, predictor = read_structure(model, space), as_predictor(model, space)
    far = 1.5 * MANY
    rows = np.vstack([far, at_edges(far, inside.parts, 1)])
    clear = np.abs(model.decision_function(rows)) > 1e-12
    assert clear.mean() > 0.99
    compare(inside, predictor, rows[clear])
    assert set(inside.outputs(rows)) == {-1.0, 1.0}
    score = inside.parts.scores(inside.columns(rows))[:, 0]
    np.testing.assert_allclose(model.score_samples(rows), model.offset_ * np.exp(-score), rtol=1e-12)


# --- categories of histogram boosting ---------------------------------------------------------------------------------


def mixed(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "word": rng.choice(["p", "q", "r", "s", "t", "u"], n),
            "b": rng.normal(size=n),
            "kind": pd.Categorical(rng.choice(["x", "y", "z"], n), categories=["z", "y", "x", "w"]),
        }
    )


@pytest.mark.parametrize("gaps", [False, True])
def test_categories_are_put_first_and_encoded(gaps):
    frame = mixed(500, 0)
    y = frame["a"] + frame["word"].isin(["q", "t", "u"]) * 2 - (frame["kind"] == "y") * frame["b"]
    if gaps:
        frame.loc[::7, "kind"] = np.nan
        frame.loc[::5, "b"] = np.nan
    frame["word"] = frame["word"].astype("category")
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype", min_samples_leaf=5)
    inside = check(model.fit(frame, y), frame)
    assert inside.stepwise == {1, 3}
    classes = HistGradientBoostingClassifier(max_iter=10, categorical_features=["word", "kind"], min_samples_leaf=5)
    check(classes.fit(frame, np.digitize(y, [0, 1])), frame)


def test_categories_that_were_not_there_in_training_go_where_missing_values_go():
    codes = np.column_stack([X[:, 0], RNG.integers(0, 9, len(X)) * 2])
    y = codes[:, 0] + np.isin(codes[:, 1], [2, 8, 10])
    codes[::9, 1] = np.nan
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features=[1], min_samples_leaf=5).fit(codes, y)
    space = gbce.Space.infer(codes)
    rows = np.column_stack([np.tile(X[:20, 0], 20), np.repeat(np.arange(20.0), 20)])
    inside = read_structure(model, space)
    compare(inside, as_predictor(model, space), rows)
    trees = inside.parts
    known = np.column_stack([np.zeros(9), np.arange(9.0)])
    lone = np.column_stack([np.zeros(2), [30.0, np.nan]])
    assert len(np.unique(trees.scores(known[:, ::-1]))) > 1
    assert np.ptp(trees.scores(lone[:, ::-1])) == 0


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(3).fit(X, X[:, :2]),
        AdaBoostRegressor(n_estimators=3).fit(X, Y),
        BaggingRegressor(KNeighborsRegressor(), n_estimators=3).fit(X, Y),
    ],
)
def test_what_is_no_sum_over_trees_is_not_read(model):
    assert read_structure(model, gbce.Space.infer(X)) is None
