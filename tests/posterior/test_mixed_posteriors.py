"""Mixed rows: sparse, bounded, conditional, missing and data-bound priors against exact answers; rules on all kinds."""

import itertools

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import gbce
from gbce.metrics import Neighbours
from gbce.priors._families import Density
from gbce.space import Places
from support.exact import Grid, Linear, midpoints
from support.laws import close

SMALL = gbce.SMC(n_candidates=4_000, n_draws=1_000)


def weighted(draws, values):
    """Posterior mean of values on the pool, and its Monte Carlo error."""
    mean = draws.mean(values)
    return mean, draws.standard_error(values - mean)


# --- sparsity: a linear model under spike and slab is a mixture of Gaussians over sets of changed features ------


def supports(case, change):
    """Probability of each set of changed features, the mean given each, and the log evidence."""
    d = len(case.w)
    found, logs = [], []
    for size in range(d + 1):
        for chosen in itertools.combinations(range(d), size):
            own = list(chosen)
            fixed = case.b + sum(case.w[j] * case.x0[j] for j in range(d) if j not in own)
            mean = case.x0.copy()
            if own:
                part = Linear(case.w[own], fixed, case.y, case.x0[own], case.S[np.ix_(own, own)], case.eta)
                log_z = part.log_evidence
                mean[own] = part.mean
            else:
                log_z = -case.eta * (fixed - case.y) ** 2
            logs.append(size * np.log(change) + (d - size) * np.log1p(-change) + log_z)
            found.append((chosen, mean))
    return found, np.exp(np.array(logs) - logsumexp(logs)), float(logsumexp(logs))


@pytest.mark.parametrize("sampler", [gbce.Importance(40_000), gbce.SMC(2_000, 2_000)], ids=["importance", "smc"])
def test_spike_and_slab_over_real_features(sampler):
    case = Linear(np.array([1.0, -0.7, 0.4]), 0.0, 3.0, np.array([0.3, 0.2, -0.5]), np.eye(3), eta=2.0)
    explainer = gbce.Explainer(
        case.predict,
        np.random.default_rng(0).normal(size=(50, 3)),
        space=gbce.Space.real(3),
        prior=gbce.Sparse(gbce.Gaussian(), change=0.3),
        sampler=sampler,
        eta=case.eta,
    )
    explanation = explainer.explain(case.x0, gbce.Value(case.y, scale=1, tolerance=0.5), rules=[], seed=3)
    draws = explanation.draws
    found, share, log_z = supports(case, 0.3)
    changed = draws.pool.x != case.x0
    for (chosen, _), exact in zip(found, share, strict=True):
        own = (changed == np.isin(np.arange(3), chosen)).all(axis=1).astype(float)
        value, se = weighted(draws, own)
        assert abs(value - exact) <= 4 * max(se, 0.003), chosen
    mean, se = weighted(draws, draws.pool.x)
    close(mean, share @ np.array([m for _, m in found]), se, "mean", draws)
    close(draws.log_evidence, log_z, draws.log_evidence_se, "log evidence", draws)


def test_sparse_draws_change_few_features_and_map_is_a_path():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, 12))
    w = np.r_[2.0, 1.5, 1.0, np.full(9, 0.1)]
    dense = gbce.Explainer(lambda x: x @ w, data, sampler=SMALL)
    sparse = gbce.Explainer(lambda x: x @ w, data, sampler=SMALL, prior=gbce.Sparse(change=0.15))
    row, target = np.zeros(12), gbce.AtLeast(3.0, scale=0.3)
    full, few = (e.explain(row, target, rules=[gbce.MAP(), gbce.Medoid()], seed=0) for e in (dense, sparse))
    changed = (few.draws.x != row).sum(axis=1)
    assert (full.draws.x != row).sum(axis=1).min() == 12
    assert np.median(changed) <= 4
    path = few.sparsity_path
    assert path.index.tolist() == list(range(1, len(path) + 1))
    assert ((path[list(few.space.names)] != 0).sum(axis=1) == path.index).all()
    assert (path["rule"] == "MAP").sum() == 1
    others = [f"MAP with {k} change{'s' * (k > 1)}" for k in path.index]
    assert all(label in ("MAP", name) for label, name in zip(path["rule"], others, strict=True))
    assert few.counterfactuals.index.tolist() == ["MAP", "Medoid"]
    assert few.pointwise.loc["MAP", "reached"]
    # the best single change is the feature that pays most
    assert path.loc[1, list(few.space.names)].astype(float).abs().idxmax() == "x1"
    asked = sparse.explain(row, target, rules=[gbce.MAP(changes=3)], seed=0)
    assert (asked.counterfactuals.iloc[0] != 0).sum() == 3
    assert asked.counterfactuals.index[0] == "MAP(changes=3)"
    # without the model the path is read off the draws
    assert (few.decide(gbce.MAP(changes=2)).iloc[0] != 0).sum() == 2


