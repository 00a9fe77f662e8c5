"""Markov chains against closed forms, quadrature and enumeration (fixed seeds, four standard errors)."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import logsumexp, ndtr
from sklearn.ensemble import ExtraTreesRegressor

import gbce
from gbce.budget import Budget
from gbce.draws import Points
from gbce.metrics import success_probability
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import as_predictor
from gbce.samplers._chains import Chains
from gbce.samplers._importance import Importance
from gbce.samplers._moves import Kernel, Slice, StepSizes
from gbce.samplers._smc import SMC
from support.clock import Clock
from support.exact import Grid, gaussian_log_prior, linear, midpoints, tree_cells
from support.laws import close, figures_agree, small_error

START = Importance(n_candidates=20_000)
KERNELS = ["pcn", "elliptical"]
DATA = np.random.default_rng(0).normal(size=(50, 100))


def posterior_of(model, x0, target, *, eta=1.0, prior=None, space=None, **options):
    space = gbce.Space.real(len(x0)) if space is None else space
    located = (gbce.Gaussian() if prior is None else prior).at(space, np.asarray(x0, dtype=float))
    return GibbsPosterior(located, (as_predictor(model, space),), target, Mixture(eta, np.ones(1)), **options)


def posterior_linear(case, **options):
    return posterior_of(case.predict, case.x0, gbce.Value(case.y, scale=1, tolerance=0.5), eta=case.eta, **options)


def explain(sampler, model, x0, target, *, prior=None, eta=1.0, space=None, seed=3):
    space = gbce.Space.real(len(x0)) if space is None else space
    explainer = gbce.Explainer(model, DATA[:, : len(x0)], space=space, prior=prior, eta=eta, sampler=sampler)
    return explainer.explain(x0, target, rules=[], seed=seed)


def agrees(draws, values, exact, what, size=None):
    """A mean over the draws of values given for the pool is exact within its error, and the error is small."""
    got = draws.mean(values)
    se = draws.standard_error(values - got)
    close(got, exact, se, what, draws)
    small_error(se, exact if size is None else size, what)


# --- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [2, 10, 30, 100])
def test_linear_model_has_its_gaussian_posterior(d, kernel):
    case = linear(d, eta=1.5, seed=d)
    start = START if d < 100 else Importance(n_candidates=8_000)
    sampler = Chains(100, 200 if d < 100 else 60, kernel=kernel, start=start, n_draws=10_000)
    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    explanation = explain(sampler, case.predict, case.x0, target, eta=1.5)
    exact = {
        "mean": case.mean,
        "log_evidence": case.log_evidence,
        "success_probability": case.success_probability(0.5),
        "stability": case.stability,
        "importance": case.importance,
    }
    figures_agree(explanation, exact | ({"cov": case.cov} if d <= 10 else {}))
    draws = explanation.draws
    offset = draws.pool.x - case.mean
    along = offset @ case.w
    agrees(draws, along**2, case.w @ case.cov @ case.w, "variance along the gradient")
    agrees(draws, along[:, None] * offset, case.cov @ case.w, "covariances with the output")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_sharp_posterior_is_reached_through_smc(kernel):
    case = linear(10, eta=100.0, seed=1)
    sampler = Chains(
        200, {"pcn": 1200, "elliptical": 300}[kernel], kernel=kernel, start=SMC(5_000, max_looks=0), n_draws=20_000
    )
    draws = sampler.sample(posterior_linear(case), np.random.default_rng(0))
    assert len(draws.rungs) > 1
    assert draws.groups.max() == 7  # errors are those between the islands that chains started from
    before = sampler.start.sample(posterior_linear(case), np.random.default_rng(0))
    found = np.bincount(before.groups, weights=before.pool_weights)
    np.testing.assert_allclose(np.bincount(draws.groups, weights=draws.pool_weights), found, atol=0.1 * np.ptp(found))
    agrees(draws, draws.pool.x, case.mean, "mean", size=1.0)  # the posterior's own spread is one
    close(draws.log_evidence, case.log_evidence, draws.log_evidence_se, "log evidence", draws)
    small_error(draws.log_evidence_se, 2.0, "log evidence")
    agrees(draws, np.square((draws.pool.x - case.mean) @ case.w), case.w @ case.cov @ case.w, "narrow variance")


def test_other_etas_are_reweightings_of_the_same_pool():
    case = linear(3, eta=4.0, seed=2)
    draws = Chains(100, 200, start=START).sample(posterior_linear(case), np.random.default_rng(1))
    for eta in (0.0, 0.5, 2.0, 4.0):
        other, again = replace(case, eta=eta), draws.reweigh(Mixture(eta, np.ones(1)))
        agrees(again, again.pool.x, other.mean, f"mean at {eta}")
        if eta > 0:
            close(again.log_evidence, other.log_evidence, again.log_evidence_se, f"evidence at {eta}", again)
            small_error(again.log_evidence_se, 1.0, f"evidence at {eta}")
    np.testing.assert_allclose(draws.prior_change, np.sqrt(2 / np.pi), rtol=0.03)


def test_intervals_cover():
    """Of a hundred short runs, about 95 intervals hold the exact figure."""
    case = linear(2, eta=3.0)
    posterior = posterior_linear(case)
    sampler = Chains(24, 12, warmup=4, start=Importance(600), n_draws=2_000)
    held = []
    for seed in range(100):
        draws = sampler.sample(posterior, np.random.default_rng(seed))
        change, reached = np.abs(draws.pool.x - case.x0), draws.pool.reached[:, 0].astype(float)
        squares = np.square(draws.pool.x - draws.mean(draws.pool.x)).sum(axis=1)
        values = np.column_stack([change, reached, squares])
        exact = np.array([*case.importance, case.success_probability(0.5), case.stability, case.log_evidence])
        got = np.append(draws.mean(values), draws.log_evidence)
        se = np.append(draws.standard_error(values - got[:-1]), draws.log_evidence_se)
        held.append(np.abs(got - exact) < 1.96 * se)
    share = np.mean(held, axis=0)
    assert share.min() >= 0.88, share
    assert share.mean() >= 0.92, share


# --- two modes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Basins:
    """Two narrow wells in four dimensions, one on each of two axes, with 0.3 and 0.7 of the posterior."""

    at: float = 2.5
    width: float = 0.25

    def predict(self, x):
        mass = np.log([0.3, 0.7])  # the prior is the same at both
        centres = self.at * np.eye(4)[:2]
        basins = [0.5 * np.square((x - c) / self.width).sum(axis=1) - m for c, m in zip(centres, mass, strict=True)]
        return np.minimum(*basins) + mass.max()

    @property
    def posterior(self):
        return posterior_of(self.predict, np.zeros(4), gbce.Loss(lambda f: f, threshold=0.5))

    @property
    def log_evidence(self):
        v = self.width**2  # both wells together, which are too far apart to touch
        return 2 * np.log(v / (1 + v)) - 0.5 * self.at**2 / (1 + v) - np.log(0.7)


def second(x):
    """Whether points are in the well of 0.7."""
    return (x[:, 1] > x[:, 0]).astype(float)


@pytest.mark.parametrize("max_looks", [0, 6])
@pytest.mark.parametrize("kernel", KERNELS)
def test_masses_of_modes_that_no_chain_can_cross_come_from_the_start(kernel, max_looks):
    basins = Basins()
    sampler = Chains(400, 60, kernel=kernel, start=SMC(10_000, 4_000, max_looks=max_looks), n_draws=20_000)
    draws = sampler.sample(basins.posterior, np.random.default_rng(4))
    assert (len(draws.rungs) > 1) == (max_looks == 0)
    agrees(draws, second(draws.pool.x), 0.7, "mass of the second mode")
    close(draws.log_evidence, basins.log_evidence, draws.log_evidence_se, "log evidence", draws)
    first, last = draws.pool.x[-400 * 30 :][:400], draws.pool.x[-400:]
    assert (second(first) != second(last)).mean() < 0.1
    assert draws.facts["r_hat"] > 1.1  # and the chains say that they do not mix


def test_chains_stuck_in_separate_modes_are_flagged():
    draws = Chains(40, 60, start="prior").sample(Basins().posterior, np.random.default_rng(0))
    assert draws.facts["r_hat"] > 1.1
    assert draws.facts["ess_bulk"] < 400
    fine = Chains(40, 600, start="prior").sample(posterior_linear(linear(2)), np.random.default_rng(0))
    assert fine.facts["r_hat"] < 1.03
    assert fine.facts["ess_bulk"] > 400


def test_chains_from_the_prior_find_the_posterior_themselves():
    case = linear(5, eta=30.0, seed=1)
    draws = Chains(50, 500, kernel="elliptical", start="prior", warmup=100).sample(
        posterior_linear(case), np.random.default_rng(0)
    )
    agrees(draws, draws.pool.x, case.mean, "mean")
    assert draws.groups.max() == 49
    assert not draws.facts["own_evidence"]
    close(draws.log_evidence, case.log_evidence, draws.log_evidence_se, "log evidence", draws)
    np.testing.assert_allclose(draws.prior_change, np.sqrt(2 / np.pi), rtol=0.02)


# --- plateaus, other priors ------------------------------------------------------------------------------------------


def curved(x):
    return 2.0 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1]


X0 = np.array([0.2, 0.1])
Y = 2.6
TARGET = gbce.Value(Y, scale=1, tolerance=0.5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tree_ensemble_by_its_cells(kernel):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    forest = ExtraTreesRegressor(10, max_depth=5, random_state=0).fit(x, curved(x))
    cells, mass = tree_cells(forest, X0, 1.0)
    f = forest.predict(cells)
    log_weights = np.log(mass) - 3.0 * (f - Y) ** 2
    weights = np.exp(log_weights - logsumexp(log_weights))
    sampler = Chains(200, 120, kernel=kernel, start=START)
    draws = sampler.sample(posterior_of(forest, X0, TARGET, eta=3.0), np.random.default_rng(1))
    agrees(draws, (draws.pool.loss[:, 0] <= 0.25).astype(float), weights[np.abs(f - Y) <= 0.5].sum(), "success")
    agrees(draws, draws.pool.loss[:, 0], weights @ (f - Y) ** 2, "expected loss")
    close(draws.log_evidence, logsumexp(log_weights), draws.log_evidence_se, "log evidence", draws)


BOUNDED = gbce.Space(
    (gbce.Feature("x1", low=-0.8, high=1.0), gbce.Feature("x2", direction="decrease")),
)
SIDES = [midpoints(-0.8, 1.0, 500), midpoints(X0[1] - 12.0, X0[1], 1500)]


NORM = gbce.DistancePrior(lambda x, row: 2.0 * np.linalg.norm(x - row, axis=1), proposal=gbce.Gaussian(1.5))


def norm_log_prior(x):
    return -2.0 * np.linalg.norm(x - X0, axis=1)


@pytest.mark.parametrize(
    ("kernel", "prior", "log_prior"),
    [
        ("pcn", gbce.Gaussian(), gaussian_log_prior(X0, np.eye(2))),
        ("elliptical", gbce.Gaussian(), gaussian_log_prior(X0, np.eye(2))),
        ("pcn", gbce.Gaussian(cov=[[1.0, -0.7], [-0.7, 1.5]]), gaussian_log_prior(X0, [[1.0, -0.7], [-0.7, 1.5]])),
        ("elliptical", gbce.Laplace(), lambda x: -np.abs(x - X0).sum(axis=1)),
        ("pcn", NORM, norm_log_prior),
        ("elliptical", NORM, norm_log_prior),
    ],
    ids=["gaussian-pcn", "gaussian-elliptical", "correlated-pcn", "laplace-elliptical", "norm-pcn", "norm-elliptical"],
)
def test_truncation_to_bounds_and_direction(kernel, prior, log_prior):
    grid = Grid.of(SIDES, log_prior, lambda x: 3.0 * (curved(x) - Y) ** 2)
    sampler = Chains(150, 100, kernel=kernel, start=Importance(10_000), n_draws=10_000)
    explanation = explain(sampler, curved, X0, TARGET, prior=prior, space=BOUNDED, eta=3.0)
    figures_agree(
        explanation,
        {
            "mean": grid.mean(grid.x),
            "log_evidence": grid.log_evidence,
            "success_probability": grid.mean(((curved(grid.x) - Y) ** 2 <= 0.25).astype(float)),
            "stability": grid.stability,
            "importance": grid.importance(X0),
        },
    )
    np.testing.assert_allclose(explanation.importance["prior"], _prior_change(log_prior), rtol=0.03)


def _prior_change(log_prior):
    return Grid.of(SIDES, log_prior, lambda x: np.zeros(len(x))).importance(X0)


def test_distance_prior_in_chains_that_had_to_find_it():
    """States of chains from the prior's map owe the correction to the accept step alone."""
    grid = Grid.of([midpoints(c - 9, c + 9, 800) for c in X0], norm_log_prior, lambda x: (curved(x) - Y) ** 2)
    for kernel in KERNELS:
        sampler = Chains(200, 300, kernel=kernel, start="prior")
        draws = sampler.sample(posterior_of(curved, X0, TARGET, prior=NORM), np.random.default_rng(2))
        agrees(draws, draws.pool.cost, grid.mean(-norm_log_prior(grid.x)), "distance")
        agrees(draws, draws.pool.x, grid.mean(grid.x), "mean")


