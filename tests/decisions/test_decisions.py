"""Each rule against its definition, by brute force on small sets; ties and empty cases have a defined answer."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.stats import binom, gaussian_kde, norm

import gbce
from gbce.decisions._point_estimates import expected_distance, geometric_median
from gbce.decisions._risk import Trials, lower_bound, pick_draws, tail_mean
from gbce.metrics import offsets
from gbce.space import Places
from support.exact import linear
from support.scenes import scene_of

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


def test_kde_mode_counts_repeated_draws():
    index = RNG.integers(0, 300, size=600)
    density = gaussian_kde(CLOUD[index].T)(CLOUD[index].T)
    scene = scene_of(CLOUD, index=index)
    np.testing.assert_array_equal(chosen(gbce.MAP(method="kde"), scene)[0], CLOUD[index][density.argmax()])


def test_map_of_a_distance_prior_is_free_of_its_proposal():
    prior = gbce.DistancePrior(lambda x, row: np.abs(x - row).sum(axis=1), proposal=gbce.Laplace(2.0))
    explainer = gbce.Explainer(wavy, CLOUD, space=gbce.Space.real(2), prior=prior, eta=2.0)
    plain = gbce.MAP(polish=False)
    explanation = explainer.explain([0.0, 0.0], gbce.Value(3, scale=1, tolerance=0.1), rules=[plain], seed=0)
    known = explanation.draws.known
    least = (2.0 * known.loss[:, 0] + np.abs(known.x).sum(axis=1)).min()
    assert explanation.pointwise["objective"].iloc[0] == pytest.approx(least)


@pytest.mark.parametrize("k", [3, 40, 41])
def test_knn_mode_has_the_smallest_radius_to_its_kth_neighbour(k):
    radius = np.sort(cdist(CLOUD, CLOUD), axis=1)[:, k]  # column 0 is the draw itself
    score = radius**-2.0
    np.testing.assert_array_equal(chosen(gbce.MAP(method="knn", k=k), scene_of(CLOUD))[0], CLOUD[score.argmax()])


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
    np.testing.assert_allclose(geometric_median(Places(star), np.full(5, 0.2)).axes, [0.0, 0.0], atol=1e-12)
    heavy = geometric_median(Places(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])), np.array([0.8, 0.1, 0.1])).axes
    np.testing.assert_allclose(heavy, [0.0, 0.0], atol=1e-9)
    # starts on a draw that is not the answer: the mean of these four is the origin
    kite = np.array([[0.0, 0.0], [3.0, 0.0], [-1.5, 1.0], [-1.5, -1.0]])
    y = geometric_median(Places(kite), np.array([0.01, 0.33, 0.33, 0.33])).axes
    assert np.linalg.norm(kite - y, axis=1) @ [0.01, 0.33, 0.33, 0.33] < np.linalg.norm(kite, axis=1) @ [
        0.01, 0.33, 0.33, 0.33,
    ]  # fmt: skip
    np.testing.assert_array_equal(geometric_median(Places(np.ones((4, 2))), np.full(4, 0.25)).axes, [1.0, 1.0])


def test_medoid_by_brute_force_and_in_blocks(monkeypatch):
    index = RNG.integers(0, 300, size=900)
    best = index[cdist(CLOUD[index], CLOUD[index]).sum(axis=1).argmin()]
    scene = scene_of(CLOUD, index=index)
    np.testing.assert_array_equal(chosen(gbce.Medoid(), scene)[0], CLOUD[best])
    whole = expected_distance(Places(CLOUD), Places(CLOUD), np.full(300, 1 / 300))
    monkeypatch.setattr("gbce.space._places.MEMORY_CELLS", 1000)
    np.testing.assert_allclose(expected_distance(Places(CLOUD), Places(CLOUD), np.full(300, 1 / 300)), whole)


def test_units_matter_to_the_medoid():
    x = np.array([[0.0, 0.0], [1.0, 50.0], [2.0, 0.0], [10.0, 1.0], [-3.0, 0.0]])
    raw = gbce.Medoid().choose(scene_of(x))
    scaled = gbce.Medoid().choose(scene_of(x, space=gbce.Space.real(2, scale=[1.0, 1000.0])))
    assert raw.x[0, 0] in (0.0, 2.0)
    assert scaled.x[0, 0] == 1.0


# --- risk -------------------------------------------------------------------------------------------------------


def wavy(x):
    return np.sin(3 * x[:, 0]) + x[:, 1]


EVEN_GRID = gbce.CVaR(race=False, refine=False)  # as the paper has it


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
    np.testing.assert_array_equal(chosen(EVEN_GRID, scene)[0], CLOUD[np.argmin(risk)])
    meter = scene.posterior.predictors[0].meter
    assert meter.rows == 300 + 1 + 300 * 64
    assert meter.calls == 3  # pool, row, and all perturbed copies in one


def test_cvar_tries_at_most_max_candidates_distinct_draws():
    scene = scene_of(CLOUD, model=wavy, index=RNG.integers(0, 300, 2000))
    gbce.CVaR(max_candidates=50, n_perturb=8, race=False, refine=False).choose(scene)
    assert scene.posterior.predictors[0].meter.rows == 301 + 50 * 8


def test_cvar_breaks_ties_by_distance_and_minimises_the_combined_loss():
    flat = scene_of(CLOUD, model=lambda x: np.zeros(len(x)), noise=0.3)
    nearest = np.linalg.norm(CLOUD, axis=1).argmin()
    for race in (True, False):
        np.testing.assert_array_equal(chosen(gbce.CVaR(race=race, refine=False), flat)[0], CLOUD[nearest])
    explainer = gbce.Explainer([lambda x: x[:, 0], lambda x: x[:, 1]], CLOUD, space=gbce.Space.real(2), combine="all")
    for race in (True, False):
        exact = gbce.CVaR(noise=0.0, n_perturb=1, max_candidates=9_999, race=race, refine=False)
        explanation = explainer.explain([0.0, 0.0], gbce.Value(1, scale=1, tolerance=0.1), rules=[exact], seed=0)
        assert explanation.pointwise["combined_loss"].iloc[0] == explanation.draws.loss.max(axis=1).min()


def test_candidates_are_picked_in_proportion_to_their_weight():
    index = [0] * 8 + [1, 2]
    picks = [pick_draws(scene_of(np.eye(3), index=index, seed=seed), 1)[0] for seed in range(1000)]
    share = np.bincount(picks, minlength=3) / 1000
    np.testing.assert_allclose(share, [0.8, 0.1, 0.1], atol=4 * np.sqrt(0.16 / 1000))


def test_cvar_avoids_a_cliff_that_the_mode_sits_on():
    def cliff(x):
        return np.where(x[:, 0] > 1.0, 0.0, 10.0)

    x = np.column_stack([np.linspace(1.01, 3.0, 200), np.zeros(200)])
    scene = scene_of(x, model=cliff, noise=0.2)
    assert chosen(gbce.MAP(polish=False), scene)[0, 0] == pytest.approx(1.01)
    assert 1.0 < chosen(gbce.MAP(), scene)[0, 0] < 1.002
    assert chosen(gbce.CVaR(), scene)[0, 0] > 1.3


def success_under_noise(noise, seed):
    """Shares of the first 64 and of 512 further perturbations under which each point of the cloud succeeds."""
    shifts = offsets(noise, gbce.Space.real(2), np.random.default_rng(seed), 64 + 512)
    reached = np.array([np.abs(wavy(x + shifts)) <= 0.5 for x in CLOUD])
    return reached[:, :64].mean(axis=1), reached[:, 64:].mean(axis=1)


GRID = np.linspace(0.0, 3.0, 301)[:, None]
ABOVE = gbce.AtLeast(0.0, scale=1, tolerance=0)


def along_a_line(seed, **options):
    """Points on a line that succeed with probability Phi(x / 0.3) under noise."""
    return scene_of(GRID, model=lambda x: x[:, 0], target=ABOVE, noise=0.3, seed=seed, **options)


@pytest.mark.parametrize(("p", "confidence"), [(0.7, 0.95), (0.9, 0.95), (0.9, 0.8)])
def test_chance_constrained_keeps_its_promise_as_often_as_it_says(p, confidence):
    seeds = range(200)
    rule = gbce.ChanceConstrained(p, confidence=confidence)
    true = np.array([norm.cdf(rule.choose(along_a_line(seed)).x[0, 0] / 0.3) for seed in seeds])
    assert np.sum(true < p) <= binom.ppf(1 - 1e-4, len(seeds), 1 - confidence)
    # nearest: beyond the promise is what a trial needs and as much again, and one step of the grid
    assert np.median(true) <= p + 2 * 1.96 * np.sqrt(p * (1 - p) / 2048) + norm.pdf(0) * 0.01 / 0.3


def test_chance_constrained_keeps_its_promise_under_fresh_noise():
    fresh = 0.3 * np.random.default_rng(99).normal(size=(100_000, 2))
    broken = 0
    for seed in range(20):
        choice = gbce.ChanceConstrained(0.6).choose(scene_of(CLOUD, model=wavy, noise=0.3, seed=seed))
        assert choice.note == ""
        broken += np.mean(np.abs(wavy(choice.x + fresh)) <= 0.5) < 0.6
    assert broken <= binom.ppf(1 - 1e-4, 20, 0.05)


def with_a_hole(x):
    """Reaches the target everywhere but at 1 itself."""
    return np.where(np.abs(x[:, 0] - 1.0) > 0.01, 0.0, 9.0)


def test_chance_constrained_takes_a_point_that_reaches_the_target_itself():
    x = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    choice = gbce.ChanceConstrained(0.9, refine=False).choose(scene_of(x, model=with_a_hole, noise=0.3))
    np.testing.assert_array_equal(choice.x, [[2.0, 0.0]])
    assert choice.note == ""
    evaluated = gbce.ChanceConstrained(0.9, refine=False).choose(scene_of(x, index=[0], model=with_a_hole, noise=0.3))
    assert evaluated.x[0, 0] in (2.0, 3.0)  # no draw reaches it, but points do that were evaluated
    nowhere = gbce.ChanceConstrained(0.9, refine=False).choose(scene_of(x[:1], model=with_a_hole, noise=0.3))
    assert "none of 1 draws reaches the target as it is" in nowhere.note


def far_step(x):
    """Reaches 1 from 6 on."""
    return (np.asarray(x, dtype=float)[:, 0] >= 6.0).astype(float)


@pytest.mark.parametrize("rules", [["ChanceConstrained"], ["Nearest", "ChanceConstrained"]])
def test_chance_constrained_knows_what_training_rows_and_rules_before_it_reach(rules):
    """No candidate of the prior comes near the step; the data have rows beyond it."""
    data = np.concatenate([np.random.default_rng(0).normal(size=(100, 2)), [[8.0, 0.0], [9.0, 1.0]]])
    explainer = gbce.Explainer(far_step, data, space=gbce.Space.real(2), sampler=gbce.Importance(500, 100), policy=None)
    found = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0), rules=rules, seed=0)
    assert not found.draws.pool.reached.any()
    decision = found.decisions[-1]
    assert decision.reached.all()
    assert 6.0 <= decision.x[0] < 8.0  # drawn nearer, as far as noise allows


class Strict:
    """A classifier that decides for 1 only when it is very sure, whatever is most probable."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-np.asarray(X, dtype=float)[:, 0]))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] >= 0.9).astype(int)


