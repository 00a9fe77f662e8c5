"""MOC on problems whose Pareto front is known."""

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals.moc import METHODS, MOC
from support.asked import Formula, corners, fitted

pytest.importorskip("pymoo")


def origin(d):
    return pd.DataFrame(np.zeros((1, d)), columns=[f"x{j + 1}" for j in range(d)])


def test_one_column_moves_to_the_edge_of_the_interval():
    """f = x1 from (0, 0), wanted in [.5, 1]: the front keeps x2, and its points that reach begin at x1 = .5."""
    moc, wish, model = fitted(MOC(), Formula(lambda x: x[:, 0]), corners(2), low=0.5, high=1.0)
    found = moc.counterfactual(origin(2), wish, seed=0)
    for answer in found.answers.values():
        assert 0.5 <= answer["x1"].item() < 0.51
        assert answer["x2"].item() == 0.0
    assert model.calls == 1 + 176 + 1  # the look along the columns, the generations, and predict on the set
    assert 20 * 176 + 2 * 20 < model.rows <= 2 * (20 * 176) + 2 * 20  # the set is part of what was tried


def test_the_nearest_point_and_the_one_of_fewest_changes_are_both_on_the_front():
    """Where roots add up to .9, two columns at .2025 are half as dear as one at .81."""
    moc, wish, _ = fitted(MOC(size=40, generations=60), Formula(lambda x: np.sqrt(x).sum(axis=1)), corners(2), low=0.9)
    found = moc.counterfactual(origin(2), wish, seed=1)
    near, few = found.answers[""].to_numpy()[0], found.answers["fewest changes"].to_numpy()[0]
    assert 0.405 <= near.sum() < 0.5
    assert (near > 0).all()
    assert few.min() == 0.0
    assert 0.81 <= few.max() < 0.83


def test_columns_keep_their_kind_bounds_and_direction():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "rooms": rng.integers(1, 7, 200),
        "town": rng.choice(["a", "b", "c"], 200),
        "age": rng.uniform(0.0, 50.0, 200),
        "income": rng.uniform(0.0, 10.0, 200),
    })  # fmt: skip
    X.loc[3, "income"] = np.nan

    class Priced:
        def predict(self, frame):
            return frame["rooms"].to_numpy() + 3.0 * (frame["town"] == "c") - frame["age"].to_numpy() / 10

    space = gbce.Space.infer(X, increase=["age"], immutable=["income"])
    moc, wish, _ = fitted(MOC(generations=40), Priced(), X, space=space, low=7.5)
    row = X.assign(rooms=2, town="a", age=0.0).iloc[[3]]
    (answer, *_) = moc.counterfactual(row, wish, seed=0).answers.values()
    assert (answer.dtypes == X.dtypes).all()
    assert (answer["rooms"].item(), answer["town"].item(), answer["age"].item()) == (5, "c", 0.0)
    assert np.isnan(answer["income"].item())


def test_points_that_are_farther_off_than_epsilon_come_last():
    """Of a front they were otherwise as good as any: the row itself, which changes nothing, is always on it."""
    moc, wish, _ = fitted(MOC(generations=20, epsilon=0.0), Formula(lambda x: x[:, 0]), corners(2), low=0.5)
    assert moc.counterfactual(origin(2), wish, seed=0).answers[""]["x1"].item() < 0.55


def test_the_same_seed_gives_the_same_answer_and_another_one_another():
    moc, wish, _ = fitted(MOC(generations=5), Formula(lambda x: x[:, 0] * x[:, 1]), corners(2), low=0.3)
    first, again, other = (moc.counterfactual(origin(2), wish, seed=s).answers[""] for s in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    assert (first != other).any(axis=None)


def test_what_cannot_be_reached_is_said_and_so_is_bad_use():
    moc, wish, _ = fitted(MOC(generations=2), Formula(lambda x: x[:, 0]), corners(2), low=5.0)
    found = moc.counterfactual(origin(2), wish, seed=0)
    assert (dict(found.answers), found.note) == ({}, "no point reached the wish")
    space = gbce.Space.infer(corners(2), immutable=["x1", "x2"])
    moc, wish, _ = fitted(MOC(generations=2), Formula(lambda x: x[:, 0]), corners(2), space=space, low=5.0)
    assert moc.counterfactual(origin(2), wish, seed=0).note == "no column may change"
    with pytest.raises(ValueError, match="an even number from 2 on, not 7"):
        MOC(size=7)


def test_the_benchmark_shows_about_as_many_rows_as_the_package():
    method = METHODS[0].make()
    assert method.size * method.generations == MOC().size * MOC().generations
