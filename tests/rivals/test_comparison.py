"""``python -m benchmarks.rivals``: how answers are judged and added up, runs that go on, and a user's own table."""

import json
import re

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import gbce
from benchmarks._answer_judge import Columns
from benchmarks._real_tables import Case
from benchmarks.rivals import _cell
from benchmarks.rivals.__main__ import main
from benchmarks.rivals._cell import Cell, Settings, file_of
from benchmarks.rivals._data import Data
from benchmarks.rivals._judge import Judge
from benchmarks.rivals._methods import METHODS
from benchmarks.rivals._problem import Problem
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._results import beaten, lines_of, mean_interval, summed_up
from benchmarks.rivals._run import SettingsDifferError, run
from support.asked import Logistic

FRAME = pd.DataFrame(
    {"a": np.linspace(0.0, 1.0, 41), "n": np.arange(41) % 5, "k": pd.Series(["x", "y"] * 20 + ["x"]).astype(object)}
)


def granted_from(edge):
    """Return a model that grants rows whose ``a`` is at least ``edge``."""
    return Logistic(lambda x: 50 * (x[:, 0] - edge))


class OnA:
    """A model that looks at ``a`` alone, whatever else is in the frame."""

    def __init__(self, edge):
        self._inner = granted_from(edge)
        self.classes_ = self._inner.classes_

    def predict(self, frame):
        return self._inner.predict(frame[["a"]])

    def predict_proba(self, frame):
        return self._inner.predict_proba(frame[["a"]])


def problem():
    model = OnA(0.5)
    y = pd.Series(model.predict(FRAME))
    space = gbce.Space.infer(FRAME, immutable=["k"])
    rules = {"a and n": lambda answers: answers["a"] + answers["n"] > 4.5}

    def broken(answers, row):
        return {name: rule(answers) for name, rule in rules.items()}

    case = Case(FRAME, y, model, space, ("k",), broken, 1, {})
    return Problem(case, Data(FRAME, y), FRAME.iloc[[4, 8]], None, {}, Columns.of(FRAME))


def one(a, n, k):
    return pd.DataFrame({"a": [a], "n": [n], "k": pd.Series([k], dtype=object)})


# --- judging ----------------------------------------------------------------------------------------------------------


def test_an_answer_is_judged_by_the_model_the_row_the_rules_and_models_that_change():
    asked = problem()
    row = asked.rows.iloc[[0]]  # a 0.1, n 4, k x
    judge = Judge(asked, {"bootstrap": [OnA(0.4), OnA(0.55), OnA(0.7)], "seed": [OnA(0.6)]})
    good, moved, refused = judge.judge([one(0.6, 4, "x"), one(0.75, 2.5, "y"), one(0.3, 4, "x")], [row] * 3, 0)
    assert (good.valid, moved.valid, refused.valid) == (True, True, False)
    assert good.l1 == pytest.approx(0.5)
    assert good.l2 == pytest.approx(0.5 / FRAME["a"].std())
    assert (good.changed, moved.changed) == (1, 3)
    assert moved.l1 == pytest.approx(0.65 + 1.5 / 4 + 1)
    assert good.broken == 1  # a + n
    assert moved.broken == 2  # a fraction in n, and k may not change
    assert (good.bootstrap, good.seed) == (pytest.approx(2 / 3), 1.0)
    assert good.survival == pytest.approx((2 / 3 + 1) / 2)
    assert np.isnan(good.deletion)
    assert (good.noise, refused.noise) == (1.0, 0.0)
    edge = judge.judge([one(0.5 + 1e-9, 4, "x")], [row], 0)[0]
    assert 0.2 < edge.noise < 0.8  # half of the copies fall short


def test_an_answer_that_is_a_row_of_the_data_is_near_and_one_far_away_is_far():
    asked = problem()
    row = asked.rows.iloc[[0]]
    near, far = Judge(asked, {}).judge([FRAME.iloc[[25]], one(1.0, 0, "y")], [row] * 2, 0)
    assert near.far < far.far
    assert near.far == pytest.approx(1.0, abs=0.6)


