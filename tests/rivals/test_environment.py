"""Packages in an environment of their own: a process that is told things and asks back."""

import sys
from pathlib import Path

import pandas as pd
import pytest

import gbce
from benchmarks.rivals._environment import Environment, Process
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals._question import Codes
from benchmarks.rivals._wish import Wish
from benchmarks.rivals.alibi import ENVIRONMENT, Alibi
from support.asked import Formula, Logistic, corners, fitted

SCRIPT = """
import json, sys
for line in sys.stdin:
    told = json.loads(line)
    if told == "fail":
        print(json.dumps({"failed": "ValueError: no such luck"}), flush=True)
    elif told == "end":
        sys.exit(3)
    else:
        total = 0
        for x in told:
            print(json.dumps({"ask": x}), flush=True)
            total += json.loads(sys.stdin.readline())
        print(json.dumps({"done": total, "seconds": 0.25 * len(told)}), flush=True)
"""


@pytest.fixture
def process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = Process(Path(sys.executable), script)
    yield process
    process.close()


def test_a_process_asks_back_as_often_as_it_likes(process):
    asked = []

    def square(x):
        asked.append(x)
        return x * x

    assert process.tell([1, 2, 3], square) == 14
    assert process.seconds == 0.75
    assert process.tell([0.1], square) == 0.1 * 0.1
    assert asked == [1, 2, 3, 0.1]


def test_a_process_that_fails_or_ends_is_an_error(process):
    with pytest.raises(RuntimeError, match="no such luck"):
        process.tell("fail", None)
    with pytest.raises(RuntimeError, match="ended with code 3"):
        process.tell("end", None)


def test_an_environment_is_ready_once_it_was_made_with_the_same_requirements(tmp_path):
    environment = Environment("empty", (), tmp_path)
    assert not environment.ready
    environment.folder.mkdir()
    (environment.folder / "requirements.txt").write_text("one==1\n")
    assert not environment.ready
    assert Environment("empty", ("one==1",), tmp_path).ready


def test_what_alibi_does_not_take_is_said(tmp_path):
    with pytest.raises(CannotRunError, match="takes classifiers only"):
        fitted(Alibi(), Formula(lambda x: x[:, 0]), corners(2), low=0.5)
    with pytest.raises(CannotRunError, match=r"has no environment of its own yet: python -m benchmarks\.rivals\.alibi"):
        fitted(Alibi(environment=Environment("none", (), tmp_path)), Logistic(lambda x: x[:, 0]), corners(2), label=1)


def test_alibi_is_not_told_of_rows_without_a_level():
    """It would end with an error, and with it all rows that follow."""
    X = pd.DataFrame({"x": [0.0, 0.5, 1.0], "k": [None, "b", "a"]})
    alibi = Alibi()
    alibi._model, alibi._codes = CountedModel(Logistic(lambda x: x[:, 0])), Codes(X, gbce.Space.infer(X))
    found = alibi.counterfactual(X.iloc[[0]], Wish(label=1), seed=0)
    assert (dict(found.answers), found.note) == ({}, "takes no missing levels")


@pytest.mark.skipif(not ENVIRONMENT.ready, reason="python -m benchmarks.rivals.alibi makes its environment")
def test_alibi_goes_towards_the_nearest_row_of_the_class():
    """All of it lies at x1 = .9, so it comes to the edge at .6 and not much further, and keeps x2."""
    X = corners(2, n=60).assign(x1=[0.0, 0.9, *([0.1, 0.9] * 29)])
    row = pd.DataFrame({"x1": [0.1], "x2": [0.5]})
    alibi, wish, model = fitted(Alibi(iterations=60), Logistic(lambda x: 10 * x[:, 0] - 6), X, label=1)
    answer = alibi.counterfactual(row, wish, seed=0).answers[""]
    assert wish.granted(model, answer).all()
    assert 0.6 <= answer["x1"].item() <= 0.9
    assert abs(answer["x2"].item() - 0.5) < 0.2
    pd.testing.assert_frame_equal(alibi.counterfactual(row, wish, seed=0).answers[""], answer)