# --- one sweep leaves the law as it is -------------------------------------------------------------------------------


def shelf(f):
    """A loss with a slope, a cliff and a shelf."""
    return np.where(f > 0.4, 0.3, 1.2 * np.abs(f + 0.5)) + np.where(f > 1.5, 2.0, 0.0)


GRID = Grid.of([midpoints(-8, 8, 40_000)], gaussian_log_prior([0.0], [[1.0]]), lambda x: 2.0 * shelf(x[:, 0]))


def one_dimensional(n, rng):
    """A posterior on the line, its minus log density against the latent law, and exact draws from it."""
    posterior = posterior_of(lambda x: x[:, 0], np.zeros(1), gbce.Loss(shelf, threshold=0.5), eta=2.0)

    def u(points):
        return posterior.mixture.potential(points.loss) + points.log_correction

    z = np.interp(rng.random(n), np.cumsum(GRID.weights), GRID.x[:, 0])
    return posterior, u, Points.evaluate(posterior, z[:, None])


def moments(x):
    return np.column_stack([x, x**2, np.abs(x + 0.5), x > 0.4, x > 1.5, x < -1.0]).astype(float)


@pytest.mark.parametrize("make", [Kernel, Slice, lambda p, u: Slice(p, u, 1), lambda p, u: Slice(p, u, 2)],
                         ids=["pcn", "slice", "slice-1", "slice-2"])  # fmt: skip
