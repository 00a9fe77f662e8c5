"""SMC against closed forms: Gaussian posteriors, two modes, coverage (fixed seeds, four standard errors).

Both ways to a law are tried: tempering from the prior, and draws around what a search has found.
"""

from dataclasses import replace

import numpy as np
import pytest

import gbce
from gbce.posterior import Mixture
from support.exact import Grid, gaussian_log_prior, linear, midpoints
from support.laws import figures_agree
from support.tempering import (
    SEARCHING,
    SMALL,
    SMALL_WAYS,
    TOLERANCE,
    WAYS,
    Basins,
    Far,
    agrees,
    as_loss,
    evidence_agrees,
    explain,
    hard,
    posterior_linear,
    posterior_of,
    sampled,
    value_of,
    went,
)

# --- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 10, 30, 100])
@pytest.mark.parametrize("way", WAYS)
def test_linear_model_has_its_gaussian_posterior(d, way):
    case = hard(d)
    sampler = WAYS[way] if d < 100 else replace(WAYS[way], n_islands=16)
    explanation = explain(case.predict, case.x0, value_of(case), eta=case.eta, sampler=sampler)
    exact = {
        "mean": case.mean,
        "log_evidence": case.log_evidence,
        "success_probability": case.success_probability(TOLERANCE),
        "tail": case.tail(0.1),
        "stability": case.stability,
        "importance": case.importance,
    }
    figures_agree(explanation, exact | ({"cov": case.cov} if d <= 10 else {}))
    draws = explanation.draws
    assert went(draws, way)
    assert len(draws.rungs) > 3 or way == "searched"
    evidence_agrees(draws, case.log_evidence)
    offset = draws.pool.x - case.mean
    along = offset @ case.w
    narrow = case.w @ case.cov @ case.w
    agrees(draws, np.square(offset), np.diag(case.cov), "variances", size=1.0)
    agrees(draws, along[:, None] * offset / np.sqrt(narrow), case.cov @ case.w / np.sqrt(narrow), "with the output")
    agrees(draws, along**2 / narrow, 1.0, "variance along the gradient")


@pytest.mark.parametrize("way", WAYS)
def test_other_etas_are_reweightings_of_the_same_pool(way):
    case = hard(3)
    draws = sampled(WAYS[way], posterior_linear(case))
    assert went(draws, way)
    for eta in (0.0, 0.1, 1.0, 5.0, 19.0, 20.0):
        other, again = replace(case, eta=eta), draws.reweigh(Mixture(eta, np.ones(1)))
        agrees(again, again.pool.x, other.mean, f"mean at {eta}", size=1.0)
        reached = again.pool.reached[:, 0].astype(float)
        if eta > 0:
            evidence_agrees(again, other.log_evidence)
            agrees(again, reached, other.success_probability(TOLERANCE), f"success at {eta}")
        assert again.rungs[-1] == eta
    np.testing.assert_allclose(draws.prior_change, np.sqrt(2 / np.pi), rtol=0.02)


@pytest.mark.parametrize("max_looks", [0, 6])
def test_one_rung_is_algorithm_one_to_the_last_bit(max_looks):
    posterior = posterior_linear(linear(3))
    ours, plain = sampled(gbce.SMC(4_000, max_looks=max_looks), posterior), sampled(gbce.Importance(4_000), posterior)
    assert ours.rungs == plain.rungs == (1.0,)
    assert ours.groups is None
    assert (ours.facts.get("sites") is None) == (max_looks == 0)  # searches found nothing that candidates miss
    names = ("pool_weights", "log_base_weights", "prior_change")
    # a search has had its share of the generator, so that other draws are picked
    for name in names if max_looks else (*names, "weights", "index", "x"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(plain, name), err_msg=name)
    assert (ours.log_evidence, ours.log_evidence_se) == (plain.log_evidence, plain.log_evidence_se)


@pytest.mark.parametrize("hardness", ["easy", "hard"])
@pytest.mark.parametrize("way", SMALL_WAYS)
def test_the_same_seed_gives_the_same_bits(hardness, way):
    posterior = posterior_linear(hard(3) if hardness == "hard" else linear(3))
    one, again, other = (sampled(SMALL_WAYS[way], posterior, seed) for seed in (1, 1, 2))
    assert went(one, way) == (hardness == "hard")
    np.testing.assert_array_equal(one.x, again.x)
    np.testing.assert_array_equal(one.pool_weights, again.pool_weights)
    assert one.rungs == again.rungs
    assert one.log_evidence == again.log_evidence
    assert one.x.shape != other.x.shape or (one.x != other.x).any()
    assert one.log_evidence != other.log_evidence


