"""The recipes of docs/howto/clusters.md for Spark and Ray, workers killed on the way, and DuckDB's reading of a store.

These packages are heavy: ``make test-machines`` installs them, and without them the tests are skipped.
"""

import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import gbce
from gbce import distributed

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "clusters.md").read_text(encoding="utf-8")
RNG = np.random.default_rng(0)
X = pd.DataFrame({"income": RNG.normal(3000, 800, 60).round(), "years": RNG.integers(0, 30, 60)})
MODEL = LinearRegression().fit(X, X["income"] / 20 + X["years"])
TARGET = gbce.AtMost(100)


def read_recipe(name):
    """Return the code below a heading of the page."""
    return re.search(rf"## {name}\n.*?```python\n(.*?)```", PAGE, re.DOTALL)[1]


def once(path):
    """Kill this process the first time."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def known():
    explainer = gbce.Explainer(MODEL, X)
    return {"explainer": explainer, "X": X, "gbce": gbce, "pd": pd, "distributed": distributed}


@pytest.fixture(scope="module")
def here(known):
    return distributed.explain_partition(known["explainer"], X.head(6), TARGET, seed=0)


@pytest.mark.filterwarnings("ignore")  # PySpark 4.3 uses what pandas 3 deprecates
def test_spark_has_the_same_answers_though_a_worker_is_killed(known, here, tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # else its workers are the first python3 of the path
    exec(read_recipe("Spark"), known)
    columns = known["columns"]
    found = distributed.cast(known["answers"].toPandas().set_index("case"), columns)
    pd.testing.assert_frame_equal(found, here, check_names=False)
    explain, mark = known["explain"], str(tmp_path / "killed")

    def explain_or_die(parts):
        once(mark)
        return explain(parts)

    again = known["rows"].mapInPandas(explain_or_die, schema=known["ddl"]).toPandas().set_index("case")
    assert (tmp_path / "killed").exists()
    pd.testing.assert_frame_equal(distributed.cast(again, columns), here, check_names=False)
    known["spark"].stop()


def test_ray_has_the_same_answers_though_a_worker_is_killed(known, here, tmp_path):
    ray = pytest.importorskip("ray")
    exec(read_recipe("Ray"), known)
    pd.testing.assert_frame_equal(known["answers"], here)
    mark = str(tmp_path / "killed")

    @ray.remote
    def explain_or_die(packed, part):
        once(mark)
        return distributed.explain_partition(packed, part, gbce.AtMost(100), seed=0)

    again = ray.get([explain_or_die.remote(known["packed"], X.iloc[start : start + 3]) for start in (0, 3)])
    assert (tmp_path / "killed").exists()
    pd.testing.assert_frame_equal(pd.concat(again), here)
    ray.shutdown()


def test_duckdb_reads_a_store(known, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    table = known["explainer"].explain_many(
        X.head(6), TARGET, seed=0, posterior=False, progress=False, store=tmp_path / "run"
    )
    parts = tmp_path / "run" / "answers" / "*.parquet"
    query = f"SELECT label, cost, reached, answer_income FROM '{parts}' ORDER BY position"
    found = duckdb.sql(query).fetchall()
    answers, aims = table.answers, table.frame(["answer_income"])["answer_income"]
    assert [int(line[0]) for line in found] == list(table.rows.index)
    assert [line[1:3] for line in found] == list(zip(answers["cost"], answers["reached"], strict=True))
    assert [line[3] for line in found] == aims.tolist()