def test_map_by_number_of_changes_needs_a_sparse_prior():
    data = np.random.default_rng(0).normal(size=(50, 2))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, sampler=SMALL)
    with pytest.raises(ValueError, match=r"MAP\(changes=...\) needs a prior .*gbce.Sparse"):
        explainer.explain(data[0], gbce.AtLeast(1.0), rules=[gbce.MAP(changes=1)], seed=0)
    with pytest.raises(ValueError, match="only 2 features can change"):
        gbce.Explainer(lambda x: x.sum(axis=1), data, prior=gbce.Sparse(), sampler=SMALL).explain(
            data[0], gbce.AtLeast(1.0), rules=[gbce.MAP(changes=3)], seed=0
        )


# --- conditions between columns ---------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [gbce.Gaussian(), gbce.Laplace(), gbce.Gaussian(cov=[[1.0, 0.5], [0.5, 1.0]])])
@pytest.mark.parametrize("sampler", [gbce.Importance(20_000), gbce.SMC(1_000, 2_000)], ids=["importance", "smc"])
def test_linear_conditions_against_quadrature(prior, sampler):
    x0 = np.array([0.2, 0.5])
    space = gbce.Space(gbce.Space.real(["a", "b"]).features, constraints=("a <= b", "a + 2 * b <= 2.5"))
    frame = np.random.default_rng(0).normal(size=(50, 2))
    explainer = gbce.Explainer(
        lambda x: x[:, 0] + 0.5 * x[:, 1], frame, space=space, prior=prior, sampler=sampler, eta=2.0
    )
    explanation = explainer.explain(x0, gbce.Value(1.4, scale=1, tolerance=0.2), rules=[], seed=0)
    free = prior.at(gbce.Space.real(["a", "b"]), x0)

    def log_prior(x):
        inside = (x[:, 0] <= x[:, 1]) & (x[:, 0] + 2 * x[:, 1] <= 2.5)
        return np.where(inside, -free.cost(x), -np.inf)

    grid = Grid.of([midpoints(-12, 8, 1600)] * 2, log_prior, lambda x: 2.0 * np.square(x @ [1.0, 0.5] - 1.4))
    draws = explanation.draws
    mean, se = weighted(draws, draws.pool.x)
    close(mean, grid.mean(grid.x), se, "mean", draws)
    square, se = weighted(draws, np.square(draws.pool.x))
    close(square, grid.mean(np.square(grid.x)), se, "square", draws)
    close(draws.log_evidence, grid.log_evidence, draws.log_evidence_se, "log evidence", draws)
    drawn = draws.x
    assert ((drawn[:, 0] <= drawn[:, 1]) & (drawn[:, 0] + 2 * drawn[:, 1] <= 2.5)).all()


def test_a_predicate_holds_in_every_draw_and_leaves_the_right_law():
    data = np.random.default_rng(0).normal(size=(200, 2))

    def ring(rows):
        return np.square(rows).sum(axis=1) >= 0.25

    seen = []

    def model(rows):
        seen.append(ring(rows).all())
        return rows.sum(axis=1)

    space = gbce.Space(gbce.Space.real(2).features, constraints=(ring,))
    explainer = gbce.Explainer(model, data, space=space, sampler=gbce.SMC(1_000, 2_000), eta=4.0)
    explanation = explainer.explain([0.5, 0.5], gbce.Value(1.6, scale=1, tolerance=0.3), seed=0)
    assert all(seen[1:])  # the first call reads the spread off the data
    grid = Grid.of(
        [midpoints(-6, 6, 1000)] * 2,
        lambda x: np.where(ring(x), norm.logpdf(x - 0.5).sum(axis=1), -np.inf),
        lambda x: 4.0 * np.square(x.sum(axis=1) - 1.6),
    )
    draws = explanation.draws
    mean, se = weighted(draws, draws.pool.x)
    close(mean, grid.mean(grid.x), se, "mean", draws)
    close(draws.log_evidence, grid.log_evidence, draws.log_evidence_se, "log evidence", draws)
    assert ring(draws.x).all()
    assert ring(explanation.counterfactuals.to_numpy()).all()


