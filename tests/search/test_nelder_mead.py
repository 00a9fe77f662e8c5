"""The lock-step simplex search follows scipy's, start by start."""

import numpy as np
import pytest
from scipy.optimize import minimize

from gbce.search._descents import nelder_mead


def rosenbrock(x):
    return (100.0 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)


def quartic(x):
    return np.square(x - 0.3).sum(axis=1) + 0.1 * (x**4).sum(axis=1) + np.prod(x, axis=1)


def steps(x):
    """Piecewise constant plus a distance: what a forest's objective looks like."""
    return np.floor(3 * np.abs(x - 1.3)).sum(axis=1) + 0.5 * np.square(x).sum(axis=1)


@pytest.mark.parametrize("function", [rosenbrock, quartic, steps])
@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("bounds", [None, (-0.4, 0.9)])
def test_every_start_ends_where_scipy_ends(function, d, bounds):
    starts = np.random.default_rng(d).normal(size=(20, d))
    starts[0] = 0.0
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    low, high = np.full(d, low), np.full(d, high)
    starts = np.clip(starts, low, high)
    minima = nelder_mead(function, starts, low, high, max_iterations=3000)
    for i, start in enumerate(starts):
        alone = minimize(
            lambda x: function(x[None, :])[0], start, method="Nelder-Mead",
            bounds=None if bounds is None else [bounds] * d, options={"maxiter": 3000, "maxfev": 10**9},
        )  # fmt: skip
        np.testing.assert_allclose(minima.x[i], alone.x, rtol=0, atol=1e-8)
        assert minima.value[i] == pytest.approx(alone.fun, abs=1e-8)
        assert minima.iterations[i] == alone.nit
        assert minima.converged[i] == alone.success


def test_one_call_per_iteration_for_all_starts():
    calls = []

    def counted(x):
        calls.append(len(x))
        return quartic(x)

    starts = np.random.default_rng(0).normal(size=(20, 3))
    minima = nelder_mead(counted, starts, np.full(3, -np.inf), np.full(3, np.inf), max_iterations=3000)
    shrinks = sum(n % 3 == 0 and n < 4 * 20 for n in calls)
    assert len(calls) <= minima.iterations.max() + shrinks
    assert len(calls) < 0.1 * minima.iterations.sum()


def test_stops_at_the_iteration_limit():
    minima = nelder_mead(rosenbrock, np.zeros((2, 2)), np.full(2, -9.0), np.full(2, 9.0), max_iterations=10)
    assert (minima.iterations == 10).all()
    assert not minima.converged.any()
