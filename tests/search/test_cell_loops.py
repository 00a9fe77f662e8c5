"""Loops that numba compiles: the same bits as numpy's, compiled or not, and only when they pay."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import gbce
from gbce.trees import _move_table as _cell_loops
from gbce.trees import find_nearest_cells, price_units, reachable_cells, read_cells, read_structure
from gbce.trees._move_table import Loop
from gbce.trees._question import score_constraints

RNG = np.random.default_rng(6)
FRAME = pd.DataFrame({"a": RNG.normal(size=150), "b": RNG.normal(size=150), "c": RNG.integers(0, 6, 150)})
SCORE = FRAME["a"] - 2 * FRAME["b"] + 0.3 * FRAME["c"]
HOLES = FRAME.assign(a=FRAME["a"].mask(FRAME["b"] > 1))
CASES = {
    "forest": (FRAME, RandomForestRegressor(8, max_depth=4, random_state=0), SCORE, gbce.AtLeast(3.0, scale=1.0)),
    "classes": (
        FRAME, GradientBoostingClassifier(n_estimators=4, random_state=0), np.digitize(SCORE, [-1, 1]), gbce.Class(2),
    ),
    "holes": (HOLES, RandomForestRegressor(6, max_depth=4, random_state=0), SCORE, gbce.AtLeast(3.0, scale=1.0)),
}  # fmt: skip


def _find(name):
    frame, model, y, target = CASES[name]
    space = gbce.Space.infer(frame)
    x = space.encode(frame)
    trees = read_cells(read_structure(model.fit(frame, y), space), space, x)
    wish = score_constraints(trees, target.resolve(1.0))
    return [
        find_nearest_cells(trees, reachable_cells(trees, space, row, price_units(space, row)), wish, x[:40], path=2)
        for row in x[:6]
    ]


def _use(monkeypatch, compiled):
    """Let loops be compiled at once by this function."""
    for name in ("ADD_STEPS", "MOVE"):
        loop = Loop(getattr(_cell_loops, name).function, patience=0)
        loop._compiled = compiled(loop.function)
        monkeypatch.setattr(f"gbce.trees._move_table.{name}", loop)


def _require_same(mine, other):
    assert any(len(one.x) for one in mine)
    for one, two in zip(mine, other, strict=True):
        assert one.x.tobytes() == two.x.tobytes()
        assert one.cost.tobytes() == two.cost.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_loops_find_the_same_bits(name, monkeypatch):
    usual, calls = _find(name), []
    _use(monkeypatch, lambda function: lambda *given: calls.append(function) or function(*given))
    _require_same(usual, _find(name))
    assert len(set(calls)) == 2


@pytest.mark.parametrize("name", CASES)
def test_compiled_loops_find_the_same_bits(name, monkeypatch):
    numba = pytest.importorskip("numba")
    usual = _find(name)
    _use(monkeypatch, numba.njit)
    _require_same(usual, _find(name))


def test_a_loop_waits_for_enough_work_and_does_without_a_compiler(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    loop = Loop(len, patience=10)
    assert [loop.after(6), loop.after(6), loop.after(6)] == [None, None, None]
    assert "_compiled" in loop.__dict__  # looked for when it was worth it, and never again


def test_a_loop_is_compiled_once_it_is_worth_it(monkeypatch):
    pytest.importorskip("numba")
    loop = Loop(_cell_loops.add_steps, patience=10)
    assert loop.after(10) is None
    assert loop.after(10) is loop.after(10) is not None
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    assert Loop(_cell_loops.add_steps, patience=0).after(1) is None
