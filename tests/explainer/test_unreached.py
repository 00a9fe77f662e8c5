"""Targets that nothing reaches end quickly, say why, and change nothing for those that are reached."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import gbce
from gbce.budget import Budget, BudgetSpentError
from gbce.draws import Points
from gbce.explainer._notes import GOAL_ROWS_TIMES, ROWS_TIMES, limit_sampling
from gbce.posterior import Mixture
from gbce.samplers._tempering import STALLED, Bridge, Population, StallDetector

USUAL = gbce.SMC().usual_rows


def school(n=395):
    """A look-alike of a table of pupils and their grades."""
    rng = np.random.default_rng(0)
    low_high = {
        "age": (15, 20), "Medu": (0, 5), "Fedu": (0, 5), "traveltime": (1, 5), "studytime": (1, 5), "famrel": (1, 6),
        "freetime": (1, 6), "goout": (1, 6), "Dalc": (1, 6), "Walc": (1, 6), "health": (1, 6), "G1": (3, 19),
    }  # fmt: skip
    frame = pd.DataFrame({name: rng.integers(*ends, n) for name, ends in low_high.items()})
    frame["failures"], frame["absences"] = rng.poisson(0.3, n).clip(0, 3), rng.poisson(5, n)
    grade = 0.8 * frame.G1 + 0.8 * frame.studytime - 1.5 * frame.failures - 0.3 * frame.goout + 0.3 * frame.Medu
    return frame, (grade + rng.normal(0, 1.5, n)).clip(0, 20).round()


@pytest.fixture(scope="module")
def unreachable():
    """One pupil, and a grade that no leaf of the forest holds."""
    frame, grade = school()
    model = RandomForestRegressor(50, random_state=0).fit(frame, grade)
    space = gbce.Space.infer(frame, bounds="data", immutable=["age", "Medu", "Fedu", "G1", "failures"])
    row = frame.iloc[int(np.argsort(model.predict(frame))[40])]
    # without looks, which find laws around the best leaves, points have to climb
    return gbce.Explainer(model, frame, space=space, sampler=gbce.SMC(max_looks=0)).explain(
        row, gbce.AtLeast(20.5), rules=[], seed=0
    )


def test_a_grade_beyond_every_leaf_ends_after_a_few_usual_explanations(unreachable):
    assert unreachable.status == "not attained"
    assert unreachable.n_model_rows < 5 * USUAL  # 1,881,738 without recognition, for the same seed
    assert unreachable.proof.bound < 20.5
    diagnostics = unreachable.diagnostics
    assert diagnostics["ended"] == STALLED
    assert diagnostics["verdict"].startswith(f"not finished: {STALLED} at eta = ")
    assert any(note.startswith("Sampling ended at eta = ") and STALLED in note for note in unreachable.notes)
    assert 0 < unreachable.eta < 1


def test_what_ended_it_goes_into_a_file(unreachable, tmp_path):
    assert gbce.load(unreachable.save(tmp_path / "ended.gbce")).diagnostics["ended"] == STALLED


# --- when a climb is given up -----------------------------------------------------------------------------------------


def population(loss, level=0.5, reached=False):
    n = len(loss)
    one = np.zeros((n, 1))
    loss = np.asarray(loss, dtype=float)[:, None]
    points = Points(one, one, one, loss, np.full((n, 1), reached), np.zeros(n), np.zeros(n))
    return Population(points, np.arange(n) % 2, level, np.zeros(2))


BRIDGE = Bridge(Mixture(1.0, np.ones(1)))


@pytest.mark.parametrize(
    ("rungs", "patience", "stops"),
    [
        ([[100.0, 104.0]], 1, True),  # within a twentieth of the lowest, which did not fall
        ([[100.0, 104.0]], 2, False),  # no search was there before: a second rung is waited for
        ([[100.0, 104.0], [100.0, 103.0]], 2, True),
        ([[100.0, 130.0]], 1, False),  # the mean may still fall
        ([[90.0, 91.0]], 1, False),  # it fell
        ([[90.0, 91.0], [90.0, 91.0]], 1, True),  # and then no more
        ([[100.0, 104.0], [60.0, 61.0], [60.0, 61.0]], 2, False),  # rungs must follow each other
    ],
)
def test_a_climb_is_given_up_where_the_loss_has_nowhere_to_fall(rungs, patience, stops):
    unreached = StallDetector(100.0, patience)
    assert [unreached.stalls(population(loss), BRIDGE) for loss in rungs][-1] is stops


def test_a_climb_is_not_given_up_once_a_point_reaches_or_before_the_posterior_begins():
    assert not StallDetector(100.0, 1).stalls(population([100.0, 101.0], reached=True), BRIDGE)
    assert not StallDetector(100.0, 1).stalls(population([100.0, 101.0], level=0.0), BRIDGE)


# --- the default limit ------------------------------------------------------------------------------------------------


def test_the_default_limit_is_ten_times_what_the_sampler_usually_asks():
    assert limit_sampling(Budget(), gbce.SMC(), 1, False).rows_left == ROWS_TIMES * USUAL == 400_000
    assert limit_sampling(Budget(), gbce.SMC(), 3, False).rows_left == 3 * ROWS_TIMES * USUAL
    larger = gbce.SMC(n_candidates=30_000, n_draws=20_000)
    assert limit_sampling(Budget(), larger, 1, False).rows_left == 100 * ROWS_TIMES * USUAL
    assert gbce.SMC(precision=0.002).usual_rows == 100 * USUAL
    assert gbce.SMC(precision="quick", n_draws=200, max_looks=0).usual_rows == USUAL
    chains = gbce.Chains(1_000, 1_000)
    assert chains.usual_rows == 1_000_000 + USUAL


@pytest.mark.parametrize(
    ("budget", "sampler", "jointly"),
    [
        (Budget(max_rows=10), gbce.SMC(), False),
        (Budget(deadline=1e18), gbce.SMC(), False),
        (Budget(), gbce.Importance(n_candidates=10**6), False),
        (Budget(), gbce.Nested(), False),
        (Budget(), gbce.SMC(), True),
    ],
)
def test_who_says_how_much_is_not_limited_by_default(budget, sampler, jointly):
    assert limit_sampling(budget, sampler, 1, jointly) is budget


def test_importance_gets_all_the_candidates_it_asks_for():
    data = np.random.default_rng(0).normal(size=(50, 2))
    explainer = gbce.Explainer(lambda x: np.tanh(x.sum(axis=1)), data, sampler=gbce.Importance(n_candidates=600_000))
    explanation = explainer.explain(data[0], gbce.AtLeast(5), rules=[], seed=0)
    assert explanation.status == "not attained"
    assert len(explanation.draws.pool) == 600_000


def test_a_ceiling_is_no_limit_that_anybody_plans_with():
    whole = Budget()
    budget = whole.under(100)
    assert not budget.limited
    assert budget.share(0.5) is budget
    assert budget.affords(80, [(1, 1)], 1) == 80
    assert not budget.met_ceiling
    with budget.spending(90, 1):
        pass
    assert (whole.rows, budget.rows_left) == (90, 10)
    assert budget.affords(80, [(1, 1)], 1) == 10
    assert budget.met_ceiling
    with pytest.raises(BudgetSpentError):
        budget.require(80, [(1, 1)])
    budget.lift()
    budget.lift()  # once only
    assert budget.rows_left == 3 * 100 - 90
    budget.require(210, [(1, 1)])
    with pytest.raises(BudgetSpentError):
        budget.require(211, [(1, 1)])


def rugged(x):
    """Many steps of many heights, so that sampling takes long, and nothing near what is asked."""
    x = np.asarray(x, dtype=float)
    return np.floor(9 * np.sin(7 * x)).sum(axis=1) + (x > 1.5).sum(axis=1)


def test_the_default_limit_ends_what_nothing_else_does(monkeypatch):
    """With a limit of half a usual explanation instead of ten."""
    monkeypatch.setattr("gbce.explainer._notes.ROWS_TIMES", 0.5)
    monkeypatch.setattr("gbce.samplers._tempering._NEAR_LOWEST", -1.0)  # no climb is given up for its loss
    data = np.random.default_rng(0).normal(size=(300, 6))
    explanation = gbce.Explainer(rugged, data).explain(data[0], gbce.AtLeast(200, scale=5), rules=[], seed=0)
    assert explanation.status == "not attained"
    assert any("model rows, the default limit: this is the posterior" in note for note in explanation.notes)
    assert any("Set max_model_rows to allow more" in note for note in explanation.notes)
    assert not explanation.diagnostics["complete"]
    assert np.isfinite(explanation.draws.weights).all()


def test_a_point_that_reaches_lifts_the_limit():
    data = np.random.default_rng(0).normal(size=(50, 2))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    predictors, target = explainer._session.prepare(gbce.AtLeast(2), Budget())
    posterior = explainer._session.posterior_at(data[0], predictors, target, Budget().under(1_000))
    posterior.evaluate(np.array([[0.0, 0.0]]))
    assert posterior.budget.ceiling == 1_000
    posterior.evaluate(np.array([[3.0, 3.0]]))
    assert posterior.budget.ceiling == 3_000
    assert replace(posterior).affords(10**9) == 3_000 - 2


def test_a_limit_where_eta_is_sought_is_lower_and_does_not_rise():
    limited = limit_sampling(Budget(), gbce.SMC(), 2, False, seeks_eta=True)
    assert limited.rows_left == 2 * GOAL_ROWS_TIMES * USUAL
    assert GOAL_ROWS_TIMES * USUAL <= 200_000
    limited.lift()
    assert limited.rows_left == 2 * GOAL_ROWS_TIMES * USUAL
    assert limit_sampling(Budget(max_rows=10), gbce.SMC(), 1, False, seeks_eta=True).max_rows == 10


@pytest.mark.parametrize("times", [0.3, 0.8, 1.5])
def test_draws_for_a_goal_end_at_the_limit_and_say_so(times, monkeypatch):
    """With limits below what this question takes: never more rows, and a verdict that knows whether it was finished."""
    monkeypatch.setattr("gbce.explainer._notes.GOAL_ROWS_TIMES", times)
    data = np.random.default_rng(0).normal(size=(300, 6))
    explanation = gbce.Explainer(rugged, data, eta="auto").explain(data[0], gbce.AtLeast(25, scale=5), rules=[], seed=0)
    facts = explanation.diagnostics
    assert facts["n_model_rows"] <= times * USUAL + 10_000  # with the row itself, training rows and alternatives
    assert np.isfinite(explanation.draws.weights).all()
    finished = facts["sampling"] != "not finished"
    assert finished == facts["complete"]
    assert finished or any("the default limit: this is the posterior" in note for note in explanation.notes)


def test_what_is_reached_but_not_sampled_ends_too(monkeypatch):
    """With a limit of a fortieth of a usual explanation, and three times that once a point reaches."""
    monkeypatch.setattr("gbce.explainer._notes.ROWS_TIMES", 0.025)
    data = np.random.default_rng(0).normal(size=(300, 6))
    explanation = gbce.Explainer(rugged, data).explain(data[0], gbce.AtLeast(25, scale=0.5), rules=[], seed=0)
    assert explanation.status == "attainable"
    assert any(note.startswith("Sampling ended after") and "Set max_model_rows to allow more" in note
               for note in explanation.notes)  # fmt: skip
    assert explanation.diagnostics["sampling"] != "trustworthy"