def test_chance_constrained_asks_for_the_models_own_decision():
    data = np.random.default_rng(0).normal(scale=2.0, size=(100, 1))
    explainer = gbce.Explainer(Strict(), data, space=gbce.Space.real(1), sampler=gbce.Importance(2_000, 500))
    for seed in range(5):
        # 1.7 SDs of the prior away: some ninety of the candidates are accepted
        found = explainer.explain([0.5], gbce.Class(1), rules=[gbce.ChanceConstrained(0.6, noise=0.05)], seed=seed)
        assert found.decisions[0].reached.all()
        assert Strict().predict(found.decisions[0].x[None, :]) == 1


def test_chance_constrained_falls_back_to_the_best_and_says_so():
    choice = gbce.ChanceConstrained(1.0).choose(scene_of(CLOUD, model=wavy, noise=2.0, seed=7))
    few, many = success_under_noise(2.0, 7)
    reaching = np.flatnonzero(np.abs(wavy(CLOUD)) <= 0.5)
    top = reaching[np.argsort(-few[reaching], kind="stable")[:20]]
    # fewer copies of more candidates, and then more of fewer: as good as the best of them but for what 512 can tell
    assert many[(choice.x == CLOUD).all(axis=1)] >= many[top].max() - 3 * np.sqrt(0.2 * 0.8 / 512)
    assert f"none of {len(reaching)} draws that reach the target" in choice.note


