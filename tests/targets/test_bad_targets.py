"""Whatever is wrong with a target, the error says what, and what to do about it."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import gbce
from support.three_columns import DATA, NAN, explain, total

BAD_TARGETS = {
    "zero scale": (lambda: gbce.Value(1, scale=0), r"Value: scale must be positive, not 0"),
    "negative scale": (lambda: gbce.AtMost(1, scale=-1), r"AtMost: scale must be positive, not -1"),
    "NaN scale": (lambda: gbce.Value(1, scale=NAN), r"Value: scale must be a finite number, not nan"),
    "NaN value": (lambda: gbce.Value(NAN), r"Value: y must be a finite number, not nan"),
    "text value": (lambda: gbce.AtLeast("ten"), r"AtLeast: y must be a finite number, not 'ten'"),
    "negative tolerance": (lambda: gbce.Value(1, tolerance=-1), r"Value: tolerance must be zero or more"),
    "shape of the loss": (lambda: gbce.Value(1, loss="cubic"), r"loss must be 'squared' or 'absolute', not 'cubic'"),
    "empty range": (lambda: gbce.Range(2, 1), r"Range: low = 2 is above high = 1"),
    "probability 0": (lambda: gbce.Class(1, probability=0), r"Class: probability must be above 0 and at most 1, not 0"),
    "probability 2": (lambda: gbce.Class(1, probability=2), r"Class: probability must be above 0 and at most 1, not 2"),
    "NaN threshold": (lambda: gbce.Loss(np.abs, threshold=NAN), r"Loss: threshold must be a finite number"),
    "loss of another shape": (
        lambda: explain(target=gbce.Loss(lambda f: f.sum(), threshold=1)),
        r"Loss: the function must return one number per row, \(1,\), not \(\)",
    ),
    "NaN loss": (lambda: explain(target=gbce.Loss(lambda f: f * NAN, threshold=1)), r"Loss: .*returned NaN for output"),
    "no spread": (
        lambda: explain(lambda rows: np.zeros(len(rows))),
        r"AtLeast: the model gives the same output for every row.*give both as numbers",
    ),
    "two columns": (lambda: explain(np.asarray), r"AtLeast needs one number per row.*returns 3 columns.*gbce\.Loss"),
}


@pytest.mark.parametrize(("build", "sentence"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_bad_target_is_refused(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


@pytest.mark.parametrize("target", [5, None, "yes", gbce.Value, gbce.MAP()])
def test_something_that_is_no_target_is_refused(target):
    with pytest.raises(TypeError, match=r"target must be a gbce target such as gbce\.AtLeast"):
        explain(target=target)


def test_loss_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match=r"Loss: function must be callable, not 5"):
        gbce.Loss(5, threshold=1.0)


@pytest.mark.parametrize(
    ("classes", "label", "sentence"),
    [
        (["no", "yes"], "Yes", r"LogisticRegression never saw the label 'Yes'.*\['no', 'yes'\].*Did you mean 'yes'\?"),
        ([0, 1], 2, r"never saw the label 2; its classes are \[0, 1\]\.$"),
        ([0, 1], "stays", r"never saw the label 'stays'.*name them in their order: gbce.classifier\(model, classes"),
        ([0, 1], "1", r"never saw the label '1'; its classes are \[0, 1\]\. Did you mean 1\?"),
    ],
)
def test_label_the_model_never_saw_is_refused(classes, label, sentence):
    model = LogisticRegression().fit(DATA, np.take(classes, total(DATA) > 0))
    with pytest.raises(ValueError, match=sentence):
        explain(model, target=gbce.Class(label))


def test_class_of_a_regressor_is_refused():
    with pytest.raises(TypeError, match=r"Class\(1\) needs a classifier, but LinearRegression.*use gbce\.Value"):
        explain(LinearRegression().fit(DATA, total(DATA)), target=gbce.Class(1))


@pytest.mark.parametrize("target", [gbce.Value(1.0), gbce.AtLeast(1), gbce.AtMost(1), gbce.Range(0, 1)])
def test_number_of_a_classifier_is_refused(target):
    model = LogisticRegression().fit(DATA, total(DATA) > 0)
    with pytest.raises(TypeError, match=r"needs a number, but LogisticRegression is a classifier: use gbce\.Class"):
        explain(model, target=target)
