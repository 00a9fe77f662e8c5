"""Whatever goes wrong: an exit code, one sentence, and nothing half-written."""

import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

COMMAND = [sys.executable, "-c", "import sys; from gbce.cli import main; sys.exit(main())"]


def fails(result, code, sentence):
    assert result[0] == code, result
    assert result[1] == ""
    lines = [line for line in result[2].splitlines() if "left out" not in line]
    assert len(lines) == 1, result[2]
    assert lines[0].startswith("gbce: ")
    assert sentence in lines[0]


BAD_CSV = {
    "a field too many": b"a,b\n1,2\n1,2,3,4\n",
    "fields without names": b"a,b\n1,2,3\n1,2,3\n",
    "an open quotation mark": b'a,b\n"1,2\n3,4\n',
    "bytes of no text": b"a,b\n\xff\xfe,2\n",
    "nothing": b"",
}


@pytest.mark.parametrize("what", BAD_CSV, ids=list(BAD_CSV))
def test_malformed_csv(what, run, tmp_path, listing):
    (tmp_path / "bad.csv").write_bytes(BAD_CSV[what])
    result = run(
        "explain", "model.skops", tmp_path / "bad.csv", "--row", 0, "-t", "approved", "-o", tmp_path / "a.html"
    )
    fails(result, 1, "bad.csv could not be read as csv: ")
    assert listing(tmp_path) == ["bad.csv"]


def test_a_header_without_rows(run, tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n")
    fails(run("explain", "model.skops", tmp_path / "bad.csv", "--row", 0, "-t", "approved"), 1, "has no rows")


def test_malformed_json_lines_and_parquet(run, tmp_path):
    for name in ("bad.jsonl", "bad.parquet"):
        (tmp_path / name).write_text('{"a": 1}\n{"a": \n')
        result = run("explain", "model.skops", tmp_path / name, "--row", 0, "-t", "approved")
        fails(result, 1, f"{name} could not be read as {name[4:]}")


def test_wrong_columns(run, demo, tmp_path):
    pd.read_csv(demo / "applicants.csv").drop(columns="income").to_csv(tmp_path / "few.csv", index=False)
    result = run("explain", "model.skops", tmp_path / "few.csv", "--row", 0, "-t", "approved")
    fails(result, 1, "the table lacks the column income that the model was fitted on")
    result = run(
        "explain", "model.skops", "applicants.csv", "--rows", tmp_path / "few.csv", "--row", 0, "-t", "approved"
    )
    fails(result, 1, "the table of rows to explain lacks the column income")


def test_an_unknown_row(run, question):
    fails(run("explain", *question, "--row", "B999"), 1, "there is no row 'B999' in the table")
    plain = ("explain", "model.skops", "applicants.csv", "-t", "approved", "--row")
    fails(run(*plain, "99999"), 1, "there is no row '99999'")
    fails(run(*plain, "age=41"), 1, "rows of the table are 'age=41'")
    fails(run(*plain, "ages=41"), 1, "did you mean 'age'?")
    fails(run(*plain, "what"), 2, "give a position from 0, COLUMN=VALUE, or JSON")
    fails(run(*plain, "{"), 2, "--row is not JSON")
    fails(run(*plain, '{"age": 3}'), 1, "income")


def test_an_unreadable_model(run, tmp_path):
    rest = ("applicants.csv", "--row", 0, "-t", "approved")
    (tmp_path / "m.skops").write_text("nonsense")
    fails(run("explain", tmp_path / "m.skops", *rest), 1, "m.skops could not be read as a model of skops: ")
    fails(run("explain", tmp_path / "none.txt", *rest), 1, "there is no model file")
    fails(run("explain", tmp_path, *rest), 1, "is a folder without a file MLmodel")


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("exploded"),)


def test_a_pickle_without_the_flag(run, tmp_path):
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(Bomb()))
    result = run("explain", tmp_path / "m.pkl", "applicants.csv", "--row", 0, "-t", "approved")
    fails(result, 1, "is a pickle, and loading one runs any code that is in it")
    assert not Path("exploded").exists()


def test_a_pickle_with_the_flag(run, demo, tmp_path):
    import joblib

    from gbce.predictors import load_model

    joblib.dump(load_model(demo / "model.skops"), tmp_path / "m.joblib")
    code, out, _ = run("explain", tmp_path / "m.joblib", "applicants.csv", "--row", 2, "-t", "approved",
                       "--no-posterior", "--trust-pickle")  # fmt: skip
    assert code == 0
    assert "'approved'" in out


