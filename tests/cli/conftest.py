"""The files of ``gbce demo``, and a way to run commands in this process."""

from pathlib import Path

import pytest

from gbce.cli import main


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """A folder with applicants.csv, model.skops, credit.toml, and one saved explanation, row.gbce."""
    pytest.importorskip("skops")
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", str(folder), "--quiet"]) == 0
    code = main(["explain", str(folder / "model.skops"), str(folder / "applicants.csv"), "--row", "A002", "--quiet",
                 "--settings", str(folder / "credit.toml"), "-o", str(folder / "row.gbce")])  # fmt: skip
    assert code == 0
    return folder


@pytest.fixture
def run(capsys, demo, monkeypatch):
    """Run a command in the demo folder; returns its exit code, standard output and standard error."""
    monkeypatch.chdir(demo)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words):
        capsys.readouterr()
        code = main(list(map(str, words)))
        out, err = capsys.readouterr()
        return code, out, err

    return call


QUESTION = ("model.skops", "applicants.csv", "--settings", "credit.toml", "--no-posterior")


@pytest.fixture
def question():
    return QUESTION


@pytest.fixture
def listing():
    """Return a function that lists the files of a folder, to see that nothing was half-written."""
    return lambda folder: sorted(path.name for path in Path(folder).iterdir())
