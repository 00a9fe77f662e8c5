"""Tables that are legal but odd: columns that never change, groups that overlap, values a hair outside their bounds."""

import numpy as np
import pandas as pd
import pytest

import gbce

N = 80
RNG = np.random.default_rng(0)
DATA = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
QUICK = gbce.Importance(2_000, 500)


def model(frame):
    return frame["a"].to_numpy() + frame["b"].to_numpy()


def explained(data, **options):
    space = gbce.Space.infer(data, **options)
    return gbce.Explainer(model, data, space=space, sampler=QUICK).explain(data.iloc[0], gbce.AtLeast(1.0), seed=0)


# --- constant columns -----------------------------------------------------------------------------------------

CONSTANT = {
    "0/1": 1,
    "a boolean": True,
    "a whole number": 7,
    "a masked one": pd.array([1] * N, dtype="Int64"),
    "a number": 2.5,
    "a text": "u",
    "a category": pd.Categorical(["u"] * N),
    "a category with more levels": pd.Categorical(["u"] * N, categories=["u", "v"]),
    "an ordered category": pd.Categorical(["u"] * N, categories=["t", "u", "v"], ordered=True),
    "a moment": pd.Timestamp("2020-01-01"),
    "a number or nothing": [2.5] * (N - 1) + [np.nan],
}


OTHER_SCALES = [("a number", "mad"), ("a number", "raw"), ("a text", "mad")]


@pytest.mark.parametrize(("kind", "scale"), [*((kind, "sd") for kind in CONSTANT), *OTHER_SCALES])
def test_constant_column_of_any_kind_stays_as_it_is_with_a_note(kind, scale):
    data = DATA.assign(k=CONSTANT[kind])
    explanation = explained(data, scale=scale)
    for table in (explanation.space.frame(explanation.draws.x), explanation.counterfactuals):
        assert (table["k"] == data["k"].iloc[0]).all()
        assert table["k"].dtype == data["k"].dtype
    said = [note for note in explanation.notes if note.startswith("Held fixed")]
    assert len(said) == 1
    assert "one value only: 'k'." in said[0]
    assert said[0] in str(explanation.space)


def test_constant_group_of_one_hot_columns_stays_as_it_is():
    data = DATA.assign(c_red=1, c_blue=0)
    explanation = explained(data, one_hot={"c": "c_"})
    table = explanation.space.frame(explanation.draws.x)
    assert (table["c_red"] == 1).all()
    assert (table["c_blue"] == 0).all()
    assert any("one value only: 'c'." in note for note in explanation.notes)


def test_constant_column_moves_where_it_is_said_how():
    data = DATA.assign(k=1, x=2.5, t="u", total=3.0, gap=[*["g"] * (N - 1), None])
    space = gbce.Space.infer(
        data,
        levels={"k": [0, 1], "t": ["u", "v"]},
        scale={"x": 2.0},
        computed={"total": "x + 0.5"},
        missing={"gap": "any"},
    )
    assert all(feature.mutable for feature in space.features)
    assert space.notes == ()


def test_note_names_a_few_of_many_constant_columns():
    data = pd.concat([DATA, pd.DataFrame(np.ones((N, 30)), columns=[f"c{j}" for j in range(30)])], axis=1)
    (note,) = gbce.Space.infer(data).notes
    assert "'c9' and 20 more." in note


def test_table_in_which_nothing_varies_is_refused_where_it_is_explained():
    data = DATA.assign(a=1.0, b=2.0)
    explainer = gbce.Explainer(model, data, sampler=QUICK)
    with pytest.raises(ValueError, match="no feature can change"):
        explainer.explain(data.iloc[0], gbce.AtLeast(1.0, scale=1.0, tolerance=0.1))


# --- one-hot groups -------------------------------------------------------------------------------------------

