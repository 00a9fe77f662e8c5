"""How losses combine, which model is asked, and which stream each purpose draws from."""

from dataclasses import dataclass

import numpy as np
import pytest

import gbce
from gbce._numerics import JUDGING, stream
from gbce.base import Choice, Rule
from gbce.posterior import Mixture

LOSS = np.array([[1.0, 3.0], [0.2, 0.1]])
WEIGHTS = np.array([0.25, 0.75])
DATA = np.random.default_rng(0).normal(size=(60, 2))
SMALL = gbce.Importance(n_candidates=2_000, n_draws=300)


@pytest.mark.parametrize(
    ("combine", "potential"),
    [
        ("any", -np.log(np.exp(-2.0 * LOSS) @ WEIGHTS)),
        ("all", 2.0 * LOSS.max(axis=1)),
        ("average", 2.0 * LOSS @ WEIGHTS),
    ],
)
def test_potential_and_the_loss_it_stands_for(combine, potential):
    mixture = Mixture(2.0, WEIGHTS, combine)
    np.testing.assert_allclose(mixture.potential(LOSS), potential)
    np.testing.assert_allclose(mixture.effective_loss(LOSS), potential / 2.0)


@pytest.mark.parametrize("combine", ["any", "all", "average"])
def test_loss_of_a_combination_is_continuous_at_eta_zero(combine):
    limit = Mixture(1e-9, WEIGHTS, combine).effective_loss(LOSS)
    np.testing.assert_allclose(Mixture(0.0, WEIGHTS, combine).effective_loss(LOSS), limit, atol=1e-6)


@pytest.mark.parametrize("combine", ["any", "average"])
def test_a_model_of_weight_zero_has_no_say(combine):
    loss = np.array([[1.0, np.inf], [2.0, 5.0]])
    np.testing.assert_allclose(Mixture(1.0, np.array([1.0, 0.0]), combine).potential(loss), [1.0, 2.0])


def test_robustness_is_that_of_the_first_model():
    first, second = (lambda x: x[:, 0]), (lambda x: x[:, 1] - 100.0)
    options = {"space": gbce.Space.real(2), "sampler": SMALL}
    target = gbce.AtLeast(0.5, scale=1)
    both = gbce.Explainer([first, second], DATA, **options)
    alone = gbce.Explainer(first, DATA, **options)
    rows = [[0.6, 0.0], [0.5, 0.0]]
    got = both.assess(both.explain(DATA[0], target, rules=[], seed=1), rows)
    want = alone.assess(alone.explain(DATA[0], target, rules=[], seed=1), rows)
    np.testing.assert_array_equal(got["robustness"], want["robustness"])
    assert 0 < got["robustness"].iloc[1] < got["robustness"].iloc[0]


def test_sampling_deciding_and_judging_draw_from_streams_of_their_own():
    explainer = gbce.Explainer(lambda x: x[:, 0], DATA, space=gbce.Space.real(2), sampler=SMALL)
    seen = []

    @dataclass(frozen=True)
    class ProposalRun(Rule):
        def choose(self, scene):
            seen.append(scene.rng.standard_normal(2))
            return Choice(scene.row.x, scene.row)

    explanation = explainer.explain(DATA[0], gbce.AtLeast(1, scale=1), rules=[ProposalRun()], seed=3)
    z = explanation.draws.pool.z[0]
    (deciding,) = seen
    judging = stream(3, JUDGING).standard_normal(2)
    assert not np.isclose(z, deciding).any()
    assert not np.isclose(z, judging).any()
    assert not np.isclose(deciding, judging).any()
