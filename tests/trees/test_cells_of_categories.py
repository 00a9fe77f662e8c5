"""Cells of models that tell categories apart in their own way, and proofs about them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import gbce
from gbce.predictors import as_predictor
from gbce.trees import _loops, prove_unattainable, read_cells, read_structure
from gbce.trees._along import StackedTrees

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")


def mixed(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "word": pd.Categorical(rng.choice(list("pqrstuvw"), n))})
    frame.loc[rng.random(n) < 0.1, "word"] = np.nan
    return frame.assign(b=np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n)))


FRAME = mixed(500, 0)
Y = FRAME["a"] + FRAME["word"].isin(["q", "t", "u"]) * 2 - (FRAME["word"] == "w") * FRAME["b"] + (FRAME["b"] == 0)
MODELS = {
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=15, min_data_per_group=5, cat_smooth=1.0, verbose=-1, n_jobs=1),
    "zeros": lightgbm.LGBMRegressor(n_estimators=15, zero_as_missing=True, min_data_per_group=5, verbose=-1, n_jobs=1),
    "xgboost": xgboost.XGBRegressor(n_estimators=15, enable_categorical=True, max_cat_to_onehot=2, n_jobs=1),
    "histograms": HistGradientBoostingRegressor(max_iter=15, categorical_features="from_dtype", min_samples_leaf=5),
}


@pytest.mark.parametrize("name", MODELS)
def test_cells_say_what_the_model_says(name):
    model, space = MODELS[name].fit(FRAME, Y), gbce.Space.infer(FRAME)
    trees = read_cells(read_structure(model, space), space, space.encode(FRAME))
    x = space.encode(mixed(1_000, 1))
    assert trees.set_features.tolist() == [1]
    np.testing.assert_allclose(trees.outputs(trees.cells(x)), as_predictor(model, space)(x).values, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_sums_do_not_depend_on_the_rows_beside_them(name):
    model, space = MODELS[name].fit(FRAME, Y), gbce.Space.infer(FRAME)
    trees = read_cells(read_structure(model, space), space, space.encode(FRAME))
    apart, rng = space.encode(mixed(200, 1)), np.random.default_rng(2)
    near = np.repeat(apart[:4], 70, axis=0)  # blocks of copies, for which trees are narrowed, some with gaps
    near[:, [0, 2]] += rng.normal(scale=0.1, size=(len(near), 2))
    near[rng.random(near.shape) < 0.2] = np.nan
    near[rng.random(len(near)) < 0.2, 1] = 3.0
    cells = trees.cells(np.vstack([near, apart, near[::-1]]))
    alone = np.concatenate([trees.scores(row[None, :]) for row in cells])
    np.testing.assert_array_equal(trees.scores(cells), alone)


@pytest.mark.parametrize("name", MODELS)
def test_steps_are_the_nearest_cells_of_all_moves(name):
    model, space = MODELS[name].fit(FRAME, Y), gbce.Space.infer(FRAME)
    trees = read_cells(read_structure(model, space), space, space.encode(FRAME))
    features, begins = np.arange(3), np.concatenate([[0], np.cumsum(trees.n_cells + 1)])
    rng = np.random.default_rng(0)
    points = trees.cells(space.encode(mixed(20, 4)))
    for cells, row in zip(points, points[::-1], strict=True):
        here, start, room = begins[:-1] + cells, begins[:-1] + row, rng.random(3)
        away = np.abs(np.arange(begins[-1]) - np.repeat(start, np.diff(begins)))
        price = np.where(rng.random(begins[-1]) < 0.7, away * rng.choice([0.01, 0.2]), np.inf)  # rise from the row on
        able = price <= np.repeat(room, np.diff(begins))
        every = trees.score_moves(cells, features, begins)
        to, scores = trees.score_steps(cells, features, begins, start, here, price, room)
        np.testing.assert_allclose(scores, every[np.append(to, -1)], rtol=0, atol=1e-9)  # sums in another order
        assert able[to].all()
        for i in range(3):
            for place in np.flatnonzero(able[begins[i] : begins[i + 1] - 1]) + begins[i]:
                side = np.sign(place - here[i])
                own = to[(to >= begins[i]) & (to < begins[i + 1]) & ((to - here[i]) * side > 0)]
                nearer = own[np.abs(own - here[i]) <= abs(place - here[i])]
                last = nearer[np.argmax(np.abs(nearer - here[i]))] if len(nearer) and side else here[i]
                np.testing.assert_allclose(every[place], every[last], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_no_move_is_better_than_the_cheapest_of_its_score(name):
    model, space = MODELS[name].fit(FRAME, Y), gbce.Space.infer(FRAME)
    trees = read_cells(read_structure(model, space), space, space.encode(FRAME))
    features, begins = np.arange(3), np.concatenate([[0], np.cumsum(trees.n_cells + 1)])
    owner, rng = np.repeat(features, np.diff(begins)), np.random.default_rng(0)
    for cells in trees.cells(space.encode(mixed(20, 4))):
        here, n = begins[:-1] + cells, begins[-1]
        price, changed = rng.integers(9, size=n).astype(float), rng.random(n) < 0.9
        price[rng.random(n) < 0.2] = np.inf
        price[here] = 4.0
        every = trees.score_moves(cells, features, begins)
        to, scores = trees.score_runs(cells, features, begins, here, price, changed)
        np.testing.assert_array_equal(scores, every[np.append(to, -1)])
        assert np.isfinite(price[to]).all()
        assert np.isin(here, to).all()
        assert len(to) < 0.9 * np.isfinite(price).sum()
        for place in np.flatnonzero(np.isfinite(price)):
            alike = to[(owner[to] == owner[place]) & (changed[to] == changed[place])]
            alike = alike[(every[alike] == every[place]).all(axis=1) & (np.isin(alike, here) <= (alike == place))]
            assert min(zip(price[alike], alike, strict=True)) <= (price[place], place)
            if price[place] <= 4.0:
                assert alike[price[alike] <= 4.0].min() <= place


@pytest.mark.parametrize("name", MODELS)
def test_nodes_of_many_cells_are_walked_like_those_that_fit_into_a_word(name):
    model, space = MODELS[name].fit(FRAME, Y), gbce.Space.infer(FRAME)
    trees = StackedTrees.whole(read_cells(read_structure(model, space), space, space.encode(FRAME)))
    large, leaf = replace(trees), trees.nodes[:, 0] < 0
    assert (trees.packed[~leaf] != _loops.LOOKED_UP).any()
    large.__dict__["packed"] = np.where(leaf, trees.packed, np.uint64(_loops.LOOKED_UP))
    rng = np.random.default_rng(0)
    cells = rng.integers(trees.n_known + 1, size=(40, 3)).astype(np.int32)
    found = []
    for one in (trees, large):
        scores, paths = one.follow(cells)
        steps = [one.find_steps(j, np.ones(trees.n_known[j] + 1), cells, scores, paths) for j in range(3)]
        moved, renewed = np.roll(cells, 1, axis=0), paths.copy()
        one.renew_paths(0, np.ones(len(cells), dtype=bool), np.column_stack([moved[:, 0], cells[:, 1:]]), renewed)
        found.append([scores, paths, renewed, *(array for step in steps for array in step)])
    for own, other in zip(*found, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("name", MODELS)
def test_a_proof_knows_the_categories(name):
    model, space = MODELS[name].fit(FRAME, Y), gbce.Space.infer(FRAME, bounds="data")
    x0 = space.encode(FRAME[FRAME["word"] == "p"].iloc[[0]])
    inside, predictor = read_structure(model, space), as_predictor(model, space)
    rng = np.random.default_rng(0)
    low, high = space.limits(x0[0])
    rows = np.column_stack(
        [rng.uniform(low[0], high[0], 4_000), rng.integers(0, 8, 4_000), rng.uniform(low[2], high[2], 4_000)]
    )
    rows[::5, 2] = 0.0
    rows[::7, 1] = np.nan
    best = predictor(rows).values.max()
    for wish, possible in ((best - 1e-3, True), (best + 2.0, False)):
        target = gbce.AtLeast(float(wish), scale=1, tolerance=0).resolve(1.0)
        proof = prove_unattainable(inside, space, x0[0], target, x0, predictor(x0).values)
        assert (proof is None) == possible
