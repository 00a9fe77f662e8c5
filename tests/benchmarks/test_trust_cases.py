"""The exact answers of benchmarks/trust.py against other ways to compute them, and how it judges a run."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import laplace as laplace_law
from scipy.stats import multivariate_normal, norm, truncnorm

import gbce
from benchmarks import _trust_runs, trust
from benchmarks._exact import value
from benchmarks._exact_grids import combined
from benchmarks._exact_mixtures import Bumps, LinearModels, LongBumps, Ridge
from benchmarks._exact_tables import table, tree, trees_of
from benchmarks._exact_trees import boxes_of, laplace, last_below, normal, spiked, truncated
from benchmarks._trust_cases import hand
from benchmarks._trust_generated import generated
from gbce.base import Outputs
from support.exact import linear

LOW = np.array([-np.inf, -1.0, 0.5, 5.0, -7.0, -0.3, -np.inf])
HIGH = np.array([1.0, np.inf, 0.6, np.inf, -6.5, 2.0, np.inf])


def test_a_normal_law_inside_limits():
    found = normal(LOW, HIGH)
    np.testing.assert_allclose(found.mean, truncnorm.mean(LOW, HIGH), atol=1e-12)
    np.testing.assert_allclose(found.square, truncnorm.var(LOW, HIGH) + truncnorm.mean(LOW, HIGH) ** 2, rtol=1e-9)
    size = [quad(lambda t: abs(t) * norm.pdf(t), a, b)[0] for a, b in zip(LOW, HIGH, strict=True)]
    np.testing.assert_allclose(found.size * np.exp(found.log_mass), size, rtol=1e-6)
    far = normal(np.array([38.0]), np.array([np.inf]))
    np.testing.assert_allclose([far.log_mass[0], far.mean[0]], [norm.logsf(38.0), 38.0263], rtol=1e-5)


@pytest.mark.parametrize(("law", "density"), [(normal, norm.pdf), (laplace, laplace_law.pdf)])
def test_laws_are_the_integrals_of_their_densities(law, density):
    inside = truncated(law, -2.0, 3.0)
    whole = quad(density, -2.0, 3.0)[0]
    low, high = np.array([-4.0, -0.7, 1.0]), np.array([-1.0, 0.4, 9.0])
    found = inside(low, high)
    for i, (a, b) in enumerate(zip(np.maximum(low, -2.0), np.minimum(high, 3.0), strict=True)):
        mass = quad(density, a, b)[0]
        moments = [quad(lambda t, g=g: g(t) * density(t), a, b)[0] / mass for g in (float, np.square, abs)]
        np.testing.assert_allclose(
            [found.log_mass[i], found.mean[i], found.square[i], found.size[i]],
            [np.log(mass / whole), *moments], rtol=1e-6,
        )  # fmt: skip


def test_a_spike_belongs_to_the_interval_that_holds_zero():
    law = spiked(normal, 0.3)
    found = law(np.array([-np.inf, 0.5, -1.0]), np.array([0.5, np.inf, 1.0]))
    inner = norm.cdf(1.0) - norm.cdf(-1.0)
    mass = [0.7 + 0.3 * norm.cdf(0.5), 0.3 * norm.sf(0.5), 0.7 + 0.3 * inner]
    np.testing.assert_allclose(np.exp(found.log_mass), mass)
    np.testing.assert_allclose(found.size[2], 0.3 * inner * normal(-np.ones(1), np.ones(1)).size[0] / mass[2])


def test_boxes_are_a_partition_with_the_model_constant_on_each():
    data = table("wine")
    model = tree(data, 4)
    boxes = boxes_of([model, tree(data, 3, seed=2)], data.x.shape[1])
    rows = data.x[:60]
    held = ((rows[:, None] > boxes.low) & (rows[:, None] <= boxes.high)).all(axis=2)
    assert (held.sum(axis=1) == 1).all()
    inside = model.predict(boxes.points(data.x.std(axis=0)))
    np.testing.assert_array_equal(inside[held.argmax(axis=1)], model.predict(rows))


@pytest.mark.parametrize("threshold", [0.1, 4.600149869918823, 199.0, -1.5, 1 / 3])
def test_limits_of_boxes_are_where_single_precision_crosses_a_threshold(threshold):
    at = last_below(threshold)
    below, above = np.nextafter(at, -np.inf), np.nextafter(at, np.inf)
    assert float(np.float32(below)) <= threshold < float(np.float32(above))


def test_round_bumps_are_long_ones_of_equal_widths():
    centre, width, height = np.array([[3.0, 0, 0], [0, -3.2, 0]]), np.array([0.2, 0.25]), np.array([0.0, 1.0])
    one = Bumps(centre, width, height, 1.5).truth()
    other = LongBumps(centre, np.square(width)[:, None, None] * np.eye(3), height, 1.5).truth()
    assert other.success_probability == pytest.approx(one.success_probability, abs=1e-6)
    for name in ("log_evidence", "stability", "importance", "expected_loss", "loss_sd"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-9)


def test_the_known_figures_are_met():
    known = {
        "tree: diabetes, row 358": (-31.32, 0.999),
        "step: flat bulk, far step": (-12.59, 0.9999),
        "models: 3, all": (-14.01, None),
    }
    for name, (log_evidence, success) in known.items():
        truth = trust.case_of(name).truth
        assert truth.log_evidence == pytest.approx(log_evidence, abs=0.01)
        assert success is None or truth.success_probability == pytest.approx(success, abs=1e-4)
    assert trust.case_of("models: 3, all").truth.importance[0] == pytest.approx(2.158, abs=1e-3)
    modes = Bumps(np.diag([3.0, -3.1, 3.3, 4.0, 0, 0])[:4], np.full(4, 0.3), np.zeros(4), 3.0).normals().weights()
    np.testing.assert_allclose(modes, [0.45, 0.34, 0.19, 0.018], atol=0.006)


@pytest.mark.parametrize("d", [2, 12])
def test_a_ridge_without_a_link_is_the_closed_form(d):
    other = linear(d, eta=3.0, seed=d)
    found = Ridge(other.w, other.x0, value(other.y - other.b), 3.0).truth()
    assert found.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    assert found.success_probability == pytest.approx(other.success_probability(0.5), abs=1e-4)
    assert found.stability == pytest.approx(other.stability, abs=1e-6)
    assert found.tail == pytest.approx(other.tail(0.1), rel=1e-3)
    np.testing.assert_allclose(found.importance, other.importance, atol=1e-6)
    one = LinearModels(other.w[None], np.array([other.b]), other.x0, value(other.y), 3.0, "any").truth()
    two = LinearModels(np.stack([other.w] * 2), np.full(2, other.b), other.x0, value(other.y), 3.0, "average").truth()
    for truth in (one, two):
        assert truth.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)
        assert truth.expected_loss == pytest.approx(found.expected_loss, rel=1e-5)
        assert truth.loss_sd == pytest.approx(found.loss_sd, rel=1e-5)
        np.testing.assert_allclose(truth.importance, other.importance, atol=1e-9)


def agrees(case, x, log_weights, n_errors=4.5):
    """Whether weighted points in units of one give the exact figures within their errors."""
    ask = getattr(case.model, "predict", case.model)
    outputs = Outputs(np.asarray(ask(x), dtype=float))
    reading = case.target.read(outputs)
    log_weights = log_weights - case.eta * reading.loss
    weights = np.exp(log_weights - logsumexp(log_weights))
    ess, truth, row = 1 / np.square(weights).sum(), case.truth, case.row
    assert ess > 100  # so that their error is known to a tenth or so
    error = abs(logsumexp(log_weights) - np.log(len(x)) - truth.log_evidence)
    assert error < n_errors * np.sqrt(1 / ess - 1 / len(x)) + 1e-6
    values = np.column_stack([reading.reached, reading.loss, np.abs(x - row)])
    mean = weights @ values
    exact = np.array([truth.success_probability, truth.expected_loss, *truth.importance])
    sd = np.array([0.5, truth.loss_sd, *truth.importance_sd])
    assert (np.abs(mean - exact) < n_errors * sd / np.sqrt(ess) + 1e-9).all()
    u = x / case.space.scale
    spread = np.square(u - weights @ u).sum(axis=1)
    stability = weights @ spread
    assert abs(stability - truth.stability) < n_errors * np.sqrt(np.square(weights) @ np.square(spread - stability))


BUMPS = [name for name in trust.cases() if "bumps" in name]


@pytest.mark.parametrize("name", BUMPS)
def test_bumps_by_importance_sampling(name):
    """Draws come from laws around the bumps, wider than the posterior's own."""
    case, rng, n = trust.case_of(name), np.random.default_rng(1), 20_000
    normals = case.model.__self__.normals()
    which = rng.choice(len(normals.mean), n, p=0.5 * normals.weights() + 0.5 / len(normals.mean))
    cov = 1.3**2 * normals.cov
    noise = rng.normal(size=(n, case.n_columns))
    x = normals.mean[which] + np.einsum("nij,nj->ni", np.linalg.cholesky(cov)[which], noise)
    share = 0.5 * normals.weights() + 0.5 / len(normals.mean)
    laws = [multivariate_normal(m, c).logpdf(x) + np.log(p) for m, c, p in zip(normals.mean, cov, share, strict=True)]
    agrees(case, x, norm.logpdf(x).sum(axis=1) - logsumexp(laws, axis=0))


