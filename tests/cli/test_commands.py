"""Every command on the files of the demo: data on standard output, words on standard error, exit codes."""

import json

import pandas as pd
import pytest

import gbce
from gbce.cli._input import read_settings
from gbce.targets import parse_target
from gbce.words import say_in_settings


def test_explain_prints_a_summary(run, question):
    code, out, err = run("explain", *question, "--row", "A002")
    assert code == 0
    assert "'approved'" in out
    assert "monthly income" in out or "debt" in out
    assert err.splitlines() == ["gbce: columns that the model does not use are left out: decision"]
    assert run("explain", *question, "--row", "A002", "--quiet")[2] == ""


def test_explain_writes_every_format(run, question, tmp_path):
    for name in ("a.json", "a.html", "a.txt", "a.png", "a.gbce"):
        assert run("explain", *question, "--row", "A002", "-o", tmp_path / name)[0] == 0
    assert json.loads((tmp_path / "a.json").read_text())["status"] == "attainable"
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert "would have said 'approved'" in (tmp_path / "a.txt").read_text()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert gbce.load(tmp_path / "a.gbce").status == "attainable"


def test_a_row_is_named_by_position_value_name_or_json(run, question):
    found = [run("explain", *question, "-f", "json", "--row", "A002")[1]]
    by_position = ("model.skops", "applicants.csv", "--no-posterior", "--target", "approved", "-f", "json", "--row")
    found += [run("explain", *by_position, row)[1] for row in ("2", "applicant=A002")]
    values = [json.loads(one)["row"]["values"] for one in found]
    found.append(run("explain", *by_position, json.dumps(values[0]))[1])
    values.append(json.loads(found[-1])["row"]["values"])
    assert all(one == values[0] for one in values)


def test_tables_are_csv_parquet_or_json_lines_and_come_from_standard_input(run, question, demo, tmp_path, monkeypatch):
    import io
    import sys

    table = pd.read_csv(demo / "applicants.csv")
    table.to_parquet(tmp_path / "a.parquet")
    table.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    rest = ("--settings", "credit.toml", "--no-posterior", "--row", "A002", "-f", "text")
    texts = [run("explain", "model.skops", path, *rest)[1]
             for path in (demo / "applicants.csv", tmp_path / "a.parquet", tmp_path / "a.jsonl")]  # fmt: skip
    (tmp_path / "plain").write_bytes((demo / "applicants.csv").read_bytes())
    texts.append(run("explain", "model.skops", tmp_path / "plain", *rest, "--input", "csv")[1])

    class Stdin:
        buffer = io.BytesIO((demo / "applicants.csv").read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin())
    texts.append(run("explain", "model.skops", "-", *rest)[1])
    assert texts[0]
    assert texts == [texts[0]] * len(texts)


def test_batch_writes_one_line_per_row_and_says_what_is_missing(run, question, tmp_path):
    code, out, _ = run("batch", *question, "--limit", 3, "-f", "jsonl")
    lines = [json.loads(one) for one in out.splitlines()]
    assert code == 0
    assert [one["row"] for one in lines] == ["A000", "A001", "A002"]
    assert all(one["reached"] for one in lines)
    code, out, err = run("batch", *question, "--limit", 3, "--target", "approved>=0.9999")
    assert code == 3
    assert "of 3 rows, 3 without an answer that reaches the target" in err
    assert len(out.splitlines()) == 4
    assert run("batch", *question, "--limit", 2, "-o", tmp_path / "rows.html")[0] == 0
    assert run("batch", *question, "--limit", 2, "-o", tmp_path / "rows.parquet")[0] == 0
    assert len(pd.read_parquet(tmp_path / "rows.parquet")) == 2


def test_batch_goes_on_from_a_store_that_letters_read(run, question, tmp_path):
    options = ["--limit", 3, "--no-posterior", "-f", "csv"]
    plain = run("batch", *question, *options)[1]
    for _ in range(2):
        assert run("batch", *question, *options, "--store", tmp_path / "store")[:2] == (0, plain)
    assert pd.read_parquet(tmp_path / "store" / "answers")["label"].tolist() == ["A000", "A001", "A002"]
    code, _, err = run("letters", tmp_path / "store", "--settings", "credit.toml", "-o", tmp_path / "letters.csv")
    letters = pd.read_csv(tmp_path / "letters.csv", keep_default_na=False)
    assert code == 3  # two of the three need no letter
    assert err.count("no letter for A00") == 2  # by the names of the rows
    assert letters["row"].tolist() == ["A002", "A000", "A001"]
    assert letters["refused"].str.contains("as it is").sum() == 2


