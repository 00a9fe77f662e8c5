"""Choices of k actions and allocations against enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

from gbce.policy import allocate, count_distribution
from gbce.policy._action import choose_best, pick_next, upper_bound, values_of
from support.policies import answered_rows


def random_values(seed, n=12, m=9):
    rng = np.random.default_rng(seed)
    cost = np.where(rng.random((n, m)) < 0.35, rng.uniform(0.5, 3.0, (n, m)).round(2), np.inf)
    return values_of(cost, rng.choice([2.0, 40.0])), rng


def total_of(values, chosen):
    return values[:, list(chosen)].max(axis=1, initial=0.0).sum()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_best_k_are_those_of_enumeration(seed, k):
    values, _ = random_values(seed)
    most = max(total_of(values, chosen) for chosen in combinations(range(values.shape[1]), k))
    found = choose_best(values, k, np.ones(len(values)))
    assert found.proved
    assert found.total == pytest.approx(most, rel=1e-9)
    assert total_of(values, found.chosen) == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_with_groups_the_least_share_is_as_large_as_can_be(seed):
    values, rng = random_values(seed)
    groups = np.r_[np.zeros(4, dtype=int), np.ones(8, dtype=int)][rng.permutation(12)]

    def fair(chosen):
        served = values[:, list(chosen)].max(axis=1) > 0
        return min(served[groups == 0].mean(), served[groups == 1].mean()), total_of(values, chosen)

    most = max(fair(chosen) for chosen in combinations(range(values.shape[1]), 2))
    found = fair(choose_best(values, 2, np.ones(12), groups).chosen)
    assert found == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_one_after_the_other_keeps_its_guarantee_and_the_bound_holds(seed):
    values, _ = random_values(seed)
    weights, best, chosen = np.ones(len(values)), np.zeros(len(values)), []
    for _ in range(3):
        by_hand = [np.maximum(best, values[:, a]).sum() for a in range(values.shape[1])]
        chosen.append(pick_next(values, best, weights))
        assert by_hand[chosen[-1]] == pytest.approx(max(by_hand))
        best = np.maximum(best, values[:, chosen[-1]])
    most = max(total_of(values, some) for some in combinations(range(values.shape[1]), 3))
    assert (1 - 1 / np.e) * most <= best.sum() <= most + 1e-9
    assert upper_bound(values, best, weights, 3) >= most - 1e-9


def test_the_group_that_is_served_least_comes_next():
    # the first action serves all of the second group; the next one must serve the first group, though it adds less
    values = np.array([[0, 1, 0], [0, 0, 0], [5, 0, 0], [5, 0, 3], [0, 0, 3]], dtype=float)
    best = values[:, 0]
    assert pick_next(values, best, np.ones(5)) == 2
    assert pick_next(values, best, np.ones(5), np.array([0, 0, 1, 1, 1])) == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_best_allocation_is_that_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    n = 11
    p, cost = rng.uniform(0.3, 1.0, n), rng.uniform(1.0, 9.0, n).round(1)
    rows = answered_rows(p)
    budget = float(cost.sum() * rng.uniform(0.2, 0.7))
    subsets = np.array(list(product([0, 1], repeat=n)), dtype=float)
    within = subsets @ cost <= budget + 1e-9
    found = allocate(rows, budget, costs=cost)
    assert found.proved
    assert found.spent <= budget + 1e-9
    assert found.expected[0] == pytest.approx((subsets @ p)[within].max(), rel=1e-9)
    assert found.expected[0] == pytest.approx(p[found.helped].sum())
    # the cheapest set that reaches four rows with probability 0.8: never cheaper than the best, hardly ever dearer
    enough = np.array([count_distribution(p[one > 0])[4:].sum() >= 0.8 for one in subsets])
    sure = allocate(rows, at_least=4, probability=0.8, costs=cost)
    least = (subsets @ cost)[enough].min()
    assert sure.chance >= 0.8
    assert least - 1e-9 <= sure.spent <= 1.1 * least


def test_counts_of_many_rows_are_those_of_a_binomial():
    from scipy.stats import binom

    found = count_distribution(np.full(1_000, 0.3))
    np.testing.assert_allclose(found, binom.pmf(np.arange(1_001), 1_000, 0.3), atol=1e-13)
    two = count_distribution(np.array([0.2, 0.7]))
    np.testing.assert_allclose(two, [0.8 * 0.3, 0.2 * 0.3 + 0.8 * 0.7, 0.2 * 0.7])


@pytest.mark.parametrize("wrong", [[0.5, 2.0], [np.nan], [-1.0], [[0.5]], ["x"], None])
def test_what_is_no_probability_is_refused(wrong):
    with pytest.raises(ValueError, match="n numbers between 0 and 1"):
        count_distribution(wrong)
