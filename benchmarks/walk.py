"""The size of the package, and the way of one row through it.

``python -m benchmarks.walk`` prints two tables: files, lines, docstrings and constants of ``src/gbce``, and, for four
traced calls, how many functions, files and rooms take part and how many pairs of rooms call each other; and a sentence
on the lines of each capability. ``--edges`` lists these pairs for a small run and the calls that go up, from a room to
a later one. A function made for the call and handed in (a model, a judge of points, a task) is no call between rooms;
what it calls counts for its own room. ``--docs`` writes the tables into docs/architecture.md.
"""

import argparse
import ast
import io
import sys
import textwrap
import threading
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import gbce

ROOT = Path(__file__).resolve().parents[1]
_PACKAGE = Path(gbce.__file__).parent
_HANDED_IN = "<locals>"  # in the name of a function that was made inside of another
_MARK = "size"
# What people could do without, by rooms, the others being what every explanation takes.
_CAPABILITIES = {
    "tree ensembles read from inside (exact sums and draws, proofs, safe boxes)": ("trees",),
    "plots": ("plots",),
    "many rows, stores and clusters": ("batch", "distributed"),
    "decisions about many rows": ("policy",),
    "refitted and other models, frontiers, sensitivity": ("ensembles", "stress"),
    "pages and the widget": ("pages",),
    "texts, letters and certificates": ("words",),
    "the command line": ("cli",),
    "the service and MLflow": ("serve", "mlflow"),
    "files": ("files",),
}


