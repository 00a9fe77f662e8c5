"""Budgets: never exceeded, never a hang, and the best so far comes back."""

import numpy as np
import pytest

import gbce
from gbce.budget import Budget, BudgetSpentError, budget_of
from support.clock import Clock

DATA = np.random.default_rng(0).normal(size=(300, 4))
HARD = gbce.Value(DATA[0].sum() + 8.25, scale=0.1, tolerance=0.1)  # four SDs of the prior's outputs away


class Counting:
    """A model that counts its rows."""

    def __init__(self):
        self.rows = 0

    def __call__(self, x):
        self.rows += len(x)
        return x.sum(axis=1)


@pytest.mark.parametrize("rows", [12, 60, 400, 3_000])
@pytest.mark.parametrize(
    "sampler", [gbce.SMC(), gbce.Importance(), gbce.Chains(20, 20)], ids=lambda s: type(s).__name__
)
def test_rows_are_a_hard_limit(rows, sampler):
    model = Counting()
    explainer = gbce.Explainer(model, DATA, space=gbce.Space.real(4), sampler=sampler)
    explanation = explainer.explain(DATA[0], HARD, seed=0, max_model_rows=rows)
    assert model.rows == explanation.n_model_rows <= rows
    assert explanation.diagnostics["complete"] is False
    assert explanation.diagnostics["sampling_note"].startswith("not finished: the budget ran out at eta = ")
    assert explanation.eta == explanation.draws.rungs[-1] <= 1.0
    assert any("The budget ran out" in note for note in explanation.notes)


def test_an_unfinished_run_is_the_posterior_at_the_eta_it_reached():
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(4), sampler=gbce.SMC(2_000, 500))
    row = -np.ones(4)  # farther away than rows of the data are
    part = explainer.explain(row, HARD, rules=[], seed=0, max_model_rows=2_800)
    assert 0 < part.eta < 1
    whole = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(4), eta=part.eta)
    fresh = whole.explain(row, HARD, rules=[], seed=1)
    error = np.hypot(part.draws.log_evidence_se, fresh.draws.log_evidence_se)
    assert abs(part.draws.log_evidence - fresh.draws.log_evidence) < 4 * error


def test_a_generous_budget_changes_nothing():
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(4), sampler=gbce.SMC(2_000, 500))
    easy = gbce.AtLeast(2.0, scale=1)
    free = explainer.explain(DATA[0], easy, seed=0)
    limited = explainer.explain(DATA[0], easy, seed=0, max_model_rows=10_000_000)
    np.testing.assert_array_equal(free.draws.x, limited.draws.x)
    assert limited.diagnostics["complete"] is True
    assert limited.pointwise.equals(free.pointwise)


def test_time_runs_out_in_good_order(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("gbce.budget._now", clock)
    model = clock.model(per_row=1e-3)  # the whole run would take a minute
    explainer = gbce.Explainer(model, DATA, space=gbce.Space.real(4))
    explanation = explainer.explain(DATA[0], HARD, seed=0, time_budget=0.5)
    assert explanation.diagnostics["complete"] is False
    assert clock.passed < 0.6
    assert len(explanation.decisions) >= 1


@pytest.mark.parametrize("rows", [1, 2])
def test_nothing_can_be_said_for_nothing(rows):
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(4))
    with pytest.raises(gbce.BudgetSpentError, match="raise max_model_rows"):
        explainer.explain(DATA[0], HARD, max_model_rows=rows)


def test_reading_the_spread_of_outputs_must_fit_in():
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA)
    with pytest.raises(BudgetSpentError, match=r"takes at least 30 model rows: give the target a scale"):
        explainer.explain(DATA[0], gbce.AtLeast(2.0), max_model_rows=29)


def test_a_table_has_a_budget_for_each_row():
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(4))
    table = explainer.explain_many(DATA[:3], HARD, rules=[], seed=0, progress=False, max_model_rows=4_000)
    assert (table.diagnostics["n_model_rows"] <= 4_000).all()


@pytest.mark.parametrize("limits", [(0, None), (1.5, None), ("many", None), (None, 0), (None, "soon"), (True, None)])
def test_limits_are_checked(limits):
    with pytest.raises(ValueError, match="must be a"):
        budget_of(*limits)


def test_a_share_is_charged_to_the_whole():
    whole = Budget(max_rows=100)
    part = whole.share(0.5)
    with part.spending(30, model=1):
        pass
    assert (part.affords(100), whole.affords(100)) == (20, 70)
    part.require(20, [(1, 1)])
    with pytest.raises(BudgetSpentError):
        part.require(21, [(1, 1)])
    with pytest.raises(BudgetSpentError):
        part.require(11, [(1, 1), (2, 1)])
    assert whole.rows == 30
