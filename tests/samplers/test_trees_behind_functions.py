"""A tree that can only be asked, beside exact sums over its leaves: what is trusted is right."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeRegressor

from benchmarks._exact import Wish
from benchmarks._exact_tables import Table, tree_case

ERRORS = 6.0  # standard errors: what is beyond is no chance


@pytest.fixture(scope="module")
def case():
    """In 60 columns, one leaf needs one of them, and one of half the mass needs three others, all far away."""
    x, y = load_digits(return_X_y=True)
    data = Table(x[:, x.std(axis=0) > 1.0], y.astype(float))
    model = DecisionTreeRegressor(max_depth=10, random_state=85).fit(*data)
    wish = Wish(9.0, np.inf, 0.568)
    exact = tree_case(model, data.x, data.x[759], wish, sigma=0.1747, eta=4.254)
    return replace(exact, model=lambda x: model.predict(np.asarray(x)))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_trusted_is_right(case, seed):
    """Searches that gave up what a far start needs agreed on one leaf: log Z was wrong by 0.6, 15 standard errors."""
    explanation = case.explain(seed)
    facts, figures = explanation.diagnostics, explanation.distribution
    if facts["sampling"] == "trustworthy":
        allowed = max(ERRORS * facts["log_evidence_se"], 0.1)
        assert abs(facts["log_evidence"] - case.truth.log_evidence) <= allowed
        allowed = max(ERRORS * figures["expected_loss_se"], 0.03 * case.truth.expected_loss)
        assert abs(figures["expected_loss"] - case.truth.expected_loss) <= allowed
