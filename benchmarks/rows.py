"""What a default explanation asks of the model and takes: rows, calls and seconds, now and at an earlier commit.

Beside it, the bare ``predict`` of as many rows of the same posterior in one call, and DiCE on the rows that were
explained. Every measurement is a process of its own with one thread, and seconds are those of one core.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from _rows_worker import CASES, PRIORS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "benchmarks.md"
MARKS = ("<!-- rows -->", "<!-- /rows -->")
BASELINE = "7339835"  # the last commit before rows and seconds of a default explanation were looked at
PEERS = ("DiCE random", "DiCE genetic")
HEAD = ["table", "prior", "rows", "calls", "s", "bare s", "s / bare", f"rows {BASELINE}", "calls", "s", *PEERS]
_WAIT = 1_800  # seconds for one measurement; by hand

Found = dict[str, list[dict[str, float]]]


class FailedError(RuntimeError):
    """A measurement that did not come to its end; the message is the last line it wrote."""


def measured(case: str, what: str, n: int, source: Path) -> Found:
    """Run one measurement with the package of a source tree."""
    paths = [str(source / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).with_name("_rows_worker.py")), case, what, str(n)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_WAIT)
    except subprocess.TimeoutExpired:
        raise FailedError(f"not done after {_WAIT} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise FailedError(lines[-1][:160])
    found: Found = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def earlier(folder: Path) -> Path:
    """Unpack the source tree of the earlier commit."""
    packed = subprocess.run(["git", "archive", BASELINE, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def lines_of(case: str, n: int, baseline: Path | None, peers: bool, notes: list[str]) -> Iterator[list[str]]:
    """Measure one case and yield its lines; what fails is noted."""

    def tried(what: str, source: Path, label: str) -> Found:
        try:
            return measured(case, what, n, source)
        except FailedError as error:
            notes.append(f"{label} on {case}: {error}")
            return {}

    now = tried("gbce", ROOT, "gbce")
    if not now:
        yield [case, *[""] * (len(HEAD) - 1)]
        return
    before = tried("gbce", baseline, BASELINE) if baseline else {}
    others = [_seconds(tried(peer, ROOT, peer).get(peer, []), n) if peers else "" for peer in PEERS]
    for prior in PRIORS:
        mine, theirs = now[prior], before.get(prior, [])
        ratio = median(one["seconds"] / one["bare"] for one in mine)
        yield [
            case,
            prior,
            *_asked(mine),
            _number(median(one["bare"] for one in mine)),
            f"{ratio:.2f}",
            *(_asked(theirs) if theirs else [""] * 3),
            *others,
        ]


def _asked(found: list[dict[str, float]]) -> list[str]:
    rows, calls, seconds = (median(one[name] for one in found) for name in ("rows", "calls", "seconds"))
    return [f"{rows:,.0f}", f"{calls:,.0f}", _number(seconds)]


def _seconds(found: list[dict[str, float]], n: int) -> str:
    if not found:
        return ""
    seconds = _number(median(one["seconds"] for one in found))
    missing = sum(not one["answers"] for one in found)
    remarks = [f"{len(found)} rows"] * (len(found) < n) + [f"{missing} without an answer"] * (missing > 0)
    return seconds + (f" ({', '.join(remarks)})" if remarks else "")


def _number(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def write(text: str) -> None:
    """Put the table between its marks in the document."""
    page = DOCUMENT.read_text(encoding="utf-8")
    head, rest = page.split(MARKS[0])
    tail = rest.split(MARKS[1])[1]
    DOCUMENT.write_text(f"{head}{MARKS[0]}\n{text}\n{MARKS[1]}{tail}", encoding="utf-8")


def _commit() -> str:
    said: Any = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return str(said.stdout).strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5, help="rows of each table")
    parser.add_argument("--tables", nargs="+", choices=[*CASES], default=[*CASES], help="which tables and models")
    parser.add_argument("--baseline", type=Path, help=f"source tree of {BASELINE}; taken out of git when left out")
    parser.add_argument("--no-baseline", action="store_true", help="this commit alone")
    parser.add_argument("--no-peers", action="store_true", help="without DiCE")
    parser.add_argument("--docs", action="store_true", help=f"write the table into {DOCUMENT.relative_to(ROOT)}")
    options = parser.parse_args()
    notes: list[str] = []
    table = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    print("\n".join(table), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        baseline = options.baseline
        if baseline is None and not options.no_baseline:
            try:
                baseline = earlier(Path(folder))
            except (OSError, subprocess.CalledProcessError) as error:
                notes.append(f"{BASELINE}: {error}")
        for case in options.tables:
            for cells in lines_of(case, options.rows, baseline, not options.no_peers, notes):
                table.append("| " + " | ".join(cells) + " |")
                print(table[-1], flush=True)
    notes.append(f"Medians over {options.rows} rows of each table, commit {_commit()} beside {BASELINE}.")
    text = "\n".join([*table, "", *(f"- {note}" for note in notes)])
    print("\n" + "\n".join(f"- {note}" for note in notes))
    if options.docs:
        write(text)


if __name__ == "__main__":
    main()
