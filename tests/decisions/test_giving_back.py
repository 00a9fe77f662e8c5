"""Changes that a promise does not need, and screening by stages, against all copies at once."""

from dataclasses import replace

import numpy as np
import pytest

import gbce
from gbce.budget import Budget
from gbce.decisions._risk import UnderNoise
from gbce.decisions._screening import Promise, PromiseSearch, Screening, UndoChanges
from support.scenes import scene_of

D, COPIES = 12, 512


def noisy_of(model, d=D, seed=0, noise=0.1):
    scene = scene_of(
        np.zeros((2, d)), model=model, target=gbce.AtLeast(0.0, scale=1.0, tolerance=0.0), noise=noise, seed=seed
    )
    return UnderNoise(scene, scene.posterior, None, first_only=True)


def undo_changes(noisy, x, holds_elsewhere=lambda x: np.ones(len(x), dtype=bool)):
    shifts = noisy.draw_offsets(COPIES)
    back = UndoChanges(noisy, shifts, lambda x: np.abs(x).sum(axis=1), lambda x: x, holds_elsewhere)
    before = noisy.posterior.n_rows
    return back.run(np.asarray(x, dtype=float)), shifts, noisy.posterior.n_rows - before


@pytest.mark.parametrize("seed", range(4))
def test_only_what_is_needed_stays(seed):
    rng = np.random.default_rng([7, seed])
    needed = rng.choice(D, 3, replace=False)
    x = rng.uniform(0.5, 1.0, D) * rng.choice([-1, 1], D)

    def model(rows):
        return (rows[:, needed] * np.sign(x[needed])).min(axis=1) - 0.4

    noisy = noisy_of(model, seed=seed)
    kept, shifts, rows = undo_changes(noisy, x)
    np.testing.assert_array_equal(np.flatnonzero(kept), np.sort(needed))
    np.testing.assert_array_equal(kept[needed], x[needed])
    assert noisy.success(kept[None, :], shifts)[0] >= noisy.success(x[None, :], shifts)[0]
    # all of its single changes under every copy would be 12 * 512, once; nine are given back in one go
    assert rows <= 32 * 13 + 480 * 10 + 4 * COPIES


def test_of_two_changes_that_stand_in_for_each_other_the_cheaper_stays():
    noisy = noisy_of(lambda x: x[:, :2].max(axis=1) - 0.3, d=5)
    kept, _, _ = undo_changes(noisy, [1.0, 0.9, 0.5, 0.5, 0.5])
    np.testing.assert_array_equal(kept, [0.0, 0.9, 0.0, 0.0, 0.0])


def test_what_does_not_hold_elsewhere_is_not_given_back():
    noisy = noisy_of(lambda x: x[:, 0] - 0.3, d=3)
    kept, _, _ = undo_changes(noisy, [1.0, 1.0, 1.0], lambda x: x[:, 2] != 0)
    np.testing.assert_array_equal(kept, [1.0, 0.0, 1.0])


def test_what_makes_no_point_any_cheaper_asks_nothing():
    noisy = noisy_of(lambda x: x[:, 0], d=2)
    kept, _, rows = undo_changes(noisy, [0.7, 0.0])  # without its only change it is the row
    np.testing.assert_array_equal(kept, [0.7, 0.0])
    assert rows == 0


def test_a_point_that_fails_now_and_then_gives_back_nothing_that_helps():
    noisy = noisy_of(lambda x: x @ np.array([1.0, 0.2, 0.0]) - 1.0, d=3, noise=0.3)
    x = np.array([1.2, 0.8, 0.6])  # each step that goes back on the first two makes it fail more often
    kept, shifts, _ = undo_changes(noisy, x)
    np.testing.assert_array_equal(kept, [1.2, 0.8, 0.0])
    assert noisy.success(kept[None, :], shifts)[0] == noisy.success(x[None, :], shifts)[0] < 1


def test_looks_by_stages_say_what_all_copies_at_once_say():
    noisy = noisy_of(lambda x: x[:, 0], d=1, noise=1.0)
    x = np.linspace(-1.0, 4.0, 40)[:, None]
    screening = Screening.of(noisy, x, 64, 512)
    left = screening.first_pass(slice(0, 30), 0.9)
    assert (screening.share[left] >= 0.9 - 2.0 * np.sqrt(0.09 / 8)).all()
    screening.refine(left[:-2], 0.9)
    for copies in np.unique(screening.copies):
        some = screening.copies == copies
        told = noisy.success(x[some], screening.few[:copies]) if copies else np.zeros(some.sum())
        np.testing.assert_allclose(screening.share[some], told, rtol=0, atol=1e-12)
    assert set(screening.copies.tolist()) >= {0, 8, 64}
    assert (screening.copies[30:] == 0).all()


