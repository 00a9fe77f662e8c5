"""Whatever is wrong with the input, the error says what, where, and what to do about it."""

import io
import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.eta import Calibration
from support.files import altered, as_npy, manifest, restated

NAN, INF = float("nan"), float("inf")
NAMES = ["Age", "income", "debt"]
DATA = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=NAMES)
ROW = {"Age": 0.1, "income": -0.2, "debt": 0.3}
QUICK = gbce.Importance(n_candidates=300, n_draws=50)
WISH = gbce.AtLeast(1.0)


def total(rows):
    return np.asarray(rows, dtype=float).sum(axis=1)


def probability(rows):
    return 1.0 / (1.0 + np.exp(-total(rows)))


def explain(model=total, data=DATA, row=None, target=WISH, rules=(), seed=0, **options):
    explainer = gbce.Explainer(model, data, **{"sampler": QUICK, **options})
    return explainer.explain(ROW if row is None else row, target, rules=rules, seed=seed)


def with_value(column, value, at=7):
    data = DATA.astype(object) if isinstance(value, str) else DATA.copy()
    data.loc[at, column] = value
    return data


# --- the row ------------------------------------------------------------------------------------------------

BAD_ROWS = {
    "NaN": (ROW | {"income": NAN}, r"row: column 'income' is missing .*Fill it in, or allow it"),
    "infinite": (ROW | {"debt": -INF}, r"row: column 'debt' is -inf .*Fill in or drop"),
    "None": (ROW | {"debt": None}, r"row: column 'debt' is missing"),
    "NaN in an array": ([NAN, 0.0, 0.0], r"row: column 'Age' is missing"),
    "missing in a nullable column": (pd.DataFrame([ROW]).astype("Float64").mask([[False, True, False]]), r"'income'"),
    "too few columns": ([0.0, 0.0], r"row has 2 columns, but the model's rows have 3: \['Age', 'income', 'debt'\]"),
    "too many columns": (np.zeros((1, 4)), r"row has 4 columns, but the model's rows have 3"),
    "missing column": ({"Age": 0.0, "debt": 0.0}, r"row lacks \['income'\].*Names must match"),
    "extra column": (ROW | {"city": 1.0}, r"row has also \['city'\].*Drop what the model was not fitted on"),
    "misspelt column": ({"age": 0, "income": 0, "debt": 0}, r"row lacks \['Age'\] and has also \['age'\]"),
    "column twice": (pd.DataFrame([[0, 0, 0, 0]], columns=[*NAMES, "debt"]), r"row: a column name occurs twice"),
    "a string": (ROW | {"income": "high"}, r"row: column 'income' holds 'high' .*where a number belongs"),
    "a string in an array": (["old", 0.0, 0.0], r"row: column 'Age' holds 'old' .*where a number belongs"),
    "a number as text": (ROW | {"income": "12"}, r"row: column 'income' holds '12' .*where a number belongs"),
    "a complex number": (ROW | {"Age": 1j}, r"row: column 'Age' holds 1j"),
    "a list in a cell": (ROW | {"Age": [1, 2]}, r"row: column 'Age' holds \[1, 2\]"),
    "two rows": (DATA.iloc[:2], r"row must be a single row, but it has 2; pick one"),
    "no rows": (DATA.iloc[:0], r"row has no rows"),
    "nothing": ({}, r"row has no columns"),
    "a word": ("Age", r"row must be a table"),
    "three axes": (np.zeros((1, 1, 3)), r"row must be a table .*\(1, 1, 3\)"),
    "ragged": ([[1, 2, 3], [1]], r"row is not a rectangular table"),
}