@pytest.mark.parametrize("unit", [1e-6, 1e3, 1e6])
@pytest.mark.parametrize("way", SMALL_WAYS)
def test_units_of_the_output_do_not_matter(unit, way):
    """The same question in other units, and the eta that belongs to them."""
    case = hard(2)
    target = gbce.Value(unit * case.y, scale=1, tolerance=unit * TOLERANCE)
    posterior = posterior_of(lambda x: unit * case.predict(x), case.x0, target, case.eta / unit**2)
    draws = sampled(SMALL_WAYS[way], posterior)
    assert went(draws, way)
    assert len(draws.rungs) > 3 or way == "searched"
    evidence_agrees(draws, case.log_evidence, least=0.6)
    agrees(draws, draws.pool.x, case.mean, "mean", size=1.5)


# --- two modes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("way", WAYS)
def test_masses_of_two_modes(d, way):
    basins = Basins(d)
    draws = sampled(WAYS[way], posterior_of(basins.loss, np.zeros(d), as_loss(), 1.0))
    assert went(draws, way)
    right = (draws.pool.x[:, 0] > 0).astype(float)
    agrees(draws, right, 0.7, "mass of the right mode")
    evidence_agrees(draws, basins.log_evidence)
    if d == 2:
        grid = Grid.of([midpoints(-5, 5)] * 2, gaussian_log_prior(np.zeros(2), np.eye(2)), basins.loss)
        assert grid.mean((grid.x[:, 0] > 0).astype(float)) == pytest.approx(0.7, abs=1e-3)
        assert grid.log_evidence == pytest.approx(basins.log_evidence, abs=1e-3)
        agrees(draws, draws.pool.loss[:, 0], grid.mean(basins.loss(grid.x)), "expected loss")


@pytest.mark.parametrize("d", [2, 30])
def test_a_far_mode_is_found_through_training_rows(d):
    far = Far(d)
    grid = far.grid
    mass = grid.mean((far.loss(grid.x) <= 5.0).astype(float))
    assert 0.2 < mass < 0.8
    draws, reached = far.sampled(gbce.SMC(10_000, 1_600, n_islands=16))
    assert went(draws, "searched") or went(draws, "tempered")
    agrees(draws, reached, mass, "mass of the far mode")
    evidence_agrees(draws, grid.log_evidence)
    agrees(draws, draws.pool.x[:, :2], grid.mean(grid.x), "mean")
    if d > 2:
        agrees(draws, draws.pool.x[:, 2:].mean(axis=1), 0.0, "the rest")
    again = draws.reweigh(Mixture(0.0, np.ones(1)))  # known rows leave no trace in the prior
    agrees(again, again.pool.x, np.zeros(d), "mean of the prior")


@pytest.mark.parametrize("d", [2, 30])
def test_without_a_search_a_far_mode_is_missed(d):
    runs = [Far(d).sampled(SMALL, seed) for seed in range(8)]
    # by luck some candidate lies near it now and then; without any such luck it is not there at all
    assert min(draws.mean(reached) for draws, reached in runs) < 0.01


def test_without_landmarks_known_rows_are_not_looked_at():
    far = Far(5)
    ignored, _ = far.sampled(replace(SEARCHING, landmarks=False))
    nowhere = sampled(SEARCHING, posterior_of(far.loss, np.zeros(5), as_loss(5.0), 1.0))
    np.testing.assert_array_equal(ignored.x, nowhere.x)
    assert ignored.log_evidence == nowhere.log_evidence


# --- coverage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_intervals_cover(way):
    """Of sixty short runs, about 57 intervals hold the exact figure."""
    sampler = gbce.SMC(3_000, 800, max_looks=0 if way == "tempered" else 6)
    case = hard(2, eta=10.0, away=4.5)
    posterior = posterior_linear(case)
    exact = np.array([*case.importance, case.success_probability(TOLERANCE), case.stability, case.log_evidence])
    held = []
    for seed in range(60):
        draws = sampled(sampler, posterior, seed)
        change, reached = np.abs(draws.pool.x - case.x0), draws.pool.reached[:, 0].astype(float)
        squares = np.square(draws.pool.x - draws.mean(draws.pool.x)).sum(axis=1)
        values = np.column_stack([change, reached, squares])
        got = np.append(draws.mean(values), draws.log_evidence)
        se = np.append(draws.standard_error(values - got[:-1]), draws.log_evidence_se)
        held.append(np.abs(got - exact) <= 1.96 * se)
    share = np.mean(held, axis=0)
    assert share.min() >= 0.85, share  # of 60 at 0.95, fewer than 51 are seen once in three hundred
    assert share.mean() >= 0.87, share  # figures of one run hang together: three errors of a single one
