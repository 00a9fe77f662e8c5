"""How a safe box grows: slacks along a feature at once and cell by cell, until nothing more fits."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import gbce
from gbce.trees import _safe as boxes
from gbce.trees import find_safe_ranges, read_cells, read_structure

N = 240
RNG = np.random.default_rng(4)
FRAME = pd.DataFrame(
    {"a": RNG.normal(size=N).round(2), "b": RNG.normal(size=N).round(2), "c": RNG.integers(0, 9, N), "d": RNG.random(N)}
)
SCORE = FRAME["a"] - FRAME["b"] + 0.4 * (FRAME["c"] % 3) + FRAME["d"]


def _lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=15, num_leaves=8, min_child_samples=5, min_data_per_group=5, verbose=-1)
    return model.fit(FRAME, SCORE + 2 * (FRAME["c"] % 3), categorical_feature=["c"])


MODELS = {
    "forest": lambda: RandomForestRegressor(12, max_depth=6, random_state=0).fit(FRAME, SCORE),
    "three classes": lambda: GradientBoostingClassifier(n_estimators=6, random_state=0).fit(
        FRAME, np.digitize(SCORE, [-0.5, 1.0])
    ),
    "sets of cells": _lightgbm,
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    """Return trees, features, and what makes a box about a row with much slack."""
    space = gbce.Space.infer(FRAME, kinds={"c": "integer"})
    x = space.encode(FRAME)
    trees = read_cells(read_structure(MODELS[request.param](), space), space, x)
    assert (len(trees.set_features) > 0) == (request.param == "sets of cells")
    k = trees.value.shape[1]
    weights = np.eye(1) if k == 1 else np.eye(k)[2] - np.eye(k)[:2]
    which, every = np.array([0, 1, 2, 3]), np.arange(len(trees.tree))
    scores = [
        boxes.GrowingBox(trees, every, which, cells, weights, np.zeros(len(weights))).slack for cells in trees.cells(x)
    ]
    best = trees.cells(x)[int(np.argmax(scores))]
    least = np.full(len(weights), np.sort(scores)[len(scores) // 2])
    last = [len(trees.edges[j]) for j in which]
    axes = [boxes.AllowedCells(0, n, np.arange(n + 2.0), 1e-3) for n in last]
    return axes, lambda: boxes.GrowingBox(trees, every, which, best, weights, least), trees, weights, least


def test_slacks_along_a_feature_are_those_of_its_cells_one_by_one(case):
    axes, make, *_ = case
    rng = np.random.default_rng(0)
    for _ in range(6):
        box = make()
        for _ in range(int(rng.integers(0, 8))):  # a box that has grown somewhere
            i, side = int(rng.integers(4)), int(rng.choice([-1, 1]))
            n = min(int(rng.integers(1, 4)), _room(box, axes[i], i, side))
            box.add(i, side, n)
        for i, axis in enumerate(axes):
            for side, end in ((-1, axis.first), (1, axis.last)):
                said = box.slacks_towards(i, side, end)
                other = make()
                other.__dict__.update({name: _copied(value) for name, value in box.__dict__.items()})
                seen = []
                while _room(other, axis, i, side):
                    other.add(i, side, 1)
                    seen.append(other.slack)
                assert said == pytest.approx(np.array(seen), abs=1e-9)


def _room(box, axis, i, side):
    """Count the cells that a side of a box may still take."""
    return int(box.first[i] - axis.first if side < 0 else axis.last - box.last[i])


def test_ends_at_a_constraint_meet_it_in_floating_point():
    rng, met = np.random.default_rng(0), 0
    frame = pd.DataFrame({"a": 1e4 * rng.normal(size=100).round(2), "b": rng.normal(size=100).round(2)})
    model = RandomForestRegressor(3, max_depth=2, random_state=0).fit(frame, 1e-4 * frame["a"] + frame["b"])
    space = gbce.Space.infer(frame, constraints=["a - b <= 0.1"], bounds="data")
    x = space.encode(frame)
    trees = read_cells(read_structure(model, space), space, x)
    for row, output in zip(x, model.predict(frame), strict=True):
        found = None
        if space.admissible(row[None, :], row)[0]:
            wish = gbce.AtLeast(float(output) - 0.3, scale=1.0, tolerance=0.0)
            found = find_safe_ranges(trees, space, row, row, wish, np.array([0, 1]))
        if found is None:
            continue
        corner = row.copy()
        for j, low, high in zip(found.features, found.low, found.high, strict=True):
            corner[j] = low if j == 1 else high
        assert space.admissible(corner[None, :], row)[0]
        met += corner[0] - corner[1] > 0.1 - 1e-6
    assert met > 10  # it is the constraint that ends them


def _copied(value):
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_copied(one) for one in value] if isinstance(value, list) else value


def test_a_grown_box_is_safe_and_nothing_more_fits(case):
    axes, make, trees, weights, least = case
    box = make()
    first, last = boxes.grow_box(box, axes)
    meets = np.ones(len(trees.tree), dtype=bool)
    for i in range(4):
        meets &= np.any([trees.holds(i, cell) for cell in range(first[i], last[i] + 1)], axis=0)
    worth = trees.value @ weights.T
    worst = sum(worth[meets & (trees.tree == t)].min(axis=0) for t in np.unique(trees.tree))
    assert (worst - least).min() == pytest.approx(box.slack, abs=1e-9)
    assert box.slack >= 0
    assert (last > first).any()
    for i, axis in enumerate(axes):
        for side in (-1, 1):
            next_one = int(box.first[i] - 1 if side < 0 else box.last[i] + 1)
            fits = _room(box, axis, i, side) > 0
            assert not fits or box.slacks_towards(i, side, next_one)[0] < 1e-9  # sums in another order