@pytest.mark.parametrize(("row", "sentence"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_row_is_refused_with_its_place(row, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(row=row)


def test_columns_in_another_order_are_matched_by_name():
    usual = explain(row=DATA.iloc[[3]], rules=gbce.MAP())
    shuffled = ["debt", "Age", "income"]
    for row in (DATA[shuffled].iloc[[3]], DATA[shuffled].iloc[3], DATA[shuffled].iloc[3].to_dict()):
        other = explain(row=row, rules=gbce.MAP())
        np.testing.assert_array_equal(other.draws.x, usual.draws.x)
        pd.testing.assert_frame_equal(other.counterfactuals, usual.counterfactuals)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (2.5, r"row: 'Age' = 2\.5 lies above its bound 2\. Correct the row or widen"),
        (-1, r"'Age' = -1 lies below its bound 0"),
    ],
)
def test_row_outside_its_bounds_is_refused(value, sentence):
    space = gbce.Space.infer(DATA, bounds={"Age": (0, 2)})
    with pytest.raises(ValueError, match=sentence):
        explain(row=ROW | {"Age": value}, space=space)


def test_row_on_its_bound_up_to_rounding_is_accepted():
    space = gbce.Space.infer(DATA, bounds={"Age": (None, 0.3)})
    assert explain(row=ROW | {"Age": 0.1 + 0.2}, space=space).draws.x[:, 0].max() <= 0.1 + 0.2


@pytest.mark.parametrize(
    ("dtype", "value"), [("int64", 2.5), ("Int64", 2.5), ("uint8", -1), ("int8", 300), ("bool", 2)]
)
def test_value_that_its_column_cannot_hold_is_refused_rather_than_changed(dtype, value):
    data = DATA.assign(count=(np.arange(len(DATA)) % 3).astype("int8")).astype({"count": dtype})
    space = gbce.Space.infer(data, immutable=["count"], kinds={"count": "integer"})
    with pytest.raises(ValueError, match=rf"row: 'count' = {value} does not fit its column of {dtype}.*Correct"):
        explain(data=data, space=space, row=ROW | {"count": value})
    assert explain(data=data, space=space, row=ROW | {"count": 1}).row.x[0, 3] == 1


# --- the data and the space ---------------------------------------------------------------------------------

BAD_DATA = {
    "infinite": (with_value("debt", INF), r"data: column 'debt' is inf in row 7"),
    "nothing but NaN": (DATA.assign(debt=NAN), r"columns \['debt'\] hold no value at all"),
    "a string": (with_value("debt", "low"), r"data: column 'debt' holds 'low' in row 7 where a number belongs"),
    "a number": (DATA.assign(debt=["u"] * 59 + [3]), r"data: column 'debt' holds 3 in row 59 where a text belongs"),
    "a list": (DATA.assign(debt=[[1]] * 60), r"column 'debt' holds \[1\], which is neither a number nor a level"),
    "the same name twice": (DATA.set_axis(["a", "b", "a"], axis=1), r"data: a column name occurs twice: \['a'\]"),
    "no rows": (DATA.iloc[:0], r"data has no rows"),
    "no columns": (DATA[[]], r"data has no columns"),
    "an empty list": ([], r"data has no columns"),
    "one row": (DATA.iloc[:1], r"data must have at least two rows .*not 1"),
    "nothing": (None, r"data must be a table"),
}


@pytest.mark.parametrize(("data", "sentence"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_are_refused_with_their_place(data, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(data=data)


def test_constant_column_that_is_immutable_needs_no_note():
    data = DATA.assign(debt=5.0)
    explanation = explain(data=data, row=ROW | {"debt": 5.0}, space=gbce.Space.infer(data, immutable=["debt"]))
    assert (explanation.draws.x[:, 2] == 5.0).all()
    assert explanation.draws.x[:, 0].std() > 0
    assert not any("Held fixed" in note for note in explanation.notes)


BAD_INFER = {
    "immutable": ({"immutable": ["zip"]}, r"immutable names \['zip'\].*columns are \['Age'"),
    "increase": ({"increase": ["zip"]}, r"increase names \['zip'\]"),
    "decrease": ({"decrease": "zip"}, r"decrease names \['zip'\]"),
    "bounds": ({"bounds": {"zip": (0, 1)}}, r"bounds names \['zip'\]"),
    "scale": ({"scale": {"zip": 1.0}}, r"scale names \['zip'\]"),
    "kinds": ({"kinds": {"zip": "real"}}, r"kinds names \['zip'\]"),
    "both ways": ({"increase": ["Age"], "decrease": ["Age"]}, r"\['Age'\] cannot be both in increase and in decrease"),
    "low above high": ({"bounds": {"Age": (3, 1)}}, r"'Age': low = 3 is above high = 1"),
    "NaN bound": ({"bounds": {"Age": (NAN, 1)}}, r"'Age': low must be a number or None, not nan"),
    "text bound": ({"bounds": {"Age": (0, "1")}}, r"'Age': high must be a number or None, not '1'"),
    "one number as bounds": ({"bounds": {"Age": 5}}, r"bounds of 'Age' must be \(low, high\).*not 5"),
    "three bounds": ({"bounds": {"Age": (0, 1, 2)}}, r"bounds of 'Age' must be \(low, high\)"),
    "unknown scale": ({"scale": "std"}, r"scale must be 'sd', 'mad', 'raw' or a mapping.*not 'std'"),
    "zero scale": ({"scale": {"debt": 0}}, r"'debt': scale must be a positive number, not 0"),
    "negative scale": ({"scale": {"debt": -2.0}}, r"'debt': scale must be a positive number, not -2"),
    "NaN scale": ({"scale": {"debt": NAN}}, r"'debt': scale must be a positive number, not nan"),
    "text scale": ({"scale": {"debt": "1"}}, r"'debt': scale must be a positive number, not '1'"),
    "a kind that is none": ({"kinds": {"debt": "text"}}, r"'debt' must be one of 'real'.*not 'text'"),
    "bounds of a word": ({"bounds": "all"}, r"bounds must be a mapping .*or 'data', not 'all'"),
    "a condition on nobody": ({"constraints": ["zip <= 3"]}, r"'zip <= 3' names \['zip'\]"),
    "a condition that is none": ({"constraints": ["Age <="]}, r"'Age <=' cannot be read"),
    "a call": ({"constraints": ["__import__('os').system('ls') == 0"]}, r"cannot be used: only columns"),
    "a computed circle": ({"computed": {"Age": "debt", "debt": "Age"}}, r"need each other in a circle"),
    "one column as one-hot": ({"one_hot": {"group": ["Age"]}}, r"one_hot\['group'\] must list at least two"),
    "one-hot of other numbers": ({"one_hot": {"group": ["Age", "debt"]}}, r"said to spell one category"),
}


@pytest.mark.parametrize(("options", "sentence"), BAD_INFER.values(), ids=BAD_INFER)
def test_bad_wish_about_a_space_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        gbce.Space.infer(DATA, **options)


@pytest.mark.parametrize("bounds", [(0, None), [None, 1.0], np.array([0.0, 1.0])])
def test_bounds_may_be_any_pair(bounds):
    feature = gbce.Space.infer(DATA, bounds={"Age": bounds}).features[0]
    assert [feature.low, feature.high] == list(bounds)


BAD_FEATURES = {
    "zero scale": ({"scale": 0}, r"'income': scale must be a positive number, not 0.*counts as one unit"),
    "negative scale": ({"scale": -1.5}, r"scale must be a positive number, not -1.5"),
    "NaN scale": ({"scale": NAN}, r"scale must be a positive number, not nan"),
    "infinite scale": ({"scale": INF}, r"scale must be a positive number, not inf"),
    "boolean scale": ({"scale": True}, r"scale must be a positive number, not True"),
    "low above high": ({"low": 2, "high": 1}, r"'income': low = 2 is above high = 1"),
    "direction": ({"direction": "up"}, r"direction must be one of 'any', 'increase', 'decrease', not 'up'"),
    "mutable": ({"mutable": "no"}, r"'income': mutable must be True or False, not 'no'"),
    "kind": ({"kind": "number"}, r"kind must be one of .*not 'number'"),
}


@pytest.mark.parametrize(("options", "sentence"), BAD_FEATURES.values(), ids=BAD_FEATURES)
def test_bad_feature_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        gbce.Feature("income", **options)


BAD_SPACES = {
    "no feature": (lambda: gbce.Space([]), r"at least one feature"),
    "same name": (lambda: gbce.Space.real(["a", "b", "a"]), r"must differ, but 'a' occurs twice"),
    "zero scale": (lambda: gbce.Space.real(2, scale=0.0), r"'x1': scale must be a positive number"),
    "other names": (lambda: explain(space=gbce.Space.real(["Age", "income", "tax"])), r"data lacks \['tax'\]"),
    "other number": (lambda: explain(data=DATA.to_numpy(), space=gbce.Space.real(2)), r"data has 3 columns.*have 2"),
    "nothing can move": (
        lambda: explain(space=gbce.Space.infer(DATA, immutable=NAMES)),
        r"no feature can change.*Make at least one feature mutable",
    ),
    "no room to move": (
        lambda: explain(space=gbce.Space.infer(DATA, bounds={name: (ROW[name],) * 2 for name in NAMES})),
        r"no feature can change.*no room between its bounds",
    ),
}


@pytest.mark.parametrize(("build", "sentence"), BAD_SPACES.values(), ids=BAD_SPACES)
def test_bad_space_is_refused(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


# --- the target ---------------------------------------------------------------------------------------------

BAD_TARGETS = {
    "zero scale": (lambda: gbce.Value(1, scale=0), r"Value: scale must be positive, not 0"),
    "negative scale": (lambda: gbce.AtMost(1, scale=-1), r"AtMost: scale must be positive, not -1"),
    "NaN scale": (lambda: gbce.Value(1, scale=NAN), r"Value: scale must be a finite number, not nan"),
    "NaN value": (lambda: gbce.Value(NAN), r"Value: y must be a finite number, not nan"),
    "text value": (lambda: gbce.AtLeast("ten"), r"AtLeast: y must be a finite number, not 'ten'"),
    "negative tolerance": (lambda: gbce.Value(1, tolerance=-1), r"Value: tolerance must not be negative"),
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
    "two columns": (lambda: explain(np.asarray), r"AtLeast wants one number per row.*returns 3 columns.*gbce\.Loss"),
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
        ([0, 1], "1", r"never saw the label '1'; its classes are \[0, 1\]\. Did you mean 1\?"),
    ],
)
def test_label_the_model_never_saw_is_refused(classes, label, sentence):
    model = LogisticRegression().fit(DATA, np.take(classes, total(DATA) > 0))
    with pytest.raises(ValueError, match=sentence):
        explain(model, target=gbce.Class(label))


def test_class_of_a_regressor_is_refused():
    with pytest.raises(TypeError, match=r"Class\(1\) wants a classifier, but LinearRegression.*ask for gbce\.Value"):
        explain(LinearRegression().fit(DATA, total(DATA)), target=gbce.Class(1))


@pytest.mark.parametrize("target", [gbce.Value(1.0), gbce.AtLeast(1), gbce.AtMost(1), gbce.Range(0, 1)])
def test_number_of_a_classifier_is_refused(target):
    model = LogisticRegression().fit(DATA, total(DATA) > 0)
    with pytest.raises(TypeError, match=r"wants a number, but LogisticRegression is a classifier: ask for gbce\.Class"):
        explain(model, target=target)


# --- numbers of the explainer -------------------------------------------------------------------------------

BAD_OPTIONS = {
    **{f"eta {eta!r}": ({"eta": eta}, rf"eta must be zero or a positive number, not {eta!r}")
       for eta in (-1, -1e-9, NAN, INF, "1", None, True, 1j)},
    "complex eta": ({"eta": np.complex128(1)}, r"eta must be zero or a positive number"),
    "negative weights": ({"weights": [-1, 2]}, r"weights must be zero or more and not all zero, not \[-1\.0, 2\.0\]"),
    "zero weights": ({"weights": [0, 0]}, r"weights must be zero or more and not all zero, not \[0\.0, 0\.0\]"),
    "NaN weights": ({"weights": [NAN, 1]}, r"weights must be zero or more and not all zero, not \[nan, 1\.0\]"),
    "infinite weights": ({"weights": [INF, 1]}, r"weights must be .*not \[inf, 1\.0\]"),
    "one weight": ({"weights": [1.0]}, r"weights must have one number per model: 2 models, but weights \[1\.0\]"),
    "three weights": ({"weights": [1, 1, 1]}, r"weights must have one number per model: 2 models"),
    "text weights": ({"weights": ["a", "b"]}, r"weights must be numbers, one per model"),
    "combine": ({"combine": "or"}, r"combine must be one of .*'any', 'all', 'average'.*not 'or'"),
    **{f"batch_rows {n!r}": ({"batch_rows": n}, rf"batch_rows must be a whole number of at least 1, not {n!r}")
       for n in (0, -5, 1.5, "all", True)},
}  # fmt: skip


@pytest.mark.parametrize(("options", "sentence"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_number_of_the_explainer_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        gbce.Explainer([total, total], DATA, **options)


@pytest.mark.parametrize(
    ("risk", "gamma", "word"),
    [([NAN, 1], 1, "risk"), ([], 1, "risk"), (3.0, 1, "risk"), ([1, 2], -1, "gamma"), ([1, 2], NAN, "gamma")],
)
def test_bad_risk_of_models_is_refused(risk, gamma, word):
    with pytest.raises(ValueError, match=f"{word} must be"):
        gbce.weights_from_risk(risk, gamma)


@pytest.mark.parametrize("seed", [-1, 1.5, "one", True, NAN, [1, 2]])
def test_bad_seed_is_refused(seed):
    with pytest.raises(ValueError, match=r"seed must be a whole number of at least 0, a Generator"):
        explain(seed=seed)


@pytest.mark.parametrize("what", ["space", "prior", "sampler", "evaluation"])
@pytest.mark.parametrize("value", [5, "yes", type])
def test_option_of_another_kind_is_refused(what, value):
    with pytest.raises(TypeError, match=rf"{what} must be an object such as gbce\."):
        gbce.Explainer(total, DATA, **{what: value})


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True])
@pytest.mark.parametrize("name", ["n_candidates", "n_draws"])
def test_number_of_draws_is_at_least_one(name, value):
    with pytest.raises(ValueError, match=rf"Importance: {name} must be a whole number of at least 1, not {value!r}"):
        gbce.Importance(**{name: value})


# --- rules, noise -------------------------------------------------------------------------------------------

BAD_RULES = [
    (gbce.CVaR, {"tau": 1}, r"tau must be at least 0 and below 1, not 1"),
    (gbce.CVaR, {"tau": -0.1}, r"tau must be at least 0 and below 1"),
    (gbce.CVaR, {"tau": NAN}, r"tau must be a finite number"),
    (gbce.CVaR, {"tau": "most"}, r"tau must be a finite number, not 'most'"),
    (gbce.CVaR, {"n_perturb": 0}, r"n_perturb must be a whole number of at least 1, not 0"),
    (gbce.CVaR, {"max_candidates": 0}, r"max_candidates must be a whole number"),
    (gbce.ChanceConstrained, {"probability": 0}, r"probability must be above 0, at most 1, not 0"),
    (gbce.ChanceConstrained, {"probability": 1.1}, r"probability must be above 0, at most 1, not 1\.1"),
    (gbce.ChanceConstrained, {"probability": "high"}, r"probability must be a finite number, not 'high'"),
    (gbce.ChanceConstrained, {"confidence": 1.0}, r"confidence must lie between 0 and 1, not 1\.0"),
    (gbce.ChanceConstrained, {"n_perturb": 0}, r"n_perturb must be a whole number"),
    (gbce.ChanceConstrained, {"n_confirm": 0}, r"n_confirm must be a whole number"),
    (gbce.ChanceConstrained, {"max_candidates": 0}, r"max_candidates must be a whole number"),
    (gbce.DiverseSet, {"k": 0}, r"k must be a whole number of at least 1, not 0"),
    (gbce.DiverseSet, {"k": 2.5}, r"k must be a whole number of at least 1, not 2\.5"),
    (gbce.DiverseSet, {"k": 2, "mass": 0}, r"mass must be above 0 and at most 1, not 0"),
    (gbce.DiverseSet, {"k": 2, "mass": 1.1}, r"mass must be above 0 and at most 1, not 1\.1"),
    (gbce.DiverseSet, {"k": 2, "mass": "all"}, r"mass must be a finite number, not 'all'"),
    (gbce.RandomDraw, {"k": 0}, r"k must be a whole number of at least 1, not 0"),
    (gbce.MAP, {"method": "objectve"}, r"method must be 'objective', 'kde' or 'knn', not 'objectve'"),
    (gbce.MAP, {"k": 0}, r"k must be a whole number"),
    (gbce.DirectOpt, {"n_starts": 0}, r"n_starts must be a whole number"),
    (gbce.DirectOpt, {"max_iterations": 0}, r"max_iterations must be a whole number"),
    (gbce.GeometricMedian, {"max_iterations": 0}, r"max_iterations must be a whole number"),
    (gbce.Evaluation, {"n_perturb": 0}, r"n_perturb must be a whole number"),
    (gbce.Evaluation, {"neighbours": 0}, r"neighbours must be a whole number"),
    (gbce.Evaluation, {"alpha": 0}, r"alpha must lie between 0 and 1, not 0"),
    (gbce.Evaluation, {"alpha": 1}, r"alpha must lie between 0 and 1, not 1"),
]


@pytest.mark.parametrize(("kind", "options", "sentence"), BAD_RULES)
def test_bad_option_of_a_rule_is_refused(kind, options, sentence):
    with pytest.raises(ValueError, match=f"^{kind.__name__}: {sentence}"):
        kind(**options)


@pytest.mark.parametrize("rules", ["MAP", 5, gbce.MAP, [gbce.MAP], [gbce.Mean(), None], [gbce.Value(1)]])
def test_something_that_is_no_rule_is_refused(rules):
    with pytest.raises(TypeError, match=r"a rule must be an object such as gbce\.MAP\(\), not "):
        explain(rules=rules)


def test_the_same_rule_twice_is_refused():
    with pytest.raises(ValueError, match="rules: MAP is listed twice"):
        explain(rules=[gbce.MAP(), gbce.Mean(), gbce.MAP()])


BAD_NOISE = {
    "negative": (-0.1, r"noise must be zero or more, one number or 3, not -0\.1"),
    "NaN": (NAN, r"noise must be zero or more, one number or 3, not nan"),
    "text": ("small", r"noise must be a number, one per feature, a mapping or a function, not 'small'"),
    "two of three": ([0.1, 0.2], r"noise must be zero or more, one number or 3"),
    "unknown name": ({"zip": 0.1}, r"noise names \['zip'\], but the features are \['Age', 'income', 'debt'\]"),
    "negative by name": ({"Age": -1}, r"noise must be zero or more"),
    "wrong shape": (
        lambda rng, n: np.zeros((n, 2)),
        r"noise\(rng, \d+\) must return finite offsets of shape \(\d+, 3\)",
    ),
    "NaN offsets": (lambda rng, n: np.full((n, 3), NAN), r"must return finite offsets"),
}


@pytest.mark.parametrize(("noise", "sentence"), BAD_NOISE.values(), ids=BAD_NOISE)
def test_bad_noise_is_refused_by_rules_and_by_figures(noise, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(rules=gbce.CVaR(noise=noise))
    with pytest.raises(ValueError, match=sentence):
        explain(rules=gbce.ChanceConstrained(noise=noise))
    with pytest.raises(ValueError, match=sentence):
        explain(rules=gbce.MAP(), evaluation=gbce.Evaluation(noise=noise))


# --- the model ----------------------------------------------------------------------------------------------


def nan_for_high_age(rows):
    return np.where(rows["Age"] > 0.5, NAN, total(rows))


BAD_MODELS = {
    "NaN": (nan_for_high_age, r"nan_for_high_age, batch 1 of 1 \(rows 0 to 59\): .* returned nan for row \d+, x ="),
    "infinite": (lambda rows: total(rows) / 0.0, r"model, batch 1 of 1.*the model returned -?inf for row 0, x ="),
    "too short": (lambda rows: total(rows)[:-1], r"one line per row, \(60,\) or \(60, c\), but returned shape \(59,\)"),
    "one number": (lambda rows: 1.0, r"one line per row.*but returned shape \(\)"),
    "three axes": (lambda rows: np.zeros((len(rows), 2, 2)), r"but returned shape \(60, 2, 2\)"),
    "words": (lambda rows: ["yes"] * len(rows), r"the model must return numbers, but returned list \['yes'"),
    "words in a Series": (lambda rows: pd.Series(["yes"] * len(rows)), r"must return numbers, but returned Series"),
    "numbers as text": (lambda rows: total(rows).astype(str), r"must return numbers, but returned ndarray"),
    "numbers as objects of text": (
        lambda rows: total(rows).astype(str).astype(object),
        r"must return numbers, but returned ndarray",
    ),
    "complex": (lambda rows: total(rows) + 1j, r"must return numbers, but returned ndarray"),
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


def test_something_that_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"model must have a predict method or be callable, not int"):
        gbce.Explainer(5, DATA)
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
        ValueError, match=r"LinearRegression was fitted on the columns \['Age', 'debt'\], the data have"
    ):
        gbce.Explainer(fitted_on_frame, DATA)
    fitted_on_array = LinearRegression().fit(DATA.to_numpy()[:, :2], total(DATA))
    with pytest.raises(ValueError, match=r"LinearRegression was fitted on 2 columns, the data have 3"):
        gbce.Explainer(fitted_on_array, DATA)


# --- priors -------------------------------------------------------------------------------------------------

ROUGH = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
TALL = np.random.default_rng(5).normal(size=(3, 2))
BAD_PRIORS = {
    "negative sigma": (gbce.Gaussian(-1), r"Gaussian: sigma must be positive and finite, not -1"),
    "zero sigma": (gbce.Gaussian(0), r"Gaussian: sigma must be positive and finite, not 0"),
    "NaN sigma": (gbce.Gaussian(NAN), r"Gaussian: sigma must be positive and finite, not nan"),
    "two sigmas": (gbce.Gaussian([1, 2]), r"Gaussian: sigma must have one number or 3, one per feature"),
    "text sigma": (gbce.Gaussian("wide"), r"Gaussian: sigma must be a number or one number per feature"),
    "sigma by name": (gbce.Gaussian({"Age": 1, "zip": 1}), r"unknown \['zip'\], missing \['income', 'debt'\]"),
    "negative cov": (gbce.Gaussian(cov=-np.eye(3)), r"Gaussian: cov must be positive definite"),
    "cov of another shape": (gbce.Gaussian(cov=np.eye(2)), r"Gaussian: cov must have shape \(3, 3\).*not \(2, 2\)"),
    "cov not symmetric": (gbce.Gaussian(cov=np.triu(np.ones((3, 3)))), r"Gaussian: cov must be finite and symmetric"),
    "NaN cov": (gbce.Gaussian(cov=np.full((3, 3), NAN)), r"Gaussian: cov must be finite and symmetric"),
    "cov not definite": (gbce.Gaussian(cov=ROUGH), r"Gaussian: cov must be positive definite, .*eigenvalue"),
    "cov singular": (gbce.Gaussian(cov=np.ones((3, 3))), r"Gaussian: cov must be positive definite"),
    "cov singular up to rounding": (gbce.Gaussian(cov=TALL @ TALL.T), r"Gaussian: cov must be positive definite"),
    "text cov": (gbce.Gaussian(cov="wide"), r"Gaussian: cov must be an array or 'data', not 'wide'"),
    "sigma and cov": (gbce.Gaussian(2.0, cov=np.eye(3)), r"Gaussian: give sigma or cov, not both"),
    "zero b": (gbce.Laplace(0), r"Laplace: b must be positive and finite, not 0"),
    "negative b": (gbce.Laplace(-2), r"Laplace: b must be positive and finite, not -2"),
    "two b": (gbce.Laplace([1, 2]), r"Laplace: b must have one number or 3"),
}


@pytest.mark.parametrize(("prior", "sentence"), BAD_PRIORS.values(), ids=BAD_PRIORS)
def test_bad_prior_is_refused(prior, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(prior=prior)


def test_singular_cov_is_refused_whatever_rounding_makes_of_it():
    for seed in range(40):
        root = np.random.default_rng(seed).normal(size=(4, 3)) * 10.0 ** (seed % 7 - 3)
        with pytest.raises(ValueError, match="Gaussian: cov must be positive definite"):
            gbce.Gaussian(cov=root @ root.T).at(gbce.Space.real(4), np.zeros(4))


def test_cov_of_very_different_units_is_accepted():
    prior = gbce.Gaussian(cov=np.diag([1e-8, 1.0, 1e8])).at(gbce.Space.real(3), np.zeros(3))
    np.testing.assert_allclose(prior.place(np.ones((1, 3))).x, [[1e-4, 1.0, 1e4]])


def norm(x, row):
    return np.linalg.norm(x - row, axis=1)


BAD_DISTANCES = {
    "bounded": (
        lambda x, row: 1 - np.exp(-norm(x, row)),
        r"cannot be integrated.*reaches only 1 however far.*infinite mass",
    ),
    "periodic": (lambda x, row: 1 - np.cos(norm(x, row)), r"cannot be integrated"),
    "zero": (
        lambda x, row: np.zeros(len(x)),
        r"cannot be integrated.*reaches only 0.*bound those features in the Space",
    ),
    "ignores income": (
        lambda x, row: np.abs(x - row)[:, [0, 2]].sum(axis=1),
        r"Along 'income' the distance reaches only 0",
    ),
    "ignores Age": (lambda x, row: np.abs(x - row)[:, 1:].sum(axis=1), r"Along 'Age' the distance reaches only 0"),
    "one way only": (lambda x, row: np.maximum(x - row, 0).sum(axis=1), r"Along 'Age' the distance reaches only 0"),
    "flat across the axes": (lambda x, row: np.abs((x - row).sum(axis=1)), r"In a direction without bounds"),
    "squared, of low rank": (lambda x, row: ((x - row) @ [1.0, -2.0, 0.5]) ** 2, r"In a direction without bounds"),
    "grows too slowly": (lambda x, row: 2.9 * np.log1p(norm(x, row)), r"must outgrow 3 x log of the way"),
    "negative": (lambda x, row: norm(x, row) - 1, r"a distance must be zero or more, but it is -1\.0 at \{'Age': 0\.1"),
    "NaN": (lambda x, row: norm(x, row) * NAN, r"a distance must be zero or more, but it is nan at \{'Age'"),
    "wrong shape": (lambda x, row: np.abs(x - row), r"must return one number per line of x, \(1,\), not \(1, 3\)"),
    "one number": (lambda x, row: 1.0, r"must return one number per line of x, \(1,\), not \(\)"),
    "words": (lambda x, row: ["far"] * len(x), r"distance\(x, row\) must return numbers, not \['far'\]"),
    "infinite at the row": (lambda x, row: np.full(len(x), INF), r"the distance of the row to itself must be finite"),
}


@pytest.mark.parametrize(("distance", "sentence"), BAD_DISTANCES.values(), ids=BAD_DISTANCES)
def test_bad_distance_is_refused(distance, sentence):
    with pytest.raises(ValueError, match=f"DistancePrior: .*{sentence}"):
        explain(prior=gbce.DistancePrior(distance))


def test_something_that_is_no_distance_is_refused():
    with pytest.raises(TypeError, match=r"DistancePrior: distance must be a function of \(x, row\), not 5"):
        gbce.DistancePrior(5)
    with pytest.raises(TypeError, match=r"DistancePrior: proposal must be a prior such as gbce\.Laplace\(\), not 5"):
        gbce.DistancePrior(norm, proposal=5)


def test_bounded_distance_is_accepted_where_every_feature_is_bounded():
    prior = gbce.DistancePrior(lambda x, row: np.tanh(norm(x, row)))
    bounds = {name: (-3, 3) for name in NAMES}
    with pytest.raises(ValueError, match="Along 'debt' the distance"):
        explain(prior=prior, space=gbce.Space.infer(DATA, bounds=bounds | {"debt": (-3, None)}))
    explanation = explain(prior=prior, space=gbce.Space.infer(DATA, bounds=bounds))
    assert np.abs(explanation.draws.x).max() <= 3
    assert explanation.diagnostics["ess"] > 50


def test_ignoring_a_feature_that_cannot_move_is_no_fault_of_a_distance():
    prior = gbce.DistancePrior(lambda x, row: np.abs(x - row)[:, [0, 2]].sum(axis=1))
    explanation = explain(prior=prior, space=gbce.Space.infer(DATA, immutable=["income"]))
    assert (explanation.draws.x[:, 1] == ROW["income"]).all()


# --- files --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good():
    return explain(rules=[gbce.MAP(), gbce.Mean()])


@pytest.fixture
def saved(good, tmp_path):
    return good.save(tmp_path / "good.gbce")


@pytest.mark.parametrize("content", [b"", b"row,feature\n1,2\n", b"PK\x03\x04 almost"])
def test_file_that_is_no_explanation_is_refused(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"notes\.txt is not an explanation written by gbce"):
        gbce.load(path)


def test_archive_that_is_no_explanation_is_refused(tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match=r"arrays\.npz is not an explanation written by gbce"):
        gbce.load(tmp_path / "arrays.npz")


def test_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.gbce"):
        gbce.load(tmp_path / "nothing.gbce")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.999])
def test_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"good\.gbce is not an explanation written by gbce"):
        gbce.load(saved)


def test_file_damaged_anywhere_is_refused(saved):
    content = saved.read_bytes()
    for start in range(100, len(content) - 4_000, 1_501):
        saved.write_bytes(content[:start] + bytes(40) + content[start + 40 :])
        with pytest.raises(ValueError, match=r"good\.gbce is (not an explanation|damaged)"):
            gbce.load(saved)


class Trap:
    """Creates a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("member", ["pool__x__npy", "another__npy"])
def test_pickle_in_a_file_is_refused_and_not_run(saved, tmp_path, member):
    sprung = tmp_path / "sprung"
    pickled = as_npy(np.array([Trap(sprung)], dtype=object), allow_pickle=True)
    path = altered(saved, **{member: pickled})
    words = "holds object, where numbers belong" if member == "pool__x__npy" else "a member that is not known"
    with pytest.raises(gbce.FileError, match=rf"altered\.gbce is damaged: .*{words}"):
        gbce.load(path)
    assert not sprung.exists()
    np.load(io.BytesIO(pickled), allow_pickle=True)
    assert sprung.exists(), "the trap must be one that would have gone off"


DAMAGED = {
    "no array": {"pool__x__npy": None},
    "no weights": {"mixture__weights__npy": None},
    "short arrays": {"pool__loss__npy": as_npy(np.zeros((5, 1)))},
    "no decisions": {"decisions__x__npy": as_npy(np.zeros((0, 3)))},
}


@pytest.mark.parametrize("members", DAMAGED.values(), ids=DAMAGED)
def test_file_with_arrays_missing_or_short_is_refused(saved, members):
    with pytest.raises(ValueError, match=r"altered\.gbce is damaged"):
        gbce.load(altered(saved, **members))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 99}, r"has format 99; this version of gbce reads format 6"),
        ({"target": {"type": "gbce:Path", "label": "", "options": {}}}, r"damaged.*there is no target 'Path'"),
        ({"rules": [{"type": "gbce:Path", "label": "", "options": {}}]}, r"damaged.*there is no rule 'Path'"),
        ({"rules": [{"type": "gbce:MAP", "label": "MAP", "options": {"method": "best"}}]}, r"damaged.*method must be"),
        ({"rules": [{"type": 5, "label": "MAP", "options": {}}]}, r"damaged.*has no type or no label"),
        ({"mixture": {"eta": -1, "combine": "any"}}, r"damaged.*eta must be"),
        ({"space": 5}, r"damaged"),
    ],
)
def test_file_that_says_nonsense_is_refused(saved, change, sentence):
    with pytest.raises(gbce.FileError, match=rf"altered\.gbce .*{sentence}"):
        gbce.load(restated(saved, **change))


def test_altering_nothing_leaves_a_file_that_loads(saved, good):
    again = gbce.load(altered(saved, explanation__json=json.dumps(manifest(saved)).encode()))
    pd.testing.assert_frame_equal(again.pointwise, good.pointwise)


def test_saving_what_cannot_be_written_keeps_the_previous_file(saved):
    before = saved.read_bytes()
    odd = replace(gbce.load(saved), calibration=Calibration("odd", errors={"found": Fraction(1, 3)}))
    with pytest.raises(TypeError, match=r"Fraction\(1, 3\) of type Fraction cannot be written to a file"):
        odd.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["good.gbce"]


def test_saving_that_breaks_off_half_way_keeps_the_previous_file(saved, good, monkeypatch):
    before, written = saved.read_bytes(), []
    write = np.lib.format.write_array

    def full_disk(file, array, **options):
        written.append(array)
        if len(written) == 3:
            raise OSError("no space left on device")
        write(file, array, **options)

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="no space left on device"):
        good.save(saved)
    assert len(written) == 3
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["good.gbce"]


def test_noise_is_checked_before_a_model_is_asked():
    asked = []

    def model(frame):
        asked.append(len(frame))
        return frame["Age"]

    with pytest.raises(ValueError, match="noise must be zero or more"):
        gbce.Explainer(model, DATA, evaluation=gbce.Evaluation(noise=-1.0))
    explainer = gbce.Explainer(model, DATA)
    with pytest.raises(ValueError, match=r"noise names \['nope'\]"):
        explainer.explain(ROW, gbce.AtLeast(1.0), rules=[gbce.CVaR(noise={"nope": 0.1})])
    assert not asked


def test_a_saved_file_is_as_readable_as_any_other(tmp_path):
    explanation = explain()
    saved, plain = explanation.save(tmp_path / "e.gbce"), tmp_path / "plain"
    plain.write_text("")
    assert saved.stat().st_mode == plain.stat().st_mode


def test_names_are_lists_of_columns():
    for bad in (None, 5):
        with pytest.raises(TypeError, match="immutable must be a list of column names"):
            gbce.Space.infer(DATA, immutable=bad)
    with pytest.raises(ValueError, match="a number of features or a list of names"):
        gbce.Space.real("abc")
    with pytest.raises(ValueError, match="one number or 2"):
        gbce.Space.real(2, scale=[1.0, 2.0, 3.0])


def test_rules_that_differ_in_any_option_can_stand_together():
    rules = [gbce.DiverseSet(2), gbce.DiverseSet(3), gbce.MAP(), gbce.MAP(method="knn")]
    assert len(explain(rules=rules).counterfactuals) == 7


@pytest.mark.parametrize(
    ("y", "error", "says"),
    [
        (np.arange(7.0), ValueError, "y has 7 outcomes, but X has 20 rows"),
        (np.r_[np.nan, np.arange(19.0)], ValueError, "y is missing in 1 of 20 rows, first in row 0"),
        (np.r_[np.inf, np.arange(19.0)], ValueError, "y is infinite in row 0"),
        (["high"] * 20, TypeError, "y holds 'high'"),
        (np.zeros((20, 2)), ValueError, "fit one outcome at a time"),
    ],
)
def test_noise_scale_says_what_is_wrong_with_the_outcomes(y, error, says):
    with pytest.raises(error, match=re.escape(says)):
        gbce.noise_scale(LinearRegression(), np.random.default_rng(0).normal(size=(20, 2)), y)


@pytest.mark.parametrize(("option", "says"), [({"cv": 21}, "number of rows, 20"), ({"seed": -1}, "seed must be")])
def test_noise_scale_says_what_is_wrong_with_its_options(option, says):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=says):
        gbce.noise_scale(LinearRegression(), X, X[:, 0], **option)


def test_noise_scale_of_a_function_says_that_it_cannot_be_refitted():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(TypeError, match="function on folds, it has no fit"):
        gbce.noise_scale(lambda x: x[:, 0], X, X[:, 0])
