"""Allocations: costs from prices, frontiers, chances, and bad input."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gbce.policy import allocate, count_distribution
from gbce.space import Space
from support.policies import answered_rows


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return answered_rows(rng.uniform(0.4, 1.0, 60), rng.uniform(1.0, 9.0, 60).round(1))


def test_more_money_reaches_more_rows(rows, tmp_path):
    found = allocate(rows, 80.0)
    assert found.frame().index.max() == pytest.approx(min(320.0, rows.cost.sum()))
    table = found.frame()
    assert table["expected"].is_monotonic_increasing
    assert (table["spent"] <= table.index.to_numpy() * (1 + 1e-8)).all()
    assert (table["low"] <= table["expected"]).all()
    assert (table["expected"] <= table["high"]).all()
    assert table.loc[80.0, "expected"] == pytest.approx(found.expected[0])
    assert allocate(rows, 1e9).frame().iloc[-1]["helped"] == len(rows)
    listed = found.rows
    assert listed["helped"].sum() == len(found)
    assert listed["helped"].iloc[: len(found)].all()
    assert listed.loc[listed["helped"], "cost"].sum() == pytest.approx(found.spent)
    written = json.loads(found.to_json(tmp_path / "help.json").read_text())
    assert len(written["rows"]) == 60
    assert "expected to reach the target" in str(found)
    assert found.plot().get_legend() is not None


def test_the_number_lies_in_its_range_in_95_of_100_trials(rows):
    found = allocate(rows, 120.0)
    p = found.reliability[found.helped, 0]
    trials = (np.random.default_rng(1).random((4_000, len(p))) < p).sum(axis=1)
    low, high = found.likely
    inside = ((trials >= low) & (trials <= high)).mean()
    assert inside >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 4_000)
    assert trials.mean() == pytest.approx(found.expected[0], abs=4 * trials.std() / np.sqrt(4_000))
    # reliabilities have errors of their own: half widths add up as squares
    assert found.expected[2] - found.expected[0] == pytest.approx(
        np.sqrt(np.square(found.reliability[found.helped, 2] - p).sum()), rel=1e-9
    )


def test_a_chance_is_kept_and_costs_money(rows):
    rows = rows.take(np.arange(30))
    easy = allocate(rows, at_least=10, probability=0.5)
    sure = allocate(rows, at_least=10, probability=0.95)
    assert easy.spent < sure.spent
    for found, level in ((easy, 0.5), (sure, 0.95)):
        p = found.reliability[found.helped, 0]
        assert found.chance == pytest.approx(count_distribution(p)[10:].sum())
        assert found.chance >= level
    assert "At least 10 reach it with probability" in str(sure)
    within = allocate(rows, sure.spent * 1.2, at_least=10, probability=0.95)
    assert within.chance >= 0.95
    assert within.expected[0] >= sure.expected[0]
    with pytest.raises(ValueError, match=r"cost .* the least that was found; within the budget of 5 the prob"):
        allocate(rows, 5.0, at_least=10, probability=0.95)
    with pytest.raises(ValueError, match="cannot be achieved at any cost"):
        allocate(rows, at_least=30, probability=0.95)


def test_costs_come_from_prices_a_series_or_a_list(rows):
    space = Space.real(1)
    priced = replace(rows, space=space, answers=rows.x0 + 2.0)
    assert allocate(priced, 1e9, prices={"x1": 7.0}).costs == pytest.approx(np.full(60, 14.0))
    own = pd.Series(np.arange(60.0), index=rows.labels).sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(allocate(rows, 1e9, costs=own).costs, np.arange(60.0))
    np.testing.assert_array_equal(allocate(rows, 1e9, costs=np.arange(60.0)).costs, np.arange(60.0))
    already = replace(rows, already=np.arange(60) < 10)
    np.testing.assert_array_equal(allocate(already, 1e9, costs=np.arange(60.0)).costs, np.arange(10.0, 60.0))
    unanswered = replace(rows, answered=np.arange(60) >= 5)
    assert "5 rows have no answer" in str(allocate(unanswered, 1e9))


def test_unknown_reliabilities_of_answers_that_reach_count_as_one(rows):
    unknown = replace(rows, reliability=np.full((60, 3), np.nan))
    assert allocate(unknown, 1e9).expected == (60.0, 60.0, 60.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give budget="),
        ({"budget": -1}, "budget must be a number of at least 0"),
        ({"budget": 1, "at_least": 0}, "at_least must be an integer"),
        ({"budget": 1, "at_least": 61}, "more than the 60 rows"),
        ({"budget": 1, "at_least": 1, "probability": 1.0}, "probability must lie between"),
        ({"budget": 1, "points": 1}, "points must be"),
        ({"budget": 1, "costs": [1.0]}, "costs must have one entry per row"),
        ({"budget": 1, "costs": {"r0": 1.0}}, "costs has no entry for row 'r1'"),
        ({"budget": 1, "costs": [-1.0] * 60}, "the cost of row 'r0' must be a number of at least 0"),
        ({"budget": 1, "costs": "money"}, "the table has no column 'money'"),
        ({"budget": 1, "costs": [1.0] * 60, "prices": {"x1": 1}}, "not both"),
    ],
)
def test_bad_input_gets_a_sentence(rows, options, said):
    with pytest.raises(ValueError, match=said):
        allocate(rows, **options)


def test_a_price_that_is_missing_is_named():
    rows = answered_rows(np.array([0.9, 0.8]), space=Space.real(2))
    rows = replace(rows, x0=np.zeros((2, 2)), answers=np.array([[1.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(ValueError, match="no entry for 'x2', which the answer of row 'r1' changes"):
        allocate(rows, 5.0, prices={"x1": 1.0})
    nobody = replace(rows, answered=np.zeros(2, dtype=bool))
    with pytest.raises(ValueError, match="nobody can be helped"):
        allocate(nobody, 5.0)
