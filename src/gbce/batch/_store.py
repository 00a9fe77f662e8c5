"""A folder of finished rows: a Parquet data set of partitions, each whole or not at all, and the run they belong to.

``run.json`` has the question and the space, ``answers/part-000000.parquet`` and so on the rows, ``draws`` the draws if
they were asked for. One process at a time writes to it.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array, Target
from gbce.batch._columns import cast, stored_schema
from gbce.batch._question import same_content
from gbce.explanation import Explanation
from gbce.files import FileError, clear_leftovers, is_partial, load_part, locked, save, whole_file, write_object
from gbce.space import Space, space_fields, space_of

Keep = Literal["draws", "pool"] | None

RUN, PARTS, DRAWS, LOCK = "run.json", "answers", "draws", ".lock"
_FORMAT = 5  # of the folder
_PART = re.compile(r"part-(\d{6,})\.parquet")
_OURS = re.compile(rf"{re.escape(RUN)}|{_PART.pattern}|row-\d{{6,}}\.gbce")
_KEY = b"gbce"  # of our entry in the metadata of a partition


class PartitionError(Exception):
    """A partition that is damaged, with the reason; it is computed again."""


def parquet() -> Any:
    """Return pyarrow's module of Parquet files, or raise an error that names the extra."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError("stores and Parquet files need pyarrow: pip install 'gbce[parquet]'") from None
    return pyarrow.parquet


def draws_path(folder: Path, position: int) -> Path:
    """Return the file with the draws of the row at ``position``."""
    return folder / DRAWS / f"row-{position:06d}.gbce"


def save_draws(explanation: Explanation, folder: Path, position: int, keep: Keep, digest: str) -> None:
    """Write the draws of a finished row atomically."""
    path = draws_path(folder, position)
    # unfinished beside the partitions: leftovers are sought there, among few files
    save(explanation, path, pool=keep == "pool", run=digest, beside=folder)


