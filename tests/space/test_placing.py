"""Points that are placed, checked and moved: quicker ways say the same as the plain ones."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.space import _limits

SPACES = {
    "pairs": {"constraints": ["a <= b", "c <= d", "e >= 0.2"]},
    "linked": {"constraints": ["a <= b", "b + c <= d + 2.5", "if k == 'u' then e >= 0.3"]},
    "computed": {"constraints": ["a <= b"], "computed": {"f": "c + d"}},
    "function": {"constraints": [lambda frame: frame["a"] <= frame["b"], "c <= d"]},
    "whole and single": {"constraints": ["n <= 4 + a", "c <= d", "1 < 2"]},
}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    low, more = rng.normal(size=(80, 2)), rng.exponential(size=(80, 2))
    frame = pd.DataFrame({"a": low[:, 0], "b": low[:, 0] + more[:, 0], "c": low[:, 1], "d": low[:, 1] + more[:, 1]})
    frame["e"] = rng.uniform(0.4, 1.0, 80).astype(np.float32)
    frame["f"] = frame["c"] + frame["d"]
    frame["n"] = rng.integers(0, 2, 80) + rng.integers(0, 2, 80)
    frame["k"] = rng.choice(["u", "v", "w"], 80)
    return frame


@pytest.fixture(params=SPACES)
def placed(request):
    """Return a space, an admissible row and points around it of which many are not."""
    frame = table()
    space = gbce.Space.infer(frame, bounds="none", **SPACES[request.param])
    data = space.encode(frame)
    x0 = next(row for row in data if space.admissible(row[None, :], row)[0] and row[6] <= 1)
    rng = np.random.default_rng(5)
    tried = data[rng.integers(80, size=300)] + rng.normal(size=(300, len(space))) * space.scale
    tried[:, 7] = rng.integers(3, size=300)
    return space, x0, tried


def test_points_are_placed_as_they_are_projected_and_checked(placed):
    space, x0, tried = placed
    assert (~space.admissible(tried, x0)).sum() > 20
    points, good = space.place(tried, x0)
    np.testing.assert_array_equal(points, space.project(tried, x0))
    np.testing.assert_array_equal(good, space.admissible(points, x0))
    one_by_one = np.vstack([space.place(row[None, :], x0)[0] for row in tried])
    np.testing.assert_array_equal(points, one_by_one)


def test_what_cannot_be_had_is_said():
    """A row that breaks a condition of a follow-up question: what is taken back all the way stays as bad as it is."""
    space = gbce.Space.infer(np.random.default_rng(0).normal(size=(50, 2)), constraints=["x1 + x2 >= 1"])
    points, good = space.place(np.array([[0.2, 0.2], [0.9, 0.9]]), np.zeros(2))
    np.testing.assert_array_equal(points, [[0.0, 0.0], [0.9, 0.9]])
    assert good.tolist() == [False, True]


def test_moves_keep_to_the_constraints(placed):
    space, x0, tried = placed
    moved = space.move_each(space.project(tried[::-1], x0), tried, x0)
    assert space.admissible(moved, x0).all()


def test_shares_of_a_move_are_tried_at_once_as_one_by_one(placed, monkeypatch):
    space, x0, tried = placed
    start = space.project(tried[::-1], x0)
    points, moved = space.place(tried, x0)[0], space.move_each(start, tried, x0)
    monkeypatch.setattr(_limits, "_MOST_CHECKED", 1)
    np.testing.assert_array_equal(points, space.place(tried, x0)[0])
    np.testing.assert_array_equal(moved, space.move_each(start, tried, x0))


def test_starts_that_break_a_constraint_stay():
    """A constraint that is broken elsewhere holds every move back, whichever feature makes it."""
    space = gbce.Space.real(4)
    space = gbce.Space(space.features, constraints=("x1 <= x2", "x3 <= x4"))
    start, goal = np.array([[0.0, 1.0, 1.0, 0.0]]), np.array([[0.5, 1.0, 1.0, 0.2]])
    np.testing.assert_array_equal(space.move_each(start, goal, np.zeros(4)), start)


def test_limits_are_those_of_each_row_and_stay_as_they_are():
    space = gbce.Space.infer(table(), increase=["a"], immutable=["b"])
    rows = space.encode(table())[:5]
    known = [[end.copy() for end in space.limits(row)] for row in rows]
    for row, (low, high) in zip(rows, known, strict=True):
        assert low[0] == row[0]
        assert low[1] == high[1] == row[1]
        again = space.limits(row.copy())
        np.testing.assert_array_equal(again[0], low)
        np.testing.assert_array_equal(again[1], high)
    with pytest.raises(ValueError, match="read-only"):
        space.limits(rows[0])[0][0] = 0.0
    for k in range(300):  # what is remembered has an end
        space.limits(rows[0] + k)
    assert len(space._limits_of_rows) <= 100
