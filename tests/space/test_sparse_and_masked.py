"""Sparse columns go in and come out as they are; what is masked is missing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import gbce

RNG = np.random.default_rng(0)
N = 90
DENSE = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": np.where(RNG.random(N) < 0.6, 0.0, RNG.normal(size=N)),
        "n": RNG.poisson(1.0, size=N),
        "k": RNG.random(N) < 0.3,
        "w": RNG.integers(0, 2, N).astype("uint8"),
    }
)
SPARSE = DENSE.astype(
    {
        "b": pd.SparseDtype("float64", 0.0),
        "n": pd.SparseDtype("int64", 0),
        "k": pd.SparseDtype(bool, False),
        "w": pd.SparseDtype("uint8", 0),
    }
)
QUICK = gbce.Importance(n_candidates=800, n_draws=200)
RULES = [gbce.MAP(), gbce.Mean(), gbce.CVaR(n_perturb=4, max_candidates=20)]
TARGET = gbce.AtLeast(3.0)


def score(frame):
    return sum(float(i + 1) * np.asarray(frame.iloc[:, i], dtype=float) for i in range(5)) / 3.0


def test_sparse_frame_gets_the_answer_of_a_dense_one_and_the_model_its_dtypes(tmp_path):
    seen = []

    def sparse_only(frame):
        seen.append(frame.dtypes.equals(SPARSE.dtypes) and list(frame.columns) == list(SPARSE.columns))
        return score(frame)

    mine = gbce.Explainer(sparse_only, SPARSE, sampler=QUICK)
    found = mine.explain(SPARSE.iloc[[0]], TARGET, rules=RULES, seed=0)
    want = gbce.Explainer(score, DENSE, sampler=QUICK).explain(DENSE.iloc[[0]], TARGET, rules=RULES, seed=0)
    pd.testing.assert_frame_equal(found.counterfactuals, want.counterfactuals)  # tables for people are dense
    pd.testing.assert_frame_equal(found.pointwise, want.pointwise)
    assert all(seen)
    again = gbce.load(found.save(tmp_path / "one.gbce"))
    mine.decide(again, gbce.Medoid())
    pd.testing.assert_frame_equal(mine.explain(DENSE.iloc[0], TARGET, rules=RULES, seed=0).pointwise, want.pointwise)
    table = mine.explain_many(SPARSE.iloc[:2], TARGET, rules=[], seed=0, progress=False)
    assert len(table) == 2


def test_sparse_frame_decodes_to_itself():
    space = gbce.Space.infer(SPARSE)
    pd.testing.assert_frame_equal(space.decode(space.encode(SPARSE)), SPARSE)
    pd.testing.assert_frame_equal(space.frame(space.encode(SPARSE)), DENSE)
    real = gbce.Space.infer(SPARSE, kinds={"n": "real"})
    moved = real.encode(SPARSE) + np.array([0.0, 0.0, 0.25, 0.0, 0.0])
    assert real.decode(moved).dtypes["n"] == pd.SparseDtype("float64", 0)
    np.testing.assert_array_equal(real.decode(moved)["n"].to_numpy(), DENSE["n"] + 0.25)
    plain = gbce.Space.infer(DENSE).adopt(SPARSE)
    assert plain.decode(plain.encode(DENSE)).dtypes.equals(SPARSE.dtypes)


def test_estimators_and_groups_of_sparse_columns():
    frame = pd.get_dummies(
        pd.DataFrame({"x": RNG.normal(size=60), "job": RNG.choice(["a", "b", "c"], 60)}), dtype=float
    )
    frame = frame.astype(pd.SparseDtype("float64", 0.0))
    model = LinearRegression().fit(frame, frame["x"] + 2 * frame["job_c"])
    space = gbce.Space.infer(frame, one_hot={"job": "job_"})
    explainer = gbce.Explainer(model, frame, space=space, prior=gbce.Gaussian(), sampler=QUICK)
    chosen = explainer.explain(frame.iloc[[0]], gbce.AtLeast(2.5), rules=[gbce.MAP()], seed=0).counterfactuals
    assert chosen.filter(like="job_").to_numpy().sum() == 1


def test_sparse_times_are_told():
    times = pd.DataFrame({"a": [1.0, 2.0, 3.0], "t": pd.date_range("2020", periods=3)})
    odd = times.assign(t=pd.arrays.SparseArray(times["t"].to_numpy()))
    with pytest.raises(TypeError, match=r"column 't' of Sparse.* is sparse, but only numbers.*to_dense"):
        gbce.Space.infer(odd)


# --- masks --------------------------------------------------------------------------------------------------


def masked(dtype=float):
    values = RNG.integers(0, 9, size=(40, 2)).astype(dtype)
    array = np.ma.array(values, mask=np.zeros((40, 2), dtype=bool))
    array[3, 1] = np.ma.masked
    array.data[3, 1] = 77  # what a mask hides
    return array


@pytest.mark.parametrize("dtype", [float, int, object])
def test_what_is_masked_is_missing(dtype):
    array = masked(dtype)
    space = gbce.Space.infer(array)
    x = space.encode(array)
    assert np.isnan(x[3, 1])
    assert np.isnan(x).sum() == 1
    assert 77 not in x
    listed = space.encode(list(array))
    np.testing.assert_array_equal(listed, x)


def test_masked_row_is_told_where_data_have_all():
    data = RNG.normal(size=(40, 2))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, sampler=QUICK)
    row = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(ValueError, match="column 'x2' is missing in row 0"):
        explainer.explain(row, TARGET, seed=0)
    whole = np.ma.array(data[0], mask=False)
    assert explainer.explain(whole, TARGET, rules=[], seed=0).draws.x.shape == (200, 2)


def test_masked_prediction_is_not_a_number():
    data = RNG.normal(size=(40, 2))

    def shy(rows):
        return np.ma.array(rows.sum(axis=1), mask=rows[:, 0] > 1.0)

    given = gbce.AtLeast(3.0, scale=1.0, tolerance=0.0)  # nothing has to be read off the data
    explainer = gbce.Explainer(shy, data, sampler=QUICK)
    with pytest.raises(gbce.PredictionError, match="the model returned nan for row"):
        explainer.explain([0.0, 0.0], given, seed=0)
    with pytest.warns(UserWarning, match="the model returned nan for row"):
        explainer.explain_many(data[:2], given, rules=[], seed=0, progress=False)


def test_masked_outcomes_are_missing():
    X, y = RNG.normal(size=(30, 2)), np.ma.array(RNG.normal(size=30), mask=np.arange(30) == 4)
    with pytest.raises(ValueError, match="y is missing in 1 of 30 rows, first in row 4"):
        gbce.model_posterior(LinearRegression(), X, y, gbce.BayesianBootstrap(), 2)