def test_wrong_commands(run, question, tmp_path, capsys):
    assert run("explain")[0] == 2
    assert run()[0] == 2
    assert run("explode")[0] == 2
    fails(run("explain", "model.skops", "applicants.csv", "--row", 0), 2, "there is no target")
    fails(run("explain", *question, "--row", "A002", "-o", tmp_path / "a.doc"), 2, "does not show its format")
    fails(run("explain", *question, "--row", "A002", "-f", "gbce"), 2, "an explanation is a file")
    fails(run("explain", "model.skops", "-", "--row", "-", "-t", "approved"), 2, "only one of DATA, --rows and --row")
    fails(run("explain", "model.skops", "model.skops", "--row", 0, "-t", "approved"), 2, "give it with --input")
    fails(run("report", "row.gbce", "-f", "certificate"), 2, "name the file with --model")


BAD_SETTINGS = {
    "colums = 1": "there is no setting 'colums'; did you mean 'columns'?",
    "[columns.age]\nmutabel = true": "there is no setting 'mutabel'; did you mean 'mutable'?",
    "[columns.age]\nbounds = 3": "bounds of 'age' must be a pair",
    "[columns.age]\ndirection = 'up'": "direction of 'age' must be any, increase or decrease",
    "constraints = 'a'": "constraints must be a list",
    "target = ": "is not TOML",
    "[columns.agee]\nmutable = false": "agee",
    "[computed]\nage = 3": "[computed] age must be an expression such as",
    "[data]\ndrop = 'x'": "drop must be a list",
}


@pytest.mark.parametrize("text", BAD_SETTINGS, ids=list(BAD_SETTINGS.values()))
def test_settings_that_are_wrong(text, run, tmp_path):
    (tmp_path / "s.toml").write_text(text)
    result = run("explain", "model.skops", "applicants.csv", "--row", 0, "-t", "approved", "-s", tmp_path / "s.toml")
    fails(result, 1, BAD_SETTINGS[text])


def test_messages_name_settings_not_options_of_python(run, question):
    row = '{"age": 40, "home": "castle"}'
    code, out, _ = run("explain", *question, "--row", "A002")
    assert "bounds in [columns.NAME] of the settings to change this" in " ".join(out.split())
    assert "`bounds=`" not in out
    assert "--no-posterior" in out
    assert "posterior=False" not in out
    assert run("explain", *question, "--row", row)[0] == code + 1


def test_letters_that_are_refused(run, demo, tmp_path):
    text = (demo / "credit.toml").read_text()
    (tmp_path / "none.toml").write_text(text.split("[reasons]")[0])
    fails(
        run("letters", "row.gbce", "-s", tmp_path / "none.toml"),
        1,
        "none.toml has no reasons: give each column its",
    )
    kept = text.replace('income = "Income', 'age = "Income')
    (tmp_path / "few.toml").write_text(kept)
    fails(
        run("letters", "row.gbce", "-s", tmp_path / "few.toml"),
        3,
        "the column 'income' has no reason: add it to [reasons]",
    )
    (tmp_path / "protected.toml").write_text(text.replace("[columns.income]", "[columns.income]\nprotected = true"))
    fails(
        run("letters", "row.gbce", "-s", tmp_path / "protected.toml"),
        3,
        "the answer changes 'income', which is protected",
    )


def test_a_target_out_of_reach_has_an_exit_code_of_its_own(run, question, tmp_path, listing):
    code, out, err = run("explain", *question, "--row", "A002", "-t", "approved>=0.9999", "-o", tmp_path / "a.txt")
    assert (code, out) == (3, "")
    assert "Impossible within these bounds" in err
    assert listing(tmp_path) == []


def test_files_that_are_not_explanations(run, tmp_path):
    (tmp_path / "x.gbce").write_text("x")
    fails(run("report", tmp_path / "x.gbce"), 1, "is not an explanation written by gbce")
    fails(run("report", tmp_path / "y.gbce"), 1, "y.gbce: No such file")
    fails(run("verify", tmp_path / "x.gbce", "model.skops"), 1, "is not a certificate")
    fails(run("letters", tmp_path, "-s", "credit.toml"), 1, "is not a store of explained rows: it has no run.json")


