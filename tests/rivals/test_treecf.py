"""treecf on a tree that can be read by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import gbce
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals.treecf import TreeCF
from support.asked import Formula, corners, fitted

pytest.importorskip("treecf")


def stump(kind, y, X):
    return kind(1, bootstrap=False, max_depth=1, random_state=0).fit(X, y)


@pytest.mark.parametrize("way", ["genetic", "exact"])
def test_the_one_split_is_passed_and_no_more(way):
    X = corners(2)
    model = stump(RandomForestClassifier, X["x1"] > 0.5, X)
    edge = model.estimators_[0].tree_.threshold[0]
    row = pd.DataFrame({"x1": [0.2], "x2": [0.7]})
    treecf, wish, counted = fitted(TreeCF(way), model, X, label=True)
    answer = treecf.counterfactual(row, wish, seed=0).answers[""]
    assert answer["x1"].item() == pytest.approx(edge, abs=1e-3)
    assert wish.granted(counted, answer).all()
    assert answer["x2"].item() == 0.7
    pd.testing.assert_frame_equal(treecf.counterfactual(row, wish, seed=0).answers[""], answer)


@pytest.mark.parametrize("way", ["genetic", "exact"])
def test_whole_numbers_and_what_may_not_change_are_kept(way):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"rooms": rng.integers(1, 9, 200), "age": rng.random(200)})
    y = X["rooms"] * 1.0 + 10 * X["age"]
    model = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, y)
    space = gbce.Space.infer(X, immutable=["age"])
    row = X.assign(rooms=2, age=0.5).iloc[[0]]
    wanted = float(model.predict(row.assign(rooms=7))[0]) - 0.01
    treecf, wish, _ = fitted(TreeCF(way), model, X, space=space, low=wanted)
    answer = treecf.counterfactual(row, wish, seed=0).answers[""]
    assert (answer.dtypes == X.dtypes).all()
    assert wanted <= model.predict(answer)[0]
    assert answer["age"].item() == 0.5
    assert treecf.counterfactual(row, type(wish)(low=1e6), seed=0).note == "found nothing"


def test_what_it_does_not_take_is_said():
    with pytest.raises(CannotRunError, match="does not read this model"):
        fitted(TreeCF(), Formula(lambda x: x[:, 0]), corners(2), low=0.5)

    class Lengths:
        def predict(self, frame):
            return frame["x1"].str.len().to_numpy(dtype=float)

    with pytest.raises(CannotRunError, match="takes no text columns and no pipeline"):
        fitted(TreeCF(), Lengths(), pd.DataFrame({"x1": ["a", "bb"] * 5}), low=0.5)
    with pytest.raises(ValueError, match="way is one of genetic, exact, not 'greedy'"):
        TreeCF("greedy")
