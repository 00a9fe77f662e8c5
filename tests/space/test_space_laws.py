"""What holds in every space: projections are admissible and final, distances are norms, the nearest row is nearest."""

from itertools import product

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

import gbce
from gbce.space._places import axes_of
from support.columns import frames

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def spaces(draw):
    """A space of any columns with random wishes, encoded rows of it, and one of them."""
    frame = draw(frames())
    plain = gbce.Space.infer(frame)
    ordered = [feature.name for feature in plain.features if not feature.unordered]
    some = st.lists(st.sampled_from(ordered), unique=True) if ordered else st.just([])
    rising = draw(some)
    gaps = [feature.name for feature in plain.features if feature.missing is not None]
    space = gbce.Space.infer(
        frame,
        immutable=draw(st.lists(st.sampled_from(plain.names), unique=True)),
        increase=rising,
        decrease=[name for name in draw(some) if name not in rising],
        bounds=draw(st.sampled_from([None, "data"])),
        missing={name: draw(st.sampled_from(["keep", "leave", "any"])) for name in gaps},
    )
    x = space.encode(frame)
    return space, x, x[draw(st.integers(0, len(x) - 1))]


def scattered(space, x, x0, rng):
    """Points all over the place: rows, gaps, and far away."""
    points = np.concatenate([x, x0 + 3 * space.scale * rng.standard_t(2, size=(20, len(space)))])
    gaps = [feature.missing is not None for feature in space.features]
    return np.where((rng.random(points.shape) < 0.1) & gaps, np.nan, points)


def require_admissible(space, x, x0):
    low, high = space.limits(x0)
    for j, feature in enumerate(space.features):
        column, gone = x[:, j], np.isnan(x[:, j])
        may_be_gone = feature.missing == "any" or (feature.missing is not None and np.isnan(x0[j]))
        assert may_be_gone or not gone.any()
        assert ((column[~gone] >= low[j]) & (column[~gone] <= high[j])).all()
        if feature.discrete:
            assert (column[~gone] == np.round(column[~gone])).all()
        if feature.leveled:
            assert np.isin(column[~gone], np.arange(len(feature.levels))).all()
        if not feature.mutable:
            assert column.tobytes() == np.full(len(x), x0[j]).tobytes()
    assert space.misfits(x).empty


@settings(max_examples=60, deadline=None)
@given(spaces(), SEEDS)
def test_projections_are_admissible_and_final(drawn, seed):
    space, x, x0 = drawn
    once = space.project(scattered(space, x, x0, np.random.default_rng(seed)), x0)
    require_admissible(space, once, x0)
    assert space.project(once, x0).tobytes() == once.tobytes()
    assert space.project(x0[None, :], x0).tobytes() == x0.tobytes()


@st.composite
def conditional_spaces(draw):
    """A space with constraints and a computed column, and a row that meets them."""
    rng = np.random.default_rng(draw(SEEDS))
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=30).astype(draw(st.sampled_from(["float64", "float32"]))),
            "b": rng.integers(-5, 9, 30).astype(draw(st.sampled_from(["int64", "int8"]))),
            "job": np.array(["none", "cook", "pilot"])[rng.integers(0, 3, 30)],
        }
    )
    frame["total"] = 2.0 * frame["b"] - frame["a"].astype(float)
    known = [
        "a <= b + 6", "-4 <= a - b", "if job == 'none' then a >= -1", "job != 'pilot' or b > 0", "abs(a) < 2.5",
        "total <= 20", lambda rows: (rows["a"] > -2) | (rows["b"] > 0),
    ]  # fmt: skip
    chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
    space = gbce.Space.infer(
        frame,
        constraints=chosen,
        computed={"total": "2 * b - a"} if draw(st.booleans()) else None,
        immutable=draw(st.sampled_from([[], ["a"], ["job"], ["b"]])),
        increase=draw(st.sampled_from([[], ["b"]])),
        bounds=draw(st.sampled_from([{}, {"total": (-30, 25)}])),
    )
    return space, space.encode(frame)


@settings(max_examples=60, deadline=None)
@given(conditional_spaces(), SEEDS)
def test_projections_meet_constraints_that_the_row_meets(drawn, seed):
    space, x = drawn
    rng = np.random.default_rng(seed)
    fitting = [i for i in range(len(x)) if space.misfits(x[[i]]).empty]
    for x0 in x[rng.permutation(fitting)[:3]] if fitting else []:
        points = x0 + 3 * space.scale * rng.standard_t(3, size=(40, len(space)))
        once = space.project(points, x0)
        assert space.misfits(once).empty
        assert space.admissible(once, x0).all()
        assert space.project(once, x0).tobytes() == once.tobytes()
        fixed = [not feature.mutable for feature in space.features]
        assert (once[:, fixed] == x0[fixed]).all()
        toward = x[fitting[0]]  # on the way from another row that fits, as far as it may be reached from this one
        reached = space.project(toward[None, :], x0)[0]
        assert space.misfits(space.project(points, x0, reached)).empty


