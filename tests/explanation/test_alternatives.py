"""Strategies: confirmed by the model row by row, distinct, worth a change, with shares of the posterior."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce
from gbce.decisions import find_moves, follow_strategies
from gbce.decisions._needed import Judge, choose_strategies, undo_unneeded
from gbce.metrics import Verdict
from support.laws import within

LOANS = Path(__file__).parents[2] / "examples" / "loans.csv"


def mixed_table(n=400, seed=0):
    """A credit table with categories, integers and numbers, and who was good."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.gamma(4, 700, n).round(0),
            "age": rng.integers(20, 70, n),
            "job": rng.choice(["none", "clerk", "skilled"], n),
            "home": rng.choice(["rent", "own"], n),
            "debt": rng.gamma(2, 400, n).round(0),
            "mass": rng.normal(size=n),
        }
    )
    score = (frame["income"] - 2_500) / 700 + 1.5 * (frame["job"] == "skilled") + 0.8 * (frame["home"] == "own")
    score -= (frame["debt"] - 800) / 500
    return frame, np.where(score + rng.logistic(size=n) * 0.3 > 0, "good", "bad")


def question(name):
    """A model, its table, a row and a target."""
    if name == "forest, breast cancer":
        x, y = load_breast_cancer(return_X_y=True, as_frame=True)
        model = RandomForestClassifier(50, random_state=0).fit(x, y)
        return model, x, x[model.predict(x) == 0].iloc[3], gbce.Class(1)
    if name == "LightGBM, wine":
        x, y = load_wine(return_X_y=True, as_frame=True)
        model = LGBMClassifier(n_estimators=30, verbose=-1, random_state=0, n_jobs=1).fit(x, y)
        return model, x, x[model.predict(x) == 2].iloc[0], gbce.Class(1)
    if name == "network, diabetes":
        x, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
        network = MLPRegressor(hidden_layer_sizes=(8,), random_state=0, early_stopping=True, learning_rate_init=0.02)
        model = make_pipeline(StandardScaler(), network).fit(x, y)
        return model, x, x.iloc[int(np.argmax(model.predict(x)))], gbce.AtMost(150.0)
    if name == "boosting, loans":
        loans = pd.read_csv(LOANS, dtype={"job": "category", "home": "category"})
        x, y = loans.drop(columns="decision"), loans["decision"]
        model = HistGradientBoostingClassifier(max_iter=80, min_samples_leaf=40, random_state=0).fit(x, y)
        return model, x, x.loc[11], gbce.Class("approved")
    x, y = mixed_table()
    coded = make_column_transformer((OneHotEncoder(), ["job", "home"]), remainder=StandardScaler())
    model = make_pipeline(coded, LogisticRegression()).fit(x, y)
    return model, x, x[model.predict(x) == "bad"].iloc[0], gbce.Class("good")


NAMES = ("forest, breast cancer", "LightGBM, wine", "network, diabetes", "logistic, mixed", "boosting, loans")


@pytest.fixture(scope="module", params=NAMES)
def asked(request):
    model, data, row, target = question(request.param)
    fixed = ["age", "job", "home", "years_employed", "late_payments"] if request.param == "boosting, loans" else []
    explainer = gbce.Explainer(model, data, space=gbce.Space.infer(data, immutable=fixed))
    return model, explainer, row, target, explainer.explain(row, target, seed=0)


def points_of(explanation, table):
    """The points of a table of strategies in the user's columns."""
    return table.iloc[:, -len(explanation.space) :].set_axis(list(explanation.space.names), axis=1)


def test_every_one_is_reached_by_the_models_own_predict_of_that_row_alone(asked):
    model, _, _, target, explanation = asked
    table = explanation.alternatives(5).table
    assert len(table) >= 3
    assert table["reached"].all()
    rows = points_of(explanation, table)
    for i in range(len(rows)):
        decided = model.predict(rows.iloc[[i]])[0]
        assert decided <= target.y if isinstance(target, gbce.AtMost) else decided == target.label


def test_they_differ_in_columns_or_direction_and_change_no_column_by_less_than_a_hundredth(asked):
    explanation = asked[-1]
    space, x0 = explanation.space, explanation.x0
    x = space.encode(points_of(explanation, explanation.alternatives(5).table))
    moves = find_moves(space, x, x0)
    assert len(np.unique(moves, axis=0)) == len(x)
    size = space.change(x, x0) / space.scale
    assert (size[moves != 0] >= 0.01).all()


def test_every_change_of_several_brings_the_target_closer(asked):
    model, _, _, target, explanation = asked
    space, x0 = explanation.space, explanation.x0
    x = space.encode(points_of(explanation, explanation.alternatives(5).table))
    moves = find_moves(space, x, x0)
    point, column = ((moves != 0) & ((moves != 0).sum(axis=1) > 1)[:, None]).nonzero()
    without = x[point]
    without[np.arange(len(point)), column] = x0[column]

    def score(points):
        frame = space.decode(points)
        if isinstance(target, gbce.AtMost):
            return -model.predict(frame)
        return model.predict_proba(frame)[:, list(model.classes_).index(target.label)]

    assert len(point) > 0
    assert (score(without) < score(x)[point]).all()


