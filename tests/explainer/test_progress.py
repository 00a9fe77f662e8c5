"""The bar of a single explanation: on a terminal, not in a pipe, without a trace, and without an effect."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

import numpy as np
import pytest

import gbce
from gbce.budget import Budget
from gbce.explainer._notes import is_shown, watched

SCRIPT = """
import sys, time
import numpy as np
import gbce
import gbce.explainer._notes as progress
progress._DELAY = {delay}
data = np.random.default_rng(0).normal(size=(60, 2))
def model(x):
    if {fails} and len(x) > 1:
        raise ValueError("broken")
    time.sleep({pause})
    return x.sum(axis=1)
explainer = gbce.Explainer(model, data, sampler=gbce.SMC(500, 100))
try:
    explainer.explain(data[0], gbce.AtLeast(3, scale=1, tolerance=0), rules=["Nearest"], seed=0, progress={progress})
except gbce.PredictionError:
    print("failed")
print("done")
"""
NEXT = """
print("next", flush=True)
sys.stderr.write("next")
sys.stderr.flush()
"""


def run_on_a_terminal(script):
    """Run a script whose errors go to a terminal; return what it showed there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))  # a new one has no columns at all
    shown = []

    def read():
        while True:
            try:
                part = os.read(ours, 4_096)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            shown.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    environment = os.environ | {"PYTHONPATH": str(Path(gbce.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", script], stderr=theirs, stdout=subprocess.PIPE, env=environment, text=True, check=True
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return done.stdout, b"".join(shown).decode()


def run_in_a_pipe(script):
    environment = os.environ | {"PYTHONPATH": str(Path(gbce.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, text=True, check=True)
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def on_a_terminal():
    """What a process prints, and what its terminal shows, of an explanation that is quick, that is not, that fails."""
    scripts = [
        SCRIPT.format(delay=600.0, fails=False, pause=0, progress="'auto'"),
        SCRIPT.format(delay=1e-6, fails=False, pause=0.01, progress="'auto'"),
        SCRIPT.format(delay=1e-6, fails=True, pause=0, progress="True"),
    ]
    out, shown = run_on_a_terminal(NEXT.join(scripts))
    return list(zip(out.split("next\n"), shown.split("next"), strict=True))


def test_what_is_quick_shows_nothing_on_a_terminal(on_a_terminal):
    assert on_a_terminal[0] == ("done\n", "")


def test_a_terminal_shows_the_stages_and_is_left_clean(on_a_terminal):
    out, shown = on_a_terminal[1]
    assert out == "done\n"
    assert "model rows in" in shown
    assert any(stage in shown for stage in ("sampling", "searching", "deciding"))
    last = shown.replace("\x1b[A", "").split("\r")
    assert last[-1].strip() == ""  # what was written is wiped


def test_a_terminal_is_left_clean_when_a_model_fails(on_a_terminal):
    out, shown = on_a_terminal[2]
    assert out == "failed\ndone\n"
    assert "model rows in" in shown
    assert shown.split("\r")[-1].strip() == ""


def test_a_pipe_shows_nothing_but_to_who_insists():
    scripts = [SCRIPT.format(delay=0.0, fails=False, pause=0.01, progress=progress) for progress in ("'auto'", "False")]
    scripts.append(SCRIPT.format(delay=600.0, fails=False, pause=0, progress="True"))
    out, shown = run_in_a_pipe(NEXT.join(scripts))
    assert out == "next\n".join(["done\n"] * 3)
    auto, off, insisted = shown.split("next")
    assert (auto, off) == ("", "")
    assert "model rows" in insisted


def explain(**options):
    data = np.random.default_rng(0).normal(size=(60, 2))
    return gbce.Explainer(lambda x: x.sum(axis=1), data).explain(data[0], gbce.AtLeast(3), seed=0, **options)


def test_looking_on_changes_no_bit(capsys):
    quiet, watched_run = explain(progress=False), explain(progress=True)
    assert "model rows" in capsys.readouterr().err
    np.testing.assert_array_equal(quiet.draws.x, watched_run.draws.x)
    assert quiet.pointwise.equals(watched_run.pointwise)
    assert quiet.n_model_rows == watched_run.n_model_rows


def test_tests_are_quiet(capsys):
    explain()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("wrong", ["yes", 1, None, ["auto"]])
def test_other_options_are_refused_before_a_model_is_asked(wrong):
    with pytest.raises(ValueError, match='progress must be True, False or "auto"'):
        explain(progress=wrong)
    data = np.zeros((3, 2)) + np.arange(3)[:, None]
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    with pytest.raises(ValueError, match='progress must be True, False or "auto"'):
        explainer.explain_many(data, gbce.AtLeast(3), progress=wrong)


def test_many_rows_take_auto_as_well(capsys):
    data = np.random.default_rng(0).normal(size=(60, 2))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    table = explainer.explain_many(data[:2], gbce.AtLeast(2), rules=[], seed=0, progress="auto")
    assert len(table.diagnostics) == 2
    assert capsys.readouterr().err == ""


class Kernel:
    """What a notebook has where a terminal has nothing."""

    kernel = object()


def test_a_notebook_is_one(monkeypatch):
    class Shell:
        get_ipython = staticmethod(lambda: Kernel())

    assert not is_shown("auto")
    monkeypatch.setitem(sys.modules, "IPython", Shell)
    assert is_shown("auto")


def test_nobody_looks_on_afterwards():
    budget = Budget()
    with watched(budget, True):
        assert budget.watch is not None
    assert budget.watch is None
    with pytest.raises(KeyError), watched(budget, True):
        raise KeyError("from the block")
    assert budget.watch is None
