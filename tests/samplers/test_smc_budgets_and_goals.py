"""SMC: what is asked of the model, and the eta that is to achieve something."""

from dataclasses import replace

import numpy as np
import pytest

import gbce
from gbce.budget import Budget
from support.clock import Clock
from support.laws import close, small_error
from support.tempering import (
    MANY,
    SEARCHING,
    SMALL,
    SMALL_WAYS,
    TOLERANCE,
    Counting,
    Far,
    agrees,
    as_loss,
    evidence_agrees,
    hard,
    posterior_linear,
    posterior_of,
    sampled,
    value_of,
)

# --- what is asked of the model --------------------------------------------------------------------------------------


def test_one_call_for_the_candidates_and_one_for_each_sweep():
    case = hard(3)
    model = Counting(case.predict)
    posterior = posterior_of(model, case.x0, value_of(case), case.eta)
    draws = sampled(SMALL, posterior)
    assert draws.facts["rounds"] == 1
    assert model.calls == 1 + sum(draws.facts["sweeps"])
    assert model.rows == 4_000 + 1_000 * sum(draws.facts["sweeps"])
    assert (posterior.n_calls, posterior.n_rows) == (model.calls, model.rows)
    assert len(np.unique(np.concatenate(model.seen), axis=0)) == model.rows  # nothing is asked twice
    assert len(draws.facts["sweeps"]) == len(draws.rungs)
    # all of the first and last rung is in the pool (at most four times as many points), a part of the others
    n_rungs = len(draws.rungs)
    assert len(draws.pool) == 4_000 + 1_000 * (n_rungs - 1) + 1_000 * min(4, draws.facts["sweeps"][-1])
    assert len(np.unique(draws.pool.x, axis=0)) < len(draws.pool)  # refused moves are points again


def test_known_rows_are_asked_about_once_and_searches_take_few_calls():
    case, rng = hard(3), np.random.default_rng(0)
    known = case.x0 + rng.normal(size=(60, 3))
    model = Counting(case.predict)
    posterior = posterior_of(model, case.x0, value_of(case), case.eta, landmarks=known)
    draws = sampled(SEARCHING, posterior)
    assert draws.facts["looks"] >= 2
    sizes = [len(x) for x in model.seen]
    assert sizes[:2] == [4_000, 1 + 60]  # candidates, the row with the known rows
    assert len(sizes) < 120  # points of a search and of a run advance together
    asked = np.concatenate(model.seen)
    assert all(np.isclose(asked, row, rtol=0, atol=1e-9).all(axis=1).any() for row in known)
    assert model.rows < 20_000  # what tempering takes for the same posterior
    assert (posterior.n_calls, posterior.n_rows) == (model.calls, model.rows)
    without = Counting(case.predict)
    posterior = posterior_of(without, case.x0, value_of(case), case.eta, landmarks=known)
    sampled(replace(SEARCHING, landmarks=False), posterior)
    assert [len(x) for x in without.seen[:2]] == [4_000, 1]


@pytest.mark.parametrize("way", SMALL_WAYS)
@pytest.mark.parametrize("max_rows", [1, 2, 40, 500, 3_000, 8_000, 20_000, 50_000])
def test_rows_never_exceed_the_budget(max_rows, way):
    case = hard(3)
    model = Counting(case.predict)
    known = case.x0 + 5.0 * case.w + 0.1 * np.random.default_rng(0).normal(size=(60, 3))
    budget = Budget(max_rows=max_rows)
    posterior = posterior_of(model, case.x0, value_of(case), case.eta, landmarks=known, budget=budget)
    if max_rows == 1:
        with pytest.raises(gbce.BudgetSpentError):
            sampled(SMALL_WAYS[way], posterior)
        return
    draws = sampled(SMALL_WAYS[way], posterior)
    assert model.rows == budget.rows <= max_rows
    assert draws.facts["complete"] or max_rows < {"tempered": 8_000, "searched": 20_000}[way]
    assert not draws.facts["complete"] or max_rows > 500
    assert len(draws) == 1_000


def test_a_spent_budget_leaves_the_posterior_at_the_beta_reached():
    case = hard(3, eta=1e9)  # so narrow that it takes more sweeps than were foreseen
    budgets = (Budget(max_rows=rows) for rows in range(100_000, 30_000, -10_000))
    runs = (sampled(MANY, posterior_linear(case, budget=budget)) for budget in budgets)
    draws = next(run for run in runs if run.rungs[-1] < case.eta)  # where a plan did not work out
    assert draws.rungs[-1] > 0
    assert not draws.facts["complete"]
    reached = replace(case, eta=draws.rungs[-1])
    evidence_agrees(draws, reached.log_evidence, least=0.8)  # of an incomplete run, estimated between a few islands
    agrees(draws, draws.pool.x, reached.mean, "mean", size=1.0)


@pytest.mark.parametrize("way", SMALL_WAYS)
def test_enough_rows_are_as_good_as_no_budget(way):
    posterior = posterior_linear(hard(3))
    free = sampled(SMALL_WAYS[way], posterior)
    tight = sampled(SMALL_WAYS[way], replace(posterior, budget=Budget(max_rows=1_000_000)))
    np.testing.assert_array_equal(free.x, tight.x)
    assert tight.facts["complete"]


