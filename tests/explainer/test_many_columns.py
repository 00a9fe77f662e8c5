"""Many columns: what is computed another way there is the same, and takes no more memory than the rows themselves."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import gbce
from gbce.samplers import _tempering as _climb
from gbce.search import _objective as _curvature
from gbce.trees import (
    find_nearest_cells,
    find_safe_ranges,
    price_units,
    reachable_cells,
    read_cells,
    read_structure,
    score_constraints,
)

RNG = np.random.default_rng(0)


def peak_megabytes(call):
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6, result


def test_curvature_as_vectors_gives_the_steps_of_the_matrix():
    s, m = 3, 12
    matrix = _curvature._Matrix(s, np.eye(m))
    vectors = _curvature._Vectors(s, m, max_steps=8)
    bend = RNG.normal(size=(m, m))
    bend = bend @ bend.T / m - 0.5 * np.eye(m)  # a saddle
    last = np.full((s, m), np.nan)
    slope = np.zeros((s, m))
    for step in range(8):
        which = np.arange(s) if step < 4 else np.array([0, 2])
        if step == 5:
            last[2] = np.nan  # forgets what it learnt
        here = RNG.normal(size=(len(which), m))
        now = here @ bend
        for curvature in (matrix, vectors):
            curvature.learn(which, here - last[which], now - slope[which], now, np.full(len(which), 2.0))
        last[which], slope[which] = here, now
        uphill = np.where(RNG.random(here.shape) < 0.3, 0.0, RNG.normal(size=here.shape))
        np.testing.assert_allclose(vectors.step(which, uphill), matrix.step(which, uphill), rtol=1e-8, atol=1e-10)


def test_curvature_of_many_features_takes_no_matrix():
    s, m = 9, 2_000

    def two_steps():
        curvature = _curvature.curvature_of(s, np.eye(m), 40)
        slope = RNG.normal(size=(s, m))
        curvature.learn(np.arange(s), np.full((s, m), np.nan), slope, slope, np.ones(s))
        return curvature.step(np.arange(s), slope)

    peak, step = peak_megabytes(two_steps)
    assert peak < 150  # nine matrices would be 288 MB, and as much again for every product
    assert np.isfinite(step).all()


def test_correlated_features_keep_their_matrix():
    correlated = np.eye(200)
    correlated[0, 1] = correlated[1, 0] = 0.3
    assert isinstance(_curvature.curvature_of(2, correlated, 40), _curvature._Matrix)
    assert isinstance(_curvature.curvature_of(2, np.eye(200), 40), _curvature._Vectors)


def test_principal_direction_of_many_coordinates_is_found_without_a_matrix(monkeypatch):
    z = RNG.normal(size=(400, 30))
    z[:, 3] += 6.0 * RNG.choice([-1, 1], size=400)  # two modes
    weights = RNG.dirichlet(np.ones(400))
    exact = _climb._principal_coordinates(z, weights)
    monkeypatch.setattr(_climb, "MATRIX_UP_TO", 10)
    assert abs(np.corrcoef(exact, _climb._principal_coordinates(z, weights))[0, 1]) > 0.999


@pytest.mark.parametrize("cells", [10_000_000, 30_000])
def test_rungs_that_keep_fewer_places_have_the_same_law(monkeypatch, cells):
    """Linear model, squared loss, Gaussian prior: the exact evidence, with every sweep kept and with a few."""
    monkeypatch.setattr(_climb, "_MOST_CELLS", cells)
    m, y, eta = 30, 12.0, 4.0
    explainer = gbce.Explainer(
        lambda x: x.sum(axis=1),
        RNG.normal(size=(50, m)),
        space=gbce.Space.real(m),
        eta=eta,
        sampler=gbce.SMC(4_000, 400, max_looks=0),
    )
    draws = explainer.explain(np.zeros(m), gbce.Value(y, scale=1.0, tolerance=0.5), rules=[], seed=0).draws
    assert len(draws.rungs) > 1
    exact = -0.5 * np.log(1 + 2 * eta * m) - eta * y**2 / (1 + 2 * eta * m)
    assert draws.log_evidence == pytest.approx(exact, abs=4 * draws.log_evidence_se)


@pytest.mark.parametrize("max_looks", [0, 6])
def test_memory_grows_no_faster_than_the_columns(max_looks):
    def explained(d):
        rng = np.random.default_rng(d)
        data, slopes = rng.normal(size=(500, d)), rng.normal(size=d)
        slopes /= np.linalg.norm(slopes)
        sampler = gbce.SMC(n_candidates=1_000, n_draws=200, max_looks=max_looks)
        explainer = gbce.Explainer(lambda x: x @ slopes, data, sampler=sampler)
        far = gbce.AtLeast(float(data[0] @ slopes) + 4.0)  # four SDs of the prior's outputs: both sizes have to temper
        explanation = explainer.explain(data[0], far, rules=[gbce.Mean()], seed=0, max_model_rows=20_000)
        assert max_looks or len(explanation.draws.rungs) > 1
        explanation.path()
        return explanation.draws.pool.x.nbytes / 1e6

    # in units of the points that are kept, of which a run may have more or fewer: 1.4 to 2.1 were seen
    few, many = (peak / points for peak, points in (peak_megabytes(lambda d=d: explained(d)) for d in (50, 200)))
    assert many < 3 * few  # what grows with the square of the columns would be four times as much


def wide_trees(make, d):
    """Return an ensemble that asks about most of many columns, its table, a row that is far below, and a target."""
    rng = np.random.default_rng(d)
    x = rng.normal(size=(80, d))
    y = x[:, -4:] @ [3.0, 2.0, 1.0, 1.0] + x.sum(axis=1) / 10
    if make == "forest":
        model = RandomForestRegressor(40, max_features=0.05, random_state=0)
    elif make == "histogram":
        model = HistGradientBoostingRegressor(max_iter=60, min_samples_leaf=5, max_features=0.05, random_state=0)
    elif make == "lightgbm":
        model = pytest.importorskip("lightgbm").LGBMRegressor(
            n_estimators=60, min_child_samples=5, colsample_bytree=0.1, verbose=-1, n_jobs=1, random_state=0
        )
    else:
        model = pytest.importorskip("xgboost").XGBRegressor(
            n_estimators=60, max_depth=4, colsample_bynode=0.05, n_jobs=1, random_state=0
        )
    model.fit(x, y)
    said = np.asarray(model.predict(x), dtype=float)
    return model, x, x[np.argmin(said)], gbce.AtLeast(float(np.quantile(said, 0.6)))


@pytest.mark.parametrize(
    ("make", "d"), [("forest", 128), ("forest", 300), ("histogram", 300), ("lightgbm", 300), ("xgboost", 300)]
)
def test_trees_of_many_columns_are_read(make, d):
    model, x, row, target = wide_trees(make, d)
    explainer = gbce.Explainer(model, x)
    asked = read_cells(read_structure(model, explainer.space), explainer.space, x).used
    assert len(asked) > (128 if d == 300 else 0.8 * d)
    found = explainer.explain(row, target, rules=[gbce.Nearest(), gbce.MAP()], posterior=False, seed=0)
    assert found.answer.reached
    assert model.predict(found.decisions[0].x[None, :])[0] >= target.y
    box = explainer.safe_box(found, features=[str(name) for name in explainer.space.names[-2:]])
    assert box is None or box.contains(found.answer.decision.x[None, :])[0]


def test_more_columns_of_trees_than_a_byte_counts_are_searched():
    model, x, row, target = wide_trees("forest", 400)
    space = gbce.Space.real(400)
    trees = read_cells(read_structure(model, space), space, x)
    assert len(trees.used) > 255
    wish = score_constraints(trees.inside, target.resolve(1.0))
    found = find_nearest_cells(trees, reachable_cells(trees, space, row, price_units(space, row)), wish, x)
    assert model.predict(found.x[:1])[0] >= target.y - 1e-9
    assert (found.changes > 0).all()
    safe = find_safe_ranges(
        trees, space, row, x[np.argmax(model.predict(x))], target.resolve(1.0), np.array([398, 399])
    )
    assert safe is not None


@pytest.mark.parametrize("make", ["forest", "histogram"])
def test_the_posterior_of_trees_with_many_columns_is_summed_where_few_can_move(make):
    model, x, row, _ = wide_trees(make, 300)
    names = [f"x{j}" for j in range(300)]
    space = gbce.Space.infer(pd.DataFrame(x, columns=names), immutable=names[:-4])
    explainer = gbce.Explainer(model, x, space=space, sampler=gbce.ExactTrees())
    target = gbce.AtLeast(float(model.predict(row[None, :])[0]) + 0.1, scale=1)
    found = explainer.explain(row, target, rules=[gbce.Nearest()], seed=0)
    pool = found.draws.pool
    np.testing.assert_allclose(np.ravel(pool.outputs), model.predict(pool.x), rtol=1e-9)
    assert not space.changed(pool.x, row)[:, :-4].any()


def test_rows_and_memory_of_a_linear_model_grow_no_faster_than_its_columns():
    def explained(d):
        rng = np.random.default_rng(d)
        table = pd.DataFrame(rng.normal(size=(300, d)), columns=[f"x{j}" for j in range(d)])
        slopes = rng.normal(size=d)
        slopes /= np.linalg.norm(slopes)
        explainer = gbce.Explainer(
            lambda x: x @ slopes, table, eta=1.0, sampler=gbce.SMC(500, 200, max_rounds=1, max_looks=2)
        )
        far = gbce.AtLeast(float(table.iloc[0] @ slopes) + 2.0)
        return explainer.explain(table.iloc[[0]], far, rules=[gbce.MAP()], seed=0).diagnostics["n_model_rows"]

    (few, rows), (many, more) = (peak_megabytes(lambda d=d: explained(d)) for d in (15, 45))
    # three times the columns: 1.3 times the rows and 2.9 times the memory were seen; squares would be 9 times
    assert more < 5 * rows
    assert many < 6 * few
