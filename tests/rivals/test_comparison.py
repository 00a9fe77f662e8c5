"""``python -m benchmarks.rivals``: how answers are judged and added up, runs that go on, and a user's own table."""

import json
import re
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

import gbce
from benchmarks._answer_judge import Columns
from benchmarks._real_tables import Case
from benchmarks.rivals import _cell, _run
from benchmarks.rivals.__main__ import DOCUMENT, main
from benchmarks.rivals._cell import Cell, Settings, file_of, write_whole
from benchmarks.rivals._data import Data
from benchmarks.rivals._judge import Judge
from benchmarks.rivals._methods import METHODS
from benchmarks.rivals._problem import OwnTable, Problem
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._report import FILES, _ahead, page, read_tables
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


def test_steps_of_an_ordinal_cost_what_methods_are_told():
    asked = problem()
    space = gbce.Space.infer(FRAME, kinds={"k": "ordinal"}, levels={"k": ["x", "w", "y"]})
    asked = replace(asked, case=replace(asked.case, space=space, immutable=()))
    row = asked.rows.iloc[[0]]
    judged = Judge(asked, {}).judge([one(0.1, 4, "w"), one(0.1, 4, "y"), one(0.1, 4, "x")], [row] * 3, 0)
    assert [each.l1 for each in judged] == [0.5, 1.0, 0.0]
    deviation = space.encode(FRAME)[:, 2].std(ddof=1)
    assert [each.l2 for each in judged] == pytest.approx([1 / deviation, 2 / deviation, 0.0])
    assert [each.changed for each in judged] == [1, 1, 0]


def test_a_fraction_breaks_a_rule_only_where_methods_are_told_that_numbers_are_whole():
    asked = problem()
    row, answer = asked.rows.iloc[[0]], one(0.6, 2.5, "x")
    assert asked.broken(answer, row) == 1
    floats = FRAME.astype({"n": float})  # whole ones, but nobody is told so
    case = replace(asked.case, X=floats, space=gbce.Space.infer(floats, immutable=["k"], kinds={"n": "real"}))
    assert replace(asked, case=case).broken(answer, row) == 0


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
    assert half == pytest.approx(4.3027 / np.sqrt(3), rel=1e-4)  # of Student with two degrees of freedom


def lines(*given):
    """Return lines of (method, answer, row, valid, l1, survival)."""
    names = ["method", "answer", "row", "valid", "l1", "survival"]
    frame = pd.DataFrame([dict(zip(names, line, strict=True)) for line in given])
    frame["name"] = [m + (f": {a}" if a else "") for m, a in zip(frame["method"], frame["answer"], strict=True)]
    return frame.assign(table="t", model="m", broken=0)


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
        ("gbce", "", 5, False, 0.1, 1.0),  # gbce's own counts against it
        ("MOC", "", 5, True, 1.0, 0.5),
        ("MOC", "", 6, True, 1.0, 0.5),  # gbce did not come to this row
    )
    line = beaten(told).set_index("name").loc["MOC"]
    assert line["rows"] == 5
    assert line["some decision"] == pytest.approx(2 / 5)
    assert line["answer"] == pytest.approx(1 / 5)
    assert line["answer beaten"] == pytest.approx(2 / 5)
    assert np.isnan(line["refits, ranges"])
    told.loc[told["method"] == "MOC", "broken"] = 1  # answers that break a rule are no rivals
    assert len(beaten(told)) == 0


def test_sums_are_over_valid_answers_and_say_how_many_keep_the_rules():
    told = lines(("MOC", "", 0, True, 1.0, 0.9), ("MOC", "", 1, True, 3.0, 0.7), ("MOC", "", 2, False, 9.0, 0.0))
    others = {name: 0.0 for name in ("l2", "changed", "far", "bootstrap", "seed", "deletion", "label_noise",
                                     "other_learners", "noise", "model_rows")}  # fmt: skip
    told = told.assign(broken=[0, 2, 0], seconds=[1.0, 2.0, 6.0], **others)
    line = summed_up(told, []).iloc[0]
    assert (line["rows"], line["valid"], line["kept"]) == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (line["l1"], line["seconds"]) == (2.0, 3.0)


