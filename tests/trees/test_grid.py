"""Scores of every cell of a grid at once, against going down the trees cell by cell."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from gbce import Space
from gbce.trees import Axis, Grid, read_cells, read_structure
from gbce.trees import _grid as module


def numbers(d=4, n=200):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    return x, x[:, 0] * x[:, 1] + x.sum(axis=1)


def check(trees, x0, free, most=1_000_000):
    grid = Grid(trees, trees.cells(x0[None, :])[0], np.array(free))
    axes = []
    for j in free:
        axes.append(Axis(j, np.append(grid.cuts(j, -np.inf, np.inf), np.inf)))
    parts = list(grid.scores(axes, most))
    scores = np.concatenate(parts)
    assert scores.shape == (*(len(axis.tops) for axis in axes), len(trees.base))
    values = np.stack([one.ravel() for one in np.meshgrid(*(axis.tops for axis in axes), indexing="ij")], axis=1)
    x = np.tile(x0, (len(values), 1))
    x[:, free] = values
    wanted = trees.scores(trees.cells(x))
    np.testing.assert_allclose(scores.reshape(len(x), -1), wanted, rtol=0, atol=1e-12 * (1 + np.abs(wanted).max()))
    # no cut too few: any point has the score of its cell
    near = np.tile(x0, (500, 1))
    near[:, free] = np.random.default_rng(1).normal(size=(500, len(free)))
    place = tuple(np.searchsorted(axis.tops[:-1], near[:, axis.feature], side="left") for axis in axes)
    np.testing.assert_allclose(
        scores[place], trees.scores(trees.cells(near)), rtol=0, atol=1e-12 * (1 + np.abs(wanted).max())
    )
    return len(parts)


@pytest.mark.parametrize("free", [[2], [0, 3], [0, 1, 2]])
def test_sums_over_boxes_are_the_scores_of_all_cells(free):
    x, y = numbers()
    model = RandomForestRegressor(12, max_depth=5 if len(free) < 3 else 3, random_state=0).fit(x, y)
    trees = read_cells(read_structure(model, Space.real(4)), Space.real(4), x)
    assert check(trees, x[0], free) == 1
    assert check(trees, x[1], free, most=10) > 1


def test_several_scores_and_going_down_where_that_is_quicker(monkeypatch):
    x, y = numbers(3)
    model = RandomForestClassifier(6, max_depth=3, random_state=0).fit(x, np.digitize(y, [-1.0, 1.0]))
    trees = read_cells(read_structure(model, Space.real(3)), Space.real(3), x)
    check(trees, x[0], [0, 2])
    monkeypatch.setattr(module, "_STEPS", 0)  # every sum over boxes now looks slow
    check(trees, x[0], [0, 2])


def test_levels_and_missing_values_have_cells_of_their_own():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(list("uvwxyz"), 300), "c": rng.normal(size=300)})
    frame.loc[rng.random(300) < 0.2, "a"] = np.nan
    encode = make_column_transformer((OrdinalEncoder(categories=[list("wuzxvy")]), ["b"]), remainder="passthrough")
    model = make_pipeline(encode, HistGradientBoostingRegressor(max_iter=15, max_leaf_nodes=8))
    y = frame["a"].fillna(2.0) + frame["b"].isin(["u", "x"]) * 2.0 + frame["c"]
    model.fit(frame, y)
    space = Space.infer(frame)
    rows = space.encode(frame)
    trees = read_cells(read_structure(model, space), space, rows)
    x0 = rows[~np.isnan(rows).any(axis=1)][0]
    grid = Grid(trees, trees.cells(x0[None, :])[0], np.array([0, 1]))
    cuts = grid.cuts(1, 0.0, 5.0)
    assert len(cuts) == 5  # every level apart
    axes = [Axis(0, np.append(grid.cuts(0, -np.inf, np.inf), [np.inf, np.nan])), Axis(1, np.append(cuts, 5.0))]
    scores = next(grid.scores(axes))[..., 0]
    for i, a in enumerate(axes[0].tops):
        x = np.tile(x0, (6, 1))
        x[:, 0], x[:, 1] = a, np.arange(6.0)
        np.testing.assert_allclose(scores[i], trees.scores(trees.cells(x))[:, 0], atol=1e-12)
