"""Linear models that disagree, and an explanation of them."""

from functools import cache

import numpy as np

import gbce

DATA = np.random.default_rng(0).normal(size=(200, 2))
WEIGHTS = np.array([0.5, 0.3, 0.2])
QUICK = gbce.Importance(n_candidates=8_000, n_draws=2_000)


def slope(*w):
    return lambda rows: np.asarray(rows, dtype=float) @ np.array(w)


MODELS = [slope(1.0, 0.0), slope(1.0, 0.6), slope(0.7, -0.4)]


@cache
def slopes_explainer():
    return gbce.Explainer(MODELS, DATA, space=gbce.Space.real(2), sampler=QUICK, weights=WEIGHTS)


@cache
def slopes_explanation():
    target = gbce.AtLeast(1.0, scale=0.5)
    return slopes_explainer().explain([0.0, 0.0], target, rules=[gbce.MAP(), gbce.Mean()], seed=3)
