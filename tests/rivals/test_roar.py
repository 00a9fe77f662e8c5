"""ROAR: the worst logit in closed form, the convex problem solved exactly, and where its planes come from."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import gbce
from benchmarks.rivals._question import Question
from benchmarks.rivals._surrogate import Plane, has_slopes, linear_plane, local_plane, standard
from benchmarks.rivals.roar import ROAR, worst_logit
from support.asked import Formula, Logistic, corners, fitted

ROW = pd.DataFrame({"x1": [0.2], "x2": [0.5]})


def _ask(model, X, row=ROW, **wish):
    rival, target, counted = fitted(ROAR(price=0.1), model, X, **wish)
    return Question(counted, rival._codes, row, target)


def test_the_worst_of_all_weights_within_delta():
    w, x, rng = np.array([1.0, 2.0]), np.array([0.5, -1.0]), np.random.default_rng(0)
    worst = worst_logit(w @ x, np.abs(x).sum(), 0.1)
    assert worst == pytest.approx(-1.75)
    shaken = (w + rng.choice([-0.1, 0.1], (500, 2))) @ x + rng.choice([-0.1, 0.1], 500)
    assert shaken.min() == pytest.approx(worst)


@pytest.mark.parametrize("start", [(0.2, 0.5), (0.5, 0.9), (0.05, 0.05)])
@pytest.mark.parametrize("price", [0.1, 0.4])
def test_the_problem_is_solved_exactly(start, price):
    question = _ask(
        Logistic(lambda x: x @ [3.0, -2.0] - 2.0), corners(2), pd.DataFrame([start], columns=["x1", "x2"]), label=1
    )
    plane, (origin, size) = linear_plane(question), standard(question)
    x0 = (question.start - origin) / size

    def loss(x):
        logit = worst_logit(plane.level + plane.slopes @ (x - x0), np.abs(x).sum(), 0.1)
        return np.logaddexp(0.0, -logit) + price * np.abs(x - x0).sum()

    question.low[:], question.high[:] = question.limits
    mine = (ROAR().solve(question, plane, price) - origin) / size
    low, high = (question.low - origin) / size, (question.high - origin) / size
    bounds = list(zip(low, high, strict=True))
    best = min(
        minimize(
            loss, np.clip(x, low, high), method="Nelder-Mead", bounds=bounds, options={"xatol": 1e-8, "fatol": 1e-10}
        ).fun
        for x in (x0, mine, x0 + 0.5, x0 - 0.5)
    )
    assert loss(mine) == pytest.approx(best, abs=1e-6)


def test_a_single_column_goes_to_where_a_unit_gains_what_it_costs():
    # slope 2 for a standard deviation, worst 1.9 beyond the mean: sigmoid(-m) 1.9 = lambda
    question = _ask(Logistic(lambda x: 0 * x[:, 0]), corners(2), pd.DataFrame({"x1": [0.5], "x2": [0.5]}), label=1)
    origin, size = standard(question)
    question.high[:] = np.inf
    z = ROAR().solve(question, Plane(np.array([2.0, 0.0]), -3.0), 0.1)
    x, x0 = (z - origin) / size, (question.start - origin) / size
    m = worst_logit(-3.0 + 2.0 * (x[0] - x0[0]), np.abs(x).sum(), 0.1)
    assert x[1] == x0[1]
    assert 1.9 / (1 + np.exp(m)) == pytest.approx(0.1)


def test_weights_of_linear_models_are_their_own_and_of_others_a_regression():
    X = corners(2)
    linear = linear_plane(_ask(Logistic(lambda x: x @ [3.0, -2.0]), X, label=1))
    assert linear.slopes == pytest.approx(np.array([3.0, -2.0]) * X.std(ddof=0).to_numpy(), rel=1e-4)
    assert linear.level == pytest.approx(3 * 0.2 - 2 * 0.5)
    steps = _ask(Logistic(lambda x: 4.0 * (x[:, 0] > 0.6) - 2.0), X, label=1)
    assert linear_plane(steps) is None
    assert not has_slopes(steps)
    slopes = local_plane(steps, 2_000, np.random.default_rng(0)).slopes
    assert slopes[0] > 5 * abs(slopes[1])
    assert has_slopes(_ask(Logistic(lambda x: np.sin(5 * x[:, 0])), X, label=1))


def test_a_model_of_whole_numbers_has_slopes_and_one_with_steps_has_none():
    X = pd.DataFrame({"x1": np.arange(40) % 13, "x2": np.arange(40) % 7})
    row = pd.DataFrame({"x1": [2], "x2": [3]})
    assert has_slopes(_ask(Logistic(lambda x: x @ [1.0, -0.5] - 4), X, row, label=1))
    assert not has_slopes(_ask(Logistic(lambda x: 4.0 * (x[:, 0] > 6.5) - 2.0), X, row, label=1))


def test_a_model_that_always_says_no_has_no_plane():
    rival, wish, _ = fitted(ROAR(drawn=200), Formula(lambda x: np.sin(9 * x[:, 0])), corners(2), low=5.0)
    found = rival.counterfactual(ROW, wish, 0)
    assert not found.answers
    assert "says the same" in found.note


def test_lambda_is_the_largest_before_the_share_of_granted_answers_falls():
    X, model = corners(2), Logistic(lambda x: 4 * (x[:, 0] + 0.5 * x[:, 1] - 1.0))
    rival, wish, counted = fitted(ROAR(tried=10), model, X, label=1)
    chosen = float(rival.counterfactual(ROW, wish, 0).note.removeprefix("lambda "))
    order = np.random.default_rng(0).permutation(len(X))
    refused = order[model.predict(X.iloc[order]) == 0][:10]
    shares = []
    for price in np.arange(1, 11) / 10:
        fixed, _, _ = fitted(ROAR(price=price), model, X, label=1)
        answers = [fixed.counterfactual(X.iloc[[i]], wish, int(i)).answers[""] for i in refused]
        shares.append(wish.granted(counted, pd.concat(answers)).mean())
    falls = np.flatnonzero(np.diff(shares) < 0)
    assert len(falls)
    assert chosen == pytest.approx((falls[0] + 1) / 10)


def test_bad_options_are_a_sentence():
    with pytest.raises(ValueError, match="delta cannot be negative"):
        ROAR(delta=-0.1)
    with pytest.raises(ValueError, match="price must be positive"):
        ROAR(price=0.0)


def test_planes_of_categories_are_about_changes_from_the_rows_own_level():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(size=300), "kind": rng.choice(["a", "b", "c"], 300)})
    worth = {"a": -1.0, "b": 0.5, "c": 2.0}

    class Additive(Logistic):
        def predict_proba(self, frame):
            p = 1 / (1 + np.exp(-(frame["x"] - 1.5 + frame["kind"].map(worth)).to_numpy(dtype=float)))
            return np.column_stack([1 - p, p])

    row = pd.DataFrame({"x": [0.5], "kind": ["b"]})
    question = _ask(Additive(None), X, row, label=1)
    level = [plane.slopes[1:] for plane in (linear_plane(question), local_plane(question, 3_000, rng))]
    assert level[0] == pytest.approx([-1.5, 0.0, 1.5])
    assert level[1][1] == 0.0
    assert level[1][0] < 0 < level[1][2]
    z = ROAR().solve(question, linear_plane(question), 0.1)
    assert question.frame(z)["kind"].iloc[0] == "c"


def test_slopes_of_whole_numbers_and_at_bounds():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"months": rng.integers(1, 13, 200), "x": rng.uniform(size=200)})
    X.loc[0], X.loc[1] = (1, 0.0), (12, 1.0)
    X["months"] = X["months"].astype(int)
    space = gbce.Space.infer(X, bounds={"months": (1, 12), "x": (0.0, 1.0)})
    model = Logistic(lambda x: x @ [0.2, 3.0] - 2.0)
    rival, wish, counted = fitted(ROAR(price=0.1), model, X, label=1, space=space)
    for row in ({"months": [6], "x": [0.5]}, {"months": [1], "x": [1.0]}):
        question = Question(counted, rival._codes, pd.DataFrame(row), wish)
        assert question.slopes(question.start) == pytest.approx([0.2 * 11, 3.0], rel=1e-6)
        assert linear_plane(question) is not None
