"""Read what a command is given (tables of any size, rows, targets, settings in TOML), and write its results."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from io import RawIOBase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.cli._parser import UsageError
from gbce.files import whole_file

STDIN = "-"
_CHUNK = 100_000  # lines that are read at a time, by hand: tens of megabytes
_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


# --- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picked:
    """Which row of a table is meant: a position, a value of a column, or the values of the row themselves."""

    text: str
    position: int | None = None
    column: str | None = None
    value: str | None = None
    values: Mapping[str, Any] | None = None

    @classmethod
    def parse(cls, text: str, index: str | None) -> "Picked":
        """Return what ``--row`` says: a position, COLUMN=VALUE or JSON; with an ``index`` a name before a position."""
        if text == STDIN:
            text = sys.stdin.read()
        if text.lstrip().startswith("{"):
            try:
                return cls(text, values=json.loads(text))
            except json.JSONDecodeError as error:
                raise UsageError(f"--row is not JSON: {error}") from None
        if index is not None:
            return cls(text, int(text) if re.fullmatch(r"\d+", text) else None, column=index, value=text)
        if re.fullmatch(r"\d+", text):
            return cls(text, position=int(text))
        column, equal, value = text.partition("=")
        if not equal:
            raise UsageError(f"--row {text!r}: give a position from 0, COLUMN=VALUE, or JSON; --index names rows")
        return cls(text, column=column.strip(), value=value.strip())

    def find(self, chunk: pd.DataFrame, start: int) -> pd.DataFrame:
        """Return the rows of a part of a table, which begins at row ``start``, that are meant."""
        there = np.arange(start, start + len(chunk)) == (-1 if self.position is None else self.position)
        return chunk[there | self.is_named(chunk)]

    def is_named(self, chunk: pd.DataFrame) -> Array:
        """Return which rows ``(n,)`` are meant by the value of a column."""
        if self.column is None:
            return np.zeros(len(chunk), dtype=bool)
        require_columns(chunk, [self.column], "--row or --index")
        return np.asarray(chunk[self.column].astype(str) == self.value)


def read_table(
    path: str, kind: str | None = None, *, most: int | None = None, picked: Picked | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read a table in parts; return its rows, a random ``most`` of them if there are more, and those that are picked.

    Memory is bounded by ``most`` rows and one part, whatever the size of the file.
    """
    rng, keys, kept, found, start = np.random.default_rng(0), np.zeros(0), [], [], 0
    for chunk in read_parts(path, kind):
        if picked is not None:
            own = picked.find(chunk, start)
            found += [own] if len(own) else []  # even an empty view would keep the whole part
        start += len(chunk)
        kept.append(chunk)
        keys = np.concatenate([keys, rng.random(len(chunk))])
        if most is not None and len(keys) > most:
            stays = np.sort(np.argpartition(keys, most)[:most])
            kept, keys = [_join(kept).iloc[stays]], keys[stays]
    if start == 0:
        raise ValueError(f"{_name(path)} has no rows")
    return _join(kept), _join(found) if found else kept[0].iloc[:0]