def test_one_sweep_leaves_exact_draws_exact(make):
    rng = np.random.default_rng(5)
    n = 400_000
    posterior, u, before = one_dimensional(n, rng)
    after, steps = make(posterior, u).sweep(rng, before, StepSizes(plain=0.7))
    moved = (after.z != before.z).mean()
    assert moved > 0.3
    assert steps.acceptance == pytest.approx(moved, abs=1e-9)
    values = moments(after.z[:, 0])
    close(values.mean(axis=0), GRID.mean(moments(GRID.x[:, 0])), values.std(axis=0) / np.sqrt(n), "law")
    # and what comes and goes balances: the joint law of before and after is symmetric
    flow = (before.z[:, 0] > 0.4) * (after.z[:, 0] < -0.5) * 1.0 - (after.z[:, 0] > 0.4) * (before.z[:, 0] < -0.5)
    close(flow.mean(), 0.0, flow.std() / np.sqrt(n), "balance")
    np.testing.assert_array_equal(after.loss[:, 0], shelf(after.z[:, 0]))


def test_slices_forget_where_they_started():
    rng = np.random.default_rng(6)
    n = 20_000
    posterior, u, _ = one_dimensional(n, rng)
    points, steps = Points.evaluate(posterior, np.full((n, 1), 2.5)), StepSizes()
    for _ in range(25):
        points, steps = Slice(posterior, u).sweep(rng, points, steps)
    values = moments(points.z[:, 0])
    close(values.mean(axis=0), GRID.mean(moments(GRID.x[:, 0])), values.std(axis=0) / np.sqrt(n), "law")
    assert steps.acceptance == 1.0


