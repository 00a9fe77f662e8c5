"""Growth: CPU seconds per row and peak memory of a table that is streamed into a store, by its number of rows.

Answers alone, of a linear model of eight columns (California housing, a house of more than the median price), each
number of rows in a process of its own. Rows come from an iterator of frames, drawn from those that the model refuses.
Columns: *s per row*, CPU seconds without the first group, in which loops are compiled; *peak MB*, the largest resident
memory of the process; *of first*, both as a ratio to the first line; *MB on disk*.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

import gbce
from benchmarks._clock import peak_memory
from benchmarks._documents import add_docs_option, current_commit, markdown, write_results
from benchmarks.many import asked

_PART = 512  # rows of a frame


def draw_frames(rows: pd.DataFrame, n: int) -> Iterator[pd.DataFrame]:
    """Yield ``n`` rows in frames, drawn with replacement."""
    for start in range(0, n, _PART):
        yield rows.sample(min(_PART, n - start), replace=True, random_state=start, ignore_index=True)


def measure(n: int) -> dict[str, float]:
    """Explain ``n`` rows in this process; return CPU seconds per row, and megabytes at most and on disk."""
    X, model, rows = asked("california", "logistic")
    explainer, target = gbce.Explainer(model, X), gbce.Class(model.classes_[-1])
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"posterior": False, "seed": 0, "progress": False}
        explainer.explain_many(draw_frames(rows, 16), target, store=f"{folder}/first", **options)
        start = time.process_time()
        table = explainer.explain_many(draw_frames(rows, n), target, store=f"{folder}/rows", **options)
        seconds = (time.process_time() - start) / n
        if len(table) != n:
            raise RuntimeError(f"{len(table)} rows of {n} are in the store")
        held = sum(file.stat().st_size for file in Path(f"{folder}/rows").rglob("*") if file.is_file())
    return {"seconds": seconds, "peak": peak_memory(), "disk": held / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 1_000, 10_000], help="numbers of rows, in order")
    parser.add_argument("--one", type=int, help="measure one number of rows in this process, and print it as JSON")
    add_docs_option(parser)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    lines, first = [], None
    for n in options.rows:
        command = [sys.executable, "-m", "benchmarks.growth", "--one", str(n)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(told.splitlines()[-1])
        first = first or found
        ratio = [f"{found[name] / first[name]:.2f}" for name in ("seconds", "peak")]
        shown = [f"{found['seconds']:.4f}", ratio[0], f"{found['peak']:.0f}", ratio[1], f"{found['disk']:.2f}"]
        lines.append([f"{n:,}", *shown])
        print(" | ".join(lines[-1]), flush=True)
    text = markdown(["rows", "s per row", "of first", "peak MB", "of first", "MB on disk"], lines)
    if options.docs:
        write_results("growth", f"{text}\n\n- Commit {current_commit()}.", __doc__)


if __name__ == "__main__":
    main()
