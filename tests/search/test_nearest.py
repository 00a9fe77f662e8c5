"""The search for cheap points that reach: what it tries, what it asks, and that it ends in good order."""

import numpy as np
import pytest
from scipy.optimize import minimize

import gbce
from gbce.budget import BudgetSpentError
from gbce.metrics import costs
from gbce.search import CandidateMoves, Judged, find_nearest, values_to_try

DATA = np.random.default_rng(0).normal(size=(200, 4))


def around(space, x0, data=DATA, distance="l1"):
    return CandidateMoves(space, x0, values_to_try(space, x0, data), lambda x: costs(space, x, x0, distance))


def judge_by(f, wanted, asked=None):
    def judge(x):
        if asked is not None:
            asked.append(len(x))
        gap = wanted - f(x)
        return Judged(gap, gap <= 0)

    return judge


def test_values_are_those_of_the_data_within_limits_and_every_level():
    space = gbce.Space(
        [
            gbce.Feature("a", low=-1.0, high=1.0),
            gbce.Feature("n", "integer", low=0, high=9),
            gbce.Feature("c", "categorical", levels=["p", "q", "r"]),
            gbce.Feature("up", direction="increase"),
        ]
    )
    x0 = np.array([0.0, 4.0, 1.0, 0.5])
    values = values_to_try(space, x0, np.column_stack([DATA[:, 0], DATA[:, 1] * 2 + 4, DATA[:, 2] > 0, DATA[:, 3]]))
    assert values[0].min() == -1.0
    assert values[0].max() == 1.0
    assert values[1].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert values[2].tolist() == [0, 2]
    assert values[3].min() > 0.5
    assert values[3].max() > DATA[:, 3].max()  # where there is no limit, the data's range is not one
    assert all(len(one) <= 45 for one in values.values())


def test_what_may_become_missing_is_tried_without_a_value():
    space = gbce.Space([gbce.Feature("a", missing="any"), gbce.Feature("b", missing="leave")])
    data = np.column_stack([DATA[:, 0], np.where(DATA[:, 1] > 0, np.nan, DATA[:, 1])])
    assert np.isnan(values_to_try(space, np.zeros(2), data)[0][-1])
    assert not np.isnan(values_to_try(space, np.array([0.0, np.nan]), data)[1]).any()

    def known(x):
        return np.where(np.isnan(x[:, 0]), 5.0, 0.0)

    found = find_nearest(around(space, np.zeros(2), data), judge_by(known, 1.0), np.zeros((0, 2)))
    assert np.isnan(found.x[0, 0])
    assert found.changes[0] == 1


def test_sites_are_the_cheapest_of_each_set_of_changes():
    asked = []
    space, x0 = gbce.Space.real(4), np.zeros(4)

    def f(x):
        return 2 * x[:, 0] + x[:, 1] + 0.1 * x[:, 2]

    found = find_nearest(around(space, x0), judge_by(f, 2.0, asked), np.zeros((0, 4)))
    assert (f(found.x) >= 2.0).all()
    np.testing.assert_allclose(found.cost, np.abs(found.x).sum(axis=1))
    np.testing.assert_array_equal(found.changes, (found.x != 0).sum(axis=1))
    assert (np.diff(found.cost) >= 0).all()
    assert len({tuple(line) for line in found.x != 0}) == len(found.x)
    assert found.cost[0] == pytest.approx(1.0, rel=1e-3)
    second = found.cost[[tuple(line) == (False, True, False, False) for line in found.x != 0]]
    assert 2.0 <= second[0] < 2.3  # twice as dear as the cheapest with one change: it is not closed in on
    assert sum(asked) <= 4_000 + 150 * 4
    assert len(asked) <= 40


def test_a_start_gives_back_what_it_does_not_need():
    """Twenty features are changed, and two of them matter, together: no single change and no slope shows it."""
    d = 20
    space, x0 = gbce.Space.real(d), np.zeros(d)

    def both(x):
        return ((x[:, 3] > 1.0) & (x[:, 11] < -0.5)).astype(float)

    start = np.full((1, d), 2.0)
    start[:, 11] = -2.0
    data = np.random.default_rng(0).normal(size=(200, d)) * 0.3  # none of these rows reaches
    found = find_nearest(around(space, x0, data), judge_by(both, 1.0), start)
    assert found.changes[0] == 2
    assert found.cost[0] == pytest.approx(1.5, rel=1e-2)


def test_a_search_that_is_refused_ends_with_what_it_has():
    space, x0 = gbce.Space.real(4), np.zeros(4)
    start = np.array([[0.0, 0.0, 0.0, 3.0]])

    def refuse(x):
        raise BudgetSpentError("no")

    found = find_nearest(around(space, x0), refuse, start)
    np.testing.assert_array_equal(found.x, start)
    asked = []
    few = find_nearest(around(space, x0), judge_by(lambda x: x[:, 3], 1.0, asked), start, max_rows=50)
    assert sum(asked) <= 50
    assert few.cost[0] <= 3.0
    nothing = find_nearest(around(space, x0), judge_by(lambda x: x[:, 3], 99.0), start[:0], affords=lambda n: 0)
    assert len(nothing.x) == 0