# --- adding up --------------------------------------------------------------------------------------------------------


def test_intervals_are_those_of_the_mean():
    values = [1.0, 2.0, 3.0, float("nan")]
    mean, half, n = mean_interval(values)
    assert (mean, n) == (2.0, 3)
    assert half == pytest.approx(1.96 / np.sqrt(3))


def lines(*given):
    """Return lines of (method, answer, row, valid, l1, survival)."""
    names = ["method", "answer", "row", "valid", "l1", "survival"]
    frame = pd.DataFrame([dict(zip(names, line, strict=True)) for line in given])
    frame["name"] = [m + (f": {a}" if a else "") for m, a in zip(frame["method"], frame["answer"], strict=True)]
    return frame.assign(table="t", model="m")


def test_who_beats_whom_is_counted_row_by_row():
    told = lines(
        ("gbce", "", 0, True, 1.0, 0.9),  # beats in row 0
        ("gbce", "Nearest", 0, True, 0.5, 0.1),
        ("MOC", "", 0, True, 1.2, 0.9),
        ("gbce", "", 1, True, 2.0, 0.8),  # is beaten in row 1, and so is its other point
        ("gbce", "Nearest", 1, True, 1.5, 0.5),
        ("MOC", "", 1, True, 1.0, 0.9),
        ("gbce", "", 2, True, 1.0, 0.5),  # neither; another decision beats
        ("gbce", "Nearest", 2, True, 0.3, 0.4),
        ("MOC", "", 2, True, 0.4, 0.4),
        ("gbce", "", 3, True, 1.0, 0.5),  # the same point beats nobody
        ("MOC", "", 3, True, 1.0, 0.5),
        ("gbce", "", 4, True, 1.0, 0.5),  # an answer that is not valid has no part in it
        ("MOC", "", 4, False, 9.0, 0.0),
    )
    line = beaten(told).set_index("name").loc["MOC"]
    assert line["rows"] == 4
    assert line["some decision"] == pytest.approx(2 / 4)
    assert line["answer"] == pytest.approx(1 / 4)
    assert line["beaten"] == pytest.approx(1 / 4)
    assert np.isnan(line["answer, refits"])


def test_sums_are_over_valid_answers_and_say_how_many_keep_the_rules():
    told = lines(("MOC", "", 0, True, 1.0, 0.9), ("MOC", "", 1, True, 3.0, 0.7), ("MOC", "", 2, False, 9.0, 0.0))
    others = {name: 0.0 for name in ("l2", "changed", "far", "bootstrap", "seed", "deletion", "label_noise",
                                     "other_learners", "noise", "model_rows")}  # fmt: skip
    told = told.assign(broken=[0, 2, 0], seconds=[1.0, 2.0, 6.0], **others)
    line = summed_up(told, []).iloc[0]
    assert (line["rows"], line["valid"], line["kept"]) == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (line["l1"], line["seconds"]) == (2.0, 3.0)


# --- runs -------------------------------------------------------------------------------------------------------------


class Stubborn:
    """Answers the first row, and then works on without end."""

    def fit(self, model, data, space):
        self._model, self._asked = model, 0

    def counterfactual(self, row, target, seed):
        self._asked += 1
        while self._asked > 1:
            sum(range(1000))
        self._model.predict(row)
        return Found.one(row.assign(a=0.9), note="R-hat 1.23")


class Broken:
    """Fails in the middle."""

    def fit(self, model, data, space):
        pass

    def counterfactual(self, row, target, seed):
        raise KeyError("something")


