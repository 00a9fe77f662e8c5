"""Write results of this room to files and rebuild them: numbers as arrays in a zip archive, the rest as JSON.

Reading a file never runs code from it: it names one of the classes of this room and the kinds of values listed here.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import is_number
from gbce.base import Array
from gbce.explanation import Mean, Share
from gbce.files import Archive, FileError, TooLargeError, whole_file, write_archive
from gbce.policy._action import Action, Move
from gbce.policy._allocate import Allocation
from gbce.policy._fairness import Fairness
from gbce.policy._group_actions import GroupActions
from gbce.policy._read import PolicyResult
from gbce.policy._review import Review, ReviewKind
from gbce.space import Space, read_value, space_fields, space_of, write_value

_FORMAT = 1  # of files that are written and read
_CLASSES: dict[str, type[Any]] = {cls.__name__: cls for cls in (GroupActions, Allocation, Fairness, Review)}
_FIGURES: dict[str, type[Any]] = {"share": Share, "mean": Mean, "move": Move}
_NUMBERS = "fiub"  # kinds of dtypes that are written as arrays

Arrays = dict[str, Array]


def save_result(result: PolicyResult, path: str | Path) -> Path:
    """Write a result to ``path`` atomically."""
    arrays: Arrays = {}
    held = {f.name: _write(getattr(result, f.name), arrays) for f in fields(result)}  # type: ignore[arg-type]
    manifest = {"policy": type(result).__name__, "format": _FORMAT, "fields": held, "arrays": len(arrays)}
    path = Path(path)
    with whole_file(path) as file:
        write_archive(file, manifest, arrays, write_value)
    return path


def load(path: str | Path, *, max_bytes: int | None = None) -> Any:
    """Read a result that its ``save`` wrote: group actions, an allocation, fairness or a review.

    No code from a file is run, nothing is imported for it, and no more than ``max_bytes`` is unpacked.

    Parameters
    ----------
    path : str or Path
        The file.
    max_bytes : int, optional
        Largest size in memory; by default 500 MB, or ten times the size of the file if that is more.

    Returns
    -------
    GroupActions, Allocation, Fairness or Review
        With the same values to the last bit.

    Raises
    ------
    gbce.FileError
        If the file is no such result, is damaged, too large, or of another format; a ``ValueError``.
    OSError
        If the file does not exist or cannot be read.

    Examples
    --------
    >>> import gbce, os, tempfile
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
    >>> low = data[data["pay"] < data["debt"]].iloc[:9]
    >>> table = explainer.explain_many(low, gbce.AtLeast(0), seed=0, posterior=False, progress=False)
    >>> help = gbce.policy.allocate(table, 5.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = gbce.policy.load(help.save(os.path.join(folder, "help.gbce")))
    >>> again.rows.equals(help.rows)
    True
    """
    if max_bytes is not None and not (is_number(max_bytes) and max_bytes > 0):
        raise ValueError(f"load: max_bytes must be a positive number or None, not {max_bytes!r}")
    path = Path(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder: gbce.load opens stores, gbce.policy.load the files of results")
    with path.open("rb") as file:
        try:  # zipfile, numpy and json raise a dozen kinds of errors for bad files, which all mean the same here
            archive = Archive(file, max_bytes)
            kind, found = archive.manifest["policy"], archive.manifest["format"]
        except TooLargeError as error:
            raise FileError(f"{path} is too large: {error}") from None
        except Exception as error:
            raise FileError(f"{path} is not a result of gbce.policy: {type(error).__name__} {error}") from error
        if found != _FORMAT:
            raise FileError(f"{path} has format {found!r}; this version of gbce reads format {_FORMAT} only")
        try:
            arrays = archive.arrays([f"a{i}" for i in range(archive.manifest["arrays"])], [])
            result = _CLASSES[kind](**{name: _read(one, arrays) for name, one in archive.manifest["fields"].items()})
            _require_whole(result)
            return result
        except Exception as error:
            raise FileError(f"{path} is damaged: {type(error).__name__} {error}") from error


def _require_whole(result: PolicyResult) -> None:
    """Raise unless everything that a result shows can be computed from what was read."""
    _ = result.sentences, repr(result)
    for name in ("frame", "rows", "groups", "counts"):
        shown = getattr(result, name, None)
        _ = shown() if callable(shown) else shown


# --- values ----------------------------------------------------------------------------------------------------------


def _write(value: Any, arrays: Arrays) -> Any:
    """Return a value as JSON data, with its arrays of numbers put beside it."""
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, (pd.DataFrame, pd.Index)):
        return _write_frame(value, arrays) if isinstance(value, pd.DataFrame) else _write_index(value, arrays)
    if isinstance(value, Space):
        return {"space": space_fields(value)}
    if isinstance(value, Action):
        return {"action": [_write(move, arrays) for move in value.moves]}
    if isinstance(value, ReviewKind):
        return {"kind": str(value)}
    for word, figure in _FIGURES.items():
        if isinstance(value, figure):
            return {word: [write_value(part) for part in value]}
    if isinstance(value, tuple):
        return {"parts": [_write(part, arrays) for part in value]}
    if isinstance(value, Mapping):
        return {"map": [[_write(key, arrays), _write(part, arrays)] for key, part in value.items()]}
    return write_value(value)


def _read(written: Any, arrays: Arrays) -> Any:
    """Rebuild a value from what :func:`_write` returned."""
    if not isinstance(written, dict):
        return written
    (word, held), *more = written.items()
    if word == "array":
        return arrays[held]
    if word == "frame":
        return _read_frame(written, arrays)
    if word in ("labels", "range", "multi"):
        return _read_index(written, arrays)
    if word == "space":
        return space_of(held)
    if word == "action":
        return Action(tuple(_read(move, arrays) for move in held))
    if word == "kind":
        return ReviewKind(held)
    if word in _FIGURES and not more:
        return _FIGURES[word](*map(read_value, held))
    if word == "parts":
        return tuple(_read(part, arrays) for part in held)
    if word == "map":
        return {_read(key, arrays): _read(part, arrays) for key, part in held}
    return read_value(written)


def _write_frame(frame: pd.DataFrame, arrays: Arrays) -> dict[str, Any]:
    columns = [[str(name), _write_values(frame[name], arrays)] for name in frame.columns]
    return {"frame": columns, "index": _write_index(frame.index, arrays)}


def _read_frame(written: dict[str, Any], arrays: Arrays) -> pd.DataFrame:
    index = _read_index(written["index"], arrays)
    columns = {name: _read_values(one, arrays).set_axis(index) for name, one in written["frame"]}
    return pd.DataFrame(columns, index=index)


def _write_index(index: pd.Index, arrays: Arrays) -> dict[str, Any]:
    if isinstance(index, pd.RangeIndex):
        return {"range": [index.start, index.stop, index.step], "name": index.name}
    if isinstance(index, pd.MultiIndex):
        levels = [_write_values(index.get_level_values(i).to_series(), arrays) for i in range(index.nlevels)]
        return {"multi": levels, "names": list(index.names)}
    return {"labels": _write_values(index.to_series(), arrays), "name": index.name}


def _read_index(written: dict[str, Any], arrays: Arrays) -> pd.Index:
    if "range" in written:
        return pd.RangeIndex(*written["range"], name=written["name"])
    if "multi" in written:
        return pd.MultiIndex.from_arrays(
            [_read_values(one, arrays) for one in written["multi"]], names=written["names"]
        )
    return pd.Index(_read_values(written["labels"], arrays), name=written["name"])


def _write_values(values: pd.Series, arrays: Arrays) -> dict[str, Any]:
    """Write a column: numbers as an array, anything else as its different values and an array of their positions."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in _NUMBERS:
        return {"numbers": _write(values.to_numpy(), arrays)}
    different: dict[str, int] = {}
    codes = [different.setdefault(json.dumps(_write(one, arrays)), len(different)) for one in values.array]
    listed = [json.loads(one) for one in different]
    return {"values": listed, "codes": _write(np.array(codes, dtype=np.int64), arrays), "dtype": str(values.dtype)}


def _read_values(written: dict[str, Any], arrays: Arrays) -> pd.Series:
    if "numbers" in written:
        return pd.Series(_read(written["numbers"], arrays))
    different = [_read(one, arrays) for one in written["values"]]
    values = pd.Series([different[code] for code in _read(written["codes"], arrays)], dtype=object)
    return values.astype(written["dtype"])
