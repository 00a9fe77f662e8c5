"""A run in several processes that is told to end does so, with all of its processes, and nothing finished is lost."""

import os
import signal
import subprocess
import sys
import time

import pytest

import gbce

SCRIPT = """
import sys
import time

import numpy as np

import gbce

DATA = np.random.default_rng(0).normal(size=(100, 2))


def model(rows):
    time.sleep(1e-5 * len(rows))
    return rows.sum(axis=1)


if __name__ == "__main__":
    explainer = gbce.Explainer(model, DATA, sampler=gbce.Importance(n_candidates=400, n_draws=100))
    rows, target = np.tile(DATA, (10, 1)), gbce.AtLeast(3.0)  # few enough for small partitions: the first comes soon
    explainer.explain_many(rows, target, rules=["MAP"], seed=0, n_jobs=2, store=sys.argv[1], progress=False)
"""


def heed_signals():
    """Do what signals say by default, whatever the tests were told to ignore, as nohup tells them."""
    for name in ("SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there are no such signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_processes_end_with_the_one_they_work_for(name, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    store = tmp_path / "s"
    command = [sys.executable, str(tmp_path / "script.py"), str(store)]
    # whoever outlives the run keeps these pipes open, and communicate waits for that
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=heed_signals
    )
    try:
        while not list(store.glob("answers/part-*.parquet")):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(getattr(signal, name))
        process.communicate(timeout=120)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode != 0
    table = gbce.load(store)
    assert 0 < len(table.answers) < 1000  # every partition that is there is whole
    assert not table.complete
