"""Posteriors over networks, and bootstraps, against known covariances."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.ensembles._hmc import anneal
from gbce.ensembles._problem import Categorical, Net, NormalErrors, Problem
from support.outcomes import LABELS, X, Y, coefficients

# --- networks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["tanh", "logistic", "relu"])
@pytest.mark.parametrize("kind", ["number", "two classes", "three classes"])
def test_derivatives_of_a_network_are_those_of_differences(activation, kind):
    rng = np.random.default_rng(5)
    net = Net((2, 4, 3, 3 if kind == "three classes" else 1), activation)
    likelihood = (
        NormalErrors(Y, 0.5) if kind == "number" else Categorical(rng.integers(3 if "three" in kind else 2, size=80))
    )
    p = net.n_parameters
    problem = Problem(net, likelihood, X, 0.3 * np.eye(p), eta=0.7)
    theta, step = rng.normal(size=(2, p)), 1e-5 * rng.normal(size=p)
    up, down = problem.energy(theta + step), problem.energy(theta - step)
    assert np.allclose(up[0] - down[0], 2 * problem.energy(theta)[1] @ step, rtol=1e-4, atol=1e-9)
    slopes = net.jacobian(theta[0], X) @ step
    outputs = net.outputs(theta[0] + step, X) - net.outputs(theta[0] - step, X)
    assert np.allclose(outputs, 2 * slopes, rtol=1e-3, atol=1e-8)
    assert np.allclose(net.outputs_linearised(theta[0], step, X) - net.outputs(theta[0], X), slopes, atol=1e-12)
    outputs, shift = net.outputs(theta[0], X), 1e-5 * np.eye(net.sizes[-1])[0]
    moved = likelihood.slope(outputs[None] + shift) - likelihood.slope(outputs[None] - shift)
    assert np.allclose(moved[0], 2e-5 * likelihood.curvature(outputs)[:, :, 0], atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_network_of_one_unit_has_its_posterior(seed):
    """Two weights w1, w2 of ``w2 * tanh(w1 * x)`` and two biases: the outputs' law by self-normalised importance."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 1))
    y = np.tanh(x[:, 0]) + 0.5 * rng.normal(size=30)
    learner = MLPRegressor(hidden_layer_sizes=(1,), activation="tanh")
    method = gbce.CoefficientPosterior(noise_sd=0.5, n_steps=1000)
    posterior = gbce.model_posterior(learner, x, y, method, 800, seed=seed)
    assert posterior.facts["r_hat"] < 1.05  # of twenty seeds the worst had 1.014
    places = np.array([[-1.5], [0.0], [1.5]])
    drawn = np.array([model.predict(places) for model in posterior])
    # the same in standardised units, from the prior N(0, 2**2) of all four coefficients
    z, unit = (x[:, 0] - x.mean()) / x.std(), y.std()
    w1, b1, w2, b2 = 2 * rng.normal(size=(4, 200_000))
    fitted = w2[:, None] * np.tanh(np.outer(w1, z) + b1[:, None]) + b2[:, None]
    log_weights = -(((y - y.mean()) / unit - fitted) ** 2).sum(axis=1) / (2 * (0.5 / unit) ** 2)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    there = w2[:, None] * np.tanh(np.outer(w1, (places[:, 0] - x.mean()) / x.std()) + b1[:, None]) + b2[:, None]
    centred = unit * (there - weights @ there)
    exact, spread = y.mean() + unit * weights @ there, np.sqrt(weights @ centred**2)
    share = 1 / min(800, posterior.facts["ess_bulk"]) + (weights**2).sum()  # of a variance in that of both estimates
    assert np.all(np.abs(drawn.mean(axis=0) - exact) < 4 * spread * np.sqrt(share))
    kurtosis = weights @ centred**4 / spread**4
    assert np.all(np.abs(drawn.std(axis=0) / spread - 1) < 4 * np.sqrt((kurtosis - 1) / 4 * share))


def test_rescaling_a_unit_is_undone_by_its_opposite_and_keeps_outputs_of_relu():
    """What a jump over a network's weights does, and that its volume is counted."""
    rng = np.random.default_rng(2)
    net = Net((2, 3, 2, 1), "relu")
    scalings = net.scalings
    assert scalings.shape == (5, net.n_parameters)
    theta = rng.normal(size=(1, net.n_parameters))
    for row in scalings:
        assert np.allclose(net.outputs(theta * np.exp(0.8 * row), X), net.outputs(theta, X))
    assert scalings.sum(axis=1).tolist() == [2 + 1 - 2] * 3 + [3 + 1 - 1] * 2


