"""The search that methods without a published solver use, where the nearest point is known."""

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals._question import Question
from benchmarks.rivals._search import Pool, distance, lacking, make_codes, panel, search
from benchmarks.rivals._wish import Wish
from support.asked import Formula, corners


class OnlyBlue:
    classes_ = np.array([0, 1])

    def predict_proba(self, frame):
        p = np.where(frame["colour"] == "blue", 0.9, 0.1)
        return np.column_stack([1 - p, p])

    def predict(self, frame):
        return (frame["colour"] == "blue").to_numpy().astype(int)


def asked(model, X, row, wish, space=None):
    model, data = CountedModel(model), Data(X, pd.Series(model.predict(X)))
    codes = make_codes(data, gbce.Space.infer(X) if space is None else space)
    question = Question(model, codes, row, wish)
    starts = Pool(model, data, codes).nearest(question)
    return question, starts


def nearest(question, starts, **options):
    rng = np.random.default_rng(0)
    [found] = search(question, [question.model], [lambda m: lacking(m[0])], starts, rng, **options)
    return found


def test_it_finds_the_nearest_point_of_a_half_space():
    # in l1 the column with the largest slope moves alone: 3 x1 + x2 + x3 = 2 at x1 = 2/3
    X = corners(3, seed=2)
    X.iloc[2] = 0.0
    question, starts = asked(Formula(lambda x: x @ [3.0, 1.0, 1.0]), X, X.iloc[[2]], Wish(low=2.0))
    point, lacks = nearest(question, starts)
    assert lacks == 0.0
    assert distance(point, question.start)[0] == pytest.approx(2 / 3, abs=0.01)
    assert question.model.calls < 15


def test_it_measures_from_another_origin():
    X = corners(2, seed=3)
    X.iloc[2] = 0.0
    question, starts = asked(Formula(lambda x: x[:, 0]), X, X.iloc[[2]], Wish(low=0.5))
    point, _ = nearest(question, starts, origin=np.array([0.2, 0.9]))
    np.testing.assert_allclose(point, [0.5, 0.9], atol=0.01)


def test_it_returns_what_lacks_least_where_nothing_will_do():
    X = corners(2, seed=4)
    question, starts = asked(Formula(lambda x: 1 - (x[:, 0] - 0.3) ** 2), X, X.iloc[[1]], Wish(low=2.0))
    point, lacks = nearest(question, starts)
    assert lacks > 0
    assert point[0] == pytest.approx(0.3, abs=0.02)


def test_a_tie_is_not_taken_for_a_success():
    class Tied(OnlyBlue):
        def predict_proba(self, frame):
            x = frame["x1"].to_numpy()
            p = np.select([x >= 0.5, x >= 0.2], [0.6, 0.5], 0.4)
            return np.column_stack([1 - p, p])

        def predict(self, frame):
            return (self.predict_proba(frame)[:, 1] > 0.5).astype(int)

    X = corners(4, seed=6)
    X.iloc[2] = 0.0
    point, lacks = nearest(*asked(Tied(), X, X.iloc[[2]], Wish(label=1)))
    assert lacks == 0.0
    np.testing.assert_allclose(point, [0.5, 0, 0, 0], atol=0.01)


def test_a_level_is_found_and_the_rest_is_kept():
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], 60), "size": rng.integers(0, 9, 60)})
    row = pd.DataFrame({"colour": ["red"], "size": [4]})
    question, starts = asked(OnlyBlue(), X, row, Wish(label=1))
    point, lacks = nearest(question, starts)
    assert lacks == 0.0
    assert question.frame(point).iloc[0].tolist() == ["blue", 4]


def test_a_table_of_dates_and_a_model_that_cannot_be_refitted_are_none_for_it():
    X = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=5)})
    with pytest.raises(CannotRunError, match="takes no such table: a column of dates"):
        make_codes(Data(X, pd.Series(np.arange(5.0))), gbce.Space.infer(X))
    with pytest.raises(CannotRunError, match="needs several models: nobody said how"):
        panel(CountedModel(Formula(lambda x: x[:, 0])), Data(X, pd.Series(np.arange(5.0))), 2)
