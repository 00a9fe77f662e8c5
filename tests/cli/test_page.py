"""The page of the command line is the help as it is now, and its examples run."""

import re
import runpy
import shlex
from pathlib import Path

import pandas as pd
import pytest

from gbce.cli import main
from gbce.cli._parser import COMMANDS
from support.service import command_line, running

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_the_help(monkeypatch):
    page = runpy.run_path(str(DOCS / "draw_cli.py"))
    text = page["PAGE"].read_text(encoding="utf-8")
    assert page["with_help"](text) == text, "run: python docs/draw_cli.py"


def test_the_page_lists_all_settings():
    from gbce.cli import _input

    text = (DOCS / "howto" / "cli.md").read_text(encoding="utf-8")
    keys = _input._KEYS | {"columns.NAME": _input._COLUMN}
    for table, names in keys.items():
        line = re.search(rf"^\| `\[{re.escape(table)}\]` \| (.*) \|$", text, re.MULTILINE)[1]
        assert re.findall(r"`([^`]+)`", line) == list(names), table
    assert {one.split(".")[0] for one in re.findall(r"^\| `\[(.*)\]`", text, re.MULTILINE)} == {*_input._TABLES} - {
        "target",
        "constraints",
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files that the examples name: applicants.csv, declined.csv, model.txt and credit.toml."""
    lightgbm = pytest.importorskip("lightgbm")
    pytest.importorskip("skops")
    folder = tmp_path_factory.mktemp("examples")
    assert main(["demo", str(folder), "--quiet"]) == 0
    table = pd.read_csv(folder / "applicants.csv")
    rows = table[["age", "income", "debt", "savings", "years_employed"]]
    model = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=8, verbose=-1).fit(
        rows, table["decision"] == "approved"
    )
    model.booster_.save_model(folder / "model.txt")
    declined = table[model.predict_proba(rows)[:, 1] < 0.3]
    declined.iloc[:2].to_csv(folder / "declined.csv", index=False)
    text = (folder / "credit.toml").read_text().replace('target = "approved"\n', "")
    purpose = text[text.index("[columns.purpose]") : text.index("[columns.income]")]
    (folder / "credit.toml").write_text(text.replace(purpose, "").replace('index = "applicant"', ""))
    return folder, int(declined.index[0])


def test_examples_of_the_service_run(place, monkeypatch, tmp_path):
    """Before the others, the last of which writes the files of the demo."""
    pytest.importorskip("uvicorn")
    folder, _ = place
    monkeypatch.chdir(folder)
    for example in next(command.examples for command in COMMANDS if command.name == "serve"):
        with running(command_line(*shlex.split(example)[2:]), tmp_path / "log") as service:
            assert service.stop() == 0


def test_examples_of_help_run(place, monkeypatch, capsys):
    """In the order of the commands; row 3 stands for one that the model declines."""
    folder, row = place
    monkeypatch.chdir(folder)
    for example in (one for command in COMMANDS if command.name != "serve" for one in command.examples):
        words = shlex.split(example.replace("--row 3", f"--row {row}"))[1:]
        code = main(words)
        _, err = capsys.readouterr()
        assert code in (0, 3), (example, err)
        assert code == 0 or "cannot be trusted" in err or "no letter" in err, (example, err)


def test_the_three_commands_of_the_page_run(demo, monkeypatch, capsys):
    text = (DOCS / "howto" / "cli.md").read_text(encoding="utf-8")
    monkeypatch.chdir(demo)
    block = re.search(r"```bash\n(.*?)```", text, flags=re.DOTALL)[1]
    assert [main(shlex.split(line)[1:]) for line in block.splitlines()] == [0, 0, 0]
    assert (demo / "A002.html").stat().st_size > 10_000
    assert "not legal advice" in (demo / "A002-letter.html").read_text()
