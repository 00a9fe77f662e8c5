"""Entropic risk over an ensemble: its values, its promise, and both ways to a point."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals._question import Question
from benchmarks.rivals.entropic import METHODS, EntropicDescent, EntropicPenalty, entropic_risk
from support.asked import Formula, Logistic, corners, fitted
from support.several import Coloured, mixed_table, several

ROW = pd.DataFrame({"x1": [0.0]})
TRIO = [Logistic(lambda x, b=b: 10 * (x[:, 0] - b)) for b in (0.4, 0.5, 0.6)]


@pytest.mark.parametrize(("theta", "risk"), [(0.01, 0.43374), (1, 0.47469), (10, 0.69204), (100, 0.78901)])
def test_its_values(theta, risk):
    assert entropic_risk([[0.9], [0.6], [0.2]], theta)[0] == pytest.approx(risk, abs=5e-6)


def test_its_promise():
    rng = np.random.default_rng(0)
    m = rng.beta(2, 1, (9, 500))
    for theta in (0.5, 3.0, 20.0):
        risk = entropic_risk(m, theta)
        for s in (0.3, 0.5, 0.8):
            assert np.all(np.mean(1 - m >= s, axis=0) <= np.exp(theta * (risk - s)) + 1e-12)
        worst = 1 - m.min(axis=0)
        assert np.all(risk <= worst + 1e-12)
        assert np.all(risk >= worst - np.log(len(m)) / theta - 1e-12)


def risk_at(x, theta):
    return entropic_risk([model.predict_proba([[x]])[:, 1] for model in TRIO], theta)[0]


def crossing(theta, tau):
    grid = np.linspace(0, 1, 20_001)
    return grid[np.flatnonzero(risk_at_all(grid, theta) <= tau)[0]]


def risk_at_all(grid, theta):
    return entropic_risk([model.predict_proba(grid[:, None])[:, 1] for model in TRIO], theta)


def test_penalty_stops_where_the_risk_is_tau():
    rival, wish, _ = several(EntropicPenalty(refits=2), TRIO, corners(1), label=1)
    found = rival.counterfactual(ROW, wish, 0)
    for name, theta in (("", 1.0), ("theta 10", 10.0)):
        assert found.answers[name]["x1"].item() == pytest.approx(crossing(theta, 0.45), abs=2e-3)
    assert found.note == ""


def test_more_aversion_never_costs_less():
    X = corners(3)
    rng = np.random.default_rng(3)
    models = [Logistic(lambda x, w=w: 6 * np.sin(3 * x @ w) - 2) for w in rng.normal(1, 0.4, (4, 3))]
    rival, wish, _ = several(EntropicPenalty(refits=3), models, X, label=1)
    for i in range(2, 6):
        row = X.iloc[[i]]
        near, far = (
            np.abs(a.to_numpy() - row.to_numpy()).sum() for a in rival.counterfactual(row, wish, i).answers.values()
        )
        assert near <= far + 1e-12


def test_descent_stops_one_step_below_tau():
    rival, wish, model = several(EntropicDescent(refits=2), TRIO, corners(1), label=1)
    answer = rival.counterfactual(ROW, wish, 0).answers[""]["x1"].item()
    assert crossing(1.0, 0.45) <= answer <= crossing(1.0, 0.45) + 0.021  # steps of Adam are about 0.01 here
    question = Question(model, rival._codes, ROW, wish)
    point, risk = rival.descend(question, np.array([0.9]))
    assert risk == pytest.approx(risk_at(0.9, 1.0), abs=1e-9)  # looked at before the step
    assert point[0] == pytest.approx(0.91, abs=1e-4)


def test_descent_that_does_not_arrive_says_so():
    rival, wish, _ = several(EntropicDescent(refits=2, tau=0.01, max_iter=3), TRIO, corners(1), label=1)
    assert "not below tau" in rival.counterfactual(ROW, wish, 0).note


@pytest.mark.parametrize("make", [EntropicPenalty, EntropicDescent])
def test_levels_bounds_and_missing_cells(make):
    X, space = mixed_table()
    rival, wish, _ = several(make(refits=2), [Coloured(), Coloured(0.5), Coloured(1.0)], X, label="yes", space=space)
    row = X.iloc[[3]].assign(colour="red", size=1)
    answer = rival.counterfactual(row, wish, 0).answers[""]
    assert answer["weight"].isna().all()
    assert answer["age"].item() == row["age"].item()
    assert answer["size"].item() <= 6
    assert Coloured().predict(answer)[0] == "yes"
    pd.testing.assert_frame_equal(answer, rival.counterfactual(row, wish, 0).answers[""])


def test_descent_needs_slopes():
    steps = Formula(lambda x: np.round(3 * x[:, 0]))
    with pytest.raises(CannotRunError, match="needs a model with gradients"):
        several(EntropicDescent(refits=1), [steps], corners(1), low=2.0)
    with pytest.raises(CannotRunError, match="needs several models"):
        fitted(EntropicPenalty(), steps, corners(1), low=2.0)


def test_bad_options():
    with pytest.raises(ValueError, match="theta is 0"):
        several(EntropicPenalty(theta=0), TRIO, corners(1), label=1)


def test_the_black_box_is_called_a_reconstruction():
    assert [m.label for m in METHODS] == ["Entropic risk", "Entropic risk, any model (reconstruction)"]
