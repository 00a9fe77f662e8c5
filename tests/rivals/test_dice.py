"""DiCE, told what may vary."""

import random

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals.dice import Dice
from support.asked import Formula, Logistic, corners, fitted

pytest.importorskip("dice_ml")

ROW = pd.DataFrame({"x1": [0.2], "x2": [0.3], "x3": [0.1]})


@pytest.mark.parametrize("way", ["random", "genetic"])
def test_it_reaches_the_class_by_the_columns_that_may_vary(way):
    """Only x1 matters, it may only rise, and x2 stays."""
    X = corners(3).round(3)
    space = gbce.Space.infer(X, increase=["x1"], immutable=["x2"])
    dice, wish, model = fitted(Dice(way), Logistic(lambda x: 20 * x[:, 0] - 12), X, label=1, space=space)
    answer = dice.counterfactual(ROW, wish, seed=0).answers[""]
    assert 0.6 <= answer["x1"].item() <= 1.0
    assert answer["x2"].item() == 0.3
    assert (answer.dtypes == X.dtypes).all()
    assert model.rows > 0
    assert {dice.raw(ROW, wish, seed)["x2"].item() for seed in range(4)} == {0.3}
    before = random.getstate()
    pd.testing.assert_frame_equal(dice.counterfactual(ROW, wish, seed=0).answers[""], answer)
    assert random.getstate() == before


def test_numbers_levels_and_columns_that_follow_are_kept():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"rooms": rng.integers(1, 7, 150), "town": rng.choice(["a", "b", "c"], 150)})
    X["beds"] = X["rooms"] * 2.0

    class Priced:
        def predict(self, frame):
            assert (frame["beds"] == 2 * frame["rooms"]).all()
            return frame["beds"].to_numpy() + 5.0 * (frame["town"] == "c")

    space = gbce.Space.infer(X, computed={"beds": "2 * rooms"})
    dice, wish, _ = fitted(Dice("random"), Priced(), X, space=space, low=13.0)
    row = X.assign(rooms=2, town="a", beds=4.0).iloc[[0]]
    answer = dice.counterfactual(row, wish, seed=0).answers[""]
    assert (answer.dtypes == X.dtypes).all()
    assert answer["beds"].item() == 2 * answer["rooms"].item()
    assert answer["town"].item() == "c"
    assert answer["rooms"].item() >= 4
    assert dice.counterfactual(row.assign(town=None), wish, seed=0).note == "takes no missing cells"


def test_a_search_without_end_is_stopped_and_bad_use_is_said():
    """Where no training row reaches, its genetic way draws single rows until one does."""
    model = Formula(lambda x: np.where(x[:, 0] > 0.999999, 1.0, 0.0))
    dice, wish, counted = fitted(Dice("genetic", most_calls=50), model, corners(3, low=0.0, high=0.99), low=0.5)
    assert dice.counterfactual(ROW, wish, seed=0).note == "stopped after 50 calls of the model"
    assert counted.calls <= 50
    with pytest.raises(ValueError, match="way is one of random, genetic, not 'gradient'"):
        Dice("gradient")
