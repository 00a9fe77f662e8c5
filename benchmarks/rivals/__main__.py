"""gbce beside the methods that the paper argues with, on the same rows: ``python -m benchmarks.rivals``.

Six tables and four models, or a model and a table of your own. A run that was stopped goes on where it was when the
same command is given again. Everything is kept in a folder: ``lines.csv`` has a line for each answer, ``comparison.md``
is the page, ``comparison.png`` the picture, ``results/comparison`` has all tables as CSV files.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks._documents import current_commit
from benchmarks._real_tables import TABLES
from benchmarks.rivals._cell import Settings, write_whole
from benchmarks.rivals._learners import LEARNERS
from benchmarks.rivals._measures import MEASURES
from benchmarks.rivals._methods import METHODS
from benchmarks.rivals._picture import draw
from benchmarks.rivals._problem import OwnTable
from benchmarks.rivals._report import FILES, facts_of, page, tables_of, write_tables
from benchmarks.rivals._results import lines_of
from benchmarks.rivals._run import ROOT, SettingsDifferError, require_same, run

DOCUMENT, PICTURE = ROOT / "docs" / "comparison.md", ROOT / "docs" / "img" / "comparison.png"
FAST: dict[str, Any] = {
    "tables": ["breast cancer", "german credit"],
    "models": ["forest", "logistic"],
    "rows": 4,
    "seconds": 4.0,
}

WHOLE: dict[str, Any] = {"tables": [*TABLES], "models": [*LEARNERS], "rows": 25, "seconds": 60.0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, and write it down."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rivals", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*(method.name for method in METHODS), *MEASURES]
    parser.add_argument("--tables", nargs="+", choices=[*TABLES], help="which tables; all when left out")
    parser.add_argument("--models", nargs="+", choices=[*LEARNERS], help="which models; all when left out")
    parser.add_argument("--methods", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--rows", type=int, help="rows of each table and model (25)")
    parser.add_argument("--seconds", type=float, help="of one core for each method, table and model, at most (60)")
    parser.add_argument("--seed", type=int, default=0, help="of all methods")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--fast", action="store_true", help="two tables, two models, four rows: minutes")
    parser.add_argument("--folder", type=Path, help="where everything is kept (out/rivals)")
    parser.add_argument(
        "--docs", action="store_true", help=f"write {DOCUMENT.relative_to(ROOT)}, its tables and its picture"
    )
    parser.add_argument("--only-report", action="store_true", help="write the page and the picture of what is there")
    own = parser.add_argument_group("your own model and table")
    own.add_argument("--model", help="an estimator that joblib wrote; loading it runs code from it")
    own.add_argument("--data", help="a CSV file with a header, the outcome among its columns")
    own.add_argument("--outcome", help="the column that the model predicts")
    own.add_argument("--label", help="the class that is wanted")
    own.add_argument("--change", type=float, help="or the relative change of the number that is wanted, such as 0.1")
    options = parser.parse_args(arguments)
    table = _own_table(parser, options)
    for name, value in (("rows", options.rows), ("seconds", options.seconds), ("jobs", options.jobs)):
        if value is not None and not value > 0:
            parser.error(f"--{name} must be above zero, not {value:g}")
    usual = FAST if options.fast else WHOLE
    chosen = {name: getattr(options, name) or value for name, value in usual.items()}
    cells = [(t, m) for t in chosen["tables"] for m in chosen["models"]] if table is None else [table.names]
    settings = Settings(tuple(options.methods), chosen["rows"], chosen["seconds"], options.seed, table)
    folder = options.folder or ROOT / "out" / ("rivals-fast" if options.fast else "rivals")
    if not options.only_report:
        try:
            if table is not None:
                table.case()  # a sentence now rather than a line for each method
            require_same(folder, settings)
            begun = time.monotonic()
            try:
                run(folder, cells, settings, options.jobs)
            finally:  # also of a run that is stopped, so that what there is can be reported
                _remember(folder, options, names, (time.monotonic() - begun) / 60)
        except (SettingsDifferError, ValueError, OSError) as error:
            parser.error(str(error))
    return _write(folder, options.docs)


def _own_table(parser: argparse.ArgumentParser, options: argparse.Namespace) -> OwnTable | None:
    """Return the user's own table if there is one, and end with a sentence where only half of it is given."""
    given = [options.model, options.data, options.outcome]
    if not any(one is not None for one in (*given, options.label, options.change)):
        return None
    if options.tables or options.models:
        parser.error("a table of your own comes with its model: leave out --tables and --models")
    if not all(given) or (options.label is None) == (options.change is None):
        parser.error("a table of your own needs --model, --data, --outcome, and one of --label and --change")
    model, data = (str(Path(path).resolve()) for path in (options.model, options.data))  # read from another folder, too
    return OwnTable(model, data, options.outcome, options.label, options.change)


def _remember(folder: Path, options: argparse.Namespace, names: Sequence[str], minutes: float) -> None:
    """Keep how a run was called, on what, and how long it took with what was done before."""
    path = folder / "about.json"
    before = json.loads(path.read_text(encoding="utf-8"))["minutes"] if path.exists() else 0.0
    about = {
        "command": _command(options, names),
        "commit": current_commit(),
        "date": date.today().isoformat(),
        "minutes": before + minutes,
        "jobs": options.jobs,
    }
    write_whole(path, json.dumps(about, indent=1))


def _command(options: argparse.Namespace, names: Sequence[str]) -> str:
    """Return how this was called, without what does not change the outcome."""
    words = ["--fast"] if options.fast else []
    for name in (
        "tables",
        "models",
        "methods",
        "rows",
        "seconds",
        "seed",
        "model",
        "data",
        "outcome",
        "label",
        "change",
    ):
        value = getattr(options, name)
        if value not in (None, *([0] if name == "seed" else [])) and value != names:
            words += [f"--{name}", *(str(one) for one in (value if isinstance(value, list) else [value]))]
    return shlex.join(["python", "-m", "benchmarks.rivals", *words])


def _write(folder: Path, docs: bool) -> int:
    """Write the lines, the tables, the page and the picture."""
    lines = lines_of(folder)
    if not len(lines):
        print(f"no method gave a line; what each said is in {folder / 'cells'}", file=sys.stderr)
        return 1
    if not (folder / "about.json").exists():
        print(f"the run in {folder} was cut off: give its command again, and it goes on", file=sys.stderr)
        return 1
    lines.to_csv(folder / "lines.csv", index=False)
    tables = tables_of(folder)
    facts = facts_of(folder, json.loads((folder / "about.json").read_text(encoding="utf-8")))
    write_tables(folder / FILES, tables, facts)
    said = page(tables, facts, "comparison.png")
    (folder / "comparison.md").write_text(said, encoding="utf-8")
    draw(lines, folder / "comparison.png")
    if docs:
        write_tables(DOCUMENT.parent / FILES, tables, facts)
        shown = PICTURE.relative_to(DOCUMENT.parent).as_posix()
        DOCUMENT.write_text(page(tables, facts, shown), encoding="utf-8")
        PICTURE.write_bytes((folder / "comparison.png").read_bytes())
    print(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