def squares(space, x, y):
    """Squared distance of two rows, feature by feature, from what a change is worth."""
    total = 0.0
    for feature, one, other in zip(space.features, x, y, strict=True):
        gone = [np.isnan(one), np.isnan(other)]
        if all(gone):
            continue
        if any(gone):
            known = other if gone[0] else one
            aside = 0.5 if len(feature.levels or ()) > 2 else 0.25 if len(feature.levels or ()) == 2 else 0.0
            aside = aside if feature.unordered else (known - feature.centre) ** 2
            total += 1.0 + aside / feature.scale**2
        elif feature.unordered:
            total += (one != other) / feature.scale**2
        else:
            total += ((one - other) / feature.scale) ** 2
    return total


@settings(max_examples=60, deadline=None)
@given(spaces())
def test_distance_is_the_norm_of_the_embedded_difference(drawn):
    space, x, x0 = drawn
    distance = space.distance(x, x0)
    np.testing.assert_allclose(distance, np.linalg.norm(space.embed(x).axes - space.embed(x0[None, :]).axes, axis=1))
    np.testing.assert_allclose(distance**2, [squares(space, row, x0) for row in x], rtol=1e-9, atol=1e-12)
    assert sum(map(axes_of, space.features)) == space.embed(x).axes.shape[1]
    part = np.arange(0, len(space), 2)
    start = np.cumsum([0, *map(axes_of, space.features)])
    axes = np.concatenate([np.arange(start[j], start[j + 1]) for j in part])
    np.testing.assert_array_equal(space.embed(x, part).axes, space.embed(x).axes[:, axes])


@st.composite
def small_spaces(draw):
    """A handful of discrete features, all rows that may be reached from one of them, and that one."""
    makes = {
        "integer": {"low": -1, "high": 2},
        "ordinal": {"levels": (*"abcd",)},
        "categorical": {"levels": (*"xyz",)},
        "boolean": {},
    }
    features = []
    for j, kind in enumerate(draw(st.lists(st.sampled_from(list(makes)), min_size=1, max_size=4))):
        ordered = kind in ("integer", "ordinal")
        features.append(
            gbce.Feature(
                f"f{j}",
                kind,
                **makes[kind],
                scale=draw(st.sampled_from([0.5, 1.0, 3.0])),
                mutable=draw(st.sampled_from([True, True, True, False])),
                direction=draw(st.sampled_from(["any", "increase", "decrease"])) if ordered else "any",
                missing=draw(st.sampled_from([None, "keep", "leave", "any"])),
                centre=1.0 if ordered else None,
            )
        )
    space = gbce.Space(tuple(features))
    known = [range(-1, 3) if f.kind == "integer" else range(len(f.levels)) for f in features]
    now = [
        draw(st.sampled_from([*values, *([np.nan] if f.missing else [])]))
        for f, values in zip(features, known, strict=True)
    ]
    x0 = np.array(now, dtype=float)
    choices = []
    for feature, values, own in zip(features, known, x0, strict=True):
        may = [
            v
            for v in values
            if feature.direction == "any"
            or np.isnan(own)
            or (v - own) * (1 if feature.direction == "increase" else -1) >= 0
        ]
        if not feature.mutable or (np.isnan(own) and feature.missing == "keep"):
            may = [own]
        elif feature.missing == "any" or np.isnan(own):
            may = [*may, np.nan]
        choices.append(may)
    return space, np.array(list(product(*choices)), dtype=float), x0


@settings(max_examples=100, deadline=None)
@given(small_spaces(), SEEDS)
def test_the_nearest_row_has_the_least_expected_squared_distance(drawn, seed):
    space, rows, x0 = drawn
    rng = np.random.default_rng(seed)
    draws = rows[rng.integers(len(rows), size=rng.integers(1, 9))]
    which = np.arange(len(space))
    found = space.nearest(space.embed(draws).centre(np.full(len(draws), 1.0 / len(draws))), x0, which)
    assert any(np.array_equal(found, row, equal_nan=True) for row in rows)
    expected = np.array([np.mean([squares(space, row, draw) for draw in draws]) for row in rows])
    own = np.mean([squares(space, found, draw) for draw in draws])
    np.testing.assert_allclose(own, expected.min(), rtol=1e-9, atol=1e-12)
    best = np.isclose(expected, expected.min(), rtol=1e-9, atol=1e-12)
    assert any(np.array_equal(found, row, equal_nan=True) for row in rows[best])