def test_a_method_that_fails_or_will_not_end_is_a_line(tmp_path, monkeypatch):
    methods = (Method("Stubborn", "here", Stubborn), Method("Broken", "here", Broken))
    monkeypatch.setattr(_cell, "METHODS", methods)
    monkeypatch.setattr(_cell, "problem_of", lambda *_: problem())
    Cell(tmp_path, "t", "m", Settings(("Stubborn", "Broken"), rows=2, seconds=0.2)).run()
    stubborn, failed = (json.loads(file_of(tmp_path, "t", "m", m.name).read_text()) for m in methods)
    assert stubborn["note"] == "not run after row 1: 0.2 s were over"
    assert (stubborn["asked"], stubborn["reached"]) == (2, 1)
    (line,) = stubborn["lines"]
    assert (line["row"], line["valid"], line["model_rows"], line["said"]) == (0, True, 1, "R-hat 1.23")
    assert failed["note"] == "KeyError: 'something'"
    assert failed["lines"] == []


def test_a_run_of_other_settings_is_not_taken_for_this_one(tmp_path):
    run(tmp_path, [], Settings(("gbce",), rows=2), 1)
    run(tmp_path, [], Settings(("gbce", "MOC"), rows=2), 1)  # methods may be added
    with pytest.raises(SettingsDifferError, match="rows 2 instead of 3: give another --folder"):
        run(tmp_path, [], Settings(("gbce",), rows=3), 1)


@pytest.fixture(scope="module")
def own_files(tmp_path_factory):
    """A user's model and table."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.normal(30, 8, 120), "debt": rng.normal(10, 4, 120)})
    frame["loan"] = np.where(frame["income"] - frame["debt"] + rng.normal(0, 2, 120) > 20, "yes", "no")
    model = LogisticRegression().fit(frame[["income", "debt"]], frame["loan"])
    joblib.dump(model, folder / "credit.joblib")
    frame.to_csv(folder / "loans.csv", index=False)
    return folder


def own_options(folder, **changed):
    given = {"model": folder / "credit.joblib", "data": folder / "loans.csv", "outcome": "loan", "label": "yes"}
    return [word for name, value in (given | changed).items() if value for word in (f"--{name}", str(value))]


def test_a_table_of_ones_own_is_compared_resumed_and_written_up(own_files, tmp_path, capsys):
    command = [*own_options(own_files), "--rows", "2", "--jobs", "1", "--folder", str(tmp_path),
               "--methods", "gbce", "Wachter (DirectOpt)", "treecf genetic"]  # fmt: skip
    assert main(command) == 0
    page = (tmp_path / "comparison.md").read_text()
    assert "- treecf genetic: " in page  # installed or not, it does not take this model
    assert re.search(r"\| Wachter \(DirectOpt\) +\| 2 +\| 100%", page)
    assert "loans, each with credit" in page
    assert (tmp_path / "comparison.png").stat().st_size > 10_000
    told = lines_of(tmp_path)
    assert set(told["method"]) == {"gbce", "Wachter (DirectOpt)"}
    assert told[told["answer"] == ""]["valid"].all()
    assert told["survival"].between(0, 1).all()  # refitted and judged by other learners
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    capsys.readouterr()
    assert main(command) == 0  # nothing is done again
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()} == stamps
    assert "3 of 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"outcome": "loans"}, "has no column 'loans'; it has 'income', 'debt', 'loan'"),
        ({"label": "maybe"}, "does not know the class 'maybe'; its classes are no, yes"),
        ({"data": None}, "needs --model, --data, --outcome, and one of --label and --change"),
        ({"data": "nowhere.csv"}, "nowhere.csv"),
        ({"rows": "0"}, "--rows must be above zero, not 0"),
    ],
)
def test_bad_options_get_a_sentence(own_files, tmp_path, capsys, changed, said):
    with pytest.raises(SystemExit):
        main([*own_options(own_files, **changed), "--folder", str(tmp_path / "run")])
    assert said in capsys.readouterr().err


def test_names_of_methods_differ_and_files_of_methods_too(tmp_path):
    names = [method.name for method in METHODS]
    assert len({file_of(tmp_path, "t", "m", name) for name in names}) == len(names)


def test_a_tree_is_a_model_without_a_seed_to_change():
    from benchmarks.rivals._learners import learner_of, seeded

    tree = seeded(DecisionTreeClassifier(random_state=3), 8)
    assert tree.random_state == 8
    with pytest.raises(TypeError):
        learner_of(OnA(0.5))
