"""The hierarchy's sampler, against joint Gaussians, its own laws and weighted draws of them."""

import numpy as np
import pytest
from scipy.stats import halfnorm, norm

from benchmarks.rivals._hierarchy import mixing, sample_levels
from benchmarks.rivals._hierarchy_law import Law, draw_changes, log_mass
from benchmarks.rivals._hierarchy_state import State

# of one observation w * delta of t, with noise s; width and spread of the changes
W, S, TAU, OMEGA = 2.0, 0.5, 0.3, 0.4


def gaussian_score(t):
    return lambda change: -0.5 * ((t[None, :, None] - W * change[..., 0]) / S) ** 2


def run(law, score, groups, p=1, *, free=None, seed=0, **options):
    """Return draws of many short chains: what they differ by is the error."""
    free = np.ones((len(groups), p), dtype=bool) if free is None else free
    sizes = {"steps": 30, "warmup": 50, "chains": 200, "candidates": 3} | options
    return sample_levels(law, score, np.asarray(groups), free, rng=np.random.default_rng(seed), **sizes)


def agrees(draws, expected):
    """Whether means over steps and chains ``(steps, chains, ...)`` are within five standard errors over chains."""
    by_chain = draws.mean(axis=0)
    error = by_chain.std(axis=0) / np.sqrt(len(by_chain))
    return bool((np.abs(by_chain.mean(axis=0) - expected) < 5 * error).all())


def test_one_row_has_the_closed_form():
    law = Law(rate=0.0, family="normal", centre=0.0, spread=OMEGA, width=TAU)
    levels = run(law, gaussian_score(np.array([1.0])), [0])
    assert agrees(levels.changes[..., 0], 0.4)
    assert agrees((levels.changes[..., 0] - 0.4) ** 2, 0.05)


@pytest.mark.parametrize("centre", [0.0, None])
def test_rows_of_two_groups_have_the_joint_gaussian(centre):
    t, groups = np.array([1.0, -0.5, 2.0, 0.0, 0.3]), np.array([0, 0, 1, 1, 1])
    law = Law(rate=0.0, family="normal", centre=centre, spread=OMEGA, width=TAU)
    levels = run(law, gaussian_score(t), groups, seed=1)
    shared = float(centre is None)  # the variance of the population's centre
    before = TAU**2 * np.eye(5) + OMEGA**2 * np.equal.outer(groups, groups) + shared
    after = np.linalg.inv(np.linalg.inv(before) + np.eye(5) * W**2 / S**2)
    mean = after @ (W * t / S**2)
    across = OMEGA**2 * np.equal.outer([0, 1], groups) + shared
    onto = across @ np.linalg.inv(before)
    assert agrees(levels.changes[..., 0], mean)
    assert agrees((levels.changes[..., 0] - mean) ** 2, np.diag(after))
    assert agrees(levels.groups[..., 0], onto @ mean)
    if centre is None:
        assert agrees(levels.population[..., 0], shared * np.ones(5) @ np.linalg.inv(before) @ mean)


def test_where_the_model_says_nothing_the_laws_are_left():
    free = np.ones((4, 2), dtype=bool)
    free[0, 1] = False  # says nothing, and stays
    law = Law(rate=0.0)
    levels = run(law, lambda change: np.zeros(change.shape[:-1]), [0, 0, 1, 1], 2, free=free, steps=30, warmup=20)
    for draws, known in [
        (levels.spread, halfnorm(scale=0.5)),
        (levels.width, halfnorm(scale=0.5)),
        (levels.population, norm()),
    ]:
        for share in (0.1, 0.5, 0.9):
            assert agrees(draws < known.ppf(share), share)
    deviation = (levels.changes - levels.groups[:, :, [0, 0, 1, 1]]) / levels.width[:, :, None]
    assert agrees(np.abs(deviation)[:, :, free], 1.0)
    assert (levels.changes[:, :, ~free] == 0).all()


