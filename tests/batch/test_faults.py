"""What goes wrong during a long run costs what was under way and nothing else: killed processes, full disks, models."""

import copy
import os
import pickle
import signal
import subprocess
import sys

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce

X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
TARGET = gbce.AtLeast(2.0)
QUICK = gbce.Importance(n_candidates=400, n_draws=100)
OPTIONS = {"rules": ["MAP"], "seed": 0, "progress": False}


def total(rows):
    return rows["a"] + 2 * rows["b"]


def explain(store, model=total, rows=X, **options):
    explainer = gbce.Explainer(model, X, sampler=QUICK)
    return explainer.explain_many(rows, TARGET, store=store, **OPTIONS | options)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return explain(tmp_path_factory.mktemp("runs") / "s").frame()


class Deadly:
    """The model, in whose first call in another process that process dies; in every call if there is no flag."""

    def __init__(self, flag=None):
        self.home, self.flag = os.getpid(), flag

    def __call__(self, rows):
        if os.getpid() != self.home and not (self.flag and os.path.exists(self.flag)):
            if self.flag:
                open(self.flag, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return total(rows)


@pytest.mark.filterwarnings("ignore:A worker stopped:UserWarning")
def test_groups_of_a_killed_process_are_sent_again_once(undisturbed, tmp_path):
    with pytest.warns(UserWarning, match=r"a worker process was killed; \d groups that were under way are sent again"):
        table = explain(tmp_path / "s", Deadly(str(tmp_path / "flag")), n_jobs=2)
    assert (tmp_path / "flag").exists()
    pd.testing.assert_frame_equal(table.frame(), undisturbed)
    with (
        pytest.warns(UserWarning, match="are sent again"),
        pytest.raises(RuntimeError, match=r"killed while it explained group .*, and again"),
    ):
        explain(tmp_path / "t", Deadly(), n_jobs=2)


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_any_backend_of_joblib_gives_the_same(backend, undisturbed, tmp_path):
    with joblib.parallel_config(backend=backend):
        table = explain(tmp_path / "s", rows=X[:20], n_jobs=2)
    pd.testing.assert_frame_equal(table.frame(), undisturbed[:20])


KILLED = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[2])
from test_faults import explain

random.seed(0)
for _ in range(20):
    child = os.fork()
    if child == 0:
        explain(sys.argv[1])
        os._exit(0)
    time.sleep(random.uniform(0.02, 0.2))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
assert len(explain(sys.argv[1])) == 60
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_run_killed_twenty_times_ends_with_the_same_table(undisturbed, tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "s"), os.path.dirname(__file__)]
    subprocess.run(command, check=True, capture_output=True)
    pd.testing.assert_frame_equal(gbce.load(tmp_path / "s").frame(), undisturbed)
    assert not [path for path in (tmp_path / "s").rglob("*") if path.suffix == ".part"]


FULL = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
from test_faults import X, explain

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))  # the note of the run fits, a partition does not
explain(sys.argv[1], rows=X[:20])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limits there")
def test_a_full_disk_is_a_sentence_and_loses_nothing(undisturbed, tmp_path):
    command = [sys.executable, "-c", FULL, str(tmp_path / "s"), os.path.dirname(__file__)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert "could not be written (File too large); finished rows are kept" in ended.stderr
    left = sorted(path.name for path in (tmp_path / "s").rglob("*") if path.is_file())
    assert left == [".lock", "run.json"]
    pd.testing.assert_frame_equal(explain(tmp_path / "s", rows=X[:20]).frame(), undisturbed[:20])


def test_a_model_that_fails_for_one_row_costs_that_row(undisturbed, tmp_path):
    def fails(rows):
        if (rows["a"] == 2.5).any():  # a value that no other row has
            raise OSError("no such case")
        return total(rows)

    rows = X[20:60].copy()
    rows.loc[37] = [2.5, -2.0]
    with pytest.warns(UserWarning, match=r"1 of 40 rows could not be explained, first row 37: .*no such case"):
        table = explain(tmp_path / "s", fails, rows=rows)
    found, expected = (frame.drop(37).drop(columns="position") for frame in (table.frame(), undisturbed[20:60]))
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("paid", [False, True])
def test_a_model_may_use_its_output_buffer_again(paid, undisturbed, tmp_path):
    buffer = np.empty(100_000)

    def thrifty(rows):
        buffer[:] = np.nan
        found = buffer[: len(rows)]
        found[:] = total(rows)
        return found

    thrifty.cost_per_call = paid
    table = explain(tmp_path / "s", thrifty, rows=X[:20])
    found, expected = (one.drop(columns=["n_model_calls", "n_model_rows"]) for one in (table.frame(), undisturbed[:20]))
    pd.testing.assert_frame_equal(found, expected)


# --- an explainer travels --------------------------------------------------------------------------------------------

FITTED = make_pipeline(
    make_column_transformer((StandardScaler(), ["a", "b"]), sparse_threshold=0.3), LinearRegression()
).fit(X, total(X))
WAYS = {
    "pickle": lambda one, folder: pickle.loads(pickle.dumps(one)),
    "cloudpickle": lambda one, folder: pickle.loads(cloudpickle.dumps(one)),
    "joblib": lambda one, folder: joblib.load(joblib.dump(one, folder / "one.joblib")[0]),
    "deepcopy": lambda one, folder: copy.deepcopy(one),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("used", [False, True])
def test_a_copy_answers_to_the_bit_and_with_as_many_calls(way, used, tmp_path):
    explainer = gbce.Explainer(FITTED, X)
    if used:
        explainer.explain(X.iloc[5], TARGET, seed=0, posterior=False)
    moved = WAYS[way](explainer, tmp_path)
    found, expected = (one.explain(X.iloc[3], TARGET, seed=0, posterior=False) for one in (moved, explainer))
    pd.testing.assert_frame_equal(found.counterfactuals, expected.counterfactuals, check_exact=True)
    assert found.answer.sentence == expected.answer.sentence
    assert (found.n_model_calls, found.n_model_rows) == (expected.n_model_calls, expected.n_model_rows)


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_follows_its_own_model_when_that_is_fitted_again(way, tmp_path):
    explainer = gbce.Explainer(copy.deepcopy(FITTED), X)
    explainer.explain(X.iloc[5], TARGET, seed=0, posterior=False)
    moved = WAYS[way](explainer, tmp_path)
    model = moved._session.models[0]
    model.fit(X, 3 * total(X))
    found = moved.explain(X.iloc[3], TARGET, seed=0, posterior=False)
    again = model.predict(found.counterfactuals)
    np.testing.assert_allclose(found.decisions[0].outputs[0], again[0], rtol=1e-9)


def test_a_used_explainer_is_no_larger_than_model_and_data_warrant():
    explainer = gbce.Explainer(FITTED, X)
    before = len(pickle.dumps(explainer))
    explainer.explain_many(X[:5], TARGET, seed=0, posterior=False, progress=False)
    assert len(pickle.dumps(explainer)) < 1.5 * before + 60_000
