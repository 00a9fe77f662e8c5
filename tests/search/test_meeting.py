"""Where points with the very same output meet: the nearest point of what they span, for few rows."""

import numpy as np
import pytest

import gbce
from gbce.search import try_near_corners

D = 20
SPACE, ROW = gbce.Space.real(D), np.zeros(D)


class Asked:
    """A model that reaches in boxes, and what was asked of it: prices of points that reach."""

    def __init__(self, *boxes):
        self.boxes, self.rows, self.least = boxes, 0, np.inf

    def reached(self, x):
        inside = [np.all([(x[:, j] > a) & (x[:, j] < b) for j, (a, b) in box.items()], axis=0) for box in self.boxes]
        return np.any(inside, axis=0)

    def __call__(self, x):
        self.rows += len(x)
        found = np.where(self.reached(x), np.abs(x).sum(axis=1), np.inf)
        self.least = min(self.least, float(found.min()))
        return found

    def meet(self, x, outputs, least=np.inf):
        order = np.argsort(np.abs(x).sum(axis=1), kind="stable")
        price = lambda met, _: np.abs(met).sum(axis=1)  # noqa: E731
        try_near_corners(SPACE, ROW, x[order], outputs[order], price, self, least)


def inside(box, n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, D))
    for j, (a, b) in box.items():
        x[:, j] = rng.uniform(a, b, size=n)
    return x


def test_one_row_finds_the_nearest_point_between_those_of_one_box():
    box = {0: (2.0, 3.0), 5: (-2.0, -1.0)}
    x, asked = inside(box, 30, 0), Asked(box)
    asked.meet(x, np.ones((30, 1)))
    assert asked.rows == 1
    assert asked.least == pytest.approx(
        x[:, 0].min() - x[:, 5].max(), rel=1e-12
    )  # every other column has points on both sides of the row


def test_points_of_several_boxes_that_say_the_same_are_parted():
    one, other = {0: (2.0, 3.0), 5: (-2.0, -1.0)}, {1: (1.0, 1.5), 2: (0.5, 1.0), 3: (0.2, 0.4)}
    x, asked = np.vstack([inside(one, 15, 0), inside(other, 15, 1)]), Asked(one, other)
    asked.meet(x, np.ones((30, 1)))
    assert asked.least == pytest.approx(x[15:, 1:4].min(axis=0).sum(), rel=1e-12)
    assert asked.rows <= 100  # a pair of each with the first, in each of few rounds


def test_nothing_is_asked_where_nothing_better_is_promised_or_all_outputs_differ():
    box = {0: (2.0, 3.0)}
    x, asked = inside(box, 30, 0), Asked(box)
    asked.meet(x, np.ones((30, 1)), least=float(x[:, 0].min()))
    asked.meet(x, np.arange(30.0)[:, None])
    asked.meet(x[:0], np.ones((0, 1)))
    assert asked.rows == 0


def test_levels_and_missing_values_of_the_row_are_taken_where_any_point_has_them():
    levels = gbce.Feature("c", "categorical", levels=["p", "q", "r"])
    others = gbce.Feature("d", "categorical", levels=["p", "q", "r"])
    space = gbce.Space([levels, others, gbce.Feature("a", missing="any")])
    x0 = np.array([0.0, 0.0, np.nan])
    x = np.array([[2.0, 1.0, 3.0], [0.0, 2.0, np.nan], [1.0, 2.0, 1.0]])
    met = []

    def ask(rows):
        met.append(rows)
        return np.zeros(len(rows))

    try_near_corners(space, x0, x, np.ones((3, 1)), lambda rows, _: np.zeros(len(rows)), ask, np.inf)
    np.testing.assert_array_equal(met[0], [[0.0, 1.0, np.nan]])  # of levels that all differ, the first one's
