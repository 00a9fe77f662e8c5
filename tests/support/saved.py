"""A small explanation to be saved, and whether another is the same."""

import numpy as np
import pandas as pd

import gbce

RNG = np.random.default_rng(3)
DATA = pd.DataFrame(
    {"a": RNG.normal(size=60), "b": RNG.integers(0, 9, 60), "c": RNG.choice(list("xyz"), 60), "e": RNG.random(60) < 0.5}
)
QUICK = gbce.Importance(n_candidates=200, n_draws=50)


def score(frame):
    return frame["a"] + 0.5 * frame["b"] + (frame["c"] == "x")


def explained(data=DATA, model=score, seed=0):
    explainer = gbce.Explainer(model, data, sampler=QUICK)
    return explainer.explain(data.iloc[0], gbce.AtLeast(4.0), rules=[gbce.MAP(), gbce.Mean()], seed=seed)


def same(one, other):
    pd.testing.assert_frame_equal(one.pointwise, other.pointwise, check_exact=True)
    pd.testing.assert_frame_equal(one.counterfactuals, other.counterfactuals, check_exact=True)
    pd.testing.assert_series_equal(one.distribution, other.distribution, check_exact=True)
    assert one.summary() == other.summary()
    assert one.space == other.space
