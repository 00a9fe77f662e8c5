"""The cost of several models: the bound and what is measured."""

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._wish import Wish
from benchmarks.rivals.multiplicity import bound, compare
from support.asked import Logistic, corners


def test_two_thresholds():
    made = bound([1.0, 1.0], [True, False], [0.3, 99.0])
    assert (made.cost, made.refused, made.reach) == (1.0, 0.5, 0.3)
    assert made.value == pytest.approx(1.15)
    with pytest.raises(ValueError, match=r"shapes \(2,\), \(1,\) and \(2,\)"):
        bound([1.0, 1.0], [True], [0.3, 0.3])


def test_measured_beside_the_bound():
    # one model grants x1 > 0.5, the other x1 > 0.7; rows at 0.1: 0.4 or 0.6 away, in ranges, which are one
    first, second = (Logistic(lambda x, b=b: 40 * (x[:, 0] - b)) for b in (0.5, 0.7))
    X = corners(2)
    data = Data(X, pd.Series(first.predict(X)), lambda X, y, seed: second)
    rows = pd.DataFrame({"x1": [0.1, 0.1], "x2": [0.3, 0.6]})
    lines = compare(CountedModel(first), data, gbce.Space.infer(X), rows, [Wish(label=1)] * 2, refits=1)
    assert np.all(lines["measured"] <= lines["bound"] + 1e-12)
    sparse = lines[lines["answer"] == "sparse"].set_index(["model", "other"])
    there, back = sparse.loc[(0, 1)], sparse.loc[(1, 0)]
    assert there["rows"] == 2
    assert there["cost"] == pytest.approx(0.4, abs=0.01)
    assert there["refused"] == 1.0
    assert there["reach"] == pytest.approx(0.2, abs=0.01)
    assert there["measured"] == pytest.approx(0.6, abs=0.01)
    assert back["refused"] == 0.0
    assert back["bound"] == back["cost"] == pytest.approx(0.6, abs=0.01)
    assert back["measured"] == pytest.approx(0.4, abs=0.01)
    support = lines[lines["answer"] == "data support"]
    assert support["cost"].min() > sparse["cost"].min()


def test_rows_without_an_answer_are_left_out():
    never = Logistic(lambda x: -5 + 0 * x[:, 0])
    X = corners(1)
    data = Data(X, pd.Series(never.predict(X)), lambda X, y, seed: never)
    lines = compare(CountedModel(never), data, gbce.Space.infer(X), X.iloc[[0]], [Wish(label=1)], refits=1)
    assert lines["rows"].tolist() == [0, 0, 0, 0]