def test_shares_and_the_rest_sum_to_one_and_most_of_what_reaches_is_listed(asked):
    explanation = asked[-1]
    found = explanation.alternatives(5)
    table = found.table
    assert table["mass"].sum() + found.other == pytest.approx(1.0)
    assert table["mass"].is_monotonic_decreasing
    assert (table["mass_se"] > 0).all()
    missed = 1.0 - float(explanation.draws.weights @ explanation.draws.reached[:, 0])
    assert found.other > missed - 4 * found.other_se  # draws that miss follow no strategy
    one = explanation.alternatives(1)
    assert one.table["mass"].iloc[0] == table["mass"].iloc[0]
    assert one.other == pytest.approx(1.0 - table["mass"].iloc[0])


def test_a_reliable_one_works_often_under_fresh_noise(asked):
    _, explainer, _, _, explanation = asked
    table = explanation.alternatives(5).table
    assert table["reliable"].any()
    held = points_of(explanation, table[table["reliable"]])
    shares = explainer.assess(explanation, held)["robustness"]
    errors = explainer.assess(explanation, held)["robustness_se"]
    assert (shares + 4 * np.maximum(errors, 0.02) >= 0.9).all()


def test_a_reliable_one_is_shown_with_what_was_promised_and_the_answer_with_its_own_figure(asked):
    explanation = asked[-1]
    found, answer = explanation.strategies, explanation.answer
    assert (found.reliability[found.holds] >= answer.promised).all()
    same = np.array([np.array_equal(one, answer.decision.x, equal_nan=True) for one in found.x])
    assert answer.kind != "reliable" or same.any()
    assert (found.reliability[same & found.holds] == answer.reliability.share).all()


def test_the_same_seed_gives_the_same_and_files_keep_them(asked, tmp_path):
    _, explainer, _, target, explanation = asked
    for pool in (True, False):
        again = gbce.load(explanation.save(tmp_path / "one.gbce", pool=pool))
        pd.testing.assert_frame_equal(again.alternatives(5).table, explanation.alternatives(5).table)
        pd.testing.assert_frame_equal(again.menu().table, explanation.menu().table)
        assert str(again.menu()) == str(explanation.menu())
    rows = explainer.space.frame(explanation.row.x)
    explainer.explain_many(rows, target, seed=0, progress=False, store=tmp_path / "many", keep="draws")
    twin = gbce.load(tmp_path / "many" / "draws" / "row-000000.gbce")
    pd.testing.assert_frame_equal(twin.alternatives(5).table, explanation.alternatives(5).table)
    pd.testing.assert_frame_equal(twin.menu().table, explanation.menu().table)


# --- shares --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def either():
    """Two columns, each of which is enough by itself, and one that does not matter."""
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=["a", "b", "c"])
    explainer = gbce.Explainer(lambda x: np.maximum(x["a"], x["b"]), data)
    return explainer, explainer.explain({"a": 0.0, "b": 0.0, "c": 0.0}, gbce.AtLeast(1.0), seed=0)


def test_two_equal_ways_have_equal_shares(either):
    explanation = either[1]
    table = explanation.alternatives().table.head(2)
    moved = (table[["a", "b", "c"]] != 0).to_numpy()
    assert sorted(map(tuple, moved.tolist())) == [(False, True, False), (True, False, False)]
    half = 0.5 * float(explanation.draws.weights @ explanation.draws.reached[:, 0])
    assert (np.abs(table["mass"] - half) < within(explanation.draws) * table["mass_se"]).all()


def test_under_conditions_shares_are_computed_anew_and_points_that_violate_them_go(either):
    explainer, explanation = either
    given = explanation.given(keep=["a"])
    table = given.alternatives().table
    assert (table["a"] == 0).all()
    first = explanation.alternatives().table
    only_b = (first[["a", "b", "c"]] != 0).to_numpy().tolist().index([False, True, False])
    assert table["mass"].iloc[0] > first["mass"].iloc[only_b]
    assert table["b"].iloc[0] == first["b"].iloc[only_b]
    low = explanation.at(explanation.eta / 2)
    assert low.alternatives().other > explanation.alternatives().other
    assert set(low.alternatives().sentences) <= set(explanation.alternatives(5).sentences)
    again = explainer.given(explanation, at_most={"a": 0.5})
    assert (again.alternatives().table["a"] <= 0.5).all()


