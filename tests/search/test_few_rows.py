"""The surrogate, and the search on it with few model rows: what it finds, and that it keeps to its rows."""

import numpy as np
import pytest

import gbce
from gbce.metrics import costs
from gbce.search import CandidateMoves, Judged, find_nearest_with_few_rows, values_to_try
from gbce.search._surrogate import fit_surrogate

DATA = np.random.default_rng(0).normal(size=(200, 6))
SPACE = gbce.Space.real(6)
WEIGHTS = np.array([0.5, -2.0, 0.1, 1.0, 0.0, 0.3])
NONE = np.zeros((0, 6))


def search(f, wanted, rows, *, space=SPACE, data=DATA, x0=None, known=20, power=1, most_changes=None):
    """Return what a search finds, the rows that it asked, and how often."""
    x0 = np.zeros(data.shape[1]) if x0 is None else x0
    asked = []

    def judge(x):
        gap = wanted - f(x)
        return Judged(gap, gap <= 0)

    def counted(x):
        asked.append(x)
        return judge(x)

    moves = CandidateMoves(
        space, x0, values_to_try(space, x0, data), lambda x: costs(space, x, x0, "l1" if power == 1 else "l2")
    )
    found = find_nearest_with_few_rows(
        moves, counted, NONE[:, : data.shape[1]], rows, trials=NONE[:, : data.shape[1]],
        evidence=(data[:known], judge(data[:known]).gap), power=power, most_changes=most_changes,
    )  # fmt: skip
    assert judge(found.x).reached.all()  # nothing is handed over that the model did not say
    return found, np.vstack(asked), len(asked)


def test_a_surrogate_continues_a_plane_and_is_surer_near_what_it_knows():
    x = DATA[:60]
    surrogate = fit_surrogate(SPACE, np.zeros(6), x, x @ WEIGHTS + 3.0)
    mean, sd = surrogate.estimate(DATA[60:])
    assert np.abs(mean - (DATA[60:] @ WEIGHTS + 3.0)).max() < 0.1 * np.std(DATA @ WEIGHTS)
    known, known_sd = surrogate.estimate(x)
    np.testing.assert_allclose(known, x @ WEIGHTS + 3.0, atol=0.02)
    assert np.median(known_sd) < 0.7 * np.median(sd)


def test_a_surrogate_knows_levels_and_missing_values():
    space = gbce.Space([gbce.Feature("a"), gbce.Feature("c", "categorical", levels=["p", "q", "r"])])
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=90), np.tile([0.0, 1.0, 2.0], 30)])
    x[::9, 0] = np.nan
    value = np.where(np.isnan(x[:, 0]), 4.0, np.nan_to_num(x[:, 0])) + np.array([0.0, 2.0, -1.0])[x[:, 1].astype(int)]
    surrogate = fit_surrogate(space, np.array([0.0, 0.0]), x, value)
    asked = np.array([[0.5, 1.0], [np.nan, 2.0], [-0.5, 0.0]])
    np.testing.assert_allclose(surrogate.estimate(asked)[0], [2.5, 3.0, -0.5], atol=0.4)


@pytest.mark.parametrize("power", [1, 2])
def test_the_nearest_point_of_a_plane_is_found_with_a_hundred_rows(power):
    found, asked, calls = search(lambda x: x @ WEIGHTS, 3.0, 100, power=power)
    best = 3.0 / (np.abs(WEIGHTS).max() if power == 1 else np.sqrt(WEIGHTS @ WEIGHTS))
    assert found.cost[0] < 1.02 * best
    assert len(asked) <= 100
    assert len(np.unique(asked, axis=0)) == len(asked)  # nothing twice
    assert calls <= 15


def test_two_columns_that_reach_only_together_are_found_with_few_rows():
    def both(x):
        return np.minimum(x[:, 1], 1.0) + np.minimum(x[:, 3], 1.0)

    found, asked, _ = search(both, 1.5, 150)
    assert found.cost[0] < 1.05 * 1.5
    pairs = found.x[found.changes == 2] != 0  # others have a change of a thousandth, which Nearest undoes
    assert found.cost[found.changes == 2].min() < 1.05 * 1.5
    assert (pairs == [False, True, False, True, False, False]).all()
    assert len(asked) <= 150


def test_no_more_features_change_than_allowed():
    found, _, _ = search(lambda x: x @ WEIGHTS, 3.0, 80, power=2, most_changes=1)
    cheapest = found.cost[found.changes <= 1].min()
    assert cheapest == pytest.approx(1.5, rel=0.02)


def test_steps_are_met_with_few_rows():
    found, _, _ = search(lambda x: (x[:, 0] > 0.4) + 2.0 * (x[:, 4] < -1.1) + 0.0, 2.0, 120)
    assert found.cost[0] < 1.1 * 1.1


def test_a_few_rows_are_not_exceeded():
    for rows in (1, 5, 17):
        assert len(search(lambda x: x @ WEIGHTS, 30.0, rows)[1]) <= rows


def test_where_all_outputs_are_equal_the_search_goes_on():
    surrogate = fit_surrogate(SPACE, np.zeros(6), DATA[:30], np.full(30, 2.0))
    mean, sd = surrogate.estimate(DATA[30:50])
    np.testing.assert_allclose(mean, 2.0)
    assert (sd > 0).all()
    found, asked, _ = search(lambda x: np.where(x[:, 1] < -1.2, 1.0, 0.0) * (x[:, 1] > -9), 0.5, 60, known=1)
    assert found.cost[0] < 1.3 * 1.2
    assert len(asked) <= 60
