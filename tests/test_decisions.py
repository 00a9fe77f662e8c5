"""Each rule against its definition, by brute force on small sets; ties and empty cases have a defined answer."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.stats import gaussian_kde

import gbce
from exact import linear
from gbce.decisions._bayes import expected_distance, geometric_median
from gbce.decisions._risk import tail_mean
from gbce.noise import offsets
from scenes import scene_of

RNG = np.random.default_rng(0)
CLOUD = RNG.normal(size=(300, 2)) @ np.array([[1.0, 0.0], [0.8, 0.4]]) + [2.0, -1.0]


def chosen(rule, scene):
    return rule.choose(scene).x


# --- mode -------------------------------------------------------------------------------------------------------


def test_map_minimises_the_objective_over_every_evaluated_point_not_only_the_draws():
    loss = RNG.uniform(5, 10, size=300)
    loss[17] = 0.0
    scene = scene_of(CLOUD, loss=loss, index=[3, 4, 5])
    best = np.argmin(loss + 0.5 * np.square(CLOUD).sum(axis=1))
    np.testing.assert_array_equal(chosen(gbce.MAP(), scene)[0], CLOUD[best])


def test_map_breaks_ties_by_distance_and_may_prefer_the_row():
    x = np.array([[2.0, 0.0], [0.0, 1.0]])
    tie = scene_of(x, loss=[0.5 * 1.0, 0.5 * 4.0])  # both have objective 2.5
    np.testing.assert_array_equal(chosen(gbce.MAP(), tie), [[0.0, 1.0]])
    already = scene_of(x, model=lambda x: np.zeros(len(x)))
    choice = gbce.MAP().choose(already)
    np.testing.assert_array_equal(choice.x, [[0.0, 0.0]])
    assert "no change" in choice.note


def test_kde_mode_is_the_densest_draw_by_scipy():
    scene = scene_of(CLOUD)
    best = gaussian_kde(CLOUD.T)(CLOUD.T).argmax()
    np.testing.assert_array_equal(chosen(gbce.MAP(method="kde"), scene)[0], CLOUD[best])


def test_knn_mode_has_the_smallest_radius_to_its_kth_neighbour():
    radius = np.sort(cdist(CLOUD, CLOUD), axis=1)[:, 40]  # column 0 is the draw itself
    score = radius**-2.0
    np.testing.assert_array_equal(chosen(gbce.MAP(method="knn"), scene_of(CLOUD))[0], CLOUD[score.argmax()])


@pytest.mark.parametrize("method", ["kde", "knn"])
def test_estimated_modes_without_a_density_take_the_most_frequent_draw(method):
    line = np.column_stack([np.arange(5.0), np.arange(5.0)])
    scene = scene_of(line, index=[0, 2, 2, 2, 4])
    np.testing.assert_array_equal(chosen(gbce.MAP(method=method, k=1), scene), [[2.0, 2.0]])
    single = scene_of(line, index=[3])
    np.testing.assert_array_equal(chosen(gbce.MAP(method=method), single), [[3.0, 3.0]])


# --- Bayes ------------------------------------------------------------------------------------------------------


def test_mean_is_weighted_by_repetition():
    scene = scene_of([[0.0, 0.0], [4.0, 8.0]], index=[0, 1, 1, 1])
    np.testing.assert_allclose(chosen(gbce.Mean(), scene), [[3.0, 6.0]])


def test_geometric_median_minimises_the_sum_of_distances():
    def total(y):
        return np.linalg.norm(CLOUD - y, axis=1).sum()

    best = minimize(total, CLOUD.mean(axis=0), tol=1e-12)
    np.testing.assert_allclose(chosen(gbce.GeometricMedian(), scene_of(CLOUD))[0], best.x, atol=1e-6)


def test_geometric_median_is_safe_on_a_draw():
    star = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    np.testing.assert_allclose(geometric_median(star, np.full(5, 0.2)), [0.0, 0.0], atol=1e-12)
    heavy = geometric_median(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0.8, 0.1, 0.1]))
    np.testing.assert_allclose(heavy, [0.0, 0.0], atol=1e-9)
    # starts on a draw that is not the answer: the mean of these four is the origin
    kite = np.array([[0.0, 0.0], [3.0, 0.0], [-1.5, 1.0], [-1.5, -1.0]])
    y = geometric_median(kite, np.array([0.01, 0.33, 0.33, 0.33]))
    assert np.linalg.norm(kite - y, axis=1) @ [0.01, 0.33, 0.33, 0.33] < np.linalg.norm(kite, axis=1) @ [
        0.01, 0.33, 0.33, 0.33,
    ]  # fmt: skip
    np.testing.assert_array_equal(geometric_median(np.ones((4, 2)), np.full(4, 0.25)), [1.0, 1.0])


def test_medoid_by_brute_force_and_in_blocks(monkeypatch):
    index = RNG.integers(0, 300, size=900)
    best = index[cdist(CLOUD[index], CLOUD[index]).sum(axis=1).argmin()]
    scene = scene_of(CLOUD, index=index)
    np.testing.assert_array_equal(chosen(gbce.Medoid(), scene)[0], CLOUD[best])
    whole = expected_distance(CLOUD, CLOUD, np.full(300, 1 / 300))
    monkeypatch.setattr("gbce.decisions._bayes._CHUNK_CELLS", 1000)
    np.testing.assert_allclose(expected_distance(CLOUD, CLOUD, np.full(300, 1 / 300)), whole)


def test_units_matter_to_the_medoid():
    x = np.array([[0.0, 0.0], [1.0, 50.0], [2.0, 0.0], [10.0, 1.0], [-3.0, 0.0]])
    raw = gbce.Medoid().choose(scene_of(x))
    scaled = gbce.Medoid().choose(scene_of(x, space=gbce.Space.real(2, scale=[1.0, 1000.0])))
    assert raw.x[0, 0] in (0.0, 2.0)
    assert scaled.x[0, 0] == 1.0


# --- risk -------------------------------------------------------------------------------------------------------


def wavy(x):
    return np.sin(3 * x[:, 0]) + x[:, 1]


def test_tail_mean_is_the_mean_at_or_above_the_quantile():
    loss = RNG.exponential(size=(5, 64))
    for tau in (0.0, 0.5, 0.9, 0.99):
        var = np.quantile(loss, tau, axis=1, method="inverted_cdf")
        want = [row[row >= v].mean() for row, v in zip(loss, var, strict=True)]
        np.testing.assert_allclose(tail_mean(loss, tau), want)
    assert tail_mean(np.ones((1, 10)), 0.9) == 1.0


def test_cvar_by_brute_force_with_common_noise():
    scene = scene_of(CLOUD, model=wavy, noise=0.3, seed=5)
    shifts = offsets(0.3, scene.space, np.random.default_rng(5), 64)
    risk = [tail_mean(np.square(wavy(x + shifts))[None, :], 0.9)[0] for x in CLOUD]
    np.testing.assert_array_equal(chosen(gbce.CVaR(), scene)[0], CLOUD[np.argmin(risk)])
    meter = scene.posterior.predictors[0].meter
    assert meter.rows == 300 + 1 + 300 * 64
    assert meter.calls == 3  # pool, row, and all perturbed copies in one


def test_cvar_tries_at_most_max_candidates_distinct_draws():
    scene = scene_of(CLOUD, model=wavy, index=RNG.integers(0, 300, 2000))
    gbce.CVaR(max_candidates=50, n_perturb=8).choose(scene)
    assert scene.posterior.predictors[0].meter.rows == 301 + 50 * 8


def test_cvar_avoids_a_cliff_that_the_mode_sits_on():
    def cliff(x):
        return np.where(x[:, 0] > 1.0, 0.0, 10.0)

    x = np.column_stack([np.linspace(1.01, 3.0, 200), np.zeros(200)])
    scene = scene_of(x, model=cliff, noise=0.2)
    assert chosen(gbce.MAP(), scene)[0, 0] == pytest.approx(1.01)
    assert chosen(gbce.CVaR(), scene)[0, 0] > 1.3


def success_under_noise(noise, seed):
    """Shares of the first 64 and of 512 further perturbations under which each point of the cloud succeeds."""
    shifts = offsets(noise, gbce.Space.real(2), np.random.default_rng(seed), 64 + 512)
    reached = np.array([np.abs(wavy(x + shifts)) <= 0.5 for x in CLOUD])
    return reached[:, :64].mean(axis=1), reached[:, 64:].mean(axis=1)


@pytest.mark.parametrize("p", [0.3, 0.6])
def test_chance_constrained_is_the_nearest_draw_that_holds(p):
    few, many = success_under_noise(0.3, 7)
    holds = np.flatnonzero((few >= p - np.sqrt(p * (1 - p) / 64)) & (many >= p))
    nearest = holds[np.linalg.norm(CLOUD[holds], axis=1).argmin()]
    scene = scene_of(CLOUD, model=wavy, noise=0.3, seed=7)
    np.testing.assert_array_equal(chosen(gbce.ChanceConstrained(p), scene)[0], CLOUD[nearest])


def test_chance_constrained_keeps_its_promise_under_fresh_noise():
    scene = scene_of(CLOUD, model=wavy, noise=0.3, seed=7)
    x = chosen(gbce.ChanceConstrained(0.6), scene)
    fresh = 0.3 * np.random.default_rng(99).normal(size=(100_000, 2))
    assert np.mean(np.abs(wavy(x + fresh)) <= 0.5) >= 0.6 - 4 * np.sqrt(0.24 / 512)


def test_chance_constrained_falls_back_to_the_best_and_says_so():
    choice = gbce.ChanceConstrained(1.0).choose(scene_of(CLOUD, model=wavy, noise=2.0, seed=7))
    few, many = success_under_noise(2.0, 7)
    top = np.argsort(-few, kind="stable")[:20]
    assert many[(choice.x == CLOUD).all(axis=1)] >= np.sort(many[top])[-3]
    assert "none of 300 draws" in choice.note


def test_chance_constrained_asks_about_near_draws_first():
    scene = scene_of(CLOUD, model=lambda x: np.zeros(len(x)), noise=0.1)
    gbce.ChanceConstrained(0.9).choose(scene)
    assert scene.posterior.predictors[0].meter.rows == 301 + 50 * (64 + 512)


def test_rules_that_ask_the_model_say_so_without_one():
    for rule in (gbce.CVaR(), gbce.ChanceConstrained(), gbce.DirectOpt()):
        with pytest.raises(gbce.ModelNeededError, match=r"explainer\.decide"):
            rule.choose(scene_of(CLOUD))


# --- sets -------------------------------------------------------------------------------------------------------


def test_diverse_set_finds_every_mode_inside_the_region():
    modes = np.array([[0.0, 5.0], [5.0, 0.0], [-5.0, 0.0]])
    x = np.vstack([m + 0.1 * RNG.normal(size=(100, 2)) for m in modes] + [[[40.0, 40.0]]])
    choice = gbce.DiverseSet(3, mass=0.95).choose(scene_of(x))
    found = {int(cdist(modes, point[None, :]).argmin()) for point in choice.x}
    assert found == {0, 1, 2}
    objective = 0.5 * np.square(x).sum(axis=1)
    assert (0.5 * np.square(choice.x).sum(axis=1) <= np.quantile(objective, 0.95, method="inverted_cdf")).all()


def test_diverse_set_of_few_draws_is_smaller_and_says_so():
    choice = gbce.DiverseSet(5, mass=1.0).choose(scene_of([[0.0, 1.0], [2.0, 0.0]], index=[0, 0, 1]))
    assert len(choice.x) == 2
    assert "only 2 distinct" in choice.note


def test_first_of_a_diverse_set_is_the_medoid_of_the_region():
    everything = gbce.DiverseSet(2, mass=1.0).choose(scene_of(CLOUD)).x[0]
    np.testing.assert_array_equal(everything, chosen(gbce.Medoid(), scene_of(CLOUD))[0])


def test_random_draws_follow_the_draws():
    scene = scene_of([[0.0, 0.0], [1.0, 1.0]], index=[0, 1, 1, 1])
    picked = gbce.RandomDraw(k=4000).choose(scene).x[:, 0]
    assert np.mean(picked == 1) == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 4000))


# --- the proposition --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
def test_map_and_direct_optimisation_agree_with_the_exact_mode(d):
    case = linear(d, eta=2.0, seed=d)
    explainer = gbce.Explainer(case.predict, RNG.normal(size=(50, d)), space=gbce.Space.real(d), eta=2.0)
    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    explanation = explainer.explain(case.x0, target, rules=[gbce.MAP(), gbce.DirectOpt()], seed=0)
    x = explanation.counterfactuals.to_numpy()
    exact = 2.0 * (case.predict(case.mean) - case.y) ** 2 + 0.5 * np.square(case.mean - case.x0).sum()
    objective = explanation.pointwise["objective"]
    np.testing.assert_allclose(x[1], case.mean, atol=2e-4)
    assert objective["DirectOpt"] == pytest.approx(exact, abs=1e-6)
    # the best of n points in d dimensions misses the mode by a squared distance of about n**(-2/d)
    assert 0 <= objective["MAP"] - exact < 30 * 20_000 ** (-2 / d)


def test_labels_name_what_differs_from_the_default():
    assert gbce.MAP().label == "MAP"
    assert gbce.MAP(method="knn", k=10).label == "MAP(method=knn, k=10)"
    assert gbce.CVaR(noise=[0.1, 0.2]).label == "CVaR(noise=[0.1, 0.2])"
    assert gbce.DiverseSet(4).label == "DiverseSet(k=4)"