@pytest.mark.parametrize("move", ["renew_changes", "carry_groups", "carry_widths", "renew_columns", "renew_levels"])
@pytest.mark.parametrize("family", ["laplace", "normal"])
def test_each_move_alone_keeps_the_laws(family, move):
    groups, free, chains = np.array([0, 1, 1]), np.array([[True, True], [True, False], [True, True]]), 2_000
    law = Law(rate=0.0, family=family)
    rng = np.random.default_rng(6)
    state = State(law, lambda change: np.zeros(change.shape[:-1]), groups, free, chains, 2, rng)  # begins in its laws
    candidates = [] if move in ("renew_columns", "renew_levels") else [3]
    for _ in range(40 if candidates else 4):  # short steps drift slowly where they are wrong
        getattr(state, move)(*candidates)
    deviation = (state.delta - state.mu[:, groups]) / state.b[:, None]
    size = np.abs(deviation[:, free]) if family == "normal" else norm.isf(np.exp(-np.abs(deviation[:, free])) / 2)
    offset = (state.mu - state.mu0[:, None]) / state.omega[:, None]
    standard = [2 * state.omega, 2 * state.b, np.abs(state.mu0), size, np.abs(offset).reshape(chains, -1)]
    for share in (0.1, 0.5, 0.9):
        below = np.concatenate(standard, axis=1) < halfnorm.ppf(share)
        assert (np.abs(below.mean(axis=0) - share) < 5 * np.sqrt(share * (1 - share) / chains)).all()


@pytest.mark.parametrize("family", ["laplace", "normal"])
def test_all_levels_agree_with_weighted_draws_of_their_laws(family):
    groups, starts = np.array([0, 0, 1]), np.array([-2.0, -1.0, -1.5])

    def score(change):
        return -np.logaddexp(0.0, -4 * (starts[None, :, None] + change[..., 0]))

    levels = run(Law(family=family), score, groups, seed=2)
    rng = np.random.default_rng(3)
    n = 300_000
    centre, spread, width = rng.standard_normal(n), *(0.5 * np.abs(rng.standard_normal((2, n))))
    of_group = centre[:, None] + spread[:, None] * rng.standard_normal((n, 2))
    noise = rng.laplace(size=(n, 3)) if family == "laplace" else rng.standard_normal((n, 3))
    change = of_group[:, groups] + width[:, None] * noise
    log_weight = score(change[:, :, None, None])[..., 0].sum(axis=1) - np.abs(change).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / (weight**2).sum() > 10_000
    found = [levels.population, levels.spread, levels.width, levels.groups[..., 0], levels.changes[..., 0]]
    for drawn, known in zip(found, (centre, spread, width, of_group, change), strict=True):
        known = known.reshape(n, -1)
        mean = weight @ known
        of_known = np.sqrt(weight**2 @ (known - mean) ** 2)
        by_chain = drawn.mean(axis=0)
        error = np.hypot(by_chain.std(axis=0) / np.sqrt(len(by_chain)), of_known)
        assert (np.abs(by_chain.mean(axis=0) - mean) < 5 * error).all()


@pytest.mark.parametrize(
    ("centre", "width", "rate"), [(0.7, 0.3, 1.0), (-0.4, 0.5, 2.0), (1.2, 2.0, 3.0), (0.0, 0.2, 1.0)]
)
def test_changes_under_proximity_have_their_law_and_mass(centre, width, rate):
    law = Law(rate=rate)
    drawn = draw_changes(law, np.full(40_000, centre), np.full(40_000, width), np.random.default_rng(4))
    grid, step = np.linspace(-15, 15, 300_001, retstep=True)
    density = np.exp(-np.abs(grid - centre) / width - rate * np.abs(grid)) / (2 * width)
    assert log_mass(law, centre, width) == pytest.approx(np.log(density.sum() * step), abs=1e-4)
    known = np.interp(np.sort(drawn), grid, np.cumsum(density) / density.sum())
    # 1.95 / sqrt(n) is exceeded once in a thousand samples
    assert np.abs(known - np.arange(1, 40_001) / 40_000).max() < 1.95 / 200 + 1e-4


def test_chains_apart_are_seen():
    rng = np.random.default_rng(0)
    together = rng.standard_normal((100, 4, 2))
    assert mixing(together) < 1.1
    assert mixing(together + np.arange(4)[None, :, None]) > 1.5
    assert mixing(np.zeros((100, 4, 2))) == 1.0


def test_costs_are_those_of_the_groups():
    law = Law(rate=0.0, family="normal", centre=0.0, spread=OMEGA, width=TAU)
    groups = np.array([0, 1, 1])
    levels = run(law, gaussian_score(np.array([3.0, 0.0, 0.0])), groups, chains=4, steps=20)
    costs = levels.costs(groups)
    assert costs.shape == (20, 4, 2)
    assert costs[0, 0, 1] == pytest.approx(np.abs(levels.changes[0, 0, 1:, 0]).mean())
    assert costs[..., 0].mean() > costs[..., 1].mean()


@pytest.mark.parametrize(
    ("options", "sentence"), [({"family": "cauchy"}, "'laplace' or 'normal'"), ({"rate": -1}, "not be")]
)
def test_options_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Law(**options)
