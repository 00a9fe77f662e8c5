"""benchmarks/_documents.py and benchmarks/summary.py: result files, and the page that is written from them."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from benchmarks import _documents, paired, summary
from benchmarks._documents import RESULTS, ROOT, markdown, print_into, read_csv, write_results


def test_tables_become_csv_files_and_the_rest_a_text(tmp_path):
    first = markdown(["case", "rows"], [["a, b", "1,234"], ["**all**", "-1,234.5"], ["1,23", "-"]])
    second = "| x | y |\n|---|---|\n| 1 | |"
    write_results(
        "two words", f"Before:\n\n{first}\n\n- between\n{second}\n- end", "What it is.", command="run", folder=tmp_path
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two-words-2.csv", "two-words.csv", "two-words.txt"]
    assert read_csv(tmp_path / "two-words.csv") == [
        {"case": "a, b", "rows": "1234"},
        {"case": "all", "rows": "-1234.5"},
        {"case": "1,23", "rows": "-"},
    ]
    assert read_csv(tmp_path / "two-words-2.csv") == [{"x": "1", "y": ""}]
    lines = (tmp_path / "two-words.txt").read_text().splitlines()
    assert lines == ["run", "", "What it is.", "", "Before:", "", "(table: two-words.csv)", "", "- between",
                     "(table: two-words-2.csv)", "- end"]  # fmt: skip
    write_results("two words", "nothing", "What it is.", command="run", folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["two-words.txt"]  # tables of before are gone


def test_what_is_printed_is_kept_unless_it_ends_in_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_documents.write_results, "__kwdefaults__", {"command": None, "folder": tmp_path})
    monkeypatch.setattr(sys, "argv", ["x.py", "--rows", "3"])
    with print_into("unwanted", False, "About."):
        sys.stdout.write("not kept")
    with pytest.raises(ZeroDivisionError), print_into("broken", True, "About."):
        sys.stdout.write(str(1 / 0))
    with print_into("kept", True, "About."):
        sys.stdout.write("d    rows\n1   1,234\n")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
    text = (tmp_path / "kept.txt").read_text()
    assert text.splitlines()[0].endswith("--rows 3")
    assert "\n\nAbout.\n\nd    rows\n1   1,234\n\n- Commit " in text
    assert "not kept" in capsys.readouterr().out


def test_the_page_is_written_from_the_results():
    page = summary.PAGE.read_text(encoding="utf-8")
    assert summary.with_results(page) == page, "run: python -m benchmarks.summary"
    assert len(page.split()) <= 1_000


def test_the_table_of_the_readme_is_that_of_the_results(tmp_path):
    text = paired.README.read_text(encoding="utf-8")
    assert paired.with_table(text) == text, "run: python -m benchmarks.paired"
    for name in ("all.csv", "row-by-row.csv"):
        (tmp_path / name).write_text(
            (RESULTS / "comparison" / name).read_text().replace("DiCE random,598", "DiCE random,597")
        )
    assert "| DiCE random | 597 |" in paired.with_table(text, tmp_path)


def test_another_result_is_another_page(tmp_path):
    for path in RESULTS.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    worse = (tmp_path / "promise-0.csv").read_text().replace("said to be reliable,529", "said to be reliable,530")
    (tmp_path / "promise-0.csv").write_text(worse)
    page = summary.with_results(summary.PAGE.read_text(encoding="utf-8"), tmp_path)
    assert "Of 530 answers called reliable" in page


def test_every_result_names_a_command_that_is_there():
    for path in RESULTS.glob("*.txt"):
        found = re.match(r"python -m benchmarks\.(\w+)|make (\S+)", path.read_text())
        if path.stem == "earlier":
            continue
        assert found, path.name
        assert found[2] == "test-machines" or (ROOT / "benchmarks" / f"{found[1]}.py").exists(), path.name


def test_links_between_documents_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")]:
        for target, anchor in re.findall(
            r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")
        ):
            there = (page.parent / target) if target else page
            if target.endswith(".rst"):
                continue  # built by make docs, which checks it
            assert there.exists(), f"{page.name}: {target}"
            if anchor and there.suffix == ".md":
                heads = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
                names = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
                assert anchor in names, f"{page.name}: {target}#{anchor}"


def test_other_machines_write_their_table_the_same_way(tmp_path, monkeypatch):
    machines = runpy.run_path(str(ROOT / "tests" / "support" / "machines.py"))
    monkeypatch.setattr(_documents.write_results, "__kwdefaults__", {"command": None, "folder": tmp_path})
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = machines["VARIATIONS"][0].name
    machines["_write"](machines["_table"]({name: {"passed": 5153, "failed": [], "skipped": 22, "state": "abc"}}))
    (line,) = read_csv(tmp_path / "machines.csv")
    assert (line["variation"], line["passed"], line["failed"]) == (name, "5153", "0")
    assert Path(tmp_path / "machines.txt").read_text().startswith("make test-machines")
