"""Models and functions that write into the rows they are shown, or into what they said: nobody sees what they wrote."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.predictors import as_predictor
from gbce.space import Space

RNG = np.random.default_rng(0)
X = RNG.normal(60.0, 10.0, size=(200, 3))
Y = X.sum(axis=1) / 2 - 10
QUICK = gbce.Importance(n_candidates=2_000, n_draws=300)
RULES = [gbce.MAP(), gbce.Mean(), gbce.CVaR(n_perturb=8, max_candidates=40), gbce.ChanceConstrained(0.6)]
POINTS = X[:40] + 1.0


def total(rows):
    return np.asarray(rows, dtype=float).sum(axis=1)


def scribbler(rows):
    """Return the sums of rows, and leave nothing of them."""
    said = total(rows)
    if isinstance(rows, pd.DataFrame):
        rows.iloc[:, :] = -1e6
    else:
        rows[:] = -1e6
    return said


def scaled(copy):
    return make_pipeline(StandardScaler(copy=copy), LinearRegression()).fit(X.copy(), Y)


def same(one, other):
    pd.testing.assert_frame_equal(one.counterfactuals, other.counterfactuals)
    pd.testing.assert_frame_equal(one.pointwise, other.pointwise)
    np.testing.assert_array_equal(one.draws.x, other.draws.x)
    assert one.status == other.status


def test_scaler_without_a_copy_gets_the_answer_of_one_with():
    target = gbce.AtLeast(85.0)
    found, want = (
        gbce.Explainer(scaled(copy), X, sampler=QUICK).explain(X[0], target, rules=RULES, seed=0)
        for copy in (False, True)
    )
    same(found, want)
    decided = scaled(True).predict(found.counterfactuals.to_numpy(copy=True))
    np.testing.assert_allclose(decided, found.pointwise["output"])


@pytest.mark.parametrize("form", ["array", "frame", "mixed frame"])
def test_function_that_writes_into_its_rows(form):
    data = X.copy() if form == "array" else pd.DataFrame(X, columns=["a", "b", "c"])
    if form == "mixed frame":
        data = data.assign(c=np.round(data["c"]).astype(int))
    kept = np.array(data, dtype=float)
    row = data[0] if form == "array" else data.iloc[[0]]
    found, want = (
        gbce.Explainer(model, data, sampler=QUICK).explain(row, gbce.AtLeast(200.0), rules=RULES, seed=0)
        for model in (scribbler, total)
    )
    same(found, want)
    np.testing.assert_array_equal(np.array(data, dtype=float), kept)


def test_each_of_several_models_sees_the_rows_as_they_are():
    def tables(ask):
        explainer = gbce.Explainer([lambda rows: ask(rows) + 3.0, lambda rows: ask(rows)], X, sampler=QUICK)
        rules = [gbce.MAP(), gbce.Mean()]
        one = explainer.explain(X[0], gbce.AtLeast(200.0), rules=rules, seed=0)
        return one, explainer.explain_many(X[:2], gbce.AtLeast(200.0), rules=rules, seed=0, progress=False)

    (found, many), (want, wanted) = tables(scribbler), tables(total)
    same(found, want)
    pd.testing.assert_frame_equal(many.pointwise, wanted.pointwise)


def test_classifier_that_writes_decides_about_intact_rows():
    class Writes(ClassifierMixin, BaseEstimator):
        classes_ = np.array([0, 1])

        def fit(self, rows, y):
            return self

        def __sklearn_is_fitted__(self):
            return True

        def predict_proba(self, rows):
            p = 1.0 / (1.0 + np.exp(-(scribbler(rows) - 180.0) / 10.0))
            return np.column_stack([1 - p, p])

        def predict(self, rows):
            return (scribbler(rows) >= 190.0).astype(int)

    points = POINTS.copy()
    said = as_predictor(Writes(), Space.real(3))(points, use_predict=True)
    np.testing.assert_allclose(said.values[:, 1], 1.0 / (1.0 + np.exp(-(total(POINTS) - 180.0) / 10.0)))
    np.testing.assert_array_equal(said.decided, total(POINTS) >= 190.0)
    np.testing.assert_array_equal(points, POINTS)


def test_torch_module_that_writes():
    torch = pytest.importorskip("torch")

    class Doubles(torch.nn.Module):
        def forward(self, rows):
            return rows.mul_(2.0).sum(dim=1)

    points = POINTS.copy()
    said = as_predictor(Doubles().double(), Space.real(3))(points).values
    np.testing.assert_allclose(said, 2 * total(POINTS))
    np.testing.assert_array_equal(points, POINTS)


def test_conditions_distances_and_losses_that_write():
    def in_budget(rows):
        met = total(rows) < 250.0
        rows[:] = 0.0
        return met

    def distance(x, row):
        said = np.abs(x - row).sum(axis=1) / 10.0
        x[:] = 0.0
        row[:] = 0.0
        return said

    def loss(f):
        said = np.square((f - 200.0) / 5.0)
        f[:] = 0.0
        return said

    def explained(condition, measure, wish):
        space = Space.infer(X, constraints=[condition])
        explainer = gbce.Explainer(total, X, space=space, prior=gbce.DistancePrior(measure), sampler=QUICK)
        return explainer.explain(X[0], gbce.Loss(wish, threshold=1.0), rules=[gbce.MAP()], seed=0)

    same(
        explained(in_budget, distance, loss),
        explained(
            lambda rows: total(rows) < 250.0,
            lambda x, row: np.abs(x - row).sum(axis=1) / 10.0,
            lambda f: np.square((f - 200.0) / 5.0),
        ),
    )


class Preallocated:
    """Adds up columns, and writes every answer into the same memory, as runtimes with a buffer for outputs do."""

    def __init__(self):
        self.memory = np.full(200_000, np.nan)

    def __call__(self, rows):
        said = self.memory[: len(rows)]
        said[:] = total(rows)
        return said


class PreallocatedClassifier:
    """Its probabilities and labels lie in memory of its own, which the next call writes into."""

    classes_ = np.array([0, 1])

    def __init__(self):
        self.shares_, self.labels_ = np.empty((200_000, 2)), np.empty(200_000, dtype=int)

    def predict_proba(self, rows):
        said, p = self.shares_[: len(rows)], 1.0 / (1.0 + np.exp(-(total(rows) - 180.0) / 10.0))
        said[:] = np.column_stack([1 - p, p])
        return said

    def predict(self, rows):
        said = self.labels_[: len(rows)]
        said[:] = self.predict_proba(rows)[:, 1] > 0.7
        return said


def test_outputs_are_kept_apart_from_the_memory_of_a_model():
    target = gbce.AtLeast(200.0)
    explain = [gbce.Explainer(ask, X).explain for ask in (Preallocated(), total)]
    same(*(one(X[0], target, seed=0) for one in explain))
    ask = as_predictor(Preallocated(), Space.real(3))
    first = ask(POINTS)
    ask(POINTS + 1.0)
    np.testing.assert_array_equal(first.values, total(POINTS))


def test_rows_of_a_table_do_not_share_the_memory_of_a_model():
    found, want = (
        gbce.Explainer(ask, X, sampler=QUICK, batch_rows=1_000).explain_many(
            X[:3], gbce.AtLeast(200.0), rules=RULES, seed=0, progress=False
        )
        for ask in (Preallocated(), total)
    )
    pd.testing.assert_frame_equal(found.pointwise, want.pointwise)
    pd.testing.assert_frame_equal(found.answers, want.answers)


@pytest.mark.parametrize("batch_rows", [7, 1_000])
def test_shares_and_labels_are_kept_apart_from_the_memory_of_a_classifier(batch_rows):
    said = as_predictor(PreallocatedClassifier(), Space.real(3), batch_rows=batch_rows)(POINTS, use_predict=True)
    p = 1.0 / (1.0 + np.exp(-(total(POINTS) - 180.0) / 10.0))
    np.testing.assert_array_equal(said.values[:, 1], p)
    np.testing.assert_array_equal(said.decided, p > 0.7)
