"""Independent tasks on the models of a posterior: the same results one by one or with shared calls, within a budget."""

from dataclasses import replace

import numpy as np
import pytest

import gbce
from gbce.budget import Budget, BudgetSpentError, deadline_in
from gbce.posterior import GibbsPosterior, Mixture, run_together
from gbce.predictors import as_predictor

SPACE = gbce.Space.real(2)
TASKS = 3


@pytest.fixture
def sizes():
    return []


@pytest.fixture
def posterior(sizes):
    def model(rows):
        sizes.append(len(rows))
        return rows.sum(axis=1)

    prior = gbce.Gaussian().at(SPACE, np.zeros(2))
    target = gbce.AtLeast(1.0, scale=1.0, tolerance=0.1)
    return GibbsPosterior(prior, (as_predictor(model, SPACE),), target, Mixture(1.0, np.ones(1)))


@pytest.fixture
def paid(posterior):
    """The same posterior under a model with a cost per call."""
    (predictor,) = posterior.predictors
    return replace(posterior, predictors=(replace(predictor, cost_per_call=True),))


def walk(seed):
    """Return a task that goes where the loss falls, from one of two points to the next."""

    def task(posterior):
        rng, x = np.random.default_rng(seed), np.zeros((1, 2))
        for _ in range(4):
            steps = x + rng.normal(size=(2, 2))
            loss = posterior.evaluate(steps).loss[:, 0]
            x = steps[[loss.argmin()]]
        return x[0]

    return task


def walk_all(posterior, rows=100, **options):
    return np.array(run_together(posterior, [walk(seed) for seed in range(TASKS)], rows, **options))


def test_in_step_each_finds_what_it_finds_alone(paid, sizes):
    found = walk_all(paid)
    assert sizes == [2 * TASKS] * 4
    assert (paid.n_calls, paid.n_rows) == (4, 8 * TASKS)
    np.testing.assert_array_equal(found, [walk(seed)(paid) for seed in range(TASKS)])


def test_without_a_cost_per_call_there_are_no_threads(posterior, sizes, monkeypatch):
    monkeypatch.setattr("threading.Thread.start", None)
    found = walk_all(posterior)
    assert sizes == [2] * 4 * TASKS
    np.testing.assert_array_equal(found, [walk(seed)(posterior) for seed in range(TASKS)])


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: gbce.classifier(model, [0, 1])])
def test_a_model_may_declare_that_its_calls_are_paid_for(wrap):
    def model(rows):
        return rows.sum(axis=1)

    assert not as_predictor(wrap(model), SPACE).cost_per_call
    model.cost_per_call = True
    assert as_predictor(wrap(model), SPACE).cost_per_call


@pytest.mark.parametrize("budget", [Budget(150), Budget(deadline=deadline_in(1e6))], ids=["rows", "time"])
def test_they_take_turns_where_rows_are_scarce_or_time_is_limited(paid, sizes, budget):
    found = walk_all(replace(paid, budget=budget))
    assert max(sizes) == 2
    np.testing.assert_array_equal(found, walk_all(paid))


def test_a_budget_with_rows_enough_is_charged_for_all_of_them(paid, sizes):
    limited = replace(paid, budget=Budget(1_000))
    walk_all(limited)
    assert sizes == [2 * TASKS] * 4
    assert limited.budget.rows == 8 * TASKS


@pytest.mark.parametrize("made", ["posterior", "paid"])
def test_together_they_spend_no_more_than_there_is(made, sizes, request):
    limited = replace(request.getfixturevalue(made), budget=Budget(1_000))

    def spend(part):
        try:
            while True:
                part.evaluate(np.zeros((50, 2)))
        except BudgetSpentError:
            return

    run_together(limited, [spend] * TASKS, 100)
    assert sum(sizes) == limited.budget.rows <= 1_000 * TASKS / (TASKS + 1)


def test_taking_turns_evenly_what_one_leaves_the_next_may_spend(posterior, sizes):
    limited = replace(posterior, budget=Budget(120))

    def rows_left(part):
        return part.budget.rows_left

    def spend_nothing_or_all(part):
        part.evaluate(np.zeros((part.budget.rows_left, 2)))
        return rows_left(part)

    assert run_together(limited, [rows_left, spend_nothing_or_all, rows_left], 100, later=1) == [30, 0, 40]
    assert sizes == [40]
