"""What a default explanation asks of the model and takes: rows, calls and seconds, now and at an earlier commit.

Beside it, the bare ``predict`` of as many rows of the same posterior in one call, and DiCE on the rows that were
explained. Each side is a process of its own with one thread; they take turns row by row, and seconds are those of one
core.

Columns: *rows* and *calls* of the model, *s*, CPU seconds of one core, *bare s*, one call of the model on as many rows
of the same posterior; then the earlier commit, measured in the same run, and the ratio of seconds now to its seconds,
row by row; then ``explain(..., posterior=False)``; then DiCE with one answer per row. Medians over rows. The six tables
have the constraints of ``benchmarks/tables.py``; the last three cases have none. Tables come from wheels (``pip install
--no-deps shapiq pysubgroup``), DiCE from ``pip install dice-ml``.
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks._documents import ROOT, add_docs_option, current_commit, write_results
from benchmarks._rows_worker import CASES, PRIORS

BASELINE = "c92b4bd"  # the last commit before trees had a room of their own; any other by --commit
PEERS = ("DiCE random", "DiCE genetic")
PEER_SECONDS = 20.0  # of one core, for all rows of a case; a peer that needs more gets fewer rows
MOST_SECONDS = 60.0  # by the clock, for one row; by hand: DiCE's genetic search takes minutes on some

Found = list[dict[str, float]]


def head_of(commit: str) -> list[str]:
    """Return the names of the columns."""
    return [
        "table", "prior", "rows", "calls", "s", "bare s", "s / bare", f"rows {commit}", "calls", "s", f"s / {commit}",
        "answer alone rows", "s", *PEERS,
    ]  # fmt: skip


class FailedError(RuntimeError):
    """A measurement that did not come to its end; the message is the last line it wrote."""


class Worker:
    """A process that measures with the package of one source tree, a row at a time, so that several take turns."""

    def __init__(self, case: str, what: str, n: int, source: Path) -> None:
        paths = [str(source / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "benchmarks._rows_worker", case, what, str(n)]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True,
        )  # fmt: skip
        self.n_rows = int(self._line())

    def measure(self, label: str, i: int) -> dict[str, float]:
        """Measure one row, and end the process if that takes too long."""
        assert self._process.stdin is not None
        clock = threading.Timer(MOST_SECONDS, self._process.kill)
        clock.start()
        try:
            with contextlib.suppress(BrokenPipeError):  # what happened is read below
                print(label, i, sep="\t", file=self._process.stdin, flush=True)
            said: dict[str, float] = json.loads(self._line())
        finally:
            clock.cancel()
        return said

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            lines = self._errors.read().strip().splitlines() or [f"exit code {self._process.returncode}"]
            killed = self._process.returncode < 0
            self._errors.close()
            raise FailedError(f"a row not done after {MOST_SECONDS:g} s" if killed else lines[-1][:160])
        return line

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._errors.close()


def earlier(commit: str, folder: Path) -> Path:
    """Unpack the source tree of an earlier commit."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def in_turns(workers: dict[str, Worker | None], label: str, notes: list[str], limit: float) -> dict[str, Found]:
    """Measure row after row, each by all workers before the next; one that fails is noted and left out."""
    found: dict[str, Found] = {who: [] for who in workers}
    for i in range(max((worker.n_rows for worker in workers.values() if worker), default=0)):
        for who, worker in workers.items():
            if worker is None or sum(one["seconds"] for one in found[who]) > limit:
                continue
            try:
                found[who].append(worker.measure(label, i))
            except FailedError as error:
                notes.append(f"{who}: {error}")
                workers[who] = None
    return found


