"""Priors seen column by column: probabilities of cells against draws of the prior's own map, and moments within."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import gbce
from gbce.priors import column_distributions
from gbce.priors._distributions import LAPLACE, NORMAL, draw_within, interval_moments

N = 60_000


def space_of_all_kinds():
    features = (
        gbce.Feature("real", low=-1.0, high=2.5),
        gbce.Feature("up", direction="increase", scale=2.0),
        gbce.Feature("whole", kind="integer", low=0, high=12),
        gbce.Feature("money", kind="integer", low=0, high=200_000, scale=5_000.0),  # too many values to lay out
        gbce.Feature("job", kind="categorical", levels=("a", "b", "c", "d")),
        gbce.Feature("grade", kind="ordinal", levels=("low", "mid", "high")),
        gbce.Feature("gap", missing="any"),
        gbce.Feature("gone", missing="any"),
    )
    x0 = np.array([0.3, 1.0, 4.0, 30_000.0, 1.0, 0.0, 0.5, np.nan])
    return gbce.Space(features), x0


@pytest.mark.parametrize(
    "prior",
    [gbce.Gaussian(0.7), gbce.Laplace(1.2), gbce.Sparse(change=0.4), gbce.Sparse(gbce.Laplace(), change=0.6)],
    ids=["gaussian", "laplace", "sparse", "sparse laplace"],
)
def test_cells_have_the_probability_that_the_prior_gives_them(prior):
    space, x0 = space_of_all_kinds()
    placed = prior.at(space, x0)
    drawn = placed.place(np.random.default_rng(0).standard_normal((N, placed.dimension)))
    weights = np.exp(-drawn.log_correction)
    weights /= weights.sum()
    worth = 1.0 / np.square(weights).sum()
    for law in column_distributions(placed):
        x = drawn.x[:, law.where]
        known = np.sort(x[~np.isnan(x)])
        edges = np.unique(np.append(known[[N // 50, N // 9, N // 4]], known[-N // 9]))
        cells = law.on(edges)
        chance = np.exp(cells.log_mass)
        assert chance.sum() == pytest.approx(1.0, abs=1e-12)
        place = np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x))
        found = np.bincount(place, weights=weights, minlength=len(chance))
        error = np.sqrt(chance * (1 - chance) / worth) + 1e-9
        assert (np.abs(found - chance) < 5 * error).all(), space.names[law.where]
        # mean changes and variances are those of the draws
        feature = space.features[law.where]
        size = placed.change(drawn.x)[:, law.where]
        spread = 5 * np.sqrt(weights @ np.square(size - weights @ size) / worth) + 1e-9
        assert abs(cells.mean_change(chance, feature, x0[law.where]) - weights @ size) < spread
        places = space.embed(drawn.x, np.array([law.where]))
        squares = places.squares_from(places.centre(weights))
        spread = 5 * np.sqrt(weights @ np.square(squares - weights @ squares) / worth) + 1e-9
        assert abs(cells.variance(chance, feature) - weights @ squares) < spread


def test_values_are_drawn_within_their_cells():
    space, x0 = space_of_all_kinds()
    rng = np.random.default_rng(1)
    for law in column_distributions(gbce.Sparse(change=0.5).at(space, x0)):
        edges = np.array([x0[law.where] - 0.5, x0[law.where] + 0.5]) if law.where < 7 else np.array([0.2])
        cells = law.on(edges)
        possible = np.flatnonzero(np.isfinite(cells.log_mass))
        asked = rng.choice(possible, 2_000)
        values = cells.draw(rng, asked)
        place = np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))
        np.testing.assert_array_equal(place, asked)
        best = cells.likeliest()[possible]
        place = np.where(np.isnan(best), len(edges) + 1, np.searchsorted(edges, best))
        np.testing.assert_array_equal(place, possible)


@pytest.mark.parametrize(("law", "known"), [(NORMAL, stats.norm), (LAPLACE, stats.laplace)], ids=["normal", "laplace"])
def test_stretches_keep_their_digits(law, known):
    low = np.array([-np.inf, -1.0, 0.0, 2.0, 6.0, -9.0, 3.0, 2.0])
    high = np.array([np.inf, 2.0, 1.0, np.inf, 6.5, -8.0, 3.0 + 1e-6, 2.0])
    found = interval_moments(law, low, high)
    nodes, node_weights = np.polynomial.legendre.leggauss(60)
    for i, (a, b) in enumerate(zip(np.maximum(low, -60.0), np.minimum(high, 60.0), strict=True)):
        ends = np.unique(np.concatenate([[a, b], np.arange(np.ceil(a), b)]))
        if len(ends) == 1:
            assert found.log_mass[i] == -np.inf
            continue
        half = 0.5 * np.diff(ends)[:, None]
        t = ends[:-1, None] + half * (1 + nodes)
        w = half * node_weights * known.pdf(t)
        wanted = np.log(w.sum()), (w * t).sum() / w.sum(), (w * t * t).sum() / w.sum(), (w * np.abs(t)).sum() / w.sum()
        np.testing.assert_allclose([part[i] for part in found], wanted, rtol=1e-11, atol=1e-13)
    u = np.random.default_rng(0).random((2, 4_000))
    for a, b in ((-0.5, 2.0), (7.0, np.inf), (-9.0, -8.5)):
        drawn = draw_within(law, np.full(4_000, a), np.full(4_000, b), *u)
        below = np.exp([interval_moments(law, np.array([a]), np.array([t])).log_mass[0] for t in drawn[:200]])
        whole = np.exp(interval_moments(law, np.array([a]), np.array([b])).log_mass[0])
        assert stats.kstest(below / whole, "uniform").pvalue > 1e-3
        assert drawn.min() >= a
        assert drawn.max() <= b


def test_columns_that_move_together_have_no_laws_of_their_own():
    space = gbce.Space.real(2)
    for prior, why in (
        (gbce.Gaussian(cov=np.array([[1.0, 0.5], [0.5, 1.0]])), "moves columns together"),
        (gbce.NearData(gbce.Gaussian()).learned(space, np.random.default_rng(0).normal(size=(60, 2))), "NearData"),
    ):
        with pytest.raises(ValueError, match=why):
            column_distributions(prior.at(space, np.zeros(2)))
    tied = gbce.Space.infer(pd.DataFrame(np.eye(3)[:, :2], columns=["a", "b"]), constraints=["a <= b"])
    with pytest.raises(ValueError, match="constraints or computed columns"):
        column_distributions(gbce.Gaussian().at(tied, np.zeros(2)))


@pytest.mark.parametrize("base", [gbce.Gaussian(), gbce.Laplace(0.5)], ids=["gaussian", "laplace"])
def test_an_integer_of_very_many_values_changes_as_often_as_sparse_says(base):
    """Its slab is rounded, and holds the row's own value."""
    space = gbce.Space((gbce.Feature("money", kind="integer", low=0, high=200_000, scale=500.0),))
    placed = gbce.Sparse(base, change=0.3).at(space, np.array([100.0]))
    own = column_distributions(placed)[0].on(np.array([99.0, 100.0])).log_mass[1]
    assert np.exp(own) == pytest.approx(0.7, abs=1e-12)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("base", [gbce.Gaussian(), gbce.Laplace()])
def test_columns_that_may_become_missing_change_as_often_as_others_and_are_located(base, known):
    levels = ("x", "y", "z")
    features = (
        gbce.Feature("whole", kind="integer", low=0, high=9, scale=3, missing="any"),
        gbce.Feature("job", kind="categorical", levels=levels, missing="any"),
        gbce.Feature("real", missing="any"),
        gbce.Feature("grade", kind="ordinal", levels=levels, missing="any"),
    )
    space = gbce.Space(features)
    x0 = np.array([4.0, 1.0, 0.3, 1.0]) if known else np.full(4, np.nan)
    located = gbce.Sparse(base, change=0.3).at(space, x0)
    x = located.place(np.random.default_rng(0).standard_normal((20_000, 4))).x
    np.testing.assert_allclose(space.changed(x, x0).mean(axis=0), 0.3, atol=5 * 0.0033)
    for law in (located, base.at(space, x0)):
        x = law.place(np.random.default_rng(1).standard_normal((2_000, 4))).x
        np.testing.assert_allclose(law.place(law.locate(x)).x, x, atol=1e-6)
