"""Execution noise: in each feature's scale, only where something can move, never outside the space."""

import numpy as np
import pytest

import gbce
from gbce.metrics import evaluate_under_noise, offsets
from support.scenes import scene_of

SPACE = gbce.Space(
    (
        gbce.Feature("a", scale=100.0),
        gbce.Feature("b", scale=2.0, mutable=False),
        gbce.Feature("c", high=0.5, direction="increase"),
    )
)


def test_offsets_are_in_each_features_scale_and_leave_immutable_ones_alone():
    shifts = offsets(0.1, SPACE, np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(shifts.std(axis=0), [10.0, 0.0, 0.1], rtol=0.02)
    by_name = offsets({"c": 3.0}, SPACE, np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(by_name.std(axis=0), [0.0, 0.0, 3.0], rtol=0.02)
    own = offsets(lambda rng, n: np.ones((n, 3)), SPACE, np.random.default_rng(0), 2)
    np.testing.assert_array_equal(own, [[1.0, 0.0, 1.0]] * 2)


def test_perturbed_rows_stay_inside_the_space():
    seen = []

    def model(x):
        seen.append(x)
        return x[:, 0]

    scene = scene_of(np.zeros((3, 3)), model=model, space=SPACE)
    shifts = offsets(5.0, SPACE, np.random.default_rng(0), 200)
    said = evaluate_under_noise(scene.posterior, SPACE, scene.draws.x, shifts)
    assert said.loss.shape == (3, 200, 1)
    assert seen[-1].shape == (600, 3)
    assert (seen[-1].min(axis=0)[2], seen[-1].max(axis=0)[2]) == pytest.approx((0.0, 0.5))