RIDGES = [name for name in trust.cases() if "ridge" in name or name.startswith(("linear:", "wave"))]


@pytest.mark.parametrize("name", RIDGES)
def test_ridges_by_importance_sampling(name):
    """Draws are those of the prior across the model's weights, and spread evenly along them."""
    # the narrowest ridge leaves an effective size of 430 with an SD of 20 between seeds, far from the least of 200
    case, rng, n = trust.case_of(name), np.random.default_rng(2), 200_000
    ridge = case.model.__self__
    along = ridge.w / np.linalg.norm(ridge.w)
    v, u = rng.uniform(-12.0, 12.0, n), rng.normal(size=(n, case.n_columns))
    x = ridge.row + ridge.sigma * (u - np.outer(u @ along, along) + np.outer(v, along))
    agrees(case, x, norm.logpdf(v) + np.log(24.0))


HARD_TREES = ["tree: diabetes, row 358", "tree: breast cancer, depth 8", "generated tree of a random table 8"]


@pytest.mark.parametrize("name", HARD_TREES)
def test_rare_leaves_by_importance_sampling(name):
    """Draws come from the boxes of most weight and from the prior, with scipy's truncated laws as densities."""
    case, rng, n = trust.case_of(name), np.random.default_rng(3), 20_000
    assert isinstance(case.prior, gbce.Gaussian)
    assert case.space.features[0].low is None, "no bounds"
    sd = case.prior.sigma * case.space.scale
    boxes = boxes_of(trees_of(case.model), case.n_columns)
    low, high = (boxes.low - case.row) / sd, (boxes.high - case.row) / sd
    log_mass = normal(low, high).log_mass.sum(axis=1)
    assert logsumexp(log_mass) == pytest.approx(0.0, abs=1e-9)
    loss = case.target.read(Outputs(case.model.predict(boxes.points(case.space.scale)))).loss
    best = np.argsort(case.eta * loss - log_mass)[:60]
    share = np.exp(0.7 * (log_mass - case.eta * loss)[best])
    share = share / share.sum() + 1e-4
    share = 0.9 * share / share.sum()
    which = rng.choice(len(best) + 1, n, p=[*share, 1 - share.sum()])
    t = rng.normal(size=(n, case.n_columns))
    for k, box in enumerate(best):
        own = which == k
        t[own] = truncnorm.rvs(low[box], high[box], size=(own.sum(), case.n_columns), random_state=rng)
    log_density = [np.log(1 - share.sum()) + norm.logpdf(t).sum(axis=1)]
    for k, box in enumerate(best):
        inside = ((t > low[box]) & (t <= high[box])).all(axis=1)
        one = np.full(n, -np.inf)
        one[inside] = truncnorm.logpdf(t[inside], low[box], high[box]).sum(axis=1) + np.log(share[k])
        log_density.append(one)
    agrees(case, case.row + sd * t, norm.logpdf(t).sum(axis=1) - logsumexp(log_density, axis=0))


