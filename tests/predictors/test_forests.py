"""Forests, asked tree by tree, answer as they do themselves."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import ClassifierMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.predictors import as_predictor
from gbce.predictors._forests import MANY_ROWS
from support.makes import ARRAY, FRAME, LABELS, NAMES, POINTS, QUICK, SCORE, asked


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
