"""Cells of models that tell categories apart in their own way, and proofs about them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import gbce
from gbce.predictors import as_predictor
from gbce.trees import prove_unattainable, read_cells, read_structure

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
