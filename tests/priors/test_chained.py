"""Numbers bound by conditions: drawn side by side where none looks at another, they are those drawn in turn."""

import numpy as np
import pytest

import gbce
from gbce.priors._assemble import Chained
from gbce.priors._distributions import LAPLACE, NORMAL, STUDENT, Truncation, log_mass, truncate_and_weigh


def truncate(law, z, low, high):
    return Truncation.of(law, low, high).truncate(z)


LAWS = [NORMAL, LAPLACE, STUDENT]
BY_NAME = {law.name: law for law in LAWS}


def one_by_one(part, z):
    """Draw feature after feature, by the definition: each within what the ones before it leave."""
    x, log_q = np.empty(z.shape), np.zeros(len(z))
    least = np.minimum(*(part.coefs * np.where(part.coefs == 0, 0.0, end) for end in (part.low, part.high)))
    for j in range(z.shape[1]):
        low, high = np.full(len(z), part.low[j]), np.full(len(z), part.high[j])
        for side, room, later in zip(part.coefs, part.rhs, least[:, j + 1 :].sum(axis=1), strict=True):
            if side[j] == 0:
                continue
            bound = (room - x[:, :j] @ side[:j] - later) / side[j]
            low, high = (low, np.minimum(high, bound)) if side[j] > 0 else (np.maximum(low, bound), high)
        if part.is_integer[j]:
            low = part.origin[j] + np.ceil(low - part.origin[j] - 1e-9)
            high = part.origin[j] + np.floor(high - part.origin[j] + 1e-9)
        half = 0.5 * part.is_integer[j]
        edges = [(end - part.origin[j]) / part.factor[j] for end in (low - half, high + half)]
        value = part.origin[j] + part.factor[j] * truncate(part.distribution, z[:, j], *edges)
        value = part.origin[j] + np.round(value - part.origin[j]) if part.is_integer[j] else value
        x[:, j] = np.clip(value, low, high)
        own = (x[:, j] - part.origin[j]) / part.factor[j]
        step = half / part.factor[j]
        mine = (
            log_mass(part.distribution, own - step, own + step)
            if part.is_integer[j]
            else part.distribution.log_pdf(own)
        )
        log_q += mine - log_mass(part.distribution, *edges)
    return x, log_q


@pytest.fixture(params=BY_NAME)
def part(request):
    """Return seven numbers: two pairs, a triple with a whole number in it, and one that is free."""
    sides = np.zeros((4, 7))
    sides[0, [0, 3]] = 1.0, -1.0
    sides[1, [1, 4]] = 2.0, -1.0
    sides[2, [2, 5]] = 1.0, 1.0
    sides[3, [3, 5]] = -1.0, 0.5
    low, high = np.full(7, -2.0), np.array([2.0, np.inf, 3.0, 2.5, np.inf, 4.0, np.inf])
    whole = np.arange(7) == 5
    origin = np.array([0.0, -0.3, 0.5, 0.4, 0.1, 1.0, 0.0])
    return Chained(
        np.arange(7), BY_NAME[request.param], origin, np.linspace(0.5, 1.5, 7), low, high, whole, sides,
        np.array([0.2, 0.5, 2.0, 1.0]),
    )  # fmt: skip


def test_they_are_drawn_as_one_after_the_other(part):
    assert [step.features.tolist() for step in part._steps] == [[0, 1, 2, 6], [3, 4], [5]]
    z = np.random.default_rng(2).normal(size=(400, 7))
    x, log_q = part.draw(z)
    expected, log_expected = one_by_one(part, z)
    # values keep a hair inside of their conditions, which takes a share of 1e-12 of the room
    np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(log_q, log_expected, rtol=1e-8, atol=1e-8)
    assert (x @ part.coefs.T <= part.rhs).all()


def test_a_few_points_are_drawn_as_among_many(part):
    z = np.random.default_rng(3).normal(size=(60, 7))
    x, log_q = part.draw(z)
    for i in range(0, 60, 7):
        alone, log_alone = part.draw(z[i : i + 1])
        np.testing.assert_array_equal(alone[0], x[i])
        assert log_alone[0] == log_q[i]
    none = part.draw(z[:0])
    assert none[0].shape == (0, 7)
    assert none[1].shape == (0,)


def test_noise_is_found_again(part):
    z = np.random.default_rng(4).normal(size=(50, 7))
    x, _ = part.draw(z)
    np.testing.assert_allclose(np.delete(part.invert(x), 5, axis=1), np.delete(z, 5, axis=1), atol=1e-5)
    np.testing.assert_allclose(part.draw(part.invert(x))[0], x, atol=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_cut_law_is_weighed_as_it_is_by_itself(law):
    rng = np.random.default_rng(6)
    z, middle = rng.normal(size=(3, 50)), rng.normal(size=(3, 50)) * 4
    ends = {
        "each its own": (middle - 0.5, middle + 2.0),
        "shared": (np.array([[-1.0], [0.7], [-np.inf]]), np.full(1, 3.0)),
    }
    for low, high in ends.values():
        value, weight = truncate_and_weigh(law, z, low, high)
        np.testing.assert_array_equal(value, truncate(law, z, low, high))
        np.testing.assert_array_equal(value, truncate(law, z, *np.broadcast_arrays(low, high, z)[:2]))
        np.testing.assert_array_equal(weight, log_mass(law, low, high))


def test_what_meets_conditions_is_told_without_its_density():
    """The mass of a prior looks at what conditions look at; whole candidates say the same."""
    rng = np.random.default_rng(0)
    space = gbce.Space.infer(rng.normal(size=(60, 5)), constraints=["x1 <= x2", "x3 * x4 <= 1"])
    x0 = np.array([-0.5, 0.5, 0.2, 0.3, 0.0])
    for prior in (gbce.Gaussian(), gbce.Sparse(), gbce.Laplace()):
        located = prior.at(space, x0)
        z = rng.normal(size=(3_000, located.dimension))
        fits = np.isfinite(located.place(z).log_correction)
        assert 0 < fits.sum() < len(fits)
        np.testing.assert_array_equal(located._admissible(z), fits)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_one_point_is_cut_as_among_others(law):
    z, low, high = np.random.default_rng(1).normal(size=(9, 1)), np.array([-1.0]), np.array([0.5])
    whole = truncate(law, z, low, high)
    for one, expected in zip(z, whole, strict=True):
        np.testing.assert_array_equal(truncate(law, one[None, :], low, high), expected[None, :])