def test_cooling_leaves_poor_modes_behind():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=60)
    problem = Problem(Net((1, 4, 1), "tanh"), NormalErrors(y, 0.1), x, np.eye(13) / 4)
    loss = problem.likelihood.loss(problem.net.outputs(anneal(problem, 32, rng), x)).sum(axis=1)
    assert np.median(loss) < 150  # 30 at the truth, some 1000 at a constant
    assert len(set(loss)) > 16


def test_networks_of_both_kinds_and_both_methods_predict():
    features = pd.DataFrame(X * [10.0, 0.1], columns=["large", "small"])
    network = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=5000, alpha=0.1)
    )
    truth = X @ [1.0, -0.5] + 0.3
    laplace = gbce.model_posterior(network, features, Y, gbce.LaplaceApproximation(noise_sd=0.7), 50, seed=0)
    assert np.mean((np.mean([m.predict(features) for m in laplace], axis=0) - truth) ** 2) < 0.3
    labels = MLPClassifier(hidden_layer_sizes=(3,), activation="tanh")
    quick = gbce.CoefficientPosterior(prior_sd=1.0)
    drawn = gbce.model_posterior(labels, features, LABELS, quick, 40, seed=0)
    assert drawn.facts["r_hat"] < 1.2
    shares = np.mean([m.predict_proba(features)[:, 1] for m in drawn], axis=0)
    reference = LogisticRegression().fit(X, LABELS).predict_proba(X)[:, 1]
    assert np.corrcoef(shares, reference)[0, 1] > 0.9
    assert set(drawn[0].predict(features)) == {"no", "yes"}
    for model in (laplace[0], drawn[0]):
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.predict(features), model.predict(features))


# --- bootstrap -------------------------------------------------------------------------------------------------------


def heteroscedastic(n=400):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, 2))
    return x, x @ [1.0, 2.0] + (0.3 + np.abs(x[:, 0])) * rng.normal(size=n)


@pytest.mark.parametrize("weighted", [True, False])
def test_bootstrap_has_the_sandwich_covariance(weighted):
    x, y = heteroscedastic()
    learner = LinearRegression() if weighted else Unweighted()
    posterior = gbce.model_posterior(learner, x, y, gbce.BayesianBootstrap(), 1000, seed=0)
    assert posterior.facts == {"weighted": float(weighted)}
    design = np.column_stack([x, np.ones(len(x))])
    fitted = np.linalg.lstsq(design, y, rcond=None)[0]
    bread = np.linalg.inv(design.T @ design)
    sandwich = bread @ (design.T * (y - design @ fitted) ** 2) @ design @ bread
    draws = coefficients(posterior)
    sd = np.sqrt(np.diag(sandwich))
    assert np.all(np.abs(draws.mean(axis=0) - fitted) < (4 / np.sqrt(1000) + 0.05) * sd)  # and its bias of order 1 / n
    assert np.allclose(np.cov(draws.T), sandwich, atol=0.15 * sd.max() ** 2)
    classical = (y - design @ fitted).var() * np.diag(bread)
    assert np.var(draws[:, 0]) > 1.5 * classical[0]  # which does not know that the noise grows


class Unweighted(LinearRegression):
    def fit(self, X, y):
        return super().fit(X, y)


def test_bootstrap_gives_the_same_bits_whatever_n_jobs():
    forest = RandomForestRegressor(5, max_depth=4)
    one, two, other = (
        gbce.model_posterior(forest, X, Y, gbce.BayesianBootstrap(), 4, seed=seed, n_jobs=n_jobs, progress=n_jobs == 2)
        for n_jobs, seed in ((1, 3), (2, 3), (1, 4))
    )
    assert all(np.array_equal(a.predict(X), b.predict(X)) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one[0].predict(X), other[0].predict(X))
    assert len({model.random_state for model in one}) == 4
    same = gbce.model_posterior(forest, X, Y, gbce.BayesianBootstrap(reseed=False), 4, seed=3)
    assert len({model.random_state for model in same}) == 1
    assert forest.random_state is None
    assert not hasattr(forest, "estimators_")


def test_bootstrap_through_pipelines_frames_and_learners_without_weights():
    frame = pd.DataFrame(X, columns=["a", "b"])
    pipeline = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), RandomForestClassifier(5)))
    posterior = gbce.model_posterior(pipeline, frame, LABELS, gbce.BayesianBootstrap(), 3, seed=0)
    assert posterior.facts["weighted"] == 1.0
    assert posterior[0].predict_proba(frame).shape == (80, 2)
    nearest = gbce.model_posterior(KNeighborsRegressor(3), frame, Y, n_models=3, seed=0)
    assert (nearest.method, nearest.facts["weighted"]) == ("BayesianBootstrap", 0.0)
    assert len({model.predict(frame)[0] for model in nearest}) > 1