def test_what_a_fallback_says_of_itself_is_not_too_good():
    """The best of twenty shares of few copies is far too high; what is said comes from other copies."""
    rule = gbce.ChanceConstrained(0.99, n_perturb=8, n_confirm=16)
    fresh = 2.0 * np.random.default_rng(99).normal(size=(20_000, 2))
    gaps = []
    for seed in range(60):
        choice = rule.choose(scene_of(CLOUD, model=wavy, noise=2.0, seed=seed))
        said = float(choice.note.rstrip(".").rsplit(" ", 1)[1])
        gaps.append(said - np.mean(np.abs(wavy(choice.x + fresh)) <= 0.5))
    assert abs(np.mean(gaps)) <= 4 * np.std(gaps) / np.sqrt(len(gaps))


def test_what_no_number_of_copies_can_show_is_said():
    certain = gbce.ChanceConstrained(1.0).choose(scene_of(CLOUD, model=lambda x: np.zeros(len(x)), noise=0.3))
    assert "2,048 copies without a failure show a probability of 0.9981" in certain.note
    for seed in range(5):
        shaky = gbce.ChanceConstrained(1.0).choose(along_a_line(seed))
        # 0.995 would survive 2,048 copies once in 30,000 times
        assert norm.cdf(shaky.x[0, 0] / 0.3) > 0.995 or "none of" in shaky.note


