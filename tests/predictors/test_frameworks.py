"""One fitted model of every make, asked through a predictor and by its own words: the answers are the same."""

import subprocess
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.special import expit, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import gbce
from gbce.predictors import PredictionError, as_predictor
from gbce.predictors._forests import MANY_ROWS
from support.tables import mixed_frame, score_of

RAW, PLAIN = mixed_frame(), mixed_frame(words="text")
NEW, NEW_PLAIN = mixed_frame(60, seed=1), mixed_frame(60, seed=1, words="text")
SPACE, PLAIN_SPACE = gbce.Space.infer(RAW), gbce.Space.infer(PLAIN)
X = SPACE.encode(NEW)
SCORE = score_of(RAW)
TWO, THREE = (SCORE > 0).astype(int), np.digitize(SCORE, [-1, 1])
WORDS = {2: np.where(SCORE > 0, "yes", "no"), 3: np.array(["low", "mid", "top"])[THREE]}
NUMBERS = RAW[["age", "visits", "debt"]].to_numpy(float)
NEW_NUMBERS = NEW[["age", "visits", "debt"]].to_numpy(float)
QUICK = gbce.Importance(n_candidates=500, n_draws=200)


def asked(model, x=X, space=SPACE, **options):
    return as_predictor(model, space, **options)(x, use_predict=True)


def labels_of(said):
    return np.array(said.classes, dtype=object)[said.decided]


def agrees(said, p, labels=None, classes=None):
    np.testing.assert_array_equal(said.values, p)
    if labels is not None:
        assert labels_of(said).tolist() == np.ravel(labels).tolist()
    if classes is not None:
        assert said.classes == tuple(classes)


# --- scikit-learn -------------------------------------------------------------------------------------------


def on_raw_frames(last):
    encode = ColumnTransformer([("words", OneHotEncoder(), ["region"])], remainder=StandardScaler())
    return make_pipeline(encode, last)


@pytest.mark.parametrize(
    ("frame", "new", "space"), [(RAW, NEW, SPACE), (PLAIN, NEW_PLAIN, PLAIN_SPACE)], ids=["category", "text"]
)
@pytest.mark.parametrize("y", [TWO, WORDS[2], WORDS[3]], ids=["two numbers", "two words", "three words"])
@pytest.mark.parametrize(
    "last", [LogisticRegression(), RandomForestClassifier(5, random_state=0)], ids=["logistic", "forest"]
)
def test_pipeline_on_raw_frames(frame, new, space, y, last):
    model = on_raw_frames(last).fit(frame, y)
    agrees(asked(model, space=space), model.predict_proba(new), model.predict(new), np.unique(y).tolist())
    shuffled = list(reversed(frame.columns))
    model.fit(frame[shuffled], y)
    agrees(asked(model, space=space), model.predict_proba(new[shuffled]))


def test_pipeline_that_regresses_on_raw_frames():
    model = on_raw_frames(LinearRegression()).fit(RAW, SCORE)
    agrees(asked(model), model.predict(NEW))


def test_forest_after_an_encoder_keeps_its_fast_path():
    model = on_raw_frames(RandomForestClassifier(9, random_state=0, n_jobs=2)).fit(RAW, WORDS[3])
    predictor = as_predictor(model, SPACE)
    predictor(X)
    assert predictor.ask.short
    x = np.repeat(X, MANY_ROWS // len(X) + 2, axis=0)
    alone = on_raw_frames(RandomForestClassifier(9, random_state=0, n_jobs=1)).fit(RAW, WORDS[3])
    np.testing.assert_array_equal(predictor(x).values, alone.predict_proba(SPACE.decode(x)))


SCORERS = {
    "LinearSVC": LinearSVC(),
    "ridge": RidgeClassifier(),
    "perceptron": Perceptron(),
    "hinge": SGDClassifier(random_state=0),
    "SVC": SVC(),
    "search": GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2),
}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", SCORERS)
def test_score_is_turned_into_a_share_and_the_decision_is_the_models(name, count):
    model = on_raw_frames(SCORERS[name]).fit(RAW, WORDS[count])
    score = model.decision_function(NEW)
    p = np.column_stack([1 - expit(score), expit(score)]) if count == 2 else softmax(score, axis=1)
    predictor = as_predictor(model, SPACE)
    agrees(predictor(X), p, model.predict(NEW), model.classes_.tolist())
    assert predictor.decide_always == (name == "SVC")


