"""Recompute Section 3 of the paper: ``python -m experiments [names] [--fast]``.

Each name is a table or a figure; ``all`` (the default) makes every one, ``real`` the real-data tables. Tables are
printed beside the paper's own numbers and written to the output folder, with the figures as PNG and PDF.
"""

import argparse
import glob
import json
import os
import time
from pathlib import Path

from experiments import standin
from experiments.base_points import search
from experiments.items import ITEMS
from experiments.output import write
from experiments.page import page, published
from experiments.trends import read_trends
from experiments.workshop import Trends, Workshop

GROUPS = {
    "all": list(ITEMS),
    "real": ["real2d", "real10d", "real-varimp", "real-success"],
    "simulated": ["base-points", "clues", "table1", "table1-posterior", "table2", "table2-posterior", "varimp"],
}

KNOWN = [*GROUPS, *ITEMS, "search-base-points", "page"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in KNOWN]
    if unknown:
        parser.error(f"unknown name {unknown[0]!r}; choose from {', '.join(KNOWN)}")
    if options.names == ["search-base-points"]:
        for d in (2, 10):
            print(f"{d}-D: {search(d).tolist()}", flush=True)
        return 0
    if options.names == ["page"]:
        print(f"wrote {published(Path(options.out), Path(options.docs or 'docs'))}")
        return 0
    names = [name for given in options.names for name in GROUPS.get(given, [given])]
    shop = Workshop(
        out=Path(options.out),
        fast=options.fast,
        budget=options.budget,
        n_seeds=options.seeds or (5 if options.fast else 20),
        n_refits=options.refits if options.refits is not None else (2 if options.fast else 4),
        every=options.every or (6 if options.fast else 1),
        n_jobs=options.jobs,
        trends=_trends(options),
    )
    begun = time.perf_counter()
    items = {}
    for name in dict.fromkeys(names):
        items[name] = ITEMS[name](shop)
        print(f"{items[name]}\n", flush=True)
        write(shop.out / f"{name}.txt", f"{items[name]}\n")
        data = items[name].table if items[name].data is None else items[name].data
        if data is not None:
            write(shop.out / f"{name}.csv", data.to_csv())
        write(shop.out / f"{name}.md", f"{items[name].markdown()}\n")
    write(shop.out / "run.json", json.dumps(_described(shop), indent=1))
    if all((shop.out / f"{name}.md").exists() for name in ITEMS):
        print(f"wrote {write(shop.out / 'paper.md', page(shop.out))}")
    if options.docs:
        print(f"wrote {published(shop.out, Path(options.docs))}")
    print(f"{len(items)} results in {time.perf_counter() - begun:.0f} s, in {shop.out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", default=["all"], metavar="name", help=f"any of: {', '.join(KNOWN)}")
    parser.add_argument("--fast", action="store_true", help="fixed models instead of AutoML, few seeds and base points")
    parser.add_argument("--budget", type=float, default=25.0, help="processor seconds of AutoML per estimator (25)")
    parser.add_argument("--seeds", type=int, help="runs of each simulated experiment (20; 5 with --fast)")
    parser.add_argument("--refits", type=int, help="refits of the simulated models, data drawn anew (4; 2 with --fast)")
    parser.add_argument("--every", type=int, help="take every n-th real base point (1; 6 with --fast)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", default="out/paper", help="folder for results")
    parser.add_argument("--docs", help="also write paper.md and img/paper/ into this folder")
    parser.add_argument("--data", nargs="+", help="your own Google Trends exports instead of the SYNTHETIC stand-in")
    parser.add_argument("--target", default="One Piece", help="the outcome's column in --data")
    parser.add_argument("--pair", nargs=2, default=["Summer vacation", "Jump"], help="features of the 2-D analysis")
    return parser


def _described(shop: Workshop) -> dict[str, object]:
    return {
        "fast": shop.fast,
        "budget": shop.budget,
        "seeds": shop.n_seeds,
        "refits": shop.n_refits,
        "seeds of refits": shop.n_seeds_of_refits,
        "real data": shop.trends.label,
    }


def _trends(options: argparse.Namespace) -> Trends:
    if options.data is None:
        source, label = standin.standin(), "SYNTHETIC stand-in"
    else:
        files = sorted(path for pattern in options.data for path in (glob.glob(pattern) or [pattern]))
        source, label = files, "your data"
    read = read_trends(source, target=options.target, lag=1)
    columns = {str(name).removesuffix("_lag1"): str(name) for name in read.X.columns}
    missing = [name for name in options.pair if name not in columns]
    if missing:
        raise SystemExit(f"--pair names {missing}, but the series are {list(columns)}")
    if options.data is not None:
        for note in read.notes:
            print(f"note: {note}")
    first, second = (columns[name] for name in options.pair)
    # the paper's own terms are put in the paper's order, so that its rows of VarImp line up
    order = [columns[name] for name in standin.FEATURES if name in columns]
    X = read.X[order] if len(order) == read.X.shape[1] else read.X
    return Trends(X, read.y, (first, second), label)


if __name__ == "__main__":
    raise SystemExit(main())
