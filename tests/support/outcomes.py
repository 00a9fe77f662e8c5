"""Two columns with an outcome, and the coefficients of models of it."""

import numpy as np

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2)) @ [[1.0, 0.5], [0.0, 1.0]] + [1.0, -2.0]
Y = X @ [1.0, -0.5] + 0.3 + 0.7 * RNG.normal(size=80)
LABELS = np.where(RNG.random(80) < 1 / (1 + np.exp(-(X[:, 0] - 1) * 2)), "yes", "no")


def coefficients(posterior):
    return np.array([[*model.coef_.ravel(), np.ravel(model.intercept_)[0]] for model in posterior])
