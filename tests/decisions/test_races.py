"""Races against the even grid, and looks beyond the draws, where the exact answer is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

import gbce
from gbce.budget import Budget, BudgetSpentError
from gbce.decisions._cvar import Race, Round, Tail, count_rows, plan_race
from gbce.decisions._risk import Trials, propose_around, propose_nearer, tail_mean
from support.scenes import scene_of

GRID, RACE, BEYOND = gbce.CVaR(race=False, refine=False), gbce.CVaR(refine=False), gbce.CVaR()
SEEDS = range(16)
Z = norm.ppf((np.arange(4_000) + 0.5) / 4_000)  # a Gaussian, as good as exactly


def rows_asked(scene):
    """Rows that rules asked for: not those of the pool and of the row."""
    return scene.posterior.predictors[0].meter.rows - len(scene.draws.pool) - 1


# --- a model whose tails are known --------------------------------------------------------------------------------

SIDEWAYS = [0.0, 0.5]  # noise, in the second feature only


def tilted(x):
    """Linear in the second feature, with a slope that the first one gives."""
    return (0.2 + np.abs(x[:, 0])) * x[:, 1] - 1.0


def exact_tail(x, tau=0.9):
    """The tail of ``(mean + slope * noise)**2``."""
    slope = 0.2 + np.abs(x[:, 0])
    return tail_mean(np.square(tilted(x)[:, None] + 0.5 * slope[:, None] * Z), tau)


def tilted_scene(seed, **options):
    x = np.random.default_rng([3, seed]).normal(size=(900, 2)) * [1.0, 1.5]
    return scene_of(x, model=tilted, noise=SIDEWAYS, seed=seed, **options)


def exact_tails_of(rule):
    return np.array([exact_tail(rule.choose(tilted_scene(seed)).x, rule.tau)[0] for seed in SEEDS])


def test_race_chooses_as_well_as_the_grid_for_a_seventh_of_the_rows():
    grid, race = exact_tails_of(GRID), exact_tails_of(RACE)
    best = np.mean([exact_tail(tilted_scene(seed).draws.pool.x).min() for seed in SEEDS])
    assert race.mean() <= grid.mean() + 2 * np.std(race - grid) / np.sqrt(len(SEEDS))
    assert race.mean() <= 1.1 * best
    scene = tilted_scene(0)
    RACE.choose(scene)
    assert rows_asked(scene) <= 800 * 64 / 7


@pytest.mark.parametrize("side", [1, -1])
def test_a_wish_that_ends_on_one_side_takes_a_shorter_race(side):
    """The tail falls the further out a point lies, and the flatter the model is there."""
    kind = gbce.AtLeast if side > 0 else gbce.AtMost
    tails = {rule: [] for rule in (GRID, RACE)}
    for seed in SEEDS:
        for rule, found in tails.items():
            scene = tilted_scene(seed, target=kind(1.5 * side, scale=1.0, tolerance=0.0))
            x = rule.choose(scene).x
            assert rows_asked(scene) <= (800 * 64 if rule is GRID else 800 * 64 / 14)
            noisy = tilted(x)[:, None] + 0.5 * (0.2 + np.abs(x[:, [0]])) * Z
            found.append(tail_mean(np.square(np.maximum(1.5 - side * noisy, 0.0)), 0.9)[0])
    grid, race = np.array(tails[GRID]), np.array(tails[RACE])
    assert race.mean() <= grid.mean() + 2 * np.std(race - grid) / np.sqrt(len(SEEDS)) + 1e-3


@pytest.mark.parametrize("tau", [0.0, 0.5, 0.95])
def test_race_for_other_tails(tau):
    grid, race = (exact_tails_of(replace(rule, tau=tau)) for rule in (GRID, RACE))
    assert race.mean() <= grid.mean() + 2 * np.std(race - grid) / np.sqrt(len(SEEDS)) + 1e-3


def test_looking_beyond_the_draws_is_better_for_a_few_rows_more():
    """Of twenty draws the best is far from the best point there is."""

    def few(seed):
        return tilted_scene(seed, index=np.arange(20))

    race, beyond = (np.array([exact_tail(rule.choose(few(seed)).x)[0] for seed in SEEDS]) for rule in (RACE, BEYOND))
    assert beyond.mean() < 0.9 * race.mean()
    # one standard error of a paired difference is what a change for the worse has to be mistaken for
    assert np.mean(beyond > race + 1e-12) <= 0.25
    scene, plain = few(0), few(0)
    BEYOND.choose(scene)
    RACE.choose(plain)
    assert rows_asked(scene) - rows_asked(plain) <= 2_000


def test_what_is_found_beyond_the_draws_is_admissible():
    features = gbce.Feature("a", kind="integer", low=-3, high=3), gbce.Feature("b", low=0.0, high=4.0)
    x = np.column_stack([np.random.default_rng(1).integers(-3, 4, 60), np.random.default_rng(2).uniform(0, 4, 60)])
    for seed in range(5):
        scene = scene_of(x, x0=[0.0, 1.0], model=tilted, noise=SIDEWAYS, seed=seed, space=gbce.Space(features))
        around = propose_around(scene, scene.posterior, x[0], x[:12], 50, 1.0)
        for found in (BEYOND.choose(scene).x, around, propose_nearer(scene, x[0], 50, scene.distance, np.copy)):
            np.testing.assert_array_equal(found, scene.space.project(found, scene.x0))
        assert len(around) > 10
        costs = scene.posterior.prior.cost
        assert costs(around).max() <= costs(x[:12]).max()


def hole_and_basin(x):
    """A narrow hole that has no loss, a broad basin that has some, and much elsewhere."""
    hole, basin = np.abs(x[:, 0] - 1.0) < 0.05, np.abs(x[:, 0] + 3.0) < 1.0
    return np.where(hole, 0.0, np.where(basin, 0.5, 3.0))


@pytest.mark.parametrize("rule", [RACE, BEYOND])
def test_race_takes_the_broad_basin_not_the_narrow_hole(rule):
    for seed in range(10):
        rng = np.random.default_rng([4, seed])
        x = np.concatenate([1.0 + 0.04 * rng.uniform(-1, 1, 600), -3.0 + 0.9 * rng.uniform(-1, 1, 60)])[:, None]
        chosen = rule.choose(scene_of(x, model=hole_and_basin, noise=0.2, seed=seed)).x[0, 0]
        # the tail is 0.25 as long as less than a share of it leaves the basin: 0.4 is two standard deviations
        assert abs(chosen + 3.0) < 0.6


# --- races ----------------------------------------------------------------------------------------------------------


def race_of(loss, tau=0.9, distance=None, rounds=None, n_perturb=8):
    """Run a race over losses ``(k, n)`` that are known; returns the winner and the rows asked."""
    asked = []

    def look(which, copies):
        asked.append(len(which) * (copies.stop - copies.start))
        return loss[which][:, copies, None]

    k = len(loss)
    rounds = plan_race(k, n_perturb) if rounds is None else rounds
    distance = np.arange(k, dtype=float) if distance is None else distance
    return Race(look, Tail(tau, np.ones(1)), distance).run(rounds)[-1][0], sum(asked)


def test_race_of_losses_without_noise_finds_the_least():
    for seed in range(10):
        level = np.random.default_rng(seed).exponential(size=(100, 1))
        winner, rows = race_of(np.tile(level, (1, 32)))
        assert winner == level.argmin()
        assert rows == count_rows(plan_race(100, 8), 100)


def test_equal_losses_go_to_the_nearest_and_infinite_ones_lose():
    distance = np.random.default_rng(0).permutation(60).astype(float)
    for level in (0.0, 1.0, np.inf):
        assert race_of(np.full((60, 32), level), distance=distance)[0] == distance.argmin()
    loss = np.full((60, 256), np.inf)
    loss[17] = 5.0
    assert race_of(loss, n_perturb=64)[0] == 17
    loss[18], loss[18, 40] = 1.0, np.inf  # its tail is infinite, but only after 40 copies
    assert race_of(loss, n_perturb=64)[0] == 17


def test_equals_on_the_edge_of_a_round_go_on_near_and_far():
    """All lose nothing under few copies; only the farther half still does under many."""
    loss = np.zeros((200, 256))
    loss[:100, 10:] = 1.0
    assert race_of(loss, n_perturb=64)[0] >= 100


@pytest.mark.parametrize("n", [1, 2, 4, 5, 30, 800, 5_000])
@pytest.mark.parametrize("n_perturb", [1, 2, 8, 64, 500])
@pytest.mark.parametrize("final", [1, 4])
@pytest.mark.parametrize("one_sided", [False, True])
def test_plan_of_a_race(n, n_perturb, final, one_sided):
    rounds = plan_race(n, n_perturb, one_sided=one_sided, final=final)
    if n == 1:
        assert rounds == []
        return
    copies, kept = (np.array(column) for column in zip(*rounds, strict=True))
    assert (np.diff(copies) > 0).all()
    assert (np.diff([n, *kept]) <= 0).all()
    assert kept[-1] == 1
    assert copies[-1] == final * n_perturb
    assert count_rows(rounds, n) <= n * n_perturb + 4 * (final - 1) * n_perturb


def test_clearly_worse_ones_do_not_go_on():
    rng = np.random.default_rng(0)
    loss = np.concatenate([0.1 * rng.exponential(size=(1, 256)), 5.0 + rng.exponential(size=(59, 256))])
    winner, rows = race_of(loss, n_perturb=64)
    assert winner == 0
    assert rows < count_rows(plan_race(60, 64), 60) - 3 * 192  # no final against three that are far behind


def test_difference_of_tails_has_the_error_it_says():
    rng, runs = np.random.default_rng(1), 400
    gaps, errors = np.zeros(runs), np.zeros(runs)
    for i in range(runs):
        common = rng.normal(size=256)
        loss = np.square(np.stack([common + 0.5, 1.1 * common]))[:, :, None]
        (gaps[i], _), (errors[i], _) = Tail(0.9, np.ones(1)).compare(loss, 1)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(gaps.std(), rel=0.25)


@pytest.mark.parametrize("rows", [64, 100, 129, 600, 2_000, 7_000])
def test_race_keeps_to_a_budget(rows):
    scene = tilted_scene(0)
    budget = Budget(rows)
    BEYOND.choose(replace(scene, posterior=replace(scene.posterior, budget=budget)))
    assert budget.rows <= rows
    with pytest.raises(BudgetSpentError, match="raise max_model_rows"):
        BEYOND.choose(replace(scene, posterior=replace(scene.posterior, budget=Budget(63))))


def test_race_across_models_and_noise():
    """The nearest of equals between two models that want opposite things lies in the middle."""
    models = [lambda x: x[:, 0], lambda x: x[:, 0] - 2.0]
    explainer = gbce.Explainer(models, np.random.default_rng(0).normal(size=(50, 1)), space=gbce.Space.real(1))
    rules = [gbce.CVaR(noise=0.3, across="models"), gbce.CVaR(noise=0.3, across="models", race=False, refine=False)]
    found = explainer.explain([0.0], gbce.Value(0.0, scale=1, tolerance=1), rules=rules, seed=0)
    chosen = found.counterfactuals.to_numpy()[:, 0]

    def exact(x):  # half of the copies under each model
        return tail_mean(np.concatenate([np.square(x + 0.3 * Z), np.square(x - 2.0 + 0.3 * Z)])[None, :], 0.9)[0]

    assert exact(chosen[0]) <= exact(chosen[1]) + 0.1
    assert chosen[0] == pytest.approx(1.0, abs=0.1)


# --- a promise, nearer to the row -----------------------------------------------------------------------------------

SLOPES = np.array([1.0, 0.5, 0.2, 0.0, -0.3])
WISH = gbce.AtLeast(2.0, scale=1, tolerance=0)


def straight(x):
    return x @ SLOPES


def straight_scene(seed):
    """Draws that mostly reach 2, around a point well beyond it; noise moves the output by a known Gaussian."""
    x = np.random.default_rng([5, seed]).normal(size=(300, 5)) + 1.5 * SLOPES
    scene = scene_of(x, model=straight, target=WISH, noise=0.3, seed=seed)
    pool = replace(scene.draws.pool, reached=straight(x)[:, None] >= 2.0)
    return replace(scene, draws=replace(scene.draws, pool=pool))


def test_promise_is_kept_nearer_to_the_row():
    seeds, p = range(100), 0.9
    near = gbce.ChanceConstrained(p, n_confirm=256)
    chosen = np.vstack([near.choose(straight_scene(seed)).x for seed in seeds])
    draws = np.vstack([replace(near, refine=False).choose(straight_scene(seed)).x for seed in seeds])
    true = norm.cdf((straight(chosen) - 2.0) / (0.3 * np.linalg.norm(SLOPES)))
    assert np.sum(true < p) <= binom.ppf(1 - 1e-4, len(seeds), 0.05)
    distance, before = np.linalg.norm(chosen, axis=1), np.linalg.norm(draws, axis=1)
    assert (distance <= before).all()
    assert np.mean(distance < before) > 0.4
    assert distance.mean() < 0.985 * before.mean()
    assert (straight(chosen) >= 2.0).all()


def test_what_looked_good_but_fails_its_trial_is_not_taken():
    """The noise of a trial, known by its size, ruins everything from the second trial on."""
    trials = []

    def noise(rng, n):
        trials.extend([n] * (n == 512))
        return np.full((n, 1), -100.0 if n == 512 and len(trials) > 1 else 0.0)

    scene = scene_of([[2.0]], model=lambda x: x[:, 0], target=gbce.AtLeast(0.5, scale=1, tolerance=0), noise=noise)
    pool = replace(scene.draws.pool, reached=np.ones((1, 1), dtype=bool))
    choice = gbce.ChanceConstrained().choose(replace(scene, draws=replace(scene.draws, pool=pool)))
    assert len(trials) == 3
    np.testing.assert_array_equal(choice.x, [[2.0]])


def test_what_is_nearer_reaches_the_target_itself():
    def with_a_gap(x):  # missed half of the way from 2 to the row, but not often under noise
        return np.where((x[:, 0] > 0.9) & (np.abs(x[:, 0] - 1.0) > 0.01), 0.0, 9.0)

    scenes = [scene_of([[2.0]], model=with_a_gap, noise=0.1, seed=seed) for seed in range(20)]
    chosen = np.vstack([gbce.ChanceConstrained(0.7).choose(scene).x for scene in scenes])
    assert (with_a_gap(chosen) == 0.0).all()
    assert np.mean(chosen < 2.0) > 0.5


def test_search_towards_the_row_costs_a_few_thousand_rows():
    more = []
    for seed in range(20):
        scene, plain = straight_scene(seed), straight_scene(seed)
        gbce.ChanceConstrained().choose(scene)
        gbce.ChanceConstrained(refine=False).choose(plain)
        more.append(rows_asked(scene) - rows_asked(plain))
    assert np.mean(more) <= 6_500
    assert max(more) <= 4 * (16 * 17 + 6 * 48 + 3 * 256) + 2 * 2_048  # four rounds and two trials


def test_a_probability_that_no_second_trial_could_show_is_not_sought_nearer():
    certain = scene_of(np.ones((5, 1)), model=lambda x: np.zeros(len(x)), noise=0.1)
    gbce.ChanceConstrained(1.0).choose(certain)
    assert rows_asked(certain) == 4 * 64 + 8 + 2 * 512 + 2048


def trials_of(shares, copies=1_000):
    """Trials whose candidates succeed exactly so often, and what they asked for."""
    asked = []

    def success(which, n):
        asked.append(n)
        return shares[which], n

    return Trials(success, 0.9, 0.05, copies), asked


def test_clear_trials_end_early():
    passed, asked = trials_of([0.99])
    assert passed.find_holding(np.array([0]), np.ones(1)) == 0
    assert asked == [250]
    failed, asked = trials_of([0.7])
    assert failed.find_holding(np.array([0]), np.ones(1)) is None
    assert asked == [250]
    close, asked = trials_of([0.94])
    assert close.find_holding(np.array([0]), np.ones(1)) == 0
    assert asked == [250, 250]
    closer, asked = trials_of([0.925])
    assert closer.find_holding(np.array([0]), np.ones(1)) == 0
    assert asked == [250, 250, 500]


@pytest.mark.parametrize("p", [0.5, 0.9, 0.95])
def test_a_trial_of_three_looks_errs_as_often_as_it_says(p):
    """The chance that a candidate just below the promise passes, by enumeration of all looks."""
    sizes, risk = (24, 24, 48), 0.1

    def passes(*successes):
        """Whether it passes with these, and whether it asked for more than that."""
        told = iter([(k / n, n) for k, n in zip(successes, sizes, strict=False)])
        trials = Trials(lambda which, n: next(told), p + 1e-9, risk, sum(sizes))
        try:
            return trials.find_holding(np.array([0]), np.ones(1)) is not None, False
        except StopIteration:
            return False, True

    accepted = 0.0
    ways = [((), 1.0)]
    for n in sizes:
        going = []
        for before, weight in ways:
            for k in range(n + 1):
                chance = weight * float(binom.pmf(k, n, p))
                if chance > 1e-8:
                    passed, goes_on = passes(*before, k)
                    accepted += chance * passed
                    going += [((*before, k), chance)] if goes_on else []
        ways = going
    assert 0 < accepted <= risk / 2


def test_ten_models_that_all_succeed_are_certain():
    """Ten weights of 0.1 sum to a bit less than one."""
    share = float(np.ones(10, dtype=bool) @ np.full(10, 0.1))
    trials = Trials(lambda which, n: (share - 1e-15, n), 1.0, 0.05, 2_048)
    assert trials.find_holding(np.array([0]), np.array([share])) == 0


def test_rounds_are_what_a_plan_says():
    assert plan_race(10, 4) == [Round(3, 5), Round(4, 4), Round(16, 1)]
    assert plan_race(2, 64) == [Round(64, 2), Round(256, 1)]