SPELLED = DATA.assign(a_1=[1, 0] * (N // 2), a_2=[0, 1] * (N // 2), a_b_1=[1, 0] * (N // 2), a_b_2=[0, 1] * (N // 2))
BAD_GROUPS = {
    "a shared start": (
        {"one": "a_", "two": "a_b_"},
        r"one_hot\['two'\] and one_hot\['one'\] share the columns \['a_b_1', 'a_b_2'\].*one group only",
    ),
    "a shared column": (
        {"one": ["a_1", "a_2"], "two": ["a_2", "a_b_1"]},
        r"one_hot\['two'\] and one_hot\['one'\] share the columns \['a_2'\]",
    ),
    "a column twice": ({"one": ["a_1", "a_2", "a_1"]}, r"one_hot\['one'\] lists \['a_1'\] twice"),
    "the name of a column": ({"a": ["a_1", "a_2"]}, r"one_hot\['a'\] has the name of a column of the data"),
    "the name of its own column": ({"a_1": ["a_1", "a_2"]}, r"one_hot\['a_1'\] has the name of a column"),
    "one name in two forms": ({1: ["a_1", "a_2"], "1": ["a_b_1", "a_b_2"]}, r"one_hot names a column twice"),
    "a list": (["a_"], r"one_hot must be a mapping"),
}


@pytest.mark.parametrize(("groups", "sentence"), BAD_GROUPS.values(), ids=BAD_GROUPS)
def test_groups_that_overlap_or_are_named_like_a_column_are_refused(groups, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        gbce.Space.infer(SPELLED, one_hot=groups)


def test_groups_that_do_not_overlap_hold_one_level_each():
    explanation = explained(SPELLED, one_hot={"one": ["a_1", "a_2"], "two": "a_b_"})
    table = explanation.space.frame(explanation.draws.x)
    assert (table["a_1"] + table["a_2"] == 1).all()
    assert (table["a_b_1"] + table["a_b_2"] == 1).all()


# --- sentences and limits -------------------------------------------------------------------------------------


def test_value_a_hair_below_its_bound_is_told_apart_from_it():
    space = gbce.Space.infer(DATA, bounds={"b": (1.0, None)})
    (problem,) = space.check(pd.DataFrame({"a": [0.0], "b": [1.0 - 1e-7]}))["problem"]
    assert problem.startswith("'b' = 0.9999999 lies below its bound 1.")
    (problem,) = space.check(pd.DataFrame({"a": [0.0], "b": [0.5]}))["problem"]
    assert problem.startswith("'b' = 0.5 lies below its bound 1.")  # with the digits of the column


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: gbce.Feature("a", low=1.0 + 1e-9, high=1.0), r"low = 1\.000000001 is above high = 1\.0"),
        (lambda: gbce.Range(1.0 + 1e-9, 1.0), r"low = 1\.000000001 is above high = 1\.0"),
        (
            lambda: gbce.Space.infer(DATA.assign(k=np.arange(N))).encode({"a": 0.0, "b": 0.0, "k": 5.0000001}),
            r"'k' = 5\.0000001 cannot be stored",
        ),
        (
            lambda: gbce.Space.infer(DATA.assign(c=DATA["a"]), computed={"c": "a"}).encode_row([1.0, 0.0, 1.0 + 1e-7]),
            r"'c' = 1\.0000001, but a gives 1\.0",
        ),
    ],
)
def test_sentence_with_two_numbers_does_not_contradict_itself(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("width", [1e300, 1e16, 1e-16, 1e-300])
@pytest.mark.parametrize(
    "prior",
    [
        lambda s: gbce.Gaussian(s),
        lambda s: gbce.Gaussian([1.0, s]),
        lambda s: gbce.Laplace(s),
        lambda s: gbce.Sparse(gbce.Gaussian(s)),
        lambda s: gbce.Gaussian(cov=np.diag([1.0, min(s, 1e150) ** 2])),
    ],
)
def test_width_of_a_prior_beyond_rounding_is_refused_before_a_model_is_asked(prior, width):
    asked = []
    explainer = gbce.Explainer(lambda x: asked.append(1) or x[:, 0], np.asarray(DATA), prior=prior(width))
    with pytest.raises(ValueError, match=r"sigma|Laplace: b|cov"):
        explainer.explain([0.0, 0.0], gbce.AtLeast(1.0, scale=1.0, tolerance=0.1), seed=0)
    assert not asked


def test_number_of_features_or_of_draws_that_would_not_come_back_is_refused():
    with pytest.raises(ValueError, match=r"1,000,000,000 features are too many; at the maximum of 100,000"):
        gbce.Space.real(10**9)
    with pytest.raises(ValueError, match=r"k must be at most 10,000, not 1,000,000,000"):
        gbce.RandomDraw(10**9)
    with pytest.raises(ValueError, match=r"a number of features or a list of names, not 2\.5"):
        gbce.Space.real(2.5)
    assert len(gbce.Space.real(np.int64(3))) == 3
    assert gbce.RandomDraw(10_000).k == 10_000