def test_computed_columns_follow_and_their_bounds_hold():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(2, 1, 200), "b": rng.normal(1, 1, 200)})
    frame["total"] = frame["a"] + frame["b"]
    frame["share"] = frame["a"] / (1 + frame["total"] ** 2)
    space = gbce.Space.infer(
        frame,
        computed={"total": "a + b", "share": lambda f: f["a"] / (1 + f["total"] ** 2)},
        bounds={"total": (None, 5.0), "share": (-2.0, 2.0)},
        constraints=["total >= 2 * b"],
    )
    row = frame[(frame["total"] < 4) & (frame["total"] >= 2 * frame["b"])].iloc[[0]]
    explainer = gbce.Explainer(lambda f: f["a"] + 0 * f["total"], frame, space=space, sampler=SMALL)
    explanation = explainer.explain(row, gbce.AtLeast(3.5), seed=0)
    for table in (space.frame(explanation.draws.x), explanation.counterfactuals):
        np.testing.assert_allclose(table["total"], table["a"] + table["b"], rtol=1e-12)
        np.testing.assert_allclose(table["share"], table["a"] / (1 + table["total"] ** 2), rtol=1e-9)
        assert (table["total"] <= 5).all()
        assert (table["total"] >= 2 * table["b"]).all()
    assert explanation.importance.loc["total", "change"] > 0


def test_one_hot_columns_move_as_one_category():
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 3, 200)
    frame = pd.DataFrame({"x": rng.normal(size=200)})
    for k, name in enumerate(("red", "green", "blue")):
        frame[f"colour_{name}"] = (colour == k).astype("int8")
    frame["y"] = rng.normal(size=200)
    space = gbce.Space.infer(frame, one_hot={"colour": "colour_"})
    assert space.names == ("x", "colour", "y")
    explainer = gbce.Explainer(lambda f: f["x"] + 2.0 * f["colour_blue"], frame, space=space, sampler=SMALL)
    red = frame[colour == 0]
    explanation = explainer.explain(red.iloc[int(red["x"].abs().argmin())], gbce.AtLeast(2.0), seed=0)
    for table in (space.frame(explanation.draws.x), explanation.counterfactuals):
        assert list(table.columns) == list(frame.columns)
        assert (table.dtypes == frame.dtypes).all()
        assert (table.filter(like="colour_").sum(axis=1) == 1).all()
    assert explanation.shares("colour").loc["blue", "posterior"] > 0.5
    assert "blue" in explanation.summary()


# --- missing values ---------------------------------------------------------------------------------------------


def gap_model(rows):
    return np.where(np.isnan(rows[:, 0]), 1.0, rows[:, 0]) + rows[:, 1]


@pytest.mark.parametrize("now", [np.nan, 0.5])
def test_values_that_may_be_missing_against_quadrature(now):
    centre = 0.3
    features = (gbce.Feature("a", missing="any", centre=centre), gbce.Feature("b"))
    data = np.random.default_rng(0).normal(size=(100, 2))
    explainer = gbce.Explainer(gap_model, data, space=gbce.Space(features), sampler=gbce.Importance(40_000), eta=1.0)
    explanation = explainer.explain([now, 0.0], gbce.Value(2.0, scale=1, tolerance=0.2), rules=[], seed=0)
    # a move between known and missing costs one unit: exp(-1/2) against one
    move = np.exp(-0.5) / (1 + np.exp(-0.5))
    stays = move if not np.isnan(now) else 1 - move  # prior probability of missing
    a = midpoints(-9, 9, 900)
    start = centre if np.isnan(now) else now
    potential = lambda f: np.square(f - 2.0) / 3.0  # noqa: E731  b ~ N(0, 1) integrated out: 1 + 2 eta = 3
    z_missing = stays * np.exp(-potential(1.0))
    density = (1 - stays) * norm.pdf(a - start) * np.exp(-potential(a)) * (a[1] - a[0])
    exact = z_missing / (z_missing + density.sum())
    draws = explanation.draws
    share, se = weighted(draws, np.isnan(draws.pool.x[:, 0]).astype(float))
    close(share, exact, se, "probability of missing", draws)
    close(
        draws.log_evidence,
        np.log((z_missing + density.sum()) / np.sqrt(3)),
        draws.log_evidence_se,
        "log evidence",
        draws,
    )
    known = np.where(np.isnan(draws.pool.x[:, 0]), 0.0, draws.pool.x[:, 0])
    mean, se = weighted(draws, known)
    close(mean, (a @ density) / (z_missing + density.sum()), se, "mean of known values", draws)