def test_small_changes_are_offered_together_and_each():
    noisy = noisy_of(lambda x: x[:, 0], d=5)
    back = UndoChanges(
        noisy, noisy.draw_offsets(8), lambda x: np.abs(x).sum(axis=1), lambda x: x, lambda x: x[:, 0] > 0
    )
    rows = back.drop_small(np.array([1.0, 0.0, 0.04, -0.02, 0.5]))
    expected = [[1.0, 0, 0, 0, 0.5], [1.0, 0, 0, -0.02, 0.5], [1.0, 0, 0.04, 0, 0.5]]
    np.testing.assert_array_equal(rows, expected)
    assert len(back.drop_small(np.array([1.0, 0.0, 0.4, 0.0, 0.5]))) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_change_too_small_to_mention_goes_where_the_promise_holds_without_it(seed):
    """Without its small change the promise is kept with 0.971, with it with 0.980: some of 512 copies tell."""
    noisy = noisy_of(lambda x: x @ np.array([3.0, 1.0]) - 3.0, d=2, seed=seed)
    x = np.array([[1.2, 0.05]])
    for probability, kept in ((0.9, [1.2, 0.0]), (0.975, [1.2, 0.05])):
        search = PromiseSearch(noisy, Promise(probability, 0.95, 64, 512), x, lambda x: np.abs(x).sum(axis=1))
        np.testing.assert_array_equal(search.undo_changes(x[0]), kept)


def test_trials_on_the_way_to_the_row_and_of_small_changes_share_one_risk():
    """Each trial may err with half of what those before it left: none begins anew."""
    noisy = noisy_of(lambda x: x @ np.array([3.0, 1.0]) - 3.0, d=2)
    x, done = np.array([[2.0, 0.05]]), []
    search = PromiseSearch(noisy, Promise(0.9, 0.95, 64, 512), x, lambda x: np.abs(x).sum(axis=1))
    assert search.find_holding() == 0
    done.append(search.trials.done)
    nearer = search.shrink_changes(x[0], 4)
    assert nearer is not None
    done.append(search.trials.done)
    search.undo_changes(np.array([1.2, 0.05]))
    done.append(search.trials.done)
    assert done[0] == 1
    assert done[0] < done[1] < done[2]


def test_what_is_given_back_is_tried_under_fresh_noise():
    """Copies of a look are not moved at all, those of a trial, known by their number, by half a unit."""

    def noise(rng, n):
        return np.tile([-0.5 if n == COPIES else 0.0, 0.0], (n, 1))

    for least, kept in ((0.6, [1.0, 0.2]), (0.4, [1.0, 0.0])):
        noisy = noisy_of(lambda x, least=least: x.sum(axis=1) - least, d=2, noise=noise)
        x = np.array([[1.0, 0.2]])
        search = PromiseSearch(noisy, Promise(0.9, 0.95, 64, COPIES), x, lambda x: np.abs(x).sum(axis=1))
        assert search.find_holding() == 0
        np.testing.assert_array_equal(search.undo_changes(x[0]), kept)


def test_trials_of_an_earlier_search_count():
    """What only a first trial can show is not shown by the second."""
    noisy = noisy_of(lambda x: np.ones(len(x)), d=1)
    for tried, held in ((0, 0), (1, None)):
        search = PromiseSearch(
            noisy, Promise(1.0, 0.95, 8, 64), np.ones((1, 1)), lambda x: np.abs(x).sum(axis=1), tried=tried
        )
        assert search.find_holding() == held


@pytest.mark.parametrize(("rows", "screening"), [(12_000, True), (10_000, False), (20_000, True)])
def test_a_budget_shortens_the_way_to_the_row(rows, screening):
    """A round takes 2,176 rows at most and a trial 2,048: eight rounds are 19,456 rows, four 10,752."""
    noisy = noisy_of(lambda x: x @ np.array([3.0, 1.0]) - 3.0, d=2)
    budget = Budget(rows)
    noisy = replace(noisy, posterior=replace(noisy.posterior, budget=budget))
    x = np.array([2.0, 0.05])
    search = PromiseSearch(noisy, Promise(0.9, 0.95, 64, COPIES), x[None, :], lambda x: np.abs(x).sum(axis=1))
    assert (search.shrink_changes(x, 8) is not None) == screening
    assert (budget.rows > 0) == screening
    assert budget.rows <= rows
