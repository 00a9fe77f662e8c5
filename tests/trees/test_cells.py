"""Cells of tree ensembles against the models themselves: on data, at random, and at the very edges of cells."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from gbce import Space
from gbce.trees import CellTrees, nearest_values, read_cells, read_structure
from support.position import Position

N_RANDOM = 400


def _table(n: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(8, 1, n).round(1),
            "age": rng.integers(18, 70, n),
            "debt": rng.normal(0, 3, n),
            "job": rng.choice(["none", "clerk", "smith", "baker"], n),
            "owner": rng.random(n) < 0.4,
        }
    )
    score = np.log(frame["income"]) - 8 + (frame["age"] > 40) - 0.4 * frame["debt"] + 1.5 * (frame["job"] == "smith")
    return frame, np.asarray(score + frame["owner"] + rng.normal(0, 0.3, n))


def _array(n: int = 250) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    x = np.column_stack([rng.normal(size=n), rng.integers(0, 9, n), rng.exponential(size=n), rng.normal(size=n)])
    return x, x[:, 0] + np.sin(x[:, 1]) + x[:, 2] * x[:, 3]


def _encoded(*encoders: Any) -> Any:
    numbers = ["income", "age", "debt"]
    return make_column_transformer((encoders[0], numbers), (encoders[1], ["job", "owner"]))


def _cases() -> list[Any]:
    x, y = _array()
    frame, z = _table()
    names = z > np.median(z)
    plain = [
        RandomForestRegressor(12, random_state=0),
        ExtraTreesRegressor(5, random_state=0),
        HistGradientBoostingRegressor(max_iter=20),
    ]
    classes = [
        RandomForestClassifier(9, random_state=0),
        GradientBoostingClassifier(n_estimators=8, random_state=0),
        HistGradientBoostingClassifier(max_iter=12),
    ]
    hot, ordinal = OneHotEncoder(), OrdinalEncoder()
    found = [pytest.param(model.fit(x, y), x, id=type(model).__name__) for model in plain]
    found += [pytest.param(model.fit(x, np.digitize(y, [0, 1])), x, id=type(model).__name__) for model in classes]
    for name, before in {"one-hot": (StandardScaler(), hot), "ordinal": ("passthrough", ordinal)}.items():
        model = make_pipeline(_encoded(*before), RandomForestClassifier(11, random_state=0)).fit(frame, names)
        found.append(pytest.param(model, frame, id=f"pipeline {name}"))
    holes = frame.copy()
    holes.loc[np.random.default_rng(7).random(len(holes)) < 0.2, "debt"] = np.nan
    model = make_pipeline(_encoded(SimpleImputer(), hot), RandomForestRegressor(7, random_state=0)).fit(holes, z)
    found.append(pytest.param(model, holes, id="pipeline imputed"))
    gaps = x.copy()
    gaps[np.random.default_rng(8).random(len(x)) < 0.2, 0] = np.nan
    table = pd.DataFrame(gaps, columns=list("abcd"))
    boosted = HistGradientBoostingRegressor(max_iter=20).fit(table, y)
    found.append(pytest.param(boosted, table, id="missing values"))
    return found


def _read(model: Any, data: Any) -> tuple[Space, np.ndarray, CellTrees]:
    space = Space.infer(data)
    rows = space.encode(data)
    trees = read_cells(read_structure(model, space), space, rows)
    assert trees is not None
    return space, rows, trees


def _outputs(model: Any, space: Space, x: np.ndarray) -> np.ndarray:
    rows = space.decode(x)
    said = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)[:, None]
    return np.asarray(said)


def _linked(trees: CellTrees, cells: np.ndarray) -> np.ndarray:
    said = trees.outputs(cells)
    return said[:, None] if said.ndim == 1 else said


def _at_edges(trees: CellTrees, space: Space, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows whose numbers lie on an edge of a cell, or just above it."""
    x = rows[rng.integers(len(rows), size=N_RANDOM)].copy()
    for j, edges in enumerate(trees.edges):
        if len(edges) == 0 or space.features[j].leveled:
            continue
        edge = rng.choice(edges, N_RANDOM)
        if space.features[j].discrete:
            value = np.floor(edge) + rng.integers(0, 2, N_RANDOM)
        else:
            value = np.where(rng.random(N_RANDOM) < 0.5, edge, np.nextafter(edge, np.inf))
        x[:, j] = np.where(np.isnan(x[:, j]) | (rng.random(N_RANDOM) < 0.3), x[:, j], value)
    return x


