"""Min-max over models, where the worst model is known."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals.minmax import METHODS, MinMax
from support.asked import Formula, corners, fitted
from support.several import Coloured, assert_kept, mixed_table, several

ROW = pd.DataFrame({"x1": [0.0]})
PAIR = [Formula(lambda x: x[:, 0]), Formula(lambda x: x[:, 0] - 1.0)]


def test_the_strictest_model_decides():
    rival, wish, _ = several(MinMax(refits=1), PAIR, corners(1, high=5.0), low=2.0)
    found = rival.counterfactual(ROW, wish, 0)
    assert found.answers[""]["x1"].item() == pytest.approx(3.0, abs=0.01)
    assert found.note == ""


def test_models_that_cannot_all_be_satisfied_are_met_halfway():
    # the outputs x and x - 1 cannot both be 2: the worst is least at 2.5
    rival, wish, _ = several(MinMax(refits=1), PAIR, corners(1, high=5.0), low=1.99, high=2.01)
    found = rival.counterfactual(ROW, wish, 0)
    assert found.answers[""]["x1"].item() == pytest.approx(2.5, abs=0.02)
    assert "no point found that all models grant" in found.note


def test_levels_bounds_and_missing_cells():
    X, space = mixed_table()
    models = [Coloured(), Coloured(0.5), Coloured(1.0)]
    rival, wish, _ = several(MinMax(refits=2), models, X, label="yes", space=space)
    row = X.iloc[[3]].assign(colour="red", size=1)
    answer = rival.counterfactual(row, wish, 0).answers[""]
    assert_kept(answer, row, models)
    pd.testing.assert_frame_equal(answer, rival.counterfactual(row, wish, 0).answers[""])


def test_without_refits_it_cannot_run():
    with pytest.raises(CannotRunError, match="needs several models"):
        fitted(MinMax(), PAIR[0], corners(1), low=0.5)


def test_it_is_listed():
    assert [method.label for method in METHODS] == ["Min-max over models"]
    assert np.isfinite(METHODS[0].make().refits)
