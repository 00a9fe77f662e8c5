"""Tables in parts: the same answers however they are cut, in declared dtypes, on a Dask cluster that loses a worker."""

import os
import signal

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import gbce
from gbce import distributed

RNG = np.random.default_rng(0)
N = 120
X = pd.DataFrame({
    "income": RNG.normal(3000, 800, N).round(),
    "years": RNG.integers(0, 30, N),
    "job": RNG.choice(["clerk", "nurse", "smith"], N),
    "owner": RNG.random(N) < 0.5,
    "grade": pd.Categorical(RNG.choice(["a", "b", "c"], N)),
}, index=[f"case {i}" for i in range(N)])  # fmt: skip
Y = (X["income"] / 1000 + X["years"] / 10 + (X["job"] == "nurse") + RNG.normal(0, 0.5, N) > 5).map(
    {True: "yes", False: "no"}
)
MODEL = make_pipeline(
    make_column_transformer((OneHotEncoder(), ["job", "grade"]), remainder="passthrough"),
    LogisticRegression(max_iter=3000),
).fit(X, Y)
REFUSED = X[MODEL.predict(X) == "no"].iloc[:8]


@pytest.fixture(scope="module")
def explainer():
    return gbce.Explainer(MODEL, X)


@pytest.fixture(scope="module")
def whole(explainer):
    return distributed.explain_partition(explainer, REFUSED, "yes", seed=3)


def test_a_part_is_the_table_in_plain_columns(explainer, whole):
    table = explainer.explain_many(REFUSED, "yes", seed=3, posterior=False, progress=False)
    assert {name: str(dtype) for name, dtype in whole.dtypes.items() if str(dtype) != "object"}.items() <= (
        distributed.schema(explainer).items()
    )
    assert whole.index.equals(REFUSED.index)
    assert whole["sentence"].tolist() == table.answers["sentence"].tolist()
    aims = whole.filter(like="answer_").set_axis([*X.columns], axis=1).astype({"grade": X["grade"].dtype})
    assert (MODEL.predict(aims) == "yes").tolist() == whole["reached"].tolist()
    assert whole["reached"].all()
    assert whole["success_probability"].isna().all()  # nothing was sampled


def test_cuts_do_not_matter(explainer, whole):
    packed = distributed.pack(explainer)
    parts = [
        distributed.explain_partition(packed, REFUSED.iloc[at], "yes", seed=3) for at in ([5, 0], [1, 2, 3, 4, 7, 6])
    ]
    pd.testing.assert_frame_equal(pd.concat(parts).loc[REFUSED.index], whole)


def test_a_row_that_does_not_fit_is_a_line_with_its_error(explainer, whole):
    rows = REFUSED.iloc[:3].copy()
    rows.iloc[1, 2] = "wizard"
    found = distributed.explain_partition(explainer, rows, "yes", seed=[3, 3, 3])
    pd.testing.assert_frame_equal(found.iloc[[0, 2]], whole.iloc[[0, 2]])
    assert found["status"].tolist()[1] == "failed"
    assert "wizard" in found["error"].iloc[1]
    assert not found["reached"].iloc[1]


def test_a_model_that_fails_for_a_row_costs_that_row_alone(whole):
    def fails(rows):
        if (rows["years"] == REFUSED["years"].iloc[0]).all() and (rows["income"] == REFUSED["income"].iloc[0]).all():
            raise RuntimeError("no such case")
        return MODEL.predict_proba(rows)[:, 1]

    explainer = gbce.Explainer(fails, X)
    found = distributed.explain_partition(explainer, REFUSED.iloc[:2], gbce.AtLeast(0.5))
    assert found["status"].tolist() == ["failed", "attainable"]
    assert "no such case" in found["error"].iloc[0]
    assert found["answer_income"].iloc[0] == REFUSED["income"].iloc[0]  # its own


def test_empty_parts_and_posteriors_have_the_same_columns(explainer):
    none = distributed.explain_partition(explainer, REFUSED.iloc[:0], "yes")
    drawn = distributed.explain_partition(explainer, REFUSED.iloc[:1], "yes", posterior=True, rules=["MAP"])
    assert none.dtypes.equals(drawn.dtypes)
    assert drawn["success_probability"].iloc[0] > 0.8


def test_what_an_engine_did_to_dtypes_is_undone(explainer, whole):
    damaged = whole.convert_dtypes(dtype_backend="pyarrow").astype({"kind": "category"})
    pd.testing.assert_frame_equal(distributed.cast(damaged, distributed.schema(explainer)), whole)
    with pytest.raises(ValueError, match="no column 'kind'"):
        distributed.cast(damaged.drop(columns="kind"), distributed.schema(explainer))


def test_bad_input_is_named(explainer):
    with pytest.raises(TypeError, match="pandas DataFrame, not ndarray"):
        distributed.explain_partition(explainer, REFUSED.to_numpy(), "yes")
    with pytest.raises(ValueError, match="seed has 2 seeds for 8 rows"):
        distributed.explain_partition(explainer, REFUSED, "yes", seed=[1, 2])
    with pytest.raises(TypeError, match=r"must be a gbce.Explainer"):
        distributed.explain_partition(MODEL, REFUSED, "yes")


@pytest.mark.filterwarnings("ignore")  # of a worker that dies
def test_a_dask_cluster_loses_a_worker_and_nothing_else(explainer, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    cluster_of = pytest.importorskip("distributed").LocalCluster
    flag = tmp_path / "killed"

    class Deadly:
        """The model, in whose first call on a worker that worker dies."""

        def __init__(self):
            self.classes_ = MODEL.classes_

        def predict(self, rows):
            return MODEL.predict(rows)

        def predict_proba(self, rows):
            if os.getpid() != PARENT and not os.path.exists(flag):
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return MODEL.predict_proba(rows)

    PARENT, deadly = os.getpid(), gbce.Explainer(Deadly(), X)
    rows = dd.from_pandas(REFUSED, npartitions=4, sort=False)
    with cluster_of(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, cluster.get_client():
        lazy = distributed.dask(deadly, rows, "yes", seed=3)
        assert lazy.columns.tolist() == list(distributed.schema(deadly))
        found = lazy.compute()
    assert flag.exists()
    here = distributed.explain_partition(deadly, REFUSED, "yes", seed=3)
    found.index = found.index.astype(here.index.dtype)  # Dask has a string dtype of its own
    pd.testing.assert_frame_equal(found.loc[here.index], here)
    with pytest.raises(TypeError, match="must be a Dask DataFrame, not DataFrame"):
        distributed.dask(explainer, REFUSED, "yes")
