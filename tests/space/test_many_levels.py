"""Categories of many levels: the same geometry as with an axis per level, at a price that does not grow with them."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.decisions._mode import _product_density
from gbce.decisions._point_estimates import choose_representatives, expected_distance, geometric_median
from gbce.metrics import Neighbours
from gbce.priors._families import Density
from gbce.stress._other_models import energy_distance

RNG = np.random.default_rng(0)
SPACE = gbce.Space(
    (
        gbce.Feature("n", "integer", scale=2.0),
        gbce.Feature("a", "categorical", levels=list("uvwxyz"), scale=0.7),
        gbce.Feature("b", "categorical", levels=list("rst"), scale=1.6, missing="any"),
        gbce.Feature("t", scale=3.0),
        gbce.Feature("f", "boolean"),
    )
)


def rows(n):
    columns = (
        RNG.integers(0, 5, n),
        RNG.integers(0, 6, n),
        RNG.integers(0, 3, n),
        RNG.normal(size=n),
        RNG.integers(0, 2, n),
    )
    x = np.column_stack(columns).astype(float)
    x[RNG.random(n) < 0.3, 2] = np.nan
    return x


@pytest.fixture
def both(monkeypatch):
    """Embed rows with an axis per level, and again without."""

    def embed(x, which=None):
        dense = SPACE.embed(x, which)
        monkeypatch.setattr("gbce.space._places.MOST_AXES", 2)
        compact = SPACE.embed(x, which)
        monkeypatch.undo()
        assert compact.axes.shape[1] < dense.axes.shape[1]
        assert compact.sizes
        return dense, compact

    return embed


def test_distances_and_neighbours_do_not_depend_on_the_axes(both):
    (a, a_), (b, b_) = both(rows(40)), both(rows(70))
    np.testing.assert_allclose(a_.distances(b_), a.distances(b), atol=1e-12)
    np.testing.assert_allclose(b_.nearest_distances(a_, 7), b.nearest_distances(a, 7), atol=1e-12)
    weights = RNG.dirichlet(np.ones(70))
    np.testing.assert_allclose(expected_distance(a_, b_, weights), expected_distance(a, b, weights))
    np.testing.assert_array_equal(choose_representatives(b_, weights, 5), choose_representatives(b, weights, 5))
    other = RNG.dirichlet(np.ones(40))
    assert energy_distance(a_, b_, other, weights) == pytest.approx(energy_distance(a, b, other, weights))


def test_means_do_not_depend_on_the_axes(both, monkeypatch):
    x = rows(60)
    u, u_ = both(x)
    weights = RNG.dirichlet(np.ones(60))
    centre, centre_ = u.centre(weights), u_.centre(weights)
    np.testing.assert_allclose(u_.squares_from(centre_), u.squares_from(centre))
    middle, middle_ = geometric_median(u, weights), geometric_median(u_, weights)
    np.testing.assert_allclose(u_.squares_from(middle_), u.squares_from(middle), rtol=1e-6)
    assert u_.between(centre_, middle_) == pytest.approx(u.between(centre, middle), rel=1e-6)
    x0, every = x[0], np.arange(len(SPACE))
    dense = SPACE.nearest(centre, x0, every), SPACE.distance(x, x0)
    monkeypatch.setattr("gbce.space._places.MOST_AXES", 2)
    np.testing.assert_array_equal(SPACE.nearest(centre_, x0, every), dense[0])
    np.testing.assert_allclose(SPACE.distance(x, x0), dense[1], atol=1e-12)


def test_densities_do_not_depend_on_the_axes(both):
    (u, u_), (at, at_) = both(rows(80)), both(rows(20))
    weights = RNG.dirichlet(np.ones(80))
    np.testing.assert_allclose(_product_density(u_, weights, at_), _product_density(u, weights, at))
    density, density_ = Density.of(u, SPACE.features), Density.of(u_, SPACE.features)
    assert density_.width == density.width
    np.testing.assert_allclose(density_.log(at_), density.log(at))


def test_draws_on_a_star_of_levels_have_their_median_on_the_frequent_one():
    space = gbce.Space((gbce.Feature("a", "categorical", levels=list(range(50))), gbce.Feature("t")))
    x = np.column_stack([np.r_[np.full(30, 7.0), np.arange(30.0)], np.zeros(60)])
    middle = geometric_median(space.embed(x), np.full(60, 1 / 60))
    assert space.nearest(middle, x[0], np.arange(2))[0] == 7.0


# --- the price ------------------------------------------------------------------------------------------------


def many_levels(k, n=6_000):
    codes = np.r_[np.arange(k), RNG.integers(k, size=n - k)]
    names = np.array([f"level {i}" for i in range(k)], dtype=object)
    return pd.DataFrame({"a": RNG.normal(size=n), "job": names[codes]})


def score(frame):
    return frame["a"].to_numpy() + 0.5 * (frame["job"].str.len().to_numpy() % 2)


RULES = [
    *(gbce.MAP(), gbce.Mean(), gbce.CVaR(), gbce.ChanceConstrained()),
    *(gbce.Medoid(), gbce.GeometricMedian(), gbce.DiverseSet(3), gbce.MAP(method="kde"), gbce.MAP(method="knn")),
]


def peak_memory(k):
    """Megabytes that set-up, an explanation with every rule and the eta path take at most."""
    data = many_levels(k)
    tracemalloc.start()
    explainer = gbce.Explainer(score, data, sampler=gbce.SMC(n_candidates=4_000, n_draws=500))
    explanation = explainer.explain(data.iloc[0], gbce.AtLeast(2.0), rules=RULES, seed=0)
    explanation.path()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def test_memory_does_not_grow_with_the_levels_of_a_category():
    # an axis per level would take 5,000 * 6,000 * 8 bytes = 240 MB for the data alone
    assert peak_memory(5_000) < 2 * peak_memory(20) + 20


def test_plausibility_of_rows_with_many_levels_is_the_mean_distance_to_the_nearest():
    data = many_levels(300, 900)
    space = gbce.Space.infer(data)
    x = space.encode(data)
    near = Neighbours.of(x, space).plausibility(x[:5], 4)
    gap = np.sqrt(np.square((x[:5, None, 0] - x[:, 0]) / space.scale[0]) + (x[:5, None, 1] != x[:, 1]))
    np.testing.assert_allclose(near, np.sort(gap, axis=1)[:, :4].mean(axis=1))
