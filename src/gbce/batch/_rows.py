"""Rows to explain as groups of encoded rows, from a table in memory, a Parquet data set or an iterator of frames."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array
from gbce.space import Space, as_pandas

_BATCH = 8_192  # rows of a Parquet file that are in memory at a time, by hand: a few megabytes


@dataclass(frozen=True, eq=False)
class Group:
    """Consecutive rows: the position of the first, labels, encoded rows ``(n, d)``, and errors of rows that do not fit.

    The errors are by place in the group; the encoded values of such a row are NaN if it cannot be encoded.
    """

    start: int
    labels: list[Any]
    x: Array
    errors: dict[int, str]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def fits(self) -> Array:
        """Whether each row fits the space ``(n,)``."""
        return ~np.isin(np.arange(len(self)), list(self.errors))

    @property
    def digest(self) -> str:
        """The content of the rows and their labels, as a digest."""
        found = hashlib.sha256(np.ascontiguousarray(self.x).tobytes())
        for label in self.labels:
            found.update(f"{label}\0".encode())
        return found.hexdigest()

    def take(self, start: int, stop: int) -> "Group":
        """Return the rows from place ``start`` to before ``stop``."""
        errors = {i - start: error for i, error in self.errors.items() if start <= i < stop}
        return Group(self.start + start, self.labels[start:stop], self.x[start:stop], errors)

    def joined(self, other: "Group") -> "Group":
        """Return these rows followed by others."""
        errors = self.errors | {i + len(self): error for i, error in other.errors.items()}
        return Group(self.start, [*self.labels, *other.labels], np.vstack([self.x, other.x]), errors)


@dataclass(frozen=True)
class Rows:
    """Rows in parts, of which few are in memory at a time, and their number ``n``; None if it is not known."""

    n: int | None
    parts: Iterable[Group]

    @classmethod
    def of(cls, rows: Any, space: Space) -> "Rows":
        """Open rows in any form; of a table in memory, a value that is no value of its column raises at once."""
        if not is_stream(rows):
            x = space.encode(rows)
            labels = list(rows.index) if isinstance(rows, pd.DataFrame) else list(range(len(x)))
            return cls(len(x), [Group(0, labels, x, _list_misfits(space, x))])
        if isinstance(rows, (str, Path)):
            data = _open_data_set(Path(rows))
            return cls(data.count_rows(), _encode_parts(_read_batches(data), space))
        return cls(None, _encode_parts(rows, space))

    def groups(self, size: int) -> Iterator[Group]:
        """Yield the rows in groups of one ``size``; the last may be smaller."""
        left: Group | None = None
        for part in self.parts:
            whole = part if left is None else left.joined(part)
            full = len(whole) - len(whole) % size
            for start in range(0, full, size):
                yield whole.take(start, start + size)
            left = whole.take(full, len(whole)) if full < len(whole) else None
        if left is not None:
            yield left

    def whole(self) -> Group:
        """Return all rows as one group."""
        parts = list(self.peek()[1].parts)
        errors = {part.start + i: error for part in parts for i, error in part.errors.items()}
        labels = [label for part in parts for label in part.labels]
        return Group(0, labels, np.vstack([part.x for part in parts]), errors)

    def peek(self) -> tuple[Group, "Rows"]:
        """Return the first part, and rows that still begin with it."""
        parts = iter(self.parts)
        first = next(parts, None)
        if first is None:
            raise ValueError("rows has no rows")
        return first, Rows(self.n, chain([first], parts))


def is_stream(rows: Any) -> bool:
    """Whether rows are read in parts: from the path of a Parquet data set, or from an iterator of frames."""
    return isinstance(rows, (str, Path, Iterator))


def _open_data_set(path: Path) -> Any:
    """Open a Parquet file or a folder of them."""
    try:
        import pyarrow.dataset
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'gbce[parquet]'") from None
    if not path.exists():
        raise FileNotFoundError(f"there is no Parquet file or folder {path}")
    try:
        return pyarrow.dataset.dataset(path, format="parquet")
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} could not be read as Parquet: {error}") from None


def _read_batches(data: Any) -> Iterator[pd.DataFrame]:
    """Yield the rows of a data set as frames, in the order of its files."""
    for batch in data.to_batches(batch_size=_BATCH, batch_readahead=1, fragment_readahead=1):
        if batch.num_rows:
            yield batch.to_pandas()


def _encode_parts(frames: Iterable[Any], space: Space) -> Iterator[Group]:
    """Encode frames one after the other; a frame that counts its rows from 0 goes on from the last position."""
    start = 0
    for given in frames:
        frame = as_pandas(given)
        if frame is None:
            raise TypeError(f"rows: an iterator must yield frames, not {show(given)}; put them in a list of frames")
        if len(frame) == 0:
            continue
        _require_columns(frame, space)
        counted = isinstance(frame.index, pd.RangeIndex) and frame.index.equals(pd.RangeIndex(len(frame)))
        labels = list(range(start, start + len(frame))) if counted else list(frame.index)
        yield replace(encode_rows(space, frame), start=start, labels=labels)
        start += len(frame)


def encode_rows(space: Space, frame: pd.DataFrame) -> Group:
    """Encode the rows of a frame, with the errors of those that do not fit the space."""
    errors = find_unfit(space, frame)
    x = np.full((len(frame), len(space)), np.nan)
    fits = [i for i in range(len(frame)) if i not in errors]
    if fits:
        x[fits] = space.encode(frame.iloc[fits] if errors else frame)
    return Group(0, list(frame.index), x, errors)


def _require_columns(frame: pd.DataFrame, space: Space) -> None:
    """Raise if a column is missing: then no row fits."""
    have = set(map(str, frame.columns))
    missing = [name for name in space.column_labels if name not in have]
    if missing:
        raise ValueError(f"rows: there is no column {missing[0]!r}; the columns are {list(map(str, frame.columns))}")


def find_unfit(space: Space, frame: pd.DataFrame) -> dict[int, str]:
    """Return the errors of rows that do not fit the space, by place; found by halving, as most rows do."""
    try:
        return _list_misfits(space, space.encode(frame))
    except (TypeError, ValueError) as error:
        if len(frame) == 1:
            return {0: f"{type(error).__name__}: {error}"}
        half = len(frame) // 2
        later = find_unfit(space, frame.iloc[half:])
        return find_unfit(space, frame.iloc[:half]) | {half + i: error for i, error in later.items()}


def _list_misfits(space: Space, x: Array) -> dict[int, str]:
    """Return the first error of each encoded row ``(n, d)`` that breaks a bound or a constraint, by place."""
    found: dict[int, str] = {}
    for problem in space.misfits(x).itertuples(index=False):
        found.setdefault(int(problem.row), f"ValueError: row: {problem.problem}")
    return found