EASY = ["tree: diabetes, Laplace", "tree: diabetes, sparse", "tree: wine, bounds", "cells: forest of 8 in 2-D"]


@pytest.mark.parametrize("name", EASY)
def test_easy_cases_by_draws_of_the_prior(name):
    case = trust.case_of(name)
    z = np.random.default_rng(4).normal(size=(60_000, case.n_columns))
    agrees(case, case.prior.at(case.space, case.row).place(z).x, np.zeros(len(z)))


def test_several_models_are_combined_as_the_page_of_the_method_says():
    losses = np.array([[1.0, 3.0]])
    assert combined(losses, 2.0, "all")[0] == 6.0
    assert combined(losses, 2.0, "average")[0] == 4.0
    assert combined(losses, 2.0, "any")[0] == pytest.approx(-np.log(0.5 * np.exp(-2.0) + 0.5 * np.exp(-6.0)))


def test_there_are_enough_cases_and_half_of_them_are_generated():
    n_hand, n_generated = len(hand()), len(generated())
    assert n_hand >= 36
    assert n_generated >= n_hand
    assert (n_hand + n_generated) * trust.SEEDS >= 600


def test_generated_cases_are_the_same_again():
    name = "generated few trees 2"
    assert generated()[name]().truth.log_evidence == generated()[name]().truth.log_evidence