@pytest.mark.parametrize(("model", "data"), _cases())
def test_cells_say_what_the_model_says(model: Any, data: Any) -> None:
    space, rows, trees = _read(model, data)
    rng = np.random.default_rng(1)
    mixed = np.column_stack([rng.permutation(rows[:, j]) for j in range(rows.shape[1])])
    for x in (rows, mixed, _at_edges(trees, space, rows, rng)):
        assert trees.covers(x).all()
        np.testing.assert_allclose(_linked(trees, trees.cells(x)), _outputs(model, space, x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("model", "data"), _cases())
def test_neighbouring_cells_differ_at_the_edge(model: Any, data: Any) -> None:
    # an edge that no tree asks about would be a wrong one: below and above it some tree goes another way
    space, _, trees = _read(model, data)
    for j, edges in enumerate(trees.edges):
        own = trees.nodes.feature == j
        if own.any() and not space.features[j].leveled:
            assert set(trees.nodes.cut[own].tolist()) >= set(range(len(edges)))


@pytest.mark.parametrize(("model", "data"), _cases())
def test_leaves_are_a_partition(model: Any, data: Any) -> None:
    _, rows, trees = _read(model, data)
    for cells in trees.cells(rows[:20]):
        inside = np.all([trees.holds(j, int(cell)) for j, cell in enumerate(cells)], axis=0)
        assert trees.tree[inside].tolist() == list(range(trees.n_trees))
        np.testing.assert_allclose(trees.base + trees.value[inside].sum(axis=0), trees.scores(cells[None])[0])


@pytest.mark.parametrize(("model", "data"), _cases())
def test_steps_of_every_feature(model: Any, data: Any) -> None:
    space, rows, trees = _read(model, data)
    rng, start = np.random.default_rng(2), trees.cells(rows[3:4])[0]
    here = Position(trees, start)
    for _ in range(4):
        steps = here.all_steps()
        for j in range(len(space)):
            n = int(trees.n_cells[j]) + 1
            along = np.tile(here.cells, (n, 1))
            along[:, j] = np.arange(n)
            wanted = trees.scores(along)
            np.testing.assert_allclose(steps[j], wanted, atol=1e-9)
            np.testing.assert_allclose(here.step_scores(j), wanted, atol=1e-9)
        apart = here.copy()
        j = int(rng.integers(len(space)))
        here.move(j, int(rng.integers(trees.n_cells[j])))
        np.testing.assert_allclose(here.scores, trees.scores(here.cells[None])[0], atol=1e-9)
        np.testing.assert_allclose(apart.scores, trees.scores(apart.cells[None])[0], atol=1e-9)


@pytest.mark.parametrize(("model", "data"), _cases())
def test_nearest_values_lie_in_their_cells(model: Any, data: Any) -> None:
    space, rows, trees = _read(model, data)
    x0 = rows[~np.isnan(rows).any(axis=1)][0]
    low, high = space.limits(x0)
    for j in range(len(space)):
        values = nearest_values(trees, space, x0, j)
        known = np.flatnonzero(~np.isnan(values))
        x = np.tile(x0, (len(known), 1))
        x[:, j] = values[known]
        assert trees.cells(x)[:, j].tolist() == known.tolist()
        assert (values[known] >= low[j]).all()
        assert (values[known] <= high[j]).all()
        assert values[trees.cells(x0[None])[0, j]] == x0[j]
        if not space.features[j].discrete:  # a hair nearer is another cell
            moved = x[x[:, j] != x0[j]]
            closer = moved.copy()
            closer[:, j] = np.nextafter(moved[:, j], x0[j])
            assert (trees.cells(closer)[:, j] != trees.cells(moved)[:, j]).all()


def test_no_rows_have_no_scores() -> None:
    x, y = _array()
    _, rows, trees = _read(RandomForestRegressor(2, random_state=0).fit(x, y), x)
    assert trees.scores(trees.cells(rows[:0])).shape == (0, len(trees.base))


def test_what_is_no_tree_has_no_cells() -> None:
    from sklearn.linear_model import LinearRegression

    x, y = _array()
    assert read_cells(read_structure(LinearRegression().fit(x, y), Space.real(4)), Space.real(4), x) is None
    assert read_cells(None, Space.real(4), x) is None


def test_real_column_read_as_levels_has_no_cells() -> None:
    frame, z = _table()
    frame = frame[["debt", "age"]]
    encode = make_column_transformer((OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["debt"]))
    model = make_pipeline(encode, RandomForestRegressor(3, random_state=0)).fit(frame, z)
    space = Space.infer(frame)
    assert read_cells(read_structure(model, space), space, space.encode(frame)) is None
