"""Whatever is wrong with a model or its answers, the error says what, where, and what to do about it."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from support.three_columns import DATA, NAN, explain, total


def nan_for_high_age(rows):
    return np.where(rows["Age"] > 0.5, NAN, total(rows))


BAD_MODELS = {
    "NaN": (nan_for_high_age, r"nan_for_high_age, batch 1 of 1 \(rows 0 to 59\): .* returned nan for row \d+, x ="),
    "infinite": (lambda rows: total(rows) / 0.0, r"model, batch 1 of 1.*the model returned -?inf for row 0, x ="),
    "too short": (lambda rows: total(rows)[:-1], r"one line per row, \(60,\) or \(60, c\), but returned shape \(59,\)"),
    "one number": (lambda rows: 1.0, r"one line per row.*but returned shape \(\)"),
    "three axes": (lambda rows: np.zeros((len(rows), 2, 2)), r"but returned shape \(60, 2, 2\)"),
    "words": (lambda rows: ["yes"] * len(rows), r"must return numbers, but returned list \['yes'.* Of labels: "),
    "words in a Series": (lambda rows: pd.Series(["yes"] * len(rows)), r"must return numbers, but returned Series"),
    "numbers as text": (lambda rows: total(rows).astype(str), r"must return numbers, but returned ndarray"),
    "numbers as objects of text": (
        lambda rows: total(rows).astype(str).astype(object),
        r"must return numbers, but returned ndarray",
    ),
    "complex": (lambda rows: total(rows) + 1j, r"must return numbers, but returned ndarray"),
    "huge integers": (lambda rows: [10**400] * len(rows), r"must return numbers, but returned list"),
    "ragged": (lambda rows: [[1], [1, 2]] * 30, r"must return numbers, but returned list"),
    "nothing": (lambda rows: None, r"the model must return one line per row.*shape \(\)"),
}


@pytest.mark.parametrize(("model", "sentence"), BAD_MODELS.values(), ids=BAD_MODELS)
def test_model_that_answers_badly_is_named_with_the_place(model, sentence):
    with np.errstate(divide="ignore"), pytest.raises(gbce.PredictionError, match=sentence):
        explain(model)


def test_row_of_a_bad_answer_is_counted_over_all_batches():
    bad = 40

    def nan_once(rows):
        return np.where(rows["Age"] == DATA["Age"][bad], NAN, total(rows))

    with pytest.raises(gbce.PredictionError, match=rf"batch 6 of 9 \(rows 35 to 41\): .* nan for row {bad}, x = "):
        explain(nan_once, batch_rows=7)


def test_model_that_raises_in_the_third_batch_is_named_with_the_place():
    calls = []

    def fragile(rows):
        calls.append(len(rows))
        if len(calls) == 3:
            raise OSError("no memory left")
        return total(rows)

    with pytest.raises(
        gbce.PredictionError,
        match=r"^fragile, batch 3 of 3 \(rows 50 to 59\): the model raised OSError: no memory left$",
    ) as caught:
        explain(fragile, batch_rows=25)
    assert calls == [25, 25, 10]
    assert isinstance(caught.value.__cause__, OSError)


def test_interrupting_a_model_is_not_a_prediction_error():
    def interrupted(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explain(interrupted)


class Numbered:
    """A wrapper whose ``predict`` returns positions of classes, as many wrappers of networks do."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, rows):
        share = 1 / (1 + np.exp(-total(rows)))
        return np.column_stack([1 - share, share])

    def predict(self, rows):
        return self.predict_proba(rows).argmax(axis=1)


def test_a_classifier_that_decides_for_none_of_its_classes_is_refused():
    with pytest.raises(ValueError, match=r"Numbered: predict returns none of its classes \['no', 'yes'\]"):
        gbce.Explainer(Numbered(), DATA).explain(DATA.iloc[[0]], gbce.Class("yes"), seed=0)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (total, r"is not a probability; a Class target needs p\(label 1\)"),
        (np.asarray, r"is not a probability; a Class target needs one probability per class"),
    ],
)
def test_scores_are_not_read_as_probabilities(model, sentence):
    with pytest.raises(gbce.PredictionError, match=sentence):
        explain(model, target=gbce.Class(1))


UNFITTED = [
    LinearRegression(),
    LogisticRegression(),
    make_pipeline(StandardScaler(), LinearRegression()),
    FixedThresholdClassifier(LogisticRegression()),
    lightgbm.LGBMRegressor(),
    lightgbm.LGBMClassifier(),
    xgboost.XGBRegressor(),
    xgboost.XGBClassifier(),
]


@pytest.mark.parametrize("model", UNFITTED, ids=lambda model: type(model).__name__)
def test_unfitted_model_is_refused_at_once(model):
    with pytest.raises(NotFittedError, match=rf"{type(model).__name__} is not fitted: call fit\(X, y\)"):
        gbce.Explainer(model, DATA)


def test_an_estimator_without_fit_is_ready():
    class Served(BaseEstimator):
        def predict(self, X):
            return np.asarray(X)[:, 0]

    assert (
        gbce.Explainer(Served(), DATA).explain(DATA.iloc[0], gbce.AtLeast(3.0), posterior=False, seed=0).answer
        is not None
    )


def test_something_that_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"model must have a predict method or be callable, not int"):
        gbce.Explainer(5, DATA)
    with pytest.raises(TypeError, match=r"not str; gbce\.predictors\.load_model reads a model file"):
        gbce.Explainer("model.txt", DATA)
    with pytest.raises(TypeError, match=r"model is the class LinearRegression; pass a fitted instance"):
        gbce.Explainer(LinearRegression, DATA)
    with pytest.raises(ValueError, match=r"model is an empty list; give at least one"):
        gbce.Explainer([], DATA)


def test_classifier_without_probabilities_and_scores_is_refused():
    from sklearn.ensemble import VotingClassifier
    from sklearn.svm import LinearSVC

    model = VotingClassifier([("svm", LinearSVC())]).fit(DATA, total(DATA) > 0)
    with pytest.raises(TypeError, match=r"VotingClassifier is a classifier with neither.*CalibratedClassifierCV"):
        gbce.Explainer(model, DATA)


def test_model_of_other_columns_is_refused():
    fitted_on_frame = LinearRegression().fit(DATA[["Age", "debt"]], total(DATA))
    with pytest.raises(
        ValueError,
        match=r"fitted on the columns \['Age', 'debt'\], but the data have .*: the table has also \['income'\]",
    ):
        gbce.Explainer(fitted_on_frame, DATA)
    fitted_on_array = LinearRegression().fit(DATA.to_numpy()[:, :2], total(DATA))
    with pytest.raises(ValueError, match=r"LinearRegression was fitted on 2 columns, but the data have 3"):
        gbce.Explainer(fitted_on_array, DATA)
