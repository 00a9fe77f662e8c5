"""Whatever is wrong with a table, its space or its conditions is said in a sentence, before a model is asked."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import gbce

NAN = float("nan")
RNG = np.random.default_rng(0)
N = 60
DATA = pd.DataFrame(
    {
        "age": RNG.integers(18, 70, N),
        "pay": RNG.normal(30, 5, N),
        "job": np.array(["cook", "clerk", "pilot"])[RNG.integers(0, 3, N)],
        "school": pd.Categorical(
            np.array(["low", "mid", "high"])[RNG.integers(0, 3, N)], categories=["low", "mid", "high"], ordered=True
        ),
        "since": (pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 500, N), "D")).as_unit("s"),
        "rate": RNG.normal(size=N),
    }
)
ROW = DATA.iloc[[0]]
QUICK = gbce.Importance(n_candidates=300, n_draws=40)
ASKED = []


def model(frame):
    ASKED.append(len(frame))
    return frame["pay"].to_numpy(float) / 5 + (frame["job"] == "pilot")


@pytest.fixture(autouse=True)
def nothing_asked_yet():
    ASKED.clear()


def explain(row=ROW, data=DATA, **options):
    space = gbce.Space.infer(data, **options)
    explainer = gbce.Explainer(model, data, space=space, prior=gbce.Gaussian(), sampler=QUICK)
    return explainer.explain(row, gbce.AtLeast(7.0, scale=1, tolerance=0), rules=[gbce.MAP()], seed=0)


def with_cell(name, value, data=ROW):
    return data.astype({name: object}).assign(**{name: pd.Series([value] * len(data), data.index, dtype=object)})


# --- the row and the rows -----------------------------------------------------------------------------------

BAD_ROWS = {
    "an integer beyond any double": ("pay", 10**400, r"row: column 'pay' holds an integer above 1e308 in row 0"),
    "unseen level": ("job", "king", r"row: column 'job' holds 'king' in row 0, a level that the data do not have; its"),
    "unseen level of an ordinal": (
        "school",
        "top",
        r"row: column 'school' holds 'top' .* levels are 'low', 'mid', 'high'",
    ),
    "a list as a level": (
        "job",
        ["cook"],
        r"row: column 'job' holds \['cook'\] in row 0, a level that the data do not",
    ),
    "a number as a level": ("job", 3, r"row: column 'job' holds 3 in row 0, a level"),
    "missing number": ("pay", NAN, r"row: column 'pay' is missing in row 0, but the data have no missing values there"),
    "missing level": ("job", None, r"row: column 'job' is missing in row 0"),
    "missing time": ("since", pd.NaT, r"row: column 'since' is missing in row 0"),
    "missing whole number": ("age", NAN, r"row: 'age' is missing, but no training row has a missing 'age'"),
    "a text as a number": ("age", "old", r"row: column 'age' holds 'old' in row 0 where a number is expected"),
    "half a year": ("age", 30.5, r"row: 'age' = 30\.5 cannot be stored in a column of type int64"),
    "no time": ("since", "yesteryear", r"row: column 'since' holds 'yesteryear' in row 0 where a time is expected"),
    "a number as a time": ("since", 5, r"row: column 'since' holds 5 in row 0 where a time is expected"),
    "a time with a zone": ("since", pd.Timestamp("2020-01-01", tz="UTC"), r"row: column 'since' holds .* a time zone"),
    "a time too fine": (
        "since",
        pd.Timestamp("2020-01-01 00:00:00.000000001"),
        r"row: column 'since' .*too fine to be represented",
    ),
}


@pytest.mark.parametrize(("name", "value", "sentence"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_cell_is_refused_with_its_place(name, value, sentence):
    row = with_cell(name, value)
    with pytest.raises(ValueError, match=sentence):
        explain(row)
    with pytest.raises(ValueError, match=sentence):
        explain(row.iloc[0].to_dict())
    many = pd.concat([DATA.iloc[1:3].astype({name: object}), row])
    explainer = gbce.Explainer(model, DATA, sampler=QUICK)
    with pytest.raises(ValueError, match=sentence.replace("row:", "rows:")):
        explainer.explain_many(many, gbce.AtLeast(7.0), seed=0, progress=False)
    assert not ASKED


def test_unseen_level_in_the_data_of_a_given_space_is_refused():
    space = gbce.Space.infer(DATA)
    data = DATA.astype({"job": object})
    data.loc[7, "job"] = "king"
    with pytest.raises(
        ValueError, match=r"data: column 'job' holds 'king' in row 7, a level that the data do not have"
    ):
        gbce.Explainer(model, data, space=space)
    by_hand = gbce.Space((gbce.Feature("c", "categorical", levels=("a", "b")),))
    with pytest.raises(ValueError, match=r"data: column 'c' holds 'z' in row 1"):
        by_hand.adopt(pd.DataFrame({"c": ["a", "z"]}))


OUTSIDE = {
    "number": (
        {"bounds": {"pay": (100, None)}},
        r"row: 'pay' = \S+ lies below its bound 100\. Correct the row or widen",
    ),
    "whole number": ({"bounds": {"age": (None, 3)}}, r"row: 'age' = \d+ lies above its bound 3"),
    "datetime": (
        {"bounds": {"since": ("2030-01-01", None)}},
        r"row: 'since' = 20\d\d-\d\d-\d\d lies below its bound 2030",
    ),
}


@pytest.mark.parametrize(("options", "sentence"), OUTSIDE.values(), ids=OUTSIDE)
def test_row_outside_a_bound_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(**options)
    assert not ASKED


def test_row_outside_the_levels_that_are_allowed_is_refused():
    row = with_cell("school", "low")
    with pytest.raises(ValueError, match=r"row: 'school' = low lies below its bound mid"):
        explain(row, bounds={"school": ("mid", None)})
    assert explain(with_cell("school", "mid"), bounds={"school": ("mid", None)}).status


BROKEN = {
    "a text": (
        {"constraints": ["pay >= 200"]},
        r"row: the constraint 'pay >= 200' does not hold\. Correct the row or drop",
    ),
    "the second of two": ({"constraints": ["pay >= 0", "rate > 99"]}, r"row: the constraint 'rate > 99' does not hold"),
    "a rule": (
        {"constraints": [f"if job == {ROW['job'].iloc[0]!r} then pay > 900"]},
        r"row: the constraint .* does not hold",
    ),
    "a function": ({"constraints": [lambda f: f["pay"] > 900]}, r"row: the constraint '<lambda>' does not hold"),
    "a computed column": (
        {"computed": {"rate": "pay / 2"}},
        r"row: 'rate' = \S+, but pay / 2 gives \S+\. Correct the row or",
    ),
    "a function that computes": (
        {"computed": {"rate": lambda f: f["pay"] / 2}},
        r"row: 'rate' = \S+, but <lambda> gives",
    ),
}


@pytest.mark.parametrize(("options", "sentence"), BROKEN.values(), ids=BROKEN)
def test_row_that_breaks_a_condition_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(**options)
    assert not ASKED


# --- conditions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraints", "bounds", "named", "innocent"),
    [
        (["pay >= 10", "pay <= 5", "age >= 0"], {}, ["'pay >= 10'", "'pay <= 5'"], ["age"]),
        (
            ["age > pay + 1", "pay > rate", "rate > age", "pay <= 100"],
            {},
            ["age > pay", "pay > rate", "rate > age"],
            ["100"],
        ),
        (
            ["pay + rate >= 30", "rate <= 50"],
            {"pay": (0, 5), "rate": (None, 9)},
            ["pay + rate", "pay has high = 5", "rate has high = 9"],
            ["rate <= 50", "low"],
        ),
        (["pay == 3", "pay >= 4", "rate == 1"], {}, ["'pay == 3'", "'pay >= 4'"], ["rate"]),
        (["10 <= pay <= 5"], {}, ["'10 <= pay <= 5'"], ["age"]),
        (["`pay` - pay >= 1"], {}, ["`pay` - pay >= 1"], ["age"]),
    ],
)
def test_constraints_that_contradict_each_other_are_named_and_no_others(constraints, bounds, named, innocent):
    with pytest.raises(ValueError, match=r"no row can meet all of these at once: .*Drop or loosen one") as caught:
        gbce.Space.infer(DATA, constraints=constraints, bounds=bounds)
    listed = str(caught.value).removeprefix("no row can meet all of these at once: ").split(". Drop or")[0]
    assert all(text in listed for text in named)
    assert not any(text in listed for text in innocent)
    assert len(listed.split("; ")) == len(named)


def test_numbers_that_are_levels_are_no_contradiction():
    data = DATA.assign(school=pd.Categorical(RNG.choice([10, 20, 30], N), categories=[10, 20, 30], ordered=True))
    row = data[data["school"] == 20].iloc[[0]]
    explanation = explain(row, data, constraints=["school >= 15"])
    assert set(explanation.space.frame(explanation.draws.pool.x)["school"]) == {20, 30}


def test_a_condition_that_only_the_row_meets_is_found_out_soon():
    own, asked = ROW["pay"].iloc[0], []

    def only_the_row(frame):
        asked.append(len(frame))
        return frame["pay"] == own

    with pytest.raises(
        ValueError, match=r"only 0 of [\d,]+ candidates around the row meet the constraints; 'only_the_row'"
    ):
        explain(constraints=[only_the_row, "age >= 0"])
    assert sum(asked) < 1_000_000  # half of that in a run; a search that does not give up has no such bound


BAD_FUNCTIONS = {
    "one number for all": (lambda f: 5, r"the constraint '<lambda>' must return True or False for each of 1 rows"),
    "a frame": (
        lambda f: f[["pay", "age"]] > 0,
        r"must return True or False for each of 1 rows, not an array of shape \(1, 2\)",
    ),
    "too many": (lambda f: np.ones(len(f) + 1, bool), r"each of 1 rows, not an array of shape \(2,\)"),
    "texts": (lambda f: f["job"], r"must return True or False for each of 1 rows"),
    "numbers": (lambda f: f["pay"], r"must return True or False for each of 1 rows"),
    "nothing": (lambda f: None, r"must return True or False for each of 1 rows"),
    "unknown": (lambda f: pd.array([pd.NA] * len(f), dtype="boolean"), r"must return True or False for each of 1 rows"),
    "raises": (lambda f: f["zip"], r"the constraint '<lambda>' raised KeyError: 'zip'"),
}


@pytest.mark.parametrize(("function", "sentence"), BAD_FUNCTIONS.values(), ids=BAD_FUNCTIONS)
def test_bad_function_as_a_constraint_is_refused(function, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(constraints=[function])
    assert not ASKED


BAD_FORMULAS = {
    "shape": (lambda f: np.ones(len(f) + 1), r"computed column 'rate': <lambda> must return 1 numbers, not \(2,\)"),
    "texts": (lambda f: f["job"], r"computed column 'rate': <lambda> must return numbers"),
    "raises": (lambda f: 1 / 0, r"computed column 'rate': <lambda> raised ZeroDivisionError: division by zero"),
    "text": ("job + 1", r"'job \+ 1' cannot be evaluated"),
}


@pytest.mark.parametrize(("formula", "sentence"), BAD_FORMULAS.values(), ids=BAD_FORMULAS)
def test_bad_formula_is_refused(formula, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(computed={"rate": formula})
    assert not ASKED


# --- the data -----------------------------------------------------------------------------------------------

FAR = pd.Series(pd.date_range("1700-01-01", periods=N, freq="1461D")) + pd.to_timedelta(RNG.integers(0, 10**9, N), "ns")
BAD_DATA = {
    "no level named": (DATA, {"levels": {"job": []}}, r"column 'job' .*level|feature 'job' has no level"),
    "a level left out": (DATA, {"levels": {"job": ["cook", "clerk"]}}, r"data: column 'job' holds 'pilot' in row \d+"),
    "a level twice": (DATA, {"levels": {"job": ["cook", "clerk", "pilot", "cook"]}}, r"'job': a level occurs twice"),
    "levels as a text": (DATA, {"levels": {"job": "cook"}}, r"levels of 'job' must be a list, not 'cook'"),
    "levels of a number": (DATA, {"levels": {"pay": 5}}, r"levels of 'pay' must be a list, not 5"),
    "ordinal texts": (DATA, {"kinds": {"job": "ordinal"}}, r"column 'job' is declared ordinal, .*give levels="),
    "direction of a category": (
        DATA,
        {"increase": ["job"]},
        r"feature 'job': a categorical feature cannot increase: make",
    ),
    "bounds of a category": (
        DATA,
        {"bounds": {"job": ("a", "b")}},
        r"bounds: 'job' is categorical and has none; forbid",
    ),
    "bounds of unknown levels": (
        DATA,
        {"bounds": {"school": ("none", None)}},
        r"bounds of 'school' must be levels out of",
    ),
    "bounds of no time": (
        DATA,
        {"bounds": {"since": ("soon", None)}},
        r"bounds of 'since' must be times, not 'soon'",
    ),
    "bounds that are years": (
        DATA,
        {"bounds": {"since": (2000, None)}},
        r"bounds of 'since' must be times, not 2000",
    ),
    "bounds beyond any double": (
        DATA,
        {"bounds": {"pay": (0, 10**400)}},
        r"feature 'pay': high must be a number or None",
    ),
    "a level that is missing": (DATA, {"levels": {"job": ["cook", None]}}, r"levels of 'job': a missing value is no"),
    "a category as a number": (DATA, {"kinds": {"school": "real"}}, r"'school' holds categories, and real ones are"),
    "three strings as a boolean": (DATA, {"kinds": {"job": "boolean"}}, r"'job' is declared boolean, but holds 3"),
    "bounds the wrong way": (
        DATA,
        {"bounds": {"school": ("high", "low")}},
        r"bounds of 'school': 'high' lies above 'low'",
    ),
    "huge whole numbers": (
        DATA.assign(age=2**53 + np.arange(N)),
        {},
        r"data: column 'age' holds integers beyond 2\*\*53",
    ),
    "huge nullable ones": (
        DATA.assign(age=pd.array(2**53 + np.arange(N), "Int64")),
        {},
        r"'age' holds integers beyond",
    ),
    "huge unsigned ones": (
        DATA.assign(age=np.uint64(2**63) + np.arange(N, dtype="uint64")),
        {},
        r"'age' holds integers",
    ),
    "huge ones among objects": (DATA.assign(age=pd.Series([10**20] * N, dtype=object)), {}, r"integers beyond 2\*\*53"),
    "integers beyond any double": (
        DATA.assign(age=pd.Series([10**400] * N, dtype=object)),
        {"kinds": {"age": "real"}},
        r"an integer above 1e308",
    ),
    "times too fine": (
        DATA.assign(since=FAR),
        {},
        r"data: column 'since' holds .*too fine to be represented together with the others",
    ),
    "lists": (DATA.assign(job=[[1]] * N), {}, r"data: column 'job' holds \[1\], which is neither a number nor a level"),
    "dicts": (DATA.assign(job=[{}] * N), {}, r"data: column 'job' holds \{\}, which is neither a number nor a level"),
    "bytearrays": (DATA.assign(job=[bytearray(b"a")] * N), {}, r"'job' holds bytearray\(b'a'\), which is neither"),
    "tuples of lists": (DATA.assign(job=[([1],)] * N), {}, r"'job' holds \(\[1\],\), which is neither a number nor"),
    "all missing": (DATA.assign(pay=NAN), {}, r"data: the columns \['pay'\] hold no value at all\. Drop them"),
    "all missing texts": (DATA.assign(job=None), {}, r"\['job'\] hold no value at all"),
    "all missing strings": (DATA.assign(job=pd.array([None] * N, "string")), {}, r"\['job'\] hold no value at all"),
    "all missing categories": (DATA.assign(job=pd.Categorical([None] * N)), {}, r"\['job'\] hold no value at all"),
    "all missing times": (DATA.assign(since=pd.NaT), {}, r"\['since'\] hold no value at all"),
    "all missing integers": (DATA.assign(age=pd.array([None] * N, "Int64")), {}, r"\['age'\] hold no value at all"),
    "the same name twice": (
        DATA.set_axis([*DATA.columns[:-1], "pay"], axis=1),
        {},
        r"data: a column name occurs twice: \['pay'\]",
    ),
    "the same text twice": (
        DATA.rename(columns={"age": 1, "pay": "1"}),
        {},
        r"data: a column name occurs twice: \['1'\]",
    ),
    "complex numbers": (DATA.assign(pay=1j + np.arange(N)), {}, r"data: column 'pay' .*complex"),
    "spans of time": (
        DATA.assign(pay=pd.to_timedelta(np.arange(N), "D")),
        {},
        r"data: column 'pay' .*timedelta.*convert",
    ),
    "periods": (
        DATA.assign(pay=pd.period_range("2020-01", periods=N, freq="M")),
        {},
        r"data: column 'pay' .*period.*convert",
    ),
}


def test_types_of_arrow_that_pandas_does_not_find_again_are_refused():
    pa = pytest.importorskip("pyarrow")
    for kind, value in ((pa.date32(), "2020-01-01"), (pa.timestamp("us"), "2020-01-01"), (pa.decimal128(5, 1), "1.5")):
        column = pd.Series(pd.array([value] * N, dtype="string[pyarrow]").astype(pd.ArrowDtype(kind)))
        with pytest.raises(ValueError, match=r"column 'pay' of .* cannot be returned in its type: convert"):
            gbce.Space.infer(DATA.assign(pay=column))


@pytest.mark.parametrize(("data", "options", "sentence"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_table_is_refused_with_its_place(data, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        gbce.Space.infer(data, **options)


def test_a_model_that_cannot_take_what_is_missing_is_named():
    data = DATA[["age", "pay", "rate"]].astype({"age": float})
    linear = LinearRegression().fit(data, data["pay"])
    holes = data.mask(np.random.default_rng(1).random(data.shape) < 0.1)
    explainer = gbce.Explainer(linear, holes, sampler=QUICK)
    with pytest.raises(gbce.PredictionError, match=r"^LinearRegression.*raised ValueError.*NaN"):
        explainer.explain(data.iloc[0], gbce.AtLeast(40), seed=0)


INDICES = {
    "several levels": pd.MultiIndex.from_product([["a", "b"], range(N // 2)]),
    "the same everywhere": pd.Index(["x"] * N),
    "times": pd.date_range("2020-01-01", periods=N),
    "missing": pd.Index([NAN] * N),
    "a column's name": pd.Index(range(N), name="pay"),
}


@pytest.fixture(scope="module")
def plain():
    return explain()


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_any_index_works_and_changes_no_number(index, plain):
    data = DATA.set_axis(index, axis=0)
    other = explain(data.iloc[[0]], data)
    np.testing.assert_array_equal(other.draws.x, plain.draws.x)
    pd.testing.assert_frame_equal(other.counterfactuals, plain.counterfactuals)
    explainer = gbce.Explainer(model, data, prior=gbce.Gaussian(), sampler=QUICK)
    table = explainer.explain_many(data.iloc[:2], gbce.AtLeast(7.0), rules=[gbce.Mean()], seed=0, progress=False)
    assert len(table.counterfactuals) == 2
    assert len(explainer.assess(plain, data.iloc[:1])) == 1
