"""Whatever is wrong with a row, the data or a space, the error says what, where, and what to do about it."""

import numpy as np
import pandas as pd
import pytest

import gbce
from support.three_columns import DATA, INF, NAMES, NAN, ROW, explain


def with_value(column, value, at=7):
    data = DATA.astype(object) if isinstance(value, str) else DATA.copy()
    data.loc[at, column] = value
    return data


# --- the row ---------------------------------------------------------------------------------------------------------


BAD_ROWS = {
    "NaN": (ROW | {"income": NAN}, r"row: column 'income' is missing .*Fill it in, or allow it"),
    "infinite": (ROW | {"debt": -INF}, r"row: column 'debt' is -inf .*Fill in or drop"),
    "None": (ROW | {"debt": None}, r"row: column 'debt' is missing"),
    "NaN in an array": ([NAN, 0.0, 0.0], r"row: column 'Age' is missing"),
    "missing in a nullable column": (pd.DataFrame([ROW]).astype("Float64").mask([[False, True, False]]), r"'income'"),
    "too few columns": ([0.0, 0.0], r"row has 2 columns, but the model's rows have 3: \['Age', 'income', 'debt'\]"),
    "too many columns": (np.zeros((1, 4)), r"row has 4 columns, but the model's rows have 3"),
    "missing column": ({"Age": 0.0, "debt": 0.0}, r"row lacks \['income'\].*Names must match"),
    "extra column": (ROW | {"city": 1.0}, r"row has also \['city'\].*Drop columns that the model was not fitted on"),
    "misspelt column": ({"age": 0, "income": 0, "debt": 0}, r"row lacks \['Age'\] and has also \['age'\]"),
    "column twice": (pd.DataFrame([[0, 0, 0, 0]], columns=[*NAMES, "debt"]), r"row: a column name occurs twice"),
    "a string": (ROW | {"income": "high"}, r"row: column 'income' holds 'high' .*where a number is expected"),
    "a string in an array": (["old", 0.0, 0.0], r"row: column 'Age' holds 'old' .*where a number is expected"),
    "a number as text": (ROW | {"income": "12"}, r"row: column 'income' holds '12' .*where a number is expected"),
    "a complex number": (ROW | {"Age": 1j}, r"row: column 'Age' holds 1j"),
    "a list in a cell": (ROW | {"Age": [1, 2]}, r"row: column 'Age' holds \[1, 2\]"),
    "two rows": (DATA.iloc[:2], r"row must be a single row, but it has 2; pick one"),
    "no rows": (DATA.iloc[:0], r"row has no rows"),
    "nothing": ({}, r"row has no columns"),
    "a number": (6, r"not 6; if it is the number of a row, pass the values: data\.iloc\[\[6\]\]"),
    "a word": ("Age", r"row must be a table"),
    "three axes": (np.zeros((1, 1, 3)), r"row must be a table .*\(1, 1, 3\)"),
    "ragged": ([[1, 2, 3], [1]], r"row is not a rectangular table"),
}


@pytest.mark.parametrize(("row", "sentence"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_row_is_refused_with_its_place(row, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(row=row)


def test_rows_may_be_listed_as_mappings_or_series_and_are_matched_by_name():
    space = gbce.Space.infer(DATA)
    want = space.encode(DATA.iloc[:3])
    shuffled = DATA[["debt", "Age", "income"]]
    for rows in ([row.to_dict() for _, row in DATA.iloc[:3].iterrows()], [shuffled.iloc[i] for i in range(3)]):
        np.testing.assert_array_equal(space.encode(rows), want)
    np.testing.assert_array_equal(space.encode_row([ROW]), space.encode_row(ROW))
    with pytest.raises(ValueError, match=r"rows: row 1 lacks \['debt'\] and has also \['city'\]; the first one has"):
        space.encode([ROW, {"Age": 0.0, "income": 0.0, "city": 1.0}])
    with pytest.raises(ValueError, match=r"rows lacks \['income'\] and has also \['city'\]"):
        space.encode([{"Age": 0.0, "debt": 0.0, "city": 1.0}])


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
    with pytest.raises(
        ValueError, match=rf"row: 'count' = {value} cannot be stored in a column of type {dtype}.*Correct"
    ):
        explain(data=data, space=space, row=ROW | {"count": value})
    assert explain(data=data, space=space, row=ROW | {"count": 1}).row.x[0, 3] == 1


# --- the data and the space ------------------------------------------------------------------------------------------


BAD_DATA = {
    "infinite": (with_value("debt", INF), r"data: column 'debt' is inf in row 7"),
    "nothing but NaN": (DATA.assign(debt=NAN), r"columns \['debt'\] hold no value at all"),
    "a string": (with_value("debt", "low"), r"data: column 'debt' holds 'low' in row 7 where a number is expected"),
    "a number": (
        DATA.assign(debt=["u"] * 59 + [3]),
        r"data: column 'debt' holds 3 in row 59 where a string is expected",
    ),
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
    "unknown scale": ({"scale": "std"}, r"scale must be 'auto', 'sd', 'mad', 'raw' or a mapping.*not 'std'"),
    "zero scale": ({"scale": {"debt": 0}}, r"'debt': scale must be a positive number, not 0"),
    "negative scale": ({"scale": {"debt": -2.0}}, r"'debt': scale must be a positive number, not -2"),
    "NaN scale": ({"scale": {"debt": NAN}}, r"'debt': scale must be a positive number, not nan"),
    "text scale": ({"scale": {"debt": "1"}}, r"'debt': scale must be a positive number, not '1'"),
    "a kind that is none": ({"kinds": {"debt": "text"}}, r"'debt' must be one of 'real'.*not 'text'"),
    "bounds of a word": ({"bounds": "all"}, r"bounds must be a mapping .*, 'data' or 'none', not 'all'"),
    "a condition on nobody": ({"constraints": ["zip <= 3"]}, r"'zip <= 3' names \['zip'\]"),
    "a condition that is none": ({"constraints": ["Age <="]}, r"'Age <=' cannot be parsed"),
    "a call": ({"constraints": ["__import__('os').system('ls') == 0"]}, r"cannot be used: it may contain only columns"),
    "a computed cycle": ({"computed": {"Age": "debt", "debt": "Age"}}, r"depend on each other in a cycle"),
    "one column as one-hot": ({"one_hot": {"group": ["Age"]}}, r"one_hot\['group'\] must list at least two"),
    "one-hot of other numbers": ({"one_hot": {"group": ["Age", "debt"]}}, r"declared as one-hot"),
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


def test_names_are_lists_of_columns():
    with pytest.raises(TypeError, match="immutable must be a list of column names"):
        gbce.Space.infer(DATA, immutable=5)
    nothing = gbce.Space.infer(DATA, immutable=None, increase=None, decrease=None, constraints=None)
    assert nothing == gbce.Space.infer(DATA)
    with pytest.raises(ValueError, match="a number of features or a list of names"):
        gbce.Space.real("abc")
    with pytest.raises(ValueError, match="one number or 2"):
        gbce.Space.real(2, scale=[1.0, 2.0, 3.0])