def test_slices_ask_only_about_chains_that_are_still_looking():
    rng = np.random.default_rng(7)
    posterior, u, points = one_dimensional(1000, rng)
    before = posterior.n_rows, posterior.n_calls
    Slice(posterior, u).sweep(rng, points, StepSizes())
    calls = posterior.n_calls - before[1]
    assert calls > 4
    assert posterior.n_rows - before[0] < 3 * len(points)


# --- what is impossible, flat or open --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_infinite_losses_are_never_entered(kernel):
    def loss(f):
        return np.where(np.abs(f - 1.5) < 0.5, np.abs(f - 1.5), np.inf)

    posterior = posterior_of(lambda x: x[:, 0], np.zeros(2), gbce.Loss(loss, threshold=0.2))
    grid = Grid.of([midpoints(1, 2, 2000)], gaussian_log_prior([0.0], [[1.0]]), lambda x: np.abs(x[:, 0] - 1.5))
    for start in (START, "prior"):
        draws = Chains(100, 200, kernel=kernel, start=start).sample(posterior, np.random.default_rng(3))
        assert np.isfinite(draws.loss).all()
        agrees(draws, draws.pool.x[:, 0], grid.mean(grid.x[:, 0]), "mean")
        assert np.isfinite([draws.facts["r_hat"], draws.facts["ess_bulk"], draws.facts["ess_tail"]]).all()
    inside = ndtr(2.0) - ndtr(1.0)
    close(draws.log_evidence, np.log(inside) + grid.log_evidence, draws.log_evidence_se, "log evidence", draws)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_plateau_everywhere_is_the_prior(kernel):
    posterior = posterior_of(lambda x: x[:, 0], np.zeros(3), gbce.Loss(np.zeros_like, threshold=0.5))
    draws = Chains(20, 100, kernel=kernel, start=START).sample(posterior, np.random.default_rng(0))
    assert draws.log_evidence == pytest.approx(0.0, abs=1e-12)
    assert draws.facts["acceptance"] == 1.0
    assert 0.9 < draws.facts["r_hat"] < 1.1
    agrees(draws, np.square(draws.pool.x), np.ones(3), "variance")


