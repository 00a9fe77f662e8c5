"""Neighbourhoods of places: their densities, draws around them, and shares of the posterior that islands missed."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce.trees._climb import Climb
from gbce.trees._coordinate_draws import CellProblem
from gbce.trees._gibbs import _compute_evidence_error
from gbce.trees._neighbourhoods import (
    Neighbourhoods,
    Places,
    _choose_starts,
    find_places,
    is_covered,
    measure_missed,
)


class Stop(Exception):
    pass


class Catch:
    searches = True

    def sample(self, posterior, rng):
        self.posterior = posterior
        raise Stop


def problem_of(**options):
    """Return a small posterior with two modes: outputs of 2 or more are in two opposite corners."""
    x = np.random.default_rng(0).uniform(-3, 3, size=(2_000, 2))
    corner = (x > 1).all(axis=1) | (x < -1).all(axis=1)
    model = DecisionTreeRegressor(max_depth=5, random_state=0).fit(x, 2.0 * corner)
    caught = Catch()
    explainer = gbce.Explainer(model, x, sampler=caught, policy=None, eta=8.0, space=gbce.Space.real(2), **options)
    with pytest.raises(Stop):
        explainer.explain(np.array([0.5, -0.2]), gbce.AtLeast(1.9), rules=[], seed=0)
    return CellProblem.build(caught.posterior)


@pytest.fixture(scope="module")
def problem():
    return problem_of()


def all_cells(problem):
    """Return every cell ``(n, 2)`` with its log prior and its log posterior, not normalised."""
    a, b = (np.arange(len(mass)) for mass in problem.masses)
    cells = np.column_stack([np.repeat(a, len(b)), np.tile(b, len(a))]).astype(np.int32)
    log_prior = np.log(problem.masses[0])[cells[:, 0]] + np.log(problem.masses[1])[cells[:, 1]]
    points = problem.place(np.random.default_rng(0), cells).points
    return cells, log_prior, log_prior - problem.posterior.mixture.potential(points.loss)


def test_a_neighbourhood_is_the_product_of_the_full_conditionals_of_its_states(problem):
    cells, log_prior, log_density = all_cells(problem)
    states = problem.draw_prior(np.random.default_rng(1), 6)
    mixture = problem.posterior.mixture
    near = Neighbourhoods.around(problem, states, mixture, 3)
    q = np.exp(near.log_ratio(cells) + log_prior[:, None])
    np.testing.assert_allclose(q.sum(axis=0), 1.0)
    for k in range(2):
        product = 1.0
        for column in range(2):
            conditionals = np.zeros(len(problem.masses[column]))
            for state in states.cells[3 * k : 3 * k + 3]:
                along = np.flatnonzero(cells[:, 1 - column] == state[1 - column])
                conditionals += np.exp(log_density[along] - logsumexp(log_density[along])) / 3
            product = product * conditionals[cells[:, column]]
        np.testing.assert_allclose(q[:, k], product, rtol=2e-2, atol=1e-12)  # losses along a column: from a table
    drawn = near.draw(np.random.default_rng(2), np.repeat([0, 1], 20_000))
    for k in range(2):
        own = drawn[20_000 * k : 20_000 * (k + 1)]
        for column in range(2):
            expected = np.bincount(cells[:, column], weights=q[:, k])
            share = np.bincount(own[:, column], minlength=len(expected)) / len(own)
            assert np.abs(share - expected).max() < 5 * np.sqrt(0.25 / len(own))


def test_islands_that_missed_a_corner_are_found_out_and_others_are_not(problem):
    rng, mixture = np.random.default_rng(0), problem.posterior.mixture
    cells, _, log_density = all_cells(problem)
    exact, even = float(logsumexp(log_density)), np.full((8, 250), 1 / 250)
    places = find_places(rng, problem, problem.draw_prior(rng, 1_000), mixture)

    def draw(log_p):
        picked = rng.choice(len(cells), size=2_000, p=np.exp(log_p - logsumexp(log_p)))
        return problem.place(rng, cells[picked]).points

    def measure(points, log_z, weights=even):
        return measure_missed(rng, problem, places, mixture, points, weights, np.full(8, log_z))

    all_of_it = draw(log_density)
    assert measure(all_of_it, exact) == 0.0
    upper = np.where(cells.sum(axis=1) > np.median(cells.sum(axis=1)), log_density, -np.inf)
    share = 1.0 - np.exp(logsumexp(upper) - exact)
    missed = measure(draw(upper), logsumexp(upper))
    assert 0.05 < share < 0.95
    assert missed > 0.5 * share
    # all of the posterior, with an evidence that is too small
    assert measure(all_of_it, exact - 1.0) > 0.1
    # draws at another eta, weighted
    wider = draw(log_density + 0.3 * mixture.potential(problem.place(rng, cells).points.loss))
    ratio = np.exp(-0.3 * mixture.potential(wider.loss)).reshape(8, -1)
    assert measure(wider, exact, ratio / ratio.sum(axis=1, keepdims=True)) == 0.0


@pytest.mark.parametrize("prior", [gbce.Gaussian(0.5), gbce.Sparse(gbce.Gaussian(0.7), change=0.3)])
def test_islands_with_draws_around_places_are_exact(prior):
    problem = problem_of(prior=prior)
    mixture, rng = problem.posterior.mixture, np.random.default_rng(3)
    cells, _, log_density = all_cells(problem)
    places = find_places(rng, problem, problem.draw_prior(rng, 400), mixture)
    assert isinstance(places, Places)
    climb = Climb(problem, rng, 4_000, 8, 1, 4_000, places)
    climb.run()
    last = climb.rungs[-1]
    error = last.log_z.std(ddof=1) / np.sqrt(8)
    exact = float(logsumexp(log_density))
    assert abs(logsumexp(last.log_z) - np.log(8) - exact) < 4 * error + 1e-3
    p = np.exp(log_density - exact)
    upper = cells.sum(axis=1) > np.median(cells.sum(axis=1))
    where = {tuple(cell): high for cell, high in zip(cells.tolist(), upper.tolist(), strict=True)}
    weights = last.weights(np.zeros(len(last.points)))
    share = np.array([where[tuple(cell)] for cell in last.points.cells.tolist()]) @ weights
    assert abs(share - p[upper].sum()) < 0.06


def test_chains_start_in_every_leaf_before_they_start_twice_in_one(problem):
    """The leaf of least loss has more points than there are starts, and every other leaf may be a mode."""
    points = problem.draw_prior(np.random.default_rng(5), 2_000)
    objective = points.loss[:, 0]
    chosen = _choose_starts(points, objective, 32)
    n_leaves = len(np.unique(points.scores))
    assert len(np.unique(points.scores[chosen])) == min(32, n_leaves)
    assert len(np.unique(chosen)) == 32
    assert objective[chosen[0]] == objective.min()
    assert len(np.unique(points.scores[np.argsort(objective, kind="stable")[:32]])) == 1


@pytest.mark.parametrize("around_places", [False, True])
def test_the_evidence_of_many_islands_varies_as_independent_points_would(problem, around_places):
    rng, n_islands = np.random.default_rng(6), 100
    places = find_places(rng, problem, problem.draw_prior(rng, 400), problem.posterior.mixture)
    climb = Climb(problem, rng, 10_000, n_islands, 1, 10_000, places if around_places else None)
    climb.run()
    evidence = np.exp(climb.rungs[-1].log_z - climb.rungs[-1].log_z.max())
    found = np.square(evidence.std(ddof=1) / evidence.mean()) / n_islands
    assert 0.4 * found < climb.rungs[-1].variance < 2.0 * found
    # islands that agree by chance
    assert _compute_evidence_error(np.full(8, 0.125), climb.rungs[-1].variance) == climb.rungs[-1].variance ** 0.5


def test_constraints_between_columns_count_around_places():
    table = pd.DataFrame({"a": np.linspace(-2, 2, 200), "b": np.linspace(2, -2, 200)})
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(table, table["a"] + 0.1 * table["b"])
    space = gbce.Space.infer(table, bounds={"a": (-2, 2), "b": (-2, 2)}, constraints=["a + b <= 0.5"])
    caught = Catch()
    explainer = gbce.Explainer(model, table, space=space, sampler=caught, policy=None, eta=3.0)
    with pytest.raises(Stop):
        explainer.explain({"a": 0.0, "b": 0.0}, gbce.AtLeast(1.0), rules=[], seed=0)
    problem = CellProblem.build(caught.posterior)
    mixture, rng = problem.posterior.mixture, np.random.default_rng(4)
    places = find_places(rng, problem, problem.draw_prior(rng, 400), mixture)
    plain, helped = (Climb(problem, rng, 4_000, 8, 1, 4_000, given) for given in (None, places))
    for climb in (plain, helped):
        climb.run()
        assert (climb.rungs[-1].points.x[:, :2].sum(axis=1) <= 0.5 + 1e-9).all()
    log_z = [climb.rungs[-1].log_z for climb in (plain, helped)]
    error = np.hypot(*(own.std(ddof=1) / np.sqrt(8) for own in log_z))
    assert abs(log_z[0].mean() - log_z[1].mean()) < 4 * error + 0.02
    assert plain.find_missed(plain.rungs[-1].level)[1] == 0.0


def test_points_of_the_prior_cover_an_easy_posterior():
    assert is_covered(1_000, -1.0)
    assert not is_covered(1_000, -3.0)
