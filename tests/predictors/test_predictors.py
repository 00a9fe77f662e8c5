"""Models of every make: asked in their own columns and dtypes, answered to the bit, counted, and believed."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import ClassifierMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import gbce
from gbce.predictors import as_predictor
from gbce.predictors._forests import MANY_ROWS

NAMES = ["age", "income", "debt"]
FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=NAMES)
ARRAY = FRAME.to_numpy()
SCORE = ARRAY @ [1.0, -2.0, 0.5]
LABELS = {
    "two numbers": (SCORE > 0).astype(int),
    "two words": np.where(SCORE > 0, "yes", "no"),
    "three numbers": np.digitize(SCORE, [-1, 1]),
    "three words": np.array(["low", "mid", "top"])[np.digitize(SCORE, [-1, 1])],
}
BY_POSITION = ["linear", "pipeline", "forest", "lightgbm", "xgboost"]  # regressors that need no column names
QUICK = gbce.Importance(n_candidates=1_000, n_draws=300)
POINTS = np.random.default_rng(1).normal(size=(200, 3))


def regressors():
    columns = ColumnTransformer([("scaled", StandardScaler(), ["debt", "age"])], remainder="passthrough")
    return {
        "linear": LinearRegression(),
        "pipeline": make_pipeline(StandardScaler(), LinearRegression()),
        "columns": make_pipeline(columns, LinearRegression()),
        "forest": RandomForestRegressor(7, random_state=0),
        "forest in a pipeline": make_pipeline(columns, ExtraTreesRegressor(7, random_state=0)),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1),
        "xgboost": xgboost.XGBRegressor(n_estimators=5, n_jobs=1),
    }


def classifiers():
    return {
        "logistic": LogisticRegression(),
        "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
        "neighbours": KNeighborsClassifier(2),
        "tree": DecisionTreeClassifier(max_depth=2),
        "forest": RandomForestClassifier(4, max_depth=2, random_state=0),
        "forest in a pipeline": make_pipeline(StandardScaler(), ExtraTreesClassifier(4, random_state=0)),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
        "xgboost": xgboost.XGBClassifier(n_estimators=5, n_jobs=1),
    }


# xgboost takes numbers as labels
CLASSIFIED = [
    (name, labels) for name in classifiers() for labels in LABELS if (name, labels[-5:]) != ("xgboost", "words")
]


def asked(model, data, points=POINTS, **options):
    return as_predictor(model, gbce.Space.infer(data), **options)(points)


# --- answers are the model's own ----------------------------------------------------------------------------


def as_fitted(data):
    return POINTS if data is ARRAY else pd.DataFrame(POINTS, columns=NAMES)


@pytest.mark.parametrize("name", regressors())
def test_regressor_on_a_frame_answers_as_its_own_predict(name):
    model = regressors()[name].fit(FRAME, SCORE)
    said = asked(model, FRAME)
    assert said.classes is None
    np.testing.assert_array_equal(said.values, model.predict(as_fitted(FRAME)))


@pytest.mark.parametrize("name", BY_POSITION)
def test_regressor_on_an_array_answers_as_its_own_predict(name):
    model = regressors()[name].fit(ARRAY, SCORE)
    np.testing.assert_array_equal(asked(model, ARRAY).values, model.predict(POINTS))


@pytest.mark.parametrize("data", [FRAME, ARRAY], ids=["frame", "array"])
@pytest.mark.parametrize(("name", "labels"), CLASSIFIED)
def test_classifier_answers_as_its_own_predict_proba(name, labels, data):
    model = classifiers()[name].fit(data, LABELS[labels])
    rows = as_fitted(data)
    said = asked(model, data)
    assert said.classes == tuple(np.unique(LABELS[labels]).tolist())
    np.testing.assert_array_equal(said.values, model.predict_proba(rows))
    np.testing.assert_array_equal(np.array(said.classes)[said.decided], model.predict(rows))


class Homemade:
    """A model of no known make."""

    def predict(self, rows):
        return np.asarray(rows).sum(axis=1)


class HomemadeClassifier(Homemade):
    classes_ = np.array(["no", "yes"])

    def predict_proba(self, rows):
        p = 1 / (1 + np.exp(-super().predict(rows)))
        return np.column_stack([1 - p, p])

    def predict(self, rows):
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]


@pytest.mark.filterwarnings("ignore:Found whitespace")
def test_lightgbm_takes_columns_with_blanks_in_their_names():
    frame = FRAME.rename(columns=lambda name: f"{name} of it")
    model = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(frame, SCORE)
    assert list(model.feature_names_in_) != list(frame.columns)
    space = gbce.Space.infer(frame, immutable=list(frame.columns))
    np.testing.assert_array_equal(as_predictor(model, space)(space.encode(frame)).values, model.predict(frame))


def test_model_of_no_known_make_needs_only_predict():
    np.testing.assert_array_equal(asked(Homemade(), FRAME).values, POINTS.sum(axis=1))
    said = asked(HomemadeClassifier(), FRAME)
    assert said.classes == ("no", "yes")
    np.testing.assert_array_equal(said.values, HomemadeClassifier().predict_proba(POINTS))
    booster = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(FRAME, SCORE).booster_
    np.testing.assert_array_equal(asked(booster, FRAME).values, booster.predict(POINTS))


# --- frames, arrays, order of columns, dtypes ---------------------------------------------------------------


@pytest.mark.parametrize("name", BY_POSITION)
def test_model_fitted_on_a_frame_takes_data_in_an_array_and_the_other_way_round(name):
    on_frame, on_array = regressors()[name].fit(FRAME, SCORE), regressors()[name].fit(ARRAY, SCORE)
    np.testing.assert_array_equal(asked(on_frame, ARRAY).values, on_frame.predict(as_fitted(FRAME)))
    np.testing.assert_array_equal(asked(on_array, FRAME).values, on_array.predict(POINTS))


@pytest.mark.parametrize("name", regressors())
def test_columns_go_to_the_model_in_the_order_it_was_fitted_on(name):
    shuffled = ["debt", "age", "income"]
    model = regressors()[name].fit(FRAME[shuffled], SCORE)
    rows = pd.DataFrame(POINTS, columns=NAMES)
    np.testing.assert_array_equal(asked(model, FRAME).values, model.predict(rows[shuffled]))


def test_columns_labelled_by_numbers_are_kept():
    numbered = pd.DataFrame(ARRAY)
    model = LinearRegression().fit(numbered, SCORE)
    np.testing.assert_array_equal(asked(model, numbered).values, model.predict(POINTS))
    assert list(gbce.Space.infer(numbered).decode(POINTS).columns) == [0, 1, 2]


def test_dtypes_reach_the_model_and_come_back():
    data = FRAME.astype({"income": "float32"}).assign(
        sex=np.arange(120) % 2, group=np.arange(120, dtype="int8") % 3, member=np.arange(120) % 5 == 0
    )
    seen = []

    def model(rows):
        seen.append(rows.dtypes)
        return rows["age"] + rows["income"] + rows["sex"]

    space = gbce.Space.infer(data, immutable=["sex", "group", "member"])
    explainer = gbce.Explainer(model, data, space=space, sampler=QUICK)
    explanation = explainer.explain(data.iloc[[7]], gbce.AtLeast(3.0), rules=[gbce.MAP(), gbce.Mean()], seed=0)
    assert all(dtypes.equals(data.dtypes) for dtypes in seen)
    assert explanation.counterfactuals.dtypes.equals(data.dtypes)
    fixed = explanation.counterfactuals[["sex", "group", "member"]]
    pd.testing.assert_frame_equal(
        fixed.iloc[[0]].reset_index(drop=True), data.loc[[7], fixed.columns].reset_index(drop=True)
    )


def test_pipeline_on_a_raw_frame_with_codes_gets_its_codes():
    data = FRAME.assign(region=np.arange(120) % 4)
    prepare = ColumnTransformer([("region", OneHotEncoder(), ["region"]), ("rest", StandardScaler(), NAMES)])
    model = make_pipeline(prepare, LogisticRegression()).fit(data, LABELS["two words"])
    space = gbce.Space.infer(data, immutable=["region"])
    x = np.column_stack([POINTS, np.arange(200) % 4])
    rows = pd.DataFrame(POINTS, columns=NAMES).assign(region=np.arange(200) % 4)
    np.testing.assert_array_equal(as_predictor(model, space)(x).values, model.predict_proba(rows))


def test_point_reported_in_float32_is_the_point_the_model_saw():
    data = FRAME.astype("float32")
    model = RandomForestRegressor(5, random_state=0).fit(data, SCORE)
    explainer = gbce.Explainer(model, data, sampler=QUICK)
    explanation = explainer.explain(data.iloc[0], gbce.AtLeast(1.0), rules=[gbce.MAP(), gbce.Mean()], seed=0)
    np.testing.assert_array_equal(explanation.pointwise["output"], model.predict(explanation.counterfactuals))


# --- bare functions -----------------------------------------------------------------------------------------


def logistic(rows):
    return 1 / (1 + np.exp(-np.asarray(rows)[:, 0]))


def test_function_gets_a_frame_if_the_data_are_one_and_an_array_otherwise():
    np.testing.assert_array_equal(asked(lambda rows: rows["debt"], FRAME).values, POINTS[:, 2])
    np.testing.assert_array_equal(asked(lambda rows: rows[:, 2], ARRAY).values, POINTS[:, 2])


@pytest.mark.parametrize(
    "shaped", [lambda f: f[:, None], list, pd.Series, lambda f: f.astype("float32"), lambda f: f.astype(object)]
)
def test_function_may_return_numbers_in_any_container(shaped):
    f = POINTS.sum(axis=1).round(3).astype("float32")
    np.testing.assert_array_equal(asked(lambda rows: shaped(f), ARRAY).values, f)


@pytest.mark.parametrize(
    ("model", "label", "chance"),
    [
        (logistic, 1, logistic),
        (logistic, 0, lambda x: 1 - logistic(x)),
        (lambda rows: logistic(rows)[:, None], 1, logistic),
        (lambda rows: np.outer(logistic(rows), [0.5, 0.2, 0.3]), 2, lambda x: 0.3 * logistic(x)),
        (lambda rows: np.column_stack([1 - logistic(rows), logistic(rows)]), 1, logistic),
    ],
    ids=["p(1)", "1 - p(1)", "(n, 1)", "(n, 3)", "(n, 2)"],
)
def test_function_is_read_as_a_classifier_for_a_class(model, label, chance):
    explainer = gbce.Explainer(model, ARRAY, sampler=QUICK)
    explanation = explainer.explain(ARRAY[0], gbce.Class(label), rules=gbce.MAP(), seed=0)
    p = chance(explanation.draws.x)
    np.testing.assert_array_equal(explanation.draws.outputs[:, 0], p)
    np.testing.assert_array_equal(explanation.draws.loss[:, 0], -np.log(p))


def test_function_of_probabilities_is_decided_by_the_larger_one():
    explainer = gbce.Explainer(logistic, ARRAY, sampler=QUICK)
    explanation = explainer.explain(ARRAY[0], gbce.Class(1), rules=(), seed=0)
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], logistic(explanation.draws.x) > 0.5)


# --- batches and counts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_rows", [1, 7, 199, 200, 201])
def test_batches_give_the_answer_of_one_call_and_are_counted(batch_rows):
    sizes = []

    def model(rows):
        sizes.append(len(rows))
        return rows @ [1.0, 2.0, 3.0]

    predictor = as_predictor(model, gbce.Space.real(3), batch_rows=batch_rows)
    np.testing.assert_allclose(predictor(POINTS).values, POINTS @ [1.0, 2.0, 3.0], rtol=1e-12)
    assert max(sizes) == min(batch_rows, 200)
    assert sum(sizes) == predictor.meter.rows == 200
    assert len(sizes) == predictor.meter.calls == -(-200 // batch_rows)


def test_batches_change_nothing_in_an_explanation():
    model = RandomForestClassifier(4, max_depth=3, random_state=0).fit(FRAME, LABELS["three words"])
    whole, split = (
        gbce.Explainer(model, FRAME, sampler=QUICK, batch_rows=n).explain(FRAME.iloc[0], gbce.Class("top"), seed=0)
        for n in (None, 61)
    )
    np.testing.assert_array_equal(split.draws.x, whole.draws.x)
    pd.testing.assert_frame_equal(split.pointwise, whole.pointwise)
    assert split.n_model_rows == whole.n_model_rows
    assert split.n_model_calls > whole.n_model_calls


@pytest.mark.parametrize("target", [gbce.AtLeast(0.8), gbce.Class(1)])
def test_every_row_shown_to_a_model_is_counted_once(target):
    sizes = []

    def model(rows):
        sizes.append(len(rows))
        return logistic(rows)

    explainer = gbce.Explainer([model, model], ARRAY, sampler=QUICK)
    for row in ARRAY[:3]:
        sizes.clear()
        rules = [gbce.MAP(), gbce.CVaR(max_candidates=10), gbce.ChanceConstrained(max_candidates=10)]
        explanation = explainer.explain(row, target, rules=rules, seed=0)
        assert explanation.n_model_rows == sum(sizes)
        assert explanation.n_model_calls == len(sizes)


# --- forests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [2, -1])
@pytest.mark.parametrize(
    "kind", [RandomForestRegressor, ExtraTreesRegressor, RandomForestClassifier, ExtraTreesClassifier]
)
def test_forest_gives_the_same_bits_each_time_and_whatever_its_n_jobs(kind, n_jobs):
    y = LABELS["three words"] if issubclass(kind, ClassifierMixin) else SCORE
    forest = kind(9, random_state=0, n_jobs=n_jobs).fit(FRAME, y)
    alone = kind(9, random_state=0, n_jobs=1).fit(FRAME, y)
    trees, state = list(forest.estimators_), dict(vars(forest))
    rows = pd.DataFrame(np.random.default_rng(2).normal(size=(MANY_ROWS + 1_001, 3)), columns=NAMES)
    expected = alone.predict_proba(rows) if issubclass(kind, ClassifierMixin) else alone.predict(rows)
    predictor = as_predictor(forest, gbce.Space.infer(FRAME))
    for n in (1, 10, MANY_ROWS - 1, len(rows), len(rows)):
        np.testing.assert_array_equal(predictor(rows.to_numpy()[:n]).values, expected[:n])
    assert forest.n_jobs == n_jobs
    assert vars(forest).keys() == state.keys()
    assert all(vars(forest)[key] is value for key, value in state.items())
    assert all(a is b for a, b in zip(forest.estimators_, trees, strict=True))


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("labels", ["three words", "numbers"])
def test_forest_decides_as_its_own_predict_does(kind, labels):
    y = LABELS["three words"] if labels == "three words" else np.digitize(SCORE, np.quantile(SCORE, [0.3, 0.6])) - 7
    forest = kind(2, random_state=0).fit(FRAME, y)  # two trees: ties are common
    x = np.random.default_rng(2).normal(size=(500, 3))
    proba = forest.predict_proba(pd.DataFrame(x, columns=NAMES))
    assert (np.sort(proba, axis=1)[:, -1] == np.sort(proba, axis=1)[:, -2]).any()
    said = as_predictor(forest, gbce.Space.infer(FRAME))(x, use_predict=True)
    decided = np.asarray(said.classes)[said.decided]
    np.testing.assert_array_equal(decided, forest.predict(pd.DataFrame(x, columns=NAMES)))


@pytest.mark.parametrize("kind", [RandomForestRegressor, RandomForestClassifier])
@pytest.mark.parametrize("dtype", [float, "Float64"])
def test_forest_that_knows_missing_values(kind, dtype):
    """A split may do nothing but send missing values aside; and pandas has a missing value of its own."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    gone = rng.random(300) < 0.3
    y = frame["b"].to_numpy() + 3 * gone
    frame.loc[gone, "a"] = np.nan
    frame = frame.astype(dtype)
    forest = kind(20, random_state=0).fit(frame, y if kind is RandomForestRegressor else y > 1)
    assert np.isinf(np.concatenate([tree.tree_.threshold for tree in forest.estimators_])).any()
    said = as_predictor(forest, space := gbce.Space.infer(frame))(space.encode(frame))
    expected = forest.predict(frame) if kind is RandomForestRegressor else forest.predict_proba(frame)
    np.testing.assert_array_equal(said.values, expected)


