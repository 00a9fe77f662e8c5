"""SMC with next to nothing to draw, and with losses that are infinite or flat, with and without a search."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import gbce
from support.laws import close
from support.tempering import (
    SMALL_WAYS,
    WAYS,
    agrees,
    as_loss,
    evidence_agrees,
    hard,
    posterior_linear,
    posterior_of,
    sampled,
    went,
)


def on_the_way(sampler, way):
    return replace(sampler, max_looks=0) if way == "tempered" else sampler


@pytest.mark.parametrize(
    "sampler",
    [
        gbce.SMC(4_000, 1_003),
        gbce.SMC(4_001, 1_000, n_islands=7),
        gbce.SMC(4_000, 50),
        gbce.SMC(300, 1_000),
        gbce.SMC(4_000, 1_000, n_islands=2),
        gbce.SMC(4_000, 1_000, max_sweeps=5),
    ],
    ids=lambda sampler: f"{sampler.n_candidates}-{sampler.n_draws}-{sampler.n_islands}-{sampler.max_sweeps}",
)
@pytest.mark.parametrize("way", WAYS)
def test_odd_sizes(sampler, way):
    case = hard(2)
    draws = sampled(on_the_way(sampler, way), posterior_linear(case))
    assert len(draws) == sampler.n_draws
    assert went(draws, way)
    assert draws.rungs[-1] == case.eta
    assert draws.facts["complete"]
    assert draws.groups is None or np.bincount(draws.groups).min() > 0
    assert draws.pool_weights.sum() == pytest.approx(1.0)
    close(draws.log_evidence, case.log_evidence, draws.log_evidence_se, "log evidence", draws)
    got = draws.mean(draws.pool.x)
    close(got, case.mean, draws.standard_error(draws.pool.x - got), "mean", draws)


@pytest.mark.parametrize(
    "sampler",
    [
        gbce.SMC(1, 1),
        gbce.SMC(1, 1_000),
        gbce.SMC(20, 7),
        gbce.SMC(20, 1_000),
        gbce.SMC(4_000, 1),
        gbce.SMC(4_000, 1_000, max_sweeps=1),
        gbce.SMC(4, 1_000),
    ],
    ids=lambda sampler: f"{sampler.n_candidates}-{sampler.n_draws}",
)
@pytest.mark.parametrize("way", WAYS)
def test_next_to_nothing_is_answered_too(sampler, way):
    draws = sampled(on_the_way(sampler, way), posterior_linear(hard(2)))
    assert len(draws) == sampler.n_draws
    assert np.isfinite(draws.log_evidence)


def beyond(wall):
    """A loss that grows from a wall on, and is infinite before it."""
    return gbce.Loss(lambda f: np.where(f > wall, f - wall, np.inf), threshold=0.1)


@pytest.mark.parametrize(
    ("wall", "sampler", "way"),
    [
        (1.0, WAYS["tempered"], "tempered"),
        (3.3, gbce.SMC(20_000, max_looks=0), "tempered"),
        (1.0, WAYS["searched"], "searched"),
        (3.3, gbce.SMC(), "searched"),
        (4.5, gbce.SMC(), "searched"),  # where no candidate has a finite loss
    ],
)
def test_a_loss_that_is_infinite_outside_a_region(wall, sampler, way):
    """The posterior is a normal law, tilted and cut off."""
    slope = 8.0
    draws = sampled(sampler, posterior_of(lambda x: x[:, 0], np.zeros(2), beyond(wall), slope))
    assert went(draws, way)  # not by candidates of the prior alone
    tail = norm.logsf(wall + slope)
    evidence_agrees(draws, tail + slope * wall + 0.5 * slope**2, least=0.5)
    mean = -slope + np.exp(norm.logpdf(wall + slope) - tail)
    agrees(draws, draws.pool.x[:, 0], mean, "mean")
    assert (draws.x[:, 0] > wall).all()


def test_a_loss_that_is_infinite_everywhere_is_told():
    posterior = posterior_of(lambda x: x[:, 0], np.zeros(2), beyond(np.inf), 1.0)
    for sampler in SMALL_WAYS.values():
        with pytest.raises(ValueError, match="the loss or the distance is infinite everywhere"):
            sampled(sampler, posterior)
    data = np.random.default_rng(0).normal(size=(50, 2))  # whose rows are no starts either
    explainer = gbce.Explainer(lambda x: x[:, 0], data, sampler=gbce.SMC(200), eta=1.0)
    with pytest.raises(ValueError, match="the loss or the distance is infinite everywhere"):
        explainer.explain(data[0], beyond(np.inf), rules=[], seed=0)


@pytest.mark.parametrize("goal", [None, gbce.SuccessProbability(0.5)])
@pytest.mark.parametrize("way", SMALL_WAYS)
def test_infinite_losses_at_eta_zero(goal, way):
    """With a goal the search begins at zero, too."""
    draws = sampled(SMALL_WAYS[way], posterior_of(lambda x: x[:, 0], np.zeros(2), beyond(1.0), 0.0, goal=goal))
    assert draws.rungs[-1] == 0.0 or goal is not None
    assert np.isfinite(draws.log_evidence)


@pytest.mark.parametrize("eta", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("way", SMALL_WAYS)
def test_a_plateau_is_the_prior(eta, way):
    posterior = posterior_of(lambda x: 0 * x[:, 0], np.zeros(3), gbce.Value(0, scale=1, tolerance=0.1), eta)
    draws = sampled(SMALL_WAYS[way], posterior)
    assert draws.log_evidence == pytest.approx(0.0, abs=1e-9)
    assert draws.rungs == (eta,)
    agrees(draws, draws.pool.x, np.zeros(3), "mean", size=1.0)


@pytest.mark.parametrize("way", WAYS)
def test_a_plateau_beside_a_step(way):
    """A constant loss but for one corner of the prior: moves and searches must find their way on the flat."""
    cut, eta = 0.8, 7.0
    posterior = posterior_of(lambda x: np.where((x > cut).all(axis=1), 0.0, 1.0), np.zeros(3), as_loss(0.5), eta)
    draws = sampled(WAYS[way], posterior)
    assert went(draws, way)
    corner = norm.sf(cut) ** 3
    evidence_agrees(draws, np.log(corner + (1 - corner) * np.exp(-eta)))
    share = 1 / (1 + (1 / corner - 1) * np.exp(-eta))
    agrees(draws, draws.pool.reached[:, 0].astype(float), share, "success")
    inside, outside = norm.pdf(cut) / norm.sf(cut), -norm.pdf(cut) * norm.sf(cut) ** 2 / (1 - corner)
    agrees(draws, draws.pool.x, np.full(3, share * inside + (1 - share) * outside), "mean")


@pytest.mark.parametrize("way", SMALL_WAYS)
def test_eta_zero_is_the_prior(way):
    case = hard(3, eta=0.0)
    draws = sampled(SMALL_WAYS[way], posterior_linear(case))
    assert draws.rungs == (0.0,)
    assert draws.log_evidence == 0.0
    agrees(draws, draws.pool.x, case.x0, "mean", size=1.0)