def test_svm_without_probabilities_is_explained_and_its_own_decision_counts():
    model = SVC().fit(NUMBERS, WORDS[3])
    explainer = gbce.Explainer(model, NUMBERS, sampler=QUICK, eta=2.0)
    explanation = explainer.explain(NUMBERS[THREE == 1][0], gbce.Class("top"), rules=[], seed=0)
    decided = model.predict(explanation.draws.x) == "top"
    assert 0 < decided.mean() < 1
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], decided)


def test_scores_by_pairs_are_refused_with_the_way_out():
    model = SVC(decision_function_shape="ovo").fit(NUMBERS, WORDS[3])
    with pytest.raises(ValueError, match=r"score for each pair.*'ovr' to have one for each class"):
        as_predictor(model, gbce.Space.infer(NUMBERS))
    model.decision_function_shape = "ovr"
    as_predictor(model, gbce.Space.infer(NUMBERS))


def test_calibrated_classifier():
    model = CalibratedClassifierCV(on_raw_frames(LinearSVC()), cv=2).fit(RAW, WORDS[3])
    agrees(asked(model), model.predict_proba(NEW), model.predict(NEW), ["low", "mid", "top"])


def test_several_outcomes_at_once_are_refused():
    model = MultiOutputClassifier(LogisticRegression()).fit(NUMBERS, np.column_stack([TWO, 1 - TWO]))
    with pytest.raises(TypeError, match="several outcomes at once"):
        as_predictor(model, gbce.Space.infer(NUMBERS))


# --- boosting -----------------------------------------------------------------------------------------------

LIGHT = {"n_estimators": 5, "verbose": -1, "n_jobs": 1, "min_child_samples": 5}
EXTREME = {"n_estimators": 5, "n_jobs": 1, "enable_categorical": True}
BOOSTED = {
    "lightgbm": (lightgbm.LGBMClassifier(**LIGHT), lightgbm.LGBMRegressor(**LIGHT)),
    "xgboost": (xgboost.XGBClassifier(**EXTREME), xgboost.XGBRegressor(**EXTREME)),
}


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", BOOSTED)
def test_boosted_estimators_with_native_categories(name, y):
    classifier, regressor = BOOSTED[name]
    classifier.fit(RAW, y)
    agrees(asked(classifier), classifier.predict_proba(NEW), classifier.predict(NEW), range(len(set(y))))
    regressor.fit(RAW, SCORE)
    agrees(asked(regressor), regressor.predict(NEW))
    assert not np.array_equal(
        regressor.predict(NEW), regressor.predict(NEW.assign(region=NEW["region"].iloc[::-1].values))
    )


def test_lightgbm_booster():
    def train(objective, y, **options):
        data = lightgbm.Dataset(RAW, label=y)
        return lightgbm.train({"objective": objective, "verbose": -1, "num_threads": 1, **options}, data, 5)

    two, three, number = train("binary", TWO), train("multiclass", THREE, num_class=3), train("regression", SCORE)
    p = two.predict(NEW)
    agrees(asked(two), np.column_stack([1 - p, p]), p > 0.5, (0, 1))
    agrees(asked(three), three.predict(NEW), three.predict(NEW).argmax(axis=1), (0, 1, 2))
    agrees(asked(number), number.predict(NEW))
    loaded = lightgbm.Booster(model_str=three.model_to_string())
    agrees(asked(loaded), three.predict(NEW), classes=(0, 1, 2))
    assert asked(train("cross_entropy", TWO)).classes is None
    shuffled = list(reversed(RAW.columns))
    other = lightgbm.train({"verbose": -1}, lightgbm.Dataset(RAW[shuffled], label=SCORE), 5)
    agrees(asked(other), other.predict(NEW[shuffled]))


