"""PSCE as reconstructed: confidence and variance at the answer."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.rivals.psce import METHODS, PSCE
from support.asked import Logistic, corners
from support.several import Coloured, mixed_table, several

ROW = pd.DataFrame({"x1": [0.0]})
TRIO = [Logistic(lambda x, b=b: 10 * (x[:, 0] - b)) for b in (0.4, 0.5, 0.6)]


def test_the_nearest_point_that_is_safe_and_robust():
    rival, wish, _ = several(PSCE(refits=2), TRIO, corners(1), label=1)
    grid = np.linspace(0, 1, 20_001)
    m = np.array([model.predict_proba(grid[:, None])[:, 1] for model in TRIO])
    allowed = (m.mean(axis=0) >= 0.8) & (m.var(axis=0) <= 0.01)
    answer = rival.counterfactual(ROW, wish, 0).answers[""]["x1"].item()
    assert answer == pytest.approx(grid[allowed][0], abs=2e-3)
    at = np.array([model.predict_proba([[answer]])[0, 1] for model in TRIO])
    assert np.mean(at <= 0.5) <= at.var() / (at.var() + (at.mean() - 0.5) ** 2)  # Cantelli


def test_what_cannot_be_safe_is_said():
    dull = [Logistic(lambda x: x[:, 0])]
    rival, wish, _ = several(PSCE(refits=2), dull, corners(1), label=1)
    assert "no safe and robust point found" in rival.counterfactual(ROW, wish, 0).note


def test_levels_bounds_and_missing_cells():
    X, space = mixed_table()
    rival, wish, _ = several(PSCE(refits=2), [Coloured(), Coloured(0.5)], X, label="yes", space=space)
    row = X.iloc[[3]].assign(colour="red", size=1)
    answer = rival.counterfactual(row, wish, 0).answers[""]
    assert answer["weight"].isna().all()
    assert answer["age"].item() == row["age"].item()
    assert answer["size"].item() <= 6
    pd.testing.assert_frame_equal(answer, rival.counterfactual(row, wish, 0).answers[""])


def test_bad_options():
    with pytest.raises(ValueError, match=r"delta is 0\.7"):
        several(PSCE(delta=0.7), TRIO, corners(1), label=1)


def test_it_is_called_a_reconstruction():
    assert [method.label for method in METHODS] == ["PSCE (reconstruction)"]
