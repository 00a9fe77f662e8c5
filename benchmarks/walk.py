"""The way of one row: which rooms call which, in a small run.

``python -m benchmarks.walk`` explains one row of three columns and prints how many functions and files took part, each
pair of rooms of which one calls the other, and the calls that go up, from a room to one that comes after it. A function
that was made for the call and handed in (a model, a judge of points, a task) is no call from one room to another; what
it calls counts for the room that it is written in.
"""

import argparse
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import gbce

_HANDED_IN = "<locals>"  # in the name of a function that was made inside of another


def main() -> None:
    """Trace one run and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", action="store_true", help="print every pair of rooms")
    options = parser.parse_args()
    walk = trace()
    rooms = {room for pair in walk["edges"] for room in pair}
    print(f"{len(walk['functions'])} functions in {len(walk['files'])} files of {len(rooms)} rooms")
    print(f"{len(walk['edges'])} distinct room-to-room edges, {sum(walk['edges'].values()):,} calls between rooms")
    order = tiers()
    up = {
        pair: n
        for pair, n in walk["edges"].items()
        if set(pair) <= {*order} and order.index(pair[0]) < order.index(pair[1])
    }
    print(f"{len(up)} of the edges go up: " + (", ".join(f"{a} -> {b} ({n})" for (a, b), n in up.items()) or "none"))
    if options.edges:
        for (a, b), n in sorted(walk["edges"].items()):
            print(f"  {a} -> {b}: {n}")


def tiers() -> list[str]:
    """Return the rooms from the lowest to the highest, as the contract in pyproject.toml lists them."""
    import tomllib

    path = Path(__file__).parents[1] / "pyproject.toml"
    contracts = tomllib.loads(path.read_text())["tool"].get("importlinter", {}).get("contracts", [])
    return [*reversed(contracts[0]["layers"]), "__init__"] if contracts else []


def trace() -> dict[str, Any]:
    """Explain one row and summarise it; return calls between rooms, and functions in the order of their first calls."""
    root = str(Path(gbce.__file__).parent)
    data = np.random.default_rng(0).normal(size=(200, 3))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, sampler=gbce.SMC(n_candidates=2_000, n_draws=400))
    explainer.explain(data[1], gbce.AtLeast(2.0), seed=0).summary()  # what is imported late is imported now
    edges: Counter[tuple[str, str]] = Counter()
    functions: dict[tuple[str, str], None] = {}  # in the order of their first calls
    files = set()

    def look(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(root):
            return
        functions.setdefault((str(Path(code.co_filename).relative_to(root)), code.co_qualname))
        files.add(code.co_filename)
        if _HANDED_IN in code.co_qualname:
            return
        back = frame.f_back
        while back is not None and not back.f_code.co_filename.startswith(root):
            back = back.f_back  # through numpy, dataclasses and the like
        if back is not None:
            pair = tuple(Path(f).relative_to(root).parts[0].removesuffix(".py") for f in
                         (back.f_code.co_filename, code.co_filename))  # fmt: skip
            if pair[0] != pair[1]:
                edges[pair] += 1  # type: ignore[index]

    threading.setprofile(look)  # tasks that ask the models together run in threads
    sys.setprofile(look)
    try:
        explainer.explain(data[0], gbce.AtLeast(2.0), seed=0).summary()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {"edges": edges, "functions": list(functions), "files": files}


if __name__ == "__main__":
    main()
