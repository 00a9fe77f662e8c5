"""Result files of benchmarks: tables as CSV, the rest of what a command prints as text, in docs/results."""

import argparse
import contextlib
import csv
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

__all__ = [
    "RESULTS",
    "ROOT",
    "add_docs_option",
    "current_commit",
    "markdown",
    "print_into",
    "put_between_marks",
    "read_csv",
    "write_csv",
    "write_results",
]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
_SEPARATED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")  # a number with separated thousands
_RULE = re.compile(r"\|[-| :]+\|")  # below the head of a table in Markdown


def write_results(
    mark: str, text: str, about: str | None, *, command: str | None = None, folder: Path = RESULTS
) -> None:
    """Write what a benchmark found to ``<mark>.csv``, ``<mark>-2.csv``, ... and ``<mark>.txt``.

    Parameters
    ----------
    mark : str
        Name of the result; spaces become hyphens.
    text : str
        Tables in Markdown, which become CSV files, and lines around them, which become the text file.
    about : str
        What is measured and what the columns mean: the docstring of the benchmark.
    command : str, optional
        What was run; the command of this process by default.
    """
    name = mark.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (folder / f"{name}.csv", *folder.glob(f"{name}-[2-9].csv")):
        stale.unlink(missing_ok=True)
    rest: list[str] = []
    n_tables = 0
    for part in _split_tables(text):
        if isinstance(part, str):
            rest.append(part)
            continue
        n_tables += 1
        path = folder / (f"{name}.csv" if n_tables == 1 else f"{name}-{n_tables}.csv")
        write_csv(path, *part)
        rest.append(f"(table: {path.name})")
    head = [command or _command(), "", (about or "").strip(), ""]
    (folder / f"{name}.txt").write_text("\n".join([*head, *rest]).rstrip() + "\n", encoding="utf-8")


def _split_tables(text: str) -> Iterator[str | tuple[list[str], list[list[str]]]]:
    """Return the lines of a text in order, with each table in Markdown as its head and body."""
    table: list[list[str]] = []
    for line in [*text.splitlines(), None]:
        if line is not None and line.startswith("|"):
            if not _RULE.fullmatch(line.strip()):
                table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if table:
            yield table[0], table[1:]
            table = []
        if line is not None:
            yield line


def write_csv(path: Path, head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """Write a table, with numbers as programs read them: no separated thousands, no bold."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *([_plain(cell) for cell in line] for line in body)])


def _plain(cell: str) -> str:
    cell = cell.removeprefix("**").removesuffix("**")
    return cell.replace(",", "") if _SEPARATED.fullmatch(cell) else cell


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the lines of a table, all cells as strings."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def put_between_marks(page: str, mark: str, text: str) -> str:
    """Return a page with a text between ``<!-- mark -->`` and ``<!-- /mark -->``."""
    before, rest = page.split(f"<!-- {mark} -->", 1)
    _, after = rest.split(f"<!-- /{mark} -->", 1)
    return f"{before}<!-- {mark} -->\n{text}\n<!-- /{mark} -->{after}"


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    cells = [head, *body]
    wide = [max(len(line[j]) for line in cells) for j in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)) + " |" for line in cells]
    return "\n".join([lines[0], "| " + " | ".join("-" * w for w in wide) + " |", *lines[1:]])


def current_commit(source: Path = ROOT) -> str:
    """Return the commit that is checked out where the measured package lies, in short."""
    said = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=source, capture_output=True, text=True)
    return said.stdout.strip() or "an unknown commit"


def _command() -> str:
    """Return the command of this process."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = ["-m", spec.name.removesuffix(".__main__")] if spec else [Path(sys.argv[0]).name]
    return shlex.join(["python", *name, *sys.argv[1:]])


def add_docs_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes a command write its result files."""
    parser.add_argument("--docs", action="store_true", help="write the results to docs/results")


@contextlib.contextmanager
def print_into(mark: str, wanted: bool, about: str | None, *, source: Path = ROOT) -> Iterator[None]:
    """Write what is printed within to ``docs/results/<mark>.txt`` as well, with the commit of ``source`` below it.

    Nothing is written if that ends in an error or is not wanted.
    """
    copy = _Copied(sys.stdout)
    with contextlib.redirect_stdout(copy):
        yield
    if wanted:
        write_results(mark, f"{copy.getvalue().rstrip()}\n\n- Commit {current_commit(source)}.", about)


class _Copied(io.StringIO):
    """Keeps what is printed, and hands it on."""

    def __init__(self, shown: TextIO) -> None:
        super().__init__()
        self._shown = shown

    def write(self, text: str) -> int:
        self._shown.write(text)
        return super().write(text)

    def flush(self) -> None:
        self._shown.flush()
