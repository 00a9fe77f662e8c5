"""Tree ensembles return their own predictions, to the last bit, where their trees are walked without checks."""

import pickle

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.predictors import as_predictor
from gbce.predictors._forests import FEW_ROWS
from support.makes import ARRAY, FRAME, LABELS, NAMES, QUICK, SCORE

SIZES = (1, 2, 10, FEW_ROWS - 1, FEW_ROWS, FEW_ROWS + 1)
FORESTS = [RandomForestRegressor, ExtraTreesRegressor, RandomForestClassifier, ExtraTreesClassifier]
BOOSTED = {
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5),
    "histogram of counts": lambda: HistGradientBoostingRegressor(loss="poisson", max_iter=20, min_samples_leaf=5),
    "histogram of classes": lambda: HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=5),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=20, min_child_samples=5, verbose=-1),
    "lightgbm of classes": lambda: lightgbm.LGBMClassifier(n_estimators=20, min_child_samples=5, verbose=-1),
}


def fitted(model, data=ARRAY, labels="three words"):
    loss = getattr(model, "loss", None)
    wish = LABELS[labels] if isinstance(model, ClassifierMixin) else SCORE - SCORE.min() if loss == "poisson" else SCORE
    return model.fit(data, wish)


def own(model, rows):
    return model.predict_proba(rows) if is_classifier(model) else model.predict(rows)


def assert_same(model, data, points, sizes=SIZES):
    """The predictor gives the model's own bits, and its own labels, whatever the size of the batch."""
    predictor = as_predictor(model, gbce.Space.infer(data))
    for n in sizes:
        part = points[np.arange(n) % len(points)]
        rows = pd.DataFrame(part, columns=NAMES) if isinstance(data, pd.DataFrame) else part
        said = predictor(part, use_predict=True)
        assert said.values.tobytes() == np.ascontiguousarray(own(model, rows), dtype=float).tobytes()
        if said.classes is not None:
            np.testing.assert_array_equal(np.asarray(said.classes)[said.decided], model.predict(rows))


def beside(thresholds):
    """Rows exactly on thresholds, and one float64 and one float32 beside them."""
    rng = np.random.default_rng(3)
    edges = rng.choice(thresholds[np.isfinite(thresholds)], (100, 3))
    single = edges.astype(np.float32)
    up, down = np.nextafter(single, np.float32(np.inf)), np.nextafter(single, np.float32(-np.inf))
    return np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), single, up, down])


@pytest.fixture
def short(monkeypatch):
    """Count the rows of calls of LightGBM in one thread, which the estimator itself does not make."""
    seen = []
    predict = lightgbm.Booster.predict

    def alone(self, data, *args, **options):
        if options.get("num_threads") == 1 and "objective" not in options:  # the estimator hands on all its options
            seen.append(len(data))
        return predict(self, data, *args, **options)

    monkeypatch.setattr(lightgbm.Booster, "predict", alone)
    return seen


@pytest.mark.parametrize("data", [ARRAY, FRAME], ids=["array", "frame"])
@pytest.mark.parametrize("kind", FORESTS)
def test_forest_on_thresholds_and_beside_them(kind, data):
    forest = fitted(kind(15, random_state=0), data)
    points = beside(np.concatenate([tree.tree_.threshold for tree in forest.estimators_]))
    for start in range(0, len(points), FEW_ROWS):
        assert_same(forest, data, points[start : start + FEW_ROWS], (FEW_ROWS,))
    assert_same(forest, data, points)


@pytest.mark.parametrize("kind", [RandomForestRegressor, RandomForestClassifier])
def test_stumps_and_single_leaves(kind):
    assert_same(fitted(kind(5, max_depth=1, random_state=0)), ARRAY, ARRAY, (1, 9))
    assert_same(fitted(kind(5, min_samples_leaf=100, random_state=0)), ARRAY, ARRAY, (1, 9))
    assert_same(RandomForestRegressor(5).fit(ARRAY, np.full(len(ARRAY), -0.0)), ARRAY, ARRAY, (1, 9))


def test_missing_values_are_left_to_the_forest():
    holes = np.where(np.random.default_rng(0).random(ARRAY.shape) < 0.2, np.nan, ARRAY)
    forest = fitted(RandomForestRegressor(9, random_state=0), holes)
    predictor = as_predictor(forest, gbce.Space.infer(holes))
    rows = holes[np.isnan(holes).any(axis=1)][:FEW_ROWS]
    np.testing.assert_array_equal(predictor(rows).values, forest.predict(rows))


class Doubled(RandomForestRegressor):
    def predict(self, X):
        return 2 * super().predict(X)


class DoubledHist(HistGradientBoostingRegressor):
    def _raw_predict(self, X, n_threads=None):
        return 2 * super()._raw_predict(X, n_threads)


class DoubledLightGBM(lightgbm.LGBMRegressor):
    def predict(self, X, **options):
        return 2 * super().predict(X, **options)


@pytest.mark.parametrize("model", [Doubled(3, n_jobs=1), DoubledHist(), DoubledLightGBM(verbose=-1)])
def test_subclass_is_asked_itself(model, short):
    assert_same(fitted(model), ARRAY, ARRAY, (1, 9))
    assert not short


