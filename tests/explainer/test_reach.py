"""Targets near the most that a model can say: nothing is called out of reach that a descent would find."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import gbce

EDGE = 1.2  # of every column


@pytest.mark.parametrize(("d", "seed"), [(4, 0), (4, 2), (6, 1), (8, 2)])
def test_a_smooth_model_reaches_what_is_just_below_its_most(d, seed):
    rng = np.random.default_rng(seed)
    weights, shift = rng.normal(size=(d, d)), rng.normal(size=d)

    def model(x):
        return np.tanh(np.asarray(x, dtype=float) @ weights + shift).sum(axis=1)

    data = np.random.default_rng(seed + 10).uniform(-0.9, 0.9, size=(300, d))
    tops = [minimize(lambda v: -model(v[None])[0], x, bounds=[(-EDGE, EDGE)] * d).fun for x in data[:20]]
    frame = pd.DataFrame(data, columns=[f"c{j}" for j in range(d)])
    space = gbce.Space.infer(frame, bounds={name: (-EDGE, EDGE) for name in frame})
    explainer = gbce.Explainer(model, frame, space=space)
    most = -min(tops)
    explanation = explainer.explain(frame.iloc[0], gbce.AtLeast(most - 0.01), rules=["Nearest"], seed=0)
    assert explanation.status == "attainable"
    assert explanation.decisions[0].reached[0]
    assert explanation.answer.reached
    beyond = explainer.explain(frame.iloc[0], gbce.AtLeast(most + 0.1), rules=["Nearest"], seed=0)
    assert beyond.status == "not attained"
    assert beyond.answer.decision.outputs[0] > most - 0.01  # the best seen is as good as what can be had
