"""The knapsack of an allocation: equal to enumeration and to HiGHS, and honest where it stops early."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from gbce.policy import _knapsack, allocate
from gbce.policy._knapsack import Knapsack
from support.policies import answered_rows


def draw(kind, n, rng):
    """Return gains and costs ``(n,)``: with ties, zeros, round numbers, or gains that are linear in costs."""
    gains, costs = rng.uniform(0.3, 1.0, n), rng.uniform(0.0, 5.0, n)
    if kind == "ties":
        gains, costs = rng.choice([0.0, 0.5, 0.9, 1.0], n), rng.integers(0, 4, n).astype(float)
    if kind == "round":
        costs = costs.round(1)
    if kind == "linear":
        gains = 0.1 + costs / 10
    return gains, costs


@pytest.mark.parametrize("kind", ["plain", "ties", "round", "linear"])
def test_the_best_rows_are_those_of_enumeration(kind):
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 8, 11, 11, 11, 11):
        gains, costs = draw(kind, n, rng)
        subsets = np.array(list(product([0, 1], repeat=n)), dtype=float)
        program = Knapsack(gains, costs)
        for share in (0.0, 0.1, 0.35, 0.6, 1.0):
            budget = share * costs.sum()
            top = (subsets @ gains)[subsets @ costs <= budget * (1 + 1e-9)].max()
            found = program.best(budget)
            assert gains[found.helped].sum() == pytest.approx(top, rel=1e-9, abs=1e-12)
            assert found.bound == pytest.approx(top, rel=1e-9, abs=1e-12)
            assert costs[found.helped].sum() <= budget * (1 + 1e-8)


@pytest.mark.parametrize(("kind", "share"), [("plain", 0.1), ("plain", 0.4), ("round", 0.3)])
def test_of_2000_rows_they_are_those_of_the_mixed_integer_program(kind, share):
    gains, costs = draw(kind, 2_000, np.random.default_rng(1))
    budget = share * costs.sum()
    found = Knapsack(gains, costs).best(budget)
    whole = milp(
        -gains, constraints=LinearConstraint(costs[None, :] / budget, -np.inf, 1.0), bounds=Bounds(0, 1),
        integrality=np.ones(2_000), options={"time_limit": 60.0, "mip_rel_gap": 0.0},
    )  # fmt: skip
    # HiGHS ends at an absolute gap of 1e-6, and lets the budget be exceeded by as much of it
    assert gains[found.helped].sum() >= -whole.fun - 1e-5
    assert gains[found.helped].sum() <= -whole.mip_dual_bound + 1e-5
    assert found.bound == pytest.approx(gains[found.helped].sum(), rel=1e-12)
    assert costs[found.helped].sum() <= budget * (1 + 1e-8)


@pytest.mark.parametrize("kind", ["plain", "ties", "round"])
def test_among_100000_rows_the_best_are_proved(kind):
    rng = np.random.default_rng(2)
    gains, costs = draw(kind, 100_000, rng)
    budget = 0.2 * costs.sum()
    found = Knapsack(gains, costs).best(budget)
    gained = gains[found.helped].sum()
    assert found.bound == pytest.approx(gained, rel=1e-12)
    # the relaxation is no lower, and rows by their rate alone are no better
    order = np.argsort(np.where(costs > 0, -gains / np.maximum(costs, 1e-300), -np.inf), kind="stable")
    spent, sums = np.append(0, np.cumsum(costs[order])), np.append(0, np.cumsum(gains[order]))
    assert sums[np.searchsorted(spent, budget, side="right") - 1] - 1e-6 <= gained
    assert gained <= np.interp(budget * (1 + 1e-9), spent, sums) + 1e-6


def test_where_it_stops_early_the_bound_holds_the_best(monkeypatch):
    rng = np.random.default_rng(3)
    cases = [(*draw("linear", 40, rng), share) for share in (0.2, 0.5, 0.8)]
    whole = [Knapsack(gains, costs).best(share * costs.sum()) for gains, costs, share in cases]
    monkeypatch.setattr(_knapsack, "_MOST_AT_ONCE", 3)
    early = 0
    for (gains, costs, share), best in zip(cases, whole, strict=True):
        assert best.bound == pytest.approx(gains[best.helped].sum(), rel=1e-12)
        found = Knapsack(gains, costs).best(share * costs.sum())
        gained = gains[found.helped].sum()
        early += found.bound > gained + 1e-9
        assert gained <= best.bound + 1e-12
        assert best.bound <= found.bound + 1e-12
        assert costs[found.helped].sum() <= share * costs.sum() * (1 + 1e-8)
    assert early > 0
    gains, costs, share = cases[0]
    told = allocate(answered_rows(gains, costs), share * costs.sum())
    assert not told.proved
    assert "Others may do better: up to" in str(told)


@pytest.mark.parametrize("seed", range(3))
def test_no_rows_that_are_enough_cost_less_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    p, cost = rng.uniform(0.3, 1.0, 10), rng.uniform(1.0, 9.0, 10).round(1)
    subsets = np.array(list(product([0, 1], repeat=10)), dtype=bool)
    chances = np.array([_chance_of(p[one], 3) for one in subsets])
    for probability in (0.3, 0.8):
        found = allocate(answered_rows(p, cost), at_least=3, probability=probability)
        least = (subsets @ cost)[chances >= probability].min()
        assert 0 < found.least_cost <= least + 1e-9
        assert least - 1e-9 <= found.spent
        assert found.most_expected is None
        assert found.proved == (found.spent <= found.least_cost * (1 + 1e-9))


def _chance_of(p, at_least):
    counts = np.ones(1)
    for one in p:
        counts = np.convolve(counts, [1 - one, one])
    return counts[at_least:].sum()
