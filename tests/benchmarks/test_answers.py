"""benchmarks/answers.py and benchmarks/promise.py: what they measure, on a table made up here, without peers."""

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks import answers, promise
from benchmarks._answer_judge import Columns, judge
from benchmarks._answer_methods import METHODS
from benchmarks._answer_report import per_group, summary
from benchmarks._answer_sheet import Sheet
from benchmarks._answer_tables import Table, case_of, rows_of
from benchmarks._clock import at_most

GBCE = ["gbce", "gbce by ranges"]


def table(wish="yes"):
    rng = np.random.default_rng(0)
    income, rooms = rng.uniform(10.0, 60.0, 200), rng.integers(1, 6, 200)
    score = income / 10 + rooms + rng.normal(0, 0.3, 200)
    X = pd.DataFrame({"income": income, "rooms": rooms, "town": rng.choice(["a", "b"], 200)})
    return Table(X, pd.Series(score) if isinstance(wish, float) else pd.Series(np.where(score > 6, "yes", "no")), wish)


@pytest.mark.parametrize("wish", ["yes", 0.2])
def test_a_run_is_judged_and_goes_on_where_it_was_stopped(tmp_path, wish):
    path = tmp_path / "lines.csv"
    sheet = Sheet(answers.Line, path, resume=False)
    assert list(answers.run("towns", "linear", table(wish), GBCE, 2, sheet)) == []
    lines = sheet.frame
    assert lines["method"].tolist() == ["gbce answer", "gbce Nearest", "gbce Nearest, ranges"] * 2
    # a number may be out of reach of a row, and is then for every method
    valid = lines["valid"].to_numpy().reshape(2, -1)
    assert (valid == valid[:, :1]).all()
    assert valid.any()
    assert isinstance(wish, float) or valid.all()
    assert (lines[["outside", "fractions"]] == 0).all(axis=None)
    assert (lines["l1"] > 0).all()
    assert (lines["model_rows"] > 0).all()
    again = Sheet(answers.Line, path, resume=True)
    list(answers.run("towns", "linear", table(wish), GBCE, 2, again))
    pd.testing.assert_frame_equal(again.frame, lines, check_dtype=False)
    list(answers.run("towns", "linear", table(wish), GBCE[1:], 3, again))
    assert len(again.frame) == 7
    assert "towns" in answers.report(lines, ["table", "model"])


def test_a_method_that_breaks_is_a_line_and_a_note(monkeypatch):
    def broken(row, seed):
        raise ValueError("no such luck")

    monkeypatch.setitem(METHODS, "broken", lambda case: broken)
    monkeypatch.setitem(METHODS, "absent", lambda case: 1 / 0)
    sheet = Sheet(answers.Line, None, resume=False)
    notes = list(answers.run("towns", "linear", table(), ["broken", "absent"], 1, sheet))
    assert [note for note, *_ in notes] == [
        "absent: ZeroDivisionError: division by zero",
        "broken: ValueError: no such luck",
    ]
    assert sheet.frame[["answered", "valid"]].to_numpy().tolist() == [[False, False]]


def test_rows_that_take_too_long_are_stopped():
    def forever():
        while True:
            np.arange(1000).sum()

    with pytest.raises(answers.Patience, match="too long"), at_most(0.05, answers.Patience("too long")):
        forever()


def test_more_rows_begin_with_the_same_ones():
    case = case_of(table(), "linear")
    few, many = rows_of(case, 3), rows_of(case, 9)
    assert many.index[:3].tolist() == few.index.tolist()
    assert (case.model.predict(many) == "no").all()


def test_an_answer_is_judged_by_hand():
    X = pd.DataFrame({
        "share": [0.0, 0.5, 0.9], "count": [0, 4, 10], "whole": [-10.0, 0.0, 10.0], "town": ["a", "b", "b"],
    })  # fmt: skip
    columns = Columns.of(X)
    row = X.iloc[0]
    answer = pd.Series({"share": 0.45, "count": 5, "whole": -10.0, "town": "b"})
    assert columns.sizes(answer, row) == pytest.approx({"share": 0.5, "count": 0.5, "whole": 0.0, "town": 1.0})
    assert columns.misfits(answer, list(X)) == (0, 0)
    assert columns.edges("share") == pytest.approx((0.0, 0.99))
    assert columns.edges("count") == pytest.approx((0.0, 11.0))
    assert columns.edges("whole") == pytest.approx((-12.0, 12.0))
    odd = pd.Series({"share": -0.01, "count": 5.5, "whole": 13.0, "town": "c"})
    assert columns.misfits(odd, list(X)) == (3, 1)
    assert columns.misfits(odd, ["count"]) == (0, 1)
    gone = pd.Series({"share": np.nan, "count": 0, "whole": -10.0, "town": "a"})
    assert columns.sizes(gone, row)["share"] == 1.0