def test_forest_at_the_end_of_a_pipeline_is_asked_like_a_forest():
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(9, random_state=0, n_jobs=2)).fit(FRAME, SCORE)
    x = np.random.default_rng(2).normal(size=(MANY_ROWS + 11, 3))
    predictor = as_predictor(pipeline, gbce.Space.infer(FRAME))
    expected = make_pipeline(pipeline[0], RandomForestRegressor(9, random_state=0, n_jobs=1)).fit(FRAME, SCORE)
    np.testing.assert_array_equal(predictor(x).values, expected.predict(pd.DataFrame(x, columns=NAMES)))
    assert pipeline[-1].n_jobs == 2


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda forest: GridSearchCV(forest, {"max_depth": [3, 5]}, cv=2),
        lambda forest: StackingRegressor([("forest", forest)], LinearRegression(), cv=2),
        lambda forest: TransformedTargetRegressor(forest, func=np.exp, inverse_func=np.log),
    ],
    ids=["search", "stacking", "transformed target"],
)
def test_forest_inside_another_estimator_gives_the_same_bits_each_time(wrapped):
    model = wrapped(RandomForestRegressor(25, random_state=0, n_jobs=2)).fit(ARRAY, SCORE)
    x = np.random.default_rng(2).normal(size=(MANY_ROWS + 11, 3))
    predictor = as_predictor(model, gbce.Space.infer(ARRAY))
    answers = {predictor(x).values.tobytes() for _ in range(5)}
    assert len(answers) == 1
    np.testing.assert_allclose(predictor(x).values, model.predict(x), rtol=1e-12)
    np.testing.assert_array_equal(predictor(x[:7]).values, predictor(x).values[:7])


