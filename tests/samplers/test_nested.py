"""Nested sampling: exact posteriors, honest errors, few rows, budgets and rules for eta."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import laplace
from sklearn.ensemble import ExtraTreesRegressor

import gbce
from gbce.budget import Budget, BudgetSpentError
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import as_predictor
from support.exact import Grid, gaussian_log_prior, linear, midpoints, tree_cells
from support.laws import close, small_error

pytest.importorskip("nautilus")

QUICK = gbce.Nested(n_live=200, n_effective=1_000, n_draws=4_000, n_networks=1)
X0 = np.array([0.2, 0.1])
Y = 2.6
TARGET = gbce.Value(Y, scale=1, tolerance=0.5)


def curved(x):
    return 2.0 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1]


def posterior_of(model, x0, target, *, prior=None, eta=1.0, space=None, **more):
    space = gbce.Space.real(len(x0)) if space is None else space
    located = (gbce.Gaussian() if prior is None else prior).at(space, x0)
    return GibbsPosterior(located, (as_predictor(model, space),), target, Mixture(eta, np.ones(1)), **more)


def linear_posterior(case, **more):
    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    return posterior_of(case.predict, case.x0, target, prior=gbce.Gaussian(cov=case.S), eta=case.eta, **more)


def drawn(posterior, sampler=QUICK, seed=0):
    return sampler.sample(posterior, np.random.default_rng(seed))


def mean_is(draws, values, exact, what):
    mean = draws.mean(values)
    se = draws.standard_error(values - mean)
    close(mean, exact, se, what)
    small_error(se, exact, what)


def figures_are(draws, grid, loss):
    """The figures of a two-dimensional posterior that quadrature knows."""
    mean_is(draws, draws.pool.x, grid.mean(grid.x), "mean")
    mean_is(draws, np.abs(draws.pool.x - X0), grid.importance(X0), "importance")
    mean_is(draws, draws.pool.loss[:, 0], grid.mean(loss(grid.x)), "expected loss")
    mean_is(draws, draws.pool.reached[:, 0].astype(float), grid.mean((loss(grid.x) <= 0.25) * 1.0), "success")
    close(draws.log_evidence, grid.log_evidence, draws.log_evidence_se, "log evidence", draws)
    small_error(draws.log_evidence_se, 1.0, "log evidence")


def squared(x):
    return (curved(x) - Y) ** 2


# --- exact posteriors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 10])
def test_linear_model_has_its_gaussian_posterior(d):
    case = linear(d, eta=2.0, seed=d)
    posterior = linear_posterior(case)
    draws = drawn(posterior)
    assert draws.pool.z.shape == (posterior.n_rows, d)  # every row asked is kept, and nothing was asked twice
    assert len(np.unique(draws.pool.z, axis=0)) == posterior.n_rows
    assert draws.ess >= 1_000
    offset = draws.pool.x - case.mean
    mean_is(draws, draws.pool.x, case.mean, "mean")
    mean_is(draws, offset[:, :, None] * offset[:, None, :], case.cov, "covariance")
    close(draws.log_evidence, case.log_evidence, draws.log_evidence_se, "log evidence", draws)
    assert draws.log_evidence_se < 0.04
    scale = np.sqrt(2 / np.pi * np.diag(case.S))  # E|x - row| of the prior
    np.testing.assert_allclose(draws.prior_change, scale, rtol=0.03)


def test_other_eta_is_a_reweighting():
    case = linear(2, eta=2.0, seed=2)
    posterior = linear_posterior(case)
    draws = drawn(posterior)
    for eta in (0.0, 0.5, 4.0):
        other = replace(case, eta=eta)
        again = draws.reweigh(replace(posterior.mixture, eta=eta))
        mean = again.mean(again.pool.x)
        close(mean, other.mean, again.standard_error(again.pool.x - mean), f"mean at {eta}")
        if eta:
            close(again.log_evidence, other.log_evidence, again.log_evidence_se, f"log evidence at {eta}", again)
            assert again.log_evidence_se < 0.1


def test_tree_ensemble_by_its_cells():
    x = np.random.default_rng(0).normal(size=(400, 2))
    forest = ExtraTreesRegressor(20, max_depth=5, random_state=0).fit(x, curved(x))
    cells, mass = tree_cells(forest, X0, 1.0)
    f = forest.predict(cells)
    log_weights = np.log(mass) - (f - Y) ** 2
    weights = np.exp(log_weights - logsumexp(log_weights))
    draws = drawn(posterior_of(forest.predict, X0, TARGET))
    close(draws.log_evidence, logsumexp(log_weights), draws.log_evidence_se, "log evidence", draws)
    mean_is(draws, draws.pool.loss[:, 0], weights @ (f - Y) ** 2, "expected loss")
    mean_is(draws, draws.pool.reached[:, 0] * 1.0, weights[np.abs(f - Y) <= 0.5].sum(), "success")


BOUNDED = gbce.Space((gbce.Feature("x1", low=-0.8, high=1.0), gbce.Feature("x2", direction="decrease")))
LIMITS = [midpoints(-0.8, 1.0), midpoints(X0[1] - 12.0, X0[1])]
WIDE = [np.concatenate([midpoints(c - 18, c, 900), midpoints(c, c + 18, 900)]) for c in X0]


@pytest.mark.parametrize(
    ("prior", "space", "axes", "log_prior"),
    [
        (gbce.Gaussian(), BOUNDED, LIMITS, gaussian_log_prior(X0, np.eye(2))),
        (gbce.Laplace([0.7, 1.4]), None, WIDE, lambda x: laplace(X0, [0.7, 1.4]).logpdf(x).sum(axis=1)),
        (
            gbce.DistancePrior(lambda x, row: 2.0 * np.linalg.norm(x - row, axis=1), proposal=gbce.Laplace(0.9)),
            BOUNDED, LIMITS, lambda x: -2.0 * np.linalg.norm(x - X0, axis=1),
        ),
    ],
    ids=["truncated", "laplace", "distance"],
)  # fmt: skip
def test_priors_by_quadrature(prior, space, axes, log_prior):
    grid = Grid.of(axes, log_prior, squared)
    posterior = posterior_of(curved, X0, TARGET, prior=prior, space=space)
    draws = drawn(posterior, replace(QUICK, n_effective=1_600))
    figures_are(draws, grid, squared)
    own = np.exp(log_prior(grid.x) - logsumexp(log_prior(grid.x)))
    np.testing.assert_allclose(draws.prior_change, own @ np.abs(grid.x - X0), rtol=0.03)
    assert (
        np.ptp(draws.pool.log_correction) > 0
        if isinstance(prior, gbce.DistancePrior)
        else (draws.pool.log_correction == 0).all()
    )


def test_points_of_infinite_loss_are_left_out():
    case = linear(2, seed=2)

    def loss(f):
        return np.where(f < case.y - 1.0, np.inf, 0.0)

    posterior = posterior_of(case.predict, case.x0, gbce.Loss(loss, threshold=0.5))
    draws = drawn(posterior)
    within = 1 - 0.6914624612740131  # of a normal law above half a standard deviation: w.x0 + b = y - 1.5
    close(draws.log_evidence, np.log(within), draws.log_evidence_se, "log evidence", draws)
    assert draws.reached.all()
    assert posterior.n_rows < 10_000  # a plateau is not explored to the bottom
    with pytest.raises(ValueError, match="every point has weight zero"):
        drawn(posterior_of(case.predict, case.x0, gbce.Loss(lambda f: np.full(len(f), np.inf), threshold=0.5)))


# --- what it costs, and whether its errors are honest ---------------------------------------------------------------


HARD = replace(linear(4, eta=5.0, seed=4, scale=0.3), y=linear(4, seed=4).y + 0.7)  # ten features take a minute


def test_a_posterior_far_from_the_prior_is_reached_with_few_rows():
    plain, posterior = linear_posterior(HARD), linear_posterior(HARD)
    assert HARD.log_evidence < -12
    assert drawn(plain, gbce.Importance(20_000, 100)).ess < 60  # of 500 from far fewer rows below
    draws = drawn(posterior, replace(QUICK, n_effective=500))
    assert posterior.n_rows < 8_000
    assert draws.ess >= 500
    close(draws.log_evidence, HARD.log_evidence, draws.log_evidence_se, "log evidence", draws)
    mean_is(draws, draws.pool.x, HARD.mean, "mean")
    f = HARD.predict(draws.pool.x)
    mean_is(draws, f, HARD.output.mean(), "output")


def test_errors_are_honest():
    """A small one of the studies in the benchmarks: in ten runs, errors are neither far too small nor far too large."""
    case = linear(2, seed=2)
    evidence, means = [], []
    for seed in range(10):
        draws = drawn(linear_posterior(case), replace(QUICK, n_live=100, n_effective=300), seed)
        mean = draws.mean(draws.pool.x)
        means.append((mean - case.mean) / draws.standard_error(draws.pool.x - mean))
        evidence.append((draws.log_evidence - case.log_evidence) / draws.log_evidence_se)
    assert 0.6 < np.sqrt(np.mean(np.square(means))) < 1.4
    assert 0.3 < np.sqrt(np.mean(np.square(evidence))) < 1.4


def test_points_that_shells_were_learned_from_can_count():
    case = linear(2, seed=2)
    once, again = linear_posterior(case), linear_posterior(case)
    drawn(once)
    draws = drawn(again, replace(QUICK, reuse=True))
    assert again.n_rows < 0.75 * once.n_rows
    assert draws.ess >= 1_000
    mean_is(draws, draws.pool.x, case.mean, "mean")
    close(draws.log_evidence, case.log_evidence, draws.log_evidence_se, "log evidence", draws)


# --- budgets, goals, seeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [30, 250, 900])
def test_rows_are_not_exceeded_and_what_there_is_is_weighed(rows):
    case = linear(2, seed=2)
    posterior = linear_posterior(case, budget=Budget(max_rows=rows))
    draws = drawn(posterior)
    assert rows - 100 < posterior.n_rows <= rows
    assert draws.facts["complete"] is False
    assert len(draws) == QUICK.n_draws
    mean = draws.mean(draws.pool.x)
    close(mean, case.mean, draws.standard_error(draws.pool.x - mean), "mean")
    close(draws.log_evidence, case.log_evidence, draws.log_evidence_se, "log evidence", draws)


def test_time_is_kept_and_a_refusal_in_the_middle_of_a_step_does_no_harm(monkeypatch):
    case = linear(2, seed=2)
    clock = [0.0]
    monkeypatch.setattr("gbce.budget._now", lambda: clock[0])

    def slow(x):
        clock[0] += 0.05
        return case.predict(x)

    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    posterior = posterior_of(slow, case.x0, target, budget=Budget(deadline=0.4))
    draws = drawn(posterior)
    assert draws.facts["complete"] is False
    assert 100 <= posterior.n_rows <= 800
    assert clock[0] <= 0.45

    class Fickle(Budget):
        def require(self, n, load):
            if self.rows >= 500:
                raise BudgetSpentError("the clock has gone on meanwhile")
            super().require(n, load)

    posterior = linear_posterior(case, budget=Fickle())
    draws = drawn(posterior)
    assert draws.facts["complete"] is False
    assert posterior.n_rows == 500
    close(draws.log_evidence, case.log_evidence, draws.log_evidence_se, "log evidence", draws)


class Success:
    """Eta is enough when this share of the draws reaches the target."""

    least = 0.0

    def __init__(self, share):
        self.share = share

    def shortfall(self, loss, reached, weights):
        return self.share - float(weights @ reached)


@pytest.mark.parametrize("start", [1.0, 200.0])
def test_a_goal_finds_its_eta(start):
    case = linear(2, seed=2)
    posterior = linear_posterior(replace(case, eta=start), goal=Success(0.9))
    draws = drawn(posterior)
    eta = draws.rungs[-1]
    assert draws.facts["goal_met"] is True
    assert draws.facts["complete"] is True
    assert draws.ess >= 500
    pool = draws.pool
    log_weights = draws.log_base_weights - Mixture(eta, np.ones(1)).potential(pool.loss) - pool.log_correction
    np.testing.assert_allclose(np.exp(log_weights - logsumexp(log_weights)), draws.pool_weights, atol=1e-12)
    assert draws.pool_weights @ pool.reached[:, 0] == pytest.approx(0.9, abs=0.01)
    exact = replace(case, eta=eta)
    assert exact.success_probability(0.5) == pytest.approx(0.9, abs=0.05)
    close(draws.log_evidence, exact.log_evidence, draws.log_evidence_se, "log evidence", draws)
    mean_is(draws, pool.x, exact.mean, "mean")


def test_a_goal_out_of_reach_or_reached_by_the_prior():
    case = linear(2, seed=2)
    sampler = replace(QUICK, n_live=100, n_effective=200)
    never = gbce.Loss(lambda f: np.maximum(case.y - f, 0.0) + 1.0, threshold=0.5)
    draws = drawn(posterior_of(case.predict, case.x0, never, goal=Success(0.9)), sampler)
    assert draws.facts["goal_met"] is False
    assert draws.rungs[-1] > 10
    draws = drawn(linear_posterior(case, goal=Success(0.01)), sampler)
    assert draws.facts["goal_met"] is True
    assert draws.rungs[-1] == 0.0
    short = drawn(linear_posterior(case, goal=Success(0.9), budget=Budget(max_rows=400)), sampler)
    assert short.facts["complete"] is False
    json.dumps(dict(short.facts))


def test_same_seed_same_bits():
    posterior = linear_posterior(linear(2, seed=2))
    sampler = replace(QUICK, n_live=100, n_effective=200)
    first, second, other = drawn(posterior, sampler, 5), drawn(posterior, sampler, 5), drawn(posterior, sampler, 6)
    for name in ("z", "x", "loss"):
        np.testing.assert_array_equal(getattr(first.pool, name), getattr(second.pool, name))
    np.testing.assert_array_equal(first.index, second.index)
    np.testing.assert_array_equal(first.pool_weights, second.pool_weights)
    assert first.log_evidence == second.log_evidence
    assert not np.array_equal(first.pool.z[:50], other.pool.z[:50])


def test_an_explainer_takes_it():
    data = np.random.default_rng(0).normal(size=(50, 2))
    explainer = gbce.Explainer(
        curved, data, space=gbce.Space.real(2), sampler=replace(QUICK, n_live=100, n_effective=200)
    )
    explanation = explainer.explain(X0, TARGET, rules=[gbce.Mean(), gbce.MAP()], seed=0)
    assert explanation.status == "attainable"
    assert explanation.draws.facts["sampler"] == "Nested"
    assert json.dumps(dict(explanation.draws.facts))


# --- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n_live", "n_effective", "n_draws", "n_networks"])
@pytest.mark.parametrize("value", [0, 1.5, "many", True])
def test_options_are_checked(name, value):
    with pytest.raises(ValueError, match=f"Nested: {name} must be"):
        gbce.Nested(**{name: value})


def test_too_few_live_points():
    with pytest.raises(ValueError, match="n_live must be at least 50, not 49"):
        gbce.Nested(n_live=49)


def test_reuse_is_yes_or_no():
    with pytest.raises(ValueError, match="reuse must be True or False, not 'always'"):
        gbce.Nested(reuse="always")


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nautilus", None)
    with pytest.raises(ImportError, match=r"pip install 'gbce\[nested\]'"):
        drawn(linear_posterior(linear(2)))