def test_an_answer_that_is_not_found_in_a_row_counts_as_not_valid_there(tmp_path):
    figures = {"valid": True, "l1": 1.0, "broken": 0, "seconds": 1.0, "model_rows": 5}
    frontier = [{"row": 0, "answer": "at 0.5", **figures}, {"row": 0, "answer": "at 0.99", **figures},
                {"row": 1, "answer": "at 0.5", **figures},
                {"row": 2, "answer": "", "seconds": 3.0, "model_rows": 6}]  # fmt: skip
    about = {"model": "m", "method": "gbce frontier", "note": "", "asked": 3, "reached": 3}
    (tmp_path / "cells").mkdir()
    for table, lines in (("t", frontier), ("u", frontier[3:])):
        path = file_of(tmp_path, table, "m", "gbce frontier")
        path.write_text(json.dumps(about | {"table": table, "lines": lines}))
    told = lines_of(tmp_path)
    assert len(told) == 2 * 4  # for each of four rows
    sums = summed_up(told, []).set_index("name")
    assert list(sums.index) == ["gbce frontier: at 0.5", "gbce frontier: at 0.99"]
    assert sums["valid"].tolist() == [2 / 4, 1 / 4]
    assert sums["seconds"].tolist() == [2.0, 2.0]


def test_where_a_rival_is_ahead_is_said_of_rows_that_both_have():
    mine = (1.0, 1.2, 1.1, 9.0, 9.0)  # the last two where treecf has no answer

    def all_of(method, *costs):
        return [(method, "", i, True, cost, 0.5) for i, cost in enumerate(costs)]

    told = lines(
        *all_of("gbce", *mine),
        *all_of("treecf exact", 2.0, 2.3, 2.1),
        *all_of("ROAR", 0.7, 0.8, 0.8),
        ("ROAR", "", 3, False, 0.1, 1.0),
        *all_of("RBR", 0.2),  # one row says nothing
        *all_of("MOC", 0.1, 1.3, 1.1),  # ahead in the mean, by less than its interval
    )
    same = {name: 0.0 for name in ("l2", "changed", "broken", "far", "noise", "seconds", "model_rows")}
    assert _ahead(told.assign(**same)).to_numpy().tolist() == [["l1", "ROAR", "t"]]


def test_the_page_counts_who_is_ahead_and_who_wins_row_by_row():
    methods = pd.DataFrame(
        {"method": ["gbce", "MOC", "ROAR"], "here": ["this library", "as published", "as published"]}
    )
    figures = {"rows": "9", "keeps rules": "90%", "survival": "0.50 ± 0.10", "seconds": "0.1"}
    costs = {"gbce": "0.50 ± 0.01", "MOC": "0.40", "MOC: fewest changes": "0.45", "ROAR": "-"}
    sums = pd.DataFrame([{"method": name, "l1": cost, **figures} for name, cost in costs.items()])
    ahead = pd.DataFrame([["l1", "MOC", "a; b"], ["l1", "ROAR", "a"], ["far", "ROAR", "b"]],
                         columns=["figure", "rival", "tables"])  # fmt: skip
    shares = {
        "answer": ["10%", "30%"],
        "answer beaten": ["20%", "30%"],
        "ranges": ["-", "-"],
        "ranges beaten": ["-", "-"],
        "refits, ranges": ["5%", "0%"],
        "refits, ranges beaten": ["1%", "3%"],
    }
    duels = pd.DataFrame({"rival": ["MOC", "ROAR"], "rows": ["9", "9"], "some gbce decision": ["60%", "40%"], **shares})
    facts = {"command": "run it", "date": "today", "commit": "abc", "minutes": 3.2, "jobs": 1, "versions": {}}
    facts |= {"rows": 9, "tables": ["a", "b", "c"], "models": ["m"]}
    said = page({"methods": methods, "all": sums, "ahead": ahead, "row-by-row": duels}, facts, "picture.png")
    assert "gbce and 2 other methods" in said
    assert re.search(r"\| gbce +\| 9 +\| 90% +\| 0.50 +\| 0.50 +\| 0.1 +\|", said)  # without intervals
    assert "fewest changes" not in said.split("## Cost")[0]  # the first answer of each method
    assert "wins in 40% (ROAR) to 60% (MOC) of rows" in said
    assert "gbce's answer loses to 1 of 2 more often than it wins: MOC." in said
    assert "gbce's answer (ranges) loses to 0 of 2 more often than it wins." in said
    assert "gbce's answer (refits, ranges) loses to 1 of 2 more often than it wins: ROAR." in said
    assert "- l1: 2 on some, 1 on most: MOC\n- far: 1 on some, 0 on most\n" in said  # most of three is two
    without = page({"methods": methods, "all": sums}, facts, "picture.png")
    assert "Nowhere." in without


