"""Loops of the search for the cheapest row: the same bits as numpy's, compiled or not, whatever ends the search."""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import gbce
from gbce.trees import _bound as _axes
from gbce.trees import _bound as _cheapest
from gbce.trees import _loops as _box_loops
from gbce.trees import read_cells, read_structure
from gbce.trees._bound import Cutter, Intervals, Leaves, Sets, Verdict, _Search, find_lowest
from gbce.trees._move_table import Loop
from gbce.trees._optimum import make_task
from gbce.trees._question import CellPrices

LOOPS = {"PRICE": _axes, "HOLD": _axes, "CUT": _axes, "NARROW": _cheapest, "BOUND": _cheapest, "PROMISE": _cheapest}
RNG = np.random.default_rng(8)
N, REFUSED, LEAST_BOXES = 150, 10, 50
FRAME = pd.DataFrame({"c": RNG.integers(0, 6, N), **{name: RNG.normal(size=N) for name in "abde"}})
SCORE = FRAME["a"] - 2 * FRAME["b"] + 0.3 * FRAME["c"] + FRAME["d"] * FRAME["e"]
HOLES = FRAME.assign(a=FRAME["a"].mask(FRAME["b"] > 1), d=FRAME["d"].mask(FRAME["a"] > 1))
FOREST = RandomForestRegressor(8, max_depth=5, random_state=0)
CASES = {  # of one condition, of two, of two on three classes, and of sets of cells
    "forest": (FRAME, FOREST, SCORE, gbce.AtLeast(3.0, scale=1.0)),
    "range": (FRAME, FOREST, SCORE, gbce.Range(-2.6, -2.5, scale=1.0)),
    "classes": (
        FRAME, GradientBoostingClassifier(n_estimators=5, random_state=0), np.digitize(SCORE, [-1, 1]), gbce.Class(2),
    ),
    "holes": (HOLES, FOREST, SCORE, gbce.AtLeast(2.5, scale=1.0)),
}  # fmt: skip
ENOUGH = 10**9
LIMITS = [(None, ENOUGH), (2, ENOUGH), (None, 300)]  # changes, and work


@cache
def make_tasks(name):
    frame, model, y, target = CASES[name]
    space = gbce.Space.infer(frame, missing={"a": "any", "d": "any"} if frame is HOLES else None)
    x = space.encode(frame)
    trees = read_cells(read_structure(model.fit(frame, y), space), space, x)
    return [make_task(trees, space, row, target.resolve(1.0), "l1") for row in x[:4]]


def refuse_some():
    """Return a judge that refuses the first rows that it is asked about."""
    asked = []

    def judge(cells):
        asked.append(cells)
        return Verdict.BAD if len(asked) <= REFUSED else Verdict.GOOD

    return judge


def find(name):
    """Search from some rows with all limits."""
    found = []
    for task, (changes, work) in product(make_tasks(name), LIMITS):
        known = 1.0 + sum(axis.offer.price.max() for axis in task.axes)
        for _ in range(2):  # the second time from what the first one found
            found.append(find_lowest(*task, known, refuse_some(), most_changes=changes, most_work=work))
            known = found[-1].price
    return found


@cache
def compile_once(function):
    return pytest.importorskip("numba").njit(function)


def use(monkeypatch, compiled):
    """Let loops be compiled at once by this function."""
    for name, module in LOOPS.items():
        loop = Loop(getattr(_box_loops, name).function, patience=0)
        loop._compiled = compiled(loop.function)
        monkeypatch.setattr(module, name, loop)


def require_same(mine, other):
    assert any(one.cells is not None for one in mine)
    assert any(one.boxes > LEAST_BOXES for one in mine)
    assert any(one.cells is None and one.lower < np.inf for one in mine)  # ended by work
    for one, two in zip(mine, other, strict=True):
        assert (one.lower, one.price, one.boxes) == (two.lower, two.price, two.boxes)
        assert (one.cells is None) == (two.cells is None)
        assert one.cells is None or one.cells.tobytes() == two.cells.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_loops_find_the_same_bits(name, monkeypatch):
    usual, calls = find(name), set()
    use(monkeypatch, lambda function: lambda *given: calls.add(function) or function(*given))
    require_same(usual, find(name))
    assert len(calls) == len(LOOPS)


@pytest.mark.parametrize("name", CASES)
def test_compiled_loops_find_the_same_bits(name, monkeypatch):
    use(monkeypatch, compile_once)
    found = find(name)
    monkeypatch.undo()
    require_same(find(name), found)


def in_both_ways(monkeypatch, ask, *given):
    """Return what is said by numpy, and by loops that nobody compiled."""
    usual = ask(*given)
    with monkeypatch.context() as patched:
        use(patched, lambda function: function)
        return usual, ask(*given)


def test_loops_see_the_same_leaves_and_cut_at_the_same_place_of_equally_good_ones(monkeypatch):
    rng = np.random.default_rng(3)
    steps = np.abs(np.arange(8) - 3.0)
    for price, gain in [*((steps, gain) for gain in rng.random((20, 40))), *[(np.sign(steps), np.ones(40))] * 20]:
        low = rng.integers(0, 7, size=(40, 3))
        high = np.minimum(low + rng.integers(1, 5, size=(40, 3)), 8)
        axes = [
            Intervals(CellPrices(j, np.arange(8), np.arange(8.0), price, price > 0, 3, False), low[:, j], high[:, j])
            for j in range(3)
        ]
        cutter, some, cells = Cutter(axes), rng.permutation(40)[:25], rng.integers(1, 7, 3)
        cuts = in_both_ways(monkeypatch, cutter._cut_ordered, some, gain[some], cells, 0.5)
        assert cuts[0] == cuts[1]
        held = in_both_ways(monkeypatch, cutter.hold, some, cells)
        assert (held[0] == held[1]).all()
        priced = in_both_ways(monkeypatch, axes[0].price, (2, 6), some)
        assert (priced[0] == priced[1]).all()


def test_loops_add_trees_in_their_order(monkeypatch):
    n = 60
    axis = Intervals(
        CellPrices(0, np.arange(2), np.arange(2.0), np.arange(2.0), np.array([False, True]), 0, False),
        np.zeros(n, dtype=int), np.full(n, 2),
    )  # fmt: skip
    for worth in np.random.default_rng(4).normal(size=(10, n)):
        total = np.add.accumulate(worth)[-1]
        for least, n_waiting in ((total, 1), (np.nextafter(total, np.inf), 0)):
            given = Leaves(np.arange(n), worth[:, None], n), [axis], np.array([least]), 1.0, None
            one, two = in_both_ways(monkeypatch, _Search, *given)
            assert len(one.waiting) == len(two.waiting) == n_waiting


def test_cases_have_several_conditions_and_sets_of_cells():
    assert {len(make_tasks(name)[0].least) for name in CASES} == {1, 2}
    assert any(isinstance(axis, Sets) for axis in make_tasks("holes")[0].axes)
