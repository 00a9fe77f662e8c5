"""Kinjo's Pareto set of losses, where it is known."""

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals.kinjo import METHODS, Kinjo
from support.asked import Formula, Logistic, corners, fitted

pytest.importorskip("pymoo")

ROW = pd.DataFrame({"x1": [0.0]})


def two_models(bound=None, generations=40, **options):
    """f1 = x and f2 = x - 1, wanted at 2: from 0, the Pareto set is [2, 3]."""
    kinjo = Kinjo(refits=1, size=40, generations=generations, bound=bound, **options)
    shifted = Formula(lambda x: x[:, 0] - 1.0)
    X = corners(1, low=-5.0, high=5.0)
    return fitted(kinjo, Formula(lambda x: x[:, 0]), X, learn=lambda X, y, seed: shifted, low=2.0, high=2.0)


@pytest.mark.parametrize(("bound", "worst"), [(1.0, 2.5), (0.22, 2.2)])
def test_the_least_largest_loss_lies_between_the_models_or_on_the_bound(bound, worst):
    """The bound is in ranges, here of ten; within it the set is [2, 2.2]."""
    kinjo, wish, model = two_models(bound)
    found = kinjo.counterfactual(ROW, wish, seed=0)
    points = {name: answer["x1"].item() for name, answer in found.answers.items()}
    assert list(points) == ["", "least mean loss", "nearest to the ideal"]
    assert points[""] == pytest.approx(worst, abs=0.03)
    assert points["least mean loss"] == pytest.approx(worst, abs=0.03)  # of equal squares the middle, too
    assert all(1.99 < x < min(3.01, 10 * bound + 1e-6) for x in points.values())
    assert model.rows <= 40 * 40


def test_the_bound_is_the_median_distance_to_rows_that_are_granted_the_wish():
    """Points that reach have no loss, wherever they lie within it; where more is always better, it is gone up to."""
    X = corners(1, n=401)
    kinjo = Kinjo(refits=0, size=30, generations=15)
    kinjo, wish, _ = fitted(kinjo, Formula(lambda x: np.minimum(x[:, 0], 0.9)), X, low=0.5)
    middle = X["x1"][X["x1"] >= 0.5].median()
    assert 0.5 <= kinjo.counterfactual(ROW, wish, seed=0).answers[""]["x1"].item() <= middle
    kinjo, wish, _ = fitted(kinjo, Logistic(lambda x: 8 * x[:, 0] - 4), X, label=1)
    assert kinjo.counterfactual(ROW, wish, seed=0).answers[""]["x1"].item() == pytest.approx(middle, abs=0.01)


def test_columns_keep_their_kind_and_bounds():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"rooms": rng.integers(1, 7, 200), "town": rng.choice(["a", "b"], 200), "age": rng.random(200)})

    class Priced:
        def predict(self, frame):
            return frame["rooms"].to_numpy() + 3.0 * (frame["town"] == "b") + frame["age"].to_numpy()

    space = gbce.Space.infer(X, immutable=["age"])
    kinjo, wish, _ = fitted(Kinjo(refits=0, size=30, generations=15), Priced(), X, space=space, low=7.9)
    row = X.assign(rooms=1, town="a", age=0.0).iloc[[0]]
    answer = kinjo.counterfactual(row, wish, seed=0).answers[""]
    assert (answer.dtypes == X.dtypes).all()
    assert (answer["rooms"].item(), answer["town"].item(), answer["age"].item()) == (5, "b", 0.0)


def test_the_same_seed_gives_the_same_answer_and_another_one_another():
    kinjo, wish, _ = two_models(bound=1.0, generations=3)
    first, again, other = (kinjo.counterfactual(ROW, wish, seed=s).answers[""] for s in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    assert (first != other).any(axis=None)


def test_what_is_missing_is_said():
    with pytest.raises(CannotRunError, match="nobody said how this one was fitted"):
        fitted(Kinjo(), Formula(lambda x: x[:, 0]), corners(1), low=0.5)
    kinjo, wish, _ = fitted(Kinjo(refits=0), Formula(lambda x: x[:, 0]), corners(1), low=5.0)
    assert "so there is no bound" in kinjo.counterfactual(ROW, wish, seed=0).note
    kinjo, wish, _ = fitted(Kinjo(refits=0, bound=-1.0, size=10, generations=2), Formula(lambda x: x[:, 0]), corners(1))
    assert "no point lies within the bound" in kinjo.counterfactual(ROW, wish, seed=0).note
    assert METHODS[0].label == "Kinjo (reconstruction)"