class Doubled(RandomForestRegressor):
    def predict(self, X):
        return 2 * super().predict(X)


def test_forest_with_a_predict_of_its_own_is_believed():
    forest = Doubled(5, random_state=0, n_jobs=2).fit(ARRAY, SCORE)
    np.testing.assert_allclose(asked(forest, ARRAY).values, forest.predict(POINTS), rtol=1e-12)


def test_forest_that_learned_about_large_values_is_asked_in_its_own_precision():
    x = ARRAY * 1e6
    forest = RandomForestRegressor(5, random_state=0).fit(x, SCORE)
    edges = np.unique(np.concatenate([tree.tree_.threshold for tree in forest.estimators_]))
    points = np.column_stack([np.nextafter(edges, np.inf), edges, np.nextafter(edges, -np.inf)])
    np.testing.assert_array_equal(asked(forest, x, points).values, forest.predict(points))


class Strict(LogisticRegression):
    def predict(self, X):
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.9).astype(int)]


def test_threshold_that_no_training_row_shows_is_found():
    x = ARRAY + 6.0 * np.sign(SCORE)[:, None] * [1.0, -2.0, 0.5]  # two classes far apart
    model = Strict(C=0.01).fit(x, LABELS["two words"])
    middle = (model.predict_proba(x)[:, 1] > 0.5) & (model.predict_proba(x)[:, 1] < 0.9)
    assert not middle.any()
    explainer = gbce.Explainer(model, x, sampler=QUICK)
    explanation = explainer.explain(x[SCORE < 0][0], gbce.Class("yes"), rules=[], seed=0)
    decided = model.predict(explanation.draws.pool.x) == "yes"
    assert (decided != (model.predict_proba(explanation.draws.pool.x)[:, 1] > 0.5)).any()
    np.testing.assert_array_equal(explanation.draws.pool.reached[:, 0], decided)