@pytest.mark.parametrize(("missing", "now"), [("keep", np.nan), ("keep", 1.0), ("leave", 1.0)])
def test_missing_stays_as_it_is_unless_it_may_move(missing, now):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": np.where(rng.random(200) < 0.2, np.nan, rng.normal(size=200)), "b": rng.normal(size=200)}
    )
    space = gbce.Space.infer(frame, missing={"a": missing})
    explainer = gbce.Explainer(lambda f: f["b"] + f["a"].fillna(0.5), frame, space=space, sampler=SMALL)
    rules = [gbce.MAP(), gbce.Mean(), gbce.CVaR(n_perturb=8), gbce.DirectOpt(n_starts=3)]
    explanation = explainer.explain({"a": now, "b": 0.0}, gbce.AtLeast(2.0), rules=rules, seed=0)
    gone = space.frame(explanation.draws.x)["a"].isna()
    assert gone.all() if np.isnan(now) else not gone.any()
    assert explanation.counterfactuals["a"].isna().all() == np.isnan(now)


# --- closeness to data ------------------------------------------------------------------------------------------


def test_closeness_to_data_against_quadrature():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 400)
    data = np.column_stack([np.cos(angle), np.sin(angle)]) * 2 + rng.normal(scale=0.15, size=(400, 2))
    prior = gbce.NearData(gbce.Gaussian(1.5), strength=0.7)
    explainer = gbce.Explainer(
        lambda x: x[:, 0], data, space=gbce.Space.real(2), prior=prior, sampler=gbce.SMC(4_000, 2_000), eta=3.0
    )
    explanation = explainer.explain([0.0, -2.0], gbce.Value(1.5, scale=1, tolerance=0.3), rules=[], seed=0)
    density = explainer._session.prior.density

    def log_prior(x):
        squares = np.square(x[:, None, :] - density.points.axes).sum(axis=2)
        kernel = logsumexp(-0.5 * squares / density.width**2, axis=1) - np.log(len(density.points))
        return 0.7 * kernel - 0.5 * np.square(x - [0.0, -2.0]).sum(axis=1) / 1.5**2

    grid = Grid.of([midpoints(-5, 5, 120)] * 2, log_prior, lambda x: 3.0 * np.square(x[:, 0] - 1.5))
    draws = explanation.draws
    mean, se = weighted(draws, draws.pool.x)
    close(mean, grid.mean(grid.x), np.hypot(se, 0.005), "mean", draws)
    close(draws.log_evidence, grid.log_evidence, np.hypot(draws.log_evidence_se, 0.01), "log evidence", draws)


def test_closeness_to_data_makes_draws_and_decisions_more_plausible():
    frame, space = table()
    near = Neighbours.of(space.encode(frame), space)
    found = {}
    for name, prior in (("plain", gbce.Gaussian()), ("near", gbce.NearData(gbce.Gaussian(), strength=2.0))):
        explainer = gbce.Explainer(score, frame, space=space, prior=prior, sampler=SMALL)
        explanation = explainer.explain(frame.iloc[0], gbce.AtLeast(2.5), rules=[gbce.Medoid()], seed=0)
        found[name] = near.plausibility(explanation.draws.x, 5).mean(), explanation.pointwise["plausibility"].iloc[0]
    assert found["near"][0] < 0.9 * found["plain"][0]
    assert found["near"][1] < found["plain"][1]


def test_width_of_the_density_is_the_one_that_predicts_best():
    data = np.random.default_rng(0).normal(size=(400, 1))
    # the best bandwidth for a normal law is about 1.06 n**(-1/5) = 0.32
    assert 0.2 < Density.of(Places(data), gbce.Space.real(1).features).width < 0.5


def test_correlated_moves_follow_the_data():
    rng = np.random.default_rng(0)
    a = rng.normal(size=2_000)
    frame = pd.DataFrame({"a": a, "b": 0.9 * a + np.sqrt(1 - 0.81) * rng.normal(size=2_000), "c": ["u", "v"] * 1_000})
    explainer = gbce.Explainer(lambda f: f["a"], frame, prior=gbce.Gaussian(cov="data"), sampler=SMALL)
    explanation = explainer.explain(frame.iloc[0], gbce.AtLeast(9.0), rules=[], seed=0)
    prior = explanation.draws.prior_weights
    x = explanation.draws.pool.x[:, :2] / explainer.space.scale[:2]
    offset = x - prior @ x
    cov = (offset * prior[:, None]).T @ offset
    assert cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]) == pytest.approx(0.9 * 0.95, abs=0.05)


