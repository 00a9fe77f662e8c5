"""What a default explanation of a linear model takes with many columns: rows, seconds, memory, and sizes of its files.

Every number of columns is a process of its own with one thread. The data are normal, the model is a regression in a
pipeline or behind a function, and nothing is said about the columns. A tenth of the columns matters for the model.

Columns: *rows* of the model, *verdict* on the draws, *s*, CPU seconds of the explanation with all that is loaded for
it, *MB*, the largest memory of the process beyond what it had before, *file* and *page*, sizes in kB of the saved
explanation and of its page. The last lines are the seconds of the largest number of columns over those of the smallest.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from benchmarks._documents import ROOT, add_docs_option, print_into

KINDS = ("pipeline", "function")
HEAD = f"{'model':<10}{'columns':>8}{'rows':>10}{'s':>8}{'MB':>7}{'file':>8}{'page':>8}  verdict"
ROWS, MATTERS = 1_000, 0.1


def measure(kind: str, columns: int) -> dict[str, float | str]:
    """Explain one row of a table with so many columns, and save what was found."""
    rng = np.random.default_rng(columns)
    X = pd.DataFrame(rng.normal(size=(ROWS, columns)), columns=[f"column {j + 1}" for j in range(columns)])
    slope = np.where(np.arange(columns) < MATTERS * columns, rng.normal(size=columns), 0.0)
    y = X.to_numpy() @ slope + rng.normal(size=ROWS)
    fitted = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
    model = fitted if kind == "pipeline" else fitted.predict
    outputs = fitted.predict(X)
    row, target = X.iloc[[int(np.argsort(outputs)[ROWS // 4])]], gbce.AtLeast(float(np.quantile(outputs, 0.75)))
    before, start = _peak_memory(), time.process_time()
    explanation = gbce.Explainer(model, X).explain(row, target, seed=0, progress=False)
    seconds, memory = time.process_time() - start, _peak_memory() - before
    with tempfile.TemporaryDirectory() as folder:
        file, page = explanation.save(Path(folder) / "one.gbce"), Path(folder) / "page.html"
        explanation.to_html(page)
        sizes = Path(file).stat().st_size, page.stat().st_size
    said = explanation.diagnostics
    return {
        "rows": int(said["n_model_rows"]), "s": seconds, "MB": memory, "file": sizes[0] / 1e3, "page": sizes[1] / 1e3,
        "verdict": str(said["sampling"]),
    }  # fmt: skip


def _peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--columns", type=int, nargs="+", default=[100, 300])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--one", nargs=2, metavar=("KIND", "COLUMNS"), help="measure in this process, and print JSON")
    add_docs_option(parser)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with print_into("wide", options.docs, __doc__):
        print(HEAD, flush=True)
        for kind in options.kinds:
            seconds = []
            for columns in options.columns:
                command = [sys.executable, "-m", "benchmarks.wide", "--one", kind, str(columns)]
                done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
                one = json.loads(done.stdout.splitlines()[-1])
                seconds.append(one["s"])
                print(
                    f"{kind:<10}{columns:>8}{one['rows']:>10,}{one['s']:>8.2f}{one['MB']:>7,.0f}{one['file']:>8,.0f}"
                    f"{one['page']:>8,.0f}  {one['verdict']}",
                    flush=True,
                )
            first, last = options.columns[0], options.columns[-1]
            print(f"- {kind}: {last} columns take {seconds[-1] / seconds[0]:.1f} times the seconds of {first}")


if __name__ == "__main__":
    main()