def test_points_beyond_the_number_of_changes_are_only_on_the_way():
    space, x0 = gbce.Space.real(4), np.zeros(4)
    found = find_nearest(
        around(space, x0), judge_by(lambda x: x.sum(axis=1), 3.0), np.full((1, 4), 1.0), most_changes=2, power=1
    )
    assert found.cost[found.changes <= 2].min() == pytest.approx(3.0, rel=1e-3)


def test_a_category_and_a_condition_are_kept():
    space = gbce.Space(
        [gbce.Feature("a", low=0, high=4), gbce.Feature("c", "categorical", levels=["p", "q"])],
        constraints=["if c == 'q' then a >= 1"],
    )
    data = np.column_stack([np.abs(DATA[:, 0]), DATA[:, 1] > 0])
    x0 = np.array([0.5, 0.0])
    found = find_nearest(around(space, x0, data), judge_by(lambda x: x[:, 1], 1.0), np.array([[3.0, 1.0]]))
    assert (found.x[:, 0] >= 1.0).all()
    assert found.cost[0] == pytest.approx(1.5, rel=0.06)  # a condition is met by steps of a twentieth of a move


def test_one_change_goes_back_for_several_others_that_show_only_beside_it():
    """Nothing gains without the first column: seen from the row, no two changes do, and no single one is exchanged."""
    d = 8
    space, x0 = gbce.Space.real(d), np.zeros(d)

    def model(x):
        return (x[:, 0] > 1.0) * (1.0 * (x[:, 1] > 2.0) + 0.6 * (x[:, 2] > 0.5) + 0.5 * (x[:, 3] < -0.5))

    start = np.zeros((1, d))
    start[0, :2] = [1.1, 2.1]
    found = find_nearest(around(space, x0, DATA[:, [0, 1, 2, 3] * 2]), judge_by(model, 1.0), start)
    np.testing.assert_array_equal(found.x[0] != 0, [True, False, True, True] + [False] * 4)
    assert found.cost[0] == pytest.approx(2.0, rel=1e-2)


# --- smooth boundaries ------------------------------------------------------------------------------------------------


def test_the_boundary_is_followed_from_several_starts_before_anything_else_is_asked():
    """Small networks in twenty columns, beside scipy's SLSQP with exact gradients from every start."""
    d, ratios = 20, []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        inner, bias, outer = rng.normal(size=(d, 16)) / np.sqrt(d), 0.5 * rng.normal(size=16), rng.normal(size=16)

        def net(x, inner=inner, bias=bias, outer=outer):
            return np.tanh(1.5 * (x @ inner + bias)) @ outer

        def slope(x, inner=inner, bias=bias, outer=outer):
            return 1.5 * (inner * (1.0 - np.tanh(1.5 * (x @ inner + bias)) ** 2)) @ outer

        data = rng.normal(size=(300, d))
        wanted = np.quantile(net(data), 0.97)
        starts = data[net(data) >= wanted]
        reach = {"type": "ineq", "fun": lambda x, net=net, wanted=wanted: net(x) - wanted, "jac": slope}
        ends = [
            minimize(lambda x: x @ x, one, jac=lambda x: 2 * x, method="SLSQP", constraints=reach) for one in starts
        ]
        best = np.sqrt(min(end.fun for end in ends if end.success))
        moves = around(gbce.Space.real(d), np.zeros(d), data, "l2")
        found = find_nearest(moves, judge_by(net, wanted), starts, power=2, max_rows=2_500)
        ratios.append(found.cost[0] / best)
    assert np.mean(ratios) < 1.013


# --- piecewise constant models ----------------------------------------------------------------------------------------


def test_a_few_values_of_a_column_are_those_beyond_its_steps():
    space, x0 = gbce.Space.real(1), np.zeros(1)
    data = np.linspace(-2.0, 2.0, 41)[:, None]
    moves = around(space, x0, data)
    x, feature = moves.singles()

    def stairs(x):
        return np.select([x[:, 0] > 1.62, x[:, 0] > 1.12, x[:, 0] > 0.58], [3.0, 2.0, 1.0], 0.0)

    _, values = moves.few_changes(x, feature, -stairs(x), 0.0)
    assert set(np.round([0.6, 1.2, 1.7], 6)) <= set(np.round(values, 6))
    assert (values > 0).sum() == (values < 0).sum() == 5
    _, values = moves.few_changes(x, feature, -x[:, 0], 0.0)  # no two values alike: denser near the row
    assert np.diff(values[values > 0])[0] < np.diff(values[values > 0])[-1]