def _join(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Join parts of a table; a column that is read as numbers in one part and as strings in another is strings."""
    if len(parts) == 1:
        return parts[0]
    whole = pd.concat(parts)
    for name in [one for one in whole.columns if whole[one].dtype == "object"]:
        known = whole[name].notna()
        whole.loc[known, name] = whole.loc[known, name].astype(str)
    return whole


def _name(path: str) -> str:
    return "standard input" if path == STDIN else str(path)


def read_parts(path: str, kind: str | None, strings: Collection[str] = ()) -> Iterator[pd.DataFrame]:
    """Yield a table in parts, indexed by position; ``strings`` are columns of CSV files that may look like numbers."""
    kind = kind or _FORMATS.get(Path(path).suffix.lower()) or ("csv" if path == STDIN else None)
    if kind is None:
        known = ", ".join(sorted(_FORMATS))
        raise UsageError(f"the name of {path} does not show its format ({known}): give it with --input")
    source: Any = sys.stdin.buffer if path == STDIN else path
    if path != STDIN and not Path(path).is_file():
        raise FileNotFoundError(f"there is no table {path}")
    start = 0
    try:
        for part in _OPENERS[kind](source, strings):
            yield part.set_axis(pd.RangeIndex(start, start + len(part)))
            start += len(part)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, ValueError) as error:
        reason = " ".join(str(error).replace("C error: ", "").split())
        raise ValueError(f"{_name(path)} could not be read as {kind}: {reason:.300}") from None


def _open_csv(source: Any, strings: Collection[str], separator: str = ",") -> Iterator[pd.DataFrame]:
    options: Any = {"sep": separator, "chunksize": _CHUNK, "encoding": "utf-8-sig", "low_memory": False}
    with pd.read_csv(source, dtype=dict.fromkeys(strings, str), **options) as parts:
        for part in parts:
            if not isinstance(part.index, pd.RangeIndex):  # pandas takes surplus fields for an index
                raise ValueError(f"its lines have more fields than its header, which has {part.shape[1]}")
            yield part


def _open_jsonl(source: Any, strings: Collection[str]) -> Iterator[pd.DataFrame]:
    with pd.read_json(source, lines=True, chunksize=_CHUNK, dtype=False, convert_dates=False) as parts:
        for part in parts:
            yield part.infer_objects()


def _open_parquet(source: Any, strings: Collection[str]) -> Iterator[pd.DataFrame]:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'gbce[parquet]'") from None
    if source is sys.stdin.buffer:
        import io

        source = io.BytesIO(source.read())
    try:
        with ParquetFile(source) as file:
            for batch in file.iter_batches(batch_size=_CHUNK):
                yield batch.to_pandas()
    except ArrowInvalid as error:
        raise ValueError(str(error)) from None


_OPENERS = {
    "csv": _open_csv,
    "tsv": lambda source, strings: _open_csv(source, strings, "\t"),
    "jsonl": _open_jsonl,
    "parquet": _open_parquet,
}


def require_columns(table: pd.DataFrame, names: list[str], where: str) -> None:
    """Raise if a table lacks a column, with the nearest name."""
    for name in names:
        if name not in table.columns:
            near = get_close_matches(name, list(map(str, table.columns)), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; its columns are {list(map(str, table.columns))}"
            raise ValueError(f"{where} names the column {name!r}, which the table does not have{hint}")


# --- settings --------------------------------------------------------------------------------------------------------

_TABLES = ("target", "constraints", "data", "model", "columns", "computed", "options", "reasons", "letter")
_COLUMN = (
    "kind", "mutable", "direction", "bounds", "levels", "scale", "missing", "label", "unit", "digits", "protected",
)  # fmt: skip
_KEYS = {
    "data": ("index", "drop"),
    "model": ("classes", "missing"),
    "options": ("eta", "rules", "max_model_rows", "sensible"),
    "letter": ("salutation", "sender", "subject", "date", "model", "contact", "alternatives"),
}


@dataclass(frozen=True)
class Settings:
    """The content of a settings file; everything may be left out."""

    target: str | None = None
    constraints: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    letter: Mapping[str, Any] = field(default_factory=dict)

    def of_columns(self, what: str) -> dict[str, Any]:
        """Return one entry of all columns that have it."""
        return {name: one[what] for name, one in self.columns.items() if what in one}

    @property
    def protected(self) -> list[str]:
        """Columns that a letter must not name as advice."""
        return [name for name, is_protected in self.of_columns("protected").items() if is_protected]

    def space_options(self) -> dict[str, Any]:
        """Return the options of ``Space.infer`` that the columns give."""
        direction = self.of_columns("direction")
        for name, one in direction.items():
            if one not in ("any", "increase", "decrease"):
                raise ValueError(f"settings: direction of {name!r} must be any, increase or decrease, not {one!r}")
        options: dict[str, Any] = {
            "immutable": [name for name, free in self.of_columns("mutable").items() if not free],
            "increase": [name for name, one in direction.items() if one == "increase"],
            "decrease": [name for name, one in direction.items() if one == "decrease"],
            "bounds": {name: _read_bounds(name, ends) for name, ends in self.of_columns("bounds").items()},
            "kinds": self.of_columns("kind"),
            "levels": self.of_columns("levels"),
            "missing": self.of_columns("missing"),
            "scale": self.of_columns("scale"),
            "labels": self.of_columns("label"),
            "units": self.of_columns("unit"),
            "digits": self.of_columns("digits"),
            "constraints": list(self.constraints),
            "computed": dict(self.computed),
        }
        return {name: value for name, value in options.items() if value}


def _read_bounds(name: str, ends: Any) -> tuple[Any, Any]:
    """Return a pair of bounds; an empty string leaves a side open, because TOML has no null."""
    if not isinstance(ends, list) or len(ends) != 2:
        raise ValueError(f'settings: bounds of {name!r} must be a pair such as [0, 100] or [0, ""], not {ends!r}')
    low, high = (None if end == "" else end for end in ends)
    return low, high


def read_settings(path: str | None) -> Settings:
    """Read a settings file; without one, everything has its default."""
    if path is None:
        return Settings()
    try:
        with Path(path).open("rb") as file:
            found = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not TOML: it is not UTF-8") from None
    _require_known(found, _TABLES, path)
    for table, keys in _KEYS.items():
        _require_known(_require_table(found.get(table, {}), f"{path}: [{table}]"), keys, f"{path}: [{table}]")
    for name, column in _require_table(found.get("columns", {}), f"{path}: [columns]").items():
        where = f"{path}: [columns.{name}]"
        _require_known(_require_table(column, where), _COLUMN, where)
    constraints = found.pop("constraints", [])
    if not isinstance(constraints, list) or not all(isinstance(one, str) for one in constraints):
        raise ValueError(f'{path}: constraints must be a list of strings such as ["debt <= 0.4 * income"]')
    _require_table(found.get("reasons", {}), f"{path}: [reasons]")
    for name, formula in _require_table(found.get("computed", {}), f"{path}: [computed]").items():
        if not isinstance(formula, str):
            raise ValueError(
                f'{path}: [computed] {name} must be an expression such as "income - debt", not {formula!r}'
            )
    if "target" in found:
        found["target"] = str(found["target"])
    return Settings(constraints=tuple(constraints), **found)


def _require_table(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"{where} must be a table of names and values, not {found!r}")
    return found


def _require_known(found: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in found:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise ValueError(
                f"{where}: there is no setting {name!r}"
                + (f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}")
            )


# --- results -----------------------------------------------------------------------------------------------------


_SUFFIXES = {
    ".html": "html", ".htm": "html", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv",
    ".parquet": "parquet", ".png": "png", ".gbce": "gbce", ".txt": "text",
}  # fmt: skip


def choose_format(output: str, asked: str | None, known: list[str], usual: str) -> str:
    """Return the format that was asked for, else that of the file's name."""
    if asked is not None:
        return asked
    if output == STDIN:
        return usual
    found = _SUFFIXES.get(Path(output).suffix.lower())
    if found not in known:
        raise UsageError(f"the name of {output} does not show its format: give it with --format, one of {known}")
    return found


def write(content: str | bytes, output: str) -> None:
    """Write text or bytes to standard output, or to a file that appears only when it is complete."""
    if output != STDIN:
        with whole_file(Path(output)) as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return
    if isinstance(content, bytes):
        if sys.stdout.isatty():
            raise UsageError("this format is not for a terminal: name a file with -o, or redirect the output")
        return _write_all(content)
    content += "" if content.endswith("\n") else "\n"
    if isinstance(getattr(sys.stdout, "buffer", None), RawIOBase):
        return _write_all(content.replace("\n", os.linesep).encode(sys.stdout.encoding, sys.stdout.errors or "strict"))
    sys.stdout.write(content)
    sys.stdout.flush()


def _write_all(content: bytes) -> None:
    """Write all bytes to standard output: with PYTHONUNBUFFERED a full disk takes a part without an error."""
    left = memoryview(content)
    while len(left):
        left = left[sys.stdout.buffer.write(left) or 0 :]
    sys.stdout.buffer.flush()


def write_frame(frame: pd.DataFrame, kind: str, output: str) -> None:
    """Write a table as CSV, JSON lines or Parquet, its index first."""
    table = frame.reset_index()
    if kind == "parquet":
        import io

        buffer = io.BytesIO()
        table.to_parquet(buffer)
        return write(buffer.getvalue(), output)
    if kind == "csv":
        return write(table.to_csv(index=False, lineterminator="\n"), output)
    from json import dumps

    from gbce.space import plain_records

    return write("".join(dumps(line, ensure_ascii=False) + "\n" for line in plain_records(table)), output)
