"""Posteriors over models against closed forms, grids and known covariances; then through an explainer."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.datasets import make_classification
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.ensembles._anneal import anneal
from gbce.ensembles._likelihood import Categorical, NormalErrors
from gbce.ensembles._net import Net
from gbce.ensembles._problem import Problem
from gbce.ensembles._safe import safe_eta

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2)) @ [[1.0, 0.5], [0.0, 1.0]] + [1.0, -2.0]
Y = X @ [1.0, -0.5] + 0.3 + 0.7 * RNG.normal(size=80)
LABELS = np.where(RNG.random(80) < 1 / (1 + np.exp(-(X[:, 0] - 1) * 2)), "yes", "no")
DESIGN = np.column_stack([X, np.ones(80)])


def coefficients(posterior):
    return np.array([[*model.coef_.ravel(), np.ravel(model.intercept_)[0]] for model in posterior])


def assert_law(draws, mean, cov, independent=None):
    """Check means within 4 standard errors, and every entry of the covariance likewise."""
    n = len(draws) if independent is None else independent
    sd = np.sqrt(np.diag(cov))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * sd / np.sqrt(n))
    error = np.sqrt((np.outer(sd, sd) ** 2 + cov**2) / n)
    assert np.all(np.abs(np.cov(draws.T) - cov) < 4 * error)


# --- coefficients: closed forms and grids ---------------------------------------------------------------------


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


# --- networks -----------------------------------------------------------------------------------------------


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


# --- bootstrap ----------------------------------------------------------------------------------------------


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


# --- SafeBayes ----------------------------------------------------------------------------------------------


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


# --- Rashomon and risks -------------------------------------------------------------------------------------


def test_cross_val_risk_is_that_of_scikit_learn():
    from sklearn.metrics import log_loss, mean_squared_error
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

    folds = KFold(5, shuffle=True, random_state=0)
    learners = [LinearRegression(), DummyRegressor()]
    risk = gbce.cross_val_risk(learners, X, Y)
    assert risk == pytest.approx([mean_squared_error(Y, cross_val_predict(one, X, Y, cv=folds)) for one in learners])
    absolute = gbce.cross_val_risk(learners[0], X, Y, loss=lambda y, f: np.abs(y - f))
    assert absolute == pytest.approx(np.mean(np.abs(Y - cross_val_predict(learners[0], X, Y, cv=folds))))
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    shares = cross_val_predict(LogisticRegression(), X, LABELS, cv=folds, method="predict_proba")
    assert gbce.cross_val_risk(LogisticRegression(), X, LABELS, cv=4) == pytest.approx(log_loss(LABELS, shares))
    assert gbce.weights_from_risk(risk, 20.0)[0] > 0.99


def test_rashomon_keeps_what_is_within_the_tolerance():
    method = gbce.Rashomon(0.1, candidates=[Ridge(1.0), DummyRegressor()])
    posterior = gbce.model_posterior(LinearRegression(), X, Y, method, 15, seed=0, n_jobs=2)
    facts = posterior.facts
    assert facts["tried"] == 15
    assert 2 <= len(posterior) < 15
    assert facts["limit"] == pytest.approx(1.1 * facts["best_risk"])
    assert list(facts["risks"]) == sorted(facts["risks"])
    assert facts["risks"][0] == facts["best_risk"]
    assert facts["risks"][-1] <= facts["limit"]
    assert not any(isinstance(model, DummyRegressor) for model in posterior)
    assert min(gbce.cross_val_risk([LinearRegression(), Ridge(1.0)], X, Y)) in facts["risks"]  # on the data as they are
    best = gbce.model_posterior(LinearRegression(), X, Y, gbce.Rashomon(0.0, bootstrap=False), 1, seed=0)
    assert len(best) == 1
    everything = gbce.model_posterior(LinearRegression(), X, Y, gbce.Rashomon(1e6, cv=3), 6, seed=0)
    assert len(everything) == 6


# --- through an explainer -----------------------------------------------------------------------------------


def test_explainer_takes_a_posterior_with_its_weights():
    frame = pd.DataFrame(X, columns=["a", "b"])
    posterior = gbce.model_posterior(Ridge(1.0), frame, Y, gbce.CoefficientPosterior(), 3, seed=0)
    uneven = gbce.ModelPosterior(posterior.models, np.array([0.5, 0.3, 0.2]), "by hand")
    assert np.array_equal(gbce.Explainer(uneven, frame).mixture.weights, [0.5, 0.3, 0.2])
    assert np.array_equal(gbce.Explainer(uneven, frame, weights=[1, 0, 0]).mixture.weights, [1, 0, 0])
    turned = frame[["b", "a"]]
    assert np.allclose(
        gbce.Explainer(posterior, turned).predictors[0](turned.to_numpy()).values, posterior[0].predict(frame)
    )
    classes = gbce.model_posterior(LogisticRegression(), frame, LABELS, gbce.LaplaceApproximation(), 3, seed=0)
    explanation = gbce.Explainer(classes, frame).explain(frame.iloc[0], gbce.Class("yes"), rules=[gbce.MAP()], seed=0)
    assert explanation.draws.loss.shape[1] == 3
    assert len(posterior) == 3
    assert posterior[-1] is list(posterior)[2]
    assert "3 models by CoefficientPosterior" in repr(posterior)
    with pytest.raises(ValueError, match="read-only"):
        posterior.weights[0] = 1.0


def test_fully_bayesian_counterfactual_of_a_linear_regression():
    """Both losses are log likelihoods, both etas 1: the mixture over draws of theta against its exact integral."""
    rng = np.random.default_rng(11)
    sigma, wanted, row = 0.5, 3.0, np.array([0.2, -0.1])
    x = rng.normal(size=(6, 2))
    y = x @ [1.0, 0.5] + sigma * rng.normal(size=6)
    design = np.column_stack([x, np.ones(6)])
    V = np.linalg.inv(design.T @ design / sigma**2)
    m = V @ design.T @ y / sigma**2

    axes = [np.linspace(c - 6, c + 6, 301) for c in row]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    lifted = np.column_stack([grid, np.ones(len(grid))])
    variance = sigma**2 + np.einsum("ni,ij,nj->n", lifted, V, lifted)
    likelihood = np.sqrt(sigma**2 / variance) * np.exp(-((lifted @ m - wanted) ** 2) / (2 * variance))
    prior = np.exp(-((grid - row) ** 2).sum(axis=1) / 2)
    prior /= prior.sum()
    evidence = prior @ likelihood
    mean = (prior * likelihood) @ grid / evidence

    found = []
    method = gbce.CoefficientPosterior(noise_sd=sigma)
    for seed in range(16):
        posterior = gbce.model_posterior(LinearRegression(), x, y, method, 400, seed=seed)
        explainer = gbce.Explainer(posterior, x, space=gbce.Space.real(2), prior=gbce.Gaussian(1.0), eta=1.0,
                                   sampler=gbce.Importance(n_candidates=8000, n_draws=1000))  # fmt: skip
        wish = gbce.Value(wanted, scale=np.sqrt(2) * sigma, tolerance=0.1)
        draws = explainer.explain(row, wish, rules=[], seed=seed).draws
        found.append([*(draws.pool_weights @ draws.pool.x), draws.log_evidence])
    found = np.array(found)
    # each set has its own thetas and its own candidates, so the spread between sets holds both errors
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    error *= student.isf(norm.sf(4), len(found) - 1)  # as rare as four known standard errors
    assert np.all(np.abs(found.mean(axis=0) - [*mean, np.log(evidence)]) < error)
    plugged = prior * np.exp(-((lifted @ m - wanted) ** 2) / (2 * sigma**2))  # what one fitted model would say
    alone = np.array([*(plugged @ grid / plugged.sum()), np.log(plugged.sum())])
    assert np.any(np.abs(alone - [*mean, np.log(evidence)]) > error)


# --- bad input ----------------------------------------------------------------------------------------------

GAP = np.where(np.arange(80) == 7, np.nan, Y)
HOLE = np.where(np.arange(160).reshape(80, 2) == 9, np.nan, X)
CP, BB = gbce.CoefficientPosterior(), gbce.BayesianBootstrap()
BAD = {
    "no fit": (dict(learner=np.sum), TypeError, "must have fit and predict"),
    "a class": (dict(learner=Ridge), TypeError, r"pass an instance of it, Ridge\(\)"),
    "no models": (dict(n_models=0), ValueError, "n_models must be a whole number of at least 1, not 0"),
    "half a model": (dict(n_models=1.5), ValueError, "n_models must be a whole number"),
    "seed": (dict(seed=-1), ValueError, "seed must be a whole number"),
    "unknown method": (dict(method="bootstrap"), TypeError, r"gbce.BayesianBootstrap\(\).*not 'bootstrap'"),
    "method as a class": (dict(method=gbce.BayesianBootstrap), TypeError, "method must be an object"),
    "regressor with words": (dict(y=LABELS), TypeError, "Ridge is a regressor, but y holds '.*use a classifier"),
    "classifier with numbers": (dict(learner=LogisticRegression()), TypeError, "is a classifier, but y holds numbers"),
    "one class": (dict(learner=LogisticRegression(), y=np.ones(80)), ValueError, "single class 1.0"),
    "NaN in y": (dict(y=GAP), ValueError, "y is missing in 1 .*row 7"),
    "NA in y": (dict(y=pd.Series(GAP).convert_dtypes()), ValueError, "y is missing in 1 .*row 7"),
    "infinite y": (dict(y=np.where(np.isnan(GAP), np.inf, Y)), ValueError, "y is infinite in row 7"),
    "NaN in X": (dict(X=HOLE, method=CP), ValueError, "X is missing .* in 1 rows, first in row 4.*Imputer"),
    "NaN in X, refitted": (dict(X=HOLE, method=BB), ValueError, "Ridge cannot be fitted to these data: .*NaN"),
    "words in X": (dict(X=X.astype(str).astype(object) + "a", method=CP), TypeError, "needs numbers"),
    "lengths": (dict(y=Y[:5]), ValueError, "y has 5 outcomes, but X has 80 rows"),
    "several outcomes": (dict(y=np.column_stack([Y, Y])), ValueError, "one outcome per row"),
    "flat rows": (dict(X=X[:, 0]), ValueError, "X must be a table"),
    "trees have no coefficients": (dict(learner=RandomForestRegressor(), method=CP), TypeError, "any learner"),
    "safe without a prior": (
        dict(learner=LinearRegression(), method=gbce.CoefficientPosterior("safe")), ValueError, "give prior_sd",
    ),
    "safe network": (
        dict(learner=MLPRegressor(), method=gbce.CoefficientPosterior("safe", noise_sd=1.0)), ValueError, "network",
    ),
    "lasso penalty": (
        dict(learner=LogisticRegression(l1_ratio=0.5, solver="saga"), y=LABELS, method=CP), ValueError, "L2 penalty",
    ),
    "class weights": (
        dict(learner=LogisticRegression(class_weight="balanced"), y=LABELS, method=CP), ValueError, "class_weight=None",
    ),
    "positive": (dict(learner=LinearRegression(positive=True), method=CP), ValueError, "positive=False"),
    "no noise": (dict(learner=LinearRegression(), y=X[:, 0], method=CP), ValueError, "give noise_sd"),
    "twice the same column": (
        dict(learner=LinearRegression(), X=X[:, [0, 0]], method=CP), ValueError, "column 0, column 1 .*give a prior_sd",
    ),
    "separated classes": (
        dict(learner=LogisticRegression(C=np.inf), y=X[:, 0] > 1, method=CP), ValueError, "no proper posterior",
    ),
    "a network too large": (
        dict(learner=MLPRegressor(hidden_layer_sizes=(3000,)), method=CP), ValueError, "12,001 coefficients",
    ),
    "mixed candidates": (
        dict(method=gbce.Rashomon(0.1, candidates=[LogisticRegression()])), TypeError, "candidates of one kind",
    ),
    "folds": (dict(method=gbce.Rashomon(0.1, cv=100)), ValueError, "cv must be a whole number of folds between 2 and"),
}  # fmt: skip


FRAME = pd.DataFrame(X, columns=["a", "b"])
NUDGE = np.random.default_rng(12).normal(size=80)
DEPENDENT = {
    "a copy": (FRAME.assign(c=FRAME.a), "'a', 'c' depend"),
    "a copy in another unit": (FRAME.assign(c=1e9 * FRAME.a), "'a', 'c' depend"),
    "a copy but for the eighth digit": (FRAME.assign(c=FRAME.a * (1 + 1e-8 * NUDGE)), "'a', 'c' depend"),
    "a sum": (FRAME.assign(c=0.1 * NUDGE, d=FRAME.a + FRAME.b), "'a', 'b', 'd' depend"),
    "a constant": (FRAME.assign(c=0.1), "'c', the intercept depend"),
    "nothing": (FRAME.assign(c=0.0), "'c' is zero in every row"),
    "two copies": (FRAME.assign(c=FRAME.a, d=FRAME.b), "'a', 'b', 'c', 'd' depend"),
    "more columns than rows": (pd.DataFrame(np.random.default_rng(13).normal(size=(80, 90))), "and 85 more depend"),
}  # fmt: skip


@pytest.mark.parametrize("method", [gbce.CoefficientPosterior, gbce.LaplaceApproximation])
@pytest.mark.parametrize("case", DEPENDENT)
def test_columns_that_depend_on_each_other_are_named(case, method):
    """By rank, not by whether a decomposition happens to fail: the last bit differs from processor to processor."""
    frame, words = DEPENDENT[case]
    noisy = method(noise_sd=0.7)
    for learner, y in ((LinearRegression(), Y), (LogisticRegression(C=np.inf), LABELS)):
        with pytest.raises(ValueError, match=words):
            gbce.model_posterior(learner, frame, y, noisy, 2)
    with pytest.raises(ValueError, match=r"depend on each other|zero in every row"):
        gbce.model_posterior(make_pipeline(StandardScaler(), LinearRegression()), frame, Y, noisy, 2)
    assert len(gbce.model_posterior(Ridge(), frame, Y, noisy, 2)) == 2  # a prior tells what data do not


def test_columns_that_nearly_depend_on_each_other_have_their_posterior():
    """Copies up to the fifth digit are apart: what the data know of their difference is drawn to a percent."""
    frame = FRAME.assign(c=FRAME.a * (1 + 1e-5 * NUDGE))
    posterior = gbce.model_posterior(LinearRegression(), frame, Y, gbce.CoefficientPosterior(noise_sd=0.7), 4000)
    inverse = np.linalg.pinv(np.column_stack([frame, np.ones(80)]), rcond=1e-12)  # not squared, unlike the precision
    spread = 0.7 * np.linalg.norm(inverse, axis=1)
    drawn = coefficients(posterior)
    assert np.all(np.abs(drawn.std(axis=0) / spread - 1) < 4 / np.sqrt(2 * 4000) + 0.01)
    assert np.all(np.abs(drawn.mean(axis=0) - inverse @ Y) < 4 * spread / np.sqrt(4000) + 0.01 * spread)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_words(case):
    options, error, words = BAD[case]
    with pytest.raises(error, match=words):
        gbce.model_posterior(**{"learner": Ridge(), "X": X, "y": Y, "n_models": 2, **options})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gbce.CoefficientPosterior(0.0), 'eta must be a positive number or "safe"'),
        (lambda: gbce.CoefficientPosterior("brave"), "not 'brave'"),
        (lambda: gbce.CoefficientPosterior(prior_sd=-1.0), "prior_sd must be a positive number"),
        (lambda: gbce.CoefficientPosterior(n_chains=0), "n_chains must be a whole number"),
        (lambda: gbce.CoefficientPosterior(grid=[]), "grid must be positive numbers"),
        (lambda: gbce.CoefficientPosterior(safe="S"), 'safe must be "R" or "I"'),
        (lambda: gbce.LaplaceApproximation(-1), "eta must be a positive number"),
        (lambda: gbce.Rashomon(-0.1), "tolerance must be zero or a positive number"),
        (lambda: gbce.ModelPosterior((1, 2), np.ones(3), "x"), "one number per model: 2"),
        (lambda: gbce.cross_val_risk([], X, Y), "models is empty"),
        (lambda: gbce.cross_val_risk(Ridge(), X, Y, loss=lambda y, f: np.inf), "must return finite numbers"),
        (lambda: gbce.cross_val_risk(LogisticRegression(), X, np.arange(80) < 3), "fewer than cv=5"),
    ],
)
def test_bad_options_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
