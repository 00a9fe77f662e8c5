"""Points under Gaussian noise: laws by hand and against the space's own moves, sums over cells against trials."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce.budget import Budget
from gbce.metrics import evaluate_under_noise, noise_distribution, offsets, sum_under_noise

N = 40_000  # trials: a share has an error of at most 0.0025
ERRORS = 4.5  # standard errors: one test in 150,000 fails by chance
ROUNDING = 2e-6  # of what is called exact


def posterior_of(model, data, target, space=None, row=0):
    """The posterior of a row, with nothing sampled to speak of."""
    explainer = gbce.Explainer(model, data, space=space, sampler=gbce.Importance(10), policy=None)
    x = data[row] if isinstance(data, np.ndarray) else data.iloc[row]
    found = explainer.explain(x, target, rules=[], seed=0)
    return explainer._session.own_posterior(found, Budget()), explainer.space


def summed(posterior, space, x, noise):
    return sum_under_noise(posterior, noise_distribution(noise, space, posterior.prior.x0, x), posterior.read_trees())


def tried(posterior, space, x, noise):
    """Share and mean output of trials, and the error of the mean."""
    shifts = offsets(noise, space, np.random.default_rng(5), N)
    said = evaluate_under_noise(posterior, space, x[None, :], shifts, first_only=True)
    output = said.outputs[0, :, 0]
    return said.reached[0, :, 0].mean(), output.mean(), output.std() / np.sqrt(N)


def share_error(exact):
    """By how much a share of trials may differ from a probability; a few trials more or less where it is tiny."""
    p = exact.success.value
    return ERRORS * np.sqrt(p * (1 - p) / N) + 10 / N


def steps(values, at=None):
    """A tree on one column that says ``values``, with thresholds half-way between 0, 1, 2, ... or at given places."""
    x = np.arange(float(len(values)))[:, None] if at is None else np.asarray(at, dtype=float)[:, None]
    return DecisionTreeRegressor(random_state=0).fit(x, values), x


# --- by hand ------------------------------------------------------------------------------------------------


def test_one_column_is_the_normal_law_between_thresholds():
    model, data = steps([0.0, 3.0, 1.0, 5.0])  # thresholds 0.5, 1.5, 2.5
    posterior, space = posterior_of(model, data, gbce.AtLeast(2.0, scale=1), gbce.Space.real(1))
    exact = summed(posterior, space, np.array([1.2]), 0.7)
    edges = np.array([0.5, 1.5, 2.5]) + np.spacing(np.float32([0.5, 1.5, 2.5])) / 2.0  # the tree reads single precision
    p = np.diff(norm(1.2, 0.7).cdf([-np.inf, *edges, np.inf]))
    assert exact.success.value == pytest.approx(p[1] + p[3], abs=1e-9)
    assert exact.success.low <= p[1] + p[3] <= exact.success.high
    assert exact.output.low <= p @ [0.0, 3.0, 1.0, 5.0] <= exact.output.high
    assert exact.output.high - exact.output.low < ROUNDING
    assert exact.cells == 4


def test_limits_hold_all_that_lies_beyond_them():
    model, data = steps([0.0, 3.0, 1.0, 5.0])
    space = gbce.Space((gbce.Feature("x1", low=0.0, high=2.0, direction="increase"),))
    posterior, _ = posterior_of(model, data, gbce.Range(0.5, 3.5, scale=1), space, row=1)
    exact = summed(posterior, space, np.array([1.2]), 1.0)  # from 1 to 2: below 0.5 and above 2.5 it cannot get
    p = norm(1.2, 1.0).cdf(1.5)
    assert exact.success.value == 1.0
    assert exact.output.value == pytest.approx(3.0 * p + 1.0 * (1 - p), abs=ROUNDING)


def test_whole_numbers_are_rounded_first():
    model, data = steps([0.0, 3.0, 1.0, 5.0])
    space = gbce.Space((gbce.Feature("x1", "integer", low=0, high=3),))
    posterior, _ = posterior_of(model, data, gbce.AtLeast(2.0, scale=1), space)
    exact = summed(posterior, space, np.array([1.0]), 0.8)
    value = np.clip(np.arange(-9, 10), 0, 3)
    p = np.diff(norm(1.0, 0.8).cdf(np.arange(-9.5, 10)))
    want = np.array([0.0, 3.0, 1.0, 5.0])[value]
    assert exact.success.value == pytest.approx(p[want >= 2].sum(), abs=ROUNDING)
    assert exact.output.value == pytest.approx(p @ want, abs=ROUNDING)


def test_no_noise_is_the_point_itself():
    model, data = steps([0.0, 3.0])
    posterior, space = posterior_of(model, data, gbce.AtLeast(2.0, scale=1), gbce.Space.real(1))
    for x, share in ((0.0, 0.0), (1.0, 1.0)):
        exact = summed(posterior, space, np.array([x]), 0.0)
        assert (exact.success.value, exact.output.value) == (share, pytest.approx(3.0 * share))


# --- the law of columns -------------------------------------------------------------------------------------


def strange_space():
    """Columns that are cut and rounded in every way there is."""
    n = 12
    frame = pd.DataFrame(
        {
            "plain": np.linspace(0.0, 1.0, n),
            "few digits": np.linspace(900.0, 1100.0, n).astype(np.float16),
            "single": np.linspace(1e6, 1e6 + 2.0, n).astype(np.float32),
            "whole": np.arange(n) * 3,
            "up": np.linspace(0.0, 5.0, n),
            "level": pd.Categorical(["c", "a", "b", "d"] * 3, categories=list("abcd"), ordered=True),
            "day": pd.date_range("2020-01-01", periods=n, freq="D"),
            "kind": ["x", "y", "z"] * 4,
        }
    )
    return gbce.Space.infer(frame, increase=["up"], bounds={"plain": (0.0, 1.0), "few digits": (None, 1010.3)}), frame


def test_every_column_is_cut_and_rounded_as_the_space_does_it():
    space, frame = strange_space()
    x0 = space.encode(frame)[4]
    x = space.project(x0[None, :] + 0.3 * space.scale * ~space.unordered, x0)[0]
    law = noise_distribution(0.6, space, x0, x)
    assert [space.names[one.feature] for one in law.columns] == [name for name in space.names if name != "kind"]
    copies = x + offsets(0.6, space, np.random.default_rng(2), N)
    moved = space.move_each(np.tile(x, (N, 1)), copies, x0)
    for column in law.columns:
        seen = np.unique(moved[:, column.feature])
        assert column.low <= seen[0] <= seen[-1] <= column.high
        some = seen[:: max(1, len(seen) // 40)]
        ends = np.unique(np.concatenate([some, some - 1e-9 * np.abs(some), (seen[1:] + seen[:-1])[::500] / 2]))
        share, exact = (moved[:, column.feature] <= ends[:, None]).mean(axis=1), column.upto(ends)
        error = np.sqrt(exact * (1 - exact) / N)
        assert (np.abs(share - exact) <= ERRORS * error + 1e-9).all(), space.names[column.feature]
    assert (moved[:, -1] == x[-1]).all()


def test_what_is_missing_stays_so_and_a_rule_on_other_columns_does_not_matter():
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0], "b": [1.0, 2.0, 3.0, 4.0], "c": [1.0, 1.0, 2.0, 0.0]})
    space = gbce.Space.infer(frame, immutable=["c"], constraints=["c <= 2"])
    x0 = space.encode(frame)[1]
    law = noise_distribution(0.1, space, x0, x0)
    assert [space.names[one.feature] for one in law.columns] == ["b"]
    assert np.isnan(law.base[0])


def test_there_is_no_law_of_columns_for_functions_and_where_rules_bind_them():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0], "total": [2.0, 4.0, 6.0]})
    bound = gbce.Space.infer(frame, constraints=["a <= 2 * b"])
    computed = gbce.Space.infer(frame, computed={"total": "a + b"})
    for space, noise in ((bound, 0.1), (computed, 0.1), (bound, lambda rng, n: np.zeros((n, 3)))):
        x0 = space.encode(frame)[0]
        assert noise_distribution(noise, space, x0, x0) is None
    x0 = bound.encode(frame)[0]
    assert noise_distribution({"total": 0.1}, bound, x0, x0) is not None  # no rule looks at what moves
    far = np.array([1e16])
    assert noise_distribution(0.1, gbce.Space.real(1), far, far) is None  # lost in rounding


# --- sums against trials ------------------------------------------------------------------------------------


def spread(n, d):
    """Numbers between zero and one without chance: each column goes round by steps of its own irrational length."""
    return (np.arange(1, n + 1)[:, None] * np.sqrt([2, 3, 5, 7, 11, 13][:d])) % 1.0


def made_up(n=300, d=2):
    x = norm.ppf(spread(n, d))
    return x, x[:, 0] + x[:, 1] ** 2


def with_kinds(n=300):
    at = spread(n, 4)
    frame = pd.DataFrame(
        {
            "count": (9 * at[:, 0]).astype(int),
            "size": np.where(at[:, 1] < 0.2, np.nan, 2.0 + norm.ppf(at[:, 2])),
            "kind": pd.Categorical(np.array(list("xyz"))[(3 * at[:, 3]).astype(int)]),
        }
    )
    y = frame["count"] + 2.0 * frame["size"].fillna(-1.0) + 3.0 * (frame["kind"] == "x")
    return frame, np.asarray(y)


def case(name):
    """A posterior, its space, a point and noise."""
    x, y = made_up()
    if name == "forest":
        model = RandomForestRegressor(20, max_depth=5, random_state=0).fit(x, y)
        return *posterior_of(model, x, gbce.AtLeast(1.6)), np.array([0.8, 1.0]), 0.15
    if name == "votes":
        model = RandomForestClassifier(11, random_state=0).fit(x, y > 1.0)
        return *posterior_of(model, x, gbce.Class(True)), np.array([0.4, 0.8]), [0.1, 0.3]
    if name == "logistic":
        model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(x, y > 1.0)
        return *posterior_of(model, x, gbce.Class(False, probability=0.6)), np.array([0.1, 0.8]), 0.2
    if name == "three classes":
        model = GradientBoostingClassifier(n_estimators=6, random_state=0).fit(x, np.digitize(y, [0.0, 1.5]))
        return *posterior_of(model, x, gbce.Class(1)), np.array([0.4, 1.05]), 0.2
    frame, y = with_kinds()
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype", random_state=0).fit(frame, y)
    known = frame["size"].isna() if name == "gap" else frame["size"].between(1.5, 2.5)
    row = int(np.flatnonzero(known & frame["count"].between(3, 5))[0])
    wanted = gbce.AtLeast(float(model.predict(frame.iloc[[row]])[0]) - 0.05)
    posterior, space = posterior_of(model, frame, wanted, row=row)
    return posterior, space, space.encode(frame)[row], 0.5


@pytest.mark.parametrize("name", ["forest", "votes", "logistic", "three classes", "kinds", "gap"])
def test_sums_are_what_many_trials_come_to(name):
    posterior, space, x, noise = case(name)
    asked = posterior.n_rows
    exact = summed(posterior, space, x, noise)
    assert posterior.n_rows - asked < 600  # of these at most 400 to see that the model was read rightly
    share, mean, mean_error = tried(posterior, space, x, noise)
    assert 0.02 < exact.success.value < 0.98  # a point where something is at stake
    assert abs(exact.success.value - share) <= share_error(exact)
    assert exact.success.high - exact.success.low <= 2e-6
    assert abs(exact.output.value - mean) <= ERRORS * mean_error + ROUNDING


def test_too_many_cells_leave_the_expected_output_of_sums_only():
    x, noise, at = norm.ppf(spread(300, 6)), 0.4, np.full(6, 0.2)
    forest = RandomForestRegressor(30, random_state=0).fit(x, x.sum(axis=1))
    posterior, space = posterior_of(forest, x, gbce.AtLeast(1.0))
    exact = summed(posterior, space, at, noise)
    _, mean, error = tried(posterior, space, at, noise)
    assert exact.success is None
    assert abs(exact.output.value - mean) <= ERRORS * error + ROUNDING
    booster = GradientBoostingClassifier(random_state=0).fit(x, x.sum(axis=1) > 0)
    posterior, space = posterior_of(booster, x, gbce.Class(True))
    assert summed(posterior, space, at, noise) == (None, None, 0)  # a mean of scores is no mean of probabilities


def test_cells_at_the_very_limit_are_asked_about():
    x, y = made_up()
    regressor = GradientBoostingRegressor(n_estimators=3, learning_rate=0.3, max_depth=1, random_state=0).fit(x, y)
    at = np.array([0.3, 0.6])
    level = float(regressor.predict(at[None, :])[0])
    for wanted in (np.nextafter(level, -np.inf), level, np.nextafter(level, np.inf)):  # a bit decides about its cell
        posterior, space = posterior_of(regressor, x, gbce.AtLeast(float(wanted), scale=1.0, tolerance=0.0))
        exact = summed(posterior, space, at, 0.5)
        share, *_ = tried(posterior, space, at, 0.5)
        assert abs(exact.success.value - share) <= share_error(exact)


def test_trees_of_another_model_are_not_believed():
    x, y = made_up()
    one = RandomForestRegressor(5, max_depth=4, random_state=0).fit(x, y)
    other = RandomForestRegressor(5, max_depth=4, random_state=1).fit(x, y + 1.0)
    posterior, space = posterior_of(one, x, gbce.AtLeast(1.0))
    false, _ = posterior_of(other, x, gbce.AtLeast(1.0))
    law = noise_distribution(0.1, space, posterior.prior.x0, np.array([0.5, 0.5]))
    assert sum_under_noise(posterior, law, posterior.read_trees()).success is not None
    assert sum_under_noise(posterior, law, false.read_trees()) == (None, None, 0)
