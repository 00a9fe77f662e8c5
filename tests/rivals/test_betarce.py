"""BetaRCE: its bound, its test, and its spheres."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.rivals._question import Question
from benchmarks.rivals.betarce import METHODS, BetaRCE, beta_bound, needed
from support.asked import Logistic, corners
from support.several import Coloured, assert_kept, mixed_table, several

ROW = pd.DataFrame({"x1": [0.0], "x2": [0.5]})


def halves(at):
    return [Logistic(lambda x, b=b: 50 * (x[:, 0] - b)) for b in at]


def test_its_bound():
    bounds = beta_bound([32, 31, 30, 29, 28], 32, 0.9)
    np.testing.assert_allclose(bounds, [0.9589, 0.9062, 0.8626, 0.8223, 0.7841], atol=5e-5)
    assert needed(32, 0.9, 0.9) == 31
    assert needed(32, 0.9, 0.8) == 29
    assert needed(3, 0.9, 0.9) == 4


def test_a_point_passes_as_the_count_of_models_says():
    # refits begin to grant at 0.31, 0.32, ...: 31 of 32 are needed, so everything from 0.61 on passes
    models = halves([0.3, *(0.3 + 0.01 * np.arange(1, 33))])
    rival, wish, model = several(BetaRCE(), models, corners(2), label=1)
    question = Question(model, rival._codes, ROW, wish)
    x = np.column_stack([[0.2, 0.35, 0.605, 0.615, 0.7], np.full(5, 0.5)])
    assert rival.passes(question, x).tolist() == [False, False, False, True, True]


def test_a_base_answer_that_passes_is_kept():
    rival, wish, _ = several(BetaRCE(), halves([0.5, 0.2]), corners(2), label=1)
    found = rival.counterfactual(ROW, wish, 0)
    assert found.note == "the base answer passes"
    assert found.answers[""]["x1"].item() == pytest.approx(0.5, abs=0.01)
    assert found.answers[""]["x2"].item() == pytest.approx(0.5, abs=0.01)


def test_the_nearest_passing_point_of_the_first_shell_with_any():
    rival, wish, model = several(BetaRCE(), halves([0.5, 0.75]), corners(2), label=1)
    question = Question(model, rival._codes, ROW, wish)
    answer = rival.improve(question, np.array([0.5, 0.5]), np.random.default_rng(0)).answers[""].to_numpy()[0]
    assert answer[0] >= 0.75
    assert 0.25 <= np.hypot(*(answer - 0.5)) <= 0.3  # the third shell has points that pass; the second ends at 0.2


def test_nothing_found_is_said():
    rival, wish, _ = several(BetaRCE(shells=12), halves([0.5, 9.0]), corners(2), label=1)
    found = rival.counterfactual(ROW, wish, 0)
    assert found.answers == {}
    assert found.note == "nothing passes within 12 shells around the base answer"


def test_levels_bounds_and_missing_cells():
    X, space = mixed_table()
    models = [Coloured(), Coloured(1.0)]
    rival, wish, _ = several(BetaRCE(), models, X, label="yes", space=space)
    row = X.iloc[[3]].assign(colour="red", size=1)
    answer = rival.counterfactual(row, wish, 0).answers[""]
    assert_kept(answer, row, models)
    pd.testing.assert_frame_equal(answer, rival.counterfactual(row, wish, 0).answers[""])


def test_options_that_cannot_work():
    with pytest.raises(ValueError, match="k is 3: so few models"):
        several(BetaRCE(k=3), halves([0.5]), corners(2), label=1)
    with pytest.raises(ValueError, match=r"beta is 1\.5"):
        several(BetaRCE(beta=1.5), halves([0.5]), corners(2), label=1)


def test_it_is_listed():
    assert [method.label for method in METHODS] == ["BetaRCE"]