@pytest.mark.parametrize(
    ("value", "se", "exact", "least", "wrong"),
    [(0.0, 0.0, 0.999, 1e-3, True), (1.0, 0.0, 0.999, 1e-3, False), (0.5, 0.02, 0.55, 1e-3, False),
     (np.nan, 0.1, 0.5, 1e-3, True), (0.5, 0.02, 0.7, 1e-3, True)],
)  # fmt: skip
def test_a_share_is_wrong_only_by_what_its_draws_could_have_seen(value, se, exact, least, wrong):
    figure = _trust_runs.Figure("success_probability", value, se, exact, least)
    assert (abs(figure.z(strict=False)) > trust.FALSE) == wrong


def test_coverage_takes_the_printed_error_where_it_was_measured():
    assert _trust_runs.Figure("importance", 1.0, 0.1, 1.3, 0.2).z(strict=True) == pytest.approx(-3.0)
    assert _trust_runs.Figure("importance", 1.0, 0.1, 1.3, 0.2).z(strict=False) == pytest.approx(-1.5)
    assert _trust_runs.Figure("importance", 0.0, 0.0, 0.1, 0.2).z(strict=True) == pytest.approx(-0.5)


def test_a_run_is_a_line_and_a_failing_one_too(monkeypatch):
    line = _trust_runs.run("linear: 2-D, eta 0.1", 0)
    assert line["verdict"] == "trustworthy"
    assert line["worst_z"] < 5
    monkeypatch.setattr(_trust_runs, "case_of", lambda name: 1 / 0)
    failed = _trust_runs.run("linear: 2-D, eta 0.1", 1)
    assert failed["verdict"] == "failed"
    runs = pd.DataFrame([line, failed])
    assert "1 failed" in trust.table_of(runs)
    assert "false trust in 0 of 1" in trust.summary_of(runs)
