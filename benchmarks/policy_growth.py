"""Growth of ``gbce.policy``: CPU seconds and peak memory by the number of rows of a store that is read from disk.

A linear score of five columns (pay, debt, job, years, age); every row misses the target. Answers are made, not searched
for, so that 100,000 rows take seconds: each closes the gap by pay, by debt or by both, and is written into a store as
``explain_many`` writes it, every row and answer its own. ``actions`` looks for three with its defaults; ``allocate``
spends a tenth of what everybody costs, ``surely`` is ``allocate`` with half of the rows at a probability of 0.9 and no
budget; ``fairness`` compares three groups; ``review`` asks another model. Plans are of one row, and are left out.

Each line is a process of its own. Columns: *s*, CPU seconds of the call; *before MB*, the largest resident memory of
the process with packages, explainer and store opened, and *peak MB* that at the end; *of first*, the peak as a ratio to
that of the fewest rows; *bytes a row*, what it is more for each row more; *proved*, whether no other rows are better.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks._clock import peak_memory
from benchmarks._documents import add_docs_option, markdown, print_into
from gbce import policy
from gbce.batch._columns import stored_schema
from gbce.batch._store import Store
from gbce.distributed import explain_partition

_PART = 64  # rows of a partition, as explain_many writes a large table
_REACHED = 60.0


def score(frame: pd.DataFrame) -> pd.Series:
    """Return what the target is about."""
    return frame["pay"] - 0.5 * frame["debt"] + 8.0 * (frame["job"] == "nurse") + 2.0 * frame["years"]


def score_today(frame: pd.DataFrame) -> pd.Series:
    """Return the score of a later model."""
    return score(frame) - 1.0 + 0.02 * frame["age"]


def draw_rows(n: int, seed: int) -> pd.DataFrame:
    """Draw ``n`` rows that miss the target."""
    rng = np.random.default_rng(seed)
    m = 4 * n + 100
    frame = pd.DataFrame(
        {
            "pay": rng.normal(48, 9, m).round(1), "debt": rng.gamma(2.0, 12.0, m).round(1),
            "job": rng.choice(["clerk", "nurse", "cook"], m), "years": rng.integers(0, 12, m),
            "age": rng.integers(20, 70, m),
        }
    )  # fmt: skip
    return frame[score(frame) < _REACHED].iloc[:n].reset_index(drop=True)


def make_explainer() -> gbce.Explainer:
    """Return an explainer of the score."""
    data = draw_rows(400, 0)
    bounds = {"debt": (0, None), "pay": (0, None), "years": (0, 40)}
    return gbce.Explainer(score, data, space=gbce.Space.infer(data, immutable=["age"], bounds=bounds))


def write_store(folder: Path, n: int) -> None:
    """Write ``n`` rows with answers that are made; everything else is as that of a row that was explained.

    What is there is kept.
    """
    explainer, target = make_explainer(), gbce.AtLeast(_REACHED)
    space = explainer.space
    explained = explain_partition(explainer, draw_rows(1, 2), target)
    folder.mkdir(parents=True, exist_ok=True)
    known = {"rows": None, "n": n, "seed": 0}
    store = Store.begin(folder, {"keep": None}, known, space, target, "score", _PART, [0])
    schema = stored_schema(space)
    for number, start in enumerate(range(0, n, _PART)):
        if store.path(number).exists():
            continue
        rng = np.random.default_rng([1, number])
        frame = draw_rows(min(_PART, n - start), 3 + number)
        aims, gap = frame.copy(), _REACHED - score(frame).to_numpy()
        off = np.minimum(2.0 * rng.choice([0.0, 0.5, 1.0], len(frame)) * gap, frame["debt"]).round(1)
        aims["debt"] = (frame["debt"] - off).round(1)
        aims["pay"] = (frame["pay"] + np.maximum(gap - off / 2, 0.0) + rng.uniform(0.1, 2.0, len(frame))).round(1)
        x0, x = space.encode(frame), space.encode(aims)
        reliability = rng.uniform(0.5, 1.0, len(frame))
        lines = pd.concat([explained] * len(frame), ignore_index=True).assign(
            position=np.arange(start, start + len(frame)), label=[str(start + i) for i in range(len(frame))],
            kind="reliable", reached=True, cost=gbce.metrics.costs(space, x, x0, "l1"), reliability=reliability,
            reliability_low=reliability - 0.03, reliability_high=np.minimum(reliability + 0.03, 1.0),
            changes="raise pay to " + aims["pay"].astype(str) + " and lower debt to " + aims["debt"].astype(str),
        )  # fmt: skip
        for prefix, values in (("row_", frame), ("answer_", aims)):
            lines = lines.assign(**{f"{prefix}{name}": values[name] for name in values})
        store.write(number, lines[list(schema)], f"{number}")


def by_actions(table: Any, explainer: gbce.Explainer) -> dict[str, Any]:
    """Find three actions."""
    found = policy.actions(table, 3, explainer=explainer, seed=0)
    return {"coverage": found.coverage[-1].share}


def by_allocate(table: Any, explainer: gbce.Explainer) -> dict[str, Any]:
    """Spend a tenth of what all rows cost."""
    whole = sum(float(frame["cost"].sum()) for frame in table.frames(["cost"]))
    found = policy.allocate(table, 0.1 * whole)
    return {"proved": found.proved, "expected": found.expected[0]}


def by_allocate_surely(table: Any, explainer: gbce.Explainer) -> dict[str, Any]:
    """Reach half of the rows with some probability at the least cost."""
    found = policy.allocate(table, at_least=len(table) // 2, probability=0.9)
    return {"proved": found.proved, "chance": found.chance}


def by_fairness(table: Any, explainer: gbce.Explainer) -> dict[str, Any]:
    """Compare the groups of a column."""
    return {"groups": len(policy.fairness(table, "job").groups)}


def by_review(table: Any, explainer: gbce.Explainer) -> dict[str, Any]:
    """Ask another model."""
    return {"served": policy.review(table, score_today, explainer=explainer).served.share}


CALLS: dict[str, Callable[[Any, gbce.Explainer], dict[str, Any]]] = {
    "actions": by_actions, "allocate": by_allocate, "surely": by_allocate_surely, "fairness": by_fairness,
    "review": by_review,
}  # fmt: skip


def measure(call: str, folder: Path) -> dict[str, Any]:
    """Run one call on a store in this process."""
    explainer, table = make_explainer(), gbce.load(folder)
    before, start = peak_memory(), time.process_time()
    found = CALLS[call](table, explainer)
    return {"seconds": time.process_time() - start, "before": before, "peak": peak_memory(), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="numbers of rows")
    parser.add_argument("--calls", nargs="+", choices=list(CALLS), default=list(CALLS))
    parser.add_argument("--one", nargs=2, metavar=("CALL", "STORE"), help="measure in this process, and print JSON")
    parser.add_argument("--stores", type=Path, help="folder in which stores are kept, and not written again")
    add_docs_option(parser)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], Path(options.one[1]))))
        return
    lines, first = [], dict[str, tuple[int, float]]()
    with tempfile.TemporaryDirectory() as temporary:
        for n in options.rows:
            store = (options.stores or Path(temporary)) / str(n)
            write_store(store, n)
            for call in options.calls:
                command = [sys.executable, "-m", "benchmarks.policy_growth", "--one", call, str(store)]
                told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                found = json.loads(told.splitlines()[-1])
                least, peak = first.setdefault(call, (n, found["peak"]))
                more = f"{(found['peak'] - peak) * 2**20 / (n - least):.0f}" if n > least else ""
                numbers = [f"{found['seconds']:.2f}", f"{found['before']:.0f}", f"{found['peak']:.0f}"]
                proved = {True: "yes", False: "no"}.get(found.get("proved"), "")
                lines.append([call, f"{n:,}", *numbers, f"{found['peak'] / peak:.2f}", more, proved])
                print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    lines.sort(key=lambda line: list(CALLS).index(line[0]))
    with print_into("policy growth", options.docs, __doc__):
        print(markdown(["call", "rows", "s", "before MB", "peak MB", "of first", "bytes a row", "proved"], lines))


if __name__ == "__main__":
    main()
