"""Write results: data to standard output or atomically to a file, messages to standard error."""

import sys
from pathlib import Path

import pandas as pd

from gbce.cli._input import STDIN
from gbce.cli._messages import UsageError
from gbce.files import whole_file

_SUFFIXES = {
    ".html": "html", ".htm": "html", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv",
    ".parquet": "parquet", ".png": "png", ".gbce": "gbce", ".txt": "text",
}  # fmt: skip


def choose_format(output: str, asked: str | None, known: list[str], usual: str) -> str:
    """Return the format that was asked for, else that of the file's name.

    Examples
    --------
    >>> choose_format("row.html", None, ["html", "json"], "json"), choose_format("-", None, ["html", "json"], "json")
    ('html', 'json')
    """
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
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    sys.stdout.write(content if content.endswith("\n") else content + "\n")
    sys.stdout.flush()


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