def test_chance_constrained_asks_about_near_draws_first():
    scene = scene_of(CLOUD, model=lambda x: np.zeros(len(x)), noise=0.1)
    gbce.ChanceConstrained(0.9, refine=False).choose(scene)
    # a glance at fifty, looks at four, a closer one at two, and the first quarter of a trial
    assert scene.posterior.predictors[0].meter.rows == 301 + 50 * 8 + 4 * 16 + 4 * 40 + 2 * 512 + 512


def test_all_trials_together_err_as_often_as_they_say():
    """Twenty candidates that just fall short, each of which looked perfect before."""
    rng, runs, risk = np.random.default_rng(5), 2_000, 0.05
    accepted = 0
    for _ in range(runs):
        trials = Trials(lambda which, n: (rng.binomial(n, 0.9) / n, n), 0.9, risk, 500)
        accepted += trials.find_holding(np.arange(20), np.ones(20)) is not None
    assert accepted <= binom.ppf(1 - 1e-4, runs, risk)
    assert accepted > 0


@pytest.mark.parametrize("n", [1, 30, 2048])
@pytest.mark.parametrize("p", [0.2, 0.7, 0.98])
def test_a_lower_bound_errs_as_often_as_it_says(n, p):
    """Its chance to lie above the truth, by enumeration of all outcomes, is at most the risk."""
    k = np.arange(n + 1)
    above = np.array([lower_bound(successes / n, n, 0.05) > p + 1e-12 for successes in k])
    assert binom.pmf(k, n, p)[above].sum() <= 0.05 + 1e-9


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