def test_report_reads_a_saved_explanation(run, tmp_path):
    code, out, _ = run("report", "row.gbce")
    assert code == 0
    assert out.split() == say_in_settings(gbce.load("row.gbce").summary()).split()
    assert all(len(line) <= 110 for line in out.splitlines())  # lines are broken after the words of settings are in
    assert "なっていました" in run("report", "row.gbce", "-f", "text", "--language", "ja")[1]
    assert run("report", "row.gbce", "-o", tmp_path / "page.html")[0] == 0


def test_frontier_is_a_table(run, question, tmp_path):
    assert run("frontier", *question, "--row", "A002", "-o", tmp_path / "f.csv")[0] == 0
    table = pd.read_csv(tmp_path / "f.csv")
    assert table["cost"].is_monotonic_increasing
    assert table["reliability"].is_monotonic_increasing


def test_letters_and_certificates(run, tmp_path):
    code, out, _ = run("letters", "row.gbce", "--settings", "credit.toml")
    assert code == 0
    assert "not legal advice" in out
    assert run("letters", "row.gbce", "--settings", "credit.toml", "-o", tmp_path / "l.html")[0] == 0
    made = run("report", "row.gbce", "-f", "certificate", "--model", "model.skops", "-o", tmp_path / "c.json")
    assert made[0] == 0
    code, out, _ = run("verify", tmp_path / "c.json", "model.skops")
    assert code == 0
    assert all(line.startswith("confirmed: ") for line in out.splitlines())
    content = json.loads((tmp_path / "c.json").read_text())
    content["answer"]["output"] = 0.99
    (tmp_path / "c.json").write_text(json.dumps(content))
    code, out, err = run("verify", tmp_path / "c.json", "model.skops")
    assert code == 1
    assert "denied: the answer reaches the target" in out
    assert err == "gbce: the certificate is not confirmed\n"


def test_init_writes_settings_that_work(run, tmp_path):
    assert run("init", "applicants.csv", "--model", "model.skops", "-o", tmp_path / "draft.toml")[0] == 0
    text = (tmp_path / "draft.toml").read_text()
    assert "[columns.income]" in text
    assert "# assumed: " in text
    assert "decision" not in text.split("[data]")[1].split("[model]")[1]
    found = run("explain", "model.skops", "applicants.csv", "--row", 2, "--no-posterior", "-t", "approved", "-s",
                tmp_path / "draft.toml", "-f", "text")  # fmt: skip
    assert found[0] == 0
    assert "would have said" in found[1]


def test_init_leaves_out_the_column_that_names_rows(run, tmp_path):
    assert run("init", "applicants.csv", "--index", "applicant", "-o", tmp_path / "draft.toml")[0] == 0
    settings = read_settings(str(tmp_path / "draft.toml"))
    assert settings.data == {"index": "applicant"}
    assert "decision" in settings.columns
    assert "applicant" not in settings.columns
    code, _, err = run("init", "applicants.csv", "--index", "aplicant")
    assert (code, "did you mean 'applicant'?" in err) == (1, True)


def test_settings_hold_computed_columns(tmp_path):
    (tmp_path / "s.toml").write_text('[computed]\nfree = "income - debt"\n')
    data = pd.DataFrame({"income": [3.0, 4.5, 6.0], "debt": [1.0, 2.0, 0.5]}).assign(free=lambda x: x.income - x.debt)
    space = gbce.Space.infer(data, **read_settings(str(tmp_path / "s.toml")).space_options())
    assert space.is_computed.tolist() == [False, False, True]


@pytest.mark.parametrize(("line", "sensible"), [("", True), ("sensible = false", False)])
def test_advice_for_letters_is_sensible_unless_the_settings_say_otherwise(line, sensible, run, demo, tmp_path):
    text = (demo / "credit.toml").read_text()
    assert "[reasons]" in text
    (tmp_path / "own.toml").write_text(f"{text}\n[options]\n{line}\n")
    found = run("explain", "model.skops", "applicants.csv", "--row", "A002", "--no-posterior", "-s",
                tmp_path / "own.toml", "-o", tmp_path / "row.gbce")  # fmt: skip
    assert found[0] == 0, found
    policy = dict(gbce.load(tmp_path / "row.gbce").query.settings)["policy"]
    assert f"sensible={sensible}" in policy