def test_lightgbm_booster_trained_on_an_array_takes_a_frame_of_as_many_columns():
    booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(NUMBERS, label=SCORE), 5)
    frame = pd.DataFrame(NUMBERS, columns=["a", "b", "c"])
    agrees(asked(booster, NEW_NUMBERS, gbce.Space.infer(frame)), booster.predict(NEW_NUMBERS))
    agrees(asked(booster, NEW_NUMBERS, gbce.Space.infer(NUMBERS)), booster.predict(NEW_NUMBERS))
    with pytest.raises(ValueError, match="3 columns, but the data have 2"):
        as_predictor(booster, gbce.Space.infer(frame[["a", "b"]]))


def xgboost_booster(objective, y, data=RAW, **options):
    matrix = xgboost.DMatrix(data, label=y, enable_categorical=True)
    return xgboost.train({"objective": objective, "nthread": 1, **options}, matrix, 5)


def own_words(booster, frame=NEW, **options):
    return booster.predict(xgboost.DMatrix(frame, enable_categorical=True), **options)


def test_xgboost_booster():
    two, number = xgboost_booster("binary:logistic", TWO), xgboost_booster("reg:squarederror", SCORE)
    three = xgboost_booster("multi:softprob", THREE, num_class=3)
    p = own_words(two)
    agrees(asked(two), np.column_stack([1.0 - p.astype(float), p]), p > 0.5, (0, 1))
    agrees(asked(three), own_words(three), own_words(three).argmax(axis=1), (0, 1, 2))
    agrees(asked(number), own_words(number))
    shuffled = list(reversed(RAW.columns))
    other = xgboost_booster("reg:squarederror", SCORE, RAW[shuffled])
    agrees(asked(other), own_words(other, NEW[shuffled]))


@pytest.mark.parametrize("objective", ["multi:softmax", "binary:logitraw", "binary:hinge"])
def test_xgboost_booster_that_returns_labels_or_margins_is_read_by_its_margins(objective):
    many = objective.startswith("multi")
    booster = xgboost_booster(objective, THREE if many else TWO, **({"num_class": 3} if many else {}))
    margin = own_words(booster, output_margin=True).astype(float)
    p = softmax(margin, axis=1) if many else np.column_stack([1 - expit(margin), expit(margin)])
    said = asked(booster)
    np.testing.assert_allclose(said.values, p, atol=1e-12)
    decided = own_words(booster) if objective != "binary:logitraw" else margin > 0
    np.testing.assert_array_equal(said.decided, decided.astype(int))


def test_xgboost_booster_trained_on_arrays():
    booster = xgboost.train({}, xgboost.DMatrix(NUMBERS, label=SCORE), 5)
    expected = booster.predict(xgboost.DMatrix(NEW_NUMBERS))
    for data in (NUMBERS, pd.DataFrame(NUMBERS, columns=["a", "b", "c"])):
        agrees(asked(booster, NEW_NUMBERS, gbce.Space.infer(data)), expected)
    with pytest.raises(ValueError, match="3 columns, but the data have 4"):
        as_predictor(booster, gbce.Space.real(4))
    named = xgboost.train({}, xgboost.DMatrix(NUMBERS, label=SCORE, feature_names=["a", "b", "c"]), 5)
    agrees(asked(named, NEW_NUMBERS, gbce.Space.infer(NUMBERS)), expected)


@pytest.mark.parametrize("words", ["category", "text"])
def test_catboost(words):
    catboost = pytest.importorskip("catboost")
    data, new, space = (RAW, NEW, SPACE) if words == "category" else (PLAIN, NEW_PLAIN, PLAIN_SPACE)
    quiet = {"iterations": 5, "verbose": 0, "allow_writing_files": False, "thread_count": 1, "cat_features": ["region"]}
    for y in (TWO, WORDS[2], WORDS[3]):
        model = catboost.CatBoostClassifier(**quiet).fit(data, y)
        agrees(asked(model, space=space), model.predict_proba(new), model.predict(new), np.unique(y).tolist())
    regressor = catboost.CatBoostRegressor(**quiet).fit(data, SCORE)
    agrees(asked(regressor, space=space), regressor.predict(new))
    for loss, y in (("Logloss", WORDS[2]), ("MultiClass", WORDS[3])):
        core = catboost.CatBoost({**quiet, "loss_function": loss}).fit(data, y)
        p = core.predict(new, prediction_type="Probability")
        agrees(asked(core, space=space), p, core.predict(new, prediction_type="Class"), np.unique(y).tolist())
    core = catboost.CatBoost({**quiet, "loss_function": "RMSE"}).fit(data, SCORE)
    agrees(asked(core, space=space), core.predict(new))
    shuffled = list(reversed(data.columns))
    core.fit(data[shuffled], SCORE)
    agrees(asked(core, space=space), core.predict(new[shuffled]))