def test_what_draws_need_reaches_and_nothing_more_can_be_undone():
    rng = np.random.default_rng(1)
    weights = rng.normal(size=8)
    data = pd.DataFrame(rng.normal(size=(100, 8)), columns=list("abcdefgh"))
    explainer = gbce.Explainer(lambda x: x.to_numpy() @ weights, data)
    explanation = explainer.explain(data.iloc[0] * 0, gbce.AtLeast(2.0), rules=["Nearest"], seed=0)
    judge = Judge(explanation.query, explainer._session.own_posterior(explanation, gbce.budget.Budget()))
    x = explanation.draws.x[explanation.draws.reached[:, 0]][:100]
    reduced = undo_unneeded(judge, x)
    assert (reduced @ weights >= 2.0).all()
    assert ((reduced == x) | (reduced == 0)).all()
    for j in range(8):
        fewer = reduced.copy()
        fewer[:, j] = 0.0
        assert not (fewer @ weights >= 2.0)[reduced[:, j] != 0].any()


def test_sets_of_moves_follow_the_strategy_with_half_of_the_moves_in_common():
    needs = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, -1, 1], [0, 0, 1, 1], [1, -1, 0, 0]], dtype=np.int8)
    assert follow_strategies(needs, needs[[0, 2]]).tolist() == [0, 0, 1, -1, -1]
    assert choose_strategies(needs, np.array([0.3, 0.3, 0.2, 0.1, 0.1]), 2) == [0, 2]


# --- what is said --------------------------------------------------------------------------------------------------


def test_they_read_well(either):
    found = either[1].alternatives()
    lines = str(found).splitlines()
    assert lines[0].startswith("1. ")
    assert "from 0 to" in lines[0]
    assert lines[-1].startswith("other: ")
    assert list(found) == found.sentences == found.table["sentence"].tolist()
    assert "<table" in found._repr_html_()


def test_shares_of_doubtful_draws_come_with_what_is_wrong(either):
    trusted = either[1]
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=["a", "b", "c"])
    few = gbce.Explainer(lambda x: np.maximum(x["a"], x["b"]), data, sampler=gbce.Importance(2_000))
    doubted = few.explain({"a": 0.0, "b": 0.0, "c": 0.0}, gbce.AtLeast(1.0), seed=0)
    assert doubted.diagnostics["sampling"] == Verdict.CARE
    found = doubted.alternatives()
    assert len(found) == 2
    assert found.caveat == doubted.diagnostics["sampling_note"]
    assert str(found).splitlines()[-1] == f"Read the shares with care: {found.caveat}"
    assert f"only {doubted.draws.ess:.0f} effective draws" in found.caveat
    assert trusted.alternatives().caveat == ""
    assert "with care" not in str(trusted.alternatives())


def test_where_none_were_looked_for_a_sentence_says_so():
    data = np.random.default_rng(0).normal(size=(60, 2))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0, scale=1.0), rules=[], seed=0)
    for found in (explanation.alternatives(), explanation.menu()):
        assert len(found) == 0
        assert "No strategies were sought" in str(found)
    reached = explainer.explain([2.0, 2.0], gbce.AtLeast(1.0, scale=1.0), rules=[], seed=0)
    assert "nothing to change" in str(reached.alternatives())


def test_a_budget_that_is_too_small_has_none_and_is_kept(either):
    explainer = either[0]
    explanation = explainer.explain({"a": 0.0, "b": 0.0, "c": 0.0}, gbce.AtLeast(1.0), seed=0, max_model_rows=3_000)
    assert explanation.n_model_rows <= 3_000 + 50
    assert isinstance(str(explanation.menu()), str)


@pytest.mark.parametrize("k", [0, -1, 2.5, "three", True])
def test_k_is_a_number_of_strategies(either, k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        either[1].alternatives(k)
    with pytest.raises(ValueError, match="max_columns must be an integer of at least 1"):
        either[1].menu(k)


def test_draws_that_are_too_few_are_refused():
    explainer = gbce.Explainer(
        lambda x: x.sum(axis=1), np.eye(2), space=gbce.Space.real(2), sampler=gbce.Importance(120, 100)
    )
    explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=0.3), rules=[], seed=0)
    with pytest.raises(ValueError, match=r"too few effective draws for alternatives: .*, and 100 are needed"):
        explanation.alternatives()


def test_draws_that_never_reach_leave_a_sentence_and_the_points_of_the_rules():
    x, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = RandomForestClassifier(20, random_state=0).fit(x, y)
    explanation = gbce.Explainer(model, x, eta=1).explain(x.iloc[0], 1, seed=0)
    assert explanation.distribution["success_probability"] < 0.01
    found = explanation.alternatives(5)
    assert len(found) == 0
    assert found.note
    assert str(found) == found.note
    reaching = gbce.Explainer(model, x).explain(x.iloc[0], 1, seed=0)
    known = reaching.strategies
    none = replace(known, needs=known.needs[:0], which=np.full_like(known.which, -1))
    assert "no strategy to list" in replace(reaching, strategies=none).alternatives(5).note
    assert len(reaching.alternatives(5)) > 1
