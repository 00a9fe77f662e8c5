"""NICE from a row to its neighbour."""

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals.nice import Nice
from support.asked import Formula, Logistic, fitted

pytest.importorskip("nice")

X = pd.DataFrame({"x1": [0.0, 1.0, 0.1], "x2": [0.0, 1.0, 0.0]})
ROW = X.iloc[[0]]


def logit(x):
    return 3 * x[:, 0] + x[:, 1] - 2


@pytest.mark.parametrize(
    ("reward", "answer"), [("sparsity", (1.0, 0.0)), ("proximity", (1.0, 0.0)), ("none", (1.0, 1.0))]
)
def test_the_column_that_gains_most_is_copied_first(reward, answer):
    nice, wish, _ = fitted(Nice(reward), Logistic(logit), X, label=1)
    found = nice.counterfactual(ROW, wish, seed=0).answers[""]
    assert tuple(found.iloc[0]) == answer
    pd.testing.assert_frame_equal(nice.counterfactual(ROW, wish, seed=1).answers[""], found)


def test_rewards_differ_where_a_gain_is_dear():
    """x1 gains more, and x2 more for its distance."""
    table = pd.DataFrame({"x1": [0.0, 0.9, 1.0], "x2": [0.0, 0.3, 1.0]})
    model = Logistic(lambda x: 3 * x[:, 0] + 5 * x[:, 1] - 1.4)
    answers = {}
    for reward in ("sparsity", "proximity"):
        nice, wish, _ = fitted(Nice(reward), model, table, label=1)
        answers[reward] = tuple(nice.counterfactual(table.iloc[[0]], wish, seed=0).answers[""].iloc[0])
    assert answers == {"sparsity": (0.9, 0.0), "proximity": (0.0, 0.3)}


def test_levels_are_copied_missing_cells_stay_and_what_may_not_change_does_not():
    table = pd.DataFrame({"town": ["a", "b", "b", "a"], "n": [1, 4, 4, 2], "age": [np.nan, 30.0, 50.0, 40.0]})

    class Town:
        classes_ = np.array([0, 1])

        def predict_proba(self, frame):
            p = 0.6 * (frame["town"] == "b").to_numpy() + 0.1 * (frame["n"] > 3).to_numpy()
            return np.column_stack([1 - p, p])

        def predict(self, frame):
            return self.predict_proba(frame).argmax(axis=1)

    nice, wish, _ = fitted(Nice(), Town(), table, label=1)
    answer = nice.counterfactual(table.iloc[[0]], wish, seed=0).answers[""]
    assert (answer["town"].item(), answer["n"].item()) == ("b", 1)
    assert np.isnan(answer["age"].item())
    assert (answer.dtypes == table.dtypes).all()
    space = gbce.Space.infer(table, immutable=["town"])
    nice, wish, _ = fitted(Nice(), Town(), table, label=1, space=space)
    found = nice.counterfactual(table.iloc[[0]], wish, seed=0)
    assert (dict(found.answers), found.note) == ({}, "its neighbour is refused with what may not change put back")


def test_what_it_does_not_take_is_said():
    with pytest.raises(CannotRunError, match="takes classifiers only"):
        fitted(Nice(), Formula(lambda x: x[:, 0]), X, low=1.0)
    with pytest.raises(ValueError, match="reward is one of sparsity, proximity, none, not 'plausibility'"):
        Nice("plausibility")
    nice, wish, _ = fitted(Nice(), Logistic(lambda x: -1.0 - x[:, 0]), X, label=1)
    assert nice.counterfactual(ROW, wish, seed=0).note == "no training row is granted the wish"
