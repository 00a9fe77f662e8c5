"""Errors of weighted draws know the tail of the weights, and are never zero while draws are few."""

from dataclasses import replace

import numpy as np
import pytest

import gbce
from gbce.draws import Draws, Points, SamplerInfo
from gbce.metrics import importance

N = 3_000


def weighted(rng, spread):
    """Draws of N(0, 1) by importance sampling from a normal law that is too narrow: a tail of shape 1 - spread**2."""
    z = spread * rng.standard_normal((N, 1))
    log_weights = -0.5 * np.square(z[:, 0]) * (1 - 1 / spread**2)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    none = np.zeros((N, 1))
    pool = Points(z, z, none, none, none > 0, none[:, 0], none[:, 0])
    return Draws(
        pool,
        weights,
        np.arange(N),
        weights,
        False,
        np.zeros(1),
        0.0,
        0.01,
        (1.0,),
        log_weights,
        info=SamplerInfo(),
        reweighted=True,
    )


def cover(spread):
    rng, inside = np.random.default_rng(0), []
    for _ in range(200):
        draws = weighted(rng, spread)
        value = np.square(draws.pool.z[:, 0])
        mean = float(draws.mean(value))
        inside.append(abs(mean - 1.0) <= 1.96 * float(draws.standard_error(value - mean)))
    return float(np.mean(inside))


def test_errors_cover_where_the_tail_is_heavy():
    """At shape 0.6 the error of the weights alone covers 70%, and with what their tail tells 83%."""
    assert cover(np.sqrt(0.4)) > 0.77
    assert cover(1.3) > 0.9  # a light tail, where nothing changes


def test_mass_that_one_run_alone_has_seen_is_in_the_errors():
    draws = weighted(np.random.default_rng(1), 1.3)
    value = draws.pool.z[:, 0]
    once = replace(draws, info=SamplerInfo(seen_once=0.05))
    assert draws.unseen == pytest.approx(1 / N)
    assert once.unseen == 0.05
    assert once.standard_error(value) > 0.04 > draws.standard_error(value)


def test_no_error_is_zero_while_draws_are_finite():
    """All draws have one loss, and none moves the integer: that is a statement about 2,000 draws."""
    space = gbce.Space(
        (gbce.Feature("x"), gbce.Feature("n", kind="integer", low=0, high=9, scale=0.2)),
    )
    data = np.column_stack([np.linspace(-1, 1, 50), np.arange(50) % 10])
    explainer = gbce.Explainer(lambda x: np.zeros(len(x)), data, space=space, prior=gbce.Gaussian(1.0))
    explanation = explainer.explain([0.0, 4.0], gbce.AtLeast(1.0, scale=1.0, tolerance=0.0), rules=[], seed=0)
    figures = explanation.distribution
    names = ("success_probability", "tail", "stability", "expected_loss", "expected_distance")
    assert all(figures[f"{name}_se"] > 0 for name in names)
    assert explanation.diagnostics["log_evidence_se"] > 0
    assert (explanation.importance["se"] > 0).all()


def test_a_change_that_no_draw_makes_counts_with_its_size():
    """One prior draw in twenty moves a column, by five units; a posterior without any of them may have missed that."""
    rng = np.random.default_rng(2)
    moves = np.arange(N) % 20 == 0
    x = np.column_stack([rng.standard_normal(N), np.where(moves, 5.0, 0.0)])
    weights, none = np.where(moves, 0.0, 1.0 / (~moves).sum()), np.zeros((N, 1))
    pool = Points(x, x, none, none, none > 0, none[:, 0], none[:, 0])
    draws = Draws(pool, weights, np.arange(N), weights, False, np.array([0.8, 0.25]), 0.0, 0.01, (1.0,), np.zeros(N),
                  info=SamplerInfo())  # fmt: skip
    table = importance(draws, gbce.Space.real(2), np.zeros(2))
    assert table["change"].iloc[1] == 0
    assert table["se"].iloc[1] == pytest.approx(5.0 / (~moves).sum())
    own = draws.standard_error(np.abs(x[:, 0]) - table["change"].iloc[0])
    assert table["se"].iloc[0] == pytest.approx(float(own))  # of a column that all draws move, as before
