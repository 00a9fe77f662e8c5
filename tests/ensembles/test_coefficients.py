"""Posteriors over coefficients, and SafeBayes, against closed forms and grids."""

import numpy as np
import pytest
from scipy.special import digamma
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor

import gbce
from gbce.ensembles._coefficients import safe_eta
from gbce.ensembles._problem import Categorical, Net, NormalErrors, Problem
from support.outcomes import LABELS, X, Y, coefficients

DESIGN = np.column_stack([X, np.ones(80)])


def assert_law(draws, mean, cov, independent=None):
    """Check means within 4 standard errors, and every entry of the covariance likewise."""
    n = len(draws) if independent is None else independent
    sd = np.sqrt(np.diag(cov))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * sd / np.sqrt(n))
    error = np.sqrt((np.outer(sd, sd) ** 2 + cov**2) / n)
    assert np.all(np.abs(np.cov(draws.T) - cov) < 4 * error)


# --- coefficients: closed forms and grids ----------------------------------------------------------------------------


@pytest.mark.parametrize(("eta", "prior_sd"), [(1.0, np.inf), (0.4, 0.8)])
def test_linear_coefficients_are_the_closed_form(eta, prior_sd):
    method = gbce.CoefficientPosterior(eta, prior_sd=prior_sd, noise_sd=0.7)
    posterior = gbce.model_posterior(LinearRegression(), X, Y, method, 4000, seed=1)
    precision = eta * DESIGN.T @ DESIGN / 0.49 + np.diag([prior_sd**-2, prior_sd**-2, 0.0])
    mean = np.linalg.solve(precision, eta * DESIGN.T @ Y / 0.49)
    assert_law(coefficients(posterior), mean, np.linalg.inv(precision))
    assert posterior.facts == {"n_parameters": 3, "prior_sd": prior_sd, "noise_sd": 0.7, "eta": eta}


def test_ridge_is_read_as_a_prior_and_the_noise_from_residuals():
    posterior = gbce.model_posterior(Ridge(5.0), X, Y, gbce.CoefficientPosterior(), 4000, seed=1)
    noise = posterior.facts["noise_sd"]
    assert noise == pytest.approx(0.7, rel=0.2)
    assert posterior.facts["prior_sd"] == pytest.approx(noise / np.sqrt(5.0))
    fitted = Ridge(5.0).fit(X, Y)
    precision = DESIGN.T @ DESIGN / noise**2 + np.diag([5.0, 5.0, 0.0]) / noise**2
    assert_law(coefficients(posterior), [*fitted.coef_, fitted.intercept_], np.linalg.inv(precision))
    residuals = Y - LinearRegression().fit(X, Y).predict(X)
    plain = gbce.model_posterior(LinearRegression(), X, Y, gbce.CoefficientPosterior(), 1)
    assert plain.facts["noise_sd"] == pytest.approx(np.sqrt(residuals @ residuals / (80 - 3)))


@pytest.mark.parametrize("eta", [1.0, 0.3])
def test_logistic_coefficients_against_a_grid(eta):
    y = LABELS == "yes"
    learner = LogisticRegression(C=2.0, fit_intercept=False)
    centred = X - X.mean(axis=0)
    posterior = gbce.model_posterior(learner, centred, y, gbce.CoefficientPosterior(eta, n_steps=500), 4000, seed=2)
    assert posterior.facts["r_hat"] < 1.02
    assert posterior.facts["prior_sd"] == pytest.approx(np.sqrt(2.0))
    axis = np.linspace(-6, 6, 401)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    signed = np.where(y, -1.0, 1.0)[:, None] * (centred @ grid.T)
    log_density = -eta * np.logaddexp(0, signed).sum(axis=0) - (grid**2).sum(axis=1) / 4
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ grid
    cov = (weights[:, None] * (grid - mean)).T @ (grid - mean)
    draws = np.array([model.coef_ for model in posterior])
    assert_law(draws, mean, cov, independent=min(4000, posterior.facts["ess_bulk"]))
    laplace = gbce.model_posterior(learner, centred, y, gbce.LaplaceApproximation(eta), 4000, seed=2)
    spread = np.cov(np.array([model.coef_ for model in laplace]).T)
    assert np.allclose(spread, cov, atol=0.3 * np.diag(cov).max())  # near, not equal


