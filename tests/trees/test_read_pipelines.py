"""Trees behind preparation and inside other estimators: read where each column goes its own way, and not otherwise."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

import gbce
from gbce.predictors import as_predictor
from gbce.trees import agrees, read_structure
from support.edges import at_edges, check, compare

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3]
PAIR = (Y > 0).astype(int)
MANY = RNG.normal(size=(1_000, 4))
WORDS = ["p", "q", "r", "s", "t"]
FOREST = {"n_estimators": 8, "random_state": 0}


def mixed(gaps=False):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.random.default_rng(1).choice(WORDS, len(X)))
    if gaps:
        frame.loc[::6, "b"] = np.nan
        frame.loc[::7, "kind"] = None
    return frame


@pytest.mark.parametrize(
    ("steps", "nonlinear"),
    [
        ([StandardScaler()], False),
        ([MinMaxScaler(), MaxAbsScaler(), RobustScaler()], False),
        ([MinMaxScaler(clip=True)], True),
        ([PowerTransformer()], True),
        ([QuantileTransformer(n_quantiles=50)], True),
        ([KBinsDiscretizer(6, encode="ordinal", strategy="uniform")], True),
        ([Binarizer()], True),
        ([FunctionTransformer(np.arcsinh), StandardScaler()], True),
        ([FunctionTransformer(np.negative)], True),
        ([SelectKBest(f_regression, k=3)], False),
        ([make_union(StandardScaler(), FunctionTransformer(np.tanh))], True),
        ([make_pipeline(StandardScaler(), "passthrough")], False),
    ],
)
def test_numbers_that_rise_or_fall(steps, nonlinear):
    model = make_pipeline(*steps, RandomForestRegressor(**FOREST)).fit(X, Y)
    inside = check(model, MANY)
    assert inside.nonlinear == (frozenset(range(4)) if nonlinear else frozenset())
    assert inside.stepwise == frozenset()


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(drop="first"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False, categories=[["p", "q"]]),
        OneHotEncoder(min_frequency=70, handle_unknown="infrequent_if_exist"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, categories=[["t", "q"]]),
        OrdinalEncoder(min_frequency=60),
        TargetEncoder(cv=3),
    ],
)
def test_levels(encoder):
    prepare = make_column_transformer((encoder, ["kind"]), remainder="passthrough")
    frame = mixed()
    inside = check(make_pipeline(prepare, RandomForestRegressor(**FOREST)).fit(frame, Y), frame)
    assert inside.stepwise == {4}


def test_imputers_and_marks_of_what_was_missing():
    frame = mixed(gaps=True)
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(sparse_output=False))
    prepare = make_column_transformer((numbers, make_column_selector(dtype_include="number")), (words, ["kind"]))
    inside = check(make_pipeline(prepare, RandomForestRegressor(**FOREST)).fit(frame, Y), frame)
    assert inside.stepwise == {4}
    of_frames = make_pipeline(prepare, RobustScaler()).set_output(transform="pandas")
    inside = check(make_pipeline(of_frames, HistGradientBoostingRegressor(max_iter=8)).fit(frame, Y), frame)
    assert inside.stepwise == {4}


def test_steps_that_keep_columns_in_their_places_do_not_hide_which_are_levels():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(code=RNG.choice([1.0, 4.0, 7.0], len(X)))
    one_hot = make_column_transformer((OneHotEncoder(), [4]), remainder="passthrough")
    model = make_pipeline(SimpleImputer(), one_hot, RandomForestRegressor(**FOREST)).fit(frame, Y)
    assert check(model, frame).stepwise == {4}


@pytest.mark.parametrize(
    "step",
    [
        PolynomialFeatures(),
        PCA(2),
        FunctionTransformer(np.abs),
        FunctionTransformer(lambda x: x),
        SimpleImputer(missing_values=0.0),
    ],
)
def test_what_is_not_columnwise_is_not_read(step):
    model = make_pipeline(step, RandomForestRegressor(**FOREST)).fit(X, Y)
    assert read_structure(model, gbce.Space.infer(X)) is None


def test_bins_with_a_column_each_are_levels():
    bins = KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform")
    assert check(make_pipeline(bins, LinearRegression()).fit(X, Y), X).stepwise == frozenset(range(4))


# --- estimators around others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("around", "link"),
    [
        ({"func": np.log, "inverse_func": np.exp}, "exp"),
        ({"func": np.log1p, "inverse_func": np.expm1}, "expm1"),
        ({"transformer": StandardScaler()}, "identity"),
        ({"transformer": MinMaxScaler(feature_range=(-1, 4))}, "identity"),
        ({}, "identity"),
    ],
)
def test_transformed_targets(around, link):
    core = make_pipeline(StandardScaler(), RandomForestRegressor(**FOREST))
    model = TransformedTargetRegressor(core, **around).fit(X, np.abs(Y) + 0.1)
    assert check(model, MANY).link == link


def test_other_transformed_targets_are_not_read():
    space = gbce.Space.infer(X)
    for around in ({"func": np.sqrt, "inverse_func": np.square}, {"transformer": QuantileTransformer(n_quantiles=9)}):
        model = TransformedTargetRegressor(RandomForestRegressor(**FOREST), **around).fit(X, np.abs(Y))
        assert read_structure(model, space) is None


@pytest.mark.parametrize(
    "core",
    [
        RandomForestClassifier(**FOREST, min_samples_leaf=4),
        HistGradientBoostingClassifier(max_iter=8),
        GradientBoostingClassifier(n_estimators=8, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
def test_one_calibrated_classifier(core):
    model = CalibratedClassifierCV(FrozenEstimator(core.fit(X, PAIR)), ensemble=False).fit(X[::2], PAIR[::2])
    assert check(model, MANY).link == "logistic"


def test_several_calibrated_classifiers_and_steps_are_not_read():
    space, core = gbce.Space.infer(X), RandomForestClassifier(**FOREST)
    for options in ({"cv": 2}, {"cv": 2, "ensemble": False, "method": "isotonic"}):
        assert read_structure(CalibratedClassifierCV(core, **options).fit(X, PAIR), space) is None
    three = CalibratedClassifierCV(core, cv=2, ensemble=False).fit(X, np.digitize(Y, [-1, 1]))
    assert read_structure(three, space) is None


def test_a_threshold_of_its_own_changes_decisions_and_no_probability():
    model = FixedThresholdClassifier(RandomForestClassifier(**FOREST), threshold=0.8).fit(X, PAIR)
    space = gbce.Space.infer(X)
    predictor = as_predictor(model, space)
    assert predictor.decide_always
    assert agrees(read_structure(model, space), MANY, predictor(MANY).values)


def test_searches():
    search = GridSearchCV(make_pipeline(StandardScaler(), RandomForestClassifier(**FOREST)), {}, cv=2).fit(X, PAIR)
    check(search, MANY)


def test_classes_given_to_a_model_of_scores():
    space = gbce.Space.infer(X)
    model = gbce.classifier(RandomForestRegressor(**FOREST).fit(X, Y), ["no", "yes"], logits=True)
    compare(read_structure(model, space), as_predictor(model, space), MANY)


# --- whether it agrees -----------------------------------------------------------------------------------------------


def test_agreement_is_to_rounding_and_nothing_else():
    space = gbce.Space.infer(X)
    model = RandomForestClassifier(**FOREST).fit(X, np.where(PAIR, "yes", "no"))
    inside, said = read_structure(model, space), model.predict_proba(MANY)
    assert agrees(inside, MANY, said)
    assert agrees(inside, MANY, said[:, 1], "yes")
    assert agrees(inside, MANY, said * (1 + 1e-15))
    assert not agrees(inside, MANY, said[:, 0], "yes")
    assert not agrees(inside, MANY, said[:, 0], "perhaps")
    assert not agrees(inside, MANY, said[:, 1])
    assert not agrees(inside, MANY, said + 1e-6)
    assert not agrees(inside, MANY[:, :2], said)  # rows that the model does not take
    other = RandomForestClassifier(8, random_state=1).fit(X, PAIR)
    assert not agrees(inside, MANY, other.predict_proba(MANY))


def test_edges_of_splits_behind_a_scaler():
    model = make_pipeline(StandardScaler(), RandomForestRegressor(**FOREST)).fit(X, Y)
    space = gbce.Space.infer(X)
    inside, scaler = read_structure(model, space), model[0]
    scaled = at_edges(scaler.transform(MANY), inside.parts, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(inside, as_predictor(model, space), scaler.inverse_transform(scaled))