def test_classifier_with_a_single_class_is_refused():
    model = RandomForestClassifier(3, random_state=0).fit(ARRAY, np.zeros(len(ARRAY)))
    with pytest.raises(ValueError, match="single class"):
        as_predictor(model, gbce.Space.infer(ARRAY))


# --- reached is what the model decides ----------------------------------------------------------------------

RULES = [gbce.MAP(), gbce.Mean(), gbce.Medoid(), gbce.DiverseSet(5)]


def explained(model, label, data=FRAME, **options):
    """Explain a row that the model does not yet give the label."""
    row = np.asarray(data)[model.predict(data) != label][0]
    explainer = gbce.Explainer(model, data, sampler=QUICK, **options)
    return explainer.explain(row, gbce.Class(label), rules=RULES, seed=0)


def share_decided_otherwise(model, label, explanation):
    """Compare draws and decisions with ``predict``; return how often the most probable class is not what it gives."""
    rows = explanation.space.decode(explanation.draws.x)
    wanted = model.predict(rows) == label
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], wanted)
    assert 0 < wanted.mean() < 1, "draws on one side only would agree by themselves"
    chosen = explanation.space.decode(np.vstack([decision.x for decision in explanation.decisions]))
    np.testing.assert_array_equal(explanation.pointwise["reached"], model.predict(chosen) == label)
    most_probable = np.asarray(model.classes_)[model.predict_proba(rows).argmax(axis=1)]
    return np.mean((most_probable == label) != wanted)