def test_validity_is_the_models_own():
    made = table()
    case = case_of(made, "linear")
    row = rows_of(case, 1)
    good = made.X[case.model.predict(made.X) == "yes"].iloc[[0]]
    found = judge(case, Columns.of(made.X), good, row)
    assert found.valid
    assert not judge(case, Columns.of(made.X), row, row).valid
    assert judge(case, Columns.of(made.X), row, row).changed == 0


def lines_of(*some):
    names = ["table", "model", "row", "method", "valid", "l1"]
    usual = {"answered": True, "changed": 1, "outside": 0, "fractions": 0, "seconds": 1.0, "model_rows": 10, "note": ""}
    return pd.DataFrame([dict(zip(names, one, strict=True)) | usual for one in some])


def test_the_report_says_where_a_peer_is_cheaper():
    own = "gbce Nearest, ranges"
    lines = lines_of(
        ("a", "forest", 1, own, True, 0.2),
        ("a", "forest", 1, "NICE", True, 0.4),
        ("a", "forest", 1, "treecf", False, 0.1),
        ("a", "forest", 2, own, True, 0.3),
        ("a", "forest", 2, "NICE", True, 0.1),
        ("a", "forest", 2, "treecf", True, 0.2),
        ("b", "linear", 1, own, False, 0.0),
        ("b", "linear", 1, "NICE", False, 0.3),
    )
    text = summary(lines)
    assert "A peer is cheaper on 1 of 2 rows:" in text
    assert "- NICE on a, forest: 1 of 2 rows, where gbce pays 3.00 times as much" in text
    valid = [line.split("|")[1:4] for line in text.splitlines() if line.startswith(f"| {own} ")]
    assert [cell.strip() for cell in valid[0]] == [own, "2", "100.0%"]  # nobody is valid on the third row
    assert per_group(lines, ["table"]).count("| a ") == 3
    lines.loc[lines["method"] == "NICE", "fractions"] = 1  # of what can be, treecf is then the cheapest
    assert "- treecf on a, forest: 1 of 1 rows, where gbce pays 1.50 times as much" in summary(lines)


# --- the promise --------------------------------------------------------------------------------------------------


def test_errors_of_execution_follow_the_law_that_is_stated():
    X = pd.DataFrame({"x": np.linspace(0, 1, 50) ** 2 * 9, "n": np.arange(50) % 10, "town": ["a", "b"] * 25})
    space = gbce.Space.infer(X, bounds={"x": (0, 9), "n": (0, 9)}, scale={"x": 2.0, "n": 20.0})
    made = promise.shaken(space, X.iloc[[40]], 40_000, np.random.default_rng(0))
    assert made.dtypes.tolist() == X.dtypes.tolist()
    assert (made["town"] == X["town"][40]).all()
    assert made["n"].between(0, 9).all()
    assert made["x"].std() == pytest.approx(promise.NOISE * 2.0, rel=0.02)  # four standard errors are 0.014
    assert made["n"].nunique() > 3


def test_promises_are_measured_again(monkeypatch):
    monkeypatch.setattr(promise, "N_UNSEEN", 4)
    monkeypatch.setattr(promise, "N_TREES", 5)
    case = promise.small_case(table(), "linear")
    sheet = Sheet(promise.Line, None, resume=False)
    for n_refits in (0, 3):
        promise.run("towns", "linear", case, 2, n_refits, sheet, quick=True)
    lines = sheet.frame
    assert lines["refits"].tolist() == [0, 0, 3, 3]
    error = np.sqrt(lines["realised"] * (1 - lines["realised"]) * (1 / 1_000 + 1 / promise.N_FRESH))
    assert ((lines["stated"] - lines["realised"]).abs() <= 4 * error + 0.01).all()
    assert lines["refits_realised"].isna().tolist() == [True, True, False, False]
    assert "Unseen refits" in promise.report(lines)


def test_calibration_tells_promises_that_are_not_kept():
    some = {"kind": "reliable", "promised": 0.9, "low": 0.9, "high": 0.95}
    found = [(0.92, 0.93), (0.94, 0.89), (0.94, 0.85), (0.92, 0.93)]
    lines = pd.DataFrame([{"stated": stated, "realised": realised} | some for stated, realised in found])
    last = [cell.strip() for cell in promise.calibration(lines).splitlines()[-1].split("|")]
    assert last[1:5] == ["said to be reliable", "4", "0.930", "0.900"]
    assert last[6:9] == ["50%", "50.0%", "25.0%"]
