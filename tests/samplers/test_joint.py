"""Points that carry the index of a model: the mixture's own law, for a fraction of the model rows."""

import numpy as np
import pytest
from scipy.special import logsumexp

import gbce
from support.exact import Linear
from support.laws import close

RNG = np.random.default_rng(0)
K = 40
X0 = np.array([0.3, -0.2, 0.1])
W = RNG.normal(size=(K, 3)) * 0.3 + [1.0, -0.5, 0.2]
WEIGHTS = RNG.dirichlet(np.ones(K))
DATA = RNG.normal(size=(100, 3))


class Counted:
    """A linear model that counts its rows."""

    def __init__(self, w):
        self.w, self.rows = w, 0

    def __call__(self, x):
        self.rows += len(x)
        return x @ self.w


def cases(eta, y):
    return [Linear(w, 0.0, y, X0, np.eye(3), eta) for w in W]


def explained(eta, y, sampler, seed=1, **options):
    models = [Counted(w) for w in W]
    explainer = gbce.Explainer(
        models, DATA, space=gbce.Space.real(3), weights=WEIGHTS, eta=eta, sampler=sampler, **options
    )
    explanation = explainer.explain(X0, gbce.Value(y, scale=1, tolerance=0.5), rules=[], seed=seed)
    return explanation, sum(model.rows for model in models)


@pytest.mark.parametrize(
    ("eta", "y", "sampler"),
    [(1.0, 2.0, gbce.SMC(10_000, 2_000)), (8.0, 4.5, gbce.SMC(4_000, 2_000)), (1.0, 2.0, gbce.Importance())],
    ids=["candidates", "tempered", "importance"],
)
def test_the_law_is_that_of_the_mixture(eta, y, sampler):
    explanation, _ = explained(eta, y, sampler)
    parts = cases(eta, y)
    log_z = np.array([part.log_evidence for part in parts]) + np.log(WEIGHTS)
    share = np.exp(log_z - logsumexp(log_z))
    draws = explanation.draws
    assert draws.facts["joint"]
    assert draws.loss.shape[1] == K
    mean = draws.mean(draws.pool.x)
    exact = share @ np.array([part.mean for part in parts])
    close(mean, exact, draws.standard_error(draws.pool.x - mean), "mean", draws)
    square = draws.mean(np.square(draws.pool.x))
    seconds = share @ np.array([np.diag(part.cov) + part.mean**2 for part in parts])
    close(square, seconds, draws.standard_error(np.square(draws.pool.x) - square), "square", draws)
    close(draws.log_evidence, logsumexp(log_z), draws.log_evidence_se, "log evidence", draws)
    found = np.exp(np.array(draws.facts["model_evidence"]) + np.log(WEIGHTS) - draws.log_evidence)
    np.testing.assert_allclose(found, share, atol=0.06)
    np.testing.assert_allclose(explanation.importance["prior"], np.sqrt(2 / np.pi), rtol=0.08)


def test_other_weights_and_etas_are_reweightings():
    explanation, _ = explained(1.0, 2.0, gbce.SMC(10_000, 2_000))
    other = np.roll(WEIGHTS, 3)
    again = explanation.at(0.5, weights=other)
    log_z = np.array([part.log_evidence for part in cases(0.5, 2.0)]) + np.log(other)
    share = np.exp(log_z - logsumexp(log_z))
    draws = again.draws
    mean = draws.mean(draws.pool.x)
    exact = share @ np.array([part.mean for part in cases(0.5, 2.0)])
    close(mean, exact, draws.standard_error(draws.pool.x - mean), "mean", draws)
    worst = explanation.at(combine="average")
    assert worst.draws.ess > 100


def test_it_costs_a_fraction_of_asking_everybody():
    joint, rows = explained(8.0, 4.5, gbce.SMC(4_000, 1_000))
    full, all_rows = explained(8.0, 4.5, gbce.SMC(4_000, 1_000), joint=False)
    assert "joint" not in full.draws.facts
    assert joint.n_model_rows == rows
    assert rows < all_rows / 3  # a point asks one model of forty, but tempering has rungs of its own
    assert joint.draws.ess > 100  # what it gains per row is a matter of the models: benchmarks/many_models.py


def test_it_is_refused_where_it_has_no_meaning():
    with pytest.raises(ValueError, match=r"joint=True needs several models, combine=\"any\""):
        gbce.Explainer([Counted(w) for w in W], DATA, combine="all", joint=True)
    with pytest.raises(ValueError, match="joint=True needs several models"):
        gbce.Explainer(Counted(W[0]), DATA, joint=True)


def test_a_budget_is_kept():
    models = [Counted(w) for w in W]
    explainer = gbce.Explainer(models, DATA, space=gbce.Space.real(3), sampler=gbce.SMC(4_000, 1_000), eta=8.0)
    explanation = explainer.explain(
        X0, gbce.Value(4.5, scale=1, tolerance=0.5), rules=[gbce.Medoid()], seed=0, max_model_rows=60_000
    )
    assert sum(model.rows for model in models) <= 60_000
    assert explanation.draws.loss.shape[1] == K