def test_coefficients_of_three_classes_against_a_grid():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(50, 1)), np.array(["a", "b", "c"])[rng.integers(3, size=50)]
    learner = LogisticRegression(C=0.5, fit_intercept=False)
    posterior = gbce.model_posterior(learner, x, y, gbce.CoefficientPosterior(n_steps=400), 3000, seed=0)
    axis = np.linspace(-3.5, 3.5, 45)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    log_density = -(grid**2).sum(axis=1)
    for value, label in zip(x[:, 0], y, strict=True):
        scores = value * grid
        log_density += scores[:, "abc".index(label)] - np.log(np.exp(scores).sum(axis=1))
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ grid
    cov = (weights[:, None] * (grid - mean)).T @ (grid - mean)
    draws = np.array([model.coef_[:, 0] for model in posterior])
    assert_law(draws, mean, cov, independent=min(3000, posterior.facts["ess_bulk"]))


def test_intercepts_of_three_classes_are_known_but_for_their_sum():
    features, y = make_classification(100, 3, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1,
                                      random_state=0)  # fmt: skip
    learner = LogisticRegression(C=0.5)
    posterior = gbce.model_posterior(learner, features, y, gbce.CoefficientPosterior(n_steps=100), 200, seed=0)
    assert posterior.facts["r_hat"] < 1.1
    shares = np.mean([model.predict_proba(features) for model in posterior], axis=0)
    assert np.allclose(shares, learner.fit(features, y).predict_proba(features), atol=0.08)
    laplace = gbce.model_posterior(learner, features, y, gbce.LaplaceApproximation(), 200, seed=0)
    assert np.allclose(np.mean([model.predict_proba(features) for model in laplace], axis=0), shares, atol=0.08)


@pytest.mark.parametrize("eta", [1.0, 0.1, 3.0])
@pytest.mark.parametrize(
    ("learner", "prior_sd"),
    [(LinearRegression(), None), (Ridge(5.0), None), (Ridge(5.0), 0.2), (LinearRegression(), 0.2)],
)
def test_laplace_is_exact_for_linear_models(learner, prior_sd, eta):
    method = gbce.LaplaceApproximation(eta, prior_sd=prior_sd, noise_sd=0.7)
    posterior = gbce.model_posterior(learner, X, Y, method, 4000, seed=3)
    pull = getattr(learner, "alpha", 0.0) / 0.49 if prior_sd is None else prior_sd**-2
    precision = eta * DESIGN.T @ DESIGN / 0.49 + np.diag([pull, pull, 0.0])
    mean = np.linalg.solve(precision, eta * DESIGN.T @ Y / 0.49)
    assert_law(coefficients(posterior), mean, np.linalg.inv(precision))
    exact = gbce.CoefficientPosterior(eta, prior_sd=prior_sd, noise_sd=0.7)
    assert np.allclose(coefficients(gbce.model_posterior(learner, X, Y, exact, 3, seed=3)), coefficients(posterior)[:3])


@pytest.mark.parametrize("labels", [LABELS, np.where(X[:, 1] > -1, "maybe", LABELS)], ids=["two", "three"])
def test_laplace_of_logistic_models_is_around_the_mode_at_its_own_eta(labels):
    """The mode at eta' with penalty 1 / C is the fit with penalty 1 / (eta' C)."""
    posterior = gbce.model_posterior(LogisticRegression(C=2.0), X, labels, gbce.LaplaceApproximation(0.1), 4000, seed=0)
    draws = np.array([model.coef_ for model in posterior])
    fitted = LogisticRegression(C=0.2, tol=1e-10, max_iter=10_000).fit(X, labels).coef_.reshape(draws.shape[1:])
    assert np.all(np.abs(draws.mean(axis=0) - fitted) < 4 * draws.std(axis=0) / np.sqrt(4000))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # it is brought to the mode afterwards