def lines_of(
    case: str, n: int, commit: str, baseline: Path | None, peers: bool, notes: list[str]
) -> Iterator[list[str]]:
    """Measure one case and yield its lines; what fails is noted."""
    trees = {f"gbce on {case}": ROOT} | ({f"{commit} on {case}": baseline} if baseline else {})
    workers = {who: _started(who, case, "gbce", n, tree, notes) for who, tree in trees.items()}
    found = {prior: list(in_turns(workers, prior, notes, float("inf")).values()) for prior in PRIORS}
    _close(workers)
    others = []
    for peer in PEERS if peers else ():
        alone = {f"{peer} on {case}": _started(f"{peer} on {case}", case, peer, n, ROOT, notes)}
        others += [_seconds(one, n) for one in in_turns(alone, peer, notes, PEER_SECONDS).values()]
        _close(alone)
    for prior, (mine, *rest) in found.items():
        if not mine:
            yield [case, prior, *[""] * (len(head_of(commit)) - 2)]
            continue
        bare, ratio = (
            median(values)
            for values in zip(*((one["bare"], one["seconds"] / one["bare"]) for one in mine), strict=True)
        )
        before = [*_asked(rest[0]), _ratio(mine, rest[0])] if rest and rest[0] else [""] * 4
        answer = [
            f"{median(one['alone rows'] for one in mine):,.0f}",
            _number(median(one["alone seconds"] for one in mine)),
        ]
        peers_said = others or [""] * len(PEERS)
        yield [case, prior, *_asked(mine), _number(bare), f"{ratio:.2f}", *before, *answer, *peers_said]


def _started(who: str, case: str, what: str, n: int, source: Path, notes: list[str]) -> Worker | None:
    try:
        return Worker(case, what, n, source)
    except FailedError as error:
        notes.append(f"{who}: {error}")
        return None


def _close(workers: dict[str, Worker | None]) -> None:
    for worker in workers.values():
        if worker is not None:
            worker.close()


def _asked(found: Found) -> list[str]:
    rows, calls, seconds = (median(one[name] for one in found) for name in ("rows", "calls", "seconds"))
    return [f"{rows:,.0f}", f"{calls:,.0f}", _number(seconds)]


def _ratio(mine: Found, theirs: Found) -> str:
    return f"{median(one['seconds'] / other['seconds'] for one, other in zip(mine, theirs, strict=False)):.2f}"


def _seconds(found: Found, n: int) -> str:
    if not found:
        return ""
    seconds = _number(median(one["seconds"] for one in found))
    missing = sum(not one["answers"] for one in found)
    remarks = [f"{len(found)} of {n} rows"] * (len(found) < n) + [f"{missing} without an answer"] * (missing > 0)
    return seconds + (f" ({', '.join(remarks)})" if remarks else "")


def _number(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5, help="rows of each table")
    parser.add_argument("--tables", nargs="+", choices=[*CASES], default=[*CASES], help="which tables and models")
    parser.add_argument("--commit", default=BASELINE, help="the earlier commit, as git knows it")
    parser.add_argument("--baseline", type=Path, help="source tree of that commit; taken out of git when left out")
    parser.add_argument("--no-baseline", action="store_true", help="this commit alone")
    parser.add_argument("--no-peers", action="store_true", help="without DiCE")
    add_docs_option(parser)
    options = parser.parse_args()
    notes: list[str] = []
    head = head_of(options.commit)
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    print("\n".join(table), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        baseline = options.baseline
        if baseline is None and not options.no_baseline:
            try:
                baseline = earlier(options.commit, Path(folder))
            except (OSError, subprocess.CalledProcessError) as error:
                notes.append(f"{options.commit}: {error}")
        for case in options.tables:
            for cells in lines_of(case, options.rows, options.commit, baseline, not options.no_peers, notes):
                table.append("| " + " | ".join(cells) + " |")
                print(table[-1], flush=True)
    notes.append(f"Medians over {options.rows} rows of each table, commit {current_commit()} beside {options.commit}.")
    text = "\n".join([*table, "", *(f"- {note}" for note in notes)])
    print("\n" + "\n".join(f"- {note}" for note in notes))
    if options.docs:
        write_results("rows", text, __doc__)


if __name__ == "__main__":
    main()