def test_the_page_of_the_docs_is_written_from_its_tables():
    tables, facts = read_tables(DOCUMENT.parent / FILES)
    text = DOCUMENT.read_text(encoding="utf-8")
    assert page(tables, facts, "img/comparison.png") == text, "run: python -m benchmarks.rivals --only-report --docs"
    assert len(text.split()) <= 1_000


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
    """Fails at the first row, and answers the second."""

    def fit(self, model, data, space):
        self._asked = 0

    def counterfactual(self, row, target, seed):
        self._asked += 1
        if self._asked == 1:
            raise KeyError("something")
        return Found.one(row.assign(a=0.9))


class Unfit(Broken):
    """Fails before there is a row."""

    def fit(self, model, data, space):
        raise KeyError("nothing")


class Elsewhere(Broken):
    """Lets another process work, for longer than there is time."""

    def counterfactual(self, row, target, seed):
        return Found.one(row.assign(a=0.9), elsewhere=5.0)


def test_a_method_that_fails_or_will_not_end_is_a_line(tmp_path, monkeypatch):
    kinds = (Stubborn, Broken, Unfit, Elsewhere)
    methods = tuple(Method(kind.__name__, "here", kind) for kind in kinds)
    monkeypatch.setattr(_cell, "METHODS", methods)
    monkeypatch.setattr(_cell, "problem_of", lambda *_: problem())
    Cell(tmp_path, "t", "m", Settings(tuple(m.name for m in methods), rows=2, seconds=0.2)).run()
    stubborn, broken, unfit, elsewhere = (json.loads(file_of(tmp_path, "t", "m", m.name).read_text()) for m in methods)
    assert stubborn["note"] == "not run after row 1: 0.2 s were over"
    assert (stubborn["asked"], stubborn["reached"]) == (2, 1)
    (line,) = stubborn["lines"]
    assert (line["row"], line["valid"], line["model_rows"], line["said"]) == (0, True, 1, "R-hat 1.23")
    assert broken["note"] == "1 of 2 rows failed: KeyError: 'something'"
    assert [(line["row"], line["said"]) for line in broken["lines"]] == [(1, ""), (0, "failed: KeyError: 'something'")]
    assert (unfit["note"], unfit["reached"], unfit["lines"]) == ("KeyError: 'nothing'", 0, [])
    (line,) = elsewhere["lines"]
    assert 5.0 <= line["seconds"] < 6.0
    assert elsewhere["note"] == "not run after row 1: 0.2 s were over"