@dataclass(frozen=True)
class Store:
    """The folder of a run that has begun: ``run`` is the content of its ``run.json``."""

    folder: Path
    run: Mapping[str, Any]
    space: Space = field(repr=False)

    # --- the run ------------------------------------------------------------------------------------------------------

    @classmethod
    @contextlib.contextmanager
    def locked(cls, folder: str | Path) -> Iterator[Path]:
        """Hold the lock of a folder that is empty or has a run; raise, before anything is written, for any other."""
        parquet()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        present = [entry.name for entry in folder.iterdir() if not (is_partial(entry.name) or entry.name == LOCK)]
        if present and not (folder / RUN).exists():
            raise ValueError(f"the store {folder} is not empty, but holds no run; use an empty folder")
        try:
            with locked(folder / LOCK):
                clear_leftovers(folder, lambda name: _OURS.fullmatch(name) is not None)
                yield folder
        except BlockingIOError as error:
            raise ValueError(f"the store {folder} is in use by {error}: wait until it ends, or use another") from None

    @staticmethod
    def is_begun(folder: Path) -> bool:
        """Whether a folder has a run."""
        return (folder / RUN).exists()

    @classmethod
    def begin(
        cls,
        folder: Path,
        question: Mapping[str, Any],
        known: Mapping[str, Any],
        space: Space,
        target: Target,
        model: str,
        size: int,
        labels: Sequence[Any],
    ) -> "Store":
        """Begin a run, or continue the same one; raise if the folder holds another.

        ``question`` decides the result and has to be the same; ``known`` (digest and number of the rows, seeds) only
        where it is known both times, which for a stream it is not. ``labels`` are the first ones.
        """
        if not cls.is_begun(folder):
            digest = hashlib.sha256(json.dumps([question, known], sort_keys=True).encode()).hexdigest()
            run = {
                "format": _FORMAT, "digest": digest, "question": question, **known, "rows_per_partition": size,
                "labels": "int64" if all(map(_is_integer, labels)) else "str", "model": model,
                "target": write_object(target), "schema": stored_schema(space), "space": space_fields(space),
            }  # fmt: skip
            _write_run(folder, run)
        store = cls.open(folder)
        before = store.run["question"]
        differs = [name for name, value in question.items() if not same_content(before.get(name), value)]
        differs += [name for name, value in known.items() if value is not None and store.run[name] not in (None, value)]
        if differs:
            raise ValueError(
                f"folder {str(folder)!r} holds results of a different run ({', '.join(differs)} changed). Use another "
                "folder, or delete this one."
            )
        (folder / PARTS).mkdir(exist_ok=True)
        if store.keep is not None:
            (folder / DRAWS).mkdir(exist_ok=True)
        return store

    @classmethod
    def open(cls, folder: Path) -> "Store":
        """Open a store to read it."""
        note = folder / RUN
        if not note.exists():
            raise FileError(f"{folder} is not a store of explained rows: it has no {RUN}")
        run: Any = None
        try:
            run = json.loads(note.read_text()) if note.is_file() else None
            if run["format"] == _FORMAT:
                return cls(folder, run, space_of(run["space"]))
        except Exception:  # a damaged file fails in any way
            run = None
        if run is None:
            raise FileError(f"{note} is damaged or missing; use another folder, or delete this one")
        raise FileError(
            f"the store {folder} was written by another version of gbce, which described runs differently. Use "
            "another folder."
        )

    @property
    def keep(self) -> Keep:
        """Whether draws, or every evaluated point, are kept beside the partitions."""
        return self.run["question"]["keep"]

    @property
    def size(self) -> int:
        """The number of rows in a partition."""
        return int(self.run["rows_per_partition"])

    def seeds(self, start: int, n: int) -> list[int]:
        """Return the seeds of ``n`` rows from position ``start``."""
        kept = self.run["seed"]
        return kept[start : start + n] if isinstance(kept, list) else [kept] * n

    def require_labels(self, labels: Sequence[Any]) -> None:
        """Raise for a label that is no integer if those of the first rows were."""
        odd = [label for label in labels if not _is_integer(label)]
        if odd and self.run["labels"] == "int64":
            raise ValueError(
                f"the rows of the store {self.folder} are labelled by integers, but one by {show(odd[0])}: give all "
                "rows labels of one kind"
            )

    def finish(self, n: int) -> "Store":
        """Record the number of rows of a stream, which was not known before."""
        if self.run["n"] == n:
            return self
        run = {**self.run, "n": n}
        _write_run(self.folder, run)
        return Store(self.folder, run, self.space)

    # --- partitions ---------------------------------------------------------------------------------------------------

    def path(self, number: int) -> Path:
        """Return the file of a partition."""
        return self.folder / PARTS / f"part-{number:06d}.parquet"

    def numbers(self) -> list[int]:
        """Return the numbers of the partitions that are there, in order."""
        if not (self.folder / PARTS).is_dir():
            return []
        found = [_PART.fullmatch(entry.name) for entry in (self.folder / PARTS).iterdir()]
        return sorted(int(one[1]) for one in found if one is not None)

    def write(self, number: int, frame: pd.DataFrame, rows: str) -> None:
        """Write a partition, which is there when it is complete on disk and not before; ``rows`` is their digest."""
        import pyarrow

        note = {"run": self.run["digest"], "rows": rows, "number": number}
        schema = pyarrow.schema([(name, _arrow_type(dtype)) for name, dtype in self.run["schema"].items()])
        table = pyarrow.Table.from_pandas(frame, schema, preserve_index=False, safe=False)
        # statistics of a few rows are larger than what they could save
        options = {"store_schema": False, "write_statistics": False, "write_page_checksum": True}
        try:
            with (
                whole_file(self.path(number), beside=self.folder) as file,
                parquet().ParquetWriter(file, schema, **options) as writer,
            ):
                writer.write_table(table)
                writer.add_key_value_metadata({_KEY: json.dumps(note)})
        except OSError as error:
            raise OSError(
                error.errno,
                f"the store {self.folder} could not be written ({error.strerror or error}); finished rows are "
                "kept: once that is fixed, repeat the call to continue from there",
            ) from error

    def read(self, number: int, columns: list[str] | None = None) -> pd.DataFrame:
        """Read a partition, or raise PartitionError if it is damaged, and ValueError if it is of another run."""
        return self._read_checked(number, columns)[0]

    def count(self, number: int) -> int:
        """Return the number of rows of a partition, or raise PartitionError if it is damaged."""
        try:
            return int(parquet().read_metadata(self.path(number)).num_rows)
        except Exception as error:  # pyarrow raises many kinds for a damaged file
            raise PartitionError(f"{type(error).__name__} {error}") from error

    def find(self, number: int, start: int, n: int, rows: str) -> pd.DataFrame | None:
        """Return the partition of ``n`` given rows; None if it is missing; raise if it is damaged or of others."""
        if not self.path(number).exists():
            return None
        frame, note = self._read_checked(number, None)
        if note["rows"] != rows or len(frame) != n:
            raise ValueError(
                f"{self.path(number)} does not hold rows {start} to {start + n - 1} of this run: the rows "
                "changed. Use another folder, or give the rows that the run began with."
            )
        if frame["position"].tolist() != list(range(start, start + n)):
            raise PartitionError("its positions are not in order")
        return frame

    def _read_checked(self, number: int, columns: list[str] | None) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return a partition and its own note."""
        path, declared = self.path(number), self.run["schema"]
        if not path.is_file():
            raise PartitionError("it is not a regular file")
        try:
            with parquet().ParquetFile(path, page_checksum_verification=True) as file:
                note = json.loads(file.metadata.metadata[_KEY])
                own = note["run"], note["number"], note["rows"]
                if file.schema_arrow.names != list(declared):
                    raise ValueError("its columns are not those of the run")
                frame = file.read(columns).to_pandas()
            frame = cast(frame, declared if columns is None else {name: declared[name] for name in columns})
        except Exception as error:  # pyarrow raises many kinds for a damaged file
            raise PartitionError(f"{type(error).__name__} {error}") from error
        if own[:2] != (self.run["digest"], number):
            raise ValueError(
                f"{path} belongs to another run: it was written into another store, or as another partition. Delete "
                "it to explain its rows again."
            )
        return frame, note

    # --- draws --------------------------------------------------------------------------------------------------------

    def lacks_draws(self, position: int) -> bool:
        """Whether the draws of a finished row should be there and are not."""
        return self.keep is not None and not draws_path(self.folder, position).exists()

    def load_draws(self, position: int, row: Array, seed: int) -> Explanation:
        """Load the explanation of a row, after checking that it is that of ``row (d,)`` with its seed."""
        path = draws_path(self.folder, position)
        explanation, digest = load_part(path)
        if explanation.seed != seed or not np.array_equal(explanation.x0, row, equal_nan=True):
            wrong = f"holds another row, or another seed, than row {position} of this run"
        elif digest != self.run["digest"]:
            wrong = "belongs to another run: it was written into another store"
        else:
            return explanation
        raise ValueError(f"{path} {wrong}. Delete it to explain the row again.")


def _arrow_type(dtype: str) -> Any:
    """Return the Arrow type of a dtype of a schema: those that every reader of Parquet files knows."""
    import pyarrow

    if dtype == "str":
        return pyarrow.string()
    if dtype.startswith("datetime64"):  # nanoseconds are unknown to Spark
        _, _, zone = dtype.removesuffix("]").partition(", ")
        return pyarrow.timestamp("us", tz=zone or None)
    return pyarrow.from_numpy_dtype("bool" if dtype == "boolean" else dtype.lower())


def _write_run(folder: Path, run: Mapping[str, Any]) -> None:
    """Write ``run.json``."""
    with whole_file(folder / RUN) as file:
        file.write(json.dumps(run, indent=1, default=_to_plain).encode())


def _is_integer(label: Any) -> bool:
    """Whether a label is an integer of an int64 column."""
    return isinstance(label, (int, np.integer)) and not isinstance(label, bool) and bool(-(2**63) <= label < 2**63)


def _to_plain(value: Any) -> Any:
    """Convert a numpy value to one of Python."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be written to {RUN}")
