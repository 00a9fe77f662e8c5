"""Outputs of models by the content of rows, so that nothing is asked twice: in memory, and in an SQLite file if wanted.

A file survives a kill, is shared by processes, and holds nothing but numbers: reading it runs no code. Outputs are
filed under the identity of a model and the encoding of its table, and a few of those found in a file are asked again,
so that another model never answers.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from gbce._numerics import row_keys
from gbce._validation import show
from gbce.base import Array
from gbce.predictors._predictor import OUTPUT, Classifier, Predictor
from gbce.space import Space

_APPLICATION = 0x67626365  # marks a file as ours: "gbce"
_VERSION = 1  # of the table below: another one is not read
_AT_ONCE = 500  # rows of one query: SQLite allows 999 values
_CHECKED = 3  # outputs from a file that are asked again, once: they cost rows, and one could agree by chance
_SAME = 1e-6  # relative: above the rounding of single precision (6e-8), on another processor or in another batch
_PATIENCE = 60.0  # seconds for which another process may hold the file
_TABLE = (
    "CREATE TABLE IF NOT EXISTS outputs (model TEXT, kind TEXT, row BLOB, output BLOB, PRIMARY KEY (model, kind, row)) "
    "WITHOUT ROWID"
)


@dataclass
class Memory:
    """The outputs of one model.

    ``model`` is the key under which they are filed at ``path``; without a path they are kept in memory only.
    """

    model: str = ""
    path: Path | None = None
    known: dict[tuple[str, bytes], Array] = field(default_factory=dict)
    compared: bool = False  # whether some outputs from the file were asked again

    def recall(self, kind: str, x: Array, compute: Callable[[Array], Array]) -> Array:
        """Return what is known of rows ``(n, d)``, and compute and keep the rest."""
        keys = _row_keys(x)
        stored = self._find_known(kind, keys)
        todo = self._list_new(kind, keys, stored)
        again = [i for i in todo if keys[i] in stored]
        if todo:
            computed = np.asarray(compute(x[todo]), dtype=float)
            for i, value in zip(todo, computed, strict=True):
                if i in again and not _same(stored[keys[i]], value):
                    before, now = np.squeeze(stored[keys[i]]).tolist(), value.tolist()
                    raise ValueError(
                        f"the outputs in {self.path} are not those of this model: it returns {now} where the file "
                        f"has {before}. Give each model its own identity; a model with random outputs cannot be cached"
                    )
            self.compared = self.compared or bool(again)
            new = {keys[i]: np.atleast_1d(value) for i, value in zip(todo, computed, strict=True)}
            self._keep(kind, new)
            stored |= new
        found = np.array([stored[key] for key in keys])
        return found[:, 0] if found.shape[1:] == (1,) else found

    def are_new(self, kind: str, x: Array) -> Array:
        """Return which rows ``(n, d)`` would be computed by :meth:`recall`: ``(n,)``."""
        keys, new = _row_keys(x), np.zeros(len(x), dtype=bool)
        new[self._list_new(kind, keys, self._find_known(kind, keys))] = True
        return new

    def learn(self, kind: str, x: Array, values: Array) -> None:
        """Keep known outputs of rows ``(n, d)``."""
        self._keep(kind, dict(zip(_row_keys(x), map(np.atleast_1d, np.asarray(values, dtype=float)), strict=True)))

    def learn_outputs(self, predictor: Predictor, data: Array, outputs: Any) -> None:
        """Keep the outputs of a model on data ``(n, d)`` that somebody else has asked for."""
        shape = np.shape(outputs)
        if len(shape) not in (1, 2) or shape[0] != len(data):
            raise ValueError(
                f"outputs must hold what the model returns for each of the {len(data):,} rows of data, not an array of "
                f"shape {shape}"
            )
        self.learn(OUTPUT, data, predictor.check_values(outputs, data))

    def _list_new(self, kind: str, keys: list[bytes], stored: dict[bytes, Array]) -> list[int]:
        """Return positions of rows to compute, each once: those not known, and a few from the file to compare."""
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in stored:
                first.setdefault(key, i)
        if not self.compared and self.path is not None:
            some = dict.fromkeys(key for key in keys if key in stored and (kind, key) not in self.known)
            for key in list(some)[:_CHECKED]:
                first[key] = keys.index(key)
        return sorted(first.values())

    def _find_known(self, kind: str, keys: list[bytes]) -> dict[bytes, Array]:
        """Return the known outputs of rows by their keys."""
        found = {key: self.known[kind, key] for key in keys if (kind, key) in self.known}
        missing = list(dict.fromkeys(key for key in keys if key not in found))
        if self.path is None or not missing:
            return found
        with _opened(self.path) as file:
            for start in range(0, len(missing), _AT_ONCE):
                some = missing[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT row, output FROM outputs WHERE model = ? AND kind = ? AND row IN ({marks})"
                found |= {row: _read(output) for row, output in file.execute(query, (self.model, kind, *some))}
        if self.compared:
            self.known |= {(kind, key): found[key] for key in missing if key in found}
        return found

    def _keep(self, kind: str, new: dict[bytes, Array]) -> None:
        self.known |= {(kind, key): value for key, value in new.items()}
        if self.path is not None and new:
            with _opened(self.path) as file, file:  # one transaction: all of a call or nothing
                file.executemany(
                    "INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)",
                    [(self.model, kind, key, value.astype("<f8").tobytes()) for key, value in new.items()],
                )


def _row_keys(x: Array) -> list[bytes]:
    """Return the bytes of rows ``(n, d)``, the same for equal numbers and for missing values."""
    plain = np.where(np.isnan(x), np.nan, np.asarray(x, dtype="<f8") + 0.0)  # one zero, and one NaN
    return row_keys(np.ascontiguousarray(plain, dtype="<f8"))


def _same(before: Array, now: Array) -> bool:
    now = np.atleast_1d(now)
    return before.shape == now.shape and bool(
        np.all(np.abs(before - now) <= _SAME * max(1.0, float(np.abs(before).max())))
    )


def _read(output: Any) -> Array:
    if not isinstance(output, bytes) or len(output) == 0 or len(output) % 8:
        raise sqlite3.DatabaseError("an output is not a row of numbers")
    values = np.frombuffer(output, dtype="<f8").astype(float)
    if not np.isfinite(values).all():
        raise sqlite3.DatabaseError("an output is not finite")
    return values


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file of outputs, made if it is missing, for one operation; files are not kept open across forks."""
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as file:
            # in this order: another process may make the file in between, all of it at once
            (n_tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
            (mark,) = file.execute("PRAGMA application_id").fetchone()
            if mark == 0 and n_tables == 0:
                with file:
                    file.execute("BEGIN IMMEDIATE")
                    file.execute(_TABLE)
                    file.execute(f"PRAGMA application_id = {_APPLICATION}")
                    file.execute(f"PRAGMA user_version = {_VERSION}")
            elif mark != _APPLICATION or file.execute("PRAGMA user_version").fetchone() != (_VERSION,):
                raise sqlite3.DatabaseError("it is another program's, or another version's")
            yield file
    except sqlite3.OperationalError as error:
        raise OSError(f"cache {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(
            f"cache {path} is not a file of outputs, or is damaged ({error}): choose another path, or delete it"
        ) from error


# --- memories of an explainer's models -------------------------------------------------------------------------------


@dataclass
class Cache:
    """The memories of several models, in one file if a ``path`` is given."""

    path: Path | None
    space: Space
    memories: dict[str, Memory] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Any, space: Space) -> "Cache":
        """Check the path of a file, which is made if it is missing."""
        if path is None:
            return cls(None, space)
        if not isinstance(path, (str, Path)):
            raise TypeError(f"cache must be the path of a file, not {show(path)}")
        path = Path(path)
        if path.is_dir() or not path.parent.is_dir():
            raise ValueError(f"cache: {path} is not a file in an existing folder")
        with _opened(path):
            return cls(path, space)

    def memory_of(self, model: Any, predictor: Predictor, number: int) -> Memory:
        """Return the memory of a model as it is fitted now; ``number`` is its position among the models."""
        key = f"{number}" if self.path is None else self._key_of(model, predictor)
        return self.memories.setdefault(key, Memory(key, self.path))

    def _key_of(self, model: Any, predictor: Predictor) -> str:
        """Return a digest of a model's identity, what it returns, and how its rows are encoded."""
        inner = model.model if isinstance(model, Classifier) else model
        named = (repr(model.classes), model.logits) if isinstance(model, Classifier) else ()
        own = predictor.identity or getattr(inner, "identity", "")
        if not (isinstance(own, str) and own):
            own = _digest_of(inner, predictor.name)
        return sha256(repr((own, named, self.space.names, self.space.codecs)).encode()).hexdigest()


def _digest_of(model: Any, name: str) -> str:
    """Return a digest of a fitted model's content."""
    import joblib

    if hasattr(model, "predict"):
        try:
            return str(joblib.hash(model))
        except Exception as error:  # pickling may raise anything
            raise ValueError(f"cache: {_advise(name)}") from error
    raise ValueError(f"cache: {_advise(name)}")


def _advise(name: str) -> str:
    return (
        f"{name} cannot be recognised by its content; give it an identity, such as "
        "model.identity = 'score, version 3', and change it whenever its outputs change"
    )
