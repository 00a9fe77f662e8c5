"""Lines of a long run, on disk as soon as they are there: a run that is stopped goes on from them."""

import csv
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["Sheet"]


class Sheet:
    """The lines so far, all of one dataclass.

    Parameters
    ----------
    kind : dataclass
        Of the lines.
    path : Path, optional
        Where they are written.
    resume : bool
        Whether lines that are there already are read; otherwise the file is begun anew.
    """

    def __init__(self, kind: Any, path: Path | None, *, resume: bool) -> None:
        self._path = path
        self._types = {field.name: field.type for field in fields(kind)}
        self.lines: list[dict[str, Any]] = []
        if path is not None and path.exists() and resume:
            texts = [name for name, kind in self._types.items() if kind is str]
            self.lines = pd.read_csv(path).fillna(dict.fromkeys(texts, "")).to_dict("records")
        elif path is not None:
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, list(self._types)).writeheader()

    def add(self, line: Any) -> None:
        """Keep a line."""
        self.lines.append(asdict(line))
        if self._path is not None:
            with self._path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, list(self._types)).writerow(self.lines[-1])

    @property
    def frame(self) -> pd.DataFrame:
        """All lines."""
        switches = {name: bool for name, kind in self._types.items() if kind is bool}
        return pd.DataFrame(self.lines, columns=list(self._types)).astype(switches)

    def where(self, **known: Any) -> list[dict[str, Any]]:
        """Return the lines with these values."""
        return [line for line in self.lines if all(line[name] == value for name, value in known.items())]
