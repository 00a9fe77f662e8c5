"""PROBE: the invalidation rate in closed form, and descents that stop where noise leaves enough of an answer."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from benchmarks.rivals.probe import PROBE, invalidation_rate
from support.asked import Logistic, corners, fitted


def test_the_rate_of_a_linear_logit():
    assert invalidation_rate(0.4208, 5.0, 0.1) == pytest.approx(0.2, abs=1e-4)
    w, x, noise = np.array([3.0, 4.0]), np.array([0.1, 0.03]), np.random.default_rng(0).normal(0, 0.1, (20_000, 2))
    flipped = ((x + noise) @ w < 0).mean()
    assert flipped == pytest.approx(invalidation_rate(w @ x, 5.0, 0.1), abs=4 * 0.5 / np.sqrt(20_000))
    assert invalidation_rate(1.0, 0.0, 0.1) == 0.0


@pytest.mark.parametrize("rate", [0.2, 0.45])
def test_it_stops_one_step_past_the_rate(rate):
    w = np.array([3.0, 4.0])
    rival, wish, _ = fitted(PROBE(rate=rate), Logistic(lambda x: x @ w - 4.0), corners(2), label=1)
    answer = rival.counterfactual(pd.DataFrame({"x1": [0.3], "x2": [0.4]}), wish, 0).answers[""].to_numpy()[0]
    needed = 0.1 * 5.0 * norm.isf(rate + 0.005)
    noise = (
        4 * np.sqrt(rate * (1 - rate) / 500) * 0.5 / norm.pdf(norm.isf(rate))
    )  # of the Monte Carlo check, as a logit
    step = 0.01 * w.sum()
    assert needed <= answer @ w - 4.0 <= needed + noise + 1.5 * step


def test_models_with_steps_are_left_behind_by_the_quantile_of_the_noise():
    model = Logistic(lambda x: np.where(x[:, 0] > 0.5, 2.0, -2.0))
    rival, wish, _ = fitted(PROBE(rate=0.15), model, corners(2), label=1)
    answer = rival.counterfactual(pd.DataFrame({"x1": [0.4], "x2": [0.5]}), wish, 0).answers[""].to_numpy()[0]
    beyond = 0.5 + 0.1 * norm.isf(0.155)
    noise = 4 * np.sqrt(0.15 * 0.85 / 500) * 0.1 / norm.pdf(norm.isf(0.15))
    assert beyond - noise <= answer[0] <= beyond + noise + 0.02


def test_what_is_not_reached_is_said():
    rival, wish, _ = fitted(PROBE(rounds=1, iterations=2), Logistic(lambda x: x[:, 0] - 0.9), corners(2), label=1)
    found = rival.counterfactual(pd.DataFrame({"x1": [0.1], "x2": [0.5]}), wish, 0)
    assert not found.answers
    assert found.note == "not reached"


def test_bad_options_are_a_sentence():
    with pytest.raises(ValueError, match="rate lies between 0 and 1"):
        PROBE(rate=1.0)
