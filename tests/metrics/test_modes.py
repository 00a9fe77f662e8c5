"""Modes of samples whose number of modes and masses are known."""

import numpy as np
import pytest
from scipy.special import ndtri

from gbce.metrics import find_modes

N = 1_500


def modes_of(points, weights=None, seed=0):
    weights = np.full(len(points), 1.0 / len(points)) if weights is None else weights
    return find_modes(points, weights, 1.0 / np.square(weights).sum(), np.random.default_rng(seed))


def masses(points, weights=None):
    weights = np.full(len(points), 1.0 / len(points)) if weights is None else weights
    found = weights @ modes_of(points, weights).memberships(points)
    return np.sort(found)[::-1]


def shape(name, d, rng):
    """Samples of laws with one mode that are not normal."""
    x = rng.normal(size=(N, d))
    if name == "half normal":
        x[:, 0] = np.abs(x[:, 0])
    elif name == "bent":
        x[:, 1] += x[:, 0] ** 2
    elif name == "uniform":
        x = rng.random((N, d))
    elif name == "exponential":
        x = rng.exponential(size=(N, d))
    elif name == "half a ring":
        angle = np.pi * rng.random(N)
        x = 2.0 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * x[:, :2]
    return x


@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("seed", range(4))
def test_one_normal_cluster_is_one_mode(d, seed):
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d))
    assert len(modes_of(rng.normal(size=(N, d)) @ mix + 5.0, seed=seed)) == 1


@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("name", ["half normal", "bent", "uniform", "exponential", "half a ring"])
def test_one_mode_of_another_shape_is_one_mode(name, d):
    found = masses(shape(name, d, np.random.default_rng(1)))
    assert found[0] > 0.97


@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("share", [0.7, 0.5, 0.9])
def test_two_clusters_have_their_masses(d, share):
    rng = np.random.default_rng(2)
    first = rng.random(N) < share
    x = rng.normal(size=(N, d))
    x[:, 0] += np.where(first, 0.0, 5.0)
    # who belongs where is known here, so that what is left is the fit's own error: the overlap at five deviations
    assert masses(x) == pytest.approx(np.sort([first.mean(), 1 - first.mean()])[::-1], abs=0.02)


def test_two_thin_sheets_in_ten_dimensions_are_two_modes():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, 10))
    x[:, 4] = np.where(rng.random(N) < 0.5, -1.0, 1.0) + 0.1 * x[:, 4]
    assert masses(x) == pytest.approx(np.sort([(x[:, 4] < 0).mean(), (x[:, 4] > 0).mean()])[::-1], abs=0.02)


def test_four_clusters_and_weights():
    rng = np.random.default_rng(4)
    at = rng.integers(4, size=N)
    x = rng.normal(size=(N, 2)) + 8.0 * np.column_stack([at // 2, at % 2])
    weights = np.where(at == 0, 3.0, 1.0) * rng.gamma(2.0, size=N)
    weights /= weights.sum()
    exact = np.bincount(at, weights)
    assert masses(x, weights) == pytest.approx(np.sort(exact)[::-1], abs=0.01)


def test_points_in_fewer_directions_than_coordinates():
    rng = np.random.default_rng(5)
    t = np.append(rng.normal(-4, 1, N // 2), rng.normal(4, 1, N // 2))
    found = modes_of(np.column_stack([t, 2 * t, np.ones_like(t)]))
    assert len(found) == 2
    same = np.ones((200, 3))
    assert modes_of(same).memberships(same) == pytest.approx(np.ones((200, 1)))
    heavy = np.append(0.9, np.full(200, 0.1 / 200))  # one heavy point is no mode of its own
    even = ndtri((0.5 + np.outer(np.arange(201), [0.819, 0.671, 0.549])) % 1)  # normal, without the clumps of chance
    assert len(modes_of(even, heavy)) == 1