@pytest.mark.parametrize(("name", "labels"), CLASSIFIED)
def test_reached_agrees_with_predict(name, labels):
    model = classifiers()[name].fit(FRAME, LABELS[labels])
    label = model.classes_[-1].item()
    assert share_decided_otherwise(model, label, explained(model, label)) == 0


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(
    "model", [KNeighborsClassifier(2), RandomForestClassifier(2, max_features=1, random_state=3)], ids=["knn", "forest"]
)
def test_tie_that_the_model_calls_another_class_is_not_reached(model, labels):
    model.fit(FRAME, LABELS[labels])
    label = model.classes_[-1].item()
    explanation = explained(model, label)
    share_decided_otherwise(model, label, explanation)
    tied = explanation.draws.outputs[:, 0] == 0.5
    assert tied.sum() > 10
    assert not explanation.draws.reached[tied, 0].any()
    sure = explanation.draws.outputs[:, 0] > 0.5
    assert explanation.draws.reached[sure, 0].all()


def test_tie_that_the_model_calls_the_wanted_class_is_reached():
    x = np.repeat([[0.0], [1.0]], [20, 30], axis=0)
    y = np.concatenate([np.tile(["no", "yes"], 10), np.repeat(["no", "yes"], [25, 5])])
    model = GradientBoostingClassifier(init="zero", n_estimators=1, max_depth=1).fit(x, y)
    explanation = explained(model, "yes", x)
    tied = explanation.draws.outputs[:, 0] == 0.5
    assert tied.sum() > 10
    assert explanation.draws.reached[tied, 0].all()
    assert share_decided_otherwise(model, "yes", explanation) > 0