# --- every rule on every kind -----------------------------------------------------------------------------------


def table():
    rng = np.random.default_rng(5)
    n = 300
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": rng.gamma(3, 1, n).astype("float32"),
            "debt": rng.gamma(2, 0.3, n),
            "job": rng.choice(["clerk", "none", "smith"], n, p=[0.5, 0.2, 0.3]),
            "school": pd.Categorical(rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True),
            "owns": rng.random(n) < 0.4,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2_000, n), unit="D"),
            "kids": pd.array(rng.integers(0, 4, n), dtype="Int64"),
        }
    )
    frame["debt"] = np.minimum(frame["debt"], 0.9 * frame["income"].astype(float))
    frame.loc[rng.random(n) < 0.1, "kids"] = pd.NA
    space = gbce.Space.infer(
        frame,
        immutable=["age"],
        increase=["school", "since"],
        bounds={"income": (0, 12), "debt": (0, None), "kids": (0, 5)},
        constraints=["debt <= 0.9 * income", "if job == 'none' then income <= 4"],
    )
    fits = (frame["job"] != "none") | (frame["income"] <= 4)
    return frame[fits].reset_index(drop=True), space


def score(frame):
    return (
        np.log1p(frame["income"].astype(float))
        - frame["debt"]
        + 0.7 * (frame["job"] == "smith")
        + 0.4 * frame["school"].cat.codes
        + 0.3 * frame["owns"]
        - 0.1 * frame["kids"].fillna(1).astype(float)
    ).to_numpy(float)


def violations(found, row, frame):
    """What is wrong with rows that came back, counted without the library."""
    income = found["income"].astype(float)
    return {
        "dtypes": int((found.dtypes != frame.dtypes).sum()),
        "age": int((found["age"] != row["age"]).sum()),
        "school": int((found["school"] < row["school"]).sum()),
        "since": int((found["since"] < row["since"]).sum()),
        "income": int(((income < 0) | (income > 12)).sum()),
        "debt": int(((found["debt"] < 0) | (found["debt"] > 0.9 * income)).sum()),
        "rule": int(((found["job"] == "none") & (income > 4)).sum()),
        "kids": int((~found["kids"].between(0, 5) & found["kids"].notna()).sum()),
        "missing": int((found["kids"].isna() != pd.isna(row["kids"])).sum()),
        "unknown": int((~found["job"].isin(["clerk", "none", "smith"])).sum()),
    }


RULES = [
    gbce.MAP(), gbce.MAP(method="kde"), gbce.MAP(method="knn"), gbce.Mean(), gbce.GeometricMedian(), gbce.Medoid(),
    gbce.CVaR(n_perturb=16, max_candidates=100), gbce.ChanceConstrained(0.8, max_candidates=200), gbce.DiverseSet(3),
    gbce.RandomDraw(3), gbce.DirectOpt(n_starts=4, max_iterations=100),
]  # fmt: skip
PRIORS = {
    "gaussian": gbce.Gaussian(),
    "laplace": gbce.Laplace(),
    "sparse": gbce.Sparse(gbce.Gaussian(), change=0.3),
    "near data": gbce.NearData(gbce.Sparse(change=0.4), max_rows=200),
    "correlated": gbce.Gaussian(cov="data"),
    "gower": gbce.DistancePrior(gbce.Gower(20.0)),
}


# each prior with one of the two rows, the sparse one with both
@pytest.mark.parametrize(("name", "which"), [(name, n % 2) for n, name in enumerate(PRIORS)] + [("sparse", 1)])
def test_every_rule_keeps_every_promise_on_mixed_rows(name, which):
    frame, space = table()
    row = frame[frame["kids"].isna()].iloc[0] if which else frame.iloc[3]
    explainer = gbce.Explainer(score, frame, space=space, prior=PRIORS[name], sampler=gbce.SMC(2_000, 400))
    explanation = explainer.explain(row, gbce.AtLeast(3.0), rules=RULES, seed=which)
    pool = explanation.draws.pool.x[explanation.draws.pool_weights > 0]
    for found in (space.frame(pool), explanation.counterfactuals):
        assert not any(violations(found, row, frame).values()), violations(found, row, frame)
    said = score(explanation.counterfactuals)
    np.testing.assert_array_equal(said >= 3.0, explanation.pointwise["reached"])
    np.testing.assert_array_equal(said, explanation.pointwise["output"])
    assert explanation.status == "attainable"


