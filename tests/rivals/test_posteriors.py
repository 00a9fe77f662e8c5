"""Measures of distributions, on a success region of two parts whose coverage is known."""

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._posteriors import Posteriors, Sampled, compare, find_reference
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish
from benchmarks.rivals.raman import Hierarchical
from support.asked import Logistic, corners


def two_parts(x):
    """Grant the wish where the first number is large or the second one is."""
    return 40 * (np.maximum(x[:, 0], x[:, 1]) - 0.8)


def ask():
    X = corners(2)
    model = CountedModel(Logistic(two_parts))
    row = pd.DataFrame({"x1": [0.4], "x2": [0.4]})
    space = gbce.Space.infer(X, bounds="data")
    return Question(model, Codes(X, space), row, Wish(label=1)), Data(X, pd.Series(model.predict(X))), space


def test_one_mode_covers_half_of_a_region_of_two():
    question, _, _ = ask()
    along = np.linspace(0.82, 1.0, 10)
    first, second = np.column_stack([along, np.full(10, 0.4)]), np.column_stack([np.full(10, 0.4), along])
    reference = np.concatenate([first, second])
    missed = np.full((5, 2), 0.4)
    one = Sampled("one", np.concatenate([first, missed]), 9.0, 0.5, 15)
    both = Sampled("both", reference, 20.0, 0.1, 20)
    none = Sampled("none", missed, 1.0, 0.0, 5)
    lines = compare(question, [one, both, none], reference, radius=0.1)
    assert [line.coverage for line in lines] == [0.5, 1.0, 0.0]
    assert [line.modes for line in lines] == [1, 2, 0]
    assert [line.reached for line in lines] == pytest.approx([10 / 15, 1.0, 0.0])
    assert lines[0].cost == pytest.approx(np.mean(along - 0.4))
    assert lines[0].nearest == pytest.approx(0.42)
    assert np.isnan(lines[2].cost)
    assert np.isnan(compare(question, [one], reference[:0])[0].coverage)


def test_radius_decides_what_counts_as_covered():
    question, _, _ = ask()
    drawn = Sampled("one", np.array([[0.9, 0.4]]), 1.0, 0.0, 1)
    reference = np.array([[0.9, 0.4], [1.0, 0.4], [0.9, 0.7]])
    shares = [compare(question, [drawn], reference, radius)[0].coverage for radius in (0.05, 0.15, 0.35)]
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0])


def test_rare_sets_of_columns_are_no_modes():
    question, _, _ = ask()
    z = np.tile([0.9, 0.4], (300, 1))
    z[0] = [0.4, 0.9]  # one in three hundred
    assert compare(question, [Sampled("", z, 1.0, 0.0, 1)], z)[0].modes == 1
    z[:5] = [0.4, 0.9]
    assert compare(question, [Sampled("", z, 1.0, 0.0, 1)], z)[0].modes == 2


def test_reference_reaches_and_has_both_parts():
    question, _, _ = ask()
    points = find_reference(question, np.random.default_rng(0), 300)
    assert question.granted(points).all()
    alone = [(points[:, j] > 0.8) & (points[:, 1 - j] < 0.8) for j in (0, 1)]
    assert all(part.sum() > 20 for part in alone)


def test_three_distributions_of_one_row_are_compared():
    question, data, space = ask()
    quick = Hierarchical(population=8, warmup=10, steps=10, renewals=8)
    lines = Posteriors(question.model, data, space, 100, quick).lines(question.row, question.wish, 0)
    assert [line.name for line in lines] == [
        "gbce",
        "Raman, one row (reconstruction)",
        "Raman, hierarchy (reconstruction)",
    ]
    for line in lines:
        assert 0 < line.reached <= 1
        assert 0 < line.coverage <= 1
        assert line.rows > 100
        assert line.ess > 0