APART = np.vstack([np.random.default_rng(i).normal(centre, 0.3, (60, 2)) for i, centre in enumerate((-4, 4))])
THRESHOLDS = {
    "high": lambda wanted: FixedThresholdClassifier(LogisticRegression(), threshold=0.9, pos_label=wanted),
    "low": lambda wanted: FixedThresholdClassifier(LogisticRegression(), threshold=0.2, pos_label=wanted),
    "in a pipeline": lambda wanted: make_pipeline(StandardScaler(), THRESHOLDS["high"](wanted)),
    "tuned": lambda wanted: TunedThresholdClassifierCV(LogisticRegression(), cv=2, thresholds=[0.9, 0.95]),
}


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes")], ids=["numbers", "words"])
@pytest.mark.parametrize("name", THRESHOLDS)
def test_threshold_of_the_model_is_followed_even_where_no_row_of_the_data_shows_it(name, labels):
    model = THRESHOLDS[name](labels[1]).fit(APART, np.repeat(labels, 60))
    most_probable = np.asarray(labels)[model.predict_proba(APART).argmax(axis=1)]
    assert (most_probable == model.predict(APART)).all()
    explanation = explained(model, labels[1], APART, space=gbce.Space.real(2, scale=4.0), eta=0.5)
    assert share_decided_otherwise(model, labels[1], explanation) > 0.01