@pytest.mark.parametrize("labels", ["two words", "three words"])
@pytest.mark.parametrize("data", [ARRAY, FRAME], ids=["array", "frame"])
@pytest.mark.parametrize("kind", BOOSTED)
def test_boosted_trees_on_thresholds_and_beside_them(kind, data, labels, short):
    model = fitted(BOOSTED[kind](), data, labels)
    if "histogram" in kind:
        thresholds = np.concatenate([tree.nodes["num_threshold"] for one in model._predictors for tree in one])
    else:
        thresholds = model.booster_.trees_to_dataframe()["threshold"].dropna().to_numpy()
    points = beside(thresholds)
    for start in range(0, len(points), FEW_ROWS):
        assert_same(model, data, points[start : start + FEW_ROWS], (FEW_ROWS,))
    assert_same(model, data, points)
    if "lightgbm" in kind:
        assert {1, 2, FEW_ROWS} <= set(short)
        assert max(short) == FEW_ROWS


@pytest.mark.parametrize("kind", ["histogram", "histogram of classes", "lightgbm"])
def test_boosted_trees_know_missing_values(kind):
    holes = np.where(np.random.default_rng(0).random(ARRAY.shape) < 0.2, np.nan, ARRAY)
    assert_same(fitted(BOOSTED[kind](), holes), holes, holes)


def test_boosted_trees_at_the_end_of_a_pipeline(short):
    for kind in ("histogram", "lightgbm of classes"):
        pipeline = make_pipeline(StandardScaler(), BOOSTED[kind]())
        pipeline.fit(ARRAY, LABELS["three words"] if kind == "lightgbm of classes" else SCORE)
        assert_same(pipeline, ARRAY, ARRAY, (1, 9))
    assert 9 in short


def test_categories_are_left_to_histogram_boosting():
    frame = FRAME.assign(word=pd.Categorical(np.where(SCORE > 0, "a", "b")))
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype").fit(frame, SCORE)
    space = gbce.Space.infer(frame)
    said = as_predictor(model, space)(space.encode(frame)[:9])
    np.testing.assert_array_equal(said.values, model.predict(frame[:9]))


def test_categories_of_lightgbm(short):
    frame = FRAME.assign(word=pd.Categorical(np.where(SCORE > 0, "a", "b")))
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(frame, SCORE)
    space = gbce.Space.infer(frame)
    said = as_predictor(model, space)(space.encode(frame)[:9])
    np.testing.assert_array_equal(said.values, model.predict(frame[:9]))
    assert 9 in short


def test_options_that_lightgbm_reads_with_each_call_are_heard(short):
    options = {"pred_early_stop": True, "pred_early_stop_freq": 1, "pred_early_stop_margin": 0.1}
    model = lightgbm.LGBMClassifier(n_estimators=50, verbose=-1, **options).fit(ARRAY, LABELS["two numbers"])
    whole = lightgbm.LGBMClassifier(n_estimators=50, verbose=-1).fit(ARRAY, LABELS["two numbers"])
    assert (model.predict_proba(ARRAY) != whole.predict_proba(ARRAY)).any()
    assert_same(model, ARRAY, ARRAY, (1, 9))
    assert not short


@pytest.mark.parametrize("kind", BOOSTED)
def test_estimator_is_not_touched_and_a_new_fit_is_followed(kind, short):
    model = fitted(BOOSTED[kind]())
    before, state = pickle.dumps(model), dict(vars(model))
    predictor = as_predictor(model, gbce.Space.infer(ARRAY))
    predictor(ARRAY[:5])
    assert 5 in short or not isinstance(model, lightgbm.LGBMModel)
    assert pickle.dumps(model) == before
    assert all(vars(model)[name] is value for name, value in state.items())
    model.fit(ARRAY[::-1], model.predict(ARRAY))
    np.testing.assert_array_equal(predictor(ARRAY[:5]).values, own(model, ARRAY[:5]))


@pytest.mark.parametrize("kind", [*FORESTS[:1], *FORESTS[2:3], *(BOOSTED[name] for name in ("histogram", "lightgbm"))])
def test_other_processes_say_the_same(kind):
    model = fitted(kind())
    target = gbce.Class("top") if isinstance(model, ClassifierMixin) else gbce.Value(float(SCORE.max()))
    explainer = gbce.Explainer(model, ARRAY, sampler=QUICK)
    ask = explainer.explain(ARRAY[0], target, rules=[gbce.MAP()], seed=0)
    there = joblib.Parallel(n_jobs=2)(
        joblib.delayed(explainer.explain)(ARRAY[0], target, rules=[gbce.MAP()], seed=0) for _ in range(2)
    )
    for one in there:
        pd.testing.assert_frame_equal(one.counterfactuals, ask.counterfactuals, check_exact=True)


def test_short_way_that_fails_is_not_taken():
    model = fitted(HistGradientBoostingRegressor())
    baseline = model._baseline_prediction
    del model._baseline_prediction  # as if a release had renamed it
    predictor = as_predictor(model, gbce.Space.infer(ARRAY))
    model._baseline_prediction = baseline
    np.testing.assert_array_equal(predictor(ARRAY[:9]).values, model.predict(ARRAY[:9]))