def main() -> None:
    """Print sizes and walks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--edges", action="store_true", help="print every pair of rooms of a small run, and what goes up"
    )
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/architecture.md")
    options = parser.parse_args()
    if options.edges:
        _print_edges(trace())
        return
    counted = _tabulate([_count(name, call) for name, call in calls().items()])
    text = f"{_tabulate([measure()])}\n\n{_describe_capabilities()}\n\n{counted}"
    print(text)
    if options.docs:
        page = ROOT / "docs" / "architecture.md"
        before, rest = page.read_text().split(f"<!-- {_MARK} -->\n")
        after = rest.split(f"<!-- /{_MARK} -->")[1]
        page.write_text(f"{before}<!-- {_MARK} -->\n{text}\n<!-- /{_MARK} -->{after}")


def _tabulate(rows: list[dict[str, Any]]) -> str:
    """Return rows as a table in Markdown."""
    shown = [[f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()] for row in rows]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *shown]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- sizes ----------------------------------------------------------------------------------------------------------


def measure() -> dict[str, Any]:
    """Return files, lines, lines of code, docstrings and comments, sizes of functions, and numeric constants."""
    files, functions = [], []
    lines = docstrings = comments = blank = single = several = 0
    tuning: list[int] = []
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        files.append(text.count("\n"))
        lines += files[-1]
        blank += sum(not line.strip() for line in text.splitlines())
        comments += sum(
            token.type == tokenize.COMMENT and token.line.strip().startswith("#")
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                docstrings += _lines_of(node.body[0])
            if isinstance(node, ast.FunctionDef):
                own = [one for one in node.body if not _is_docstring(one)]
                functions.append(sum(map(_lines_of, own)))
        ones, more = _count_constants(tree)
        single, several = single + ones, several + more
        tuning += [size for size in map(_count_tuning, tree.body) if size]
    return {
        "files": len(files),
        "lines": lines,
        "code": lines - blank - comments - docstrings,
        "docstrings": docstrings,
        "comments": comments,
        "file, median / max": f"{np.median(files):.0f} / {max(files)}",
        "function, median / p95 / max": " / ".join(f"{np.quantile(functions, q):.0f}" for q in (0.5, 0.95, 1.0)),
        "numeric constants": single,
        "with those in tuples": several,
        "tuning objects / numbers in them": f"{len(tuning)} / {sum(tuning)}",
    }


def _describe_capabilities() -> str:
    """Return a sentence on the lines that each capability takes, the largest first, and on those of all others."""
    lines = Counter[str]()
    for path in _PACKAGE.rglob("*.py"):
        lines[path.relative_to(_PACKAGE).parts[0].removesuffix(".py")] += path.read_text().count("\n")
    sizes = {name: sum(lines.pop(room) for room in rooms) for name, rooms in _CAPABILITIES.items()}
    listed = [f"{name} {size:,}" for name, size in sorted(sizes.items(), key=lambda one: -one[1])]
    core = f"{sum(lines.values()):,} lines are what every explanation takes ({len(lines)} rooms)"
    return textwrap.fill(f"Of these, {core}. The others are capabilities: {'; '.join(listed)}.", 120)


def _lines_of(node: Any) -> int:
    return int(node.end_lineno - node.lineno + 1)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _count_constants(tree: ast.Module) -> tuple[int, int]:
    """Return how many numbers a module names in capitals, one to an assignment, and those in tuples as well."""
    single = several = 0
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [one.id for target in targets if target for one in ast.walk(target) if isinstance(one, ast.Name)]
        value = getattr(node, "value", None)
        plain = isinstance(value, ast.Constant | ast.Tuple | ast.BinOp | ast.UnaryOp)
        if names and plain and value is not None and all(name.isupper() for name in names):
            numbers = [
                one for one in ast.walk(value) if isinstance(one, ast.Constant) and type(one.value) in (int, float)
            ]
            single += len(names) if numbers and len(names) == 1 else 0
            several += len(names) if numbers else 0
    return single, several


def _count_tuning(node: ast.stmt) -> int:
    """Return how many numbers a class holds that consists of nothing but numbers with their values; else zero."""
    if not isinstance(node, ast.ClassDef) or not node.decorator_list:
        return 0
    fields = [one for one in node.body if not _is_docstring(one)]
    plain = (ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp)
    if not all(isinstance(one, ast.AnnAssign) and isinstance(one.value, plain) for one in fields):
        return 0
    numbers = [any(type(getattr(part, "value", None)) in (int, float) for part in ast.walk(one)) for one in fields]
    return len(fields) if all(numbers) else 0


# --- walks ----------------------------------------------------------------------------------------------------------


def calls() -> dict[str, Callable[[], object]]:
    """Return the calls that are traced, by their names."""
    from sklearn.datasets import load_breast_cancer, load_diabetes
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    forest = gbce.Explainer(RandomForestRegressor(100, min_samples_leaf=5, random_state=0).fit(X, y), X)
    cancer, label = load_breast_cancer(return_X_y=True, as_frame=True)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)).fit(cancer, label)
    pipeline, sick = gbce.Explainer(logistic, cancer), cancer[logistic.predict(cancer) == 0].iloc[0]
    low = gbce.AtMost(120.0)
    return {
        "`explain`, forest of 100 trees, diabetes": lambda: forest.explain(X.iloc[2], low, seed=0),
        "the same, `posterior=False`": lambda: forest.explain(X.iloc[2], low, seed=0, posterior=False),
        "`explain`, logistic pipeline, 30 columns": lambda: pipeline.explain(sick, gbce.Class(1), seed=0),
        "`explain_many`, four rows, forest": lambda: forest.explain_many(X.iloc[2:6], low, seed=0, progress=False),
    }


def _count(name: str, call: Callable[[], object]) -> dict[str, Any]:
    """Trace a call, once it has run before, and return what took part."""
    call()  # what is imported or prepared late, is now
    walk = follow(call)
    return {
        "call": name,
        "functions": len(walk["functions"]),
        "files": len(walk["files"]),
        "rooms": len({room for pair in walk["edges"] for room in pair}),
        "pairs of rooms": len(walk["edges"]),
        "calls between rooms": sum(walk["edges"].values()),
    }


def _print_edges(walk: dict[str, Any]) -> None:
    """Print every pair of rooms, and those of which a lower one calls a higher."""
    order = tiers()
    for (a, b), n in sorted(walk["edges"].items()):
        up = {a, b} <= {*order} and order.index(a) < order.index(b)
        print(f"{a} -> {b}: {n}{'  goes up' if up else ''}")


def tiers() -> list[str]:
    """Return the rooms from the lowest to the highest, as the contract in pyproject.toml lists them."""
    contracts = (
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"].get("importlinter", {}).get("contracts", [])
    )
    return [*reversed(contracts[0]["layers"]), "__init__"] if contracts else []


def trace() -> dict[str, Any]:
    """Explain one row of three columns and summarise it, after a first time; return what :func:`follow` counts."""
    data = np.random.default_rng(0).normal(size=(200, 3))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, sampler=gbce.SMC(n_candidates=2_000, n_draws=400))
    explainer.explain(data[1], gbce.AtLeast(2.0), seed=0).summary()
    return follow(lambda: explainer.explain(data[0], gbce.AtLeast(2.0), seed=0).summary())


def follow(call: Callable[[], object]) -> dict[str, Any]:
    """Trace a call; return calls between rooms, files, and functions in the order of their first calls."""
    root = str(_PACKAGE)
    edges: Counter[tuple[str, str]] = Counter()
    functions: dict[tuple[str, str], None] = {}
    files = set()

    def record(frame: FrameType, event: str, arg: Any) -> None:
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

    threading.setprofile(record)  # tasks that share model calls run in threads
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {"edges": edges, "functions": list(functions), "files": files}


if __name__ == "__main__":
    main()