def test_rows_that_were_not_reached_are_rows_also_where_each_has_several_lines(tmp_path, monkeypatch):
    def measure(problem, seed):
        for i in range(4):
            yield {"row": i // 2}
        while True:
            sum(range(1000))

    monkeypatch.setattr(_cell, "MEASURES", {"distributions": measure})
    monkeypatch.setattr(_cell, "problem_of", lambda *_: problem())
    Cell(tmp_path, "t", "m", Settings(("distributions",), rows=3, seconds=0.1)).run()
    assert json.loads(file_of(tmp_path, "t", "m", "distributions").read_text())["note"].startswith(
        "not run after row 2:"
    )


def test_a_method_whose_process_dies_after_its_work_keeps_its_lines(tmp_path, monkeypatch):
    done = {"table": "t", "model": "m", "method": "gbce", "note": "", "asked": 1, "reached": 1, "lines": [{"row": 0}]}
    died = {"gbce": json.dumps(done)}

    def dies(cell):
        for method in ("gbce", "MOC"):
            path = file_of(tmp_path, "t", "m", method)
            if not path.exists():
                write_whole(path, died[method]) if method in died else None
                return method, "its process ended with -11: no word"
        raise AssertionError("nothing is left")

    monkeypatch.setattr(_run._Watched, "_run_once", dies)
    run(tmp_path, [("t", "m")], Settings(("gbce", "MOC"), rows=1), 1, [].append)
    kept, lost = (json.loads(file_of(tmp_path, "t", "m", method).read_text()) for method in ("gbce", "MOC"))
    assert kept == done
    assert (lost["note"], lost["lines"]) == ("its process ended with -11: no word", [])


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


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="scikit-learn before 1.9 fits no network with early stopping to text labels, which is one of the learners",
)
def test_a_table_of_ones_own_is_compared_resumed_and_written_up(own_files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(own_files)
    command = [*own_options(Path()), "--rows", "2", "--jobs", "1", "--seed", "3", "--folder", str(tmp_path),
               "--methods", "gbce", "Wachter (DirectOpt)", "treecf genetic"]  # fmt: skip
    assert main(command) == 0
    text = (tmp_path / "comparison.md").read_text()
    assert re.search(r"\| Wachter \(DirectOpt\) +\| 2 +\| 100%", text)
    assert "loans, each with credit" in text
    assert "--methods gbce 'Wachter (DirectOpt)' 'treecf genetic' --rows 2 --seed 3 --model" in text
    assert "which the model may have been fitted on" in " ".join(text.split())
    tables, facts = read_tables(tmp_path / FILES)
    assert page(tables, facts, "comparison.png") == text
    assert tables["not-run"]["method"].tolist() == ["treecf genetic"]  # installed or not, it does not take this model
    assert set(tables["by-table"]["table"]) == {"loans"}
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
        ({"label": None, "change": "0.1"}, "gives classes, so name one by --label instead of --change"),
        ({"label": None, "change": "0"}, "say what is wanted: --label for a class, or --change"),
        ({"outcome": "income"}, "was fitted on columns"),
        ({"tables": "adult"}, "leave out --tables and --models"),
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


def saved(folder, frame, model, outcome="y", **wanted):
    """Write a table and a model to files; return them as a user's own."""
    frame.to_csv(folder / "own.csv", index=wanted.pop("index", False))
    joblib.dump(model, folder / "own.joblib")
    return OwnTable(str(folder / "own.joblib"), str(folder / "own.csv"), outcome, **wanted)


@pytest.mark.parametrize("classes", [(0.0, 1.0), (0, 1), ("0", "1"), (False, True)])
def test_a_class_is_a_class_whatever_a_file_takes_it_for(tmp_path, classes):
    x = np.linspace(0.0, 1.0, 20)
    y = np.where(x > 0.5, *classes[::-1])
    model = DecisionTreeClassifier(random_state=0).fit(pd.DataFrame({"x": x}), y)
    frame = pd.DataFrame({"x": x, "y": y}).astype({"y": object})
    frame.loc[3, "y"] = None  # a row without an outcome, at which a file's whole numbers become floats
    # with a first column that the model does not know
    own = saved(tmp_path, frame, model, label=str(classes[1]), index=True)
    case = own.case()
    assert list(case.X.columns) == ["x"]
    assert len(case.X) == len(case.y) == 19
    assert case.classification
    assert set(case.y) == set(classes)
    assert case.y.dtype.kind != "f"  # or refits would take it for a number
    assert (case.model.predict(case.X) == case.wish).sum() == 10
    refit = LogisticRegression().fit(case.X, case.y)
    assert (refit.predict(case.X) == case.wish).any()


def test_a_model_without_probabilities_and_outcomes_it_does_not_know_get_a_sentence(tmp_path):
    x = np.linspace(0.0, 1.0, 20)
    frame = pd.DataFrame({"x": x, "y": np.where(x > 0.5, "yes", "no")})
    with pytest.raises(ValueError, match="has no predict_proba"):
        saved(tmp_path, frame, RidgeClassifier().fit(frame[["x"]], frame["y"]), label="yes").case()
    model = DecisionTreeClassifier().fit(frame[["x"]], frame["y"])
    with pytest.raises(ValueError, match=r"y in .* has maybe, which the model"):
        saved(tmp_path, frame.assign(y=["maybe", *frame["y"][1:]]), model, label="yes").case()
    with pytest.raises(ValueError, match="does not take the rows"):
        saved(tmp_path, frame.assign(x=["high", *frame["x"][1:]]), model, label="yes").case()