def test_threshold_on_a_tie_is_followed():
    model = FixedThresholdClassifier(KNeighborsClassifier(2), threshold=0.5, pos_label="yes").fit(
        FRAME, LABELS["two words"]
    )
    explanation = explained(model, "yes", eta=0.02)  # p = 0 must not be ruled out
    tied = explanation.draws.outputs[:, 0] == 0.5
    assert tied.sum() > 10
    assert explanation.draws.reached[tied, 0].all()
    assert share_decided_otherwise(model, "yes", explanation) > 0


class Cautious(LogisticRegression):
    """Says the middle class unless another one is very likely."""

    def predict(self, X):
        p = self.predict_proba(X)
        return np.where(p.max(axis=1) > 0.8, self.classes_[p.argmax(axis=1)], self.classes_[1])


@pytest.mark.parametrize("labels", ["three numbers", "three words"])
def test_predict_of_the_models_own_is_followed_with_three_classes(labels):
    model = Cautious().fit(FRAME, LABELS[labels])
    for label in model.classes_.tolist():
        assert share_decided_otherwise(model, label, explained(model, label)) > 0.01


def test_wanted_probability_counts_instead_of_the_decision():
    model = LogisticRegression().fit(FRAME, LABELS["three words"])
    explainer = gbce.Explainer(model, FRAME, sampler=QUICK)
    explanation = explainer.explain(FRAME.iloc[0], gbce.Class("top", probability=0.3), rules=RULES, seed=0)
    p = model.predict_proba(explanation.space.decode(explanation.draws.x))[:, 2]
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], p >= 0.3)
    assert (explanation.draws.reached[:, 0] != (p > 0.5)).any()


def test_verdict_of_each_model_is_its_own_whatever_the_order_of_its_classes():
    models = [
        LogisticRegression().fit(FRAME, LABELS["two words"]),
        DecisionTreeClassifier(max_depth=2).fit(FRAME, np.where(LABELS["two words"] == "yes", "yes", "zero")),
    ]
    explainer = gbce.Explainer(models, FRAME, sampler=QUICK)
    explanation = explainer.explain(FRAME.iloc[0], gbce.Class("yes"), rules=(), seed=0)
    rows = explanation.space.decode(explanation.draws.x)
    for k, model in enumerate(models):
        np.testing.assert_array_equal(explanation.draws.reached[:, k], model.predict(rows) == "yes")