def test_noise_moves_numbers_only_and_stays_inside():
    frame, space = table()
    asked = []

    def watching(rows):
        asked.append(rows)
        return score(rows)

    explainer = gbce.Explainer(watching, frame, space=space, sampler=SMALL, policy=None)
    row = frame.iloc[3]
    explanation = explainer.explain(row, gbce.AtLeast(3.0), rules=[gbce.Medoid()], seed=0)
    noisy = next(rows for rows in asked[::-1] if len(rows) == explanation.evaluation.n_perturb)
    chosen = explanation.counterfactuals.iloc[0]
    assert (noisy["job"] == chosen["job"]).all()
    assert (noisy["owns"] == chosen["owns"]).all()
    assert noisy["income"].nunique() > 50
    assert not any(violations(noisy, row, frame).values())


def test_mean_is_the_row_with_the_least_expected_squared_distance():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"n": rng.integers(0, 6, 80), "job": rng.choice(list("abc"), 80), "flag": rng.random(80) < 0.5}
    )
    space = gbce.Space.infer(frame, bounds={"n": (0, 5)})
    explainer = gbce.Explainer(lambda f: f["n"] + 2.0 * (f["job"] == "c"), frame, space=space, sampler=SMALL)
    row = {"n": 1, "job": "a", "flag": True}
    explanation = explainer.explain(row, gbce.AtLeast(4.0), rules=[gbce.Mean(), gbce.GeometricMedian()], seed=0)
    x = np.array(list(itertools.product(range(6), range(3), range(2))), dtype=float)
    u, draws = space.embed(x).axes, space.embed(explanation.draws.x).axes
    squares = np.square(u[:, None, :] - draws).sum(axis=2)
    best = space.frame(x[[squares.mean(axis=1).argmin()]]).iloc[0]
    assert explanation.counterfactuals.loc["Mean"].tolist() == best.tolist()
    middle = np.sqrt(squares).mean(axis=1)
    chosen = space.embed(space.encode(explanation.counterfactuals.iloc[[1]])).axes
    reached = np.sqrt(np.square(chosen - draws).sum(axis=1)).mean()
    assert reached <= np.sort(middle)[2]  # rounded from the continuous one: among the best


def test_mixed_explanations_are_saved_shown_and_asked_again(tmp_path):
    matplotlib.use("Agg")
    frame, space = table()
    explainer = gbce.Explainer(score, frame, space=space, prior=gbce.Sparse(change=0.3), sampler=SMALL)
    explanation = explainer.explain(frame.iloc[3], gbce.AtLeast(3.0), seed=0)
    again = gbce.load(explanation.save(tmp_path / "row.gbce"))
    assert again.space == explanation.space
    pd.testing.assert_frame_equal(again.counterfactuals, explanation.counterfactuals)
    assert again.summary() == explanation.summary()
    explanation.plot.posterior(("job", "income"))
    explanation.plot.posterior()
    explanation.plot.changes()
    assert "since" in explanation._repr_html_()
    changes = explanation.changes()
    assert set(changes["feature"]) <= set(space.names)
    assert explanation.intervals().loc["since", "row"] == frame.iloc[3]["since"]
    assert again.decide(gbce.Medoid()).shape == (1, len(frame.columns))
    table_ = explainer.explain_many(frame.iloc[:3], gbce.AtLeast(3.0), rules=[gbce.Mean()], seed=0, progress=False)
    assert (table_.counterfactuals.dtypes == frame.dtypes).all()


def test_bounds_hold_to_the_last_bit_in_columns_of_few_digits():
    frame = pd.DataFrame({"x": np.linspace(0, 1, 50, dtype="float32"), "y": np.linspace(0, 1, 50)})
    space = gbce.Space.infer(frame, bounds={"x": (None, 0.1)})
    explainer = gbce.Explainer(lambda f: f["x"].astype(float), frame, space=space, sampler=SMALL)
    explanation = explainer.explain({"x": np.float32(0.05), "y": 0.5}, gbce.AtLeast(5.0), seed=0)
    drawn = space.frame(explanation.draws.x)["x"]
    assert drawn.dtype == "float32"
    assert (drawn.astype(float) <= 0.1).all()
    assert drawn.max() > 0.0999
