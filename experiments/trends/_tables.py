"""Tables: a heading and rows of cells, from files, buffers, bytes and frames. Nothing here knows what a cell means."""

import csv
import glob
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments.trends._cells import looks_like_date

__all__ = ["Table", "tables"]

_READABLE = "a path, a pattern such as 'folder/*.csv', an open file, bytes, a DataFrame, or a list of these"
_DELIMITERS = (",", ";", "\t")  # exports have commas; spreadsheet programs write the other two

Line = tuple[Any, list[Any]]  # a line number or row label, and the cells


class Table(NamedTuple):
    """Cells of one export.

    Attributes
    ----------
    name : str
        What messages call it.
    unit : {"line", "row"}
        What its rows are called.
    head : list of str
        Heading of each column.
    rows : list of (place, cells)
        Line number or row label, and as many cells as there are headings; at least one row.
    """

    name: str
    unit: str
    head: list[str]
    rows: list[Line]


def tables(paths: Any) -> list[Table]:
    """Read every table that ``paths`` names, holds or is; a file that several patterns find is read once."""
    single = isinstance(paths, (str, os.PathLike, bytes, bytearray, pd.DataFrame)) or hasattr(paths, "read")
    if not single and (isinstance(paths, Mapping) or not isinstance(paths, Iterable)):
        raise ValueError(f"cannot read exports from a {type(paths).__name__}: give {_READABLE}")
    found: dict[Any, Table] = {}
    for i, source in enumerate([paths] if single else paths, start=1):
        if isinstance(source, (str, os.PathLike)):
            for path in _files(source):
                if path.resolve() not in found:
                    found[path.resolve()] = _from_text(str(path), _decoded(str(path), path.read_bytes()))
        else:
            found[i] = _from_object(source, i)
    if not found:
        raise ValueError(f"there are no exports to read, the list is empty: give {_READABLE}")
    return list(found.values())


def _files(source: str | os.PathLike[str]) -> list[Path]:
    text = os.fspath(source)
    if "\n" in text:
        raise ValueError(f"{text.splitlines()[0]!r}... is the text of an export, not a path: give io.StringIO(text)")
    path = Path(text).expanduser()
    if path.is_dir():
        raise ValueError(f"{text} is a folder: give a pattern of the files in it, such as {text.rstrip('/')}/*.csv")
    if path.exists():
        return [path]
    if not glob.has_magic(text):
        raise ValueError(f"there is no file {text}: check the path; relative ones start from {Path.cwd()}")
    matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True)) if Path(match).is_file()]
    if not matches:
        raise ValueError(f"no files match {text}: check the pattern; relative ones start from {Path.cwd()}")
    return matches


def _from_object(source: Any, position: int) -> Table:
    if isinstance(source, pd.DataFrame):
        return _from_frame(f"frame {position}", source)
    if isinstance(source, (bytes, bytearray)):
        name, content = f"bytes {position}", source
    elif hasattr(source, "read"):
        name, content = str(getattr(source, "name", f"buffer {position}")), source.read()
        if not content:
            raise ValueError(f"{name} is empty, or has been read to its end before: open it anew, or leave it out")
    else:
        raise ValueError(f"cannot read an export from a {type(source).__name__}: give {_READABLE}")
    return _from_text(name, content if isinstance(content, str) else _decoded(name, content))


def _decoded(name: str, content: bytes | bytearray) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 text (byte {error.start}), as exports are: it may have been saved anew by a "
            "spreadsheet program. Download it again, or save it as CSV UTF-8."
        ) from None


# --- text ---------------------------------------------------------------------------------------------------


def _from_text(name: str, text: str) -> Table:
    text = text.removeprefix("\ufeff")
    for delimiter in _DELIMITERS:
        lines = list(_lines(name, text, delimiter))
        start = _heading(lines)
        if start is not None:
            break
    else:
        raise _empty(name)
    head = [cell.strip() for cell in lines[start][1]]
    while not head[-1]:
        head.pop()
    rows = []
    for place, cells in lines[start + 1 :]:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) < len(head) or any(cell.strip() for cell in cells[len(head) :]):
            raise ValueError(
                f"{name}, line {place} has {len(cells)} cells where its heading has {len(head)}: the file is broken "
                "there. Correct the line or download the file again."
            )
        rows.append((place, cells[: len(head)]))
    if not rows:
        raise _empty(name)
    return Table(name, "line", head, rows)


def _lines(name: str, text: str, delimiter: str) -> Iterator[Line]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    start = 1  # a cell with a line break in it makes a row of several lines
    try:
        for cells in reader:
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{name}, line {reader.line_num} is not comma-separated text: {error}") from None


def _heading(lines: list[Line]) -> int | None:
    """Return the position of the heading: the first line with two cells or more, after those of the preamble.

    A line of the preamble that happens to hold a comma has an empty line below, and no date below that.
    """
    filled = [i for i, (_, cells) in enumerate(lines) if any(cell.strip() for cell in cells)]
    for here, below in zip_longest(filled, filled[1:]):
        if len(lines[here][1]) < 2 or not any(cell.strip() for cell in lines[here][1][1:]):
            continue
        if below is None or below == here + 1 or any(map(looks_like_date, lines[below][1])):
            return here
    return None


def _empty(name: str) -> ValueError:
    return ValueError(
        f"{name} is empty: it has no heading with rows below it. Google Trends writes such a file when a term has too "
        "few searches; choose a longer time or a wider region, or leave the file out."
    )


# --- frames -------------------------------------------------------------------------------------------------


def _from_frame(name: str, frame: pd.DataFrame) -> Table:
    if frame.columns.nlevels > 1:
        raise ValueError(f"{name} has {frame.columns.nlevels} levels of column names: give it one, the terms")
    if len(frame) == 0 or frame.shape[1] == 0:
        raise _empty(name)
    index = frame.index.to_timestamp() if isinstance(frame.index, pd.PeriodIndex) else frame.index
    columns = [(str(label).strip(), frame.iloc[:, j].tolist()) for j, label in enumerate(frame.columns)]
    labels = index.tolist()
    if looks_like_date(labels[0]):
        columns.insert(0, ("", labels))
    rows = [
        (place, list(cells)) for place, cells in zip(labels, zip(*(c for _, c in columns), strict=True), strict=True)
    ]
    return Table(name, "row", [head for head, _ in columns], rows)
