"""Robust Bayesian recourse, against closed forms of its parts and a descent that ends in a known corner."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brute

import gbce
from benchmarks.rivals import rbr
from benchmarks.rivals.rbr import METHODS, RBR, Kernels, descend, least_wanted, most_refused, project
from support.asked import Logistic, corners, fitted


@pytest.mark.parametrize(
    ("c", "p", "eps", "value", "shift", "width"),
    [
        (1.0, 2, 0.5, -1.249986, 0.4363, 0.0),
        (0.3, 5, 1.0, -1.880342, 0.145, 0.415),
        (3.0, 5, 1.0, -8.398995, None, 0.0),
    ],
)
def test_least_wanted_kernel_is_the_exact_worst_case(c, p, eps, value, shift, width):
    m, s = least_wanted(np.array([c]), p, 1.0, eps)
    assert rbr._log_wanted(c, m, s, p, 1.0, eps)[0] == pytest.approx(value, abs=2e-6)
    assert s[0] == pytest.approx(width, abs=1e-3)
    if shift is not None:
        assert m[0] == pytest.approx(shift, abs=1e-3)


def test_released_search_of_the_worst_case_is_milder():
    m, s = rbr._least_wanted_published(np.array([0.3]), 5, 1.0, 1.0)
    # what the released code adds under a root takes another 0.002
    assert rbr._log_wanted(0.3, m, s, 5, 1.0, 1.0)[0] == pytest.approx(-0.847, abs=3e-3)


@pytest.mark.parametrize("search", [most_refused, rbr._most_refused_published])
@pytest.mark.parametrize(("c", "eps", "value"), [(3.0, 0.5, 2.195766), (3.0, 1.0, 1.413506), (1.2, 0.5, 0.245)])
def test_most_refused_kernel_is_the_exact_best_case(search, c, eps, value):
    v, w = search(np.array([c]), 1.0, eps)
    assert -rbr._log_refused(c, v, w, 1, 1.0)[0] == pytest.approx(value, abs=2e-6)


def test_one_direction_has_no_others_to_widen():
    m, s = least_wanted(np.array([0.7]), 1, 1.0, 0.5)

    def value(at):
        m, s = at
        inside = m**2 + s**2 <= 0.25
        return -np.log(1 + s) - (0.7 + m) ** 2 / (2 * (1 + s) ** 2) if inside else np.inf

    grid = brute(value, [slice(0, 0.501, 0.005)] * 2, finish=None)
    assert value((m[0], s[0] - 1e-9)) <= value(grid) + 1e-6


def test_descent_ends_in_the_corner_of_the_budget():
    a = np.array([[1.0, 0.4]])
    row, start = np.array([-0.6, 0.1]), np.zeros(2)
    assert descend(Kernels(-a, a), start, row, 1.5) == pytest.approx([0.9, 0.1], abs=1e-9)
    early = descend(Kernels(-a, a), start, row, 1.5, stops_at_edge=True)
    assert early == pytest.approx([0.728, 0.272], abs=1e-3)


@pytest.mark.parametrize("worst_case", ["exact", "published"])
def test_slope_is_that_of_the_value(worst_case):
    rng = np.random.default_rng(0)
    kernels = Kernels(rng.normal(size=(9, 3)), rng.normal(size=(7, 3)) + 2, 0.8, 0.5, 0.7, worst_case)
    x = np.array([0.3, -0.2, 0.5])
    ahead, back = ([kernels.at(x + h * e)[0] for e in np.eye(3)] for h in (1e-3, -1e-3))
    numeric = (np.array(ahead) - np.array(back)) / 2e-3
    # the released search does not end at its best, so that its slope is not quite one
    assert kernels.at(x)[1] == pytest.approx(numeric, abs=5e-3 if worst_case == "exact" else 0.2)


def test_value_between_tabulated_distances_is_the_exact_one():
    rng = np.random.default_rng(1)
    refused, wanted = rng.normal(size=(5, 4)), rng.normal(size=(6, 4))
    value, _ = Kernels(refused, wanted, 1.0, 0.5, 1.0).at(np.ones(4))
    c, d = np.linalg.norm(1 - refused, axis=1), np.linalg.norm(1 - wanted, axis=1)
    above = rbr._log_refused(c, *most_refused(c, 1.0, 0.5), 4, 1.0)
    below = rbr._log_wanted(d, *least_wanted(d, 4, 1.0, 1.0), 4, 1.0, 1.0)
    assert value == pytest.approx(np.log(np.exp(above).sum()) - np.log(np.exp(below).sum()), abs=1e-5)


def test_projection_is_the_nearest_point_of_the_ball():
    x = np.array([1.0, -0.6, 0.1])
    grid = np.linspace(-1, 1, 81)
    points = np.stack(np.meshgrid(grid, grid, grid), axis=-1).reshape(-1, 3)
    inside = points[np.abs(points).sum(axis=1) <= 0.9 + 1e-9]
    found = project(x, 0.9)
    assert np.abs(found).sum() == pytest.approx(0.9)
    assert np.linalg.norm(found - x) <= np.linalg.norm(inside - x, axis=1).min() + 1e-9


def test_turn_is_the_nearest_point_of_all_lines():
    model = Logistic(lambda x: 20 * (x[:, 0] + 0.5 * x[:, 1] - 0.8))
    X = corners(2)
    rival, wish, counted = fitted(RBR(neighbours=30), model, X, label=1)
    row = pd.DataFrame({"x1": [0.2], "x2": [0.3]})
    question = rbr.Question(counted, rival._codes, row, wish)
    turn = rival._turn(question, np.arange(2))
    granted = X[model.predict(X) == 1].to_numpy()
    granted = granted[np.argsort(np.abs(granted - [0.2, 0.3]).sum(axis=1))[:30]]
    lines = np.concatenate([np.array([0.2, 0.3]) + t * (granted - [0.2, 0.3]) for t in np.linspace(0, 1, 100)])
    reached = lines[model.predict(lines) == 1]
    assert np.abs(turn - [0.2, 0.3]).sum() == pytest.approx(np.abs(reached - [0.2, 0.3]).sum(axis=1).min())


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_answer_uses_the_budget_and_is_the_same_for_a_seed(method):
    model = Logistic(lambda x: 20 * (x[:, 0] - 0.5))
    rival, wish, _ = fitted(method.make(), model, corners(2), label=1)
    row = pd.DataFrame({"x1": [0.2], "x2": [0.4]})
    found = rival.counterfactual(row, wish, 3)
    answer = found.answers[""]
    # the decision turns near 0.3 away; the budget is 0.2 more, and the way is that of the first column
    assert 0.55 < answer.at[0, "x1"] < 0.76
    pd.testing.assert_frame_equal(answer, rival.counterfactual(row, wish, 3).answers[""])


def test_categories_missing_cells_and_columns_that_may_not_change_are_kept():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "a": rng.uniform(size=150),
        "kind": rng.choice(["x", "y", "z"], 150),
        "fixed": rng.uniform(size=150),
        "gone": np.where(rng.uniform(size=150) < 0.2, np.nan, rng.uniform(size=150)),
    })  # fmt: skip

    class Model:
        classes_ = np.array([0, 1])

        def predict_proba(self, frame):
            p = 1 / (1 + np.exp(-8 * (frame["a"].to_numpy() + (frame["kind"] == "z").to_numpy() - 0.9)))
            return np.column_stack([1 - p, p])

        def predict(self, frame):
            return (self.predict_proba(frame)[:, 1] >= 0.5).astype(int)

    space = gbce.Space.infer(X, immutable=["fixed"], bounds={"a": (0, 1)})
    rival, wish, _ = fitted(RBR(delta_plus=1.0), Model(), X, label=1, space=space)
    row = X[X["gone"].isna() & (X["a"] < 0.3) & (X["kind"] == "x")].iloc[[0]]
    answer = rival.counterfactual(row, wish, 0).answers[""]
    assert answer["kind"].item() in ("x", "y", "z")
    assert 0 <= answer["a"].item() <= 1
    assert answer["fixed"].item() == row["fixed"].item()
    assert np.isnan(answer["gone"].item())


def test_nothing_granted_is_said_and_one_class_of_samples_too():
    row = pd.DataFrame({"x1": [0.2], "x2": [0.4]})
    never, wish, _ = fitted(RBR(), Logistic(lambda x: x[:, 0] - 9), corners(2), label=1)
    found = never.counterfactual(row, wish, 0)
    assert not found.answers
    assert "no line" in found.note
    narrow, wish, _ = fitted(RBR(radius=1e-9), Logistic(lambda x: 20 * (x[:, 0] - 0.5)), corners(2), label=1)
    found = narrow.counterfactual(row, wish, 0)
    assert found.answers[""].at[0, "x1"] == pytest.approx(0.5, abs=0.02)
    assert "one class" in found.note


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"worst_case": "mild"}, "'exact' or 'published'"), ({"sigma": 0.0}, "sigma must be above")],
)
def test_options_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        RBR(**options)
