"""One small question for somebody's own classes, and whether two answers to it are the same."""

import numpy as np
import pandas as pd

import gbce

DATA = np.random.default_rng(0).normal(size=(80, 3))
ROW = np.array([-0.9, -1.5, -0.6])  # with the wish 2.3 deviations away: some 20 of 2,000 candidates reach it
SPACE = gbce.Space.real(["a", "b", "c"])
QUICK = gbce.Importance(n_candidates=2_000, n_draws=300)
WISH = gbce.AtLeast(1.0, scale=1, tolerance=0.1)


def explainer_of(model=None, **options):
    options = {"space": SPACE, "sampler": QUICK} | options
    return gbce.Explainer(total if model is None else model, DATA, **options)


def total(x):
    return np.asarray(x).sum(axis=1)


def odds(x):
    return 1 / (1 + np.exp(-total(x)))


def saved(explanation, folder):
    return explanation.save(folder / "one.gbce")


def equal_tables(one, other):
    for name in ("counterfactuals", "pointwise", "importance"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)
    pd.testing.assert_series_equal(one.distribution, other.distribution, check_exact=True)
    pd.testing.assert_frame_equal(one.changes(), other.changes(), check_exact=True)
    assert one.summary() == other.summary()
    assert one.notes == other.notes