@dataclass(frozen=True)
class Success:
    share: float
    least: float = 0.0

    def shortfall(self, loss, reached, weights):
        return self.share - float(weights @ reached)


@pytest.mark.parametrize("start", [None, START, "prior"], ids=["smc", "importance", "prior"])
def test_an_open_eta_is_settled_by_the_start(start):
    case = linear(2)
    posterior = posterior_linear(case, goal=Success(0.7))
    draws = Chains(100, 200, start=start).sample(posterior, np.random.default_rng(0))
    eta = draws.rungs[-1]
    assert eta > 0.5
    assert draws.facts["goal_met"]
    figure = success_probability(draws, draws.pool.reached[:, 0])
    close(figure.value, replace(case, eta=eta).success_probability(0.5), figure.se, "success")
    agrees(draws, draws.pool.x, replace(case, eta=eta).mean, "mean")


# --- bits, budget, options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_same_seed_same_bits(kernel):
    sampler = Chains(20, 30, kernel=kernel, start=Importance(500), n_draws=100)
    posterior = posterior_linear(linear(3))
    one, two, other = (sampler.sample(posterior, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.pool_weights, two.pool_weights)
    assert one.facts == two.facts
    assert not np.array_equal(one.x, other.x)


def test_facts_are_plain_data():
    facts = Chains(20, 50, start=Importance(500)).sample(posterior_linear(linear(3)), np.random.default_rng(1)).facts
    assert json.loads(json.dumps(facts)) == dict(facts)
    assert facts["sampler"] == "Chains"
    assert (facts["n_chains"], facts["n_steps"], facts["complete"]) == (20, 50, True)


def test_step_is_adapted_to_a_quarter_and_then_fixed(monkeypatch):
    seen = []
    sweep = Kernel.sweep

    def watched(self, rng, points, steps):
        seen.append(steps.plain)
        return sweep(self, rng, points, steps)

    monkeypatch.setattr(Kernel, "sweep", watched)
    case = linear(5, eta=100.0)
    start = Importance(20_000)
    facts = Chains(100, 80, warmup=50, start=start).sample(posterior_linear(case), np.random.default_rng(0)).facts
    assert len(set(seen[:50])) > 30
    assert set(seen[50:]) == {facts["step"]}
    assert facts["acceptance"] == pytest.approx(0.25, abs=0.05)


def test_pool_is_thinned_evenly():
    posterior = posterior_linear(linear(2))
    draws = Chains(400, 201, warmup=1, start=Importance(1000)).sample(posterior, np.random.default_rng(0))
    assert len(draws.pool) == 1000 + 20_000
    assert draws.facts["n_steps"] == 201


def far(d):
    """A linear model whose target is four and a half prior deviations away, so that the start is tempered."""
    case = linear(d, eta=10.0, seed=d)
    return replace(case, y=float(case.w @ case.x0 + case.b + 4.5))


def test_draws_come_from_all_chains():
    """States lie in the pool step by step: a comb of 800 teeth over 200 chains would meet the same 32 at every step."""
    sampler = Chains(200, 50, start=SMC(4_000, 800), n_draws=800)
    draws = sampler.sample(posterior_linear(far(2)), np.random.default_rng(0))
    n_start = len(draws.pool) - 200 * 25
    states = draws.index[draws.index >= n_start] - n_start
    assert len(states) > 780
    assert len(np.unique(states % 200)) > 180


def test_intervals_of_short_chains_cover():
    """Of sixty runs from a tempered start, about 57 intervals hold the exact figure."""
    case = far(2)
    posterior, sampler = posterior_linear(case), Chains(200, 50, start=SMC(2_000, 400), n_draws=800)
    held = []
    for seed in range(60):
        draws = sampler.sample(posterior, np.random.default_rng(seed))
        values = np.column_stack([draws.pool.reached[:, 0], np.abs(draws.pool.x - case.x0)])
        got = draws.mean(values)
        exact = np.append(case.success_probability(0.5), case.importance)
        held.append(np.abs(got - exact) <= 1.96 * draws.standard_error(values - got))
    assert np.mean(held, axis=0).min() >= 0.85  # of 60 at 0.95, fewer than 51 are seen once in three hundred


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows", [2_500, 1_100, 100, 30])
def test_budget_of_rows(kernel, rows):
    posterior = posterior_linear(linear(2), budget=Budget(max_rows=rows))
    sampler = Chains(20, 100, warmup=10, kernel=kernel, start=Importance(1000))
    draws = sampler.sample(posterior, np.random.default_rng(0))
    assert rows - 20 < posterior.n_rows <= rows
    assert not draws.facts["complete"]
    done = draws.facts["n_steps"]
    assert done < 100
    assert len(draws.pool) == min(1000, rows // 2) + 20 * max(done - 10, 0)  # without kept steps, the start's draws
    assert len(draws) == 2000
    assert ("r_hat" in draws.facts) == (done >= 14)


def test_budget_of_time_and_of_chains_from_the_prior(monkeypatch):
    clock, case = Clock(), linear(2)
    monkeypatch.setattr("gbce.budget._now", clock)
    model, target = clock.slowed(case.predict, per_call=1e-3), gbce.Value(case.y, scale=1, tolerance=0.5)
    posterior = posterior_of(model, case.x0, target, eta=case.eta, budget=Budget(deadline=clock.time + 0.5))
    draws = Chains(20, 100_000, start="prior").sample(posterior, np.random.default_rng(0))
    assert not draws.facts["complete"]
    assert clock.passed < 0.6
    short = posterior_linear(linear(2), budget=Budget(max_rows=10))
    assert not Chains(20, 100, start="prior").sample(short, np.random.default_rng(0)).facts["complete"]


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"n_chains": 3}, ValueError, "n_chains must be at least 4, not 3"),
        ({"n_chains": 10.5}, ValueError, "n_chains must be an integer"),
        ({"n_steps": 9}, ValueError, "n_steps must be at least 10, not 9"),
        ({"n_draws": 0}, ValueError, "n_draws must be an integer"),
        ({"kernel": "hmc"}, ValueError, "kernel must be one of"),
        ({"warmup": 197}, ValueError, "warmup must be an integer from 0 to 196"),
        ({"warmup": True}, ValueError, "warmup must be an integer"),
        ({"start": "smc"}, TypeError, 'start must be a sampler such as SMC\\(\\) or the string "prior"'),
        ({"start": SMC}, TypeError, "start must be a sampler"),
    ],
)
def test_bad_options_are_refused_with_a_sentence(options, error, sentence):
    with pytest.raises(error, match=f"Chains: {sentence}"):
        Chains(**options)
