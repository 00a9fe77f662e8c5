"""A table of three columns, and a quick explanation of its row."""

import numpy as np
import pandas as pd

import gbce

NAN, INF = float("nan"), float("inf")
NAMES = ["Age", "income", "debt"]
DATA = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=NAMES)
ROW = {"Age": 0.1, "income": -0.2, "debt": 0.3}
QUICK = gbce.Importance(n_candidates=300, n_draws=50)
WISH = gbce.AtLeast(1.0)


def total(rows):
    return np.asarray(rows, dtype=float).sum(axis=1)


def explain(model=total, data=DATA, row=None, target=WISH, rules=(), seed=0, **options):
    explainer = gbce.Explainer(model, data, **{"sampler": QUICK, **options})
    return explainer.explain(ROW if row is None else row, target, rules=rules, seed=seed)