def test_a_booster_has_names_for_its_classes(run, demo, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    table = pd.read_csv(demo / "applicants.csv")
    rows = table.drop(columns=["applicant", "decision"]).astype({"purpose": "category"})
    model = lightgbm.LGBMClassifier(n_estimators=30, verbose=-1).fit(rows, table["decision"] == "approved")
    model.booster_.save_model(tmp_path / "model.txt")
    question = ("explain", tmp_path / "model.txt", "applicants.csv", "--settings", "credit.toml", "--no-posterior")
    code, out, _ = run(*question, "--row", "A002", "--classes", "declined,approved", "-f", "text")
    assert code == 0
    assert "would have said 'approved'" in out
    code, out, err = run(*question, "--row", "A002")
    assert code == 2
    assert "'approved' is not a class of the model; its classes are 0, 1." in err


def test_a_regression_takes_changes_and_ranges(run, demo, tmp_path):
    from sklearn.tree import DecisionTreeRegressor

    files = pytest.importorskip("skops.io")
    table = pd.read_csv(demo / "applicants.csv")[["income", "debt"]]
    model = DecisionTreeRegressor(max_depth=6).fit(table, table["income"] - table["debt"])
    files.dump(model, tmp_path / "m.skops")
    question = ("explain", tmp_path / "m.skops", "applicants.csv", "--row", "2", "--no-posterior", "-f", "text")
    assert "wanted: at least" in run(*question, "--target", "+10%")[1]
    assert "wanted: at most" in run(*question, "--target", "-10%")[1]
    assert "wanted: 1,000 to 2,000" in run(*question, "--target", "1000..2000")[1]
    assert "wanted: at most -3,000" in run(*question, "--target", "<=-3000")[1]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("<=140", gbce.AtMost(140)),
        ("≥ 10", gbce.AtLeast(10)),
        ("=3", gbce.Value(3)),
        ("140±5", gbce.Value(140, tolerance=5)),
        ("0.8..1", gbce.Range(0.8, 1)),
        ("-2..-1", gbce.Range(-2, -1)),
        ("+10%", gbce.Change(0.1, relative=True)),
        ("-2.5 %", gbce.Change(-0.025, relative=True)),
        ("-5", gbce.Change(-5)),
        ("1e3..2e3", gbce.Range(1000, 2000)),
    ],
)
def test_targets_on_numbers(text, target):
    assert parse_target(text, None) == target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("approved", gbce.Class("approved")),
        ("approved>=0.8", gbce.Class("approved", probability=0.8)),
        ("approved=0.8..1", gbce.Class("approved", probability=(0.8, 1))),
    ],
)
def test_targets_on_classes(text, target):
    assert parse_target(text, ("approved", "declined")) == target


def test_classes_that_look_like_numbers_stay_classes():
    assert parse_target("-1", (-1, 1)) == gbce.Class(-1)
    assert parse_target("1>=0.9", (0, 1)) == gbce.Class(1, probability=0.9)


@pytest.mark.parametrize(
    ("text", "classes"), [("140", None), ("<140", None), ("aproved", ("approved", "x")), ("0.8..1", (0, 1))]
)
def test_targets_that_are_not_understood(text, classes):
    with pytest.raises(ValueError, match="the target"):
        parse_target(text, classes)


def test_a_row_by_position_where_the_settings_name_an_index(run, question, demo):
    import pandas as pd

    table = pd.read_csv(demo / "applicants.csv")
    answers = [run("explain", *question, "--row", row, "-f", "json", "-q") for row in ("A002", "2")]
    assert answers[0] == answers[1]
    assert answers[0][0] == 0
    assert table["applicant"][2] == "A002"


def test_a_name_comes_before_a_position(tmp_path):
    from gbce.cli._input import Picked, read_table
    from gbce.cli._question import _require_one

    (tmp_path / "t.csv").write_text("id,a\n5,1\n0,2\n7,3\n")
    for text, value in (("0", 2), ("7", 3), ("2", 3)):  # two rows have names, the third only a position
        picked = Picked.parse(text, "id")
        _, found = read_table(str(tmp_path / "t.csv"), picked=picked)
        assert _require_one(found, picked)["a"].tolist() == [value]
