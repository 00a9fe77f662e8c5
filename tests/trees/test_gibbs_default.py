"""Coordinate draws as a sampler: where they are the default, what they refuse, their report, files and rows."""

import builtins

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce._numerics import compile_loop
from gbce.trees import _cells
from gbce.trees._sums import NotExactError

GOAL = gbce.SuccessProbability(0.9)
FEW = 8_000  # model rows: less than SMC would take here


@pytest.fixture(scope="module")
def question():
    x, y = load_diabetes(scaled=False, return_X_y=True, as_frame=True)
    model = RandomForestRegressor(20, max_depth=6, random_state=0).fit(x, y)
    return model, x, x.iloc[int(np.argmax(model.predict(x)))], gbce.AtMost(150.0, scale=15.0)


def explain(question, rules=(), max_model_rows=None, **options):
    model, x, row, target = question
    explainer = gbce.Explainer(model, x, **options)
    return explainer.explain(row, target, rules=list(rules), seed=0, max_model_rows=max_model_rows)


def test_a_goal_on_a_table_is_met_with_few_model_rows(question):
    found = explain(question, eta=GOAL)
    report = found.diagnostics
    assert report["sampler"] == "GibbsTrees"
    assert report["sampling"] == "trustworthy"
    assert report["islands"] == 8
    assert "8 islands over" in report["sampling_note"]
    assert report["n_model_rows"] < 5_000
    assert report["calibration"]["met"]
    error = found.distribution["success_probability_se"]
    assert abs(found.distribution["success_probability"] - 0.9) < 4 * error
    model, *_ = question
    np.testing.assert_allclose(model.predict(found.draws.frame()), found.draws.outputs[:, 0])


def test_a_number_as_eta_is_drawn_at(question):
    found = explain(question, eta=1.0)
    assert (found.diagnostics["sampler"], found.eta) == ("GibbsTrees", 1.0)
    assert found.diagnostics["sampling"] == "trustworthy"


def test_an_array_and_a_given_sampler_keep_smc(question):
    model, x, row, target = question
    assert explain(question, eta=GOAL, sampler=gbce.SMC(), max_model_rows=FEW).diagnostics["sampler"] == "SMC"
    on_array = RandomForestRegressor(5, max_depth=4, random_state=0).fit(x.to_numpy(), model.predict(x))
    explainer = gbce.Explainer(on_array, x.to_numpy(), eta=GOAL)
    found = explainer.explain(row.to_numpy(), target, rules=[], seed=0, max_model_rows=FEW)
    assert found.diagnostics["sampler"] == "SMC"


def test_a_goal_out_of_reach_is_left_to_smc(question):
    model, x, row, _ = question
    unattainable = gbce.AtMost(10.0, scale=15.0)
    explainer = gbce.Explainer(model, x, eta=GOAL, policy=None)
    found = explainer.explain(row, unattainable, rules=[], seed=0, max_model_rows=FEW)
    assert found.diagnostics["sampler"] == "SMC"
    by_cells = gbce.Explainer(model, x, eta=GOAL, sampler=gbce.GibbsTrees(n_points=200), policy=None)
    report = by_cells.explain(row, unattainable, rules=[], seed=0).diagnostics
    assert not report["calibration"]["met"]
    assert report["sampling"] != "trustworthy"
    assert len(report["climbed"]) > 6


def test_without_numba_trees_are_sampled_like_any_other_model(question, monkeypatch):
    def refuse(name, *rest, **more):
        if name == "numba" or (rest and rest[2] and "_loops" in rest[2]):
            raise ImportError(name)
        return plain(name, *rest, **more)

    plain = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", refuse)
    _cells.compiled_loops.cache_clear()
    try:
        found = explain(question, eta=GOAL, max_model_rows=FEW)
        assert found.diagnostics["sampler"] == "SMC"
        assert any("numba cannot be imported" in note for note in found.notes)
        with pytest.raises(NotExactError, match="is not a tree ensemble that can be read"):
            explain(question, eta=GOAL, sampler=gbce.GibbsTrees())
    finally:
        monkeypatch.undo()
        _cells.compiled_loops.cache_clear()
    assert not any("numba" in note for note in explain(question, eta=GOAL).notes)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"prior": gbce.Gaussian(cov=np.eye(10) + 0.5)}, "together"),
        ({"prior": gbce.NearData(gbce.Gaussian())}, "NearData"),
        ({"prior": gbce.DistancePrior(lambda x, row: np.abs(x - row).sum(axis=1))}, "DistancePrior"),
    ],
)
def test_refusals_say_why_and_what_to_do(question, options, why):
    with pytest.raises(NotExactError, match="GibbsTrees cannot draw from this posterior") as error:
        explain(question, sampler=gbce.GibbsTrees(), **options)
    assert why in str(error.value)
    assert "Use gbce.SMC()" in str(error.value)
    assert explain(question, eta=GOAL, max_model_rows=FEW, **options).diagnostics["sampler"] == "SMC"