def test_catboost_with_codes_for_categories_threshold_and_no_fit():
    catboost = pytest.importorskip("catboost")
    quiet = {"iterations": 5, "verbose": 0, "allow_writing_files": False}
    codes = pd.DataFrame(NUMBERS, columns=["a", "b", "c"]).astype({"b": int})
    model = catboost.CatBoostClassifier(**quiet, cat_features=["b"]).fit(codes, WORDS[2])
    new = pd.DataFrame(NEW_NUMBERS, columns=codes.columns).astype({"b": int})
    model.set_probability_threshold(0.9)
    for space in (gbce.Space.infer(codes.astype(float)), gbce.Space.infer(NUMBERS)):
        predictor = as_predictor(model, space)
        agrees(predictor(NEW_NUMBERS), model.predict_proba(new), model.predict(new))
        assert predictor.decide_always
    with pytest.raises(Exception, match="is not fitted: call fit"):
        as_predictor(catboost.CatBoostRegressor(), gbce.Space.real(2))


@pytest.mark.filterwarnings("ignore")
def test_flaml_classifies_and_regresses():
    from flaml import AutoML

    options = {"max_iter": 2, "time_budget": 20, "estimator_list": ["lgbm"], "verbose": 0, "seed": 0, "n_jobs": 1}
    for y in (WORDS[2], THREE):
        model = AutoML()
        model.fit(RAW, y, task="classification", **options)
        agrees(asked(model), model.predict_proba(NEW), model.predict(NEW), np.unique(y).tolist())
    model = AutoML()
    model.fit(RAW, SCORE, task="regression", **options)
    said = asked(model)
    agrees(said, model.predict(NEW))
    assert said.classes is None


# --- networks -----------------------------------------------------------------------------------------------


def test_torch_module():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    space = gbce.Space.infer(NUMBERS)
    frozen = torch.nn.Dropout(0.5).eval()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), frozen, torch.nn.Linear(4, 1))
    rows = torch.tensor(NEW_NUMBERS, dtype=torch.float32)
    modes = [part.training for part in net.modules()]
    said = asked(net, NEW_NUMBERS, space)
    assert [part.training for part in net.modules()] == modes
    assert not frozen.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in net.parameters())
    with torch.no_grad():
        agrees(said, net.eval()(rows)[:, 0].double().numpy())
    net.train()
    wide = torch.nn.Linear(3, 3).double()
    p = softmax(wide(torch.tensor(NEW_NUMBERS)).detach().numpy(), axis=1)
    agrees(
        asked(gbce.classifier(wide, ["low", "mid", "top"], logits=True), NEW_NUMBERS, space),
        p,
        classes=("low", "mid", "top"),
    )
    flat = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    assert asked(flat, NEW_NUMBERS, space).values.shape == (60,)
    explanation = gbce.Explainer(gbce.classifier(net, ["no", "yes"], logits=True), NUMBERS, sampler=QUICK).explain(
        NUMBERS[0], gbce.Class("yes"), rules=[], seed=0
    )
    assert np.isfinite(explanation.draws.loss).all()


def test_torch_module_that_cannot_be_read_says_why():
    torch = pytest.importorskip("torch")
    with pytest.raises(PredictionError, match=r"Linear takes numbers only.*\['region'\]"):
        asked(torch.nn.Linear(4, 1))
    with pytest.raises(PredictionError, match="must return one tensor, but returned tuple"):
        asked(torch.nn.LSTM(3, 2), NEW_NUMBERS, gbce.Space.infer(NUMBERS))


