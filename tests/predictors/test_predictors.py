"""Models of every make: asked in their own columns and dtypes, answered to the bit, and counted."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce
from gbce.predictors import as_predictor
from support.makes import ARRAY, CLASSIFIED, FRAME, LABELS, NAMES, POINTS, QUICK, SCORE, asked, classifiers, logistic

BY_POSITION = ["linear", "pipeline", "forest", "lightgbm", "xgboost"]  # regressors that need no column names


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


# --- answers are the model's own -------------------------------------------------------------------------------------


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


# --- frames, arrays, order of columns, dtypes ------------------------------------------------------------------------


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


# --- bare functions --------------------------------------------------------------------------------------------------


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


# --- batches and counts ----------------------------------------------------------------------------------------------


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
