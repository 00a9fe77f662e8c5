"""What an answer says: round values, open ranges, vacuous promises, advice against the grain, names and notes."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gbce
from gbce.explanation import Share
from gbce.words._text import open_catalogue


@pytest.fixture(scope="module")
def loans():
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "income": rng.normal(4_000, 900, n),
            "ltv": rng.uniform(0.0, 1.2, n),
            "savings": rng.integers(0, 40_000, n),
            "age": rng.integers(18, 70, n),
        }
    )
    good = frame["income"] / 4_000 - frame["ltv"] + frame["savings"] / 60_000 > 0.5
    model = RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(frame, np.where(good, "yes", "no"))
    return frame, model


@pytest.fixture(scope="module")
def answers(loans):
    frame, model = loans
    explainer = gbce.Explainer(model, frame)
    rows = frame[model.predict(frame) == "no"].head(8)
    found = [explainer.explain(rows.iloc[[i]], "yes", rules=["Nearest"], seed=i, posterior=False) for i in range(8)]
    return explainer, rows, found


def test_printed_values_are_round_and_still_reach(loans, answers):
    frame, model = loans
    explainer, rows, found = answers
    for i, one in enumerate(found):
        answer, row = one.answer, rows.iloc[[i]].copy()
        for name in answer.changes.index:
            text = re.search(rf"{name} from \S+ to ([\d,.]+)", answer.changes_in_words).group(1)
            row[name] = float(text.replace(",", "").rstrip("."))
            step = explainer.space.steps[explainer.space.position[name]]
            bound = explainer.space.features[explainer.space.position[name]]
            value = float(answer.row[name].iloc[0])
            on_grid = abs(value / step - round(value / step)) < 1e-6
            assert on_grid or value in (bound.low, bound.high) or answer.kind != "reliable"
        assert model.predict(row[frame.columns])[0] == "yes"


def test_one_changed_number_has_its_whole_range(loans, answers):
    frame, model = loans
    explainer, rows, found = answers
    seen = 0
    for i, one in enumerate(found):
        box = one.answer.safe
        if box is None or one.answer.n_changes != 1:
            continue
        seen += 1
        name = box.features[0]
        j = explainer.space.position[name]
        low, high = (float(end[j]) for end in explainer.space.limits(one.x0))
        grid = np.linspace(low, high, 2_000)
        if explainer.space.features[j].kind == "integer":
            grid = np.unique(grid.round())
        many = pd.concat([rows.iloc[[i]]] * len(grid))
        many[name] = grid
        good = model.predict(many[frame.columns]) == "yes"
        inside = (grid >= box.low[0]) & (grid <= box.high[0])
        assert good[inside].all()
        step = grid[1] - grid[0]
        beside = ((grid > box.high[0]) & (grid <= box.high[0] + step)) | (
            (grid < box.low[0]) & (grid >= box.low[0] - step)
        )
        assert not good[beside].any()
        assert "up to" in box.sentence or "at least" in box.sentence or " from " in box.sentence
    assert seen >= 3


def test_a_range_without_an_end_says_so():
    x = pd.DataFrame({"debt": np.linspace(0.0, 10.0, 200), "other": np.random.default_rng(0).normal(size=200)})
    model = DecisionTreeRegressor(max_depth=1).fit(x, (x["debt"] > 5).astype(float))
    explainer = gbce.Explainer(model, x)
    answer = explainer.explain(x.iloc[150], gbce.AtMost(0.1), rules=["Nearest"], seed=0, posterior=False).answer
    assert answer.safe.low[0] == -np.inf
    assert re.match(r"Any debt up to [45][\d.]* is guaranteed", answer.safe.sentence)


def test_a_category_alone_cannot_be_missed_by_a_little():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"job": rng.choice(list("abc"), 200), "town": rng.choice(list("xyz"), 200)})
    label = np.where((frame["job"] == "a") | (frame["town"] == "z"), "yes", "no")
    model = make_pipeline(OneHotEncoder(), DecisionTreeClassifier()).fit(frame, label)
    answer = gbce.Explainer(model, frame).explain({"job": "b", "town": "x"}, "yes", seed=0, posterior=False).answer
    assert "No number changes" in answer.sentence
    assert "100" not in answer.sentence


def test_an_exact_share_near_one_is_said_in_hundreds():
    x = pd.DataFrame({"a": np.linspace(0.0, 10.0, 200)})
    model = DecisionTreeRegressor(max_depth=2).fit(x, x["a"])
    explainer = gbce.Explainer(model, x, policy=gbce.Reliable(0.9995))
    answer = explainer.explain(x.iloc[10], gbce.AtLeast(6), rules=["Nearest"], seed=0, posterior=False).answer
    if answer.reliability.exact and 0.999 < answer.reliability.share < 1:
        assert "more than 99.9 times out of 100" in answer.sentence
    assert "exact:" not in answer.sentence


def bumpy(rows):
    """Income helps on average, but a narrow dip below a thousand grants everything."""
    income = rows["income"].to_numpy()
    return np.where((income > 700) & (income < 1_000), 1.0, (income + 200 * rows["savings"].to_numpy() > 6_000) * 0.9)


@pytest.fixture(scope="module")
def dip():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"income": rng.uniform(500, 9_000, 300).round(), "savings": rng.uniform(0, 20, 300).round(1)})


def test_advice_against_the_grain_is_flagged_and_avoided(dip):
    row = {"income": 1_100.0, "savings": 1.0}
    target = gbce.AtLeast(0.5)
    usual = gbce.Explainer(bumpy, dip, policy="Nearest").explain(row, target, rules=[], seed=0, posterior=False)
    assert usual.answer.against == ("income",)
    assert "in other cases lowering income usually has the opposite effect" in usual.answer.sentence
    assert usual.answer.to_dict()["against"] == ["income"]
    sensible = gbce.Explainer(bumpy, dip, policy=gbce.Reliable(0.8, sensible=True))
    answer = sensible.explain(row, target, rules=[], seed=0, posterior=False).answer
    assert answer.reached
    assert answer.against == ()
    assert "opposite" not in answer.sentence


def test_flags_survive_files(dip, tmp_path):
    found = gbce.Explainer(bumpy, dip, policy="Nearest").explain(
        {"income": 1_100.0, "savings": 1.0}, gbce.AtLeast(0.5), rules=[], seed=0, posterior=False
    )
    again = gbce.load(found.save(tmp_path / "grain.gbce"))
    assert again.answer.against == ("income",)
    assert again.answer.sentence == found.answer.sentence


def test_sensible_is_a_flag():
    with pytest.raises(TypeError, match="sensible must be True or False"):
        gbce.Reliable(sensible="yes")


def test_models_have_the_names_they_are_given(loans):
    frame, model = loans
    explainer = gbce.Explainer({"forest": model, "again": model}, frame)
    found = explainer.explain(frame.iloc[0], "yes", rules=["Nearest"], seed=0, posterior=False)
    assert found.models == ("forest", "again")
    assert "forest" in found.answer.sentence
    with pytest.raises(TypeError, match="names of models must be strings"):
        gbce.Explainer({1: model}, frame)
    with pytest.raises(ValueError, match="empty"):
        gbce.Explainer({}, frame)


def test_reprs_are_short(loans, answers):
    explainer, _, (found, *_) = answers
    texts = {type(one).__name__: repr(one) for one in (explainer, found, found.draws, found.query, found.answer)}
    texts["Decision"] = repr(found.decisions[0])
    for name, text in texts.items():
        assert name in text
        assert len(text) < 300, text
        assert "array(" not in text
    assert repr(explainer.space) == str(explainer.space)
    wide = gbce.Space.real(200)
    assert len(repr(wide).splitlines()) < 40
    assert "170 more features" in repr(wide)


@pytest.mark.parametrize("name", ["age", "Sex", "applicantGender", "marital_status", "date of birth", "年齢", "性別"])
def test_a_protected_column_that_may_change_gets_a_note(name):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(18, 70, 40), "income": rng.normal(size=40)})
    (note,) = (note for note in gbce.Space.infer(frame).notes if "immutable" in note)
    assert f"immutable=[{name!r}]" in note
    assert not gbce.Space.infer(frame, immutable=[name]).notes


@pytest.mark.parametrize(
    "name", ["mileage", "average", "usage_days", "trace", "sextant", "percentage", "page", "mass index", "idle", "paid"]
)
def test_other_columns_get_none(name):
    rng = np.random.default_rng(0)
    assert not gbce.Space.infer(pd.DataFrame({name: rng.integers(18, 70, 40), "income": rng.normal(size=40)})).notes


@pytest.mark.parametrize("name", ["Unnamed: 0", "id", "customer_id", "applicantID", "index", "Row"])
def test_what_numbers_the_rows_gets_a_note_of_its_own(name):
    frame = pd.DataFrame({name: np.arange(40), "income": np.random.default_rng(0).normal(size=40)})
    (note,) = gbce.Space.infer(frame).notes
    assert note.startswith(f"{name!r} may change, although such a column usually numbers or names the rows.")
    assert note.endswith(f"Space.infer(data, immutable=[{name!r}]).")
    assert not gbce.Space.infer(frame, immutable=[name]).notes


def test_arrays_take_the_names_that_a_model_knows_and_keep_signs(loans):
    frame, model = loans
    space = gbce.Explainer(model, frame.to_numpy()).space
    assert space.names == tuple(frame.columns)
    assert [feature.low for feature in space.features] == [0.0] * 4
    assert space.columns is None
    assert any("immutable=['age']" in note for note in space.notes)
    plain = DecisionTreeRegressor(max_depth=2).fit(frame.to_numpy(), frame["ltv"])
    assert gbce.Explainer(plain, frame.to_numpy()).space.names == ("x1", "x2", "x3", "x4")


def test_trials_never_promise_that_something_always_works():
    data = pd.DataFrame({"a": np.linspace(0.0, 10.0, 200)})
    explainer = gbce.Explainer(lambda rows: rows["a"].to_numpy(), data, policy=gbce.Reliable(0.99))
    answer = explainer.explain(data.iloc[10], gbce.AtLeast(6), seed=0, posterior=False).answer
    sure = Share.of(1.0, answer.reliability.n)
    assert "it still works more than 99 times out of 100" in str(replace(answer, reliability=sure))
    for language, said in (("en", "more than 99"), ("ja", "99超")):
        assert open_catalogue(language).count(sure)["count"] == said