@pytest.mark.parametrize("way", SMALL_WAYS)
def test_time_ends_a_run(way, monkeypatch):
    clock, case = Clock(), hard(3)
    monkeypatch.setattr("gbce.budget._now", clock)
    model = Counting(clock.slowed(case.predict, per_call=0.02))
    budget = Budget(deadline=clock.time + 0.4)
    draws = sampled(SMALL_WAYS[way], posterior_of(model, case.x0, value_of(case), case.eta, budget=budget))
    assert not draws.facts["complete"]
    assert draws.rungs[-1] < case.eta
    assert model.calls < 40  # a whole run takes more
    assert np.isfinite(draws.log_evidence)


# --- eta that is to achieve something --------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("max_looks", [0, 6])
def test_eta_for_a_success_probability(d, max_looks):
    case = hard(d)
    draws = sampled(
        replace(MANY, max_looks=max_looks), posterior_linear(replace(case, eta=1.0), goal=gbce.SuccessProbability(0.5))
    )
    assert draws.facts["goal_met"]
    eta = draws.rungs[-1]
    exact = replace(case, eta=eta)
    whole = replace(draws, resampled=False)
    se = whole.standard_error(draws.pool.reached[:, 0] - 0.5)
    close(exact.success_probability(TOLERANCE), 0.5, se, "success at the eta found", draws)
    small_error(se, 0.5, "success")
    evidence_agrees(draws, exact.log_evidence)
    agrees(draws, draws.pool.x, exact.mean, "mean", size=1.0)


@pytest.mark.parametrize("max_looks", [0, 6])
def test_eta_for_an_expected_loss(max_looks):
    case = hard(3)
    draws = sampled(
        replace(MANY, max_looks=max_looks), posterior_linear(replace(case, eta=1.0), goal=gbce.ExpectedLoss(0.04))
    )
    assert draws.facts["goal_met"]
    exact = replace(case, eta=draws.rungs[-1])
    loss = exact.output.var() + (exact.output.mean() - case.y) ** 2
    se = replace(draws, resampled=False).standard_error(draws.pool.loss[:, 0] - 0.04)
    close(loss, 0.04, se, "expected loss at the eta found", draws)
    assert se < 0.004


@pytest.mark.parametrize("way", SMALL_WAYS)
def test_a_goal_that_the_prior_meets_needs_no_eta(way):
    case = hard(2, away=0.0)
    draws = sampled(SMALL_WAYS[way], posterior_linear(replace(case, eta=1.0), goal=gbce.SuccessProbability(0.05)))
    assert draws.rungs[-1] == 0.0
    assert draws.facts["goal_met"]
    agrees(draws, draws.pool.x, case.x0, "mean", size=1.0)


@pytest.mark.parametrize(
    ("predict", "target"),
    [
        (lambda x: np.tanh(x.sum(axis=1)), gbce.Value(3.0, scale=1, tolerance=0.1)),
        (lambda x: 0 * x[:, 0], gbce.Value(1.0, scale=1, tolerance=0.1)),
        (lambda x: np.round(x.sum(axis=1)), gbce.Value(0.5, scale=1, tolerance=0.1)),
    ],
    ids=["bounded", "constant", "between two steps"],
)
@pytest.mark.parametrize("way", SMALL_WAYS)
def test_a_goal_out_of_reach_is_given_up(predict, target, way):
    model = Counting(predict)
    goal = gbce.SuccessProbability(0.5)
    draws = sampled(SMALL_WAYS[way], posterior_of(model, np.zeros(2), target, 1.0, goal=goal))
    assert draws.facts["goal_met"] is False
    assert model.calls < 1_000
    assert np.isfinite(draws.rungs[-1])


@pytest.mark.parametrize("way", SMALL_WAYS)
def test_a_goal_under_a_map_far_from_the_prior(way):
    """What a map that is too wide achieves is not what the posterior achieves."""
    wide = gbce.DistancePrior(lambda x, row: 0.5 * np.square(x - row).sum(axis=1), proposal=gbce.Gaussian(6.0))
    target, goal = gbce.AtLeast(1.0, scale=1, tolerance=0.0), gbce.SuccessProbability(0.3)
    found = [
        sampled(SMALL_WAYS[way], posterior_of(lambda x: x[:, 0], np.zeros(6), target, 1.0, prior=prior, goal=goal))
        for prior in (gbce.Gaussian(), wide)
    ]
    assert [draws.facts["goal_met"] for draws in found] == [True, True]
    assert found[1].rungs[-1] == pytest.approx(found[0].rungs[-1], rel=0.4)


@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("wanted", [0.4, 0.9])
def test_a_goal_that_only_a_far_mode_meets(d, wanted):
    far = Far(d)
    posterior = posterior_of(
        far.loss, np.zeros(d), as_loss(5.0), 1.0, landmarks=far.rows(), goal=gbce.SuccessProbability(wanted)
    )
    draws = sampled(gbce.SMC(10_000, 1_600, n_islands=16), posterior)
    assert draws.facts["goal_met"]
    grid = Far(2).grid
    potential = far.loss(grid.x)
    weights = grid.weights * np.exp((1 - draws.rungs[-1]) * potential)
    success = weights[potential <= 5.0].sum() / weights.sum()
    se = replace(draws, resampled=False).standard_error(draws.pool.reached[:, 0] - wanted)
    close(success, wanted, se, "success at the eta found", draws)
    assert se < 0.05