def test_a_model_that_cannot_be_read_is_refused(question):
    _, x, row, target = question
    line = LinearRegression().fit(x, x["bmi"])
    with pytest.raises(NotExactError, match="is not a tree ensemble that can be read"):
        gbce.Explainer(line, x, sampler=gbce.GibbsTrees()).explain(row, target, rules=[], seed=0)


def test_options_are_checked():
    with pytest.raises(ValueError, match="n_islands must be at least 2"):
        gbce.GibbsTrees(n_islands=1)
    with pytest.raises(ValueError, match="n_draws"):
        gbce.GibbsTrees(n_draws=0)


def test_with_few_rows_the_model_confirms_some_draws_and_none_is_an_error(question):
    model, x, row, target = question
    explainer = gbce.Explainer(model, x, eta=GOAL, sampler=gbce.GibbsTrees(), policy=None)
    usual, found = (explainer.explain(row, target, rules=[], seed=0, max_model_rows=most) for most in (None, 300))
    assert found.n_model_rows < 150 < usual.n_model_rows
    np.testing.assert_array_equal(found.draws.x, usual.draws.x)
    np.testing.assert_allclose(found.draws.outputs, usual.draws.outputs)
    with pytest.raises(gbce.budget.BudgetSpentError, match="draw of each island"):
        explainer.explain(row, target, rules=[], seed=0, max_model_rows=6)


@pytest.mark.parametrize("posterior", [True, False])
@pytest.mark.parametrize("rows", [300, 2_000])
def test_few_rows_are_enough_for_an_answer_that_is_reliable(question, posterior, rows):
    model, x, row, target = question
    first, again = gbce.Explainer(model, x), gbce.Explainer(model, x)
    found = first.explain(row, target, seed=0, posterior=posterior, max_model_rows=rows)
    assert found.answer.kind == "reliable"
    assert found.n_model_rows <= min(rows, 500)  # trees take none, and are checked once in a run
    assert found.answer.cost < 1.5 * again.explain(row, target, seed=0, posterior=posterior).answer.cost
    later = [first.explain(row, target, seed=0, posterior=posterior, max_model_rows=rows) for _ in range(2)]
    assert later[0].n_model_rows == later[1].n_model_rows <= found.n_model_rows  # data are asked once per explainer


def test_files_and_other_etas(question, tmp_path):
    found = explain(question, eta=GOAL)
    found.save(tmp_path / "one.gbce", pool=True)
    again = gbce.load(tmp_path / "one.gbce")
    assert again.diagnostics == found.diagnostics
    assert type(again.draws.info) is type(found.draws.info)
    pd.testing.assert_series_equal(again.distribution, found.distribution)
    half = 0.5 * found.mixture.eta
    assert again.at(half).distribution["success_probability"] < 0.9


def test_decisions_follow_as_from_other_draws(question):
    found, other = (
        explain(question, [gbce.Nearest(), gbce.MAP()], eta=GOAL, **more) for more in ({}, {"sampler": gbce.SMC()})
    )
    assert found.pointwise["reached"].all()
    nearest, others = (float(one.pointwise["distance"].iloc[0]) for one in (found, other))
    assert nearest <= 1.1 * others


@pytest.fixture(scope="module")
def corner():
    """Return a posterior that is far and two moves away: either of them alone makes it worse."""
    x = np.random.default_rng(0).uniform(-5, 5, size=(4_000, 2))
    both, either = (x > 3).all(axis=1), (x > 3).any(axis=1)
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(x, np.where(both, 10.0, np.where(either, -5.0, 0.0)))

    def explain(sampler, eta=1.0):
        explainer = gbce.Explainer(model, x, space=gbce.Space.real(2), sampler=sampler, policy=None, eta=eta)
        return explainer.explain(np.zeros(2), gbce.AtLeast(9.0, scale=0.5), rules=[], seed=0)

    return explain


def test_a_mode_that_takes_two_moves_at_once_is_found_from_training_rows(corner):
    found, exact = corner(gbce.GibbsTrees()), corner(gbce.ExactTrees())
    assert found.diagnostics["sampling"] == "trustworthy"
    assert found.distribution["success_probability"] > 0.99
    error = found.diagnostics["log_evidence_se"]
    assert abs(found.diagnostics["log_evidence"] - exact.diagnostics["log_evidence"]) < 4 * error < 0.2
    assert (
        abs(found.distribution["stability"] - exact.distribution["stability"]) < 4 * found.distribution["stability_se"]
    )


def test_a_mode_that_was_missed_is_a_doubt_where_islands_do_not_climb_again(corner):
    found = corner(gbce.GibbsTrees(max_rounds=1))
    assert found.distribution["success_probability"] < 0.01
    assert found.diagnostics["sampling"] != "trustworthy"
    assert "% of the posterior is missed" in found.diagnostics["doubt"]


def test_loops_are_compiled_without_a_directory_for_their_cache(monkeypatch):
    import numba

    def refuse(*, cache=False, nogil=False):
        if cache:
            raise RuntimeError("no locator available")
        return lambda loop: loop

    monkeypatch.setattr(numba, "njit", refuse)
    assert compile_loop(max)(1, 2) == 2