@pytest.mark.parametrize("prior_sd", [None, 0.5])
@pytest.mark.parametrize("kind", ["number", "classes"])
def test_laplace_of_networks_is_around_the_mode_at_its_own_eta(kind, prior_sd):
    """The energy written out again has no slope at the centre of the draws."""
    network, likelihood, y = (
        (MLPRegressor(hidden_layer_sizes=(3,), activation="tanh", max_iter=2000), NormalErrors(Y, 0.7), Y)
        if kind == "number"
        else (MLPClassifier(hidden_layer_sizes=(3,), activation="tanh", max_iter=2000),
              Categorical((LABELS == "yes").astype(int)), LABELS)
    )  # fmt: skip
    method = gbce.LaplaceApproximation(0.1, prior_sd=prior_sd, noise_sd=0.7)
    posterior = gbce.model_posterior(network, X, y, method, 1, seed=0)
    centre, net = posterior[0].theta, posterior[0].net
    problem = Problem(net, likelihood, X, np.eye(net.n_parameters) / posterior.facts["prior_sd"] ** 2, eta=0.1)
    slope = problem.energy(centre[None])[1][0]
    decrement = slope @ np.linalg.solve(problem.curvature(centre), slope)  # twice what a step could still gain
    assert decrement < 1e-6


# --- SafeBayes -------------------------------------------------------------------------------------------------------


def half_zero(seed, misspecified, n=300, d=20):
    """Grünwald and van Ommen's example: half of the rows are easy, all zero and without noise."""
    rng = np.random.default_rng(seed)
    x, noise = rng.normal(size=(n, d)), np.full(n, 0.5)
    if misspecified:
        easy = rng.random(n) < 0.5
        x[easy], noise[easy] = 0.0, 0.0
    return x, x @ rng.normal(size=d) / np.sqrt(d) + noise * rng.normal(size=n)


@pytest.mark.parametrize("misspecified", [False, True])
def test_safe_bayes_learns_at_full_rate_only_where_the_model_is_right(misspecified):
    """Of forty data sets 40 with a right model stayed at 1, and 1 with a wrong one: by chance 9 of 12 come out."""
    full = 0
    for seed in range(12):
        x, y = half_zero(seed, misspecified)
        method = gbce.CoefficientPosterior("safe", prior_sd=1 / np.sqrt(20))
        facts = gbce.model_posterior(LinearRegression(fit_intercept=False), x, y, method, 2, seed=seed).facts
        assert len(facts["eta_losses"]) == len(facts["eta_grid"]) == 13
        assert facts["eta"] == facts["eta_grid"][int(np.argmin(facts["eta_losses"]))]
        full += facts["eta"] == 1.0
    assert full <= 3 if misspecified else full >= 9


@pytest.mark.parametrize("version", ["R", "I"])
def test_safe_bayes_losses_are_those_of_refits(version):
    """The recursion against the normal-inverse-gamma posterior of the rows so far, computed afresh, at eta = 0.5."""
    x_given, y_given = half_zero(0, True, n=25, d=3)
    problem = Problem(Net((3, 1), bias=False), NormalErrors(y_given, 0.4), x_given, np.eye(3) / 0.6**2)
    facts = safe_eta(problem, [0.5], version, np.random.default_rng(9))
    rng, total = np.random.default_rng(9), 0.0
    for order in [rng.permutation(25) for _ in range(8)]:
        x, y = x_given[order], y_given[order]
        for i in range(25):
            precision = np.eye(3) * (0.4 / 0.6) ** 2 + 0.5 * x[:i].T @ x[:i]
            mean = np.linalg.solve(precision, 0.5 * x[:i].T @ y[:i])
            a, b = 1 + 0.25 * i, 0.16 + 0.5 * (0.5 * y[:i] @ y[:i] - mean @ precision @ mean)
            error, spread = y[i] - x[i] @ mean, x[i] @ np.linalg.solve(precision, x[i])
            if version == "R":  # E[-log N(y; x beta, s2)], with E[1 / s2] = a / b and E[log s2] = log b - digamma(a)
                total += 0.5 * (np.log(b) - digamma(a) + error**2 * a / b + spread)
            elif i:  # at the mean of beta and that of s2, b / (a - 1), which the prior's a = 1 does not have
                total += 0.5 * (np.log(b / (a - 1)) + error**2 * (a - 1) / b)
    assert facts["eta_losses"] == pytest.approx((total / 8,))


def test_safe_bayes_of_a_right_logistic_model():
    method = gbce.CoefficientPosterior("safe", grid=[1.0, 0.5, 0.125, 0.03], n_steps=50)
    facts = gbce.model_posterior(LogisticRegression(), X, LABELS, method, 2, seed=0).facts
    assert facts["eta"] >= 0.5