def test_diverse_set_stays_in_the_region_of_highest_density():
    loss = RNG.uniform(0, 5, size=300)
    objective = loss + 0.5 * np.square(CLOUD).sum(axis=1)
    choice = gbce.DiverseSet(8, mass=0.2).choose(scene_of(CLOUD, loss=loss))
    inside = CLOUD[objective <= np.quantile(objective, 0.2, method="inverted_cdf")]
    assert (cdist(choice.x, inside).min(axis=1) == 0).all()


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
    explainer = gbce.Explainer(
        case.predict, RNG.normal(size=(50, d)), space=gbce.Space.real(d), eta=2.0, sampler=gbce.Importance()
    )
    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    explanation = explainer.explain(case.x0, target, rules=[gbce.MAP(), gbce.DirectOpt()], seed=0)
    x = explanation.counterfactuals.to_numpy()
    exact = 2.0 * (case.predict(case.mean) - case.y) ** 2 + 0.5 * np.square(case.mean - case.x0).sum()
    objective = explanation.pointwise["objective"]
    np.testing.assert_allclose(x[0], case.mean, atol=1e-3)
    np.testing.assert_allclose(x[1], case.mean, atol=2e-4)
    assert objective["MAP"] == pytest.approx(exact, abs=1e-5)
    assert objective["DirectOpt"] == pytest.approx(exact, abs=1e-6)
    # of n points of the prior none lies within a radius of the mode with probability exp(-n * density * volume)
    density = np.exp(-0.5 * np.square(case.mean - case.x0).sum()) / (2 * np.pi) ** (d / 2)
    unit_ball = np.pi ** (d / 2) / math.gamma(d / 2 + 1)
    radius = (np.log(1e6) / (20_000 * density * unit_ball)) ** (1 / d)
    steepest = 1.0 + 4.0 * case.w @ case.w  # largest second derivative of the objective
    pool = explanation.draws.pool
    assert 0 <= (2.0 * pool.loss[:, 0] + pool.cost).min() - exact < steepest * radius**2 / 2


def test_direct_optimisation_in_units_and_bounds():
    features = gbce.Feature("a", scale=0.5, high=2.0), gbce.Feature("b", scale=20.0, low=-5.0, high=12.0)
    space = gbce.Space(features)
    explainer = gbce.Explainer(lambda x: x[:, 0] + 0.1 * x[:, 1], CLOUD, space=space, eta=3.0)
    explanation = explainer.explain([0.0, 0.0], gbce.Value(3, scale=1, tolerance=0.1), rules=[gbce.DirectOpt()], seed=0)

    def objective(x):
        return 3.0 * (x[0] + 0.1 * x[1] - 3.0) ** 2 + 0.5 * ((x[0] / 0.5) ** 2 + (x[1] / 20.0) ** 2)

    exact = minimize(objective, [0.0, 0.0], bounds=[(None, 2.0), (-5.0, 12.0)], tol=1e-12)
    assert exact.x[1] == 12.0  # the bound holds it back
    np.testing.assert_allclose(explanation.counterfactuals.iloc[0], exact.x, atol=1e-3)


def test_direct_optimisation_starts_at_the_row_and_keeps_the_best_end():
    def island(x):
        return np.where(np.abs(x[:, 0] - 1.0) < 0.6, 0.0, 10.0)  # 29% of the starts: one of 19 lies on it

    stuck, found = (chosen(gbce.DirectOpt(n_starts=n), scene_of(CLOUD, model=island)) for n in (1, 20))
    np.testing.assert_allclose(stuck, [[0.0, 0.0]], atol=1e-6)  # alone, the row's own start sees a plain
    assert island(found)[0] == 0.0


def test_labels_name_what_differs_from_the_default():
    assert gbce.MAP().label == "MAP"
    assert gbce.MAP(polish=False).label == "MAP(polish=False)"
    assert gbce.MAP(method="knn", k=10).label == "MAP(method=knn, k=10)"
    assert gbce.CVaR(noise=[0.1, 0.2]).label == "CVaR(noise=[0.1, 0.2])"
    assert gbce.DiverseSet(4).label == "DiverseSet(k=4)"


def test_a_diverse_set_is_of_draws_that_reach_if_any_does():
    reached = CLOUD[:, 0] > 1.0
    choice = gbce.DiverseSet(4, mass=0.5).choose(scene_of(CLOUD, loss=np.where(reached, 0.0, 5.0)))
    assert (choice.x[:, 0] > 1.0).all()