def session_of(model, first, **options):
    import onnxruntime
    import skl2onnx

    content = skl2onnx.to_onnx(model, first, target_opset=18, **options).SerializeToString()  # the lowest runtime's
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def test_onnx_session_of_one_tensor():
    space, rows = gbce.Space.infer(NUMBERS), NEW_NUMBERS.astype("float32")
    regressor = LinearRegression().fit(NUMBERS, SCORE)
    session = session_of(regressor, rows[:1])
    agrees(asked(session, NEW_NUMBERS, space), session.run(None, {"X": rows})[0][:, 0])
    np.testing.assert_allclose(asked(session, NEW_NUMBERS, space).values, regressor.predict(NEW_NUMBERS), atol=1e-4)
    with pytest.raises(ValueError, match="takes 3 columns, but the data have 2"):
        as_predictor(session, gbce.Space.real(2))


def test_onnx_session_of_integers_is_not_given_parts_of_numbers():
    from skl2onnx.common.data_types import Int64TensorType

    whole = np.round(10 * NUMBERS)
    space, session = (
        gbce.Space.infer(NUMBERS),
        session_of(LinearRegression().fit(whole, SCORE), None, initial_types=[("rows", Int64TensorType([None, 3]))]),
    )
    agrees(asked(session, whole, space), session.run(None, {"rows": whole.astype("int64")})[0][:, 0])
    for bad in (whole + 0.7, np.full((2, 3), np.nan)):
        with pytest.raises(PredictionError, match=r"takes tensor\(int64\) as 'rows', in which .* is another number"):
            as_predictor(session, space)(bad)


@pytest.mark.parametrize("y", [TWO, THREE + 1, WORDS[3]], ids=["two", "numbers from one", "words"])
def test_onnx_session_that_classifies_by_dictionaries(y):
    model = LogisticRegression().fit(NUMBERS, y)
    said = asked(session_of(model, NUMBERS[:1].astype("float32")), NEW_NUMBERS, gbce.Space.infer(NUMBERS))
    np.testing.assert_allclose(said.values, model.predict_proba(NEW_NUMBERS), atol=1e-5)
    assert said.classes == tuple(np.unique(y).tolist())
    assert labels_of(said).tolist() == model.predict(NEW_NUMBERS).tolist()


def test_onnx_session_that_classifies_by_a_tensor():
    space, tensor = gbce.Space.infer(NUMBERS), {"zipmap": False}
    first = NUMBERS[:1].astype("float32")
    model = LogisticRegression().fit(NUMBERS, THREE)
    said = asked(session_of(model, first, options=tensor), NEW_NUMBERS, space)
    np.testing.assert_allclose(said.values, model.predict_proba(NEW_NUMBERS), atol=1e-5)
    assert labels_of(said).tolist() == model.predict(NEW_NUMBERS).tolist()
    words = session_of(model.fit(NUMBERS, WORDS[3]), first, options=tensor)
    with pytest.raises(TypeError, match=r"not which column is which label.*gbce.classifier"):
        as_predictor(words, space)
    said = asked(gbce.classifier(words, ["low", "mid", "top"]), NEW_NUMBERS, space)
    assert labels_of(said).tolist() == model.predict(NEW_NUMBERS).tolist()
    shifted = session_of(model.fit(NUMBERS, THREE + 1), first, options=tensor)
    with pytest.raises(PredictionError, match="returned the label 3, which is not among"):
        asked(shifted, NEW_NUMBERS, space)
    assert asked(gbce.classifier(shifted, [1, 2, 3]), NEW_NUMBERS, space).classes == (1, 2, 3)
    assert asked(gbce.classifier(shifted, ["a", "b", "c"]), NEW_NUMBERS, space).classes == ("a", "b", "c")
    columns = session_of(model, first, options={"zipmap": "columns"})
    with pytest.raises(TypeError, match="explain a function of rows"):
        as_predictor(columns, space)


