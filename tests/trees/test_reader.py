"""A model is read when it is wanted, once, checked against itself, and dropped with a note where they differ."""

import pickle

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import gbce
from gbce.base import Outputs
from gbce.budget import Budget
from gbce.trees import CellReader

DATA = np.random.default_rng(0).normal(size=(120, 3))
SPACE = gbce.Space.real(3)


def forest():
    return RandomForestRegressor(10, random_state=0).fit(DATA, DATA.sum(axis=1))


class Asked:
    """A model that notes how many rows each call has."""

    def __init__(self, model, shift=0.0):
        self.model, self.shift, self.sizes = model, shift, []

    def __call__(self, x):
        self.sizes.append(len(x))
        return Outputs(self.model.predict(x) + self.shift)


def test_a_model_is_checked_once_on_the_data_and_at_edges():
    model = forest()
    reader, ask = CellReader(model, SPACE, DATA), Asked(model)
    trees = reader.read(ask)
    assert trees is reader.read(ask)
    assert reader.note == ""
    assert len(ask.sizes) == 1
    assert ask.sizes[0] > len(DATA)


def test_what_differs_is_dropped_with_a_note():
    model = forest()
    reader, ask = CellReader(model, SPACE, DATA), Asked(model, shift=1e-6)
    assert reader.read(ask) is None
    assert reader.read(ask) is None
    assert len(ask.sizes) == 1
    assert "the RandomForestRegressor do not reproduce" in reader.note


def test_another_model_is_not_asked():
    reader, ask = CellReader(LinearRegression().fit(DATA, DATA.sum(axis=1)), SPACE, DATA), Asked(forest())
    assert reader.read(ask) is None
    assert ask.sizes == []
    assert reader.note == ""


@pytest.mark.parametrize(("rows", "asked"), [(1_000, [40, 40]), (20, [10, 10]), (5, [])])
def test_a_short_budget_asks_little_and_asks_again(rows, asked):
    model = forest()
    reader, ask = CellReader(model, SPACE, DATA), Asked(model)
    for _ in range(2):
        found = reader.read(ask, lambda n: min(n, rows), Budget(max_rows=rows))
        assert (found is None) == (rows < 10)
    assert ask.sizes == asked


def test_a_reader_crosses_processes_without_what_it_read():
    model = forest()
    reader = CellReader(model, SPACE, DATA)
    reader.read(Asked(model))
    again = pickle.loads(pickle.dumps(reader))
    ask = Asked(model)
    assert again.read(ask) is not None
    assert ask.sizes == []  # it was seen to be right, and is not checked again


def test_an_explainer_reads_its_models_and_not_their_substitutes():
    label = (DATA.sum(axis=1) > 0).astype(int)
    first = RandomForestClassifier(10, random_state=0).fit(DATA, label)
    explainer = gbce.Explainer([first, LinearRegression().fit(DATA, label)], DATA, space=SPACE)
    budget = Budget()
    predictors, target = explainer._session.prepare(gbce.AtLeast(0.5, scale=1), budget)
    posterior = explainer._session.posterior_at(DATA[0], predictors, target, budget)
    trees = posterior.read_trees()
    assert trees is not None
    assert posterior.read_trees(1) is None
    assert posterior.read_trees(2) is None
    assert trees is posterior.read_trees()


def test_a_forest_whose_predict_was_replaced_is_asked_like_any_other_model():
    class Odd(RandomForestRegressor):
        def predict(self, X):
            return super().predict(X) + 1.0

    model = Odd(10, random_state=0).fit(DATA, DATA.sum(axis=1))
    explainer = gbce.Explainer(model, DATA, space=SPACE, sampler=gbce.SMC(400, 100))
    predictors, target = explainer._session.prepare(gbce.AtLeast(2.0, scale=1), Budget())
    assert explainer._session.posterior_at(DATA[0], predictors, target, Budget()).read_trees() is None


def test_a_model_that_was_fitted_anew_is_read_anew():
    model = forest()
    reader = CellReader(model, SPACE, DATA)
    first = reader.read(Asked(model))
    assert reader.read(Asked(model)) is first
    model.fit(DATA, -DATA[:, 0])
    ask = Asked(model)
    again = reader.read(ask)
    assert again is not first
    assert len(ask.sizes) == 1
    np.testing.assert_allclose(again.outputs(again.cells(DATA)), model.predict(DATA))
