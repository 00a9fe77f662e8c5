"""Wachter's objective, and three ways to its minimum: known answers, and the price that is raised."""

import sys

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals._objective import Objective, mad
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals.evolution import CMA, DifferentialEvolution
from benchmarks.rivals.wachter import Wachter
from support.asked import Formula, Logistic, corners, fitted


def _with_mads(*mads):
    """Return a table whose columns have these median absolute deviations around zero."""
    x = np.random.default_rng(0).laplace(size=(401, len(mads)))
    x -= np.median(x, axis=0)
    x *= np.array(mads) / np.median(np.abs(x), axis=0)
    return pd.DataFrame(x, columns=[f"x{j + 1}" for j in range(len(mads))])


def _way(kind, **options):
    if kind is CMA:
        pytest.importorskip("cma")
    return kind(**options)


@pytest.mark.parametrize(("kind", "off"), [(Wachter, 0.01), (CMA, 0.05), (DifferentialEvolution, 0.05)])
def test_only_the_column_with_the_most_gain_for_its_deviation_moves(kind, off):
    # f = x1 + 2 x2, y' = 3 and lambda = 2: the residual is 1 / (2 lambda w MAD) = 0.25, the objective 2.875
    X, row = _with_mads(1.0, 0.3), pd.DataFrame({"x1": [0.0], "x2": [0.0]})
    more = {} if kind is Wachter else {"generations": 60}
    rival, wish, model = fitted(
        _way(kind, margin=0.3, prices=(2.0,), **more), Formula(lambda x: x @ [1.0, 2.0]), X, low=2.7
    )
    answer = rival.counterfactual(row, wish, 0).answers[""]
    assert answer.to_numpy()[0] == pytest.approx([2.75, 0.0], abs=3 * off)
    codes = rival._codes
    objective = Objective(Question(model, codes, row, wish), 0.3)
    value = objective.values(codes.of(codes.space.encode(answer)), 2.0)[0]
    assert value == pytest.approx(2.875, abs=off)


@pytest.mark.parametrize("kind", [Wachter, CMA, DifferentialEvolution])
def test_the_price_is_raised_until_the_wish_is_granted(kind):
    X, row = corners(2), pd.DataFrame({"x1": [0.2], "x2": [0.5]})
    rival, wish, model = fitted(_way(kind), Logistic(lambda x: 8 * (x[:, 0] - 0.6)), X, label=1)
    found = rival.counterfactual(row, wish, 0)
    assert wish.granted(model, found.answers[""])[0]
    assert found.note != "lambda 1"
    assert model.predict_proba(found.answers[""])[0, 1] < 0.56  # y' is 0.55, and the distance holds it back
    low, _, _ = fitted(_way(kind, prices=(1e-3,)), Logistic(lambda x: 8 * (x[:, 0] - 0.6)), X, label=1)
    nothing = low.counterfactual(row, wish, 0)
    assert not nothing.answers
    assert "not reached" in nothing.note


def test_steps_are_passed_by_as_little_as_the_search_resolves():
    X, row = corners(3), pd.DataFrame({"x1": [0.2], "x2": [0.5], "x3": [0.5]})
    model = Formula(lambda x: 1.0 * (x[:, 0] > 0.8) + 1.0 * (x[:, 1] > 0.9))
    rival, wish, _ = fitted(Wachter(margin=0.0), model, X, low=1.0)
    answer = rival.counterfactual(row, wish, 0).answers[""].to_numpy()[0]
    assert answer[[0, 2]] == pytest.approx([0.2, 0.5], abs=1e-9)
    assert 0.9 < answer[1] < 0.902


def test_deviations_of_constant_and_rare_values():
    frame = pd.DataFrame({"mostly": [0.0] * 9 + [1.0], "spread": np.linspace(0, 1, 10)})
    X = pd.concat([frame] * 5, ignore_index=True)
    assert mad(Codes(X, gbce.Space.infer(X, kinds={"mostly": "real"}))) == pytest.approx([0.3, 0.25], abs=0.03)


def test_a_single_free_column_is_enough_for_evolution():
    X, row = corners(2), pd.DataFrame({"x1": [0.2], "x2": [0.5]})
    space = gbce.Space.infer(X, immutable=["x2"])
    for kind in (CMA, DifferentialEvolution):
        rival, wish, _ = fitted(_way(kind), Logistic(lambda x: 8 * (x[:, 0] - 0.6)), X, label=1, space=space)
        assert rival.counterfactual(row, wish, 0).answers[""]["x1"].iloc[0] == pytest.approx(0.62, abs=0.03)


def test_a_missing_package_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(CannotRunError, match="is not installed: pip install cma"):
        fitted(CMA(), Logistic(lambda x: x[:, 0]), corners(2), label=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Wachter(prices=()), "one at least"),
        (lambda: Wachter(prices=(10.0, 1.0)), "rise"),
        (lambda: Wachter(starts=0), "at least 1"),
        (lambda: DifferentialEvolution(population=3), "5 or more"),
    ],
)
def test_bad_options_are_a_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()