# scikit-learn 1.6 warns whoever reads the columns of a remainder, as skl2onnx does
@pytest.mark.filterwarnings(r"ignore:\s*The format of the columns of the 'remainder':FutureWarning")
def test_onnx_session_with_an_input_per_column():
    narrow = {"age": "float32"}  # a classifier of doubles is not converted to a valid graph
    frame, new = (f.rename(columns={"debt": "debt left"}).astype(narrow) for f in (PLAIN, NEW_PLAIN))
    space = gbce.Space.infer(frame)
    model = on_raw_frames(LogisticRegression()).fit(frame, WORDS[2])
    session = session_of(model, frame[:1])
    said = asked(session, space=space)
    np.testing.assert_allclose(said.values, model.predict_proba(new), atol=1e-4)
    assert said.classes == ("no", "yes")
    with pytest.raises(ValueError, match="one input per column"):
        as_predictor(session, gbce.Space.real(4))


# --- classes for what returns numbers -----------------------------------------------------------------------


def test_function_is_given_classes():
    space = gbce.Space.real(3)
    s = NEW_NUMBERS[:, 0]
    p = np.column_stack([1 - expit(s), expit(s)])
    for wrapped in (
        gbce.classifier(lambda rows: expit(rows[:, 0]), ["no", "yes"]),
        gbce.classifier(lambda rows: rows[:, :1], np.array(["no", "yes"]), logits=True),
    ):
        agrees(asked(wrapped, NEW_NUMBERS, space), p, np.where(s > 0, "yes", "no"), ("no", "yes"))
    with pytest.raises(PredictionError, match="is not a probability"):
        asked(gbce.classifier(lambda rows: rows[:, 0], ["no", "yes"]), NEW_NUMBERS, space)
    for logits in (False, True):
        with pytest.raises(PredictionError, match="one number per row for the classes"):
            asked(gbce.classifier(lambda rows: expit(rows[:, 0]), [1, 2, 3], logits=logits), NEW_NUMBERS, space)


def test_booster_with_an_objective_of_its_own_is_given_classes():
    def logistic(margin, data):
        p = expit(margin)
        return p - data.get_label(), p * (1 - p)

    booster = xgboost.train({"base_score": 0.0}, xgboost.DMatrix(NUMBERS, label=TWO), 5, obj=logistic)
    said = asked(gbce.classifier(booster, ["no", "yes"], logits=True), NEW_NUMBERS, gbce.Space.real(3))
    np.testing.assert_allclose(said.values[:, 1], expit(booster.predict(xgboost.DMatrix(NEW_NUMBERS)).astype(float)))


def test_classes_of_a_classifier_are_renamed():
    model = xgboost.XGBClassifier(n_estimators=5).fit(NUMBERS, TWO)
    said = asked(gbce.classifier(model, ["no", "yes"]), NEW_NUMBERS, gbce.Space.real(3))
    agrees(said, model.predict_proba(NEW_NUMBERS), np.where(model.predict(NEW_NUMBERS), "yes", "no"), ("no", "yes"))
    for wish, words in (
        ({"classes": [1, 2, 3]}, "cannot rename"),
        ({"classes": [1, 2], "logits": True}, "leave out logits"),
    ):
        with pytest.raises(ValueError, match=words):
            as_predictor(gbce.classifier(model, **wish), gbce.Space.real(3))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"classes": "yes"}, TypeError, "must be a list of labels"),
        ({"classes": ["yes"]}, ValueError, "at least two classes"),
        ({"classes": ["yes", "yes"]}, ValueError, "contains a duplicate"),
        ({"classes": [0, 1], "logits": "no"}, TypeError, "logits must be True or False"),
    ],
)
def test_impossible_classes_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        gbce.classifier(len, **arguments)


def test_no_framework_is_imported_for_a_function():
    code = """
import sys, gbce, numpy as np
gbce.Explainer(lambda rows: rows.sum(axis=1), np.eye(3), sampler=gbce.Importance(n_candidates=200, n_draws=100))
loaded = {"torch", "onnxruntime", "catboost", "lightgbm", "xgboost", "flaml", "httpx"} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
