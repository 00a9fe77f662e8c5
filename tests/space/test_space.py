"""Rows in and out: names, order, dtypes, limits."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gbce

FINITE = st.floats(-1e9, 1e9, allow_nan=False, width=32)


@settings(max_examples=50, deadline=None)
@given(
    values=st.integers(1, 4).flatmap(
        lambda d: st.integers(2, 6).flatmap(lambda n: arrays(np.float64, (n, d), elements=FINITE))
    ),
    as32=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_decode_undoes_encode_for_frames_of_floats(values, as32):
    names = [f"c{j}" for j in range(values.shape[1])]
    frame = pd.DataFrame(values, columns=names)
    frame = frame.astype({name: "float32" for name, small in zip(names, as32, strict=False) if small})
    space = gbce.Space.infer(frame, scale="raw")
    pd.testing.assert_frame_equal(space.decode(space.encode(frame)), frame)


def test_arrays_stay_arrays():
    data = np.arange(6.0).reshape(3, 2)
    space = gbce.Space.infer(data)
    assert space.names == ("x1", "x2")
    np.testing.assert_array_equal(space.decode(space.encode(data)), data)
    assert isinstance(space.decode(data), np.ndarray)
    assert list(space.frame(data).columns) == ["x1", "x2"]


def test_frames_are_matched_by_name_and_labels_are_kept():
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=[0, "b"])
    space = gbce.Space.infer(frame)
    assert space.names == ("0", "b")
    shuffled = frame[["b", 0]]
    np.testing.assert_array_equal(space.encode(shuffled), frame.to_numpy())
    assert list(space.decode(space.encode(frame)).columns) == [0, "b"]


@pytest.mark.parametrize(
    "row",
    [
        pd.Series({"b": 2.0, "a": 1.0}),
        {"b": 2.0, "a": 1.0},
        pd.DataFrame({"b": [2.0], "a": [1.0]}),
        [1.0, 2.0],
        np.array([1.0, 2.0]),
        np.array([[1.0, 2.0]]),
        pd.Series([1.0, 2.0]),
    ],
    ids=["series", "mapping", "frame", "list", "array", "matrix", "plain series"],
)
def test_one_row_comes_in_many_shapes(row):
    space = gbce.Space.infer(pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 3.0]}))
    np.testing.assert_array_equal(space.encode_row(row), [1.0, 2.0])


def test_scales():
    frame = pd.DataFrame({"a": [0.0, 2.0, 4.0, 100.0], "b": [1.0, 1.0, 2.0, 3.0]})
    sd = frame.std(ddof=0).to_numpy()
    np.testing.assert_allclose(gbce.Space.infer(frame).scale, sd)
    np.testing.assert_allclose(gbce.Space.infer(frame, scale="mad").scale, [1.4826 * 2.0, 1.4826 * 0.5])
    np.testing.assert_array_equal(gbce.Space.infer(frame, scale="raw").scale, [1.0, 1.0])
    np.testing.assert_allclose(gbce.Space.infer(frame, scale={"b": 7.0}).scale, [sd[0], 7.0])


def test_limits_of_bounds_direction_and_immutables():
    space = gbce.Space(
        (
            gbce.Feature("free"),
            gbce.Feature("boxed", low=0, high=10),
            gbce.Feature("up", direction="increase", high=5),
            gbce.Feature("down", direction="decrease"),
            gbce.Feature("fixed", mutable=False, low=0),
        )
    )
    low, high = space.limits(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    np.testing.assert_array_equal(low, [-np.inf, 0, 3, -np.inf, 5])
    np.testing.assert_array_equal(high, [np.inf, 10, 5, 4, 5])
    x = space.project(np.full((1, 5), 99.0), np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    np.testing.assert_array_equal(x, [[99.0, 10.0, 5.0, 4.0, 5.0]])


def test_every_draw_and_decision_stays_inside():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
    space = gbce.Space.infer(frame, immutable=["a"], increase=["b"], decrease=["c"], bounds={"d": (-1, 1)})
    explainer = gbce.Explainer(lambda f: f.sum(axis=1), frame, space=space)
    row = frame.iloc[3].clip(-0.9, 0.9)
    rules = [
        gbce.MAP(), gbce.Mean(), gbce.GeometricMedian(), gbce.Medoid(), gbce.CVaR(n_perturb=8), gbce.DiverseSet(3),
        gbce.ChanceConstrained(), gbce.RandomDraw(3), gbce.DirectOpt(n_starts=5),
    ]  # fmt: skip
    explanation = explainer.explain(row, gbce.AtLeast(1.0), rules=rules, seed=0)
    for table in (space.frame(explanation.draws.pool.x), explanation.counterfactuals):
        assert (table["a"] == row["a"]).all()
        assert (table["b"] >= row["b"]).all()
        assert (table["c"] <= row["c"]).all()
        assert table["d"].between(-1, 1).all()


def test_columns_that_are_numbers_can_be_named_as_such():
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3))
    space = gbce.Space.infer(frame, immutable=[0], increase=[1], bounds={2: (0, None)}, scale={1: 3.0})
    assert [feature.mutable for feature in space.features] == [False, True, True]
    assert space.features[1].direction == "increase"
    assert (space.features[1].scale, space.features[2].low) == (3.0, 0.0)
