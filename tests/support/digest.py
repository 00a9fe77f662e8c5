"""Digests of a battery of questions: the same bits before and after a change that must not change an answer.

``python tests/support/digest.py --save before.json`` explains every question and keeps one digest of its draws, one of
its decisions and one of its tables; ``--compare before.json`` explains them again and names what differs. Only public
names are used, so that the file runs before and after the inside of the package moves. Digests are of exact bits: they
are compared on one machine, and none is kept in the repository.
"""

import argparse
import ast
import hashlib
import io
import json
import re
import sys
import threading
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))  # wherever it is run from

import digest_doors  # noqa: F401, enters its questions
from digest_questions import QUESTIONS
from digest_wide import WIDE
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import gbce

# digested with the words, or no figure
_IN_WORDS = ("verdict", "sampling", "sampling_note", "posterior_note", "notes", "spikes")


# --- digests ----------------------------------------------------------------------------------------------------


def digest(*parts: Any) -> str:
    """Return a short digest of arrays, frames and plain values, to the last bit."""
    total = hashlib.sha256()
    for part in parts:
        total.update(repr(part).encode() if isinstance(part, (str, int, float, type(None))) else _bytes(part))
    return total.hexdigest()[:16]


def _bytes(part: Any) -> bytes:
    if isinstance(part, (pd.DataFrame, pd.Series)):
        frame = part.to_frame() if isinstance(part, pd.Series) else part
        columns = [repr([value.hex() if isinstance(value, float) else str(value) for value in frame[name].tolist()])
                   for name in frame.columns]  # fmt: skip
        return repr((list(map(str, frame.columns)), list(map(str, frame.index)), columns)).encode()
    if isinstance(part, Axes | Figure | list | tuple | np.ndarray) and not (
        isinstance(part, np.ndarray) and part.dtype != object
    ):
        figures = [one for one in np.ravel(np.array(part, dtype=object)) if isinstance(one, Axes | Figure)]
        return b"".join(_pixels(one if isinstance(one, Figure) else one.figure) for one in figures)
    array = np.ascontiguousarray(part)
    return repr((array.shape, str(array.dtype))).encode() + array.tobytes()


def _pixels(figure: Any) -> bytes:
    """Return what a figure looks like."""
    kept = io.BytesIO()
    figure.savefig(kept, format="rgba", dpi=60)
    plt.close(figure)
    return kept.getvalue()


def _as_written(text: str) -> str:
    """Return a text without what differs from run to run: times and identifiers of elements."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.+Z]+", "TIME", text)
    return re.sub(r"[0-9.]+ s\b", "SECONDS", re.sub(r"gbce-[0-9a-f]{8,}", "ID", text))


def digests(found: Any) -> dict[str, str]:
    """Return digests of the draws, decisions and tables of an explanation, or of a table."""
    if isinstance(found, dict):
        return {f"{name}, {what}": value for name, one in found.items() for what, value in digests(one).items()}
    if isinstance(found, str):
        return {"text": digest(_as_written(found))}
    if isinstance(found, list):
        return {f"{i}, {what}": value for i, one in enumerate(found) for what, value in digests(one).items()}
    if not isinstance(found, gbce.Explanation):
        return {"table": digest(found)}
    draws, pool = found.draws, found.draws.pool
    diagnostics = {name: value for name, value in found.diagnostics.items() if name not in _IN_WORDS}
    return {
        "draws": digest(draws.x, draws.z, draws.weights, draws.outputs, draws.loss, draws.reached, pool.x, pool.cost),
        # without "changed", which follows from the others: digests of before it was there can still be compared
        "decisions": digest(
            found.counterfactuals, found.changes(), found.pointwise.drop(columns="changed", errors="ignore")
        ),
        "tables": digest(found.distribution, found.importance, found.intervals()),
        "diagnostics": digest(json.dumps(diagnostics, default=str, sort_keys=True)),
        "words": digest(str(found.status), *found.notes, str(found.diagnostics["verdict"]), found.summary()),
    }


class Bodies:
    """Which function bodies of the package are entered: all that are compiled from its files, and those called."""

    def __init__(self) -> None:
        self.entered: set[tuple[str, int]] = set()
        self.folder = Path(gbce.__file__).parent

    def __enter__(self) -> "Bodies":
        sys.setprofile(self._see)
        threading.setprofile(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _see(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            self.entered.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    def written(self) -> list[tuple[str, int, str]]:
        """Return file, line and name of all functions and methods of the package that have a body to enter."""
        found = []
        for path in sorted(self.folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_declared(node):
                    line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                    found.append((str(path), line, node.name))
        return found

    def report(self, every: bool) -> str:
        """Return the share that was entered and, room by room or one by one, what was not."""
        written = self.written()
        missing = [one for one in written if one[:2] not in self.entered]
        lines = [f"{len(written) - len(missing)} of {len(written)} function bodies entered"
                 f" ({1 - len(missing) / len(written):.1%})"]  # fmt: skip
        names = [(str(Path(path).relative_to(self.folder)), name) for path, _, name in missing]
        if every:
            lines += [f"  {path}: {name}" for path, name in names]
        return "\n".join(lines)


def _is_declared(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function has no body: an ellipsis, as in protocols and overloads."""
    body = node.body[1:] if isinstance(node.body[0], ast.Expr) and ast.get_docstring(node) else node.body
    return all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in body)


def main() -> int:
    """Explain all questions, or those whose name contains a word, and print, keep or compare their digests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="WORD", default="", help="questions whose name contains it")
    parser.add_argument("--save", type=Path, metavar="FILE", help="where to keep the digests")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="digests to compare with")
    parser.add_argument("--bodies", action="store_true", help="print the share of function bodies that is entered")
    parser.add_argument("--missing", action="store_true", help="and those that are not")
    options = parser.parse_args()
    bodies = Bodies() if options.bodies or options.missing else None
    with bodies or nullcontext():
        different = explain_all(options)
    if bodies:
        print(bodies.report(options.missing))
    return int(different)


def explain_all(options: argparse.Namespace) -> bool:
    """Explain, print, keep and compare; return whether anything differs."""
    warnings.simplefilter("ignore")
    kept = json.loads(options.compare.read_text()) if options.compare else {}
    now: dict[str, dict[str, str]] = {}
    different = []
    for name, explain in (QUESTIONS | WIDE).items():
        if options.only in name:
            now[name] = digests(explain())
            wrong = [what for what, value in now[name].items() if kept.get(name, {}).get(what) != value]
            mark = "" if not kept else "  DIFFERENT" if wrong else "  same"
            print(f"{name}{mark}: {len(now[name])} digests", flush=True)
            different += [f"{name}: {what}" for what in wrong] if kept else []
    if options.save:
        options.save.write_text(json.dumps(now, indent=1))
    print(f"\n{len(now)} questions" + (f", {len(different)} digests differ" if kept else ""))
    for line in different:
        print(f"  {line}")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