# --- signals, pipes and disks ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(demo):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "report", "row.gbce"], cwd=demo, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "gbce: could not write: No space left on device\n"


def take_little():
    """Let a process write no more than 4 kB to a file; what comes after is an error, as on a full disk."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_takes_a_part(unbuffered, demo, tmp_path, listing):
    """No file is left and an older one stays; of a redirection the part is there, but the exit code tells."""
    pytest.importorskip("resource")
    words = [*COMMAND, "report", "row.gbce", "-f", "html"]
    options = {"cwd": demo, "stderr": subprocess.PIPE, "text": True, "preexec_fn": take_little}
    options["env"] = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    page = tmp_path / "page.html"
    for kept in ([], ["page.html"]):
        done = subprocess.run([*words, "-o", str(page)], **options)
        assert (done.returncode, done.stderr) == (1, f"gbce: {page}: File too large\n")
        assert listing(tmp_path) == kept
        page.write_text("older")
    assert page.read_text() == "older"
    with page.open("w") as file:
        done = subprocess.run(words, stdout=file, **options)
    assert (done.returncode, done.stderr) == (1, "gbce: could not write: File too large\n")


def test_output_that_cannot_be_replaced(run, tmp_path, listing):
    """A folder that is not there is named as it was written, a pipe is written to and stays a pipe, a link stays."""
    lost = tmp_path / "none" / "a.txt"
    fails(run("report", "row.gbce", "-o", lost), 1, f"{lost}: No such file or directory")
    fails(run("report", "row.gbce", "-f", "text", "-o", tmp_path), 1, f"{tmp_path}: Is a directory")
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
    assert run("report", "row.gbce", "-f", "text", "-o", tmp_path / "pipe")[0] == 0
    assert "would have said 'approved'" in reader.communicate(timeout=60)[0]
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link.txt").symlink_to("real.txt")
    assert run("report", "row.gbce", "-o", tmp_path / "link.txt")[0] == 0
    assert (tmp_path / "link.txt").readlink() == Path("real.txt")
    assert "approved" in (tmp_path / "real.txt").read_text()
    assert listing(tmp_path) == ["link.txt", "pipe", "real.txt"]


def test_a_closed_pipe(demo):
    words = " ".join(f"'{word}'" for word in [*COMMAND, "report", "row.gbce", "-f", "html"])
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {words} | true"], cwd=demo, capture_output=True)
    assert done.stderr == b""
    assert done.returncode == 141


def test_an_interruption(demo, tmp_path, listing):
    words = ["batch", "model.skops", "applicants.csv", "--settings", "credit.toml", "-v", "-o", str(tmp_path / "a.csv")]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # which tests in the background ignore
    options = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "preexec_fn": heard}
    with subprocess.Popen([*COMMAND, *words], cwd=demo, **options) as running:
        for line in running.stderr:
            if "left out" in line:  # the table is read: the rows are next
                break
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        try:
            _, err = running.communicate(timeout=120)
        finally:
            running.kill()
    assert running.returncode == 130
    assert err.splitlines()[-1] == "gbce: interrupted: nothing was written"
    assert listing(tmp_path) == []


def test_help_imports_nothing_heavy():
    seen = "[m for m in ('numpy', 'pandas') if m in sys.modules]"
    code = f"import sys; from gbce.cli import main; main(['--help']); print({seen})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_only_a_part_of_a_large_table_is_kept(demo):
    import numpy as np

    from gbce.cli import _input

    rows, picked = _input.read_table(str(demo / "applicants.csv"), most=50, picked=_input.Picked.parse("799", None))
    assert len(rows) == 50
    assert picked["applicant"].tolist() == ["A799"]
    assert (np.diff(rows.index) > 0).all()


def test_parts_of_a_table_agree_on_a_column(demo, tmp_path, monkeypatch):
    from gbce.cli import _input

    monkeypatch.setattr(_input, "_CHUNK", 10)
    pd.DataFrame({"code": [*range(25), *["x"] * 5], "n": range(30)}).to_csv(tmp_path / "t.csv", index=False)
    rows, _ = _input.read_table(str(tmp_path / "t.csv"))
    assert rows["code"].tolist() == [*map(str, range(25)), *["x"] * 5]
    assert rows["n"].tolist() == list(range(30))
